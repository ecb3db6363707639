"""`memory.conversation()`: a chat recorded turn by turn, in memories of bounded size."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4
from zoneinfo import ZoneInfo

import pytest

from agent_reminiscence import AgentMem, Config, InvalidInputError, NotInitializedError, QuotaExceededError, Turn
from agent_reminiscence.domain.conversation_key import MAX_CONVERSATION_ID_CHARACTERS
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.services.memories.talks import CONVERSATION_MEMORY_CHARACTERS
from tests.support.fakes import SetClock
from tests.support.redaction_cases import SECRETS
from tests.support.servers import BOTH_SERVERS, SECOND_SERVER_THOROUGHLY
from tests.support.steps import EVERYTHING, all_events, head_of, only_memory, texts

_NOON = datetime(2024, 5, 7, 12, tzinfo=UTC)
_AUCKLAND, _NEW_YORK = ZoneInfo("Pacific/Auckland"), ZoneInfo("America/New_York")
_TOKEN = next(case.secret for case in SECRETS if case.rule == "github-token")


async def _turns(memory: AgentMem, tenant: str, conversation_id: str = "chat", limit: int = 10_000) -> list[Turn]:
    return await memory.conversation(tenant, conversation_id).turns(limit)


def _said(turns: list[Turn]) -> list[tuple[str | None, str]]:
    return [(turn.speaker, turn.text) for turn in turns]


# What is recorded -----------------------------------------------------------------------------------------------------


@SECOND_SERVER_THOROUGHLY
async def test_turns_are_recorded_in_order_and_found_at_once(memory: AgentMem, tenant: str) -> None:
    """The object holds nothing: each call makes its own, and what was said is a memory as any other."""
    first = await memory.conversation(tenant, "chat").add("user", "The ferry leaves at six.", time=_NOON)
    second = await memory.conversation(tenant, "chat").add(
        "assistant", "Then we take it.", id="t2", time=_NOON, metadata={"model": "small"}
    )

    assert (first.id, first.version, second.version) == (second.id, 1, 2)
    assert (second.title, second.conversation_id) == ("Conversation", "chat")
    assert second.key == "conversation/chat/000001"
    assert second.content == "user: The ferry leaves at six.\nassistant: Then we take it."
    assert await _turns(memory, tenant) == [
        Turn(text="The ferry leaves at six.", speaker="user", time=_NOON),
        Turn(text="Then we take it.", speaker="assistant", time=_NOON, id="t2", metadata={"model": "small"}),
    ]
    found = await memory.retrieve_memories(tenant, "When does the ferry leave?")
    assert texts(found)[0] == "user: The ferry leaves at six."
    assert (found.hits[0].speaker, found.hits[0].memory_id) == ("user", first.id)
    assert [event.kind for event in await all_events(memory, tenant)] == ["memory.created", "memory.appended"]
    assert (await memory.admin.verify(tenant)).ok


async def test_several_turns_are_one_transaction(memory: AgentMem, tenant: str) -> None:
    """An event for each run of turns of one trust label; all of them or none."""
    said = [("user", "One."), ("user", "Two."), ("assistant", "Three."), ("tool", "Four."), ("user", "Five.")]
    chat = memory.conversation(tenant, "chat", title="Numbers", actor="clerk")
    last = await chat.add_turns([{"speaker": speaker, "text": text} for speaker, text in said])

    assert _said(await chat.turns()) == said
    events = await all_events(memory, tenant)
    assert [event.source for event in events] == ["user", "agent", "tool", "user"]
    assert {(event.actor, event.conversation_id) for event in events} == {("clerk", "chat")}
    assert (last.version, last.title) == (4, "Numbers")
    assert last.write is not None
    assert last.write.position == 4
    with pytest.raises(InvalidInputError):
        await chat.add_turns([Turn(text="Six.", speaker="user"), Turn(text="Seven.", speaker="system")])
    assert await head_of(memory, tenant) == 4


@pytest.mark.parametrize(
    ("speaker", "given", "source"),
    [
        ("user", "tool", "user"),
        ("Human", "tool", "user"),
        ("assistant", "user", "agent"),
        ("AI", "user", "agent"),
        ("model", "user", "agent"),
        ("agent", "user", "agent"),
        ("tool", "user", "tool"),
        ("function", "user", "tool"),
        ("Maria", "user", "user"),
        ("Maria", "import", "import"),
    ],
)
async def test_a_role_says_how_far_its_words_are_trusted(
    memory: AgentMem, tenant: str, speaker: str, given: Source, source: str
) -> None:
    """Of chat models' roles as they are called; of anybody else as the conversation was told."""
    await memory.conversation(tenant, "chat", source=given).add(speaker, "The ferry leaves at six.")

    (hit,) = (await memory.retrieve_memories(tenant, "ferry")).hits
    assert (hit.source, hit.speaker) == (source, speaker)


