"""One byte string per value: what digests and request hashes are computed over."""

from __future__ import annotations

import hashlib
import json
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any


def canonical_json(value: Any) -> str:
    """Render a JSON value with sorted keys and one spelling per number.

    PostgreSQL's jsonb keeps neither the order of keys nor the spelling of numbers (1e5 becomes 100000), so a digest
    over the text as it was given could not be computed again from what is stored.
    """
    if not _has_fraction(value):
        # The same spelling by the standard library, which is many times faster.
        return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return _spell(value)


def _spell(value: Any) -> str:
    match value:
        case str():
            return encode_basestring(value)
        case None | bool():
            return json.dumps(value)
        case int():
            return str(value)
        case float() | Decimal():
            number = Decimal(repr(value)) if isinstance(value, float) else value
            return format(number.normalize(), "f") if number else "0"
        case dict():
            return "{" + ",".join([f"{encode_basestring(key)}:{_spell(value[key])}" for key in sorted(value)]) + "}"
        case list() | tuple():
            return "[" + ",".join([_spell(item) for item in value]) + "]"
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def _has_fraction(value: Any) -> bool:
    """Whether a number that is no whole one stands anywhere in it, or something that is no JSON."""
    match value:
        case None | bool() | str() | int():
            return False
        case dict():
            return any(not isinstance(key, str) or _has_fraction(item) for key, item in value.items())
        case list() | tuple():
            return any(map(_has_fraction, value))
    return True


def sha256(*parts: bytes) -> bytes:
    """SHA-256 of the concatenation of `parts`, 32 bytes."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.digest()
