"""What is probably out of date: found, ranked below the newer passage, and shown as what it is."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from agent_reminiscence import AgentMem, Filter, RetrievalResult, SearchHit
from tests.support.endings import Said, consolidate_ending
from tests.support.outdated import mark
from tests.support.rendered import Rendered, read_rendering, read_standing

_DAY_1 = datetime(2026, 3, 2, 9, tzinfo=UTC)
_DAY_8 = _DAY_1 + timedelta(days=7)
_DAY_9 = _DAY_1 + timedelta(days=8)
_OLD = "The office closes at 18:00 on Fridays."
_NEW = "On Fridays it stays open until 20:00 now."
_PARKING = "Parking in the yard costs 12 euros a day."
_QUESTION = "When does the office close on Fridays?"
_FILLER = (
    "The office plants need water twice a week.",
    "The printer of the office is out of toner.",
    "Fridays are for planning the next week.",
    "Nora closes her books at the end of the quarter.",
    "Our lease of the office ends in August.",
)


async def _tell(memory: AgentMem, tenant: str, *more: str, old: str = _OLD) -> None:
    """The old value, a week later the new one, and other things."""
    await memory.create_active_memory(tenant, "House rules", old, occurred_at=_DAY_1)
    await memory.create_active_memory(tenant, "News", _NEW, occurred_at=_DAY_8)
    for text in (*_FILLER, *more):
        await memory.create_active_memory(tenant, "Log", text, occurred_at=_DAY_1 + timedelta(hours=1))


async def _ask(memory: AgentMem, tenant: str, query: str = _QUESTION, /, **arguments: Any) -> RetrievalResult:
    return await memory.retrieve_memories(tenant, query, **arguments)


def _place(result: RetrievalResult, words: str) -> int:
    return next(place for place, hit in enumerate(result.hits) if words in hit.content)


def _hit(result: RetrievalResult, words: str) -> SearchHit:
    return result.hits[_place(result, words)]


def _read(result: RetrievalResult, words: str) -> Rendered:
    _, hits = read_standing(result.as_prompt())
    return next(one for one in read_rendering(hits) if words in one.text)


async def test_the_newer_passage_stands_above_what_it_makes_out_of_date(memory: AgentMem, tenant: str) -> None:
    """In its place; the old one stays a hit that says since when, with a lower score and an unchanged match."""
    await _tell(memory, tenant)
    before = await _ask(memory, tenant)
    await mark(memory, tenant, _OLD, _NEW, since=_DAY_8)

    result = await _ask(memory, tenant)

    assert (_place(before, _OLD), _hit(before, _OLD).outdated) == (0, None)
    old, new = _hit(result, _OLD), _hit(result, _NEW)
    assert result.hits.index(new) == 0
    assert old.outdated is not None
    assert (old.outdated.since, old.outdated.by, old.outdated.start) == (_DAY_8, new.chunk_id, None)
    assert (old.match, result.found) == (_hit(before, _OLD).match, before.found)
    assert old.score < _hit(before, _OLD).score
    assert old.score_parts["outdated"] == pytest.approx(old.score - _hit(before, _OLD).score, abs=1e-4)
    assert sum(old.score_parts.values()) == pytest.approx(old.score, abs=1e-4)
    assert new.outdated is None
    assert "outdated" not in new.score_parts
    assert {hit.chunk_id for hit in result.hits} == {hit.chunk_id for hit in before.hits}


async def test_a_prompt_says_what_is_probably_out_of_date(memory: AgentMem, tenant: str) -> None:
    """With the number of the newer one; without it, if that does not fit or is left out."""
    await _tell(memory, tenant)
    await mark(memory, tenant, _OLD, _NEW, since=_DAY_8)

    result = await _ask(memory, tenant)
    alone = await _ask(memory, tenant, where=Filter(occurred_before=_DAY_8))
    messages = result.as_messages()

    shown = _read(result, "18:00")
    assert (shown.outdated_since, shown.newer) == (date(2026, 3, 9), _place(result, _NEW) + 1)
    assert f"(probably out of date since 2026-03-09, see [{shown.newer}]) The office closes" in messages[0]["text"]
    assert (_read(alone, "18:00").outdated_since, _read(alone, "18:00").newer) == (date(2026, 3, 9), None)
    assert (old := _hit(alone, _OLD).outdated) is not None
    assert old.by is None


async def test_a_part_that_is_out_of_date_leaves_the_rest(memory: AgentMem, tenant: str) -> None:
    """Asked about the rest, the passage ranks as ever; asked about the part, the newer one comes first."""
    both = f"{_OLD} {_PARKING}"
    await _tell(memory, tenant, old=both)
    before = await _ask(memory, tenant, "What does parking cost?")
    await mark(memory, tenant, both, _NEW, since=_DAY_8, part=_OLD)

    parking, closing = await _ask(memory, tenant, "What does parking cost?"), await _ask(memory, tenant)

    assert [hit.chunk_id for hit in parking.hits] == [hit.chunk_id for hit in before.hits]
    assert _place(parking, "12 euros") == 0
    assert _hit(parking, "12 euros").score == pytest.approx(_hit(before, "12 euros").score, abs=1e-6)
    assert (part := _hit(parking, "12 euros").outdated) is not None
    assert (part.start, part.end) == (0, len(_OLD))
    assert 0 == _place(closing, _NEW) < _place(closing, _OLD)
    shown = _read(closing, "18:00")
    assert (shown.is_partly_outdated, shown.newer) == (True, _place(closing, _NEW) + 1)


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
async def test_a_smaller_limit_gives_the_first_hits_of_a_larger_one(memory: AgentMem, tenant: str, limit: int) -> None:
    """Though a newer passage was far below what it makes out of date."""
    await _tell(memory, tenant)
    await mark(memory, tenant, _OLD, "out of toner", since=_DAY_8)

    few, many = await _ask(memory, tenant, limit=limit), await _ask(memory, tenant, limit=20)

    assert [hit.chunk_id for hit in few.hits] == [hit.chunk_id for hit in many.hits[:limit]]


async def test_both_times_decide_what_is_out_of_date(memory: AgentMem, tenant: str) -> None:
    """Not before the newer words were said, and not before it was recorded."""
    await _tell(memory, tenant)
    told = (await memory.ledger.read(tenant))[-1].recorded_at
    event = await mark(memory, tenant, _OLD, _NEW, since=_DAY_8)

    async def outdated(**moment: datetime) -> bool:
        return _hit(await _ask(memory, tenant, **moment), _OLD).outdated is not None

    assert await outdated()
    assert await outdated(as_of=_DAY_9)
    assert not await outdated(as_of=_DAY_1 + timedelta(days=1))
    assert not await outdated(known_at=told)
    assert not await outdated(as_of=_DAY_9, known_at=told)
    assert await outdated(as_of=_DAY_9, known_at=event.recorded_at)


async def test_no_least_match_hides_what_is_out_of_date(memory: AgentMem, tenant: str) -> None:
    """Nor the newer one above it."""
    await _tell(memory, tenant)
    least = _hit(await _ask(memory, tenant), _OLD).match
    await mark(memory, tenant, _OLD, "out of toner", since=_DAY_8)

    result = await _ask(memory, tenant, min_match=least)

    assert _place(result, "out of toner") < _place(result, _OLD)


async def test_what_is_said_again_later_is_not_out_of_date(memory: AgentMem, tenant: str) -> None:
    """The repetition is newer than what made it so."""
    await _tell(memory, tenant)
    await mark(memory, tenant, _OLD, _NEW, since=_DAY_8)
    await memory.create_active_memory(tenant, "Notice", _OLD, occurred_at=_DAY_9)

    assert {hit.outdated for hit in (await _ask(memory, tenant)).hits} == {None}


async def test_an_erasure_of_the_newer_passage_takes_the_note_away(memory: AgentMem, tenant: str) -> None:
    """And a search of the past names it no more."""
    await _tell(memory, tenant)
    await mark(memory, tenant, _OLD, _NEW, since=_DAY_8)
    newer = _hit(await _ask(memory, tenant), _NEW)

    await memory.admin.erase(tenant, memory_id=newer.memory_id)

    for moment in ({}, {"as_of": _DAY_9}):
        result = await _ask(memory, tenant, **moment)
        assert _hit(result, _OLD).outdated is None
        assert "out of date since" not in result.as_prompt()
    assert (await memory.admin.verify(tenant)).ok


async def test_nobody_sees_the_marks_of_others(memory: AgentMem, tenant: str) -> None:
    """The same words of another tenant rank as they did."""
    other_tenant = f"{tenant}, another"
    for who in (tenant, other_tenant):
        await _tell(memory, who)
    before = await _ask(memory, other_tenant)
    await mark(memory, tenant, _OLD, _NEW, since=_DAY_8)

    after = await _ask(memory, other_tenant)

    assert [hit.chunk_id for hit in after.hits] == [hit.chunk_id for hit in before.hits]
    assert [hit.score for hit in after.hits] == pytest.approx([hit.score for hit in before.hits], abs=1e-6)
    assert {hit.outdated for hit in after.hits} == {None}


async def test_a_stream_has_the_same_order(memory: AgentMem, tenant: str) -> None:
    """On its first page and on those after it."""
    await _tell(memory, tenant, *(f"Note {number} on the office." for number in range(150)))
    await mark(memory, tenant, _OLD, _NEW, since=_DAY_8)
    before = [hit.content async for hit in memory.stream_memories(tenant, _QUESTION)]
    far, farther = before[120], before[150]
    await mark(memory, tenant, far, farther, since=_DAY_8)

    hits = [hit async for hit in memory.stream_memories(tenant, _QUESTION)]

    said = [hit.content for hit in hits]
    assert 0 == said.index(_NEW) < said.index(_OLD)
    assert said.index(farther) < said.index(far)
    marked = {hit.content: hit for hit in hits if hit.outdated is not None}
    assert set(marked) == {_OLD, far}
    assert {hit.outdated.by for hit in marked.values() if hit.outdated} <= {hit.chunk_id for hit in hits}
    assert all(hit.score_parts["outdated"] < 0 for hit in marked.values())


async def test_a_wish_may_be_out_of_date(memory: AgentMem, tenant: str) -> None:
    """What always holds says so, too."""
    await memory.create_active_memory(tenant, "Talk", "Please always answer me in Italian.", occurred_at=_DAY_1)
    await memory.create_active_memory(tenant, "Talk", "My Italian course is over.", occurred_at=_DAY_8)
    await mark(memory, tenant, "answer me in Italian", "course is over", since=_DAY_8)

    result = await _ask(memory, tenant, "Which gate does the train leave from?")

    (wish,) = result.standing
    assert wish.outdated is not None
    assert "  2026-03, probably out of date since 2026-03-09 | Please always" in result.as_prompt()


@pytest.mark.parametrize("is_part", [False, True])
async def test_an_ending_that_is_not_certain_leaves_a_mark(memory: AgentMem, tenant: str, is_part: bool) -> None:
    """A consolidation was told what is over, but not for sure: everything is found, and says what is known of it."""
    both = f"{_OLD} {_PARKING}"
    old = await memory.create_active_memory(tenant, "Office", both, occurred_at=_DAY_1)
    await memory.admin.consolidate(tenant, old.id)
    new = await memory.create_active_memory(tenant, "News", _NEW, occurred_at=_DAY_8)

    await consolidate_ending(memory, tenant, new.id, [Said(old.id, _OLD, is_part=is_part, is_hard=False)])

    closing, parking = await _ask(memory, tenant), await _ask(memory, tenant, "What does parking cost a day?")
    assert [_place(closing, _NEW), _place(closing, _OLD)] == [0, 1]
    assert (mark_ := _hit(closing, _OLD).outdated) is not None
    assert (mark_.since, mark_.by) == (_DAY_8, _hit(closing, _NEW).chunk_id)
    assert (mark_.start, mark_.end) == ((0, len(_OLD)) if is_part else (None, None))
    assert ("outdated" in _hit(parking, _PARKING).score_parts) != is_part
    assert _read(closing, _OLD).is_partly_outdated == is_part
    assert (await memory.admin.verify(tenant)).ok


@pytest.mark.thorough
async def test_a_profile_quotes_what_is_probably_out_of_date_last(memory: AgentMem, tenant: str) -> None:
    """And the other one first, where only one of them has room."""
    old, new = "Ida lives in a small flat in Porto.", "Ida lives in a big house in Faro."
    await memory.create_active_memory(tenant, "Ida", old, occurred_at=_DAY_1)
    await memory.create_active_memory(tenant, "Ida", new, occurred_at=_DAY_8)
    await mark(memory, tenant, old, new, since=_DAY_8)

    await memory.admin.profiles.define(tenant, "ida", question="Who is Ida?", max_tokens=50)
    profile = await memory.admin.profiles.refresh(tenant, "ida")

    assert profile.text is not None
    assert new in profile.text.split("\n")[0]
