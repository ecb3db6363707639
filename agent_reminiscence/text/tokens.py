"""Counts tokens without a tokenizer: an estimate from the characters, the same everywhere.

Models differ: some texts have more than twice as many tokens for one as for another. The costs below were fitted to 98
texts of some kB, so that none of them is counted more than 2 % under what the tokenizers of OpenAI (o200k), of Gemini
and of Qwen 3.6 count. A short piece, a list of names or a language that was not among them may be.
[Decision 52](../../docs/adr/0052-tokens-are-estimated.md) has the figures, and what other models count.
"""

from __future__ import annotations

import re
import secrets
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import Final

from agent_reminiscence.text.english_words import ENGLISH_WORDS

TokenCounter = Callable[[str], int]
"""Counts the tokens of a text; replaceable wherever a limit or budget is given in tokens."""

TOKEN: Final = 100
"""Costs are whole hundredths of a token: their sum is the same in every order, and for parts as for the whole."""

_COMMON_WORD: Final = 97
_WORD: Final = 130
_LETTER_OVER_FOUR: Final = 10
_LETTER_OVER_EIGHT: Final = 20
# Where a capital follows a small letter, as in `userName`: a new token begins.
_TURN: Final = 180
# Capitals have few tokens of their own: each letter of a word that has nothing else.
_CAPITAL: Final = 12
# What a word's dearest accent costs, by its letter; each further one costs at most `_FURTHER_ACCENT`. Tokenizers know
# French, Portuguese and Vietnamese words with their accents, Croatian and Latvian ones hardly.
_ACCENTED_LETTER: Final = 330
_FURTHER_ACCENT: Final = 80
_VIETNAMESE_WORD: Final = 30  # whatever its accents
_ACCENTED_LETTERS: Final = (
    ("àâãçèéêîïñòôùûß", 30),
    ("åæëðøþąęłńśźżěřůďťňľğıİşășțţőűđ", 140),
    ("äöüõáíóúý", 280),
)
_SPACES: Final = 150  # two or more; a single one is part of the word after it
_LINE_ENDS: Final = 60
_PUNCTUATION: Final = 70  # of the same mark, as `---`

# What a character costs, by the first of its range. The ranges cover Unicode; ASCII has only digits and control
# characters here, and Latin letters are counted by the word.
_OTHER: Final = 150
_PICTOGRAPH: Final = 280
_JOINER: Final = 110
# Characters that some tokenizers know by their bytes alone: a token for each of three or four, or merged by twos.
_HALF_KNOWN: Final = 200
_UNKNOWN: Final = 300
_RARE: Final = 400
_RANGES: Final = (
    (0x00, _OTHER),  # control characters
    (0x30, 107),  # digits
    (0x3A, _OTHER),  # accents and signs, up to 0x36F
    (0x0370, 45),  # Greek, Cyrillic
    (0x0530, _OTHER),  # Armenian
    (0x0590, 45),  # Hebrew, Arabic
    (0x0700, _HALF_KNOWN),  # Syriac
    (0x0750, 45),  # Arabic, more
    (0x0780, _HALF_KNOWN),  # Thaana, N'Ko
    (0x0900, 65),  # scripts of India
    (0x0D80, 110),  # Sinhala
    (0x0E00, 65),  # Thai
    (0x0E80, _HALF_KNOWN),  # Lao, Tibetan
    (0x1000, _OTHER),  # Burmese, Georgian, Hangul's parts
    (0x1200, _HALF_KNOWN),  # Ethiopic
    (0x13A0, _UNKNOWN),
    (0x1780, 130),  # Khmer
    (0x1800, _UNKNOWN),
    (0x1D00, _OTHER),  # phonetic letters, Greek with many accents, dashes and quotation marks
    (0x200B, _JOINER),
    (0x2010, _OTHER),
    (0x20E3, _JOINER),  # the frame of a keycap
    (0x20E4, _OTHER),
    (0x2300, _PICTOGRAPH),
    (0x2400, _OTHER),
    (0x2600, _PICTOGRAPH),
    (0x27C0, _OTHER),
    (0x2B00, _PICTOGRAPH),
    (0x2C00, _UNKNOWN),
    (0x3000, 140),  # CJK punctuation
    (0x3040, 70),  # kana
    (0x3100, _UNKNOWN),
    (0x3130, _OTHER),  # Hangul's letters
    (0x3190, _UNKNOWN),
    (0x31F0, 70),  # kana, more
    (0x3200, _UNKNOWN),
    (0x3400, 92),  # Han
    (0xA000, _UNKNOWN),
    (0xAC00, 96),  # Hangul
    (0xD7B0, _UNKNOWN),
    (0xF900, 92),  # Han, more
    (0xFB00, _UNKNOWN),  # forms of Arabic letters
    (0xFE00, _JOINER),
    (0xFE10, _UNKNOWN),
    (0xFF00, 140),  # wide and narrow forms
    (0xFFF0, _OTHER),
    (0x10000, _RARE),
    (0x1F000, _PICTOGRAPH),
    (0x1FB00, _RARE),
    (0xE0000, _JOINER),  # the letters of a flag
    (0xE0080, _RARE),
)
_FIRSTS: Final = [first for first, _ in _RANGES]

