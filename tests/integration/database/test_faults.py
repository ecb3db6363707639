"""Faults on the server: backends that die, handlers that fail, a server that is killed, a disk that is full."""

# ruff: noqa: ASYNC110, ASYNC240 - files and processes are what is tested; nothing else is on the loop

from __future__ import annotations

import asyncio
import base64
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from pydantic import SecretStr

from agent_reminiscence import (
    ActiveMemory,
    AgentMem,
    CommitUnknownError,
    Config,
    StoreError,
    StoreTimeoutError,
    StoreUnavailableError,
    VersionConflictError,
)
from agent_reminiscence.config.constants import EMBEDDED_DATABASE, EMBEDDED_LOGIN
from agent_reminiscence.database.connection import ConnectionSettings, SqlExecutor, open_connection
from agent_reminiscence.database.embedded import EmbeddedPostgres, server_binaries
from agent_reminiscence.embedders.hashing import HashEmbedder
from agent_reminiscence.resilience import retries
from agent_reminiscence.resilience.retries import repeated
from tests.conftest import TEST_DIMENSION, TEST_PARTITIONS, TestServer, dsn
from tests.support.factories import stored_rows, superuser
from tests.support.following import following
from tests.support.processes import wait_until_ended

_ROOT = Path(__file__).parents[3]
_PATIENCE_SECONDS = 60
_SEED = 20_260_505
_SECRET = "My secret diary."
_TEXT = f"The gate is green.\n\nThe door is red.\n\n{_SECRET}"
_EDITED = f"The gate is green.\n\nThe door is white.\n\n{_SECRET}"

Change = Callable[[AgentMem, ActiveMemory], Awaitable[object]]
_CHANGES: dict[str, Change] = {
    "create": lambda memory, note: memory.create_active_memory("agent-1", "New", f"It is new. {_SECRET}"),
    "update": lambda memory, note: memory.update_active_memory("agent-1", note.id, content=_EDITED),
    "archive": lambda memory, note: memory.admin.archive("agent-1", note.id),
    "consolidate": lambda memory, note: memory.admin.consolidate("agent-1", note.id),
}
# Which tables each of them writes to in the transaction of its event.
_LEDGER = ("memory_stream", "memory_event", "active_memory")
_INDEX = ("memory_chunk", "posting", "memory_layout", "embedding_cache", "chunk_vector_1", "chunk_norms_1")
_WRITTEN: list[tuple[str, str]] = [
    (change, table)
    for change, tables in {
        "create": [*_LEDGER, "memory_heading", *_INDEX],
        "update": [*_LEDGER, *_INDEX],
        "archive": [*_LEDGER],
        "consolidate": [*_LEDGER, "shortterm_memory", "memory_chunk"],
    }.items()
    for table in tables
]

# A trigger that does what it is told the first times that it is called; a sequence counts, since it never rolls back.
_FAULT = """
CREATE SEQUENCE public.fault_calls;
CREATE FUNCTION public.fault() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $function$
BEGIN
    IF nextval('public.fault_calls') <= TG_ARGV[0]::int THEN
        IF TG_ARGV[1] = 'dies' THEN
            PERFORM pg_terminate_backend(pg_backend_pid());
        ELSE
            RAISE EXCEPTION 'the handler failed' USING DETAIL = NEW::text, HINT = NEW::text;
        END IF;
    END IF;
    RETURN NULL;
END
$function$
"""


@pytest.fixture(scope="module")
def database(test_server: TestServer) -> Iterator[str]:
    """One database for this module, in which triggers can be put; `faulty` empties it."""
    name = asyncio.run(test_server.create_database())

    async def prepare() -> None:
        async with superuser(test_server, name) as db:
            await db.execute_script(_FAULT)

    asyncio.run(prepare())
    yield name
    asyncio.run(test_server.drop_database(name))


Faulty = Callable[[str, int, str], Awaitable[None]]


