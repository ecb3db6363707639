"""`memory.ledger`: what is appended is read back, in order, in pages; and what is refused."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from agent_reminiscence import AgentMem, IdempotencyConflictError, InvalidInputError, PositionConflictError
from agent_reminiscence.database.repositories.event_ledger import event_digest, next_chain
from tests.support.servers import BOTH_SERVERS
from tests.support.steps import all_events, head_of

MOMENT = datetime(2026, 3, 5, 9, 30, tzinfo=timezone(timedelta(hours=-7)))


@BOTH_SERVERS
async def test_an_event_is_read_back_as_it_was_given(memory: AgentMem, tenant: str) -> None:
    """An unknown kind is stored whole: payload, times, actor, conversation, turn and trust."""
    payload: dict[str, Any] = {
        "text": "the door is open 🎉",
        "numbers": [1, 2.5, 2**80, 1e-9],
        "nothing": None,
        "deep": {"é": [{}]},
    }

    event = await memory.ledger.append(
        tenant,
        "world.observed",
        payload,
        actor="sensor-3",
        conversation_id="c-1",
        turn=0,
        occurred_at=MOMENT,
        source="tool",
        idempotency_key="k",
    )

    assert await memory.ledger.read(tenant) == [event]
    assert (event.position, event.kind, event.payload) == (1, "world.observed", payload)
    assert (event.actor, event.conversation_id, event.turn) == ("sensor-3", "c-1", 0)
    assert (event.occurred_at, event.source, event.idempotency_key) == (MOMENT, "tool", "k")


@BOTH_SERVERS
async def test_what_is_recorded_is_also_chained(memory: AgentMem, tenant: str) -> None:
    """Digest and chain can be computed again from what was read, so a changed row would show."""
    note = await memory.create_active_memory(tenant, "Plan", "Ship on Friday", metadata={"a": 1e5, "b": 1.0})
    await memory.update_active_memory(tenant, note.id, content="Ship on Monday", occurred_at=MOMENT)
    await memory.ledger.append(tenant, "world.observed", {"x": 0.1, "y": -0.0, "z": 1e-9}, occurred_at=MOMENT)
    await memory.admin.consolidate(tenant)

    chain = b""
    for event in await all_events(memory, tenant):
        assert event.salt is not None
        assert event.digest == event_digest(event, event.salt)
        chain = next_chain(chain, event.digest, event.position, event.recorded_at)
        assert event.chain == chain


@BOTH_SERVERS
async def test_pages_follow_one_another(memory: AgentMem, tenant: str) -> None:
    """A page begins behind `after`; an empty page is the end."""
    for number in range(7):
        await memory.ledger.append(tenant, "world.observed", {"n": number})

    pages: list[list[int]] = []
    after = 0
    while page := await memory.ledger.read(tenant, after=after, limit=3):
        pages.append([event.payload["n"] for event in page])
        after = page[-1].position

    assert pages == [[0, 1, 2], [3, 4, 5], [6]]


@BOTH_SERVERS
async def test_filters_choose_by_kind_and_actor(memory: AgentMem, tenant: str) -> None:
    """Filters combine, and positions stay those of the stream."""
    for number in range(8):
        kind = "agent.spoke" if number % 2 else "world.observed"
        await memory.ledger.append(tenant, kind, {"n": number}, actor=["ann", "bob", None, "ann"][number % 4])

    async def positions(**filters: Any) -> list[int]:
        return [event.position for event in await memory.ledger.read(tenant, **filters)]

    assert await positions(kinds=["agent.spoke"]) == [2, 4, 6, 8]
    assert await positions(kinds=("agent.spoke", "world.observed")) == list(range(1, 9))
    assert await positions(actor="ann") == [1, 4, 5, 8]
    assert await positions(actor="ann", kinds=["agent.spoke"], after=4) == [8]
    assert await positions(actor="nobody") == []
    assert await positions(kinds=[]) == []


@BOTH_SERVERS
async def test_an_event_of_a_users_kind_is_in_no_search(memory: AgentMem, tenant: str) -> None:
    """It changes no tier, and no memory comes into being."""
    await memory.ledger.append(tenant, "world.observed", {"content": "the harbour is closed"})

    assert (await memory.retrieve_memories(tenant, "is the harbour closed?")).hits == ()
    assert await memory.get_active_memories(tenant) == []


async def test_an_events_payload_may_name_anything(memory: AgentMem, tenant: str) -> None:
    """Keys that the package's own payloads use mean nothing in a user's event, however long their values are."""
    note = await memory.create_active_memory(tenant, "Plan", "Ship on Friday", idempotency_key="k")
    random_text = "".join(chr(33 + (n * n * 7919 + n * 104_729) % 90) for n in range(20_000))

    event = await memory.ledger.append(tenant, "world.observed", {"memory_id": random_text, "version": 7})
    await memory.ledger.append(tenant, "world.observed", {"memory_id": str(note.id), "version": 7})

    assert (await memory.ledger.read(tenant, kinds=["world.observed"]))[0] == event
    assert await memory.create_active_memory(tenant, "Plan", "Ship on Friday", idempotency_key="k") == note


@BOTH_SERVERS
async def test_a_stream_is_read_by_its_own_tenant_only(memory: AgentMem, tenant: str) -> None:
    """Each tenant's positions begin at 1 and know nothing of the others'."""
    for number in range(3):
        await memory.ledger.append(tenant, "world.observed", {"n": number})
    await memory.ledger.append(f"{tenant}-2", "world.observed", {"n": 7})

    assert [(event.position, event.payload) for event in await memory.ledger.read(f"{tenant}-2")] == [(1, {"n": 7})]
    assert await memory.ledger.read(f"{tenant}-3") == []


REFUSED_EVENTS: list[tuple[str, dict[str, Any], str]] = [
    ("reserved kind", {"kind": "memory.created"}, "begins with 'memory.', which is reserved"),
    ("reserved prefix", {"kind": "memory.of.mine"}, "begins with 'memory.', which is reserved"),
    ("one word", {"kind": "observed"}, "kind 'observed' must be lower-case words joined by dots"),
    ("capitals", {"kind": "World.Observed"}, "must be lower-case words"),
    ("line break", {"kind": "world.observed\n"}, "kind"),
    ("no kind", {"kind": ""}, "kind must not be empty"),
    ("int kind", {"kind": 7}, "kind must be a str, not int"),
    ("long kind", {"kind": "a." + "x" * 256}, "kind has 258 characters"),
    ("no payload", {"payload": None}, "payload must be a mapping, not NoneType"),
    ("list payload", {"payload": [1]}, "payload must be a mapping, not list"),
    ("large payload", {"payload": {"x": "y" * 33_554_432}}, "the limit is 33,554,432"),
    ("payload of a set", {"payload": {"x": {1}}}, "payload holds a set"),
    ("NUL", {"payload": {"x": "\x00"}}, "a string in payload has a NUL"),
    ("naive time", {"occurred_at": datetime(2026, 1, 1)}, "has no time zone"),  # noqa: DTZ001
    (
        "time before the calendar",
        {"occurred_at": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=12)))},
        "occurred_at '0001-01-01",
    ),
    (
        "time after the calendar",
        {"occurred_at": datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-12)))},
        "occurred_at '9999-12-31",
    ),
    ("negative turn", {"turn": -1}, "turn must be from 0 to 2,147,483,647, not -1"),
    ("large turn", {"turn": 2**31}, "turn must be from 0 to 2,147,483,647"),
    ("bool turn", {"turn": True}, "turn must be a whole number, not True"),
    ("unknown source", {"source": "rumour"}, "source 'rumour' is unknown"),
    ("empty actor", {"actor": ""}, "actor must not be empty"),
]


async def test_a_wrong_event_is_refused_before_any_write(
    memory: AgentMem, tenant: str, subtests: pytest.Subtests
) -> None:
    """The message names the value and the limit, and the ledger did not move."""
    valid: dict[str, Any] = {"external_id": tenant, "kind": "world.observed", "payload": {}}

    for case, arguments, message in REFUSED_EVENTS:
        with subtests.test(case):
            with pytest.raises(InvalidInputError, match=message):
                await memory.ledger.append(**(valid | arguments))
            assert await head_of(memory, tenant) == 0


REFUSED_READS: list[tuple[dict[str, Any], str]] = [
    ({"limit": 0}, "limit must be from 1 to 1,000, not 0"),
    ({"limit": 1_001}, "limit must be from 1 to 1,000, not 1,001"),
    ({"limit": 1.0}, "limit must be a whole number, not 1.0"),
    ({"limit": None}, "limit must be a whole number, not None"),
    ({"after": -1}, "after must be from 0"),
    ({"after": 2**63}, "after must be from 0"),
    ({"after": "1"}, "after must be a whole number, not '1'"),
    ({"kinds": "memory.created"}, "kinds must be a list .*, not 'memory.created'"),
    ({"kinds": 7}, "kinds must be a list"),
    ({"kinds": [7]}, "kind must be a str, not int"),
    ({"kinds": [""]}, "kind must not be empty"),
    ({"actor": ""}, "actor must not be empty"),
    ({"external_id": ""}, "external_id must not be empty"),
]


async def test_a_wrong_question_to_the_ledger_is_refused(memory: AgentMem, subtests: pytest.Subtests) -> None:
    """A text where a list of kinds belongs would match nothing without a word."""
    for arguments, message in REFUSED_READS:
        with subtests.test(str(arguments)), pytest.raises(InvalidInputError, match=message):
            await memory.ledger.read(**({"external_id": "agent-1"} | arguments))


async def test_times_at_both_ends_of_the_calendar_are_stored(memory: AgentMem, tenant: str) -> None:
    """The first and the last moment that Python and PostgreSQL agree on."""
    for moment in (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)):
        event = await memory.ledger.append(tenant, "world.observed", {}, occurred_at=moment)
        assert event.occurred_at == moment

    events = await all_events(memory, tenant)
    assert [event.occurred_at.year for event in events] == [1, 9999]
    # Recording time is the server's, whatever the world's time is said to be.
    assert events[0].recorded_at <= events[1].recorded_at < datetime.now(UTC) + timedelta(minutes=5)


async def test_an_append_is_refused_if_the_conversation_went_on(memory: AgentMem, tenant: str) -> None:
    """Of two writers that read the same position one wins, and the other one leaves no trace."""
    first = await memory.ledger.append(tenant, "chat.saved", {"n": 1}, conversation_id="chat", expected_position=0)

    results = await asyncio.gather(
        *(
            memory.ledger.append(
                tenant, "chat.saved", {"n": n}, conversation_id="chat", expected_position=first.position
            )
            for n in range(2, 8)
        ),
        return_exceptions=True,
    )

    refused = [result for result in results if isinstance(result, PositionConflictError)]
    assert len(refused) == 5
    assert {(error.expected_position, error.position) for error in refused} == {(1, 2)}
    assert "read the conversation again" in str(refused[0])
    assert await memory.ledger.head(tenant) == 2


async def test_an_expected_position_is_that_of_a_kind_in_a_conversation(memory: AgentMem, tenant: str) -> None:
    """Other kinds, other conversations and other tenants do not count."""
    await memory.ledger.append(tenant, "chat.saved", {}, conversation_id="chat", expected_position=0)
    await memory.ledger.append(tenant, "chat.seen", {}, conversation_id="chat", expected_position=0)
    await memory.ledger.append(tenant, "chat.saved", {}, conversation_id="other", expected_position=0)
    await memory.ledger.append(f"{tenant}-2", "chat.saved", {}, conversation_id="chat", expected_position=0)

    event = await memory.ledger.append(tenant, "chat.saved", {}, conversation_id="chat", expected_position=1)

    assert event.position == 4


async def test_a_repeated_append_is_no_conflict_with_itself(memory: AgentMem, tenant: str) -> None:
    """Its key is looked up first."""
    given: dict[str, Any] = {"conversation_id": "chat", "expected_position": 0, "idempotency_key": "k"}
    first = await memory.ledger.append(tenant, "chat.saved", {}, **given)

    assert await memory.ledger.append(tenant, "chat.saved", {}, **given) == first
    with pytest.raises(IdempotencyConflictError):
        await memory.ledger.append(tenant, "chat.saved", {}, **given | {"expected_position": 1})


async def test_an_erased_event_is_no_longer_the_last_of_its_conversation(memory: AgentMem, tenant: str) -> None:
    """Who read it before the erasure cannot build on it."""
    await memory.ledger.append(tenant, "chat.saved", {}, conversation_id="chat", expected_position=0)
    await memory.admin.erase(tenant, conversation_id="chat")

    with pytest.raises(PositionConflictError):
        await memory.ledger.append(tenant, "chat.saved", {}, conversation_id="chat", expected_position=1)

    assert await memory.ledger.read_conversation(tenant, "chat") == []


@pytest.mark.parametrize("position", [-1, 1.5, True, "1"])
async def test_an_odd_expected_position_is_refused(memory: AgentMem, tenant: str, position: Any) -> None:
    """And so is one without a conversation."""
    with pytest.raises(InvalidInputError, match="expected_position"):
        await memory.ledger.append(tenant, "a.b", {}, conversation_id="chat", expected_position=position)
    with pytest.raises(InvalidInputError, match="pass conversation_id, too"):
        await memory.ledger.append(tenant, "a.b", {}, expected_position=0)


async def test_a_conversation_is_read_from_its_end(memory: AgentMem, tenant: str) -> None:
    """In pages, all kinds or some, and nothing of another conversation."""
    chat = [
        await memory.ledger.append(tenant, f"chat.{'even' if n % 2 == 0 else 'odd'}", {"n": n}, conversation_id="c")
        for n in range(7)
    ]
    await memory.ledger.append(tenant, "chat.even", {}, conversation_id="d")
    await memory.ledger.append(tenant, "chat.even", {})

    pages = []
    before: int | None = None
    while page := await memory.ledger.read_conversation(tenant, "c", before=before, limit=3):
        pages.append(page)
        before = page[-1].position

    assert [len(page) for page in pages] == [3, 3, 1]
    assert [event for page in pages for event in page] == chat[::-1]
    assert await memory.ledger.read_conversation(tenant, "c", kinds=["chat.odd"]) == chat[5::-2]
    assert await memory.ledger.read_conversation(f"{tenant}-2", "c") == []


async def test_the_latest_event_of_each_conversation_is_read(memory: AgentMem, tenant: str) -> None:
    """Of one kind, the newest first, in pages."""
    last: dict[str, Any] = {}
    for n in range(12):
        name = f"c-{n % 5}"
        last[name] = await memory.ledger.append(tenant, "chat.saved", {"n": n}, conversation_id=name)
        await memory.ledger.append(tenant, "chat.seen", {}, conversation_id=name)
    await memory.ledger.append(tenant, "chat.saved", {})
    newest = sorted(last.values(), key=lambda event: -event.position)

    first = await memory.ledger.read_latest(tenant, "chat.saved", limit=3)
    rest = await memory.ledger.read_latest(tenant, "chat.saved", before=first[-1].position)

    assert [*first, *rest] == newest
    assert await memory.ledger.read_latest(tenant, "chat.none") == []


@pytest.mark.parametrize("before", [0, -1, True, "2"])
async def test_an_odd_page_of_a_conversation_is_refused(memory: AgentMem, tenant: str, before: Any) -> None:
    """Positions begin with 1."""
    with pytest.raises(InvalidInputError, match="before"):
        await memory.ledger.read_conversation(tenant, "c", before=before)
    with pytest.raises(InvalidInputError, match="before"):
        await memory.ledger.read_latest(tenant, "a.b", before=before)


async def test_what_append_would_store_can_be_asked(memory: AgentMem, tenant: str) -> None:
    """Without secrets, the same again if asked twice, and nothing is written."""
    payload = {"text": "password: hunter2secret", "deep": [{"n": 1.5}]}

    redacted = await memory.ledger.redacted(payload)

    assert redacted == await memory.ledger.redacted({"deep": [{"n": 1.5}], "text": "password: [redacted:password]"}) | {
        "memory.redactions": {"password": 1}
    }
    assert (await memory.ledger.append(tenant, "a.b", payload)).payload == redacted
    assert await memory.ledger.redacted({"text": "nothing"}) == {"text": "nothing"}
    assert await memory.ledger.head(tenant) == 1


_BORDER = "x" * 650_000 + "The pier of Vela Luka is red." + "y" * 900_000


@pytest.mark.thorough
@BOTH_SERVERS
async def test_a_large_payload_is_divided_and_comes_back_whole(memory: AgentMem, tenant: str) -> None:
    """What agents carry is kept in one transaction, once, and the ledger proves all of it."""
    payload: dict[str, Any] = {"run": "r-1", "outputs": [f"{n} " * 63_000 for n in range(10)], "image": _BORDER}

    event = await memory.ledger.append(tenant, "world.seen", payload, conversation_id="c", idempotency_key="k")
    again = await memory.ledger.append(tenant, "world.seen", payload, conversation_id="c", idempotency_key="k")

    assert event.payload.keys() == {"run", "memory.divided"}
    assert again == event
    assert (await memory.ledger.whole(event)).payload == payload
    [read] = await memory.ledger.read_conversation(tenant, "c", kinds=["world.seen"])
    assert (await memory.ledger.whole(read)).payload == payload
    assert event.position == await head_of(memory, tenant)
    parts = [one for one in await all_events(memory, tenant) if one.kind == "memory.value_part"]
    assert [one.position for one in parts] == list(range(1, event.position))
    assert {one.conversation_id for one in parts} == {"c"}
    small = await memory.ledger.append(tenant, "world.seen", {"run": "r-2"})
    assert await memory.ledger.whole(small) is small
    assert (await memory.admin.verify(tenant)).ok
    await memory.admin.rebuild(tenant)
    assert (await memory.ledger.whole(event)).payload == payload


async def test_a_divided_payload_is_refused_whole(memory: AgentMem, tenant: str) -> None:
    """No part of it is left behind by a writer that came too late, or of one that is too large."""
    first = await memory.ledger.append(tenant, "world.seen", {"n": 1}, conversation_id="c")

    with pytest.raises(PositionConflictError):
        await memory.ledger.append(tenant, "world.seen", {"n": _BORDER}, conversation_id="c", expected_position=0)
    with pytest.raises(InvalidInputError, match="the limit is 33,554,432"):
        await memory.ledger.append(tenant, "world.seen", {"n": ["x" * 1_000_000] * 34})
    with pytest.raises(InvalidInputError, match="more than 1,000,000 keys and values; write it as several"):
        await memory.ledger.append(tenant, "world.seen", {"n": [[0] * 500_000] * 2})
    with pytest.raises(InvalidInputError, match=r"payload has the key 'memory\.divided'"):
        await memory.ledger.append(tenant, "world.seen", {"memory.divided": {}})

    assert await head_of(memory, tenant) == first.position


@pytest.mark.thorough
async def test_an_erasure_takes_all_of_a_divided_payload(memory: AgentMem, tenant: str) -> None:
    """By a text in any piece of it, or that lies where it was cut, and by its conversation; nothing else goes."""
    named = "The pier of Vela Luka"
    events = [
        await memory.ledger.append(
            tenant, "world.seen", {"about": about, "image": image, "more": "z" * 1_000_000}, conversation_id=about
        )
        for about, image in (("one", _BORDER), ("two", "x" * 1_500_000), ("three", f"{'w' * 1_200_000}{named}"))
    ]

    by_text = await memory.admin.erase(tenant, text=named)
    by_conversation = await memory.admin.erase(tenant, conversation_id="two")

    for event, receipt in zip(events, (by_text, by_conversation, by_text), strict=True):
        erased = {one.position for one in receipt.events}
        # Its parts stand before it, back to the event before.
        assert {event.position, event.position - 1, event.position - 2} <= erased
    assert len(by_text.events) + len(by_conversation.events) == events[-1].position
    assert (await memory.admin.verify_erased(by_text, text=named)).ok
    assert (await memory.admin.verify_erased(by_conversation, text="x" * 100)).ok
    assert (await memory.admin.verify(tenant)).ok


@pytest.mark.thorough
async def test_an_erasure_takes_a_divided_reflection_with_what_it_rests_on(memory: AgentMem, tenant: str) -> None:
    """With all its large values and all that rests on it, however the steps follow on one another."""
    seen = await memory.ledger.append(tenant, "world.seen", {"text": "The pier is red."}, conversation_id="pier")
    named = [str(seen.event_id)]
    for number in range(2):
        await memory.ledger.append(
            tenant,
            "agent.reflected",
            {"belief": f"Piers are red, {number}.", "based_on": named, "transcript": f"{number} pier " * 200_000},
            actor="mara",
            conversation_id=f"thoughts {number}",
        )
        # The second one rests on a part of the first one, which is erased only because its event is.
        [*_, part] = await memory.ledger.read(tenant, kinds=["memory.value_part"])
        named = [str(part.event_id)]
    kept = await memory.ledger.append(tenant, "world.seen", {"picture": "x" * 1_200_000}, conversation_id="other")
    reached = await memory.admin.erase(tenant, conversation_id="pier", dry_run=True)

    receipt = await memory.admin.erase(tenant, conversation_id="pier")

    left = [event.position for event in await all_events(memory, tenant) if not event.is_erased]
    parts = kept.payload["memory.divided"]["events"]
    assert left == [*range(kept.position - parts, kept.position + 2)]
    assert [one.position for one in receipt.events] == [*range(1, kept.position - parts)]
    assert reached.events == len(receipt.events)
    assert (await memory.admin.verify_erased(receipt, text="pier")).ok
    assert (await memory.admin.verify(tenant)).ok
    assert (await memory.ledger.whole(kept)).payload == {"picture": "x" * 1_200_000}


@pytest.mark.thorough
async def test_a_divided_reflection_is_erased_with_any_of_its_many_grounds(memory: AgentMem, tenant: str) -> None:
    """What it names stays in its event, where an erasure looks for it."""
    seen = await memory.ledger.append(tenant, "world.seen", {"text": "The pier is red."}, conversation_id="pier")
    others = [str(uuid4()) for _ in range(1_800)]
    for name in ("based_on", "rests_on"):
        payload: dict[str, Any] = {"belief": "Piers are red.", "transcript": "pier " * 220_000}
        payload[name] = [*others, str(seen.event_id)]
        await memory.ledger.append(tenant, "agent.reflected", payload, actor="mara")

    receipt = await memory.admin.erase(tenant, conversation_id="pier")

    assert [one.kind for one in await all_events(memory, tenant) if not one.is_erased] == ["memory.erased"]
    assert (await memory.admin.verify_erased(receipt, text="pier")).ok


async def test_a_divided_payload_survives_export_and_import(memory: AgentMem, tenant: str, tmp_path: Path) -> None:
    """Its parts are events like any other."""
    event = await memory.ledger.append(tenant, "world.seen", {"image": _BORDER})

    await memory.admin.export(tenant, tmp_path / "events")
    await memory.admin.import_(tmp_path / "events", f"{tenant}-copy")

    [copy] = await memory.ledger.read(f"{tenant}-copy", kinds=["world.seen"])
    assert (await memory.ledger.whole(copy)).payload == {"image": _BORDER}
    assert copy.event_id == event.event_id
    assert (await memory.admin.verify(f"{tenant}-copy")).ok
