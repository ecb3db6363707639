"""Texts and values as the memory can hold them."""

from __future__ import annotations

import math
from typing import Any


def plain_text(text: str) -> str:
    """A text without NUL and halves of surrogate pairs, which PostgreSQL cannot hold; each becomes a question mark."""
    return text.replace("\x00", "?").encode(errors="replace").decode()


def plain_value(value: Any) -> Any:
    """A value of JSON with such texts; a number that JSON has not, and whatever else is none, becomes its text."""
    match value:
        case str():
            return plain_text(value)
        case dict():
            return {plain_text(str(key)): plain_value(item) for key, item in value.items()}
        case list() | tuple():
            return [plain_value(item) for item in value]
        case float() if not math.isfinite(value):
            return str(value)
        case bool() | int() | float() | None:
            return value
        case _:
            return plain_text(str(value))