@pytest.fixture
async def faulty(test_server: TestServer, database: str) -> AsyncIterator[Faulty]:
    """Makes the backend die, or the handler raise, the first times that something writes to a table."""
    tables: list[str] = []

    async with superuser(test_server, database) as db:

        async def make(table: str, times: int, fault: str) -> None:
            tables.append(table)
            await db.execute_script(
                "ALTER SEQUENCE public.fault_calls RESTART;"
                f"CREATE TRIGGER fault AFTER INSERT OR UPDATE ON {table}"
                f" FOR EACH ROW EXECUTE FUNCTION public.fault({times}, {fault})"
            )

        yield make
        for table in tables:
            await db.execute_script(f"DROP TRIGGER fault ON {table}")
        await db.execute_script(
            "TRUNCATE memory_stream, memory_event, active_memory, shortterm_memory, memory_chunk, memory_heading,"
            " posting, memory_layout, embedding_cache, chunk_vector_1, chunk_norms_1"
        )


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries that follow each other at once."""
    monkeypatch.setattr(retries, "RETRY_FIRST_WAIT_SECONDS", 0.001)


async def _calls(test_server: TestServer, database: str) -> int:
    """How often a faulty table was written to."""
    async with superuser(test_server, database) as db:
        row = await db.fetch_one(
            "SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS calls FROM public.fault_calls"
        )
    assert row is not None
    return int(row["calls"])


# A transaction that breaks --------------------------------------------------------------------------------------------


@pytest.mark.everyday(
    "create-*-raises",
    "consolidate-*-raises",
    "*-memory_event-dies",
    "create-chunk_norms_1-dies",
    "update-chunk_norms_1-*",
    "consolidate-shortterm_memory-dies",
    why="each table fails, and each change at its first and last table; a transaction ends the same way for all",
)
@pytest.mark.parametrize(
    ("change", "table", "fault"), [(*pair, fault) for fault in ("raises", "dies") for pair in _WRITTEN]
)
async def test_a_write_that_fails_at_any_table_leaves_every_row_as_it_was(
    memory: AgentMem,
    test_server: TestServer,
    database: str,
    faulty: Faulty,
    hurried: None,
    caplog: pytest.LogCaptureFixture,
    change: str,
    table: str,
    fault: str,
) -> None:
    """All rows of all tables are those of before, and neither the error nor the log says what was to be written."""
    note = await memory.create_active_memory("agent-1", "House", _TEXT)
    async with superuser(test_server, database) as db:
        before = await stored_rows(db)
        await faulty(table, 1_000, fault)

        with pytest.raises(StoreError) as caught:
            await _CHANGES[change](memory, note)

        assert await stored_rows(db) == before
    assert isinstance(caught.value, StoreUnavailableError) == (fault == "dies")
    assert ("the handler failed" in str(caught.value)) == (fault == "raises")
    assert "diary" not in str(caught.value)
    assert "diary" not in caplog.text
    # A handler that raises would raise again.
    if fault == "raises":
        assert await _calls(test_server, database) == 1


@pytest.mark.everyday(
    "create-*",
    "*-active_memory",
    "update-chunk_norms_1",
    "consolidate-shortterm_memory",
    why="each table once, and each change",
)
@pytest.mark.parametrize(("change", "table"), _WRITTEN)
async def test_a_write_whose_backend_dies_once_is_there_once(
    memory: AgentMem, test_server: TestServer, database: str, faulty: Faulty, hurried: None, change: str, table: str
) -> None:
    """Made again, it says and leaves what an undisturbed one does."""
    note = await memory.create_active_memory("agent-1", "House", _TEXT)
    await faulty(table, 1, "dies")

    try:
        await _CHANGES[change](memory, note)
    except StoreUnavailableError:
        # Maintenance is left to its caller to repeat, and looks itself at what is still to be done.
        assert change == "consolidate"
        await _CHANGES[change](memory, note)

    assert await _calls(test_server, database) > 1
    kinds = [event.kind for event in await memory.ledger.read("agent-1")]
    assert kinds == ["memory.created", f"memory.{change.removesuffix('e')}ed"]
    found = await memory.retrieve_memories("agent-1", _SECRET)
    assert len({hit.chunk_id for hit in found.hits}) == len(found.hits)


class _DistantEmbedder(HashEmbedder):
    """Makes its vectors after the write, as those of servers do."""

    is_local = False


@pytest.mark.parametrize("fault", ["dies", "raises"])
@pytest.mark.parametrize("table", ["embedding_cache", "chunk_vector_1"])
async def test_a_fault_after_the_write_leaves_the_write(
    config: Callable[..., Config],
    test_server: TestServer,
    database: str,
    faulty: Faulty,
    hurried: None,
    caplog: pytest.LogCaptureFixture,
    table: str,
    fault: str,
) -> None:
    """The vectors are missing wholly, are counted, stay due, and are made by the next run of its work."""
    await faulty(table, 1_000, fault)

    async with AgentMem(config(), embedder=_DistantEmbedder(TEST_DIMENSION)) as memory:
        note = await memory.create_active_memory("agent-1", "House", _TEXT)

        assert note.write is not None
        assert note.write.vectors_missing == 3
        assert "its vectors are still missing and stay due" in caplog.text
        assert "diary" not in caplog.text
        async with superuser(test_server, database) as db:
            rows = await stored_rows(db)
            assert (len(rows["memory_chunk"]), rows["chunk_vector_1"], rows["embedding_cache"]) == (3, [], [])
            await db.execute_script("ALTER SEQUENCE public.fault_calls RESTART 10000")
        report = await memory.admin.run_due("agent-1")
        assert (report.vectors_filled, report.error) == (3, None)


async def test_the_time_of_a_write_made_again_is_that_of_the_attempt_that_went_through(
    memory: AgentMem, faulty: Faulty, hurried: None
) -> None:
    """Times are taken under the stream's lock, so they follow the order of the ledger; one that was given stays."""
    before = await memory.create_active_memory("agent-1", "House", _TEXT)
    await faulty("memory_event", 2, "dies")
    now = await memory.create_active_memory("agent-1", "House", _TEXT)
    assert before.occurred_at < now.occurred_at <= now.created_at

    await faulty("active_memory", 2, "dies")
    given = await memory.create_active_memory("agent-1", "House", _TEXT, occurred_at=before.occurred_at)
    assert given.occurred_at == before.occurred_at


