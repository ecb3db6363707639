"""The periods of time that questions and utterances mention, to the day.

A period is its first and last day. ISO dates, dates with dots and four-digit years are understood in every language;
words only in the languages of `TIME_WORDS`. Seasons are the northern ones. Nothing here raises: a date that does not
exist is not a date.
"""

from __future__ import annotations

import calendar
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import Final

from agent_reminiscence.text.time_words import DAY, MONTH, TIME_WORDS, WEEK, TimeWords

Period = tuple[date, date]

# A longer period says too little about when something happened.
MAX_PERIOD_DAYS: Final = 400
# Longer periods are compared by months.
MAX_EXACT_DAYS: Final = 45

_ISO_DATE: Final = re.compile(r"(?<![0-9-])(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})(?![0-9-])")
_DOTTED_DATE: Final = re.compile(
    r"(?<![0-9.])(?P<day>[0-9]{1,2})\. ?(?P<month>[0-9]{1,2})\. ?(?P<year>[0-9]{4})(?![0-9])"
)
_SLASHED_DATE: Final = re.compile(
    r"(?<![0-9/.-])(?P<month>[0-9]{1,2})/(?P<day>[0-9]{1,2})/(?P<year>[0-9]{4})(?![0-9/])"
)
_YEAR: Final = re.compile(r"(?<![\w.,-])((?:19|20)[0-9]{2})(?![\w-]|[.,][0-9])")
_WORD: Final = re.compile(r"[^\W_]+")
_QUESTION_ENDS: Final = ("?", "？", "؟", "՞")  # noqa: RUF001  # as they are written
_CLOSING: Final = " \t\r\n\"'”’»)]*_」』"
_BEFORE_CHARACTERS: Final = 60
_GROUP_NAME: Final = re.compile(r"\?P<\w+>")
_FIGURE: Final = re.compile("[0-9]")
# In a pattern: blanks, group names, escapes.
_NOT_A_WORD: Final = re.compile(r"\{[^}]*\}|\?P?<[^>]*>|\\.|\[[^\]]*\]")
# The other words of a question that asks only about a time.
_HAPPENS: Final = {
    "de": "passiert passierte passieren geschah geschehen geschieht ereignet ereignete los",
    "en": "happen happens happened happening occur occurs occurred",
    "es": "pasó pasa pasado ocurrió ocurre ocurrido sucedió sucede sucedido",
    "fr": "passé passe passait arrivé arrive",
}
_LAST_ORDINAL: Final = date.max.toordinal()
# The first month of spring, summer, autumn and winter.
_SEASON_STARTS: Final = (3, 6, 9, 12)


def named_period(
    question: str, first: date, last: date, languages: Sequence[str] = ("en",), *, today: date | None = None
) -> Period | None:
    """The period that `question` names by date, month, season or year, or relative to today; None if it names none.

    Args:
        first: The first day of what is stored.
        last: Its last day: if the question omits the year, it means the last month of that name before this day.
        languages: The languages whose words are understood.
        today: The day that "yesterday" and "last week" are relative to; None ignores them. "Last summer" is the last
            one in what is stored.
    """
    text = _folded(question)
    rules = [_rules(language) for language in languages if language in TIME_WORDS]
    stored = (first, last)
    found = (
        next((period for rule in rules for period in _named_ranges(text, rule, stored, languages)), None)
        or next((period for _, period in _numeric_dates(text, languages)), None)
        or next((period for rule in rules for _, period in _named_dates(text, rule, stored)), None)
        or next((period for rule in rules for _, period in _named_months(text, rule, stored)), None)
    )
    if found is None and today is not None:
        found = next((period for rule in rules for period in _seen_from(text, rule, today, last)), None)
    return (
        found
        or next((period for rule in rules for period in _named_seasons(text, rule, last)), None)
        or next((period for _, period in _years(text)), None)
    )


