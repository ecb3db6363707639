"""`memory.ledger.subscribe`: each event once, in order, whatever becomes of connections; and nobody learns whose it is.

What nobody announces is looked for only after hours here, unless a test says otherwise: then only an announcement can
have brought it.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, aclosing, closing
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from agent_reminiscence import AgentMem, CommitUnknownError, Config, InvalidInputError, NotInitializedError, sync
from agent_reminiscence.database.announcements import BUCKETS, channel_of
from agent_reminiscence.database.connection import ConnectionSettings, SqlExecutor, open_connection
from agent_reminiscence.exceptions import UsageError
from agent_reminiscence.resilience.breaker import Breaker
from agent_reminiscence.services.ledger import subscriptions
from tests.acceptance.conftest import Server, SocketServer, dsn
from tests.support.following import Follower, following
from tests.support.proxy import DeafeningProxy
from tests.support.servers import BOTH_SERVERS, SECOND_SERVER_THOROUGHLY

MakeConfig = Callable[..., Config]

_ROOT = Path(__file__).parents[2]
_PATIENCE_SECONDS = 120.0
_NEVER_SECONDS = 7_200.0
_LISTENERS = (
    "SELECT pid, query FROM pg_stat_activity"
    " WHERE datname = current_database() AND application_name = 'agent_reminiscence subscriber'"
)
_PRESENCE = (
    "SELECT l.objid FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database"
    " WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.mode = 'ShareLock'"
)


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is found by looking, unless a test lets it."""
    monkeypatch.setattr(subscriptions, "SAFETY_POLL_SECONDS", _NEVER_SECONDS)


@pytest.fixture
async def superuser(server: Server, database: str) -> AsyncIterator[SqlExecutor]:
    """A connection that no policy holds."""
    db = await open_connection(server.superuser(database))
    yield db
    db.close()


async def _until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while True:
            if await holds():
                return
            await asyncio.sleep(0.01)


async def _until_heard(superuser: SqlExecutor, buckets: int = 1) -> None:
    """Wait until somebody is present in so many buckets."""

    async def is_heard() -> bool:
        return len({row["objid"] for row in await superuser.fetch_all(_PRESENCE)}) == buckets

    await _until(is_heard)


async def _until_nobody_listens(superuser: SqlExecutor) -> None:
    async def is_gone() -> bool:
        return not await superuser.fetch_all(_LISTENERS) and not await superuser.fetch_all(_PRESENCE)

    await _until(is_gone)


async def _append(memory: AgentMem, external_id: str, events: int, **arguments: Any) -> None:
    for number in range(events):
        await memory.ledger.append(external_id, arguments.pop("kind", "world.observed"), {"n": number}, **arguments)


# What comes -----------------------------------------------------------------------------------------------------------


@BOTH_SERVERS
async def test_what_is_there_comes_first_and_then_what_is_new(
    memory: AgentMem, config: MakeConfig, superuser: SqlExecutor
) -> None:
    """The same events as `read` gives, whichever of two memories writes them, and of whatever kind."""
    note = await memory.create_active_memory("agent-1", "Tea", "The tea is in the blue tin.")
    await _append(memory, "agent-1", 2)

    async with following(memory, "agent-1") as follower, AgentMem(config()) as other:
        await follower.until(3)
        await _until_heard(superuser)
        await other.update_active_memory("agent-1", note.id, content="The tea is in the red tin.")
        await follower.until(4)
        await other.admin.consolidate("agent-1")
        await follower.until(5)
        await memory.admin.archive("agent-1", note.id)
        await follower.until(6)

    assert follower.events == await memory.ledger.read("agent-1")


async def test_it_starts_after_a_position_or_from_now_on(memory: AgentMem) -> None:
    """A position is where somebody stopped, or the head: what is written before the first event is asked for comes."""
    await _append(memory, "agent-1", 5)
    later = memory.ledger.subscribe("agent-1", after=3)
    new = memory.ledger.subscribe("agent-1", after=await memory.ledger.head("agent-1"))
    await _append(memory, "agent-1", 2)

    async with asyncio.timeout(_PATIENCE_SECONDS), aclosing(later), aclosing(new):
        assert [(await anext(later)).position for _ in range(4)] == [4, 5, 6, 7]
        assert [(await anext(new)).position for _ in range(2)] == [6, 7]


