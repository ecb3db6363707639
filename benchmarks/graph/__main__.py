"""Measure a tenant with a hundred thousand entities and three hundred thousand relationships, in both stores.

    python -m benchmarks.graph [--entities 100000] [--relationships 300000] [--quick]

They are written as events through their handlers, so the write rate is the application's. Neo4j follows; then both
stores answer the same queries.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_reminiscence import AgentMem
from agent_reminiscence.database.connection import SqlExecutor, open_connection
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.repositories.graph.neo4j import Neo4jGraph
from agent_reminiscence.database.repositories.graph.postgres import PostgresGraph
from agent_reminiscence.database.repositories.graph.store import GraphDelta, GraphStore
from agent_reminiscence.database.repositories.graph.tables import EntityGraphRepository
from benchmarks.common import Timing, print_table, scratch_folder, write_json
from benchmarks.graph.effort import Meter
from benchmarks.graph.following import Steady, connected, follower_of
from benchmarks.graph.plans import Plans, explain, not_seen, profile
from benchmarks.graph.reading import measure_known_names, measure_reads
from benchmarks.graph.world import World
from benchmarks.graph.writing import GraphWriter, Pace, load, open_store, summarise
from benchmarks.jobs import Server, Texts, embedded_server
from tests.support.neo4j_server import Neo4jServer

_SEED = 20_240_101
_DATABASE = "graph"
_TENANT = "large"
_OTHERS = 20
# Of what the large tenant has, each of the others has so much.
_OTHERS_SHARE = 1 / 500
_TABLES = ("entity", "entity_name", "relationship", "graph_mention")
_TABLE_BYTES = """
SELECT sum(pg_total_relation_size(inhrelid))::bigint AS bytes
FROM pg_inherits
WHERE inhparent = ('reminiscence.' || $(name)p)::regclass
"""


@dataclass(frozen=True, slots=True)
class Run:
    """What the parts of one run share."""

    arguments: argparse.Namespace
    server: Server
    neo4j: Neo4jServer
    store: PostgresManager
    admin: SqlExecutor
    texts: Texts
    world: World
    meter: Meter

    @property
    def others(self) -> list[str]:
        """The small tenants."""
        return [f"small-{number}" for number in range(_OTHERS)]


async def fill_postgres(run: Run, memory: AgentMem) -> dict[str, Any]:
    """All tenants, by events."""
    writer = GraphWriter(memory, run.store, run.texts, graph_follows=False)
    arguments = run.arguments
    for number, tenant in enumerate(run.others):
        await load(
            writer,
            tenant,
            World(_SEED + 1 + number),
            entities=max(10, round(arguments.entities * _OTHERS_SHARE)),
            relationships=max(30, round(arguments.relationships * _OTHERS_SHARE)),
            batch=arguments.batch,
        )
    say("PostgreSQL: the large tenant")
    with run.meter.measured() as effort:
        batches = await load(
            writer,
            _TENANT,
            run.world,
            entities=arguments.entities,
            relationships=arguments.relationships,
            batch=arguments.batch,
        )
    tenth = max(1, len(batches) // 10)
    return {
        "all": summarise(batches),
        "first_tenth": summarise(batches[:tenth]),
        "last_tenth": summarise(batches[-tenth:]),
        "effort": effort.row(),
        "largest_degrees": run.world.degrees(run.world.hubs(5)),
    }


async def fill_neo4j(run: Run) -> dict[str, Any]:
    """Neo4j from nothing, as by `rebuild`; and once more, with nothing to do."""
    async with connected(run.neo4j.address) as manager:
        graph, follower = Neo4jGraph(manager), follower_of(run.store, manager)
        await graph.ensure_schema()
        for tenant in run.others:
            await follower.follow(tenant)
        figures = {}
        for name, call in (("filled", follower.follow), ("compared", follower.resync)):
            with run.meter.measured() as effort:
                report = await call(_TENANT)
            figures[name] = effort.row() | {"sent": report.sent, "removed": report.removed}
            say(f"Neo4j {name}: {figures[name]}")
    states = run.world.entities + run.world.relationships
    assert figures["filled"]["sent"] == states, figures
    assert figures["compared"]["sent"] == figures["compared"]["removed"] == 0, figures
    for one in figures.values():
        one["per_second"] = round(states / one["seconds"])
    return figures


async def measure_disk(run: Run) -> dict[str, int]:
    """Megabytes of both stores: tables with their indexes, the store's files, and the log of each."""
    found = {}
    await run.admin.execute_script("VACUUM (ANALYZE)")
    for table in (*_TABLES, "memory_event"):
        row = await run.admin.fetch_one(_TABLE_BYTES, {"name": table})
        assert row is not None
        found[f"PostgreSQL: {table}"] = round(row["bytes"] / 2**20)
    # What it has not yet written out it writes when it stops.
    await asyncio.to_thread(run.neo4j.stop)
    for folder in ("databases/neo4j", "transactions/neo4j"):
        files = (run.neo4j.folder / "data" / folder).rglob("*")
        found[f"Neo4j: {folder}"] = round(sum(file.stat().st_size for file in files if file.is_file()) / 2**20)
    await asyncio.to_thread(run.neo4j.start)
    return found


