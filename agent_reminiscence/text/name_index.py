"""The names found so far and the known ones, and where lines have them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from agent_reminiscence.config.constants import MAX_ENTITY_NAME_CHARACTERS
from agent_reminiscence.text.common import is_common
from agent_reminiscence.text.folding import name_key, without_possessive
from agent_reminiscence.text.german import is_noun
from agent_reminiscence.text.name_lines import NOISE, Line, Word, read_lines
from agent_reminiscence.text.name_lists import german_words, organizations
from agent_reminiscence.text.name_types import OTHER, PERSON
from agent_reminiscence.text.name_words import ABBREVIATIONS, ALSO_WORDS, ARTICLES, FUNCTION_WORDS

_MIN_GENITIVE = 4


@dataclass(slots=True)
class FoundName:
    """What is known about one name.

    Attributes:
        type: The first sure one.
        is_sure: Whether the text says the type, by a title or a speaker's label; otherwise it is a guess.
    """

    confidence: float
    type: str
    is_sure: bool = False
    spellings: Counter[str] = field(default_factory=Counter)


class Mention(NamedTuple):
    """A name in a line.

    Attributes:
        start: The index of its first word.
        is_genitive: Whether it is a possessive, such as `Tim's`.
    """

    key: str
    start: int
    words: Sequence[Word]
    is_genitive: bool


class NameIndex:
    """The names found so far and the known ones, by `name_key`.

    Attributes:
        found: The names that the text proves.
        possible: Words that are names only if a relationship says so.
    """

    def __init__(self, known: Mapping[str, str]) -> None:
        self.found: dict[str, FoundName] = {}
        self.possible: dict[str, FoundName] = {}
        self._known = known
        self._folds: dict[str, str] = {}
        self._lengths_from: dict[str, tuple[int, ...]] = {}
        # By the words compared with a text: the words of the key, not of the name, which may belong to an alias.
        self._phrases: dict[str, str] = {}
        self._lengths: dict[str, set[int]] = {}
        for key in known:
            self._index(key, [word.text for line in read_lines(key) for word in line.words])

    def add(self, name: str, confidence: float, *, type: str = OTHER, is_sure: bool = False) -> None:
        """Add a name, or better evidence for an earlier one."""
        self._add(self.found, name, confidence, type=type, is_sure=is_sure)

    def add_possible(self, name: str, confidence: float) -> None:
        """Add a word that may be a name."""
        self._add(self.possible, name, confidence, type=OTHER, is_sure=False)

    def type_of(self, key: str) -> str:
        """The type of a name as far as it is known."""
        found = self.found.get(key)
        if found is not None and found.type != OTHER:
            return found.type
        return self._known.get(key, OTHER)

    def is_known(self, key: str) -> bool:
        """Whether the tenant's graph has the name."""
        return key in self._known

    def is_name(self, key: str) -> bool:
        """Whether a name is known or proved."""
        return key in self.found or key in self._known

    def confirm(self, key: str, type_: str) -> None:
        """Take a possible name for one, and give it a type if it has none."""
        found = self.found.get(key)
        if found is None:
            if key in self._known:
                return
            found = self.found[key] = self.possible[key]
        if found.type == OTHER:
            found.type = type_

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

    def mentions_in(self, line: Line) -> Iterator[Mention]:
        """The names in a line with their words, the longest at each index."""
        words = line.words
        free = 0  # the first index that no name has taken
        for index, word in enumerate(words):
            if index < free:
                continue
            for length in self.lengths_from(word.text):
                end = index + length
                if end > len(words) or not all(other.joined for other in words[index + 1 : end]):
                    continue
                spelled = words[index:end]
                key = self.find([other.text for other in spelled])
                if key is not None and _is_meant(line, index, length):
                    yield Mention(key, index, spelled, without_possessive(spelled[-1].text) != spelled[-1].text)
                    free = end
                    break
            else:
                if line.is_german and (key := self._german_genitive(word.text)):
                    yield Mention(key, index, [word], True)

    def _german_genitive(self, word: str) -> str | None:
        """The person whose name has the ending of German possessives: `Maras`."""
        if len(word) < _MIN_GENITIVE or word[-1] != "s" or not word[0].isupper():
            return None
        key = self.find([word[:-1]])
        return key if key is not None and self.type_of(key) == PERSON else None

    def _add(self, names: dict[str, FoundName], name: str, confidence: float, *, type: str, is_sure: bool) -> None:
        key = name_key(name)
        if not key or len(name) > MAX_ENTITY_NAME_CHARACTERS:
            return
        found = names.get(key)
        if found is None:
            found = names[key] = FoundName(confidence, type, is_sure)
            self._index(key, [word.text for line in read_lines(name) for word in line.words])
        found.confidence = max(found.confidence, confidence)
        if found.type == OTHER or (is_sure and not found.is_sure):
            found.type, found.is_sure = type, is_sure
        found.spellings[name] += 1

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


def spell(run: Sequence[Word]) -> str:
    """The run as a name, without a possessive ending or an abbreviation's final full stop."""
    *before, last = (word.text for word in run)
    if last[:-1].casefold() in ABBREVIATIONS:
        last = last.removesuffix(".")
    return " ".join([*before, without_possessive(last)])


def _is_meant(line: Line, index: int, length: int) -> bool:
    """Whether the words at `index` are the name, not ordinary words with the same spelling."""
    word = line.words[index]
    if length > 1:
        return True
    lower = without_possessive(word.text.casefold())
    before = line.words[index - 1].text if index else ""
    is_ordinary = lower in ALSO_WORDS or lower in NOISE
    if not word.text.islower():
        is_after_article = line.is_german and before.casefold() in german_words().determiners
        if is_after_article and is_noun(lower) and name_key(lower) not in organizations():
            return False
        follows = line.words[index + 1].text.casefold() if index + 1 < len(line.words) else ""
        return not (is_ordinary and (line.is_shouted or (word.begins and follows in FUNCTION_WORDS)))
    if is_ordinary or len(lower) < 3:
        return False
    if not is_common(lower):
        return True
    return before not in ARTICLES and not any(other.text[0].isupper() for other in line.words)


def _fold(word: str) -> str:
    """A word as `name_key` folds it inside a name, where titles and possessive endings are kept."""
    return name_key(f"_ {word} _")[2:-2]
