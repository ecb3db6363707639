"""What a chunk and a heading are found by, and how names are compared."""

from __future__ import annotations

import locale
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from agent_reminiscence.domain.canonical import sha256
from agent_reminiscence.domain.index import ASKS, OF_SELF, QUESTION, STANDING, TIME_WORDS, USER, speaker_term
from agent_reminiscence.domain.said import SaidFrom
from agent_reminiscence.projections.indexed_text import fact_text, heading_text, index_chunk, index_fact, index_heading
from agent_reminiscence.text.days import day_of
from agent_reminiscence.text.folding import fold_name
from agent_reminiscence.text.periods import period_terms
from agent_reminiscence.text.words import analyse

DAY = date(2026, 3, 5)
SAID_AT = datetime(2026, 3, 5, 12, tzinfo=UTC)


def _index(content: str, language: str = "en", speaker_key: str | None = None) -> tuple[int, dict[str, int], int]:
    indexed = index_chunk(content, language=language, said_at=SAID_AT, speaker_key=speaker_key)
    return indexed.words, dict(indexed.terms), indexed.flags


def test_a_chunk_is_found_by_its_terms_and_counted_by_them() -> None:
    """Repeats count, stop words do not."""
    words, terms, flags = _index("The boat is green, and the other boat is not.")

    assert terms == dict(Counter(analyse("boat green boat", "en")))
    assert words == 3
    assert flags == 0


def test_a_chunk_is_found_by_its_speaker_who_is_not_counted() -> None:
    """Whoever asks what Ann said finds what is hers, and a long name weighs no more than a short one."""
    words, terms, _ = _index("The boat is green.", speaker_key="ann of the green gables")

    assert terms == dict(Counter(analyse("boat green", "en"))) | {speaker_term("ann of the green gables"): 1}
    assert words == 2


def test_white_space_around_a_chunk_changes_nothing() -> None:
    """It belongs to the text, and an update may move it from one chunk to the next."""
    assert index_chunk("Ann: Tea.\n\n", language="en", said_at=SAID_AT, speaker_key="ann") == index_chunk(
        "  Ann: Tea.", language="en", said_at=SAID_AT, speaker_key="ann"
    )


def test_relative_times_go_by_the_date_of_their_line() -> None:
    """Of a text whose lines were said on two days; the day that no heading names finds it, too."""
    content = "  We met yesterday.\nWe sail tomorrow.\n"
    later = SAID_AT + timedelta(days=9)
    lines = [SaidFrom(start=0, said_at=SAID_AT), SaidFrom(start=len("We met yesterday.\n"), said_at=later)]

    dated = index_chunk(content, language="en", said_at=SAID_AT, said_lines=lines, speaker_key=None)
    plain = index_chunk(content, language="en", said_at=SAID_AT, speaker_key=None)

    def days(terms: Mapping[str, int]) -> set[str]:
        return {term[2:] for term in terms if term.startswith("\x02d")}

    assert days(plain.terms) == {"2026-03-04", "2026-03-06", "2026-03-07"}
    assert days(dated.terms) == {"2026-03-04", "2026-03-14", "2026-03-15", "2026-03-16"}
    assert (dated.words, dated.flags, dated.text_hash) == (plain.words, plain.flags, plain.text_hash)


def test_a_day_that_a_chunk_speaks_of_finds_it_and_is_not_counted() -> None:
    """What was "yesterday" is a date to whoever asks about that date."""
    words, terms, flags = _index("We met yesterday.")

    assert set(period_terms((date(2026, 3, 4), date(2026, 3, 4)))) & terms.keys()
    assert not set(period_terms((date(2026, 3, 5), date(2026, 3, 5)))) & terms.keys()
    assert words == len(analyse("We met yesterday.", "en"))
    assert flags == TIME_WORDS


@pytest.mark.parametrize(
    ("content", "speaker_key", "expected"),
    [
        ("Where is the key?", None, QUESTION | ASKS),
        ("Where is the key?", "user", QUESTION | USER | ASKS),
        ("User: Remind me where the key is.", "user", USER | ASKS),
        ("Where would you like it?", "assistant", QUESTION | ASKS),
        ("Where is the key?", "ann", QUESTION),
        ("Could you always answer in Spanish?", "user", QUESTION | USER | STANDING),
        ("It is gone. Where is the key?", "user", QUESTION | USER),
        ("Behind the clock.", "user", USER),
        ("I hid it behind the clock.", "user", USER | OF_SELF),
        ("I hid it behind the clock.", "assistant", 0),
        ("Behind the clock.", "ann", 0),
    ],
)
def test_flags_say_what_a_chunk_is(content: str, speaker_key: str | None, expected: int) -> None:
    """A question seldom answers one; what the user says is what "I" asks for."""
    assert _index(content, speaker_key=speaker_key)[2] == expected


def test_a_chunk_is_read_in_its_language() -> None:
    """The same letters are other words elsewhere."""
    assert _index("Die Häuser", "de")[1] == {"haus": 1}
    assert _index("Die Häuser", "en")[1].keys() == {"die", "häuser"}


def test_a_heading_is_the_day_in_english_and_the_title() -> None:
    """The same on every machine: a rebuild elsewhere must give the same terms."""
    indexed = index_heading("Log", DAY, language="en")

    assert heading_text("Log", DAY) == "(5 March 2026) Log"
    assert dict(indexed.terms) == dict(Counter(analyse("5 March 2026 Log", "en")))
    assert indexed.text_hash == sha256(b"(5 March 2026) Log")


def test_the_day_is_the_moments_own_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the machine's, and not the caller's zone."""
    monkeypatch.setattr(locale, "getlocale", lambda *_: ("de_AT", "UTF-8"))
    late = datetime(2026, 12, 31, 23, 30, tzinfo=timezone(timedelta(hours=-2)))

    assert day_of(late) == date(2027, 1, 1)
    assert heading_text("Log", day_of(late)) == "(1 January 2027) Log"


def test_a_fact_says_its_date_itself() -> None:
    """It has no heading and stands beside no others."""
    day = date(2026, 3, 5)
    indexed = index_fact("Ann owns a boat.", day, language="en")

    assert fact_text("Ann owns a boat. ", day) == "(5 March 2026)\nAnn owns a boat."
    assert {"boat", *analyse("March", "en")} <= indexed.terms.keys()
    assert indexed.text_hash == sha256(b"(5 March 2026)\nAnn owns a boat.")


@pytest.mark.parametrize(
    ("name", "folded"),
    [
        ("Ann", "ann"),
        ("  ANN \t MILLER ", "ann miller"),
        ("Zoë", "zoe"),
        ("Zoe\u0308", "zoe"),
        ("STRASSE", "strasse"),
        ("Straße", "strasse"),
        ("\uff21\uff4e\uff4e", "ann"),
        ("Łukasz", "łukasz"),
        ("李雷", "李雷"),
    ],
)
def test_names_are_compared_without_case_marks_and_spaces(name: str, folded: str) -> None:
    """A question spells a name as it comes."""
    assert fold_name(name) == folded
    assert fold_name(folded) == folded
