"""The cells that a large tenant's vectors are sorted into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.queries import vector_query
from agent_reminiscence.database.repositories.arrays import bigint_array, real_array
from agent_reminiscence.database.repositories.chunk_vector import (
    StoredVectors,
    read_newest_cells,
    stored_vectors,
)

# How many centres one statement computes; it reads some thousands of vectors.
_CELLS_PER_STATEMENT: Final = 32
# Below and above the number of any cell.
BEFORE_ALL_CELLS: Final = -1
_ALL_CELLS: Final = (1 << 31) - 1


CellKey = tuple[int, int]
"""The key of a vector in the order of the index: its cell and number."""
BEFORE_FIRST: Final[CellKey] = (-1, 0)


@dataclass(frozen=True, slots=True)
class CellState:
    """How a tenant's vectors are sorted.

    Attributes:
        cells: How many cells the last sorting made; 0 if there was none.
        first: The first number of these cells; lower ones belong to earlier sortings.
        head: Position of the stream's last event.
        has_unsorted: Whether any vector is not in a cell of the last sorting.
        has_old_cells: Whether cells of an earlier sorting still exist.
    """

    cells: int
    first: int
    head: int
    has_unsorted: bool
    has_old_cells: bool

    @property
    def is_unfinished(self) -> bool:
        """Whether the last sorting was not finished: its last step deletes the earlier cells."""
        return self.cells > 0 and (self.has_unsorted or self.has_old_cells)


class VectorCellRepository:
    """Rows of `vector_cell_<generation>`, and which cell each vector is in."""

    async def describe(self, db: SqlExecutor, external_id: str, generation: int) -> CellState | None:
        """Return how the vectors are sorted; None for an unknown stream."""
        row = await db.fetch_one(_sql("describe_cells", generation), {"external_id": external_id})
        return None if row is None else CellState(**row)

    async def count_vectors(self, db: SqlExecutor, external_id: str, generation: int) -> int:
        """Return how many vectors the tenant has."""
        row = await db.fetch_one(_sql("count_vectors", generation), {"external_id": external_id})
        return 0 if row is None else int(row["vectors"])

    async def sample(self, db: SqlExecutor, external_id: str, generation: int, *, step: int) -> NDArray[np.int64]:
        """Return the number of every `step`-th vector."""
        row = await db.fetch_one(_sql("sample_numbers", generation), {"external_id": external_id, "step": step})
        return np.frombuffer((row or {}).get("numbers") or b"", ">i8").astype(np.int64)

    async def add(
        self, db: SqlExecutor, external_id: str, generation: int, centres: NDArray[np.float32], *, first: int, head: int
    ) -> bool:
        """Add the cells of a new sorting; from now on new vectors go there.

        Args:
            centres: Shape (count, dimension), of unit length.
            first: The number of the first; the others follow.
            head: Position of the stream's last event when the vectors behind the centres were read.

        Returns:
            False if something has been erased since; then nothing is stored.
        """
        count, dimension = centres.shape
        params = {
            "external_id": external_id,
            "first": first,
            "head": head,
            "count": count,
            "dimension": dimension,
            "vectors": real_array(centres),
        }
        return bool(await db.fetch_all(_sql("add_cells", generation), params))

    async def read_newest(
        self, db: SqlExecutor, external_id: str, generation: int
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return numbers and centres of the cells of the last sorting."""
        return await read_newest_cells(db, external_id, generation)

    async def read_unsorted(
        self, db: SqlExecutor, external_id: str, generation: int, *, first: int, after: CellKey, limit: int
    ) -> tuple[StoredVectors, CellKey]:
        """Return some of the vectors that are in a cell before `first`, and the key of the last of them.

        Args:
            after: Only those after this key; start with `BEFORE_FIRST`.
        """
        params = {
            "external_id": external_id,
            "first": first,
            "after_cell": after[0],
            "after_number": after[1],
            "limit": limit,
        }
        row = await db.fetch_one(_sql("read_unsorted", generation), params)
        assert row is not None
        found = stored_vectors(row)
        cells = np.frombuffer(row["cells"] or b"", ">i4").tolist()
        return found, max(zip(cells, found.numbers.tolist(), strict=True), default=after)

    async def move(
        self,
        db: SqlExecutor,
        external_id: str,
        generation: int,
        numbers: NDArray[np.int64],
        cells: NDArray[np.int32],
        *,
        first: int,
    ) -> None:
        """Move vectors that are still in a cell before `first` into new cells, as far as these still exist."""
        params = {
            "external_id": external_id,
            "numbers": bigint_array(numbers),
            "cells": cells.tolist(),
            "first": first,
        }
        await db.execute(_sql("move_vectors", generation), params)

    async def recompute(self, db: SqlExecutor, external_id: str, generation: int, state: CellState) -> None:
        """Recompute every centre from the vectors that its cell holds now."""
        last: int | None = BEFORE_ALL_CELLS
        while last is not None:
            last = await self.recompute_some(db, external_id, generation, after=last)
        # During a sorting, cleared cells would spoil it: it ends with fewer cells, or starts again.
        await self.delete_empty(db, external_id, generation, before=_ALL_CELLS if state.has_unsorted else state.first)

    async def recompute_some(self, db: SqlExecutor, external_id: str, generation: int, *, after: int) -> int | None:
        """Like `recompute`, for the next few cells, so that it is quick.

        Args:
            after: Only cells after this one; start with `BEFORE_ALL_CELLS`.

        Returns:
            The last of these cells; None if there are no more.
        """
        params: dict[str, object] = {"external_id": external_id}
        rows = await db.fetch_all(
            _sql("list_cells", generation), params | {"after": after, "limit": _CELLS_PER_STATEMENT}
        )
        if not rows:
            return None
        last = int(rows[-1]["cell"])
        params |= {"first": rows[0]["cell"], "last": last}
        await db.execute(_sql("recompute_cells", generation), params)
        await db.execute(_sql("clear_empty_cells", generation), params)
        return last

    async def delete_empty(self, db: SqlExecutor, external_id: str, generation: int, *, before: int) -> None:
        """Delete cells with lower numbers that hold no vector; all cells if no vector is left."""
        await db.execute(_sql("delete_empty_cells", generation), {"external_id": external_id, "before": before})


def _sql(name: str, generation: int) -> str:
    return vector_query("vector_cell", name, generation)
