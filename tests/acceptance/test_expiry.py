"""A memory that expires: from its moment on nothing finds it, and before it everything does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agent_reminiscence import AgentMem, Config, Filter, InvalidInputError, MemoryNotFoundError, Turn, sync
from tests.support.command_line import command_line
from tests.support.fakes import SetClock

OFFER = "The summer sale takes 20 % off all garden chairs."
QUESTION = "What does the summer sale take off the garden chairs?"
TENANT = "agent-1"
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def clock() -> SetClock:
    """The clock of `memory`."""
    return SetClock(datetime.now(UTC))


@pytest.fixture
async def memory(config: Callable[..., Config], clock: SetClock) -> AsyncIterator[AgentMem]:
    """A memory without a worker: nothing happens but what the test does."""
    async with AgentMem(config(worker=False), clock=clock) as opened:
        yield opened


async def _found(memory: AgentMem, question: str = QUESTION, **arguments: object) -> list[str]:
    result = await memory.retrieve_memories(TENANT, question, **arguments)  # type: ignore[arg-type]
    return [hit.content for hit in (*result.hits, *result.standing)]


async def test_a_memory_is_found_until_it_expires_and_not_from_then_on(memory: AgentMem, clock: SetClock) -> None:
    """By the caller's clock, to the microsecond, with no worker running; its time is on the memory and its hits."""
    until = clock() + DAY
    note = await memory.create_active_memory(TENANT, "Offer", OFFER, expires_at=until)
    assert note.expires_at == until

    clock.now = until - timedelta(microseconds=1)
    [hit] = (await memory.retrieve_memories(TENANT, QUESTION)).hits
    assert (hit.content, hit.end_date) == (OFFER, until)
    assert [one.expires_at for one in await memory.get_active_memories(TENANT)] == [until]

    clock.now = until
    assert await _found(memory) == []
    assert await memory.get_active_memories(TENANT) == []
    assert await memory.get_active_memories(TENANT, ids=[note.id]) == []
    assert [event.kind for event in await memory.ledger.read(TENANT)] == ["memory.created"]


async def test_an_expired_memory_is_not_there_for_filters_pins_or_wishes(memory: AgentMem, clock: SetClock) -> None:
    """Each of these reads passages by a statement of its own."""
    until = clock() + DAY
    wish = "Always answer me in French, please."
    await memory.create_active_memory(TENANT, "Offer", OFFER, metadata={"shop": "A"}, pinned=True, expires_at=until)
    await memory.create_active_memory(TENANT, "Wish", wish, expires_at=until)
    where = Filter(metadata={"shop": "A"})
    assert set(await _found(memory)) == {OFFER, wish}
    assert OFFER in await _found(memory, where=where)

    clock.now = until
    assert await _found(memory) == []
    assert await _found(memory, where=where) == []
    assert await _found(memory, where=Filter(sources=["user"])) == []
    assert await memory.get_active_memories(TENANT, where=where) == []


async def test_as_of_an_earlier_time_an_expired_memory_is_found(memory: AgentMem, clock: SetClock) -> None:
    """It was true then; and at its end and after it was not, whenever one asks."""
    began, until = clock(), clock() + DAY
    note = await memory.create_active_memory(TENANT, "Offer", OFFER, pinned=True, expires_at=until)
    for moment in (began + HOUR, until + DAY):
        clock.now = moment
        assert OFFER in await _found(memory, as_of=until - timedelta(microseconds=1))
        assert await _found(memory, as_of=until) == []
        [then] = await memory.admin.active_memories(TENANT, as_of=until - HOUR)
        assert (then.id, then.expires_at) == (note.id, until)
        assert await memory.admin.active_memories(TENANT, as_of=until) == []
    assert await memory.admin.active_memories(TENANT) == []
    history = await memory.admin.history(TENANT, note.id)
    assert history.at(as_of=until - HOUR) == history.versions[0]
    assert history.at(as_of=until) is None


