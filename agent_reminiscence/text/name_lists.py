"""Lists by which rules tell names and their types: data in `entity_lists/`, read when first needed."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from agent_reminiscence.text.folding import fold_name, name_key

TYPED: Final = ("organization", "event", "place")
"""The types that words of a name show, in the order in which they are looked for."""


class TypeWords(NamedTuple):
    """Words that show that a name has a type, case folded.

    Attributes:
        first: The first of several words.
        last: The last of several words.
        after: The word after the name.
        endings: How a name of one word ends.
    """

    first: frozenset[str]
    last: frozenset[str]
    after: frozenset[str]
    endings: tuple[str, ...]


class GermanWords(NamedTuple):
    """What tells German apart, and the nouns in it, case folded.

    Attributes:
        determiners: Words before a noun.
        verbs: Verbs that may follow a name.
        persons: What people are to each other, and forms of address: a name follows.
        openers: Words that begin sentences and are no names.
        noun_endings: Endings that only ordinary nouns have.
        nouns: Ordinary nouns.
        compounds: Those that compounds end in.
        surnames: Nouns that are surnames after a given name.
    """

    determiners: frozenset[str]
    verbs: frozenset[str]
    persons: frozenset[str]
    openers: frozenset[str]
    noun_endings: tuple[str, ...]
    nouns: frozenset[str]
    compounds: frozenset[str]
    surnames: frozenset[str]


@cache
def given_names() -> frozenset[str]:
    """Folded given names that are common in some language; a name that is not among them needs other evidence."""
    return frozenset(map(fold_name, _sections("given_names.txt")[""].split()))


@cache
def places() -> frozenset[str]:
    """The keys of countries, regions and large cities."""
    return frozenset(key for names in _sections("places.txt").values() for key in _keys(names))


@cache
def organizations() -> frozenset[str]:
    """The keys of organisations that most texts mean by these names."""
    return frozenset(_keys(_sections("organizations.txt")["organizations"]))


@cache
def peoples() -> frozenset[str]:
    """The keys of words for peoples and languages: no place, organisation or person."""
    return frozenset(_keys(_sections("organizations.txt")["peoples"]))


@cache
def english_nouns() -> frozenset[str]:
    """Ordinary English nouns that begin notes."""
    return frozenset(_sections("nouns.txt")["en"].casefold().split())


@cache
def german_words() -> GermanWords:
    """What tells German apart."""
    parts = {name: words.casefold().split() for name, words in _sections("german.txt").items()}
    nouns = frozenset(_sections("nouns.txt")["de"].casefold().split())
    alone = set(parts["no_compounds"])
    return GermanWords(
        determiners=frozenset(parts["determiners"]),
        verbs=frozenset(parts["verbs"]),
        persons=frozenset(parts["persons"]),
        openers=frozenset(parts["openers"]),
        noun_endings=tuple(parts["noun_endings"]),
        nouns=nouns,
        compounds=frozenset(noun for noun in nouns if len(noun) > 3 and noun not in alone),
        surnames=frozenset(parts["surnames"]),
    )


@cache
def type_words() -> Mapping[str, TypeWords]:
    """The words that show each of the types in `TYPED`."""
    parts = _toml("types.toml")
    return {
        type_: TypeWords(
            first=frozenset(parts[type_].get("first", "").split()),
            last=frozenset(parts[type_].get("last", "").split()),
            after=frozenset(parts[type_].get("after", "").split()),
            endings=tuple(parts[type_].get("endings", "").split()),
        )
        for type_ in TYPED
    }


@cache
def relation_rules() -> Mapping[str, Any]:
    """What `relations.toml` says, as it stands there."""
    return _toml("relations.toml")


def _keys(names: str) -> list[str]:
    return [name_key(name) for name in " ".join(names.split("\n")).split(",")]


def _toml(name: str) -> dict[str, Any]:
    return tomllib.loads(_read(name))


def _sections(name: str) -> dict[str, str]:
    """The text below each heading of a list, without comments; what stands before the first has none."""
    sections: dict[str, list[str]] = {"": []}
    part = sections[""]
    for line in _read(name).splitlines():
        if line.startswith("[") and line.endswith("]"):
            part = sections.setdefault(line[1:-1], [])
        elif not line.startswith("#"):
            part.append(line)
    return {heading: "\n".join(lines) for heading, lines in sections.items() if "".join(lines).strip()}


def _read(name: str) -> str:
    return files("agent_reminiscence.text").joinpath("entity_lists", name).read_text(encoding="utf-8")
