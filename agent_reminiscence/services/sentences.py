"""Sentences as they stand in a text."""

from __future__ import annotations

import re

_SENTENCE = re.compile(r".+?(?:[.!?…]+(?=\s|$)|\n|$)", re.DOTALL)


def first_sentence(text: str) -> str:
    """The first sentence of `text`, verbatim but for the white space around it."""
    match = _SENTENCE.match(text.strip())
    return match.group().strip() if match else text.strip()
