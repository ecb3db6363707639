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

German capitalises every noun, so capitals alone prove nothing there: `german.py` tells names from nouns. Types are
guessed by `name_types.py`, and what sentences say of two names is found by `relations.py`.

Limitations:

- Text in lower case yields only known names and speakers.
- German yields only listed and uncommon names, and those that a relationship proves.
- Scripts without case (Chinese, Japanese, Arabic, …) yield speakers and, if words are spaced, known names.
- A name that occurs only at the beginning of sentences, alone, unlisted and with no present or past verb after it, is
  missed.
- The lists are English and German; other languages get the types of names that are written alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from agent_reminiscence.config.constants import MAX_ENTITY_NAME_CHARACTERS
from agent_reminiscence.text.folding import name_key
from agent_reminiscence.text.name_collecting import KNOWN_CONFIDENCE, SPEAKER_CONFIDENCE, Collector
from agent_reminiscence.text.name_index import Mention, NameIndex, spell
from agent_reminiscence.text.name_lines import Line, Page, Passage, Word, read_lines, read_passage
from agent_reminiscence.text.name_types import OTHER, PERSON
from agent_reminiscence.text.name_words import FUNCTION_WORDS
from agent_reminiscence.text.relations import find_stated

MAX_CANDIDATE_KEYS = 20_000
"""The most keys that `candidate_keys` returns for one text."""

_CANDIDATE_WORDS = 5


class ExtractedEntity(NamedTuple):
    """Something that a text names, described only from that text.

    It has no id: the same text always gives the same, whatever the store knows.

    Attributes:
        key: The key for comparing its name.
        name: This text's most frequent spelling; in a tie, the first.
        type: One of `constants.ENTITY_TYPES`, as far as this text shows it.
        confidence: How certain it is that this is a name, 0 to 1.
        passages: Indices of the passages that name it, ascending, each once.
        is_guess: Whether lists and patterns suggest the type; otherwise a speaker's label or a title says it.
    """

    key: str
    name: str
    type: str
    confidence: float
    passages: tuple[int, ...]
    is_guess: bool


class ExtractedRelationship(NamedTuple):
    """What the text says two of its names have to do with each other.

    Attributes:
        from_key: The key of the name that it starts at.
        to_key: The key of the name that it points to.
        passages: Indices of the passages that say so, ascending, each once.
    """

    from_key: str
    to_key: str
    type: str
    passages: tuple[int, ...]


class Extract(NamedTuple):
    """What the passages of a memory name, and what they say of it."""

    entities: list[ExtractedEntity]
    relationships: list[ExtractedRelationship]


def extract(passages: Sequence[Passage], *, known: Mapping[str, str]) -> Extract:
    """What the passages of one memory name and say; the module's docstring says how.

    Takes time linear in the text's length, some 1.5 to 2 s for a million characters: run it in a thread.

    Args:
        passages: In text order.
        known: Types of the tenant's names and aliases, by `name_key`; those for `candidate_keys` are enough.

    Returns:
        Entities by first occurrence, those of one passage by name. Names with the same `name_key` are one entity. No
        name is longer than `MAX_ENTITY_NAME_CHARACTERS`. Relationships by first statement.
    """
    pages = [read_passage(passage) for passage in passages]
    names = NameIndex(known)
    for page in pages:
        if page.speaker:
            names.add(page.speaker, SPEAKER_CONFIDENCE, type=PERSON, is_sure=True)
    Collector(names, pages).collect()
    found = [[(line, list(names.mentions_in(line))) for line in page.lines] for page in pages]
    stated = _find_stated(names, pages, found)
    mentions = _count_mentions(names, pages, found)
    return Extract([_entity(names, key, mention) for key, mention in mentions.items()], stated)


def extract_entities(passages: Sequence[Passage], *, known: Mapping[str, str]) -> list[ExtractedEntity]:
    """The entities of `extract`."""
    return extract(passages, known=known).entities


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
    names = NameIndex(known)
    return list(dict.fromkeys(mention.key for line in read_lines(text) for mention in names.mentions_in(line)))


@dataclass(slots=True)
class _Mentions:
    """Where a name occurs, and how it is spelled there."""

    passages: list[int] = field(default_factory=list)
    spellings: Counter[str] = field(default_factory=Counter)


def _find_stated(
    names: NameIndex, pages: Sequence[Page], found: Sequence[Sequence[tuple[Line, Sequence[Mention]]]]
) -> list[ExtractedRelationship]:
    """The relationships that are stated; possible names among their ends become names."""
    stated: dict[tuple[str, str, str], list[int]] = {}
    for index, (page, lines) in enumerate(zip(pages, found, strict=True)):
        speaker = name_key(page.speaker) if page.speaker else None
        for line, mentions in lines:
            if not mentions and speaker is None:
                continue
            for relation in find_stated(line, mentions, names, speaker):
                passages = stated.setdefault(relation, [])
                if not passages or passages[-1] != index:
                    passages.append(index)
    return [ExtractedRelationship(*relation, tuple(passages)) for relation, passages in stated.items()]


def _count_mentions(
    names: NameIndex, pages: Sequence[Page], found: Sequence[Sequence[tuple[Line, Sequence[Mention]]]]
) -> dict[str, _Mentions]:
    """Where each name occurs; names in order of first mention."""
    counted: dict[str, _Mentions] = {}
    for index, (page, lines) in enumerate(zip(pages, found, strict=True)):
        if page.speaker and (key := name_key(page.speaker)) in names.found:
            counted.setdefault(key, _Mentions()).passages.append(index)
        for _, mentions in lines:
            for mention in mentions:
                if not names.is_name(mention.key):
                    continue
                count = counted.setdefault(mention.key, _Mentions())
                count.spellings[spell(mention.words)] += 1
                if not count.passages or count.passages[-1] != index:
                    count.passages.append(index)
    return counted


def _entity(names: NameIndex, key: str, mentions: _Mentions) -> ExtractedEntity:
    """What the whole text says about one name, without knowledge from elsewhere."""
    found = names.found.get(key)
    spellings = mentions.spellings if found is None else found.spellings
    return ExtractedEntity(
        key=key,
        name=max(spellings, key=spellings.__getitem__),
        type=OTHER if found is None else found.type,
        confidence=max(0.0 if found is None else found.confidence, KNOWN_CONFIDENCE if names.is_known(key) else 0.0),
        passages=tuple(mentions.passages),
        is_guess=found is None or not found.is_sure,
    )


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
