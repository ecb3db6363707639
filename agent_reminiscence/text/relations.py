"""Finds what a sentence says two names have to do with each other: `Mara works for Siemens`.

The rules are data, `entity_lists/relations.toml`: for each relationship regular expressions in English and German, with
the types that its ends may have. A sentence is matched in lower case, with a mark in place of each name. "I" and "my"
stand for the speaker, if it is known who speaks and they are not quoted.

A relationship is taken only from a plain statement about the present. Questions, negations, doubts, conditions, wishes
and the past leave a sentence without one, whatever they refer to: two names related wrongly are worse than two that are
`related_to` each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain, pairwise
from typing import Final, NamedTuple

from agent_reminiscence.text.german import is_german
from agent_reminiscence.text.name_index import Mention, NameIndex
from agent_reminiscence.text.name_lines import Line
from agent_reminiscence.text.name_lists import peoples, relation_rules
from agent_reminiscence.text.name_types import OTHER

_MACRO: Final = re.compile(r"<([^\W\d_A-Z]\w*)>")
_NAME: Final = re.compile(r"<([AB])(2?)('s|\(\?:'s\)\?|:i|:my)?>")
_I: Final = frozenset({"i", "ich"})
_MY: Final = frozenset({"my", "mein", "meine", "meinem", "meinen", "meiner"})
_CONTRACTIONS: Final = {"i'm": ("i", "am"), "i’m": ("i", "am"), "he's": ("he", "is"), "she's": ("she", "is")}
# Before what no list knows, these say that it is somebody or something of a kind: "My Wife", "The Manager".
_DETERMINED: Final = re.compile(
    r"(?:^|[ >])(?:the|an?|my|our|your|his|her|their|this|that|every|<\d+:my>"
    r"|der|die|das|(?:ein|[mds]ein|ihr|unser)\w*) $"
)
# A longer sentence is a list or a contract, and takes long to match.
_MAX_WORDS: Final = 60
_ENDS: Final = 2


class _Rule(NamedTuple):
    """What states one relationship in one language.

    Attributes:
        sources: The types that its start may have; the first is that of a name without one.
        targets: The same for its end.
        is_strict: Whether a name without a type is refused as the start.
    """

    type: str
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    is_strict: bool
    patterns: tuple[re.Pattern[str], ...]


class _Language(NamedTuple):
    """The compiled rules of one language.

    Attributes:
        never: What no statement has.
        types: What shows the type of a single name.
    """

    never: re.Pattern[str]
    rules: tuple[_Rule, ...]
    types: tuple[tuple[str, tuple[re.Pattern[str], ...]], ...]


def find_stated(
    line: Line, mentions: Sequence[Mention], names: NameIndex, speaker: str | None
) -> Iterator[tuple[str, str, str]]:
    """The relationships that a line states, each as the keys of both ends and its type.

    Names in them that were only possible are confirmed, and those without a type get the one that the statement shows.

    Args:
        mentions: The names in the line, in order.
        speaker: The key of the speaker's name, if it is known.
    """
    for code, text, keys in _sentences(line, mentions, speaker):
        language = _language(code)
        _take_types(language, text, keys, names)
        if len(keys) < _ENDS or language.never.search(text):
            continue
        for rule in language.rules:
            for match in _matches(rule.patterns, text):
                target = keys[int(match["b"])]
                for group in ("a", "a2") if "a2" in match.re.groupindex else ("a",):
                    source = keys[int(match[group])]
                    # Without the mark's bracket.
                    before = text[: match.start(group) - 1]
                    if names.type_of(source) == OTHER and _DETERMINED.search(before):
                        continue
                    if _take(rule, source, target, names):
                        yield source, target, rule.type


def _matches(patterns: Sequence[re.Pattern[str]], text: str) -> Iterator[re.Match[str]]:
    return chain.from_iterable(pattern.finditer(text) for pattern in patterns)


def _take_types(language: _Language, text: str, keys: Sequence[str], names: NameIndex) -> None:
    """Give names that have no type the one that a sentence shows."""
    for type_, patterns in language.types:
        for match in _matches(patterns, text):
            key = keys[int(match["b"])]
            if names.type_of(key) == OTHER and key not in peoples():
                names.confirm(key, type_)


def _take(rule: _Rule, source: str, target: str, names: NameIndex) -> bool:
    """Whether the types of both ends fit; then they are names, of these types."""
    if source == target or source in peoples() or target in peoples():
        return False
    from_type, to_type = names.type_of(source), names.type_of(target)
    if from_type not in rule.sources and (rule.is_strict or from_type != OTHER):
        return False
    if to_type not in (*rule.targets, OTHER):
        return False
    names.confirm(source, rule.sources[0])
    names.confirm(target, rule.targets[0])
    return True


def _sentences(line: Line, mentions: Sequence[Mention], speaker: str | None) -> Iterator[tuple[str, str, list[str]]]:
    """The statements of a line: language, the form that is matched, and the keys of the names by their marks."""
    at = {mention.start: mention for mention in mentions}
    ends = [index for index, word in enumerate(line.words) if word.begins] + [len(line.words)]
    for start, end in pairwise(ends):
        is_short = end - start <= _MAX_WORDS
        if is_short and start not in line.questions and (speaker or any(index in at for index in range(start, end))):
            text, keys = _render(line, at, speaker, start, end)
            if keys:
                # A line may have both languages.
                code = "de" if is_german(word.text for word in line.words[start:end]) else "en"
                yield code, text, keys


def _render(line: Line, at: dict[int, Mention], speaker: str | None, start: int, end: int) -> tuple[str, list[str]]:
    keys: list[str] = []
    pieces: list[str] = []
    index = start
    while index < end:
        word = line.words[index]
        if index > start and not word.joined:
            pieces.append(",")
        if mention := at.get(index):
            keys.append(mention.key)
            pieces.append(f"<{len(keys) - 1}>")
            if mention.is_genitive:
                pieces.append("'s")
            index += len(mention.words)
            continue
        text = word.text.casefold()
        for said in _CONTRACTIONS.get(text, (text.replace("’", "'"),)):
            mark = "i" if said in _I else "my" if said in _MY else ""
            if mark and speaker and index not in line.quoted:
                keys.append(speaker)
                pieces.append(f"<{len(keys) - 1}:{mark}>")
            else:
                pieces.append(said)
        index += 1
    return " ".join(pieces), keys


@cache
def _language(code: str) -> _Language:
    rules = relation_rules()
    macros: dict[str, str] = rules["words"]
    compiled = [
        _Rule(
            type_,
            tuple(rule["from"]),
            tuple(rule["to"]),
            rule.get("is_strict", False),
            _compile(rule[code], macros),
        )
        for type_, rule in rules.items()
        if type_ not in ("words", "never", "types")
    ]
    types = [(type_, _compile(rule[code], macros)) for type_, rule in rules["types"].items()]
    return _Language(
        re.compile("|".join(_expand(one, macros) for one in rules["never"][code])), tuple(compiled), tuple(types)
    )


def _compile(expressions: Sequence[str], macros: dict[str, str]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(_NAME.sub(_mark, _expand(expression, macros))) for expression in expressions)


def _expand(expression: str, macros: dict[str, str]) -> str:
    """An expression as it is compiled: case folded, without abbreviations, which may stand in each other."""
    while (expanded := _MACRO.sub(lambda found: f"(?:{macros[found[1]]})", expression)) != expression:
        expression = expanded
    return expression.replace("ß", "ss")


def _mark(found: re.Match[str]) -> str:
    """The expression for a name's mark."""
    group = f"{found[1].lower()}{found[2]}"
    kind = found[3] or ""
    inside = kind if kind in (":i", ":my") else ""
    # What is said of Bob's boss is not said of Bob.
    after = {"'s": " 's", "(?:'s)?": "(?: 's)?", "": "(?! 's)"}.get(kind, "")
    return rf"<(?P<{group}>\d+){inside}>{after}"
