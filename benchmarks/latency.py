"""Latency of the four methods of `AgentMem`, and of the bare SQL statements a recall sends.

    python benchmarks/latency.py [--sizes 1000 10000 100000] [--quick]

"Bare" is the minimum any library needs: psqlpy on one connection, BEGIN with role and tenant, the method's statements
with its parameters, one after another, COMMIT; no validation, pool, models, ranking or embedding.
Product and bare calls alternate, so that both see the same machine. Both wall time and the CPU time of this process
and of the server's are measured.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psqlpy

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.config.constants import EMBEDDED_DATABASE, EMBEDDED_LOGIN
from agent_reminiscence.database.connection import ConnectionSettings, Row, SqlExecutor, open_connection
from agent_reminiscence.database.embedded import EmbeddedPostgres, ServerAddress
from agent_reminiscence.database.queries import statement_name, with_numbered_parameters
from benchmarks.common import (
    Timing,
    print_table,
    processor_seconds,
    scratch_folder,
    server_megabytes,
    write_json,
)
from benchmarks.synthetic import Corpus, WordModel

SIZES = (1_000, 10_000, 100_000)
SMALL_TENANT = 800
_SEED = 20_240_101
_CLIENT_PROCESSES = """
SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> ALL($(others)p::int[])
"""
_CLIENT = """
import asyncio, sys
from agent_reminiscence import AgentMem, Config
from benchmarks.common import client_megabytes

async def main(dsn, tenant):
    async with AgentMem(Config(postgres_dsn=dsn)) as memory:
        for number in range(50):
            await memory.create_active_memory("client", "Note", f"Line {number} of what a client remembers.")
            await memory.retrieve_memories(tenant, "What did Anna say?", limit=20)
    print(client_megabytes())

asyncio.run(main(*sys.argv[1:]))
"""


@dataclass(frozen=True, slots=True)
class Call:
    """One statement of the package.

    Attributes:
        wire_bytes: How much its rows hold, about what came over the wire.
        is_alone: Whether it is a round trip, and not sent together with another statement.
    """

    name: str
    statement: str
    params: Mapping[str, Any] | None
    options: Mapping[str, Any] | None
    wire_bytes: int
    seconds: float
    is_alone: bool


class Recorder:
    """Notes the round trips of the task that switches it on; others, such as a writer of uses, go unnoted."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    @contextmanager
    def recording(self) -> Iterator[list[Call]]:
        """Record into a fresh list."""
        self.calls = []
        task = asyncio.current_task()
        usual = {name: getattr(SqlExecutor, name) for name in ("fetch_all", "fetch_last", "execute_script", "begin")}

        async def fetch_all(
            db: SqlExecutor, statement: str, params: Mapping[str, Any] | None = None, **options: Any
        ) -> list[Row]:
            started = time.perf_counter()
            rows: list[Row] = await usual["fetch_all"](db, statement, params, **options)
            if asyncio.current_task() is task:
                self._note(statement, params, rows, started, options)
            return rows

        async def fetch_last(db: SqlExecutor, statement: str, params: Mapping[str, Any]) -> list[Row]:
            started = time.perf_counter()
            rows: list[Row] = await usual["fetch_last"](db, statement, params)
            if asyncio.current_task() is task:
                self._note(statement, params, rows, started, {})
                self._note("COMMIT", None, (), time.perf_counter(), is_alone=False)
            return rows

        async def execute_script(db: SqlExecutor, script: str) -> None:
            started = time.perf_counter()
            await usual["execute_script"](db, script)
            if asyncio.current_task() is task:
                self._note(script, None, (), started)

        async def begin(
            db: SqlExecutor,
            mode: str,
            settings: Mapping[str, str],
            first: tuple[str, Mapping[str, Any]] | None = None,
        ) -> list[Row]:
            if asyncio.current_task() is not task:
                return list(await usual["begin"](db, mode, settings, first))
            # Noted before a first statement that is sent with it.
            self._note(mode, settings, (), time.perf_counter(), is_alone=first is None)
            return list(await usual["begin"](db, mode, settings, first))

        for method in (fetch_all, fetch_last, execute_script, begin):
            setattr(SqlExecutor, method.__name__, method)
        try:
            yield self.calls
        finally:
            for name, method in usual.items():
                setattr(SqlExecutor, name, method)

    def _note(
        self,
        statement: str,
        params: Mapping[str, Any] | None,
        rows: Sequence[Row],
        started: float,
        options: Mapping[str, Any] | None = None,
        *,
        is_alone: bool = True,
    ) -> None:
        seconds = time.perf_counter() - started
        name = statement_name(statement)
        self.calls.append(Call(name, statement, params, options, _wire_bytes(rows), seconds, is_alone))


