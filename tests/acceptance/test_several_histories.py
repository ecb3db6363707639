"""Random histories in several memories: found as in one memory that has all of them, now and at earlier moments."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from agent_reminiscence import AgentMem, Config, RetrievalResult
from tests.support.fakes import SetClock
from tests.support.steps import all_events, head_of

_NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
_FIRST_DAY = datetime(2026, 2, 1, 9, tzinfo=UTC)
_WORDS = ("morning", "boat", "people", "house", "water", "paper", "weather", "coffee", "market", "garden")
_RARE = ("bardun", "telfer", "mongat", "rudfer", "bargat", "teldun")
_SPEAKERS = ("Mara", "Ivo Bell", "user")
_EVERYTHING = "everything"
_STEPS = 30


class _Histories:
    """The same random calls on one memory that gets all of them, and on several that share them out."""

    def __init__(self, memory: AgentMem, seed: int, names: Sequence[str]) -> None:
        self._memory = memory
        self._dice = random.Random(seed)
        self._names = names
        self._said = 0
        # Of each note: its id in the memory that has all, whose it is beside, and its id there.
        self._notes: list[tuple[UUID, str, UUID]] = []

    def _lines(self) -> str:
        """Lines of which no two are the same: what one memory knows twice, it keeps once."""
        lines = []
        for _ in range(self._dice.randint(1, 5)):
            self._said += 1
            words = [*self._dice.choices(_WORDS, k=6), *self._dice.choices(_RARE, k=self._dice.random() < 0.4)]
            asks = "?" if self._dice.random() < 0.15 else "."
            lines.append(f"{self._dice.choice(_SPEAKERS)}: {' '.join(words)} {self._said * 7919}{asks}")
        return "\n\n".join(lines)

    async def begin(self) -> None:
        """A note that stays, in which everybody speaks.

        Whom a question names is told before the texts of a moment are read: where somebody had not spoken yet, several
        memories leave the name out of the question's vector, as a large one does, and a small one does not.
        """
        lines = "\n\n".join(f"{speaker}: Good morning from {speaker}." for speaker in _SPEAKERS)
        for name in (_EVERYTHING, self._names[0]):
            await self._memory.create_active_memory(name, "Beginning", lines, occurred_at=_FIRST_DAY)

    async def step(self, number: int) -> None:
        """Create, rewrite, append to or archive a note, in both."""
        when = _FIRST_DAY + timedelta(days=3 * number, hours=self._dice.randrange(24))
        admin = self._memory.admin
        match self._dice.choice(["create", "create", "update", "append", "archive"]) if self._notes else "create":
            case "create":
                name = self._dice.choice(self._names)
                told: dict[str, Any] = {"title": f"Note {number}", "content": self._lines(), "occurred_at": when}
                one, other = [await self._memory.create_active_memory(of, **told) for of in (_EVERYTHING, name)]
                self._notes.append((one.id, name, other.id))
            case "archive":
                one_id, name, other_id = self._notes.pop(self._dice.randrange(len(self._notes)))
                ends = self._dice.random() < 0.5
                for of, note_id in ((_EVERYTHING, one_id), (name, other_id)):
                    await admin.archive(of, note_id, end_chunks=ends, occurred_at=when)
            case action:
                one_id, name, other_id = self._dice.choice(self._notes)
                lines = self._lines()
                change: dict[str, Any] = {"content": lines} if action == "update" else {"append": f"\n\n{lines}"}
                for of, note_id in ((_EVERYTHING, one_id), (name, other_id)):
                    await self._memory.update_active_memory(of, note_id, occurred_at=when, **change)

    def question(self) -> str:
        asked = " ".join([*self._dice.sample(_WORDS, 3), *self._dice.sample(_RARE, self._dice.randint(0, 2))])
        return self._dice.choice(
            (
                f"{asked}?",
                f"What did {self._dice.choice(_SPEAKERS[:2])} say about {asked}?",
                f"What happened in {self._dice.choice(['March', 'April'])} 2026 with {asked}?",
                f"When did I see {asked}?",
            )
        )


def _scores(result: RetrievalResult) -> dict[str, float]:
    """By text: two hits of one score may change places."""
    return {hit.content: hit.score for hit in result.hits}


@pytest.mark.thorough
@pytest.mark.parametrize(("count", "seed"), [(2, 1), (3, 2), (4, 3)])
async def test_histories_are_found_as_in_one_memory_that_has_all(
    config: Callable[..., Config], count: int, seed: int
) -> None:
    """After creations, changes and ends, the same hits with the same scores: now, as of then, and as known then."""
    async with AgentMem(config(), clock=SetClock(_NOW)) as memory:
        names = [f"part-{number}" for number in range(count)]
        histories = _Histories(memory, 10 * seed + count, names)
        await histories.begin()
        recorded = []
        for number in range(_STEPS):
            await histories.step(number)
            if number % 8 == 7:
                events = [await all_events(memory, name) for name in (_EVERYTHING, *names)]
                recorded.append(max(one[-1].recorded_at for one in events if one))
        known = [name for name in names if await head_of(memory, name)]
        days = [_FIRST_DAY + timedelta(days=3 * step, hours=12) for step in (4, 12, 20, 27)]
        times: list[dict[str, Any]] = [
            {},
            *({"as_of": day} for day in days),
            *({"known_at": moment} for moment in recorded),
            *({"as_of": day, "known_at": moment} for day, moment in zip(days, recorded, strict=False)),
        ]
        for asked_at in times:
            for _ in range(4):
                question = histories.question()
                one = await memory.retrieve_memories(_EVERYTHING, question, limit=200, **asked_at)
                several = await memory.retrieve_memories(known, question, limit=200, **asked_at)

                assert _scores(several) == pytest.approx(_scores(one), abs=1e-5), (question, asked_at)
                assert several.found == one.found
                matches = [sorted(hit.match for hit in found.hits) for found in (several, one)]
                assert matches[0] == pytest.approx(matches[1], abs=1e-5)