async def test_a_changed_end_is_known_from_when_it_was_changed(memory: AgentMem, clock: SetClock) -> None:
    """What was known before is what was said before: both times apply to the end as to everything."""
    began, first, second = clock(), clock() + DAY, clock() + 3 * DAY
    note = await memory.create_active_memory(TENANT, "Offer", OFFER, expires_at=first)
    clock.now = began + HOUR
    longer = await memory.update_active_memory(TENANT, note.id, expires_at=second)
    assert (longer.version, longer.expires_at) == (2, second)
    between = first + HOUR

    clock.now = between
    assert await _found(memory) == [OFFER]
    assert await _found(memory, as_of=between) == [OFFER]
    assert await _found(memory, as_of=between, known_at=note.updated_at) == []
    assert await _found(memory, as_of=began + HOUR, known_at=note.updated_at) == [OFFER]
    clock.now = second
    assert await _found(memory) == []
    [hit] = (await memory.retrieve_memories(TENANT, QUESTION, as_of=began, known_at=note.updated_at)).hits
    assert hit.end_date == first


async def test_an_end_can_be_set_later_and_taken_back(memory: AgentMem, clock: SetClock) -> None:
    """None clears it, which is not the same as not naming it."""
    began = clock()
    note = await memory.create_active_memory(TENANT, "Offer", OFFER)
    limited = await memory.update_active_memory(TENANT, note.id, expires_at=began + DAY)
    kept = await memory.update_active_memory(TENANT, note.id, title="Sale")
    assert limited.expires_at == kept.expires_at == began + DAY
    lasting = await memory.update_active_memory(TENANT, note.id, expires_at=None)
    assert lasting.expires_at is None

    clock.now = began + 2 * DAY
    assert await _found(memory) == [OFFER]
    assert await _found(memory, as_of=began + 2 * DAY, known_at=kept.updated_at) == []
    assert (await memory.update_active_memory(TENANT, note.id, title="Offer")).version == 5


async def test_new_passages_of_a_memory_expire_with_it(memory: AgentMem, clock: SetClock) -> None:
    """An update or an append that does not name the end leaves it as it is."""
    until = clock() + DAY
    note = await memory.create_active_memory(TENANT, "Offer", OFFER, expires_at=until)
    note = await memory.update_active_memory(TENANT, note.id, content="The summer sale takes 30 % off garden chairs.")
    note = await memory.update_active_memory(TENANT, note.id, append="The summer sale ends on Saturday.")
    assert note.expires_at == until
    assert len(await _found(memory)) == 2

    clock.now = until
    assert await _found(memory) == []
    assert len(await _found(memory, as_of=until - HOUR)) == 2


async def test_a_moment_that_is_not_in_the_future_is_refused(memory: AgentMem, clock: SetClock) -> None:
    """What would never have been found is a mistake, and nothing is written."""
    now = clock()
    for moment in (now, now - DAY):
        with pytest.raises(InvalidInputError, match=r"expires_at .* is not in the future.*; pass a later moment"):
            await memory.create_active_memory(TENANT, "Offer", OFFER, expires_at=moment)
    with pytest.raises(InvalidInputError, match=r"expires_at .* has no time zone"):
        await memory.create_active_memory(TENANT, "Offer", OFFER, expires_at=datetime(2100, 1, 1))  # noqa: DTZ001
    with pytest.raises(InvalidInputError, match=r"expires_at .* is not after occurred_at"):
        await memory.create_active_memory(TENANT, "Offer", OFFER, occurred_at=now + 2 * DAY, expires_at=now + DAY)
    assert await memory.ledger.read(TENANT) == []

    note = await memory.create_active_memory(TENANT, "Offer", OFFER, expires_at=now + DAY)
    with pytest.raises(InvalidInputError, match="is not in the future"):
        await memory.update_active_memory(TENANT, note.id, expires_at=now)
    with pytest.raises(InvalidInputError, match="is not after occurred_at"):
        await memory.update_active_memory(TENANT, note.id, content="Later", occurred_at=now + DAY)
    with pytest.raises(InvalidInputError, match="append cannot be combined with expires_at"):
        await memory.update_active_memory(TENANT, note.id, append="More", expires_at=now + DAY)
    assert len(await memory.ledger.read(TENANT)) == 1


