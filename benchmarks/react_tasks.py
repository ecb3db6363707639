"""Six tasks of an agent with memory, each twice: their requests and tokens, and whether they come out right.

    python -m benchmarks.react_tasks [--json file]

The office has seven tools (`benchmarks/office.py`), and the model is a script that uses what it is shown and nothing
else. So the figures are counts that depend on no machine and no provider: they show what a change of what the agent is
shown is worth. Tokens are estimated, of all that the agent reads, and of what it reads afterwards to learn.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, Final

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.react import (
    AgentRequest,
    MemoryFacts,
    ReactMemConfig,
    ReactMemService,
    StoreFactRequest,
)
from benchmarks.asked import Request
from benchmarks.common import print_table, scratch_folder
from benchmarks.office import Clerk, Office

_USER: Final = "jana"
# A Saturday: "on Monday" is five days ago.
_TODAY: Final = datetime(2026, 11, 28, 9, 30, tzinfo=UTC)
_KNOWN: Final = (
    "Jana works in support.",
    "Jana is allergic to walnuts.",
    "Jana sits on the second floor.",
    "Jana prefers short answers.",
    "Jana has a grey bicycle.",
    "Jana keeps the plates for office parties.",
    "The office party has a budget of 60 euros.",
    "Tom brings a cake to the office on Fridays.",
    "The kitchen of the office has a small fridge.",
    "The office party begins at four in the kitchen.",
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What one question took.

    Attributes:
        requests: To the model, until it answered.
        tokens: That it read for that.
        learning: That it read afterwards, to learn.
        is_right: Whether what was done and said is right.
    """

    requests: int
    tokens: int
    learning: int
    is_right: bool


@dataclass(frozen=True, slots=True)
class Figures:
    """What the tasks took.

    Attributes:
        first: By task, the first time.
        second: By task, when all six had been done once.
        share: Of the first requests of the second time, the share of tokens that belongs to memory, by task.
        is_wrong_lesson_shown: Whether a lesson is still shown after the user has said that it is wrong.
        is_old_team_shown: Whether the team that the user has left is still shown as a fact.
    """

    first: dict[str, Asked]
    second: dict[str, Asked]
    share: dict[str, float]
    is_wrong_lesson_shown: bool
    is_old_team_shown: bool


@dataclass(frozen=True, slots=True)
class _Task:
    name: str
    questions: tuple[str, str]
    # Of the office, the answer, and what the model was shown at first.
    is_right: Callable[[Office, str, str], bool]
    # What the user says after the first time.
    correction: str | None = None


_SMALL_TALK: Final = "My bicycle is repaired. My sister visits on Friday. I had soup for lunch."
_TASKS: Final = (
    _Task(
        "delivery price, in one of four notes",
        ("What does delivery to Linz cost?", "What does delivery to Graz cost?"),
        lambda office, answer, shown: bool(re.search(r"Linz costs 40|Graz costs 55", answer)),
    ),
    _Task(
        "deploy, by one rule of a README",
        (
            "Read README.md, look at build.log, tests.log and status.log, and deploy the shop.",
            "Deploy the shop once more.",
        ),
        lambda office, answer, shown: office.deploys > 0,
    ),
    _Task(
        "two invoices, after a wrong lesson",
        (
            "Make out two invoices to Zurich Trading, for 100 francs and for 170 francs.",
            "Make out two invoices to Zurich Trading, for 250 francs and for 40 francs.",
        ),
        lambda office, answer, shown: office.rates[-2:] == [0, 0],
        correction="That lesson on VAT is wrong, forget it: Invoices for Zurich Trading carry 0 % VAT.",
    ),
    _Task(
        "moved to sales on Monday",
        ("By the way, I moved to sales on Monday.", "Which team am I in, and since when?"),
        lambda office, answer, shown: answer == "Noted." or ("sales" in answer and "23 November 2026" in answer),
    ),
    _Task(
        "cake, with an allergy that is not named",
        ("Order a cake for the office party.", "Order one more cake for the office party."),
        lambda office, answer, shown: bool(office.ordered) and "walnut" not in office.ordered[-1],
    ),
    _Task(
        "small talk",
        (f"Good morning! {_SMALL_TALK} How are you?", "Good morning! It rains again. How are you?"),
        # It is no task, and nothing of it is told as one.
        lambda office, answer, shown: f"Good morning! {_SMALL_TALK}" not in shown or shown.count("Good morning!") == 1,
    ),
)