async def measure_consolidations(run: Run, memory: AgentMem) -> dict[str, Timing]:
    """What a real consolidation takes beside so many names: of names that are known, and with one that is not."""
    seconds: dict[str, list[float]] = {"known names": [], "one unknown name": []}
    for _ in range(run.arguments.consolidations):
        for kind, unknown in (("known names", 0), ("one unknown name", 1)):
            names = [*run.world.names_of(run.world.some(3 - unknown)), *run.world.unknown_names(unknown)]
            text = f"Yesterday {names[0]} met {names[1]} in the harbour. They waited there for {names[2]}."
            note = await memory.create_active_memory(_TENANT, "Note", text)
            started = time.perf_counter()
            (report,) = await memory.admin.consolidate(_TENANT, note.id)
            seconds[kind].append(time.perf_counter() - started)
            assert report.entities >= 2, report
    return {kind: Timing.of(found) for kind, found in seconds.items()}


async def measure_plans(run: Run) -> dict[str, Plans]:
    """How both stores find what is asked for."""
    async with run.store.transaction(_TENANT, read_only=True) as db:
        head = await db.fetch_one("SELECT head FROM memory_stream WHERE external_id = $(t)p", {"t": _TENANT})
        assert head is not None
        delta = await EntityGraphRepository().read_changes(db, _TENANT, after=head["head"] - 4)
        mentioned = next(one for one in delta.entities if one.chunk_ids)
    shown = GraphDelta(delta.entities, delta.relationships)
    in_neo4j = await profile(run.neo4j.address, _TENANT, run.world, small_tenant=run.others[0], delta=shown)
    # The last part of all: it makes up what is rolled back.
    in_postgres = await explain(run.store, _TENANT, run.world, chunks=mentioned.chunk_ids[:1])
    return {"postgres": in_postgres, "neo4j": in_neo4j}