@pytest.mark.parametrize("is_recorded", [False, True])
async def test_an_expired_memory_accepts_no_updates_and_gives_its_key_up(
    memory: AgentMem, clock: SetClock, *, is_recorded: bool
) -> None:
    """The same before and after a worker has recorded that it has expired."""
    until = clock() + DAY
    note = await memory.create_active_memory(TENANT, "Offer", OFFER, key="offer", expires_at=until)
    clock.now = until
    if is_recorded:
        assert (await memory.admin.review(TENANT)).memories_expired == 1
    for change in ({"title": "Sale"}, {"append": "More."}, {"expires_at": until + DAY}):
        with pytest.raises(InvalidInputError, match=rf"'{note.id}' expired on .*; create a new memory"):
            await memory.update_active_memory(TENANT, note.id, **change)
        with pytest.raises(MemoryNotFoundError):
            await memory.update_active_memory(TENANT, key="offer", **change)

    again = await memory.create_active_memory(TENANT, "Offer", "The winter sale has no garden chairs.", key="offer")
    assert again.id != note.id
    assert [one.id for one in await memory.get_active_memories(TENANT, keys=["offer"])] == [again.id]
    kinds = [event.kind for event in await memory.ledger.read(TENANT)]
    assert kinds == ["memory.created", "memory.archived", "memory.created"]
    assert await _found(memory, as_of=until - HOUR) == [OFFER]


async def test_if_exists_update_takes_the_end_of_the_request(memory: AgentMem, clock: SetClock) -> None:
    """The memory becomes what the call would have created, with its end, or without one."""
    until = clock() + DAY
    note = await memory.create_active_memory(TENANT, "Offer", OFFER, key="offer", expires_at=until)
    same = await memory.create_active_memory(TENANT, "Offer", OFFER, key="offer", if_exists="update", expires_at=until)
    assert (same.id, same.version, same.write) == (note.id, 1, None)
    lasting = await memory.create_active_memory(TENANT, "Offer", OFFER, key="offer", if_exists="update")
    assert (lasting.id, lasting.version, lasting.expires_at) == (note.id, 2, None)
    clock.now = until
    assert await _found(memory) == [OFFER]


async def test_a_retry_returns_the_first_result_although_its_time_is_over(memory: AgentMem, clock: SetClock) -> None:
    """The write succeeded: to refuse its retry would say that it did not."""
    until = clock() + DAY
    note = await memory.create_active_memory(TENANT, "Offer", OFFER, expires_at=until, idempotency_key="one")
    changed = await memory.update_active_memory(TENANT, note.id, expires_at=until - HOUR, idempotency_key="two")
    clock.now = until
    again = await memory.create_active_memory(TENANT, "Offer", OFFER, expires_at=until, idempotency_key="one")
    assert again == note
    retried = await memory.update_active_memory(TENANT, note.id, expires_at=until - HOUR, idempotency_key="two")
    assert retried == changed


async def test_a_review_records_what_has_expired(memory: AgentMem, clock: SetClock) -> None:
    """By an event that ends its passages; no answer changes with it, and verify and rebuild agree."""
    began, until = clock(), clock() + DAY
    fact = "Release 2.4 ships on Friday 12 June with the Atlas installer of Maria Silva."
    note = await memory.create_active_memory(TENANT, "Offer", f"{OFFER}\n\n{fact}", expires_at=until)
    await memory.admin.consolidate(TENANT, note.id)
    before = {moment: await _found(memory, as_of=moment) for moment in (began, until - HOUR, until)}
    assert before[began]
    assert before[until] == []

    clock.now = until + HOUR
    report = await memory.admin.review(TENANT)
    assert report.memories_expired == 1
    assert (await memory.admin.review(TENANT)).memories_expired == 0
    event = (await memory.ledger.read(TENANT))[-1]
    assert (event.kind, event.occurred_at) == ("memory.archived", until)
    assert event.payload["expired"] is True
    assert (await memory.admin.usage(TENANT)).live_chunks == 0
    for moment, found in before.items():
        assert await _found(memory, as_of=moment) == found
        assert await _found(memory, as_of=moment, known_at=note.updated_at) == found
    assert {one.mentions for one in await memory.admin.graph.entities(TENANT)} == {0}
    history = await memory.admin.history(TENANT, note.id)
    assert history.archived_at == event.recorded_at
    assert history.versions[0].expires_at == until
    assert (await memory.admin.verify(TENANT)).ok
    await memory.admin.rebuild(TENANT)
    assert (await memory.admin.verify(TENANT)).ok


