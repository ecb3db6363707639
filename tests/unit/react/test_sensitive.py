"""Which statements are about a secret, about health or about payment, and what holds for all kinds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from agent_reminiscence.react.sensitive import KINDS, SensitiveKind, sensitive_kinds
from agent_reminiscence.react.sensitive.data import rules
from agent_reminiscence.react.sensitive.search import folded
from agent_reminiscence.react.sensitive.stems import Parts
from agent_reminiscence.redaction.redactor import DefaultRedactor
from tests.support.redaction_cases import SECRETS, Secret

_KINDS: tuple[SensitiveKind, ...] = ("secret", "health", "payment")
_HERE = Path(__file__).parent
# Thousands of times what a sentence takes.
_GENEROUS_SECONDS = 20

type Labelled = tuple[frozenset[str], str]


def _labelled(name: str) -> list[Labelled]:
    rows = []
    for line in (_HERE / name).read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            kinds, _, sentence = line.partition(" | ")
            rows.append((frozenset[str]() if kinds == "-" else frozenset(kinds.split(",")), sentence))
    return rows


_TUNED = _labelled("sensitive_sentences.txt")
_UNSEEN = _labelled("sensitive_sentences_unseen.txt")


def _precision_and_recall(rows: Sequence[Labelled], kind: SensitiveKind) -> tuple[float, float]:
    told = [(kind in expected, kind in sensitive_kinds(sentence)) for expected, sentence in rows]
    right = sum(expected and found for expected, found in told)
    return right / sum(found for _, found in told), right / sum(expected for expected, _ in told)


@pytest.mark.parametrize("kind", _KINDS)
def test_the_rules_tell_the_sentences_that_they_were_tuned_on(kind: SensitiveKind) -> None:
    """In both languages, with near misses."""
    precision, recall = _precision_and_recall(_TUNED, kind)

    assert precision >= 0.95
    assert recall >= 0.95


@pytest.mark.parametrize(
    ("kind", "least_precision", "least_recall"),
    [("secret", 0.95, 0.80), ("health", 0.90, 0.85), ("payment", 0.95, 0.65)],
)
def test_the_rules_tell_most_sentences_that_nobody_tuned_them_on(
    kind: SensitiveKind, least_precision: float, least_recall: float
) -> None:
    """What the module's documentation promises, and no more."""
    precision, recall = _precision_and_recall(_UNSEEN, kind)

    assert precision >= least_precision
    assert recall >= least_recall


def test_the_lists_are_balanced_and_do_not_overlap() -> None:
    """Figures over few sentences, or over the same ones, would say little."""
    assert len({sentence for _, sentence in (*_TUNED, *_UNSEEN)}) == len(_TUNED) + len(_UNSEEN)
    for rows, least in ((_TUNED, 40), (_UNSEEN, 10)):
        for kind in _KINDS:
            assert sum(kind in expected for expected, _ in rows) >= least
        assert sum(not expected for expected, _ in rows) >= len(rows) * 0.35


@pytest.mark.parametrize(
    "sentence",
    [
        "Her work is the patient interface design.",
        "He works at a cancer research institute.",
        "She recommends a password manager.",
        "The team is healthy.",
        "The key insight came late.",
        "Pays attention to details.",
        "Credit to Ana.",
        "4539 1488 0343 6468",
        "DE89 3704 0044 0532 0130 01",
        "",
    ],
)
def test_near_misses_and_numbers_without_a_checksum_are_harmless(sentence: str) -> None:
    """A number is a card or an account only if its checksum is right, or if words call it so."""
    assert sensitive_kinds(sentence) == frozenset()


@pytest.mark.parametrize("secret", [secret for secret in SECRETS if secret.rule], ids=lambda secret: secret.name)
def test_what_the_redactor_removes_is_sensitive(secret: Secret) -> None:
    """Alone, and after the redactor has replaced it."""
    redacted = DefaultRedactor().redact(secret.text)

    for seen in (secret.text, redacted.text):
        assert sensitive_kinds(seen) & {"secret", "payment"}


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("4539148803436467", {"payment"}),
        ("0664 1234567", {"contact"}),
        ("She gave me 078-05-1120.", {"identity"}),
        ("Her NHS number is 943 476 5919.", {"health"}),
        ("Her passport has the number [redacted:passport-number].", {"identity"}),
        ("It is [redacted:postal-address].", {"contact"}),
        ("Her number is [redacted:payment-card].", {"payment"}),
        ("It goes to [redacted:iban].", {"payment"}),
        ("He uses [redacted:github-token].", {"secret"}),
        ("She uses [redacted:a-rule-of-our-own].", {"secret"}),
        ("She has diabetes, and her PIN is 1234.", {"health", "secret"}),
    ],
)
def test_one_statement_may_be_of_several_kinds_or_be_redacted_already(text: str, kinds: set[str]) -> None:
    """A placeholder tells which rule has replaced the secret; an unknown one counts as a secret."""
    assert sensitive_kinds(text) == kinds


