"""Vectors on a real server: stored with the write, searched whole or by cells, sorted, verified, mended and erased."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from numpy.typing import NDArray

from agent_reminiscence import AgentMem, Config, ImportedMemory
from agent_reminiscence.database.connection import open_connection
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.repositories import vector_cell
from agent_reminiscence.database.repositories.chunk_vector import ChunkVectorRepository, read_newest_cells
from agent_reminiscence.database.repositories.event_ledger import EventLedger
from agent_reminiscence.database.repositories.vector_cell import CellState, VectorCellRepository
from agent_reminiscence.embedders.hashing import HashEmbedder
from agent_reminiscence.services.vectors.cells import SEARCHED_HEADINGS, CellService
from tests.conftest import TEST_DIMENSION, TestServer
from tests.support.factories import LONG_AGO

_TENANT = "agent-1"
_VECTORS = ChunkVectorRepository()


async def test_a_new_memory_has_vectors_and_norms_when_the_write_returns(
    memory: AgentMem, store: PostgresManager
) -> None:
    """The bundled embedder's vectors are stored in the transaction of the write itself."""
    created = await memory.create_active_memory(_TENANT, "Trip", "Ann: We went to Oslo.\nBob: It rained.")

    assert created.write is not None
    assert created.write.vectors_missing == 0
    async with store.transaction(_TENANT, read_only=True) as db:
        rows = await db.fetch_all("SELECT number, mass FROM chunk_vector_1 ORDER BY number")
        stream = await db.fetch_one("SELECT work_at FROM memory_stream")
    assert [row["number"] < 0 for row in rows] == [True] + [False] * created.write.chunks_added
    assert all(row["mass"] >= 1 for row in rows)
    # No work is left, though nobody came after the write.
    assert stream == {"work_at": None}
    assert (await memory.admin.verify(_TENANT)).ok


async def test_an_update_renews_what_it_touches(memory: AgentMem) -> None:
    """A new line and a new title have their vectors at once, and the norms of the neighbours follow."""
    text = "\n".join(f"Ann: Line {number} is about pears." for number in range(20))
    note = await memory.create_active_memory(_TENANT, "Fruit", text)

    changed = await memory.update_active_memory(
        _TENANT, note.id, title="Pears", content=text.replace("Line 9 ", "Line nine ")
    )

    assert changed.write is not None
    assert changed.write.vectors_missing == 0
    assert (await memory.admin.verify(_TENANT)).ok


class _Moody(HashEmbedder):
    """Fails until it is told otherwise."""

    fails = True

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if self.fails:
            raise RuntimeError("away")
        return await super().embed(texts)


async def test_an_embedder_that_fails_costs_vectors_and_not_the_write(config: Callable[..., Config]) -> None:
    """What could not be made is missing, counted and filled in later, with its norms."""
    embedder = _Moody(TEST_DIMENSION)
    async with AgentMem(config(), embedder=embedder) as memory:
        created = await memory.create_active_memory(_TENANT, "Trip", "We went to Oslo.")
        assert created.write is not None
        assert created.write.vectors_missing == created.write.chunks_added == 1
        assert (await memory.admin.verify(_TENANT)).ok

        embedder.fails = False
        await memory.admin.consolidate(_TENANT)

        report = await memory.admin.verify(_TENANT)
        assert report.ok
        assert report.streams[0].missing_vectors == 0


async def test_a_consolidation_first_makes_the_vectors_that_its_memory_lacks(config: Callable[..., Config]) -> None:
    """What says the same elsewhere is found by them; and what cannot be made is not waited for."""
    embedder = _Moody(TEST_DIMENSION)
    async with AgentMem(config(), embedder=embedder) as memory:
        lacking, mended = [
            await memory.create_active_memory(_TENANT, "Trip", f"We went to Oslo{end}") for end in (".", " again.")
        ]
        (first,) = await memory.admin.consolidate(_TENANT, lacking.id)
        embedder.fails = False
        (second,) = await memory.admin.consolidate(_TENANT, mended.id)
        (third,) = await memory.admin.consolidate(_TENANT, mended.id)

    assert (first.vectors_filled, first.vectors_missing, first.consolidated) == (0, 1, True)
    assert (second.vectors_filled, second.vectors_missing, second.consolidated) == (1, 0, True)
    assert (third.vectors_filled, third.vectors_missing) == (0, 0)


