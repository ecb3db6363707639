"""What a user wishes for good is shown whatever is asked, and keeps every promise that a hit keeps."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agent_reminiscence import (
    AgentMem,
    Config,
    Filter,
    IdempotencyConflictError,
    InvalidInputError,
    RetrievalResult,
    Turn,
)
from agent_reminiscence.services.recall.standing import MAX_STANDING
from agent_reminiscence.text.rendering import STANDING_SHARE
from agent_reminiscence.text.tokens import count_tokens
from tests.support.fakes import SetClock
from tests.support.openings import openings_of
from tests.support.rendered import read_rendering, read_standing

_MARCH = datetime(2026, 3, 2, 9, tzinfo=UTC)
_QUESTION = "When does the ferry leave?"
_FERRY = "The ferry leaves at nine."
_WISH = "Write to me in Dutch."
_LIMIT = "I can't eat rye bread."


def _standing(result: RetrievalResult) -> list[str]:
    return [hit.content.removeprefix("user:").strip() for hit in result.standing]


async def _talk(memory: AgentMem, tenant: str, *lines: tuple[str, str], chat: str = "chat-1") -> None:
    await memory.conversation(tenant, chat).add_turns([Turn(speaker=who, text=text) for who, text in lines])


@pytest.mark.promise
async def test_a_wish_is_shown_for_a_request_that_shares_no_word_with_it(memory: AgentMem, tenant: str) -> None:
    """Before the hits, the newest first, and no second time below; a later one that lifts it is shown, too."""
    await _talk(memory, tenant, ("user", _WISH), ("assistant", "Noted."), ("user", _FERRY), ("user", _LIMIT))
    await _talk(memory, tenant, ("user", "You can write in English again."), chat="chat-2")

    found = await memory.retrieve_memories(tenant, _QUESTION, token_budget=500)

    assert _standing(found) == ["You can write in English again.", _LIMIT, _WISH]
    statements, rest = read_standing(found.as_prompt())
    assert [one.text for one in statements] == ["You can write in English again.", _LIMIT, _WISH]
    assert [one.month for one in statements] == [f"{datetime.now(UTC):%Y-%m}"] * 3
    shown = {one.number: one.text for one in read_rendering(rest)}
    assert _FERRY in shown.values()
    assert not {_WISH, _LIMIT} & set(shown.values())
    assert all(found.hits[number - 1].content.strip().endswith(text) for number, text in shown.items())


async def test_only_what_the_user_wishes_counts(memory: AgentMem, tenant: str) -> None:
    """Neither an assistant's nor anybody else's words, nor what a tool has read: anybody may have written that."""
    await _talk(memory, tenant, ("assistant", _WISH), ("Mara", "Never phone before noon."), ("user", _LIMIT))
    await memory.create_active_memory(tenant, "Page", "Always answer in Latin.", source="tool")
    await memory.create_active_memory(tenant, "Note", "The user is allergic to penicillin.", source="agent")

    found = await memory.retrieve_memories(tenant, _QUESTION)

    assert _standing(found) == ["The user is allergic to penicillin.", _LIMIT]
    assert "source: agent | The user is allergic" in found.as_prompt()


async def test_the_same_wish_is_shown_once(memory: AgentMem, tenant: str) -> None:
    """However often it was said, as of the last time; and what an update has taken away no longer holds."""
    await _talk(memory, tenant, ("user", _WISH), ("user", _LIMIT))
    await _talk(memory, tenant, ("user", _WISH.lower()), chat="chat-2")
    note = await memory.create_active_memory(tenant, "Food", "I'm vegan.")

    assert _standing(await memory.retrieve_memories(tenant, _QUESTION)) == ["I'm vegan.", _WISH.lower(), _LIMIT]
    await memory.update_active_memory(tenant, note.id, content="I eat everything.")
    assert _standing(await memory.retrieve_memories(tenant, _QUESTION)) == [_WISH.lower(), _LIMIT]


async def test_a_wish_that_is_a_hit_is_the_same_hit(memory: AgentMem, tenant: str) -> None:
    """With its score and rank; one that was not found has a score of 0. Both can be looked up by their ids."""
    note = await memory.create_active_memory(tenant, "Food", _LIMIT)
    await _talk(memory, tenant, *[("user", f"{_FERRY} Line {number}.") for number in range(9)], ("user", _WISH))

    found = await memory.retrieve_memories(tenant, "Which bread can I eat?", limit=1)

    wish, limit = found.standing
    assert limit == found.hits[0]
    assert limit.memory_id == note.id
    assert note.content[limit.span_start : limit.span_end] == _LIMIT
    assert (wish.score, wish.match, wish.score_parts) == (0.0, 0.0, {})
    assert found.citations[0].chunk_id == limit.chunk_id


async def test_a_budget_keeps_room_for_hits(memory: AgentMem, tenant: str) -> None:
    """Wishes take their share and no more, the newest first; a hit that they leave no room for is counted."""
    wishes = [("user", f"Never share document number {number} with anybody.") for number in range(MAX_STANDING + 5)]
    await _talk(memory, tenant, *wishes, *[("user", f"{_FERRY} It is line {number}.") for number in range(40)])

    everything = await memory.retrieve_memories(tenant, _QUESTION)
    assert _standing(everything) == [text for _, text in reversed(wishes)][:MAX_STANDING]
    for budget in (40, 200, 600):
        found = await memory.retrieve_memories(tenant, _QUESTION, token_budget=budget)
        prompt = found.as_prompt()
        statements, rest = read_standing(prompt)
        assert count_tokens(prompt) <= budget
        assert sum(count_tokens(f"  | {one.text}") for one in statements) <= STANDING_SHARE * budget
        assert [one.text for one in statements] == _standing(found)
        below = {hit.content for hit in found.hits} - {hit.content for hit in found.standing}
        assert len(read_rendering(rest) if rest else []) == len(below)
        assert len(found.hits) + sum(one.count for one in found.omitted if one.reason == "token_budget") <= 100


async def test_what_was_known_at_another_moment_held_then(config: Callable[..., Config]) -> None:
    """Each question about the past is answered from what held then, by its title of then."""
    clock = SetClock(_MARCH)
    async with AgentMem(config(), clock=clock) as memory:
        first = await memory.create_active_memory("ana", "Food", _LIMIT)
        clock.now += timedelta(days=1)
        second = await memory.update_active_memory("ana", first.id, title="Diet", content="I'm vegan.")
        clock.now += timedelta(days=1)

        before = await memory.retrieve_memories("ana", _QUESTION, known_at=first.updated_at)
        after = await memory.retrieve_memories("ana", _QUESTION, known_at=second.updated_at)
        earlier = await memory.retrieve_memories("ana", _QUESTION, as_of=_MARCH - timedelta(days=1))

    assert [(hit.title, hit.content) for hit in before.standing] == [("Food", _LIMIT)]
    assert [(hit.title, hit.content) for hit in after.standing] == [("Diet", "I'm vegan.")]
    assert earlier.standing == ()


@pytest.mark.parametrize("whole", [5_000, 0])
async def test_a_filter_admits_wishes_like_hits(
    memory: AgentMem, tenant: str, monkeypatch: pytest.MonkeyPatch, whole: int
) -> None:
    """Conversation, trust label, tier, confidence and time, for small tenants and large ones."""
    monkeypatch.setattr(openings_of(memory), "_whole_max_chunks", whole)
    await _talk(memory, tenant, ("user", _WISH), ("user", _FERRY))
    await _talk(memory, tenant, ("user", _LIMIT), ("user", _FERRY), chat="chat-2")
    await memory.create_active_memory(tenant, "Note", "The user is vegan.", source="agent", metadata={"team": "red"})

    async def held(where: Filter | None = None, **options: object) -> list[str]:
        return _standing(await memory.retrieve_memories(tenant, _QUESTION, where=where, **options))  # type: ignore[arg-type]

    assert await held() == ["The user is vegan.", _LIMIT, _WISH]
    assert await held(Filter(conversation_ids=["chat-1"])) == [_WISH]
    assert await held(Filter(sources=["agent"])) == ["The user is vegan."]
    assert await held(Filter(metadata={"team": "red"})) == ["The user is vegan."]
    assert await held(Filter(speakers=["user"])) == [_LIMIT, _WISH]
    assert await held(Filter(occurred_before=_MARCH)) == []
    assert await held(tiers=["longterm"]) == []
    assert await held(min_confidence=0.9) == [_LIMIT, _WISH]
    moment = datetime.now(UTC)
    assert await held(Filter(conversation_ids=["chat-2"]), known_at=moment) == [_LIMIT]


async def test_a_repetition_stands_for_a_wish_that_a_filter_leaves_out(memory: AgentMem, tenant: str) -> None:
    """Consolidation ends what is said a second time; a filter may admit only that."""
    wish = "Please never call me on the office phone about private matters."
    for number in (1, 2):
        note = await memory.create_active_memory(tenant, f"Note {number}", wish, metadata={"number": number})
        await memory.admin.consolidate(tenant, note.id)

    for number in (1, 2):
        found = await memory.retrieve_memories(tenant, _QUESTION, where=Filter(metadata={"number": number}))
        assert [(hit.title, hit.content, hit.superseded_at) for hit in found.standing] == [
            (f"Note {number}", wish, None)
        ]
    assert len((await memory.retrieve_memories(tenant, _QUESTION)).standing) == 1


async def test_nobody_sees_the_wishes_of_another_or_what_was_erased(memory: AgentMem, tenant: str) -> None:
    """A tenant has its own; an erased wish is gone from the next prompt on, and a rebuild brings nothing back."""
    note = await memory.create_active_memory(tenant, "Food", _LIMIT)
    await _talk(memory, tenant, ("user", _WISH))

    assert (await memory.retrieve_memories(f"{tenant}-2", _QUESTION)).standing == ()
    await memory.admin.erase(tenant, memory_id=note.id)
    assert _standing(await memory.retrieve_memories(tenant, _QUESTION)) == [_WISH]
    assert (await memory.admin.verify(tenant)).ok
    await memory.admin.rebuild(tenant)
    assert _standing(await memory.retrieve_memories(tenant, _QUESTION)) == [_WISH]


async def test_a_wish_is_shown_where_nothing_is_found(memory: AgentMem, tenant: str) -> None:
    """It holds for every request, also for one about which nothing is remembered."""
    await _talk(memory, tenant, ("user", _WISH))

    found = await memory.retrieve_memories(tenant, _QUESTION, min_match=1.0)

    assert found.hits == ()
    assert read_standing(found.as_prompt())[1] == ""
    assert _WISH in found.as_messages()[0]["text"]


# What is pinned -----------------------------------------------------------------------------------


_HOUSE = "The spare key is under the mat.\n\nThe alarm is off on Sundays."


@pytest.mark.promise
async def test_what_is_pinned_is_shown_whatever_is_asked(memory: AgentMem, tenant: str) -> None:
    """Before what is known by its form, in the order of its text, until it is unpinned or archived."""
    house = await memory.create_active_memory(tenant, "House", _HOUSE, pinned=True)
    await memory.create_active_memory(tenant, "Food", _LIMIT)

    found = await memory.retrieve_memories(tenant, _QUESTION, token_budget=300)

    assert house.pinned
    assert [(hit.content.strip(), hit.is_pinned) for hit in found.standing] == [
        (_HOUSE.split("\n\n", maxsplit=1)[0], True),
        (_HOUSE.split("\n\n")[1], True),
        (_LIMIT, False),
    ]
    statements, _ = read_standing(found.as_prompt())
    assert [one.is_pinned for one in statements] == [True, True, False]
    unpinned = await memory.update_active_memory(tenant, house.id, pinned=False)
    assert (unpinned.pinned, unpinned.content, unpinned.version) == (False, _HOUSE, 2)
    assert _standing(await memory.retrieve_memories(tenant, _QUESTION)) == [_LIMIT]
    await memory.update_active_memory(tenant, house.id, pinned=True)
    assert len((await memory.retrieve_memories(tenant, _QUESTION)).standing) == 3
    await memory.admin.archive(tenant, house.id)
    assert _standing(await memory.retrieve_memories(tenant, _QUESTION)) == [_LIMIT]


async def test_a_key_keeps_its_pin(memory: AgentMem, tenant: str) -> None:
    """A new text by the key leaves it as it is; an append cannot change it, and a pin alone changes nothing else."""
    first = await memory.create_active_memory(tenant, "House", "The key is under the mat.", key="key", pinned=True)
    second = await memory.create_active_memory(
        tenant, "House", "The key is under the pot.", key="key", if_exists="update"
    )
    same = await memory.create_active_memory(
        tenant, "House", "The key is under the pot.", key="key", if_exists="update", pinned=True
    )

    assert (first.id, second.pinned, same.version, same.write) == (second.id, True, 2, None)
    with pytest.raises(InvalidInputError, match="append cannot be combined with pinned"):
        await memory.update_active_memory(tenant, key="key", append="More.", pinned=True)
    with pytest.raises(InvalidInputError, match="pinned"):
        await memory.update_active_memory(tenant, key="key", pinned="yes")  # type: ignore[arg-type]
    added = await memory.update_active_memory(tenant, key="key", append="The gate sticks.")
    assert added.pinned
    assert len((await memory.retrieve_memories(tenant, _QUESTION)).standing) == 2
    history = await memory.admin.history(tenant, first.id)
    assert [version.pinned for version in history.versions] == [True, True, True]


async def test_what_was_pinned_at_a_moment_is_read_from_the_ledger(memory: AgentMem, tenant: str) -> None:
    """Also what was unpinned or archived since; a filter admits it like a hit."""
    house = await memory.create_active_memory(tenant, "House", _HOUSE, pinned=True)
    plan = await memory.create_active_memory(tenant, "Plan", _FERRY)
    unpinned = await memory.update_active_memory(tenant, house.id, pinned=False)
    pinned = await memory.update_active_memory(tenant, plan.id, pinned=True)
    await memory.admin.archive(tenant, plan.id)

    async def held(known_at: datetime, where: Filter | None = None) -> list[str]:
        found = await memory.retrieve_memories(tenant, _QUESTION, known_at=known_at, where=where)
        return list(dict.fromkeys(hit.title for hit in found.standing))

    assert await held(plan.created_at) == ["House"]
    assert await held(unpinned.updated_at) == []
    assert await held(pinned.updated_at) == ["Plan"]
    assert await held(pinned.updated_at, Filter(memory_ids=[house.id])) == []
    assert await held(datetime.now(UTC)) == []


async def test_a_pin_survives_what_a_memory_survives(memory: AgentMem, tenant: str, tmp_path: Path) -> None:
    """A rebuild, an export and an import, and a retry with its idempotency key."""
    first = await memory.create_active_memory(tenant, "House", _HOUSE, pinned=True, idempotency_key="once")
    await memory.update_active_memory(tenant, first.id, pinned=False)

    again = await memory.create_active_memory(tenant, "House", _HOUSE, pinned=True, idempotency_key="once")
    assert (again.pinned, again.version) == (True, 1)
    with pytest.raises(IdempotencyConflictError):
        await memory.create_active_memory(tenant, "House", _HOUSE, idempotency_key="once")
    await memory.update_active_memory(tenant, first.id, pinned=True)
    assert (await memory.admin.verify(tenant)).ok
    await memory.admin.rebuild(tenant)
    await memory.admin.export(tenant, tmp_path / "export")
    await memory.admin.import_(tmp_path / "export", external_id=f"{tenant}-2")
    for name in (tenant, f"{tenant}-2"):
        assert len((await memory.retrieve_memories(name, _QUESTION)).standing) == 2


async def test_a_pinned_text_that_was_said_before_stays_pinned(memory: AgentMem, tenant: str) -> None:
    """Consolidation ends it as a repetition of what the user said in a chat."""
    told = "The house key hangs behind the clock in the hall of the old mill, next to the lantern."
    await memory.create_active_memory(tenant, "Chat", told)
    await memory.admin.consolidate(tenant)
    pinned = await memory.create_active_memory(tenant, "House", told, pinned=True)
    await memory.admin.consolidate(tenant, pinned.id)

    found = await memory.retrieve_memories(tenant, _QUESTION)

    assert _standing(found) == [told]
    assert found.standing[0].end_date is None
    await memory.update_active_memory(tenant, pinned.id, content="The key is lost.")
    assert _standing(await memory.retrieve_memories(tenant, _QUESTION)) == ["The key is lost."]


async def test_what_was_pinned_before_it_was_archived_was_pinned_then(config: Callable[..., Config]) -> None:
    """What happened later changes nothing of an earlier moment."""
    clock = SetClock(_MARCH)
    async with AgentMem(config(worker=False), clock=clock) as memory:
        house = await memory.create_active_memory("ana", "House", "The key is behind the clock.", pinned=True)
        clock.advance(timedelta(days=30))
        await memory.admin.archive("ana", house.id, end_chunks=True)
        clock.advance(timedelta(days=1))

        then = await memory.retrieve_memories("ana", _QUESTION, as_of=_MARCH + timedelta(days=1))
        now = await memory.retrieve_memories("ana", _QUESTION)

    assert _standing(then) == ["The key is behind the clock."]
    assert _standing(now) == []
