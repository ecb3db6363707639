"""`memory.admin.restore_version`: an earlier version becomes the next one."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import pytest

from agent_reminiscence import (
    AgentMem,
    IdempotencyConflictError,
    InvalidInputError,
    MemoryNotFoundError,
    Turn,
    VersionConflictError,
)
from tests.support.steps import all_events, head_of, lines, texts

_LINES = ["Ann keeps the harbour keys in the blue drawer.", "The ferry to Lisbon leaves at seven."]
_OTHER = "Bob paints the lighthouse every spring."


async def test_an_earlier_version_becomes_the_next_one(memory: AgentMem, tenant: str) -> None:
    """Title, text, description and metadata are what they were; passages in both texts keep their chunks."""
    note = await memory.create_active_memory(
        tenant, "Harbour", lines(_LINES), description="of May", metadata={"draft": True}, conversation_id="talk"
    )
    await memory.update_active_memory(
        tenant, note.id, title="Port", content=lines([_LINES[0], _OTHER]), description=None, metadata={}, pinned=True
    )

    restored = await memory.admin.restore_version(tenant, note.id, 1, actor="keeper")

    assert (restored.version, restored.title, restored.content) == (3, "Harbour", note.content)
    assert (restored.description, restored.metadata) == ("of May", {"draft": True})
    assert (restored.pinned, restored.conversation_id, restored.actor) == (True, "talk", "keeper")
    assert restored.write is not None
    assert (restored.write.chunks_added, restored.write.chunks_kept, restored.write.chunks_ended) == (1, 1, 1)
    found = await memory.retrieve_memories(tenant, "Who paints, and when does the ferry leave?")
    assert sorted(texts(found)) == sorted(_LINES)
    assert [event.kind for event in await all_events(memory, tenant)] == [
        "memory.created", "memory.updated", "memory.updated"
    ]  # fmt: skip
    history = await memory.admin.history(tenant, note.id)
    assert [version.title for version in history.versions] == ["Harbour", "Port", "Harbour"]
    assert (await memory.admin.verify(tenant)).ok


async def test_a_version_that_was_appended_to_is_restored_whole(memory: AgentMem, tenant: str) -> None:
    """An append's event holds only what it added; the version is all of the text, with its turns."""
    chat = await memory.create_active_memory(tenant, "Talk", metadata={}, content="Robin: Hello.")
    second = await memory.update_active_memory(
        tenant, chat.id, append=Turn(speaker="Ana", text="Good evening.", id="t2")
    )
    await memory.update_active_memory(tenant, chat.id, append=Turn(speaker="Robin", text="Good night.", id="t3"))
    await memory.update_active_memory(tenant, chat.id, content="Nothing was said.", metadata={})

    restored = await memory.admin.restore_version(tenant, chat.id, 2)

    assert (restored.version, restored.content, restored.metadata) == (5, second.content, second.metadata)
    # The turns are those of the text again: what was said already is left out, what was cut off may be said again.
    again = await memory.update_active_memory(
        tenant, chat.id, append=[Turn(speaker="Ana", text="Good evening.", id="t2")]
    )
    assert again.version == 5
    assert (
        await memory.update_active_memory(tenant, chat.id, append=Turn(speaker="Robin", text="Bye.", id="t3"))
    ).version == 6
    assert (await memory.admin.verify(tenant)).ok


async def test_who_restores_a_text_does_not_vouch_for_it(memory: AgentMem, tenant: str) -> None:
    """A tool's words stay the tool's, also if a user brings them back."""
    note = await memory.create_active_memory(tenant, "Harbour", _LINES[0], source="tool")
    await memory.update_active_memory(tenant, note.id, content=_LINES[1], source="user")

    restored = await memory.admin.restore_version(tenant, note.id, 1)

    assert restored.source == "tool"
    [hit] = (await memory.retrieve_memories(tenant, "Where are the harbour keys?")).hits
    assert (hit.content.strip(), hit.source) == (_LINES[0], "tool")


async def test_the_language_is_that_of_the_version(memory: AgentMem, tenant: str) -> None:
    """A text is found by the words of its own language."""
    note = await memory.create_active_memory(tenant, "Hafen", "Die Boote liegen im Hafen.", language="de")
    await memory.update_active_memory(tenant, note.id, content="The boats lie in the harbour.", language="en")

    assert (await memory.admin.restore_version(tenant, note.id, 1)).language == "de"
    assert (await memory.admin.verify(tenant)).ok


async def test_a_stale_writer_restores_nothing(memory: AgentMem, tenant: str) -> None:
    """As with an update; and a retry with the same idempotency key returns the first result."""
    note = await memory.create_active_memory(tenant, "Plan", "Ship on Friday.")
    await memory.update_active_memory(tenant, note.id, content="Ship on Monday.")

    with pytest.raises(VersionConflictError):
        await memory.admin.restore_version(tenant, note.id, 1, expected_version=1)
    assert await head_of(memory, tenant) == 2

    first = await memory.admin.restore_version(tenant, note.id, 1, expected_version=2, idempotency_key="once")
    again = await memory.admin.restore_version(tenant, note.id, 1, expected_version=2, idempotency_key="once")
    assert (again.version, again.content) == (first.version, first.content) == (3, "Ship on Friday.")
    with pytest.raises(IdempotencyConflictError):
        await memory.admin.restore_version(tenant, note.id, 2, expected_version=2, idempotency_key="once")
    assert await head_of(memory, tenant) == 3


async def test_what_cannot_be_restored_is_named(memory: AgentMem, tenant: str) -> None:
    """A version that there is not, an archived memory, one of nobody or of another tenant, and an erased one."""
    restore = memory.admin.restore_version
    note = await memory.create_active_memory(
        tenant, "Plan", "Ship on Friday.", occurred_at=datetime(2024, 5, 1, tzinfo=UTC)
    )
    theirs = await memory.create_active_memory(f"{tenant}-2", "Plan", "Ship never.")
    erased = await memory.create_active_memory(tenant, "Plan", "Ship in secret.")
    await memory.update_active_memory(tenant, erased.id, content="Ship openly.")
    await memory.admin.erase(tenant, text="Ship in secret.")

    for version in (0, -1, True, "1"):
        with pytest.raises(InvalidInputError, match="version"):
            await restore(tenant, note.id, version)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="version must be one of the memory's 1, from 1 on, not 2"):
        await restore(tenant, note.id, 2)
    for memory_id in (uuid4(), theirs.id, erased.id):
        with pytest.raises(MemoryNotFoundError):
            await restore(tenant, memory_id, 1)
    await memory.admin.archive(tenant, note.id)
    with pytest.raises(InvalidInputError, match=r"was archived on .*unarchive"):
        await restore(tenant, note.id, 1)