async def test_a_start_that_moves_is_refused(memory: AgentMem) -> None:
    """`after=None` was the end when the first event was asked for: whatever was written before that never came."""
    with pytest.raises(InvalidInputError, match=r"after=await ledger.head\(external_id\)"):
        memory.ledger.subscribe("agent-1", after=None)  # type: ignore[arg-type]


async def test_a_stream_that_has_no_event_yet_can_be_followed(memory: AgentMem, superuser: SqlExecutor) -> None:
    """Its first event is announced like any other."""
    async with following(memory, "nobody-yet") as follower:
        await _until_heard(superuser)
        await _append(memory, "nobody-yet", 1)
        await follower.until(1)

    assert follower.positions == [1]


async def test_only_the_kinds_and_the_actor_asked_for_come(memory: AgentMem, superuser: SqlExecutor) -> None:
    """What is left out is passed over once, and does not come later."""
    for number in range(30):
        await memory.ledger.append("agent-1", "agent.spoke", {"n": number}, actor=f"agent-{number % 3}")
        await memory.ledger.append("agent-1", "agent.thought", {"n": number}, actor="agent-0")

    async with following(memory, "agent-1", kinds=["agent.spoke", "world.observed"], actor="agent-0") as follower:
        await follower.until(10)
        await _until_heard(superuser)
        await memory.ledger.append("agent-1", "agent.thought", {}, actor="agent-0")
        await memory.ledger.append("agent-1", "agent.spoke", {}, actor="agent-1")
        await memory.ledger.append("agent-1", "world.observed", {}, actor="agent-0")
        await follower.until(11)

    assert follower.positions == [*range(1, 61, 6), 63]
    assert follower.events == await memory.ledger.read(
        "agent-1", kinds=["agent.spoke", "world.observed"], actor="agent-0"
    )


