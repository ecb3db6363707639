"""Many texts in one pass, and long ones in slices, give what each text gives alone and in one piece."""

from __future__ import annotations

import re
from collections.abc import Iterator
from re import _parser  # type: ignore[attr-defined]
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_reminiscence import DefaultRedactor, Redaction
from agent_reminiscence.redaction import checks, rules, search
from agent_reminiscence.redaction.checks import SLICE_CHARACTERS, SLICE_REACH, find_in_slices
from agent_reminiscence.redaction.personal import PERSONAL_RULES
from agent_reminiscence.redaction.rule import Rule
from agent_reminiscence.redaction.rules import RULES
from agent_reminiscence.redaction.search import _BETWEEN, find_in_each, find_secrets
from agent_reminiscence.services.ledger.requests import CreateRequest
from agent_reminiscence.services.ledger.scrubber import Scrubber
from tests.support.redaction_cases import LOOKALIKES, SECRETS, Secret

_DEFAULT = DefaultRedactor()
_EVERYWHERE = [rule for rule in RULES if not rule.literals]
_MARKS = [" ", "\n", "order: ", "password: ", "=", '"', "4", "DE", "[", "\u200b", "\x1b[31m", "\uff14", "-----", "@"]
_TEXTS = st.one_of(
    st.sampled_from([case.text for case in SECRETS] + [case.secret for case in SECRETS] + list(LOOKALIKES)),
    st.sampled_from(_MARKS),
    st.text(max_size=8),
)
_MIXED = st.lists(_TEXTS, max_size=10)


class _Noting:
    """A pattern that notes how many characters each of its calls may look at."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.sizes: list[int] = []
        self._pattern = pattern

    def finditer(self, text: str, start: int, end: int) -> Iterator[re.Match[str]]:
        self.sizes.append(end - start)
        return self._pattern.finditer(text, start, end)


def test_every_case_is_found_among_all_others_as_it_is_alone() -> None:
    """What stands before and behind a text in the one pass is no part of it."""
    texts = [case.text for case in SECRETS] + list(LOOKALIKES) + [case.secret for case in SECRETS]

    assert _DEFAULT.redact_each(texts) == [_DEFAULT.redact(text) for text in texts]


@pytest.mark.parametrize("case", [case for case in SECRETS if case.rule], ids=lambda case: case.name)
def test_no_secret_is_put_together_from_two_texts(case: Secret) -> None:
    """Cut at any place, each half is what it is alone, whatever comes before or behind it."""
    text = case.secret
    halves = [half for cut in range(1, len(text), max(1, len(text) // 40)) for half in (text[:cut], text[cut:])]

    assert _DEFAULT.redact_each(halves) == [_DEFAULT.redact(half) for half in halves]


@given(_MIXED)
@settings(max_examples=120, deadline=None)
def test_one_pass_over_any_texts_gives_what_each_gives_alone(texts: list[str]) -> None:
    """Secrets, their parts, what says of a number that it is none, and any other text, in any order."""
    assert _DEFAULT.redact_each(texts) == [_DEFAULT.redact(text) for text in texts]


@given(_MIXED, st.integers(150, 200))
@settings(max_examples=100, deadline=None)
def test_a_text_in_slices_gives_what_it_gives_in_one(pieces: list[str], size: int) -> None:
    """Wherever a slice ends: within a secret, an escape sequence or what a pattern looks ahead at."""
    text = "".join(pieces * 3)
    whole = find_secrets(text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "SLICE_CHARACTERS", size)
        patch.setattr(search, "SLICE_CHARACTERS", size)

        assert find_secrets(text) == whole


@given(_MIXED, st.integers(1, 60))
@settings(max_examples=100, deadline=None)
def test_a_pattern_finds_in_slices_what_it_finds_in_the_whole(pieces: list[str], size: int) -> None:
    """The reach of a slice is longer than anything that these patterns look at."""
    text = "".join(pieces)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "SLICE_CHARACTERS", size)
        for rule in _EVERYWHERE:
            found = [match.span() for match in find_in_slices(rule.pattern, text)]

            assert found == [match.span() for match in rule.pattern.finditer(text)]


@pytest.mark.parametrize("rule", _EVERYWHERE, ids=lambda rule: rule.name)
def test_a_long_text_is_looked_through_in_slices(rule: Rule) -> None:
    """One call of `re` holds the interpreter's lock, so that none may look at all of a million characters."""
    noting = _Noting(rule.pattern)

    list(find_in_slices(noting, "4111 " * 200_000))  # type: ignore[arg-type]

    assert len(noting.sizes) >= 1_000_000 // SLICE_CHARACTERS
    assert max(noting.sizes) <= SLICE_CHARACTERS + SLICE_REACH


def test_a_view_is_made_piece_by_piece() -> None:
    """Accents, look-alikes and colours of a terminal; a sequence of the last is never cut."""
    text = "\x1b[1;31m\u00e9\u200b" * 30_000
    pieces = list(search._pieces(text))

    assert "".join(pieces) == text
    assert max(map(len, pieces)) <= SLICE_CHARACTERS
    assert all(piece.startswith(("\x1b", "\u00e9", "\u200b")) for piece in pieces)


