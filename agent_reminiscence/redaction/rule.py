"""What a rule is, and what its pattern is made of."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from agent_reminiscence.redaction.checks import Check, not_filler


@dataclass(frozen=True)
class Rule:
    """One kind of secret.

    Its expressions are compiled when a text first needs them: most texts contain no literal of most rules.

    Attributes:
        name: Used in the placeholder and in counts.
        literals: The pattern is tried only where one of them occurs; without literals, everywhere.
        expression: What must match there. Its group `secret` is replaced, or the whole match.
        check: What a match must pass.
        reach: How many characters before the literal the pattern begins; each value is tried.
        seed_expression: Text in everything that a pattern without literals matches. It has no line break.
        rest_expression: Matches the continuation of a secret, as often as possible; it passes the same check.
        begins_word: Whether the pattern begins with its literal, and no letter, digit, `_` or `-` may precede it.
        shown: An example for the documentation.
    """

    name: str
    literals: tuple[str, ...]
    expression: str
    check: Check = not_filler
    reach: tuple[int, ...] = (0,)
    seed_expression: str | None = None
    rest_expression: str | None = None
    begins_word: bool = False
    shown: str = ""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled `expression`."""
        return re.compile(self.expression)

    @cached_property
    def seed(self) -> re.Pattern[str] | None:
        """The compiled `seed_expression`."""
        return None if self.seed_expression is None else re.compile(self.seed_expression)

    @cached_property
    def rest(self) -> re.Pattern[str] | None:
        """The compiled `rest_expression`."""
        return None if self.rest_expression is None else re.compile(self.rest_expression)

    @property
    def ignores_case(self) -> bool:
        """Whether the literals are in lower case and match any case."""
        return self.expression.startswith("(?i)")


def token(name: str, prefixes: str, body: str, shown: str, *, check: Check = not_filler) -> Rule:
    """A token: one of its prefixes followed by `body`, with no letter or digit next to it."""
    literals = tuple(prefixes.split())
    either = "|".join(re.escape(literal) for literal in literals)
    expression = rf"(?<![A-Za-z0-9_-])(?:{either}){body}(?![A-Za-z0-9])"
    return Rule(name, literals, expression, check, begins_word=True, shown=shown)


# Of the bodies of tokens.
ALNUM = "[A-Za-z0-9]"
WORD = "[A-Za-z0-9_-]"
HEX = "[0-9a-f]"
UUID = f"{HEX}{{8}}-{HEX}{{4}}-{HEX}{{4}}-{HEX}{{4}}-{HEX}{{12}}"

# What may precede a value: a quotation mark, or an escaped one inside a string.
OPENS = r"\\{0,3}[\"'`]?"
# Between a name and its value: the name's closing quotation mark and an assignment.
ASSIGNS = r"\\{0,3}[\"'`]?[ \t]{0,4}(?:=>|:=|={1,2}|:)[ \t]{0,4}"
ASSIGNS_OR_IS = rf"(?:{ASSIGNS}|[ \t]{{1,4}}is[ \t]{{1,4}}:?[ \t]{{0,4}})"


# Quotation marks and full stops that no keyboard for passwords has.
_MARKS = "«»„“”\u201a\u2018\u2019「」『』。、"


def value(longest: int) -> str:
    """A value in quotation marks, or a word that ends where code would not continue."""
    return (
        rf"(?:(?P<quote>\\{{0,3}}[\"'`])(?P<quoted>[^\s\"'`\\]{{6,{longest}}}+)(?P=quote)"
        rf"|(?P<secret>[^\s\"'`,;<>(){{}}\[\]\\{_MARKS}]{{6,{longest}}}+)(?=[\s\"'`,;>)}}\]\\{_MARKS}]|\Z))"
    )
