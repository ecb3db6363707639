"""Which known entity a new name most likely means, when it is spelled differently.

A wrong merge joins what two people did; a missed one leaves two entries for one of them. So a rule has to name the
difference, and where two known entities fit, neither is taken:

- **the same letters**: `J. K. Rowling` and `JK Rowling`, `Wi-Fi Alliance` and `The WiFi Alliance`;
- **a legal form** more: `Acme`, `Acme Corp` and `Acme Corporation`, but not `Acme Inc` and `Acme GmbH`;
- **one slip in one long word**: a letter doubled, two swapped, a silent h, or letters that sound alike from seven
  letters on; any other letter more or less from nine. The first and the last letter stay: what differs there tells
  `Hanna` from `Anna` and `Caroline` from `Carolina`;
- **a short form** of a person: `Tim` and `Tim Smith`, when nobody else is called Tim;
- **`City`** after two words or more: `New York` and `New York City`.

Names are compared within a type; `other` is comparable with every type. Numbers are never likened (`iPhone 12`,
`iPhone 13`), nor are names of fewer than five letters, nor two names that stand in one passage.

Vectors have no say. The bundled embedder's cosine of two names follows the tokens they share: 0.13 to 0.94 for slips
(`Carolline` 0.45), 0.13 to 0.92 for different names (`Katherine Jackson` 0.54, `iPhone 13` 0.92); 0.70 to 0.98 for
longer forms of one name (`Stanford University` 0.89), 0.31 to 0.88 for longer forms that mean something else (`Boston
University` 0.86). No threshold tells them apart.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import combinations
from uuid import UUID

from rapidfuzz import process
from rapidfuzz.distance import OSA

from agent_reminiscence.domain.graph import FORMS_OF_ADDRESS

MIN_LETTERS = 5
"""Names of fewer letters are alike only when they are equal."""
MIN_VARIANT_LETTERS = 7
"""A word in which a doubled letter, two swapped ones, a silent h or a letter of the same sound is a slip."""
MIN_SLIP_LETTERS = 9
"""A word in which any letter more or less is a slip: `Thompson` and `Thomson` have fewer, and are two names."""
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
    """Why two names are taken for one."""

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


@dataclass(frozen=True, slots=True)
class NamedEntity:
    """An entity as its names are compared.

    Attributes:
        keys: All its names and aliases, as `name_key` gives them; at least one.
        name: As it is spelled.
        type: Of `constants.ENTITY_TYPES` or any other.
        passages: The passages of the text at hand that name it; of one that is known, only these matter.
    """

    id: UUID
    keys: tuple[str, ...]
    name: str
    type: str
    passages: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Match:
    """A new entity and the known one that it most likely is.

    Attributes:
        score: One value for each reason, 0 to 1.
    """

    new_id: UUID
    known_id: UUID
    score: float
    reason: Likeness


def find_alike(new: Sequence[NamedEntity], known: Sequence[NamedEntity]) -> list[Match]:
    """For each new entity the known one that it most likely is; none where that is open.

    200 new names take some 0.2 s among 10,000 known ones: for a thread.

    Args:
        new: Entities whose names nobody knows.
        known: Entities of the same tenant.

    Returns:
        In the order of `new`, at most one match for each.
    """
    book = _Book(known)
    newcomers = _Book(new)
    slips = _find_slips(newcomers.names, book.names)
    matches: list[Match] = []
    for place, entity in enumerate(new):
        for reason, candidates in (
            (Likeness.SAME_LETTERS, book.with_same_letters(entity)),
            (Likeness.LEGAL_FORM, book.with_other_legal_form(entity)),
            (Likeness.SPELLING, slips[place]),
            (Likeness.CITY, book.with_or_without_city(entity)),
            (Likeness.SHORT_FORM, _same_persons(entity, newcomers, book)),
        ):
            fitting = {candidate for candidate in candidates if _may_be_one(entity, known[candidate])}
            if len(fitting) == 1:
                matches.append(Match(entity.id, known[fitting.pop()].id, _SCORES[reason], reason))
            if candidates:
                # Where several fit, or what fits best may not be it, a weaker reason decides nothing.
                break
    return _without_rivals(matches, {entity.id: entity for entity in new})


def _without_rivals(matches: Sequence[Match], new: Mapping[UUID, NamedEntity]) -> list[Match]:
    """Matches whose known entity no other name claims that means something else: both would become one through it."""
    claims: dict[UUID, list[NamedEntity]] = defaultdict(list)
    for match in matches:
        claims[match.known_id].append(new[match.new_id])
    return [match for match in matches if not _are_rivals(claims[match.known_id])]


def _are_rivals(claimants: Sequence[NamedEntity]) -> bool:
    forms = {name.firm[1] for entity in claimants for name in _names_of(entity)} - {""}
    return len(forms) > 1 or any(one.passages & other.passages for one, other in combinations(claimants, 2))


@dataclass(frozen=True)
class _Name:
    """One name of the entity at `place`, taken apart."""

    place: int
    key: str

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Without punctuation and a leading article."""
        words = tuple(_SEPARATORS.sub(" ", self.key.replace("'", "").replace("&", " and ")).split())
        return words[1:] if len(words) > 1 and words[0] == "the" else words

    @cached_property
    def text(self) -> str:
        """The words with single spaces."""
        return " ".join(self.words)

    @cached_property
    def letters(self) -> str:
        """The letters alone, for numbers are compared as they are; '' for a name that is too short."""
        letters = "".join(self.words)
        return letters if len(letters) >= MIN_LETTERS and not _NUMBER.search(letters) else ""

    @cached_property
    def firm(self) -> tuple[str, str]:
        """The name without its legal form, and the form; '' where it has none."""
        form = _LEGAL_FORMS.get(self.words[-1], "") if len(self.words) > 1 else ""
        return (" ".join(self.words[:-1]), form) if form else (self.text, "")

    @cached_property
    def city(self) -> str:
        """What a name of two words or more is without `City`; '' for a shorter one."""
        words = self.words[:-1] if self.words and self.words[-1] == "city" else self.words
        return " ".join(words) if len(words) > 1 else ""


