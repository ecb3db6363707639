"""The ledger: gapless, append-only, and provable, because all of it can be computed again from what is stored."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agent_reminiscence import AgentMem
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.repositories.event_ledger import EventLedger, event_digest, next_chain
from agent_reminiscence.database.repositories.work_queue import WorkQueue
from agent_reminiscence.domain.canonical import canonical_json
from agent_reminiscence.domain.event import Event, EventKind, NewEvent
from agent_reminiscence.exceptions import StoreError
from tests.conftest import TestServer
from tests.support.factories import LONG_AGO, fill_tenant, make_event, stored_rows, superuser

_LEDGER = EventLedger()
_PAGE = 1_000


@pytest.fixture(scope="module")
def database(test_server: TestServer) -> Iterator[str]:
    """One database for this module; each test has streams of its own."""
    name = asyncio.run(test_server.create_database())
    yield name
    asyncio.run(test_server.drop_database(name))


@pytest.fixture
async def store(test_server: TestServer, database: str) -> AsyncIterator[PostgresManager]:
    """A pool of connections as the application's login."""
    manager = PostgresManager(
        test_server.login(database), pool_size=4, pool_timeout_seconds=30, statement_timeout_seconds=30
    )
    await manager.initialize()
    yield manager
    await manager.close()


async def _append(store: PostgresManager, event: NewEvent) -> Event:
    async with store.transaction(event.external_id) as db:
        await _LEDGER.lock(db, event.external_id)
        return await _LEDGER.append(db, event)


async def _read(store: PostgresManager, external_id: str) -> list[Event]:
    async with store.transaction(external_id, read_only=True) as db:
        return await _LEDGER.read(db, external_id, after=0, kinds=None, actor=None, limit=_PAGE)


def _digest(stored: Event) -> bytes:
    """The digest of an event as it was read back."""
    assert stored.salt is not None
    return event_digest(stored, stored.salt)


_NUMBERS = (
    st.integers(-(2**70), 2**70)
    | st.sampled_from([10**30, -(10**30), 10**300, 2**53 + 1, 0])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([1.10, 1e5, 1e-7, -0.0, 0.1 + 0.2, 1e23, 5e-324, 1.7976931348623157e308, 100000.0])
)
_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12)
_JSON = st.recursive(
    st.none() | st.booleans() | _NUMBERS | _TEXT,
    lambda children: st.lists(children, max_size=4) | st.dictionaries(_TEXT, children, max_size=4),
    max_leaves=12,
)
_PAYLOADS = st.dictionaries(_TEXT, _JSON, max_size=5)
_ZONES = st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30)), timezone(timedelta(hours=-3))])
_MOMENTS = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1), timezones=_ZONES)  # noqa: DTZ001 - zones are drawn


@pytest.mark.promise
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(payload=_PAYLOADS, occurred_at=_MOMENTS)
@example(payload={}, occurred_at=LONG_AGO)
@example(payload={"b": 1, "a": {"z": [], "y": {}}, "aa": 2, "": None}, occurred_at=LONG_AGO)
@example(payload={"price": 1.10, "big": 1e5, "small": 1e-7, "zero": -0.0, "whole": 10**30}, occurred_at=LONG_AGO)
@example(payload={"é": "é", "😀": '\u2028 \\ " \x7f', "ﬀ": "\ufeff"}, occurred_at=LONG_AGO)
@example(payload={"text": "quotes"}, occurred_at=datetime(2024, 7, 1, 2, tzinfo=timezone(timedelta(hours=2))))
async def test_the_digest_can_be_computed_again_from_the_row(
    store: PostgresManager, payload: dict[str, Any], occurred_at: datetime
) -> None:
    """jsonb keeps neither the order of keys nor the spelling of numbers, and timestamptz no zone: none may matter."""
    external_id = f"digest-{uuid4()}"

    appended = await _append(
        store, make_event(external_id=external_id, payload=payload, occurred_at=occurred_at, turn=0, actor="é")
    )

    [stored] = await _read(store, external_id)
    assert _digest(stored) == stored.digest == appended.digest
    assert next_chain(b"", stored.digest, 1, stored.recorded_at) == stored.chain == appended.chain
    assert canonical_json(stored.payload) == canonical_json(payload)
    assert stored.occurred_at == occurred_at


def test_every_field_that_the_caller_gave_is_in_the_digest() -> None:
    """Whichever of them is changed in the table afterwards, it shows."""
    changes: dict[str, Any] = {
        "external_id": "agent-2",
        "event_id": uuid4(),
        "kind": "other.kind",
        "payload": {"text": "The kettle is off."},
        "occurred_at": LONG_AGO + timedelta(microseconds=1),
        "source": "model",
        "actor": "robot",
        "conversation_id": "c-1",
        "turn": 1,
        "idempotency_key": "k-1",
        "request_hash": b"\x00",
    }
    assert set(changes) == set(NewEvent.model_fields)
    event = make_event()

    digests = {event_digest(event.model_copy(update={name: value}), b"salt") for name, value in changes.items()}
    digests |= {event_digest(event, b"salt"), event_digest(event, b"other salt")}

    assert len(digests) == len(changes) + 2


