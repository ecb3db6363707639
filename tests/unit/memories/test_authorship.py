"""Whose words the lines of a new version are."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_reminiscence.database.repositories.memory_chunk import PassageLabels
from agent_reminiscence.domain.memory import ActiveMemory, StoredChunk, StoredMemory
from agent_reminiscence.domain.payloads import ChunkEntry
from agent_reminiscence.domain.trust import SOURCES, Source
from agent_reminiscence.services.memories.authorship import label_passages, version_entries

_START = datetime(2026, 3, 5, tzinfo=UTC)
_LATER = _START + timedelta(days=1)


def _memory(content: str, **fields: Any) -> StoredMemory:
    defaults: dict[str, Any] = {
        "external_id": "agent-1",
        "memory_id": UUID(int=7),
        "key": None,
        "version": 2,
        "title": "Plan",
        "content": content,
        "description": None,
        "metadata": {},
        "language": "en",
        "language_origin": "default",
        "timezone": "UTC",
        "source": "user",
        "actor": None,
        "conversation_id": None,
        "occurred_at": _START,
        "created_at": _START,
        "updated_at": _START,
        "archived_at": None,
        "consolidated_version": 0,
        "due_version": 0,
        "text_version": 2,
        "chunk_ids": (),
        "chunk_starts": (),
    }
    return StoredMemory(**(defaults | fields))


def _chunk(number: int, content: str, source: Source, **fields: Any) -> StoredChunk:
    defaults: dict[str, Any] = {"speaker": None, "start_date": _START}
    return StoredChunk(
        chunk_id=UUID(int=number),
        content=content,
        tier="active",
        importance=0.5,
        confidence=1.0,
        source=source,
        memory_version=1,
        **(defaults | fields),
    )


def _rewrite(content: str, layout: list[StoredChunk], writer: Source) -> tuple[ChunkEntry, ...]:
    before = "".join(chunk.content for chunk in layout)
    return version_entries(before, _memory(content), layout, writer=writer, occurred_at=_LATER)


def _labelled(
    content: str, entries: tuple[ChunkEntry, ...], layout: list[StoredChunk], writer: Source
) -> list[tuple[str, Source]]:
    """The chunks of a text with the labels that they will have."""
    known = {chunk.chunk_id: chunk.source for chunk in layout}
    return [
        (content[entry.start : entry.end].strip(), entry.source or writer if entry.new else known[entry.id])
        for entry in entries
    ]


def test_a_line_that_a_model_changes_is_a_chunk_of_its_own() -> None:
    """The lines around it are still the user's."""
    layout = [_chunk(1, "The pier is shut.\nThe ferry leaves at nine.\nOla sells the tickets.", "user")]
    content = "The pier is shut.\nThe ferry leaves at ten.\nOla sells the tickets."

    entries = _rewrite(content, layout, "model")

    assert _labelled(content, entries, layout, "model") == [
        ("The pier is shut.", "user"),
        ("The ferry leaves at ten.", "model"),
        ("Ola sells the tickets.", "user"),
    ]
    assert "".join(content[entry.start : entry.end] for entry in entries) == content
    assert [content[entry.start] for entry in entries] == ["T", "T", "O"]


def test_what_a_model_adds_below_a_paragraph_leaves_its_chunk_as_it_is() -> None:
    """It keeps its id, and so its vector, its rating and its history."""
    layout = [_chunk(1, "The pier is shut.\nThe ferry leaves at nine.", "user")]
    content = "The pier is shut.\nThe ferry leaves at nine.\nOla sells the tickets."

    first, added = _rewrite(content, layout, "model")

    assert (first.id, first.new, first.source) == (UUID(int=1), False, None)
    assert (added.new, added.source) == (True, None)


def test_a_user_who_edits_beside_a_models_line_does_not_vouch_for_it() -> None:
    """Nor does one who edits far from it: the line is found again, though the paragraph would now be one chunk."""
    layout = [
        _chunk(1, "The pier is shut.\n", "user"),
        _chunk(2, "The ferry leaves at ten.\n\n", "model"),
        _chunk(3, "Bring boots.", "user"),
    ]
    near = "The pier is open.\nThe ferry leaves at ten.\n\nBring boots."
    far = "The pier is shut.\nThe ferry leaves at ten.\n\nBring a hat."

    edited = _labelled(near, _rewrite(near, layout, "user"), layout, "user")
    elsewhere = _rewrite(far, layout, "user")

    assert edited == [
        ("The pier is open.", "user"),
        ("The ferry leaves at ten.", "model"),
        ("Bring boots.", "user"),
    ]
    assert [entry.id.int for entry in elsewhere if not entry.new] == [1, 2]


