"""What a model is shown of earlier tasks: at first lessons alone, and goals and steps when it looks them up."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Final

from pydantic_ai.framing import wrap

from agent_reminiscence.agents.framing_tags import EPISODES
from agent_reminiscence.react.findings import within
from agent_reminiscence.react.models import AgentStep, Episode
from agent_reminiscence.react.numbering import Numbering, ShownLesson, lesson_id_of
from agent_reminiscence.react.own_tools import steps_of_task, without_sensitive_words
from agent_reminiscence.react.sensitive import SensitiveKind
from agent_reminiscence.react.shortened import shortened, shown_line
from agent_reminiscence.text.folding import WORD, fold_text
from agent_reminiscence.text.tokens import TokenCounter

# Of a lesson, a goal before its lessons, and an outcome that stands in place of lessons.
_MAX_LESSON: Final = 300
_MAX_GOAL: Final = 80
_MAX_OUTCOME: Final = 160
# Of an episode that is looked up: its goal and outcome, a call, a step that is told in words, and how many steps.
_MAX_LOOKED_UP: Final = 400
_MAX_CALL: Final = 120
_MAX_VALUE: Final = 60
_MAX_TOLD: Final = 120
_MAX_STEPS: Final = 12
# A goal says nothing new if its lessons have this share of its words.
_KNOWN_SHARE: Final = 0.6
# Shorter words say little about where a lesson applies.
_LEAST_LETTERS: Final = 4
# What "12. " costs before a lesson.
_NUMBER_TOKENS: Final = 2
_ENDED: Final = {True: "It succeeded", False: "It failed", None: "It ended"}


def render_lessons(episodes: Sequence[Episode], room: int, count: TokenCounter, numbers: Numbering) -> list[str]:
    """Lines for the lessons of the episodes that fit, the oldest episode first.

    A line with the time of a task, and its goal where the lessons do not say what they are about, stands before its
    lessons. An episode without lessons is a line with its outcome, if it has one.

    Args:
        episodes: Those that apply best first; each is shown whole or not at all.
        room: In tokens, line breaks included.
        numbers: Gives the lessons that are shown their numbers.
    """
    chosen: list[Episode] = []
    for one in episodes:
        lines = [_head(one), *map(_short, one.lessons)]
        cost = sum(count(line) + 1 for line in lines) + _NUMBER_TOKENS * len(one.lessons)
        if (one.lessons or one.outcome) and cost <= room:
            room -= cost
            chosen.append(one)
    chosen.sort(key=lambda one: one.timestamp)
    shown: list[str] = []
    for one in chosen:
        shown.append(_head(one))
        shown.extend(f"{numbers.lesson(one.id, lesson)}. {_short(lesson)}" for lesson in dict.fromkeys(one.lessons))
    return shown


def render_episodes(
    episodes: Sequence[Episode],
    numbers: Numbering | None = None,
    *,
    own: Collection[str] = (),
    allowed: frozenset[SensitiveKind] = frozenset(),
) -> str:
    """What the tool `recall_episodes` returns: goals, ends and steps, and the lessons that were not shown before.

    Args:
        numbers: Of the lessons shown so far; more get theirs.
        own: Tools that are no steps of a task.
        allowed: The kinds of sensitive things that may stand in the arguments of steps.
    """
    if not episodes:
        return "No episodes were found."
    numbers = Numbering() if numbers is None else numbers
    ordered = sorted(episodes, key=lambda one: one.timestamp)
    return wrap(EPISODES, "\n".join(_episode(one, numbers, own, allowed) for one in ordered))


def _head(one: Episode) -> str:
    """`2026-11-26 14:05, Open the vault:`; without lessons, the outcome follows."""
    at = f"{one.timestamp:%Y-%m-%d %H:%M}"
    goal = within(shown_line(one.goal), _MAX_GOAL)
    if not one.lessons:
        return f"{at}, {goal} {_ENDED[one.success]}: {shortened(shown_line(one.outcome), _MAX_OUTCOME)}"
    return f"{at}, {goal.rstrip('.')}:" if _must_name_goal(one) else f"{at}:"


def _short(lesson: str) -> str:
    return shortened(shown_line(lesson), _MAX_LESSON)


def _must_name_goal(one: Episode) -> bool:
    """Whether the lessons alone leave open what they are about."""
    of_goal = _words(one.goal)
    known = of_goal & _words(" ".join(one.lessons))
    return len(known) < _KNOWN_SHARE * len(of_goal)


def _words(text: str) -> set[str]:
    return {word for word in WORD.findall(fold_text(text)) if len(word) >= _LEAST_LETTERS}


def _episode(one: Episode, numbers: Numbering, own: Collection[str], allowed: frozenset[SensitiveKind]) -> str:
    shown = [lesson for lesson in dict.fromkeys(one.lessons) if _is_shown(one, lesson, numbers)]
    told = f" (lesson {', '.join(str(numbers.lesson(one.id, lesson)) for lesson in shown)})" if shown else ""
    lines = [f"- {one.timestamp:%Y-%m-%d %H:%M}, task{told}: {shortened(shown_line(one.goal), _MAX_LOOKED_UP)}"]
    outcome = shortened(shown_line(one.outcome), _MAX_LOOKED_UP)
    lines.append(f"  {_ENDED[one.success]}{f': {outcome}' if outcome else '.'}")
    new = [lesson for lesson in dict.fromkeys(one.lessons) if lesson not in shown]
    lines.extend(f"  Lesson {numbers.lesson(one.id, lesson)}: {_short(lesson)}" for lesson in new)
    steps = steps_of_task(one.steps, own)
    if steps:
        more = f" … ({len(steps) - _MAX_STEPS} more)" if len(steps) > _MAX_STEPS else ""
        called = " → ".join(_told(without_sensitive_words(step, allowed)) for step in steps[:_MAX_STEPS])
        lines.append(f"  Steps: {called}{more}")
    return "\n".join(lines)


def _is_shown(one: Episode, lesson: str, numbers: Numbering) -> bool:
    return ShownLesson(episode_id=one.id, lesson_id=lesson_id_of(lesson)) in numbers.lessons


def _told(step: AgentStep) -> str:
    """A step in a list: its call, or what was thought if there is none."""
    if not step.action:
        return shortened(shown_line(step.thought), _MAX_TOLD) or "thought"
    arguments = ", ".join(f"{name}={_value(value)}" for name, value in step.arguments.items())
    return within(shown_line(f"{step.action}({arguments})"), _MAX_CALL)


def _value(value: object) -> str:
    return within(json.dumps(value, ensure_ascii=False, default=str), _MAX_VALUE)
