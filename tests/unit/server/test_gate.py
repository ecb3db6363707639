"""Places for calls, and a queue for them that has an end."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_reminiscence.server.guards.gate import Gate


async def _waiting(gate: Gate, number: int) -> list[asyncio.Task[bool]]:
    tasks = [asyncio.create_task(gate.enter("ida")) for _ in range(number)]
    # Each runs until it waits.
    await asyncio.sleep(0)
    return tasks


async def test_places_are_given_in_the_order_of_arrival() -> None:
    """Whoever comes later does not get past those that wait, not even at the moment when a place is free."""
    gate = Gate(1, queue=5, wait_seconds=60)
    assert await gate.enter("ida")
    first, second = await _waiting(gate, 2)
    gate.leave("ida")
    late = asyncio.create_task(gate.enter("ida"))
    assert await first
    await asyncio.sleep(0)
    assert not second.done()
    assert not late.done()
    gate.leave("ida")
    assert await second
    gate.leave("ida")
    assert await late
    gate.leave("ida")
    assert (gate.taken, gate.waiting) == (0, 0)


async def test_the_queue_has_an_end() -> None:
    """One more is refused at once."""
    gate = Gate(1, queue=2, wait_seconds=60)
    assert await gate.enter("ida")
    tasks = await _waiting(gate, 2)
    assert not await gate.enter("ida")
    assert gate.waiting == 2
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (gate.taken, gate.waiting) == (1, 0)


async def test_a_turn_that_does_not_come_is_given_up() -> None:
    """And the place goes to somebody else later."""
    gate = Gate(1, queue=2, wait_seconds=0.01)
    assert await gate.enter("ida")
    assert not await gate.enter("ida")
    assert (gate.taken, gate.waiting) == (1, 0)
    gate.leave("ida")
    assert await gate.enter("ida")


async def test_whoever_is_cancelled_with_a_place_in_hand_gives_it_on() -> None:
    """Otherwise it would be lost for ever."""
    gate = Gate(1, queue=2, wait_seconds=60)
    assert await gate.enter("ida")
    first, second = await _waiting(gate, 2)
    gate.leave("ida")
    # It has its place, and has not run since.
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert await second
    gate.leave("ida")
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
                tasks.append(asyncio.create_task(gate.enter("ida")))
            elif step == "leave" and inside:
                inside.discard(next(iter(inside)))
                gate.leave("ida")
            elif step == "cancel" and tasks:
                tasks[len(steps) % len(tasks)].cancel()
            elif step == "turn":
                await settle()
                assert len(inside) == gate.taken <= 3
        await settle()
        while inside or tasks:
            assert len(inside) == gate.taken
            inside.discard(next(iter(inside)))
            gate.leave("ida")
            await settle()
        assert (gate.taken, gate.waiting) == (0, 0)

    asyncio.run(play())


# Shares ----------------------------------------------------------------------------------------------------------


async def _lined_up(gate: Gate, *subjects: str) -> list[asyncio.Task[bool]]:
    tasks = []
    for subject in subjects:
        tasks.append(asyncio.create_task(gate.enter(subject)))
        await asyncio.sleep(0)
    return tasks


async def test_a_subject_has_its_share_and_leaves_the_rest_to_others() -> None:
    """However many calls of it wait."""
    gate = Gate(4, share=2, queue=10, wait_seconds=60)
    greedy = await _lined_up(gate, *["greedy"] * 6)
    assert (gate.taken, gate.waiting) == (2, 4)
    assert await gate.enter("modest")
    assert await gate.enter("shy")
    gate.leave("greedy")
    await asyncio.sleep(0)
    assert [task.done() for task in greedy] == [True, True, True, False, False, False]
    gate.leave("modest")
    await asyncio.sleep(0)
    assert gate.taken == 3
    for task in greedy:
        task.cancel()
    await asyncio.gather(*greedy, return_exceptions=True)


async def test_those_that_wait_are_served_in_turn() -> None:
    """One of each subject after another, and each subject's own in the order of their arrival."""
    gate = Gate(1, queue=10, wait_seconds=60)
    assert await gate.enter("first")
    order: list[str] = []

    async def call(subject: str, name: str) -> None:
        assert await gate.enter(subject)
        order.append(name)

    tasks = []
    for subject, name in (("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1"), ("b", "b2"), ("c", "c1")):
        tasks.append(asyncio.create_task(call(subject, name)))
        await asyncio.sleep(0)
    gate.leave("first")
    for subject in ("a", "b", "c", "a", "b", "a"):
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        gate.leave(subject)
    await asyncio.gather(*tasks)
    assert order == ["a1", "b1", "c1", "a2", "b2", "a3"]
    assert (gate.taken, gate.waiting) == (0, 0)


