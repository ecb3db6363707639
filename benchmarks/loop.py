"""How long other tasks of the process wait while the largest inputs are written.

    python -m benchmarks.loop [--only prose --only title] [--lines 5000] [--blame]

A task schedules itself every five milliseconds. Its delay is the event loop's pause; the CPU time the loop's thread
used since the last run is our share of it. Also shown: the longest wait for a statement, and the longest garbage
collection in any thread, which stops all threads, grows with all objects of the process, and is excluded from the
loop's time. The control is the same task alongside calls that do nothing, for a few seconds at the start and the end;
it shows the pauses caused by the machine itself. `--blame` says what the loop was doing in the longest pauses.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
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
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from agent_reminiscence import ActiveMemory, AgentMem, Config
from agent_reminiscence.config.constants import (
    MAX_CONTENT_CHARACTERS,
    MAX_EVENT_PAYLOAD_BYTES,
    MAX_METADATA_BYTES,
    MAX_TEXT_CHUNKS,
)
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.services.validation import MAX_QUERY_CHARACTERS
from benchmarks.common import changed, print_table, scratch_folder

_SEED = 11
_TICK_SECONDS = 0.005
_CONTROL_SECONDS = 5.0
# Longer pauses are told by `--blame`.
_LONG_PAUSE_SECONDS = 0.03
# What a call may take of the loop at once.
_MOST_CPU_SECONDS = 0.05
_SAMPLE_SECONDS = 0.005
_LINES = MAX_TEXT_CHUNKS
_MESSAGES = 5_000
_WORDS = ("the", "lake", "and", "pottery", "to", "Caroline", "a", "river", "that", "for", "it", "mountain", "with")
_TENANT = "bench"
# So many texts are in store where a question of distinct words is asked.
_NOTES = 2_000
_NOTE_WORDS = 15

Call = Callable[[AgentMem], Awaitable[object]]


async def _nothing_before(memory: AgentMem) -> None:
    """What most inputs need."""


@dataclass(frozen=True, slots=True)
class Input:
    """A call, and what has to be there before it, which is not measured."""

    call: Call
    prepare: Call = _nothing_before


@dataclass(slots=True)
class Pauses:
    """How late each turn of the ticking task came, and what the loop's thread did in between."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    collection_seconds: float = 0.0
    # Where the main thread was when a long pause ended, by its innermost frames.
    stacks: Counter[str] = field(default_factory=Counter)

    def row(self, name: str, longest: LongestStatement, wall: float, cpu: float) -> tuple[str, ...]:
        """For a table."""
        return (
            name,
            f"{max(self.cpu_seconds) * 1000:.1f}",
            f"{sum(seconds > _MOST_CPU_SECONDS for seconds in self.cpu_seconds)}",
            f"{max(self.seconds) * 1000:.1f}",
            f"{self.collection_seconds * 1000:.1f}",
            f"{longest.seconds * 1000:.0f}",
            longest.name,
            f"{wall:.1f}",
            f"{cpu:.1f}",
        )


