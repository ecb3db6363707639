"""A hit tells what its memory was given as metadata, at the time that the search is about."""

from __future__ import annotations

from datetime import UTC, datetime

from agent_reminiscence import AgentMem, Filter, Turn

_QUERY = "Where does the boat lie?"
_TEXT = "The boat lies at pier four."


async def test_a_hit_has_the_metadata_of_its_memory_beside_those_of_its_turn(memory: AgentMem, tenant: str) -> None:
    """Every hit of a memory has them, however many there are, without the positions of turns."""
    turns = [
        Turn(speaker="Ana", text=_TEXT, metadata={"channel": "radio"}),
        Turn(speaker="Leo", text="The boat lies there until Friday."),
    ]
    await memory.conversation(tenant, "Mooring").add_turns(turns)
    [note] = await memory.get_active_memories(tenant)
    await memory.update_active_memory(
        tenant, note.id, expected_version=note.version, metadata={"document": "harbour.pdf"}
    )

    found = await memory.retrieve_memories(tenant, _QUERY)

    assert len(found.hits) == 2
    assert all(hit.memory_metadata == {"document": "harbour.pdf"} for hit in found.hits)
    assert {hit.speaker: hit.metadata.get("channel") for hit in found.hits} == {"Ana": "radio", "Leo": None}


async def test_what_always_holds_has_the_metadata_of_its_memory(memory: AgentMem, tenant: str) -> None:
    """Pinned, or known by its form; also behind a filter."""
    await memory.create_active_memory(tenant, "Key", "The key is under the mat.", pinned=True, metadata={"by": "Ana"})
    await memory.create_active_memory(tenant, "Food", "I can't eat rye bread.", metadata={"by": "Leo"})

    for where in (None, Filter(metadata={"by": {"$ne": "nobody"}})):
        held = await memory.retrieve_memories(tenant, _QUERY, where=where)
        assert [hit.memory_metadata for hit in held.standing] == [{"by": "Ana"}, {"by": "Leo"}]


async def test_a_search_of_another_time_has_the_metadata_of_that_time(memory: AgentMem, tenant: str) -> None:
    """By when it was so, and by when it was known."""
    may, june = datetime(2022, 5, 1, tzinfo=UTC), datetime(2022, 6, 1, tzinfo=UTC)
    note = await memory.create_active_memory(tenant, "Mooring", _TEXT, metadata={"page": 1}, occurred_at=may)
    created_at = note.created_at
    await memory.update_active_memory(
        tenant, note.id, expected_version=note.version, metadata={"page": 2}, occurred_at=june
    )

    now = await memory.retrieve_memories(tenant, _QUERY)
    then = await memory.retrieve_memories(tenant, _QUERY, as_of=datetime(2022, 5, 15, tzinfo=UTC))
    known = await memory.retrieve_memories(tenant, _QUERY, known_at=created_at)

    assert [result.hits[0].memory_metadata for result in (now, then, known)] == [{"page": 2}, {"page": 1}, {"page": 1}]
