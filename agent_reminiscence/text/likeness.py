"""Finds which known entity a differently spelled name most likely means.

A wrong merge mixes up two people; a missed merge leaves two entries for one. So every rule must be able to name the
difference, and if two known entities fit, neither is chosen:

- **the same letters**: `J. K. Rowling` and `JK Rowling`, `Wi-Fi Alliance` and `The WiFi Alliance`;
- **an added legal form**: `Acme`, `Acme Corp` and `Acme Corporation`, but not `Acme Inc` and `Acme GmbH`;
- **one slip in one long word**: from seven letters on, a doubled letter, two swapped letters, a silent h or letters
  that sound alike; from nine, any letter added or dropped. The first and last letters must match: they distinguish
  `Hanna` from `Anna` and `Caroline` from `Carolina`;
- **a short form** of a person: `Tim` and `Tim Smith`, if nobody else is called Tim;
- **`City`** after two words or more: `New York` and `New York City`.

Names are compared within a type; `other` can be compared with every type. Never matched: numbers (`iPhone 12`,
`iPhone 13`), names of fewer than five letters, and two names that appear in the same passage.

Vectors are not used. WordLlama's cosine of two names follows the tokens they share: 0.13 to 0.94 for slips
(`Carolline` 0.45), 0.13 to 0.92 for different names (`Katherine Jackson` 0.54, `iPhone 13` 0.92); 0.70 to 0.98 for
longer forms of one name (`Stanford University` 0.89), 0.31 to 0.88 for longer forms that mean something else (`Boston
University` 0.86). No threshold separates them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import combinations
from typing import Final, NamedTuple
from uuid import UUID

from rapidfuzz import process
from rapidfuzz.distance import OSA, JaroWinkler

from agent_reminiscence.text.folding import FORMS_OF_ADDRESS, name_key

# The minimum Jaro-Winkler similarity to count as alike: "Jon" and "John" have 0.93, "Tim" and "Tim Smith" 0.84,
# "Lisbon" and "London" 0.67.
ALIKE_MIN: Final = 0.8

MIN_LETTERS = 5
"""Shorter names match only when they are equal."""
MIN_VARIANT_LETTERS = 7
"""Minimum word length at which a doubled letter, two swapped letters, a silent h or a similar sound is a slip."""
MIN_SLIP_LETTERS = 9
"""Minimum word length at which any added or dropped letter is a slip; `Thompson` and `Thomson` are two names."""
MIN_SHORT_FORM_LETTERS = 3

_LEGAL_FORMS = {
    "inc": "inc", "incorporated": "inc", "ltd": "ltd", "limited": "ltd", "corp": "corp", "corporation": "corp",
    "co": "co", "company": "co", "llc": "llc", "plc": "plc", "gmbh": "gmbh", "ag": "ag", "sa": "sa", "bv": "bv",
}  # fmt: skip
_SAME_SOUND = tuple(map(frozenset, ("sz", "sc", "ck", "iy", "vw")))
_NUMBER = re.compile(r"\d+")
_SEPARATORS = re.compile(r"[^\w&]+|_")
_TITLE = re.compile(rf"(?:{'|'.join(sorted(FORMS_OF_ADDRESS))})\b", re.IGNORECASE)
_ANY_TYPE = "other"
_PERSON = "person"


class Likeness(StrEnum):
    """Why two names are taken to mean the same entity."""

    SAME_LETTERS = "same_letters"
    LEGAL_FORM = "legal_form"
    SPELLING = "spelling"
    CITY = "city"
    SHORT_FORM = "short_form"


_SCORES = {
    Likeness.SAME_LETTERS: 0.98,
    Likeness.LEGAL_FORM: 0.95,
    Likeness.SPELLING: 0.9,
    Likeness.CITY: 0.85,
    Likeness.SHORT_FORM: 0.8,
}


class NamedEntity(NamedTuple):
    """An entity with what name matching needs.

    Attributes:
        keys: All its names and aliases, as returned by `name_key`; at least one.
        name: The name as spelled.
        type: One of `constants.ENTITY_TYPES`, or any other string.
        passages: The passages of the current text that name it.
    """

    id: UUID
    keys: tuple[str, ...]
    name: str
    type: str
    passages: frozenset[int] = frozenset()


class Match(NamedTuple):
    """A new entity and the known entity it most likely is.

    Attributes:
        score: Fixed per reason, 0 to 1.
    """

    new_id: UUID
    known_id: UUID
    score: float
    reason: Likeness


def find_alike(new: Sequence[NamedEntity], known: Sequence[NamedEntity]) -> list[Match]:
    """Find the known entity that each new entity most likely is; none if that is ambiguous.

    Run it in a thread: 200 new names among 10,000 known ones take some 0.2 s.

    Args:
        new: Entities with unknown names.
        known: Entities of the same tenant.

    Returns:
        At most one match per new entity, in the order of `new`.
    """
    book = _Book(known)
    newcomers = _Book(new)
    slips = _find_slips(newcomers.names, book.names)
    matches: list[Match] = []
    for index, entity in enumerate(new):
        for reason, candidates in (
            (Likeness.SAME_LETTERS, book.with_same_letters(entity)),
            (Likeness.LEGAL_FORM, book.with_other_legal_form(entity)),
            (Likeness.SPELLING, slips[index]),
            (Likeness.CITY, book.with_or_without_city(entity)),
            (Likeness.SHORT_FORM, _same_persons(entity, newcomers, book)),
        ):
            fitting = {candidate for candidate in candidates if _may_be_one(entity, known[candidate])}
            if len(fitting) == 1:
                matches.append(Match(entity.id, known[fitting.pop()].id, _SCORES[reason], reason))
            if candidates:
                # If several fit, or the best candidate was ruled out, a weaker reason must not decide.
                break
    return _without_rivals(matches, {entity.id: entity for entity in new})


def _without_rivals(matches: Sequence[Match], new: Mapping[UUID, NamedEntity]) -> list[Match]:
    """Drop matches whose known entity is claimed by two names that must differ: it would merge them."""
    claims: dict[UUID, list[NamedEntity]] = defaultdict(list)
    for match in matches:
        claims[match.known_id].append(new[match.new_id])
    return [match for match in matches if not _are_rivals(claims[match.known_id])]


def _are_rivals(claimants: Sequence[NamedEntity]) -> bool:
    forms = {name.firm[1] for entity in claimants for name in _names_of(entity)} - {""}
    return len(forms) > 1 or any(one.passages & other.passages for one, other in combinations(claimants, 2))


@dataclass(frozen=True)
class _Name:
    """One parsed name of the entity at `index`."""

    index: int
    key: str

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Words without punctuation and leading article."""
        words = tuple(_SEPARATORS.sub(" ", self.key.replace("'", "").replace("&", " and ")).split())
        return words[1:] if len(words) > 1 and words[0] == "the" else words

    @cached_property
    def text(self) -> str:
        """The words joined by single spaces."""
        return " ".join(self.words)

    @cached_property
    def letters(self) -> str:
        """Letters only; '' for names that are too short or contain numbers, which must match exactly."""
        letters = "".join(self.words)
        return letters if len(letters) >= MIN_LETTERS and not _NUMBER.search(letters) else ""

    @cached_property
    def firm(self) -> tuple[str, str]:
        """The name without its legal form, and the form, or '' if it has none."""
        form = _LEGAL_FORMS.get(self.words[-1], "") if len(self.words) > 1 else ""
        return (" ".join(self.words[:-1]), form) if form else (self.text, "")

    @cached_property
    def city(self) -> str:
        """A name of two words or more without a trailing `City`; '' for a shorter one."""
        words = self.words[:-1] if self.words and self.words[-1] == "city" else self.words
        return " ".join(words) if len(words) > 1 else ""


