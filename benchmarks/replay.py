"""How long a call would take if the database took none of this machine's cores.

What runs at once on a small machine is slowed down by the database, whose processes take the cores from the caller and
from each other. Here a call runs alone while each answer is recorded, with the time it was waited for; then calls run
again, alone or at once, and are given the recorded answers after as much time. Only the caller's own work, the driver's
included, takes processor time then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from agent_reminiscence.database.connection import SqlExecutor
from benchmarks.common import changed

type Call = Callable[[], Coroutine[Any, Any, object]]


class NotRecordedError(Exception):
    """A statement was sent that was not recorded; a connection may prepare it first, or plan anew."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the database answered.

    Attributes:
        name: Of the query.
        statements: How many were sent together.
        seconds: How long it was waited for.
        busy: How much of that the event loop's thread worked, in seconds.
    """

    name: str
    statements: int
    result: Any
    seconds: float
    busy: float


@dataclass(slots=True)
class _Run:
    """A call that is recorded or replayed. What it leaves to the background asks the database as usual.

    Attributes:
        prepared: What each connection had prepared before a replay, which prepares nothing though it is noted so.
    """

    is_replay: bool
    answers: list[Answer] = field(default_factory=list)
    prepared: dict[SqlExecutor, set[str]] = field(default_factory=dict)
    is_over: bool = False


_run: ContextVar[_Run | None] = ContextVar("_run", default=None)


@contextmanager
def replayable() -> Iterator[None]:
    """Allow recording and replaying within the block; other calls ask the database as usual."""
    ask = SqlExecutor._answer

    async def answer(executor: SqlExecutor, name: str, question: Awaitable[Any], *, statements: int = 1) -> Any:
        run = _run.get()
        # Nothing that is replayed has begun a transaction, so rolling one back changes nothing.
        if run is None or run.is_over or (run.is_replay and name == "ROLLBACK"):
            return await ask(executor, name, question, statements=statements)
        if run.is_replay:
            run.prepared.setdefault(executor, set(executor._prepared))
            return await _answer_again(run.answers, name, question, statements)
        began, worked = time.perf_counter(), time.thread_time()
        result = await ask(executor, name, question, statements=statements)
        seconds, busy = time.perf_counter() - began, time.thread_time() - worked
        run.answers.append(Answer(name, statements, result, seconds, busy))
        return result

    with changed(SqlExecutor, _answer=answer):
        yield


async def record(call: Call) -> list[Answer]:
    """Run a call alone, and return what the database answered."""
    run = _Run(is_replay=False)
    await asyncio.create_task(_within(run, call))
    return run.answers


async def replay(*calls: tuple[Call, Sequence[Answer]]) -> float:
    """Run recorded calls at once, and return how many seconds the last of them took.

    Raises:
        NotRecordedError: One of them sent a statement that was not recorded.
    """
    started = time.perf_counter()
    runs = [_within(_Run(is_replay=True, answers=list(answers)), call) for call, answers in calls]
    # Each is a task, so it has a context of its own.
    results = await asyncio.gather(*map(asyncio.create_task, runs), return_exceptions=True)
    seconds = time.perf_counter() - started
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return seconds


async def _within(run: _Run, call: Call) -> None:
    _run.set(run)
    try:
        await call()
    finally:
        run.is_over = True
        for executor, prepared in run.prepared.items():
            executor._prepared = prepared


async def _answer_again(left: list[Answer], name: str, question: Awaitable[Any], statements: int) -> Any:
    """Give the recorded answer to a question, without asking it."""
    if isinstance(question, Coroutine):
        question.close()
    place = next((at for at, one in enumerate(left) if (one.name, one.statements) == (name, statements)), None)
    if place is None:
        raise NotRecordedError(name)
    answer = left.pop(place)
    # The driver works before it waits and after.
    _work(answer.busy / 2)
    until = time.perf_counter() + answer.seconds - answer.busy
    while time.perf_counter() < until:  # noqa: ASYNC110 - nothing else tells that the time is over
        # A timer of the event loop would round up to a millisecond.
        await asyncio.sleep(0)
    _work(answer.busy / 2)
    return answer.result


def _work(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass
