"""The times that questions name and utterances speak of."""

from __future__ import annotations

import calendar
import re
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_reminiscence.text.periods import (
    MAX_EXACT_DAYS,
    MAX_PERIOD_DAYS,
    Period,
    asks_when,
    day_terms,
    has_time_words,
    is_first_person,
    is_question,
    mentioned_periods,
    named_period,
    period_terms,
)
from agent_reminiscence.text.time_words import TIME_WORDS
from agent_reminiscence.text.words import analyse

# What is stored, and a Monday within it.
FIRST, LAST = date(2023, 1, 10), date(2023, 10, 5)
MONDAY = date(2023, 5, 8)

# Words of which texts about time are made, and numbers that are no dates.
TIMES = st.lists(
    st.one_of(
        st.sampled_from(
            [
                *{
                    word
                    for words in TIME_WORDS.values()
                    for table in (words.months, words.weekdays, words.seasons, words.numbers)
                    for word in table
                },
                *[
                    "on",
                    "in",
                    "last",
                    "next",
                    "this",
                    "of",
                    "ago",
                    "late",
                    "early",
                    "mid",
                    "vor",
                    "Wochen",
                    "semanas",
                    "hace",
                ],
                *["il", "y", "a", "mois", "prochaine", "pasado", "de", "-", "/", ".", ","],
                *[
                    "0",
                    "00",
                    "31",
                    "32",
                    "0000-01-01",
                    "9999-12-31",
                    "10000-01-01",
                    "2023-02-30",
                    "31.2.2023",
                    "1.1.0000",
                ],
                *["0001", "9999", "٣", "²"],
            ]
        ),
        st.integers(min_value=0, max_value=10**9).map(str),
        st.text(max_size=3),
    ),
    max_size=12,
).map(" ".join)
ANY_LANGUAGES = st.lists(st.sampled_from([*TIME_WORDS, "ja", "xx"]), max_size=3)
SHORT_PERIODS = st.builds(
    lambda start, days: (start, start + timedelta(days)),
    st.dates(min_value=date(2022, 11, 1), max_value=date(2024, 4, 1)),
    st.integers(min_value=0, max_value=MAX_PERIOD_DAYS - 1),
)


