"""What a caller sees of lost connections, slow statements and cancelled calls: all of a write or none of it."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from typing import Any, get_args
from uuid import UUID

import pytest

from agent_reminiscence import (
    ActiveMemory,
    AgentMem,
    AgentModels,
    CommitUnknownError,
    Config,
    StoreTimeoutError,
    StoreUnavailableError,
)
from agent_reminiscence.database.connection import SqlExecutor, open_connection
from agent_reminiscence.resilience import retries
from agent_reminiscence.services.memories.fold import fold
from tests.acceptance.conftest import SocketServer, dsn
from tests.conftest import TEST_DIMENSION
from tests.support.fakes import DistantEmbedder
from tests.support.proxy import FaultyProxy, Loss
from tests.support.scripted import ScriptedModel, answer
from tests.support.steps import all_events, head_of, lines, texts, wait_until_blocked

_SEED = 20_260_505
_TEXT = lines(["The gate is green.", "The door is red.", "The roof is blue."])
_EDITED = lines(["The gate is green.", "The door is white.", "The roof is blue."])

# What is done to a memory of one version, and what its text is afterwards.
Change = Callable[[AgentMem, str, ActiveMemory, str | None], Awaitable[object]]
_CHANGES: dict[str, Change] = {
    "create": lambda memory, tenant, note, key: memory.create_active_memory(
        tenant, "New", "It is new.", idempotency_key=key
    ),
    "update": lambda memory, tenant, note, key: memory.update_active_memory(
        tenant, note.id, content=_EDITED, idempotency_key=key
    ),
    "append": lambda memory, tenant, note, key: memory.ledger.append(
        tenant, "world.observed", {"text": "It rains."}, idempotency_key=key
    ),
    "archive": lambda memory, tenant, note, key: memory.admin.archive(tenant, note.id),
    # A turn's id does what an idempotency key does.
    "turn": lambda memory, tenant, note, key: memory.update_active_memory(
        tenant, note.id, append={"text": "It rains.", "speaker": "Ann", "id": key}
    ),
    "conversation": lambda memory, tenant, note, key: memory.conversation(tenant, f"chat of {note.id}").add(
        "user", "It rains.", id=key
    ),
}
# Twice as many messages as any other, and so four times the time.
_UPDATE = pytest.param("update", marks=pytest.mark.thorough)


@pytest.fixture
async def superuser(socket_server: SocketServer, database: str) -> AsyncIterator[SqlExecutor]:
    """A connection that no policy holds."""
    db = await open_connection(socket_server.superuser(database))
    try:
        await db.execute_script("SET search_path = reminiscence, public")
        yield db
    finally:
        db.close()


@pytest.fixture
async def proxy(socket_server: SocketServer) -> AsyncIterator[FaultyProxy]:
    """A way to the server on which things get lost."""
    address = socket_server.superuser("postgres")
    async with FaultyProxy(address.host, address.port) as opened:
        yield opened


@pytest.fixture
def behind_proxy(
    config: Callable[..., Config], proxy: FaultyProxy, socket_server: SocketServer, database: str
) -> Callable[..., Config]:
    """Makes a `Config` that goes by way of the proxy."""

    def make(**settings: object) -> Config:
        return config(postgres_dsn=dsn(proxy.settings(socket_server.login(database))), **settings)

    return make


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries that follow each other at once."""
    monkeypatch.setattr(retries, "RETRY_FIRST_WAIT_SECONDS", 0.001)


