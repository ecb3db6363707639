"""Chooses sentences for an extract: pure functions of what memory holds.

A sentence is worth the sum of its words that no sentence before it has said. A word's worth grows with the number of
memories that say it, since what keeps coming up is what lasts; what nearly all of them say, ordinary words, and the
names of those who speak count less or nothing. The sum is divided by a power of the sentence's length
and weighed by how much the sentence tells about whoever speaks, how specific it is, how important its chunk is, how
well it answers the question, and whether it is probably out of date.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from heapq import heapify, heappop, heappush
from math import fsum, log2
from typing import Final, NamedTuple
from uuid import UUID

from agent_reminiscence.domain.trust import Source
from agent_reminiscence.services.tiers.importance import count_details
from agent_reminiscence.text.common import rarity
from agent_reminiscence.text.folding import WORD, fold_text
from agent_reminiscence.text.sentences import split_sentences
from agent_reminiscence.text.words import analyse

# An utterance with fewer words that are no stop words says nothing by itself, unless somebody says by it what lasts of
# himself; a note, which nobody speaks, says something by two: "Tomas is vegan." One with more words is no line of a
# summary.
LEAST_WORDS: Final = 4
LEAST_NOTE_WORDS: Final = 2
LEAST_OWN_WORDS: Final = 1
MOST_WORDS: Final = 50
# How much more a sentence is worth if somebody says it of himself, if it says what lasts, if it is a fact that a model
# has concluded, and if it answers the question.
OWN: Final = 1.0
LASTING: Final = 1.0
FACT: Final = 1.0
ASKED: Final = 0.5
# How much of its worth a sentence keeps that is probably out of date.
OUTDATED: Final = 0.25
# A chunk that no consolidation has rated counts like one of this importance at least.
LEAST_IMPORTANCE: Final = 0.25
# A longer sentence says more, but not in proportion.
LENGTH_POWER: Final = 0.8
# A word that was said in so many memories counts most, but this share of it is lost if all say it.
MOST_MEMORIES: Final = 16
EVERYWHERE: Final = 0.5
_QUESTION = re.compile(r"[?？؟]\W*$")  # noqa: RUF001
_SPACE = re.compile(r"\s+")
# Words with which people speak of themselves.
_OWN_WORDS: Final[Mapping[str, str]] = {
    "en": r"\b(?:i|i'm|i've|i'd|my|mine|we|our|we're|we've)\b",
    "de": r"\b(?:ich|mein\w*|wir|unser\w*)\b",
    "fr": r"\b(?:je|mon|ma|mes|nous|notre|nos)\b|\bj'",
    "es": r"\b(?:yo|mi|mis|soy|tengo|vivo|trabajo|nosotros|nuestr[oa]s?|me)\b",
    "it": r"\b(?:io|mio|mia|miei|mie|sono|ho|noi|nostr[oaie]|mi)\b",
    "nl": r"\b(?:ik|mijn|wij|we|ons|onze)\b",
    "pt": r"\b(?:eu|meu|minha|meus|minhas|sou|tenho|nós|nosso|nossa)\b",
}
# Words of sentences that say who somebody is, has, likes, does or wants. In other languages the rest decides.
_LASTING_WORDS: Final[Mapping[str, str]] = {
    "en": r"\b(?:i'm an?|i am an?|is an?|i have|i've got|has an?|i own|owns|live[sd]? in|moved (?:to|from|here)|grew up"
    r"|born|works? (?:as|for|at|in)|job|career|stud(?:y|ies|ied)|degree|married|husband|wife|partner|kids?"
    r"|child(?:ren)?|sons?|daughters?|moth?er|mom|dad|father|brother|sister|famil(?:y|ies)|grand\w+|dogs?|cats?|pets?"
    r"|allerg\w+|intoleran\w+|favou?rites?|loves?|prefers?|hates?|hobb(?:y|ies)|passion\w*|always|used to|since"
    r"|every (?:day|week|month|year)"
    r"|for \w+ years|dream|plan(?:s|ning)? to|want(?:s|ed)? to|decided|started|starting|joined|opened|volunteer\w*|team"
    r"|vegan|vegetarian|native|language)\b",
    "de": r"\b(?:ich bin|bin ein\w*|ist ein\w*|ich habe|hat ein\w*|wohn\w*|leb(?:e|t|en) in|geboren|aufgewachsen"
    r"|arbeit\w*|beruf\w*|studier\w*|verheiratet|mann|frau|partner\w*|kind(?:er)?|sohn|tochter|mutter|vater|bruder"
    r"|schwester|famil\w+|hund\w*|katze\w*|allerg\w*|lieblings\w*|liebe|mag|hobby\w*|immer|seit"
    r"|jede[nrsm]? (?:tag|woche|monat|jahr)|früher|möchte|will|plan\w*|beschlossen|angefangen|verein)\b",
}


class Sentence(NamedTuple):
    """A sentence of a chunk that holds now, verbatim but for line breaks.

    Attributes:
        importance: Of its chunk, 0 to 1.
        is_own: Whether one of those whom the summary is about says it.
        is_fact: Whether a model has concluded it.
        asked: How well its chunk answers the question, 0 to 1.
        is_outdated: Whether something newer seems to contradict it.
    """

    text: str
    chunk_id: UUID
    memory_id: UUID
    speaker: str | None
    said_at: datetime
    source: Source
    language: str
    importance: float
    is_own: bool = False
    is_fact: bool = False
    asked: float = 0.0
    is_outdated: bool = False


def find_statements(text: str) -> list[str]:
    """The sentences of `text`, each on one line, without questions."""
    found = (_SPACE.sub(" ", sentence) for sentence in split_sentences(text))
    return [sentence for sentence in found if not _QUESTION.search(sentence)]


def choose(sentences: Sequence[Sentence], max_tokens: int, costs: Sequence[int]) -> list[Sentence]:
    """The sentences that say most within `max_tokens`, the best first; deterministic.

    Args:
        costs: The tokens of each as it is written.
    """
    terms = [frozenset(analyse(sentence.text, sentence.language)) for sentence in sentences]
    worth = _worths(sentences, terms)
    weights = [_weight(sentence, said) for sentence, said in zip(sentences, terms, strict=True)]
    seen: set[str] = set()
    said: set[str] = set()
    chosen: list[Sentence] = []

    def value(index: int) -> float:
        # Exact in any order of a set.
        new = fsum(worth[term] for term in terms[index] - seen)
        length: float = costs[index] ** LENGTH_POWER
        return weights[index] * new / length

    # The more has been said, the less is new: a value that stays the highest when it is computed again is the best.
    waiting = [(-value(index), index) for index, weight in enumerate(weights) if weight > 0]
    heapify(waiting)
    while waiting:
        before, index = heappop(waiting)
        if costs[index] > max_tokens:
            continue
        now = -value(index)
        if now == 0:
            continue
        if now > before:
            heappush(waiting, (now, index))
            continue
        if (folded := fold_text(sentences[index].text)) in said:
            continue
        chosen.append(sentences[index])
        seen |= terms[index]
        said.add(folded)
        max_tokens -= costs[index]
    return chosen


def _worths(sentences: Sequence[Sentence], terms: Sequence[frozenset[str]]) -> Mapping[str, float]:
    """What each word is worth."""
    memories: defaultdict[str, set[UUID]] = defaultdict(set)
    for sentence, said in zip(sentences, terms, strict=True):
        for term in said:
            memories[term].add(sentence.memory_id)
    of_names = {
        term
        for speaker, language in {(sentence.speaker, sentence.language) for sentence in sentences}
        for term in analyse(speaker or "", language)
    }
    rarities = _rarities(sentences)
    total = len({sentence.memory_id for sentence in sentences})
    return {
        term: 0.0
        if term in of_names
        else rarities.get(term, 1.0)
        * log2(1 + min(len(where), MOST_MEMORIES))
        * (1 - (EVERYWHERE * len(where) / total if total > 1 else 0.0))
        for term, where in memories.items()
    }


def _rarities(sentences: Sequence[Sentence]) -> Mapping[str, float]:
    """How uncommon each term is, 0 to 1: as much as the commonest of the words that it is made of."""
    words = {(word.casefold(), one.language) for one in sentences for word in WORD.findall(one.text)}
    found: dict[str, float] = {}
    for word, language in words:
        for term in analyse(word, language):
            found[term] = min(found.get(term, 1.0), rarity(word))
    return found


def _weight(sentence: Sentence, terms: frozenset[str]) -> float:
    """How much a sentence counts, besides its words; 0 if it is not to be quoted."""
    folded = sentence.text.casefold().replace("’", "'")
    own = sentence.is_own and _says(_OWN_WORDS, sentence.language, folded)
    lasting = _says(_LASTING_WORDS, sentence.language, folded)
    least = LEAST_NOTE_WORDS if sentence.speaker is None else LEAST_OWN_WORDS if own and lasting else LEAST_WORDS
    if not least <= len(terms) <= MOST_WORDS:
        return 0.0
    weight = 1.0 + OWN * own + LASTING * lasting + FACT * sentence.is_fact + ASKED * sentence.asked
    weight *= OUTDATED if sentence.is_outdated else 1.0
    return weight * max(LEAST_IMPORTANCE, sentence.importance) * (1 + min(3, count_details(sentence.text)) / 6)


def _says(words: Mapping[str, str], language: str, folded: str) -> bool:
    return language in words and re.search(words[language], folded) is not None
