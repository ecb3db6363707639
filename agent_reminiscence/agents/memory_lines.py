"""The lines of a memory: numbered as a model is shown them, each with its label, and changed one by one."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import accumulate

from agent_reminiscence.agents.plans import LabelledText
from agent_reminiscence.domain.trust import Source, least_trusted

# What a line of a list begins with; a changed line keeps it.
_BULLET = re.compile(r"\s*(?:(?:[-*•–]|(\d{1,3})[.)])\s+)?")
# A list's next item begins like its last one, unless the items are numbered.
_PLAIN_BULLET = re.compile(r"\s*[-*•–]\s+")


@dataclass(frozen=True, slots=True)
class MemoryLine:
    """A line that has words.

    Attributes:
        number: From 1; blank lines do not count.
        text: Without white space around it.
        source: The least trusted label of its words.
    """

    number: int
    text: str
    source: Source


def read_lines(content: str, passages: Sequence[LabelledText]) -> list[MemoryLine]:
    """The lines of a memory's text.

    Args:
        passages: The text, cut where its trust labels change.
    """
    ends = list(accumulate(len(passage.text) for passage in passages))
    lines: list[MemoryLine] = []
    at = 0
    for whole, text in _split(content):
        start, end = at, at + len(whole)
        at = end
        if text.strip():
            first = bisect_right(ends, start)
            last = max(first, bisect_right(ends, start + len(text) - 1))
            source = least_trusted(passage.source for passage in passages[first : last + 1])
            lines.append(MemoryLine(len(lines) + 1, text.strip(), source))
    return lines


def change_lines(content: str, changed: Mapping[int, str], added: Sequence[str]) -> str:
    """A memory's text with other lines; those that are not named stay as they are.

    Args:
        changed: The new text by the number of the line; '' takes it out.
        added: Lines to add at the end.
    """
    parts: list[str] = []
    number = 0
    last = ""
    counted = frozenset(int(match[1]) for _, text in _split(content) if (match := _BULLET.match(text)) and match[1])
    for whole, text in _split(content):
        if not text.strip():
            parts.append(whole)
            continue
        number += 1
        new = changed.get(number)
        if new is None:
            parts.append(whole)
        elif new:
            parts.append(_like(text, new, counted) + whole[len(text) :])
        if new != "":
            last = text
    rest = "".join(parts).lstrip("\r\n").rstrip()
    bullet = _PLAIN_BULLET.match(last)
    begin = bullet[0] if bullet else ""
    more = [line if _PLAIN_BULLET.match(line) else f"{begin}{line}" for line in added]
    return "\n".join([*([rest] if rest else []), *more])


def _like(before: str, after: str, counted: AbstractSet[int]) -> str:
    """A new text for a line, with the indentation and the bullet that it had.

    Args:
        counted: The numbers that lines begin with. One without a neighbour is text: "12. Mai ist Annas Tag."
    """
    begin = _BULLET.match(before)
    whole = begin[0] if begin else ""
    bullet = whole.strip()
    is_date = begin is not None and begin[1] is not None and counted.isdisjoint({int(begin[1]) - 1, int(begin[1]) + 1})
    if not bullet or is_date or after.startswith(bullet) or _PLAIN_BULLET.match(after):
        return whole[: len(whole) - len(whole.lstrip())] + after
    return whole + after


def _split(content: str) -> Iterator[tuple[str, str]]:
    """The lines with and without their line breaks; joined, the former are the text."""
    return zip(content.splitlines(keepends=True), content.splitlines(), strict=True)