# What is made again, and how often ------------------------------------------------------------------------------------


class _Failing:
    """A call that raises `error` the first `times`."""

    def __init__(self, error: Exception, times: int) -> None:
        self.error = error
        self.left = times
        self.calls = 0

    async def __call__(self) -> str:
        self.calls += 1
        if self.left:
            self.left -= 1
            raise self.error
        return "done"


async def test_a_store_that_comes_back_is_waited_for(hurried: None) -> None:
    """Four failures are made up for; the fifth is the caller's."""
    four, five = (_Failing(StoreUnavailableError("away"), times) for times in (4, 5))

    assert await repeated(four, operation="read", external_id="agent-1") == "done"
    with pytest.raises(StoreUnavailableError, match="away"):
        await repeated(five, operation="read", external_id="agent-1")

    assert (four.calls, five.calls) == (5, 5)


async def test_waiting_ends_after_a_few_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller hears of a server that stays away in less than five seconds."""
    call = _Failing(StoreUnavailableError("away"), 1_000)
    sleep, waited = asyncio.sleep, list[float]()

    async def noted(seconds: float) -> None:
        waited.append(seconds)
        await sleep(seconds)

    monkeypatch.setattr(asyncio, "sleep", noted)

    with pytest.raises(StoreUnavailableError):
        await repeated(call, operation="read", external_id="agent-1")

    assert 2 < sum(waited) < 5


@pytest.mark.parametrize(
    "error",
    [
        StoreError("refused"),
        StoreTimeoutError("too slow"),
        CommitUnknownError("lost"),
        VersionConflictError("agent-1", UUID(int=1), 1, 2),
        ValueError("a mistake"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_nothing_else_is_made_again(error: Exception) -> None:
    """Neither what would fail again nor what may have been written."""
    call = _Failing(error, 1)

    with pytest.raises(type(error)):
        await repeated(call, operation="write", external_id="agent-1")

    assert call.calls == 1


async def test_a_lost_commit_is_made_again_where_that_writes_once(hurried: None) -> None:
    """With a key the second attempt finds what the first has written."""
    call = _Failing(CommitUnknownError("lost"), 1)

    assert await repeated(call, operation="write", external_id="agent-1", repeatable=True) == "done"


# A server that goes away ----------------------------------------------------------------------------------------------


@pytest.fixture
def folder() -> Iterator[Path]:
    """A data folder of this test's own, whose server it may kill."""
    # Not pytest's own folder: the server runs as another user when the tests run as root.
    path = Path(tempfile.mkdtemp(prefix="reminiscence-faults-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def embedded(folder: Path) -> Config:
    """Settings for the embedded server of `folder`."""
    return Config(
        data_dir=folder / "data",
        embedding_provider="hash",
        embedding_dimension=TEST_DIMENSION,
        chunk_partitions=TEST_PARTITIONS,
        postgres_pool_size=4,
    )


def _postmaster(folder: Path) -> int:
    return int((folder / "data/postgres/postmaster.pid").read_text().split()[0])


async def _kill(folder: Path, how: signal.Signals = signal.SIGKILL) -> None:
    """End the server; return when its last process is gone. One that is idle answers until it notices."""
    postmaster = _postmaster(folder)
    backends = [int(pid) for pid in Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()]
    os.kill(postmaster, how)
    await asyncio.to_thread(wait_until_ended, (postmaster, *backends))


async def _check_words(memory: AgentMem, expected: int) -> None:
    """Every memory of the tenant is found by its own word."""
    notes = await memory.get_active_memories("agent-1")
    assert len(notes) == expected
    for note in notes:
        found = await memory.retrieve_memories("agent-1", note.title)
        assert found.hits[0].memory_id == note.id
        assert found.hits[0].score_parts["words"] > 0


@pytest.mark.thorough
@pytest.mark.parametrize(
    "how", [signal.SIGINT, signal.SIGQUIT, signal.SIGKILL], ids=["fast shutdown", "immediate shutdown", "kill"]
)
async def test_an_embedded_server_that_ended_under_us_is_started_again(
    embedded: Config, folder: Path, how: signal.Signals
) -> None:
    """The next calls start it, once for all of them, and find by its words what was there."""
    async with AgentMem(embedded) as memory:
        await memory.create_active_memory("agent-1", "Anchor", "The anchor is heavy.")
        first = _postmaster(folder)
        await _kill(folder, how)

        await asyncio.gather(
            *(memory.create_active_memory("agent-1", f"Beacon{n}", f"The beacon{n} shines.") for n in range(8)),
            *(memory.retrieve_memories("agent-1", "anchor") for _ in range(8)),
        )

        assert _postmaster(folder) != first
        await _check_words(memory, 9)
    assert not (folder / "data/postgres/postmaster.pid").exists()


class _Killing(HashEmbedder):
    """Kills the server when it is first asked for its dimension: after the start, before the tables are created."""

    def __init__(self, folder: Path) -> None:
        super().__init__(TEST_DIMENSION)
        self._folder = folder
        self.killed: int | None = None

    @property
    def dimension(self) -> int:
        if self.killed is None:
            self.killed = _postmaster(self._folder)
            os.kill(self.killed, signal.SIGKILL)
        return super().dimension


async def test_a_server_that_dies_while_a_memory_opens_is_started_again(folder: Path) -> None:
    """Opening goes on where it was; that the server was away for a moment is no reason to give up."""
    embedder = _Killing(folder)
    config = Config(data_dir=folder / "data", chunk_partitions=TEST_PARTITIONS, worker=False)

    async with AgentMem(config, embedder=embedder) as memory:
        assert embedder.killed not in (None, _postmaster(folder))
        await memory.create_active_memory("agent-1", "Anchor", "The anchor is heavy.")
        await _check_words(memory, 1)
    assert not (folder / "data/postgres/postmaster.pid").exists()


# Opens a memory that is there already: patiently, then impatiently, then again where somebody has set up logging.
_IMPATIENT = """
import asyncio, logging, sys
from pathlib import Path
from agent_reminiscence import AgentMem, Config, opening

async def main():
    async with AgentMem(Config(data_dir=Path(sys.argv[1]), embedding_provider="hash", worker=False)):
        pass

opening._SLOW_START_SECONDS = 3600.0
asyncio.run(main())
print("impatient", file=sys.stderr)
opening._SLOW_START_SECONDS = 0.0
asyncio.run(main())
print("logging", file=sys.stderr)
logging.basicConfig(format="logged %(levelname)s: %(message)s")
asyncio.run(main())
"""


@pytest.mark.thorough
def test_a_start_that_takes_long_says_what_it_waits_for(folder: Path) -> None:
    """One line on standard error, by way of logging if that is set up; one that is quick says nothing."""
    ran = subprocess.run(
        [sys.executable, "-c", _IMPATIENT, folder / "data"],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )

    lines = ran.stderr.splitlines()
    begins = ("impatient", "agent_reminiscence: still starting", "logging", "logged WARNING: still")
    assert len(lines) == len(begins), lines
    assert all(line.startswith(begin) for line, begin in zip(lines, begins, strict=True)), lines
    assert all(str(folder / "data" / "postgres.log") in line for line in lines[1::2])


async def test_a_new_database_is_on_disk_before_it_is_used(embedded: Config) -> None:
    """Its tables are some hundred files; the first stop of the server has no more to write than any other."""
    async with AgentMem(embedded) as memory:
        assert memory._parts is not None
        login = memory._parts.stores.postgres.settings
        db = await open_connection(replace(login, user="postgres"))
        try:
            row = await db.fetch_one(
                "SELECT (pg_current_wal_lsn() - redo_lsn)::bigint AS unwritten FROM pg_control_checkpoint()"
            )
        finally:
            db.close()

    assert row is not None
    assert row["unwritten"] < 1_000_000


# Of a killed server under load, tests/chaos/test_kills.py shows it every day.
@pytest.mark.thorough
async def test_calls_under_way_when_the_server_is_killed_are_made_again(embedded: Config, folder: Path) -> None:
    """Writes with keys and reads need no help of the caller's; each write is there once."""
    chance = random.Random(_SEED)
    written: list[str] = []
    is_over = False

    async with AgentMem(embedded) as memory:

        async def work(worker: int) -> None:
            number = 0
            while not is_over:
                title = f"Worker{worker}note{number}"
                await memory.create_active_memory("agent-1", title, f"About {title}.", idempotency_key=title)
                written.append(title)
                await memory.retrieve_memories("agent-1", title)
                number += 1

        workers = [asyncio.create_task(work(worker)) for worker in range(4)]
        for _ in range(3):
            await asyncio.sleep(chance.uniform(0.2, 0.5))
            await _kill(folder)
            killed_after = len(written)
            while len(written) < killed_after + 8:
                await asyncio.sleep(0.05)
        is_over = True
        await asyncio.gather(*workers)

        assert len(written) > 12
        assert sorted(note.title for note in await memory.get_active_memories("agent-1")) == sorted(written)
        assert await memory.ledger.head("agent-1") == len(written)
        await _check_words(memory, len(written))


_OTHER_PROCESS = """
import asyncio, sys
from agent_reminiscence import AgentMem, Config

async def main():
    config = Config(data_dir=sys.argv[1], embedding_provider="hash", embedding_dimension=64)
    async with AgentMem(config) as memory:
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        await memory.create_active_memory("agent-1", "Remote", "The remote process was here.")
        print("written", flush=True)
        await asyncio.to_thread(sys.stdin.readline)

asyncio.run(main())
"""


@asynccontextmanager
async def _other_process(config: Config) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Another process that uses the server; gives what makes it write. It leaves at the end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _OTHER_PROCESS,
        str(config.data_dir),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(_ROOT)},
    )
    told, said = process.stdin, process.stdout
    assert told is not None
    assert said is not None

    async def write() -> None:
        told.write(b"\n")
        assert (await asyncio.wait_for(said.readline(), 60)) == b"written\n"

    try:
        assert (await asyncio.wait_for(said.readline(), 60)) == b"ready\n"
        yield write
    finally:
        # The end of its input is the line that it waits for.
        await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0