def mentioned_periods(text: str, day: date, languages: Sequence[str] = ("en",)) -> list[Period]:
    """The periods that `text`, said on `day`, mentions, sorted and without repetitions.

    "Two weeks ago" is vague: it gives a period around that day, wider for longer units.
    """
    found: set[Period] = set()
    rest = _folded(text)
    # Most texts have neither a digit nor a time word; checking that first is far faster than trying each pattern.
    has_figures = _FIGURE.search(rest) is not None
    if has_figures:
        rest = _taken((_ISO_DATE, _DOTTED_DATE, _SLASHED_DATE), rest, _numeric_reader(languages), found)
    for language in languages:
        if language in TIME_WORDS and _rules(language).said.search(rest) is not None:
            rest = _said(rest, _rules(language), day, found)
    if has_figures:
        found.update(period for _, period in _years(rest))
    return sorted(period for period in found if _days(period) <= MAX_PERIOD_DAYS)


def asks_when(question: str, languages: Sequence[str] = ("en",)) -> bool:
    """Whether `question` asks about a time: when, how long, which year."""
    text = _folded(question)
    return any(_rules(language).when.search(text) for language in languages if language in TIME_WORDS)


def has_time_words(text: str, periods: Sequence[Period], languages: Sequence[str] = ("en",)) -> bool:
    """Whether `text` places something in time: yesterday, on 3 May, 2023; also vaguely: recently, since then.

    Args:
        periods: The result of `mentioned_periods` for it.
    """
    if periods:
        return True
    folded = _folded(text)
    return bool(_YEAR.search(folded)) or any(
        _rules(language).time_words.search(folded) for language in languages if language in TIME_WORDS
    )


@cache
def words_of_time(language: str) -> frozenset[str]:
    """The words that a question in `language` uses to name a period or ask what happened in it."""
    words = TIME_WORDS.get(language)
    if words is None:
        return frozenset()
    named = [*words.months, *words.weekdays, *words.seasons, *words.numbers]
    patterns = [
        *words.units, *words.weekends, *words.days, *words.ago, *(pattern for pattern, _ in words.directed),
        words.between, words.joins, words.before_month, words.before_season, words.late, words.early, words.middle,
    ]  # fmt: skip
    plain = _NOT_A_WORD.sub(" ", " ".join(patterns))
    return frozenset((*named, *_WORD.findall(plain), *_HAPPENS.get(language, "").split()))


def is_first_person(question: str, languages: Sequence[str] = ("en",)) -> bool:
    """Whether `question` is in the first person: I, me, my, mine."""
    words = set(_WORD.findall(_folded(question)))
    return any(
        not words.isdisjoint(TIME_WORDS[language].first_person) for language in languages if language in TIME_WORDS
    )


def is_question(text: str) -> bool:
    """Whether `text` ends in a question mark, ignoring closing quotes and brackets."""
    return text.rstrip(_CLOSING).endswith(_QUESTION_ENDS)


def day_terms(period: Period) -> list[str]:
    """The terms that index a chunk mentioning `period`; none if it is longer than `MAX_PERIOD_DAYS`.

    They share a term with another period's `period_terms` exactly if the periods overlap. If either is longer than
    `MAX_EXACT_DAYS`, both are widened to whole months. At most 60; none is a term of `analyse`, since each begins with
    a control character.
    """
    if not 0 < _days(period) <= MAX_PERIOD_DAYS:
        return []
    months = _months_of(period)
    if _days(period) > MAX_EXACT_DAYS:
        return [*_terms("m", months), *_terms("l", months)]
    return [*_terms("d", _days_of(period)), *_terms("m", months)]


def period_terms(period: Period) -> list[str]:
    """The terms that find chunks mentioning a time in `period`; see `day_terms`."""
    if not 0 < _days(period) <= MAX_PERIOD_DAYS:
        return []
    months = _months_of(period)
    if _days(period) > MAX_EXACT_DAYS:
        # Every chunk has its "m" term, so that a long period also finds the short ones in it.
        return _terms("m", months)
    return [*_terms("d", _days_of(period)), *_terms("l", months)]


def _terms(kind: str, names: Iterable[str]) -> list[str]:
    return [f"\x02{kind}{name}" for name in names]


