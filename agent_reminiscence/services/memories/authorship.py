"""Whose words the lines of a text are: a line that stays in a new version keeps the trust label it had."""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Final
from uuid import UUID

from uuid_utils.compat import uuid7

from agent_reminiscence.agents.plans import LabelledText
from agent_reminiscence.database.repositories.memory_chunk import PassageLabels
from agent_reminiscence.domain.event import ChunkEntry
from agent_reminiscence.domain.memory import ActiveMemory, StoredChunk, StoredMemory
from agent_reminiscence.domain.trust import Source, least_trusted
from agent_reminiscence.services.memories.layout import chunked, match

# The words of a line that has any. The white space before them belongs to the chunk before.
_LINE: Final = re.compile(r"\S[^\r\n]*")

type _Passage = tuple[str, str | None]


def version_entries(
    new: StoredMemory, layout: Sequence[StoredChunk], *, writer: Source, occurred_at: datetime
) -> tuple[ChunkEntry, ...]:
    """The chunks of a memory's new text; those that stay have their old ids.

    Args:
        layout: The chunks of the text that it replaces.
        writer: The label of whoever writes it.
        occurred_at: When the new version begins to hold.
    """
    # A chunk that holds from a later time than this version cannot represent its text from then on.
    stale = {chunk.chunk_id for chunk in layout if chunk.start_date > occurred_at}
    whole = chunked(new.content, new.metadata)
    entries = label_entries(new.content, whole, layout, writer=writer, stale=stale)
    matched = match(new.content, entries, [chunk for chunk in layout if chunk.chunk_id not in stale])
    if entries == whole:
        return matched
    uncut = {entry.id for entry in whole}
    sources = {chunk.chunk_id: chunk.source for chunk in layout}
    # A repetition that the writer added must not take the place of a chunk with another label.
    return tuple(
        now if now.new or entry.id in uncut or sources[now.id] == (entry.source or writer) else entry
        for entry, now in zip(entries, matched, strict=True)
    )


def label_entries(
    content: str,
    entries: Sequence[ChunkEntry],
    layout: Sequence[StoredChunk],
    *,
    writer: Source,
    stale: Collection[UUID] = (),
) -> tuple[ChunkEntry, ...]:
    """Cut the entries of a new text where its lines have different labels, and label what is not the writer's.

    A chunk has one label. Without this, a model that changes one line would put its own label on the whole paragraph,
    and a user who changes one would vouch for what a tool wrote around it. An entry that repeats an old chunk is not
    cut, because that chunk stays with the label that it has.

    Args:
        content: The new text.
        entries: Its chunks, all new.
        layout: The chunks of the text that it replaces.
        writer: The label of whoever writes the new text; that of each line that the old text does not have.
        stale: Old chunks that cannot stay; only their lines are looked up.
    """
    if all(chunk.source == writer for chunk in layout):
        return tuple(entries)
    staying = Counter(_passage(chunk) for chunk in layout if chunk.chunk_id not in stale)
    staying &= Counter(_words(content, entry) for entry in entries)
    authors = _Authors(layout, staying, stale, writer)
    labelled: list[ChunkEntry] = []
    for entry in entries:
        words = _words(content, entry)
        if staying[words]:
            staying[words] -= 1
            labelled.append(entry)
        else:
            labelled += _cut(content, entry, authors, writer)
    return tuple(labelled)


class _Authors:
    """Looks up who wrote a line of the old text, each line once.

    Args:
        staying: How many chunks with these words stay; their lines are not looked up.
    """

    def __init__(
        self, layout: Sequence[StoredChunk], staying: Counter[_Passage], stale: Collection[UUID], writer: Source
    ) -> None:
        self._writer = writer
        self._lines: defaultdict[str, deque[StoredChunk]] = defaultdict(deque)
        left = staying.copy()
        for chunk in layout:
            words = _passage(chunk)
            if left[words] and chunk.chunk_id not in stale:
                left[words] -= 1
                continue
            for line in _LINE.finditer(chunk.content):
                self._lines[line.group().rstrip()].append(chunk)

    def label(self, line: str, speaker: str | None) -> Source:
        """The label of a line of the new text."""
        known = self._lines.get(line)
        if not known:
            return self._writer
        chunk = known.popleft()
        # The same words in another mouth are another statement, for which neither of the two vouches.
        return chunk.source if chunk.speaker == speaker else least_trusted([chunk.source, self._writer])


def _cut(content: str, entry: ChunkEntry, authors: _Authors, writer: Source) -> Iterator[ChunkEntry]:
    labels: list[Source] = []
    starts: list[int] = []
    for line in _LINE.finditer(content, entry.start, entry.end):
        label = authors.label(line.group().rstrip(), entry.speaker)
        if not labels or label != labels[-1]:
            labels.append(label)
            starts.append(line.start() if starts else entry.start)
    if not labels:
        yield entry
    for label, (start, end) in zip(labels, pairwise([*starts, entry.end]), strict=True):
        source = None if label == writer else label
        yield ChunkEntry(**dict(entry) | {"id": uuid7(), "start": start, "end": end, "source": source})


def _words(content: str, entry: ChunkEntry) -> _Passage:
    return content[entry.start : entry.end].strip(), entry.speaker


def _passage(chunk: StoredChunk) -> _Passage:
    return chunk.content.strip(), chunk.speaker


def label_passages(memory: ActiveMemory, labels: PassageLabels | None) -> tuple[LabelledText, ...]:
    """A memory's text, cut where its trust labels change.

    Args:
        labels: Those of its passages; ignored if they are of another version.
    """
    if labels is None or labels.version != memory.version or sum(labels.lengths) != len(memory.content):
        return (LabelledText(memory.content, memory.source),)
    passages: list[LabelledText] = []
    at = 0
    for source, alike in groupby(zip(labels.sources, labels.lengths, strict=True), key=itemgetter(0)):
        end = at + sum(length for _, length in alike)
        passages.append(LabelledText(memory.content[at:end], source))
        at = end
    return tuple(passages)