@pytest.mark.promise
@pytest.mark.everyday("kill", why="a server that had time to say so leaves less to be repaired")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["fast shutdown", "kill"])
async def test_a_subscription_outlives_its_embedded_server(embedded: Config, folder: Path, how: signal.Signals) -> None:
    """It goes on after the last event that came, whoever starts the server again: itself, if nobody else does."""
    async with (
        AgentMem(embedded.model_copy(update={"worker": False})) as memory,
        following(memory, "agent-1") as follower,
    ):
        for number in range(3):
            await memory.ledger.append("agent-1", "world.observed", {"n": number})
        await follower.until(3)
        first = _postmaster(folder)
        await _kill(folder, how)
        async with asyncio.timeout(120):
            # Gone and written anew while it starts.
            while True:
                with suppress(FileNotFoundError, IndexError, ValueError):
                    if _postmaster(folder) != first:
                        break
                await asyncio.sleep(0.05)
        await memory.ledger.append("agent-1", "world.observed", {"n": 3})
        await follower.until(4)
        await _kill(folder, how)
        await memory.ledger.append("agent-1", "world.observed", {"n": 4})

        await follower.until(5)
        assert follower.positions == [1, 2, 3, 4, 5]


@pytest.mark.thorough
async def test_a_subscription_waits_for_a_server_of_the_users_own(
    embedded: Config, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it is away; calls have long been told, and the subscription goes on where it was."""
    monkeypatch.setattr(retries, "RETRY_TOTAL_SECONDS", 0.0)
    async with AgentMem(embedded) as memory:
        await memory.ledger.append("agent-1", "world.observed", {"n": 1})
        server = EmbeddedPostgres(folder / "data")
        address = await server.start()
        at = ConnectionSettings(address.host, address.port, EMBEDDED_LOGIN, EMBEDDED_DATABASE)
    config = Config(
        postgres_dsn=SecretStr(dsn(at)),
        embedding_provider="hash",
        embedding_dimension=TEST_DIMENSION,
        worker=False,
    )
    try:
        async with AgentMem(config) as memory, following(memory, "agent-1") as follower:
            for number in (2, 3):
                await follower.until(number - 1)
                await server.stop()
                for _ in range(3):
                    with pytest.raises(StoreUnavailableError):
                        await memory.ledger.append("agent-1", "world.observed", {"n": number})
                    await asyncio.sleep(0.5)
                await server.start()
                await memory.ledger.append("agent-1", "world.observed", {"n": number})

            await follower.until(3)
            assert follower.positions == [1, 2, 3]
    finally:
        await server.stop()


@pytest.mark.thorough
async def test_two_processes_bring_their_server_back_together(embedded: Config, folder: Path) -> None:
    """They start one server, not two; it stays until the second of them leaves."""
    async with AgentMem(embedded) as memory:
        async with _other_process(embedded) as write_there:
            await _kill(folder)
            await asyncio.gather(
                write_there(), memory.create_active_memory("agent-1", "Near", "The near process was here.")
            )
            running = _postmaster(folder)
            await _check_words(memory, 2)
        assert _postmaster(folder) == running
        await _check_words(memory, 2)
    assert not (folder / "data/postgres/postmaster.pid").exists()


@pytest.mark.thorough
async def test_a_data_folder_removed_under_us_is_not_made_anew(embedded: Config, folder: Path) -> None:
    """An empty memory in its place would look as if nothing had ever been remembered."""
    async with AgentMem(embedded) as memory:
        await memory.create_active_memory("agent-1", "Anchor", "The anchor is heavy.")
        await _kill(folder)
        (folder / "data").rename(folder / "elsewhere")

        with pytest.raises(StoreError, match=r"was removed while it was in use; put it back"):
            await memory.get_active_memories("agent-1")

        assert not (folder / "data").exists()
        (folder / "elsewhere").rename(folder / "data")
        await _check_words(memory, 1)


@pytest.mark.thorough
async def test_a_server_of_the_users_own_is_waited_for_and_not_started(
    embedded: Config, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restart of a second or two goes unnoticed; a server that stays away is a clear error."""
    async with AgentMem(embedded) as memory:
        await memory.create_active_memory("agent-1", "Anchor", "The anchor is heavy.")
        server = EmbeddedPostgres(folder / "data")
        address = await server.start()
        at = ConnectionSettings(address.host, address.port, EMBEDDED_LOGIN, EMBEDDED_DATABASE)
    try:
        async with AgentMem(
            Config(postgres_dsn=SecretStr(dsn(at)), embedding_provider="hash", embedding_dimension=TEST_DIMENSION)
        ) as memory:
            os.kill(_postmaster(folder), signal.SIGINT)
            with monkeypatch.context() as patience:
                # This machine may be busy, and a start take longer than a caller would wait.
                patience.setattr(retries, "RETRY_ATTEMPTS", 9)
                patience.setattr(retries, "RETRY_TOTAL_SECONDS", 60.0)
                call = asyncio.create_task(memory.create_active_memory("agent-1", "Beacon", "The beacon shines."))
                await asyncio.sleep(1)
                await server.start()
                assert (await call).version == 1
            await _check_words(memory, 2)

            await _kill(folder)
            began = time.monotonic()
            with pytest.raises(StoreUnavailableError, match="cannot connect to PostgreSQL"):
                await memory.get_active_memories("agent-1")
            assert time.monotonic() - began < 30
            await server.start()
            await _check_words(memory, 2)
    finally:
        await server.stop()


async def _open_when_free(settings: ConnectionSettings) -> SqlExecutor:
    """Open a connection; the session of one that was just closed keeps its slot for a moment."""
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while True:
            try:
                return await open_connection(settings)
            except StoreUnavailableError:
                await asyncio.sleep(0.05)


async def test_what_the_server_says_is_told_apart(folder: Path) -> None:
    """What passes is worth repeating, what is refused is not; told by real answers of a real server."""
    server = EmbeddedPostgres(
        folder / "data",
        settings={
            "fsync": "off",
            "shared_buffers": "16MB",
            "max_connections": "6",
            "superuser_reserved_connections": "2",
        },
    )
    address = await server.start()
    try:
        root = ConnectionSettings(address.host, address.port, address.superuser, "postgres")
        plain = ConnectionSettings(address.host, address.port, "plain", "postgres")
        admin = await open_connection(root)
        await admin.execute_script("CREATE ROLE plain LOGIN IN ROLE pg_read_all_stats")
        taken = [await _open_when_free(plain) for _ in range(3)]

        await _refused(plain, StoreUnavailableError, "remaining connection slots are reserved")
        taken += [await _open_when_free(root) for _ in range(2)]
        await _refused(root, StoreUnavailableError, "too many clients")
        for connection in taken[1:]:
            connection.close()
        # Until their sessions have ended, it is all the server's slots that are taken.
        await _until(
            taken[0], "SELECT 1 FROM pg_stat_activity WHERE backend_type = 'client backend' OFFSET 2", found=False
        )
        await admin.execute_script("ALTER ROLE plain CONNECTION LIMIT 0")
        await _refused(plain, StoreUnavailableError, "too many connections for role")
        for refused in ("nobody@postgres", "postgres@nowhere"):
            user, name = refused.split("@")
            await _refused(ConnectionSettings(address.host, address.port, user, name), StoreError, "does not exist")

        # One session left: the server goes on until it ends, and takes no other.
        os.kill(_postmaster(folder), signal.SIGTERM)
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while await _can_connect(root):
                await asyncio.sleep(0.05)
        await _refused(root, StoreUnavailableError, "shutting down")
        running = asyncio.create_task(admin.execute("SELECT pg_sleep(600)::text"))
        await _until(taken[0], "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'", found=True)
        os.kill(_postmaster(folder), signal.SIGINT)
        with pytest.raises(StoreUnavailableError, match="terminating connection"):
            await running
        with pytest.raises(StoreUnavailableError, match="the connection to PostgreSQL was lost"):
            await taken[0].execute("SELECT 1")
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while (folder / "data/postgres/postmaster.pid").exists():
                await asyncio.sleep(0.1)
        await _refused(root, StoreUnavailableError, "cannot connect to PostgreSQL as .*: No such file or directory")
    finally:
        await server.stop()


async def _until(db: SqlExecutor, statement: str, *, found: bool) -> None:
    """Wait until a statement finds something, or nothing."""
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while bool(await db.fetch_all(statement, prepared=False)) != found:
            await asyncio.sleep(0.05)


async def _can_connect(settings: ConnectionSettings) -> bool:
    try:
        (await open_connection(settings)).close()
    except StoreError:
        return False
    return True


async def _refused(settings: ConnectionSettings, kind: type[StoreError], message: str) -> None:
    with pytest.raises(StoreError, match=message) as caught:
        await open_connection(settings)
    assert type(caught.value) is kind


# A disk that is full --------------------------------------------------------------------------------------------------


@contextmanager
def _small_files(megabytes: int) -> Iterator[None]:
    """No file may grow beyond this, for this process and the servers that it starts meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (megabytes << 20, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _shrink_log_segments(folder: Path) -> None:
    """Have the write-ahead log in files of 1 MB, so that a table meets the limit before the log does."""
    cluster = folder / "data/postgres"
    owner = cluster.stat()
    is_root = os.geteuid() == 0
    subprocess.run(
        [server_binaries() / "pg_resetwal", "--wal-segsize=1", "."],
        check=True,
        cwd=cluster,
        stdout=subprocess.DEVNULL,
        user=owner.st_uid if is_root else None,
        group=owner.st_gid if is_root else None,
        extra_groups=[] if is_root else None,
    )


@pytest.mark.thorough
async def test_a_full_disk_is_a_clear_error_and_loses_nothing(embedded: Config, folder: Path) -> None:
    """What was returned is there, what was refused is not, and with room again the same call goes through."""
    async with AgentMem(embedded):
        pass
    _shrink_log_segments(folder)
    words = random.Random(_SEED)
    written = 0
    metadata: dict[str, str] = {}

    def blob() -> str:
        # Nothing that could be compressed.
        return base64.b64encode(words.randbytes(150_000)).decode()

    async def fill(memory: AgentMem) -> None:
        nonlocal written, metadata
        while written < 40:
            metadata = {"blob": blob()}
            await memory.create_active_memory("agent-1", f"Note{written}", f"Note{written} is here.", metadata=metadata)
            written += 1

    memory = AgentMem(embedded)
    with _small_files(3):
        await memory.initialize()
    try:
        with pytest.raises(StoreError, match=r"the disk of the PostgreSQL server is full: .*; nothing was written"):
            await fill(memory)

        assert 0 < written < 40
        assert await memory.ledger.head("agent-1") == written
        await _check_words(memory, written)
    finally:
        await memory.close()

    async with AgentMem(embedded) as memory:
        await memory.create_active_memory("agent-1", f"Note{written}", f"Note{written} is here.", metadata=metadata)
        await _check_words(memory, written + 1)
