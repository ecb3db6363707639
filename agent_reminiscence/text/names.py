"""Finds names in a text without a model: from capital letters, speakers, and names that are already known.

Two passes over one memory. The first collects names from places where a capital letter means something:

- **a speaker** is a person for certain;
- **inside a sentence**, a word or a run of words with capitals is a name (`I met Ada Lovelace at the Red Boat`),
  unless the same memory also writes the word in lower case;
- **in quotation marks**, a text capitalised like a title is a name;
- **at the beginning of a sentence** every word has a capital, so it counts only in a run (`Ada Lovelace wrote`), with
  more capitals (`GitHub`, `NASA`), or as an uncommon word followed by a verb (`Maria works`).

Headings, lines in capitals, code, addresses and quoted words of others prove nothing. The second pass looks everywhere
for these names and the known ones, and records which passage names what. Its rule for words in lower case:

- several words are linked in any case;
- a single word is linked if it is uncommon (`melanie`, `postgres`), or if its line has no capitals and no article comes
  before it;
- a word that is also an ordinary English word (`will`, `may`, `rose`, `apple`) is never linked.

Limitations:

- Text in lower case yields only known names and speakers.
- German capitalises every noun, so nouns are taken for names there.
- Scripts without case (Chinese, Japanese, Arabic, …) yield speakers and, if words are spaced, known names.
- A name that occurs only at the beginning of sentences, alone and with no present or past verb after it, is missed.
- The word lists are English, and types are guessed from single words (`University`, `River`, `Dr.`); most are `other`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple

from agent_reminiscence.config.constants import MAX_ENTITY_NAME_CHARACTERS
from agent_reminiscence.text.common import is_common
from agent_reminiscence.text.folding import name_key, without_possessive
from agent_reminiscence.text.name_lines import (
    INITIALS,
    NOISE,
    Line,
    Page,
    Passage,
    Word,
    has_inner_capital,
    has_title,
    is_acronym,
    is_capital,
    is_paired,
    is_title,
    read_lines,
    read_passage,
    trim,
)
from agent_reminiscence.text.name_words import (
    ABBREVIATIONS,
    ALSO_WORDS,
    ARTICLES,
    ARTICLES_WITHIN,
    CONNECTORS,
    EVENT_BEGINNINGS,
    EVENT_ENDINGS,
    FUNCTION_WORDS,
    ORGANIZATION_BEGINNINGS,
    ORGANIZATION_ENDINGS,
    PLACE_BEGINNINGS,
    PLACE_ENDINGS,
    PRONOUNS,
    RELATIVES,
    UNITS,
    VERBS,
)

MAX_CANDIDATE_KEYS = 20_000
"""The most keys that `candidate_keys` returns for one text."""

SPEAKER_CONFIDENCE = 1.0
KNOWN_CONFIDENCE = 0.95
TITLE_CONFIDENCE = 0.95
"""A name after `Dr.`, `Aunt` and the like."""
INSIDE_CONFIDENCE = 0.9
QUOTED_CONFIDENCE = 0.7
BEGINNING_CONFIDENCE = 0.6
SUBJECT_CONFIDENCE = 0.5
"""A single word at the beginning of a sentence, followed by a verb: `Maria works`."""

_CANDIDATE_WORDS = 5
# A longer run of capitalised words is a heading or a slogan.
_MAX_RUN_WORDS = 6

_TYPE_WORDS = (
    ("organization", ORGANIZATION_BEGINNINGS, ORGANIZATION_ENDINGS),
    ("event", EVENT_BEGINNINGS, EVENT_ENDINGS),
    ("place", PLACE_BEGINNINGS, PLACE_ENDINGS),
)


class ExtractedEntity(NamedTuple):
    """Something that a text names, described only from that text.

    It has no id: the same text always gives the same, whatever the store knows.

    Attributes:
        key: The key for comparing its name.
        name: This text's most frequent spelling; in a tie, the first.
        type: One of `constants.ENTITY_TYPES`, as far as this text shows it.
        confidence: How certain it is that this is a name, 0 to 1.
        passages: Indices of the passages that name it, ascending, each once.
    """

    key: str
    name: str
    type: str
    confidence: float
    passages: tuple[int, ...]


def extract_entities(passages: Sequence[Passage], *, known: Mapping[str, str]) -> list[ExtractedEntity]:
    """What the passages of one memory name; the module's docstring says how.

    Takes time linear in the text's length, some 0.8 s for a million characters: run it in a thread.

    Args:
        passages: In text order.
        known: Types of the tenant's names and aliases, by `name_key`; those for `candidate_keys` are enough.

    Returns:
        Entities by first occurrence, those of one passage by name. Names with the same `name_key` are one entity. No
        name is longer than `MAX_ENTITY_NAME_CHARACTERS`.
    """
    pages = [read_passage(passage) for passage in passages]
    names = _Names(known)
    for page in pages:
        if page.speaker:
            names.add(page.speaker, SPEAKER_CONFIDENCE, type="person")
    _Collector(names, pages).collect()
    mentions = _find_mentions(names, pages)
    return [names.entity(key, mention) for key, mention in mentions.items()]


def candidate_keys(text: str) -> list[str]:
    """The `name_key` of each run of one to five words of `text`, for looking up known names.

    Takes time linear in the text's length.

    Returns:
        Distinct keys, at most `MAX_CANDIDATE_KEYS`: single words first, then runs of two words, and so on, each in text
        order. A run of several words that begins or ends in a lower-case function word is skipped.
    """
    runs = [run for line in read_lines(text) for run in _joined_words(line.words)]
    keys: dict[str, None] = {}
    seen: set[str] = set()
    for length in range(1, _CANDIDATE_WORDS + 1):
        for run in runs:
            for name in _names_in(run, length):
                if name in seen or len(name) > MAX_ENTITY_NAME_CHARACTERS:
                    continue
                seen.add(name)
                if key := name_key(name):
                    keys.setdefault(key)
                if len(keys) == MAX_CANDIDATE_KEYS:
                    return list(keys)
    return list(keys)


def mentioned_keys(text: str, *, known: Mapping[str, str]) -> list[str]:
    """The keys of the known names in `text`, by the rules of `extract_entities`, each once, in order.

    A name inside a longer known name is left out.
    """
    names = _Names(known)
    return list(dict.fromkeys(key for line in read_lines(text) for key, _ in _mentioned(names, line)))


@dataclass(slots=True)
class _Mentions:
    """Where a name occurs, and how it is spelled there."""

    passages: list[int] = field(default_factory=list)
    spellings: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class _Found:
    """What is known about one name."""

    confidence: float
    type: str
    spellings: Counter[str] = field(default_factory=Counter)


class _Names:
    """The names found so far and the known ones, by `name_key`."""

    def __init__(self, known: Mapping[str, str]) -> None:
        self.found: dict[str, _Found] = {}
        self._known = known
        self._folds: dict[str, str] = {}
        self._lengths_from: dict[str, tuple[int, ...]] = {}
        # By the words compared with a text: the words of the key, not of the name, which may belong to an alias.
        self._phrases: dict[str, str] = {}
        self._lengths: dict[str, set[int]] = {}
        for key in known:
            self._index(key, [word.text for line in read_lines(key) for word in line.words])

    def add(self, name: str, confidence: float, *, type: str = "other") -> None:
        """Add a name, or better evidence for an earlier one."""
        key = name_key(name)
        if not key or len(name) > MAX_ENTITY_NAME_CHARACTERS:
            return
        found = self.found.get(key)
        if found is None:
            found = self.found[key] = _Found(confidence, type)
            self._index(key, [word.text for line in read_lines(name) for word in line.words])
        found.confidence = max(found.confidence, confidence)
        if found.type == "other":
            found.type = type
        found.spellings[name] += 1

    def entity(self, key: str, mentions: _Mentions) -> ExtractedEntity:
        """What the whole text says about one name, without knowledge from elsewhere."""
        found = self.found.get(key)
        spellings = mentions.spellings if found is None else found.spellings
        return ExtractedEntity(
            key=key,
            name=max(spellings, key=spellings.__getitem__),
            type="other" if found is None else found.type,
            confidence=max(0.0 if found is None else found.confidence, KNOWN_CONFIDENCE if key in self._known else 0.0),
            passages=tuple(mentions.passages),
        )

    def lengths_from(self, word: str) -> tuple[int, ...]:
        """The lengths in words of names that begin with `word`, longest first; call once all names are added."""
        lengths = self._lengths_from.get(word)
        if lengths is None:
            folded = self._fold(word)
            found = self._lengths.get(folded, set()) | self._lengths.get(without_possessive(folded).rstrip("."), set())
            lengths = self._lengths_from[word] = tuple(sorted(found, reverse=True))
        return lengths

    def find(self, words: Sequence[str]) -> str | None:
        """The key of the name that `words` spell."""
        return self._phrases.get(self._phrase(words))

    def _phrase(self, words: Sequence[str]) -> str:
        """Words in the form in which texts are compared with names."""
        *before, last = map(self._fold, words)
        return " ".join([*before, without_possessive(last).rstrip(".")])

    def _fold(self, word: str) -> str:
        folded = self._folds.get(word)
        if folded is None:
            folded = self._folds[word] = _fold(word)
        return folded

    def _index(self, key: str, words: Sequence[str]) -> None:
        if words:
            phrase = self._phrase(words)
            self._phrases.setdefault(phrase, key)
            self._lengths.setdefault(phrase.split(" ", 1)[0], set()).add(len(words))


class _Collector:
    """The first pass: which names the capital letters of a memory prove."""

    def __init__(self, names: _Names, pages: Sequence[Page]) -> None:
        self._names = names
        self._lines = [line for page in pages for line in page.lines]
        self._lower_words = {word.text.casefold() for line in self._lines for word in line.words if word.text.islower()}
        speakers = [page.speaker for page in pages if page.speaker]
        self._speaker_words = {word.casefold() for speaker in set(speakers) for word in speaker.split()}

    def collect(self) -> None:
        """Add names proved inside sentences, then those at their beginnings, judged by the former."""
        beginnings: list[tuple[list[Word], Sequence[Word]]] = []
        for line in self._lines:
            if not line.proves:
                continue
            for run, following in self._find_runs(line.words):
                if run[0].quoted:
                    self._add_quoted(run)
                elif run[0].begins:
                    beginnings.append((run, following))
                else:
                    self._add_inside(run)
        proved = set(self._names.found)
        for run, following in beginnings:
            self._add_beginning(run, following, proved)

    def _find_runs(self, words: Sequence[Word]) -> Iterator[tuple[list[Word], Sequence[Word]]]:
        """Longest runs of capitalised words, without noise at their ends, and whole titles in quotation marks.

        Yields:
            The run, and up to two words after it if only spaces come between.
        """
        index = 0
        while index < len(words):
            if words[index].text.islower():
                index += 1  # most words start neither a name nor a title
                continue
            if words[index].quoted:
                end = index + 1
                while end < len(words) and words[end].quoted and words[end].joined:
                    end += 1
                yield list(words[index:end]), ()
                index = end
                continue
            if not is_capital(words[index].text):
                index += 1
                continue
            end = self._run_end(words, index)
            run = trim(words[index:end])
            relative = index > 0 and words[index].joined and words[index - 1].text.casefold() in RELATIVES
            if run and relative and _is_short_name(run):
                self._names.add(_spell(run), INSIDE_CONFIDENCE, type="person")
            if run:
                yield run, list(takewhile(lambda word: word.joined, words[end : end + 2]))
            index = end

    def _run_end(self, words: Sequence[Word], start: int) -> int:
        """The index after the last word of the run that begins at `start`."""
        end = start + 1
        index = end
        while index < len(words) and words[index].joined and not words[index].quoted:
            text, before = words[index].text, words[index - 1].text
            if without_possessive(before) != before and self._is_owner(before):
                break
            if text.casefold() in PRONOUNS or before.casefold() in PRONOUNS:
                break
            if is_capital(text):
                end = index + 1
            elif text[0].isdigit():
                after = words[index + 1].text.casefold() if index + 1 < len(words) else ""
                if len(text) <= 4 and index == end and after not in UNITS and before[-1] != ".":
                    end = index + 1
                break
            elif text.casefold() not in CONNECTORS and not (
                text in ARTICLES_WITHIN and words[index - 1].text in CONNECTORS
            ):
                break
            index += 1
        return end

    def _is_owner(self, word: str) -> bool:
        """Whether a word such as `Tim's` is a possessive, so that another name follows."""
        bare = without_possessive(word.casefold())
        return bare in self._speaker_words or bare in NOISE

    def _add_inside(self, run: Sequence[Word]) -> None:
        """Inside a sentence a capital letter marks a name, except a single word that also occurs in lower case."""
        if len(run) == 1 and self._is_written_small(run[0].text):
            return
        self._add(run, INSIDE_CONFIDENCE)

    def _add_quoted(self, words: Sequence[Word]) -> None:
        if len(words) == 1 and self._is_written_small(words[0].text):
            return
        self._names.add(_spell(words), QUOTED_CONFIDENCE)

    def _add_beginning(self, run: list[Word], following: Sequence[Word], proved: set[str]) -> None:
        """At the beginning of a sentence the first word always has a capital letter."""
        first = run[0].text
        if len(run) == 1:
            if self._is_written_small(first):
                return
            if has_inner_capital(first) or is_acronym(first) or is_paired(following):
                self._add(run, BEGINNING_CONFIDENCE)
            elif _is_subject(first, following):
                self._add(run, SUBJECT_CONFIDENCE)
            return
        if name_key(_spell(run)) not in proved and not is_title(first):
            rest = trim(run[1:])
            is_verb = first.casefold() in self._lower_words or first.endswith("ing")
            if is_verb or (rest and name_key(_spell(rest)) in proved and name_key(first) not in proved):
                if rest:
                    self._add_inside(rest)
                return
        self._add(run, BEGINNING_CONFIDENCE)

    def _add(self, run: Sequence[Word], confidence: float) -> None:
        capitals = [word.text for word in run if is_capital(word.text)]
        # What is left of a date is not a name: `June 28` leaves the number.
        if not 0 < len(capitals) <= _MAX_RUN_WORDS:
            return
        type_ = _guess_type(run)
        if has_title(run):
            confidence = TITLE_CONFIDENCE
        self._names.add(_spell(run), confidence, type=type_)

    def _is_written_small(self, word: str) -> bool:
        """Whether the memory also writes the word without a capital, as with names that are also words."""
        lower = without_possessive(word.casefold())
        if lower in ALSO_WORDS or lower in self._speaker_words:
            return False
        return not self._lower_words.isdisjoint((lower, f"{lower}s", lower.removesuffix("s")))


def _find_mentions(names: _Names, pages: Sequence[Page]) -> dict[str, _Mentions]:
    """The second pass: where each name occurs; names in order of first mention."""
    mentions: dict[str, _Mentions] = {}
    for index, page in enumerate(pages):
        if page.speaker and (key := name_key(page.speaker)) in names.found:
            mentions.setdefault(key, _Mentions()).passages.append(index)
        for line in page.lines:
            for key, words in _mentioned(names, line):
                mention = mentions.setdefault(key, _Mentions())
                mention.spellings[_spell(words)] += 1
                if not mention.passages or mention.passages[-1] != index:
                    mention.passages.append(index)
    return mentions


def _mentioned(names: _Names, line: Line) -> Iterator[tuple[str, Sequence[Word]]]:
    """Keys of the names in a line with their words, the longest at each index."""
    words = line.words
    free = 0  # the first index that no name has taken
    for index, word in enumerate(words):
        if index < free:
            continue
        for length in names.lengths_from(word.text):
            end = index + length
            if end > len(words) or not all(other.joined for other in words[index + 1 : end]):
                continue
            key = names.find([other.text for other in words[index:end]])
            if key is not None and _is_meant(line, index, length):
                yield key, words[index:end]
                free = end
                break


def _is_meant(line: Line, index: int, length: int) -> bool:
    """Whether the words at `index` are the name, not ordinary words with the same spelling."""
    word = line.words[index]
    if length > 1:
        return True
    lower = without_possessive(word.text.casefold())
    is_ordinary = lower in ALSO_WORDS or lower in NOISE
    if not word.text.islower():
        follows = line.words[index + 1].text.casefold() if index + 1 < len(line.words) else ""
        return not (is_ordinary and (line.is_shouted or (word.begins and follows in FUNCTION_WORDS)))
    if is_ordinary or len(lower) < 3:
        return False
    if not is_common(lower):
        return True
    before = line.words[index - 1].text if index else ""
    return before not in ARTICLES and not any(other.text[0].isupper() for other in line.words)


def _is_subject(word: str, following: Sequence[Word]) -> bool:
    """Whether a sentence's first word is a name because a verb follows: `Maria works`, not `Dancing helps`."""
    lower = without_possessive(word.casefold())
    if lower.endswith("ing") or lower in ALSO_WORDS or not following:
        return False
    if is_common(lower.removesuffix("s")) or any(is_common(part) for part in lower.split("-")):
        return False
    return lower != word.casefold() or following[0].text in VERBS  # `Maria's dog`, `Maria works`


