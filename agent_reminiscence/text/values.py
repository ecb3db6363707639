"""Finds the values in a statement that another statement may have changed: times, days, amounts, numbers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from typing import Final

from agent_reminiscence.text.time_words import TIME_WORDS
from agent_reminiscence.text.words import analyse

_NUMBER: Final = r"\d+(?:[.,]\d+)*"
_MONEY: Final = r"€|\$|£|¥|euros?|eur|dollars?|usd|pounds?|francs?|franken|chf|cents?|bucks"
# The kind of a value, and its pattern; what an earlier one has found is no longer there for the next.
_KINDS: Final = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        ("date", r"\b\d{4}-\d\d-\d\d\b|\b\d{1,2}\.\d{1,2}\.(?:\d{2,4}\b)?|\b\d{1,2}/\d{1,2}(?:/\d{2,4})?\b"),
        ("time", r"\b\d{1,2}[:.]\d\d(?:\s?[ap]\.?m\b)?|\b\d{1,2}(?:\s?[ap]\.?m\b|\s?uhr\b|\s?o'clock\b)"),
        ("money", rf"(?:€|\$|£|¥)\s?{_NUMBER}|\b{_NUMBER}\s?(?:{_MONEY})(?!\w)"),
        ("share", rf"\b{_NUMBER}\s?(?:%|percent\b|per cent\b|prozent\b)"),
        ("year", r"\b(?:19|20)\d\d\b"),
    )
)
# A number counts what is named after it.
_COUNT: Final = re.compile(rf"\b({_NUMBER})(?:\s+([^\W\d_]+))?")
_WORD: Final = re.compile(r"[^\W\d_]+")


def find_values(text: str, language: str) -> Mapping[str, frozenset[str]]:
    """The values in a statement, folded, by kind: `time`, `day`, `money`, or what a number counts."""
    values: defaultdict[str, set[str]] = defaultdict(set)
    rest = text.casefold()
    for kind, pattern in _KINDS:
        for match in pattern.finditer(rest):
            values[kind].add(re.sub(r"\s", "", match[0]))
        rest = pattern.sub(" ", rest)
    months, weekdays = _calendar(language)
    for match in re.finditer(r"\b(\d{1,2})(?:st|nd|rd|th|\.)?\s+(?:of\s+)?([^\W\d_]+)|([^\W\d_]+)\s+(\d{1,2})\b", rest):
        day, month = (match[1], match[2]) if match[1] else (match[4], match[3])
        if month in months:
            values["date"].add(f"{day} {months[month]}")
            rest = rest.replace(match[0], " ")
    for word in _WORD.findall(rest):
        name = word if word in weekdays else word.removesuffix("s")
        if name in weekdays:
            values["weekday"].add(str(weekdays[name]))
    for number, counted in _COUNT.findall(rest):
        unit = "".join(analyse(counted, language)[:1])
        if unit:
            values[f"number of {unit}"].add(number)
    return {kind: frozenset(found) for kind, found in values.items()}


def other_words(text: str, language: str) -> frozenset[str]:
    """The stems of what a statement says beside values and words that say little."""
    months, weekdays = _calendar(language)
    folded = text.casefold()
    for _, pattern in _KINDS:
        folded = pattern.sub(" ", folded)
    words = [
        word
        for word in _WORD.findall(folded)
        if word not in months and word not in weekdays and word.removesuffix("s") not in weekdays
    ]
    return frozenset(stem for stem in analyse(" ".join(words), language) if len(stem) > 1) - _little(language)


@cache
def _calendar(language: str) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Months and weekdays by their names in a language, and in English."""
    tables = [TIME_WORDS[one] for one in ("en", language) if one in TIME_WORDS]
    months = {name: month for table in tables for name, month in table.months.items()}
    weekdays = {name: day for table in tables for name, day in table.weekdays.items()}
    return months, weekdays


# They stand in statements about anything.
_LITTLE: Final = (
    "now today yesterday tomorrow anymore longer still already again just also new old last next week month year day"
    " time go went gone get got come came take took make made do done have say said tell told think know like love want"
    " need use start begin one two three first"
    " jetzt heute gestern morgen mehr noch schon wieder auch neu alt neue neuer neues letzte nächste woche monat jahr"
    " tag zeit gehen geht gehe ging kommen kommt machen macht mache sagen sagt haben habe hat sein bin ist war werden"
    " wird gibt ab seit"
)


@cache
def _little(language: str) -> frozenset[str]:
    return frozenset(analyse(_LITTLE, language)) | frozenset(_LITTLE.split())
