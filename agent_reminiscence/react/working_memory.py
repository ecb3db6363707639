"""Working memory: the steps of one invocation, and which of them a model is shown.

It lives in this process and ends with the invocation. A step is shown whole, or left out and named in a digest with a
line of what it found. What is left out can be read whole with `read_working_memory` and `search_working_memory`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from agent_reminiscence.react.findings import MAX_FINDING_CHARACTERS, finding_of, within
from agent_reminiscence.react.models import AgentStep, ItemType, WorkingMemoryItem
from agent_reminiscence.react.steps import call_text
from agent_reminiscence.text.folding import WORD, fold_text
from agent_reminiscence.text.sentences import split_sentences
from agent_reminiscence.text.tokens import TokenCounter, count_tokens

# After a compression, this share of the threshold is in use: the window then changes rarely, and a provider's prompt
# cache holds from one compression to the next.
_TARGET_SHARE: Final = 0.5
# Of the threshold, for the digest of what is left out.
_DIGEST_SHARE: Final = 0.2
# Of the threshold, for one part of a long observation.
_PART_SHARE: Final = 0.4
# Of the threshold, for the notes of one turn, if they say what its steps found.
_NOTES_SHARE: Final = 0.4
_PIECE_CHARACTERS: Final = 100
_DEFAULT_THRESHOLD: Final = 2_000
# Of a line in the digest: the most characters of its call, or else the tool's name stands there, and of what it found.
# The first of these under which all lines fit is taken; if there is none, the second.
_LINE_CHARACTERS: Final = ((120, MAX_FINDING_CHARACTERS), (60, 60), (0, 40))
# Of what a step found, in the note that stands in place of its result.
_MAX_NOTED_CHARACTERS: Final = 80


@dataclass(frozen=True, slots=True)
class View:
    """What a model is shown of the steps.

    Attributes:
        first_turn: The first turn shown, 1-based; the ones before it are left out.
        set_aside: Of the turns shown, observations that are left out: (turn, number of the step in it), each with the
            note that stands in its place.
        digest: About what is left out; "" if nothing is.
        tokens: Of the turns shown and the digest.
    """

    first_turn: int
    set_aside: Mapping[tuple[int, int], str]
    digest: str
    tokens: int


@dataclass(slots=True)
class _Turn:
    steps: tuple[AgentStep, ...]
    # Of thought, call and observation of each step.
    tokens: tuple[tuple[int, int, int], ...]
    # What each step found, on one line.
    findings: tuple[str, ...]

    @property
    def total(self) -> int:
        return sum(map(sum, self.tokens))


class _Note(NamedTuple):
    text: str
    tokens: int


@dataclass(slots=True)
class WorkingMemory:
    """The steps of one invocation.

    Args:
        goal: What the invocation is about; the first entry.
        started: When it began.
        count: Counts the tokens of a text.
        summary: Of the first `summarised` turns.
    """

    goal: str
    started: datetime
    count: TokenCounter = count_tokens
    summary: str = ""
    summarised: int = 0
    _turns: list[_Turn] = field(default_factory=list)
    _times: list[datetime] = field(default_factory=list)
    _first_turn: int = 1
    _threshold: int = _DEFAULT_THRESHOLD
    _set_aside: dict[tuple[int, int], _Note] = field(default_factory=dict)

    @property
    def turns(self) -> int:
        """How many turns it holds."""
        return len(self._turns)

    @property
    def tokens(self) -> int:
        """Of all entries, shown or not."""
        return sum(turn.total for turn in self._turns)

    @property
    def shows_all(self) -> bool:
        """Whether the last view left nothing out."""
        return self._first_turn == 1 and not self._set_aside

    @property
    def items(self) -> list[WorkingMemoryItem]:
        """All entries in order; `step` in their metadata is the number of the turn."""
        items = [self._item("thought", f"Goal: {self.goal}", 0, self.started, self.count(self.goal))]
        for number, (turn, at) in enumerate(zip(self._turns, self._times, strict=True), start=1):
            for step, (thought, call, observation) in zip(turn.steps, turn.tokens, strict=True):
                if step.thought:
                    items.append(self._item("thought", step.thought, number, at, thought))
                if step.action:
                    items.append(self._item("action", call_text(step), number, at, call))
                    items.append(self._item("observation", step.observation, number, at, observation))
        return items

    def append(self, steps: Sequence[AgentStep], at: datetime) -> None:
        """Take up the next turn."""
        counted = tuple(
            (
                self.count(step.thought) if step.thought else 0,
                self.count(call_text(step)) if step.action else 0,
                self.count(step.observation) if step.observation else 0,
            )
            for step in steps
        )
        self._turns.append(_Turn(tuple(steps), counted, tuple(finding_of(step.observation) for step in steps)))
        self._times.append(at)

    def observation(self, turn: int, step: int = 1) -> str | None:
        """What a step observed, whole; None if there is no such step."""
        if not 1 <= turn <= len(self._turns) or not 1 <= step <= len(self._turns[turn - 1].steps):
            return None
        return self._turns[turn - 1].steps[step - 1].observation

    def parts(self, turn: int, step: int = 1) -> list[str] | None:
        """The same in parts that each fit in the budget; None if there is no such step."""
        whole = self.observation(turn, step)
        if whole is None:
            return None
        room = int(self._threshold * _PART_SHARE)
        parts, tokens = [""], 0
        for start in range(0, len(whole), _PIECE_CHARACTERS):
            piece = whole[start : start + _PIECE_CHARACTERS]
            more = self.count(piece)
            if parts[-1] and tokens + more > room:
                parts.append("")
                tokens = 0
            parts[-1] += piece
            tokens += more
        return parts

    def search(self, query: str, limit: int = 5) -> list[tuple[int, int, AgentStep]]:
        """Steps that share words with `query`, those with the rarest first: (turn, number in it, step)."""
        wanted = _words(query)
        texts = [
            (number, place, step, _words(f"{step.thought} {call_text(step)} {step.observation}"))
            for number, turn in enumerate(self._turns, start=1)
            for place, step in enumerate(turn.steps, start=1)
        ]
        frequency = Counter(word for *_, words in texts for word in words & wanted)
        scored = [
            (sum(1 / frequency[word] for word in words & wanted), number, place, step)
            for number, place, step, words in texts
            if words & wanted
        ]
        # The newest of equals: later steps correct earlier ones.
        scored.sort(key=lambda one: (-one[0], -one[1], one[2]))
        return [(number, place, step) for _, number, place, step in scored[:limit]]

    def compress(self, threshold: int, keep_recent: int) -> View:
        """Choose what is shown, within `threshold` tokens.

        Nothing changes until the turns shown exceed the threshold. Then the oldest are left out, until half of it is
        in use or only the newest `keep_recent` are left. If these have more than four fifths of it by themselves, they
        give way in this order, until they have no more: the longest observations of the newest turn, if it alone has
        more; then observations, the oldest first, each with a note in its place; then whole turns, the oldest first.
        The thoughts and calls of the newest turn always stay.

        Args:
            threshold: The most tokens that the turns shown and the digest have, if the thoughts and calls of the newest
                turn allow it.
            keep_recent: How many of the newest turns stay word for word if they fit, at least 1.
        """
        self._threshold = threshold
        if self._shown_tokens() + self.count(self.digest(threshold)) > threshold:
            target = int(threshold * _TARGET_SHARE)
            newest = max(len(self._turns) - keep_recent + 1, 1)
            while self._first_turn < newest and self._shown_tokens() > target:
                self._first_turn += 1
            self._set_aside = {place: note for place, note in self._set_aside.items() if place[0] >= self._first_turn}
            room = threshold - int(threshold * _DIGEST_SHARE)
            self._set_aside_newest(room)
            # The oldest first: what the model has just asked for is what it needs.
            for place in self._observed(self._first_turn, len(self._turns)):
                if self._shown_tokens() <= room:
                    break
                self._set_aside[place] = self._note(place)
            # Thoughts and calls alone are too long: then the oldest go, too.
            while self._first_turn < len(self._turns) and self._shown_tokens() > room:
                self._first_turn += 1
        digest = self.digest(threshold)
        return View(
            first_turn=self._first_turn,
            set_aside={place: note.text for place, note in self._set_aside.items()},
            digest=digest,
            tokens=self._shown_tokens() + self.count(digest),
        )

    def left_out(self) -> Sequence[tuple[int, tuple[AgentStep, ...]]]:
        """The turns that are not shown, by number."""
        return [(number, turn.steps) for number, turn in enumerate(self._turns[: self._first_turn - 1], start=1)]

    def digest(self, threshold: int) -> str:
        """What is left out, in a few lines: which tools were called how often, and what each step found.

        It has a fifth of `threshold`. If the lines of all steps do not fit, each is shortened. If that is not enough,
        the newest steps have lines, and the digest says how to find the others.
        """
        left_out = self.left_out()
        if not left_out:
            return ""
        called = Counter(step.action for _, steps in left_out for step in steps if step.action)
        tools = ", ".join(f"{name} {number}×" for name, number in called.most_common(10))
        head = f"Turns 1 to {len(left_out)} are not shown: {tools or 'no calls'}."
        room = int(threshold * _DIGEST_SHARE) - self.count(head)
        summary = self._fitting(self.summary, room)
        room -= self.count(summary) if summary else 0
        return "\n".join([head, *([summary] if summary else []), *self._lines(len(left_out), room)])

    def _lines(self, last: int, room: int) -> list[str]:
        """A line for each step that no summary covers, up to a turn; only the newest if there is no room for all."""
        places = [
            (number, place)
            for number in range(self.summarised + 1, last + 1)
            for place in range(1, len(self._turns[number - 1].steps) + 1)
        ]
        for most_of_call, most_found in _LINE_CHARACTERS:
            lines = self._newest_lines(places, room, most_of_call, most_found)
            if len(lines) == len(places):
                return lines
        cost = self.count(_UNLISTED) + 1
        if cost > room:
            return []
        return [_UNLISTED, *self._newest_lines(places, room - cost, *_LINE_CHARACTERS[1])]

    def _newest_lines(
        self, places: Sequence[tuple[int, int]], room: int, most_of_call: int, most_found: int
    ) -> list[str]:
        """The lines of the newest of some steps that fit, in the order of the steps."""
        lines: list[str] = []
        for number, place in reversed(places):
            turn = self._turns[number - 1]
            where = f"turn {number}" if len(turn.steps) == 1 else f"turn {number}, step {place}"
            found = within(turn.findings[place - 1], most_found)
            line = f"- {where}: {_brief(turn.steps[place - 1], most_of_call)}{f' → {found}' if found else ''}"
            room -= self.count(line) + 1
            if room < 0:
                break
            lines.append(line)
        return lines[::-1]

    def _fitting(self, text: str, room: int) -> str:
        """The first sentences of a summary that fit."""
        fitting = ""
        for sentence in split_sentences(text):
            if self.count(fitting + sentence) > room:
                break
            fitting += sentence
        return fitting.strip()

    def _shown_tokens(self) -> int:
        return sum(map(self._shown_of, range(self._first_turn, len(self._turns) + 1)))

    def _shown_of(self, number: int) -> int:
        """The tokens of a turn as it is shown, with notes in place of what is set aside."""
        shown = 0
        for place, (thought, call, observation) in enumerate(self._turns[number - 1].tokens, start=1):
            note = self._set_aside.get((number, place))
            shown += thought + call + (observation if note is None else note.tokens)
        return shown

    def _set_aside_newest(self, room: int) -> None:
        """Set the longest observations of the newest turn aside if it alone is too long."""
        newest = len(self._turns)
        total = self._shown_of(newest)
        for place in sorted(self._observed(newest, newest + 1), key=self._length, reverse=True):
            if total <= room:
                break
            self._set_aside[place] = note = self._note(place)
            total += note.tokens - self._length(place)

    def _observed(self, first: int, stop: int) -> list[tuple[int, int]]:
        """The observations of some turns that would gain room if they were set aside, oldest first."""
        return [
            (number, place)
            for number in range(first, stop)
            for place in range(1, len(self._turns[number - 1].steps) + 1)
            if (number, place) not in self._set_aside and self._length((number, place)) > _NOTE_TOKENS
        ]

    def _note(self, place: tuple[int, int]) -> _Note:
        """The note for an observation: with what the step found, if the notes of its turn have room for it."""
        number, step = place
        turn, length = self._turns[number - 1], self._length(place)
        bare = set_aside_note(number, step, length)
        if found := within(turn.findings[step - 1], _MAX_NOTED_CHARACTERS):
            text = f"{bare} It begins: {found}"
            tokens = self.count(text)
            if tokens < length and tokens * len(turn.steps) <= int(self._threshold * _NOTES_SHARE):
                return _Note(text, tokens)
        return _Note(bare, self.count(bare))

    def _length(self, place: tuple[int, int]) -> int:
        number, step = place
        return self._turns[number - 1].tokens[step - 1][2]

    @staticmethod
    def _item(kind: ItemType, content: str, turn: int, at: datetime, tokens: int) -> WorkingMemoryItem:
        metadata: Mapping[str, object] = {"step": turn, "token_count": tokens}
        return WorkingMemoryItem(type=kind, content=content, timestamp=at, metadata=dict(metadata))


_UNLISTED: Final = "What the steps before these found: search_working_memory."
# Of the note of `set_aside_note`, at most.
_NOTE_TOKENS: Final = 60


def set_aside_note(turn: int, step: int, tokens: int) -> str:
    """Stands in place of an observation that is not shown."""
    return (
        f"(This result of {tokens:,} tokens is not shown. Read it in parts:"
        f" read_working_memory(turn={turn}, step={step}, part=1).)"
    )


def _brief(step: AgentStep, most: int) -> str:
    """The call of a step, or the name of its tool if that is too long."""
    if not step.action:
        return "a thought"
    call = call_text(step)
    return call if len(call) <= most else step.action


def _words(text: str) -> set[str]:
    return set(WORD.findall(fold_text(text)))
