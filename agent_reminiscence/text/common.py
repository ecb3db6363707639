"""Tells ordinary words from uncommon ones, which may be names."""

from __future__ import annotations

from math import log
from typing import Final

from agent_reminiscence.text.name_words import SHORT_NAMES
from agent_reminiscence.text.tokens import bundled_tokenizer

# The tokenizer's tokens are numbered by how common they are: words up to the first number are in every text, those from
# the second on are telling.
_EVERYWHERE: Final = 300
_TELLING: Final = 6_000


def is_common(word: str) -> bool:
    """Whether a word in lower case is an ordinary one.

    The bundled tokenizer's 32,000 tokens are the commonest words of web pages, with few given names among them.
    Without the tokenizer every word counts as ordinary, and fewer names are found.
    """
    if word in SHORT_NAMES:
        return False
    tokenizer = bundled_tokenizer()
    return tokenizer is None or tokenizer.token_to_id(f"▁{word}") is not None


def rarity(word: str) -> float:
    """How uncommon a word in lower case is: 0 for the commonest, 1 for one that tells something.

    Judged by the bundled tokenizer; without it every word counts as uncommon.
    """
    tokenizer = bundled_tokenizer()
    rank = None if tokenizer is None else tokenizer.token_to_id(f"▁{word}")
    if rank is None:
        return 1.0
    return min(1.0, max(0.0, log(max(1, rank) / _EVERYWHERE) / log(_TELLING / _EVERYWHERE)))
