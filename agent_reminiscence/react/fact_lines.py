"""Facts as lines for a model: numbered, in order of time; each day once, and each time of day once in a row.

One invocation teaches several facts at one moment, so many lines need no time of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
    said: set[tuple[str, str]] = set()
    days: set[str] = set()
    taken = 0
    for fact in facts:
        day, time = day_line(fact.timestamp), clock_time(fact.timestamp)
        cost = count(_line(len(facts), "" if (day, time) in said else time, fact.content)) + 1
        if day not in days:
            cost += count(day) + 1
        if taken + cost <= room:
            taken += cost
            days.add(day)
            said.add((day, time))
            kept.append(fact)
    return kept, taken


def fact_lines(facts: Iterable[Fact], numbers: Numbering) -> list[str]:
    """Lines for facts, the oldest first.

    A line with the day stands before those of one day, and the time before the first fact of each minute.
    """
    lines: list[str] = []
    last_day = last_time = ""
    for fact in sorted(facts, key=lambda one: one.timestamp):
        day, time = day_line(fact.timestamp), clock_time(fact.timestamp)
        if day != last_day:
            lines.append(day)
            last_day, last_time = day, ""
        lines.append(_line(numbers.fact(fact.id), "" if time == last_time else time, fact.content))
        last_time = time
    return lines


def _line(number: int, time: str, content: str) -> str:
    return " ".join(part for part in (f"{number}.", time, shown_line(content)) if part)
