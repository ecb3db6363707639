"""The cost of the work that follows writes: how soon it starts, how much it slows calls, and a worker's throughput.

    python -m benchmarks.jobs [--writes 200] [--rounds 25] [--streams 100] [--quick]

Everything runs on one embedded server as shipped, each part in its own database, so that no worker takes another
part's jobs.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import batched
from pathlib import Path
from typing import Any
from uuid import UUID

from pydantic import SecretStr

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.config.constants import EMBEDDED_LOGIN
from agent_reminiscence.database.connection import ConnectionSettings, open_connection
from agent_reminiscence.database.embedded import EmbeddedPostgres, ServerAddress
from agent_reminiscence.database.migrations import SchemaParameters
from agent_reminiscence.database.schema import migrate
from agent_reminiscence.domain.memory import ActiveMemory
from agent_reminiscence.embedders.universal import UniversalSentenceEmbedder
from benchmarks.common import Timing, print_table, scratch_folder, write_json
from benchmarks.synthetic import WordModel

_SEED = 20_240_101
_PATIENCE_SECONDS = 120.0
_UPDATES = 10
_SHORT_SENTENCES, _LONG_SENTENCES = 3, 30
_CHECKOUT = Path(__file__).parent.parent

# Procrastinate forgets a job that is done. The transaction of a copied row tells when the job was committed, `at` when
# it was started, both by the server's clock.
_NOTE_JOBS = """
CREATE TABLE public.job_moment (job_id bigint NOT NULL, type text NOT NULL, at timestamptz NOT NULL);
CREATE FUNCTION public.note_job() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog
AS $function$
BEGIN
    INSERT INTO public.job_moment
    SELECT id, NEW.type::text, clock_timestamp() FROM reminiscence_jobs.procrastinate_jobs
    WHERE id = NEW.job_id AND task_name = 'work_stream';
    RETURN NULL;
END
$function$;
CREATE TRIGGER note_job AFTER INSERT ON reminiscence_jobs.procrastinate_events
    FOR EACH ROW EXECUTE FUNCTION public.note_job();
"""
_DELAYS = """
SELECT extract(epoch FROM started.at - pg_xact_commit_timestamp(queued.xmin))::float8 AS seconds
FROM public.job_moment AS queued
JOIN public.job_moment AS started ON started.job_id = queued.job_id AND started.type = 'started'
WHERE queued.type = 'deferred'
"""


@dataclass(frozen=True, slots=True)
class Server:
    """The embedded server of this run."""

    address: ServerAddress

    def administrator(self, database: str) -> ConnectionSettings:
        """The superuser on `database`."""
        return ConnectionSettings(
            host=self.address.host, port=self.address.port, user=self.address.superuser, database=database
        )

    def dsn(self, database: str) -> str:
        """The application's way to `database`."""
        return f"postgresql://{EMBEDDED_LOGIN}@/{database}?host={self.address.host}&port={self.address.port}"

    async def create_database(self, name: str) -> None:
        """A database as the package ships it."""
        await self.run("postgres", f"CREATE DATABASE {name}")
        embedder = UniversalSentenceEmbedder()
        parameters = SchemaParameters(
            chunk_partitions=Config.model_fields["chunk_partitions"].default,
            embedding_dimension=embedder.dimension,
            model_name=embedder.model_name,
        )
        await migrate(self.administrator(name), login=EMBEDDED_LOGIN, parameters=parameters)

    async def run(self, database: str, script: str) -> None:
        """Run a script as superuser."""
        admin = await open_connection(self.administrator(database))
        try:
            await admin.execute_script(script)
        finally:
            admin.close()

    def memory(self, database: str, *, worker: bool, **settings: Any) -> AgentMem:
        """A memory on `database`."""
        return AgentMem(Config(postgres_dsn=SecretStr(self.dsn(database)), worker=worker, **settings))


@asynccontextmanager
async def embedded_server(folder: Path) -> AsyncIterator[Server]:
    """A server of this run's own, which remembers when each transaction was committed."""
    postgres = EmbeddedPostgres(folder / "data", settings={"track_commit_timestamp": "on"})
    server = Server(await postgres.start())
    try:
        await server.run("postgres", f"CREATE ROLE {EMBEDDED_LOGIN} LOGIN NOSUPERUSER NOBYPASSRLS NOINHERIT")
        yield server
    finally:
        await postgres.stop()


class Texts:
    """Short texts, and texts so long that they are consolidated when they are created."""

    def __init__(self) -> None:
        self._words = WordModel(_SEED)

    def short(self) -> str:
        """Three sentences."""
        return self._of(_SHORT_SENTENCES)

    def long(self) -> str:
        """Thirty sentences, some 3,000 characters."""
        return self._of(_LONG_SENTENCES)

    def _of(self, sentences: int) -> str:
        topic = self._words.topic()
        return "\n".join(self._words.sentence(topic) for _ in range(sentences))