@pytest.mark.parametrize("role", ["system", "developer", "System"])
async def test_what_an_application_tells_its_model_is_refused(memory: AgentMem, tenant: str, role: str) -> None:
    """It was said by nobody; the message says to leave it out."""
    with pytest.raises(InvalidInputError, match=f"'{role}' is not a speaker.*leave such messages out"):
        await memory.conversation(tenant, "chat").add(role, "You are a helpful assistant.")
    with pytest.raises(InvalidInputError, match="needs a speaker"):
        await memory.conversation(tenant, "chat").add_turns([{"text": "Hello."}])
    assert await head_of(memory, tenant) == 0


@BOTH_SERVERS
async def test_a_known_turn_is_not_recorded_again(memory: AgentMem, tenant: str) -> None:
    """By its id, in any memory of the conversation; another conversation has ids of its own."""
    chat = memory.conversation(tenant, "chat")
    first = await chat.add("user", "Hello.", id="t1", time=_NOON)
    again = await chat.add("user", "Hello again.", id="t1")
    assert (again.id, again.version, again.write) == (first.id, 1, None)
    tomorrow = await chat.add("user", "Good morning.", id="t2", time=_NOON + timedelta(days=1))
    assert tomorrow.id != first.id
    for turn_id in ("t1", "t2"):
        assert (await chat.add("user", "Once more.", id=turn_id, time=_NOON + timedelta(days=2))).write is None
    mixed = await chat.add_turns(
        [{"speaker": "user", "text": text, "id": turn_id, "time": _NOON + timedelta(days=1)}
         for turn_id, text in (("t1", "No."), ("t3", "Yes."), ("t3", "No."), ("t2", "No."), ("t4", "Yes, too."))]
    )  # fmt: skip
    assert (mixed.id, mixed.version) == (tomorrow.id, 2)
    assert [turn.id for turn in await chat.turns()] == ["t1", "t2", "t3", "t4"]
    other = await memory.conversation(tenant, "chat-2").add("user", "Hello.", id="t1")
    theirs = await memory.conversation(f"{tenant}-2", "chat").add("user", "Hello.", id="t1")
    assert (other.version, theirs.version) == (1, 1)


async def test_the_id_of_a_turn_may_be_a_uuid(memory: AgentMem, tenant: str) -> None:
    """As that of an imported message may: it counts as its text, however the turn is given."""
    chat = memory.conversation(tenant, "chat")
    own = uuid4()

    made = [
        await chat.add("user", "Hello.", id=own),
        await chat.add("user", "Hello.", id=str(own)),
        await chat.add_turns([{"speaker": "user", "text": "Hello.", "id": own}]),
        await chat.add_turns([Turn.model_validate({"speaker": "user", "text": "Hello.", "id": own})]),
    ]

    assert [memory.write is not None for memory in made] == [True, False, False, False]
    assert [turn.id for turn in await chat.turns()] == [str(own)]


async def test_turns_of_archived_memories_stay_known(memory: AgentMem, tenant: str) -> None:
    """They are not read, and not recorded twice either; the conversation goes on in its next memory."""
    chat = memory.conversation(tenant, "chat")
    first = await chat.add("user", "Hello.", id="t1")
    await memory.admin.archive(tenant, first.id)

    assert (await chat.add("user", "Hello.", id="t1")).id == first.id
    second = await chat.add("user", "Are you there?", id="t2")
    assert second.key == "conversation/chat/000002"
    assert _said(await chat.turns()) == [("user", "Are you there?")]


# One memory after another ---------------------------------------------------------------------------------------------