async def measure(run: Run) -> dict[str, Any]:
    """Everything, one part after the other."""
    arguments = run.arguments
    result: dict[str, Any] = {"entities": arguments.entities, "relationships": arguments.relationships}
    async with run.server.memory(_DATABASE, worker=False) as memory:
        result["postgres_write"] = await fill_postgres(run, memory)
        say(f"PostgreSQL filled: {result['postgres_write']}")
        result["neo4j_write"] = await fill_neo4j(run)
        result["disk_mb"] = await measure_disk(run)
        async with connected(run.neo4j.address) as manager:
            stores: dict[str, GraphStore] = {
                "PostgreSQL": PostgresGraph(run.store, EntityGraphRepository()),
                "Neo4j": Neo4jGraph(manager),
            }
            result["reads"] = await measure_reads(
                stores, _TENANT, run.world, asked=arguments.asked, hubs=arguments.hubs
            )
        result["known_names"] = await measure_known_names(run.store, _TENANT, run.world, asked=arguments.asked)
        say(f"known_names: {result['known_names']}")
        result["consolidation"] = await measure_consolidations(run, memory)
        say(f"consolidations: {result['consolidation']}")
    async with connected(run.neo4j.address) as manager:
        await follower_of(run.store, manager).follow(_TENANT)
        steady = Steady(run.server, _DATABASE, run.store, run.neo4j, Neo4jGraph(manager), run.texts, _TENANT, run.world)
        result["lag"] = await steady.measure_lag(Pace(arguments.per_second, arguments.seconds))
        say(f"lag: {result['lag']}")
        result["outage"] = await steady.measure_outage(Pace(arguments.per_second, arguments.away))
        say(f"outage: {result['outage']}")
        compared = await follower_of(run.store, manager).compare(_TENANT)
        result["after_outage"] = {"state": compared.state, "differences": len(compared.drift)}
    plans = await measure_plans(run)
    for language, (store, found) in zip(("sql", "cypher"), plans.items(), strict=True):
        result[f"plans_{store}"] = [plan.row() for _, plan in sorted(found.items())]
        result[f"not_seen_{store}"] = not_seen(language, found)
    return result