async def _check_whole(memory: AgentMem, superuser: SqlExecutor, tenant: str) -> None:
    """Ledger, memories, chunks and the stream's counts say the same, to the last row."""
    events = await all_events(memory, tenant)
    assert [event.position for event in events] == list(range(1, len(events) + 1))
    notes = await superuser.fetch_all(
        "SELECT memory_id, version, title, content, archived_at, chunk_ids FROM active_memory"
        " WHERE external_id = $(tenant)p",
        {"tenant": tenant},
    )
    created = [event for event in events if event.kind == "memory.created"]
    assert {str(note["memory_id"]) for note in notes} == {event.payload["memory_id"] for event in created}
    live = 0
    for note in notes:
        own = [event for event in events if event.payload.get("memory_id") == str(note["memory_id"])]
        told = fold(own, lambda version, consolidated: 0)
        assert (told.version, told.title, told.content) == (note["version"], note["title"], note["content"])
        assert told.archived_at == note["archived_at"]
        chunks = await superuser.fetch_all(
            "SELECT c.content, c.superseded_at"
            " FROM active_memory AS m, unnest(m.chunk_ids) WITH ORDINALITY AS u (id, n)"
            " JOIN memory_chunk AS c ON c.external_id = $(tenant)p AND c.chunk_id = u.id"
            " WHERE m.external_id = $(tenant)p AND m.memory_id = $(memory)p::uuid ORDER BY u.n",
            {"tenant": tenant, "memory": UUID(str(note["memory_id"]))},
        )
        assert "".join(chunk["content"] for chunk in chunks) == note["content"]
        assert all(chunk["superseded_at"] is None for chunk in chunks)
        live += len(chunks)
    stream = await superuser.fetch_one(
        "SELECT head, live_chunks, (SELECT count(*) FROM memory_chunk AS c"
        " WHERE c.external_id = s.external_id AND c.superseded_at IS NULL) AS living"
        " FROM memory_stream AS s WHERE external_id = $(tenant)p",
        {"tenant": tenant},
    )
    assert stream == {"head": len(events), "live_chunks": live, "living": live}


async def _check_pool(memory: AgentMem, size: int) -> None:
    """Every place of the pool is free again, and no connection is kept beyond its size."""
    assert memory._parts is not None
    free = memory._parts.stores.postgres._free
    # What was recalled is noted in the background, which takes a place for a moment.
    for _ in range(3_000):
        if free._value == size:
            break
        await asyncio.sleep(0.02)
    assert free._value == size
    assert len(memory._parts.stores.postgres._idle) <= size


# Lost connections -----------------------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("loss", get_args(Loss))
@pytest.mark.parametrize("change", [_UPDATE if name == "update" else name for name in _CHANGES])
async def test_a_write_with_a_key_survives_a_cut_at_any_message(
    behind_proxy: Callable[..., Config],
    proxy: FaultyProxy,
    superuser: SqlExecutor,
    hurried: None,
    change: str,
    loss: Loss,
) -> None:
    """Wherever the connection breaks, the call is made again, and the write is there exactly once."""
    async with AgentMem(behind_proxy()) as memory:
        for message in count(1):
            tenant = f"agent-{message}"
            note = await memory.create_active_memory(tenant, "House", _TEXT)
            proxy.cut_at(message, loss)
            await _CHANGES[change](memory, tenant, note, "key-1")
            was_cut = proxy.cuts == 1
            proxy.cut_at(0, loss)

            assert await head_of(memory, tenant) == 2
            await _check_whole(memory, superuser, tenant)
            if not was_cut:
                break
        assert message > 5
        await _check_pool(memory, 10)


@pytest.mark.thorough
@pytest.mark.parametrize("loss", ["message", "answer"])
@pytest.mark.parametrize("change", ["create", _UPDATE, "append", "turn", "conversation"])
async def test_a_write_without_a_key_is_not_repeated_once_commit_was_sent(
    behind_proxy: Callable[..., Config],
    proxy: FaultyProxy,
    superuser: SqlExecutor,
    hurried: None,
    change: str,
    loss: Loss,
) -> None:
    """Cut at COMMIT the call says that it does not know; cut before that it is made again; never is it made twice."""
    unknown = 0
    async with AgentMem(behind_proxy()) as memory:
        for message in count(1):
            tenant = f"agent-{message}"
            # What a new connection prepares takes messages, too. Once all is prepared COMMIT is the same one each time.
            known = await memory.create_active_memory("prepared", "House", _TEXT)
            await _CHANGES[change](memory, "prepared", known, None)
            note = await memory.create_active_memory(tenant, "House", _TEXT)
            proxy.cut_at(message, loss)
            try:
                await _CHANGES[change](memory, tenant, note, None)
            except CommitUnknownError:
                unknown += 1
                expected = 2 if loss == "answer" else 1
            else:
                expected = 2
            was_cut = proxy.cuts == 1
            proxy.cut_at(0, loss)

            assert await head_of(memory, tenant) == expected
            await _check_whole(memory, superuser, tenant)
            if not was_cut:
                break
    assert unknown == 1