async def test_each_day_has_a_memory_of_its_own(config: Callable[..., Config]) -> None:
    """By the time of the turn, or of the clock; what is told late goes into the last one."""
    clock = SetClock(datetime(2024, 5, 7, 23, 59, tzinfo=UTC))
    async with AgentMem(config(), clock=clock) as memory:
        chat = memory.conversation("agent-1", "chat")
        monday = await chat.add("user", "Good night.")
        clock.advance(timedelta(minutes=2))
        tuesday = await chat.add("user", "Good morning.")
        late = await chat.add("user", "I forgot: yesterday it rained.", time=_NOON)
        clock.advance(timedelta(days=2))
        thursday = await chat.add_turns(
            [
                {"speaker": "user", "text": "On Wednesday.", "time": _NOON + timedelta(days=2)},
                {"speaker": "user", "text": "On Thursday.", "time": _NOON + timedelta(days=3)},
                {"speaker": "user", "text": "On Thursday again.", "time": _NOON + timedelta(days=3, hours=1)},
            ]
        )

        memories = await memory.get_active_memories("agent-1", key_prefix="conversation/chat/")
        assert [one.key for one in memories] == [f"conversation/chat/00000{n}" for n in range(1, 5)]
        assert [len(one.metadata["turns"]) for one in memories] == [1, 2, 1, 2]
        assert [monday.id, tuesday.id, thursday.id] == [memories[0].id, memories[1].id, memories[3].id]
        assert (late.id, late.occurred_at) == (tuesday.id, tuesday.occurred_at)
        assert [turn.text for turn in await chat.turns()] == [
            "Good night.", "Good morning.", "I forgot: yesterday it rained.",
            "On Wednesday.", "On Thursday.", "On Thursday again.",
        ]  # fmt: skip
        # What is told late makes one event, whatever days it is of.
        last = await chat.add_turns(
            [
                {"speaker": "user", "text": f"{days} days late.", "time": _NOON - timedelta(days=days)}
                for days in (3, 1, 2)
            ]
        )
        assert (last.id, last.version) == (memories[3].id, 2)
        # The chunk of what was told late has its own date.
        (hit,) = [h for h in (await memory.retrieve_memories("agent-1", "rained")).hits if "rained" in h.content]
        assert hit.start_date == _NOON
        assert (await memory.admin.verify("agent-1")).ok


async def test_a_day_begins_at_midnight_where_the_conversation_is(config: Callable[..., Config]) -> None:
    """Not in UTC, whose midnight is in the middle of a day in Auckland."""
    clock = SetClock(datetime(2026, 3, 1, 23, 50, tzinfo=_AUCKLAND))
    async with AgentMem(config(), clock=clock) as memory:
        chat = memory.conversation("agent-1", "chat", timezone="Pacific/Auckland")
        sunday = await chat.add("user", "Good night.")
        clock.advance(timedelta(minutes=20))
        monday = await chat.add("user", "Good morning.")
        # In UTC it is Sunday still, and then Monday.
        clock.advance(timedelta(hours=13))
        afternoon = await chat.add("user", "I had a pie.")
        assert (sunday.occurred_at.day, monday.occurred_at.day, afternoon.occurred_at.day) == (1, 1, 2)

        assert sunday.id != monday.id
        assert (afternoon.id, afternoon.version) == (monday.id, 2)
        memories = await memory.get_active_memories("agent-1", key_prefix="conversation/chat/")
        assert [(one.timezone, len(one.metadata["turns"])) for one in memories] == [
            ("Pacific/Auckland", 1),
            ("Pacific/Auckland", 2),
        ]
        assert (await memory.admin.verify("agent-1")).ok


async def test_turns_of_several_days_are_told_apart_where_the_conversation_is(memory: AgentMem, tenant: str) -> None:
    """Also if one call records them."""
    times = (("02 23:30", "Late."), ("03 00:30", "Early."), ("03 14:00", "Two o'clock."), ("04 00:30", "Next."))
    await memory.conversation(tenant, "chat", timezone="Pacific/Auckland").add_turns(
        [
            {
                "speaker": "user",
                "text": text,
                "time": datetime.fromisoformat(f"2026-03-{time}").replace(tzinfo=_AUCKLAND),
            }
            for time, text in times
        ]
    )

    memories = await memory.get_active_memories(tenant, key_prefix="conversation/chat/")
    assert [one.content for one in memories] == ["user: Late.", "user: Early.\nuser: Two o'clock.", "user: Next."]