def _wire_bytes(rows: Sequence[Row]) -> int:
    return sum(_size(value) for row in rows for value in row.values())


def _size(value: object) -> int:
    match value:
        case None:
            return 0
        case bytes() | str():
            return len(value)
        case list() | tuple():
            return sum(map(_size, value))
    return 8


class Bare:
    """Replays recorded statements on one plain connection."""

    def __init__(self, connection: psqlpy.Connection, backend: int) -> None:
        self._connection = connection
        self.backend = backend

    async def replay(self, calls: Sequence[Call]) -> None:
        """Run the statements, in as many transactions as they were."""
        for call in calls:
            if call.statement.startswith("BEGIN"):
                settings = (call.params or {}).items()
                chosen = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in settings)
                await self._connection.execute_batch(f"{call.statement}; SELECT {chosen}")
            elif call.options is None:
                await self._connection.execute_batch(call.statement)
            else:
                statement, names = with_numbered_parameters(call.statement)
                values = [call.params[name] for name in names] if call.params else None
                (await self._connection.execute(statement, values or None, **call.options)).result()


@dataclass(slots=True)
class Layout:
    """A filled database and the objects that measure it."""

    name: str
    chunks: int
    tenants: Sequence[tuple[str, int]]
    memory: AgentMem
    bare: Bare
    admin: SqlExecutor
    backend: int
    login: ConnectionSettings
    recorder: Recorder
    words: WordModel


@asynccontextmanager
async def layout(folder: Path, name: str, chunks: int, words: WordModel, corpus: Corpus) -> AsyncIterator[Layout]:
    """An embedded server of its own with `chunks` chunks: all one tenant's, or many tenants'."""
    data_folder = folder / f"{name}-{chunks}"
    async with AgentMem(Config(data_dir=data_folder, worker=False)) as memory:
        server = EmbeddedPostgres(data_folder)
        address = await server.start()
        login = _settings(address, EMBEDDED_LOGIN)
        admin = await open_connection(_settings(address, address.superuser))
        connection = await psqlpy.connect(host=login.host, port=login.port, username=login.user, db_name=login.database)
        rows = (await connection.execute("SELECT pg_backend_pid() AS process")).result()
        try:
            tenants = [("one", chunks)] if name == "one" else many_tenants(chunks)
            await corpus.give(admin, memory, tenants)
            yield Layout(
                name,
                chunks,
                tenants,
                memory,
                Bare(connection, int(rows[0]["process"])),
                admin,
                await _backend(admin),
                login,
                Recorder(),
                words,
            )
        finally:
            connection.close()
            admin.close()
            await server.stop()


def _settings(address: ServerAddress, user: str) -> ConnectionSettings:
    return ConnectionSettings(host=address.host, port=address.port, user=user, database=EMBEDDED_DATABASE)


