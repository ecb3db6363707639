"""How long calls take when the database's answers are recorded and given again.

What runs at once on a small machine is slowed down by the database, whose processes take the cores from the caller and
from each other. Here a call runs alone while each answer is recorded, and how long it took; then calls run again, alone
or at once, and get the recorded answers after the same time, in which the database does nothing. What the driver does
on the event loop's thread is repeated as work; what it does on its own threads is part of the waiting.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from agent_reminiscence.database.connection import SqlExecutor
from benchmarks.common import changed

type Call = Callable[[], Coroutine[Any, Any, object]]


AT_ONCE: Final = "at once"


class NotRecordedError(Exception):
    """A replayed call did not ask what was recorded, for example because its connection had not prepared it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the database answered.

    Attributes:
        name: The name of the query.
        statements: How many were sent together.
        seconds: From question to answer.
        busy_seconds: Those of them that the event loop's thread worked, for whatever task.
        other_seconds: Processor time that other threads of this process took meanwhile, most of it the driver's.
    """

    name: str
    statements: int
    result: Any
    seconds: float
    busy_seconds: float
    other_seconds: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """How many seconds some calls take, each alone by its name and all of them `AT_ONCE`.

    Attributes:
        live: With the database.
        replayed: With its recorded answers.
        waiting: Of each call alone: waited for answers while the event loop's thread did not work.
        elsewhere: Processor time that other threads of this process took meanwhile.
    """

    live: dict[str, float]
    replayed: dict[str, float]
    waiting: dict[str, float]
    elsewhere: dict[str, float]


@dataclass(slots=True)
class _Run:
    """A call that is recorded or replayed. Its background work asks the database once the call is over.

    Attributes:
        used: What each connection of a replay had prepared, and the age at which it discards its plans. The replay
            restores both, because a connection also notes statements that were never sent.
    """

    is_replay: bool
    answers: list[Answer] = field(default_factory=list)
    used: dict[SqlExecutor, tuple[set[str], float]] = field(default_factory=dict)
    is_over: bool = False


_run: ContextVar[_Run | None] = ContextVar("_run", default=None)


@contextmanager
def replayable() -> Iterator[None]:
    """Allow recording and replaying within the block; other calls ask the database as usual."""
    ask, begin = SqlExecutor._answer, SqlExecutor._begin

    async def begin_noted(executor: SqlExecutor, mode: str, settings: Mapping[str, str], *, with_next: bool) -> None:
        run = _run.get()
        if run is not None and run.is_replay:
            run.used.setdefault(executor, (set(executor._prepared), executor._replanned_at_age))
        await begin(executor, mode, settings, with_next=with_next)

    async def answer(executor: SqlExecutor, name: str, question: Awaitable[Any], *, statements: int = 1) -> Any:
        run = _run.get()
        # Nothing that is replayed has begun a transaction, so rolling one back changes nothing.
        if run is None or run.is_over or (run.is_replay and name == "ROLLBACK"):
            return await ask(executor, name, question, statements=statements)
        if run.is_replay:
            return await _answer_again(run.answers, name, question, statements)
        began, worked, used = time.perf_counter(), time.thread_time(), time.process_time()
        result = await ask(executor, name, question, statements=statements)
        seconds, busy = time.perf_counter() - began, time.thread_time() - worked
        other = time.process_time() - used - busy
        run.answers.append(Answer(name, statements, result, seconds, busy, other))
        return result

    with changed(SqlExecutor, _answer=answer, _begin=begin_noted):
        yield


async def record(call: Call) -> list[Answer]:
    """Run a call alone, and return what the database answered."""
    run = _Run(is_replay=False)
    await asyncio.create_task(_within(run, call))
    return run.answers


async def replay(*calls: tuple[Call, Sequence[Answer]]) -> float:
    """Run recorded calls at once, while nothing else asks the database.

    Returns:
        How many seconds the last of them took.

    Raises:
        NotRecordedError: One of them did not ask what was recorded.
    """
    used: dict[SqlExecutor, tuple[set[str], float]] = {}
    runs = [(_Run(is_replay=True, answers=list(answers), used=used), call) for call, answers in calls]
    started = time.perf_counter()
    try:
        # gather gives each a task, and so a context of its own.
        results = await asyncio.gather(*(_within(run, call) for run, call in runs), return_exceptions=True)
    finally:
        for executor, (prepared, replanned_at_age) in used.items():
            executor._prepared, executor._replanned_at_age = prepared, replanned_at_age
    seconds = time.perf_counter() - started
    for result in results:
        if isinstance(result, BaseException):
            raise result
    for run, _ in runs:
        if run.answers:
            raise NotRecordedError(f"{run.answers[0].name} was not asked again")
    return seconds


async def compare(
    at_once: Mapping[str, Call], alone: Mapping[str, Call], *, is_at_once_first: bool = True
) -> Comparison:
    """Run some calls with the database, all `at_once` and others like them each alone, and these with its answers.

    Args:
        is_at_once_first: Whether `at_once` comes first; who measures often takes turns.

    Raises:
        NotRecordedError: One of them did not ask again what was recorded.
    """
    live: dict[str, float] = {}

    async def run_at_once() -> None:
        started = time.perf_counter()
        await asyncio.gather(*(call() for call in at_once.values()))
        live[AT_ONCE] = time.perf_counter() - started

    recorded: dict[str, list[Answer]] = {}
    if is_at_once_first:
        await run_at_once()
    with replayable():
        for name, call in alone.items():
            started = time.perf_counter()
            recorded[name] = await record(call)
            live[name] = time.perf_counter() - started
        if not is_at_once_first:
            await run_at_once()
        again = {name: (call, recorded[name]) for name, call in alone.items()}
        replayed = {name: await replay(one) for name, one in again.items()}
        replayed[AT_ONCE] = await replay(*again.values())
    return Comparison(
        live,
        replayed,
        waiting={name: sum(one.seconds - one.busy_seconds for one in answers) for name, answers in recorded.items()},
        elsewhere={name: sum(one.other_seconds for one in answers) for name, answers in recorded.items()},
    )


async def _within(run: _Run, call: Call) -> None:
    _run.set(run)
    try:
        await call()
    finally:
        run.is_over = True


async def _answer_again(left: list[Answer], name: str, question: Awaitable[Any], statements: int) -> Any:
    """Give the recorded answer to a question, without asking it."""
    if isinstance(question, Coroutine):
        question.close()
    place = next((at for at, one in enumerate(left) if (one.name, one.statements) == (name, statements)), None)
    if place is None:
        raise NotRecordedError(f"{name} was not asked before")
    answer = left.pop(place)
    # The driver works before it waits and after.
    _work(answer.busy_seconds / 2)
    until = time.perf_counter() + answer.seconds - answer.busy_seconds
    while time.perf_counter() < until:  # noqa: ASYNC110 - no event marks the end of a pause
        # A timer of the event loop would round up to a millisecond.
        await asyncio.sleep(0)
    _work(answer.busy_seconds / 2)
    return answer.result


def _work(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass
