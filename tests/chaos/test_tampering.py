"""Whatever somebody changes in the tiers who may change anything is found, and mended from the ledger."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import numpy as np
import pytest

from agent_reminiscence import AgentMem
from agent_reminiscence.domain.audit import Drift
from agent_reminiscence.domain.event import EventKind
from agent_reminiscence.domain.index import FACTS_SEGMENT, LAYOUT_DTYPE
from agent_reminiscence.domain.payloads import ModelAsked
from tests.chaos.conftest import Repetitions
from tests.conftest import TestServer
from tests.support.chaos import doomed
from tests.support.chaos.tampering import PROJECTED, Column, Scene, columns, config, key_parts, row_key, shown_key
from tests.support.factories import fill_tenant, record_event, stored_rows, superuser

pytestmark = pytest.mark.thorough

_VECTORS = "chunk_vector_1"
_NORMS = "chunk_norms_1"
# A key of each type that no row has.
_NOWHERE = {"uuid": "00000000-0000-0000-0000-000000000000", "bigint": "-1", "integer": "1000", "text": "nowhere"}
# A block of postings holds so many events: behind them nothing of one tenant has a number of the other.
_EVENTS_APART = 64


@pytest.fixture(scope="module")
def filled(test_server: TestServer) -> Iterator[str]:
    """A database with two tenants that are alike but for their numbers; each test leaves it as it was."""

    async def fill() -> str:
        name = await test_server.create_database()
        async with AgentMem(config(test_server, name)) as memory:
            await fill_tenant(memory, "tampered")
            for _ in range(_EVENTS_APART):
                # Of a kind that fills no table.
                asked = ModelAsked(agent="memorizer", outcome="failed", usage=())
                await record_event(memory, "neighbour", EventKind.MODEL_ASKED, asked)
            await fill_tenant(memory, "neighbour")
            for tenant in ("tampered", "neighbour"):
                # So that there are two rows of each table.
                await memory.ledger.append(tenant, "world.observed", {"text": "The cook whistles."}, actor="cook")
        return name

    name = asyncio.run(fill())
    yield name
    asyncio.run(test_server.drop_database(name))


@pytest.fixture
async def scene(test_server: TestServer, filled: str) -> AsyncIterator[Scene]:
    """The filled database, in order again behind a test that has failed."""
    async with AgentMem(config(test_server, filled)) as memory, superuser(test_server, filled) as db:
        before = await stored_rows(db, with_ctid=False)
        yield Scene(memory, db, "tampered")
        if await stored_rows(db, with_ctid=False) != before:
            await memory.admin.rebuild()


async def _keys(scene: Scene, table: str, condition: str = "true") -> list[str]:
    rows = await scene.db.fetch_all(
        f"SELECT {row_key(table)} AS key FROM {table}"  # noqa: S608
        f" WHERE external_id = $(tenant)p AND {condition} ORDER BY 1",
        {"tenant": scene.external_id},
    )
    return [row["key"] for row in rows]


def _by_key(drift: Sequence[Drift]) -> list[Drift]:
    # Two rows may have one shown key.
    return sorted(drift, key=lambda row: (row.table, row.key, row.problem, row.columns))


def _drift(table: str, key: str, problem: Literal["missing", "unexpected", "changed"], *columns: str) -> Drift:
    return Drift(table=table, key=shown_key(table, key), problem=problem, columns=columns)


async def _norms_of(scene: Scene, *numbers: str) -> dict[str, set[int]]:
    """The norms that follow from some vectors, each with all numbers that it follows from.

    Those are the ones of its segment of a text, and of the six chunks before and after it.
    """
    rows = await scene.db.fetch_all(
        f"SELECT memory_id::text AS memory_id, segment, {row_key(_NORMS)} AS key, entries FROM memory_layout"  # noqa: S608
        " WHERE external_id = $(tenant)p ORDER BY memory_id, segment",
        {"tenant": scene.external_id},
    )
    wanted = set(map(int, numbers))
    found: dict[str, set[int]] = {}
    for _, group in groupby(rows, key=lambda row: (row["memory_id"], row["segment"] == FACTS_SEGMENT)):
        segments = [(row["key"], np.frombuffer(row["entries"], LAYOUT_DTYPE)) for row in group]
        text = np.concatenate([layout for _, layout in segments])
        end = 0
        for key, layout in segments:
            start, end = end, end + len(layout)
            reached = text[max(0, start - 6) : end + 6]
            named = {*reached["number"].tolist(), *reached["heading"].tolist()} - {0}
            if named & wanted:
                found[key] = named
    return found


async def _missing(scene: Scene, table: str, keys: Sequence[str]) -> tuple[list[Drift], int]:
    """What is found where rows are gone, and how many chunks are counted as without a vector.

    A vector that is missing is no error, but what was computed from it is.
    """
    if table != _VECTORS:
        return [_drift(table, key, "missing") for key in keys], 0
    gone = set(map(int, keys))
    norms = []
    for segment, named in (await _norms_of(scene, *keys)).items():
        # Without any vector there is nothing to compute.
        norms.append(
            _drift(_NORMS, segment, "changed", "norms") if named - gone else _drift(_NORMS, segment, "unexpected")
        )
    return norms, sum(number > 0 for number in gone)


@dataclass(frozen=True, slots=True)
class _Change:
    """One column of one row that is to say something else."""

    column: Column
    key: str
    expression: str


@pytest.mark.thorough
@pytest.mark.parametrize("table", PROJECTED)
async def test_every_changed_column_is_reported_and_mended(
    scene: Scene, table: str, repetitions: Repetitions, subtests: pytest.Subtests
) -> None:
    """Exactly this table, this row and this column; afterwards every row of every table is as before, byte for byte.

    The columns are those that the catalog lists, so a new one is tried by itself.
    """
    before = await stored_rows(scene.db, with_ctid=False)
    listed = await columns(scene.db, table)
    changes = await _changes(scene, table, listed, each=repetitions(reduced=1, full=4))
    together = [[change] for change in changes] if repetitions.is_full else _of_different_rows(table, changes)
    for number, some in enumerate(together):
        shown = ", ".join(f"{change.column.name} = {change.expression}" for change in some)
        with subtests.test(changes=shown):
            if some[0].column.name == "external_id":
                await _try_to_give_away(scene, table, some[0].key)
            else:
                await _try(scene, table, some, by_rebuild=number % 2 == 0)
            assert await stored_rows(scene.db, with_ctid=False) == before
    assert {change.column.name for some in together for change in some} == {column.name for column in listed}


async def _changes(scene: Scene, table: str, listed: Sequence[Column], *, each: int) -> list[_Change]:
    """So many of each column, and again so many that take away what is known."""
    keys = await _keys(scene, table)
    changes: list[_Change] = []
    for number, column in enumerate(listed):
        # Another row for each column, so that all kinds of rows are met.
        picked = keys[number % len(keys) :] + keys[: number % len(keys)]
        if table == _VECTORS and column.name == "mass":
            # Headings of the past have no norms that tell an earlier counter's mass from a changed one.
            picked = [key for key in picked if await _norms_of(scene, key)]
        changes += [_Change(column, key, column.other_value) for key in picked[:each]]
        if column.is_nullable:
            # Whether something is known at all counts, too.
            filled = await _keys(scene, table, f"{column.name} IS NOT NULL")
            first = number % max(1, len(filled))
            changes += [_Change(column, key, "NULL") for key in (filled[first:] + filled[:first])[:each]]
    return changes


def _of_different_rows(table: str, changes: Sequence[_Change]) -> list[list[_Change]]:
    """Changes that are looked for together, each of a row of its own; what names a row is changed alone."""
    together: list[list[_Change]] = []
    alone = ("external_id", *PROJECTED[table])
    for change in changes:
        room = (
            some
            for some in together
            if some[0].column.name not in alone and change.key not in {other.key for other in some}
        )
        if change.column.name not in alone and (some := next(room, None)) is not None:
            some.append(change)
        else:
            together.append([change])
    return together


async def _try(scene: Scene, table: str, changes: Sequence[_Change], *, by_rebuild: bool) -> None:
    """Change columns of different rows, have them found, and have them mended."""
    expected: list[Drift] = []
    norms: set[str] = set()
    missing = 0
    for change in changes:
        column, key = change.column, change.key
        is_key = column.name in PROJECTED[table]
        if is_key:
            expected, missing = await _missing(scene, table, [key])
        if table == _VECTORS and column.name in ("mass", "vector"):
            norms |= set(await _norms_of(scene, key))
        changed = await scene.update(table, f"{column.name} = {change.expression}", key)
        assert len(changed) == 1
        if is_key:
            expected.append(_drift(table, changed[0]["key"], "unexpected"))
        else:
            expected.append(_drift(table, key, "changed", column.name))
    expected += [_drift(_NORMS, memory_id, "changed", "norms") for memory_id in norms]

    found = await scene.verify()

    assert (found.ok, found.faults, _by_key(found.drift)) == (False, (), _by_key(expected))
    assert found.missing_vectors == missing
    mended = await scene.mend(by_rebuild=by_rebuild)
    assert (mended.ok, mended.repaired, _by_key(mended.drift)) == (True, True, _by_key(expected))


async def _try_to_give_away(scene: Scene, table: str, key: str) -> None:
    """Give one row to another tenant: it is missing here and unexpected there."""
    expected, missing = await _missing(scene, table, [key])
    await scene.update(table, "external_id = $(other)p", key, other="neighbour")

    found, other = await scene.verify(), await scene.verify("neighbour")

    assert (_by_key(found.drift), found.missing_vectors) == (_by_key(expected), missing)
    assert found.ok == (not expected)
    assert other.drift == (_drift(table, key, "unexpected"),)
    assert (await scene.mend(by_rebuild=True)).ok
    assert (await scene.mend("neighbour", by_rebuild=False)).repaired


@pytest.mark.parametrize("table", PROJECTED)
async def test_rows_that_are_gone_come_back(scene: Scene, table: str, repetitions: Repetitions) -> None:
    """One of them, or all; a chunk that has lost its vectors is counted and is no error."""
    before = await stored_rows(scene.db, with_ctid=False)
    keys = await _keys(scene, table)
    for lost in [[key] for key in keys[: repetitions(reduced=1, full=100)]] + [keys]:
        expected, missing = await _missing(scene, table, lost)
        await scene.db.execute(
            f"DELETE FROM {table} WHERE external_id = $(tenant)p AND {row_key(table)} = ANY($(keys)p)",  # noqa: S608
            {"tenant": scene.external_id, "keys": lost},
        )

        found = await scene.verify()

        assert (_by_key(found.drift), found.missing_vectors) == (_by_key(expected), missing)
        assert found.ok == (not expected)
        mended = await scene.mend(by_rebuild=True)
        assert (mended.ok, mended.missing_vectors) == (True, 0)
        assert await stored_rows(scene.db, with_ctid=False) == before


@pytest.mark.parametrize("table", PROJECTED)
async def test_rows_that_nobody_wrote_are_taken_away(scene: Scene, table: str) -> None:
    """A copy of each row under a new key."""
    before = await stored_rows(scene.db, with_ctid=False)
    listed = await columns(scene.db, table)
    names = [column.name for column in listed]
    [key, *_] = [column.name for column in listed if column.name in PROJECTED[table] and column.type != "text"]
    # No two chunks have one number, and no two active memories one key of a caller's.
    other = {column.name: column.unused_value for column in listed if column.name in (key, "number")}
    if table == "active_memory":
        other["key"] = "key || '!'"
    copied = ", ".join(other.get(name, name) for name in names)
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
    assert await stored_rows(scene.db, with_ctid=False) == before


# Rows that are nothing but their keys say nothing that another one could say in their place.
@pytest.mark.parametrize("table", [table for table in PROJECTED if table not in ("memory_attribute", "memory_turn")])
async def test_two_rows_that_have_changed_places_are_told_apart(scene: Scene, table: str) -> None:
    """Each says now what the other one said; every row is still there, and none is right."""
    before = await stored_rows(scene.db, with_ctid=False)
    one, other = await _unlike(scene, table)
    types = {column.name: column.type for column in await columns(scene.db, table)}
    names = PROJECTED[table]
    nowhere = "/".join(_NOWHERE[types[name]] for name in names)
    for old, new in ((one, nowhere), (other, one), (nowhere, other)):
        parts = {f"new_{name}": part for name, part in zip(names, key_parts(table, new), strict=True)}
        await scene.update(
            table, ", ".join(f"{name} = $(new_{name})p::text::{types[name]}" for name in names), old, **parts
        )

    found = await scene.verify()

    expected = {(table, shown_key(table, key), "changed") for key in (one, other)}
    if table == _VECTORS:
        expected |= {(_NORMS, memory_id, "changed") for memory_id in await _norms_of(scene, one, other)}
    assert {(drift.table, drift.key, drift.problem) for drift in found.drift} == expected
    assert (await scene.mend(by_rebuild=True)).repaired
    assert await stored_rows(scene.db, with_ctid=False) == before


async def _unlike(scene: Scene, table: str) -> list[str]:
    """The keys of two rows that say different things."""
    # Of vectors, two of different weight: what is computed from one alone differs then, too.
    said = "jsonb_build_object('mass', mass)" if table == _VECTORS else "to_jsonb(t) - $(names)p::text[]"
    rows = await scene.db.fetch_all(
        f"SELECT min({row_key(table)}) AS key FROM {table} AS t"  # noqa: S608
        f" WHERE external_id = $(tenant)p GROUP BY {said} ORDER BY 1 LIMIT 2",
        {"tenant": scene.external_id, "names": list(PROJECTED[table])},
    )
    return [row["key"] for row in rows]


async def test_everything_that_is_projected_can_be_made_again(scene: Scene) -> None:
    """All tiers, vectors and caches of all tenants are gone; what is left is the ledger, and it gives all of them."""
    before = await stored_rows(scene.db, with_ctid=False)
    ledger = ("memory_event", "memory_stream")
    for table in before.keys() - set(ledger):
        await scene.db.execute_script(f"DELETE FROM {table}")  # noqa: S608
    await scene.db.execute_script(
        "UPDATE memory_stream SET live_chunks = 0, text_chunks = 0, text_words = 0, languages = '{}'"
    )
    assert (await scene.memory.retrieve_memories(scene.external_id, "spare key")).hits == ()

    report = await scene.memory.admin.rebuild()

    assert report.ok
    after = await stored_rows(scene.db, with_ctid=False)
    # The cache held vectors of former texts, which nothing needs any more.
    assert set(after.pop("embedding_cache")) <= set(before.pop("embedding_cache"))
    assert after == before


@pytest.mark.parametrize("table", ["memory_chunk", "memory_heading"])
async def test_a_cached_vector_that_was_changed_is_made_again(scene: Scene, table: str) -> None:
    """Row and cache disagree, and neither is believed: the embedder makes both again from the text."""
    before = await stored_rows(scene.db, with_ctid=False)
    rows = await scene.db.fetch_all(
        "WITH changed AS ("  # noqa: S608
        " UPDATE embedding_cache AS e SET vector = e.vector + e.vector WHERE e.external_id = $(tenant)p"
        f" AND e.text_hash = (SELECT text_hash FROM {table} WHERE external_id = $(tenant)p ORDER BY number LIMIT 1)"
        " RETURNING e.text_hash"
        ") SELECT number::text AS key FROM memory_chunk JOIN changed USING (text_hash) WHERE external_id = $(tenant)p"
        " UNION ALL"
        " SELECT number::text FROM memory_heading JOIN changed USING (text_hash) WHERE external_id = $(tenant)p",
        {"tenant": scene.external_id},
    )

    found = await scene.verify()

    assert not found.ok
    assert _by_key(found.drift) == _by_key([_drift(_VECTORS, row["key"], "changed", "vector") for row in rows])
    assert rows
    assert (await scene.mend(by_rebuild=True)).repaired
    assert await stored_rows(scene.db, with_ctid=False) == before


@pytest.mark.parametrize(
    ("change", "is_found"),
    [
        ("DELETE FROM vector_cell_1", True),
        ("UPDATE vector_cell_1 SET cell = cell + 500000", True),
        ("UPDATE vector_cell_1 SET external_id = 'neighbour'", True),
        # A centre says where to look, and every new vector moves the mean of its cell: it follows from no event.
        ("UPDATE vector_cell_1 SET vector = vector + vector", False),
    ],
)
async def test_vectors_whose_cell_has_no_centre_are_named_and_put_into_another(
    test_server: TestServer, database: str, change: str, is_found: bool
) -> None:
    """No search would look into such a cell."""
    async with AgentMem(config(test_server, database)) as memory, superuser(test_server, database) as db:
        scene = Scene(memory, db, "large")
        lines = [f"Ana: Lamp {number} burns in shade {number * number}." for number in range(doomed.CELL_MIN_CHUNKS)]
        await memory.create_active_memory("large", "Lamps", "\n".join(lines))
        assert await doomed.sorter(memory).sort("large")
        [one, *_] = await db.fetch_all("SELECT cell FROM chunk_vector_1 ORDER BY cell LIMIT 1")
        members = {
            row["number"]
            for row in await db.fetch_all(
                "SELECT number::text AS number FROM chunk_vector_1 WHERE cell = $(cell)p", one
            )
        }
        before = await stored_rows(db, with_ctid=False)

        await db.execute(f"{change} WHERE cell = $(cell)p", one)

        found = await scene.verify()
        expected = [_drift(_VECTORS, number, "changed", "cell") for number in members] if is_found else []
        assert (found.ok, _by_key(found.drift)) == (not is_found, _by_key(expected))
        assert (await scene.mend(by_rebuild=True)).ok
        after = await scene.verify()
        assert (after.ok, after.missing_vectors) == (True, 0)
        rows = await stored_rows(db, with_ctid=False)
        without: dict[str, list[str]] = {_VECTORS: [], "vector_cell_1": []}
        assert rows | without == before | without
        assert len(rows[_VECTORS]) == len(before[_VECTORS])