_LATIN: Final = r"A-Za-z\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u024F\u1E00-\u1EFF"
_MARKS: Final = r"!-/:-@\[-`{-~"
_LATIN_WORD: Final = re.compile(f"[{_LATIN}]+")
# Runs are counted by the piece: no tokenizer takes any number of characters at once.
_SAME_MARKS: Final = re.compile(rf"([{_MARKS}])\1{{0,3}}")
_MANY_SPACES: Final = re.compile(r"[ \t]{2,16}")
_MANY_LINE_ENDS: Final = re.compile(r"[\r\n]{1,16}")
_CHARACTER: Final = re.compile(rf"[^{_LATIN}{_MARKS} \t\r\n]")

# A pattern holds the interpreter lock until it is through, so a long text is read in parts of about this many
# characters. No part ends within a word or a run of equal characters, so the costs of all parts add up.
_PART_CHARACTERS: Final = 32_768
_PART_END: Final = re.compile(
    rf"{_CHARACTER.pattern}|[{_LATIN}](?![{_LATIN}])|([{_MARKS}])(?!\1)|[ \t](?![ \t])|[\r\n](?![\r\n])"
)

# The least and the most that characters can cost. `most_tokens` adds the second for each byte beyond the first of a
# character: a letter with an accent costs its letter's share of the word, and at most 330.
_LEAST_PIECE: Final = 45
_LEAST_ASCII_PIECE: Final = 70
_MOST_CHARACTER: Final = 160
_MOST_FURTHER_BYTE: Final = 330


def count_tokens(text: str) -> int:
    """Count the tokens of `text`, as an estimate that is rather too high than too low.

    Args:
        text: Any text without lone surrogates, however long.

    Returns:
        The number of tokens, rounded up; 0 for an empty text. Without special tokens.
    """
    return _rounded_up(text_cost(text))


def count_tokens_batch(texts: Sequence[str]) -> list[int]:
    """Count the tokens of each of `texts`.

    Returns:
        One count per text, in order; each equals that of `count_tokens`.
    """
    return list(map(count_tokens, texts))


def count_lines(lines: Sequence[str]) -> list[int]:
    """Count what each line adds to a text that it is appended to, its line break included.

    Each is rounded up, so these counts add up to at least that of the whole text. `line_costs` are not rounded.
    """
    return list(map(_rounded_up, line_costs(lines)))


def text_cost(text: str) -> int:
    """Return what `text` costs, in hundredths of a token; `count_tokens` rounds it up."""
    return sum(map(_cost, _parts(text)))


def line_costs(lines: Iterable[str]) -> list[int]:
    """Return what each line costs in a text that it is appended to, its line break included, in hundredths of a token.

    A line break ends every word and run, so the costs add up to exactly that of the whole text. Empty lines are the
    exception: several line breaks in a row are one run.
    """
    return [text_cost(f"\n{line}") for line in lines]


def least_tokens(lines: Iterable[str]) -> int:
    """Return a lower bound for the tokens of `lines`, their line breaks included, from the number of words alone."""
    return (
        sum(_LINE_ENDS + len(line.split()) * (_LEAST_ASCII_PIECE if line.isascii() else _LEAST_PIECE) for line in lines)
        // TOKEN
    )


