"""Finds the secrets of a text: applies the rules to it as a reader sees it, or to many short texts at once.

Nothing here holds the interpreter's lock for longer than one slice of a text, so in a thread it does not block the
event loop.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, chain
from typing import Final

from agent_reminiscence.redaction.checks import PLACEHOLDER_START, SLICE_CHARACTERS, Span, find_in_slices
from agent_reminiscence.redaction.rule import Rule
from agent_reminiscence.redaction.rules import RULES

# Texts up to this length are scanned together, this many characters at a time. Searching each of them separately for
# some two hundred literals takes far longer than reading it.
_SHORT_CHARACTERS: Final = 4_096
_JOINED_CHARACTERS: Final = 65_536
# Separates texts that are scanned together. No literal or seed of a rule contains it.
_BETWEEN: Final = "\n"
# How most tokens begin: a word up to its first _ - or dot. One pass for all takes less time than forty for one literal
# each.
_HEAD: Final = re.compile(r"(?<![A-Za-z0-9_-])[A-Za-z0-9]{1,24}[_.-]")
# Letters by how often texts have them. All other characters are rarer.
_FREQUENT: Final = "etaoinshrdlucmfwypvbgkjqxz"


def _rarest(literal: str) -> str:
    """The character of `literal` that the fewest texts contain."""
    return max(literal, key=lambda character: (_FREQUENT.find(character) % 99, character))


class RuleSet:
    """Rules that are searched for together, in order of precedence."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)
        # Needed for each text; reading a pattern's flags takes far longer.
        self.ignores_case = tuple(rule.ignores_case for rule in self.rules)
        # The literals of each rule that are searched for one by one, each with a character that tells most texts
        # without it; the others, with their rule, by their head.
        self.literals: list[tuple[tuple[str, str], ...]] = []
        self._by_head: dict[str, list[tuple[str, int]]] = {}
        for number, rule in enumerate(self.rules):
            alone = []
            for literal in rule.literals:
                head = _HEAD.match(literal) if rule.begins_word else None
                if head is None:
                    alone.append((literal, _rarest(literal)))
                else:
                    self._by_head.setdefault(head[0], []).append((literal, number))
            self.literals.append(tuple(alone))

    def begun(self, text: str) -> Iterator[tuple[int, int]]:
        """Where which rule's token may begin: an offset in `text` and the rule's index."""
        for head in find_in_slices(_HEAD, text):
            for literal, number in self._by_head.get(head[0], ()):
                if text.startswith(literal, head.start()):
                    yield head.start(), number


DEFAULT_RULES: Final = RuleSet(RULES)


@dataclass(frozen=True, slots=True)
class Finding:
    """A secret: characters `start` to `end` of a text, and the rule that found it."""

    start: int
    end: int
    precedence: int
    rule: str


def find_secrets(text: str, rules: RuleSet = DEFAULT_RULES) -> list[Finding]:
    """Return the secrets of `text` in order, without overlaps."""
    return _settled(_findings(_View(text), rules, range(len(rules.rules))))


def find_in_each(texts: Sequence[str], rules: RuleSet = DEFAULT_RULES) -> list[list[Finding]]:
    """Return what `find_secrets` finds in each of `texts`, much faster if they are short."""
    found: list[list[Finding]] = [[] for _ in texts]
    views: dict[int, _View] = {}
    size = 0
    for index, text in enumerate(texts):
        if len(text) > _SHORT_CHARACTERS:
            found[index] = find_secrets(text, rules)
            continue
        views[index] = _View(text)
        size += len(text)
        if size >= _JOINED_CHARACTERS:
            _find_in_joined(views, rules, found)
            size = 0
            views.clear()
    _find_in_joined(views, rules, found)
    return found


def _find_in_joined(views: dict[int, _View], rules: RuleSet, found: list[list[Finding]]) -> None:
    """Put the secrets of each of `views` into `found`: one search over all determines which rules could match where.

    The rules are then applied to each text separately, so that no match spans two texts and each rule sees where its
    text begins and ends.
    """
    indices = list(views)
    for nth, numbers in _candidates([views[index].text for index in indices], rules).items():
        index = indices[nth]
        found[index] = _settled(_findings(views[index], rules, numbers))