class _Book:
    """Entities by what their names have in common with others."""

    def __init__(self, entities: Sequence[NamedEntity]) -> None:
        self.names = [_Name(place, key) for place, entity in enumerate(entities) for key in entity.keys]
        self._by_letters: dict[str, set[int]] = defaultdict(set)
        self._by_firm: dict[str, set[tuple[int, str]]] = defaultdict(set)
        self._by_city: dict[str, set[tuple[int, bool]]] = defaultdict(set)
        self.full_names: dict[str, set[int]] = defaultdict(set)
        self.first_names: dict[str, set[int]] = defaultdict(set)
        for name in self.names:
            self._note(name, is_person=entities[name.place].type == _PERSON)

    def with_same_letters(self, entity: NamedEntity) -> set[int]:
        """Entities whose names differ in punctuation, spaces or an article alone."""
        return _union(self._by_letters.get(name.letters) for name in _names_of(entity) if name.letters)

    def with_other_legal_form(self, entity: NamedEntity) -> set[int]:
        """Entities of the same name with a legal form more or less, or with the same one spelled otherwise.

        One that has been called by another legal form, too, is none of them.
        """
        found = set()
        for base, form in (name.firm for name in _names_of(entity)):
            if len(base) >= MIN_LETTERS - 1:
                forms: dict[int, set[str]] = defaultdict(set)
                for place, other in self._by_firm.get(base, ()):
                    forms[place].add(other)
                found |= {place for place, others in forms.items() if not form or others <= {form, ""}}
        return found

    def with_or_without_city(self, entity: NamedEntity) -> set[int]:
        """Entities whose names of two words or more differ in `City` at the end."""
        found = set()
        for name in _names_of(entity):
            if name.city:
                ends = name.words[-1] == "city"
                found |= {place for place, other in self._by_city.get(name.city, ()) if other != ends}
        return found

    def _note(self, name: _Name, *, is_person: bool) -> None:
        if name.letters:
            self._by_letters[name.letters].add(name.place)
        base, form = name.firm
        self._by_firm[base].add((name.place, form))
        if name.city:
            self._by_city[name.city].add((name.place, name.words[-1] == "city"))
        if is_person and name.words:
            names = self.first_names if len(name.words) == 1 else self.full_names
            names[name.words[0]].add(name.place)


def _same_persons(entity: NamedEntity, new: _Book, known: _Book) -> set[int]:
    """Persons whose full name begins with the entity's only one, or whose only name begins the entity's full one.

    None when several persons have that first name.
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
    """For the place of each new entity those of the known ones whose names differ from its own in one slip."""
    slips: dict[int, set[int]] = defaultdict(set)
    known = [name for name in known if len(name.text) >= MIN_VARIANT_LETTERS - 1]
    texts = [name.text for name in known]
    for name in new:
        if len(name.text) < MIN_VARIANT_LETTERS - 1:
            continue
        # One letter more, less, other, or swapped with the next.
        for _, distance, place in process.extract_iter(name.text, texts, scorer=OSA.distance, score_cutoff=1):
            if distance == 1 and _is_slip(name.words, known[place].words):
                slips[name.place].add(known[place].place)
    return slips


def _is_slip(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether two names one letter apart differ in a slip within one long word."""
    if len(one) != len(other):
        return False
    ((first, second),) = [pair for pair in zip(one, other, strict=True) if pair[0] != pair[1]]
    if first[0] != second[0] or first[-1] != second[-1] or _NUMBER.search(first + second):
        return False
    longer, shorter = sorted((first, second), key=len, reverse=True)
    if len(longer) < MIN_VARIANT_LETTERS:
        return False
    at = next(place for place, letter in enumerate(longer) if shorter[place : place + 1] != letter)
    if len(longer) == len(shorter):
        is_swapped = longer[at + 1] == shorter[at]
        return is_swapped or {longer[at], shorter[at]} in _SAME_SOUND
    is_variant = longer[at] in (longer[at - 1], "h")
    return is_variant or len(longer) >= MIN_SLIP_LETTERS


def _may_be_one(new: NamedEntity, known: NamedEntity) -> bool:
    """Whether type, title and place in the text allow two entities to be one."""
    if new.id == known.id or new.passages & known.passages:
        return False
    if new.type != known.type and _ANY_TYPE not in (new.type, known.type):
        return False
    titles = [title.group().casefold() for name in (new.name, known.name) if (title := _TITLE.match(name))]
    return len(set(titles)) < 2


def _names_of(entity: NamedEntity) -> Iterator[_Name]:
    return (_Name(0, key) for key in entity.keys)


def _union(sets: Iterable[set[int] | None]) -> set[int]:
    return set().union(*(places for places in sets if places))
