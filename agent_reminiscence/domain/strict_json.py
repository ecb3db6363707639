"""JSON whose objects have each key once."""

from __future__ import annotations

import json
from typing import Final

_SHOWN_CHARACTERS: Final = 100


class RepeatedKeyError(ValueError):
    """An object has a key twice; the message names the key."""


def refuse_repeated_keys(text: str | bytes) -> None:
    """Refuse JSON in which an object has a key twice.

    Readers of JSON disagree about such an object: most keep the last value, some the first. So a proxy that checks a
    request may see another one than the server that answers it, and whoever wrote it meant only one of the two.

    Args:
        text: JSON that another parser has accepted, so that its depth and its numbers have been checked.

    Raises:
        RepeatedKeyError: A key is there twice.
    """
    json.loads(text, object_pairs_hook=_check)


def _check(pairs: list[tuple[str, object]]) -> None:
    # Returns nothing: the values are somebody else's, and a copy of them would cost memory.
    if len(pairs) < 2:
        return
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            shown = key if len(key) <= _SHOWN_CHARACTERS else f"{key[:_SHOWN_CHARACTERS]}…"
            raise RepeatedKeyError(f"an object has the key {shown!r} twice; send each key once")
        seen.add(key)
