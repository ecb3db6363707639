"""Events that add up to a memory, and passages that are recognised in a new text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_reminiscence import Event, InvalidInputError
from agent_reminiscence.config.constants import MAX_TEXT_CHUNKS
from agent_reminiscence.domain.event import EventKind
from agent_reminiscence.domain.memory import StoredChunk
from agent_reminiscence.domain.payloads import ChunkEntry
from agent_reminiscence.services.ledger.requests import CreateRequest
from agent_reminiscence.services.memories import layout
from agent_reminiscence.services.memories.fold import fold
from agent_reminiscence.services.memories.layout import match

START = datetime(2026, 3, 5, tzinfo=UTC)
MEMORY = UUID(int=7)


def make_event(position: int, kind: str, payload: dict[str, Any], **fields: Any) -> Event:
    """An event of one memory."""
    defaults: dict[str, Any] = {
        "external_id": "agent-1",
        "event_id": UUID(int=position),
        "kind": kind,
        "payload": {"memory_id": str(MEMORY)} | payload,
        "occurred_at": START + timedelta(days=position),
        "position": position,
        "recorded_at": START + timedelta(hours=position),
        "salt": b"",
        "digest": b"",
        "chain": b"",
    }
    return Event(**(defaults | fields))


def _chunk(number: int, *, new: bool) -> dict[str, Any]:
    return {"id": str(UUID(int=number)), "start": number, "end": number + 1, "new": new}


CREATED = make_event(
    1,
    EventKind.CREATED,
    {
        "title": "Plan",
        "content": "ab",
        "description": "ours",
        "metadata": {"a": 1},
        "chunks": [_chunk(0, new=True), _chunk(1, new=True)],
        "consolidation_due": False,
    },
    actor="ann",
)
UPDATED = make_event(
    3,
    EventKind.UPDATED,
    {
        "version": 2,
        "changes": {"content": "ac", "description": None},
        "chunks": [_chunk(0, new=False), _chunk(2, new=True)],
        "consolidation_due": True,
    },
    source="model",
)
CONSOLIDATED = make_event(
    4,
    EventKind.CONSOLIDATED,
    {"version": 2, "title": "Plan", "summary": "ac", "chunks": [], "embedding_generation": 1},
)
ARCHIVED = make_event(5, EventKind.ARCHIVED, {"version": 2})


def _left(version: int, consolidated_version: int) -> int:
    return 100 * version + consolidated_version


def test_a_creation_is_a_memory() -> None:
    """Every field comes from the event: its payload, its times and who caused it."""
    note = fold([CREATED], _left)

    assert (note.id, note.external_id, note.version) == (MEMORY, "agent-1", 1)
    assert (note.title, note.content, note.description, note.metadata) == ("Plan", "ab", "ours", {"a": 1})
    assert (note.created_at, note.updated_at, note.occurred_at) == (
        CREATED.recorded_at,
        CREATED.recorded_at,
        CREATED.occurred_at,
    )
    assert (note.actor, note.source, note.archived_at) == ("ann", "user", None)
    assert (note.consolidated_version, note.updates_until_consolidation) == (0, 100)
    assert note.write is not None
    assert (note.write.event_id, note.write.position) == (CREATED.event_id, 1)
    assert (note.write.chunks_added, note.write.chunks_kept, note.write.chunks_ended) == (2, 0, 0)


def test_each_event_changes_what_it_says_and_nothing_else() -> None:
    """An update its fields and its provenance, a consolidation its version, an archive the end."""
    updated = fold([CREATED, UPDATED], _left)
    assert (updated.version, updated.title, updated.content, updated.description) == (2, "Plan", "ac", None)
    assert (updated.created_at, updated.updated_at) == (CREATED.recorded_at, UPDATED.recorded_at)
    assert (updated.actor, updated.source) == (None, "model")
    assert updated.write is not None
    assert (updated.write.chunks_added, updated.write.chunks_kept, updated.write.chunks_ended) == (1, 1, 1)
    assert updated.write.consolidation_queued

    consolidated = fold([CREATED, UPDATED, CONSOLIDATED], _left)
    assert consolidated == updated.model_copy(update={"consolidated_version": 2, "updates_until_consolidation": 202})

    archived = fold([CREATED, UPDATED, CONSOLIDATED, ARCHIVED], _left)
    assert archived == consolidated.model_copy(update={"archived_at": ARCHIVED.recorded_at})


def test_a_memory_is_trusted_as_little_as_its_least_trusted_chunk() -> None:
    """Whoever wrote last: only when no chunk of a less trusted writer is left is it the user's again."""
    changes = {"version": 3, "changes": {"content": "ad"}, "consolidation_due": False}
    carried = _chunk(3, new=True) | {"source": "tool"}
    beside = make_event(6, EventKind.UPDATED, changes | {"chunks": [_chunk(2, new=False), _chunk(3, new=True)]})
    with_label = make_event(6, EventKind.UPDATED, changes | {"chunks": [_chunk(0, new=False), carried]})
    instead = make_event(6, EventKind.UPDATED, changes | {"chunks": [_chunk(0, new=False), _chunk(3, new=True)]})
    appended = {"version": 3, "start": 2, "content": "d", "chunks": [_chunk(3, new=True)], "consolidation_due": False}
    longer = make_event(6, EventKind.APPENDED, appended)
    cut = make_event(7, EventKind.UPDATED, changes | {"version": 4, "chunks": [_chunk(3, new=False)]})

    def source(*events: Event) -> str:
        return fold([CREATED, UPDATED, *events], _left).source

    assert (source(beside), source(with_label), source(instead)) == ("model", "tool", "user")
    assert (source(longer), source(longer, cut)) == ("model", "user")