async def test_a_rare_kind_is_looked_for_piece_by_piece(
    memory: AgentMem, superuser: SqlExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the stream between two of them; what is beyond the stream's end is not passed over."""
    monkeypatch.setattr(subscriptions, "_MOST_POSITIONS", 7)
    for number in range(40):
        await memory.ledger.append("agent-1", "agent.reflected" if number % 19 == 0 else "agent.spoke", {"n": number})

    async with following(memory, "agent-1", kinds=["agent.reflected"]) as follower:
        await follower.until(3)
        await _until_heard(superuser)
        await memory.ledger.append("agent-1", "agent.spoke", {})
        await memory.ledger.append("agent-1", "agent.reflected", {})
        await follower.until(4)

    assert follower.positions == [1, 20, 39, 42]


@pytest.mark.thorough
async def test_more_than_a_page_comes_whole_while_it_grows(memory: AgentMem, config: MakeConfig) -> None:
    """However far behind a reader is and however often it is woken: no gap, no repetition."""
    async with AgentMem(config()) as other:

        async def write(writer: AgentMem, name: str) -> None:
            for number in range(300):
                await writer.ledger.append("agent-1", "world.observed", {"by": name, "n": number})

        async with following(memory, "agent-1") as follower:
            await asyncio.gather(write(memory, "one"), write(other, "two"))
            await follower.until(600)

    assert follower.positions == list(range(1, 601))
    for name in ("one", "two"):
        assert [e.payload["n"] for e in follower.events if e.payload["by"] == name] == list(range(300))


@pytest.mark.thorough
async def test_an_import_is_announced(memory: AgentMem, superuser: SqlExecutor, tmp_path: Path) -> None:
    """Its events come as they were, all of them at once."""
    await _append(memory, "agent-1", 250)
    await memory.admin.export("agent-1", tmp_path / "agent-1.jsonl")

    async with following(memory, "agent-2") as follower:
        await _until_heard(superuser)
        await memory.admin.import_(tmp_path / "agent-1.jsonl", "agent-2")
        await follower.until(250)

    assert [e.payload for e in follower.events] == [e.payload for e in await memory.ledger.read("agent-1", limit=250)]


async def test_an_erasure_comes_and_the_erased_come_empty(memory: AgentMem, superuser: SqlExecutor) -> None:
    """Who follows learns what is to be forgotten; who comes later gets the emptied events, in their places."""
    note = await memory.create_active_memory("agent-1", "Safe", "The code is tangerine.")
    async with following(memory, "agent-1") as follower:
        await follower.until(1)
        await _until_heard(superuser)
        receipt = await memory.admin.erase("agent-1", memory_id=note.id)
        await follower.until(2)
    async with following(memory, "agent-1") as later:
        await later.until(2)

    assert follower.events[0].payload["content"] == "The code is tangerine."
    assert follower.events[1].kind == "memory.erased"
    assert follower.events[1].payload["receipt_id"] == str(receipt.receipt_id)
    assert later.positions == [1, 2]
    assert "tangerine" not in repr(later.events)


@pytest.mark.thorough
async def test_a_slow_reader_has_only_a_page_in_hand(memory: AgentMem) -> None:
    """What is behind the page is read when it is asked for: by then it may have been erased."""
    for number in range(subscriptions._PAGE_EVENTS + 1):
        await memory.ledger.append("agent-1", "world.observed", {"n": number})
    last = await memory.create_active_memory("agent-1", "Safe", "The code is tangerine.")

    async with aclosing(memory.ledger.subscribe("agent-1")) as events:
        first = await anext(events)
        await memory.admin.erase("agent-1", memory_id=last.id)
        rest = [await anext(events) for _ in range(subscriptions._PAGE_EVENTS + 2)]

    assert first.position == 1
    assert rest[-1].kind == "memory.erased"
    assert "tangerine" not in repr(rest)


async def test_another_tenants_events_do_not_come(memory: AgentMem, superuser: SqlExecutor) -> None:
    """Also of a stream that shares the channel: the name wakes nobody else, and each reads as its own tenant."""
    assert memory._parts is not None
    announcements = memory._parts.stores.postgres.announcements
    assert announcements is not None
    own = announcements.name_of("agent-1")
    neighbour = next(
        name for name in (f"neighbour-{n}" for n in range(10_000)) if announcements.name_of(name).bucket == own.bucket
    )

    async with following(memory, "agent-1") as follower:
        await _until_heard(superuser)
        await _append(memory, neighbour, 3)
        await _append(memory, "agent-1", 1)
        await follower.until(1)
        await _append(memory, neighbour, 3)
        await _append(memory, "agent-1", 1)
        await follower.until(2)

    assert {event.external_id for event in follower.events} == {"agent-1"}
    assert follower.positions == [1, 2]


_WRITER = """
import asyncio, sys
from pydantic import SecretStr
from agent_reminiscence import AgentMem, Config

async def main():
    address = SecretStr(sys.argv[1])
    config = Config(postgres_dsn=address, embedding_provider="hash", embedding_dimension=64, worker=False)
    async with AgentMem(config) as memory:
        for number in range(int(sys.argv[2])):
            await memory.ledger.append("agent-1", "world.observed", {"n": number})

asyncio.run(main())
"""


@pytest.mark.promise
@SECOND_SERVER_THOROUGHLY
async def test_what_another_process_writes_comes(
    memory: AgentMem, server: Server, database: str, superuser: SqlExecutor
) -> None:
    """Two processes share nothing but the database."""
    async with following(memory, "agent-1") as follower:
        await _until_heard(superuser)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            _WRITER,
            dsn(server.login(database)),
            "20",
            env=os.environ | {"PYTHONPATH": str(_ROOT)},
            stdin=subprocess.DEVNULL,
        )
        assert await process.wait() == 0
        await follower.until(20)

    assert follower.positions == list(range(1, 21))


# Who listens ----------------------------------------------------------------------------------------------------------


