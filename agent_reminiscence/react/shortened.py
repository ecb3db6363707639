"""Steps as they are stored: long observations by their beginning."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from agent_reminiscence.react.models import AgentStep
from agent_reminiscence.text.control_tokens import clean

_MAX_TEXT_CHARACTERS: Final = 1_000
# Metadata hold 256 KiB, and an event 1 MiB; the rest is for what stands beside the steps.
_MAX_BYTES: Final = 160_000


def as_json_steps(steps: Sequence[AgentStep]) -> list[dict[str, Any]]:
    """Steps as JSON objects: the last that fit in 160 kB, each of their texts at most 1,000 characters."""
    kept: list[dict[str, Any]] = []
    room = _MAX_BYTES
    for step in reversed(steps):
        stored = {
            "thought": shortened(step.thought),
            "action": step.action,
            "arguments": {name: _value(value) for name, value in step.arguments.items()},
            "observation": shortened(step.observation),
        }
        room -= len(json.dumps(stored, ensure_ascii=False, default=str).encode())
        if room < 0:
            break
        kept.append(stored)
    return kept[::-1]


def one_line(text: str) -> str:
    """A text without line breaks, so that an entry is a line."""
    return " ".join(text.split())


def shown_line(text: str) -> str:
    """The same for a model: without invisible characters and control tokens."""
    return one_line(clean(text))


def shortened(text: str, most: int = _MAX_TEXT_CHARACTERS) -> str:
    """A text, or its beginning with how much more there was."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} characters more)"


def _value(value: object) -> object:
    if isinstance(value, str):
        return shortened(value)
    if isinstance(value, bool | int | float) or value is None:
        return value
    text = str(value)
    return value if len(text) <= _MAX_TEXT_CHARACTERS else shortened(text)
