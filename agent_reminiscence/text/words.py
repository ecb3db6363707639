"""The terms of a text: what is indexed, and what a question looks up.

Indexing and querying use the same function, so a term means the same everywhere. It depends only on the text and the
language, not on the locale, the machine or the server. Two dependencies are pinned in pyproject.toml because other
versions give different terms: Snowball's stemmers and the lists of stop words. A letter that a new version of Unicode
added is a letter only to a Python that knows it (3.12 has Unicode 15.0, 3.14 has 16.0).
"""

from __future__ import annotations

import hashlib
import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import Stemmer  # type: ignore[import-untyped, import-not-found, unused-ignore]

from agent_reminiscence.config.languages import LANGUAGES
from agent_reminiscence.text.languages import question_words, stop_words
from agent_reminiscence.text.signs import signs

# Recorded with the schema; what another version has indexed is indexed again. Raise it when a text, its speaker or
# its time gives different terms or flags.
ANALYSER_VERSION: Final = 5

# A longer word is cut and ends in a hash of the whole word so that an index can hold it; see `MAX_TERM_BYTES`.
MAX_WORD_CHARACTERS: Final = 64
_KEPT_CHARACTERS: Final = 32
# No term is longer than this in UTF-8. A btree entry may have some 2,700 bytes.
MAX_TERM_BYTES: Final = 512

_HAN_RANGES: Final = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003347f"
# Unicode ranges of scripts without spaces between words, and of Hangul, whose words carry their particles.
_UNSPACED: Final = (
    "\u0e01-\u0e3a\u0e40-\u0e4e"  # Thai
    "\u0e81-\u0ecf"  # Lao
    "\u1000-\u103f\u1050-\u108f"  # Burmese
    "\u1780-\u17d3"  # Khmer
    "\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3"  # Hangul
    "\u3005-\u3007\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"  # Kana
    "\u3105-\u312f\u31a0-\u31bf"  # Bopomofo
) + _HAN_RANGES
# Marks inside words that Python does not treat as word characters: accents without a composed form, the vowel signs of
# Hebrew and Arabic, and those of the scripts of India, whose blocks of 128 share one layout.
_INDIC_MARKS: Final = "".join(
    f"{chr(block)}-{chr(block + 0x03)}{chr(block + 0x3A)}-{chr(block + 0x3C)}{chr(block + 0x3E)}-{chr(block + 0x4F)}"
    f"{chr(block + 0x51)}-{chr(block + 0x57)}{chr(block + 0x62)}{chr(block + 0x63)}"
    for block in range(0x0900, 0x0D80, 0x80)
)
_MARKS: Final = (
    "\u0300-\u036f\u0483-\u0487"  # Latin, Greek, Cyrillic
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"  # Hebrew
    "\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed"  # Arabic
    "\u0d81-\u0d83\u0dca\u0dcf-\u0ddf\u0df2\u0df3"  # Sinhala
) + _INDIC_MARKS
_LETTER: Final = rf"[^\W_{_UNSPACED}]"
_WORD: Final = re.compile(rf"{_LETTER}(?:{_LETTER}|[{_MARKS}])*")
_UNSPACED_RUN: Final = re.compile(f"[{_UNSPACED}]+")
_WORD_OR_RUN: Final = re.compile(f"{_UNSPACED_RUN.pattern}|{_WORD.pattern}")
_HAN: Final = re.compile(f"[{_HAN_RANGES}]")
_ASCII_WORD: Final = re.compile(r"[a-z0-9]+")
# Full-width letters and digits, and half-width Kana.
_OTHER_WIDTH: Final = re.compile(r"[\uff01-\uffee]+")
# What case folding makes of dotted capital I; in Turkish, dotless I has a small letter of its own.
_DOTTED_I: Final = "i\u0307"
_TURKIC_I: Final = str.maketrans({"I": "\u0131", "\u0130": "i"})


class _Stemmers(threading.local):
    """The stemmers of one thread: a stemmer used by two threads at once gives wrong stems."""

    def __init__(self) -> None:
        self._of_language: dict[str, Stemmer.Stemmer] = {}

    def get(self, language: str) -> Stemmer.Stemmer | None:
        """The stemmer of `language`, or None if it has none."""
        name = LANGUAGES.get(language)
        if name is None:
            return None
        if language not in self._of_language:
            self._of_language[language] = Stemmer.Stemmer(name)
        return self._of_language[language]


_stemmers = _Stemmers()


@dataclass(frozen=True, slots=True)
class QueryWord:
    """One word of a query.

    `terms` holds one term for each way the languages read the word; a text has the word if it has any of them. `count`
    is how often the word occurs in the query. `is_sign` marks a sign such as `c++`, which is there beside the bare `c`.
    """

    terms: tuple[str, ...]
    count: int
    is_sign: bool = False


