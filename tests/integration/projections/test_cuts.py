"""What a cut does to the rows that rest on a chunk."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from agent_reminiscence import AgentMem
from agent_reminiscence.domain.event import EventKind
from agent_reminiscence.domain.payloads import (
    ChunkRating,
    EntityEntry,
    FactEntry,
    GraphChanges,
    MemoryConsolidated,
    MemoryEnded,
    RelationshipEntry,
)
from tests.support.endings import Said, consolidate_ending, layout_of
from tests.support.factories import record_event

_EARLY = datetime(2024, 3, 1, 12, tzinfo=UTC)
_LATE = datetime(2024, 3, 23, 12, tzinfo=UTC)
_WORKS = "Ana Sousa works at Globex since May."
_LIVES = "She lives in the blue house in Porto."
_NEWS = "Since yesterday that firm is closed for good."
_COMMON: dict[str, Any] = {"confidence": 0.75, "importance": 0.5, "chunks": (0,)}


async def _told(memory: AgentMem, tenant: str, facts: list[str]) -> tuple[UUID, dict[str, UUID]]:
    """A memory that a model has read: with facts, three entities and two relationships; their ids by name."""
    text = f"{_WORKS} {_LIVES}"
    told = await memory.create_active_memory(tenant, "Ana", text, occurred_at=_EARLY)
    [chunk] = await layout_of(memory, tenant, told.id)
    ids = {name: uuid4() for name in ("Ana Sousa", "Globex", "Porto", "works_at", "lives_in", *facts)}
    plan = MemoryConsolidated(
        memory_id=told.id,
        version=1,
        title="Ana",
        summary="Ana.",
        chunks=(ChunkRating(id=chunk.chunk_id, importance=0.5, confidence=1),),
        embedding_generation=1,
        graph=GraphChanges(
            entities=tuple(
                EntityEntry(id=ids[name], name=name, type="thing", **_COMMON)
                for name in ("Ana Sousa", "Globex", "Porto")
            ),
            relationships=(
                RelationshipEntry(
                    id=ids["works_at"], from_id=ids["Ana Sousa"], to_id=ids["Globex"], type="works_at", **_COMMON
                ),
                RelationshipEntry(
                    id=ids["lives_in"], from_id=ids["Ana Sousa"], to_id=ids["Porto"], type="lives_in", **_COMMON
                ),
            ),
        ),
        facts=tuple(
            FactEntry(id=ids[fact], content=fact, start=0, end=len(text), start_date=_EARLY, **_COMMON)
            for fact in facts
        ),
    )
    await record_event(memory, tenant, EventKind.CONSOLIDATED, plan)
    await memory.admin.consolidate(tenant, told.id)
    return told.id, ids


async def _rows(memory: AgentMem, tenant: str, statement: str) -> list[dict[str, Any]]:
    async with memory._ready().services.runtime.store.transaction(tenant, read_only=True) as db:
        return [dict(row) for row in await db.fetch_all(statement, {"tenant": tenant})]


async def _is_sound(memory: AgentMem, tenant: str) -> None:
    before = await memory.admin.verify(tenant)
    assert (before.ok, before.streams[0].missing_vectors) == (True, 0)
    assert (await memory.admin.rebuild(tenant)).ok


async def _end_work(memory: AgentMem, tenant: str, told: UUID) -> None:
    news = await memory.create_active_memory(tenant, "News", _NEWS, occurred_at=_LATE)
    await consolidate_ending(memory, tenant, news.id, [Said(told, _WORKS)])


async def test_facts_go_with_the_part_that_they_speak_of(memory: AgentMem, tenant: str) -> None:
    """What speaks of the rest stays, and so does what speaks of both; if mostly of what is over, it is marked."""
    over, rest = "Ana Sousa works at Globex.", "Ana lives in Porto."
    both, mostly = "Ana lives in a blue house and works.", "Sousa works at Globex since May, from Porto."
    told, ids = await _told(memory, tenant, [over, rest, both, mostly])

    await _end_work(memory, tenant, told)

    rows = await _rows(
        memory,
        tenant,
        "SELECT content, superseded_at IS NULL AS is_live, derived_from FROM memory_chunk"
        " WHERE external_id = $(tenant)p AND derived_from IS NOT NULL",
    )
    pieces = [chunk.chunk_id for chunk in await layout_of(memory, tenant, told)]
    assert {row["content"]: row["is_live"] for row in rows} == {over: False, rest: True, both: True, mostly: True}
    basis = {row["content"]: [pieces.index(UUID(str(one))) for one in row["derived_from"]] for row in rows}
    assert basis == {over: [0], rest: [1], both: [1], mostly: [1]}
    marks = await _rows(memory, tenant, "SELECT chunk_id FROM outdated_chunk WHERE external_id = $(tenant)p")
    assert [UUID(str(row["chunk_id"])) for row in marks] == [ids[mostly]]
    await _is_sound(memory, tenant)


async def test_mentions_follow_the_names(memory: AgentMem, tenant: str) -> None:
    """What only the over part names is named no more; a relationship whose names stand apart goes on."""
    told, ids = await _told(memory, tenant, [])

    await _end_work(memory, tenant, told)

    entities = await _rows(memory, tenant, "SELECT entity_id, mentions FROM entity WHERE external_id = $(tenant)p")
    mentions = {str(row["entity_id"]): row["mentions"] for row in entities}
    assert (mentions[str(ids["Globex"])], mentions[str(ids["Porto"])]) == (0, 1)
    relationships = await _rows(
        memory,
        tenant,
        "SELECT relationship_id, observations, end_date FROM relationship WHERE external_id = $(tenant)p",
    )
    ended = {str(row["relationship_id"]): (row["observations"], row["end_date"]) for row in relationships}
    assert ended[str(ids["works_at"])] == (0, _LATE)
    # "She" names nobody, so both pieces may say it.
    assert ended[str(ids["lives_in"])] == (1, None)
    await _is_sound(memory, tenant)


async def test_a_cut_of_a_long_text_moves_what_follows(memory: AgentMem, tenant: str) -> None:
    """In a segment that is followed by another one, and appends go on behind them."""
    lines = [f"Robin: On day {day} the boat stayed at the pier. The cook was ill." for day in range(70)]
    log = await memory.create_active_memory(tenant, "Log", "\n".join(lines[:32]), occurred_at=_EARLY)
    for begin in (32, 64):
        await memory.update_active_memory(tenant, log.id, append="\n".join(lines[begin : begin + 32]))
    await memory.admin.consolidate(tenant, log.id)
    news = await memory.create_active_memory(tenant, "News", _NEWS)
    words = [f"On day {day} the boat stayed at the pier." for day in (5, 40)]

    await consolidate_ending(memory, tenant, news.id, [Said(log.id, one) for one in words])
    await memory.update_active_memory(tenant, log.id, append="Robin: The boat is gone.")

    layout = await layout_of(memory, tenant, log.id)
    [stored] = await memory.get_active_memories(tenant, ids=[log.id])
    assert "".join(chunk.content for chunk in layout) == stored.content
    assert [chunk.content.strip() for chunk in layout if chunk.has_ended] == [f"Robin: {one}" for one in words]
    segments = await _rows(
        memory,
        tenant,
        "SELECT first_chunk, cardinality(chunk_ids) AS chunks FROM memory_segment"
        " WHERE external_id = $(tenant)p ORDER BY segment",
    )
    assert [row["first_chunk"] for row in segments][:2] == [33, 33 + segments[0]["chunks"]]
    await _is_sound(memory, tenant)


async def test_a_repetition_that_is_cut_stays_a_repetition(memory: AgentMem, tenant: str) -> None:
    """As a replay has it in which what let it live again was erased; its pieces come back with what it repeats."""
    text = f"{_WORKS} {_LIVES}"
    first = await memory.create_active_memory(tenant, "Ana", text, occurred_at=_EARLY)
    await memory.admin.consolidate(tenant, first.id)
    second = await memory.create_active_memory(tenant, "Copy", text, occurred_at=_EARLY)
    await memory.admin.consolidate(tenant, second.id)
    reason = await memory.create_active_memory(tenant, "Reason", "Nothing of it holds.", occurred_at=_LATE)
    [chunk] = await layout_of(memory, tenant, first.id)
    [by] = await layout_of(memory, tenant, reason.id)
    ended = MemoryEnded(
        memory_id=first.id, reason="replaced", chunks=(chunk.chunk_id,), by=(by.chunk_id,), rests_on=(reason.id,)
    )
    await record_event(memory, tenant, EventKind.ENDED, ended, occurred_at=_LATE)
    news = await memory.create_active_memory(tenant, "News", _NEWS, occurred_at=_LATE)
    await consolidate_ending(memory, tenant, news.id, [Said(second.id, _WORKS)])

    await memory.admin.erase(tenant, memory_id=reason.id)

    assert [one.has_ended for one in await layout_of(memory, tenant, first.id)] == [False]
    pieces = await _rows(
        memory,
        tenant,
        "SELECT content, duplicate_of IS NOT NULL AS repeats, superseded_at IS NULL AS is_live FROM memory_chunk"
        " WHERE external_id = $(tenant)p AND number >> 20 IN ("
        "  SELECT position FROM memory_event WHERE external_id = $(tenant)p AND kind = 'memory.cut') ORDER BY number",
    )
    assert [(row["content"].strip(), row["repeats"], row["is_live"]) for row in pieces] == [
        (_WORKS, False, False),
        (_LIVES, True, False),
    ]
    await _is_sound(memory, tenant)
