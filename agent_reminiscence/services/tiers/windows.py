"""What a model has read of a memory, window by window, in the form a consolidation uses.

A model proposes with numbers and words. What they refer to, and what it may change at all, is decided here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from itertools import batched
from typing import Final, NamedTuple
from uuid import UUID

from agent_reminiscence.agents.plans import (
    ConsolidationMaterial,
    KnownEntity,
    KnownRelation,
    NewPassage,
    StoredPassage,
)
from agent_reminiscence.config import constants
from agent_reminiscence.config.timezones import stored_zone
from agent_reminiscence.database.repositories.chunk_similarity import NearChunk
from agent_reminiscence.database.repositories.graph.tables import KnownEntityName, StatedRelationship
from agent_reminiscence.domain.graph import ANY_TYPE
from agent_reminiscence.domain.memory import StoredChunk, StoredMemory
from agent_reminiscence.domain.said import said_parts
from agent_reminiscence.domain.trust import SOURCES, Source, may_end, most_trusted
from agent_reminiscence.services.tiers.importance import count_details
from agent_reminiscence.text.days import day_of
from agent_reminiscence.text.folding import WORD, without_speaker
from agent_reminiscence.text.periods import is_question
from agent_reminiscence.text.sentences import first_sentence, split_sentences
from agent_reminiscence.text.small_talk import is_small_talk
from agent_reminiscence.text.statements import Span
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
# A sentence with fewer words, and no name, number or date, says too little; and so does one of only the words below.
_TELLING_WORDS = 2
_SAYING_LITTLE = frozenset(
    word
    for words in (
        "a an the that this it so very really just and but then well oh ah i i'm i'll i'd you you'll we we'll they he",
        "she me my your our is are was were be been would will can could do does did don't to of for at in on with too",
        "all sounds sound great good nice lovely wonderful amazing awesome fun glad happy sorry hope wish know think",
        "guess see love like that's it's what's there's let's let thanks thank please yes no sure ok okay wow haha",
        "congratulations das ist es ja nein so sehr wirklich nur und aber dann ich du wir sie er mir dir schön gut",
        "toll super klar danke leid tut freut mich dich klingt hoffe glaube weiß",
    )
    for word in words.split()
)


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a memory's new chunks, with the context the model is shown.

    Attributes:
        indices: The indices of its chunks in the memory.
        chunks: They themselves, in the order in which they were said. One whose lines were said on different days is
            several here, one for each day.
        spans: Where each of these stands in its chunk, as characters of it; None for a whole chunk. Empty: all are
            whole.
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
    spans: tuple[Span | None, ...] = ()

    @property
    def source(self) -> Source:
        """The label of all its chunks."""
        return self.chunks[0].source

    def span_of(self, index: int) -> Span | None:
        """Where one of `chunks` stands in its chunk; None for a whole chunk."""
        return self.spans[index] if self.spans else None

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
            zone=stored_zone(memory.timezone),
            passages=tuple(
                NewPassage(
                    text=shown_text(chunk)[0],
                    speaker=chunk.speaker,
                    source=chunk.source,
                    said_at=chunk.said_at,
                )
                for chunk in self.chunks
            ),
            context=self.context,
            stored=tuple(
                StoredPassage(
                    text=shown_text(chunk)[0][:NEAR_SHOWN_CHARACTERS],
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


def shown_text(chunk: StoredChunk | NearChunk) -> tuple[str, int]:
    """What a model is shown of a chunk, apart from its speaker, and at which of its characters that begins."""
    said = without_speaker(chunk.content, chunk.speaker)
    text = said.strip()
    return text, len(chunk.content) - len(said.lstrip())


def make_windows(
    chunks: Sequence[StoredChunk], before: Sequence[StoredChunk] = (), *, zone: tzinfo = UTC
) -> list[Window]:
    """Split the chunks that no consolidation has read into windows of bounded size, each with an outline of the rest.

    The outline is of `before`, too: the chunks that stand before these in the text.

    All chunks of a window have one label, so whichever passages a model cites, it cannot gain trust. The outline only
    uses text that is trusted no less, so that nothing else speaks for the window's passages.

    Args:
        zone: The memory's: lines of different days are passages of their own.
    """
    windows: list[Window] = []
    read: list[_Part] = []
    tokens = 0
    for index, chunk in enumerate(chunks):
        if chunk.tier != "active":
            continue
        # Parts of a chunk stay together, unless there are too many for one window.
        for parts in batched(_said_apart(chunk, zone), WINDOW_PASSAGES):
            length = sum(count_tokens(part.content) for part, _ in parts)
            is_full = tokens + length > WINDOW_TOKENS or len(read) + len(parts) > WINDOW_PASSAGES
            if read and (is_full or chunk.source != read[0].chunk.source):
                windows.append(_window(chunks, read, before))
                read, tokens = [], 0
            read += [_Part(index, part, span) for part, span in parts]
            tokens += length
    return [*windows, _window(chunks, read, before)] if read else windows


class _Part(NamedTuple):
    """A chunk, or its lines of one day, with the number of the chunk, from 0, and where they stand in it."""

    number: int
    chunk: StoredChunk
    span: Span | None


def _said_apart(chunk: StoredChunk, zone: tzinfo) -> list[tuple[StoredChunk, Span | None]]:
    """A chunk cut where the day of its lines changes, so that what a model makes of a line has the line's date.

    Of lines of one day, the date is the last: nothing is true before it was said.
    """
    parts: list[tuple[str, datetime]] = []
    for text, said_at in said_parts(chunk.content, chunk.said_at, chunk.said_lines):
        if parts and day_of(parts[-1][1], zone) == day_of(said_at, zone):
            parts[-1] = parts[-1][0] + text, max(parts[-1][1], said_at)
        else:
            parts.append((text, said_at))
    cut: list[tuple[StoredChunk, Span | None]] = []
    start = 0
    for text, said_at in parts:
        part = chunk.model_copy(update={"content": text, "first_said": said_at, "said_lines": ()})
        cut.append((part, Span(start, start + len(text)) if len(parts) > 1 else None))
        start += len(text)
    return cut


def _window(chunks: Sequence[StoredChunk], read: Sequence[_Part], before: Sequence[StoredChunk]) -> Window:
    """A window with sentences from the most important other chunks, in text order.

    Args:
        read: What it shows.
    """
    inside = {part.number for part in read}
    source = read[0].chunk.source
    # In the order in which they are shown, so that the numbers of the passages ascend from line to line.
    read = sorted(read, key=lambda part: part.chunk.said_at)
    # The nearest are what a window answers or goes on with.
    earlier = before[-WINDOW_CONTEXT_CHUNKS:]
    rest = [*earlier, *(chunk for index, chunk in enumerate(chunks) if index not in inside)]
    others = [index for index, chunk in enumerate(rest) if may_end(chunk.source, [source])]
    best = sorted(others, key=lambda index: (-rest[index].importance, index))[:WINDOW_CONTEXT_SENTENCES]
    context = (first_sentence(rest[index].content) for index in sorted(best))
    return Window(
        indices=tuple(part.number for part in read),
        chunks=tuple(part.chunk for part in read),
        spans=tuple(part.span for part in read),
        context=tuple(sentence[:WINDOW_CONTEXT_CHARACTERS] for sentence in context if sentence),
    )


def says_too_little(text: str) -> bool:
    """Whether a passage says too little to contradict another, or to be contradicted: it greets, asks or agrees."""
    return not any(_tells(sentence) for sentence in split_sentences(text))


def _tells(sentence: str) -> bool:
    if is_question(sentence) or is_small_talk(sentence):
        return False
    # In a script without capitals, a whole clause may be one word.
    is_cased = sentence.upper() != sentence.lower()
    if not is_cased or count_details(sentence):
        return True
    words = WORD.findall(sentence.casefold())
    # "I'm so sorry", "That sounds great" and "I hope so" agree; "I'm vegetarian" tells.
    return len(words) >= _TELLING_WORDS and not _SAYING_LITTLE.issuperset(words)


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