def period(text: str) -> Period | None:
    """`2023-05-01..2023-05-31`, or one day of it."""
    if not text:
        return None
    first, _, last = text.partition("..")
    return date.fromisoformat(first), date.fromisoformat(last or first)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        # Dates
        ("What happened on 2023-05-08?", "2023-05-08"),
        ("What happened on 8.5.2022?", "2022-05-08"),
        ("What happened on 8 May?", "2023-05-08"),
        ("What happened on the 8th of May?", "2023-05-08"),
        ("Who called on May 8th, 2022?", "2022-05-08"),
        ("Who called on May 8?", "2023-05-08"),
        ("Who called on Sept 3 2022", "2022-09-03"),
        # The year that is left out is the last one
        ("What happened on 8 December?", "2022-12-08"),
        ("What happened in December?", "2022-12-01..2022-12-31"),
        ("What happened in November?", ""),
        # Months and their parts
        ("What did she paint in May?", "2023-05-01..2023-05-31"),
        ("What did she attend in May 2021?", "2021-05-01..2021-05-31"),
        ("Where was he in May of 2021?", "2021-05-01..2021-05-31"),
        ("Where was he last May?", "2023-05-01..2023-05-31"),
        ("Where was he in the last week of May?", "2023-05-21..2023-05-31"),
        ("Where was he in the last two weeks of May?", "2023-05-16..2023-05-31"),
        ("Where was he at the end of May?", "2023-05-21..2023-05-31"),
        ("Where was he in late May 2022?", "2022-05-21..2022-05-31"),
        ("Where was he in early May?", "2023-05-01..2023-05-11"),
        ("Where was he in the first week of May?", "2023-05-01..2023-05-11"),
        ("Where was he in the first half of May?", "2023-05-01..2023-05-15"),
        ("Where was he in mid-May?", "2023-05-10..2023-05-21"),
        ("What did he attend in February 2023?", "2023-02-01..2023-02-28"),
        # May and Mar are words, too
        ("May I ask what Mar said?", ""),
        # Months that are names and verbs, too
        ("What did Jan say?", ""),
        ("What does June like?", ""),
        ("What does April want?", ""),
        ("Who is August Meier?", ""),
        ("How far did we march?", ""),
        ("What is the name of June's dog?", ""),
        ("What did Jan say in June?", "2023-06-01..2023-06-30"),
        ("Where was April in March 2022?", "2022-03-01..2022-03-31"),
        # Ranges
        ("What happened between March and May?", "2023-03-01..2023-05-31"),
        ("What happened between March and May 2021?", "2021-03-01..2021-05-31"),
        ("What happened between December and February?", "2022-12-01..2023-02-28"),
        ("Where was he from 3 to 5 May?", "2023-05-03..2023-05-05"),
        ("Where was he between August 11 and August 15 2022?", "2022-08-11..2022-08-15"),
        ("Where did he live from 2019 to 2021?", "2019-01-01..2021-12-31"),
        ("What was between 2023-05-03 and 2023-05-05?", "2023-05-03..2023-05-05"),
        ("What is between the house and the garden in May?", "2023-05-01..2023-05-31"),
        # Slashes
        ("What happened on 5/8/2022?", "2022-05-08"),
        ("What happened on 25/8/2022?", "2022-08-25"),
        # The last one that there was
        ("What happened on 29 February?", "2020-02-29"),
        # Seasons
        ("Where were they in the summer?", "2023-06-01..2023-08-31"),
        ("Where were they last winter?", "2022-12-01..2023-02-28"),
        ("Where were they in winter 2019?", "2019-12-01..2020-02-29"),
        ("Did the fall hurt?", ""),
        # Years
        ("What did they do in 2022?", "2022-01-01..2022-12-31"),
        ("How many are 2022.5 or 12022 or B-2022?", ""),
        # What does not exist
        ("What happened on 31 February 2023?", "2023-02-01..2023-02-28"),
        ("What happened on 2023-02-31?", ""),
        ("What happened?", ""),
    ],
)
def test_a_question_names_a_period(question: str, expected: str) -> None:
    """To the day; the year of a month without one follows from what is stored."""
    assert named_period(question, FIRST, LAST) == period(expected)


@pytest.mark.parametrize(
    ("language", "question", "expected"),
    [
        ("de", "Was war am 8. Mai 2022?", "2022-05-08"),
        ("de", "Was war am 1. März?", "2023-03-01"),
        ("de", "Was war Ende Mai?", "2023-05-21..2023-05-31"),
        ("de", "Was war Anfang Mai 2022?", "2022-05-01..2022-05-11"),
        ("de", "Was war Mitte Juni?", "2023-06-10..2023-06-21"),
        ("de", "Was war im Sommer?", "2023-06-01..2023-08-31"),
        ("de", "Was war zwischen März und Mai?", "2023-03-01..2023-05-31"),
        ("de", "Was war vom 3. bis 5. Mai?", "2023-05-03..2023-05-05"),
        ("de", "Was will August?", ""),
        ("de", "Was war am 5/8/2022?", "2022-08-05"),
        ("fr", "Où était-il entre mars et mai ?", "2023-03-01..2023-05-31"),
        ("es", "¿Dónde estaba entre marzo y mayo?", "2023-03-01..2023-05-31"),
        ("es", "¿Qué dijo Julio?", ""),
        ("fr", "Où était-il le 1er mai 2022 ?", "2022-05-01"),
        ("fr", "Où était-il en août ?", "2023-08-01..2023-08-31"),
        ("fr", "Où était-il fin mai ?", "2023-05-21..2023-05-31"),
        ("fr", "Où était-il au printemps 2022 ?", "2022-03-01..2022-05-31"),
        ("fr", "Y a-t-il de la vie sur la planète mars ?", ""),
        ("es", "¿Dónde estaba el 8 de mayo de 2022?", "2022-05-08"),
        ("es", "¿Dónde estaba en mayo del 2022?", "2022-05-01..2022-05-31"),
        ("es", "¿Dónde estaba a finales de mayo?", "2023-05-21..2023-05-31"),
        ("es", "¿Dónde estaba en verano?", "2023-06-01..2023-08-31"),
        ("ja", "2023-05-08に何がありましたか", "2023-05-08"),
        ("ja", "What was in May?", ""),
    ],
)
def test_a_question_names_a_period_in_other_languages(language: str, question: str, expected: str) -> None:
    """In the words of German, French and Spanish; elsewhere in figures."""
    assert named_period(question, FIRST, LAST, [language]) == period(expected)


