"""One byte string per value: what digests and request hashes are computed over."""

from __future__ import annotations

import hashlib
import json
from decimal import Decimal
from typing import Any


def canonical_json(value: Any) -> str:
    """Render a JSON value with sorted keys and one spelling per number.

    PostgreSQL's jsonb keeps neither the order of keys nor the spelling of numbers (1e5 becomes 100000), so a digest
    over the text as it was given could not be computed again from what is stored.
    """
    match value:
        case None | bool() | str():
            return json.dumps(value, ensure_ascii=False)
        case int():
            return str(value)
        case float() | Decimal():
            number = Decimal(repr(value)) if isinstance(value, float) else value
            return format(number.normalize(), "f") if number else "0"
        case dict():
            items = (f"{json.dumps(key, ensure_ascii=False)}:{canonical_json(value[key])}" for key in sorted(value))
            return "{" + ",".join(items) + "}"
        case list() | tuple():
            return "[" + ",".join(canonical_json(item) for item in value) + "]"
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def sha256(*parts: bytes) -> bytes:
    """SHA-256 of the concatenation of `parts`, 32 bytes."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.digest()
