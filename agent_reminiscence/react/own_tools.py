"""The memory's own tools: what they do is no step of a task."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import Final

from agent_reminiscence.react.models import AgentStep
from agent_reminiscence.react.sensitive import SensitiveKind, sensitive_kinds

# Which read what a run no longer shows; every run with memory has them.
WORKING_TOOLS: Final = frozenset({"read_working_memory", "search_working_memory"})
# What this stores is the model's own sentence, not a text of the memory.
_STORING: Final = "store_fact"
_LEFT_OUT: Final = "(left out)"


def steps_of_task(steps: Iterable[AgentStep], own: Collection[str]) -> tuple[AgentStep, ...]:
    """The steps that belong to the task: without those of the memory's own tools.

    Args:
        own: The names of these tools, as the run had them; an application may use a name that is switched off.
    """
    return tuple(step for step in steps if step.action not in own)


def steps_to_learn_from(steps: Iterable[AgentStep], own: Collection[str]) -> tuple[AgentStep, ...]:
    """The same and what the model stored: what it read in its memory is known, and must not be learned again."""
    return tuple(step for step in steps if step.action not in own or step.action == _STORING)


def calls_of_task(steps: Iterable[AgentStep], own: Collection[str]) -> int:
    """How many tools a task called; a thought alone is no step."""
    return sum(1 for step in steps_of_task(steps, own) if step.action)


def without_sensitive_words(step: AgentStep, allowed: frozenset[SensitiveKind]) -> AgentStep:
    """A step without a thought, and without values of arguments, of a kind that is not kept."""

    def is_refused(text: str) -> bool:
        return bool(sensitive_kinds(text) - allowed)

    arguments = {
        name: _LEFT_OUT if is_refused(f"{name.replace('_', ' ')}: {_as_text(value)}") else value
        for name, value in step.arguments.items()
    }
    thought = "" if step.thought and is_refused(step.thought) else step.thought
    return step.model_copy(update={"thought": thought, "arguments": arguments})


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