def test_a_text_of_one_author_is_laid_out_as_before() -> None:
    """Only where labels differ is there anything to keep apart."""
    layout = [_chunk(1, "The pier is shut.\nThe ferry leaves at nine.", "user")]

    (entry,) = _rewrite("The pier is open.\nThe ferry leaves at nine.", layout, "user")

    assert (entry.new, entry.source) == (True, None)


def test_the_same_words_in_another_mouth_are_trusted_as_little_as_either() -> None:
    """A model that puts a speaker in front of a user's line has made another statement of it."""
    layout = [_chunk(1, "Hello there.\nI owe you ten crowns.", "user", speaker="Ola")]
    content = "Per: Hello, all.\nI owe you ten crowns.\n\nOla: So be it."

    labels = dict(_labelled(content, _rewrite(content, layout, "model"), layout, "model"))

    assert set(labels.values()) == {"model"}


def test_a_chunk_that_holds_from_later_gives_its_label_but_not_its_id() -> None:
    """An update that is told late has chunks of its own from its date on; whose words they are has not changed."""
    layout = [_chunk(1, "The pier is shut.", "user", start_date=_LATER + timedelta(days=1)), _chunk(2, "x", "model")]
    content = "The pier is shut.\n\nThe ferry leaves at nine."

    kept, added = _rewrite(content, layout, "model")

    assert (kept.new, kept.source) == (True, "user")
    assert (added.new, added.source) == (True, None)


_LABELLED_LINES = st.lists(
    st.tuples(st.sampled_from(["ash", "birch", "cedar", "", "  elm"]), st.sampled_from(SOURCES)), max_size=9
)


@example(old=[("ash", "user"), ("ash", "agent")], new=["ash", "birch", "", "ash"], writer="user")
@given(
    old=_LABELLED_LINES,
    new=st.lists(st.sampled_from(["ash", "birch", "cedar", "", "  elm", "fir"]), max_size=9),
    writer=st.sampled_from(SOURCES),
)
def test_no_line_gains_trust_and_none_loses_it(old: list[tuple[str, Source]], new: list[str], writer: Source) -> None:
    """A label that is not the writer's is that of an old line, each of which counts once; an old line keeps its own."""
    layout = [_chunk(number, f"{line}\n", source) for number, (line, source) in enumerate(old)]
    content = "\n".join(new)

    entries = _rewrite(content, layout, writer)

    assert "".join(content[entry.start : entry.end] for entry in entries) == content
    before = Counter((line.strip(), source) for line, source in old)
    after: Counter[tuple[str, Source]] = Counter()
    for text, source in _labelled(content, entries, layout, writer):
        after.update((line.strip(), source) for line in text.splitlines() if line.strip())
    for (line, source), count in after.items():
        assert source == writer or count <= before[line, source]
    for line in filter(None, {line.strip() for line in new}):
        told = {source for text, source in before if text == line}
        there = sum(count for (text, _), count in before.items() if text == line)
        if len(told) == 1 and sum(one.strip() == line for one in new) <= there:
            assert {source for text, source in after if text == line} == told


@pytest.mark.parametrize(
    ("labels", "passages"),
    [
        (PassageLabels(2, ("user", "user", "model"), (4, 4, 5)), [("One.Two.", "user"), ("Three", "model")]),
        (PassageLabels(3, ("user", "user", "model"), (4, 4, 5)), [("One.Two.Three", "model")]),
        (PassageLabels(2, ("user", "model"), (4, 5)), [("One.Two.Three", "model")]),
        (None, [("One.Two.Three", "model")]),
    ],
    ids=["its own", "of another version", "of another text", "none"],
)
def test_a_text_is_cut_only_where_its_own_labels_change(
    labels: PassageLabels | None, passages: list[tuple[str, str]]
) -> None:
    """A memory that has changed since it was read is shown with its least trusted label throughout."""
    memory = ActiveMemory(
        id=UUID(int=1),
        external_id="agent-1",
        version=2,
        title="Count",
        content="One.Two.Three",
        source="model",
        occurred_at=_START,
        created_at=_START,
        updated_at=_START,
        consolidated_version=0,
        updates_until_consolidation=5,
    )

    assert [(one.text, one.source) for one in label_passages(memory, labels)] == passages