def _days_of(period: Period) -> Iterator[str]:
    for ordinal in range(period[0].toordinal(), period[1].toordinal() + 1):
        yield date.fromordinal(ordinal).isoformat()


def _months_of(period: Period) -> list[str]:
    first, last = period
    numbers = range(first.year * 12 + first.month - 1, last.year * 12 + last.month)
    return [f"{number // 12:04}-{number % 12 + 1:02}" for number in numbers]


def _days(period: Period) -> int:
    return period[1].toordinal() - period[0].toordinal() + 1


@dataclass(frozen=True, slots=True)
class _Rules:
    """The patterns of one language, compiled."""

    words: TimeWords
    dates: tuple[re.Pattern[str], ...]
    months: tuple[re.Pattern[str], ...]
    seasons: tuple[re.Pattern[str], ...]
    range: re.Pattern[str]
    just: re.Pattern[str]
    on_weekday: re.Pattern[str]
    before_month: re.Pattern[str]
    before_season: re.Pattern[str]
    late: re.Pattern[str]
    early: re.Pattern[str]
    middle: re.Pattern[str]
    half: re.Pattern[str]
    days: tuple[tuple[re.Pattern[str], int, int], ...]
    ago: tuple[re.Pattern[str], ...]
    directed: tuple[tuple[re.Pattern[str], int], ...]
    when: re.Pattern[str]
    time_words: re.Pattern[str]
    # Matches if at least one of the patterns that `_said` looks for does.
    said: re.Pattern[str]


@cache
def _rules(language: str) -> _Rules:
    words = TIME_WORDS[language]
    units = "|".join(words.units)
    spans = "|".join([units, *words.weekends, *words.weekdays, *words.seasons])
    blanks = {
        "{month}": f"(?P<month>{'|'.join(words.months)})\\b\\.?",
        "{season}": f"(?P<season>{'|'.join(words.seasons)})\\b",
        "{year}": "(?: (?P<year>[0-9]{4})\\b)?",
        "{n}": f"(?P<n>[0-9]{{1,4}}|{'|'.join(words.numbers)})",
        "{unit}": f"(?P<unit>{units})",
        "{span}": f"(?P<span>{spans})",
        "{weekday}": f"(?P<weekday>{'|'.join(words.weekdays)})",
    }

    def compiled(pattern: str) -> re.Pattern[str]:
        for blank, meaning in blanks.items():
            pattern = pattern.replace(blank, meaning)
        return re.compile(rf"\b(?:{pattern})(?!\w)")

    def any_of(patterns: Iterable[str]) -> re.Pattern[str]:
        # A group name may be used only once.
        return re.compile("|".join(_GROUP_NAME.sub("?:", compiled(pattern).pattern) for pattern in patterns))

    def before(pattern: str) -> re.Pattern[str]:
        return re.compile(rf"\b(?:{pattern})[ -]$")

    return _Rules(
        words=words,
        dates=tuple(map(compiled, words.dates)),
        months=tuple(map(compiled, words.months_of_years)),
        seasons=tuple(map(compiled, words.seasons_of_years)),
        range=compiled(f"(?:{words.between}) (?P<first>[^,;?!]{{1,30}}?) (?:{words.joins}) (?P<last>[^,;?!]{{1,30}})"),
        just=compiled(words.just),
        on_weekday=compiled(words.on_weekday),
        before_month=before(words.before_month),
        before_season=before(f"(?:{words.before_season})(?: (?:the|der|le|la|el))?"),
        late=before(words.late),
        early=before(words.early),
        middle=before(words.middle),
        half=re.compile(words.half),
        days=tuple((compiled(pattern), *days) for pattern, days in words.days.items()),
        ago=tuple(map(compiled, words.ago)),
        directed=tuple((compiled(pattern), direction) for pattern, direction in words.directed),
        when=re.compile(words.when),
        time_words=re.compile(rf"\b(?:{words.time_words})(?!\w)"),
        said=any_of(
            [
                *words.days,
                words.just,
                *(pattern for pattern, _ in words.directed),
                *words.ago,
                *words.dates,
                *words.months_of_years,
                *words.seasons_of_years,
            ]
        ),
    )


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).lower().split())


