"""Where a new text is cut because the old one was: words that are over do not come back by an edit elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from uuid_utils.compat import uuid7

from agent_reminiscence.domain.memory import StoredChunk
from agent_reminiscence.domain.payloads import ChunkEntry
from agent_reminiscence.services.memories.first_said import match_lines


def keep_cuts(
    before: str, content: str, entries: Sequence[ChunkEntry], layout: Sequence[StoredChunk]
) -> tuple[ChunkEntry, ...]:
    """Cut the entries of a new text where pieces of the old one stand that have ended.

    Without this, a text is put into chunks as if it had never been cut, and a sentence that is over would come back
    with the one beside it. A piece whose words were changed, or whose line was, has gone.

    Args:
        before: The old text.
        content: The new one.
        layout: The chunks of the old text, in order.
    """
    ended = list(_find_ended(layout))
    if not ended:
        return tuple(entries)
    kept = [span for span in _place(before, content, ended) if span is not None]
    bounds = sorted({bound for span in kept for bound in span})
    cut: list[ChunkEntry] = []
    for entry in entries:
        inside = [bound for bound in bounds if entry.start < bound < entry.end]
        # White space belongs to what stands before it, so that no entry is without words.
        inside = [
            bound for bound in inside if content[entry.start : bound].strip() and content[bound : entry.end].strip()
        ]
        if not inside:
            cut.append(entry)
            continue
        cut += [
            ChunkEntry(**dict(entry) | {"id": uuid7(), "start": start, "end": end})
            for start, end in pairwise([entry.start, *inside, entry.end])
        ]
    return tuple(cut)


def _find_ended(layout: Sequence[StoredChunk]) -> Iterator[tuple[int, int]]:
    """Where the pieces stand that have ended."""
    start = 0
    for chunk in layout:
        if chunk.is_piece and chunk.has_ended:
            yield start, start + len(chunk.content)
        start += len(chunk.content)


def _place(before: str, content: str, spans: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int] | None]:
    """Where spans of the old text stand in the new one; None where they were changed."""
    if before == content:
        yield from spans
        return
    same_first = _shared(before, content)
    same_last = _shared(before[::-1], content[::-1])
    # What both ends have in common may overlap.
    same_last = min(same_last, len(before) - same_first, len(content) - same_first)
    shift = len(content) - len(before)
    lines = _Lines(before, content)
    for start, end in spans:
        words = before[start:end].rstrip()
        if start + len(words) <= same_first:
            yield start, end
        elif start >= len(before) - same_last:
            yield start + shift, end + shift
        else:
            place = lines.place(start, start + len(words))
            yield None if place is None else (place, place + end - start)


class _Lines:
    """Finds the lines of an old text in a new one."""

    def __init__(self, before: str, content: str) -> None:
        self._before, self._content = before, content
        self._old = before.splitlines(keepends=True)
        self._new = content.splitlines(keepends=True)
        self._starts = _starts(self._old)
        self._places = dict[int, int]()
        new_starts = _starts(self._new)
        found = match_lines([line.rstrip() for line in self._old], [line.rstrip() for line in self._new])
        for index, place in enumerate(found):
            if place is not None:
                self._places[self._starts[place]] = new_starts[index]

    def place(self, start: int, end: int) -> int | None:
        """Where the words from `start` to `end` stand, if the lines that hold them are the same ones."""
        first = max(place for place in self._starts if place <= start)
        if first not in self._places:
            return None
        place = self._places[first] + start - first
        return place if self._content[place : place + end - start] == self._before[start:end] else None


def _shared(one: str, other: str) -> int:
    """How many characters two texts have in common at their beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _starts(lines: Sequence[str]) -> list[int]:
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    return starts
