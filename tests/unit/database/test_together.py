"""Statements that are sent together: which of their errors the caller is told."""

from __future__ import annotations

import asyncio

import pytest
from psqlpy.exceptions import Error as DriverError

from agent_reminiscence.database.connection import _together


async def _answered(number: int) -> int:
    await asyncio.sleep(0)
    return number


async def _refused(why: str, after: asyncio.Event | None = None) -> int:
    await (asyncio.sleep(0) if after is None else after.wait())
    raise DriverError(why)


async def test_the_answers_come_in_the_order_of_the_questions() -> None:
    """Whichever arrives first."""
    assert await _together([_answered(number) for number in range(4)]) == [0, 1, 2, 3]


@pytest.mark.parametrize("is_last_refused", [False, True])
async def test_the_first_refusal_is_told_though_later_ones_overtake_it(is_last_refused: bool) -> None:
    """Only it says why: what is behind it is refused because the transaction is aborted."""
    overtaken = asyncio.Event()

    async def overtaking() -> int:
        try:
            return await _refused("aborted")
        finally:
            overtaken.set()

    last = _refused("aborted") if is_last_refused else _answered(3)

    with pytest.raises(DriverError, match="duplicate key"):
        await _together([_answered(0), _refused("duplicate key", overtaken), overtaking(), last])


async def test_nothing_is_left_running_when_the_caller_stops_waiting() -> None:
    """The questions are cancelled with it."""
    ended: list[str] = []

    async def waiting() -> int:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return 0

    task = asyncio.create_task(_together([waiting(), waiting(), waiting()]))
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["cancelled"] * 3
