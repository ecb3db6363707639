"""`memory.admin.unarchive`: an archived memory comes back, with what archiving took from it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from agent_reminiscence import (
    AgentMem,
    Config,
    InvalidInputError,
    MemoryExistsError,
    MemoryNotFoundError,
    QuotaExceededError,
)
from tests.support.steps import all_events, lines, texts

_LINES = ["Ann keeps the harbour keys in the blue drawer.", "The ferry to Lisbon leaves at seven."]
_QUESTION = "When does the ferry leave, and where are the harbour keys?"
_MAY, _JUNE, _JULY, _AUGUST = (datetime(2024, month, 1, tzinfo=UTC) for month in range(5, 9))


async def test_an_unarchived_memory_is_active_again_and_takes_updates(memory: AgentMem, tenant: str) -> None:
    """Its chunks never ended, so nothing but the list changes; unarchiving again changes nothing."""
    note = await memory.create_active_memory(tenant, "Harbour", lines(_LINES), key="harbour")
    await memory.admin.archive(tenant, note.id)

    back = await memory.admin.unarchive(tenant, note.id, actor="keeper")

    assert (back.id, back.key, back.version, back.archived_at) == (note.id, "harbour", 1, None)
    assert await memory.get_active_memories(tenant, keys=["harbour"]) == [back]
    assert await memory.admin.unarchive(tenant, note.id) == back
    events = await all_events(memory, tenant)
    assert [event.kind for event in events] == ["memory.created", "memory.archived", "memory.unarchived"]
    assert (events[-1].actor, events[-1].payload) == ("keeper", {"memory_id": str(note.id), "version": 1})
    updated = await memory.update_active_memory(tenant, key="harbour", content="The harbour is closed.")
    assert updated.version == 2
    assert (await memory.admin.history(tenant, note.id)).archived_at is None
    assert (await memory.admin.verify(tenant)).ok


async def test_passages_that_archiving_ended_come_back_from_now_on(memory: AgentMem, tenant: str) -> None:
    """A search finds them as before, with their dates and labels; as of the time in between it finds nothing."""
    note = await memory.create_active_memory(tenant, "Harbour", lines(_LINES), occurred_at=_MAY, source="tool")
    before = await memory.retrieve_memories(tenant, _QUESTION)
    await memory.admin.archive(tenant, note.id, end_chunks=True, occurred_at=_JUNE)
    assert texts(await memory.retrieve_memories(tenant, _QUESTION)) == []

    back = await memory.admin.unarchive(tenant, note.id, occurred_at=_JULY)

    assert (back.version, back.content, back.source, back.occurred_at) == (2, note.content, "tool", _JULY)
    assert back.write is not None
    assert (back.write.chunks_added, back.write.vectors_missing) == (2, 0)
    found = await memory.retrieve_memories(tenant, _QUESTION)
    assert texts(found) == texts(before)
    assert {(hit.start_date, hit.said_at, hit.source) for hit in found.hits} == {(_JULY, _MAY, "tool")}
    then = {
        moment: len((await memory.retrieve_memories(tenant, _QUESTION, as_of=moment)).hits)
        for moment in (_MAY, _JUNE, _JUNE + timedelta(days=3), _JULY, _AUGUST)
    }
    assert then == {_MAY: 2, _JUNE: 0, _JUNE + timedelta(days=3): 0, _JULY: 2, _AUGUST: 2}
    assert (await memory.admin.verify(tenant)).ok
    assert (await memory.admin.rebuild(tenant)).ok


async def test_what_was_known_while_it_was_archived_stays_so(memory: AgentMem, tenant: str) -> None:
    """Both times: the list as of a time in the world, and the list as it was known before it came back."""
    note = await memory.create_active_memory(tenant, "Harbour", lines(_LINES), occurred_at=_MAY)
    archived = await memory.admin.archive(tenant, note.id, occurred_at=_JUNE)
    back = await memory.admin.unarchive(tenant, note.id, occurred_at=_JULY)
    # Written later of an earlier time: it does not bring the memory back before July.
    await memory.update_active_memory(tenant, note.id, title="Port", occurred_at=_MAY + timedelta(days=1))

    active = memory.admin.active_memories
    june = _JUNE + timedelta(days=3)
    assert [one.title for one in await active(tenant, as_of=_MAY)] == ["Harbour"]
    assert await active(tenant, as_of=june) == []
    assert [one.title for one in await active(tenant, as_of=_AUGUST)] == ["Port"]
    assert await active(tenant, as_of=_AUGUST, known_at=archived.archived_at) == []
    assert back.archived_at is None


async def test_a_pin_counts_again(memory: AgentMem, tenant: str) -> None:
    """Now and as of later, and not as of the time in between."""
    note = await memory.create_active_memory(tenant, "Diet", "I eat no rye bread.", occurred_at=_MAY, pinned=True)
    await memory.admin.archive(tenant, note.id, occurred_at=_JUNE)
    await memory.admin.unarchive(tenant, note.id, occurred_at=_JULY)

    for moment, pinned in ((None, 1), (_MAY, 1), (_JUNE + timedelta(days=3), 0), (_AUGUST, 1)):
        found = await memory.retrieve_memories(tenant, "Where is the ferry?", as_of=moment)
        assert len(found.standing) == pinned, moment


async def test_a_key_that_was_taken_meanwhile_is_named(memory: AgentMem, tenant: str) -> None:
    """Two active memories never have one key; nothing is written, and the way out works."""
    old = await memory.create_active_memory(tenant, "Units", "Imperial units.", key="units")
    await memory.admin.archive(tenant, old.id)
    new = await memory.create_active_memory(tenant, "Units", "Metric units.", key="units")

    with pytest.raises(MemoryExistsError, match=rf"its key 'units' is now that of the memory '{new.id}'") as refused:
        await memory.admin.unarchive(tenant, old.id)

    assert refused.value.memory_id == new.id
    assert [one.id for one in await memory.get_active_memories(tenant)] == [new.id]
    await memory.admin.archive(tenant, new.id)
    assert (await memory.admin.unarchive(tenant, old.id)).key == "units"
    assert (await memory.admin.verify(tenant)).ok


async def test_memories_that_are_not_there_do_not_come_back(memory: AgentMem, tenant: str) -> None:
    """Unknown, another tenant's, or erased: the same error."""
    theirs = await memory.create_active_memory(f"{tenant}-2", "Plan", "Ship on Friday.")
    await memory.admin.archive(f"{tenant}-2", theirs.id)
    erased = await memory.create_active_memory(tenant, "Plan", "Ship on Monday.")
    await memory.admin.archive(tenant, erased.id)
    await memory.admin.erase(tenant, memory_id=erased.id)

    for memory_id in (theirs.id, erased.id, uuid4()):
        with pytest.raises(MemoryNotFoundError):
            await memory.admin.unarchive(tenant, memory_id)
    assert await memory.get_active_memories(f"{tenant}-2") == []


