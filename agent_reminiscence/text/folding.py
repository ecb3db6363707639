"""Words and names folded to what they are compared by."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from typing import Final

# A key is a folded name up to this length, plus a hash if it was cut: folding can turn one character into 18, and a
# PostgreSQL btree refuses 2.7 kB, a Neo4j one about 8 kB.
NAME_KEY_CHARACTERS: Final = 200

# Accents of Latin, Greek and Cyrillic, except the one that turns и into another letter; and the vowel points of Arabic
# and Hebrew. Other marks, such as those of kana and Devanagari, make a different letter.
_ACCENT = re.compile(r"[\u0300-\u0305\u0307-\u036f]|(?<![иИ])\u0306|[\u064b-\u065f\u0591-\u05c7]")
_POSSESSIVE = re.compile(r"['’]s$|['’]$")

FORMS_OF_ADDRESS = frozenset(
    {"dr", "herr", "frau", "madame", "miss", "monsieur", "mr", "mrs", "ms", "mx", "prof", "professor"}
)
"""Titles that are not part of a name, in lower case. Adding more would change stored keys."""


def without_possessive(text: str) -> str:
    """`text` without a possessive ending: `Tim's` becomes `Tim`, and `James'` becomes `James`."""
    # Most words have none; this check is faster than the regular expression.
    return _POSSESSIVE.sub("", text) if text.endswith(("s", "'", "’")) else text


def name_key(name: str) -> str:
    """Fold a name for comparison: without case, accents, titles, possessive ending and surplus spaces.

    A long key is cut and ends in a hash of the whole, so that it fits an index and different names have different
    keys. '' if nothing is left.
    """
    if not name.isascii():
        decomposed = _ACCENT.sub("", unicodedata.normalize("NFKD", name.replace("’", "'")))
        name = unicodedata.normalize("NFC", decomposed)
    words = name.split()
    while len(words) > 1 and _is_title(words[0]):
        words.pop(0)
    key = without_possessive(" ".join(words).casefold()).strip()
    if len(key) > NAME_KEY_CHARACTERS:
        return f"{key[:NAME_KEY_CHARACTERS]}#{hashlib.sha256(key.encode()).hexdigest()}"
    return key


def _is_title(word: str) -> bool:
    """Whether a word before a name is a title; one in capitals may be something else, such as MS."""
    return word.rstrip(".").casefold() in FORMS_OF_ADDRESS and not (len(word) > 1 and word.isupper())


# A word, with apostrophes, hyphens and dots inside it.
WORD = re.compile(r"[^\W_]+(?:['’.-][^\W_]+)*")


def fold_text(text: str) -> str:
    """`text` in the form compared to find repetitions: without case, surplus space and a final full stop.

    Every other sign stays: it may be a currency, a minus or a question mark.
    """
    return " ".join(text.casefold().split()).removesuffix(".")


def without_speaker(content: str, speaker: str | None) -> str:
    """`content` without its speaker's leading `Name:`, which was not said."""
    return content.lstrip().removeprefix(f"{speaker}:").lstrip() if speaker else content


def fold_name(name: str) -> str:
    """A speaker's name as it is compared: without case, diacritics and surplus spaces.

    In Python because the embedded server has no unaccent extension. Not `name_key`, which drops titles and keeps marks
    that make a different letter: existing rows hold what this function returns.
    """
    decomposed = unicodedata.normalize("NFKD", name)
    plain = "".join(character for character in decomposed if not unicodedata.combining(character))
    return " ".join(plain.casefold().split())


def snake_case(type_: str) -> str:
    """A type, spelled as types are: in lower case, with underscores."""
    return re.sub(r"[\W_]+", "_", type_.lower()).strip("_")
