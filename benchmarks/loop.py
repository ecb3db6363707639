"""For how long other tasks of the process wait while the largest inputs are written.

    python -m benchmarks.loop [--only prose --only lines] [--blame]

A task asks for its turn every five milliseconds; how late it gets it is the pause of the event loop. The control is the
same task beside calls that do nothing, for a few seconds at the beginning and at the end: what the machine itself does
to a process is in it. `--blame` says what the loop was doing in the longest pauses.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.config.constants import (
    MAX_CONTENT_CHARACTERS,
    MAX_EVENT_PAYLOAD_BYTES,
    MAX_METADATA_BYTES,
    MAX_QUERY_CHARACTERS,
)
from benchmarks.common import print_table, scratch_folder

_SEED = 11
_TICK_SECONDS = 0.005
_CONTROL_SECONDS = 5.0
# Longer pauses are told by `--blame`.
_LONG_PAUSE_SECONDS = 0.03
_SAMPLE_SECONDS = 0.005
_LINES = 10_000
_MESSAGES = 5_000
_WORDS = ("the", "lake", "and", "pottery", "to", "Caroline", "a", "river", "that", "for", "it", "mountain", "with")
_TENANT = "bench"
# So many texts are in store where a question of distinct words is asked.
_NOTES = 2_000
_NOTE_WORDS = 15

Input = Callable[[AgentMem], Awaitable[object]]


@dataclass(slots=True)
class Pauses:
    """How late each turn of the ticking task came."""

    seconds: list[float] = field(default_factory=list)
    # Where the main thread was when a long pause ended, by its innermost frames.
    places: Counter[str] = field(default_factory=Counter)

    def row(self, name: str, wall: float, cpu: float) -> tuple[str, ...]:
        """For a table."""
        ordered = sorted(self.seconds)
        late = sum(pause > _LONG_PAUSE_SECONDS for pause in ordered)
        return (
            name,
            f"{ordered[-1] * 1000:.1f}",
            f"{ordered[int(0.999 * (len(ordered) - 1))] * 1000:.1f}",
            f"{late}",
            f"{wall:.1f}",
            f"{cpu:.1f}",
        )


async def main() -> None:
    """Measure and print."""
    inputs = _inputs()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=list(inputs), help="this input; may be repeated")
    parser.add_argument("--blame", action="store_true", help="say what the loop was doing in the longest pauses")
    arguments = parser.parse_args()
    rows: list[tuple[str, ...]] = []
    with scratch_folder("reminiscence-bench-loop-") as folder:
        # A large write may take longer than a statement of daily use.
        config = Config(data_dir=folder / "data", worker=False, statement_timeout_seconds=600)
        async with AgentMem(config) as memory:
            # Models and tokenizers are loaded at the first write.
            await memory.create_active_memory("warm-up", "Warm-up", "Ann: a few words.")
            rows.append(await _measure("nothing (control)", _nothing, memory, blame=False))
            for name, call in inputs.items():
                if not arguments.only or name in arguments.only:
                    rows.append(await _measure(name, call, memory, blame=arguments.blame))
            rows.append(await _measure("nothing (control)", _nothing, memory, blame=False))
    print_table(("input", "longest pause, ms", "99.9 %, ms", "over 30 ms", "wall, s", "client CPU, s"), rows)


async def _measure(name: str, call: Input, memory: AgentMem, *, blame: bool) -> tuple[str, ...]:
    pauses = Pauses()
    with _blaming(pauses) if blame else _unblamed():
        ticking = asyncio.create_task(_tick(pauses))
        # The first turn is not measured.
        await asyncio.sleep(2 * _TICK_SECONDS)
        wall, cpu = time.perf_counter(), time.process_time()
        await call(memory)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        await asyncio.sleep(2 * _TICK_SECONDS)
        ticking.cancel()
        await asyncio.wait({ticking})
    row = pauses.row(name, wall, cpu)
    print("  ".join(row), flush=True)
    for place, count in pauses.places.most_common(12):
        print(f"    {count:5}  {place}", flush=True)
    return row


async def _tick(pauses: Pauses) -> None:
    while True:
        due = time.perf_counter() + _TICK_SECONDS
        await asyncio.sleep(_TICK_SECONDS)
        pauses.seconds.append(max(0.0, time.perf_counter() - due))


@contextmanager
def _unblamed() -> Iterator[None]:
    yield


@contextmanager
def _blaming(pauses: Pauses) -> Iterator[None]:
    """Note where the main thread is whenever this one had to wait for the lock, or the loop for its end."""
    main_thread = threading.get_ident()
    over = threading.Event()

    def watch() -> None:
        ticks, since = len(pauses.seconds), time.perf_counter()
        while not over.wait(_SAMPLE_SECONDS):
            now = time.perf_counter()
            if len(pauses.seconds) != ticks:
                ticks, since = len(pauses.seconds), now
            elif now - since > _LONG_PAUSE_SECONDS:
                frame = sys._current_frames()[main_thread]
                stack = traceback.extract_stack(frame)[-7:]
                pauses.places[" < ".join(f"{one.name}:{one.lineno}" for one in reversed(stack))] += 1

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()


async def _nothing(memory: AgentMem) -> None:
    await asyncio.sleep(_CONTROL_SECONDS)


def _inputs() -> dict[str, Input]:
    """The largest that each call takes, by a name."""
    numbers = random.Random(_SEED)
    prose = _prose(numbers, 900_000)
    lines = "\n\n".join(" ".join(numbers.choices(_WORDS, k=2)) for _ in range(_LINES))
    longest = ("4111 1111 eyJ é " * MAX_CONTENT_CHARACTERS)[:MAX_CONTENT_CHARACTERS]
    metadata = {f"key {n}": f"value {n}" for n in range(MAX_METADATA_BYTES // 32)}
    payload = {"items": [{"name": f"n {n}", "size": n} for n in range(MAX_EVENT_PAYLOAD_BYTES // 40)]}
    assert len(json.dumps(payload)) < MAX_EVENT_PAYLOAD_BYTES
    assert len(json.dumps(metadata)) < MAX_METADATA_BYTES
    messages = [
        {"speaker": numbers.choice(("Ann", "Bob")), "content": _prose(numbers, 80), "conversation_id": str(n // 25)}
        for n in range(_MESSAGES)
    ]

    async def update(memory: AgentMem) -> None:
        note = await memory.create_active_memory(f"{_TENANT}-update", "Log", lines[: len(lines) // 4])
        await memory.update_active_memory(f"{_TENANT}-update", note.id, content=lines[: len(lines) // 4] + "\n\nEnd.")

    vocabulary = [f"{word.lower()}{n}" for word in _WORDS for n in range(300)]
    notes = "\n\n".join(" ".join(numbers.choices(vocabulary, k=_NOTE_WORDS)) for _ in range(_NOTES))
    distinct = " ".join(vocabulary)[:MAX_QUERY_CHARACTERS]

    async def ask_of_many(memory: AgentMem) -> None:
        await memory.retrieve_memories(f"{_TENANT}-full", distinct)

    return {
        "store": lambda memory: memory.create_active_memory(f"{_TENANT}-full", "Notes", notes),
        "distinct": ask_of_many,
        "metadata": lambda memory: memory.create_active_memory(_TENANT, "Metadata", "A text.", metadata=metadata),
        "event": lambda memory: memory.ledger.append(_TENANT, "world.observed", payload),
        "question": lambda memory: memory.retrieve_memories(_TENANT, prose[:MAX_QUERY_CHARACTERS]),
        "update": update,
        "longest": lambda memory: memory.create_active_memory(f"{_TENANT}-longest", "Longest", longest),
        "import": lambda memory: memory.admin.import_messages(f"{_TENANT}-import", messages),
        "lines": lambda memory: memory.create_active_memory(f"{_TENANT}-lines", "Lines", lines),
        "prose": lambda memory: memory.create_active_memory(f"{_TENANT}-prose", "Prose", prose),
    }


def _prose(numbers: random.Random, length: int) -> str:
    """Paragraphs of some sentences."""
    paragraphs: list[str] = []
    written = 0
    while written < length:
        words = " ".join(numbers.choices(_WORDS, k=numbers.randint(6, 18))).capitalize() + "."
        paragraph = " ".join([words] * numbers.randint(1, 4))
        paragraphs.append(paragraph)
        written += len(paragraph) + 2
    return "\n\n".join(paragraphs)[:length]


if __name__ == "__main__":
    asyncio.run(main())
