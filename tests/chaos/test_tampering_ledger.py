"""Whatever somebody changes in the ledger who may change anything is found, and nothing is made from it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent_reminiscence import AgentMem
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.domain.audit import Drift
from agent_reminiscence.exceptions import StoreError
from tests.chaos.conftest import Repetitions
from tests.conftest import TestServer
from tests.support.chaos.tampering import Scene, columns, config
from tests.support.factories import LONG_AGO, SECRET, stored_rows, superuser

pytestmark = pytest.mark.thorough

# The stream's own row: what repeats its last event is a fault of the ledger, what follows from all events is drift.
# Of `due_at` only whether it is set follows from the events; the moment is that of a clock, and is not compared.
_FAULTS_OF_THE_STREAM = {"external_id", "head", "chain", "last_recorded_at"}
_DRIFT_OF_THE_STREAM = {"live_chunks", "due_at", "text_chunks", "text_words", "languages"}
# What became of work follows from no event: it is neither compared nor mended.
_SOFT_STATE_OF_THE_STREAM = {
    *("work_at", "review_at", "failed_attempts", "failed_error", "failed_at"),
    *("vectors_missing", "vectors_missing_since", "vectors_error"),
    *("graph_head", "graph_position", "graph_store", "reader", "reader_until"),
}


@dataclass(frozen=True, slots=True)
class _Positions:
    """Positions in the tampered stream."""

    first: int = 1
    middle: int = 2
    observed: int = 4
    emptied: int = 5
    receipt: int = 6
    last: int = 8


_AT = _Positions()


@pytest.fixture(scope="module")
def filled(test_server: TestServer) -> Iterator[str]:
    """A database with a short stream in which something was erased; each test leaves it as it was."""

    async def fill() -> str:
        name = await test_server.create_database()
        async with AgentMem(config(test_server, name)) as memory:
            note = await memory.create_active_memory("tampered", "House", "The gate squeaks.", actor="guest")
            await memory.update_active_memory(
                "tampered", note.id, content="The gate is quiet.", conversation_id="talk", idempotency_key="once"
            )
            await memory.admin.consolidate("tampered", note.id)
            await memory.ledger.append("tampered", "world.observed", {"text": "It rains."}, turn=3)
            whispered = await memory.create_active_memory(
                "tampered", "House", SECRET, actor="guest", conversation_id="whispers", idempotency_key="twice"
            )
            await memory.admin.erase("tampered", memory_id=whispered.id, actor="keeper")
            await memory.create_active_memory("tampered", "House", "The lamp is new.", occurred_at=LONG_AGO)
            await memory.ledger.append("tampered", "world.observed", {"text": "It snows."})
            kinds = [event.kind for event in await memory.ledger.read("tampered")]
        assert (len(kinds), kinds[_AT.observed - 1], kinds[_AT.receipt - 1]) == (8, "world.observed", "memory.erased")
        return name

    name = asyncio.run(fill())
    yield name
    asyncio.run(test_server.drop_database(name))


@pytest.fixture
async def scene(test_server: TestServer, filled: str) -> AsyncIterator[Scene]:
    """The filled database; what a test has changed is put back behind it, event for event."""
    async with AgentMem(config(test_server, filled)) as memory, superuser(test_server, filled) as db:
        await db.execute_script(
            "CREATE TEMPORARY TABLE kept_event AS TABLE memory_event; ALTER TABLE kept_event DROP COLUMN memory_id;"
            "CREATE TEMPORARY TABLE kept_stream AS TABLE memory_stream"
        )
        yield Scene(memory, db, "tampered")
        await _restore(db)
        assert (await memory.admin.rebuild()).ok


async def _restore(db: SqlExecutor) -> None:
    await db.execute_script(
        "BEGIN; DELETE FROM memory_event; DELETE FROM memory_stream;"
        "INSERT INTO memory_event TABLE kept_event; INSERT INTO memory_stream TABLE kept_stream; COMMIT"
    )


async def _assert_found(scene: Scene, folder: Path, *positions: int) -> None:
    """`verify` names the positions, `export` refuses, and neither `rebuild` nor a repair writes anything."""
    before = await stored_rows(scene.db)

    found = await scene.verify()

    assert not found.ok
    assert {fault.position for fault in found.faults} >= set(positions), found.faults
    with pytest.raises(StoreError, match=r"has been altered|cannot be read"):
        await scene.memory.admin.export(scene.external_id, folder / "export")
    assert await asyncio.to_thread(lambda: list(folder.iterdir())) == []
    for by_rebuild in (True, False):
        left = await scene.mend(by_rebuild=by_rebuild)
        assert (left.ok, left.repaired) == (False, False)
    assert await stored_rows(scene.db) == before


@pytest.mark.thorough
async def test_every_changed_column_of_an_event_is_reported(
    scene: Scene, repetitions: Repetitions, subtests: pytest.Subtests, tmp_path: Path
) -> None:
    """With its position, whatever the event: the first, the last, one between, an emptied one, and a receipt."""
    ordinary = [_AT.middle, _AT.last, _AT.first, _AT.observed]
    for number, column in enumerate(await columns(scene.db, "memory_event")):
        some = ordinary[number % len(ordinary) :] + ordinary[: number % len(ordinary)]
        special = [_AT.emptied, _AT.receipt][number % 2 :] + [_AT.emptied, _AT.receipt][: number % 2]
        positions = {*special[: repetitions(reduced=1, full=2)], *some[: repetitions(reduced=1, full=4)]}
        for position in sorted(positions):
            expression = {"external_id": "'somebody else'", "position": "position + 1000"}.get(
                column.name, column.other_value
            )
            with subtests.test(column=column.name, position=position):
                await scene.update("memory_event", f"{column.name} = {expression}", position)
                # What follows the last event is missed by the stream's own row only.
                is_end = column.name == "external_id" and position == _AT.last
                await _assert_found(scene, tmp_path, 0 if is_end else position)
                await _restore(scene.db)
    assert (await scene.verify()).ok


async def test_every_label_that_is_taken_from_an_event_is_reported(
    scene: Scene, subtests: pytest.Subtests, tmp_path: Path
) -> None:
    """To say nothing is a change, too; and so is an empty word where nothing was said."""
    for column in await columns(scene.db, "memory_event"):
        if not column.is_nullable:
            continue
        rows = await scene.db.fetch_all(
            f"SELECT position FROM memory_event WHERE external_id = $(tenant)p AND {column.name} IS NOT NULL"  # noqa: S608
            " ORDER BY position LIMIT 1",
            {"tenant": scene.external_id},
        )
        for row in rows:
            with subtests.test(column=column.name, to="NULL"):
                await scene.update("memory_event", f"{column.name} = NULL", row["position"])
                await _assert_found(scene, tmp_path, row["position"])
                await _restore(scene.db)
        if column.type in {"text", "bytea"}:
            emptied = _AT.emptied
            with subtests.test(column=column.name, to="''"):
                await scene.update("memory_event", f"{column.name} = ''", emptied)
                await _assert_found(scene, tmp_path, emptied)
                await _restore(scene.db)


@pytest.mark.parametrize("which", ["first", "middle", "observed", "emptied", "receipt", "last"])
async def test_an_event_that_was_removed_is_missed(scene: Scene, which: str, tmp_path: Path) -> None:
    """At the beginning, at the end, and anywhere between; also one that said nothing any more."""
    position = getattr(_AT, which)
    await scene.db.execute(
        "DELETE FROM memory_event WHERE external_id = $(tenant)p AND position = $(position)p",
        {"tenant": scene.external_id, "position": position},
    )

    await _assert_found(scene, tmp_path, 0 if which == "last" else position)


_COPY = """
INSERT INTO memory_event (
    external_id, position, event_id, kind, actor, conversation_id, turn, occurred_at, recorded_at, source, payload,
    idempotency_key, request_hash, salt, digest, chain
)
SELECT external_id, $(position)p, gen_random_uuid(), kind, actor, conversation_id, turn, occurred_at, recorded_at,
    source, payload, NULL, request_hash, salt, digest, chain