# --- How soon work begins --------------------------------------------------------------------------------------------


async def measure_start(server: Server, texts: Texts, name: str, *, inner: bool, writes: int) -> dict[str, Any]:
    """From the commit of a write that makes work due to the start of its job, one write at a time.

    Args:
        inner: Whether the worker is in the process that writes, or in one of its own.
    """
    database = f"start_{name.replace(' ', '_')}"
    await server.create_database(database)
    await server.run(database, _NOTE_JOBS)
    # Every update makes work due.
    async with server.memory(database, worker=inner, active_memory_update_threshold=1) as memory:
        async with AsyncExitStack() as stack:
            if not inner:
                await stack.enter_async_context(_worker_process(server.dsn(database)))
            note = await memory.create_active_memory("agent", "Note", texts.short())
            # The first may still wait for the worker's own start.
            await _update_and_wait(memory, note, texts)
            await server.run(database, "TRUNCATE public.job_moment")
            for _ in range(writes):
                await _update_and_wait(memory, note, texts)
        admin = await open_connection(server.administrator(database))
        try:
            seconds = [row["seconds"] for row in await admin.fetch_all(_DELAYS)]
        finally:
            admin.close()
    assert len(seconds) >= writes, f"{len(seconds)} of {writes} jobs were seen to start"
    return {"worker": name, "delay": Timing.of(seconds), "max_ms": round(1000 * max(seconds), 1)}


async def _update_and_wait(memory: AgentMem, note: ActiveMemory, texts: Texts) -> None:
    updated = await memory.update_active_memory("agent", note.id, content=texts.short())
    assert updated.write is not None
    assert updated.write.consolidation_queued
    await memory.admin.wait_until_idle("agent", _PATIENCE_SECONDS)
    # Else each write would come at the same moment of the worker's rounds.
    await asyncio.sleep(random.uniform(0, 0.05))


