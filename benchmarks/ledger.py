"""The cost of the ledger's guarantees: replay, verify, rebuild, erasure, export, import, and the chain on each write.

    python benchmarks/ledger.py [--memories 1000] [--chunks 100000] [--quick]

There are two streams. One is written by the four methods: short memories, each updated four times and consolidated.
The other holds long conversations with a hundred thousand chunks; it is imported, and its search indexes are built
afterwards, because writing it call by call would take an hour.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from uuid_utils.compat import uuid7

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.config.constants import EMBEDDED_DATABASE
from agent_reminiscence.database.connection import ConnectionSettings, open_connection
from agent_reminiscence.database.embedded import EmbeddedPostgres
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.database.repositories.event_ledger import EventLedger, event_digest, next_chain
from agent_reminiscence.domain.event import Event, EventKind, NewEvent
from agent_reminiscence.domain.payloads import ChunkEntry, MemoryCreated
from agent_reminiscence.services.transfer.event_writer import EventFileWriter
from benchmarks.common import Timing, print_table, scratch_folder, write_json
from benchmarks.synthetic import CHUNKS_PER_MEMORY, WordModel

_SEED = 20_240_101
_UPDATES = 4
_FIRST_DAY = datetime(2024, 1, 1, 9, tzinfo=UTC)


@dataclass(slots=True)
class Figures:
    """What was measured: a name, seconds, and how much was done in them."""

    rows: list[tuple[str, float, int, str]] = field(default_factory=list)

    def add(self, name: str, seconds: float, count: int, unit: str) -> None:
        """Note one and show it."""
        self.rows.append((name, seconds, count, unit))
        print(f"{name}: {seconds:.2f} s, {count / seconds:,.0f} {unit}/s", flush=True)


async def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="The cost of the ledger's guarantees.")
    parser.add_argument("--memories", type=int, default=1_000, help="memories of the first stream")
    parser.add_argument("--chunks", type=int, default=100_000, help="chunks of the second stream")
    parser.add_argument("--appends", type=int, default=2_000, help="appends with and without the chain")
    parser.add_argument("--quick", action="store_true", help="a smoke run")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.memories, arguments.chunks, arguments.appends = 20, 1_000, 200
    figures = Figures()
    with scratch_folder("reminiscence-bench-ledger-") as folder:
        server = EmbeddedPostgres(folder / "data")
        await server.start()
        try:
            async with AgentMem(Config(data_dir=folder / "data", statement_timeout_seconds=600)) as memory:
                words = WordModel(_SEED)
                await _short(memory, words, arguments.memories, folder, figures)
                await _long(memory, words, arguments.chunks, folder, server, figures)
            chain = await _chain(server, arguments.appends)
        finally:
            await server.stop()
    print()
    print_table(
        ["what", "seconds", "how much", "per second"],
        [
            [name, f"{seconds:.2f}", f"{count:,} {unit}", f"{count / seconds:,.0f}"]
            for name, seconds, count, unit in figures.rows
        ],
    )
    print_table(["one append", "p50 / p95"], [[name, timing] for name, timing in chain.items()])
    if arguments.json:
        write_json(arguments.json, {"figures": figures.rows, "chain": chain})


async def _short(memory: AgentMem, words: WordModel, memories: int, folder: Path, figures: Figures) -> None:
    """A stream of short memories, each updated a few times and consolidated."""
    started = time.perf_counter()
    for number in range(memories):
        topic = words.topic()
        lines = [words.sentence(topic) for _ in range(4)]
        note = await memory.create_active_memory("short", f"Note {number}", "\n".join(lines))
        for _ in range(_UPDATES):
            lines.append(words.sentence(topic))
            note = await memory.update_active_memory("short", note.id, content="\n".join(lines))
        await memory.admin.consolidate("short", note.id)
    events = await memory.ledger.head("short")
    figures.add("short: written by the four methods", time.perf_counter() - started, events, "events")
    await _measure(memory, "short", folder, figures)


async def _long(
    memory: AgentMem, words: WordModel, chunks: int, folder: Path, server: EmbeddedPostgres, figures: Figures
) -> None:
    """A stream of long conversations, imported."""
    path = folder / "long.jsonl.zst"
    memories = max(1, chunks // CHUNKS_PER_MEMORY)
    _write_conversations(path, words, memories)
    address = await server.start()
    administrator = ConnectionSettings(
        host=address.host, port=address.port, user=address.superuser, database=EMBEDDED_DATABASE
    )
    admin = await open_connection(administrator)
    try:
        started = time.perf_counter()
        await memory.admin.import_(path)
        figures.add("long: imported", time.perf_counter() - started, memories, "events")
        await admin.execute_script("VACUUM (ANALYZE)")
    finally:
        admin.close()
        await server.stop()
    await _measure(memory, "long", folder, figures)


async def _measure(memory: AgentMem, tenant: str, folder: Path, figures: Figures) -> None:
    events = await memory.ledger.head(tenant)

    async def timed[T](name: str, call: Callable[[], Awaitable[T]], count: int, unit: str) -> T:
        started = time.perf_counter()
        result = await call()
        figures.add(f"{tenant}: {name}", time.perf_counter() - started, count, unit)
        return result

    report = await timed("verify", lambda: memory.admin.verify(tenant), events, "events")
    chunks = report.streams[0].rows["memory_chunk"]
    assert report.ok, report
    await timed(f"verify, {chunks:,} chunks", lambda: memory.admin.verify(tenant), chunks, "chunks")
    report = await timed("rebuild, nothing to mend", lambda: memory.admin.rebuild(tenant), events, "events")
    assert report.ok, report
    path = folder / f"{tenant}-export.jsonl.zst"
    await timed("export", lambda: memory.admin.export(tenant, path), events, "events")
    note = (await memory.get_active_memories(tenant))[0]
    await timed("erase one memory", lambda: memory.admin.erase(tenant, memory_id=note.id), events, "events")


def _write_conversations(path: Path, words: WordModel, memories: int) -> None:
    """A file as an export of `memories` conversations would give it."""
    chain = b""
    with EventFileWriter(path, "long", memories) as writer:
        for number in range(memories):
            moment = _FIRST_DAY + timedelta(minutes=number)
            event = _conversation(words, number, moment)
            salt = secrets.token_bytes(16)
            digest = event_digest(event, salt)
            chain = next_chain(chain, digest, number + 1, moment)
            writer.write(
                [Event(**dict(event), position=number + 1, recorded_at=moment, salt=salt, digest=digest, chain=chain)]
            )


def _conversation(words: WordModel, number: int, moment: datetime) -> NewEvent:
    topic = words.topic()
    lines = [f"{'AB'[index % 2]}nna: {words.sentence(topic)}\n" for index in range(CHUNKS_PER_MEMORY)]
    starts = [sum(map(len, lines[:index])) for index in range(CHUNKS_PER_MEMORY)]
    payload = MemoryCreated(
        memory_id=uuid7(),
        title=f"Conversation {number + 1}",
        content="".join(lines),
        description=None,
        metadata={},
        chunks=tuple(
            ChunkEntry(id=uuid7(), start=start, end=start + len(line), speaker=line[:4], new=True)
            for start, line in zip(starts, lines, strict=True)
        ),
        consolidation_due=False,
    )
    return NewEvent(
        external_id="long",
        event_id=uuid7(),
        kind=EventKind.CREATED,
        payload=payload.model_dump(mode="json"),
        occurred_at=moment,
        source="import",
    )


async def _chain(server: EmbeddedPostgres, appends: int) -> dict[str, Timing]:
    """One append as it is, and the same statement without salt, digest and chain; they take turns."""
    address = await server.start()
    settings = ConnectionSettings(
        host=address.host, port=address.port, user="reminiscence_login", database=EMBEDDED_DATABASE
    )
    store = PostgresManager(settings, pool_size=1, pool_timeout_seconds=30, statement_timeout_seconds=60)
    await store.initialize()
    ledger = EventLedger()
    statement = load_queries("sql", "event_ledger")["append_event"]
    begin, end = statement.index("chain = sha256("), statement.index("\n    FROM moment\n    WHERE s.")
    plain = statement[:begin] + "chain = s.chain" + statement[end:]
    with_chain: list[float] = []
    without: list[float] = []
    digests: list[float] = []
    try:
        for number in range(appends):
            event = _conversation_note(number)
            for chained in (True, False):
                async with store.transaction("chain" if chained else "plain") as db:
                    await ledger.lock(db, "chain" if chained else "plain")
                    started = time.perf_counter()
                    if chained:
                        await ledger.append(db, event.model_copy(update={"external_id": "chain"}))
                    else:
                        await _append_plain(db, plain, event.model_copy(update={"external_id": "plain"}))
                    (with_chain if chained else without).append(time.perf_counter() - started)
            started = time.perf_counter()
            event_digest(event, b"0123456789abcdef")
            digests.append(time.perf_counter() - started)
    finally:
        await store.close()
        await server.stop()
    return {
        "with salt, digest and chain": Timing.of(with_chain),
        "without": Timing.of(without),
        "the digest alone, in Python": Timing.of(digests),
    }


async def _append_plain(db: Any, statement: str, event: NewEvent) -> None:
    import json

    params = event.model_dump() | {
        "payload": json.dumps(event.payload, ensure_ascii=False),
        "salt": None,
        "digest": b"",
    }
    await db.fetch_all(statement, params)


def _conversation_note(number: int) -> NewEvent:
    return NewEvent(
        external_id="chain",
        event_id=uuid4(),
        kind="world.observed",
        payload={"text": f"Line {number} of some {'eight hundred characters of what was observed. ' * 17}"},
        occurred_at=_FIRST_DAY,
    )


if __name__ == "__main__":
    asyncio.run(main())