async def test_a_worker_comes_when_a_memory_expires(memory: AgentMem, clock: SetClock, tmp_path: Path) -> None:
    """To record it: the stream is reviewed then at the latest, also where it was imported."""
    soon, later = clock() + HOUR, clock() + DAY
    await memory.create_active_memory(TENANT, "Offer", OFFER, expires_at=later)
    assert await _reviewed_at(memory, TENANT) == later
    note = await memory.create_active_memory(TENANT, "Tea", "Jasmine tea is in the blue tin.")
    await memory.update_active_memory(TENANT, note.id, expires_at=soon)
    assert await _reviewed_at(memory, TENANT) == soon
    clock.now = soon
    report = await memory.admin.run_due(TENANT)
    assert report.memories_expired == 1

    await memory.admin.export(TENANT, tmp_path / "export.jsonl")
    await memory.admin.import_(tmp_path / "export.jsonl", external_id="agent-2")
    assert await _reviewed_at(memory, "agent-2") == later


async def _reviewed_at(memory: AgentMem, tenant: str) -> datetime:
    moment: datetime = (await _stream(memory, tenant))["review_at"]
    return moment


async def _stream(memory: AgentMem, tenant: str) -> Mapping[str, Any]:
    async with memory._ready().services.runtime.store.transaction(tenant, read_only=True) as db:
        row = await db.fetch_one(
            "SELECT review_at, work_at, due_at FROM memory_stream WHERE external_id = $(tenant)p", {"tenant": tenant}
        )
    assert row is not None
    return row


async def test_what_was_recorded_stays_for_a_clock_that_is_behind(memory: AgentMem, clock: SetClock) -> None:
    """Clocks differ: one machine has recorded it, and for another its time is not over."""
    until = clock() + DAY
    note = await memory.create_active_memory(TENANT, "Offer", OFFER, expires_at=until)
    clock.now = until
    await memory.admin.review(TENANT)
    clock.now = until - HOUR
    assert await _found(memory) == []
    with pytest.raises(InvalidInputError, match=" expired on "):
        await memory.admin.unarchive(TENANT, note.id)
    with pytest.raises(InvalidInputError, match=" expired on "):
        await memory.update_active_memory(TENANT, note.id, expires_at=until + DAY)
    assert await _found(memory) == []


async def test_nothing_is_made_of_an_expired_memory(memory: AgentMem, clock: SetClock) -> None:
    """It is neither consolidated nor promoted."""
    fact = "Release 2.4 ships on Friday 12 June with the Atlas installer of Maria Silva."
    note = await memory.create_active_memory(TENANT, "Plan", fact, expires_at=clock() + DAY)
    clock.now += DAY
    [report] = await memory.admin.consolidate(TENANT, note.id, dry_run=True)
    assert report.plan is None
    [report] = await memory.admin.consolidate(TENANT, note.id)
    assert (report.consolidated, report.promoted) == (False, 0)
    kinds = [event.kind for event in await memory.ledger.read(TENANT)]
    assert kinds == ["memory.created", "memory.archived"]


async def test_an_expired_memory_is_not_due_any_more(memory: AgentMem, clock: SetClock) -> None:
    """A long text is due at once; nothing is when it is over, and verification agrees."""
    text = "\n\n".join(f"Chair {number} of the summer sale costs {number} euros." for number in range(1000))
    await memory.create_active_memory(TENANT, "Offer", text, expires_at=clock() + DAY)
    assert (await _stream(memory, TENANT))["due_at"] is not None
    clock.now += DAY
    await memory.admin.review(TENANT)
    assert (await _stream(memory, TENANT))["due_at"] is None
    assert (await memory.admin.verify(TENANT)).ok