@pytest.mark.parametrize(
    ("language", "question", "expected"),
    [
        ("en", "What did I do yesterday?", "2023-05-09"),
        ("en", "What did I do the day before yesterday?", "2023-05-08"),
        ("en", "What did I do last week?", "2023-04-29..2023-05-07"),
        ("en", "What did I do last month?", "2023-04-01..2023-04-30"),
        ("en", "What did I do last year?", "2022-01-01..2022-12-31"),
        ("en", "What did I do two weeks ago?", "2023-04-24..2023-04-28"),
        ("en", "What do I have this Friday?", "2023-05-12"),
        ("en", "What did I do on Monday?", "2023-05-08"),
        ("en", "What did I do on Wednesday?", "2023-05-10"),
        ("en", "Where was I last summer?", "2022-06-01..2022-08-31"),
        ("en", "Where was I last week in May 2022?", "2022-05-01..2022-05-31"),
        ("en", "What did I just say?", ""),
        ("de", "Was habe ich letzte Woche gemacht?", "2023-04-29..2023-05-07"),
        ("de", "Was war am Montag?", "2023-05-08"),
        ("de", "Was war gestern?", "2023-05-09"),
        ("fr", "Où étais-je la semaine dernière ?", "2023-04-29..2023-05-07"),
        ("es", "¿Qué hice ayer?", "2023-05-09"),
    ],
)
def test_a_question_names_a_period_by_how_it_lies_to_today(language: str, question: str, expected: str) -> None:
    """Seen from the day of the call, here a Wednesday."""
    wednesday = date(2023, 5, 10)
    assert named_period(question, FIRST, LAST, [language], today=wednesday) == period(expected)