def _is_short_name(run: Sequence[Word]) -> bool:
    return len(run) < 4 and all(is_capital(word.text) for word in run)


def _guess_type(run: Sequence[Word]) -> str:
    """A type guessed from the first and last word; `other` for most."""
    words = [without_possessive(word.text.casefold()) for word in run]
    first, last = words[0].rstrip("."), words[-1].rstrip(".")
    if has_title(run):
        return "person"
    if len(words) > 1 and any(INITIALS.fullmatch(word.text) for word in run[:-1]):
        return "person"
    for type_, beginnings, endings in _TYPE_WORDS:
        if len(words) > 1 and (last in endings or first in beginnings):
            return type_
    return "other"


def _spell(run: Sequence[Word]) -> str:
    """The run as a name, without a possessive ending or an abbreviation's final full stop."""
    *before, last = (word.text for word in run)
    if last[:-1].casefold() in ABBREVIATIONS:
        last = last.removesuffix(".")
    return " ".join([*before, without_possessive(last)])


def _fold(word: str) -> str:
    """A word as `name_key` folds it inside a name, where titles and possessive endings are kept."""
    return name_key(f"_ {word} _")[2:-2]


def _joined_words(words: Sequence[Word]) -> list[list[str]]:
    """The words of a line, split wherever two are separated by more than a single space."""
    runs: list[list[str]] = []
    for word in words:
        if not word.joined or not runs:
            runs.append([])
        runs[-1].append(word.text)
    return runs


def _names_in(run: Sequence[str], length: int) -> Iterator[str]:
    """All sub-runs of `length` words, without longer ones that begin or end in a lower-case function word."""
    if length == 1:
        yield from run
        return
    for first, last in enumerate(run[length - 1 :]):
        if last not in FUNCTION_WORDS and run[first] not in FUNCTION_WORDS:
            yield " ".join(run[first : first + length])
