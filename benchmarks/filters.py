"""What a filter costs, by how much it admits: recall and lists of one tenant, through its indexes.

    python -m benchmarks.filters [--sizes 10000 50000] [--repetitions 30]

Every memory is one note, so there are as many memories as chunks. Each condition admits 1, 10 or 90 % of them, and all
questions are asked without a filter, too.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from agent_reminiscence import AgentMem, Config, Filter, ImportedMemory
from agent_reminiscence.config.constants import EMBEDDED_DATABASE
from agent_reminiscence.database.connection import ConnectionSettings, SqlExecutor, open_connection
from agent_reminiscence.database.embedded import EmbeddedPostgres
from benchmarks.common import Timing, print_table, processor_seconds, scratch_folder
from benchmarks.synthetic import WordModel

_SEED: Final = 20_240_101
_TENANT: Final = "one"
_FIRST_DAY: Final = datetime(2024, 1, 1, tzinfo=UTC)
_BACKENDS: Final = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
_SHARES: Final = (1, 10, 90)


def _conditions(share: int, size: int) -> Mapping[str, Filter]:
    """Filters that admit so many percent of the notes, by what they look at."""
    return {
        "metadata, equal": Filter(metadata={f"is_{share}": True}),
        "metadata, range": Filter(metadata={"project.number": {"$lt": share}}),
        "metadata, $or": Filter(
            metadata={
                "$or": [{"project.number": {"$lt": share // 2}}, {"project.number": {"$gte": 100 - (share + 1) // 2}}]
            }
        ),
        "metadata, $not": Filter(metadata={"$not": {"project.number": {"$gte": share}}}),
        "turn metadata": Filter(turn_metadata={f"is_{share}": True}),
        "conversation": Filter(conversation_ids=[f"of {number}" for number in range(share)]),
        "speaker": Filter(speakers=[f"Speaker {number}" for number in range(share)]),
        "time": Filter(occurred_before=_FIRST_DAY + timedelta(minutes=size * share // 100)),
    }


def _notes(words: WordModel, size: int) -> list[ImportedMemory]:
    numbers = random.Random(_SEED)
    notes = []
    for minute in range(size):
        number = numbers.randrange(100)
        flags = {f"is_{share}": number < share for share in _SHARES}
        notes.append(
            ImportedMemory(
                title="Note",
                content=words.sentence(words.topic()),
                metadata={
                    **flags,
                    "project": {"number": number, "name": f"project {number}"},
                    "turns": [{"start": 0, "speaker": f"Speaker {number}", **flags}],
                },
                conversation_id=f"of {number}",
                occurred_at=_FIRST_DAY + timedelta(minutes=minute),
            )
        )
    return notes


@dataclass(frozen=True, slots=True)
class _Cost:
    """Medians of what a call took, and how much it returned on average."""

    timing: Timing
    processor_ms: float
    returned: float


async def _measure(admin: SqlExecutor, call: Callable[[], Awaitable[int]], repetitions: int) -> _Cost:
    """Call it some times; processor time is that of this process and of the server's."""
    seconds, used, returned = [], [], 0
    for number in range(repetitions + 3):
        rows = await admin.fetch_all(_BACKENDS)
        backends = [int(row["pid"]) for row in rows]
        before, started = _processor_seconds(backends), time.perf_counter()
        count = await call()
        # The first ones only warm caches and plans.
        if number >= 3:
            seconds.append(time.perf_counter() - started)
            used.append(_processor_seconds(backends) - before)
            returned += count
    return _Cost(Timing.of(seconds), round(1000 * statistics.median(used), 1), returned / repetitions)


def _processor_seconds(backends: Sequence[int]) -> float:
    return time.process_time() + sum(map(processor_seconds, backends))


async def _run(folder: Path, size: int, repetitions: int) -> None:
    words = WordModel(_SEED)
    data_folder = folder / str(size)
    async with AgentMem(Config(data_dir=data_folder, worker=False)) as memory:
        await memory.admin.import_memories(_TENANT, _notes(words, size))
        server = EmbeddedPostgres(data_folder)
        address = await server.start()
        admin = await open_connection(
            ConnectionSettings(host=address.host, port=address.port, user=address.superuser, database=EMBEDDED_DATABASE)
        )
        try:
            # What a worker and autovacuum would do in their own time.
            await memory.admin.run_due(_TENANT)
            await admin.execute_script("VACUUM (ANALYZE)")
            await _report(memory, admin, words, size, repetitions)
        finally:
            admin.close()
            await server.stop()


async def _report(memory: AgentMem, admin: SqlExecutor, words: WordModel, size: int, repetitions: int) -> None:
    def asked(where: Filter | None) -> Callable[[], Awaitable[int]]:
        async def ask() -> int:
            return len((await memory.retrieve_memories(_TENANT, words.question(), where=where)).hits)

        return ask

    def listed(where: Filter | None) -> Callable[[], Awaitable[int]]:
        async def read() -> int:
            return len(await memory.get_active_memories(_TENANT, where=where, limit=20))

        return read

    rows: list[list[Any]] = []
    filters = [(label, share, where) for share in _SHARES for label, where in _conditions(share, size).items()]
    for label, admits, where in [("none", 100, None), *filters]:
        recall = await _measure(admin, asked(where), repetitions)
        reading = await _measure(admin, listed(where), max(3, repetitions // 3))
        calls = [milliseconds for one in (recall, reading) for milliseconds in (one.timing.p50_ms, one.processor_ms)]
        rows.append([label, f"{admits} %", f"{recall.returned:.1f}", *calls])
    print(f"{size:,} notes of one tenant, each a memory with one chunk; milliseconds, medians\n")
    print_table(["filter", "admits", "hits", "recall", "its processor time", "list of 20", "its processor time"], rows)


def main() -> None:
    """Measure each size on a server of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 50_000])
    parser.add_argument("--repetitions", type=int, default=30)
    options = parser.parse_args()
    with scratch_folder("reminiscence-filters-") as folder:
        for size in options.sizes:
            asyncio.run(_run(folder, size, options.repetitions))


if __name__ == "__main__":
    main()