@dataclass(slots=True)
class LongestStatement:
    """The statement that was waited for longest, or those sent together, which are named after the last."""

    name: str = ""
    seconds: float = 0.0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Measure what is sent within the block."""
        answer = SqlExecutor._answer
        longest = self

        async def timed(executor: SqlExecutor, name: str, question: Awaitable[Any], *, statements: int = 1) -> Any:
            before = time.perf_counter()
            result = await answer(executor, name, question, statements=statements)
            waited = time.perf_counter() - before
            if waited > longest.seconds:
                longest.name, longest.seconds = name, waited
            return result

        with changed(SqlExecutor, _answer=timed):
            yield


async def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=list(_inputs(0)), help="only this input; repeatable")
    parser.add_argument(
        "--lines", type=int, default=_LINES, help=f"chunks of the long text, at most {MAX_TEXT_CHUNKS:,}"
    )
    parser.add_argument("--blame", action="store_true", help="show what the loop was doing in the longest pauses")
    arguments = parser.parse_args()
    inputs = _inputs(arguments.lines)
    rows: list[tuple[str, ...]] = []
    with scratch_folder("reminiscence-bench-loop-") as folder:
        # A large write may take longer than a statement of daily use.
        config = Config(data_dir=folder / "data", worker=False, statement_timeout_seconds=600)
        async with AgentMem(config) as memory:
            # Models and tokenizers are loaded at the first write, and modules at the first question.
            await memory.create_active_memory("warm-up", "Warm-up", "Ann: a few words.")
            await memory.retrieve_memories("warm-up", "A few words?", as_of=datetime.now(UTC))
            nothing = Input(_nothing)
            rows.append(await _measure("nothing (control)", nothing, memory, blame=False))
            for name, measured in inputs.items():
                if not arguments.only or name in arguments.only:
                    rows.append(await _measure(name, measured, memory, blame=arguments.blame))
            rows.append(await _measure("nothing (control)", nothing, memory, blame=False))
    header = (
        "input",
        "loop's CPU at once, ms",
        "over 50 ms",
        "longest pause, ms",
        "garbage, ms",
        "statement, ms",
        "which",
    )
    print_table((*header, "wall, s", "client CPU, s"), rows)


async def _measure(name: str, measured: Input, memory: AgentMem, *, blame: bool) -> tuple[str, ...]:
    await measured.prepare(memory)
    pauses, longest = Pauses(), LongestStatement()
    with longest.watching(), _blaming(pauses) if blame else _unblamed():
        ticking = asyncio.create_task(_tick(pauses))
        # The first turn is not measured.
        await asyncio.sleep(2 * _TICK_SECONDS)
        wall, cpu = time.perf_counter(), time.process_time()
        await measured.call(memory)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        await asyncio.sleep(2 * _TICK_SECONDS)
        ticking.cancel()
        await asyncio.wait({ticking})
    row = pauses.row(name, longest, wall, cpu)
    print("  ".join(row), flush=True)
    for stack, count in pauses.stacks.most_common(12):
        print(f"    {count:5}  {stack}", flush=True)
    return row


async def _tick(pauses: Pauses) -> None:
    loop, begun, collected = threading.get_ident(), 0.0, 0.0

    def note(phase: str, info: dict[str, int]) -> None:
        """Nothing else runs between the beginning and the end of a collection."""
        nonlocal begun, collected
        if phase == "start":
            begun = time.thread_time()
            return
        seconds = time.thread_time() - begun
        pauses.collection_seconds = max(pauses.collection_seconds, seconds)
        if threading.get_ident() == loop:
            collected += seconds

    gc.callbacks.append(note)
    try:
        while True:
            due, cpu_before, collected = time.perf_counter() + _TICK_SECONDS, time.thread_time(), 0.0
            await asyncio.sleep(_TICK_SECONDS)
            pauses.seconds.append(max(0.0, time.perf_counter() - due))
            pauses.cpu_seconds.append(time.thread_time() - cpu_before - collected)
    finally:
        gc.callbacks.remove(note)


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
                pauses.stacks[" < ".join(f"{one.name}:{one.lineno}" for one in reversed(stack))] += 1

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()


async def _nothing(memory: AgentMem) -> None:
    await asyncio.sleep(_CONTROL_SECONDS)


class _LongText:
    """What is done to one text of very many chunks, in this order; each call finds it as the one before has left it."""

    tenant = f"{_TENANT}-text"

    def __init__(self, text: str) -> None:
        self._text = text
        self._note: ActiveMemory | None = None

    def inputs(self) -> dict[str, Input]:
        """By their names."""
        later = {
            "title": self._update_title,
            "metadata of a text": self._update_metadata,
            "append": self._append,
            "change of lines": self._change,
            "consolidate": lambda memory: memory.admin.consolidate(self.tenant, self._id),
            "as_of": self._ask,
            "verify": lambda memory: memory.admin.verify(self.tenant),
            "rebuild": lambda memory: memory.admin.rebuild(self.tenant),
            "archive": lambda memory: memory.admin.archive(self.tenant, self._id, end_chunks=True),
            "erase": lambda memory: memory.admin.erase(self.tenant, memory_id=self._id),
        }
        return {"lines": Input(self._create), **{name: Input(call, self._prepare) for name, call in later.items()}}

    @property
    def _id(self) -> UUID:
        assert self._note is not None
        return self._note.id

    async def _prepare(self, memory: AgentMem) -> None:
        if self._note is None:
            await self._create(memory)

    async def _create(self, memory: AgentMem) -> None:
        self._note = await memory.create_active_memory(self.tenant, "Lines", self._text)

    async def _update_title(self, memory: AgentMem) -> None:
        await memory.update_active_memory(self.tenant, self._id, title="Many lines")

    async def _update_metadata(self, memory: AgentMem) -> None:
        await memory.update_active_memory(self.tenant, self._id, metadata={"kind": "lines"})

    async def _append(self, memory: AgentMem) -> None:
        await memory.update_active_memory(self.tenant, self._id, content=f"{self._text}\n\nThe end.")

    async def _change(self, memory: AgentMem) -> None:
        """Half of the lines say something else."""
        lines = self._text.split("\n\n")
        lines[::2] = [f"{line} too" for line in lines[::2]]
        await memory.update_active_memory(self.tenant, self._id, content="\n\n".join(lines))

    async def _ask(self, memory: AgentMem) -> None:
        await memory.retrieve_memories(self.tenant, "Who was at the lake?", as_of=datetime.now(UTC))


def _inputs(line_count: int) -> dict[str, Input]:
    """The largest that each call takes, by a name.

    Args:
        line_count: How many chunks the long text has at most: one more is appended.
    """
    numbers = random.Random(_SEED)
    prose = _prose(numbers, 900_000)
    # A mark of its own for each: equal lines are one vector.
    lines = "\n\n".join(f"{' '.join(numbers.choices(_WORDS, k=2))} {n}" for n in range(line_count - 1))
    longest = ("4111 1111 eyJ é " * MAX_CONTENT_CHARACTERS)[:MAX_CONTENT_CHARACTERS]
    metadata = {f"key {n}": f"value {n}" for n in range(MAX_METADATA_BYTES // 32)}
    payload = {"items": [{"name": f"n {n}", "size": n} for n in range(MAX_EVENT_PAYLOAD_BYTES // 40)]}
    assert len(json.dumps(payload)) < MAX_EVENT_PAYLOAD_BYTES
    assert len(json.dumps(metadata)) < MAX_METADATA_BYTES
    messages = [
        {"speaker": numbers.choice(("Ann", "Bob")), "content": _prose(numbers, 80), "conversation_id": str(n // 25)}
        for n in range(_MESSAGES)
    ]

    vocabulary = [f"{word.lower()}{n}" for word in _WORDS for n in range(300)]
    notes = "\n\n".join(" ".join(numbers.choices(vocabulary, k=_NOTE_WORDS)) for _ in range(_NOTES))
    distinct = " ".join(vocabulary)[:MAX_QUERY_CHARACTERS]

    async def fill(memory: AgentMem) -> None:
        await memory.create_active_memory(f"{_TENANT}-full", "Notes", notes)

    async def ask_of_many(memory: AgentMem) -> None:
        await memory.retrieve_memories(f"{_TENANT}-full", distinct)

    return {
        "metadata": Input(
            lambda memory: memory.create_active_memory(_TENANT, "Metadata", "A text.", metadata=metadata)
        ),
        "event": Input(lambda memory: memory.ledger.append(_TENANT, "world.observed", payload)),
        "question": Input(lambda memory: memory.retrieve_memories(_TENANT, prose[:MAX_QUERY_CHARACTERS])),
        "longest": Input(lambda memory: memory.create_active_memory(f"{_TENANT}-longest", "Longest", longest)),
        "import": Input(lambda memory: memory.admin.import_messages(f"{_TENANT}-import", messages)),
        "prose": Input(lambda memory: memory.create_active_memory(f"{_TENANT}-prose", "Prose", prose)),
        "distinct": Input(ask_of_many, fill),
        **_LongText(lines).inputs(),
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