def _candidates(texts: Sequence[str], rules: RuleSet) -> dict[int, list[int]]:
    """Which rules could match in which texts, both by index; a text's rules are in table order."""
    joined = _BETWEEN.join(texts)
    lowered = _lowered(joined)
    plain, folded = (joined, _characters(joined)), (lowered, _characters(lowered))
    starts = list(accumulate((len(text) + len(_BETWEEN) for text in texts), initial=0))
    candidates: dict[int, set[int]] = {}
    for offset, number in rules.begun(joined):
        candidates.setdefault(bisect_right(starts, offset) - 1, set()).add(number)
    for number, rule in enumerate(rules.rules):
        searched, characters = folded if rules.ignores_case[number] else plain
        for literal, rarest in rules.literals[number]:
            offset = searched.find(literal) if rarest in characters else -1
            while offset >= 0:
                index = bisect_right(starts, offset) - 1
                candidates.setdefault(index, set()).add(number)
                # One occurrence in a text is enough.
                offset = searched.find(literal, starts[index + 1])
        if not rule.literals:
            assert rule.seed is not None, "a rule without literals needs a seed"
            match = rule.seed.search(joined)
            while match is not None:
                index = bisect_right(starts, match.start()) - 1
                candidates.setdefault(index, set()).add(number)
                match = rule.seed.search(joined, starts[index + 1])
    return {index: sorted(numbers) for index, numbers in candidates.items()}


def _findings(view: _View, rules: RuleSet, numbers: Iterable[int]) -> Iterator[Finding]:
    """What the rules with these indices find in `view`; findings may overlap."""
    plain = (view.text, _characters(view.text))
    folded: tuple[str, set[str]] | None = None
    seeds: dict[str, bool] = {}
    begun: dict[int, list[int]] = {}
    for offset, number in rules.begun(view.text):
        begun.setdefault(number, []).append(offset)
    for precedence in numbers:
        rule = rules.rules[precedence]
        if rule.literals:
            searched = plain
            if rules.ignores_case[precedence]:
                if folded is None:
                    lowered = _lowered(view.text)
                    folded = (lowered, _characters(lowered))
                searched = folded
            text, characters = searched
            literals = [one for one, rarest in rules.literals[precedence] if rarest in characters and one in text]
            if not literals and precedence not in begun:
                continue
            offsets = chain(begun.get(precedence, ()), _offsets(literals, text))
            matches = _matches(rule, view.text, offsets)
        elif _has_seed(rule, view.text, seeds):
            matches = find_in_slices(rule.pattern, view.text)
        else:
            continue
        found: Span = (0, 0)
        for match in matches:
            # A secret may contain a thousand further beginnings.
            if found[0] <= match.start() < found[1]:
                continue
            span = _checked(rule, match)
            # A match that begins with a placeholder was found before. One that only contains placeholders is still a
            # secret, partly replaced or overwritten.
            if span is None or view.text.startswith(PLACEHOLDER_START, span[0]):
                continue
            found = span
            start, end = view.original(span)
            yield Finding(start, end, precedence, rule.name)


def _characters(text: str) -> set[str]:
    """Which characters `text` has."""
    return set().union(*_pieces(text))


def _has_seed(rule: Rule, text: str, seeds: dict[str, bool]) -> bool:
    """Whether a rule without literals can match; `seeds` remembers it for rules with the same seed."""
    assert rule.seed is not None
    assert rule.seed_expression is not None
    if rule.seed_expression not in seeds:
        seeds[rule.seed_expression] = next(find_in_slices(rule.seed, text), None) is not None
    return seeds[rule.seed_expression]


def _offsets(literals: Iterable[str], text: str) -> Iterator[int]:
    """Where each of `literals` occurs in `text`."""
    for literal in literals:
        offset = text.find(literal)
        while offset >= 0:
            yield offset
            offset = text.find(literal, offset + 1)


def _matches(rule: Rule, text: str, offsets: Iterable[int]) -> Iterator[re.Match[str]]:
    """Where the rule's pattern matches in `text`; its literals are at `offsets`."""
    for offset in offsets:
        for reach in rule.reach:
            match = rule.pattern.match(text, offset - reach) if reach <= offset else None
            if match is not None:
                yield match
                break