FROM memory_event
WHERE external_id = $(tenant)p AND position = $(original)p
"""


@pytest.mark.parametrize("original", ["first", "observed", "emptied", "receipt"])
@pytest.mark.parametrize("is_head_moved", [False, True])
async def test_an_event_that_was_appended_by_hand_is_reported(
    scene: Scene, original: str, is_head_moved: bool, tmp_path: Path
) -> None:
    """A copy of another event, whether or not the stream's own row says that it ends there."""
    position = _AT.last + 1
    params = {"tenant": scene.external_id, "position": position, "original": getattr(_AT, original)}
    await scene.db.execute(_COPY, params)
    if is_head_moved:
        await scene.db.execute(
            "UPDATE memory_stream AS s SET head = e.position, chain = e.chain, last_recorded_at = e.recorded_at"
            " FROM memory_event AS e WHERE s.external_id = $(tenant)p AND e.external_id = $(tenant)p"
            " AND e.position = $(position)p",
            {"tenant": scene.external_id, "position": position},
        )

    await _assert_found(scene, tmp_path, position)


@pytest.mark.parametrize("replaced", ["first", "middle", "observed", "emptied", "receipt"])
async def test_an_event_in_the_place_of_another_is_reported(scene: Scene, replaced: str, tmp_path: Path) -> None:
    """The positions are without a gap, and yet the chain is broken."""
    position = getattr(_AT, replaced)
    params = {"tenant": scene.external_id, "position": position, "original": position + 1}
    await scene.db.execute(
        "DELETE FROM memory_event WHERE external_id = $(tenant)p AND position = $(position)p",
        {"tenant": scene.external_id, "position": position},
    )
    await scene.db.execute(_COPY, params)

    await _assert_found(scene, tmp_path, position)


