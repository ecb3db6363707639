"""Whatever somebody changes in the tiers who may change anything is found, and mended from the ledger."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Literal

import pytest

from agent_reminiscence import AgentMem
from agent_reminiscence.domain.audit import Drift
from tests.chaos.conftest import Repetitions
from tests.chaos.tampering import PROJECTED, Column, Scene, columns, config, row_key, shown_key
from tests.conftest import TestServer
from tests.factories import fill_tenant, stored_rows, superuser

_VECTORS = "chunk_vector_1"
_NOWHERE = "00000000-0000-0000-0000-000000000000"


@pytest.fixture(scope="module")
def filled(test_server: TestServer) -> Iterator[str]:
    """A database with two tenants that are alike; each test leaves it as it was."""

    async def fill() -> str:
        name = await test_server.create_database()
        async with AgentMem(config(test_server, name)) as memory:
            await fill_tenant(memory, "tampered")
            await fill_tenant(memory, "neighbour")
        return name

    name = asyncio.run(fill())
    yield name
    asyncio.run(test_server.drop_database(name))


@pytest.fixture
async def scene(test_server: TestServer, filled: str) -> AsyncIterator[Scene]:
    """The filled database, in order again behind a test that has failed."""
    async with AgentMem(config(test_server, filled)) as memory, superuser(test_server, filled) as db:
        yield Scene(memory, db, "tampered")
        await memory.admin.rebuild()


async def _keys(scene: Scene, table: str, condition: str = "true") -> list[str]:
    rows = await scene.db.fetch_all(
        f"SELECT {row_key(table)} AS key FROM {table}"  # noqa: S608
        f" WHERE external_id = $(tenant)p AND {condition} ORDER BY 1",
        {"tenant": scene.external_id},
    )
    return [row["key"] for row in rows]


def _by_key(drift: Sequence[Drift]) -> list[Drift]:
    return sorted(drift, key=lambda row: (row.table, row.key, row.problem))


def _drift(table: str, key: str, problem: Literal["missing", "unexpected", "changed"], *columns: str) -> Drift:
    return Drift(table=table, key=shown_key(table, key), problem=problem, columns=columns)


@pytest.mark.parametrize("table", PROJECTED)
async def test_every_changed_column_is_reported_and_mended(
    scene: Scene, table: str, repetitions: Repetitions, subtests: pytest.Subtests
) -> None:
    """Exactly this table, this row and this column; afterwards every row of every table is as before, byte for byte.

    The columns are those that the catalog lists, so a new one is tried by itself.
    """
    before = await stored_rows(scene.db, with_place=False)
    keys = await _keys(scene, table)
    tried = 0
    for number, column in enumerate(await columns(scene.db, table)):
        # Another row for each column, so that all kinds of rows are met.
        picked = keys[number % len(keys) :] + keys[: number % len(keys)]
        cases = [(key, column.other_value) for key in picked[: repetitions(reduced=1, full=4)]]
        if column.is_nullable:
            # Whether something is known at all counts, too.
            filled = await _keys(scene, table, f"{column.name} IS NOT NULL")
            cases += [(key, "NULL") for key in filled[: repetitions(reduced=1, full=4)]]
        for key, expression in cases:
            tried += 1
            with subtests.test(column=column.name, to=expression, key=key):
                if column.name == "external_id":
                    await _try_to_give_away(scene, table, key)
                else:
                    await _try(scene, table, key, column, expression, by_rebuild=tried % 2 == 0)
                assert await stored_rows(scene.db, with_place=False) == before
    assert tried >= len(await columns(scene.db, table))


async def _try(scene: Scene, table: str, key: str, column: Column, expression: str, *, by_rebuild: bool) -> None:
    """Change one column of one row, have it found, and have it mended."""
    changed = await scene.update(table, f"{column.name} = {expression}", key)
    assert len(changed) == 1
    expected = [_drift(table, key, "changed", column.name)]
    missing = 0
    if column.name in PROJECTED[table]:
        expected = [_drift(table, changed[0]["key"], "unexpected")]
        if table == _VECTORS:
            missing = 1
        else:
            expected.append(_drift(table, key, "missing"))

    found = await scene.verify()

    assert (found.ok, found.faults, _by_key(found.drift)) == (False, (), _by_key(expected))
    assert found.missing_vectors == missing
    mended = await scene.mend(by_rebuild=by_rebuild)
    assert (mended.ok, mended.repaired, _by_key(mended.drift)) == (True, True, _by_key(expected))


async def _try_to_give_away(scene: Scene, table: str, key: str) -> None:
    """Give one row to another tenant: it is missing here and unexpected there."""
    await scene.update(table, "external_id = $(other)p", key, other="neighbour")

    found, other = await scene.verify(), await scene.verify("neighbour")

    if table == _VECTORS:
        assert (found.ok, found.drift, found.missing_vectors) == (True, (), 1)
    else:
        assert found.drift == (_drift(table, key, "missing"),)
    assert other.drift == (_drift(table, key, "unexpected"),)
    assert (await scene.mend(by_rebuild=True)).ok
    assert (await scene.mend("neighbour", by_rebuild=False)).repaired


@pytest.mark.parametrize("table", PROJECTED)
async def test_rows_that_are_gone_come_back(scene: Scene, table: str, repetitions: Repetitions) -> None:
    """One of them, or all; a chunk that has lost its vectors is counted and is no error."""
    before = await stored_rows(scene.db, with_place=False)
    keys = await _keys(scene, table)
    for lost in [[key] for key in keys[: repetitions(reduced=1, full=100)]] + [keys]:
        await scene.db.execute(
            f"DELETE FROM {table} WHERE external_id = $(tenant)p AND {row_key(table)} = ANY($(keys)p)",  # noqa: S608
            {"tenant": scene.external_id, "keys": lost},
        )

        found = await scene.verify()

        if table == _VECTORS:
            assert (found.ok, found.drift, found.missing_vectors) == (True, (), len(lost))
        else:
            assert found.drift == tuple(_drift(table, key, "missing") for key in lost)
            assert not found.ok
        mended = await scene.mend(by_rebuild=True)
        assert (mended.ok, mended.missing_vectors) == (True, 0)
        assert await stored_rows(scene.db, with_place=False) == before


@pytest.mark.parametrize("table", PROJECTED)
async def test_rows_that_nobody_wrote_are_taken_away(scene: Scene, table: str) -> None:
    """A copy of each row under a new key."""
    before = await stored_rows(scene.db, with_place=False)
    key = PROJECTED[table][0]
    names = [column.name for column in await columns(scene.db, table)]
    copied = ", ".join("gen_random_uuid()" if name == key else name for name in names)
    added = await scene.db.fetch_all(
        f"INSERT INTO {table} ({', '.join(names)}) SELECT {copied} FROM {table} WHERE external_id = $(tenant)p"  # noqa: S608
        f" RETURNING {row_key(table)} AS key",
        {"tenant": scene.external_id},
    )

    found = await scene.verify()

    expected = [_drift(table, row["key"], "unexpected") for row in added]
    assert _by_key(found.drift) == _by_key(expected)
    assert not found.ok
    assert (await scene.mend(by_rebuild=False)).repaired
    assert await stored_rows(scene.db, with_place=False) == before


@pytest.mark.parametrize("table", PROJECTED)
async def test_two_rows_that_have_changed_places_are_told_apart(scene: Scene, table: str) -> None:
    """Each says now what the other one said; every row is still there, and none is right."""
    before = await stored_rows(scene.db, with_place=False)
    one, other, *_ = await _keys(scene, table)
    if table == "graph_mention":
        # There most rows say nothing but who stands where.
        (one, *_), (other, *_) = await _keys(scene, table, "is_live"), await _keys(scene, table, "NOT is_live")
    names = PROJECTED[table]
    nowhere = "/".join([_NOWHERE] * len(names))
    for old, new in ((one, nowhere), (other, one), (nowhere, other)):
        parts = {f"new_{name}": part for name, part in zip(names, new.split("/", len(names) - 1), strict=True)}
        assignments = (f"{name} = $(new_{name})p::text{'' if name == 'key' else '::uuid'}" for name in names)
        await scene.update(table, ", ".join(assignments), old, **parts)

    found = await scene.verify()

    assert {(drift.table, drift.key, drift.problem) for drift in found.drift} == {
        (table, shown_key(table, one), "changed"),
        (table, shown_key(table, other), "changed"),
    }
    assert (await scene.mend(by_rebuild=True)).repaired
    assert await stored_rows(scene.db, with_place=False) == before


async def test_everything_that_is_projected_can_be_made_again(scene: Scene) -> None:
    """All tiers, vectors and caches of all tenants are gone; what is left is the ledger, and it gives all of them."""
    before = await stored_rows(scene.db, with_place=False)
    ledger = ("memory_event", "memory_stream")
    for table in before.keys() - set(ledger):
        await scene.db.execute_script(f"DELETE FROM {table}")  # noqa: S608
    await scene.db.execute_script("UPDATE memory_stream SET live_chunks = 0")
    assert (await scene.memory.retrieve_memories(scene.external_id, "spare key")).hits == ()

    report = await scene.memory.admin.rebuild()

    assert report.ok
    after = await stored_rows(scene.db, with_place=False)
    # The cache held vectors of former texts, which nothing needs any more.
    assert set(after.pop("embedding_cache")) <= set(before.pop("embedding_cache"))
    assert after == before


@pytest.mark.parametrize(
    ("form", "column"),
    [
        ("indexed_text", "text_vector"),
        ("indexed_before", "before_vector"),
        ("indexed_around", "around_vector"),
    ],
)
async def test_a_cached_vector_that_was_changed_is_made_again(scene: Scene, form: str, column: str) -> None:
    """Chunk and cache disagree, and neither is believed: the embedder makes both anew from the text."""
    before = await stored_rows(scene.db, with_place=False)
    [key, *_] = await _keys(scene, "memory_chunk")
    await scene.db.execute(
        "UPDATE embedding_cache AS e SET vector = e.vector + e.vector FROM memory_chunk AS c"
        " WHERE c.chunk_id::text = $(key)p AND e.external_id = c.external_id"
        " AND e.text_hash = sha256(convert_to(to_jsonb(c) ->> $(form)p, 'UTF8'))",
        {"key": key, "form": form},
    )

    found = await scene.verify()

    assert not found.ok
    assert {drift.table for drift in found.drift} == {_VECTORS}
    [drift] = [drift for drift in found.drift if drift.key == key]
    assert column in drift.columns
    assert (await scene.mend(by_rebuild=True)).repaired
    assert await stored_rows(scene.db, with_place=False) == before
