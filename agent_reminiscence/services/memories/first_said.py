"""When the words of an edited text were first said: line by line, whatever chunks its lines are in.

A line that stood in the former text keeps the date it had there, also in another place or another chunk; any other line
was said when the edit holds from. No date is later than the chunk's own, from which it holds.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from agent_reminiscence.domain.memory import StoredChunk
from agent_reminiscence.domain.payloads import ChunkEntry
from agent_reminiscence.domain.said import SaidFrom

_LINE = re.compile(r"[^\r\n]+")
_WORD_CHARACTER = re.compile(r"[^\W_]")


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of a chunk that says something.

    Attributes:
        text: Without white space around it.
        start: Where it begins, counted from the chunk's first character that is no white space.
    """

    text: str
    start: int


def date_entries(
    content: str, entries: Sequence[ChunkEntry], layout: Sequence[StoredChunk], occurred_at: datetime
) -> tuple[ChunkEntry, ...]:
    """The entries of a new text, its new chunks with the dates on which their words were first said.

    Args:
        content: The new text.
        layout: The chunks of the former text. Those that are not among `entries` are gone, and what they said is looked
            for in the new chunks.
        occurred_at: When the edit holds from.
    """
    stays = {entry.id for entry in entries if not entry.new}
    said = [(line.text, date) for chunk in layout if chunk.chunk_id not in stays for line, date in _dated_lines(chunk)]
    if not said:
        return tuple(entries)
    lines = [_lines(content[entry.start : entry.end]) if entry.new else [] for entry in entries]
    indices = iter(match_lines([text for text, _ in said], [line.text for own in lines for line in own]))
    dated = []
    for entry, own in zip(entries, lines, strict=True):
        holds_from = entry.start_date or occurred_at
        dates = [
            holds_from if index is None else min(said[index][1], holds_from) for index in islice(indices, len(own))
        ]
        dated.append(_dated(entry, own, dates, holds_from))
    return tuple(dated)


def match_lines(before: Sequence[str], after: Sequence[str]) -> list[int | None]:
    """For each line of a text, the index of the former line that it is, each at most once; None: it is new.

    Lines that occur once in both are the same wherever they stand. Of lines that are repeated, those beside a line that
    is found are the same as those beside it in the former text, and the others are taken in order. Takes linear time.

    Source: P. Heckel, "A technique for isolating differences between files", 1978.
    """
    found: list[int | None] = [None] * len(after)
    is_free = [True] * len(before)

    def pair(index: int, place: int) -> None:
        found[index], is_free[place] = place, False

    def pair_if_same(index: int, place: int) -> None:
        if found[index] is None and 0 <= place < len(before) and is_free[place] and before[place] == after[index]:
            pair(index, place)

    counts_before, counts_after = Counter(before), Counter(after)
    places = {text: place for place, text in enumerate(before) if counts_before[text] == 1}
    for index, text in enumerate(after):
        if counts_after[text] == 1 and text in places:
            pair(index, places[text])
    # The beginnings and the ends of both texts are neighbours that are found.
    last: int | None = -1
    for index in range(len(after)):
        if last is not None:
            pair_if_same(index, last + 1)
        last = found[index]
    following: int | None = len(before)
    for index in reversed(range(len(after))):
        if following is not None:
            pair_if_same(index, following - 1)
        following = found[index]
    rest: defaultdict[str, deque[int]] = defaultdict(deque)
    for place, text in enumerate(before):
        if is_free[place]:
            rest[text].append(place)
    for index, text in enumerate(after):
        if found[index] is None and rest.get(text):
            pair(index, rest[text].popleft())
    return found


def _lines(content: str) -> list[_Line]:
    """The lines of a chunk, without blank ones."""
    before = len(content) - len(content.lstrip())
    return [
        _Line(line[0].strip(), max(0, line.start() - before)) for line in _LINE.finditer(content) if line[0].strip()
    ]


def _dated_lines(chunk: StoredChunk) -> Iterator[tuple[_Line, datetime]]:
    """The lines of a stored chunk with their dates."""
    starts = [line.start for line in chunk.said_lines]
    for line in _lines(chunk.content):
        part = bisect_right(starts, line.start) - 1
        yield line, chunk.said_lines[part].said_at if starts else chunk.said_at


def _dated(entry: ChunkEntry, lines: Sequence[_Line], dates: Sequence[datetime], holds_from: datetime) -> ChunkEntry:
    """A chunk's entry with the dates of its lines; the entry itself if all of them are when it holds from."""
    if all(date == holds_from for date in dates):
        return entry
    weights: Counter[datetime] = Counter()
    for line, date in zip(lines, dates, strict=True):
        weights[date] += len(_WORD_CHARACTER.findall(line.text))
    said_at = min(weights, key=lambda date: (-weights[date], date))
    parts = [SaidFrom(start=0, said_at=dates[0])]
    for line, date in zip(lines, dates, strict=True):
        if date != parts[-1].said_at:
            parts.append(SaidFrom(start=line.start, said_at=date))
    dated = {
        "said_at": None if said_at == holds_from else said_at,
        "said_lines": tuple(parts) if len(parts) > 1 else (),
    }
    return ChunkEntry(**dict(entry) | dated)