@pytest.mark.parametrize(
    ("one", "other"),
    [("first", "last"), ("middle", "observed"), ("middle", "emptied"), ("emptied", "receipt"), ("receipt", "last")],
)
async def test_two_events_that_have_changed_places_are_reported(
    scene: Scene, one: str, other: str, tmp_path: Path
) -> None:
    """Each of them is as it was written, and stands where it was not."""
    here, there = getattr(_AT, one), getattr(_AT, other)
    for old, new in ((here, 10_000), (there, here), (10_000, there)):
        await scene.update("memory_event", f"position = {new}", old)

    await _assert_found(scene, tmp_path, here, there)


_EMPTY = (
    "payload = '{}', idempotency_key = NULL, request_hash = NULL, salt = NULL, actor = NULL, conversation_id = NULL"
)


@pytest.mark.parametrize("which", ["first", "middle", "observed", "receipt", "last"])
async def test_an_event_that_was_emptied_without_a_receipt_is_reported(
    scene: Scene, which: str, tmp_path: Path
) -> None:
    """An erasure leaves a receipt; who empties an event otherwise, or a receipt itself, is found."""
    position = getattr(_AT, which)
    await scene.update("memory_event", _EMPTY, position)

    await _assert_found(scene, tmp_path, position)


async def test_an_erased_text_that_was_put_back_is_reported(scene: Scene, tmp_path: Path) -> None:
    """As it was, with its salt and all, from a backup: the digest fits again, and the receipt says that it must not."""
    tenant = scene.external_id
    note = await scene.memory.create_active_memory(tenant, "House", "The garage opens with 4711.", actor="guest")
    position = await scene.memory.ledger.head(tenant)
    await scene.db.execute_script("CREATE TEMPORARY TABLE backup AS TABLE memory_event")
    await scene.memory.admin.erase(tenant, memory_id=note.id)
    assert (await scene.verify()).ok

    await scene.db.execute(
        "UPDATE memory_event AS e SET payload = b.payload, salt = b.salt, actor = b.actor,"
        " request_hash = b.request_hash FROM backup AS b"
        " WHERE (b.external_id, b.position) = (e.external_id, e.position) AND e.position = $(position)p",
        {"position": position},
    )

    await _assert_found(scene, tmp_path, position)
    [fault] = (await scene.verify()).faults
    assert "a receipt says that it was erased" in fault.problem


@pytest.mark.parametrize(
    "change",
    [
        "jsonb_set(payload, '{events}', '[]')",
        "jsonb_set(payload, '{memory_ids}', '[]')",
        "jsonb_set(payload, '{events,0,digest}', '\"00\"')",
        "jsonb_set(payload, '{events,0,remains}', '\"00\"')",
        "jsonb_set(payload, '{sha256}', '\"00\"')",
        "jsonb_set(payload, '{requested_at}', '\"2020-01-01T00:00:00Z\"')",
        "'[1]'::jsonb",
        "'\"nothing\"'::jsonb",
        "'{}'::jsonb",
    ],
)
async def test_a_receipt_that_was_altered_is_reported(scene: Scene, change: str, tmp_path: Path) -> None:
    """What it says of an erasure is as much part of the ledger as any event."""
    position = _AT.receipt
    await scene.update("memory_event", f"payload = {change}", position)

    await _assert_found(scene, tmp_path, position)


