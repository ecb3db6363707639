"""Finds sentences in a text."""

from __future__ import annotations

import re

_SENTENCE = re.compile(r".+?(?:[.!?…]+(?=\s|$)|\n|$)", re.DOTALL)


def first_sentence(text: str) -> str:
    """Return the first sentence of `text`, verbatim but without surrounding white space."""
    match = _SENTENCE.match(text.strip())
    return match.group().strip() if match else text.strip()
