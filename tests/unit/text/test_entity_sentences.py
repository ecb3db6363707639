"""How often the rules are right about names, types and relationships, on sentences in English and German.

A file has a sentence a line: `sentence | name:type, … | from > relationship > to, …`. The rules were tuned on
`harmless.txt` and `named.txt`; `unseen.txt` was written before them, and `prose.txt` before they were run on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agent_reminiscence.text.folding import name_key
from agent_reminiscence.text.name_lines import Passage
from agent_reminiscence.text.names import extract
from agent_reminiscence.text.speakers import read_label

_FOLDER = Path(__file__).parent / "entity_sentences"


@dataclass
class Score:
    """What was found, against what a file says."""

    right: int = 0
    wrong: list[object] = field(default_factory=list)
    missed: list[object] = field(default_factory=list)

    @property
    def precision(self) -> float:
        """The share of what was found that is right."""
        return self.right / (self.right + len(self.wrong))

    @property
    def recall(self) -> float:
        """The share of what there is that was found."""
        return self.right / (self.right + len(self.missed))

    def count(self, found: set[object], wanted: set[object]) -> None:
        """Add one sentence."""
        self.right += len(found & wanted)
        self.wrong += sorted(found - wanted, key=str)
        self.missed += sorted(wanted - found, key=str)


def _lines(name: str) -> Iterator[tuple[Passage, dict[str, str], set[object]]]:
    for line in (_FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        sentence, names, stated = (part.strip() for part in line.split("|"))
        label = read_label(sentence, 0)
        types = dict(one.rsplit(":", 1) for one in names.split(", ") if one)
        relationships = {tuple(one.split(" > ")) for one in stated.split(", ") if one}
        yield (
            Passage(sentence, label.name if label else None),
            {_key(name): type_ for name, type_ in types.items()},
            {(_key(source), type_, _key(target)) for source, type_, target in relationships},
        )


def _key(name: str) -> str:
    return name_key(name).rstrip(".")


def _score(name: str) -> tuple[Score, Score, Score]:
    """The scores of names, of types that are more than `other`, and of relationships."""
    names, types, stated = Score(), Score(), Score()
    for passage, wanted, relationships in _lines(name):
        found = extract([passage], known={})
        typed = {_key(one.key): one.type for one in found.entities}
        names.count(set(typed), set(wanted))
        types.count({one for one in typed.items() if one[1] != "other"}, set(wanted.items()))
        stated.count({(_key(one.from_key), one.type, _key(one.to_key)) for one in found.relationships}, relationships)
    return names, types, stated


def test_a_hundred_harmless_sentences_name_nothing() -> None:
    """A noun that begins a note, and German nouns, are no names."""
    found = [(p.content, one.name) for p, _, _ in _lines("harmless") for one in extract([p], known={}).entities]

    assert found == []


@pytest.mark.parametrize(
    ("name", "precision", "recall"),
    [("named", 0.99, 0.95), ("unseen", 0.95, 0.9), ("prose", 0.95, 0.7)],
)
def test_types_and_relationships_are_right_nearly_always(name: str, precision: float, recall: float) -> None:
    """Precision before recall: an unsure name stays `other`, and an unsure pair `related_to`."""
    names, types, stated = _score(name)

    assert names.precision >= precision, names.wrong
    assert types.precision >= precision, types.wrong
    assert stated.precision >= precision, stated.wrong
    assert names.recall >= recall, names.missed
    assert types.recall >= recall, types.missed
    assert stated.recall >= recall, stated.missed


@pytest.mark.parametrize(
    ("sentence", "stated"),
    [
        ('Mara: Tom said: "I work for Siemens."', set()),
        ("Mara: Tom schreibt: „Ich wohne in Kiel.“", set()),
        ("Mara: > I live in Kiel.", set()),
        ('Mara: I told Tom "wait" because I live in Kiel.', {("mara", "lives_in", "kiel")}),
        ("Mara: My wife Anna died last year.", set()),
        ("Mara: My husband is Bob's boss.", set()),
        ("Mara: My husband is Bob.", {("mara", "married_to", "bob")}),
        ("Mara: Meine Schwester ist Veganerin.", set()),
        ("Mara: Meine Schwester heißt Lea.", {("mara", "sibling_of", "lea")}),
        ("My Wife works for Siemens.", set()),
        ("Mara: My Wife works for Siemens.", set()),
        ("The Dog lives in Kiel.", set()),
        ("Our Mara lives in Kiel.", {("mara", "lives_in", "kiel")}),
        ("Xaveria lives in Kiel.", {("xaveria", "lives_in", "kiel")}),
        ("It is a lie that Mara works for Siemens.", set()),
        ("Wenn Mara in Kiel wohnt, ist es nah.", set()),
        ("Meine Tochter studiert Physik an der Universität Bonn.", set()),
        ("Mara studiert Zymurgie an der Universität Bonn.", {("mara", "studies_at", "universitat bonn")}),
        ("Seit Mai studiert Mara an der Universität Bonn.", {("mara", "studies_at", "universitat bonn")}),
    ],
)
def test_nobody_is_related_by_what_is_quoted_not_so_or_said_of_others(sentence: str, stated: set[object]) -> None:
    """Who quotes somebody is not the "I" of the quotation, what is studied is no student, and Bob's boss is not Bob."""
    label = read_label(sentence, 0)
    found = extract([Passage(sentence, label.name if label else None)], known={})

    assert {(one.from_key, one.type, one.to_key) for one in found.relationships} == stated
