"""Values as the memory can hold them."""

from __future__ import annotations

import math
from typing import Any

from agent_reminiscence.text.storable import storable_text


def plain_value(value: Any) -> Any:
    """A value of JSON with storable texts; a number that JSON has not, and whatever else is none, becomes its text."""
    match value:
        case str():
            return storable_text(value)
        case dict():
            return {storable_text(str(key)): plain_value(item) for key, item in value.items()}
        case list() | tuple():
            return [plain_value(item) for item in value]
        case float() if not math.isfinite(value):
            return str(value)
        case bool() | int() | float() | None:
            return value
        case _:
            return storable_text(str(value))
