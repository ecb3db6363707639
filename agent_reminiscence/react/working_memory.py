"""Working memory: the steps of one invocation, and which of them a model is shown.

It lives in this process and ends with the invocation. A step is shown whole, or with a note in place of its result, or
left out and named in a digest: what the model thought, what it called, and a line of what it found. Every result can be
read whole with `read_working_memory` and `search_working_memory`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from agent_reminiscence.react.findings import MAX_FINDING_CHARACTERS, finding_of, within
from agent_reminiscence.react.models import AgentStep, ItemType, WorkingMemoryItem
from agent_reminiscence.react.shortened import shown_line
from agent_reminiscence.react.steps import call_text
from agent_reminiscence.text.folding import WORD, fold_text
from agent_reminiscence.text.sentences import split_sentences
from agent_reminiscence.text.tokens import TokenCounter, count_tokens

# After turns were left out, this share of the threshold is in use beside the digest: the window then changes rarely,
# and a provider's prompt cache holds from one compression to the next.
_TARGET_SHARE: Final = 0.6
# Of the threshold, for the digest of what is left out.
_DIGEST_SHARE: Final = 0.2
# Setting a result aside for less costs the model a call to read it, and gains it next to nothing.
_LEAST_GAIN: Final = 200
# Of the threshold, for one part of a long observation.
_PART_SHARE: Final = 0.4
# Of the threshold, for the notes of one turn, if they say what its steps found.
_NOTES_SHARE: Final = 0.4
_PIECE_CHARACTERS: Final = 100
# If neither a setting nor the model's window says how much is shown.
DEFAULT_THRESHOLD: Final = 2_000


class _LineLimits(NamedTuple):
    """The most characters of the parts of a line in the digest; if a call has more, only its tool is named."""

    call: int
    found: int
    thought: int


# The first of these under which all lines fit is taken; if there is none, the second.
_LINE_LIMITS: Final = (_LineLimits(120, MAX_FINDING_CHARACTERS, 240), _LineLimits(60, 60, 120), _LineLimits(0, 40, 60))
# Of a step before those that have a line, if they do not all fit: its tool, and what the model thought.
_THOUGHT_ONLY: Final = _LineLimits(0, 0, 120)
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
    _threshold: int = DEFAULT_THRESHOLD
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

        Nothing changes until the turns shown and the digest exceed the threshold. Then this gives way, in this order
        and only until it fits:

        1. Results of the newest turn, if it alone has more than four fifths of the threshold.
        2. Results of turns before the newest `keep_recent`.
        3. Results of the newest `keep_recent` turns but the last, if these turns have more than four fifths together.
        4. Whole turns, the oldest first.

        Of results, the one whose note gains most is set aside first, and none that gains fewer than 200 tokens, except
        in the newest turn if it is too long by short results alone. The thoughts and calls of the newest turn always
        stay.

        Args:
            threshold: The most tokens that the turns shown and the digest have, if the thoughts and calls of the newest
                turn allow it.
            keep_recent: How many of the newest turns stay word for word if they fit, at least 1.
        """
        self._threshold = threshold
        if not self._fits():
            room = threshold - int(threshold * _DIGEST_SHARE)
            newest = len(self._turns)
            recent = max(newest - keep_recent + 1, self._first_turn)
            for least in (_LEAST_GAIN, 1):
                self._set_aside_largest(newest, newest + 1, self._shown_of(newest) - room, least=least)
            target = int(threshold * _TARGET_SHARE)
            self._set_aside_largest(
                self._first_turn, recent, self._shown_tokens() - (room if self._first_turn == 1 else target)
            )
            # What the model has just asked for is what it needs: the newest turn is not among them.
            self._set_aside_largest(recent, newest, sum(map(self._shown_of, range(recent, newest + 1))) - room)
            if not self._fits():
                while self._first_turn < recent and self._shown_tokens() > target:
                    self._first_turn += 1
                # The newest are too long by their thoughts, calls and short results: then the oldest of these go, too.
                while self._first_turn < newest and self._shown_tokens() > room:
                    self._first_turn += 1
            self._set_aside = {place: note for place, note in self._set_aside.items() if place[0] >= self._first_turn}
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
        """What is left out, in a few lines: which tools were called how often, what the model thought and found.

        It has a fifth of `threshold`. If the lines of all steps do not fit, each is shortened. If that is not enough,
        the newest steps have lines, the ones before them only if the model thought something, and the digest says how
        to find the others.
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
        """A line for each step that no summary covers, up to a turn; if there is no room for all, for the newest."""
        places = [
            (number, place)
            for number in range(self.summarised + 1, last + 1)
            for place in range(1, len(self._turns[number - 1].steps) + 1)
        ]
        for limits in _LINE_LIMITS:
            lines = self._newest_lines(places, room, limits)
            if len(lines) == len(places):
                return lines
        cost = self.count(_UNLISTED) + 1
        if cost > room:
            return []
        room -= cost
        thoughtful = [place for place in places if self._step_at(place).thought]
        lines = self._newest_lines(places, room // 2 if thoughtful else room, _LINE_LIMITS[1])
        room -= sum(self.count(line) + 1 for line in lines)
        earlier = [place for place in thoughtful if place < places[len(places) - len(lines)]] if lines else thoughtful
        return [_UNLISTED, *self._newest_lines(earlier, room, _THOUGHT_ONLY), *lines]

    def _step_at(self, place: tuple[int, int]) -> AgentStep:
        number, step = place
        return self._turns[number - 1].steps[step - 1]

    def _newest_lines(self, places: Sequence[tuple[int, int]], room: int, limits: _LineLimits) -> list[str]:
        """The lines of the newest of some steps that fit, in the order of the steps."""
        lines: list[str] = []
        for number, place in reversed(places):
            turn = self._turns[number - 1]
            where = f"turn {number}" if len(turn.steps) == 1 else f"turn {number}, step {place}"
            line = f"- {where}: {_told(turn.steps[place - 1], turn.findings[place - 1], limits)}"
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

    def _fits(self) -> bool:
        """Whether what is shown is within the threshold."""
        return self._shown_tokens() + self.count(self.digest(self._threshold)) <= self._threshold

    def _set_aside_largest(self, first: int, stop: int, wanted: int, *, least: int = _LEAST_GAIN) -> None:
        """Set results of some turns aside, the largest gain first, until `wanted` tokens or more are gained.

        Args:
            least: A result that gains fewer tokens stays.
        """
        if wanted <= 0:
            return
        noted = [(place, self._note(place)) for place in self._places(first, stop) if self._length(place) > least]
        gains = [(self._length(place) - note.tokens, place, note) for place, note in noted]
        # Of equals the oldest.
        for gain, place, note in sorted(gains, key=lambda one: (-one[0], one[1])):
            if wanted <= 0 or gain < least:
                break
            self._set_aside[place] = note
            wanted -= gain

    def _places(self, first: int, stop: int) -> list[tuple[int, int]]:
        """The steps of some turns whose results are shown, oldest first."""
        return [
            (number, place)
            for number in range(first, stop)
            for place in range(1, len(self._turns[number - 1].steps) + 1)
            if (number, place) not in self._set_aside
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


def set_aside_note(turn: int, step: int, tokens: int) -> str:
    """Stands in place of an observation that is not shown."""
    return (
        f"(This result of {tokens:,} tokens is not shown. Read it in parts:"
        f" read_working_memory(turn={turn}, step={step}, part=1).)"
    )


def _told(step: AgentStep, found: str, limits: _LineLimits) -> str:
    """A step on one line: `look({"at": 2}) → It is shut. (thought: I try the mill.)`."""
    call = call_text(step) if step.action else ""
    parts = [call if len(call) <= limits.call else step.action] if call else []
    if found and limits.found:
        parts.append(f"→ {within(found, limits.found)}")
    # What the model has concluded: no tool can be asked for it again.
    if thought := within(shown_line(step.thought), limits.thought):
        parts.append(f"(thought: {thought})")
    return " ".join(parts) or "a thought"


def _words(text: str) -> set[str]:
    return set(WORD.findall(fold_text(text)))
