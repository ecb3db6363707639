"""An erasure takes out of the index what it is for and touches nothing else: words, layouts, vectors, norms, cells."""

from __future__ import annotations

import random
from collections.abc import Sequence
from uuid import UUID

import numpy as np
import pytest

from agent_reminiscence import AgentMem
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.repositories.chunk_vector import ChunkVectorRepository
from agent_reminiscence.database.repositories.event_ledger import EventLedger
from agent_reminiscence.database.repositories.vector_cell import VectorCellRepository
from agent_reminiscence.domain.index import POSTING_DTYPE, posting_numbers
from agent_reminiscence.services.vectors.cells import CellService
from tests.chaos.conftest import Repetitions
from tests.conftest import TestServer
from tests.support.factories import superuser

pytestmark = pytest.mark.thorough

_TENANT = "agent-1"
_SEED = 20_260_611
_MEMORIES = 6
# A block of postings holds so many events of the ledger.
_BLOCK_EVENTS = 64
_CENTRE_TOLERANCE = 5e-3


async def _fill(memory: AgentMem) -> list[UUID]:
    """Memories that share most of their words, with speakers, later versions and consolidations, over two blocks."""
    ids = []
    for index in range(_MEMORIES):
        lines = [f"Speaker {index}: The keeper of lamp {index} counted {number} ships at dawn." for number in range(9)]
        note = await memory.create_active_memory(_TENANT, f"Log {index}", "\n".join(lines))
        lines[4] = f"Speaker {index}: Between them came boat {index}."
        await memory.update_active_memory(_TENANT, note.id, title=f"Log of lamp {index}", content="\n".join(lines))
        if index % 2:
            await memory.admin.consolidate(_TENANT, note.id)
        if index == _MEMORIES // 2 - 1:
            for number in range(_BLOCK_EVENTS):
                await memory.ledger.append(_TENANT, "world.observed", {"ships": number})
        ids.append(note.id)
    return ids


async def _rows(db: SqlExecutor, table: str, key: str, others: Sequence[object]) -> dict[str, bytes]:
    """The rows of a table whose key is one of `others`, each with all its bytes."""
    rows = await db.fetch_all(
        f"SELECT {key}::text AS key, record_send(t) AS row FROM {table} AS t"  # noqa: S608
        f" WHERE external_id = $(tenant)p AND {key}::text = ANY($(others)p::text[])",
        {"tenant": _TENANT, "others": [str(other) for other in others]},
    )
    return {row["key"]: bytes(row["row"]) for row in rows}


async def _index_of_others(db: SqlExecutor, erased: UUID) -> dict[str, dict[str, bytes]]:
    """Every row of the index, and every entry of a posting, that is not of the memory `erased`."""
    params = {"tenant": _TENANT, "erased": str(erased)}
    rows = await db.fetch_all(
        "SELECT number FROM memory_chunk WHERE external_id = $(tenant)p AND memory_id::text <> $(erased)p"
        " UNION ALL"
        " SELECT number FROM memory_heading WHERE external_id = $(tenant)p AND memory_id::text <> $(erased)p",
        params,
    )
    numbers: list[int] = [row["number"] for row in rows]
    memories = await db.fetch_all(
        "SELECT memory_id::text AS id FROM active_memory"
        " WHERE external_id = $(tenant)p AND memory_id::text <> $(erased)p",
        params,
    )
    ids: list[str] = [row["id"] for row in memories]
    found = {
        table: await _rows(db, table, key, keys)
        for table, key, keys in (
            ("memory_heading", "number", numbers),
            ("memory_layout", "memory_id", ids),
            ("chunk_vector_1", "number", numbers),
            ("chunk_norms_1", "memory_id", ids),
        )
    }
    postings: dict[str, bytes] = {}
    for row in await db.fetch_all(
        "SELECT term, block, entries FROM posting WHERE external_id = $(tenant)p", {"tenant": _TENANT}
    ):
        entries = np.frombuffer(row["entries"], POSTING_DTYPE)
        kept = entries[np.isin(posting_numbers(row["block"], entries["offset"]), numbers)]
        if len(kept):
            postings[f"{row['block']}/{row['term']}"] = kept.tobytes()
    return found | {"posting": postings}


