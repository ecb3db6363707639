"""Reads the texts of a moment for a ranking, and compares their vectors with a question's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.database.postgres_manager import SqlExecutor
from agent_reminiscence.database.repositories.chunk_vector import ChunkVectorRepository, Dots
from agent_reminiscence.database.repositories.history import HistoryRepository
from agent_reminiscence.database.repositories.search import Layouts, SearchRepository, SearchRequest
from agent_reminiscence.domain.canonical import beside_many
from agent_reminiscence.domain.index import are_among
from agent_reminiscence.services.recall.narrowing import DATED_TEXTS, zone
from agent_reminiscence.services.recall.past import lay_out_past
from agent_reminiscence.services.recall.ranking import Vectors
from agent_reminiscence.services.vectors.cells import SEARCHED_CELLS
from agent_reminiscence.services.vectors.norms import window_norms


@dataclass(frozen=True, slots=True)
class TextsAround:
    """What stands around some chunks of a large tenant.

    Attributes:
        texts: As far as windows reach.
        may_be_hit: Shape (n,): which of these entries may be hits.
        read: The same texts from beginning to end; shape (m,), `LAYOUT_DTYPE`.
    """

    texts: Texts
    may_be_hit: NDArray[np.bool_]
    read: NDArray[np.void]


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts of a moment.

    Attributes:
        entries: Shape (n,), `LAYOUT_DTYPE`.
        norms: Shape (n,), `NORMS_DTYPE`; None where they were not read with the texts.
        eligible: Shape (n,): which entries may be hits, where that is known already.
    """

    entries: NDArray[np.void]
    norms: NDArray[np.void] | None
    eligible: NDArray[np.bool_] | None


class TextReader:
    """Reads texts of now as they are laid out, and those of another moment from the ledger."""

    def __init__(self, search: SearchRepository, history: HistoryRepository, vectors: ChunkVectorRepository) -> None:
        self._search = search
        self._history = history
        self._vectors = vectors

    async def read_around(
        self,
        db: SqlExecutor,
        request: SearchRequest,
        generation: int,
        numbers: NDArray[np.int64],
        days: tuple[date, date] | None,
    ) -> TextsAround:
        """What stands around some chunks.

        Args:
            numbers: Of chunks and headings, ascending.
            days: Also the beginnings of texts of which chunks came in within these.
        """
        found = await self._search.read_layouts_of(db, request, generation, numbers, days=days, dated=DATED_TEXTS)
        places, may_be_hit = zone(found.entries, numbers)
        entries = found.entries[places]
        norms = None if found.norms is None else found.norms[places]
        lasts = ~np.isin(entries["number"], found.ended) if len(found.ended) else None
        return TextsAround(Texts(entries, norms, lasts), may_be_hit, found.entries)

    async def find_near(self, db: SqlExecutor, external_id: str, vector: Sequence[float], generation: int) -> Dots:
        """The vectors in the cells nearest to a question's."""
        return await self._vectors.find_dots(db, external_id, generation, vector, cells=SEARCHED_CELLS)

    async def find_more(
        self,
        db: SqlExecutor,
        external_id: str,
        vector: Sequence[float],
        generation: int,
        known: Dots,
        numbers: NDArray[np.int64],
    ) -> Dots:
        """`known` with the dot products of those of `numbers` that it lacks."""
        missing = numbers[~are_among(numbers, np.sort(known.numbers))[0]]
        more = await self._vectors.find_dots_of(db, external_id, generation, vector, missing)
        return Dots(np.concatenate((known.numbers, more.numbers)), np.concatenate((known.dots, more.dots)))

    async def read_past(self, db: SqlExecutor, request: SearchRequest) -> Texts:
        """The texts of the moment that the request asks about."""
        assert request.as_of is not None
        chunks = await self._search.read_past(db, request)
        memory_ids = {chunk.memory_id for chunk in chunks}
        titles = await self._history.find_titles(
            db, request.external_id, list(memory_ids), as_of=request.as_of, known_at=request.known_at
        )
        texts = await self._search.read_past_texts(db, request)
        headings = await self._search.read_headings(db, request.external_id)
        entries = await beside_many(lambda: lay_out_past(chunks, texts, titles, headings), items=len(chunks))
        eligible = np.array([chunk.number for chunk in chunks if chunk.is_eligible], dtype=np.int64)
        return Texts(entries, None, np.isin(entries["number"], eligible))

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
        """The texts' vectors beside the question's.

        Args:
            known: Of a large tenant, the dot products that are known already; None reads those of all its vectors.
        """
        tenant = request.external_id
        if known is not None:
            assert texts.norms is not None
            missing = np.concatenate((texts.entries["number"], _headings(texts)))
            found = await self.find_more(db, tenant, vector, generation, known, missing)
            return Vectors(found.numbers, found.dots, texts.norms)
        if request.as_of is not None:
            found = await self._vectors.find_dots(db, tenant, generation, vector)
            return Vectors(found.numbers, found.dots, await self._compute_norms(db, request, texts, generation))
        found, norms = await self._vectors.find_dots_and_norms(db, tenant, generation, vector)
        return Vectors(found.numbers, found.dots, norms)

    async def _compute_norms(
        self, db: SqlExecutor, request: SearchRequest, texts: Texts, generation: int
    ) -> NDArray[np.void]:
        """Those of a moment for which none are stored."""
        entries = texts.entries
        wanted = np.unique(np.concatenate((entries["number"], entries["heading"])).astype(np.int64))
        stored = await self._vectors.read(db, request.external_id, generation, wanted)
        return await beside_many(
            lambda: window_norms(entries, stored.numbers, stored.masses, stored.vectors), items=len(entries)
        )


def lasting_texts(found: Layouts, *, is_filtered: bool) -> Texts:
    """All texts of this moment, as they are laid out.

    Args:
        is_filtered: Whether which of them may be hits is found out in another way.
    """
    if is_filtered or not len(found.ended):
        return Texts(found.entries, None, None)
    # What has ended in the world is still laid out, because nothing was written when it ended.
    return Texts(found.entries, None, ~np.isin(found.entries["number"], found.ended))


def _headings(texts: Texts) -> NDArray[np.int64]:
    """The numbers of the headings, the first of each run of equal ones."""
    headings: NDArray[np.int64] = texts.entries["heading"].astype(np.int64)
    begins = headings != 0
    begins[1:] &= headings[1:] != headings[:-1]
    begun: NDArray[np.int64] = headings[begins]
    return begun