def _numeric_dates(text: str, languages: Sequence[str]) -> Iterator[tuple[re.Match[str], Period]]:
    read = _numeric_reader(languages)
    for match in _matches((_ISO_DATE, _DOTTED_DATE, _SLASHED_DATE), text):
        for period in read(match):
            yield match, period


def _numeric_reader(languages: Sequence[str]) -> Callable[[re.Match[str]], Iterator[Period]]:
    """Reads numeric dates; with slashes, the month comes first in English and the day in other languages."""
    month_first = all(language == "en" for language in languages)

    def read(match: re.Match[str]) -> Iterator[Period]:
        year, month, day = (int(match[part]) for part in ("year", "month", "day"))
        if match.re is _SLASHED_DATE and (month > 12 or (not month_first and day <= 12)):
            month, day = day, month
        return _day(year, month, day)

    return read


def _years(text: str) -> Iterator[tuple[re.Match[str], Period]]:
    for match in _YEAR.finditer(text):
        yield match, (date(int(match[1]), 1, 1), date(int(match[1]), 12, 31))


def _named_ranges(text: str, rules: _Rules, stored: Period, languages: Sequence[str]) -> Iterator[Period]:
    """Ranges from one date, month or year to another: "between March and May", "from 3 to 5 May"."""
    for match in rules.range.finditer(text):
        last = _read_at_start(match["last"], rules, stored, languages)
        if last is None:
            continue
        end = last[1]
        if re.fullmatch(r"[0-9]{1,2}(?:st|nd|rd|th|er|\.)?", match["first"]):
            start = next(_day(end[1].year, end[1].month, int(re.sub(r"[^0-9]", "", match["first"]))), None)
        else:
            first = _read_at_start(match["first"], rules, stored, languages)
            start = first[1] if first is not None and first[0].end() == len(match["first"]) else None
        if start is not None and start[0] > end[1]:
            # An omitted year is that of the end, or the one before it.
            years = (end[1].year, end[1].year - 1)
            moved = [day for year in years for day in _day(year, start[0].month, start[0].day)]
            start = next((one for one in moved if one[0] <= end[1]), None)
        if start is not None:
            yield start[0], end[1]


def _read_at_start(
    text: str, rules: _Rules, stored: Period, languages: Sequence[str]
) -> tuple[re.Match[str], Period] | None:
    """The date, month or year that `text` begins with, if any."""
    found = (
        *_numeric_dates(text, languages),
        *_named_dates(text, rules, stored),
        *_named_months(text, rules, stored, is_certain=True),
        *_years(text),
    )
    return next(((match, period) for match, period in found if match.start() == 0), None)


def _named_dates(text: str, rules: _Rules, stored: Period) -> Iterator[tuple[re.Match[str], Period]]:
    for match in _matches(rules.dates, text):
        month, day = rules.words.months[match["month"]], int(match["day"])
        if match["year"]:
            years: Sequence[int] = (int(match["year"]),)
        else:
            latest = _latest_year(month, stored)
            # 29 February exists every four years, or after eight.
            years = () if latest is None else range(latest, max(latest - 8, 0), -1)
        period = next((period for year in years for period in _day(year, month, day)), None)
        if period is not None:
            yield match, period


def _named_months(
    text: str, rules: _Rules, stored: Period, *, is_certain: bool = False
) -> Iterator[tuple[re.Match[str], Period]]:
    for match in _matches(rules.months, text):
        name, before = match["month"], _before(match)
        is_doubtful = name in rules.words.doubtful_months and not match["year"] and not is_certain
        if is_doubtful and (not rules.before_month.search(before) or text.startswith(("'s", "’s"), match.end())):
            continue
        month = rules.words.months[name]
        year = int(match["year"]) if match["year"] else _latest_year(month, stored)
        if year is not None:
            for period in _month(year, month):
                yield match, _part(period, before, rules)