def many_tenants(chunks: int) -> list[tuple[str, int]]:
    """Tenants of several sizes where there is room for them, and small ones for the rest."""
    sizes = [size for size in (20_000, 10_000, 5_000, 2_000) if chunks >= 5 * size]
    small = SMALL_TENANT if chunks >= 10 * SMALL_TENANT else chunks // 10
    left = chunks - sum(sizes)
    sizes += [small] * (left // small) + ([left % small] if left % small else [])
    return [(f"tenant-{number}", size) for number, size in enumerate(sizes)]


@dataclass(frozen=True, slots=True)
class Effort:
    """What calls of one kind took.

    Attributes:
        client_ms: Processor time of this process for a call.
        server_ms: Processor time of the server's processes for a call.
    """

    timing: Timing
    client_ms: float
    server_ms: float


class Meter:
    """Adds up what calls of one kind take."""

    def __init__(self, backends: Sequence[int]) -> None:
        self._backends = backends
        self._seconds: list[float] = []
        self._client: list[float] = []
        self._server: list[float] = []

    async def measure(self, call: Awaitable[object]) -> None:
        """Await `call`."""
        server, client, started = self._server_seconds(), time.process_time(), time.perf_counter()
        await call
        self._seconds.append(time.perf_counter() - started)
        self._client.append(time.process_time() - client)
        self._server.append(self._server_seconds() - server)

    def _server_seconds(self) -> float:
        return sum(map(processor_seconds, self._backends))

    @property
    def effort(self) -> Effort:
        """The medians."""
        return Effort(
            Timing.of(self._seconds),
            round(1000 * statistics.median(self._client), 2),
            round(1000 * statistics.median(self._server), 2),
        )


async def measure_retrieve(at: Layout, tenants: Sequence[str], repetitions: int) -> dict[str, Any]:
    """Another question each time, asked of the tenants in turn; the bare call comes first every second time."""
    product, bare = Meter(await _pool_processes(at)), Meter([at.bare.backend])
    recorded = []
    for number in range(repetitions + 2):
        tenant, question = tenants[number % len(tenants)], at.words.question()
        with at.recorder.recording() as calls:
            await at.memory.retrieve_memories(tenant, question)
        if number < 2:
            # The first two only warm caches and connections.
            await at.bare.replay(calls)
            continue
        recorded.append(calls)
        if number % 2:
            await bare.measure(at.bare.replay(calls))
        await product.measure(at.memory.retrieve_memories(tenant, question))
        if not number % 2:
            await bare.measure(at.bare.replay(calls))
    return {
        "product": product.effort,
        "bare": bare.effort,
        "ratio": round(product.effort.timing.p50_ms / bare.effort.timing.p50_ms, 2),
        "own_ms": round(product.effort.client_ms - bare.effort.client_ms, 2),
        "wire_bytes": round(statistics.median(sum(call.wire_bytes for call in calls) for calls in recorded)),
        "round_trips": round_trips(recorded),
        "statements": statements(recorded),
    }


async def measure_get(at: Layout, tenants: Sequence[str], repetitions: int) -> dict[str, Any]:
    """All memories of a tenant."""
    return await _measure(at, tenants, repetitions, at.memory.get_active_memories)


async def measure_create(at: Layout, tenants: Sequence[str], repetitions: int) -> dict[str, Any]:
    """A note of one line, too short to be consolidated; a new one each time."""
    names = _markers()

    async def create(tenant: str) -> object:
        return await at.memory.create_active_memory(tenant, "Note", _note(next(names)))

    return await _measure(at, tenants, repetitions, create)


async def measure_update(at: Layout, tenants: Sequence[str], repetitions: int) -> dict[str, Any]:
    """The first change of a note of one line: its only chunk is replaced."""
    names = _markers()
    fresh = defaultdict[str, list[tuple[str, Any]]](list)
    for number in range(2 * (repetitions + 2)):
        tenant, text = tenants[number // 2 % len(tenants)], _note(next(names))
        fresh[tenant].append((text, await at.memory.create_active_memory(tenant, "Note", text)))

    async def update(tenant: str) -> object:
        text, note = fresh[tenant].pop()
        return await at.memory.update_active_memory(tenant, note.id, content=f"{text} And more.")

    return await _measure(at, tenants, repetitions, update)


async def _measure(
    at: Layout, tenants: Sequence[str], repetitions: int, call: Callable[[str], Awaitable[object]]
) -> dict[str, Any]:
    """Call it for the tenants in turn; every second time the round trips are taken down instead of measured."""
    product = Meter(await _pool_processes(at))
    recorded = []
    for number in range(repetitions + 2):
        tenant = tenants[number % len(tenants)]
        with at.recorder.recording() as calls:
            await call(tenant)
        recorded.append(calls)
        if number >= 2:
            await product.measure(call(tenant))
    return {
        "product": product.effort,
        "round_trips": round_trips(recorded[2:]),
        "statements": statements(recorded[2:]),
    }


async def _pool_processes(at: Layout) -> list[int]:
    """The server's processes that serve the package at this moment."""
    params = {"others": [at.backend, at.bare.backend]}
    return [int(row["pid"]) for row in await at.admin.fetch_all(_CLIENT_PROCESSES, params)]


def _markers() -> Iterator[str]:
    """Words that occur in one note only, all of one length."""
    start = time.time_ns() // 1_000_000 % 10**8
    return (f"marker{start * 1000 + number:012d}" for number in range(10**6))


def _note(marker: str) -> str:
    return f"Anna told Boris that the blue boat called {marker} leaves the harbour at nine."


def round_trips(recorded: Sequence[Sequence[Call]]) -> int:
    """How many round trips a call takes; the median."""
    return round(statistics.median(sum(call.is_alone for call in calls) for calls in recorded))


def statements(recorded: Sequence[Sequence[Call]]) -> list[dict[str, Any]]:
    """Where a call's time on the database goes: round trips in order, with the median of each."""
    spent: defaultdict[tuple[int, str], list[float]] = defaultdict(list)
    for calls in recorded:
        for number, call in enumerate(calls):
            spent[number, call.name].append(call.seconds)
    return [
        {"statement": name, "p50_ms": round(1000 * statistics.median(seconds), 3), "count": len(seconds)}
        for (_, name), seconds in sorted(spent.items())
    ]


METHODS = {
    "create_active_memory": measure_create,
    "get_active_memories": measure_get,
    "update_active_memory": measure_update,
    "retrieve_memories": measure_retrieve,
}


async def measure_methods(at: Layout, repetitions: int) -> list[dict[str, Any]]:
    """The four methods on one layout."""
    results = []
    tenants = [tenant for tenant, _ in at.tenants][-16:]
    for method, measure in METHODS.items():
        # A whole tenant of 100,000 chunks is 20 MB of text.
        some = repetitions if method != "get_active_memories" or at.name != "one" else max(5, repetitions // 5)
        result = await measure(at, tenants, some)
        results.append({"method": method, "layout": at.name, "chunks": at.chunks} | result)
        print(f"  {method}: {result['product']}", flush=True)
    return results


async def measure_tenants(at: Layout, repetitions: int) -> list[dict[str, Any]]:
    """`retrieve_memories` by the size of the tenant who asks."""
    sizes: dict[int, str] = {}
    for tenant, chunks in at.tenants:
        sizes.setdefault(chunks, tenant)
    return [
        {"layout": at.name, "chunks": at.chunks, "tenant_chunks": chunks}
        | await measure_retrieve(at, [tenant], repetitions)
        for chunks, tenant in sorted(sizes.items())
    ]


def measure_import(repetitions: int) -> dict[str, Any]:
    """What `import agent_reminiscence` takes in a fresh process, beside an empty one."""

    def run(code: str) -> float:
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603
        return time.perf_counter() - started

    empty = Timing.of([run("pass") for _ in range(repetitions)])
    full = Timing.of([run("import agent_reminiscence") for _ in range(repetitions)])
    report = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "import agent_reminiscence"],
        check=True,
        capture_output=True,
        text=True,
    ).stderr
    lines = [line.removeprefix("import time:").split("|") for line in report.splitlines()[1:]]
    slowest = sorted(((int(own), name.strip()) for own, _, name in lines if own.strip().isdigit()), reverse=True)
    return {
        "empty_process": empty,
        "with_import": full,
        "slowest_ms": {name: round(own / 1000, 1) for own, name in slowest[:8]},
    }


async def _backend(db: SqlExecutor) -> int:
    row = await db.fetch_one("SELECT pg_backend_pid() AS process")
    assert row is not None
    return int(row["process"])


def measure_client_memory(at: Layout) -> float:
    """Memory of a fresh process that has used the package, in MB."""
    # `python -c` looks for modules in the working folder, and the benchmarks lie beside the package.
    checkout = Path(__file__).parent.parent
    dsn = f"postgresql://{at.login.user}@/{at.login.database}?host={at.login.host}&port={at.login.port}"
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", _CLIENT, dsn, at.tenants[-1][0]],
        cwd=checkout,
        check=True,
        capture_output=True,
        text=True,
    )
    return round(float(done.stdout), 1)


