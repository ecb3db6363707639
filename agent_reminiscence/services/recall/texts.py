"""Reads the texts of a moment for ranking, and compares their vectors with the question's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.database.connection import Deferred, SqlExecutor
from agent_reminiscence.database.repositories.chunk_vector import Dots, StoredVectors
from agent_reminiscence.database.repositories.repositories import Repositories
from agent_reminiscence.database.repositories.search import Layouts
from agent_reminiscence.domain.canonical import beside_many
from agent_reminiscence.domain.index import are_among, distinct, with_beginnings
from agent_reminiscence.domain.search import SearchRequest
from agent_reminiscence.services.memories.admission import Admission
from agent_reminiscence.services.recall.narrowing import DATED_TEXTS, zone
from agent_reminiscence.services.recall.past import lay_out_past
from agent_reminiscence.services.recall.ranking import Vectors
from agent_reminiscence.services.vectors.cells import SEARCHED_CELLS, SEARCHED_HEADINGS
from agent_reminiscence.services.vectors.norms import window_norms


class TextsAround(NamedTuple):
    """The surroundings of some chunks of a large tenant.

    Attributes:
        texts: As far as windows reach.
        may_be_hit: Shape (n,): which of these entries may be hits.
        read: The same texts from beginning to end; shape (m,), `LAYOUT_DTYPE`.
        known: The dot products that are known now, most of those that are ranked; None if the question has no vector.
    """

    texts: Texts
    may_be_hit: NDArray[np.bool_]
    read: NDArray[np.void]
    known: Dots | None


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts of a moment.

    Attributes:
        entries: Shape (n,), `LAYOUT_DTYPE`.
        norms: Shape (n,), `NORMS_DTYPE`; None if they were not read with the texts.
        eligible: Shape (n,): which entries may be hits, if already known.
        repeating: Numbers of those that stand for another chunk, which they repeat.
    """

    entries: NDArray[np.void]
    norms: NDArray[np.void] | None
    eligible: NDArray[np.bool_] | None
    repeating: NDArray[np.int64] | None = None


