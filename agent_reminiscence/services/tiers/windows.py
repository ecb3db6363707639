"""What a model has read of a memory, window by window, in the form a consolidation uses.

A model proposes with numbers and words. What they refer to, and what it may change at all, is decided here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import batched
from typing import Final
from uuid import UUID

from agent_reminiscence.agents.plans import (
    ConsolidationMaterial,
    KnownEntity,
    KnownRelation,
    NewPassage,
    StoredPassage,
)
from agent_reminiscence.config import constants
from agent_reminiscence.database.repositories.chunk_similarity import NearChunk
from agent_reminiscence.database.repositories.graph.tables import KnownEntityName, StatedRelationship
from agent_reminiscence.domain.graph import ANY_TYPE
from agent_reminiscence.domain.memory import StoredChunk, StoredMemory
from agent_reminiscence.domain.said import said_parts
from agent_reminiscence.domain.trust import SOURCES, Source, may_end, most_trusted
from agent_reminiscence.services.tiers.importance import count_details
from agent_reminiscence.text.days import day_of
from agent_reminiscence.text.folding import WORD, without_speaker
from agent_reminiscence.text.sentences import first_sentence
from agent_reminiscence.text.small_talk import is_small_talk
from agent_reminiscence.text.tokens import count_tokens

# What a model is shown of a memory at a time: tokens and passages of new text, and context from the rest.
WINDOW_TOKENS: Final = 3_000
WINDOW_PASSAGES: Final = 20
WINDOW_CONTEXT_SENTENCES: Final = 12
WINDOW_CONTEXT_CHUNKS: Final = 12
WINDOW_CONTEXT_CHARACTERS: Final = 300
# A stored passage and the name of a known entity are cut to these lengths.
NEAR_SHOWN_CHARACTERS: Final = 1_000
KNOWN_NAME_SHOWN_CHARACTERS: Final = 60
# A passage with fewer words, and no name, number or date, says too little: "I'm vegetarian." does not.
_TELLING_WORDS = 2


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a memory's new chunks, with the context the model is shown.

    Attributes:
        indices: The indices of its chunks in the memory.
        chunks: They themselves, in the order in which they were said. One whose lines were said on different days is
            several here, one for each day.
        title: The memory's title, if its writer is trusted no less than the window.
        named: Known entities that its chunks name, each once, with a name as these chunks spell it.
        also_called: What else its chunks call them, by canonical id.
    """

    indices: tuple[int, ...]
    chunks: tuple[StoredChunk, ...]
    context: tuple[str, ...]
    title: str | None = None
    near: Sequence[NearChunk] = ()
    named: Sequence[KnownEntityName] = ()
    also_called: Mapping[UUID, Sequence[str]] = field(default_factory=dict)
    relationships: Sequence[StatedRelationship] = ()

    @property
    def source(self) -> Source:
        """The label of all its chunks."""
        return self.chunks[0].source

    @property
    def trusted(self) -> Sequence[Source]:
        """The labels that are trusted at least as much as its own."""
        return SOURCES[: SOURCES.index(self.source) + 1]

    @property
    def lesser(self) -> Sequence[Source]:
        """The less trusted labels, most trusted first."""
        return SOURCES[len(self.trusted) :]

    def material(self, memory: StoredMemory) -> ConsolidationMaterial:
        """The window as shown to an agent."""
        spelled = {entity.canonical_id: entity.name for entity in self.named}

        def called(entity_id: UUID, name: str) -> str:
            # Anyone may have written a name that these passages do not have, and made it longer than a name.
            return spelled.get(entity_id, name[:KNOWN_NAME_SHOWN_CHARACTERS])

        return ConsolidationMaterial(
            title=self.title,
            dated=memory.occurred_at,
            passages=tuple(
                NewPassage(
                    text=without_speaker(chunk.content, chunk.speaker).strip(),
                    speaker=chunk.speaker,
                    source=chunk.source,
                    said_at=chunk.said_at,
                )
                for chunk in self.chunks
            ),
            context=self.context,
            stored=tuple(
                StoredPassage(
                    text=chunk.content.strip()[:NEAR_SHOWN_CHARACTERS],
                    speaker=chunk.speaker,
                    source=chunk.source,
                    said_at=chunk.said_at,
                    holds_from=chunk.start_date,
                )
                for chunk in self.near
            ),
            entities=tuple(
                # A type in a model's own words could reveal another memory's text, which is not shown here.
                KnownEntity(
                    name=entity.name,
                    type=entity.type if entity.type in constants.ENTITY_TYPES else ANY_TYPE,
                    also_called=tuple(self.also_called.get(entity.canonical_id, ())),
                )
                for entity in self.named
            ),
            relationships=tuple(
                KnownRelation(
                    from_name=called(one.from_id, one.from_name),
                    type=one.type,
                    to_name=called(one.to_id, one.to_name),
                    since=one.start_date,
                    last_said_at=one.last_observed,
                    source=most_trusted(one.seen),
                    held_by=most_trusted(one.sources),
                )
                for one in self.relationships
            ),
        )

    def rests_on(self, memory: StoredMemory) -> set[UUID]:
        """Other memories that are partly shown."""
        shown = {chunk.memory_id for chunk in self.near}.union(*(one.memory_ids for one in self.relationships))
        return shown - {memory.memory_id}


def make_windows(chunks: Sequence[StoredChunk], before: Sequence[StoredChunk] = ()) -> list[Window]:
    """Split the chunks that no consolidation has read into windows of bounded size, each with an outline of the rest.

    The outline is of `before`, too: the chunks that stand before these in the text.

    All chunks of a window have one label, so whichever passages a model cites, it cannot gain trust. The outline only
    uses text that is trusted no less, so that nothing else speaks for the window's passages.
    """
    windows: list[Window] = []
    read: list[tuple[int, StoredChunk]] = []
    tokens = 0
    for index, chunk in enumerate(chunks):
        if chunk.tier != "active":
            continue
        # Parts of a chunk stay together, unless there are too many for one window.
        for parts in batched(_said_apart(chunk), WINDOW_PASSAGES):
            length = sum(count_tokens(part.content) for part in parts)
            is_full = tokens + length > WINDOW_TOKENS or len(read) + len(parts) > WINDOW_PASSAGES
            if read and (is_full or chunk.source != read[0][1].source):
                windows.append(_window(chunks, read, before))
                read, tokens = [], 0
            read += [(index, part) for part in parts]
            tokens += length
    return [*windows, _window(chunks, read, before)] if read else windows


def _said_apart(chunk: StoredChunk) -> list[StoredChunk]:
    """A chunk cut where the day of its lines changes, so that what a model makes of a line has the line's date.

    Of lines of one day, the date is the last: nothing is true before it was said.
    """
    parts: list[tuple[str, datetime]] = []
    for text, said_at in said_parts(chunk.content, chunk.said_at, chunk.said_lines):
        if parts and day_of(parts[-1][1]) == day_of(said_at):
            parts[-1] = parts[-1][0] + text, max(parts[-1][1], said_at)
        else:
            parts.append((text, said_at))
    return [
        chunk.model_copy(update={"content": text, "first_said": said_at, "said_lines": ()}) for text, said_at in parts
    ]


def _window(
    chunks: Sequence[StoredChunk], read: Sequence[tuple[int, StoredChunk]], before: Sequence[StoredChunk]
) -> Window:
    """A window with sentences from the most important other chunks, in text order.

    Args:
        read: What it shows: chunks or parts of them, with the index of each chunk.
    """
    inside = {index for index, _ in read}
    source = read[0][1].source
    # In the order in which they are shown, so that the numbers of the passages ascend from line to line.
    read = sorted(read, key=lambda one: one[1].said_at)
    # The nearest are what a window answers or goes on with.
    earlier = before[-WINDOW_CONTEXT_CHUNKS:]
    rest = [*earlier, *(chunk for index, chunk in enumerate(chunks) if index not in inside)]
    others = [index for index, chunk in enumerate(rest) if may_end(chunk.source, [source])]
    best = sorted(others, key=lambda index: (-rest[index].importance, index))[:WINDOW_CONTEXT_SENTENCES]
    context = (first_sentence(rest[index].content) for index in sorted(best))
    return Window(
        indices=tuple(index for index, _ in read),
        chunks=tuple(part for _, part in read),
        context=tuple(sentence[:WINDOW_CONTEXT_CHARACTERS] for sentence in context if sentence),
    )


def says_too_little(text: str) -> bool:
    """Whether a stored passage says too little for a new one to contradict it."""
    if is_small_talk(text):
        return True
    # In a script without capitals, a whole clause may be one word.
    is_cased = text.upper() != text.lower()
    return is_cased and not count_details(text) and len(WORD.findall(text)) < _TELLING_WORDS


def set_apart(
    window: Window, near: Sequence[NearChunk], relationships: Sequence[StatedRelationship]
) -> tuple[Window, list[Window]]:
    """Return the window with equally or more trusted context, and one comparison window per lesser label.

    Text may talk a model into anything. So text of a less trusted label is never shown beside more trusted text; it is
    compared with the window separately, and only it can be ended by that comparison. A relationship has the label of
    the most trusted source that states it. Text newer than the whole window is not compared with it.
    """
    last = max(chunk.said_at for chunk in window.chunks)

    def beside(labels: Sequence[Source]) -> Window:
        return replace(
            window,
            near=[one for one in near if one.source in labels],
            relationships=[one for one in relationships if most_trusted(one.seen) in labels],
        )

    def compared(label: Source) -> Window:
        lesser = beside([label])
        return replace(
            lesser,
            title=None,
            context=(),
            named=(),
            near=[one for one in lesser.near if one.start_date <= last],
            relationships=[
                one
                for one in lesser.relationships
                # So many state it that not all were checked; one of them may be more trusted.
                if one.last_observed <= last and most_trusted(one.sources) == label
            ],
        )

    apart = map(compared, window.lesser)
    return beside(window.trusted), [one for one in apart if one.near or one.relationships]