async def test_a_memory_of_turns_keeps_its_zone(config: Callable[..., Config]) -> None:
    """A call that names another zone decides for the next memory only; one that names none goes on in the last one."""
    clock = SetClock(datetime(2026, 3, 2, 9, tzinfo=_AUCKLAND))
    async with AgentMem(config(timezone="Europe/Lisbon"), clock=clock) as memory:
        first = await memory.conversation("agent-1", "chat", timezone="Pacific/Auckland").add("user", "Good morning.")
        # Still the same day in Auckland, but another one than that morning in Lisbon and in New York.
        abroad = memory.conversation("agent-1", "chat", timezone="America/New_York")
        clock.advance(timedelta(hours=14))
        same = await abroad.add("user", "I am off to New York.")
        assert (same.id, same.timezone, same.version) == (first.id, "Pacific/Auckland", 2)

        # In Auckland it is 3 March now.
        clock.now = datetime(2026, 3, 2, 20, tzinfo=_NEW_YORK)
        arrived = await abroad.add_turns(
            [
                {"speaker": "user", "text": "I have arrived.", "time": clock.now},
                {"speaker": "user", "text": "Midnight is over.", "time": clock.now + timedelta(hours=4, minutes=30)},
            ]
        )

        clock.now = datetime(2026, 3, 5, 9, tzinfo=_NEW_YORK)
        default = await memory.conversation("agent-1", "chat").add("user", "Hello.")

        memories = await memory.get_active_memories("agent-1", key_prefix="conversation/chat/")
        assert [(one.timezone, one.content) for one in memories] == [
            ("Pacific/Auckland", "user: Good morning.\nuser: I am off to New York."),
            ("America/New_York", "user: I have arrived."),
            ("America/New_York", "user: Midnight is over."),
            ("America/New_York", "user: Hello."),
        ]
        assert [arrived.id, default.id] == [memories[2].id, memories[3].id]
        assert (await memory.admin.verify("agent-1")).ok


@pytest.mark.thorough
async def test_a_days_memory_has_at_most_16000_characters(memory: AgentMem, tenant: str) -> None:
    """A turn that would make it longer begins the next one; a longer turn has one of its own."""
    chat = memory.conversation(tenant, "chat")
    line = "user: "
    # Together with its line break the second turn makes the text exactly as long as may be.
    first = "a" * 9_000
    second = "b" * (CONVERSATION_MEMORY_CHARACTERS - 9_000 - 2 * len(line) - 1)
    huge = "d" * 20_000
    for text in (first, second, "c", huge, "e"):
        await chat.add("user", text, time=_NOON)

    memories = await memory.get_active_memories(tenant)
    assert [len(one.content) for one in memories] == [16_000, len(line) + 1, len(line) + 20_000, len(line) + 1]
    assert [turn.text for turn in await chat.turns()] == [first, second, "c", huge, "e"]
    # The same in one call.
    other = memory.conversation(tenant, "at-once")
    await other.add_turns([{"speaker": "user", "text": t, "time": _NOON} for t in (first, second, "c", huge, "e")])
    at_once = await memory.get_active_memories(tenant, key_prefix="conversation/at-once/")
    assert [one.content for one in at_once] == [one.content for one in memories]
    assert [one.version for one in at_once] == [1, 1, 1, 1]


async def test_a_memory_that_takes_no_more_turns_is_due(memory: AgentMem, tenant: str) -> None:
    """The event that begins the next one says so; a consolidated one is not due again."""
    chat = memory.conversation(tenant, "chat")
    first = await chat.add("user", "Maria Lopez works in Lisbon.", time=_NOON)
    assert await memory.admin.jobs(tenant) == []
    second = await chat.add("user", "Good morning.", time=_NOON + timedelta(days=1))

    created = (await memory.ledger.read(tenant, kinds=["memory.created"]))[-1]
    assert created.payload["completes"] == str(first.id)
    await memory.admin.run_due(tenant)
    consolidated = await memory.ledger.read(tenant, kinds=["memory.consolidated"])
    assert [event.payload["memory_id"] for event in consolidated] == [str(first.id)]
    await memory.admin.consolidate(tenant, second.id)
    await chat.add("user", "Good night.", time=_NOON + timedelta(days=2))
    created = (await memory.ledger.read(tenant, kinds=["memory.created"]))[-1]
    assert "completes" not in created.payload
    assert (await memory.admin.verify(tenant)).ok
    assert (await memory.admin.rebuild(tenant)).ok