class _Choosy(HashEmbedder):
    """Refuses what speaks of boats."""

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if any("boat" in text for text in texts):
            raise ValueError("not this")
        return await super().embed(texts)


async def test_a_memory_without_any_vector_among_others_is_no_drift(config: Callable[..., Config]) -> None:
    """What was written at once has norms where it has vectors, and only there."""
    async with AgentMem(config(), embedder=_Choosy(TEST_DIMENSION)) as memory:
        imported = [
            ImportedMemory(title=title, content=content, metadata={}, occurred_at=LONG_AGO)
            for title, content in (("Trip", "We went to Oslo."), ("A boat", "The boat is green."))
        ]
        await memory.admin.import_memories(_TENANT, imported)

        report = await memory.admin.verify(_TENANT)

    assert not report.streams[0].drift
    assert report.streams[0].missing_vectors == 1


@pytest.mark.parametrize(
    ("statement", "table", "columns"),
    [
        ("UPDATE chunk_vector_1 SET mass = mass + 1 WHERE number > 0", "chunk_vector_1", ("mass",)),
        ("UPDATE chunk_vector_1 SET cell = 7 WHERE number > 0", "chunk_vector_1", ("cell",)),
        (
            "UPDATE embedding_cache SET vector = (SELECT vector FROM chunk_vector_1 WHERE number < 0 LIMIT 1)",
            "chunk_vector_1",
            ("vector",),
        ),
        (
            "UPDATE chunk_vector_1 SET vector = (SELECT vector FROM chunk_vector_1 WHERE number < 0) WHERE number > 0",
            "chunk_vector_1",
            ("vector",),
        ),
        ("UPDATE chunk_norms_1 SET layout_hash = '\\x00'", "chunk_norms_1", ("layout_hash",)),
        ("UPDATE chunk_norms_1 SET norms = set_byte(norms, 8, 66)", "chunk_norms_1", ("norms",)),
        ("DELETE FROM chunk_norms_1", "chunk_norms_1", ()),
        (
            "INSERT INTO chunk_norms_1 SELECT external_id, gen_random_uuid(), 0, '', '' FROM chunk_norms_1",
            "chunk_norms_1",
            (),
        ),
        (
            "INSERT INTO chunk_vector_1 SELECT external_id, 0, 77, 1, vector FROM chunk_vector_1 WHERE number < 0",
            "chunk_vector_1",
            (),
        ),
    ],
)
async def test_verify_finds_what_was_changed_by_hand_and_mends_it(
    memory: AgentMem,
    test_server: TestServer,
    database: str,
    statement: str,
    table: str | None,
    columns: tuple[str, ...],
) -> None:
    """Every column of the tables of vectors follows from the ledger and the embedder."""
    await memory.create_active_memory(_TENANT, "Trip", "Ann: We went to Oslo.\nBob: It rained all day.")
    administrator = await open_connection(test_server.administrator(database))
    try:
        await administrator.execute_script(f"SET search_path = reminiscence, public; {statement}")
    finally:
        administrator.close()

    found = await memory.admin.verify(_TENANT, repair=True)

    drift = [row for row in found.streams[0].drift if row.table == table]
    assert bool(drift) == (table is not None)
    assert {row.columns for row in drift} <= {columns}
    after = await memory.admin.verify(_TENANT)
    assert after.ok
    assert not after.streams[0].drift
    assert after.streams[0].missing_vectors == 0


_LINES = 240
# Small enough that a test's tenant is large.
_LEAST = 100
# So many that a search looks into every cell there is.
_ALL_CELLS = 1 << 20


class _KilledError(Exception):
    """A process that ends between two transactions."""


class _MortalCells(VectorCellRepository):
    """Ends its process after it has moved so many batches, or after it has then renewed so many batches of centres."""

    def __init__(self, batches: int, renewals: int = 0) -> None:
        self._left = batches
        self._renewals_left = renewals

    async def move(self, *args: object, **kwargs: object) -> None:
        if not self._left:
            raise _KilledError
        self._left -= 1
        await super().move(*args, **kwargs)  # type: ignore[arg-type]

    async def recompute_some(self, *args: object, **kwargs: object) -> int | None:
        if not self._renewals_left:
            raise _KilledError
        self._renewals_left -= 1
        return await super().recompute_some(*args, **kwargs)  # type: ignore[arg-type]


