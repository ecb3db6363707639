"""Measure how tenants of uneven size scale, with ten thousand, a hundred thousand and a million chunks.

python -m benchmarks.scale [--chunks 10000 100000 1000000] [--quick]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.database.embedded import EmbeddedPostgres
from benchmarks.common import print_table, scratch_folder, server_megabytes, write_json
from benchmarks.scale.corpus import SEED, tenants_of
from benchmarks.scale.loading import Phases, administration, fill, say
from benchmarks.scale.measuring import (
    compare_exact,
    compared_tenants,
    disk_bytes,
    neighbours_of,
    read_together,
    size_classes,
    verify,
    write_more,
)
from benchmarks.synthetic import WordModel

_CHUNKS = (10_000, 100_000, 1_000_000)
_READERS = (1, 4, 16)
_LOAD_PHASES = ("rows made, embedded and copied", "embedding cache", "vectors sorted into cells")


async def measure(chunks: int, folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Fill a database with `chunks` and ask it everything."""
    phases, tenants, words = Phases(), tenants_of(chunks), WordModel(SEED)
    # Other questions than the texts that the first process made.
    words.reseed(SEED - 1)
    data_folder = folder / f"scale-{chunks}"
    say(f"{chunks:,} chunks in {len(tenants):,} tenants of {tenants[-1].chunks:,} to {tenants[0].chunks:,}")
    await fill(data_folder, folder, tenants, phases)
    # One connection for each reader; the statement timeout is for the replay of the largest tenant.
    config = Config(
        data_dir=data_folder,
        embedding_provider="wordllama",
        worker=False,
        postgres_pool_size=max(_READERS),
        statement_timeout_seconds=600,
    )
    server = EmbeddedPostgres(data_folder)
    address = await server.start()
    try:
        memory = AgentMem(config)
        with phases.phase("first connection after a start"):
            await memory.initialize()
        try:
            async with administration(address) as admin:
                disk = await disk_bytes(admin)
                classes = size_classes(tenants, await neighbours_of(admin, tenants[0]))
                with phases.phase("readers"):
                    readers = [
                        {"class": one.name, "tenant_chunks": one.chunks}
                        | await read_together(memory, one.tenants, words, count, arguments.seconds)
                        for one in classes
                        for count in _READERS
                    ]
                backend = await admin.fetch_one("SELECT pg_backend_pid() AS process")
                assert backend is not None
                server_mb = round(server_megabytes(int(backend["process"])))
                with phases.phase("hits beside exact ones"):
                    scans = [
                        await compare_exact(memory, tenant, words, arguments.questions)
                        for tenant in compared_tenants(tenants)
                    ]
                with phases.phase("writes by the four methods"):
                    writes = await write_more(memory, admin, tenants, words, arguments.written)
                with phases.phase("verify"):
                    some = {one.tenants[0].external_id: None for one in classes}
                    verified = await verify(memory, [*some, *writes["tenants"][-2:]])
        finally:
            await memory.close()
    finally:
        await server.stop()
    return {
        "chunks": chunks,
        "tenants": len(tenants),
        "largest_tenant": tenants[0].chunks,
        "smallest_tenant": tenants[-1].chunks,
        "phases": [asdict(phase) for phase in phases.done],
        "load_chunks_per_second": round(chunks / sum(map(phases.seconds, _LOAD_PHASES))),
        "disk_bytes": disk,
        "server_mb": server_mb,
        "readers": readers,
        "scans": scans,
        "writes": writes,
        "verify": verified,
    }