async def run(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Everything, one layout after the other."""
    repetitions = arguments.repetitions
    result: dict[str, Any] = {"import": measure_import(5 if arguments.quick else 9), "methods": [], "tenants": [],
                              "memory": []}  # fmt: skip
    words = WordModel(_SEED)
    corpus = Corpus(words, max(arguments.sizes))
    for chunks in arguments.sizes:
        for name in arguments.layouts:
            started = time.perf_counter()
            async with layout(folder, name, chunks, words, corpus) as at:
                print(f"{chunks} chunks, {name}: filled in {time.perf_counter() - started:.0f} s", flush=True)
                result["methods"] += await measure_methods(at, repetitions)
                if name == "many":
                    result["tenants"] += await measure_tenants(at, repetitions)
                result["memory"].append(
                    {
                        "layout": name,
                        "chunks": chunks,
                        "server_mb": round(server_megabytes(at.backend), 1),
                        "client_mb": measure_client_memory(at),
                    }
                )
    return result


def print_results(result: Mapping[str, Any]) -> None:
    """Print the tables."""
    print_table(
        ["method", "chunks", "tenants", "p50 / p95", "client CPU, ms", "server CPU, ms", "round trips"],
        [
            [one["method"], one["chunks"], one["layout"], one["product"].timing, one["product"].client_ms,
             one["product"].server_ms, one["round_trips"]]
            for one in result["methods"]
        ],
    )  # fmt: skip
    recalls = [one | {"tenant_chunks": ""} for one in result["methods"] if one["method"] == "retrieve_memories"]
    print_table(
        ["tenant's chunks", "of all", "tenants", "retrieve p50 / p95", "bare p50 / p95", "ratio", "bare server CPU, ms",
         "own CPU, ms", "bytes on the wire"],
        [
            [one["tenant_chunks"], one["chunks"], one["layout"], one["product"].timing, one["bare"].timing,
             one["ratio"], one["bare"].server_ms, one["own_ms"], one["wire_bytes"]]
            for one in [*recalls, *result["tenants"]]
        ],
    )  # fmt: skip
    print_table(
        ["tenants", "chunks", "server MB", "client MB"],
        [[one["layout"], one["chunks"], one["server_mb"], one["client_mb"]] for one in result["memory"]],
    )
    imported = result["import"]
    print(f"import: {imported['with_import']}; empty process: {imported['empty_process']}")
    print(f"  slowest modules, ms: {imported['slowest_ms']}\n")
    for one in result["methods"][-len(METHODS) :]:
        print(f"{one['method']}, {one['chunks']} chunks, {one['layout']}:")
        print_table(["round trip", "p50 ms"], [[part["statement"], part["p50_ms"]] for part in one["statements"]])


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="chunks in the database")
    parser.add_argument(
        "--layouts",
        nargs="+",
        choices=("one", "many"),
        default=["one", "many"],
        help="all chunks in one tenant, or in many",
    )
    parser.add_argument("--repetitions", type=int, default=100, help="timed calls of each kind")
    parser.add_argument("--quick", action="store_true", help="smoke run: 1,000 chunks and few repetitions")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.sizes, arguments.repetitions = [1_000], 15
    with scratch_folder("reminiscence-latency-") as folder:
        result = asyncio.run(run(arguments, folder))
    print_results(result)
    if arguments.json:
        write_json(arguments.json, result)


if __name__ == "__main__":
    main()
