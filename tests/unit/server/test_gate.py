"""Places for calls, and a queue for them that has an end."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_reminiscence.server.guards.gate import Gate


async def _waiting(gate: Gate, number: int) -> list[asyncio.Task[bool]]:
    tasks = [asyncio.create_task(gate.enter()) for _ in range(number)]
    # Each runs until it waits.
    await asyncio.sleep(0)
    return tasks


async def test_places_are_given_in_the_order_of_arrival() -> None:
    """Whoever comes later does not get past those that wait, not even at the moment when a place is free."""
    gate = Gate(1, queue=5, wait_seconds=60)
    assert await gate.enter()
    first, second = await _waiting(gate, 2)
    gate.leave()
    late = asyncio.create_task(gate.enter())
    assert await first
    await asyncio.sleep(0)
    assert not second.done()
    assert not late.done()
    gate.leave()
    assert await second
    gate.leave()
    assert await late
    gate.leave()
    assert (gate.taken, gate.waiting) == (0, 0)


async def test_the_queue_has_an_end() -> None:
    """One more is refused at once."""
    gate = Gate(1, queue=2, wait_seconds=60)
    assert await gate.enter()
    tasks = await _waiting(gate, 2)
    assert not await gate.enter()
    assert gate.waiting == 2
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (gate.taken, gate.waiting) == (1, 0)


async def test_a_turn_that_does_not_come_is_given_up() -> None:
    """And the place goes to somebody else later."""
    gate = Gate(1, queue=2, wait_seconds=0.01)
    assert await gate.enter()
    assert not await gate.enter()
    assert (gate.taken, gate.waiting) == (1, 0)
    gate.leave()
    assert await gate.enter()


async def test_whoever_is_cancelled_with_a_place_in_hand_gives_it_on() -> None:
    """Otherwise it would be lost for ever."""
    gate = Gate(1, queue=2, wait_seconds=60)
    assert await gate.enter()
    first, second = await _waiting(gate, 2)
    gate.leave()
    # It has its place, and has not run since.
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert await second
    gate.leave()
    assert (gate.taken, gate.waiting) == (0, 0)


@given(st.lists(st.sampled_from(["enter", "leave", "cancel", "turn"]), max_size=60))
def test_no_place_is_lost_or_given_twice(steps: list[str]) -> None:
    """Whatever comes in whatever order: never more than there are, and in the end all are free."""

    async def play() -> None:
        gate = Gate(3, queue=4, wait_seconds=60)
        tasks: list[asyncio.Task[bool]] = []
        inside: set[asyncio.Task[bool]] = set()

        async def settle() -> None:
            for _ in range(4):
                await asyncio.sleep(0)
            inside.update(task for task in tasks if task.done() and not task.cancelled() and task.result())
            tasks[:] = [task for task in tasks if not task.done()]

        for step in steps:
            if step == "enter":
                tasks.append(asyncio.create_task(gate.enter()))
            elif step == "leave" and inside:
                inside.discard(next(iter(inside)))
                gate.leave()
            elif step == "cancel" and tasks:
                tasks[len(steps) % len(tasks)].cancel()
            elif step == "turn":
                await settle()
                assert len(inside) == gate.taken <= 3
        await settle()
        while inside or tasks:
            assert len(inside) == gate.taken
            inside.discard(next(iter(inside)))
            gate.leave()
            await settle()
        assert (gate.taken, gate.waiting) == (0, 0)

    asyncio.run(play())