def _seen_from(text: str, rules: _Rules, today: date, last: date) -> Iterator[Period]:
    """Periods named relative to today: yesterday, last week, two months ago, on Monday."""
    for pattern, *days in rules.days:
        if pattern.search(text):
            yield _around(today, *days)
    for match in _matches(rules.ago, text):
        yield from _ago(match, rules, today)
    for pattern, direction in rules.directed:
        for match in pattern.finditer(text):
            seen_from = min(today, last) if match["span"] in rules.words.seasons else today
            yield from _directed(match["span"], direction, rules, seen_from)
    for match in rules.on_weekday.finditer(text):
        back = (today.weekday() - rules.words.weekdays[match["weekday"]]) % 7
        yield _around(today, -back, -back)


def _part(month: Period, before: str, rules: _Rules) -> Period:
    """The part of `month` that the preceding words mean."""
    start, end = month
    if late := rules.late.search(before):
        return end.replace(day=end.day - (15 if rules.half.search(late[0]) else 10)), end
    if early := rules.early.search(before):
        return start, start.replace(day=15 if rules.half.search(early[0]) else 11)
    if rules.middle.search(before):
        return start.replace(day=10), start.replace(day=21)
    return month


def _named_seasons(text: str, rules: _Rules, last: date) -> Iterator[Period]:
    for match in _matches(rules.seasons, text):
        season = rules.words.seasons[match["season"]]
        if match["year"]:
            yield from _season(int(match["year"]), season)
        elif rules.before_season.search(_before(match)):
            yield from _season(last.year - (last.month < _SEASON_STARTS[season]), season)


def _said(text: str, rules: _Rules, day: date, found: set[Period]) -> str:
    """Add the periods that `text` names in words, relative to `day`, to `found`; returns the rest of `text`.

    A date is not read again as a month, nor its year as a year.
    """

    def year_of(match: re.Match[str]) -> int:
        return int(match["year"]) if match["year"] else _nearest_year(rules.words.months[match["month"]], day)

    def read_date(match: re.Match[str]) -> Iterator[Period]:
        near = year_of(match)
        # 29 February exists every four years, or after eight.
        years = [near] if match["year"] else sorted(range(near - 8, near + 9), key=lambda year: abs(year - near))
        month, number = rules.words.months[match["month"]], int(match["day"])
        return iter([period for year in years for period in _day(year, month, number)][:1])

    def read_month(match: re.Match[str]) -> Iterator[Period]:
        if match["year"] or rules.before_month.search(_before(match)):
            yield from _month(year_of(match), rules.words.months[match["month"]])

    def read_season(match: re.Match[str]) -> Iterator[Period]:
        if match["year"]:
            yield from _season(int(match["year"]), rules.words.seasons[match["season"]])

    def read_ago(match: re.Match[str]) -> Iterator[Period]:
        return _ago(match, rules, day)

    found.update(_around(day, *days) for pattern, *days in rules.days if pattern.search(text))
    if rules.just.search(text):
        found.add((day, day))
    for pattern, direction in rules.directed:
        for match in pattern.finditer(text):
            found.update(_directed(match["span"], direction, rules, day))
    text = _taken(rules.ago, text, read_ago, found)
    text = _taken(rules.dates, text, read_date, found)
    text = _taken(rules.months, text, read_month, found)
    return _taken(rules.seasons, text, read_season, found)


