"""Removes secrets from every write before anything stores them: the ledger, the tiers, hashes, logs and spans.

`Scrubber` does this for every write request. `WriteRequest.event` refuses a request that was not scrubbed. So
everything in the ledger was checked once, by the redactor of its day, and a replay calls none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final, Literal, Protocol, runtime_checkable

from agent_reminiscence.exceptions import ConfigurationError
from agent_reminiscence.redaction.checks import placeholder
from agent_reminiscence.redaction.personal import PERSONAL_NAMES, PERSONAL_RULES
from agent_reminiscence.redaction.rules import RULES
from agent_reminiscence.redaction.search import DEFAULT_RULES, Finding, RuleSet, find_in_each, find_secrets

# Replacing one secret may expose another. Each pass takes time in proportion to the text.
_MAX_PASSES: Final = 8


@dataclass(frozen=True, slots=True)
class Redaction:
    """The result of redacting a text. It never holds what was removed.

    Attributes:
        text: The text to store.
        rules: How often each rule matched; at least one is named if the text was changed.
    """

    text: str
    rules: Mapping[str, int] = field(default_factory=dict)


@runtime_checkable
class Redactor(Protocol):
    """Removes from texts what must not be stored.

    It is called for each string of a write, for long ones in a thread, so calls may run concurrently. It must return
    the same result for the same text, or a retry with an idempotency key would look like a different request, and it
    must leave its own placeholders alone.
    """

    def redact(self, text: str) -> Redaction:
        """Return the text to store instead of `text`."""
        ...


class DefaultRedactor:
    """Replaces keys, tokens, private keys, passwords in URLs, card and account numbers by `[redacted:rule]`.

    It relies on prefixes, checksums and telltale names, never on how random a text looks; the guide lists all rules.
    Invisible characters inside a secret, full-width letters and digits of other scripts do not hide it.

    >>> DefaultRedactor().redact("The account is DE89 3704 0044 0532 0130 00.")
    Redaction(text='The account is [redacted:iban].', rules={'iban': 1})
    >>> DefaultRedactor(personal=["email-address"]).redact("Write to ann@example.org.")
    Redaction(text='Write to [redacted:email-address].', rules={'email-address': 1})

    Args:
        personal: Names of the rules for personal data to apply as well, or "all"; none by default.

    Raises:
        ConfigurationError: No rule for personal data has such a name.
    """

    def __init__(self, *, personal: Iterable[str] | Literal["all"] = ()) -> None:
        self._rules = _rules_with(PERSONAL_NAMES if personal == "all" else tuple(personal))

    def redact(self, text: str) -> Redaction:
        """Return `text` with a placeholder for each secret; overlapping matches share one."""
        return _replaced(text, find_secrets(text, self._rules), self._rules)

    def redact_each(self, texts: Sequence[str]) -> list[Redaction]:
        """Return what `redact` returns for each of `texts`, much faster if they are short."""
        found = find_in_each(texts, self._rules)
        return [_replaced(text, findings, self._rules) for text, findings in zip(texts, found, strict=True)]


def _rules_with(personal: Sequence[str]) -> RuleSet:
    """The rules for secrets and these for personal data."""
    for name in personal:
        if name not in PERSONAL_NAMES:
            known = ", ".join(PERSONAL_NAMES)
            raise ConfigurationError(f"no rule for personal data is called {name!r}; there are: {known}; or pass 'all'")
    chosen = frozenset(personal)
    return _rule_set(chosen) if chosen else DEFAULT_RULES


@cache
def _rule_set(personal: frozenset[str]) -> RuleSet:
    return RuleSet((*RULES, *(rule for rule in PERSONAL_RULES if rule.name in personal)))


def _replaced(text: str, found: list[Finding], rule_set: RuleSet) -> Redaction:
    """`text` with a placeholder for each of `found` and for any secret that this exposes."""
    if not found:
        return Redaction(text)
    rules: Counter[str] = Counter()
    for number in range(1, _MAX_PASSES + 1):
        if not found:
            break
        pieces, end = [], 0
        for finding in found:
            pieces += [text[end : finding.start], placeholder(finding.rule)]
            end = finding.end
            rules[finding.rule] += 1
        text = "".join([*pieces, text[end:]])
        found = find_secrets(text, rule_set) if number < _MAX_PASSES else []
    return Redaction(text, dict(sorted(rules.items())))


class NoRedactor:
    """Leaves every text unchanged: `redaction=False`."""

    def redact(self, text: str) -> Redaction:
        """Return `text` unchanged."""
        return Redaction(text)
