"""Facts as lines for a model: numbered, in order of time, each day once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from agent_reminiscence.react.models import Fact
from agent_reminiscence.react.numbering import Numbering
from agent_reminiscence.react.shortened import shown_line
from agent_reminiscence.react.today import clock_time, day_line
from agent_reminiscence.text.tokens import TokenCounter


def fitting_facts(facts: Sequence[Fact], room: int, count: TokenCounter) -> tuple[list[Fact], int]:
    """The facts that fit, and how many tokens their lines take, line breaks included.

    Args:
        facts: Those that matter most first; each is shown whole or not at all.
        room: In tokens.
    """
    kept: list[Fact] = []
    days: set[str] = set()
    taken = 0
    for fact in facts:
        day = day_line(fact.timestamp)
        cost = count(_line(len(facts), fact.timestamp, fact.content)) + 1
        if day not in days:
            cost += count(day) + 1
        if taken + cost <= room:
            taken += cost
            days.add(day)
            kept.append(fact)
    return kept, taken


def fact_lines(facts: Iterable[Fact], numbers: Numbering) -> list[str]:
    """Lines for facts, the oldest first; a line with the day stands before those of one day."""
    lines: list[str] = []
    before = ""
    for fact in sorted(facts, key=lambda one: one.timestamp):
        if (day := day_line(fact.timestamp)) != before:
            lines.append(day)
            before = day
        lines.append(_line(numbers.fact(fact.id), fact.timestamp, fact.content))
    return lines


def _line(number: int, at: datetime, content: str) -> str:
    return f"{number}. {clock_time(at)} {shown_line(content)}"