async def test_a_conversation_has_an_id_of_at_most_236_characters(memory: AgentMem, tenant: str) -> None:
    """So that its keys have at most 256; ids that begin alike, or look like keys, do not meet."""
    longest = "c" * MAX_CONVERSATION_ID_CHARACTERS
    ids = [longest, "a", "a/000001", "a/", "a/0", "A", "ä", "conversation/a"]
    for conversation_id in ids:
        for text in ("One.", "Two."):
            await memory.conversation(tenant, conversation_id).add("user", f"{text} {conversation_id}", id=text)
    for conversation_id in ids:
        turns = await _turns(memory, tenant, conversation_id)
        assert [turn.text for turn in turns] == [f"One. {conversation_id}", f"Two. {conversation_id}"]
    assert len(await memory.get_active_memories(tenant)) == len(ids)
    with pytest.raises(InvalidInputError, match=r"237 characters; the limit for conversation\(\) is 236"):
        memory.conversation(tenant, "c" * 237)
    for wrong in ("", " chat", "ch\nat", 7, None):
        asked: Any = wrong
        with pytest.raises(InvalidInputError, match="conversation_id"):
            memory.conversation(tenant, asked)


async def test_a_conversations_keys_are_its_own(memory: AgentMem, tenant: str) -> None:
    """No other memory gets such a key, whatever it ends with; a conversation's memory is read and changed by it."""
    for key in ("conversation/chat/000001", "conversation/chat/1draft", "conversation/"):
        with pytest.raises(InvalidInputError, match=r"begins with 'conversation/', which memory.conversation\(\) uses"):
            await memory.create_active_memory(tenant, "Draft", "A draft.", key=key)
    made = await memory.conversation(tenant, "chat").add("user", "Hello.")

    assert [one.id for one in await memory.get_active_memories(tenant, keys=[str(made.key)])] == [made.id]
    assert (await memory.update_active_memory(tenant, key=made.key, title="Greeting")).id == made.id
    assert (await memory.admin.archive(tenant, key=made.key)).id == made.id
    assert await head_of(memory, tenant) == 3


async def test_a_turn_that_is_not_said_yet_is_refused(config: Callable[..., Config]) -> None:
    """Every later one would be dated by it; a day is left to clocks and zones that differ."""
    async with AgentMem(config(), clock=SetClock(_NOON)) as memory:
        chat = memory.conversation("agent-1", "chat")
        note = await memory.create_active_memory("agent-1", "Chat", "Begun.")
        late: dict[str, Any] = {"speaker": "user", "text": "Hello.", "time": _NOON + timedelta(days=1, seconds=1)}
        for attempt in (chat.add_turns([late]), memory.update_active_memory("agent-1", note.id, append=late)):
            with pytest.raises(InvalidInputError, match="more than a day ahead of the clock"):
                await attempt
        assert await head_of(memory, "agent-1") == 1
        await chat.add("user", "Hello.", time=_NOON + timedelta(days=1))
        assert _said(await chat.turns()) == [("user", "Hello.")]


async def test_the_last_turns_are_read_across_memories(memory: AgentMem, tenant: str) -> None:
    """At most so many, oldest first; fewer where there are fewer."""
    chat = memory.conversation(tenant, "chat")
    assert await chat.turns() == []
    for number in range(12):
        await chat.add("user", f"Turn {number}.", time=_NOON + timedelta(hours=8 * number))

    said = [f"Turn {number}." for number in range(12)]
    for limit in (1, 2, 5, 12, 50):
        assert [turn.text for turn in await chat.turns(limit)] == said[-limit:]
    for wrong in (0, -1, 10_001, True, 1.5, None):
        asked: Any = wrong
        with pytest.raises(InvalidInputError, match="limit"):
            await chat.turns(asked)


async def test_a_memory_whose_text_was_replaced_has_no_turns(memory: AgentMem, tenant: str) -> None:
    """An update drops them, and their ids are free; the conversation goes on in the same memory."""
    chat = memory.conversation(tenant, "chat")
    first = await chat.add("user", "Hello.", id="t1", time=_NOON)
    await memory.update_active_memory(tenant, first.id, content="They greeted each other.", occurred_at=_NOON)
    assert await chat.turns() == []
    again = await chat.add("user", "Hello.", id="t1", time=_NOON)

    assert (again.id, again.content) == (first.id, "They greeted each other.\nuser: Hello.")
    assert _said(await chat.turns()) == [("user", "Hello.")]


