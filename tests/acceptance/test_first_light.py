"""The four methods together, from outside."""

from __future__ import annotations

import pytest

from agent_reminiscence import AgentMem, MemoryNotFoundError, VersionConflictError
from agent_reminiscence.embedders.universal import UniversalSentenceEmbedder


async def test_a_new_memory_is_found_at_once(memory: AgentMem, tenant: str) -> None:
    """What was just written is the answer to a question about it."""
    await memory.create_active_memory(tenant, "Release plan", "Ship on Friday with the new installer.")

    found = await memory.retrieve_memories(tenant, "when do we ship the installer?")

    assert found.hits[0].content == "Ship on Friday with the new installer."
    assert "Friday" in found.summary


async def test_a_stale_writer_is_refused_and_leaves_no_trace(memory: AgentMem, tenant: str) -> None:
    """Two writers that read the same version cannot both win."""
    note = await memory.create_active_memory(tenant, "Plan", "Ship on Friday")
    await memory.update_active_memory(tenant, note.id, content="Ship on Monday", expected_version=note.version)

    with pytest.raises(VersionConflictError):
        await memory.update_active_memory(tenant, note.id, content="Ship never", expected_version=note.version)

    assert [m.content for m in await memory.get_active_memories(tenant)] == ["Ship on Monday"]


async def test_another_tenants_memory_does_not_exist(memory: AgentMem, tenant: str) -> None:
    """An id of another tenant gives the same answer as an id of nobody."""
    note = await memory.create_active_memory(tenant, "Plan", "Ship on Friday")

    with pytest.raises(MemoryNotFoundError):
        await memory.update_active_memory(f"{tenant}-2", note.id, content="mine now")

    assert await memory.get_active_memories(f"{tenant}-2") == []
    assert (await memory.retrieve_memories(f"{tenant}-2", "ship on Friday")).hits == ()


async def test_an_open_memory_has_loaded_its_embedder(bundled_memory: AgentMem) -> None:
    """The first question does not wait for it; it was loaded while the server was being reached."""
    assert bundled_memory._parts is not None
    embedder = bundled_memory._parts.stores.configured.embedder

    assert isinstance(embedder, UniversalSentenceEmbedder)
    assert embedder.is_loaded
