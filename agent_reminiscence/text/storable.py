"""Texts as PostgreSQL can hold them: without NUL, and without halves of surrogate pairs.

Texts that are remembered may come from anywhere (a model, a tool, somebody's export), and nobody can correct them. So
one rule holds wherever a text enters: each such character becomes U+FFFD, and is counted. Identifiers are refused
instead: two that differ only by such a character would become one.
"""

from __future__ import annotations

import re
from typing import Any, Final

REPLACEMENT: Final = "\ufffd"
UNSTORABLE_RULE: Final = "unstorable-character"
"""The name under which a write's `redactions` count the characters that were replaced."""

_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")


def is_storable(text: str) -> bool:
    """Whether PostgreSQL can hold a text as it is."""
    # Both look at a character in a fraction of the time that a regular expression takes.
    if "\x00" in text:
        return False
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def storable_text(text: str) -> str:
    """A text with U+FFFD for each character that cannot be stored; the two halves of a pair become their character."""
    return text if is_storable(text) else _UNSTORABLE.sub(REPLACEMENT, _joined(text))


def count_unstorable(text: str) -> int:
    """How many characters `storable_text` replaces."""
    return 0 if is_storable(text) else len(_UNSTORABLE.findall(_joined(text)))


def storable_json(value: Any) -> tuple[Any, int]:
    """A JSON value with storable texts and keys, and how many characters were replaced.

    Two keys of an object that become equal stay two: the second one gets a further U+FFFD.
    """
    match value:
        case str():
            return storable_text(value), count_unstorable(value)
        case list():
            items = [storable_json(item) for item in value]
            return [item for item, _ in items], sum(count for _, count in items)
        case dict():
            taken = set(value)
            made: dict[str, Any] = {}
            replaced = 0
            for key, item in value.items():
                made[free_key(key, taken)], count = storable_json(item)
                replaced += count + count_unstorable(key)
            return made, replaced
    return value, 0


def free_key(key: str, taken: set[str]) -> str:
    """A key as it can be stored, and different from those that are taken; it is taken from then on."""
    if is_storable(key):
        return key
    name = storable_text(key)
    while name in taken:
        name += REPLACEMENT
    taken.add(name)
    return name


def _joined(text: str) -> str:
    return _PAIR.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)
