"""`get_active_memories`: which, in which order, and as what."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from agent_reminiscence import AgentMem, InvalidInputError
from tests.support.servers import BOTH_SERVERS
from tests.support.steps import head_of


@BOTH_SERVERS
async def test_memories_come_oldest_first_without_the_archived(memory: AgentMem, tenant: str) -> None:
    """The order is that of creation: an update does not move a memory, an archived one is gone."""
    notes = [await memory.create_active_memory(tenant, f"Note {n}", f"Text {n}") for n in range(4)]
    await memory.update_active_memory(tenant, notes[0].id, content="Text 0, changed")
    await memory.admin.archive(tenant, notes[2].id)

    found = await memory.get_active_memories(tenant)

    assert [note.title for note in found] == ["Note 0", "Note 1", "Note 3"]
    assert [note.version for note in found] == [2, 1, 1]
    assert [note.write for note in found] == [None, None, None]


@BOTH_SERVERS
async def test_an_id_that_nobody_has_used_has_no_memories(memory: AgentMem, tenant: str) -> None:
    """Asking is no write: the tenant does not come into being."""
    assert await memory.get_active_memories(tenant) == []
    assert await head_of(memory, tenant) == 0


@BOTH_SERVERS
async def test_memories_count_down_to_their_consolidation(memory: AgentMem, tenant: str) -> None:
    """Five updates, and after the consolidation five again."""
    note = await memory.create_active_memory(tenant, "Plan", "Version 1")
    seen = []
    for number in range(2, 9):
        await memory.update_active_memory(tenant, note.id, content=f"Version {number}")
        await memory.admin.run_due(tenant)
        (found,) = await memory.get_active_memories(tenant)
        seen.append((found.updates_until_consolidation, found.consolidated_version))

    assert seen == [(4, 0), (3, 0), (2, 0), (1, 0), (5, 6), (4, 6), (3, 6)]


async def test_an_id_that_is_none_is_refused(memory: AgentMem) -> None:
    """An id is a short text, an int or a UUID."""
    wrong: list[Any] = ["", " x", True, 7.5, None, b"x", ["agent-1"], UUID]
    for external_id in wrong:
        with pytest.raises(InvalidInputError, match="external_id"):
            await memory.get_active_memories(external_id)
