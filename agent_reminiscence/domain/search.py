"""What is asked of the memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from typing import Final, Literal

from agent_reminiscence.config.constants import TIERS, Tier
from agent_reminiscence.domain.filter import Filter

LATEST: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnAndShared(Collection[str]):
    """The memories of a question whose asker has one of their own and may only read the others.

    `retrieve_memories` and its like take it as they take a list.

    Attributes:
        own: Pays for models, and is the only one in which a run is recorded. It need not be asked itself.
        asked: Those that are asked.
        may_be_unknown: Those that are left out if nothing was ever stored for them; any other is an error then. A new
            user's own memory is not there yet.
    """

    own: str
    asked: tuple[str, ...]
    may_be_unknown: Collection[str] = ()

    def __contains__(self, external_id: object) -> bool:
        return external_id in self.asked

    def __iter__(self) -> Iterator[str]:
        return iter(self.asked)

    def __len__(self) -> int:
        return len(self.asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """A validated question, with what the answer may consist of.

    If `as_of` is None it asks what is known and valid now, otherwise what is true at `as_of` by what was known at
    `known_at`.

    Attributes:
        beside: Further memories that are asked, too, and ranked together with that of `external_id`.
        own: The only memory into which the asker may write, asked or not; None: all that are asked.
        may_be_unknown: Of several memories, those that are left out if nothing was ever stored for them.
        limit: Maximum number of hits, from 1.
        token_budget: Maximum tokens of the hits as they are rendered; None is no limit.
        min_confidence: Only chunks with at least this confidence, 0 to 1; None is any.
        where: Which memories and passages may be returned; None is any.
        min_match: Only hits with at least this `match`, 0 to 1; "found" is all or none, as `RetrievalResult.found`
            says; None is any.
        counts_as_use: Whether hits count as used; not for a model's searches, since a text could talk it into many.
        profile: A standing summary to return with the hits; None is none.
        embedding: The question's vector as the caller gives it; None has the question embedded.
        is_streamed: Whether what is ranked after the first `limit` hits is kept, to be read later.
        run_id: The run for which the hits are recorded as recalled; None records nothing.
        zone: In which "yesterday" and other days of the question are understood.
        now: The present of whoever reads the memory, see `read_at`.
    """

    external_id: str
    beside: tuple[str, ...] = ()
    own: str | None = None
    may_be_unknown: frozenset[str] = frozenset()
    query: str
    limit: int
    tiers: Sequence[Tier] = TIERS
    token_budget: int | None = None
    min_confidence: float | None = None
    min_match: float | Literal["found"] | None = None
    as_of: datetime | None = None
    known_at: datetime = LATEST
    where: Filter | None = None
    counts_as_use: bool = True
    profile: str | None = None
    embedding: Sequence[float] | None = None
    run_id: str | None = None
    is_streamed: bool = False
    zone: tzinfo = UTC
    now: datetime = LATEST

    @property
    def is_past(self) -> bool:
        """Whether it asks about another moment than the present."""
        return self.as_of is not None

    @property
    def reported_by(self) -> datetime:
        """By when the outcomes of runs count that were reported: all, or those known at the moment asked about."""
        return self.known_at if self.is_past else LATEST

    @property
    def is_filtered(self) -> bool:
        """Whether only some of the live chunks may be hits."""
        return bool(self.min_confidence) or set(self.tiers) != set(TIERS) or self.where is not None

    @property
    def external_ids(self) -> tuple[str, ...]:
        """All memories that are asked."""
        return (self.external_id, *self.beside)

    @property
    def is_of_several(self) -> bool:
        """Whether it is asked as a question to several memories: one that is unknown may be an error."""
        return bool(self.beside) or self.own is not None

    @property
    def asker(self) -> str:
        """The memory that pays for what the question costs."""
        return self.external_id if self.own is None else self.own

    def of_each(self) -> tuple[SearchRequest, ...]:
        """The same question to each memory alone, in an order that does not depend on that of the caller."""
        return tuple(replace(self, external_id=one, beside=()) for one in sorted(self.external_ids))

    def read_at(self, now: datetime) -> SearchRequest:
        """The same question at the moment of reading: an answer may be read long after it was requested."""
        return replace(self, now=now, known_at=self.known_at if self.is_past else now)