async def test_an_empty_or_closed_call_is_refused(config: Callable[..., Config]) -> None:
    """No turns are no conversation; a memory that is closed has none."""
    memory = AgentMem(config())
    with pytest.raises(NotInitializedError):
        memory.conversation("agent-1", "chat")
    async with memory:
        with pytest.raises(InvalidInputError, match="turns is empty"):
            await memory.conversation("agent-1", "chat").add_turns([])
        for wrong in ({"title": ""}, {"source": "nobody"}, {"actor": ""}):
            arguments: dict[str, Any] = wrong
            with pytest.raises(InvalidInputError):
                memory.conversation("agent-1", "chat", **arguments)


async def test_a_limit_of_memories_holds_for_conversations(config: Callable[..., Config]) -> None:
    """A turn that would begin one memory too many is refused, with all that came with it."""
    async with AgentMem(config(max_active_memories=1)) as memory:
        chat = memory.conversation("agent-1", "chat")
        await chat.add("user", "Hello.", time=_NOON)
        with pytest.raises(QuotaExceededError, match="max_active_memories"):
            await chat.add_turns(
                [{"speaker": "user", "text": f"{n}.", "time": _NOON + timedelta(days=n)} for n in range(2)]
            )
        assert _said(await chat.turns()) == [("user", "Hello.")]


async def test_secrets_are_taken_out_of_a_conversation(memory: AgentMem, tenant: str) -> None:
    """Of words, of metadata and of the title."""
    chat = memory.conversation(tenant, "chat", title=f"About {_TOKEN}")
    await chat.add("user", f"It is {_TOKEN}.", metadata={"said": _TOKEN})
    await chat.add("user", f"Again: {_TOKEN}.")

    assert _TOKEN not in str(await all_events(memory, tenant))
    assert [turn.text for turn in await chat.turns()] == [
        "It is [redacted:github-token].", "Again: [redacted:github-token].",
    ]  # fmt: skip
    assert (await only_memory(memory, tenant)).title == "About [redacted:github-token]"


