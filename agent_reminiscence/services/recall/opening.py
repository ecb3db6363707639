"""Begins a search of one memory: the statements that read what is most likely needed, and what they answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from agent_reminiscence.database.connection import Row, SqlExecutor, Statement
from agent_reminiscence.database.queries import NamedQuery
from agent_reminiscence.database.repositories.repositories import Repositories
from agent_reminiscence.database.repositories.search import OpenedStream
from agent_reminiscence.domain.attributes import Condition
from agent_reminiscence.domain.search import SearchRequest
from agent_reminiscence.services.memories.admission import sole_condition
from agent_reminiscence.services.recall import narrowing
from agent_reminiscence.services.recall.hearing import NOTHING_REMEMBERED, Hearing, Remembered
from agent_reminiscence.services.recall.question import Asked

# With more speakers than these, a first name alone names nobody.
MAX_SPEAKERS: Final = 256
# A condition with more ranges, such as a choice of many values, is looked up only for a tenant that needs it.
_MOST_RANGES_ASKED: Final = 10


class Opening(NamedTuple):
    """The first statements of a search, and the question as it was read for them.

    Attributes:
        read_with: What was assumed of the tenant.
    """

    request: SearchRequest
    statements: tuple[Statement, ...]
    terms: Sequence[str]
    asked: Asked
    read_with: Remembered


@dataclass(frozen=True, slots=True)
class Opened:
    """A search whose first statements have been answered.

    Attributes:
        admits_many: Whether the one condition of its filter on memories holds for more than are all ranked; None if
            that was not asked.
    """

    opening: Opening
    read: OpenedStream
    admits_many: bool | None


class Openings:
    """Begins searches.

    Args:
        whole_max_chunks: Up to so many chunks, all are ranked.
    """

    def __init__(
        self, repositories: Repositories, hearing: Hearing, *, whole_max_chunks: int = narrowing.WHOLE_MAX_CHUNKS
    ) -> None:
        self._search = repositories.search
        self._filters = repositories.filters
        self._hearing = hearing
        self._whole_max_chunks = whole_max_chunks

    async def opening(self, request: SearchRequest, *, reads_beside_graph: bool, asked: Asked | None = None) -> Opening:
        """Begin a search with the statements that read what is most likely needed of the tenant.

        Args:
            reads_beside_graph: Whether also for a tenant with entities, which a question may name.
            asked: The question; None reads it with what is remembered of the tenant.
        """
        known = self._hearing.remembered(request)
        if asked is None:
            asked = await self._hearing.read(request, known)
        statement, params = self._opening(
            request,
            asked,
            whole=self._whole_max_chunks,
            most=narrowing.MAX_ENTRIES,
            reads_beside_graph=reads_beside_graph,
        )
        statements: tuple[Statement, ...] = ((statement, params),)
        condition = None if request.is_past else sole_condition(request)
        if condition is not None and len(condition.ranges) <= _MOST_RANGES_ASKED:
            # A trace names what is sent together after the last statement.
            statements = (self._holding(request, condition), *statements)
        return Opening(request, statements, params["terms"], asked, known)

    def survey(self, request: SearchRequest, asked: Asked) -> Opening:
        """Begin a search with a statement that reads what the tenant is like, and how many chunks have each term."""
        statement, params = self._opening(request, asked, whole=-1, most=-1, reads_beside_graph=True)
        return Opening(request, ((statement, params),), params["terms"], asked, NOTHING_REMEMBERED)

    def _opening(
        self, request: SearchRequest, asked: Asked, *, whole: int, most: int, reads_beside_graph: bool
    ) -> tuple[NamedQuery, dict[str, Any]]:
        return self._search.opening(
            request,
            [] if request.is_past else asked.looked_up,
            [] if request.is_past else asked.speaker_terms,
            whole=-1 if request.is_past else whole,
            most=most,
            reads_beside_graph=reads_beside_graph,
        )

    async def count(self, db: SqlExecutor, request: SearchRequest, terms: Sequence[str]) -> Mapping[str, int]:
        """How many chunks and headings have each term; those that none ever had are left out."""
        counts, _ = await self._search.find_rare_terms(db, request.external_id, terms, most=-1)
        return counts

    async def speakers(self, db: SqlExecutor, request: SearchRequest) -> list[str]:
        """The folded names of all who have spoken; empty if there are very many."""
        return await self._search.find_speakers(db, request.external_id, most=MAX_SPEAKERS)

    def opened(self, opening: Opening, answers: Sequence[list[Row]]) -> Opened | None:
        """What the opening has read, given the rows of its statements; None for an unknown stream."""
        *holding, rows = answers
        read = self._search.opened(rows, opening.terms)
        if read is None:
            return None
        return Opened(opening, read, admits_many=self._filters.holds_for_more(holding[0]) if holding else None)

    async def admits_many(self, db: SqlExecutor, opened: Opened) -> bool:
        """As in `Opened`, asked now if it was not; False if the filter has no such condition."""
        if opened.admits_many is not None:
            return opened.admits_many
        request = opened.opening.request
        condition = sole_condition(request)
        return condition is not None and self._filters.holds_for_more(
            await db.fetch_all(*self._holding(request, condition))
        )

    def _holding(self, request: SearchRequest, condition: Condition) -> Statement:
        return self._filters.holding(request.external_id, condition, most=narrowing.MAX_ADMITTED)
