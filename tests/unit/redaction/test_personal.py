"""The rules for personal data: off unless named, and what they find and leave alone. All of it is made up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_reminiscence import AgentMem, Config, ConfigurationError, DefaultRedactor, Redaction
from agent_reminiscence.react.sensitive.search import sensitive_kinds
from agent_reminiscence.redaction import checks, search
from agent_reminiscence.redaction.checks import find_in_slices
from agent_reminiscence.redaction.personal import PERSONAL_NAMES, PERSONAL_RULES
from agent_reminiscence.redaction.rules import RULES
from agent_reminiscence.redaction.search import RuleSet, find_secrets
from tests.support.redaction_cases import LOOKALIKES, SECRETS
from tests.support.redaction_prose import SENTENCES

_GUIDE = (Path(__file__).parents[3] / "docs" / "guide" / "redaction.md").read_text(encoding="utf-8")
_ALL = DefaultRedactor(personal="all")
_ALL_RULES = RuleSet((*RULES, *PERSONAL_RULES))

# The rule, what it replaces, and the text with `{}` in its place.
_CASES = [
    ("email-address", "ann.o'neil+x@example.co.uk", "Mail {}, please."),
    ("email-address", "müller@bücher.example", "<{}>"),
    ("email-address", "ann@example.org", "see mailto:{}?subject=Tea"),
    ("phone-number", "+49 30 1234567", "call {} or ring"),
    ("phone-number", "+1 (555) 010-9999", "{}!"),
    ("phone-number", "+442079460123", "WhatsApp {}"),
    ("phone-number", "0049 (0)30 1234567", "{} at work"),
    ("phone-number", "212-555-0123", "Ring {}!"),
    ("phone-number", "(212) 555-0123", "{}"),
    ("phone-number", "212.555.0123", "{}, after six"),
    ("phone-number", "030 1234567", "Berlin {}"),
    ("phone-number", "06 12 34 56 78", "mon numéro : {}"),
    ("phone-number", "07700 900123", "text {}"),
    ("phone-number", "1234567", "Telefon: {}"),
    ("phone-number", "8 912 345-67-89", "тел. {}"),
    ("phone-number", "13812345678", "电话\uff1a{}"),
    ("phone-number", "555 0123", "her phone number is {}."),
    ("social-security-number", "219-09-9999", "{} is hers"),
    ("social-security-number", "219099999", "SSN: {}"),
    ("social-security-number", "AB 12 34 56 C", "National Insurance {}"),
    ("social-security-number", "1 85 05 78 006 084 91", "numéro de sécu {}"),
    ("passport-number", "C01X00T478", "passport no. {}"),
    ("passport-number", "123456789", "Her passport number is {}."),
    ("passport-number", "C01X00T47", "Reisepass: {}"),
    ("passport-number", "75 1234567".replace(" ", ""), "паспорт {}"),
    (
        "passport-number",
        "P<UTOERIKSSON<<ANNA<MARIA<<<<<<<<<<<<<<<<<<<\nL898902C36UTO7408122F1204159ZE184226B<<<<<10",
        "scanned:\n{}\n",
    ),
    ("health-number", "943 476 5919", "NHS number {}"),
    ("health-number", "1EG4-TE5-MK73", "Medicare card {}"),
    ("health-number", "00123456", "MRN: {}"),
    ("health-number", "A123456780", "Krankenversichertennummer: {}"),
    ("postal-address", "12 Elm Street, Springfield, IL 62704", "I live at {}."),
    ("postal-address", "221B Baker Street, London NW1 6XE", "{}"),
    ("postal-address", "350 5th Ave, New York, NY 10118", "{}, on top"),
    ("postal-address", "Lindenstraße 12, 10115 Berlin", "Er wohnt in der {}."),
    ("postal-address", "Am Alten Weg 3a", "Post an {}!"),
    ("postal-address", "12 bis rue de la Paix, 75002 Paris", "au {}"),
    ("postal-address", "Calle Mayor 5, 28013 Madrid", "vive en {}"),
    ("postal-address", "Via Roma 10, 00184 Roma", "abita in {}"),
    ("postal-address", "ул. Ленина 5", "адрес: {}"),
    ("postal-address", "12 Oak Drive, Springfield, IL 62704", "It is {}."),
    ("postal-address", "12 Oak Drive", "She lives at {} now"),
    ("postal-address", "Lindenring 5, 12345 Berlin", "{}"),
    ("postal-address", "Albert-Einstein-Ring 5", "am {}"),
    ("postal-address", "calle Mayor 5, 28013 Madrid", "en la {}"),
    ("postal-address", "Rua Augusta 100", "na {}"),
    ("postal-address", "2019 Elm Street, Springfield, IL 62704", "{}"),
    ("email-address", "ann@163.com", "{}"),
    ("email-address", "ann@sub.xn--bcher-kva.xn--p1ai", "{}"),
]

_NOTHING_PERSONAL = [
    "git clone git@github.com:ann/repo.git",
    "https://ann@example.org/x",
    "@ann and @bob wrote a decorator @cached.property",
    "a @ b, meet @ 7.30",
    "1.2.3.4 and 192.168.100.200",
    "on 24.12.2025 at 12:30, or 2025-12-24",
    "3.14159265358 and +1.23456789",
    "0123456789 is an id",
    "123e4567-e89b-12d3-a456-426614174000",
    "snowflake 1234567890123456789",
    "000-12-3456, 666-12-3456 and 900-12-3456",
    "QQ 12 34 56 C",
    "1 85 05 78 006 084 92",
    "the passport office opens at 9",
    "my passport expires in 2031",
    "NHS number 943 476 5918",
    "the NHS has 1,300,000 employees",
    "3 Main ideas, 12 Good reasons",
    "In 2024 John Smith drove away",
    "a way 12 of 13",
    "the street has 5 shops",
    "Platz 3 im Rennen ging an Anna",
    "via 10 steps",
    "phones: 12 in total",
    "tel aviv 2026",
    "version 2025.12.1-rc2",
    "rows 100-200, pages 12-13",
    "0.5 to 0.75 and 1:100",
    "ISBN 978-3-16-148410-0",
    "for i in range(0, 1000000)",
    "port 5432-5440 and uid 1000",
    "The price rose from 300.000 to 400.0000",
    "Spring 2024 was warm, and in Spring 2024, 2025 Winter was not",
    "During 2019 we moved",
    "Engineering 101",
    "Bring 3 friends",
    "Our Monitoring 24 hours",
    "The ring 3 times",
    "Kein Weg 2 war frei, Parkplatz 12 auch nicht",
    "Die Straße 5 ist gesperrt",
    "via OAuth 2",
    "Via Python 3 we call it",
    "via Port 443",
    "He drove a Carrera Porsche 911",
    "Plaza Hotel 5 stars",
    "Avenida Brasil 2012",
    "In 2019 Google Drive",
    "5 Google Drive folders and 7 Supreme Court judges",
    "Since 1998 Supreme Court",
    "In 2008 Wall Street fell, and in 1969 Abbey Road, 2019 Remaster",
    "In 2019 Paris St Germain won",
    "En 2015 place de la Nation",
    "The first 2 place Names",
    "lodash@4.17.21",
    "react@18.2.0, react@18.3.0-rc and react@19.0.0-beta.rc",
    "actions/checkout@v4.1.0",
    "root@10.0.0.5 and root@10.0.0.5:/srv",
    "this@MainActivity.finish()",
]


@pytest.mark.parametrize(("rule", "secret", "text"), _CASES)
def test_personal_data_is_replaced_where_it_is_asked_for_and_nowhere_else(rule: str, secret: str, text: str) -> None:
    """By the one rule that is named for it; without a name, it stays."""
    full = text.format(secret)
    expected = Redaction(text.format(f"[redacted:{rule}]"), {rule: 1})

    assert DefaultRedactor(personal=[rule]).redact(full) == expected
    assert _ALL.redact(full) == expected
    assert _ALL.redact(expected.text) == Redaction(expected.text)
    assert DefaultRedactor().redact(full) == Redaction(full)


@pytest.mark.parametrize("text", [*_NOTHING_PERSONAL, *SENTENCES])
def test_what_only_looks_personal_stays(text: str) -> None:
    """Dates, versions, ids, numbers with a wrong checksum, and words without a number."""
    assert _ALL.redact(text) == Redaction(text)


def test_secrets_keep_their_names_beside_personal_data() -> None:
    """A card number is none of a telephone, and what is replaced stays as it was."""
    for case in SECRETS:
        if case.rule is not None:
            assert f"[redacted:{case.rule}]" in _ALL.redact(case.text).text


def test_many_texts_are_redacted_as_each_alone() -> None:
    """The one pass asks the same rules."""
    texts = [text.format(secret) for _, secret, text in _CASES] + _NOTHING_PERSONAL + list(LOOKALIKES)

    assert _ALL.redact_each(texts) == [_ALL.redact(text) for text in texts]


def test_every_rule_has_a_case_and_a_seed_where_it_needs_one() -> None:
    """A rule without a test may find nothing at all; one without its seed would be skipped."""
    assert {rule for rule, _, _ in _CASES} == set(PERSONAL_NAMES)
    for rule in PERSONAL_RULES:
        assert (rule.seed is not None) == (not rule.literals)
        for _, secret, text in _CASES:
            if rule.seed is not None and rule.pattern.search(text.format(secret)):
                assert rule.seed.search(text.format(secret))


@given(st.lists(st.sampled_from([text.format(secret) for _, secret, text in _CASES] + _NOTHING_PERSONAL), max_size=8))
@settings(max_examples=60, deadline=None)
def test_personal_data_in_slices_is_what_it_is_in_one(pieces: list[str]) -> None:
    """Wherever a slice ends."""
    text = "; ".join(pieces * 2)
    whole = find_secrets(text, _ALL_RULES)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "SLICE_CHARACTERS", 170)
        patch.setattr(search, "SLICE_CHARACTERS", 170)

        assert find_secrets(text, _ALL_RULES) == whole
        for rule in PERSONAL_RULES:
            if not rule.literals:
                found = [match.span() for match in find_in_slices(rule.pattern, text)]
                assert found == [match.span() for match in rule.pattern.finditer(text)]


@given(
    st.lists(
        st.one_of(
            st.sampled_from([text.format(secret) for _, secret, text in _CASES] + [secret for _, secret, _ in _CASES]),
            st.sampled_from(
                [" ", "\n", "@", "+", "00", "tel. ", "passport ", "12 ", "Elm ", "Street", "weg ", "rue ", "-"]
            ),
            st.text(max_size=8),
        ),
        max_size=10,
    )
)
@settings(max_examples=100, deadline=None)
def test_any_text_is_settled_by_one_redaction(pieces: list[str]) -> None:
    """Whatever stands beside what: a second redaction finds nothing more."""
    redaction = _ALL.redact("".join(pieces))

    assert _ALL.redact(redaction.text) == Redaction(redaction.text)


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    """A typing error would store what somebody meant to keep out."""
    with pytest.raises(ConfigurationError, match=r"'email'; there are: email-address, .*; or pass 'all'"):
        DefaultRedactor(personal=["email"])
    with pytest.raises(ConfigurationError, match="'phone'"):
        AgentMem(Config(redaction_personal="email-address, phone"))


def test_the_setting_is_for_the_default_redactor() -> None:
    """With one of your own, or with none, it would do nothing."""
    with pytest.raises(ConfigurationError, match="redaction_personal is for the default redactor"):
        AgentMem(Config(redaction_personal="all"), redactor=DefaultRedactor())
    with pytest.raises(ConfigurationError, match="turn redaction on"):
        AgentMem(Config(redaction_personal="all", redaction=False))


def test_a_placeholder_is_as_sensitive_as_what_it_replaced() -> None:
    """A redacted telephone number is no secret of a statement, but still says that there is one."""
    assert sensitive_kinds("Her number is [redacted:phone-number].") == {"contact"}
    assert sensitive_kinds("It is [redacted:health-number].") == {"health"}


def test_the_guide_lists_the_rules_for_personal_data() -> None:
    """In order, with what each finds."""
    shown: dict[str, list[str]] = {}
    for rule in PERSONAL_RULES:
        shown.setdefault(rule.name, []).append(rule.shown)

    assert re.findall(r"^\| `([a-z-]+)` \(off\) \| (.+) \|$", _GUIDE, re.MULTILINE) == [
        (name, "; ".join(texts)) for name, texts in shown.items()
    ]