@pytest.mark.thorough
@pytest.mark.parametrize("loss", get_args(Loss))
async def test_a_reflection_survives_a_cut_at_any_message(
    behind_proxy: Callable[..., Config], proxy: FaultyProxy, hurried: None, loss: Loss
) -> None:
    """Also at its COMMIT: the model is asked once, and one belief and one cost are written."""
    script = ScriptedModel(answer({"belief": "Mara bakes.", "based_on": [1]}))
    async with AgentMem(behind_proxy(), models=AgentModels(reflector=script.model)) as memory:
        for message in count(1):
            tenant = f"agent-{message}"
            await memory.ledger.append(tenant, "agent.spoke", {"text": "I bake."}, actor="mara")
            script.asked.clear()
            proxy.cut_at(message, loss)
            report = await memory.admin.reflections.run(tenant, "mara", threshold=1)
            was_cut = proxy.cuts == 1
            proxy.cut_at(0, loss)

            assert (report.outcome, len(script.asked)) == ("written", 1)
            kinds = [event.kind for event in await all_events(memory, tenant)]
            assert kinds == ["agent.spoke", "memory.model_asked", "agent.reflected"]
            if not was_cut:
                break
        assert message > 10
        await _check_pool(memory, 10)


@pytest.mark.parametrize("loss", ["message", "answer"])
async def test_a_read_survives_a_cut_at_any_message(
    behind_proxy: Callable[..., Config], proxy: FaultyProxy, hurried: None, loss: Loss
) -> None:
    """Reads change nothing, so they are made again wherever they break; at COMMIT they have all they came for."""
    async with AgentMem(behind_proxy()) as memory:
        note = await memory.create_active_memory("agent-1", "House", _TEXT)
        reads: list[Callable[[], Awaitable[Any]]] = [
            lambda: memory.get_active_memories("agent-1"),
            lambda: memory.retrieve_memories("agent-1", "What colour is the door?"),
            lambda: memory.ledger.read("agent-1"),
            lambda: memory.ledger.head("agent-1"),
        ]
        for read in reads:
            expected = await read()
            for message in count(1):
                proxy.cut_at(message, loss)
                found = await read()
                if hasattr(found, "hits"):
                    # Scores fade with time.
                    assert texts(found) == texts(expected)
                else:
                    assert found == expected
                if not proxy.cuts:
                    break
            # BEGIN with the settings, the statement and COMMIT, at the least.
            assert message > 3
        assert (await memory.get_active_memories("agent-1"))[0].version == note.version


