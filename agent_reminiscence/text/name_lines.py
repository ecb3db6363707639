"""Lines and words of a text, as the search for names reads them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from agent_reminiscence.text.chunking import clean_speaker
from agent_reminiscence.text.folding import without_possessive, without_speaker
from agent_reminiscence.text.german import is_german
from agent_reminiscence.text.label_words import ROLES
from agent_reminiscence.text.name_words import (
    ABBREVIATIONS,
    CONNECTORS,
    CONVERSATION_WORDS,
    DATES,
    FUNCTION_WORDS,
    GENERIC_ACRONYMS,
    TITLE_SMALL_WORDS,
    TITLES,
)

_MAX_NAME_WORDS = 8
_MAX_WORD_CHARACTERS = 60
_SHOUTED_SHARE = 0.6
_HEADING_MIN_WORDS = 3
NOISE = FUNCTION_WORDS | CONVERSATION_WORDS | DATES | GENERIC_ACRONYMS | TITLES

# Words trimmed from the end of a run, and from its start inside a sentence; `New York` and `Apple TV` stay whole.
_LOOSE_WORDS = FUNCTION_WORDS | DATES

_WORD = re.compile(
    r"""
    (
      (?:[^\W\d_]\.)+(?!\w)              # J.K., R.
    | [^\W_]\w*(?:[-'’.&]\w+)*            # Anne-Marie, O'Neill, AT&T, 12
    | &
    )
    """,
    re.VERBOSE,
)

_QUOTED = re.compile(
    r"""
      ["“„«]([^"“”„«»]{2,100})["”“»]
    | (?<!\w)['\u2018]([^'\u2018\u2019"“”]{2,100})['\u2019](?!\w)
    """,
    re.VERBOSE,
)

_QUOTATION_MARKS = ('"', "“", "„", "«", "'", "\u2018")
# Each opens a quotation, or closes the one that is open: languages use them in opposite ways.
_SPEECH_MARKS = frozenset('"“”„«»')
INITIALS = re.compile(r"(?:[^\W\d_]\.)+")
_FENCED = re.compile(r"^[ \t]*```.*?(?:^[ \t]*```|\Z)", re.MULTILINE | re.DOTALL)
_INLINE_CODE = re.compile(r"`[^`\n]*`")
_LIST_MARK = re.compile(r"(?:[-*+•>]|\d{1,3}[.)])\s+")
_ADDRESS_MARKS = ("@", "://", "www.", "\\", "#", "_")
_LETTER_BETWEEN_DIGITS = re.compile(r"\d[^\W\d_]+\d|[^\W\d_]\d+[^\W\d_]")

# Between words, these do not end a sentence.
_WITHIN_SENTENCE = frozenset(" ,'’/)%$€£+=*_")


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk of one memory's text.

    Attributes:
        speaker: Who says it; None if unknown.
    """

    content: str
    speaker: str | None


class Word(NamedTuple):
    """A word, a number, or `&`.

    Attributes:
        begins: Whether a sentence begins or may begin here.
        joined: Whether it is preceded by exactly one space.
        quoted: Whether it is in quotation marks around what looks like a title.
    """

    text: str
    begins: bool
    joined: bool
    quoted: bool


class Line(NamedTuple):
    """A line of a passage.

    Attributes:
        proves: Whether its capital letters are evidence.
        is_german: Whether it is German, so that nouns have capital letters too.
        questions: The indices of the words that begin a question.
        quoted: The indices of the words that the line quotes: "I" among them may be anybody.
    """

    words: list[Word]
    proves: bool
    is_shouted: bool
    is_german: bool
    questions: frozenset[int]
    quoted: frozenset[int]


class Page(NamedTuple):
    """A passage, read into lines and words."""

    speaker: str | None
    lines: list[Line]


def read_passage(passage: Passage) -> Page:
    """The speaker, lines and words of a passage."""
    speaker = clean_speaker("".join(filter(str.isprintable, passage.speaker or "")))
    text = without_speaker(passage.content, passage.speaker)
    if speaker and (speaker.casefold() in ROLES or not any(character.isalpha() for character in speaker)):
        speaker = None
    return Page(speaker, read_lines(text))


def read_lines(text: str) -> list[Line]:
    """The lines of a text as words, without code and addresses."""
    if "`" in text:
        text = _INLINE_CODE.sub(" _ ", _FENCED.sub("\n", text))
    text = unicodedata.normalize("NFC", text)
    return [_read_line(line) for line in text.splitlines() if line.strip()]


def _read_line(line: str) -> Line:
    pieces = line.split()
    if any(mark in line for mark in _ADDRESS_MARKS):
        pieces = [_without_address(piece) for piece in pieces]
    line = " ".join(pieces)
    is_heading, is_quotation = line.startswith("#"), line.startswith(">")
    while mark := _LIST_MARK.match(line):
        line = line[mark.end() :]
    words = _read_words(line)
    is_shouted = _is_shouted(words)
    return Line(
        words,
        not (is_heading or is_shouted or _is_title_case(line, words)),
        is_shouted,
        is_german([word.text for word in words]),
        _find_questions(line, words) if "?" in line else frozenset(),
        frozenset(range(len(words))) if is_quotation else _find_quoted(line, words),
    )


def _find_quoted(line: str, words: Sequence[Word]) -> frozenset[int]:
    """The indices of the words in quotation marks."""
    if _SPEECH_MARKS.isdisjoint(line):
        return frozenset()
    found: list[int] = []
    is_open = False
    end = 0
    for index, word in enumerate(words):
        start = line.find(word.text, end)
        is_open ^= sum(mark in _SPEECH_MARKS for mark in line[end:start]) % 2 == 1
        if is_open:
            found.append(index)
        end = max(start, end) + len(word.text)
    return frozenset(found)


def _find_questions(line: str, words: Sequence[Word]) -> frozenset[int]:
    """The indices of the words that begin a sentence with a question mark."""
    found: list[int] = []
    begin = end = 0
    for index, word in enumerate(words):
        start = line.find(word.text, end)
        if index and "?" in line[end:start]:
            found.append(begin)
        if word.begins:
            begin = index
        end = max(start, end) + len(word.text)
    if "?" in line[end:]:
        found.append(begin)
    return frozenset(found)


def _read_words(line: str) -> list[Word]:
    quotes = _QUOTED.finditer(line) if any(mark in line for mark in _QUOTATION_MARKS) else ()
    titles = [quote.span() for quote in quotes if _is_title_like(quote[quote.lastindex or 0])]
    words: list[Word] = []
    begins = True
    end = 0  # of the previous word
    # Separators and words, alternating: splitting a line once is faster than finding each word.
    pieces = _WORD.split(line)
    for before, text in zip(pieces[:-1:2], pieces[1::2], strict=True):
        between, quoted = before, False
        joined = between == " "
        if titles:
            start = end + len(between)
            while titles and titles[0][1] <= start:
                titles.pop(0)
            quoted = bool(titles) and titles[0][0] < start
            # A title is one name, commas and all.
            joined = joined or (quoted and titles[0][0] < end)
            end = start + len(text)
        if not joined and between.startswith(".") and words and words[-1].text.casefold() in ABBREVIATIONS:
            words[-1] = words[-1]._replace(text=f"{words[-1].text}.")
            between = between[1:]
            joined = between == " "
        begins = begins or not (joined or _WITHIN_SENTENCE.issuperset(between))
        words.append(Word(text, begins, joined, quoted))
        begins = False
    return words


def _without_address(piece: str) -> str:
    """`piece`, or `_` for an e-mail address, a link, a path, a tag or an identifier."""
    inner = piece.strip("*_~.,;:!?()[]\"'“”")
    if piece.strip("#") and any(mark in inner for mark in _ADDRESS_MARKS):
        return "_" + piece[-1] if piece[-1] in ".!?" else "_"
    return piece


def _is_title_like(text: str) -> bool:
    """Whether each word of a quotation has a capital letter, except small words inside it."""
    words = text.rstrip(".,").split()
    if not 1 <= len(words) <= _MAX_NAME_WORDS or not is_capital(words[0]) or text[-1] in "!?" or "…" in text:
        return False
    main = [word for word in words if word.casefold() not in TITLE_SMALL_WORDS]
    if not all(is_capital(word) or word[0].isdigit() for word in main) or all(_is_noise(word) for word in main):
        return False
    return len(main) == 1 or not all(word.isupper() for word in main)


def _is_shouted(words: Sequence[Word]) -> bool:
    shouted = len([word for word in words if word.text.isupper() and len(word.text) > 1])
    return shouted > 1 and len(words) > 3 and shouted >= _SHOUTED_SHARE * len(words)


def _is_title_case(line: str, words: Sequence[Word]) -> bool:
    """Whether a line is a heading in which every word except small ones has a capital letter."""
    if line.endswith((".", "!", "?")) or "," in line:
        return False
    main = [word.text for word in words if word.text.casefold() not in TITLE_SMALL_WORDS]
    return len(main) >= _HEADING_MIN_WORDS and all(not text[0].islower() for text in main)


def trim(run: Sequence[Word]) -> list[Word]:
    """A run without the words at its ends that are not part of a name; may be empty."""
    run = list(run)
    while run and _is_loose(run[0]) and not (len(run) > 1 and is_title(run[0].text)):
        if len(run) == 2 and run[0].text == "The" and not run[0].begins and not _is_noise(run[1].text):
            break  # a capital article inside a sentence is part of the name: `The Hague`
        run.pop(0)
    while run and (run[-1].text.casefold() in _LOOSE_WORDS or run[-1].text == "&"):
        run.pop()
    if len(run) == 1 and _is_noise(run[0].text):
        return []
    return run


def _is_loose(word: Word) -> bool:
    if word.begins:
        return _is_noise(word.text)
    return without_possessive(word.text.casefold()) in _LOOSE_WORDS or word.text.casefold() in CONNECTORS


def _is_noise(word: str) -> bool:
    """Whether a word is not a name by itself: a function word, interjection, date, common acronym or letter."""
    lower = without_possessive(word.casefold().rstrip(".")).rstrip(".,!?:;")
    return len(lower) < 2 or lower in NOISE or lower.endswith("n't") or lower.split("'")[0] in NOISE


def is_title(word: str) -> bool:
    """Whether a word is a form of address."""
    # In capitals it is something else: MS Office is not a person.
    return word.casefold().rstrip(".") in TITLES and not (len(word) > 1 and word.isupper())


def has_title(run: Sequence[Word]) -> bool:
    """Whether a run is a person's name with a title: `Dr. Smith`, not `Lord of the Isles`."""
    return len(run) > 1 and is_title(run[0].text) and run[1].text not in CONNECTORS


def is_capital(word: str) -> bool:
    """Whether a word is capitalised like a name: `Ada`, `NASA`, `iPhone`; not an identifier."""
    if word.islower() or not (word[0].isupper() or (len(word) > 2 and word[0].islower() and word[1].isupper())):
        return False
    return len(word) <= _MAX_WORD_CHARACTERS and not (len(word) > 7 and _LETTER_BETWEEN_DIGITS.search(word))


def has_inner_capital(word: str) -> bool:
    """Whether a capital letter follows a small one: `GitHub`, `iPhone`."""
    return any(before.islower() and after.isupper() for before, after in pairwise(word))


def is_acronym(word: str) -> bool:
    """Whether a word is an acronym of three letters or more."""
    return len(word) > 2 and word.isupper() and word.isalpha()


def is_paired(following: Sequence[Word]) -> bool:
    """Whether "and" joins another name: `Luna and Oliver`."""
    return len(following) == 2 and following[0].text in ("and", "&") and is_capital(following[1].text)