@pytest.mark.thorough
async def test_an_erased_conversation_may_begin_again(memory: AgentMem, tenant: str, tmp_path: Any) -> None:
    """With the same turn ids; the other conversation stays, and a copy of the stream holds neither."""
    for conversation_id in ("chat", "other"):
        for number in range(4):
            await memory.conversation(tenant, conversation_id).add(
                "user",
                f"Turn {number} of {conversation_id}.",
                id=f"t{number}",
                time=_NOON + timedelta(days=number // 2),
            )
    receipt = await memory.admin.erase(tenant, conversation_id="chat")

    assert len(receipt.memory_ids) == 2
    assert (await memory.admin.verify_erased(receipt, text="of chat")).ok
    assert await _turns(memory, tenant) == []
    assert len(await _turns(memory, tenant, "other")) == 4
    again = await memory.conversation(tenant, "chat").add("user", "Anew.", id="t0")
    assert (again.key, again.version) == ("conversation/chat/000001", 1)
    assert (await memory.admin.verify(tenant)).ok
    await memory.admin.export(tenant, tmp_path / "stream")
    await memory.admin.import_(tmp_path / "stream", f"{tenant}-copy")
    assert _said(await memory.conversation(f"{tenant}-copy", "chat").turns()) == [("user", "Anew.")]
    assert (await memory.conversation(f"{tenant}-copy", "other").add("user", "Known.", id="t3")).write is None


# Many at once ---------------------------------------------------------------------------------------------------------


@pytest.mark.promise
@SECOND_SERVER_THOROUGHLY
async def test_fifty_tasks_on_one_conversation_lose_nothing_and_keep_their_order(config: Callable[..., Config]) -> None:
    """Through two processes' objects, each turn is there once, and each task's turns in the order of its calls."""
    async with AgentMem(config()) as memory, AgentMem(config()) as other:

        async def talk(number: int) -> None:
            chat = (memory, other)[number % 2].conversation("agent-1", "chat")
            for turn in range(2):
                made = await chat.add(f"Speaker {number}", f"Turn {turn} of {number}.", id=f"{number}/{turn}")
                assert made.write is not None

        async with asyncio.timeout(300):
            await asyncio.gather(*(talk(number) for number in range(50)))

        turns = await _turns(memory, "agent-1")
        assert len(turns) == 100
        by_task: defaultdict[str | None, list[str]] = defaultdict(list)
        for turn in turns:
            by_task[turn.speaker].append(turn.text)
        assert by_task == {f"Speaker {n}": [f"Turn {turn} of {n}." for turn in range(2)] for n in range(50)}
        times = [turn.time for turn in turns if turn.time is not None]
        assert times == sorted(times)
        assert await head_of(memory, "agent-1") == 100
        assert (await memory.admin.verify("agent-1")).ok
        found = await memory.retrieve_memories("agent-1", "Turn 1 of 49", limit=EVERYTHING)
        assert "Speaker 49: Turn 1 of 49." in texts(found)


@pytest.mark.promise
async def test_repeated_turns_of_many_tasks_are_recorded_once(memory: AgentMem, tenant: str) -> None:
    """All tasks say the same turns, each in an order of its own."""
    chance = random.Random(20_260_505)

    async def talk(order: list[int]) -> None:
        for number in order:
            await memory.conversation(tenant, "chat").add("user", f"Turn {number}.", id=f"t{number}")

    orders = [chance.sample(range(10), 10) for _ in range(8)]
    await asyncio.gather(*(talk(order) for order in orders))

    assert sorted(str(turn.id) for turn in await _turns(memory, tenant)) == sorted(f"t{number}" for number in range(10))
    assert await head_of(memory, tenant) == 10


@pytest.mark.thorough
async def test_a_cancelled_turn_is_there_once_or_not_at_all(memory: AgentMem, tenant: str) -> None:
    """And after it is said again with its id it is there once, in any case."""
    chance = random.Random(20_260_505)
    chat = memory.conversation(tenant, "chat")
    for number in range(40):
        task = asyncio.create_task(chat.add("user", f"Turn {number}.", id=f"t{number}"))
        await asyncio.sleep(chance.uniform(0, 0.03))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await chat.add("user", f"Turn {number}.", id=f"t{number}")

    assert [turn.text for turn in await _turns(memory, tenant)] == [f"Turn {number}." for number in range(40)]
    assert await head_of(memory, tenant) == 40
    assert (await memory.admin.verify(tenant)).ok


async def test_turns_and_memories_take_any_characters(memory: AgentMem, tenant: str) -> None:
    """What a model or a tool says is recorded, with U+FFFD for what cannot be stored, and the write counts it."""
    said = Turn(text="It\x00is \ud83d red.", speaker="tool\x00", metadata={"k\ud800": ["\x00"]}, id="t-1")

    added = await memory.conversation(tenant, "chat").add_turns([said])
    repeated = await memory.conversation(tenant, "chat").add_turns([said])
    note = await memory.create_active_memory(
        tenant, "A\x00", "\ud800pier", description="\x00", metadata={"turns": [{"start": 0, "speaker": "An\x00a"}]}
    )
    updated = await memory.update_active_memory(tenant, note.id, append="And \x00 more.", idempotency_key="k")
    once_more = await memory.update_active_memory(tenant, note.id, append="And \x00 more.", idempotency_key="k")

    [turn] = await memory.conversation(tenant, "chat").turns()
    assert (turn.text, turn.speaker, turn.metadata) == ("It\ufffdis \ufffd red.", "tool\ufffd", {"k\ufffd": ["\ufffd"]})
    assert added.write is not None
    assert added.write.redactions == {"unstorable-character": 5}
    assert repeated.write is None
    assert (note.title, note.content, note.description) == ("A\ufffd", "\ufffdpier", "\ufffd")
    assert note.metadata["turns"][0]["speaker"] == "An\ufffda"
    assert updated.content == "\ufffdpier\n\nAnd \ufffd more."
    assert once_more.version == updated.version
    assert (await memory.retrieve_memories(tenant, "pier \x00\ud800")).hits
    with pytest.raises(InvalidInputError, match="id has a NUL character"):
        await memory.conversation(tenant, "chat").add("user", "Hi", id="a\x00")
    assert (await memory.admin.verify(tenant)).ok