async def test_a_server_that_falls_silent_is_given_up(
    behind_proxy: Callable[..., Config],
    proxy: FaultyProxy,
    superuser: SqlExecutor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A machine that hangs or a firewall that forgets sends no error; the call ends all the same and wrote nothing."""
    monkeypatch.setattr("agent_reminiscence.database.postgres_manager.ANSWER_GRACE_SECONDS", 0.2)
    monkeypatch.setattr("agent_reminiscence.database.connection.CONNECT_TIMEOUT_SECONDS", 3)
    monkeypatch.setattr(retries, "RETRY_TOTAL_SECONDS", 0.0)
    async with AgentMem(behind_proxy(statement_timeout_seconds=3, postgres_pool_size=2)) as memory:
        note = await memory.create_active_memory("agent-1", "House", _TEXT)
        began = time.monotonic()

        # Held up in the middle, so that the silence falls into a transaction.
        await superuser.execute_script("BEGIN; SELECT FROM memory_stream FOR UPDATE")
        update = asyncio.create_task(memory.update_active_memory("agent-1", note.id, content=_EDITED))
        await wait_until_blocked(superuser)
        proxy.fall_silent()
        await superuser.execute_script("ROLLBACK")
        with pytest.raises(StoreUnavailableError, match=r"no answer within 3.2 s"):
            await update
        with pytest.raises(StoreUnavailableError, match="cannot connect"):
            await memory.get_active_memories("agent-1")

        assert time.monotonic() - began < 30
        proxy.speak()
        assert [m.version for m in await memory.get_active_memories("agent-1")] == [1]
        await _check_pool(memory, 2)


async def test_a_retry_is_logged_with_ids_only(
    behind_proxy: Callable[..., Config], proxy: FaultyProxy, hurried: None, caplog: pytest.LogCaptureFixture
) -> None:
    """Who runs the server hears of it, and learns nothing of what was written."""
    async with AgentMem(behind_proxy()) as memory:
        proxy.cut_at(5, "message")
        with caplog.at_level(logging.INFO, "agent_reminiscence"):
            await memory.create_active_memory("agent-1", "Diary", "My secret diary.")

    (record,) = [record for record in caplog.records if record.name == "agent_reminiscence.retries"]
    assert record.levelno == logging.WARNING
    assert record.getMessage() == "the store was unavailable; retrying create (attempt 2 of 5): StoreUnavailableError"
    assert (record.__dict__["external_id"], record.__dict__["attempt"]) == ("agent-1", 2)
    assert not any("diary" in f"{record.getMessage()} {record.__dict__}".lower() for record in caplog.records)


# Slow statements ------------------------------------------------------------------------------------------------------


async def test_a_statement_timeout_writes_nothing_and_is_not_repeated(
    config: Callable[..., Config], superuser: SqlExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    """What took too long once would again; the caller is told which setting it is."""
    async with AgentMem(config(statement_timeout_seconds=1.5)) as memory:
        note = await memory.create_active_memory("agent-1", "House", _TEXT)
        for lock in ("memory_event", "memory_chunk", "active_memory"):
            await superuser.execute_script(f"BEGIN; LOCK {lock}")
            began = time.monotonic()

            with pytest.raises(StoreTimeoutError, match="statement_timeout_seconds sets the limit"):
                await memory.update_active_memory("agent-1", note.id, content=_EDITED, idempotency_key="key-1")

            assert time.monotonic() - began < 30
            await superuser.execute_script("ROLLBACK")
            assert await head_of(memory, "agent-1") == 1
            await _check_whole(memory, superuser, "agent-1")

        await superuser.execute_script("BEGIN; LOCK memory_chunk, active_memory")
        with pytest.raises(StoreTimeoutError):
            await memory.get_active_memories("agent-1")
        with pytest.raises(StoreTimeoutError):
            await memory.retrieve_memories("agent-1", "What colour is the door?")
        await superuser.execute_script("ROLLBACK")

        assert [record for record in caplog.records if record.name == "agent_reminiscence.retries"] == []
        written = await memory.update_active_memory("agent-1", note.id, content=_EDITED, idempotency_key="key-1")
        assert written.version == 2


async def test_a_statement_that_waits_for_a_lock_is_ended_by_the_server(
    config: Callable[..., Config], superuser: SqlExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call says which setting limits it, the write is absent, and the next one is made as if nothing had been."""
    monkeypatch.setattr(retries, "RETRY_TOTAL_SECONDS", 0.0)
    async with AgentMem(config(statement_timeout_seconds=1.5)) as memory:
        note = await memory.create_active_memory("agent-1", "House", _TEXT)
        await superuser.execute_script("BEGIN; LOCK chunk_vector_1")

        with pytest.raises(StoreTimeoutError, match=r"statement timeout; statement_timeout_seconds sets the limit"):
            await memory.update_active_memory("agent-1", note.id, content=_EDITED)

        await superuser.execute_script("ROLLBACK")
        assert (await memory.update_active_memory("agent-1", note.id, content=_EDITED)).version == 2
        await _check_whole(memory, superuser, "agent-1")


async def test_what_follows_a_write_may_time_out_without_it(
    config: Callable[..., Config], superuser: SqlExecutor
) -> None:
    """The write is stored and returned; its vectors are counted as missing and made later."""
    async with AgentMem(config(statement_timeout_seconds=1.5), embedder=DistantEmbedder(TEST_DIMENSION)) as memory:
        await superuser.execute_script("BEGIN; LOCK embedding_cache")
        note = await memory.create_active_memory("agent-1", "House", _TEXT)
        await superuser.execute_script("ROLLBACK")

        assert note.write is not None
        assert note.write.vectors_missing == 3
        assert texts(await memory.retrieve_memories("agent-1", "red door"))[0] == "The door is red."
        (report,) = await memory.admin.consolidate("agent-1")
        assert (report.vectors_filled, report.vectors_missing) == (3, 0)


# Cancelled calls ------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
async def test_calls_cancelled_at_random_points_are_whole_or_absent(
    config: Callable[..., Config], superuser: SqlExecutor
) -> None:
    """A cancelled call leaves no half of a write, no lock and no connection behind."""
    chance = random.Random(_SEED)
    counts = {"done": 0, "cancelled": 0}
    patience_seconds = 0.06
    async with AgentMem(config(postgres_pool_size=3)) as memory:
        notes = [await memory.create_active_memory("agent-1", "House", f"{_TEXT}\n\nNumber {n}.") for n in range(3)]

        async def call(number: int) -> None:
            note = chance.choice(notes)
            match number % 6:
                case 0:
                    await memory.create_active_memory("agent-1", "New", f"{_TEXT}\n\nThe fence is number {number}.")
                case 1:
                    await memory.update_active_memory("agent-1", note.id, content=f"{_EDITED}\n\nEdit {number}.")
                case 2:
                    await memory.retrieve_memories("agent-1", "What colour is the door?")
                case 3:
                    await memory.update_active_memory(
                        "agent-1", note.id, append={"text": "It rains.", "id": f"t{number}"}
                    )
                case 4:
                    await memory.conversation("agent-1", "chat").add("user", "It rains.", id=f"t{number}")
                case _:
                    await memory.get_active_memories("agent-1")

        async def disturbed(number: int) -> None:
            task = asyncio.create_task(call(number))
            nonlocal patience_seconds
            await asyncio.sleep(chance.uniform(0, patience_seconds))
            task.cancel()
            cancelled = await _was_cancelled(task)
            # As long as this machine takes for a call, so that some are cancelled at its end.
            patience_seconds *= 1.05 if cancelled else 0.9
            counts["cancelled" if cancelled else "done"] += 1

        for start in range(0, 200, 5):
            await asyncio.gather(*(disturbed(number) for number in range(start, start + 5)))

        assert min(counts.values()) > 10, counts
        await _check_pool(memory, 3)
        written = await memory.update_active_memory("agent-1", notes[0].id, content="The end.")
        assert written.content == "The end."
        await _check_whole(memory, superuser, "agent-1")
        rows = await superuser.fetch_all(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND state LIKE 'idle in transaction%'"
        )
        assert rows == []


async def _was_cancelled(task: asyncio.Task[Any]) -> bool:
    try:
        await task
    except asyncio.CancelledError:
        return True
    return False


async def test_calls_cancelled_while_they_wait_for_a_connection_leave_their_place(
    config: Callable[..., Config], superuser: SqlExecutor
) -> None:
    """They have begun nothing, so nothing is to be undone, and who waits behind them moves up."""
    async with AgentMem(config(postgres_pool_size=1)) as memory:
        note = await memory.create_active_memory("agent-1", "House", _TEXT)
        await superuser.execute_script("BEGIN; SELECT FROM memory_stream FOR UPDATE")
        holding = asyncio.create_task(memory.update_active_memory("agent-1", note.id, content=_EDITED))
        await wait_until_blocked(superuser)
        waiting = [asyncio.create_task(memory.create_active_memory("agent-1", "New", f"No {n}.")) for n in range(5)]
        await asyncio.sleep(0.05)
        for task in waiting[:4]:
            task.cancel()
        await superuser.execute_script("ROLLBACK")
        await holding
        results = await asyncio.gather(*waiting, return_exceptions=True)

        assert [isinstance(result, asyncio.CancelledError) for result in results] == [True] * 4 + [False]
        assert await head_of(memory, "agent-1") == 3
        await _check_pool(memory, 1)


async def test_a_call_cancelled_between_attempts_stops_at_once(
    behind_proxy: Callable[..., Config],
    proxy: FaultyProxy,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whoever gave up on the call is not kept by its retries."""
    monkeypatch.setattr(retries, "RETRY_FIRST_WAIT_SECONDS", 600.0)
    monkeypatch.setattr(retries, "RETRY_TOTAL_SECONDS", 3_600.0)
    async with AgentMem(behind_proxy()) as memory, asyncio.timeout(60):
        proxy.cut_at(3, "message")
        task = asyncio.create_task(memory.create_active_memory("agent-1", "House", _TEXT))
        while "retrying create" not in caplog.text:  # noqa: ASYNC110 - a log has no event
            await asyncio.sleep(0.01)
        task.cancel()
        assert await _was_cancelled(task)

        assert await head_of(memory, "agent-1") == 0
        await _check_pool(memory, 10)


@pytest.mark.thorough
async def test_a_memory_opens_although_a_connection_is_lost_meanwhile(
    behind_proxy: Callable[..., Config], proxy: FaultyProxy, hurried: None
) -> None:
    """Once the server was reached and accepted the login, opening is retried like every other call."""
    opened: list[bool] = []
    for message in count(1):
        proxy.cut_at(message, "message")
        try:
            async with AgentMem(behind_proxy()) as memory:
                assert await memory.get_active_memories("agent-1") == []
        except StoreUnavailableError:
            assert proxy.cuts == 1
            opened.append(False)
            continue
        if not proxy.cuts:
            break
        opened.append(True)

    assert opened.count(True) > 3
    # Only the first connection, which checks the login, has to come about.
    assert opened == sorted(opened)