class TokenCounts:
    """Counts the tokens of recurring texts, such as hits, once.

    A count is stored under a digest of its text, keyed with a secret of this object: it reveals neither what an erased
    text said nor that it existed.

    Args:
        most: How many counts are kept, newest first; some 150 bytes each.
    """

    def __init__(self, most: int = 8_192) -> None:
        self._most = most
        self._key = secrets.token_bytes(16)
        self._counts: dict[bytes, int] = {}

    def count_one(self, text: str) -> int:
        """Return the count of one text, as `count_tokens` does."""
        return self.count([text])[0]

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return one count per text, in order; each equals that of `count_tokens`."""
        digests = [blake2b(text.encode(), digest_size=16, key=self._key).digest() for text in texts]
        new = {digest: text for digest, text in zip(digests, texts, strict=True) if digest not in self._counts}
        if new:
            self._counts.update(zip(new, count_tokens_batch(list(new.values())), strict=True))
        counts = [self._counts[digest] for digest in digests]
        while len(self._counts) > self._most:
            del self._counts[next(iter(self._counts))]
        return counts


def most_tokens(text: str) -> int:
    """Return an upper bound for `count_tokens`, from the length of `text` in characters and bytes alone.

    Args:
        text: Any text without lone surrogates.
    """
    further_bytes = 0 if text.isascii() else len(text.encode()) - len(text)
    return _rounded_up(_MOST_CHARACTER * len(text) + _MOST_FURTHER_BYTE * further_bytes)


class _CharacterCosts(dict[str, int]):
    """What characters cost, filled as they occur; those beyond U+FFFF are looked up each time, so it stays small."""

    def __missing__(self, character: str) -> int:
        cost = _RANGES[bisect_right(_FIRSTS, ord(character)) - 1][1]
        if character <= "\uffff":
            self[character] = cost
        return cost


_CHARACTER_COSTS: Final = _CharacterCosts()
_ACCENT_COSTS: Final = {
    letter: cost
    for letters, cost in _ACCENTED_LETTERS
    for letter in letters + letters.upper()
    if not letter.isascii()  # as two of the capitals are
}
_VIETNAMESE_LETTERS: Final = frozenset("ơưƠƯ") | {chr(code) for code in range(0x1EA0, 0x1EFA)}
# Both spellings, because looking a word up is cheaper than changing its case.
_COMMON_WORDS: Final = ENGLISH_WORDS | {word.capitalize() for word in ENGLISH_WORDS}


def _parts(text: str) -> Iterator[str]:
    """The text in parts whose costs add up to its own."""
    if len(text) <= _PART_CHARACTERS:
        yield text
        return
    start = 0
    while start < len(text):
        match = _PART_END.search(text, start + _PART_CHARACTERS)
        end = len(text) if match is None else match.end()
        yield text[start:end]
        start = end


def _cost(text: str) -> int:
    words = _LATIN_WORD.findall(text)
    # No cache of words: it would keep those of erased texts.
    others = [word for word in words if word not in _COMMON_WORDS]
    return (
        _COMMON_WORD * (len(words) - len(others))
        + sum(map(_word_cost, others))
        + sum(map(_CHARACTER_COSTS.__getitem__, _CHARACTER.findall(text)))
        + _SPACES * len(_MANY_SPACES.findall(text))
        + _LINE_ENDS * len(_MANY_LINE_ENDS.findall(text))
        + _PUNCTUATION * len(_SAME_MARKS.findall(text))
    )


def _word_cost(word: str) -> int:
    """The cost of a Latin word that is not a common one."""
    length = len(word)
    cost = _WORD
    if length > 4:
        cost += _LETTER_OVER_FOUR * (length - 4)
        if length > 8:
            cost += _LETTER_OVER_EIGHT * (length - 8)
    if length > 1 and not word[1:].islower():
        cost += _TURN * sum(before.islower() and letter.isupper() for before, letter in pairwise(word))
        if word.isupper():
            cost += _CAPITAL * length
    if not word.isascii():
        cost += _accents_cost(word)
    return cost


def _accents_cost(word: str) -> int:
    costs = [_ACCENT_COSTS.get(letter, _ACCENTED_LETTER) for letter in word if not letter.isascii()]
    if word.isupper() and len(word) > 1:
        # Few words are known in capitals.
        return _ACCENTED_LETTER * len(costs)
    if not _VIETNAMESE_LETTERS.isdisjoint(word):
        return _VIETNAMESE_WORD
    if len(costs) == 1:
        return costs[0]
    dearest = max(costs)
    return dearest + sum([min(cost, _FURTHER_ACCENT) for cost in costs]) - min(dearest, _FURTHER_ACCENT)


def _rounded_up(cost: int) -> int:
    return -(-cost // TOKEN)
