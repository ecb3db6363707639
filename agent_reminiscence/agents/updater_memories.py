"""Which memories a conversation is compared with, and how much of each is shown.

Those that were updated last come first, then those that share rare words with the conversation, then the rest from the
latest on: whole while there is room, else the lines that fit the conversation best. A change names lines, so what is
not shown cannot be lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import log
from typing import Any, Final
from uuid import UUID

from agent_reminiscence.agents.material import as_line, cut
from agent_reminiscence.agents.memory_lines import MemoryLine, read_lines
from agent_reminiscence.agents.plans import LabelledText, Said
from agent_reminiscence.config.timezones import stored_zone
from agent_reminiscence.domain.memory import ActiveMemory
from agent_reminiscence.text.days import iso_day
from agent_reminiscence.text.tokens import count_tokens
from agent_reminiscence.text.words import analyse

# All that is shown of memories: some fifty short ones.
MEMORIES_TOKENS: Final = 2_000
# A memory that is longer, or does not fit whole, is shown in part.
WHOLE_TOKENS: Final = 1_000
PART_TOKENS: Final = 500
# Of a longer line of such a memory only the beginning is shown, and it cannot be changed.
LINE_CHARACTERS: Final = 600
BEGINNING_CHARACTERS: Final = 200
# The memories that were updated last come before all others: "it closes at eight now" does not name the shop.
LATEST_MEMORIES: Final = 3
# With less room than this, not even the beginning of a memory is shown.
_LEAST_TOKENS: Final = 40
# The beginning of a memory in which words are looked for; what follows is shown only if all of it is.
_SEARCHED_CHARACTERS: Final = 20_000
_TITLE_CHARACTERS: Final = 100
# How many lines that do not fit are tried before the rest of a memory is left out.
_MISSES: Final = 20


@dataclass(frozen=True, slots=True)
class ShownMemory:
    """A memory as a model is shown it.

    Attributes:
        lines: Those that are shown, by number.
        cut_lines: The numbers of the lines that are shown cut off.
        hidden: How many lines are not shown.
    """

    memory: ActiveMemory
    lines: Mapping[int, MemoryLine]
    cut_lines: frozenset[int] = frozenset()
    hidden: int = 0

    def rows(self, number: int) -> list[dict[str, Any]]:
        """One row, or several with the same number if its words are of several trust labels."""
        groups = [(source, list(lines)) for source, lines in groupby(self.lines.values(), key=lambda one: one.source)]
        title, _ = cut(self.memory.title, _TITLE_CHARACTERS)
        rows: list[dict[str, Any]] = []
        for source, lines in groups or [(self.memory.source, [])]:
            head = {"memory": number, "trust": source}
            if not rows:
                head |= {"title": title, "date": iso_day(self.memory.occurred_at, stored_zone(self.memory.timezone))}
            rows.append(head | {"lines": {str(line.number): self._text(line) for line in lines}})
        if self.cut_lines:
            rows[0]["cut_lines"] = sorted(self.cut_lines)
        if self.hidden:
            rows[0]["lines_not_shown"] = self.hidden
        return rows

    def _text(self, line: MemoryLine) -> str:
        return cut(line.text, BEGINNING_CHARACTERS)[0] if line.number in self.cut_lines else line.text


def choose_memories(
    memories: Sequence[ActiveMemory], passages: Mapping[UUID, Sequence[LabelledText]], said: Sequence[Said]
) -> list[ShownMemory]:
    """The memories to show, oldest first; takes some milliseconds for a megabyte of them.

    Args:
        passages: The texts of memories, cut where their trust labels change; a memory without is one passage.
    """
    words = _ConversationWords(said, memories)
    room = MEMORIES_TOKENS
    chosen: list[tuple[int, ShownMemory]] = []
    for index in words.order:
        if room < _LEAST_TOKENS:
            break
        memory = memories[index]
        labelled = passages.get(memory.id) or (LabelledText(memory.content, memory.source),)
        shown = _show(memory, labelled, words, room)
        if shown is not None:
            room -= _tokens(shown)
            chosen.append((index, shown))
    return [shown for _, shown in sorted(chosen, key=lambda one: one[0])]


def _show(
    memory: ActiveMemory, labelled: Sequence[LabelledText], words: _ConversationWords, room: int
) -> ShownMemory | None:
    """As much of a memory as fits; None if nothing does."""
    lines = read_lines(_searched(memory.content), labelled)
    # Hardly any text has eight characters to a token: a longer one is not even counted.
    if len(memory.content) <= 8 * WHOLE_TOKENS:
        whole = ShownMemory(memory, {line.number: line for line in lines})
        if _tokens(whole) <= min(room, WHOLE_TOKENS):
            return whole
    count = sum(1 for line in memory.content.splitlines() if line.strip())
    room = min(room, PART_TOKENS)
    part: ShownMemory | None = None
    kept: list[MemoryLine] = []
    misses = 0
    # The first line says what a text is about; those that share most with the conversation come next.
    for line in sorted(
        lines, key=lambda line: (line.number > 1, -words.score(line.text, memory.language), line.number)
    ):
        longer = _part(memory, sorted([*kept, line], key=lambda one: one.number), count)
        if _tokens(longer) <= room:
            kept, part = [*kept, line], longer
        elif (misses := misses + 1) > _MISSES:
            break
    return part


def _searched(content: str) -> str:
    """The lines that begin and end where words are looked for: of half a line, a change would lose the rest."""
    if len(content) <= _SEARCHED_CHARACTERS:
        return content
    whole = content[: _SEARCHED_CHARACTERS + 1].splitlines(keepends=True)
    # A single line that is longer is too long to be changed, and only its beginning is shown.
    return "".join(whole[:-1]) or content[:_SEARCHED_CHARACTERS]


def _part(memory: ActiveMemory, lines: Sequence[MemoryLine], count: int) -> ShownMemory:
    are_cut = frozenset(line.number for line in lines if len(line.text) > LINE_CHARACTERS)
    return ShownMemory(memory, {line.number: line for line in lines}, are_cut, hidden=count - len(lines))


def _tokens(shown: ShownMemory) -> int:
    return sum(count_tokens(as_line(row)) for row in shown.rows(999))


class _ConversationWords:
    """The words of a conversation, each with what it tells about which memory is meant.

    Attributes:
        order: The indices of the memories, those to be shown first in front.
    """

    def __init__(self, said: Sequence[Said], memories: Sequence[ActiveMemory]) -> None:
        text = "\n".join(one.text for one in said if not one.is_recalled)
        languages = {memory.language for memory in memories}
        self._said = {language: frozenset(analyse(text, language)) for language in languages}
        shared = [
            self._said[memory.language]
            & frozenset(analyse(f"{memory.title}\n{memory.content[:_SEARCHED_CHARACTERS]}", memory.language))
            for memory in memories
        ]
        counts = Counter(word for words in shared for word in words)
        self._weights = {word: log(1 + len(memories) / count) for word, count in counts.items()}
        latest = sorted(range(len(memories)), key=lambda index: (memories[index].updated_at, index), reverse=True)
        rest = sorted(latest[LATEST_MEMORIES:], key=lambda index: -self._sum(shared[index]))
        self.order = [*latest[:LATEST_MEMORIES], *rest]

    def score(self, line: str, language: str) -> float:
        """How much a line has in common with the conversation."""
        return self._sum(self._said[language] & frozenset(analyse(line, language)))

    def _sum(self, words: Iterable[str]) -> float:
        # In order, so that the sum is the same in every process.
        return sum(self._weights.get(word, 0.0) for word in sorted(words))
