"""What a model has read of a memory, window by window, in the form a consolidation uses.

A model proposes with numbers and words. What they refer to, and what it may change at all, is decided here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from agent_reminiscence.database.repositories.graph.tables import KnownEntityName, StatedRelationship
from agent_reminiscence.database.repositories.memory_chunk import NearChunk
from agent_reminiscence.domain.graph import ANY_TYPE
from agent_reminiscence.domain.memory import StoredChunk, StoredMemory
from agent_reminiscence.domain.trust import SOURCES, Source, may_end, most_trusted
from agent_reminiscence.text.folding import without_speaker
from agent_reminiscence.text.sentences import first_sentence
from agent_reminiscence.text.tokens import count_tokens

# What a model is shown of a memory at a time: tokens and chunks of new text, and context from the rest.
WINDOW_TOKENS: Final = 3_000
WINDOW_CHUNKS: Final = 40
WINDOW_CONTEXT_SENTENCES: Final = 12
WINDOW_CONTEXT_CHUNKS: Final = 12
WINDOW_CONTEXT_CHARACTERS: Final = 300
# A stored passage and the name of a known entity are cut to these lengths.
NEAR_SHOWN_CHARACTERS: Final = 1_000
KNOWN_NAME_SHOWN_CHARACTERS: Final = 60


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a memory's new chunks, with the context the model is shown.

    Attributes:
        indices: The indices of its chunks in the memory.
        title: The memory's title, if its writer is trusted no less than the window.
        named: Known entities that its chunks name, with their names as these chunks spell them.
        spelled: What its chunks call known entities, by canonical id.
    """

    indices: tuple[int, ...]
    chunks: tuple[StoredChunk, ...]
    context: tuple[str, ...]
    title: str | None = None
    near: Sequence[NearChunk] = ()
    named: Sequence[KnownEntityName] = ()
    spelled: Mapping[UUID, str] = field(default_factory=dict)
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
        return ConsolidationMaterial(
            title=self.title,
            dated=memory.occurred_at,
            passages=tuple(
                NewPassage(
                    text=without_speaker(chunk.content, chunk.speaker).strip(),
                    speaker=chunk.speaker,
                    source=chunk.source,
                    said_at=chunk.start_date,
                )
                for chunk in self.chunks
            ),
            context=self.context,
            stored=tuple(
                StoredPassage(
                    text=chunk.content.strip()[:NEAR_SHOWN_CHARACTERS],
                    speaker=chunk.speaker,
                    source=chunk.source,
                    said_at=chunk.start_date,
                )
                for chunk in self.near
            ),
            entities=tuple(
                # A type in a model's own words could reveal another memory's text, which is not shown here.
                KnownEntity(
                    name=entity.name,
                    type=entity.type if entity.type in constants.ENTITY_TYPES else ANY_TYPE,
                )
                for entity in self.named
            ),
            relationships=tuple(
                KnownRelation(
                    from_name=self._called(one.from_id, one.from_name),
                    type=one.type,
                    to_name=self._called(one.to_id, one.to_name),
                    since=one.start_date,
                    last_said_at=one.last_observed,
                    source=most_trusted(one.seen),
                    held_by=most_trusted(one.sources),
                )
                for one in self.relationships
            ),
        )

    def _called(self, entity_id: UUID, name: str) -> str:
        """A known name as the passages spell it, otherwise cut to the length of a name: anyone may have written it."""
        return self.spelled.get(entity_id, name[:KNOWN_NAME_SHOWN_CHARACTERS])

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
    indices: list[int] = []
    tokens = 0
    for index, chunk in enumerate(chunks):
        if chunk.tier != "active":
            continue
        length = count_tokens(chunk.content)
        is_full = tokens + length > WINDOW_TOKENS or len(indices) == WINDOW_CHUNKS
        if indices and (is_full or chunk.source != chunks[indices[0]].source):
            windows.append(_window(chunks, indices, before))
            indices, tokens = [], 0
        indices.append(index)
        tokens += length
    return [*windows, _window(chunks, indices, before)] if indices else windows


def _window(chunks: Sequence[StoredChunk], indices: Sequence[int], before: Sequence[StoredChunk]) -> Window:
    """A window with sentences from the most important other chunks, in text order."""
    inside = set(indices)
    source = chunks[indices[0]].source
    # The nearest are what a window answers or goes on with.
    earlier = before[-WINDOW_CONTEXT_CHUNKS:]
    rest = [*earlier, *(chunk for index, chunk in enumerate(chunks) if index not in inside)]
    others = [index for index, chunk in enumerate(rest) if may_end(chunk.source, [source])]
    best = sorted(others, key=lambda index: (-rest[index].importance, index))[:WINDOW_CONTEXT_SENTENCES]
    context = (first_sentence(rest[index].content) for index in sorted(best))
    return Window(
        indices=tuple(indices),
        chunks=tuple(chunks[index] for index in indices),
        context=tuple(sentence[:WINDOW_CONTEXT_CHARACTERS] for sentence in context if sentence),
    )


def set_apart(
    window: Window, near: Sequence[NearChunk], relationships: Sequence[StatedRelationship]
) -> tuple[Window, list[Window]]:
    """Return the window with equally or more trusted context, and one comparison window per lesser label.

    Text may talk a model into anything. So text of a less trusted label is never shown beside more trusted text; it is
    compared with the window separately, and only it can be ended by that comparison. A relationship has the label of
    the most trusted source that states it. Text newer than the whole window is not compared with it.
    """
    last = max(chunk.start_date for chunk in window.chunks)

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