class _Book:
    """Entities, indexed by the features their names may share with others."""

    def __init__(self, entities: Sequence[NamedEntity]) -> None:
        self.names = [_Name(index, key) for index, entity in enumerate(entities) for key in entity.keys]
        self._by_letters: dict[str, set[int]] = defaultdict(set)
        self._by_firm: dict[str, set[tuple[int, str]]] = defaultdict(set)
        self._by_city: dict[str, set[tuple[int, bool]]] = defaultdict(set)
        self.full_names: dict[str, set[int]] = defaultdict(set)
        self.first_names: dict[str, set[int]] = defaultdict(set)
        for name in self.names:
            self._note(name, is_person=entities[name.index].type == _PERSON)

    def with_same_letters(self, entity: NamedEntity) -> set[int]:
        """Entities whose names differ only in punctuation, spaces or an article."""
        return _union(self._by_letters.get(name.letters) for name in _names_of(entity) if name.letters)

    def with_other_legal_form(self, entity: NamedEntity) -> set[int]:
        """Entities of the same name whose legal form is missing, added or spelled differently.

        Entities that also have a name with another legal form are left out.
        """
        found = set()
        for base, form in (name.firm for name in _names_of(entity)):
            if len(base) >= MIN_LETTERS - 1:
                forms: dict[int, set[str]] = defaultdict(set)
                for index, other in self._by_firm.get(base, ()):
                    forms[index].add(other)
                found |= {index for index, others in forms.items() if not form or others <= {form, ""}}
        return found

    def with_or_without_city(self, entity: NamedEntity) -> set[int]:
        """Entities whose names of two words or more differ only in a trailing `City`."""
        found = set()
        for name in _names_of(entity):
            if name.city:
                ends = name.words[-1] == "city"
                found |= {index for index, other in self._by_city.get(name.city, ()) if other != ends}
        return found

    def _note(self, name: _Name, *, is_person: bool) -> None:
        if name.letters:
            self._by_letters[name.letters].add(name.index)
        base, form = name.firm
        self._by_firm[base].add((name.index, form))
        if name.city:
            self._by_city[name.city].add((name.index, name.words[-1] == "city"))
        if is_person and name.words:
            names = self.first_names if len(name.words) == 1 else self.full_names
            names[name.words[0]].add(name.index)