class TextReader:
    """Reads current texts from their stored layouts, and those of another moment from the ledger."""

    def __init__(
        self,
        repositories: Repositories,
    ) -> None:
        self._search = repositories.search
        self._history = repositories.history
        self._vectors = repositories.vectors

    async def read_around(
        self,
        db: SqlExecutor,
        request: SearchRequest,
        generation: int,
        numbers: NDArray[np.int64],
        days: tuple[date, date] | None,
        question: tuple[Sequence[float], Dots] | None,
    ) -> TextsAround:
        """Read the surroundings of some chunks.

        Args:
            numbers: Of chunks and headings, ascending.
            days: Also reads the beginnings of texts with chunks that were added within these days.
            question: Its vector, and the dot products that are known; None if it has none.
        """
        more = None
        if question is not None:
            vector, known = question
            # Sent with the layouts, which say what else is ranked: for short texts, nothing else.
            more = await self._ask_more(db, request.external_id, vector, generation, known, with_beginnings(numbers))
        found = await self._search.read_layouts_of(db, request, generation, numbers, days=days, dated=DATED_TEXTS)
        indices, may_be_hit = zone(found.entries, numbers)
        entries = found.entries[indices]
        norms = None if found.norms is None else found.norms[indices]
        lasts = ~np.isin(entries["number"], found.ended) if len(found.ended) else None
        known_now = None if question is None else await _joined(question[1], more)
        return TextsAround(Texts(entries, norms, lasts), may_be_hit, found.entries, known_now)

    async def find_near(self, db: SqlExecutor, external_id: str, vector: Sequence[float], generation: int) -> Dots:
        """The vectors in the cells nearest to the question's vector."""
        return await self._vectors.find_near_dots(
            db, external_id, generation, vector, cells=SEARCHED_CELLS, headings=SEARCHED_HEADINGS
        )

    async def find_more(
        self,
        db: SqlExecutor,
        external_id: str,
        vector: Sequence[float],
        generation: int,
        known: Dots,
        numbers: NDArray[np.int64],
    ) -> Dots:
        """Add to `known` the dot products of those `numbers` that it lacks."""
        return await _joined(known, await self._ask_more(db, external_id, vector, generation, known, numbers))

    async def ask_vectors(
        self, db: SqlExecutor, external_id: str, generation: int, numbers: NDArray[np.int64]
    ) -> Deferred[StoredVectors]:
        """Ask for the vectors of some chunks; they come with the next statement that is waited for."""
        return await self._vectors.ask(db, external_id, generation, numbers)

    async def _ask_more(
        self,
        db: SqlExecutor,
        external_id: str,
        vector: Sequence[float],
        generation: int,
        known: Dots,
        numbers: NDArray[np.int64],
    ) -> Deferred[Dots] | None:
        """Ask for the dot products of those `numbers` that `known` lacks; None if it lacks none."""
        missing = numbers[~are_among(numbers, np.sort(known.numbers))[0]]
        if not len(missing):
            return None
        return await self._vectors.ask_dots_of(db, external_id, generation, vector, missing)

    async def read_past(self, db: SqlExecutor, request: SearchRequest, admission: Admission | None) -> Texts:
        """The texts of the moment the request asks about."""
        assert request.as_of is not None
        chunks = await self._search.read_past(db, request)
        memory_ids = {chunk.memory_id for chunk in chunks}
        titles = await self._history.find_titles(
            db, request.external_id, list(memory_ids), as_of=request.as_of, known_at=request.known_at
        )
        texts = await self._search.read_past_texts(db, request)
        headings = await self._search.read_headings(db, request.external_id)
        entries = await beside_many(lambda: lay_out_past(chunks, texts, titles, headings), items=len(chunks))
        if admission is not None:
            admitted = await admission.then(db, chunks)
            return Texts(entries, None, np.isin(entries["number"], admitted.numbers), admitted.repeating)
        eligible = [chunk.number for chunk in chunks if chunk.passes and not chunk.is_duplicate]
        return Texts(entries, None, np.isin(entries["number"], np.array(eligible, dtype=np.int64)))

    async def compare(
        self,
        db: SqlExecutor,
        request: SearchRequest,
        texts: Texts,
        vector: Sequence[float],
        generation: int,
        *,
        known: Dots | None = None,
    ) -> Vectors:
        """Compare the texts' vectors with the question's.

        Args:
            known: For a large tenant, the dot products already known; None reads those of all its vectors.
        """
        tenant = request.external_id
        if known is not None:
            assert texts.norms is not None
            missing = np.concatenate((texts.entries["number"], _headings(texts)))
            found = await self.find_more(db, tenant, vector, generation, known, missing)
            return Vectors(found.numbers, found.dots, texts.norms)
        if request.is_past:
            found = await self._vectors.find_dots(db, tenant, generation, vector)
            return Vectors(found.numbers, found.dots, await self._compute_norms(db, request, texts, generation))
        found, norms = await self._vectors.find_dots_and_norms(db, tenant, generation, vector)
        return Vectors(found.numbers, found.dots, norms)

    async def _compute_norms(
        self, db: SqlExecutor, request: SearchRequest, texts: Texts, generation: int
    ) -> NDArray[np.void]:
        """Norms for a moment that has none stored."""
        entries = texts.entries
        wanted = distinct(np.concatenate((entries["number"], entries["heading"])).astype(np.int64))
        stored = await self._vectors.read(db, request.external_id, generation, wanted)
        return await beside_many(
            lambda: window_norms(entries, stored.numbers, stored.masses, stored.vectors), items=len(entries)
        )


def lasting_texts(found: Layouts, *, is_filtered: bool) -> Texts:
    """All current texts, as laid out.

    Args:
        is_filtered: Whether something else determines which of them may be hits.
    """
    if is_filtered or not len(found.ended):
        return Texts(found.entries, None, None)
    # Facts that have expired are still laid out, because nothing was written when they did.
    return Texts(found.entries, None, ~np.isin(found.entries["number"], found.ended))


async def _joined(known: Dots, more: Deferred[Dots] | None) -> Dots:
    return known if more is None else known.with_more(await more.result())


def _headings(texts: Texts) -> NDArray[np.int64]:
    """The numbers of the headings, from the first of each run of equal ones."""
    headings: NDArray[np.int64] = texts.entries["heading"].astype(np.int64)
    begins = headings != 0
    begins[1:] &= headings[1:] != headings[:-1]
    begun: NDArray[np.int64] = headings[begins]
    return begun
