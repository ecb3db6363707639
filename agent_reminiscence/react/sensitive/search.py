"""Looks in a statement for what a rule tells."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from agent_reminiscence.react.sensitive.health import HEALTH_RULES
from agent_reminiscence.react.sensitive.payment import PAYMENT_RULES
from agent_reminiscence.react.sensitive.rules import SensitiveKind
from agent_reminiscence.react.sensitive.secret import SECRET_RULES
from agent_reminiscence.redaction.personal import PERSONAL_NAMES
from agent_reminiscence.redaction.search import find_in_each

RULES: Final = (*SECRET_RULES, *HEALTH_RULES, *PAYMENT_RULES)

# The redactor's rules for payment and for personal data, of which most is not sensitive; all others are for secrets.
_REDACTED_PAYMENT: Final = frozenset({"iban", "payment-card", "us-bank-account"})
_REDACTED_HEALTH: Final = frozenset({"health-number"})
_REDACTED_PERSONAL: Final = frozenset(PERSONAL_NAMES)
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
    names = [one.rule for one in find_in_each([text])[0]] + _REDACTED.findall(text)
    found = {kind for kind in map(_kind_of_rule, names) if kind is not None}
    cased = folded(text)
    lowered = cased.lower()
    for rule in RULES:
        if rule.kind not in found and rule.is_met_by(cased if rule.cased else lowered):
            found.add(rule.kind)
    return frozenset(found)


def _kind_of_rule(name: str) -> SensitiveKind | None:
    if name in _REDACTED_PERSONAL:
        return "health" if name in _REDACTED_HEALTH else None
    return "payment" if name in _REDACTED_PAYMENT else "secret"


def folded(text: str) -> str:
    """`text` without accents and invisible characters, with umlauts spelled out."""
    if text.isascii():
        return text
    text = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text).translate(_SPELLED_OUT))
    return "".join(character for character in text if unicodedata.category(character) not in {"Mn", "Cf"})