def analyse(text: str, language: str) -> list[str]:
    """The terms of `text` with repetitions: its words in order, then its signs.

    Words are case folded, split at everything that is neither letter nor digit (apostrophes too), dropped if they are
    stop words of `language`, and stemmed. Chinese, Japanese, Korean, Thai, Lao, Khmer and Burmese give pairs of
    neighbouring characters instead, in a text of any language. Signs that this would lose (`c++`, `-5`, `€80`,
    pictographs) are terms of their own beside the words. Never raises; a language without stemmer and stop words,
    including an unknown one, keeps its words.

    Returns:
        Terms of 1 to `MAX_TERM_BYTES` bytes in UTF-8; none begins with a control character.
    """
    stopped = stop_words(language)
    folded = _folded(text, language)
    return [*_stems([word for word in _words(folded) if word not in stopped], language), *_signs(folded)]


def query_words(query: str, languages: Sequence[str], *, question: str = "") -> list[QueryWord]:
    """The words of `query` as each of `languages` reads them, in order of first occurrence, then its signs.

    Stop words and question words of the query's own language are left out in every language: in German, "the" is a word
    that no text has, and a text that answers "wann" uses other words. The query's own language is the one with the most
    such words in it.

    Args:
        question: What `query` is a part of, whose language is its own.
    """
    folded = {language: _folded(query, language) for language in languages}
    words_by_language = {language: _words(text) for language, text in folded.items()}
    asked = {language: _words(_folded(question, language)) for language in languages} if question else words_by_language
    grammar = _grammar(asked)
    counts: Counter[str] = Counter()
    terms: dict[str, list[str]] = {}
    for language, words in words_by_language.items():
        stopped = grammar | _grammar_of(language)
        said = Counter(word for word in words if word not in stopped)
        counts |= said
        for word, term in zip(said, _stems(list(said), language), strict=True):
            if term not in terms.setdefault(word, []):
                terms[word].append(term)
    sign_counts: Counter[str] = Counter()
    # Turkish folds some letters otherwise.
    for text in dict.fromkeys(folded.values()):
        sign_counts |= Counter(_signs(text))
    return [
        *(QueryWord(tuple(found), counts[word]) for word, found in terms.items()),
        *(QueryWord((sign,), count, is_sign=True) for sign, count in sign_counts.items()),
    ]


def _grammar(words_by_language: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """The grammatical words of the language that has most of them in a query; of several languages in a tie."""
    votes = {
        language: sum(word in _grammar_of(language) for word in words) for language, words in words_by_language.items()
    }
    most = max(votes.values(), default=0)
    return frozenset().union(*(_grammar_of(language) for language, count in votes.items() if count == most > 0))


@cache
def _grammar_of(language: str) -> frozenset[str]:
    return stop_words(language) | question_words(language)


def _stems(words: list[str], language: str) -> list[str]:
    stemmer = _stemmers.get(language)
    if stemmer is None:
        return words
    # A cut word ends in a hash, which may end in "ed", a suffix that a stemmer removes.
    return [
        stem if stem and len(word) <= MAX_WORD_CHARACTERS else word
        for stem, word in zip(stemmer.stemWords(words), words, strict=True)
    ]


def _words(folded: str) -> list[str]:
    if folded.isascii():
        words = _ASCII_WORD.findall(folded)
    else:
        words = _WORD.findall(folded) if _UNSPACED_RUN.search(folded) is None else _mixed_words(folded)
    return [word if len(word) <= MAX_WORD_CHARACTERS else _cut(word) for word in words]


def _signs(folded: str) -> list[str]:
    return [sign if len(sign) <= MAX_WORD_CHARACTERS else _cut(sign) for sign in signs(folded)]


def _mixed_words(folded: str) -> list[str]:
    words: list[str] = []
    for match in _WORD_OR_RUN.finditer(folded):
        run = match.group()
        if _UNSPACED_RUN.match(run) is None or len(run) == 1:
            words.append(run)
            continue
        for index, character in enumerate(run):
            if _HAN.match(character):
                words.append(character)
            if index + 1 < len(run):
                words.append(run[index : index + 2])
    return words


def _folded(text: str, language: str) -> str:
    """`text` composed and case folded; composed twice, since some letters have a composed form in lower case only."""
    if text.isascii() and language != "tr":
        return text.lower()
    composed = unicodedata.normalize("NFC", text)
    composed = _OTHER_WIDTH.sub(lambda match: unicodedata.normalize("NFKC", match[0]), composed)
    if language == "tr":
        composed = composed.translate(_TURKIC_I)
    return unicodedata.normalize("NFC", composed.casefold().replace(_DOTTED_I, "i"))


def _cut(word: str) -> str:
    return f"{word[:_KEPT_CHARACTERS]}#{hashlib.sha256(word.encode()).hexdigest()}"