async def run_all(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """With servers of this run's own."""
    before = os.getloadavg()[0]
    neo4j = Neo4jServer(
        folder / "neo4j", heap_mb=arguments.heap_mb, page_cache_mb=arguments.page_cache_mb, is_measured=True
    )
    await asyncio.to_thread(neo4j.start)
    try:
        async with embedded_server(folder) as server:
            await server.create_database(_DATABASE)
            admin = await open_connection(server.administrator(_DATABASE))
            backend = await admin.fetch_one("SELECT pg_backend_pid() AS process")
            assert backend is not None
            meter = Meter(backend["process"], neo4j)
            async with open_store(server, _DATABASE) as store:
                result = await measure(Run(arguments, server, neo4j, store, admin, Texts(), World(_SEED), meter))
            admin.close()
    finally:
        await asyncio.to_thread(neo4j.stop)
    return result | {"load_average": [round(before, 1), round(os.getloadavg()[0], 1)]}


def print_results(result: Mapping[str, Any]) -> None:
    """Print the tables."""
    written, sent = result["postgres_write"], result["neo4j_write"]
    print_table(
        ["write", "seconds", "new a second", "named a second"],
        [
            [f"PostgreSQL, {part}", one["seconds"], f"{one['new_per_second']:,}", f"{one['named_per_second']:,}"]
            for part, one in written.items()
            if part not in ("effort", "largest_degrees")
        ],
    )
    print_table(
        ["Neo4j", "seconds", "sent", "states a second"],
        [[what, one["seconds"], f"{one['sent']:,}", f"{one['per_second']:,}"] for what, one in sent.items()],
    )
    efforts = {"PostgreSQL, with the memories": written["effort"]} | {
        f"Neo4j {what}": one for what, one in sent.items()
    }
    print_table(
        ["processor seconds", "client", "PostgreSQL", "Neo4j"],
        [[what, *one["processor_seconds"].values()] for what, one in efforts.items()],
    )
    print_table(["disk", "MB"], [[what, f"{megabytes:,}"] for what, megabytes in result["disk_mb"].items()])
    print_table(
        ["p50 / p95", "PostgreSQL", "Neo4j", "ratio of p50", "same answers", "found", "refused"],
        [_read_row(one) for one in result["reads"]],
    )
    print_table(
        ["PostgreSQL alone", "p50 / p95"],
        [
            ["known_names, 40 keys", result["known_names"]],
            *([f"consolidation, {kind}", timing] for kind, timing in result["consolidation"].items()),
        ],
    )
    lag, outage, after = result["lag"], result["outage"], result["after_outage"]
    behind = f"{lag['events_p50']} / {lag['events_p95']} / {lag['events_max']}"
    print(
        f"{lag['consolidations']} consolidations, {lag['per_second']} a second: {lag['lag']} behind, at most"
        f" {lag['max_ms']} ms; {behind} consolidations behind (p50 / p95 / max)"
    )
    print(
        f"{outage['away_seconds']:g} s away: caught up {outage['caught_up_seconds']} s after it was there again"
        f" (start {outage['start_seconds']} s); afterwards {after['state']}, {after['differences']} differences\n"
    )
    _print_plans("PostgreSQL", "pages", result["plans_postgres"], result["not_seen_postgres"])
    _print_plans("Neo4j", "db hits", result["plans_neo4j"], result["not_seen_neo4j"])
    print(f"load average before and after: {result['load_average']}")


def _read_row(one: Mapping[str, Any]) -> list[object]:
    ours, theirs = one["PostgreSQL"], one["Neo4j"]
    ratio = f"{theirs.p50_ms / ours.p50_ms:.1f}" if ours and theirs else ""
    refused = ", ".join(f"{store} {count}" for store, count in one["refused"].items() if count)
    return [one["what"], ours, theirs, ratio, one["same"], one.get("found", ""), refused]


def _print_plans(store: str, cost: str, plans: Sequence[Mapping[str, Any]], missing: Sequence[str]) -> None:
    print_table(
        [store, "rows", cost, "ms", "finds by", "reads whole"],
        [
            [
                plan["query"],
                f"{plan['rows']:,}",
                f"{plan['cost']:,}",
                plan["milliseconds"],
                ", ".join(plan["finds"]),
                ", ".join(plan["scans"]) or "nothing",
            ]
            for plan in plans
        ],
    )
    if missing:
        print(f"{store}: never run here: {', '.join(missing)}\n")


def say(text: str) -> None:
    """Show what is going on."""
    print(text, flush=True)


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--entities", type=int, default=100_000, help="entities of the large tenant")
    parser.add_argument("--relationships", type=int, default=300_000, help="its relationships")
    parser.add_argument("--batch", type=int, default=1_000, help="new entities in one event")
    parser.add_argument("--asked", type=int, default=200, help="questions of each kind")
    parser.add_argument("--hubs", type=int, default=20, help="number of most-connected entities to query")
    parser.add_argument("--consolidations", type=int, default=20, help="real consolidations of each kind")
    parser.add_argument("--per-second", type=float, default=5, help="consolidations per second while Neo4j follows")
    parser.add_argument("--seconds", type=float, default=60, help="how long these continue, in seconds")
    parser.add_argument("--away", type=float, default=30, help="length of the Neo4j outage, in seconds")
    parser.add_argument("--heap-mb", type=int, default=1_024, help="heap of Neo4j's JVM, in MiB")
    parser.add_argument("--page-cache-mb", type=int, default=512, help="page cache of Neo4j, in MiB")
    parser.add_argument("--quick", action="store_true", help="smoke run: 2,000 entities and few of everything else")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.entities, arguments.relationships, arguments.batch = 2_000, 6_000, 500
        arguments.asked, arguments.hubs, arguments.consolidations = 10, 5, 2
        arguments.seconds, arguments.away, arguments.heap_mb, arguments.page_cache_mb = 5, 3, 512, 64
    # The driver tells of each attempt to reach a Neo4j that is away, and here it is.
    logging.getLogger("neo4j").setLevel(logging.ERROR)
    with scratch_folder("reminiscence-graph-") as folder:
        result = asyncio.run(run_all(arguments, folder))
    print()
    print_results(result)
    if arguments.json:
        write_json(arguments.json, result)


if __name__ == "__main__":
    main()
