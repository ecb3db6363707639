"""Tells ordinary words from uncommon ones, which may be names."""

from __future__ import annotations

from agent_reminiscence.text.name_words import SHORT_NAMES
from agent_reminiscence.text.tokens import bundled_tokenizer


def is_common(word: str) -> bool:
    """Whether a word in lower case is an ordinary one.

    The bundled tokenizer's 32,000 tokens are the commonest words of web pages, with few given names among them.
    Without the tokenizer every word counts as ordinary, and fewer names are found.
    """
    if word in SHORT_NAMES:
        return False
    tokenizer = bundled_tokenizer()
    return tokenizer is None or tokenizer.token_to_id(f"▁{word}") is not None