async def test_what_repeats_an_expired_memory_stays(memory: AgentMem, clock: SetClock) -> None:
    """A passage never ends as a repetition of what will expire, and comes back where that is found out later."""
    words = "The staging database is restored every night from the backup."
    older = await memory.create_active_memory(TENANT, "Operations", words)
    await memory.admin.consolidate(TENANT, older.id)
    newer = await memory.create_active_memory(TENANT, "Notes of a meeting", words)
    [report] = await memory.admin.consolidate(TENANT, newer.id)
    assert report.duplicates == 1
    until = clock() + DAY
    await memory.update_active_memory(TENANT, older.id, expires_at=until)
    third = await memory.create_active_memory(TENANT, "Notes of another meeting", words)
    await memory.admin.consolidate(TENANT, third.id)

    clock.now = until
    found = await memory.retrieve_memories(TENANT, "How often is the staging database restored?")
    assert {hit.memory_id for hit in found.hits} == {newer.id}
    await memory.admin.review(TENANT)
    found = await memory.retrieve_memories(TENANT, "How often is the staging database restored?")
    assert {hit.memory_id for hit in found.hits} == {newer.id}
    assert (await memory.admin.verify(TENANT)).ok


async def test_an_export_carries_the_end_and_an_import_takes_it_although_it_is_over(
    memory: AgentMem, clock: SetClock, tmp_path: Path
) -> None:
    """Events are facts: only new writes are refused."""
    until = clock() + DAY
    await memory.create_active_memory(TENANT, "Offer", OFFER, expires_at=until)
    clock.now = until
    await memory.admin.export(TENANT, tmp_path / "export.jsonl")
    await memory.admin.import_(tmp_path / "export.jsonl", external_id="agent-2")
    result = await memory.retrieve_memories("agent-2", QUESTION)
    assert result.hits == ()
    assert len((await memory.retrieve_memories("agent-2", QUESTION, as_of=until - HOUR)).hits) == 1
    assert (await memory.admin.review("agent-2")).memories_expired == 1
    assert (await memory.admin.verify("agent-2")).ok


async def test_the_graph_loses_what_rests_on_an_expired_memory_at_once(memory: AgentMem, clock: SetClock) -> None:
    """It has no clock of its own: whoever reads it finds out that something has expired."""
    until = clock() + DAY
    note = await memory.create_active_memory(TENANT, "Staff", "Maria Silva works for Globex.", expires_at=until)
    await memory.admin.graph.state_relationship(
        TENANT, "Maria Silva", "works_for", "Globex", from_type="person", to_type="company", memory_id=note.id
    )
    near = await memory.admin.graph.neighbourhood(TENANT, "Maria Silva")
    assert [one.type for one in near.relationships] == ["works_for"]

    clock.now = until
    near = await memory.admin.graph.neighbourhood(TENANT, "Maria Silva", at=until)
    assert near.relationships == ()
    assert [(one.mentions, one.chunk_ids) for one in await memory.admin.graph.entities(TENANT)] == [(0, ()), (0, ())]
    with pytest.raises(InvalidInputError, match="has no passage that still stands"):
        await memory.admin.graph.state_entity(TENANT, "Globex", entity_type="company", memory_id=note.id)


async def test_a_profile_does_not_quote_an_expired_memory(memory: AgentMem, clock: SetClock) -> None:
    """Its lines are left out at once, and it is written anew without them."""
    until = clock() + DAY
    await memory.create_active_memory(TENANT, "Offer", "Maria Silva gets 20 % off garden chairs.", expires_at=until)
    await memory.create_active_memory(TENANT, "Home", "Maria Silva lives in 1100 Lisbon.")
    profile = await memory.admin.profiles.define(TENANT, "maria", "Who is Maria Silva?")
    profile = await memory.admin.profiles.refresh(TENANT, "maria")
    assert profile.text is not None
    assert "chairs" in profile.text

    clock.now = until
    shown = [
        await memory.admin.profiles.get(TENANT, "maria"),
        *await memory.admin.profiles.list(TENANT),
        (await memory.retrieve_memories(TENANT, "Where?", profile="maria")).profile,
    ]
    for one in shown:
        assert one is not None
        assert one.text is not None
        assert one.text.endswith("Maria Silva lives in 1100 Lisbon.")
        assert "chairs" not in one.text
        assert len(one.citations) == 1
    assert await memory.admin.profiles.get(TENANT, "maria", known_at=profile.recorded_at) == profile
    again = await memory.admin.profiles.refresh(TENANT, "maria")
    assert again.text is not None
    assert "chairs" not in again.text