def _ago(match: re.Match[str], rules: _Rules, day: date) -> Iterator[Period]:
    length = _unit(match["unit"], rules)
    number = int(match["n"]) if match["n"].isdecimal() else rules.words.numbers[match["n"]]
    yield _around(day, -number * length - length // 3, -number * length + length // 3)


def _directed(span: str, direction: int, rules: _Rules, day: date) -> Iterator[Period]:
    """The last, this or the next `span`, relative to `day`."""
    if span in rules.words.weekdays:
        # "This Friday" is the one in the current week, Monday to Sunday.
        days = rules.words.weekdays[span] - day.weekday()
        if direction:
            days = -(-days % 7 or 7) if direction < 0 else (days % 7 or 7)
        yield _around(day, days, days)
    elif span in rules.words.seasons:
        season = rules.words.seasons[span]
        near = [period for year in range(day.year - 2, day.year + 2) for period in _season(year, season)]
        if direction < 0:
            yield from [period for period in near if period[1] < day][-1:]
        elif near:
            this = min(near, key=lambda period: abs(_middle(period) - day.toordinal()))
            yield from _season(this[0].year + direction, season)
    else:
        length = WEEK if _is_weekend(span, rules) else _unit(span, rules)
        if length == DAY:
            yield _around(day, direction, direction)
        elif length == WEEK:
            yield _around(day, WEEK * direction - 4, WEEK * direction + 4) if direction else _around(day, -3, 4)
        elif length == MONTH:
            number = day.year * 12 + day.month - 1 + direction
            yield from _month(number // 12, number % 12 + 1)
        else:
            yield from _months(day.year + direction, 1, 12)


def _is_weekend(word: str, rules: _Rules) -> bool:
    return any(re.fullmatch(pattern, word) for pattern in rules.words.weekends)


def _unit(word: str, rules: _Rules) -> int:
    """Roughly how many days `word` means."""
    return next(days for pattern, days in rules.words.units.items() if re.fullmatch(pattern, word))


def _matches(patterns: Iterable[re.Pattern[str]], text: str) -> Iterator[re.Match[str]]:
    for pattern in patterns:
        yield from pattern.finditer(text)


def _taken(
    patterns: Iterable[re.Pattern[str]],
    text: str,
    read: Callable[[re.Match[str]], Iterable[Period]],
    found: set[Period],
) -> str:
    """Add what `read` makes of each match to `found`; returns `text` without the matches that gave something."""

    def take(match: re.Match[str]) -> str:
        periods = list(read(match))
        found.update(periods)
        return "," if periods else match[0]

    for pattern in patterns:
        text = pattern.sub(take, text)
    return text


def _before(match: re.Match[str]) -> str:
    """The words just before `match`; in a long text, reading all of it for each match would be slow."""
    return match.string[max(0, match.start() - _BEFORE_CHARACTERS) : match.start()]


def _middle(period: Period) -> int:
    return (period[0].toordinal() + period[1].toordinal()) // 2


def _latest_year(month: int, stored: Period) -> int | None:
    """The year of the last `month` that begins by the last day stored; None if it ended a month before the first."""
    first, last = stored
    year = last.year if month <= last.month else last.year - 1
    period = next(_month(year, month), None)
    return year if period and period[1].toordinal() >= first.toordinal() - 31 else None


def _nearest_year(month: int, day: date) -> int:
    """The year of the `month` nearest to `day`; the current year in a tie."""
    if month - day.month > 6:
        return day.year - 1
    return day.year + 1 if day.month - month > 6 else day.year


def _around(day: date, earliest: int, latest: int) -> Period:
    """The days from `earliest` to `latest`, counted from `day` and kept within the calendar."""
    start, end = (min(max(day.toordinal() + days, 1), _LAST_ORDINAL) for days in (earliest, latest))
    return date.fromordinal(start), date.fromordinal(end)


def _day(year: int, month: int, day: int) -> Iterator[Period]:
    """That one day, if it exists."""
    if 1 <= year <= 9999 and 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year, month)[1]:
        yield date(year, month, day), date(year, month, day)


def _month(year: int, month: int) -> Iterator[Period]:
    yield from _months(year, month, 1)


def _season(year: int, season: int) -> Iterator[Period]:
    yield from _months(year, _SEASON_STARTS[season], 3)


def _months(year: int, month: int, count: int) -> Iterator[Period]:
    """`count` months from this one on, if the calendar has them."""
    number = year * 12 + month - 1 + count - 1
    end_year, end_month = number // 12, number % 12 + 1
    if year >= 1 and end_year <= 9999:
        yield date(year, month, 1), date(end_year, end_month, calendar.monthrange(end_year, end_month)[1])