def print_results(results: Sequence[Mapping[str, Any]]) -> None:
    """Print the tables: what there is once per size, the readers, and how many of the exact hits are found."""
    names = [f"{one['chunks']:,} chunks" for one in results]

    def row(name: str, cell: Callable[[Mapping[str, Any]], object]) -> list[object]:
        return [name, *map(cell, results)]

    kinds = dict.fromkeys(kind for one in reversed(results) for kind in one["disk_bytes"])
    phases = dict.fromkeys(phase["name"] for one in results for phase in one["phases"])
    print_table(
        ["", *names],
        [
            row("tenants", lambda one: f"{one['tenants']:,}"),
            row("smallest to largest tenant", lambda one: f"{one['smallest_tenant']:,} to {one['largest_tenant']:,}"),
            row("bulk load, chunks a second", lambda one: f"{one['load_chunks_per_second']:,}"),
            row(
                "written and consolidated one by one, chunks a second",
                lambda one: f"{one['writes']['chunks_per_second']:,}",
            ),
            row("create of 20 utterances, p50 / p95", lambda one: one["writes"]["create"]),
            row("their consolidation, p50 / p95", lambda one: one["writes"]["consolidate"]),
            row("server, proportional memory", lambda one: f"{one['server_mb']:,} MB"),
            row("disk", lambda one: _megabytes(sum(one["disk_bytes"].values()), one["chunks"])),
            *(row(f"disk: {kind}", partial(_disk, kind)) for kind in kinds),
            *(row(f"seconds: {phase}", partial(_phase, phase)) for phase in phases),
        ],
    )
    print_table(
        ["chunks", "who asks", "tenant's chunks", "readers", "retrieve p50 / p95", "a second"],
        [
            [f"{one['chunks']:,}", read["class"], f"{read['tenant_chunks']:,}", read["readers"], read["retrieve"],
             read["per_second"]]
            for one in results
            for read in one["readers"]
        ],
    )  # fmt: skip
    print_table(
        ["chunks", "tenant's chunks", "of the exact 10", "worst", "of the exact 50", "retrieve p50 / p95", "exact"],
        [
            [f"{one['chunks']:,}", f"{scan['tenant_chunks']:,}", *(
                f"{100 * scan[name]:.1f} %" for name in ("recall_at_10", "worst_recall_at_10", "recall_at_50")
            ), scan["usual"], scan["exact"]]
            for one in results
            for scan in one["scans"]
        ],
    )  # fmt: skip
    print_table(
        ["chunks", "verified", "events", "its chunks", "seconds", "clean"],
        [
            [f"{one['chunks']:,}", found["tenant"], found["events"], f"{found['chunks']:,}", found["seconds"],
             "yes" if found["clean"] else found["first_finding"]]
            for one in results
            for found in one["verify"]
        ],
    )  # fmt: skip


def _megabytes(count: int, chunks: int) -> str:
    return f"{count / 1e6:,.0f} MB, {count / chunks:,.0f} B a chunk"


def _disk(kind: str, one: Mapping[str, Any]) -> str:
    return _megabytes(one["disk_bytes"].get(kind, 0), one["chunks"])


def _phase(name: str, one: Mapping[str, Any]) -> str:
    return next(
        (
            f"{phase['seconds']:,.1f} (load {phase['load_before']:.1f} to {phase['load_after']:.1f})"
            for phase in one["phases"]
            if phase["name"] == name
        ),
        "",
    )


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--chunks", type=int, nargs="+", default=_CHUNKS, help="sizes, each in its own database")
    parser.add_argument("--seconds", type=float, default=8.0, help="seconds per number of readers")
    parser.add_argument("--questions", type=int, default=40, help="questions whose hits are compared with exact search")
    parser.add_argument("--written", type=int, default=2_000, help="chunks written by the four methods")
    parser.add_argument("--quick", action="store_true", help="smoke run with 4,000 chunks")
    parser.add_argument("--folder", type=Path, help="create the databases in this folder, and keep them")
    parser.add_argument("--json", type=Path, help="write the figures to this file, after each size")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.chunks, arguments.seconds, arguments.questions, arguments.written = [4_000], 1.0, 5, 200
    results: list[dict[str, Any]] = []
    started = time.perf_counter()
    with ExitStack() as stack:
        folder = arguments.folder or stack.enter_context(scratch_folder("reminiscence-scale-"))
        for chunks in arguments.chunks:
            results.append(asyncio.run(measure(chunks, folder, arguments)))
            if arguments.json:
                write_json(arguments.json, {"load_average": os.getloadavg(), "sizes": results})
    print_results(results)
    print(f"{time.perf_counter() - started:,.0f} s in all")


if __name__ == "__main__":
    main()
