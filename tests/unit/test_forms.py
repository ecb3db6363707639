"""The three texts that a chunk is indexed with, and how names are compared."""

from __future__ import annotations

import locale
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest

from agent_reminiscence.projections.forms import PlacedChunk, fold_name, indexed_forms, neighbourhood

DAY = datetime(2026, 3, 5, tzinfo=UTC)
CHUNKS = [PlacedChunk(UUID(int=number), f"passage {number}\n\n", DAY) for number in range(6)]
HEADING = "(5 March 2026) Log"


def test_a_chunk_is_indexed_alone_with_what_led_to_it_and_with_what_surrounds_it() -> None:
    """Two passages each way, in the order of the text, below date and title."""
    forms = indexed_forms("Log", CHUNKS, 3)

    assert forms.text == f"{HEADING}\npassage 3"
    assert forms.before == f"{HEADING}\npassage 1\npassage 2\npassage 3"
    assert forms.around == f"{HEADING}\npassage 1\npassage 2\npassage 3\npassage 4\npassage 5"


def test_windows_end_where_the_text_ends() -> None:
    """The first chunk has nothing before it, the last nothing behind it."""
    first, last = indexed_forms("Log", CHUNKS, 0), indexed_forms("Log", CHUNKS, 5)

    assert first.before == first.text == f"{HEADING}\npassage 0"
    assert first.around == f"{HEADING}\npassage 0\npassage 1\npassage 2"
    assert last.around == last.before == f"{HEADING}\npassage 3\npassage 4\npassage 5"


def test_the_date_is_the_chunks_own_in_utc_and_in_english(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same on every machine: a rebuild elsewhere must give the same text."""
    monkeypatch.setattr(locale, "getlocale", lambda *_: ("de_AT", "UTF-8"))
    late = datetime(2026, 12, 31, 23, 30, tzinfo=timezone(timedelta(hours=-2)))

    forms = indexed_forms("Log", [PlacedChunk(UUID(int=1), "x", late)], 0)

    assert forms.text == "(1 January 2027) Log\nx"


def test_a_neighbourhood_is_what_the_windows_hold() -> None:
    """A chunk's forms change exactly when this changes."""
    ids = [chunk.chunk_id for chunk in CHUNKS]

    assert neighbourhood(ids, 0) == ((), (ids[1], ids[2]))
    assert neighbourhood(ids, 3) == ((ids[1], ids[2]), (ids[4], ids[5]))
    assert neighbourhood(ids, 5) == ((ids[3], ids[4]), ())


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
