"""Coroutines that run in tasks of their own: what they do to their task does not happen to the caller's."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from agent_reminiscence.apart import UnrequestedCancellationError, run_all_apart, run_apart, run_some_apart


async def _fail_at_once() -> None:
    await asyncio.sleep(0)
    raise ValueError("of a child")


async def _leave_a_cancellation() -> str:
    """What `asyncio.TaskGroup` of Python 3.12 does to its parent when a child fails."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        return "done"
    raise AssertionError("it was not cancelled")


async def _cancel_itself() -> None:
    raise asyncio.CancelledError


def _count() -> int:
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling()


async def test_a_cancellation_that_is_left_behind_stays_behind() -> None:
    """The result arrives, and the caller's task is not marked."""
    assert await run_apart(_leave_a_cancellation()) == "done"
    assert _count() == 0


async def test_the_failure_of_a_task_group_is_raised_and_leaves_no_mark() -> None:
    """On every Python that the package runs on."""

    async def in_a_group() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(_fail_at_once())

    with pytest.raises(ExceptionGroup):
        await run_apart(in_a_group())
    assert _count() == 0


async def test_a_cancellation_that_nobody_asked_for_is_a_failure() -> None:
    """So that a caller can tell it from its own."""
    with pytest.raises(UnrequestedCancellationError):
        await run_apart(_cancel_itself())
    with pytest.raises(UnrequestedCancellationError):
        await run_all_apart(asyncio.sleep(0), _cancel_itself())
    assert _count() == 0


async def test_the_first_failure_cancels_the_others_and_is_raised() -> None:
    """Nothing of the call is left running."""
    ended = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("waited")

    with pytest.raises(ValueError, match="of a child"):
        await run_all_apart(wait(), _fail_at_once(), wait())

    assert ended == ["waited", "waited"]
    assert _count() == 0


async def test_results_come_in_the_order_of_the_calls() -> None:
    """Whichever ends first."""

    async def later(value: int, turns: int) -> int:
        for _ in range(turns):
            await asyncio.sleep(0)
        return value

    assert await run_all_apart(later(1, 5), later(2, 0)) == [1, 2]
    assert await run_all_apart() == []


async def test_who_is_cancelled_waits_for_what_it_has_started() -> None:
    """The cancellation reaches the work, which may still clean up, and then the caller's task ends as cancelled."""
    began, cleaned = asyncio.Event(), []

    async def work() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)

    task = asyncio.create_task(run_apart(work()))
    await began.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned == [True]


async def test_work_that_fails_while_it_is_cancelled_does_not_hide_the_cancellation() -> None:
    """A deadline around the call stays a deadline."""

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ValueError("of a client that was interrupted") from None

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await run_apart(work())
    assert _count() == 0


async def test_who_is_cancelled_while_others_end_is_cancelled_and_not_told_of_a_failure() -> None:
    """A deadline that comes while a sibling cleans up is no failure of the call, and the sibling ends all the same."""
    began, may_end, ended = asyncio.Event(), asyncio.Event(), []

    async def fail() -> None:
        raise ValueError("of a child")

    async def clean_up_slowly() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            began.set()
            try:
                await may_end.wait()
            except asyncio.CancelledError:
                # As a client does that closes its connection whatever comes.
                await may_end.wait()
            ended.append(True)

    seen: list[int] = []

    async def call() -> None:
        try:
            await run_all_apart(clean_up_slowly(), fail())
        finally:
            seen.append(_count())

    task = asyncio.create_task(call())
    await began.wait()
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    may_end.set()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()
    assert (ended, seen) == ([True], [1])


async def test_a_few_run_at_a_time_and_what_has_not_begun_never_does() -> None:
    """A failure leaves no coroutine behind that was made and not awaited."""
    running = most = begun = 0

    async def work(number: int) -> int:
        nonlocal running, most, begun
        begun += 1
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        if number == 5:
            raise ValueError("the sixth")
        return number

    assert await run_some_apart([partial(work, number) for number in range(5)], at_once=2) == list(range(5))
    assert most == 2
    begun = 0
    with pytest.raises(ValueError, match="the sixth"):
        await run_some_apart([partial(work, number) for number in range(5, 20)], at_once=2)
    assert begun < 15
