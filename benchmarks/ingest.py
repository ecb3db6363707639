"""The cost of importing a long chat: call by call, in batches, repeated, and through the command line.

    python benchmarks/ingest.py [--lines 20000] [--long 100000] [--quick]

The chat is synthetic: conversations of twenty lines, forty of them interleaved at any time, as in a team's export. Each
way of writing has its own tenant, and no worker is active.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from agent_reminiscence import AgentMem, Config, ImportedMemory
from agent_reminiscence.database.embedded import EmbeddedPostgres
from agent_reminiscence.services.transfer import batches as bulk
from agent_reminiscence.services.transfer.files import read_memories
from agent_reminiscence.services.transfer.parts import SourceFile
from benchmarks.common import Timing, changed, print_table, scratch_folder, write_json
from benchmarks.synthetic import WordModel

_SEED = 20_240_101
_FIRST_DAY = datetime(2024, 1, 1, 9, tzinfo=UTC)
_LINES_PER_CONVERSATION = 20
_UNDER_WAY = 40
_OTHER_WRITER_PAUSE_SECONDS = 0.2

# Writes memories of one tenant.
Way = Callable[[AgentMem, str, Iterator[ImportedMemory]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Speed:
    """How long one way of writing took."""

    way: str
    lines: int
    memories: int
    seconds: float

    def row(self) -> list[str]:
        """For a table."""
        return [
            self.way,
            f"{self.lines:,}",
            f"{self.seconds:.1f}",
            f"{self.lines / self.seconds:,.0f}",
            f"{self.memories / self.seconds:,.1f}",
        ]


async def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="The cost of importing a long chat.")
    parser.add_argument("--lines", type=int, default=20_000, help="lines of the chat")
    parser.add_argument("--long", type=int, default=100_000, help="lines of the long chat, for the memory measurement")
    parser.add_argument("--quick", action="store_true", help="a smoke run")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.lines, arguments.long = 1_000, 3_000
    with scratch_folder("reminiscence-bench-ingest-") as folder:
        server = EmbeddedPostgres(folder / "data")
        await server.start()
        try:
            # Once, so that no way of writing pays for what all of them need.
            async with AgentMem(_config(folder)) as memory:
                await memory.create_active_memory("nobody", "Note", "The first memory of all.")
            chat = _write_chat(folder / "chat.jsonl", arguments.lines)
            speeds = [await _measure(folder, name, way, chat) for name, way in _WAYS.items()]
            waits = [await _measure_waits(folder, memories, chat) for memories in (10, 25, 50, 100)]
            peaks = []
            for lines in (1, arguments.lines, arguments.long):
                path = _write_chat(folder / f"{lines}.jsonl", lines).path
                started = time.perf_counter()
                peaks.append((lines, await asyncio.to_thread(_ingest, folder, _source(path), f"cli-{lines}")))
                speeds.append(_speed("command line", lines, time.perf_counter() - started))
                print(*speeds[-1].row(), f"{peaks[-1][1]:.0f} MB", sep=", ", flush=True)
        finally:
            await server.stop()
    print()
    print_table(["way", "lines", "seconds", "lines/s", "memories/s"], [speed.row() for speed in speeds])
    print_table(
        ["memories in a batch", "lines/s", "another writer waits, p50 / p95", "longest"],
        [[str(size), f"{rate:,.0f}", str(timing), f"{longest:.2f} s"] for size, rate, timing, longest in waits],
    )
    print_table(["lines", "peak memory of `ingest`"], [[f"{lines:,}", f"{peak:.0f} MB"] for lines, peak in peaks])
    if arguments.json:
        write_json(arguments.json, {"speeds": speeds, "waits": waits, "peaks": peaks})


def _config(folder: Path) -> Config:
    return Config(data_dir=folder / "data", worker=False)


def _write_chat(path: Path, lines: int) -> SourceFile:
    """A .jsonl file of so many messages."""
    words = WordModel(_SEED)
    with path.open("w", encoding="utf-8") as file:
        for number in range(lines):
            block, line = divmod(number, _LINES_PER_CONVERSATION * _UNDER_WAY)
            message: dict[str, Any] = {
                "speaker": ("Anna", "Boris")[(line // _UNDER_WAY) % 2],
                "text": words.sentence(words.topic()),
                "timestamp": (_FIRST_DAY + timedelta(minutes=number)).isoformat(),
                "conversation_id": f"c-{block}-{line % _UNDER_WAY}",
                "id": f"m-{number}",
            }
            file.write(json.dumps(message) + "\n")
    return _source(path)


def _source(path: Path) -> SourceFile:
    return SourceFile(path, path.name, "jsonl", path.stem, None)


async def _one_by_one(memory: AgentMem, tenant: str, items: Iterator[ImportedMemory]) -> None:
    for item in items:
        await memory.create_active_memory(
            tenant,
            item.title,
            item.content,
            metadata=item.metadata,
            occurred_at=item.occurred_at,
            conversation_id=item.conversation_id,
            source="import",
            idempotency_key=item.idempotency_key,
        )


async def _in_batches(memory: AgentMem, tenant: str, items: Iterator[ImportedMemory]) -> None:
    for batch in bulk.batches(items):
        await memory.admin.import_memories(tenant, batch)


async def _again(memory: AgentMem, tenant: str, items: Iterator[ImportedMemory]) -> None:
    await _in_batches(memory, "in batches", items)


_WAYS: dict[str, Way] = {"one by one": _one_by_one, "in batches": _in_batches, "in batches, again": _again}


def _speed(name: str, lines: int, seconds: float) -> Speed:
    return Speed(name, lines, -(-lines // _LINES_PER_CONVERSATION), seconds)


async def _measure(folder: Path, name: str, way: Way, chat: SourceFile) -> Speed:
    lines = sum(1 for _ in chat.path.open("rb"))
    async with AgentMem(_config(folder)) as memory:
        started = time.perf_counter()
        await way(memory, name, read_memories(chat))
        speed = _speed(name, lines, time.perf_counter() - started)
    print(*speed.row(), sep=", ", flush=True)
    return speed


async def _measure_waits(folder: Path, memories: int, chat: SourceFile) -> tuple[int, float, Timing, float]:
    """How long others wait for their own writes to the same tenant, by the size of a batch; on a tenth of the chat."""
    part = folder / "part.jsonl"
    with chat.path.open("rb") as whole:
        lines = [line for line, _ in zip(whole, range(max(400, _count(chat) // 10)), strict=False)]
    part.write_bytes(b"".join(lines))
    tenant = f"waits-{memories}"
    async with AgentMem(_config(folder)) as memory:
        with changed(bulk, MAX_BATCH_MEMORIES=memories):
            async with _other_writer(memory, tenant) as waits:
                started = time.perf_counter()
                await _in_batches(memory, tenant, read_memories(_source(part)))
                seconds = time.perf_counter() - started
    print(f"{memories} in a batch: {Timing.of(waits)}, longest {max(waits):.2f} s", flush=True)
    return memories, len(lines) / seconds, Timing.of(waits), max(waits)


def _count(chat: SourceFile) -> int:
    with chat.path.open("rb") as file:
        return sum(1 for _ in file)


@asynccontextmanager
async def _other_writer(memory: AgentMem, tenant: str) -> AsyncIterator[list[float]]:
    """A task that creates short memories of the same tenant; gives how long each took, in seconds."""
    waits: list[float] = []

    async def write() -> None:
        while True:
            started = time.perf_counter()
            await memory.create_active_memory(tenant, "Note", f"The lamp was lit {len(waits)} times.")
            waits.append(time.perf_counter() - started)
            await asyncio.sleep(_OTHER_WRITER_PAUSE_SECONDS)

    writer = asyncio.create_task(write())
    try:
        yield waits
    finally:
        writer.cancel()
        await asyncio.gather(writer, return_exceptions=True)


def _ingest(folder: Path, chat: SourceFile, tenant: str) -> float:
    """`agent-reminiscence ingest` in a process of its own; returns its peak memory in MB, as Linux says it."""
    command = [sys.executable, "-m", "agent_reminiscence.cli", "ingest", str(chat.path), "--external-id", tenant]
    command += ["--data-dir", str(folder / "data")]
    peak = 0.0
    # What is reported of a process that has ended would count this one too, from which it was made.
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:  # noqa: S603 - our own program
        while process.poll() is None:
            peak = max(peak, _peak_megabytes(process.pid))
            time.sleep(0.02)
    if process.returncode:
        raise SystemExit("the ingest failed")
    return peak


def _peak_megabytes(process_id: int) -> float:
    status = Path(f"/proc/{process_id}/status").read_text(encoding="ascii", errors="replace")
    peak = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    # Nothing is said of a process that is just ending.
    return int(peak[1]) / 2**10 if peak else 0.0


if __name__ == "__main__":
    asyncio.run(main())