async def test_a_full_list_takes_nothing_back(config: Callable[..., Config]) -> None:
    """The limit of active memories holds for those that come back, too."""
    async with AgentMem(config(max_active_memories=1)) as memory:
        old = await memory.create_active_memory("agent-1", "Plan", "Ship on Friday.")
        await memory.admin.archive("agent-1", old.id)
        await memory.create_active_memory("agent-1", "Plan", "Ship on Monday.")

        with pytest.raises(QuotaExceededError, match="max_active_memories"):
            await memory.admin.unarchive("agent-1", old.id)

        assert (await memory.admin.history("agent-1", old.id)).archived_at is not None


async def test_chunks_that_ended_for_another_reason_stay_ended(config: Callable[..., Config]) -> None:
    """Who takes a memory back does not say that what had expired in it counts again."""
    now = datetime.now(UTC)
    async with AgentMem(config(active_ttl_days=1.0), clock=lambda: now) as memory:
        note = await memory.create_active_memory("agent-1", "Harbour", _LINES[0])
        now += timedelta(days=2)
        assert (await memory.admin.review("agent-1")).expired == 1
        await memory.update_active_memory("agent-1", note.id, append=_LINES[1])
        await memory.admin.archive("agent-1", note.id, end_chunks=True)

        back = await memory.admin.unarchive("agent-1", note.id)

        assert back.write is not None
        assert (back.write.chunks_added, back.write.chunks_kept) == (1, 1)
        assert texts(await memory.retrieve_memories("agent-1", _QUESTION)) == [_LINES[1]]
        # Nor does its time run on from before: it begins again.
        now += timedelta(hours=20)
        assert (await memory.admin.review("agent-1")).expired == 0
        assert (await memory.admin.verify("agent-1")).ok


async def test_what_a_consolidation_drew_from_it_comes_back(memory: AgentMem, tenant: str) -> None:
    """Ratings, entities and facts ended with the passages; a consolidation is due, which draws them again."""
    note = await memory.create_active_memory(tenant, "Harbour", lines(_LINES))
    await memory.admin.consolidate(tenant, note.id)
    await memory.admin.archive(tenant, note.id, end_chunks=True)

    back = await memory.admin.unarchive(tenant, note.id)

    assert back.write is not None
    assert back.write.consolidation_queued
    [report] = await memory.admin.consolidate(tenant)
    assert (report.consolidated, report.chunks, report.version) == (True, 2, 2)
    assert (await memory.admin.verify(tenant)).ok


async def test_it_may_be_archived_and_come_back_many_times(memory: AgentMem, tenant: str, tmp_path: Path) -> None:
    """Each time its passages end and begin again, and an export of it all gives the same rows elsewhere."""
    note = await memory.create_active_memory(tenant, "Harbour", lines(_LINES))
    for _ in range(3):
        await memory.admin.archive(tenant, note.id, end_chunks=True)
        await memory.admin.unarchive(tenant, note.id)
    await memory.update_active_memory(tenant, note.id, append="Bob paints the lighthouse every spring.")

    found = await memory.retrieve_memories(tenant, _QUESTION)
    assert set(_LINES) < set(texts(found))
    assert (await memory.admin.verify(tenant)).ok
    file = tmp_path / "harbour.jsonl.zst"
    await memory.admin.export(tenant, file)
    await memory.admin.import_(file, f"{tenant}-2")
    assert (await memory.admin.verify(f"{tenant}-2")).ok
    [copy] = await memory.get_active_memories(f"{tenant}-2")
    assert (copy.title, copy.version, copy.archived_at) == ("Harbour", 5, None)


async def test_bad_input_is_named(memory: AgentMem, tenant: str) -> None:
    """Before anything is looked up."""
    with pytest.raises(InvalidInputError, match="memory_id"):
        await memory.admin.unarchive(tenant, "harbour")
