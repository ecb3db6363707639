"""What somebody typed, as values."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from agent_reminiscence import InvalidInputError
from agent_reminiscence.server.inspector.fields import Fields
from agent_reminiscence.server.inspector.rendering import address


def test_a_json_object_has_each_key_once() -> None:
    """Of two values for one key, nobody knows which was meant."""
    assert Fields([("metadata", '{"a": 1, "b": {"a": 2}}')]).json_object("metadata") == {"a": 1, "b": {"a": 2}}
    with pytest.raises(InvalidInputError, match="metadata: an object has the key 'a' twice"):
        Fields([("metadata", '{"b": {"a": 1, "a": 1}}')]).json_object("metadata")


def test_blank_is_missing() -> None:
    """A form sends every field."""
    given = Fields([("a", "  "), ("b", "")])
    read = [given.text("a"), given.number("a"), given.moment("b"), given.words("b"), given.many("b"), given.uuid("a")]
    assert read == [None] * len(read)
    assert given.number("a", 7) == 7
    assert not given.flag("a")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("2025-03-01", datetime(2025, 3, 1, tzinfo=UTC)),
        ("2025-03-01T12:30", datetime(2025, 3, 1, 12, 30, tzinfo=UTC)),
        ("2025-03-01 12:30", datetime(2025, 3, 1, 12, 30, tzinfo=UTC)),
        ("2025-03-01T12:30:00+02:00", datetime(2025, 3, 1, 12, 30, tzinfo=timezone(timedelta(hours=2)))),
        # As it arrives if nobody escaped the plus.
        ("2025-03-01T12:30:00 02:00", datetime(2025, 3, 1, 12, 30, tzinfo=timezone(timedelta(hours=2)))),
        ("2025-03-01T12:30:00Z", datetime(2025, 3, 1, 12, 30, tzinfo=UTC)),
    ],
)
def test_a_time_without_a_zone_is_utc(typed: str, meant: datetime) -> None:
    """As all times that are shown."""
    assert Fields([("at", typed)]).moment("at") == meant


@pytest.mark.parametrize("typed", ["soon", "2025-13-01", "1", "2025-03-01T99:00", "2025-03-01T12:30 x"])
def test_what_is_no_time_is_named(typed: str) -> None:
    """With a time that would be one."""
    with pytest.raises(InvalidInputError, match="at must be a time"):
        Fields([("at", typed)]).moment("at")


def test_lists_are_typed_with_commas_and_ticked_as_boxes() -> None:
    """Both are lists."""
    given = Fields([("actors", "a, b,,"), ("sources", "user"), ("sources", "tool")])
    assert given.words("actors") == ["a", "b"]
    assert given.many("sources") == ["user", "tool"]


def test_a_text_is_taken_as_it_was_typed_but_for_the_ends_of_its_lines() -> None:
    """Browsers send two characters for each."""
    given = Fields([("text", " a\r\nb ")])
    assert given.verbatim("text") == " a\nb "
    assert Fields([("text", " \r\n ")]).verbatim("text") is None


def test_an_address_keeps_what_is_not_changed() -> None:
    """So a link to the next page keeps the filter."""
    given = Fields([("q", "a&b"), ("before", "7"), ("kind", "x"), ("kind", "y"), ("empty", "")])
    assert address("/ledger", given, before=3) == "/ledger?q=a%26b&kind=x&kind=y&before=3"
    assert address("/ledger", given, before=None, q=None, kind=None) == "/ledger"