@pytest.mark.parametrize(
    ("day", "text", "expected"),
    [
        (date(2023, 5, 10), "this Friday", "2023-05-12"),
        (date(2023, 5, 10), "this Monday", "2023-05-08"),
        (date(2024, 1, 15), "last winter", "2022-12-01..2023-02-28"),
        (date(2024, 1, 15), "this winter", "2023-12-01..2024-02-29"),
        (date(2024, 1, 15), "next winter", "2024-12-01..2025-02-28"),
        (date(2023, 11, 15), "this winter", "2023-12-01..2024-02-29"),
        (date(2023, 7, 15), "last summer", "2022-06-01..2022-08-31"),
        (date(2023, 10, 15), "last summer", "2023-06-01..2023-08-31"),
        (date(2023, 5, 10), "the day before yesterday", "2023-05-08"),
        (date(2023, 5, 10), "the day after tomorrow", "2023-05-12"),
        (date(2023, 5, 10), "on 29 February", "2024-02-29"),
        (date(2023, 5, 10), "on 5/8/2023", "2023-05-08"),
    ],
)
def test_an_utterance_at_the_edges_of_the_calendar(day: date, text: str, expected: str) -> None:
    """This Friday is that of the week, this winter the one that it is, and a leap day is in a leap year."""
    assert mentioned_periods(text, day) == [period(expected)]


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "yesterday; and last night", ["2023-05-07"]),
        ("en", "I am just back", ["2023-05-08"]),
        ("en", "See you tomorrow", ["2023-05-09..2023-05-10"]),
        ("en", "3 days ago", ["2023-05-05"]),
        ("en", "a couple of weeks ago", ["2023-04-22..2023-04-26"]),
        ("en", "two months back", ["2023-02-27..2023-03-19"]),
        ("en", "last week", ["2023-04-27..2023-05-05"]),
        ("en", "this weekend", ["2023-05-05..2023-05-12"]),
        ("en", "next month", ["2023-06-01..2023-06-30"]),
        ("en", "this month", ["2023-05-01..2023-05-31"]),
        ("en", "last year", ["2022-01-01..2022-12-31"]),
        ("en", "last Monday, next Monday, this Friday", ["2023-05-01", "2023-05-12", "2023-05-15"]),
        ("en", "last summer, this spring, next winter", [
            "2022-06-01..2022-08-31", "2023-03-01..2023-05-31", "2023-12-01..2024-02-29",
        ]),
        ("en", "on June 3rd", ["2023-06-03"]),
        ("en", "on 3 June 2021", ["2021-06-03"]),
        ("en", "since March, until December", ["2022-12-01..2022-12-31", "2023-03-01..2023-03-31"]),
        ("en", "June was mild. They may mar it.", []),
        ("en", "in 1999, or on 2023-05-01", ["1999-01-01..1999-12-31", "2023-05-01"]),
        ("de", "gestern und vorgestern", ["2023-05-06", "2023-05-07"]),
        ("de", "vor drei Tagen, am letzten Freitag", ["2023-05-05"]),
        ("de", "nächste Woche im Juni", ["2023-05-11..2023-05-19", "2023-06-01..2023-06-30"]),
        ("fr", "hier, pas avant-hier", ["2023-05-06", "2023-05-07"]),
        ("fr", "il y a deux semaines, vendredi dernier", ["2023-04-22..2023-04-26", "2023-05-05"]),
        ("fr", "l’année prochaine, le 3 juin", ["2023-06-03", "2024-01-01..2024-12-31"]),
        ("es", "anoche, hace tres días, el viernes pasado", ["2023-05-05", "2023-05-07"]),
        ("es", "la semana que viene, en junio", ["2023-05-11..2023-05-19", "2023-06-01..2023-06-30"]),
        ("ja", "昨日 2023-05-01", ["2023-05-01"]),
    ],
)  # fmt: skip
def test_an_utterance_speaks_of_periods(language: str, text: str, expected: list[str]) -> None:
    """Resolved against the day on which it was said; a month without a year is the nearest of that name."""
    assert mentioned_periods(text, MONDAY, [language]) == [period(text) for text in expected]


def test_accents_and_white_space_do_not_matter() -> None:
    """However a keyboard or a line break writes them."""
    assert mentioned_periods("am 1. Ma\u0308rz\n2022", MONDAY, ["de"]) == [period("2022-03-01")]


@given(TIMES, st.dates(), ANY_LANGUAGES)
def test_odd_dates_raise_nothing(text: str, day: date, languages: list[str]) -> None:
    """The 31 of February, the year 0, ten thousand years ago, and the ends of the calendar."""
    for first, last in mentioned_periods(text, day, languages):
        assert first <= last
        assert (last - first).days < MAX_PERIOD_DAYS
    for named in (
        named_period(text, date.min, day, languages, today=day),
        named_period(text, day, date.max, languages),
        named_period(f"between {text} and {text}", day, day, languages, today=date.max),
    ):
        assert named is None or named[0] <= named[1]
    assert isinstance(asks_when(text, languages), bool)
    assert isinstance(has_time_words(text, [], languages), bool)


