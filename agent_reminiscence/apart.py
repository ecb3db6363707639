"""Runs coroutines in tasks of their own, so that what they do to their task does not happen to the caller's.

Two things go wrong where somebody else's coroutine is awaited in the caller's own task. The first is a cancellation
that is never taken back: `asyncio.TaskGroup` of Python 3.12 cancels its parent when a child fails and leaves
`cancelling()` above 0, and then Pydantic AI takes every later run in that task for a cancelled one. The second is a
coroutine that ends in `CancelledError` although nobody has cancelled it: seen from the caller's task, it cannot be told
from a cancellation that was asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any


class UnrequestedCancellationError(Exception):
    """A coroutine ended in a cancellation that its caller had not asked for, so it failed."""

    def __init__(self) -> None:
        super().__init__("it ended in a cancellation that nobody had asked for")


async def run_apart[T](work: Awaitable[T]) -> T:
    """Await `work` in a task of its own.

    Raises:
        UnrequestedCancellationError: It was cancelled, but not by cancelling the caller.
        asyncio.CancelledError: The caller was cancelled. `work` was cancelled too, and has ended.
    """
    [result] = await run_all_apart(_awaited(work))
    return result


async def run_all_apart[T](*works: Coroutine[Any, Any, T]) -> list[T]:
    """Await `works` at the same time, each in a task of its own. The first failure cancels the others.

    Use it instead of `asyncio.TaskGroup`: it never cancels the caller's task, and raises the failure itself instead of
    a group.

    Returns:
        What each has returned, in order.

    Raises:
        UnrequestedCancellationError: One of them was cancelled, but not by cancelling the caller.
        asyncio.CancelledError: The caller was cancelled. All of `works` were cancelled too, and have ended.
        Exception: What the first of them that failed raised, once the others have ended.
    """
    if not works:
        return []
    tasks = [asyncio.create_task(work) for work in works]
    try:
        # `wait` and not `gather`: it passes no cancellation on, so one that is raised here is the caller's.
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        await _end(tasks)
    for task in tasks:
        if task in ended and not task.cancelled() and (failure := task.exception()) is not None:
            raise failure
    if any(task.cancelled() for task in tasks):
        raise UnrequestedCancellationError
    return [task.result() for task in tasks]


async def run_some_apart[T](works: Sequence[Callable[[], Coroutine[Any, Any, T]]], *, at_once: int) -> list[T]:
    """As `run_all_apart`, at most `at_once` of them at the same time; what has not begun at a failure never does."""
    places = asyncio.Semaphore(at_once)

    async def run(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        async with places:
            return await work()

    return await run_all_apart(*map(run, works))


async def _end(tasks: list[asyncio.Task[Any]]) -> None:
    """Cancel what still runs and wait until it has ended, also if the caller is cancelled meanwhile.

    Raises:
        asyncio.CancelledError: The caller was cancelled meanwhile.
    """
    cancelled: asyncio.CancelledError | None = None
    while running := [task for task in tasks if not task.done()]:
        for task in running:
            task.cancel()
        try:
            await asyncio.wait(running)
        except asyncio.CancelledError as error:
            cancelled = error
    for task in tasks:
        if not task.cancelled():
            # Looked at, so that asyncio does not log a failure that came after the one that is raised.
            task.exception()
    if cancelled is not None:
        raise cancelled


async def _awaited[T](work: Awaitable[T]) -> T:
    return await work