async def test_one_connection_listens_for_all_and_only_while_there_are_any(
    memory: AgentMem, superuser: SqlExecutor
) -> None:
    """Fifty subscriptions cost one connection, none of the pool's; without any there is none."""
    assert memory._parts is not None
    await _append(memory, "agent-0", 1)
    assert await superuser.fetch_all(_LISTENERS) == []

    followers = [Follower(memory, f"agent-{number % 25}") for number in range(50)]
    announcements = memory._parts.stores.postgres.announcements
    assert announcements is not None
    buckets = {announcements.name_of(f"agent-{number}").bucket for number in range(25)}
    await _until_heard(superuser, len(buckets))
    assert len(await superuser.fetch_all(_LISTENERS)) == 1
    assert {row["objid"] for row in await superuser.fetch_all(_PRESENCE)} == buckets
    free = memory._parts.stores.postgres._free
    await _until(lambda: _is_true(free._value == 10))
    for number in range(1, 25):
        await _append(memory, f"agent-{number}", 1)
    for follower in followers:
        await follower.until(1)

    # Those that stay are still heard, and what only others needed is given up.
    for follower in followers[1:]:
        await follower.leave()
    await _until_heard(superuser, 1)
    await _append(memory, "agent-0", 1)
    await followers[0].until(2)
    await followers[0].leave()
    await _until_nobody_listens(superuser)


async def test_a_subscription_begins_again_after_the_last_has_left(memory: AgentMem, superuser: SqlExecutor) -> None:
    """At once and later."""
    for number in range(4):
        async with following(memory, "agent-1", after=number) as follower:
            await _append(memory, "agent-1", 1)
            await follower.until(1)
        assert follower.positions == [number + 1]
        if number % 2:
            await _until_nobody_listens(superuser)


@pytest.mark.thorough
async def test_leaving_the_loop_leaves_nothing_behind(memory: AgentMem, superuser: SqlExecutor) -> None:
    """By `aclose`, by a timeout that cancels the wait, and by a `break` once the collector has come."""
    await _append(memory, "agent-1", 2)

    events = memory.ledger.subscribe("agent-1")
    assert (await anext(events)).position == 1
    await _until_heard(superuser)
    await events.aclose()
    await _until_nobody_listens(superuser)

    async def all_of_it() -> None:
        async for _ in memory.ledger.subscribe("agent-1"):
            pass

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(all_of_it(), 0.5)
    gc.collect()
    await _until_nobody_listens(superuser)

    async for event in memory.ledger.subscribe("agent-1"):
        if event.position == 2:
            break
    gc.collect()
    await _until_nobody_listens(superuser)
    assert await memory.ledger.head("agent-1") == 2


async def test_closing_the_memory_ends_a_subscription_with_an_error(config: MakeConfig, superuser: SqlExecutor) -> None:
    """A stream has no end: a loop that just ended would look as if it had. Nothing stays open."""
    async with AgentMem(config()) as memory:
        ledger = memory.ledger
        await _append(memory, "agent-1", 2)
        waiting, idle = Follower(memory, "agent-1"), ledger.subscribe("agent-1")
        assert (await anext(idle)).position == 1
        await waiting.until(2)
        await _until_heard(superuser)

    with pytest.raises(NotInitializedError, match="was closed while a subscription was open"):
        await waiting.ended()
    # What it has in hand is still given.
    assert (await anext(idle)).position == 2
    with pytest.raises(NotInitializedError, match="was closed while a subscription was open"):
        await anext(idle)
    with pytest.raises(NotInitializedError, match="was closed"):
        await anext(ledger.subscribe("agent-1"))
    await _until_nobody_listens(superuser)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"after": -1}, "after"),
        ({"after": "7"}, "after"),
        ({"kinds": "agent.spoke"}, "kinds"),
        ({"actor": ""}, "actor"),
        ({"external_id": ""}, "external_id"),
    ],
)
async def test_what_cannot_be_meant_is_refused_at_once(memory: AgentMem, arguments: dict[str, Any], named: str) -> None:
    """Before anything is waited for."""
    with pytest.raises(InvalidInputError, match=named):
        memory.ledger.subscribe(**({"external_id": "agent-1"} | arguments))


# What is lost and comes back ------------------------------------------------------------------------------------------


@pytest.mark.promise
async def test_a_listener_that_is_ended_is_replaced_and_nothing_is_lost(
    memory: AgentMem, config: MakeConfig, superuser: SqlExecutor
) -> None:
    """Again and again, while somebody writes without a pause."""
    async with AgentMem(config()) as other, following(memory, "agent-1") as follower:
        written, is_over = 0, asyncio.Event()

        async def write() -> None:
            nonlocal written
            while not is_over.is_set():
                await other.ledger.append("agent-1", "world.observed", {"n": written})
                written += 1

        writing = asyncio.create_task(write())
        ended: set[int] = set()
        for _ in range(3):
            await _until_heard(superuser)
            (listener,) = await superuser.fetch_all(_LISTENERS)
            assert listener["pid"] not in ended
            ended.add(listener["pid"])
            await superuser.execute("SELECT pg_terminate_backend($(pid)p)", {"pid": listener["pid"]})
            await _until(lambda: _is_gone(superuser, ended))
        await _until_heard(superuser)
        is_over.set()
        await writing
        await follower.until(written)

    assert follower.positions == list(range(1, written + 1))


async def _is_gone(superuser: SqlExecutor, ended: set[int]) -> bool:
    return not ended & {row["pid"] for row in await superuser.fetch_all(_LISTENERS)}


@pytest.fixture
async def deafened(
    config: MakeConfig, socket_server: SocketServer, database: str
) -> AsyncIterator[tuple[DeafeningProxy, MakeConfig]]:
    """A way to the server on which notifications do not pass, and settings that take it."""
    address: ConnectionSettings = socket_server.superuser("postgres")
    async with DeafeningProxy(address.host, address.port) as proxy:

        def make(**settings: object) -> Config:
            return config(postgres_dsn=dsn(proxy.settings(socket_server.login(database))), **settings)

        yield proxy, make


