"""Sorts a large tenant's vectors into cells of similar ones, so that a search reads only a few cells.

A sorting creates new cells beside the existing ones and moves the vectors over, cell by cell, one batch per short
transaction. Until it is done, a search reads the nearest cells of both, so a killed process leaves nothing that cannot
be found. The next run moves the rest.
"""

from __future__ import annotations

import asyncio
import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.database.generations import current_generation
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.repositories.chunk_vector import ChunkVectorRepository
from agent_reminiscence.database.repositories.event_ledger import EventLedger
from agent_reminiscence.database.repositories.vector_cell import (
    BEFORE_ALL_CELLS,
    BEFORE_FIRST,
    CellState,
    VectorCellRepository,
)
from agent_reminiscence.resilience.retries import repeated

CELL_MIN_CHUNKS: Final = 5_000
"""With fewer chunks, every vector is compared: one cell."""
SEARCHED_CELLS: Final = 16
"""How many cells, the nearest to the question, a search reads."""
SEARCHED_HEADINGS: Final = 300
"""How many headings of a cell are read at least. It matters for the smallest tenants that have cells, and where an
erasure has removed most of them."""

# Cells are computed from a sample: it represents a million vectors as well as all would, and takes seconds.
_SAMPLE_VECTORS: Final = 20_000
_ROUNDS: Final = 8
_SEED: Final = 14
# How many vectors are compared with all centres at a time; with a thousand centres that takes 16 MB.
_BLOCK_VECTORS: Final = 4_096
_BATCH_VECTORS: Final = 1_000
# How many vectors are read at a time.
_PAGE_VECTORS: Final = 4_096
# For how many vectors the cells are determined before they are moved; 12 bytes each.
_MOVED_TOGETHER: Final = 1 << 20
# The cell numbers of two sortings of a tenant differ above the lowest 16 bits.
_CELLS_PER_SORTING: Final = 1 << 16
# Vectors can be recomputed from the texts, so their transactions need not wait for the disk.
_SETTINGS: Final = {"synchronous_commit": "off"}


def wants_sorting(vectors: int, cells: int, *, least: int = CELL_MIN_CHUNKS) -> bool:
    """Whether a tenant should be sorted: it is large, and has doubled since it was sorted into `cells` cells.

    A write passes the number of chunks in the tenant's texts, which it knows, and queues work. Chunks that left the
    texts have vectors, too: the work, whatever it was queued for, counts the vectors and asks again. A tenant with
    small texts and a long history may have to wait for that, but loses nothing: only large texts are searched by cells.
    """
    # A sorting makes about as many cells as each then has vectors.
    return vectors >= least and vectors >= 2 * cells * cells