async def test_a_conversation_goes_on_after_a_memory_of_it_has_expired(memory: AgentMem, clock: SetClock) -> None:
    """As after one that was archived: in its next memory."""
    talk = memory.conversation(TENANT, "chat-1")
    first = await talk.add("user", "The code of the door is 4711.")
    await memory.update_active_memory(TENANT, first.id, expires_at=clock() + HOUR)
    clock.advance(HOUR)
    second = await talk.add("user", "I like jasmine tea.")
    assert second.id != first.id
    assert [turn.text for turn in await talk.turns()] == ["I like jasmine tea."]


async def test_the_next_memory_of_a_conversation_makes_nothing_of_an_expired_one(
    memory: AgentMem, clock: SetClock
) -> None:
    """It completes it. What is over is not consolidated, so it must not be due, which a worker would find for ever."""
    talk = memory.conversation(TENANT, "chat-1")
    first = await talk.add("user", "The code of the door is 4711.")
    await memory.update_active_memory(TENANT, first.id, expires_at=clock() + HOUR)
    clock.advance(HOUR)
    await memory.admin.review(TENANT)
    # By another clock, which is behind.
    clock.advance(-timedelta(minutes=1))
    await talk.add("user", "I like jasmine tea.")
    report = await memory.admin.run_due(TENANT)
    assert (report.consolidated, report.error) == ((), None)
    assert (await _stream(memory, TENANT))["work_at"] is None
    assert (await memory.admin.verify(TENANT)).ok


async def test_turns_that_are_said_when_the_memory_is_over_are_in_the_next_one(
    memory: AgentMem, clock: SetClock
) -> None:
    """Their time may be ahead of the clock, and so behind an end that has not come yet; none of them is lost."""
    talk = memory.conversation(TENANT, "chat-1")
    first = await talk.add("user", "The code of the door is 4711.")
    until = clock() + timedelta(minutes=2)
    await memory.update_active_memory(TENANT, first.id, expires_at=until)
    before, after = (
        Turn(speaker="user", text="It is 4712 now.", time=clock()),
        Turn(speaker="user", text="Hi.", time=until),
    )
    second = await talk.add_turns([before, after])
    texts = [one.content for one in await memory.get_active_memories(TENANT)]
    assert [len(text.splitlines()) for text in texts] == [2, 1]
    assert second.id != first.id
    assert [turn.text for turn in await talk.turns()][1:] == ["It is 4712 now.", "Hi."]


async def test_an_erasure_takes_the_end_along(memory: AgentMem, clock: SetClock) -> None:
    """What was recorded of an erased memory is gone, and the rest is as if it had never been."""
    until = clock() + DAY
    note = await memory.create_active_memory(TENANT, "Offer", OFFER, key="offer", expires_at=until)
    await memory.create_active_memory(TENANT, "Tea", "Jasmine tea is in the blue tin.")
    clock.now = until
    await memory.admin.review(TENANT)
    await memory.admin.erase(TENANT, memory_id=note.id)
    assert (await memory.admin.verify(TENANT)).ok
    assert await _found(memory, as_of=until - HOUR) == ["Jasmine tea is in the blue tin."]


async def test_expired_memories_do_not_count_for_the_limit(config: Callable[..., Config], clock: SetClock) -> None:
    """`max_active_memories` counts what is there."""
    async with AgentMem(config(worker=False, max_active_memories=1), clock=clock) as memory:
        await memory.create_active_memory(TENANT, "Offer", OFFER, expires_at=clock() + DAY)
        clock.advance(DAY)
        await memory.create_active_memory(TENANT, "Tea", "Jasmine tea is in the blue tin.")
        assert [one.title for one in await memory.get_active_memories(TENANT)] == ["Tea"]