async def test_where_notifications_do_not_pass_it_looks_by_itself(
    deafened: tuple[DeafeningProxy, MakeConfig],
    memory: AgentMem,
    superuser: SqlExecutor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As behind a pooler. It keeps no connection that hears nothing, and once they pass it is told."""
    monkeypatch.setattr(subscriptions, "PROOF_SECONDS", 0.3)
    proxy, config = deafened
    async with (
        AgentMem(config(subscription_poll_seconds=0.05)) as behind,
        following(behind, "agent-1") as follower,
        following(behind, "agent-2"),
    ):
        await _append(memory, "agent-1", 3)
        await follower.until(3)
        await _until(lambda: _is_true(proxy.withheld > 0))
        await _until_nobody_listens(superuser)
        await _append(memory, "agent-1", 3)
        await follower.until(6)

    assert follower.positions == list(range(1, 7))


async def test_a_pooler_that_is_gone_is_noticed(
    deafened: tuple[DeafeningProxy, MakeConfig],
    memory: AgentMem,
    superuser: SqlExecutor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From time to time it is tried again whether notifications pass."""
    monkeypatch.setattr(subscriptions, "PROOF_SECONDS", 0.3)
    monkeypatch.setattr(subscriptions, "DEAF_SECONDS", 0.1)
    proxy, config = deafened
    async with AgentMem(config(subscription_poll_seconds=600)) as behind, following(behind, "agent-1") as follower:
        await _until(lambda: _is_true(proxy.withheld > 1))
        proxy.passes_notifications = True
        monkeypatch.setattr(subscriptions, "PROOF_SECONDS", 60.0)
        await _until_heard(superuser)
        await _append(memory, "agent-1", 3)
        await follower.until(3)

    assert follower.positions == [1, 2, 3]


async def _is_true(value: bool) -> bool:
    return value


async def test_what_nobody_announced_is_found_by_looking(
    memory: AgentMem, config: MakeConfig, superuser: SqlExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a write whose server died between its COMMIT and what follows it."""
    monkeypatch.setattr(subscriptions, "SAFETY_POLL_SECONDS", 0.2)
    async with AgentMem(config()) as silent, following(memory, "agent-1") as follower:
        assert silent._parts is not None
        silent._parts.stores.postgres._announcements = None
        await _until_heard(superuser)
        await _append(silent, "agent-1", 2)
        await follower.until(2)

    assert follower.positions == [1, 2]


async def test_a_stream_that_is_slow_to_read_pauses_no_other(
    config: MakeConfig, memory: AgentMem, superuser: SqlExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its subscription waits before it looks again; that of another stream goes on."""
    monkeypatch.setattr(subscriptions, "Breaker", partial(Breaker, first_pause_seconds=_NEVER_SECONDS))
    monkeypatch.setattr(subscriptions, "_MAX_PAUSE_SECONDS", _NEVER_SECONDS)
    await _append(memory, "slow", 1)
    await superuser.execute_script(
        "CREATE POLICY slow ON reminiscence.memory_event AS RESTRICTIVE FOR SELECT"
        " USING (external_id <> 'slow' OR pg_sleep(60) IS NULL)"
    )
    try:
        async with (
            AgentMem(config(statement_timeout_seconds=0.5)) as opened,
            following(opened, "slow") as slow,
            following(opened, "quick") as quick,
        ):
            assert opened._parts is not None
            followed = opened._parts.subscriptions

            async def is_paused() -> bool:
                return any(place.answers.is_open for places in followed._places.values() for place in places)

            await _until(is_paused)
            await _until_heard(superuser, 2)
            await _append(memory, "quick", 3)
            await quick.until(3)
    finally:
        await superuser.execute_script("DROP POLICY slow ON reminiscence.memory_event")

    assert quick.positions == [1, 2, 3]
    assert slow.positions == []


@pytest.mark.thorough
async def test_recall_of_a_neighbour_does_not_notice_subscribers(memory: AgentMem, config: MakeConfig) -> None:
    """Many follow a busy stream, and some its own; each of its questions has the same answer, and nothing is lost."""
    await memory.create_active_memory("neighbour", "Tea", "The tea is in the blue tin.")
    before = await memory.retrieve_memories("neighbour", "Where is the tea?")
    async with AgentMem(config()) as other, AsyncExitStack() as stack:
        followers = [
            await stack.enter_async_context(following(other, "busy" if number % 8 else "neighbour"))
            for number in range(64)
        ]
        writing = asyncio.create_task(_append(memory, "busy", 100))
        answers = [await memory.retrieve_memories("neighbour", "Where is the tea?") for _ in range(20)]
        answers += await asyncio.gather(*(other.retrieve_memories("neighbour", "Where is the tea?") for _ in range(9)))
        await writing
        for number, follower in enumerate(followers):
            await follower.until(100 if number % 8 else 1)

    for answer in answers:
        assert [(hit.chunk_id, hit.content) for hit in answer.hits] == [
            (hit.chunk_id, hit.content) for hit in before.hits
        ]
    assert all(one.positions == list(range(1, 101)) for number, one in enumerate(followers) if number % 8)


# What is said ---------------------------------------------------------------------------------------------------------


@pytest.fixture
async def eavesdropper(server: Server, database: str) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    """Somebody who listens to every channel."""
    settings = server.superuser(database)
    connection = await psycopg.AsyncConnection.connect(
        host=settings.host, port=settings.port, user=settings.user, dbname=settings.database, autocommit=True
    )
    for bucket in range(BUCKETS):
        await connection.execute(f"LISTEN {channel_of(bucket)}".encode())
    yield connection
    await connection.close()


async def _overheard(connection: psycopg.AsyncConnection[Any]) -> list[psycopg.Notify]:
    """All that was said until now: the last of it is what this says itself."""
    await connection.execute(f"NOTIFY {channel_of(0)}, 'enough'".encode())
    heard: list[psycopg.Notify] = []
    async for one in connection.notifies(timeout=_PATIENCE_SECONDS):
        if one.payload == "enough":
            break
        heard.append(one)
    return heard


async def test_where_nobody_subscribes_nothing_is_said(
    memory: AgentMem, eavesdropper: psycopg.AsyncConnection[Any], superuser: SqlExecutor
) -> None:
    """Neither before nor after somebody did, nor of a stream that nobody follows."""
    await _append(memory, "agent-1", 3)
    before = await _overheard(eavesdropper)
    async with following(memory, "agent-1") as follower:
        await _until_heard(superuser)
        await _append(memory, "agent-1", 1)
        await follower.until(4)
    meanwhile = await _overheard(eavesdropper)
    await _until_nobody_listens(superuser)
    await _append(memory, "agent-1", 3)

    assert before == []
    assert len(meanwhile) == 1
    assert await _overheard(eavesdropper) == []


async def test_what_is_said_names_nobody(
    memory: AgentMem, eavesdropper: psycopg.AsyncConnection[Any], superuser: SqlExecutor
) -> None:
    """No text, no id, and no hash that could be compared with those of guessed ids; the same name each time."""
    person = "anna.smith@example.org"
    async with following(memory, person) as follower:
        await _until_heard(superuser)
        await memory.create_active_memory(person, "Safe", "The code is tangerine.", actor="anna")
        await memory.ledger.append(person, "world.observed", {"text": "It rains."})
        await follower.until(2)

    said = await _overheard(eavesdropper)
    assert len(said) == 2
    (spoken,) = {(one.channel, one.payload) for one in said}
    channel, name = spoken
    assert channel.removeprefix("reminiscence_").isdigit()
    assert len(name) == 32
    assert not set(name) - set("0123456789abcdef")
    guesses = [hashlib.new(kind, person.encode()).hexdigest() for kind in ("md5", "sha1", "sha256", "sha512")]
    assert not any(name in guess for guess in guesses)


async def test_the_key_is_each_databases_own_and_no_login_reads_it(
    memory: AgentMem, server: Server, database: str, superuser: SqlExecutor
) -> None:
    """Outside a transaction with a role the login has no right to it, and so has nobody else."""
    (row,) = await superuser.fetch_all(
        "SELECT value FROM reminiscence.schema_parameter WHERE name = 'announcement_key'"
    )
    assert len(row["value"]) == 64
    login = await open_connection(server.login(database))
    try:
        with pytest.raises(Exception, match="permission denied"):
            await login.fetch_all("SELECT value FROM reminiscence.schema_parameter")
    finally:
        login.close()


async def test_a_write_whose_announcement_is_refused_says_that_it_may_be_there(
    memory: AgentMem, superuser: SqlExecutor
) -> None:
    """It is never reported as not written; with a key, the call finds out by itself and writes once."""
    await superuser.execute_script("REVOKE EXECUTE ON FUNCTION pg_try_advisory_xact_lock(int, int) FROM PUBLIC")
    try:
        with pytest.raises(CommitUnknownError, match=r"unknown whether the write took effect.*idempotency_key"):
            await memory.ledger.append("agent-1", "world.observed", {"n": 1})
        await memory.ledger.append("agent-1", "world.observed", {"n": 2}, idempotency_key="second")
    finally:
        await superuser.execute_script("GRANT EXECUTE ON FUNCTION pg_try_advisory_xact_lock(int, int) TO PUBLIC")

    assert [event.payload["n"] for event in await memory.ledger.read("agent-1")] == [1, 2]


# Without await --------------------------------------------------------------------------------------------------------


@pytest.fixture
def blocking(config: MakeConfig) -> Iterator[sync.AgentMem]:
    """A blocking memory on this test's database."""
    with sync.AgentMem(config()) as opened:
        yield opened


def test_a_stream_is_followed_without_await(blocking: sync.AgentMem) -> None:
    """`next` waits for the next event, which another thread writes."""
    blocking.ledger.append("agent-1", "world.observed", {"n": 1})
    with closing(blocking.ledger.subscribe("agent-1")) as events:
        first = next(events)
        writing = threading.Timer(0.2, blocking.ledger.append, ("agent-1", "world.observed", {"n": 2}))
        writing.start()
        second = next(events)
        writing.join()

        assert [first.payload["n"], second.payload["n"]] == [1, 2]
    with pytest.raises(StopIteration):
        next(events)
    with pytest.raises(UsageError, match="after"):
        blocking.ledger.subscribe("agent-1", after=-1)


def test_closing_the_memory_ends_a_waiting_thread(config: MakeConfig) -> None:
    """With the error that every call under way gets."""
    raised: list[BaseException] = []
    has_first = threading.Event()
    memory = sync.AgentMem(config())
    memory.initialize()
    memory.ledger.append("agent-1", "world.observed", {"n": 1})

    def follow() -> None:
        try:
            for _ in memory.ledger.subscribe("agent-1"):
                has_first.set()
        except NotInitializedError as error:
            raised.append(error)

    thread = threading.Thread(target=follow)
    thread.start()
    assert has_first.wait(_PATIENCE_SECONDS)
    memory.close()
    thread.join(_PATIENCE_SECONDS)

    assert not thread.is_alive()
    assert len(raised) == 1