async def test_a_full_queue_takes_one_more_of_whoever_has_fewer_in_it() -> None:
    """The last one of the subject that has most of them gives way."""
    gate = Gate(1, queue=4, wait_seconds=60)
    assert await gate.enter("other")
    greedy = await _lined_up(gate, *["greedy"] * 4)
    assert not await gate.enter("greedy")
    modest = await _lined_up(gate, "modest", "modest")
    await asyncio.sleep(0)
    assert [task.done() and task.result() for task in greedy] == [False] * 4
    assert [task.done() for task in greedy] == [False, False, True, True]
    # Both have as many now.
    assert not await gate.enter("modest")
    assert gate.waiting == 4
    for task in (*greedy, *modest):
        task.cancel()
    await asyncio.gather(*greedy, *modest, return_exceptions=True)


async def test_what_costs_more_takes_more_of_its_own_share_only() -> None:
    """A price above the share is the whole share: nothing is too dear to be done at all."""
    gate = Gate(3, share=2, queue=10, wait_seconds=60)
    assert await gate.enter("long", price=50)
    (waiting,) = await _lined_up(gate, "long")
    assert await gate.enter("short")
    assert await gate.enter("short")
    assert not waiting.done()
    gate.leave("long", price=50)
    assert await waiting
    gate.leave("long")
    gate.leave("short")
    gate.leave("short")
    assert (gate.taken, gate.waiting) == (0, 0)


@pytest.mark.parametrize("end", ["cancelled", "expired"])
async def test_a_place_is_for_the_one_behind_a_call_that_was_too_dear_and_gave_up(end: str) -> None:
    """It fits, and nothing else that happens would let it in."""
    gate = Gate(4, share=4, queue=10, wait_seconds=60 if end == "cancelled" else 0.05)
    assert await gate.enter("ida")
    (dear,) = await _lined_up_at(gate, 4)
    # Later, so that its time ends later.
    await asyncio.sleep(0.01)
    (cheap,) = await _lined_up_at(gate, 1)
    assert not cheap.done()
    if end == "cancelled":
        dear.cancel()
    await asyncio.wait({dear}, timeout=60)
    assert await cheap
    assert (gate.taken, gate.waiting) == (2, 0)


async def _lined_up_at(gate: Gate, *prices: int) -> list[asyncio.Task[bool]]:
    tasks = [asyncio.create_task(gate.enter("ida", price)) for price in prices]
    await asyncio.sleep(0)
    return tasks


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["enter", "enter", "leave", "cancel", "turn"]), st.sampled_from("abc"), st.integers(1, 4)
        ),
        max_size=80,
    )
)
@example(
    [("enter", "a", 1), ("enter", "a", 3), ("enter", "a", 1), ("turn", "a", 1), ("cancel", "a", 2), ("turn", "a", 1)]
)
def test_no_share_is_exceeded_and_no_free_place_waited_for(steps: list[tuple[str, str, int]]) -> None:
    """Whatever comes in whatever order; in the end all are free."""
    places, share = 4, 3

    async def play() -> None:
        gate = Gate(places, share=share, queue=5, wait_seconds=60)
        waiting: list[tuple[asyncio.Task[bool], str, int]] = []
        inside: list[tuple[str, int]] = []

        async def settle() -> None:
            for _ in range(4):
                await asyncio.sleep(0)
            inside.extend((subject, price) for task, subject, price in waiting if _was_let_in(task))
            waiting[:] = [one for one in waiting if not one[0].done()]
            held = {name: sum(min(price, share) for subject, price in inside if subject == name) for name in "abc"}
            assert len(inside) == gate.taken <= places
            assert gate.waiting == len(waiting) <= 5
            assert max(held.values()) <= share
            firsts = {subject: price for _, subject, price in reversed(waiting)}
            for subject, price in firsts.items():
                assert gate.taken == places or held[subject] + min(price, share) > share

        for step, subject, price in steps:
            if step == "enter":
                waiting.append((asyncio.create_task(gate.enter(subject, price)), subject, price))
            elif step == "leave" and inside:
                gate.leave(*inside.pop(price % len(inside)))
            elif step == "cancel" and waiting:
                waiting[price % len(waiting)][0].cancel()
            elif step == "turn":
                await settle()
        await settle()
        while inside or waiting:
            gate.leave(*inside.pop())
            await settle()
        assert (gate.taken, gate.waiting) == (0, 0)

    asyncio.run(play())


def _was_let_in(task: asyncio.Task[bool]) -> bool:
    return task.done() and not task.cancelled() and task.result()
