"""Indexes over mem0, wherever it keeps its rows: what they keep, find and remove."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest

from agent_reminiscence.domain.event import Event
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.integrations import Mem0CloudIndex, Mem0MemoryIndex
from agent_reminiscence.integrations.row_index import Row, RowStore
from tests.support.ledger_events import event_id, make_event, positions
from tests.support.mem0_fixtures import KINDS, Mem0Backends

Index = Mem0MemoryIndex | Mem0CloudIndex
MakeIndex = Callable[..., Index]

MILL = make_event(1, "the miller hides a key under the wheel", kind="clue.found")
BREAD = make_event(2, "the bread is burnt again")
STORM = make_event(3, "a storm tears the roof off the barn", actor="odo", kind="world.observed")
TALE = (MILL, BREAD, STORM)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, mem0_backends: Mem0Backends) -> str:
    """What the indexes of a test are over."""
    mem0_backends.prepare(request.param)
    return str(request.param)


@pytest.fixture
def make_index(mem0_backends: Mem0Backends, kind: str) -> MakeIndex:
    """Makes an index."""

    def make(external_id: str | None = "village") -> Index:
        return mem0_backends.make(kind, external_id)

    return make


async def find_all(index: Index, least: int, query: str = "the mill, the bread and the storm") -> list[Event]:
    """What an index finds, once `least` events are there."""
    async with asyncio.timeout(60):
        while len(found := await index.search(query, 50)) < least:  # noqa: ASYNC110 - a store has no event to wait for
            await asyncio.sleep(0.005)
    return found


async def rows(index: Index, event_ids: Sequence[UUID]) -> list[Row]:
    """What the store holds of events, once nothing is pending."""
    store: RowStore = index._store
    found: Sequence[Row] = ()
    for _ in range(5):
        found = await index._run(store.find, index._scope, [str(one) for one in event_ids])
    return list(found)


async def test_an_event_comes_back_as_it_was(make_index: MakeIndex) -> None:
    """Every field, bytes and offsets included."""
    event = Event(
        external_id="village",
        event_id=UUID("0193b2a4-5b7c-7d3e-9f10-0123456789ab"),
        kind="agent.spoke",
        payload={
            "text": 'Grüße, "Mühle" \\ 水車 🌊\n',
            "deep": {"list": [1, 2.5, None, True, {"a": []}], "big": 2**70},
        },
        occurred_at=datetime(2026, 3, 5, 9, 30, 15, 123456, tzinfo=timezone(timedelta(hours=5, minutes=45))),
        source="tool",
        actor="mara",
        conversation_id="talk 7",
        turn=12,
        idempotency_key="key:1",
        request_hash=bytes(range(32)),
        position=4711,
        recorded_at=datetime(2026, 3, 5, 4, 0, tzinfo=UTC),
        salt=b"\x00\xff\x80salt",
        digest=bytes(range(224, 256)),
        chain=b"\xc3\x28",
    )
    assert all(getattr(event, name) is not None for name in Event.model_fields)
    index = make_index()
    await index.index((event,))

    [found] = await find_all(index, 1, "Grüße von der Mühle")
    assert found == event
    assert found.occurred_at.utcoffset() == event.occurred_at.utcoffset()


async def test_two_objects_over_one_store_add_an_event_once(mem0_backends: Mem0Backends, kind: str) -> None:
    """The second one looks before it adds; so does a process that was started again."""
    config = mem0_backends.config(kind) if kind != "cloud" else None
    for _ in range(2):
        index = mem0_backends.make(kind, "village") if config is None else Mem0MemoryIndex("village", config=config)
        await index.index(TALE)
        assert len(await rows(index, [event.event_id for event in TALE])) == 3
        index.close()


async def test_tasks_that_index_the_same_events_add_them_once(make_index: MakeIndex) -> None:
    """An index has one lock."""
    index = make_index()
    await asyncio.gather(*(index.index(TALE) for _ in range(10)))

    assert len(await rows(index, [event.event_id for event in TALE])) == 3


async def test_more_events_than_one_request_asks_about(make_index: MakeIndex) -> None:
    """Some are there, some are not, some are there twice because two processes were at it."""
    index = make_index()
    events = tuple(make_event(number, f"sack number {number}") for number in range(1, 71))
    await index.index(events[:40])
    for event in events[:5]:
        held = (await rows(index, [event.event_id]))[0]
        assert held.event is not None
        await index._run(index._store.add, index._scope, "sack", str(event.event_id), held.event)
    index._known.clear()

    await index.index(events)

    counts = [len(await rows(index, [event.event_id])) for event in events]
    assert counts == [2] * 5 + [1] * 65
    found = await find_all(index, 50, "sack number")
    assert len(set(positions(found))) == 50


async def test_a_wiped_index_is_rebuilt_with_the_same_hits(make_index: MakeIndex) -> None:
    """Nothing is in it that the ledger does not have."""
    events = tuple(make_event(number, f"the mill turns {'bread ' * (number % 3)}") for number in range(1, 12))
    index = make_index()
    await index.index(events)
    before = await find_all(index, 11, "the mill turns bread")

    await index.clear()
    assert await index.search("the mill turns bread", 50) == []
    await index.index(tuple(reversed(events)))

    assert await find_all(index, 11, "the mill turns bread") == before


async def test_of_equal_hits_the_later_ones_are_returned(make_index: MakeIndex) -> None:
    """Also where `k` cuts among them, in whatever order they were added."""
    index = make_index()
    events = [make_event(number, "the mill turns") for number in range(1, 9)]
    await index.index((*events[::2], *events[1::2]))
    await find_all(index, 8, "the mill turns")

    assert positions(await index.search("the mill turns", 3)) == [8, 7, 6]


async def test_clear_and_delete_leave_others_alone(mem0_backends: Mem0Backends, kind: str) -> None:
    """Other ledgers and other names in the same store."""
    config = mem0_backends.config(kind) if kind != "cloud" else None
    others = (make_event(1, "the miller hides a key", external_id="town"),)

    async def in_index(external_id: str, name: str, action: str) -> list[int]:
        made = (
            mem0_backends.make(kind, external_id, name=name)
            if config is None
            else Mem0MemoryIndex(external_id, name=name, config=config)
        )
        with made as index:
            if action == "index":
                await index.index(others if external_id == "town" else TALE)
                await rows(index, [event_id(1)])
            elif action == "clear":
                await index.clear()
            elif action == "delete":
                assert await index.delete([STORM.event_id, event_id(99)]) == 1
            return sorted(positions(await index.search("the miller, the storm and the bread", 9)))

    for external_id, name in (("village", "one"), ("village", "two"), ("town", "one")):
        await in_index(external_id, name, "index")
    assert await in_index("village", "one", "delete") == [1, 2]
    assert await in_index("village", "two", "clear") == []

    assert await in_index("village", "one", "look") == [1, 2]
    assert await in_index("town", "one", "look") == [1]


async def test_what_is_deleted_can_be_indexed_again(make_index: MakeIndex) -> None:
    """The index does not remember it as known."""
    index = make_index()
    await index.index(TALE)
    await find_all(index, 3)
    assert await index.delete([BREAD.event_id, BREAD.event_id]) == 1
    assert sorted(positions(await find_all(index, 2))) == [1, 3]

    await index.index(TALE)
    assert sorted(positions(await find_all(index, 3))) == [1, 2, 3]


async def test_what_is_erased_is_forgotten(mem0_backends: Mem0Backends, kind: str) -> None:
    """A view that follows a ledger says what is erased; also to an index that does not know yet whose events it has."""
    config = mem0_backends.config(kind) if kind != "cloud" else None

    def make(external_id: str | None) -> Index:
        return mem0_backends.make(kind, external_id) if config is None else Mem0MemoryIndex(external_id, config=config)

    with make("village") as index:
        await index.index(TALE)
        await find_all(index, 3)
    with make(None) as later:
        await later.forget({MILL.event_id, event_id(99)})
        await later.index((BREAD,))
        await later.forget(frozenset())

        assert await rows(later, [MILL.event_id]) == []
        assert sorted(positions(await find_all(later, 2))) == [2, 3]
        await later.forget({STORM.event_id})
        assert sorted(positions(await find_all(later, 1))) == [2]


async def test_events_of_another_ledger_are_refused(make_index: MakeIndex) -> None:
    """Nothing of the call is written; an index without an id takes that of the first event."""
    index = make_index(None)
    assert await index.search("mill", 5) == []
    with pytest.raises(InvalidInputError, match="does not know its external_id yet"):
        await index.clear()
    with pytest.raises(InvalidInputError, match="'town' cannot be indexed for 'village'"):
        await index.index((MILL, make_event(2, "bread", external_id="town")))
    await index.index((MILL,))
    with pytest.raises(InvalidInputError, match="'town' cannot be indexed for 'village'"):
        await index.index((make_event(2, "bread", external_id="town"),))

    assert await find_all(index, 1) == [MILL]


async def test_events_without_text_and_blank_questions_find_nothing(make_index: MakeIndex) -> None:
    """mem0 would keep an empty text and refuse an empty question."""
    index = make_index()
    await index.index((make_event(1, ""), make_event(2, {"text": "", "id": "7"}), STORM))

    assert await index.search("", 5) == []
    assert await index.search(" \n", 5) == []
    assert await rows(index, [event_id(1), event_id(2)]) == []
    with pytest.raises(InvalidInputError, match="k must be at least 1, not 0"):
        await index.search("mill", 0)


async def test_damaged_and_foreign_rows_are_passed_over(
    make_index: MakeIndex, caplog: pytest.LogCaptureFixture
) -> None:
    """They take no hit's place, and the log names them once and quotes nothing."""
    index = make_index()
    await index.index((MILL,))
    [held] = await rows(index, [MILL.event_id])
    assert held.event is not None
    foreign = held.event.replace('"village"', '"town"')
    for number, event in enumerate(("", "{", "[]", '{"kind": "secret"}', held.event, foreign), start=50):
        await index._run(index._store.add, index._scope, "the miller hides a secret key", str(event_id(number)), event)
    assert len(await rows(index, [event_id(number) for number in range(50, 56)])) == 6

    with caplog.at_level(logging.WARNING, "agent_reminiscence"):
        for _ in range(2):
            assert await index.search("the miller hides a secret key", 1) == [MILL]

    said = [one.getMessage() for one in caplog.records if one.name.startswith("agent_reminiscence")]
    assert len(said) == len(set(said)) == 6
    assert not any("secret" in message or "miller" in message for message in said)