def test_case_umlauts_and_typographic_signs_change_nothing() -> None:
    """People write in haste, on foreign keyboards and in typeset texts."""
    for one, same in (
        ("Das Passwort für die Tür ist Ahorn.", "DAS PASSWORT FUER DIE TUER IST AHORN."),
        ("Her mother's maiden name is Lund.", "Her mother’s maiden name is Lund."),
        ("Ich habe Rückenschmerzen.", "Ich habe Ru\u0308ckenschmerzen."),
        ("He has dia\u00adbetes.", "he has diabetes"),
    ):
        assert sensitive_kinds(one) == sensitive_kinds(same) != frozenset()


def test_the_stems_of_a_rule_leave_no_sentence_out() -> None:
    """A rule is only tried where one of its stems is; a missing stem would switch a part of it off."""
    for _, sentence in (*_TUNED, *_UNSEEN):
        cased = folded(sentence)
        for rule in rules():
            text = cased if rule.cased else cased.lower()
            for stems in rule.stems:
                assert any(stem in text for stem in stems) or not rule.is_met_by(text), (sentence, rule.stems)


@cache
def _words_of(number: int) -> st.SearchStrategy[str]:
    letters = st.characters(codec="ascii", categories=["Lu", "Ll", "Nd"], include_characters=" -'")
    # Next to nothing that is drawn fits some patterns, and what is drawn depends on the modules that are loaded:
    # without the empty text, a rule that happens to get no example would fail.
    return st.from_regex(rules()[number].words, alphabet=letters) | st.just("")


# Too little that fits a pattern that looks ahead can be drawn.
@pytest.mark.thorough
@pytest.mark.parametrize(
    "number", [number for number, rule in enumerate(rules()) if "(?=" not in rule.words_expression]
)
@settings(max_examples=10, derandomize=True, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_nor_do_they_leave_out_other_words_that_match(number: int, data: st.DataObject) -> None:
    """Words that no sentence of the lists has."""
    rule = rules()[number]
    stems = Parts({}).stems(rule.words_expression)

    for match in rule.words.finditer(data.draw(_words_of(number))):
        assert not stems or any(stem in match[0] for stem in stems), (match[0], stems)


@given(st.text(max_size=300))
def test_any_text_has_kinds(text: str) -> None:
    """Whatever is in it, and always the same."""
    kinds = sensitive_kinds(text)

    assert kinds <= set(KINDS)
    assert sensitive_kinds(text) == kinds


@pytest.mark.thorough
@settings(max_examples=50)
@given(
    st.lists(
        st.sampled_from(
            [
                *(
                    "a",
                    "is",
                    "has",
                    "the",
                    "her",
                    "his",
                    "my",
                    "of",
                    "for",
                    "with",
                    "in",
                    "and",
                    "an",
                    "to",
                    "hat",
                    "ist",
                    "im",
                ),
                *(
                    "card",
                    "code",
                    "pin",
                    "owes",
                    "12",
                    "000",
                    "€",
                    "key",
                    "back",
                    "pain",
                    "test",
                    "diagnosed",
                    "positive",
                ),
                *(
                    "hospital",
                    "door",
                    "account",
                    "takes",
                    "verdient",
                    "operiert",
                    "schulden",
                    "[redacted:",
                    ".",
                    ",",
                    "-",
                ),
                *("'", "$"),
            ]
        ),
        max_size=60,
    )
)
def test_words_that_rules_begin_with_are_no_trouble(words: list[str]) -> None:
    """Neither apart nor run together."""
    sensitive_kinds(" ".join(words))
    sensitive_kinds("".join(words))


@pytest.mark.parametrize(
    "text",
    [
        "a" * 50000,
        "has a " * 8000,
        "is very " * 6000,
        "1" * 50000,
        "owes 1,000 " * 4000,
        "the code of the " * 3000,
        "her " * 12000,
        "'s" * 25000,
        "- " * 25000,
        "krebs" * 10000,
        "test the test " * 3000,
        "€1" * 20000,
    ],
    ids=lambda text: text[:12],
)
def test_a_long_text_takes_time_in_proportion(text: str) -> None:
    """Even one made of what rules begin with."""
    start = time.process_time()

    sensitive_kinds(text)

    assert time.process_time() - start < _GENEROUS_SECONDS