def _service(store: PostgresManager, cells: VectorCellRepository | None = None) -> CellService:
    return CellService(store, EventLedger(), _VECTORS, cells or VectorCellRepository(), least=_LEAST, batch_vectors=50)


async def _fill_tenant(memory: AgentMem, parts: Iterable[int] = range(4)) -> list[UUID]:
    """Memories of some hundred different lines."""
    ids = []
    for part in parts:
        lines = [f"Ann: {word} {number} and {word[::-1]}." for number in range(_LINES // 12)
                 for word in (f"pear{part}", f"boat{part}", f"song{part}")]  # fmt: skip
        ids.append((await memory.create_active_memory(_TENANT, f"Part {part}", "\n".join(lines))).id)
    return ids


async def _numbers(store: PostgresManager) -> set[int]:
    async with store.transaction(_TENANT, read_only=True) as db:
        return {row["number"] for row in await db.fetch_all("SELECT number FROM chunk_vector_1")}


async def _find(
    store: PostgresManager, vector: Sequence[float], cells: int | None, *, headings: int = SEARCHED_HEADINGS
) -> dict[int, float]:
    async with store.transaction(_TENANT, read_only=True) as db:
        if cells is None:
            found = await _VECTORS.find_dots(db, _TENANT, 1, vector)
        else:
            found = await _VECTORS.find_near_dots(db, _TENANT, 1, vector, cells=cells, headings=headings)
    return dict(zip(found.numbers.tolist(), found.dots.tolist(), strict=True))


async def _query(text: str) -> list[float]:
    return (await HashEmbedder(TEST_DIMENSION).embed([text]))[0]


async def test_a_large_tenant_is_sorted_and_nothing_is_lost(memory: AgentMem, store: PostgresManager) -> None:
    """After the sorting a search of all cells finds what a search of everything finds; one of few finds the best."""
    await _fill_tenant(memory)
    vector = await _query("boat2 7 and 2taob")
    before = await _find(store, vector, None)

    assert await _service(store).sort(_TENANT)

    assert await _find(store, vector, None) == before
    assert await _find(store, vector, _ALL_CELLS) == before
    near = await _find(store, vector, 4)
    assert len(near) < len(before) / 2
    assert max(near, key=lambda number: near[number]) == max(before, key=lambda number: before[number])
    # Nothing has grown since.
    assert not await _service(store).sort(_TENANT)
    assert (await memory.admin.verify(_TENANT)).ok


@pytest.mark.parametrize(("headings", "read"), [(1, 40), (50, 50), (100, 70)], ids=["usual", "at least", "all"])
async def test_of_thousands_of_equal_headings_some_are_read(
    memory: AgentMem, store: PostgresManager, headings: int, read: int
) -> None:
    """They fill a cell; four times as many as there are cells are read of it, and never fewer than is said."""
    await memory.admin.import_memories(
        _TENANT,
        [ImportedMemory(title="Note", content=f"Crate {number} holds {number * 7} pears.", metadata={},
                        occurred_at=LONG_AGO) for number in range(70)],
    )  # fmt: skip
    vector = await _query("Crate 12 holds 84 pears.")
    every = await _find(store, vector, None)
    # What was never sorted is read whole.
    assert await _find(store, vector, _ALL_CELLS, headings=1) == every
    assert await _service(store).sort(_TENANT)
    async with store.transaction(_TENANT) as db:
        cells = [row["cell"] for row in await db.fetch_all("SELECT DISTINCT cell FROM chunk_vector_1 WHERE number < 0")]
        others = await db.fetch_all("SELECT cell FROM vector_cell_1 ORDER BY cell")
        kept = (cells + [row["cell"] for row in others if row["cell"] not in cells])[:10]
        await db.execute("DELETE FROM vector_cell_1 WHERE cell <> ALL($(kept)p::int[])", {"kept": kept})
        # What was in the others is as if it had never been sorted.
        await db.execute("UPDATE chunk_vector_1 SET cell = 0 WHERE cell <> ALL($(kept)p::int[])", {"kept": kept})

    found = await _find(store, vector, _ALL_CELLS, headings=headings)

    assert (len(cells), len(kept)) == (1, 10)
    assert {number for number in found if number > 0} == {number for number in every if number > 0}
    # The newest have the lowest numbers.
    assert sorted(number for number in found if number < 0) == sorted(number for number in every if number < 0)[:read]
    assert all(found[number] == every[number] for number in found)


async def test_a_new_vector_goes_to_its_nearest_cell(memory: AgentMem, store: PostgresManager) -> None:
    """A write after the sorting is found in the cells nearest to it."""
    await _fill_tenant(memory)
    await _service(store).sort(_TENANT)
    known = await _numbers(store)

    await memory.create_active_memory(_TENANT, "Late", "Ann: boat2 999 and 2taob.")

    async with store.transaction(_TENANT, read_only=True) as db:
        cells, centres = await read_newest_cells(db, _TENANT, 1)
        rows = await db.fetch_all("SELECT number, cell FROM chunk_vector_1")
        new = {row["number"]: row["cell"] for row in rows if row["number"] not in known}
        read = await _VECTORS.read(db, _TENANT, 1, list(new))
    nearest = cells[np.argmax(read.vectors @ centres.T, axis=1)]
    assert len(new) == 2
    assert {number: new[number] for number in read.numbers.tolist()} == dict(
        zip(read.numbers.tolist(), nearest.tolist(), strict=True)
    )


@pytest.mark.thorough
@pytest.mark.parametrize("batches", [0, 1, 3])
async def test_a_sorting_that_was_killed_loses_nothing_and_is_ended_later(
    memory: AgentMem, store: PostgresManager, batches: int
) -> None:
    """Between two batches every vector is in a cell that searches look into, also what is written then."""
    ids = await _fill_tenant(memory)
    await _service(store).sort(_TENANT)
    first = (await _describe(store)).first
    # As if it had doubled.
    doubled = CellService(store, EventLedger(), _VECTORS, _MortalCells(batches), least=_LEAST, batch_vectors=50)
    async with store.transaction(_TENANT) as db:
        await db.execute(
            "DELETE FROM vector_cell_1 WHERE cell % 4 <> 0 AND cell NOT IN (SELECT cell FROM chunk_vector_1)"
        )
        await db.execute("UPDATE chunk_vector_1 SET cell = (SELECT min(cell) FROM vector_cell_1)")
        await db.execute("DELETE FROM vector_cell_1 WHERE cell > (SELECT min(cell) FROM chunk_vector_1)")
    with pytest.raises(_KilledError):
        await doubled.sort(_TENANT)

    await memory.create_active_memory(_TENANT, "Late", "Ann: boat2 999 and 2taob.")
    assert (await memory.admin.verify(_TENANT)).ok
    vector = await _query("boat2 7 and 2taob")
    assert (await _find(store, vector, _ALL_CELLS)).keys() == await _numbers(store)
    # An erasure in between takes away cells that nothing is in yet.
    await memory.admin.erase(_TENANT, memory_id=ids[0])
    assert (await _find(store, vector, _ALL_CELLS)).keys() == await _numbers(store)

    assert await _service(store).sort(_TENANT)

    state = await _describe(store)
    assert not state.has_unsorted
    assert not state.has_old_cells
    assert state.first > first
    assert (await _find(store, vector, _ALL_CELLS)).keys() == await _numbers(store)
    assert (await memory.admin.verify(_TENANT)).ok


@pytest.mark.thorough
@pytest.mark.parametrize("is_first", [True, False], ids=["its first sorting", "its second"])
@pytest.mark.parametrize(("batches", "renewals"), [(0, 0), (1, 0), (3, 0), (9, 0), (9, 1)])
async def test_an_erasure_can_be_proved_while_a_tenant_is_sorted(
    memory: AgentMem, store: PostgresManager, is_first: bool, batches: int, renewals: int
) -> None:
    """Cells that are empty until vectors come, or since the last has left, are nothing that an erasure has left."""
    gone = await memory.create_active_memory(_TENANT, "Canary", "Zyx: quite another thing altogether, xylophones.")
    await _fill_tenant(memory, (0, 1))
    if not is_first:
        assert await _service(store).sort(_TENANT)
    receipt = await memory.admin.erase(_TENANT, memory_id=gone.id)
    await _fill_tenant(memory, range(2, 7))
    first = (await _describe(store)).first

    with pytest.raises(_KilledError):
        await _service(store, _MortalCells(batches, renewals)).sort(_TENANT)

    assert (await memory.admin.verify_erased(receipt)).ok
    assert await _service(store).sort(_TENANT)
    assert (await memory.admin.verify_erased(receipt)).ok
    await _check_centres(store)
    state = await _describe(store)
    assert (state.is_unfinished, state.first) == (False, first + (1 << 16))
    assert not await _service(store).sort(_TENANT)


class _ErasedMeanwhile(VectorCellRepository):
    """Has a memory erased when vectors were chosen to make the first cells of."""

    def __init__(self, memory: AgentMem, memory_id: UUID) -> None:
        self._memory = memory
        self._memory_id: UUID | None = memory_id

    async def sample(self, *args: Any, **kwargs: Any) -> NDArray[np.int64]:
        found = await super().sample(*args, **kwargs)
        if self._memory_id is not None:
            await self._memory.admin.erase(_TENANT, memory_id=self._memory_id)
            self._memory_id = None
        return found


async def test_a_sorting_that_gives_way_to_an_erasure_begins_again(memory: AgentMem, store: PostgresManager) -> None:
    """Nobody else would come by: no write has made any work."""
    ids = await _fill_tenant(memory)

    assert await _service(store, _ErasedMeanwhile(memory, ids[0])).sort(_TENANT)

    state = await _describe(store)
    assert state.cells > 0
    assert not state.is_unfinished
    await _check_centres(store)


async def test_the_end_of_a_sorting_lets_writers_in_between(
    memory: AgentMem, store: PostgresManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a million vectors it takes long, and writers of the tenant wait for the stream's lock."""
    monkeypatch.setattr(vector_cell, "_CELLS_PER_STATEMENT", 4)
    await _fill_tenant(memory)
    cells = _MortalCells(9, 1)
    with pytest.raises(_KilledError):
        await _service(store, cells).sort(_TENANT)

    async with store.transaction(_TENANT, read_only=True) as db:
        centres = await db.fetch_all("SELECT cell, vector::text AS vector FROM vector_cell_1 ORDER BY cell")
    with pytest.raises(_KilledError):
        await _service(store, _MortalCells(0, 2)).sort(_TENANT)

    async with store.transaction(_TENANT, read_only=True) as db:
        later = await db.fetch_all("SELECT cell, vector::text AS vector FROM vector_cell_1 ORDER BY cell")
    changed = [row["cell"] for row, before in zip(later, centres, strict=True) if row != before]
    # Cell 0 and three more were renewed before, and stay as they are; the next four follow.
    assert len(later) > 9
    assert changed
    assert set(changed) <= {row["cell"] for row in later[4:8]}


async def _describe(store: PostgresManager) -> CellState:
    async with store.transaction(_TENANT, read_only=True) as db:
        state = await VectorCellRepository().describe(db, _TENANT, 1)
    assert state is not None
    return state


@pytest.mark.thorough
async def test_an_erasure_leaves_nothing_in_the_centres_of_cells(memory: AgentMem, store: PostgresManager) -> None:
    """Each centre is the mean of what is left in its cell, and a cell in which nothing is left says nothing."""
    ids = await _fill_tenant(memory)
    await memory.create_active_memory(_TENANT, "Canary", "Zyx: quite another thing altogether, xylophones.")
    lonely = (await memory.create_active_memory(_TENANT, "Alone", "Qwe: zebra quagga okapi tapir.")).id
    await _service(store).sort(_TENANT)

    receipt = await memory.admin.erase(_TENANT, memory_id=lonely)
    await memory.admin.erase(_TENANT, memory_id=ids[1])

    assert (await memory.admin.verify_erased(receipt)).ok
    await _check_centres(store)


async def _check_centres(store: PostgresManager) -> None:
    """Each centre is the mean of what is in its cell."""
    async with store.transaction(_TENANT, read_only=True) as db:
        cells, centres = await read_newest_cells(db, _TENANT, 1)
        rows = await db.fetch_all("SELECT number, cell FROM chunk_vector_1")
        read = await _VECTORS.read(db, _TENANT, 1, [row["number"] for row in rows])
    vectors = dict(zip(read.numbers.tolist(), read.vectors, strict=True))
    for cell, centre in zip(cells.tolist(), centres, strict=True):
        members = [vectors[row["number"]] for row in rows if row["cell"] == cell]
        mean = np.sum(members, axis=0) if members else np.zeros_like(centre)
        expected = mean / np.linalg.norm(mean) if members else mean
        np.testing.assert_allclose(centre, expected, atol=5e-3)