def _same_persons(entity: NamedEntity, new: _Book, known: _Book) -> set[int]:
    """People whose full name starts with the entity's single name, or whose single name starts its full name.

    None if several people have that first name.
    """
    if entity.type != _PERSON or _TITLE.match(entity.name):
        return set()
    found: set[int] = set()
    for name in _names_of(entity):
        first = name.words[0] if name.words else ""
        namesakes = known.full_names.get(first, set())
        newcomers = new.full_names.get(first, set())
        if len(first) < MIN_SHORT_FORM_LETTERS:
            continue
        if len(name.words) == 1 and not newcomers:
            found |= namesakes
        elif len(name.words) > 1 and not namesakes and len(newcomers) == 1:
            found |= known.first_names.get(first, set())
    return found


def _find_slips(new: Sequence[_Name], known: Sequence[_Name]) -> dict[int, set[int]]:
    """For each new entity, by index: the indices of known entities whose names differ from its own by one slip."""
    slips: dict[int, set[int]] = defaultdict(set)
    known = [name for name in known if len(name.text) >= MIN_VARIANT_LETTERS - 1]
    texts = [name.text for name in known]
    for name in new:
        if len(name.text) < MIN_VARIANT_LETTERS - 1:
            continue
        # One letter added, dropped, replaced, or swapped with the next.
        for _, distance, index in process.extract_iter(name.text, texts, scorer=OSA.distance, score_cutoff=1):
            if distance == 1 and _is_slip(name.words, known[index].words):
                slips[name.index].add(known[index].index)
    return slips


def _is_slip(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether two names one edit apart differ by a slip within one long word."""
    if len(one) != len(other):
        return False
    ((first, second),) = [pair for pair in zip(one, other, strict=True) if pair[0] != pair[1]]
    if first[0] != second[0] or first[-1] != second[-1] or _NUMBER.search(first + second):
        return False
    longer, shorter = sorted((first, second), key=len, reverse=True)
    if len(longer) < MIN_VARIANT_LETTERS:
        return False
    at = next(index for index, letter in enumerate(longer) if shorter[index : index + 1] != letter)
    if len(longer) == len(shorter):
        is_swapped = longer[at + 1] == shorter[at]
        return is_swapped or {longer[at], shorter[at]} in _SAME_SOUND
    is_variant = longer[at] in (longer[at - 1], "h")
    return is_variant or len(longer) >= MIN_SLIP_LETTERS


def _may_be_one(new: NamedEntity, known: NamedEntity) -> bool:
    """Whether type, title and passages allow two entities to be the same."""
    if new.id == known.id or new.passages & known.passages:
        return False
    if new.type != known.type and _ANY_TYPE not in (new.type, known.type):
        return False
    titles = [title.group().casefold() for name in (new.name, known.name) if (title := _TITLE.match(name))]
    return len(set(titles)) < 2


def _names_of(entity: NamedEntity) -> Iterator[_Name]:
    return (_Name(0, key) for key in entity.keys)


def _union(sets: Iterable[set[int] | None]) -> set[int]:
    return set().union(*(indices for indices in sets if indices))


def rank_alike(name: str, candidates: Iterable[tuple[UUID, str, int]], limit: int) -> list[tuple[UUID, float]]:
    """Rank entities by how similar a name of theirs is to `name`, 0 to 1; then by mentions, then by id.

    Args:
        candidates: Entities, each with the key of one of its names and its number of mentions.
    """
    key = name_key(name)
    named = list(candidates)
    keys = [candidate[1] for candidate in named]
    best: dict[UUID, tuple[float, int]] = {}
    for _, score, index in process.extract(
        key, keys, scorer=JaroWinkler.normalized_similarity, score_cutoff=ALIKE_MIN, limit=None
    ):
        entity_id, _, mentions = named[index]
        best[entity_id] = max((score, mentions), best.get(entity_id, (0.0, 0)))
    ranked = sorted(best, key=lambda entity_id: (-best[entity_id][0], -best[entity_id][1], entity_id))
    return [(entity_id, best[entity_id][0]) for entity_id in ranked[:limit]]