@pytest.mark.parametrize(
    ("which", "value"),
    [
        ("first", "payload = '[1]'"),
        ("observed", "payload = 'null'"),
        ("last", "payload = '1e400'"),
        ("first", "occurred_at = 'infinity'"),
        ("emptied", "occurred_at = '20000-01-01'"),
        ("receipt", "occurred_at = '0044-03-15 BC'"),
        ("last", "recorded_at = '-infinity'"),
    ],
)
async def test_what_cannot_be_read_as_an_event_is_reported_where_it_stands(
    scene: Scene, which: str, value: str, tmp_path: Path
) -> None:
    """A value that no event can have stops the replay there, and does not stop the report."""
    position = getattr(_AT, which)
    await scene.update("memory_event", value, position)

    await _assert_found(scene, tmp_path, position)
    with pytest.raises(StoreError):
        await scene.memory.ledger.read(scene.external_id)


async def test_every_changed_column_of_a_streams_own_row_is_reported(
    scene: Scene, subtests: pytest.Subtests, tmp_path: Path
) -> None:
    """What repeats the last event is a fault of the ledger; what follows from all events is drift and is mended."""
    listed = await columns(scene.db, "memory_stream")
    assert {column.name for column in listed} == (
        _FAULTS_OF_THE_STREAM | _DRIFT_OF_THE_STREAM | _SOFT_STATE_OF_THE_STREAM
    )
    tenant = {"tenant": scene.external_id}
    for column in listed:
        value = "'somebody else'" if column.name == "external_id" else column.other_value
        with subtests.test(column=column.name):
            await scene.db.execute(
                f"UPDATE memory_stream SET {column.name} = {value} WHERE external_id = $(tenant)p",  # noqa: S608
                tenant,
            )
            if column.name in _FAULTS_OF_THE_STREAM:
                await _assert_found(scene, tmp_path, 0)
                await _restore(scene.db)
            elif column.name in _SOFT_STATE_OF_THE_STREAM:
                assert (await scene.verify()).ok
            else:
                drift = Drift(table="memory_stream", key="", problem="changed", columns=(column.name,))
                assert (await scene.verify()).drift == (drift,)
                assert (await scene.mend(by_rebuild=column.name == "due_at")).drift == (drift,)
                assert (await scene.verify()).ok


@pytest.mark.parametrize("statement", ["UPDATE memory_stream SET head = head - 1", "DELETE FROM memory_stream"])
async def test_a_stream_that_ends_too_early_is_reported(scene: Scene, statement: str, tmp_path: Path) -> None:
    """Without its row, too: whoever asks for the stream by its id is told."""
    await scene.db.execute(f"{statement} WHERE external_id = $(tenant)p", {"tenant": scene.external_id})

    await _assert_found(scene, tmp_path, 0)


# --- What only a kept report finds ------------------------------------------------------------------------------------


async def _chain_at(scene: Scene, position: int) -> str | None:
    events = await scene.memory.ledger.read(scene.external_id, after=position - 1, limit=1)
    return events[0].chain.hex() if events and events[0].position == position else None


async def test_an_end_that_was_cut_off_with_care_is_found_by_a_kept_report(scene: Scene) -> None:
    """Who removes the last event and sets the stream's row back leaves a shorter stream that is in order.

    `verify` alone cannot know that there was more. Whoever has kept `head` and `chain` of an earlier report can. The
    events say nothing, so that their rows are all that there is of them.
    """
    tenant = scene.external_id
    await scene.memory.ledger.append(tenant, "scene.observed", {"id": 1})
    kept = await scene.verify()
    await scene.memory.ledger.append(tenant, "scene.observed", {"id": 2})
    assert await _chain_at(scene, kept.head) == kept.chain, "a stream that has grown still has what was there"

    await _cut_off(scene.db, tenant, after=kept.head - 1)

    shorter = await scene.verify()
    assert shorter.ok
    assert (shorter.head, shorter.chain) != (kept.head, kept.chain)
    assert await _chain_at(scene, kept.head) is None

    await scene.memory.ledger.append(tenant, "scene.observed", {"id": 3})
    assert (await scene.verify()).ok
    assert (await scene.verify()).head == kept.head
    assert await _chain_at(scene, kept.head) != kept.chain


async def _cut_off(db: SqlExecutor, external_id: str, *, after: int) -> None:
    """Remove the events behind a position, and let the stream's row say that it ends there."""
    params = {"tenant": external_id, "after": after}
    await db.execute("DELETE FROM memory_event WHERE external_id = $(tenant)p AND position > $(after)p", params)
    await db.execute("DELETE FROM event_index WHERE external_id = $(tenant)p AND position > $(after)p", params)
    await db.execute(
        "UPDATE memory_stream AS s SET head = e.position, chain = e.chain, last_recorded_at = e.recorded_at"
        " FROM memory_event AS e WHERE s.external_id = $(tenant)p AND e.external_id = $(tenant)p"
        " AND e.position = $(after)p",
        params,
    )