@pytest.mark.promise
async def test_a_stream_verifies_from_its_first_event_to_its_head(memory: AgentMem, database: str) -> None:
    """Digest, chain, positions and times of everything the package itself writes."""
    await fill_tenant(memory, "chained")

    events = await memory.ledger.read("chained", limit=_PAGE)

    assert {event.kind for event in events} == {*EventKind, "world.observed", "agent.reflected"}
    chain = b""
    for position, event in enumerate(events, start=1):
        chain = next_chain(chain, event.digest, position, event.recorded_at)
        assert (event.position, event.chain) == (position, chain)
    # What was erased has no salt any more, and nothing that its digest could be made of.
    told = [event for event in events if event.salt is not None]
    assert len(told) == len(events) - 1
    assert [event.digest for event in told] == [_digest(event) for event in told]
    assert len({event.salt for event in told}) == len(told)
    async with memory._ready().stores.postgres.transaction("chained") as db:
        head = await db.fetch_one("SELECT head, chain, last_recorded_at FROM memory_stream")
    assert head == {"head": len(events), "chain": chain, "last_recorded_at": events[-1].recorded_at}


@pytest.mark.parametrize(
    "tampering",
    [
        'UPDATE memory_event SET payload = \'{"text": "The kettle is off."}\' WHERE position = 2',
        "UPDATE memory_event SET recorded_at = recorded_at - interval '1 hour' WHERE position = 2",
        "UPDATE memory_event SET actor = 'somebody else' WHERE position = 2",
        "DELETE FROM memory_event WHERE position = 2",
    ],
)
async def test_what_somebody_changes_by_hand_breaks_the_chain(
    test_server: TestServer, database: str, store: PostgresManager, tampering: str
) -> None:
    """The control: with a superuser's rights rows can be changed, and then the stream no longer verifies."""
    external_id = f"tampered-{uuid4()}"
    for _ in range(3):
        await _append(store, make_event(external_id=external_id))

    async with superuser(test_server, database) as db:
        await db.execute(f"{tampering} AND external_id = $(tenant)p", {"tenant": external_id})

    chain = b""
    verified = []
    for position, event in enumerate(await _read(store, external_id), start=1):
        chain = next_chain(chain, event.digest, position, event.recorded_at)
        verified.append((event.position, event.digest, event.chain) == (position, _digest(event), chain))
    assert verified[0]
    assert not all(verified)


async def test_concurrent_writers_leave_no_gap_and_time_never_runs_back(store: PostgresManager) -> None:
    """Writers of one stream take turns; those of others go on beside them."""
    streams = [f"busy-{n}-{uuid4()}" for n in range(3)]

    await asyncio.gather(*(_append(store, make_event(external_id=streams[n % 3])) for n in range(45)))

    for stream in streams:
        events = await _read(store, stream)
        assert [event.position for event in events] == list(range(1, 16))
        assert all(a.recorded_at <= b.recorded_at for a, b in itertools.pairwise(events))


async def test_a_transaction_rolled_back_leaves_no_gap(store: PostgresManager) -> None:
    """A position is taken with the event or not at all."""
    external_id = f"rolled-back-{uuid4()}"
    await _append(store, make_event(external_id=external_id))

    with pytest.raises(ZeroDivisionError):  # noqa: PT012 - the block is a transaction
        async with store.transaction(external_id) as db:
            await _LEDGER.lock(db, external_id)
            await _LEDGER.append(db, make_event(external_id=external_id))
            raise ZeroDivisionError
    await _append(store, make_event(external_id=external_id))

    assert [event.position for event in await _read(store, external_id)] == [1, 2]


async def test_recorded_at_increases_while_the_clock_is_behind(
    test_server: TestServer, database: str, store: PostgresManager
) -> None:
    """The last event may lie in the server's future: each that follows has a time of its own, after it."""
    external_id = f"future-{uuid4()}"
    await _append(store, make_event(external_id=external_id))
    ahead = datetime.now(UTC) + timedelta(days=3)
    async with superuser(test_server, database) as db:
        await db.execute(
            "UPDATE memory_stream SET last_recorded_at = $(ahead)p WHERE external_id = $(tenant)p",
            {"ahead": ahead, "tenant": external_id},
        )

    second = await _append(store, make_event(external_id=external_id))
    async with store.transaction(external_id) as db:
        await _LEDGER.lock(db, external_id)
        third = await _LEDGER.append(db, make_event(external_id=external_id))
        fourth = await _LEDGER.append(db, make_event(external_id=external_id))

    tick = timedelta(microseconds=1)
    assert [second.recorded_at, third.recorded_at, fourth.recorded_at] == [ahead + n * tick for n in (1, 2, 3)]
    events = await _read(store, external_id)
    assert next_chain(events[1].chain, events[2].digest, 3, ahead + 2 * tick) == events[2].chain