def find_centres(vectors: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """Compute cell centres that group similar vectors: spherical k-means, deterministic.

    Args:
        vectors: Shape (n, dimension), of unit length, n at least 1.
        count: The number of cells, at most n.

    Returns:
        Shape (count, dimension), of unit length.
    """
    random = np.random.default_rng(_SEED)
    centres = vectors[_different(vectors, random.permutation(len(vectors)), count)].copy()
    for _ in range(_ROUNDS):
        nearest = find_nearest(vectors, centres)
        order = np.argsort(nearest, kind="stable")
        members, starts = np.unique(nearest[order], return_index=True)
        sums = np.add.reduceat(vectors[order], starts, axis=0)
        lengths = np.linalg.norm(sums, axis=1)
        # A cell that is empty, or whose members cancel each other out, keeps its centre.
        whole = lengths > 0
        centres[members[whole]] = sums[whole] / lengths[whole, None]
    return centres


def _different(vectors: NDArray[np.float32], order: NDArray[np.intp], count: int) -> NDArray[np.intp]:
    """The indices of the first `count` different vectors in an order, filled up with equal ones; ascending.

    Of two equal centres, one would get all vectors and the other none. Headings with the same text may be half of all.
    """
    _, firsts = np.unique(vectors[order], axis=0, return_index=True)
    is_first = np.zeros(len(order), dtype=np.bool_)
    is_first[firsts] = True
    chosen: NDArray[np.intp] = np.sort(np.concatenate((order[is_first], order[~is_first]))[:count])
    return chosen


def find_nearest(vectors: NDArray[np.float32], centres: NDArray[np.float32]) -> NDArray[np.intp]:
    """The index of the nearest of `centres` for each of `vectors`; of equally near ones the first."""
    nearest = np.empty(len(vectors), dtype=np.intp)
    for start in range(0, len(vectors), _BLOCK_VECTORS):
        block = vectors[start : start + _BLOCK_VECTORS]
        nearest[start : start + _BLOCK_VECTORS] = np.argmax(block @ centres.T, axis=1)
    return nearest


class _FoundCells(NamedTuple):
    """Vectors, and for each the nearest cell of the sorting whose cell numbers start at `first`."""

    numbers: NDArray[np.int64]
    cells: NDArray[np.int32]
    first: int


class CellService:
    """Sorts the vectors of tenants that have become large.

    Args:
        least: The number of vectors from which a tenant is sorted.
        batch_vectors: How many one transaction moves; writers of the stream wait for it.
    """

    def __init__(
        self,
        store: PostgresManager,
        ledger: EventLedger,
        vectors: ChunkVectorRepository,
        cells: VectorCellRepository,
        *,
        least: int = CELL_MIN_CHUNKS,
        batch_vectors: int = _BATCH_VECTORS,
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._vectors = vectors
        self._cells = cells
        self._least = least
        self._batch_vectors = batch_vectors

    async def sort(self, external_id: str, generation: int | None = None) -> bool:
        """Sort the tenant's vectors if they have doubled since the last sorting, or finish an interrupted one.

        Calls may run concurrently.

        Args:
            generation: The vector generation; None is the current one.

        Returns:
            Whether anything was done.
        """
        if generation is None:
            async with self._store.transaction(external_id, read_only=True) as db:
                generation = (await current_generation(db)).number
        number = generation
        return await repeated(
            lambda: self._sort(external_id, number), operation="sort", external_id=external_id, repeatable=True
        )

    async def _sort(self, external_id: str, generation: int) -> bool:
        while True:
            async with self._store.transaction(external_id, read_only=True) as db:
                state = await self._cells.describe(db, external_id, generation)
                count = 0 if state is None else await self._cells.count_vectors(db, external_id, generation)
            if state is None:
                return False
            if state.is_unfinished:
                break
            if not wants_sorting(count, state.cells, least=self._least):
                return False
            if await self._begin(external_id, generation, state, count):
                break
            # Something was erased meanwhile; check again, because no one else may do so.
        await self._move_all(external_id, generation)
        cell: int | None = BEFORE_ALL_CELLS
        while cell is not None:
            cell = await self._end_batch(external_id, generation, after=cell)
        return True

    async def _begin(self, external_id: str, generation: int, state: CellState, vectors: int) -> bool:
        """Create new cells for this many vectors; returns whether they exist."""
        sample = await self._read_sample(external_id, generation, step=max(1, vectors // _SAMPLE_VECTORS))
        if not len(sample):
            # Everything was erased meanwhile.
            return False
        count = min(round(math.sqrt(vectors)), len(sample), _CELLS_PER_SORTING)
        centres = await asyncio.to_thread(find_centres, sample, count)
        async with self._store.transaction(external_id, settings=_SETTINGS) as db:
            await self._ledger.lock(db, external_id)
            now = await self._cells.describe(db, external_id, generation)
            if now is None or now.first != state.first:
                # Another call was faster, or the tenant was deleted.
                return now is not None
            first = state.first + _CELLS_PER_SORTING
            return await self._cells.add(db, external_id, generation, centres, first=first, head=state.head)

    async def _read_sample(self, external_id: str, generation: int, *, step: int) -> NDArray[np.float32]:
        async with self._store.transaction(external_id, read_only=True) as db:
            numbers = await self._cells.sample(db, external_id, generation, step=step)
            pages = [
                (await self._vectors.read(db, external_id, generation, numbers[start : start + _PAGE_VECTORS]))
                for start in range(0, len(numbers), _PAGE_VECTORS)
            ]
        if not pages:
            return np.zeros((0, 0), dtype=np.float32)
        found = np.concatenate([page.numbers for page in pages])
        vectors = np.concatenate([page.vectors for page in pages])
        ordered: NDArray[np.float32] = vectors[np.argsort(found)]
        return ordered

    async def _move_all(self, external_id: str, generation: int) -> None:
        """Move vectors until all are in the newest cells."""
        while (found := await self._find_cells(external_id, generation)) is not None:
            for start in range(0, len(found.numbers), self._batch_vectors):
                batch = slice(start, start + self._batch_vectors)
                async with self._store.transaction(external_id, settings=_SETTINGS) as db:
                    await self._ledger.lock(db, external_id)
                    await self._cells.move(
                        db, external_id, generation, found.numbers[batch], found.cells[batch], first=found.first
                    )

    async def _find_cells(self, external_id: str, generation: int) -> _FoundCells | None:
        """The nearest new cells for vectors that are not in one yet; None if all are, or none is left.

        In cell order: vectors moved together are stored side by side, so a search reads few pages.
        """
        async with self._store.transaction(external_id, read_only=True) as db:
            cells, centres = await self._cells.read_newest(db, external_id, generation)
        if not len(cells):
            return None
        first = int(cells.min())
        after, count = BEFORE_FIRST, 0
        numbers, nearest = [], []
        while count < _MOVED_TOGETHER:
            async with self._store.transaction(external_id, read_only=True) as db:
                unsorted, after = await self._cells.read_unsorted(
                    db, external_id, generation, first=first, after=after, limit=_PAGE_VECTORS
                )
            if not len(unsorted.numbers):
                break
            numbers.append(unsorted.numbers)
            nearest.append(cells[await asyncio.to_thread(find_nearest, unsorted.vectors, centres)])
            count += len(unsorted.numbers)
        if not count:
            return None
        found = np.concatenate(nearest)
        order = np.argsort(found, kind="stable")
        return _FoundCells(np.concatenate(numbers)[order], found[order], first)

    async def _end_batch(self, external_id: str, generation: int, *, after: int) -> int | None:
        """Set the centres of some cells to the mean of their current members; returns the last one, None at the end.

        Nothing of the sample, or of vectors erased since, may remain in a centre.
        """
        async with self._store.transaction(external_id, settings=_SETTINGS) as db:
            await self._ledger.lock(db, external_id)
            state = await self._cells.describe(db, external_id, generation)
            if state is None or not state.is_unfinished or state.has_unsorted:
                # Another call or an erasure was faster, or a newer sorting has begun, which will finish by itself.
                return None
            last = await self._cells.recompute_some(db, external_id, generation, after=after)
            if last is None:
                await self._cells.delete_empty(db, external_id, generation, before=state.first)
            return last
