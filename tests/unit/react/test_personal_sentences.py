"""How well rules tell personal data: who somebody is, what they believe, whom they love, where they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent_reminiscence.react.sensitive import KINDS, SensitiveKind, sensitive_kinds, told
from agent_reminiscence.react.sensitive.data import rules
from agent_reminiscence.react.sensitive.search import folded

_KINDS: tuple[SensitiveKind, ...] = (
    "identity",
    "contact",
    "belief",
    "origin",
    "sex_life",
    "criminal",
    "minor",
    "location",
)
_LANGUAGES = ("en", "de")
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Labelled:
    """A sentence, its language, and the kinds it is about."""

    kinds: frozenset[str]
    language: str
    text: str


def _labelled(name: str) -> list[Labelled]:
    rows = []
    for line in (_HERE / name).read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            kinds, language, text = line.split(" | ", 2)
            rows.append(Labelled(frozenset(() if kinds == "-" else kinds.split(",")), language, text))
    return rows


_TUNED = _labelled("personal_sentences.txt")
_UNSEEN = _labelled("personal_sentences_unseen.txt")


def _found(rows: Sequence[Labelled], kind: SensitiveKind) -> float:
    """The share of the sentences about `kind` of which the rules tell it."""
    about = [row for row in rows if kind in row.kinds]
    return sum(kind in sensitive_kinds(row.text) for row in about) / len(about)


def _right(rows: Sequence[Labelled], kind: SensitiveKind) -> float:
    """The share of those that the rules call `kind` that are about it."""
    called = [row for row in rows if kind in sensitive_kinds(row.text)]
    return sum(kind in row.kinds for row in called) / len(called)


def _refused(rows: Sequence[Labelled]) -> float:
    """The share of the harmless sentences that the rules refuse for any kind."""
    harmless = [row for row in rows if not row.kinds]
    return sum(bool(sensitive_kinds(row.text)) for row in harmless) / len(harmless)


@pytest.mark.parametrize("language", _LANGUAGES)
@pytest.mark.parametrize("kind", _KINDS)
def test_nine_of_ten_sentences_that_the_rules_were_tuned_on_are_found(kind: SensitiveKind, language: str) -> None:
    """Of each kind, in each language."""
    assert _found([row for row in _TUNED if row.language == language], kind) >= 0.90


@pytest.mark.parametrize("kind", _KINDS)
def test_what_is_called_a_kind_is_about_it(kind: SensitiveKind) -> None:
    """Whoever allows one kind wants its facts, and those of no other."""
    assert _right(_TUNED, kind) >= 0.90


@pytest.mark.parametrize("language", _LANGUAGES)
def test_of_harmless_look_alikes_at_most_one_in_fifty_is_refused(language: str) -> None:
    """A filter that takes away what an agent is for would be switched off."""
    assert _refused([row for row in _TUNED if row.language == language]) <= 0.02


@pytest.mark.parametrize(
    ("kind", "least_precision", "least_recall"),
    [
        ("identity", 0.90, 0.76),
        ("contact", 0.99, 0.96),
        ("belief", 0.88, 0.92),
        ("origin", 0.90, 0.88),
        ("sex_life", 0.95, 0.80),
        ("criminal", 0.95, 0.96),
        ("minor", 0.99, 0.99),
        ("location", 0.92, 0.96),
    ],
)
def test_the_figures_for_sentences_that_nobody_tuned_the_rules_on(
    kind: SensitiveKind, least_precision: float, least_recall: float
) -> None:
    """What the module's documentation promises, and no more."""
    assert _right(_UNSEEN, kind) >= least_precision
    assert _found(_UNSEEN, kind) >= least_recall
    assert _refused(_UNSEEN) <= 0.03


def test_the_lists_are_as_long_as_their_figures_need() -> None:
    """Nothing is in both, and no sentence counts twice."""
    texts = [row.text for row in (*_TUNED, *_UNSEEN)]
    assert len(set(texts)) == len(texts)
    for rows, least, harmless in ((_TUNED, 100, 300), (_UNSEEN, 25, 100)):
        for kind in _KINDS:
            about = [row for row in rows if kind in row.kinds]
            assert len(about) >= least
            assert min(sum(row.language == language for row in about) for language in _LANGUAGES) >= least * 0.35
        assert sum(not row.kinds for row in rows) >= harmless


@pytest.mark.thorough
def test_no_sentence_is_left_out_by_the_stems_of_a_rule() -> None:
    """What is looked for first is in whatever a rule matches."""
    for row in (*_TUNED, *_UNSEEN):
        cased = folded(row.text)
        for rule in rules():
            text = cased if rule.cased else cased.lower()
            for stems in rule.stems:
                assert any(stem in text for stem in stems) or not rule.is_met_by(text), (row.text, rule.kind)


@pytest.mark.parametrize(
    "sentence",
    [
        "The user works at Siemens.",
        "The user likes Thai food.",
        "The user lives in Berlin.",
        "Ana lives in Graz.",
        "Her daughter likes horses.",
        "The user has two children.",
        "The user is vegan.",
        "The user is 34 years old.",
        "The user speaks Turkish.",
        "The user works from home on Fridays.",
        "The user wants to visit Japan next summer.",
        "The user prefers to be contacted by e-mail.",
        "Der Nutzer arbeitet bei Siemens.",
        "Der Nutzer wohnt in Berlin.",
        "Seine Tochter mag Pferde.",
        "Er mag thailändisches Essen.",
    ],
)
def test_everyday_facts_are_kept(sentence: str) -> None:
    """A town is no address, and a child that is neither named nor described is nobody."""
    assert sensitive_kinds(sentence) == frozenset()


def test_each_kind_has_rules_and_words_for_a_model() -> None:
    """A file without a kind, or a kind without a file, would be noticed by nobody."""
    folder = Path(sensitive_kinds.__code__.co_filename).parent
    assert {path.stem for path in folder.glob("*.toml")} == {*KINDS, "common"}
    assert {rule.kind for rule in rules()} == set(KINDS)
    assert all(told(kind) for kind in KINDS)
