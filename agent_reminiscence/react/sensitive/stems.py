"""Finds the plain text that is in whatever a pattern matches: looking for it takes far less time than the pattern."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

# What patterns of this package are made of, one at a time: an escape, a class, a group or what closes it, a part by its
# name, how often, and everything else.
_TOKEN: Final = re.compile(
    r"\\.|\[[^\]]+\]|\(\?(?:<?[=!]|:)|[()|.^$]|\{[a-z_]+\}|(?:\{\d*,?\d*\}|[?*+])[?+]?|[^\\]", re.DOTALL
)
_OFTEN: Final = re.compile(r"(?:\{\d*,?\d*\}|[?*+])[?+]?")
_PERHAPS: Final = re.compile(r"[?*]|\{0?,")
_NAMED: Final = re.compile(r"\{([a-z_]+)\}")
_LOOKS: Final = frozenset({"(?=", "(?!", "(?<=", "(?<!"})
# Nearly every statement has one of these.
_EVERYWHERE: Final = frozenset((
    "", "a", "an", "the", "of", "to", "in", "on", "at", "is", "was", "are", "be", "has", "with", "for", "from", "by",
    "as", "and", "or", "his", "her", "my", "their", "our", "he", "she", "it", "user", "s", "t", "der", "die", "das",
    "ein", "eine", "ist", "war", "hat", "im", "am", "er", "sie", "mit", "von", "zu",
))  # fmt: skip
_ENOUGH_CHARACTERS: Final = 4
_BEGINNING: Final = 3

type Stems = frozenset[str]


def stems_of(pattern: str, part: Callable[[str], Stems | None]) -> Stems | None:
    """Texts of which one is in everything that `pattern` matches; None if no such are known.

    Args:
        pattern: May name parts, in braces.
        part: The stems of the part that has this name.
    """
    return _Reader(pattern, part).either()


class Parts:
    """Patterns by name: alternatives, or one."""

    def __init__(self, parts: Mapping[str, list[str] | str]) -> None:
        self._parts = parts
        self._filled: dict[str, str] = {}
        self._stems: dict[str, Stems | None] = {}

    def fill(self, pattern: str) -> str:
        """`pattern` with the parts that it names."""
        return _NAMED.sub(lambda match: self._fill(match[1]), pattern)

    def stems(self, pattern: str) -> tuple[str, ...]:
        """The stems of `pattern`; empty if it has none."""
        found = stems_of(pattern, self._stems_of) or frozenset()
        return tuple(sorted(stem for stem in found if not any(other in stem for other in found - {stem})))

    def _fill(self, name: str) -> str:
        if name not in self._filled:
            self._filled[name] = self.fill(self._pattern(name))
        return self._filled[name]

    def _stems_of(self, name: str) -> Stems | None:
        if name not in self._stems:
            self._stems[name] = stems_of(self._pattern(name), self._stems_of)
        return self._stems[name]

    def _pattern(self, name: str) -> str:
        part = self._parts[name]
        return part if isinstance(part, str) else f"(?:{'|'.join(part)})"


class StemIndex:
    """Finds in one pass over a text which of many sets of stems have one in it."""

    def __init__(self, sets: Sequence[Iterable[str]]) -> None:
        self._short: list[tuple[str, int]] = []
        self._by_beginning: dict[str, list[tuple[str, int]]] = {}
        for number, stems in enumerate(sets):
            for stem in stems:
                is_short = len(stem) < _BEGINNING
                same = self._short if is_short else self._by_beginning.setdefault(stem[:_BEGINNING], [])
                same.append((stem, number))

    def found_in(self, text: str) -> set[int]:
        """The numbers of the sets."""
        found = {number for stem, number in self._short if stem in text}
        for start in range(len(text) - _BEGINNING + 1):
            for stem, number in self._by_beginning.get(text[start : start + _BEGINNING], ()):
                if number not in found and text.startswith(stem, start):
                    found.add(number)
        return found


class _Reader:
    """Reads a pattern from left to right."""

    def __init__(self, pattern: str, part: Callable[[str], Stems | None]) -> None:
        self._tokens = _TOKEN.findall(pattern)
        self._next = 0
        self._part = part

    def either(self) -> Stems | None:
        """The stems of alternatives, up to the end of their group."""
        each = [self._sequence()]
        while self._peek() == "|":
            self._next += 1
            each.append(self._sequence())
        stems: set[str] = set()
        for one in each:
            if one is None:
                return None
            stems |= one
        return frozenset(stems)

    def _sequence(self) -> Stems | None:
        """The stems of one alternative: the best of what must be there."""
        best: Stems | None = None
        plain = ""
        while (token := self._peek()) not in {"", "|", ")"}:
            self._next += 1
            if token in _LOOKS:
                self.either()
                self._next += 1
                continue
            if token in {r"\b", "^", "$"}:
                continue
            stems = self._stems(token)
            how_often = self._peek()
            is_repeated = _OFTEN.fullmatch(how_often) is not None
            self._next += is_repeated
            is_there = not (is_repeated and _PERHAPS.match(how_often))
            if isinstance(stems, str):
                plain += stems if is_there else ""
                if not is_repeated:
                    continue
            best, plain = _better(best, _as_stems(plain)), ""
            if is_there and not isinstance(stems, str):
                best = _better(best, stems)
        return _better(best, _as_stems(plain))

    def _stems(self, token: str) -> str | Stems | None:
        """The one character that `token` matches, or its stems."""
        if token in {"(", "(?:"}:
            stems = self.either()
            self._next += 1
            return stems
        if _NAMED.fullmatch(token):
            return self._part(token[1:-1])
        if token[0] == "\\":
            return token[1] if not token[1].isalnum() else None
        return None if token[0] in "[." else token

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""


def _as_stems(plain: str) -> Stems | None:
    return frozenset({plain}) if plain.strip() else None


def _better(one: Stems | None, other: Stems | None) -> Stems | None:
    """Those that fewer statements have."""
    if one is None or other is None:
        return other if one is None else one
    return max(one, other, key=_rarity)


def _rarity(stems: Stems) -> tuple[int, int]:
    shortest = min(0 if stem.strip() in _EVERYWHERE else len(stem.strip()) for stem in stems)
    return min(shortest, _ENOUGH_CHARACTERS), -len(stems)
