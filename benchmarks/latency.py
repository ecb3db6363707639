"""The four methods of `AgentMem`, and beside them the statements they send, run bare.

    python benchmarks/latency.py [--sizes 1000 10000 100000] [--quick]

"Bare" is what no library could do without: psqlpy on one connection, BEGIN, the statement that sets role and tenant,
the statements that the method sent with the parameters it sent, COMMIT; no validation, no pool, no models, no vectors
made. Product and bare calls take turns, so that both see the same machine.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import psqlpy
from uuid_utils.compat import uuid7

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.config.constants import EMBEDDED_DATABASE, EMBEDDED_LOGIN, RANKING_DEPTH, TIERS
from agent_reminiscence.database.embedded import EmbeddedPostgres, ServerAddress
from agent_reminiscence.database.postgres_manager import (
    ConnectionSettings,
    PostgresManager,
    Row,
    SqlExecutor,
    open_connection,
)
from agent_reminiscence.database.queries import all_query_files, load_queries
from agent_reminiscence.database.repositories.search import (
    SEARCH_SETTINGS,
    SearchRepository,
    SearchRequest,
    VectorScan,
    halfvec,
)
from agent_reminiscence.services.embedders import WordLlamaEmbedder
from agent_reminiscence.services.retrieval import name_candidates
from benchmarks.common import Timing, print_table, scratch_folder, server_megabytes, write_json
from benchmarks.synthetic import Corpus, WordModel

SIZES = (1_000, 10_000, 100_000)
SMALL_TENANT = 800
# DESIGN figures at 100,000 chunks in 32 partitions, in ms by chunks of the tenant who asks.
DESIGN_MS = {800: 7.0, 20_000: 27.0}
RETRIEVE_LIMIT, RETRIEVE_FROM = 1.5, 10_000
CREATE_LIMIT = 3.0
_SEED = 20_240_101

_VECTORS_EXACT = """
SELECT chunk_id FROM (
    SELECT chunk_id, {column} <=> $(vector)p::halfvec AS distance
    FROM chunk_vector_1 WHERE external_id = $(external_id)p OFFSET 0) AS scanned
ORDER BY distance LIMIT $(limit)p::int
"""
_VECTORS_HNSW = """
SELECT chunk_id FROM chunk_vector_1 WHERE external_id = $(external_id)p
ORDER BY {column} <=> $(vector)p::halfvec LIMIT $(limit)p::int
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
    """One round trip that the package made."""

    name: str
    statement: str
    params: Mapping[str, Any] | None
    options: Mapping[str, Any]
    rows: Sequence[Row]
    seconds: float