async def measure(memory: AgentMem) -> Figures:
    """Do all tasks twice with an empty memory that knows ten facts."""
    office, clerk = Office(), Clerk()
    facts = MemoryFacts(memory)
    for known in _KNOWN:
        stored = await facts.store_fact(StoreFactRequest(user=_USER, content=known, source="talk-1"))
        assert stored.error is None, stored.error
    config = ReactMemConfig(allow_sensitive=frozenset({"health"}), max_iterations=20)
    async with ReactMemService(
        clerk.model, memory, toolsets=[office.tools], config=config, clock=lambda: _TODAY
    ) as agent:

        async def ask(question: str, *, with_memory: bool = True) -> tuple[str, Sequence[Request]]:
            clerk.requests.clear()
            response = await agent.answer(AgentRequest(question=question, user=_USER, enable_memory=with_memory))
            await agent.drain()
            assert response.error is None, response.error
            return response.answer, list(clerk.requests)

        async def perform(task: _Task, question: str) -> tuple[Asked, Request]:
            answer, requests = await ask(question)
            reasons = [one for one in requests if not one.learns]
            asked = Asked(
                requests=len(reasons),
                tokens=sum(one.tokens for one in reasons),
                learning=sum(one.tokens for one in requests if one.learns),
                is_right=task.is_right(office, answer, reasons[0].text),
            )
            return asked, reasons[0]

        first: dict[str, Asked] = {}
        second: dict[str, Asked] = {}
        opened: dict[str, Request] = {}
        share: dict[str, float] = {}
        for task in _TASKS:
            first[task.name], _ = await perform(task, task.questions[0])
            if task.correction is not None:
                await ask(task.correction)
        for task in _TASKS:
            second[task.name], opened[task.name] = await perform(task, task.questions[1])
        for task in _TASKS:
            _, (plain, *_) = await ask(task.questions[1], with_memory=False)
            share[task.name] = 1 - plain.tokens / opened[task.name].tokens
    texts = [one.text for one in opened.values()]
    return Figures(
        first=first,
        second=second,
        share=share,
        is_wrong_lesson_shown=any("carry 20 % VAT" in text for text in texts),
        is_old_team_shown=any("works in support" in text for text in texts),
    )


async def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    with scratch_folder("bench-react-tasks-") as folder:
        async with AgentMem(Config(data_dir=folder / "data", worker=False)) as memory:
            figures = await measure(memory)
    rows: list[list[Any]] = []
    for name, first in figures.first.items():
        second = figures.second[name]
        rows.append(
            [
                name,
                f"{first.requests} / {second.requests}",
                f"{first.tokens:,} / {second.tokens:,}",
                f"{first.learning:,} / {second.learning:,}",
                f"{_yes(first.is_right)} / {_yes(second.is_right)}",
                f"{figures.share[name]:.0%}",
            ]
        )
    both = [*figures.first.values(), *figures.second.values()]
    rows.append(
        [
            "all",
            sum(one.requests for one in both),
            f"{sum(one.tokens for one in both):,}",
            f"{sum(one.learning for one in both):,}",
            f"{sum(one.is_right for one in both)} of {len(both)}",
            f"{median(figures.share.values()):.0%} (median)",
        ]
    )
    print_table(["task, first / second time", "requests", "tokens", "to learn", "right", "memory's share"], rows)
    print(f"a wrong lesson is still shown after its correction: {_yes(figures.is_wrong_lesson_shown)}")
    print(f"a fact that is over is still shown: {_yes(figures.is_old_team_shown)}")
    if options.json:
        options.json.write_text(json.dumps(asdict(figures)), encoding="utf-8")


def _yes(value: bool) -> str:
    return "yes" if value else "no"


if __name__ == "__main__":
    asyncio.run(main())
