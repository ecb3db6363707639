"""An ending ends what is over, and nothing beside it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest

from agent_reminiscence import AgentMem
from agent_reminiscence.domain.event import EventKind
from agent_reminiscence.services.tiers.memorizing import Cost
from agent_reminiscence.services.tiers.planning import GoneMeanwhileError
from agent_reminiscence.services.tiers.proposal import PlannedEnding, Proposal
from tests.support.endings import Said, consolidate_ending, layout_of

_EARLY = datetime(2024, 3, 1, 12, tzinfo=UTC)
_LATE = datetime(2024, 3, 23, 12, tzinfo=UTC)
_CLOSES = "The office closes at 18:00 on Fridays."
_PARKING = "Parking costs 12 euros a day."
_OFFICE = f"{_CLOSES} {_PARKING}"
_NEWS = "The office closes at 20:00 on Fridays now."
_CLOSING = "When does the office close on Fridays?"
_COST = "What does parking cost at the office?"


async def _found(
    memory: AgentMem, tenant: str, question: str, *, as_of: datetime | None = None, known_at: datetime | None = None
) -> set[str]:
    result = await memory.retrieve_memories(tenant, question, limit=20, as_of=as_of, known_at=known_at)
    return {hit.content.strip() for hit in result.hits}


async def _old_and_new(memory: AgentMem, tenant: str, text: str = _OFFICE, news: str = _NEWS) -> tuple[UUID, UUID]:
    old = await memory.create_active_memory(tenant, "Office", text, occurred_at=_EARLY)
    await memory.admin.consolidate(tenant, old.id)
    new = await memory.create_active_memory(tenant, "News", news, occurred_at=_LATE)
    return old.id, new.id


async def _is_sound(memory: AgentMem, tenant: str) -> None:
    """What is stored is what a replay gives, and nothing lacks a vector."""
    report = await memory.admin.verify(tenant)
    [stream] = report.streams
    assert (stream.drift, stream.faults, stream.missing_vectors) == ((), (), 0)


@pytest.mark.promise
async def test_what_stands_beside_what_is_over_stays(memory: AgentMem, tenant: str) -> None:
    """Before the ending both sentences hold, after it one of them; and before it was known, the whole."""
    old, new = await _old_and_new(memory, tenant)
    before = (await memory.ledger.read(tenant, limit=100))[-1].recorded_at

    await consolidate_ending(memory, tenant, new, [Said(old, _CLOSES)])

    for question in (_CLOSING, _COST):
        assert await _found(memory, tenant, question) == {_PARKING, _NEWS}
        assert await _found(memory, tenant, question, as_of=_LATE + timedelta(days=1)) == {_PARKING, _NEWS}
        assert await _found(memory, tenant, question, as_of=_LATE - timedelta(days=1)) == {_CLOSES, _PARKING}
        assert await _found(memory, tenant, question, as_of=_EARLY - timedelta(days=1)) == set()
        assert await _found(memory, tenant, question, known_at=before) == {_OFFICE, _NEWS}
        later, earlier = _LATE + timedelta(days=1), _LATE - timedelta(days=1)
        assert await _found(memory, tenant, question, as_of=later, known_at=before) == {_OFFICE, _NEWS}
        assert await _found(memory, tenant, question, as_of=earlier, known_at=before) == {_OFFICE}
    [kept] = await memory.get_active_memories(tenant, ids=[old])
    assert (kept.content, kept.version) == (_OFFICE, 1)
    await _is_sound(memory, tenant)


async def test_a_piece_is_as_its_chunk_was(memory: AgentMem, tenant: str) -> None:
    """Whose words it holds, since when, how important and how far trusted, and its tier."""
    text = f"Ana: {_OFFICE}"
    old = await memory.create_active_memory(tenant, "Office", text, occurred_at=_EARLY, source="agent")
    await memory.admin.consolidate(tenant, old.id)
    [chunk] = await layout_of(memory, tenant, old.id)
    new = await memory.create_active_memory(tenant, "News", _NEWS, occurred_at=_LATE)

    await consolidate_ending(memory, tenant, new.id, [Said(old.id, _CLOSES)])

    over, stays = await layout_of(memory, tenant, old.id)
    assert (over.content, stays.content) == (f"Ana: {_CLOSES} ", _PARKING)
    assert (over.has_ended, stays.has_ended) == (True, False)
    inherited = (
        "speaker",
        "tier",
        "importance",
        "confidence",
        "estimate",
        "source",
        "start_date",
        "said_at",
        "metadata",
    )
    for name in inherited:
        assert getattr(over, name) == getattr(stays, name) == getattr(chunk, name), name


async def test_lines_of_other_days_keep_their_days(memory: AgentMem, tenant: str) -> None:
    """A chunk of several days loses only its over part, and each piece is dated by its own lines."""
    lines = ["The office is in the mill.", _CLOSES, _PARKING]
    old = await memory.create_active_memory(tenant, "Office", lines[0], occurred_at=_EARLY)
    for index in (1, 2):
        text = "\n".join(lines[: index + 1])
        day = _EARLY + timedelta(days=index)
        await memory.update_active_memory(tenant, old.id, content=text, occurred_at=day)
    await memory.admin.consolidate(tenant, old.id)
    [chunk] = await layout_of(memory, tenant, old.id)
    assert len(chunk.said_lines) == len(lines)
    new = await memory.create_active_memory(tenant, "News", _NEWS, occurred_at=_LATE)

    await consolidate_ending(memory, tenant, new.id, [Said(old.id, _CLOSES)])

    pieces = await layout_of(memory, tenant, old.id)
    assert [piece.content.strip() for piece in pieces] == lines
    assert [piece.said_at for piece in pieces] == [_EARLY + timedelta(days=day) for day in range(3)]
    assert [piece.has_ended for piece in pieces] == [False, True, False]
    await _is_sound(memory, tenant)


async def test_several_parts_of_a_chunk_end_at_once(memory: AgentMem, tenant: str) -> None:
    """Two endings of one chunk and one of another, in one consolidation: a cut of the memory, and an ending each."""
    text = f"{_CLOSES} {_PARKING} The canteen opens at noon.\n\nThe boss is Ana. The lift is broken."
    old, new = await _old_and_new(memory, tenant, text)

    await consolidate_ending(
        memory,
        tenant,
        new,
        [Said(old, _CLOSES), Said(old, "The canteen opens at noon."), Said(old, "The lift is broken.", why="Mended.")],
    )

    assert len(await memory.ledger.read(tenant, kinds=["memory.cut"])) == 1
    ended = await memory.ledger.read(tenant, kinds=["memory.ended"])
    assert [len(event.payload["chunks"]) for event in ended] == [1, 1, 1]
    assert [piece.content.strip() for piece in await layout_of(memory, tenant, old) if not piece.has_ended] == [
        _PARKING,
        "The boss is Ana.",
    ]
    await _is_sound(memory, tenant)


async def test_all_words_of_a_chunk_end_it_whole(memory: AgentMem, tenant: str) -> None:
    """White space and a full stop are no piece."""
    old, new = await _old_and_new(memory, tenant, f"{_CLOSES}\n")

    await consolidate_ending(memory, tenant, new, [Said(old, _CLOSES.removesuffix("."))])

    assert await memory.ledger.read(tenant, kinds=["memory.cut"]) == []
    [ended] = await memory.ledger.read(tenant, kinds=["memory.ended"])
    [chunk] = await layout_of(memory, tenant, old)
    assert ended.payload["chunks"] == [str(chunk.chunk_id)]
    assert chunk.has_ended


async def test_what_ends_a_chunk_is_a_piece_if_it_is_cut_itself(memory: AgentMem, tenant: str) -> None:
    """The chunk that it was is gone by then."""
    old, new = await _old_and_new(memory, tenant, _CLOSES, f"{_NEWS} {_PARKING}")
    [older], [newer] = await layout_of(memory, tenant, old), await layout_of(memory, tenant, new)
    service = memory._ready().services.consolidation
    draft = await service._drafting.read(tenant, new, None, needs_vectors=False, by_rules=False)
    span = (newer.content.index(_PARKING), len(newer.content))
    proposal = Proposal(
        endings=[
            PlannedEnding(older.chunk_id, 0, _LATE, "It closes later."),
            PlannedEnding(newer.chunk_id, 0, _LATE, "It is free.", span=span),
        ]
    )

    await service._commit(await service._drafting.complete(replace(draft, proposal=proposal), proposal, None), Cost())

    stays, _ = await layout_of(memory, tenant, new)
    ended = await memory.ledger.read(tenant, kinds=["memory.ended"])
    assert [event.payload["by"] for event in ended] == [[str(stays.chunk_id)]] * 2


@pytest.mark.parametrize(
    ("edited", "found"),
    [
        pytest.param(f"{_OFFICE}\n\nThe lift is broken.", {_PARKING, "The lift is broken."}, id="elsewhere"),
        pytest.param(f"{_CLOSES} Parking costs 15 euros a day.", {"Parking costs 15 euros a day."}, id="beside it"),
        pytest.param(f"Please note. {_OFFICE}", {"Please note.", _PARKING}, id="before it"),
        pytest.param(
            f"The office closes at 18:30 on Fridays. {_PARKING}",
            {f"The office closes at 18:30 on Fridays. {_PARKING}"},
            id="the words themselves",
        ),
    ],
)
async def test_an_edit_brings_back_only_what_it_changes(
    memory: AgentMem, tenant: str, edited: str, found: set[str]
) -> None:
    """The text still has the words that are over; that somebody changes others says nothing of these."""
    old, new = await _old_and_new(memory, tenant)
    await consolidate_ending(memory, tenant, new, [Said(old, _CLOSES)])

    await memory.update_active_memory(tenant, old, content=edited)

    live = {chunk.content.strip() for chunk in await layout_of(memory, tenant, old) if not chunk.has_ended}
    assert live == found
    assert await _found(memory, tenant, f"{_CLOSING} {_COST}") >= found
    await _is_sound(memory, tenant)


async def test_an_edit_of_two_places_keeps_what_ended_between_them(memory: AgentMem, tenant: str) -> None:
    """By its line, which neither edit touched."""
    lines = ["The lift is broken.", _OFFICE, "The boss is Ana."]
    old, new = await _old_and_new(memory, tenant, "\n".join(lines))
    await consolidate_ending(memory, tenant, new, [Said(old, _CLOSES)])

    await memory.update_active_memory(
        tenant, old, content="\n".join(["The lift is mended.", _OFFICE, "The boss is Piet."])
    )

    ended = [chunk.content.strip() for chunk in await layout_of(memory, tenant, old) if chunk.has_ended]
    assert ended == [_CLOSES]


async def test_metadata_and_appends_leave_a_cut_as_it_is(memory: AgentMem, tenant: str) -> None:
    """Nothing of the text was changed."""
    old, new = await _old_and_new(memory, tenant)
    await consolidate_ending(memory, tenant, new, [Said(old, _CLOSES)])
    pieces = [chunk.chunk_id for chunk in await layout_of(memory, tenant, old)]

    await memory.update_active_memory(tenant, old, metadata={"floor": 2})
    await memory.update_active_memory(tenant, old, append="The lift is broken.")

    layout = await layout_of(memory, tenant, old)
    assert [chunk.chunk_id for chunk in layout][:2] == pieces
    assert [chunk.has_ended for chunk in layout] == [True, False, False]
    await _is_sound(memory, tenant)


async def test_an_earlier_version_restored_says_it_again(memory: AgentMem, tenant: str) -> None:
    """Whoever restores a text that had gone says all of it anew, as for chunks that ended whole."""
    old, new = await _old_and_new(memory, tenant)
    await consolidate_ending(memory, tenant, new, [Said(old, _CLOSES)])
    await memory.update_active_memory(tenant, old, content="Closed for good.")

    await memory.admin.restore_version(tenant, old, 1)

    assert _OFFICE in await _found(memory, tenant, _CLOSING)
    await _is_sound(memory, tenant)


async def test_archiving_and_back_leaves_what_was_over(memory: AgentMem, tenant: str) -> None:
    """Only what archiving ended is said again."""
    old, new = await _old_and_new(memory, tenant)
    await consolidate_ending(memory, tenant, new, [Said(old, _CLOSES)])

    await memory.admin.archive(tenant, old, end_chunks=True)
    assert await _found(memory, tenant, _COST) == {_NEWS}
    await memory.admin.unarchive(tenant, old)

    assert await _found(memory, tenant, _COST) == {_PARKING, _NEWS}
    await _is_sound(memory, tenant)


# Erasure --------------------------------------------------------------------------------------------------------------


@pytest.mark.promise
async def test_erasing_the_reason_takes_the_ending_back(memory: AgentMem, tenant: str) -> None:
    """Later events that name the pieces still find them; what was over is found again."""
    old, new = await _old_and_new(memory, tenant)
    await consolidate_ending(memory, tenant, new, [Said(old, _CLOSES)])
    await memory.update_active_memory(tenant, old, content=f"{_OFFICE}\n\nThe lift is broken.")
    await memory.admin.consolidate(tenant, old)

    await memory.admin.erase(tenant, memory_id=new)

    assert {_CLOSES, _PARKING} <= await _found(memory, tenant, f"{_CLOSING} {_COST}")
    assert (await memory.admin.verify(tenant)).ok


async def test_erasing_a_cut_memory_leaves_nothing_of_it(memory: AgentMem, tenant: str) -> None:
    """Its pieces go with it, and so do the events."""
    old, new = await _old_and_new(memory, tenant)
    await consolidate_ending(memory, tenant, new, [Said(old, _CLOSES)])

    await memory.admin.erase(tenant, memory_id=old)

    assert await _found(memory, tenant, _COST) == {_NEWS}
    assert [event.payload for event in await memory.ledger.read(tenant, kinds=["memory.cut", "memory.ended"])] == [
        {},
        {},
    ]
    assert (await memory.admin.verify(tenant)).ok


# Copies ---------------------------------------------------------------------------------------------------------------


async def test_an_export_takes_cuts_and_marks_along(memory: AgentMem, tenant: str, tmp_path: Path) -> None:
    """Imported for somebody else, the same passages are over and the same are marked."""
    old, new = await _old_and_new(memory, tenant, f"{_OFFICE}\n\nThe boss is Ana.")
    over = [Said(old, _CLOSES), Said(old, "The boss is Ana.", is_hard=False)]
    await consolidate_ending(memory, tenant, new, over)

    await memory.admin.export(tenant, tmp_path / "all.jsonl.zst")
    other = f"{tenant}-copy"
    await memory.admin.import_(tmp_path / "all.jsonl.zst", other)

    assert await _found(memory, other, f"{_CLOSING} {_COST}") == await _found(memory, tenant, f"{_CLOSING} {_COST}")
    assert await _marks(memory, other) == await _marks(memory, tenant) == [("The boss is Ana.", None)]
    assert (await memory.admin.verify(other)).ok


# Repetitions ----------------------------------------------------------------------------------------------------------


async def test_what_repeats_a_chunk_is_cut_with_it(memory: AgentMem, tenant: str) -> None:
    """It had ended as a repetition; it does not bring back what is over, and the rest of it is found."""
    old = await memory.create_active_memory(tenant, "Office", _OFFICE, occurred_at=_EARLY)
    await memory.admin.consolidate(tenant, old.id)
    again = await memory.create_active_memory(tenant, "Copy", _OFFICE.upper(), occurred_at=_EARLY)
    assert (await memory.admin.consolidate(tenant, again.id))[0].duplicates == 1
    new = await memory.create_active_memory(tenant, "News", _NEWS, occurred_at=_LATE)

    await consolidate_ending(memory, tenant, new.id, [Said(old.id, _CLOSES)])

    assert await _found(memory, tenant, _CLOSING) <= {_PARKING, _PARKING.upper(), _NEWS}
    assert [c.content.strip() for c in await layout_of(memory, tenant, again.id) if c.has_ended] == [_CLOSES.upper()]
    await memory.admin.archive(tenant, old.id, end_chunks=True)
    assert await _found(memory, tenant, _COST) == {_PARKING.upper(), _NEWS}
    await _is_sound(memory, tenant)


async def test_a_repetition_whose_words_cannot_be_told_apart_is_marked(memory: AgentMem, tenant: str) -> None:
    """In lower case, the Turkish capital is a letter and a dot, at which the word is divided."""
    text = f"{_CLOSES} İzmir is far away. {_PARKING}"
    old = await memory.create_active_memory(tenant, "Office", text, occurred_at=_EARLY)
    await memory.admin.consolidate(tenant, old.id)
    again = await memory.create_active_memory(tenant, "Copy", text.casefold(), occurred_at=_EARLY)
    assert (await memory.admin.consolidate(tenant, again.id))[0].duplicates == 1
    new = await memory.create_active_memory(tenant, "News", _NEWS, occurred_at=_LATE)

    await consolidate_ending(memory, tenant, new.id, [Said(old.id, _CLOSES)])

    assert [chunk.has_ended for chunk in await layout_of(memory, tenant, old.id)] == [True, False]
    assert await _marks(memory, tenant) == [(text.casefold(), None)]
    await _is_sound(memory, tenant)


# Marks ----------------------------------------------------------------------------------------------------------------


async def _marks(memory: AgentMem, tenant: str, **times: datetime) -> list[tuple[str, tuple[int, int] | None]]:
    """What is marked: the words of the chunks, and which of their characters."""
    runtime = memory._ready().services.runtime
    repositories = runtime.repositories
    known_at = times.get("known_at") or datetime.now(UTC)
    async with runtime.store.transaction(tenant, read_only=True) as db:
        rows = await db.fetch_all("SELECT chunk_id, content FROM memory_chunk WHERE external_id = $(t)p", {"t": tenant})
        words = {UUID(row["chunk_id"]): row["content"].strip() for row in rows}
        found = await repositories.tables.outdated.find(
            db, tenant, list(words), known_at=known_at, as_of=times.get("as_of")
        )
    return [(words[mark.chunk_id], mark.span) for mark in found]


@pytest.mark.promise
async def test_a_soft_ending_marks_and_hides_nothing(memory: AgentMem, tenant: str) -> None:
    """The mark holds from when the newer words were said, and from when that was known."""
    old, new = await _old_and_new(memory, tenant)
    before = (await memory.ledger.read(tenant, limit=100))[-1].recorded_at

    await consolidate_ending(memory, tenant, new, [Said(old, _CLOSES, is_hard=False)])

    assert await _found(memory, tenant, _CLOSING) == {_OFFICE, _NEWS}
    span = (0, len(_CLOSES))
    assert await _marks(memory, tenant) == [(_OFFICE, span)]
    assert await _marks(memory, tenant, as_of=_LATE) == [(_OFFICE, span)]
    assert await _marks(memory, tenant, as_of=_LATE - timedelta(seconds=1)) == []
    assert await _marks(memory, tenant, as_of=_LATE, known_at=before) == []
    [event] = await memory.ledger.read(tenant, kinds=["memory.outdated"])
    assert event.payload["rests_on"] == [str(new)]
    assert event.occurred_at == _LATE
    await _is_sound(memory, tenant)


@pytest.mark.parametrize("end", ["erase", "archive", "update", "expire"])
async def test_a_mark_goes_with_the_newer_words(memory: AgentMem, tenant: str, end: str) -> None:
    """What nobody says any more puts nothing out of date."""
    old, new = await _old_and_new(memory, tenant)
    await consolidate_ending(memory, tenant, new, [Said(old, _CLOSES, is_hard=False)])

    match end:
        case "erase":
            await memory.admin.erase(tenant, memory_id=new)
        case "archive":
            await memory.admin.archive(tenant, new, end_chunks=True)
        case "expire":
            soon = datetime.now(UTC) + timedelta(milliseconds=200)
            await memory.update_active_memory(tenant, new, expires_at=soon)
        case _:
            await memory.update_active_memory(tenant, new, content="Nothing new.")

    if end == "expire":
        assert await _marks(memory, tenant, known_at=soon + timedelta(seconds=1)) == []
    else:
        assert await _marks(memory, tenant) == []
    assert (await memory.admin.verify(tenant)).ok


async def test_a_mark_goes_when_the_marked_words_are_changed(memory: AgentMem, tenant: str) -> None:
    """And when the memory is erased that holds them."""
    old, new = await _old_and_new(memory, tenant)
    await consolidate_ending(memory, tenant, new, [Said(old, _CLOSES, is_hard=False)])

    await memory.update_active_memory(tenant, old, content=f"{_CLOSES} Parking is free.")
    assert await _marks(memory, tenant) == []
    assert await _marks(memory, tenant, as_of=_LATE) == [(_OFFICE, (0, len(_CLOSES)))]

    await memory.admin.erase(tenant, memory_id=old)
    assert await _marks(memory, tenant, as_of=_LATE) == []
    assert (await memory.admin.verify(tenant)).ok


async def test_words_that_are_marked_are_said_again(memory: AgentMem, tenant: str) -> None:
    """The restatement stands for itself instead of ending as a repetition of what is out of date."""
    old, new = await _old_and_new(memory, tenant)
    await consolidate_ending(memory, tenant, new, [Said(old, _CLOSES, is_hard=False)])

    again = await memory.create_active_memory(tenant, "Again", _OFFICE, occurred_at=_LATE + timedelta(days=1))
    [report] = await memory.admin.consolidate(tenant, again.id)

    assert report.duplicates == 0
    assert [chunk.has_ended for chunk in await layout_of(memory, tenant, again.id)] == [False]
    assert len(await _marks(memory, tenant)) == 1


async def test_a_mark_is_cut_with_its_chunk(memory: AgentMem, tenant: str) -> None:
    """A hard ending of one sentence leaves the mark on the other."""
    old, new = await _old_and_new(memory, tenant)
    await consolidate_ending(memory, tenant, new, [Said(old, _PARKING, is_hard=False)])
    more = await memory.create_active_memory(tenant, "More", _NEWS, occurred_at=_LATE + timedelta(days=2))

    await consolidate_ending(memory, tenant, more.id, [Said(old, _CLOSES)])

    assert await _marks(memory, tenant) == [(_PARKING, None)]
    await _is_sound(memory, tenant)


async def test_a_newer_chunk_that_is_cut_keeps_its_marks(memory: AgentMem, tenant: str) -> None:
    """What stays of it speaks for it."""
    old, new = await _old_and_new(memory, tenant, news=f"{_NEWS} The lift is broken, and nobody is going to repair it.")
    await consolidate_ending(memory, tenant, new, [Said(old, _CLOSES, is_hard=False)])
    more = await memory.create_active_memory(tenant, "More", "The lift works.", occurred_at=_LATE + timedelta(days=2))

    await consolidate_ending(memory, tenant, more.id, [Said(new, _NEWS)])

    assert await _marks(memory, tenant) == [(_OFFICE, (0, len(_CLOSES)))]
    assert {event.kind for event in await memory.ledger.read(tenant, limit=100)} >= {EventKind.CUT, EventKind.OUTDATED}
    await _is_sound(memory, tenant)


# Plans that come too late ---------------------------------------------------------------------------------------------


async def test_a_plan_of_a_text_that_was_cut_meanwhile_is_made_again(memory: AgentMem, tenant: str) -> None:
    """A cut makes no version, but the plan names a chunk that is gone: its pieces would stay unread."""
    old = await memory.create_active_memory(tenant, "Office", _OFFICE, occurred_at=_EARLY)
    new = await memory.create_active_memory(tenant, "News", _NEWS, occurred_at=_LATE)
    service = memory._ready().services.consolidation
    draft = await service._drafting.read(tenant, old.id, None, needs_vectors=False, by_rules=True)
    await consolidate_ending(memory, tenant, new.id, [Said(old.id, _CLOSES)])

    with pytest.raises(GoneMeanwhileError):
        await service._commit(draft, Cost())
    await memory.admin.consolidate(tenant, old.id)

    assert [(one.tier, one.has_ended) for one in await layout_of(memory, tenant, old.id)] == [
        ("active", True),
        ("shortterm", False),
    ]
    await _is_sound(memory, tenant)
