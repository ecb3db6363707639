"""Whose words the lines of a text are: a line that stays in a new version keeps the trust label it had."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Final

from uuid_utils.compat import uuid7

from agent_reminiscence.agents.plans import LabelledText
from agent_reminiscence.database.repositories.memory_chunk import PassageLabels
from agent_reminiscence.domain.memory import ActiveMemory, StoredChunk, StoredMemory
from agent_reminiscence.domain.payloads import ChunkEntry
from agent_reminiscence.domain.trust import Source, least_trusted
from agent_reminiscence.services.memories.kept_cuts import keep_cuts
from agent_reminiscence.services.memories.layout import chunked, match

# The words of a line that has any. The white space before them belongs to the chunk before.
_LINE: Final = re.compile(r"\S[^\r\n]*")

type _Passage = tuple[str, str | None]


def version_entries(
    before: str, new: StoredMemory, layout: Sequence[StoredChunk], *, writer: Source, occurred_at: datetime
) -> tuple[ChunkEntry, ...]:
    """The chunks of a memory's new text; those that stay have their old ids.

    Args:
        before: The text that it replaces.
        layout: The chunks of that text.
        writer: The label of whoever writes it.
        occurred_at: When the new version begins to hold.
    """
    # A chunk that holds from a later time than this version cannot represent its text from then on.
    live = [chunk for chunk in layout if chunk.start_date <= occurred_at]
    entries = keep_cuts(before, new.content, chunked(new.content, new.metadata), layout)
    matched = match(new.content, entries, live)
    if all(chunk.source == writer for chunk in layout):
        return matched
    stays = {entry.id for entry in matched if not entry.new}
    gone = [chunk for chunk in layout if chunk.chunk_id not in stays]
    authors = _Authors(gone, writer)
    pieces = [piece for entry in matched for piece in ([entry] if not entry.new else _cut(new.content, entry, authors))]
    left = [chunk for chunk in live if chunk.chunk_id not in stays]
    return tuple(_match_labelled(new.content, pieces, left, writer))


def _match_labelled(
    content: str, pieces: Sequence[ChunkEntry], layout: Sequence[StoredChunk], writer: Source
) -> Iterator[ChunkEntry]:
    """Reuse the id of an old chunk that says the same as a new piece and has its label, live ones first."""
    old: defaultdict[tuple[_Passage, Source], deque[StoredChunk]] = defaultdict(deque)
    for chunk in sorted(layout, key=lambda chunk: chunk.has_ended):
        old[_passage(chunk), chunk.source].append(chunk)
    for piece in pieces:
        same = old.get((_words(content, piece), piece.source or writer)) if piece.new else None
        if same:
            yield ChunkEntry(**dict(piece) | {"id": same.popleft().chunk_id, "new": False, "source": None})
        else:
            yield piece


class _Authors:
    """Looks up who wrote a line of the old text, each line once.

    Args:
        gone: The chunks of the old text that do not stay; those that do have their lines themselves.
        writer: The label of whoever writes the new text; that of each line that the old text does not have.
    """

    def __init__(self, gone: Sequence[StoredChunk], writer: Source) -> None:
        self.writer = writer
        self._lines: defaultdict[str, deque[StoredChunk]] = defaultdict(deque)
        for chunk in gone:
            for line in _LINE.finditer(chunk.content):
                self._lines[line.group().rstrip()].append(chunk)

    def label(self, line: str, speaker: str | None) -> Source:
        """The label of a line of the new text."""
        known = self._lines.get(line)
        if not known:
            return self.writer
        chunk = known.popleft()
        # The same words in another mouth are another statement, for which neither of the two vouches.
        return chunk.source if chunk.speaker == speaker else least_trusted([chunk.source, self.writer])


def _cut(content: str, entry: ChunkEntry, authors: _Authors) -> Iterator[ChunkEntry]:
    """Cut a new chunk where its lines have different labels, and label what is not the writer's.

    A chunk has one label. Without this, a model that changes one line would put its own label on the whole paragraph,
    and a user who changes one would vouch for what a tool wrote around it.
    """
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
        source = None if label == authors.writer else label
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
