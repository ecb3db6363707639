"""Looks in a statement for what a rule tells."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

from agent_reminiscence.react.sensitive.data import rules
from agent_reminiscence.react.sensitive.rules import Rule, SensitiveKind
from agent_reminiscence.react.sensitive.stems import StemIndex
from agent_reminiscence.redaction.personal import PERSONAL_RULES
from agent_reminiscence.redaction.rules import RULES as SECRET_RULES
from agent_reminiscence.redaction.search import RuleSet, find_in_each

# What the redactor's rules for payment and for personal data find; all its other rules find secrets.
_FOUND_BY: Final[dict[str, SensitiveKind]] = {
    "iban": "payment",
    "payment-card": "payment",
    "us-bank-account": "payment",
    "email-address": "contact",
    "phone-number": "contact",
    "postal-address": "contact",
    "social-security-number": "identity",
    "passport-number": "identity",
    "health-number": "health",
}
_REDACTED: Final = re.compile(r"\[redacted:([^\]\s]{1,64})\]")
# Both ways to write an umlaut become one.
_SPELLED_OUT: Final = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss", "’": "'", "–": "-"}
)


def sensitive_kinds(text: str) -> frozenset[SensitiveKind]:
    """The kinds of sensitive things that a statement is about; empty if it is harmless.

    >>> sorted(sensitive_kinds("The PIN of her bank card is in the drawer."))
    ['payment', 'secret']
    >>> sensitive_kinds("She works at a cancer research institute.")
    frozenset()

    Args:
        text: One sentence or a few. Any length is accepted; the time grows in proportion to it.
    """
    names = [one.rule for one in find_in_each([text], _redactor_rules())[0]] + _REDACTED.findall(text)
    found = {_FOUND_BY.get(name, "secret") for name in names}
    cased = folded(text)
    for seen, table in zip((cased, cased.lower()), _tables(), strict=True):
        for rule in table.candidates(seen):
            if rule.kind not in found and rule.is_met_by(seen):
                found.add(rule.kind)
    return frozenset(found)


class _Table:
    """Rules, and in which texts they may be met."""

    def __init__(self, table: Iterable[Rule]) -> None:
        self._rules = tuple(table)
        self._stems = StemIndex([stems for rule in self._rules for stems in rule.stems])

    def candidates(self, text: str) -> Iterator[Rule]:
        """The rules of which each set of stems has one in `text`."""
        found = self._stems.found_in(text)
        first = 0
        for rule in self._rules:
            last = first + len(rule.stems)
            if found.issuperset(range(first, last)):
                yield rule
            first = last


@cache
def _tables() -> tuple[_Table, _Table]:
    """The rules for which capitals count, and the others."""
    return _Table(rule for rule in rules() if rule.cased), _Table(rule for rule in rules() if not rule.cased)


@cache
def _redactor_rules() -> RuleSet:
    """The rules for secrets and all those for personal data, whatever the redactor is set to remove."""
    return RuleSet((*SECRET_RULES, *PERSONAL_RULES))


def folded(text: str) -> str:
    """`text` without accents and invisible characters, with umlauts spelled out."""
    if text.isascii():
        return text
    text = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text).translate(_SPELLED_OUT))
    return "".join(character for character in text if unicodedata.category(character) not in {"Mn", "Cf"})