async def test_while_the_clock_is_behind_an_earlier_write_settles_only_its_own_work(
    test_server: TestServer, database: str, store: PostgresManager
) -> None:
    """Recording times are then a microsecond apart, and no event's time stands for the work of two later ones."""
    external_id = f"future-work-{uuid4()}"
    work = WorkQueue()
    await _append(store, make_event(external_id=external_id))
    async with superuser(test_server, database) as db:
        await db.execute(
            "UPDATE memory_stream SET last_recorded_at = $(ahead)p WHERE external_id = $(tenant)p",
            {"ahead": datetime.now(UTC) + timedelta(days=3), "tenant": external_id},
        )

    async with store.transaction(external_id) as db:
        await _LEDGER.lock(db, external_id)
        earlier = [await _LEDGER.append(db, make_event(external_id=external_id)) for _ in range(2)]
        for _ in range(2):
            await _LEDGER.append(db, make_event(external_id=external_id), makes_work=True)
        for event in earlier:
            await work.settle_write(db, external_id, event.recorded_at, review_within_seconds=None)
        state = await work.read(db, external_id)

    assert state is not None
    assert state.work_at is not None


async def test_several_events_of_one_transaction_are_one_chain(store: PostgresManager) -> None:
    """Each is recorded at its own moment, in order."""
    external_id = f"several-{uuid4()}"

    async with store.transaction(external_id) as db:
        await _LEDGER.lock(db, external_id)
        appended = [await _LEDGER.append(db, make_event(external_id=external_id)) for _ in range(3)]

    assert await _read(store, external_id) == appended
    assert [event.position for event in appended] == [1, 2, 3]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE memory_event SET payload = '{}' WHERE external_id = 'kept'",
        "DELETE FROM memory_event WHERE external_id = 'kept'",
        "TRUNCATE memory_event",
    ],
)
async def test_no_event_is_changed_or_removed(
    test_server: TestServer, database: str, store: PostgresManager, statement: str
) -> None:
    """Append-only is the database's business, not the code's."""
    await _append(store, make_event(external_id="kept"))
    async with superuser(test_server, database) as db:
        before = await stored_rows(db, "kept")

    with pytest.raises(StoreError, match="permission denied for table memory_event"):
        async with store.transaction("kept") as db:
            await db.execute_script(statement)

    async with superuser(test_server, database) as db:
        assert await stored_rows(db, "kept") == before


async def test_an_event_id_is_used_once_in_a_stream(store: PostgresManager) -> None:
    """The same event cannot be appended twice; in another stream the id is another event."""
    external_id, other = f"once-{uuid4()}", f"other-{uuid4()}"
    event = make_event(external_id=external_id)
    await _append(store, event)

    with pytest.raises(StoreError, match="memory_event"):
        await _append(store, event)
    await _append(store, event.model_copy(update={"external_id": other}))

    assert [len(await _read(store, stream)) for stream in (external_id, other)] == [1, 1]


async def test_pages_kinds_and_actors(store: PostgresManager) -> None:
    """Reading page by page gives every event once; filters leave the order."""
    external_id = f"pages-{uuid4()}"
    async with store.transaction(external_id) as db:
        await _LEDGER.lock(db, external_id)
        for n in range(7):
            kind, actor = ("even.step", "ana") if n % 2 == 0 else ("odd.step", None)
            await _LEDGER.append(db, make_event(external_id=external_id, kind=kind, actor=actor, payload={"n": n}))

    pages: list[list[int]] = []
    after = 0
    async with store.transaction(external_id, read_only=True) as db:
        while page := await _LEDGER.read(db, external_id, after=after, kinds=None, actor=None, limit=3):
            pages.append([event.payload["n"] for event in page])
            after = page[-1].position
        odd = await _LEDGER.read(db, external_id, after=2, kinds=["odd.step"], actor=None, limit=10)
        anas = await _LEDGER.read(db, external_id, after=0, kinds=None, actor="ana", limit=2)

    assert pages == [[0, 1, 2], [3, 4, 5], [6]]
    assert [event.position for event in odd] == [4, 6]
    assert [event.position for event in anas] == [1, 3]


async def test_numbers_come_back_as_the_numbers_they_were(store: PostgresManager) -> None:
    """Large integers are no floats, whatever the driver makes of JSON."""
    external_id = f"numbers-{uuid4()}"
    payload = {"whole": 2**70 + 1, "large": 10**30, "part": 0.1, "nested": [{"deep": 123456789012345678901234567890}]}

    await _append(store, make_event(external_id=external_id, payload=payload))

    [stored] = await _read(store, external_id)
    assert json.dumps(stored.payload, sort_keys=True) == json.dumps(payload, sort_keys=True)
