"""Words that error messages share."""

from __future__ import annotations

_VOWELS = tuple("aeioAEIO")


def kind_of(value: object) -> str:
    """The type of a value with its article: "an int", "a str"."""
    name = type(value).__name__
    return f"{'an' if name.startswith(_VOWELS) else 'a'} {name}"
