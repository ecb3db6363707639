"""Reads passages by their ids: some that were chosen, or what stands before and after them in their text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import numpy as np

from agent_reminiscence.database.connection import Row, SqlExecutor
from agent_reminiscence.database.repositories.hit_rows import as_hit
from agent_reminiscence.domain.retrieval import SearchHit
from agent_reminiscence.domain.search import SearchRequest
from agent_reminiscence.resilience.retries import repeated
from agent_reminiscence.services.memories.admission import Admission
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.text.tokens import count_tokens_batch

# How many chunks on each side of a passage are read. A chunk has at most MAX_CHUNK_TOKENS, so this bounds the tokens.
NEIGHBOUR_REACH: Final = 3
# A fact may have been concluded from passages that stand far apart.
MAX_NEIGHBOURS: Final = 10

_NONE: Final = np.zeros(0, dtype=np.int64)


class NeighbourReader:
    """Reads passages and their neighbours, and only those that a search by the same request could return."""

    def __init__(self, runtime: Runtime) -> None:
        self._store = runtime.store
        self._search = runtime.repositories.search
        self._filters = runtime.repositories.filters
        self._history = runtime.repositories.history
        self._clock = runtime.clock

    async def read(self, request: SearchRequest, memory_id: UUID, chunk_ids: Sequence[UUID]) -> list[SearchHit]:
        """Return some chunks of a memory and their neighbours, in the order of the text.

        The request's tiers, moment, confidence and filter decide which are left out, those of `chunk_ids` included.
        Its `min_match` does not, since neighbours are not compared with the question.

        Args:
            chunk_ids: Chunks of the memory's text; those it does not have are passed over.

        Returns:
            At most `MAX_NEIGHBOURS`, the nearest; `NEIGHBOUR_REACH` on each side. Their scores and matches are 0.

        Raises:
            StoreError: The store is unavailable.
        """
        return await self._hits(request, chunk_ids, memory_id=memory_id)

    async def read_chosen(self, request: SearchRequest, chunk_ids: Sequence[UUID]) -> list[SearchHit]:
        """Return some chunks as they are now, of any memories, in the order of `chunk_ids`.

        Those that a search by the same request could not return are left out. Their scores and matches are 0.

        Args:
            request: Not of a past moment.

        Raises:
            StoreError: The store is unavailable.
        """
        return await self._hits(request, chunk_ids)

    async def _hits(
        self, request: SearchRequest, chunk_ids: Sequence[UUID], *, memory_id: UUID | None = None
    ) -> list[SearchHit]:
        """See `read`; without a memory, see `read_chosen`."""
        request = request.read_at(self._clock())
        rows = await repeated(
            lambda: self._read(request, memory_id, chunk_ids),
            operation="read_passages",
            external_id=request.external_id,
        )
        tokens = count_tokens_batch([row["content"] for row in rows])
        return [
            SearchHit(**row, score=0.0, score_parts={}, match=0.0, tokens=count)
            for row, count in zip(rows, tokens, strict=True)
        ]

    async def _read(self, request: SearchRequest, memory_id: UUID | None, chunk_ids: Sequence[UUID]) -> list[Row]:
        async with self._store.transaction(request.external_id, read_only=True) as db:
            if memory_id is None:
                known = await self._filters.find_numbers(db, request.external_id, chunk_ids)
                near = [known[chunk_id] for chunk_id in chunk_ids if chunk_id in known]
            else:
                near = await self._near(db, request, memory_id, chunk_ids)
            admission = await Admission.open(db, self._filters, request)
            numbers = np.array(near, dtype=np.int64)
            if admission is None or request.is_past:
                admitted, repeating = await self._search.find_eligible_of(db, request, numbers), _NONE
            else:
                admitted, repeating = await admission.among(db, numbers)
            there = set(admitted.tolist())
            shown = [number for number in near if number in there]
            stored = await self._search.read_hits(
                db, request, shown, repeating=repeating.tolist(), with_outcomes=True, is_last=False
            )
            rows = [as_hit(stored[number]) for number in shown if number in stored]
            return await self._as_then(db, request, rows, admission) if request.is_past else rows

    async def _as_then(
        self, db: SqlExecutor, request: SearchRequest, rows: list[Row], admission: Admission | None
    ) -> list[Row]:
        """The rows that the filter admits by what was so at another moment, with the titles of that time."""
        if admission is not None:
            admitted = set(await admission.among_ids(db, [row["chunk_id"] for row in rows]))
            rows = [row for row in rows if row["chunk_id"] in admitted]
        await self._history.name_as_then(db, request, rows)
        return rows

    async def _near(
        self, db: SqlExecutor, request: SearchRequest, memory_id: UUID, chunk_ids: Sequence[UUID]
    ) -> list[int]:
        """The numbers of the chunks and of all their neighbours, in the order of the text at the request's moment."""
        tenant = request.external_id
        if request.is_past:
            text = await self._search.read_past_text(db, request, memory_id)
            ids = [text[index] for index in _around(text, chunk_ids)]
            known = await self._filters.find_numbers(db, tenant, ids)
            return [known[chunk_id] for chunk_id in ids if chunk_id in known]
        numbers = await self._search.read_text(db, tenant, memory_id)
        asked = await self._filters.find_numbers(db, tenant, chunk_ids)
        return [numbers[index] for index in _around(numbers, list(asked.values()))]


def _around[T](text: Sequence[T], asked: Sequence[T]) -> list[int]:
    """The places in `text` of what is asked about and of its neighbours, ascending; if they are many, the nearest."""
    wanted = set(asked)
    places = [place for place, one in enumerate(text) if one in wanted]
    distances: dict[int, int] = {}
    for place in places:
        for near in range(max(0, place - NEIGHBOUR_REACH), min(len(text), place + NEIGHBOUR_REACH + 1)):
            distances[near] = min(abs(near - place), distances.get(near, NEIGHBOUR_REACH))
    return sorted(sorted(distances, key=lambda near: (distances[near], near))[:MAX_NEIGHBOURS])