def test_a_key_that_is_cut_off_is_replaced_to_its_last_line() -> None:
    """Its lines are read in portions; those behind the first are a part of it."""
    begin = "-----BEGIN PRIVATE " + "KEY-----\n"
    lines = rules._KEY_LINES
    material = "M" * 3 + "Qx7/" * 8 + "\n"

    for body in (material * (2 * lines + 5), "A\n" * (lines + 5) + material, material + "A\n" * (2 * lines)):
        assert _DEFAULT.redact(f"Mine: {begin}{body}?") == Redaction(
            "Mine: [redacted:private-key]\n?", {"private-key": 1}
        )


def test_a_rule_is_asked_wherever_it_could_match() -> None:
    """A literal or a seed with the separator in it would be found across two texts, and one too many skipped."""
    for rule in RULES:
        assert not any(_BETWEEN in literal for literal in rule.literals)
        assert (rule.seed is not None) == (not rule.literals)
        assert rule.seed is None or not rule.seed.search(_BETWEEN * 60)
    for case in SECRETS:
        for rule in _EVERYWHERE:
            if rule.pattern.search(case.text):
                assert rule.seed is not None
                assert rule.seed.search(case.text)


@pytest.mark.parametrize("rule", [*RULES, *PERSONAL_RULES], ids=lambda rule: f"{rule.name} {rule.shown[:16]}")
def test_no_pattern_backtracks_over_more_than_its_bounds(rule: Rule) -> None:
    """A repetition is bounded or possessive, also within others: so a text costs in proportion to its length."""
    for pattern in filter(None, (rule.pattern, rule.seed, rule.rest)):
        assert _most_repetitions(_parser.parse(pattern.pattern)) <= 4_096


def _most_repetitions(parsed: Any) -> int:
    """How often what is repeated can be tried again at the same place: the product of nested repetitions."""
    most = 1
    for operation, argument in parsed:
        if operation in {_parser.MAX_REPEAT, _parser.MIN_REPEAT}:
            _, highest, repeated = argument
            most = max(most, int(highest) * _most_repetitions(repeated))
        elif operation is _parser.BRANCH:
            most = max(most, *map(_most_repetitions, argument[1]))
        elif operation is _parser.SUBPATTERN:
            most = max(most, _most_repetitions(argument[-1]))
        elif operation is _parser.ATOMIC_GROUP:
            most = max(most, _most_repetitions(argument))
        elif operation is _parser.POSSESSIVE_REPEAT:
            most = max(most, _most_repetitions(argument[2]))
        elif operation in {_parser.ASSERT, _parser.ASSERT_NOT}:
            most = max(most, _most_repetitions(argument[1]))
        elif operation is _parser.GROUPREF_EXISTS:
            most = max(most, *(_most_repetitions(branch) for branch in argument[1:] if branch is not None))
    return most


def test_each_literal_is_tried_once_where_it_occurs() -> None:
    """Twice as long a text of nothing but beginnings has twice as many tries, and no more."""
    tries: list[int] = []
    pieces = [literal for rule in RULES for literal in rule.literals]
    for times in (20, 40):
        text = " ".join(pieces * times)
        tries.append(
            sum(1 for _ in search.DEFAULT_RULES.begun(text))
            + sum(
                1
                for literals in search.DEFAULT_RULES.literals
                for _ in search._offsets([one for one, _ in literals], text)
            )
        )

    assert tries[1] == 2 * tries[0]
    assert tries[0] <= 20 * len(pieces) * 8


@pytest.mark.thorough
def test_short_texts_are_asked_together_and_long_ones_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A literal is looked for once in many texts, and never in so much text that others would wait."""
    joined: list[int] = []
    plain = search._candidates

    def noting(texts: list[str], rules: search.RuleSet) -> dict[int, list[int]]:
        joined.append(sum(map(len, texts)))
        return plain(texts, rules)

    monkeypatch.setattr(search, "_candidates", noting)

    find_in_each(["a" * 20] * 20_000 + ["b" * 100_000])

    assert sum(joined) == 400_000
    assert len(joined) <= 8
    assert max(joined) <= search._JOINED_CHARACTERS + search._SHORT_CHARACTERS


async def test_a_redactor_built_on_the_default_one_decides_of_each_text() -> None:
    """Whoever overrides `redact` is asked for every string."""
    asked: list[str] = []

    class Own(DefaultRedactor):
        def redact(self, text: str) -> Redaction:
            asked.append(text)
            return super().redact(text)

    request = CreateRequest(
        external_id="agent-1", title="Tea", content="Green.", description=None, metadata={"kind": "leaf"}
    )

    await Scrubber(Own()).scrub(request)

    assert {"agent-1", "Tea", "Green.", "kind", "leaf"} == {*asked}


async def test_a_thousand_keys_that_become_one_stay_a_thousand() -> None:
    """Each gets the next number that is free, also where the caller has used one."""
    token = next(case.secret for case in SECRETS if case.rule == "github-token")
    keys = [f"{token[:-4]}{number:04}" for number in range(1_000)]
    hidden = "[redacted:github-token]"
    metadata = dict.fromkeys([f"{hidden} (3)", *keys], 1)
    request = CreateRequest(external_id="agent-1", title="Keys", content="-", description=None, metadata=metadata)

    scrubbed = await Scrubber(_DEFAULT).scrub(request)

    numbers = [number for number in range(2, 1_002) if number != 3]
    assert list(scrubbed.metadata) == [f"{hidden} (3)", hidden, *(f"{hidden} ({number})" for number in numbers)]