@pytest.mark.thorough
def test_the_command_line_shows_when_a_memory_expires(
    config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the list and in the history."""
    with sync.AgentMem(config()) as memory:
        note = memory.create_active_memory(TENANT, "Offer", OFFER, expires_at=datetime(2100, 1, 1, tzinfo=UTC))
    cli = command_line(config(), monkeypatch, capsys)
    assert ", expires 2100-01-01" in cli("memories", "--external-id", TENANT)
    assert " until 2100-01-01" in cli("history", str(note.id), "--external-id", TENANT)


async def test_what_has_expired_is_not_taken_back(memory: AgentMem, clock: SetClock) -> None:
    """Whether its expiry is recorded or not, and whether it was archived before."""
    until = clock() + DAY
    notes = [await memory.create_active_memory(TENANT, "Offer", OFFER, expires_at=until) for _ in range(2)]
    await memory.admin.archive(TENANT, notes[0].id, end_chunks=True)
    clock.now = until + HOUR
    for _ in range(2):
        for note in notes:
            with pytest.raises(InvalidInputError, match=r"expired on .* create a new memory"):
                await memory.admin.unarchive(TENANT, note.id)
            with pytest.raises(InvalidInputError, match=r"expired on .* create a new memory"):
                await memory.admin.restore_version(TENANT, note.id, 1)
        await memory.admin.review(TENANT)
    assert await _found(memory) == []
    assert (await memory.admin.verify(TENANT)).ok


async def test_what_is_taken_back_gets_the_key_of_what_has_expired(memory: AgentMem, clock: SetClock) -> None:
    """Whether or not a worker has recorded that the key is free."""
    old = await memory.create_active_memory(TENANT, "Units", "Imperial units.", key="units")
    await memory.admin.archive(TENANT, old.id)
    await memory.create_active_memory(TENANT, "Units", "Metric units.", key="units", expires_at=clock() + HOUR)
    clock.advance(HOUR)
    assert (await memory.admin.unarchive(TENANT, old.id)).key == "units"
    assert [one.id for one in await memory.get_active_memories(TENANT, keys=["units"])] == [old.id]
    assert (await memory.admin.verify(TENANT)).ok


async def test_what_is_taken_back_still_expires(memory: AgentMem, clock: SetClock) -> None:
    """The passages that come back end with the memory; not from a moment at which it is over already."""
    until = clock() + DAY
    note = await memory.create_active_memory(TENANT, "Offer", OFFER, expires_at=until)
    await memory.admin.archive(TENANT, note.id, end_chunks=True)
    with pytest.raises(InvalidInputError, match=r"expires_at .* is not after occurred_at"):
        await memory.admin.unarchive(TENANT, note.id, occurred_at=until)

    back = await memory.admin.unarchive(TENANT, note.id)

    assert (back.version, back.expires_at) == (2, until)
    [hit] = (await memory.retrieve_memories(TENANT, QUESTION)).hits
    assert (hit.content, hit.end_date) == (OFFER, until)
    clock.now = until
    assert await _found(memory) == []
    assert (await memory.admin.verify(TENANT)).ok


async def test_a_restored_version_ends_when_the_memory_does(memory: AgentMem, clock: SetClock) -> None:
    """Restoring changes what a memory says, not until when."""
    until = clock() + DAY
    note = await memory.create_active_memory(TENANT, "Offer", OFFER)
    await memory.update_active_memory(TENANT, note.id, content="The sale is over.", expires_at=until)

    restored = await memory.admin.restore_version(TENANT, note.id, 1)

    assert (restored.content, restored.expires_at) == (OFFER, until)
    [hit] = (await memory.retrieve_memories(TENANT, QUESTION)).hits
    assert (hit.content, hit.end_date) == (OFFER, until)
    clock.now = until
    assert await _found(memory) == []