@pytest.mark.parametrize(
    ("language", "question", "expected"),
    [
        ("en", "When did Ann move?", True),
        ("en", "How long has she lived there?", True),
        ("en", "In which year did they marry?", True),
        ("en", "What did she say when she left?", False),
        ("de", "Seit wann wohnt sie dort?", True),
        ("de", "In welchem Jahr war das?", True),
        ("de", "Wem hat sie das gesagt?", False),
        ("fr", "Quand est-elle partie ?", True),
        ("fr", "En quelle année ?", True),
        ("fr", "Qui est parti ?", False),
        ("es", "¿Cuándo se mudó?", True),
        ("es", "¿Cuántos años vivió allí?", True),
        ("es", "¿Quién se mudó?", False),
        ("ja", "When?", False),
    ],
)
def test_a_question_asks_for_a_time(language: str, question: str, expected: bool) -> None:
    """At its beginning: a "when" later on joins two sentences."""
    assert asks_when(question, [language]) is expected


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "We met on Friday", True),
        ("en", "It has been so since March", True),
        ("en", "In 2021 it was new", True),
        ("en", "I like tea, but not cake", False),
        ("en", "We married on 3 May.", True),
        ("en", "It was on 12 June", True),
        ("en", "It was in early March", True),
        ("en", "It was on 5/8/2023", True),
        ("de", "Das war am 3. Mai.", True),
        ("de", "Das war letzten Sommer", True),
        ("de", "Vor zwei Jahren ging es", True),
        ("de", "Vor dem Haus steht ein Baum", False),
        ("fr", "C'était la semaine dernière", True),
        ("fr", "Il y a un chat", False),
        ("es", "Fue hace dos años", True),
        ("es", "Hace frío", False),
        ("ja", "2021-03-04", True),
    ],
)
def test_an_utterance_is_placed_in_time(language: str, text: str, expected: bool) -> None:
    """By words for times, or by a date."""
    assert has_time_words(text, mentioned_periods(text, MONDAY, [language]), [language]) is expected


def test_who_asks_about_themselves() -> None:
    """Whole words: "mine" is one, and "minute" has it in it."""
    assert is_first_person("What did I say?")
    assert is_first_person("Is that yours or mine?")
    assert not is_first_person("How many minutes did it take?")
    assert is_first_person("Wo ist mein Hund?", ["en", "de"])
    assert not is_first_person("Wo ist mein Hund?", ["en"])
    assert is_first_person("Où est-ce que j’ai mis mon sac ?", ["fr"])
    assert is_first_person("¿Qué dije yo?", ["es"])


def test_a_text_that_ends_in_a_question_mark_is_a_question() -> None:
    """Of any script, and also within quotation marks."""
    assert is_question("Is it? ")
    assert is_question("「そうですか？」")  # noqa: RUF001
    assert is_question('She said: "Is it?"')
    assert not is_question("Is it? Yes.")
    assert not is_question("")


@pytest.mark.thorough
@given(SHORT_PERIODS, SHORT_PERIODS)
def test_periods_share_a_term_exactly_if_they_overlap(said: Period, asked: Period) -> None:
    """To the day while both are short; by months as soon as one is long."""
    exact = max(days(said), days(asked)) <= MAX_EXACT_DAYS
    overlap = overlaps(said, asked) if exact else overlaps(months(said), months(asked))

    assert (not set(day_terms(said)).isdisjoint(period_terms(asked))) == overlap
    assert overlap or not overlaps(said, asked)


@given(SHORT_PERIODS)
def test_terms_of_periods_are_few_and_like_no_word(said: Period) -> None:
    """An index holds them beside words."""
    for terms in (day_terms(said), period_terms(said)):
        assert 0 < len(terms) == len(set(terms)) <= 60
        assert all(re.fullmatch(r"\x02[dlm][0-9]{4}-[0-9]{2}(-[0-9]{2})?", term) for term in terms)
        assert set(terms).isdisjoint(analyse(" ".join(terms), "en"))


def test_a_period_that_says_too_little_has_no_terms() -> None:
    """Nor one whose ends are the wrong way round."""
    decade = (date(2020, 1, 1), date(2029, 12, 31))

    assert day_terms(decade) == period_terms(decade) == []
    assert day_terms((LAST, FIRST)) == period_terms((LAST, FIRST)) == []
    assert day_terms((date(2023, 5, 9), MONDAY)) == period_terms((date(2023, 5, 9), MONDAY)) == []
    assert day_terms((date.max, date.max)) == ["\x02d9999-12-31", "\x02m9999-12"]


def days(period: Period) -> int:
    """How many days `period` has."""
    return (period[1] - period[0]).days + 1


def months(period: Period) -> Period:
    """`period` widened to whole months."""
    first, last = period
    return first.replace(day=1), last.replace(day=calendar.monthrange(last.year, last.month)[1])


def overlaps(one: Period, other: Period) -> bool:
    """Whether the two have a day in common."""
    return one[0] <= other[1] and other[0] <= one[1]
