"""The cells that a large tenant's vectors are sorted into: like ones together, so that a search looks into few.

A sorting makes new cells beside those that are there and moves the vectors over, cell by cell, a batch in each short
transaction. Until that is done a search looks into the nearest cells of both, so that a killed process leaves nothing
that is not found. The next run moves the rest.
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
    FIRST_PLACE,
    CellState,
    VectorCellRepository,
)
from agent_reminiscence.services.retries import repeated

CELL_MIN_CHUNKS: Final = 5_000
"""Below so many chunks every vector is looked at: one cell."""
SEARCHED_CELLS: Final = 16
"""How many of the cells a search looks into, those nearest to the question."""

# Cells are made of a sample: of a million vectors as well as of all, and in seconds.
_SAMPLE_VECTORS: Final = 20_000
_ROUNDS: Final = 8
_SEED: Final = 14
# So many vectors are held against all centres at a time; with a thousand centres that takes 16 MB.
_BLOCK_VECTORS: Final = 4_096
_BATCH_VECTORS: Final = 1_000
# Vectors are read so many at a time.
_PAGE_VECTORS: Final = 4_096
# Of so many vectors the cells are found before they are moved, 12 bytes each.
_MOVED_TOGETHER: Final = 1 << 20
# The numbers of two sortings of a tenant differ above the lowest 16 bits.
_CELLS_PER_SORTING: Final = 1 << 16
# Vectors can be made again from the texts, so their transactions need not wait for the disk.
_SETTINGS: Final = {"synchronous_commit": "off"}


def wants_sorting(vectors: int, cells: int, *, least: int = CELL_MIN_CHUNKS) -> bool:
    """Whether a tenant is to be sorted: it is large, and has doubled since it was sorted into `cells` cells.

    A write asks with the chunks of the tenant's texts, which it knows, and queues work. What has left the texts has
    vectors, too: the work itself, whatever it was queued for, counts the vectors and asks again. A tenant with small
    texts and a long history may wait for that, and loses nothing: only large texts are searched by cells.
    """
    # It was sorted into about as many cells as each had vectors.
    return vectors >= least and vectors >= 2 * cells * cells


def find_centres(vectors: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """The centres of cells that like vectors fall into: spherical k-means, the same for the same vectors.

    Args:
        vectors: Shape (n, dimension), of unit length, n at least 1.
        count: How many cells, at most n.

    Returns:
        Shape (count, dimension), of unit length.
    """
    random = np.random.default_rng(_SEED)
    centres = vectors[np.sort(random.choice(len(vectors), size=count, replace=False))].copy()
    for _ in range(_ROUNDS):
        nearest = find_nearest(vectors, centres)
        order = np.argsort(nearest, kind="stable")
        members, starts = np.unique(nearest[order], return_index=True)
        sums = np.add.reduceat(vectors[order], starts, axis=0)
        lengths = np.linalg.norm(sums, axis=1)
        # A cell that nothing falls into, or whose members cancel each other out, keeps its centre.
        whole = lengths > 0
        centres[members[whole]] = sums[whole] / lengths[whole, None]
    return centres


def find_nearest(vectors: NDArray[np.float32], centres: NDArray[np.float32]) -> NDArray[np.intp]:
    """The place of the nearest of `centres` for each of `vectors`; of several alike the first."""
    nearest = np.empty(len(vectors), dtype=np.intp)
    for start in range(0, len(vectors), _BLOCK_VECTORS):
        block = vectors[start : start + _BLOCK_VECTORS]
        nearest[start : start + _BLOCK_VECTORS] = np.argmax(block @ centres.T, axis=1)
    return nearest


class _FoundCells(NamedTuple):
    """Vectors, and for each the nearest cell of the sorting whose cell numbers begin with `first`."""

    numbers: NDArray[np.int64]
    cells: NDArray[np.int32]
    first: int


class CellService:
    """Sorts the vectors of tenants that have become large.

    Args:
        least: From how many vectors on a tenant is sorted.
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
        """Sort the tenant's vectors where it has doubled since it was sorted last, or end a sorting that was not ended.

        Any number of calls may run side by side.

        Args:
            generation: Whose vectors; None is the current one.

        Returns:
            Whether anything was to be done.
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
            # Something was erased meanwhile: it is looked at again, for nobody else may come by.
        await self._move_all(external_id, generation)
        cell: int | None = BEFORE_ALL_CELLS
        while cell is not None:
            cell = await self._end_batch(external_id, generation, after=cell)
        return True

    async def _begin(self, external_id: str, generation: int, state: CellState, vectors: int) -> bool:
        """Make new cells for so many vectors; whether they are there."""
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
                # Another call was faster, or the tenant is gone.
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
        """Move the vectors into the newest cells, until none is in another one."""
        while (found := await self._find_cells(external_id, generation)) is not None:
            for start in range(0, len(found.numbers), self._batch_vectors):
                batch = slice(start, start + self._batch_vectors)
                async with self._store.transaction(external_id, settings=_SETTINGS) as db:
                    await self._ledger.lock(db, external_id)
                    await self._cells.move(
                        db, external_id, generation, found.numbers[batch], found.cells[batch], first=found.first
                    )

    async def _find_cells(self, external_id: str, generation: int) -> _FoundCells | None:
        """The nearest of the newest cells for vectors that are in none of these; None where all are, or none is left.

        In the order of the cells: what moves there together is stored side by side, and a search reads few pages.
        """
        async with self._store.transaction(external_id, read_only=True) as db:
            cells, centres = await self._cells.read_newest(db, external_id, generation)
        if not len(cells):
            return None
        first = int(cells.min())
        place, count = FIRST_PLACE, 0
        numbers, nearest = [], []
        while count < _MOVED_TOGETHER:
            async with self._store.transaction(external_id, read_only=True) as db:
                unsorted, place = await self._cells.read_unsorted(
                    db, external_id, generation, first=first, after=place, limit=_PAGE_VECTORS
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
        """Make the centres of some cells what these hold now; the last of them. None ends the sorting.

        Of the sample, and of what has been erased since, nothing is to be left in a centre.
        """
        async with self._store.transaction(external_id, settings=_SETTINGS) as db:
            await self._ledger.lock(db, external_id)
            state = await self._cells.describe(db, external_id, generation)
            if state is None or not state.is_unfinished or state.has_unsorted:
                # Another call or an erasure was faster, or a newer sorting has begun, which comes to its own end.
                return None
            last = await self._cells.recompute_some(db, external_id, generation, after=after)
            if last is None:
                await self._cells.delete_empty(db, external_id, generation, before=state.first)
            return last