@pytest.mark.parametrize("index", range(_MEMORIES))
async def test_erasing_one_memory_leaves_the_index_of_every_other_byte_for_byte(
    memory: AgentMem, test_server: TestServer, database: str, index: int
) -> None:
    """Numbers never change, so that neither entries nor vectors of what comes before or after it are written again."""
    erased = (await _fill(memory))[index]
    async with superuser(test_server, database) as db:
        before = await _index_of_others(db, erased)
        assert all(before.values())
        assert len({key.partition("/")[0] for key in before["posting"]}) == 2
        words = await db.fetch_all("SELECT term FROM posting WHERE term = $(lamp)p", {"lamp": "lamp"})
        assert len(words) == 2

        await memory.admin.erase(_TENANT, memory_id=erased)

        assert await _index_of_others(db, erased) == before
        left = await db.fetch_all("SELECT entries FROM posting")
        entries = sum(len(row["entries"]) for row in left)
        assert entries == sum(map(len, before["posting"].values())), "entries of what was erased are left"
    assert (await memory.admin.verify(_TENANT)).ok


async def test_no_centre_of_a_cell_holds_anything_of_what_was_erased(
    memory: AgentMem, store: PostgresManager, repetitions: Repetitions
) -> None:
    """Erased in any order, before, between and after sortings: each centre is the mean of what is left, or nothing."""
    numbers = random.Random(_SEED)
    vectors, cells = ChunkVectorRepository(), VectorCellRepository()
    sorter = CellService(store, EventLedger(), vectors, cells, least=8, batch_vectors=5)
    words = ["lamp", "boat", "pear", "song", "tide", "rope", "sail", "moon", "salt", "dune", "crab", "oar"]
    ids: list[UUID] = []
    for _ in range(repetitions(reduced=4, full=60)):
        for _ in range(4):
            # Words of its own for each memory, so that some have a cell to themselves.
            one, other = numbers.sample(words, 2)
            lines = [f"Ana: {one} {numbers.random()} beside {other}." for _ in range(numbers.randrange(1, 12))]
            ids.append((await memory.create_active_memory(_TENANT, f"About {one}", "\n".join(lines))).id)
        await sorter.sort(_TENANT)
        for _ in range(numbers.randrange(1, 4)):
            erased = ids.pop(numbers.randrange(len(ids)))

            receipt = await memory.admin.erase(_TENANT, memory_id=erased)

            assert (await memory.admin.verify_erased(receipt)).ok
            await _check_centres(store, vectors)
    assert (await memory.admin.verify(_TENANT)).ok
    await memory.admin.erase(_TENANT)
    async with store.transaction(_TENANT, read_only=True) as db:
        assert await db.fetch_all("SELECT cell FROM vector_cell_1") == []


async def _check_centres(store: PostgresManager, vectors: ChunkVectorRepository) -> None:
    async with store.transaction(_TENANT, read_only=True) as db:
        centres = await db.fetch_all("SELECT cell, vector::real[]::float8[] AS vector FROM vector_cell_1")
        rows = await db.fetch_all("SELECT number, cell FROM chunk_vector_1")
        read = await vectors.read(db, _TENANT, 1, [row["number"] for row in rows])
    assert centres
    by_number = dict(zip(read.numbers.tolist(), read.vectors, strict=True))
    for row in centres:
        members = [by_number[one["number"]] for one in rows if one["cell"] == row["cell"]]
        mean = np.sum(members, axis=0) if members else np.zeros(len(row["vector"]))
        length = np.linalg.norm(mean)
        expected = mean / length if length else mean
        np.testing.assert_allclose(row["vector"], expected, atol=_CENTRE_TOLERANCE)