def _checked(rule: Rule, match: re.Match[str]) -> Span | None:
    """The span to replace: a match and its continuation; None if it is not a secret."""
    span = rule.check(match)
    if rule.rest is None:
        return span
    start, end = match.span()
    while (more := rule.rest.match(match.string, end)) is not None:
        span = rule.check(more) if span is None else span
        end = more.end()
    return None if span is None else (start, end)


def _settled(findings: Iterable[Finding]) -> list[Finding]:
    """Merge overlapping findings, in text order; the first rule of the table names each."""
    settled: list[Finding] = []
    for finding in sorted(findings, key=lambda one: (one.start, -one.end, one.precedence)):
        if not settled or finding.start >= settled[-1].end:
            settled.append(finding)
            continue
        last = settled[-1]
        first = min(last, finding, key=lambda one: one.precedence)
        settled[-1] = replace(first, start=last.start, end=max(last.end, finding.end))
    return settled


def _lowered(text: str) -> str:
    """`text` in lower case, with every character in its place."""
    # The one character whose lower case is longer would shift everything after it.
    return "".join([piece.replace("\u0130", "i").lower() for piece in _pieces(text)])


# What readers do not see: invisible characters and terminal colour codes; and look-alike characters, mapped to what
# they look like.
_INVISIBLE = re.compile(
    "(?:\x1b\\[[0-9;]{0,16}[A-Za-z]|[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff])+"
)
# The maximum length of an escape sequence.
_ESCAPE = "\x1b"
_ESCAPE_CHARACTERS: Final = 19
_OTHER_SPACES = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_OTHER_HYPHENS = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"


# Only texts with other characters than ASCII need the table, and it takes over ten milliseconds to make.
@cache
def _lookalikes() -> dict[int, str]:
    """Each character that NFKC or its digit value makes equal to a single other one, mapped to that."""
    table = dict.fromkeys(map(ord, _OTHER_SPACES), " ") | dict.fromkeys(map(ord, _OTHER_HYPHENS), "-")
    for code in (*range(0xFF01, 0xFF5F), *range(0x1D400, 0x1D800)):
        plain = unicodedata.normalize("NFKC", chr(code))
        if len(plain) == 1 and plain.isascii():
            table.setdefault(code, plain)
    for code in range(0x0660, 0x1FC00):
        digit = unicodedata.decimal(chr(code), None)
        if digit is not None:
            table.setdefault(code, str(digit))
    return table


@cache
def _lookalike_characters() -> frozenset[str]:
    return frozenset(map(chr, _lookalikes()))


class _View:
    """A text as a reader sees it, without invisible characters and with plain look-alikes; remembers offsets."""

    def __init__(self, text: str) -> None:
        self.text = text
        # For each omission: its offset in the view and the total number of characters omitted up to it.
        self._omissions: list[int] = []
        self._left_out: list[int] = []
        if text.isascii() and _ESCAPE not in text:
            return
        shown: list[str] = []
        start = left_out = 0
        for piece in _pieces(text):
            seen = piece
            # Checked on the set of its characters, which is far faster than on each.
            characters = set(piece)
            if not characters.isdisjoint(_lookalike_characters()):
                seen = piece.translate(_lookalikes())
            if _ESCAPE in characters or _INVISIBLE.search("".join(characters)):
                for match in _INVISIBLE.finditer(seen):
                    self._omissions.append(start + match.start() - left_out)
                    left_out += match.end() - match.start()
                    self._left_out.append(left_out)
                seen = _INVISIBLE.sub("", seen)
            shown.append(seen)
            start += len(piece)
        self.text = "".join(shown)

    def original(self, span: Span) -> Span:
        """The span of the original text, including invisible characters inside it."""
        start, end = span
        return self._original_offset(start), self._original_offset(end - 1) + 1

    def _original_offset(self, offset: int) -> int:
        index = bisect_right(self._omissions, offset)
        return offset + (self._left_out[index - 1] if index else 0)


def _pieces(text: str) -> Iterator[str]:
    """`text` in pieces of at most `SLICE_CHARACTERS`; none is cut inside an escape sequence."""
    start = 0
    while len(text) - start > SLICE_CHARACTERS:
        end = start + SLICE_CHARACTERS
        # A sequence contains no beginning of another, so none crosses the last one.
        escape = text.rfind(_ESCAPE, end - _ESCAPE_CHARACTERS, end)
        end = end if escape < 0 else escape
        yield text[start:end]
        start = end
    yield text[start:]
