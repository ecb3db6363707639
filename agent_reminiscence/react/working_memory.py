"""Working memory: the steps of one invocation, and which of them a model is shown.

It lives in this process and ends with the invocation. Nothing is cut inside an entry: a step is shown whole, or left
out whole and named in a digest. What is left out can be read with the tools of `working_tools`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

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
_PIECE_CHARACTERS: Final = 100
_DEFAULT_THRESHOLD: Final = 2_000
_MAX_CALL_CHARACTERS: Final = 120


@dataclass(frozen=True, slots=True)
class View:
    """What a model is shown of the steps.

    Attributes:
        first_turn: The first turn shown, 1-based; the ones before it are left out.
        set_aside: Of the turns shown, observations that are left out: (turn, number of the step in it).
        digest: About what is left out; "" if nothing is.
        tokens: Of the turns shown and the digest.
    """

    first_turn: int
    set_aside: frozenset[tuple[int, int]]
    digest: str
    tokens: int


@dataclass(slots=True)
class _Turn:
    steps: tuple[AgentStep, ...]
    # Of thought, call and observation of each step.
    tokens: tuple[tuple[int, int, int], ...]

    @property
    def total(self) -> int:
        return sum(map(sum, self.tokens))


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
    _set_aside: set[tuple[int, int]] = field(default_factory=set)

    @property
    def turns(self) -> int:
        """How many turns it holds."""
        return len(self._turns)

    @property
    def tokens(self) -> int:
        """Of all entries, shown or not."""
        return sum(turn.total for turn in self._turns)

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
        self._turns.append(_Turn(tuple(steps), counted))
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
        in use or only the newest `keep_recent` are left; and if these are too long by themselves, the oldest of
        their observations.

        Args:
            threshold: The most tokens that the turns shown and the digest have, if the thoughts and calls of the newest
                turn allow it.
            keep_recent: How many of the newest turns stay, at least 1.
        """
        self._threshold = threshold
        if self._shown_tokens() + self.count(self.digest(threshold)) > threshold:
            target = int(threshold * _TARGET_SHARE)
            newest = max(len(self._turns) - keep_recent + 1, 1)
            while self._first_turn < newest and self._shown_tokens() > target:
                self._first_turn += 1
            self._set_aside = {place for place in self._set_aside if place[0] >= self._first_turn}
            room = threshold - int(threshold * _DIGEST_SHARE)
            self._set_aside_newest(room)
            # The oldest first: what the model has just asked for is what it needs.
            for place in self._observed(self._first_turn, len(self._turns)):
                if self._shown_tokens() <= room:
                    break
                self._set_aside.add(place)
            # Thoughts and calls alone are too long: then the oldest go, too.
            while self._first_turn < len(self._turns) and self._shown_tokens() > room:
                self._first_turn += 1
        digest = self.digest(threshold)
        return View(
            first_turn=self._first_turn,
            set_aside=frozenset(self._set_aside),
            digest=digest,
            tokens=self._shown_tokens() + self.count(digest),
        )

    def left_out(self) -> Sequence[tuple[int, tuple[AgentStep, ...]]]:
        """The turns that are not shown, by number."""
        return [(number, turn.steps) for number, turn in enumerate(self._turns[: self._first_turn - 1], start=1)]

    def digest(self, threshold: int) -> str:
        """What is left out, in a few lines: which tools were called how often, and the newest calls that fit."""
        left_out = self.left_out()
        if not left_out:
            return ""
        called = Counter(step.action for _, steps in left_out for step in steps if step.action)
        tools = ", ".join(f"{name} {number}×" for name, number in called.most_common(10))
        head = f"Turns 1 to {len(left_out)} are not shown: {tools or 'no calls'}."
        room = int(threshold * _DIGEST_SHARE) - self.count(head)
        summary = self._fitting(self.summary, room)
        room -= self.count(summary) if summary else 0
        lines: list[str] = []
        # What a summary covers need not be listed.
        for number, steps in reversed(left_out[self.summarised :]):
            for step in reversed(steps):
                line = _line(number, step)
                room -= self.count(line) + 1
                if room < 0:
                    break
                lines.insert(0, line)
            if room < 0:
                break
        return "\n".join([head, *([summary] if summary else []), *lines])

    def _fitting(self, text: str, room: int) -> str:
        """The first sentences of a summary that fit."""
        fitting = ""
        for sentence in split_sentences(text):
            if self.count(fitting + sentence) > room:
                break
            fitting += sentence
        return fitting.strip()

    def _shown_tokens(self) -> int:
        shown = 0
        for number in range(self._first_turn, len(self._turns) + 1):
            for place, (thought, call, observation) in enumerate(self._turns[number - 1].tokens, start=1):
                shown += thought + call
                shown += _NOTE_TOKENS if (number, place) in self._set_aside else observation
        return shown

    def _set_aside_newest(self, room: int) -> None:
        """Set the longest observations of the newest turn aside if it alone is too long."""
        newest = len(self._turns)
        total = self._turns[-1].total
        for place in sorted(self._observed(newest, newest + 1), key=self._length, reverse=True):
            if total <= room:
                break
            total += _NOTE_TOKENS - self._length(place)
            self._set_aside.add(place)

    def _observed(self, first: int, stop: int) -> list[tuple[int, int]]:
        """The observations of some turns that would gain room if they were set aside, oldest first."""
        return [
            (number, place)
            for number in range(first, stop)
            for place in range(1, len(self._turns[number - 1].steps) + 1)
            if (number, place) not in self._set_aside and self._length((number, place)) > _NOTE_TOKENS
        ]

    def _length(self, place: tuple[int, int]) -> int:
        number, step = place
        return self._turns[number - 1].tokens[step - 1][2]

    @staticmethod
    def _item(kind: ItemType, content: str, turn: int, at: datetime, tokens: int) -> WorkingMemoryItem:
        metadata: Mapping[str, object] = {"step": turn, "token_count": tokens}
        return WorkingMemoryItem(type=kind, content=content, timestamp=at, metadata=dict(metadata))


# What stands in place of an observation; see `set_aside_note`.
_NOTE_TOKENS: Final = 60


def set_aside_note(turn: int, step: int, tokens: int) -> str:
    """Stands in place of an observation that is not shown."""
    return (
        f"(This result of {tokens:,} tokens is not shown. Read it in parts:"
        f" read_working_memory(turn={turn}, step={step}, part=1).)"
    )


def _line(turn: int, step: AgentStep) -> str:
    if not step.action:
        return f"- turn {turn}: a thought"
    call = call_text(step)
    if len(call) > _MAX_CALL_CHARACTERS:
        call = step.action
    return f"- turn {turn}: {call}"


def _words(text: str) -> set[str]:
    return set(WORD.findall(fold_text(text)))