def test_an_event_of_a_users_kind_changes_nothing() -> None:
    """Even one whose payload names the memory."""
    foreign = make_event(2, "world.observed", {"version": 9, "changes": {"title": "mine"}})

    assert fold([CREATED, foreign], _left) == fold([CREATED], _left)


def test_a_memory_begins_with_its_creation() -> None:
    """Anything else is a stream that was read wrongly."""
    with pytest.raises(ValueError, match=r"the first event of a memory must be memory\.created, not memory.updated"):
        fold([UPDATED], _left)


def make_chunk(number: int, content: str, speaker: str | None = None) -> StoredChunk:
    """A stored chunk."""
    return StoredChunk(
        chunk_id=UUID(int=number),
        content=content,
        speaker=speaker,
        tier="active",
        importance=0.5,
        confidence=1.0,
        source="user",
        memory_version=1,
        start_date=START,
        metadata={"old": number},
    )


def _entries(passages: list[tuple[str, str | None]]) -> tuple[str, list[ChunkEntry]]:
    text, entries = "", []
    for number, (words, speaker) in enumerate(passages):
        entries.append(
            ChunkEntry(
                id=UUID(int=1_000 + number), start=len(text), end=len(text) + len(words), speaker=speaker, new=True
            )
        )
        text += words
    return text, entries


PASSAGES = st.lists(st.tuples(st.sampled_from(["a ", "b ", "c "]), st.sampled_from([None, "Ann", "Bob"])), max_size=8)


@given(old=PASSAGES, new=PASSAGES)
def test_each_old_passage_is_recognised_at_most_once_and_as_often_as_possible(
    old: list[tuple[str, str | None]], new: list[tuple[str, str | None]]
) -> None:
    """Same words and same speaker keep the chunk; places and metadata are always those of the new text."""
    layout = [make_chunk(number, words, speaker) for number, (words, speaker) in enumerate(old)]
    text, entries = _entries(new)

    matched = match(text, entries, layout)

    assert [(entry.start, entry.end, entry.speaker, entry.metadata) for entry in matched] == [
        (entry.start, entry.end, entry.speaker, entry.metadata) for entry in entries
    ]
    kept = [entry for entry in matched if not entry.new]
    assert len({entry.id for entry in kept}) == len(kept)
    for entry in kept:
        chunk = layout[entry.id.int]
        assert (text[entry.start : entry.end], entry.speaker) == (chunk.content, chunk.speaker)
    for passage in set(new):
        recognised = sum((text[entry.start : entry.end], entry.speaker) == passage for entry in kept)
        assert recognised == min(old.count(passage), new.count(passage))


@given(ended=st.lists(st.booleans(), max_size=9), wanted=st.integers(0, 9))
def test_of_equal_passages_those_that_have_ended_go_first(ended: list[bool], wanted: int) -> None:
    """What the text still says is found; the others keep their order."""
    layout = [
        make_chunk(number, "a ").model_copy(update={"has_ended": has_ended}) for number, has_ended in enumerate(ended)
    ]
    text, entries = _entries([("a ", None)] * wanted)

    kept = [entry.id.int for entry in match(text, entries, layout) if not entry.new]

    surplus = max(0, len(ended) - wanted)
    gone = [number for number, has_ended in enumerate(ended) if has_ended][:surplus]
    assert kept == [number for number in range(len(ended)) if number not in gone][:wanted]


@pytest.mark.thorough
def test_ten_thousand_equal_passages_are_matched_in_one_go() -> None:
    """A log says the same all day; comparing each with each would take minutes."""
    layout = [make_chunk(0, "a ")] * 10_000 + [make_chunk(1, "a ").model_copy(update={"has_ended": True})] * 10_000
    text, entries = _entries([("a ", None)] * 10_000)

    matched = match(text, entries, layout)

    assert {entry.id for entry in matched} == {UUID(int=0)}


def _request(content: str) -> CreateRequest:
    return CreateRequest(
        external_id="agent-1", title="Log", content=content, description=None, metadata={}, redactions={}
    )


async def test_a_text_of_too_many_chunks_is_refused_with_their_number_and_the_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of a million characters could have three hundred thousand, each a row of several tables."""
    monkeypatch.setattr(layout, "MAX_TEXT_CHUNKS", 30)
    paragraphs = [f"Entry {number}." for number in range(31)]

    with pytest.raises(InvalidInputError, match=r"into 31 chunks; the limit is 30\. Split it into several memories"):
        await layout.plan_creations([_request("\n\n".join(paragraphs))], None, "UTC")
    with pytest.raises(InvalidInputError, match=r"into 31 chunks"):
        layout.chunked("\n\n".join(paragraphs), {})
    [payload] = await layout.plan_creations([_request("\n\n".join(paragraphs[:30]))], None, "UTC")

    assert len(payload.chunks) == 30


def test_the_limit_is_above_what_logs_and_books_have() -> None:
    """Ten thousand lines of two words are a memory like any other."""
    assert MAX_TEXT_CHUNKS >= 20_000
