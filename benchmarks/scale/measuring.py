"""Measures a filled database: its size, recall compared with exact search, and the latency of readers and writers."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

from agent_reminiscence import AgentMem
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.services.recall.narrowing import WHOLE_MAX_CHUNKS
from benchmarks.common import Timing, changed
from benchmarks.scale.corpus import Tenant
from benchmarks.synthetic import CHUNKS_PER_MEMORY, WordModel

# What a tenant of such a size is called, and how many of about that size take turns.
_SMALL, _MIDDLE, _TENANTS_IN_TURN = 200, 2_000, 8
# Sizes at which hits are compared with the exact ones, the largest tenant's beside them.
_COMPARED_SIZES = (200, 800, 2_000, WHOLE_MAX_CHUNKS, 10_000, 20_000)
_WRITING_TENANTS = 10
# More than any tenant has, and no more than the server takes for a number.
_ALL_CHUNKS = 2**31 - 1
_HITS, _COMPARED_HITS = 10, 50

_DISK = """
SELECT CASE regexp_replace(coalesce(t.relname, c.relname), '_p[0-9]+$', '')
        WHEN 'memory_event' THEN 'ledger'
        WHEN 'active_memory' THEN 'memories'
        WHEN 'memory_segment' THEN 'memories'
        WHEN 'memory_chunk' THEN 'chunks'
        WHEN 'posting' THEN 'postings'
        WHEN 'memory_layout' THEN 'layouts and headings'
        WHEN 'memory_heading' THEN 'layouts and headings'
        WHEN 'chunk_vector_1' THEN 'vectors'
        WHEN 'chunk_norms_1' THEN 'norms and cells'
        WHEN 'vector_cell_1' THEN 'norms and cells'
        WHEN 'embedding_cache' THEN 'embedding cache'
        ELSE 'other' END AS kind,
    sum(pg_table_size(c.oid))::bigint AS bytes
FROM pg_class AS c
LEFT JOIN pg_index AS i ON i.indexrelid = c.oid
LEFT JOIN pg_class AS t ON t.oid = i.indrelid
WHERE c.relnamespace = 'reminiscence'::regnamespace AND c.relkind IN ('r', 'i')
GROUP BY kind
ORDER BY bytes DESC
"""
_NEIGHBOURS = """
SELECT external_id FROM memory_stream
WHERE tableoid = (SELECT tableoid FROM memory_stream WHERE external_id = $(external_id)p)
    AND external_id <> $(external_id)p
"""
_LIVE_CHUNKS = "SELECT sum(live_chunks)::bigint AS chunks FROM memory_stream"


@dataclass(frozen=True, slots=True)
class SizeClass:
    """Tenants of about one size."""

    name: str
    tenants: tuple[Tenant, ...]

    @property
    def chunks(self) -> int:
        """How many a tenant of them has, in the middle."""
        return int(statistics.median(tenant.chunks for tenant in self.tenants))


def size_classes(tenants: Sequence[Tenant], neighbours: Collection[str]) -> list[SizeClass]:
    """Small, middle, the largest of whom every chunk is ranked, and the largest; those that there are.

    Args:
        neighbours: Who shares the partition of the largest; small ones of them are a class of their own, because a
            ranking by words goes through everything that matches in the partition.
    """
    largest = tenants[0]
    beside = [tenant for tenant in tenants if tenant.external_id in neighbours]
    apart = [tenant for tenant in tenants if tenant.external_id not in neighbours]
    exact = [tenant for tenant in tenants if tenant.chunks <= WHOLE_MAX_CHUNKS]
    named = [
        ("small", _near(apart, _SMALL)),
        ("small, beside the largest", _near(beside, _SMALL)),
        ("middle", _near(apart, _MIDDLE)),
        ("large, all ranked", [exact[0]] if exact and exact[0].chunks > 2 * _MIDDLE else []),
        ("largest, by cells", [largest] if largest.chunks > WHOLE_MAX_CHUNKS else []),
    ]
    return [SizeClass(name, tuple(some)) for name, some in named if some]


async def neighbours_of(admin: SqlExecutor, tenant: Tenant) -> set[str]:
    """Who shares the partitions of `tenant`: all tables are cut by the same hash."""
    rows = await admin.fetch_all(_NEIGHBOURS, {"external_id": tenant.external_id})
    return {row["external_id"] for row in rows}


def compared_tenants(tenants: Sequence[Tenant]) -> list[Tenant]:
    """One of each size that is looked at, smallest first, and the largest."""
    found = {near[0].external_id: near[0] for size in _COMPARED_SIZES if (near := _near(tenants, size))}
    return sorted({**found, tenants[0].external_id: tenants[0]}.values(), key=lambda tenant: tenant.chunks)


def _near(tenants: Sequence[Tenant], size: int) -> list[Tenant]:
    """Those whose size differs by a quarter at most, nearest first."""
    near = [tenant for tenant in tenants if abs(tenant.chunks - size) <= size / 4]
    return sorted(near, key=lambda tenant: abs(tenant.chunks - size))[:_TENANTS_IN_TURN]


async def disk_bytes(admin: SqlExecutor) -> dict[str, int]:
    """Bytes on disk by kind, largest first; a table's plain indexes count with it."""
    return {row["kind"]: row["bytes"] for row in await admin.fetch_all(_DISK)}


async def compare_exact(memory: AgentMem, tenant: Tenant, words: WordModel, repetitions: int) -> dict[str, Any]:
    """Ask the same questions as the package would answer them, and with every chunk ranked."""
    parts = memory._parts
    assert parts is not None
    openings = parts.services.retrieval._search.finder.openings
    usual: list[float] = []
    whole: list[float] = []
    at_10: list[float] = []
    at_50: list[float] = []
    for number in range(repetitions + 1):
        question = words.question()
        started = time.perf_counter()
        found = await memory.retrieve_memories(tenant.external_id, question, limit=_COMPARED_HITS)
        between = time.perf_counter()
        with changed(openings, _whole_max_chunks=_ALL_CHUNKS):
            exact = await memory.retrieve_memories(tenant.external_id, question, limit=_COMPARED_HITS)
        if number:  # the first question only warms connections and caches
            usual.append(between - started)
            whole.append(time.perf_counter() - between)
        ids, exact_ids = ([hit.chunk_id for hit in result.hits] for result in (found, exact))
        for shares, depth in ((at_10, _HITS), (at_50, _COMPARED_HITS)):
            shares.append(len({*ids[:depth]} & {*exact_ids[:depth]}) / max(1, len(exact_ids[:depth])))
    return {
        "tenant": tenant.external_id,
        "tenant_chunks": tenant.chunks,
        "recall_at_10": round(statistics.fmean(at_10), 4),
        "worst_recall_at_10": round(min(at_10), 2),
        f"recall_at_{_COMPARED_HITS}": round(statistics.fmean(at_50), 4),
        "usual": Timing.of(usual),
        "exact": Timing.of(whole),
    }


async def read_together(
    memory: AgentMem, tenants: Sequence[Tenant], words: WordModel, readers: int, seconds: float
) -> dict[str, Any]:
    """Let readers ask one question after the other for some seconds, another one each time.

    Args:
        tenants: Asked about in turn.
    """
    ids = cycle(tenant.external_id for tenant in tenants)
    spent: list[float] = []

    async def read(until: float) -> None:
        while time.perf_counter() < until:
            question, tenant = words.question(), next(ids)
            started = time.perf_counter()
            result = await memory.retrieve_memories(tenant, question)
            spent.append(time.perf_counter() - started)
            assert result.hits, "a search found nothing"

    async def all_readers(duration: float) -> float:
        started = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for _ in range(readers):
                group.create_task(read(started + duration))
        return time.perf_counter() - started

    # Opens the connections and warms their caches.
    await all_readers(min(1.0, seconds / 4))
    spent.clear()
    took = await all_readers(seconds)
    return {"readers": readers, "retrieve": Timing.of(spent), "per_second": round(len(spent) / took, 1)}


async def write_more(
    memory: AgentMem, admin: SqlExecutor, tenants: Sequence[Tenant], words: WordModel, chunks: int
) -> dict[str, Any]:
    """Conversations of twenty utterances through `create_active_memory`, each consolidated at once.

    They go to ten tenants of all sizes, one after the other.
    """
    writing = list(tenants[:: max(1, len(tenants) // _WRITING_TENANTS)][:_WRITING_TENANTS])
    before = await _live_chunks(admin)
    created, consolidated = [], []
    for number, tenant in zip(range(chunks // CHUNKS_PER_MEMORY), cycle(writing), strict=False):
        topic = words.topic()
        lines = [f"{'AB'[index % 2]}nna: {words.sentence(topic)}\n" for index in range(CHUNKS_PER_MEMORY)]
        started = time.perf_counter()
        note = await memory.create_active_memory(tenant.external_id, f"Written {number}", "".join(lines))
        created.append(time.perf_counter() - started)
        started = time.perf_counter()
        await memory.admin.consolidate(tenant.external_id, note.id)
        consolidated.append(time.perf_counter() - started)
    written = await _live_chunks(admin) - before
    return {
        "chunks": written,
        "create": Timing.of(created),
        "consolidate": Timing.of(consolidated),
        "chunks_per_second": round(written / (sum(created) + sum(consolidated)), 1),
        "tenants": [tenant.external_id for tenant in writing],
    }


async def _live_chunks(admin: SqlExecutor) -> int:
    row = await admin.fetch_one(_LIVE_CHUNKS)
    assert row is not None
    return int(row["chunks"])


async def verify(memory: AgentMem, tenants: Sequence[str]) -> list[dict[str, Any]]:
    """Replay the ledger of some tenants beside what is stored."""
    results: list[dict[str, Any]] = []
    for tenant in tenants:
        started = time.perf_counter()
        stream = (await memory.admin.verify(tenant)).streams[0]
        clean = not stream.faults and not stream.drift and not stream.missing_vectors and stream.error is None
        results.append(
            {
                "tenant": tenant,
                "events": stream.events,
                "chunks": stream.rows.get("memory_chunk", 0),
                "seconds": round(time.perf_counter() - started, 2),
                "clean": clean,
                "first_finding": None if clean else repr(stream.faults or stream.drift or stream.error)[:300],
            }
        )
    return results