class Recorder:
    """Notes every round trip of the package while it is switched on."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._names = {
            sql.replace("{generation}", "1").strip(): name
            for stem in all_query_files("sql")
            for name, sql in load_queries("sql", stem).items()
        }

    @contextmanager
    def recording(self) -> Iterator[list[Call]]:
        """Record into a fresh list."""
        self.calls = []
        usual = {name: getattr(SqlExecutor, name) for name in ("fetch_all", "execute_script", "set_local")}

        async def fetch_all(
            db: SqlExecutor, statement: str, params: Mapping[str, Any] | None = None, **options: Any
        ) -> list[Row]:
            started = time.perf_counter()
            rows: list[Row] = await usual["fetch_all"](db, statement, params, **options)
            # Repositories turn the rows they get into something else, in place.
            self._note(statement, params, [dict(row) for row in rows], started, options)
            return rows

        async def execute_script(db: SqlExecutor, script: str) -> None:
            started = time.perf_counter()
            await usual["execute_script"](db, script)
            self._note(script, None, (), started)

        async def set_local(db: SqlExecutor, settings: Mapping[str, str]) -> None:
            started = time.perf_counter()
            await usual["set_local"](db, settings)
            self._note("set_local", settings, (), started)

        for method in (fetch_all, execute_script, set_local):
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
    ) -> None:
        seconds = time.perf_counter() - started
        name = self._names.get(statement) or ("search" if "word_ranking" in statement else statement.split("\n", 1)[0])
        self.calls.append(Call(name, statement, params, options or {}, rows, seconds))


class Substitution:
    """Makes recorded parameters insert something new: other ids, other words, and the hashes of these words."""

    def __init__(self, calls: Sequence[Call], marker: str, other: str, known: Mapping[str, str]) -> None:
        self._marker, self._other = marker, other
        self._ids = dict(known)
        texts = {text for call in calls for row in call.rows for text in row.get("texts") or ()}
        self._hashes = {_sha256(text): _sha256(text.replace(marker, other)) for text in texts}

    def apply(self, value: Any) -> Any:
        """`value` with everything replaced that has to be new."""
        match value:
            case UUID():
                return UUID(self._new_id(str(value)))
            case str():
                if value in self._hashes:
                    return self._hashes[value]
                for old, new in self._ids.items():
                    value = value.replace(old, new)
                return value.replace(self._marker, self._other)
            case list():
                return [self.apply(item) for item in value]
            case dict():
                return {key: self.apply(item) for key, item in value.items()}
        return value

    def learn(self, calls: Sequence[Call]) -> None:
        """Note the ids among the parameters first, because payloads quote them before they come as ids."""
        for call in calls:
            for value in (call.params or {}).values():
                for item in value if isinstance(value, list) else [value]:
                    if isinstance(item, UUID):
                        self._new_id(str(item))

    def _new_id(self, old: str) -> str:
        return self._ids.setdefault(old, str(uuid7()))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class Bare:
    """Replays recorded statements on one plain connection."""

    def __init__(self, connection: psqlpy.Connection) -> None:
        self._connection = connection

    async def replay(self, calls: Sequence[Call], substitution: Substitution | None = None) -> float:
        """Run the statements in one transaction; returns the seconds from BEGIN to COMMIT."""
        begin = calls[0].statement
        settings = next(call for call in calls if call.statement == "set_local").params or {}
        set_config = ", ".join(f"set_config(${2 * i + 1}, ${2 * i + 2}, true)" for i in range(len(settings)))
        statements = [
            (call.statement, substitution.apply(dict(call.params or {})) if substitution else call.params, call.options)
            for call in calls
            if call.params is not None and call.statement != "set_local"
        ]
        started = time.perf_counter()
        await self._connection.execute_batch(begin)
        await self._connection.execute(f"SELECT {set_config}", [part for pair in settings.items() for part in pair])
        for statement, params, options in statements:
            (await self._connection.execute(statement, params, **options)).result()
        await self._connection.execute_batch("COMMIT")
        return time.perf_counter() - started


@dataclass(slots=True)
class Layout:
    """A filled database and the objects that measure it."""

    name: str
    chunks: int
    tenants: Sequence[tuple[str, int]]
    memory: AgentMem
    bare: Bare
    admin: SqlExecutor
    login: ConnectionSettings
    recorder: Recorder
    words: WordModel


@asynccontextmanager
async def layout(folder: Path, name: str, chunks: int, words: WordModel, corpus: Corpus) -> AsyncIterator[Layout]:
    """An embedded server of its own with `chunks` chunks: all one tenant's, or many tenants'."""
    data_folder = folder / f"{name}-{chunks}"
    async with AgentMem(Config(data_dir=data_folder)) as memory:
        server = EmbeddedPostgres(data_folder)
        address = await server.start()
        login = _settings(address, EMBEDDED_LOGIN)
        admin = await open_connection(_settings(address, address.superuser))
        connection = await psqlpy.connect(host=login.host, port=login.port, username=login.user, db_name=login.database)
        try:
            tenants = [("one", chunks)] if name == "one" else many_tenants(chunks)
            await corpus.give(admin, memory, tenants, folder)
            yield Layout(name, chunks, tenants, memory, Bare(connection), admin, login, Recorder(), words)
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


async def compare(
    repetitions: int, product: Callable[[], Awaitable[object]], bare: Callable[[], Awaitable[float]]
) -> dict[str, Any]:
    """Time both in turns; the bare call comes first every second time."""
    ours: list[float] = []
    theirs: list[float] = []

    async def timed() -> None:
        started = time.perf_counter()
        await product()
        ours.append(time.perf_counter() - started)

    for number in range(repetitions + 2):
        if number == 2:
            # The first two only warm caches and connections.
            ours.clear()
            theirs.clear()
        if number % 2:
            theirs.append(await bare())
            await timed()
        else:
            await timed()
            theirs.append(await bare())
    product_timing, bare_timing = Timing.of(ours), Timing.of(theirs)
    return {
        "product": product_timing,
        "bare": bare_timing,
        "ratio": round(product_timing.p50_ms / bare_timing.p50_ms, 2),
    }


async def measure_retrieve(at: Layout, tenants: Sequence[str], repetitions: int) -> dict[str, Any]:
    """Another question each time, asked of the tenants in turn."""
    recorded = []
    for number in range(repetitions + 2):
        tenant, question = tenants[number % len(tenants)], at.words.question()
        with at.recorder.recording() as calls:
            await at.memory.retrieve_memories(tenant, question)
        recorded.append((tenant, question, calls))
    ours, theirs = iter(recorded), iter(recorded)

    async def product() -> object:
        tenant, question, _ = next(ours)
        return await at.memory.retrieve_memories(tenant, question)

    async def bare() -> float:
        _, _, calls = next(theirs)
        return await at.bare.replay(calls)

    result = await compare(repetitions, product, bare)
    return result | {"statements": statements([calls for _, _, calls in recorded[2:]])}


async def measure_get(at: Layout, tenants: Sequence[str], repetitions: int) -> dict[str, Any]:
    """All memories of a tenant."""
    recorded = []
    for tenant in tenants:
        with at.recorder.recording() as calls:
            await at.memory.get_active_memories(tenant)
        recorded.append(calls)
    ours, theirs = iter(range(repetitions + 2)), iter(range(repetitions + 2))

    async def product() -> object:
        return await at.memory.get_active_memories(tenants[next(ours) % len(tenants)])

    async def bare() -> float:
        return await at.bare.replay(recorded[next(theirs) % len(recorded)])

    return await compare(repetitions, product, bare) | {"statements": statements(recorded)}


async def measure_create(at: Layout, tenants: Sequence[str], repetitions: int) -> dict[str, Any]:
    """A note of one line, too short to be consolidated; a new one each time, and its like for the bare statements."""
    names = _markers()
    recorded = []
    for tenant in tenants:
        marker = next(names)
        with at.recorder.recording() as calls:
            await at.memory.create_active_memory(tenant, "Note", _note(marker))
        recorded.append((marker, calls))
    numbers = iter(range(repetitions + 2))
    others = iter(range(repetitions + 2))

    async def product() -> object:
        return await at.memory.create_active_memory(tenants[next(numbers) % len(tenants)], "Note", _note(next(names)))

    async def bare() -> float:
        marker, calls = recorded[next(others) % len(recorded)]
        substitution = Substitution(calls, marker, next(names), {})
        substitution.learn(calls)
        return await at.bare.replay(calls, substitution)

    result = await compare(repetitions, product, bare)
    return result | {"statements": statements([calls for _, calls in recorded[1:] or recorded])}


async def measure_update(at: Layout, tenants: Sequence[str], repetitions: int) -> dict[str, Any]:
    """The first change of a note of one line: its only chunk is replaced."""
    names = _markers()
    recorded = []
    for tenant in tenants:
        marker = next(names)
        note = await at.memory.create_active_memory(tenant, "Note", _note(marker))
        ids = await _chunk_ids(at, tenant, note.id)
        with at.recorder.recording() as calls:
            await at.memory.update_active_memory(tenant, note.id, content=f"{_note(marker)} And more.")
        recorded.append((tenant, marker, [str(note.id), *ids], calls))
    fresh = [await _fresh_note(at, recorded[number % len(recorded)][0], next(names))
             for number in range(2 * (repetitions + 2))]  # fmt: skip
    ours, theirs = iter(fresh[::2]), iter(fresh[1::2])

    async def product() -> object:
        tenant, marker, ids = next(ours)
        return await at.memory.update_active_memory(tenant, ids[0], content=f"{_note(marker)} And more.")

    async def bare() -> float:
        tenant, other, ids = next(theirs)
        _, marker, old_ids, calls = recorded[[one[0] for one in recorded].index(tenant)]
        substitution = Substitution(calls, marker, other, dict(zip(old_ids, ids, strict=True)))
        substitution.learn(calls)
        return await at.bare.replay(calls, substitution)

    return await compare(repetitions, product, bare) | {"statements": statements([calls for *_, calls in recorded])}


async def _fresh_note(at: Layout, tenant: str, marker: str) -> tuple[str, str, list[str]]:
    note = await at.memory.create_active_memory(tenant, "Note", _note(marker))
    return tenant, marker, [str(note.id), *await _chunk_ids(at, tenant, note.id)]


async def _chunk_ids(at: Layout, tenant: str, memory_id: UUID) -> list[str]:
    row = await at.admin.fetch_one(
        "SELECT chunk_ids::text[] AS ids FROM active_memory"
        " WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p",
        {"external_id": tenant, "memory_id": memory_id},
    )
    assert row is not None
    return list(row["ids"])


def _markers() -> Iterator[str]:
    """Words that occur in one note only, all of one length."""
    start = time.time_ns() // 1_000_000 % 10**8
    return (f"marker{start * 1000 + number:012d}" for number in range(10**6))


def _note(marker: str) -> str:
    return f"Anna told Boris that the blue boat called {marker} leaves the harbour at nine."


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
        print(f"  {method}: {result['product']} against {result['bare']}, ratio {result['ratio']}", flush=True)
    return results


async def measure_tenants(at: Layout, repetitions: int) -> list[dict[str, Any]]:
    """`retrieve_memories` and both ways to find near vectors, by the size of the tenant who asks."""
    sizes: dict[int, str] = {}
    for tenant, chunks in at.tenants:
        sizes.setdefault(chunks, tenant)
    store = PostgresManager(at.login, pool_size=1, pool_timeout_seconds=10, statement_timeout_seconds=60)
    await store.initialize()
    search, embedder = SearchRepository(), WordLlamaEmbedder()
    results = []
    for chunks, tenant in sorted(sizes.items()):
        retrieve = (await measure_retrieve(at, [tenant], repetitions))["product"]
        spent: dict[VectorScan, list[float]] = {"exact": [], "hnsw": []}
        found: list[float] = []
        same: list[float] = []
        for _ in range(repetitions):
            question = at.words.question()
            request = await _request(tenant, question, embedder)
            hits = {}
            for scan, seconds in spent.items():
                async with store.transaction(tenant, settings=SEARCH_SETTINGS, read_only=True) as db:
                    started = time.perf_counter()
                    rows = await search.search(db, request, generation=1, scan=scan)
                    seconds.append(time.perf_counter() - started)
                hits[scan] = {row["chunk_id"] for row in rows}
            same.append(len(hits["exact"] & hits["hnsw"]) / max(1, len(hits["exact"])))
            found.append(await _recall(store, request))
        results.append(
            {
                "layout": at.name,
                "chunks": at.chunks,
                "tenant_chunks": chunks,
                "retrieve": retrieve,
                "exact": Timing.of(spent["exact"]),
                "hnsw": Timing.of(spent["hnsw"]),
                "hnsw_recall": round(statistics.fmean(found), 3),
                "same_hits": round(statistics.fmean(same), 3),
            }
        )
        print(f"  tenant of {chunks}: {results[-1]}", flush=True)
    await store.close()
    return results


async def _request(tenant: str, question: str, embedder: WordLlamaEmbedder) -> SearchRequest:
    now = datetime.now(UTC)
    return SearchRequest(
        external_id=tenant,
        query=question,
        vector=(await embedder.embed([question]))[0],
        speaker_keys=name_candidates(question),
        tiers=TIERS,
        min_confidence=0.0,
        as_of=None,
        known_at=now,
        now=now,
        limit=10,
    )


async def _recall(store: PostgresManager, request: SearchRequest) -> float:
    """Which share of the fifty nearest chunks, by all three vectors, HNSW finds."""
    assert request.vector is not None
    params = {"external_id": request.external_id, "vector": halfvec(request.vector), "limit": RANKING_DEPTH}
    shares = []
    async with store.transaction(request.external_id, settings=SEARCH_SETTINGS, read_only=True) as db:
        for column in ("text_vector", "before_vector", "around_vector"):
            exact, hnsw = [
                {row["chunk_id"] for row in await db.fetch_all(sql.format(column=column), params)}
                for sql in (_VECTORS_EXACT, _VECTORS_HNSW)
            ]
            shares.append(len(exact & hnsw) / len(exact))
    return statistics.fmean(shares)


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
    await corpus.embed()
    for chunks in arguments.sizes:
        for name in arguments.layouts:
            started = time.perf_counter()
            async with layout(folder, name, chunks, words, corpus) as at:
                print(f"{chunks} chunks, {name}: filled in {time.perf_counter() - started:.0f} s", flush=True)
                result["methods"] += await measure_methods(at, repetitions)
                if name == "many" or chunks == max(arguments.sizes):
                    result["tenants"] += await measure_tenants(at, repetitions)
                result["memory"].append(
                    {
                        "layout": name,
                        "chunks": chunks,
                        "server_mb": round(server_megabytes(await _backend(at.admin)), 1),
                        "client_mb": measure_client_memory(at),
                    }
                )
    result["within_limits"] = _within_limits(result["methods"])
    return result


def _within_limits(methods: Sequence[Mapping[str, Any]]) -> bool:
    return all(
        one["ratio"] <= (CREATE_LIMIT if one["method"] == "create_active_memory" else RETRIEVE_LIMIT)
        for one in methods
        if one["method"] == "create_active_memory"
        or (one["method"] == "retrieve_memories" and one["chunks"] >= RETRIEVE_FROM)
    )


def print_results(result: Mapping[str, Any]) -> None:
    """Print the tables."""
    print_table(
        ["method", "chunks", "tenants", "p50 / p95", "bare p50 / p95", "ratio"],
        [
            [one["method"], one["chunks"], one["layout"], one["product"], one["bare"], one["ratio"]]
            for one in result["methods"]
        ],
    )
    print_table(
        ["tenant's chunks", "of all", "retrieve p50 / p95", "design p50", "exact", "HNSW", "HNSW recall", "same hits"],
        [
            [
                one["tenant_chunks"], one["chunks"], one["retrieve"], _design(one), one["exact"], one["hnsw"],
                one["hnsw_recall"], one["same_hits"],
            ]
            for one in result["tenants"]
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


def _design(one: Mapping[str, Any]) -> str:
    figure = DESIGN_MS.get(one["tenant_chunks"]) if one["chunks"] == max(SIZES) else None
    return "" if figure is None else f"{figure:g} ms"


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="chunks in the database")
    parser.add_argument(
        "--layouts",
        nargs="+",
        choices=("one", "many"),
        default=["one", "many"],
        help="all chunks one tenant's, or many tenants'",
    )
    parser.add_argument("--repetitions", type=int, default=100, help="timed calls of each kind")
    parser.add_argument("--quick", action="store_true", help="1,000 chunks and few repetitions: does it run?")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.sizes, arguments.repetitions = [1_000], 15
    with scratch_folder("reminiscence-latency-") as folder:
        result = asyncio.run(run(arguments, folder))
    print_results(result)
    print("within the limits" if result["within_limits"] else "NOT within the limits")
    if arguments.json:
        write_json(arguments.json, result)


if __name__ == "__main__":
    main()
