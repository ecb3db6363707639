"""Collects the names that the capital letters of a memory prove."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Final, NamedTuple

from agent_reminiscence.text.common import is_common
from agent_reminiscence.text.folding import fold_name, name_key, without_possessive
from agent_reminiscence.text.german import PLAIN_INFLECTIONS, is_noun, is_opener, is_uncommon
from agent_reminiscence.text.label_words import GIVEN_NAMES
from agent_reminiscence.text.name_index import NameIndex, spell
from agent_reminiscence.text.name_lines import (
    NOISE,
    Line,
    Page,
    Word,
    has_inner_capital,
    has_title,
    is_acronym,
    is_capital,
    is_paired,
    is_title,
    trim,
)
from agent_reminiscence.text.name_lists import english_nouns, german_words, organizations, places
from agent_reminiscence.text.name_types import ORGANIZATION, OTHER, PERSON, PLACE, guess_type, is_person_name
from agent_reminiscence.text.name_words import (
    ALSO_WORDS,
    ARTICLES_WITHIN,
    CONNECTORS,
    GENERIC_ACRONYMS,
    PRONOUNS,
    RELATIVES,
    UNITS,
    VERBS,
)

SPEAKER_CONFIDENCE = 1.0
KNOWN_CONFIDENCE = 0.95
TITLE_CONFIDENCE = 0.95
"""A name after `Dr.`, `Aunt` and the like."""
INSIDE_CONFIDENCE = 0.9
QUOTED_CONFIDENCE = 0.7
BEGINNING_CONFIDENCE = 0.6
SUBJECT_CONFIDENCE = 0.5
"""A single word at the beginning of a sentence, followed by a verb: `Maria works`."""

# A longer run of capitalised words is a heading or a slogan.
_MAX_RUN_WORDS = 6
_PREPOSITIONS_OF_PLACE: Final = frozenset({"in", "nach", "aus"})
# Without those that are also German articles.
_GERMAN_CONNECTORS: Final = frozenset({"&", "al", "bin", "de", "del", "di", "la", "le", "of", "van", "von"})
_LEGAL_FORMS: Final = frozenset({"e.V", "e.G", "mbH"})
_NOUN_ENDINGS: Final = (
    "ment", "ness", "tion", "sion", "ship", "ance", "ence", "ware", "time", "work", "list", "room", "ism", "ology",
    "hood", "ments", "tions", "sions",
)  # fmt: skip
_MIN_NOUN: Final = 6


class _Run(NamedTuple):
    """A run of capitalised words.

    Attributes:
        before: The word before it, in lower case; '' if something else than a space comes between.
        following: Up to two words after it, if only spaces come between.
    """

    words: Sequence[Word]
    before: str
    following: Sequence[Word]
    is_german: bool

    @property
    def after(self) -> str:
        """The word after it, in lower case, or ''."""
        return self.following[0].text.casefold() if self.following else ""


class Collector:
    """Finds which names the capital letters of a memory prove."""

    def __init__(self, names: NameIndex, pages: Sequence[Page]) -> None:
        self._names = names
        self._lines = [line for page in pages for line in page.lines]
        self._lower_words = {word.text.casefold() for line in self._lines for word in line.words if word.text.islower()}
        speakers = [page.speaker for page in pages if page.speaker]
        self._speaker_words = {word.casefold() for speaker in set(speakers) for word in speaker.split()}

    def collect(self) -> None:
        """Add names proved inside sentences, then those at their beginnings, judged by the former."""
        beginnings: list[_Run] = []
        for line in self._lines:
            if not line.proves:
                continue
            for run in self._find_runs(line):
                if run.words[0].quoted:
                    self._add_quoted(run.words)
                elif line.is_german:
                    self._add_german(run)
                elif run.words[0].begins:
                    beginnings.append(run)
                else:
                    self._add_inside(run)
        proved = set(self._names.found)
        for run in beginnings:
            self._add_beginning(run, proved)

    def _find_runs(self, line: Line) -> Iterator[_Run]:
        """Longest runs of capitalised words, without noise at their ends, and whole titles in quotation marks."""
        words = line.words
        index = 0
        while index < len(words):
            if words[index].text.islower():
                index += 1  # most words start neither a name nor a title
                continue
            if words[index].quoted:
                end = index + 1
                while end < len(words) and words[end].quoted and words[end].joined:
                    end += 1
                yield _Run(list(words[index:end]), "", (), line.is_german)
                index = end
                continue
            if not is_capital(words[index].text):
                index += 1
                continue
            end = self._run_end(words, index, _GERMAN_CONNECTORS if line.is_german else CONNECTORS)
            run = _without_role(trim(words[index:end]))
            before = words[index - 1].text.casefold() if index and words[index].joined else ""
            following = list(takewhile(lambda word: word.joined, words[end : end + 2]))
            if run and before in RELATIVES and _is_short_name(run) and not line.is_german:
                self._names.add(spell(run), INSIDE_CONFIDENCE, type=PERSON)
            if run:
                yield _Run(run, before if run[0] is words[index] else "", following, line.is_german)
            index = end

    def _run_end(self, words: Sequence[Word], start: int, connectors: frozenset[str]) -> int:
        """The index after the last word of the run that begins at `start`."""
        end = start + 1
        index = end
        while index < len(words) and words[index].joined and not words[index].quoted:
            text, before = words[index].text, words[index - 1].text
            if without_possessive(before) != before and self._is_owner(before):
                break
            if text.casefold() in PRONOUNS or before.casefold() in PRONOUNS:
                break
            if is_capital(text) or text.rstrip(".") in _LEGAL_FORMS:
                end = index + 1
            elif text[0].isdigit():
                after = words[index + 1].text.casefold() if index + 1 < len(words) else ""
                if len(text) <= 4 and index == end and after not in UNITS and before[-1] != ".":
                    end = index + 1
                break
            elif text.casefold() not in connectors and not (
                text in ARTICLES_WITHIN and words[index - 1].text in connectors
            ):
                break
            index += 1
        return end

    def _is_owner(self, word: str) -> bool:
        """Whether a word such as `Tim's` is a possessive, so that another name follows."""
        bare = without_possessive(word.casefold())
        return bare in self._speaker_words or bare in NOISE or (bare != word.casefold() and is_person_name(bare))

    def _add_inside(self, run: _Run) -> None:
        """Inside a sentence a capital letter marks a name, except a single word that also occurs in lower case."""
        if len(run.words) == 1 and self._is_written_small(run.words[0].text):
            return
        self._add(run, INSIDE_CONFIDENCE)

    def _add_quoted(self, words: Sequence[Word]) -> None:
        if len(words) == 1 and self._is_written_small(words[0].text):
            return
        self._names.add(spell(words), QUOTED_CONFIDENCE)

    def _add_beginning(self, run: _Run, proved: set[str]) -> None:
        """At the beginning of a sentence the first word always has a capital letter."""
        first = run.words[0].text
        if len(run.words) == 1:
            if self._is_written_small(first):
                return
            if has_inner_capital(first) or is_acronym(first) or is_paired(run.following):
                if without_possessive(first.casefold()) not in english_nouns():
                    self._add(run, BEGINNING_CONFIDENCE)
            elif _is_listed(first) or _is_subject(first, run.following):
                self._add(run, SUBJECT_CONFIDENCE)
            return
        if name_key(spell(run.words)) not in proved and not is_title(first):
            rest = trim(run.words[1:])
            lower = first.casefold()
            is_verb = lower in self._lower_words or first.endswith("ing")
            is_thing = lower in english_nouns() and bool(rest) and is_person_name(rest[0].text.casefold())
            if is_verb or is_thing or (rest and name_key(spell(rest)) in proved and name_key(first) not in proved):
                if rest:
                    self._add_inside(run._replace(words=rest, before=lower))
                return
        self._add(run, BEGINNING_CONFIDENCE)

    def _add_german(self, run: _Run) -> None:
        """In German the names in a run of capitalised words, which may begin or end in nouns."""
        words, before = run.words, run.before
        while words and is_opener(words[0].text.casefold()) and words[0].begins:
            before = words[0].text.casefold()
            words = words[1:]
        if not words:
            return
        if len(words) > 1 and guess_type(words, before, run.after, is_german=True) in (ORGANIZATION, PLACE):
            self._add(run._replace(words=words, before=before), INSIDE_CONFIDENCE)
            return
        for part, owner in _split_at_nouns(words, before):
            self._add_german_part(run._replace(words=part, before=owner))

    def _add_german_part(self, run: _Run) -> None:
        first = run.words[0]
        lower = first.text.casefold()
        if len(run.words) > 1 or run.before in german_words().persons:
            type_ = PERSON if run.before in german_words().persons else OTHER
            self._add(run, BEGINNING_CONFIDENCE if first.begins else INSIDE_CONFIDENCE, type=type_)
            return
        bare = without_possessive(lower)
        key = name_key(first.text)
        stem = bare.removesuffix("s")
        if len(stem) > 2 and stem != bare and not _is_german_name(bare) and is_person_name(stem):
            self._names.add(first.text[: len(stem)], INSIDE_CONFIDENCE, type=PERSON)
        elif key in places() and run.before in _PREPOSITIONS_OF_PLACE:
            self._add(run, INSIDE_CONFIDENCE)
        elif run.before in german_words().determiners and key not in organizations():
            return
        elif _is_german_name(bare) or has_inner_capital(first.text) or is_acronym(first.text):
            self._add(run, INSIDE_CONFIDENCE)
        elif is_noun(bare) or is_common(bare) or self._is_written_small(first.text):
            return
        elif first.begins:
            if run.following and run.following[0].text in german_words().verbs and is_uncommon(bare):
                self._add(run, SUBJECT_CONFIDENCE)
        elif is_uncommon(bare) or guess_type([first], run.before, run.after, is_german=True) != OTHER:
            self._add(run, INSIDE_CONFIDENCE)
        else:
            self._names.add_possible(spell(run.words), INSIDE_CONFIDENCE)

    def _add(self, run: _Run, confidence: float, *, type: str = OTHER) -> None:
        capitals = [word.text for word in run.words if is_capital(word.text)]
        # What is left of a date is not a name: `June 28` leaves the number.
        if not 0 < len(capitals) <= _MAX_RUN_WORDS:
            return
        is_titled = has_title(run.words)
        if is_titled:
            confidence = TITLE_CONFIDENCE
        guessed = guess_type(run.words, run.before, run.after, is_german=run.is_german)
        self._names.add(spell(run.words), confidence, type=guessed if guessed != OTHER else type, is_sure=is_titled)

    def _is_written_small(self, word: str) -> bool:
        """Whether the memory also writes the word without a capital, as with names that are also words."""
        lower = without_possessive(word.casefold())
        if lower in ALSO_WORDS or lower in self._speaker_words:
            return False
        return not self._lower_words.isdisjoint((lower, f"{lower}s", lower.removesuffix("s")))


def _without_role(run: list[Word]) -> list[Word]:
    """A run without an office at its beginning: `CEO of Acme Inc`."""
    if len(run) > 2 and run[0].text.casefold() in GENERIC_ACRONYMS and run[1].text == "of":
        return run[2:]
    return run


def _split_at_nouns(words: Sequence[Word], before: str) -> Iterator[tuple[list[Word], str]]:
    """The parts of a German run that may be names, each with the word before it, in lower case."""
    part: list[Word] = []
    owner = before
    for word in words:
        lower = without_possessive(word.text.casefold()).rstrip(".")
        is_after_name = bool(part) and (_is_given(part[-1].text) or is_title(part[-1].text))
        is_surname = is_after_name and (
            lower in german_words().surnames or not is_noun(lower, inflections=PLAIN_INFLECTIONS)
        )
        is_place = not part and owner in _PREPOSITIONS_OF_PLACE and name_key(lower) in places()
        is_part = is_title(word.text) or _is_german_name(lower) or is_surname or is_place
        if is_part or not (is_noun(lower) or lower in NOISE) or word.text in CONNECTORS:
            part.append(word)
            continue
        if trimmed := _trim_german(part):
            yield trimmed, owner
        part, owner = [], lower
    if trimmed := _trim_german(part):
        yield trimmed, owner


def _trim_german(part: Sequence[Word]) -> list[Word]:
    """A part without connectors at its ends; empty if only a title is left."""
    words = list(part)
    while words and words[0].text in CONNECTORS:
        words.pop(0)
    while words and (words[-1].text in CONNECTORS or is_title(words[-1].text)):
        words.pop()
    return words


def _is_given(word: str) -> bool:
    return fold_name(word) in GIVEN_NAMES


def _is_german_name(word: str) -> bool:
    """Whether a case-folded word is a listed name, and no ordinary noun."""
    key = name_key(word)
    if key in organizations():
        return True
    return (key in places() or fold_name(word) in GIVEN_NAMES) and word not in german_words().nouns


def _is_listed(word: str) -> bool:
    """Whether a sentence's first word is a name in any case: a given name, a place or an organisation."""
    lower = without_possessive(word.casefold())
    if lower in ALSO_WORDS or lower in english_nouns():
        return False
    return is_person_name(lower) or name_key(lower) in places() or name_key(lower) in organizations()


def _is_subject(word: str, following: Sequence[Word]) -> bool:
    """Whether a sentence's first word is a name because a verb follows: `Maria works`, not `Dancing helps`."""
    lower = without_possessive(word.casefold())
    if lower.endswith("ing") or lower in ALSO_WORDS or not following or _is_english_noun(lower):
        return False
    if is_common(lower.removesuffix("s")) or any(is_common(part) for part in lower.split("-")):
        return False
    return lower != word.casefold() or following[0].text in VERBS  # `Maria's dog`, `Maria works`


def _is_english_noun(word: str) -> bool:
    """Whether a case-folded word is a listed noun, or has an ending that only nouns have."""
    if word in english_nouns() or word.removesuffix("s") in english_nouns():
        return True
    return len(word) > _MIN_NOUN and word.endswith(_NOUN_ENDINGS) and fold_name(word) not in GIVEN_NAMES


def _is_short_name(run: Sequence[Word]) -> bool:
    return len(run) < 4 and all(is_capital(word.text) for word in run)