@asynccontextmanager
async def _worker_process(dsn: str) -> AsyncIterator[None]:
    """`agent-reminiscence worker`, until the end of the block."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "agent_reminiscence.cli",
        "worker",
        cwd=_CHECKOUT,
        env=os.environ | {"REMINISCENCE_POSTGRES_DSN": dsn},
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()


# --- What it takes from calls ----------------------------------------------------------------------------------------

_MODES = ("in the background", "off", "inside the call")
# How long calls took in one mode, by what they did.
type Seconds = dict[str, list[float]]


async def measure_calls(server: Server, texts: Texts, rounds: int) -> list[dict[str, Any]]:
    """Create and update with consolidation in the background, not at all, and inside the call, in turns.

    A round is one memory: it is created and updated ten times, two of which make a consolidation due, one call straight
    after the other; and a long text, which makes one due at once. Where nothing is done it stays due. What is left to
    the worker is done before another mode has its turn, so that it slows down its own mode's calls and no other's.
    """
    calls: dict[str, Seconds] = {mode: defaultdict(list) for mode in _MODES}
    async with AsyncExitStack() as stack:
        memories: dict[str, AgentMem] = {}
        for number, mode in enumerate(_MODES):
            await server.create_database(f"calls_{number}")
            memories[mode] = await stack.enter_async_context(server.memory(f"calls_{number}", worker=mode == _MODES[0]))
        for number in range(rounds + 1):
            turns = [*_MODES[number % len(_MODES) :], *_MODES[: number % len(_MODES)]]
            for mode in turns:
                # The first round is not counted.
                await _round(memories[mode], mode, texts, calls[mode] if number else defaultdict(list))
    return [{"call": call, **{mode: Timing.of(calls[mode][call]) for mode in _MODES}} for call in calls[_MODES[0]]]


async def _round(memory: AgentMem, mode: str, texts: Texts, calls: Seconds) -> None:
    note = await _timed(memory, mode, calls, "create, short", content=texts.short())
    for _ in range(_UPDATES):
        await _timed(memory, mode, calls, "update, short", memory_id=note.id, content=texts.short())
    await _timed(memory, mode, calls, "create, long", content=texts.long())
    if mode == _MODES[0]:
        await memory.admin.wait_until_idle("agent", _PATIENCE_SECONDS)


async def _timed(
    memory: AgentMem, mode: str, calls: Seconds, call: str, *, content: str, memory_id: UUID | None = None
) -> ActiveMemory:
    started = time.perf_counter()
    if memory_id is None:
        written = await memory.create_active_memory("agent", "Note", content)
    else:
        written = await memory.update_active_memory("agent", memory_id, content=content)
    assert written.write is not None
    is_due = written.write.consolidation_queued
    if is_due and mode == _MODES[2]:
        await memory.admin.run_due("agent")
    seconds = time.perf_counter() - started
    calls[call].append(seconds)
    if is_due and memory_id is not None:
        calls["update, short, with work due"].append(seconds)
    return written


# --- How much a worker does ------------------------------------------------------------------------------------------


async def measure_throughput(server: Server, texts: Texts, streams: int) -> list[dict[str, Any]]:
    """Jobs per second of one worker; each is the consolidation of one text of some 3,000 characters."""
    results = []
    for concurrency in (1, 4):
        seconds = await _work_off(server, texts, f"worker_{concurrency}", streams, concurrency)
        results.append(
            {"worker": f"concurrency {concurrency}", "jobs": streams, "per_second": round(streams / seconds, 1)}
        )
    seconds = await _work_off(server, texts, "run_due", streams, None)
    results.append({"worker": "none: run_due()", "jobs": streams, "per_second": round(streams / seconds, 1)})
    return results


async def _work_off(server: Server, texts: Texts, database: str, streams: int, concurrency: int | None) -> float:
    """Seconds for the work of so many streams: by a worker that ends when it is done, or call by call."""
    await server.create_database(database)
    async with server.memory(database, worker=False, worker_concurrency=concurrency or 1) as memory:
        tenants = [f"agent-{number}" for number in range(streams)]
        for some in batched(tenants, 4):
            await asyncio.gather(*(memory.create_active_memory(tenant, "Note", texts.long()) for tenant in some))
        started = time.perf_counter()
        if concurrency is None:
            for tenant in tenants:
                await memory.admin.run_due(tenant)
        else:
            await memory.admin.run_worker(until_idle=True)
        seconds = time.perf_counter() - started
        for tenant in tenants:
            (note,) = await memory.get_active_memories(tenant)
            assert note.consolidated_version == 1
    return seconds


# --- Beginning and end -----------------------------------------------------------------------------------------------


async def measure_life(server: Server, repetitions: int) -> list[dict[str, Any]]:
    """`initialize()` and `close()` with and without a worker, on a server that runs, in turns."""
    await server.create_database("life")
    begun: dict[bool, list[float]] = {True: [], False: []}
    ended: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(repetitions):
        for worker in (True, False):
            memory = server.memory("life", worker=worker)
            started = time.perf_counter()
            await memory.initialize()
            begun[worker].append(time.perf_counter() - started)
            # Closed as soon as it was opened, it would not have begun to work.
            await asyncio.sleep(0.5)
            started = time.perf_counter()
            await memory.close()
            ended[worker].append(time.perf_counter() - started)
    return [
        {
            "worker": "with" if worker else "without",
            "initialize": Timing.of(begun[worker]),
            "close": Timing.of(ended[worker]),
        }
        for worker in (True, False)
    ]


async def run(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Everything, one part after the other."""
    texts = Texts()
    async with embedded_server(folder) as server:
        starts = []
        for name, inner in (("in process", True), ("own process", False)):
            starts.append(await measure_start(server, texts, name, inner=inner, writes=arguments.writes))
            print(f"start, {name}: {starts[-1]['delay']}", flush=True)
        calls = await measure_calls(server, texts, arguments.rounds)
        print("calls: done", flush=True)
        throughput = await measure_throughput(server, texts, arguments.streams)
        print("throughput: done\n", flush=True)
        life = await measure_life(server, arguments.repetitions)
    return {"starts": starts, "calls": calls, "throughput": throughput, "life": life}


def print_results(result: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Print the tables."""
    print_table(
        ["worker", "commit to start p50 / p95", "max ms"],
        [[one["worker"], one["delay"], one["max_ms"]] for one in result["starts"]],
    )
    print_table(
        ["p50 / p95 with consolidation", *_MODES],
        [[one["call"], *(one[mode] for mode in _MODES)] for one in result["calls"]],
    )
    print_table(
        ["one worker", "jobs", "jobs a second"],
        [[one["worker"], one["jobs"], one["per_second"]] for one in result["throughput"]],
    )
    print_table(
        ["worker", "initialize p50 / p95", "close p50 / p95"],
        [[one["worker"], one["initialize"], one["close"]] for one in result["life"]],
    )


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--writes", type=int, default=200, help="writes per worker whose work's start is timed")
    parser.add_argument("--rounds", type=int, default=25, help="memories created and updated in each mode")
    parser.add_argument("--streams", type=int, default=100, help="streams with work for a worker to do")
    parser.add_argument("--repetitions", type=int, default=10, help="how often a memory is opened and closed")
    parser.add_argument("--quick", action="store_true", help="smoke run with few of each")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.writes, arguments.rounds, arguments.streams, arguments.repetitions = 10, 2, 10, 2
    with scratch_folder("reminiscence-jobs-") as folder:
        result = asyncio.run(run(arguments, folder))
    print_results(result)
    if arguments.json:
        write_json(arguments.json, result)


if __name__ == "__main__":
    main()
