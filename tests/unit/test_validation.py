"""Checks of arguments that acceptance tests cannot reach one by one: copies, spellings, and any JSON at all."""

from __future__ import annotations

from collections import UserDict
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_reminiscence import InvalidInputError
from agent_reminiscence.domain.trust import SOURCE_TRUST, SOURCES, least_trusted
from agent_reminiscence.services import validation

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=50, deadline=None)
@given(value=st.dictionaries(st.text(max_size=5), JSON, max_size=3))
def test_any_json_object_is_taken(value: dict[str, Any]) -> None:
    """As a copy that is equal; what jsonb has no room for is replaced when secrets are."""
    taken = validation.metadata(value)

    assert taken == value
    assert taken is not value


@settings(deadline=None)
@given(
    value=st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.lists(st.text()))
)
def test_whatever_is_passed_the_answer_is_a_value_or_a_refusal(value: object) -> None:
    """No check lets an error of Python's own through."""
    checks = (
        validation.external_id, validation.title, validation.content, validation.description, validation.query,
        validation.metadata, validation.source, validation.tiers, validation.memory_id, validation.event_kind,
        lambda given: validation.memory_metadata({"turns": [{"start": given, "speaker": given}]}, "some text"),
        lambda given: validation.moment("at", given),
        lambda given: validation.share("share", given),
        lambda given: validation.whole_number("number", given, minimum=0, maximum=9),
    )  # fmt: skip
    for check in checks:
        with suppress(InvalidInputError):
            check(value)


def test_mappings_and_tuples_become_json() -> None:
    """Any mapping and any tuple will do; what comes back is dict and list."""
    taken = validation.metadata(UserDict({"a": (1, UserDict({"b": ()}))}))

    assert taken == {"a": [1, {"b": []}]}
    assert type(taken["a"][1]) is dict


@pytest.mark.parametrize("spelling", [str, lambda known: known, lambda known: known.hex, lambda known: known.urn])
def test_a_memory_id_is_taken_in_each_of_its_spellings(spelling: Any) -> None:
    """As an object, with hyphens, without, or as a URN."""
    known = UUID("01234567-89ab-7def-8123-456789abcdef")

    assert validation.memory_id(spelling(known)) == known


class _Sometimes(tzinfo):
    """A zone that knows no offset."""

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        return None

    def dst(self, moment: datetime | None) -> timedelta | None:
        return None

    def tzname(self, moment: datetime | None) -> str | None:
        return None


def test_a_time_keeps_its_moment_in_any_zone() -> None:
    """Zones with names, with odd offsets, and both sides of a change to winter time."""
    for moment in (
        datetime(2026, 3, 5, 9, 30, tzinfo=ZoneInfo("Europe/Vienna")),
        datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Vienna")),
        datetime(2026, 3, 5, 9, 30, 1, 7, tzinfo=timezone(timedelta(hours=5, minutes=45))),
    ):
        taken = validation.moment("at", moment)
        assert taken.timestamp() == moment.timestamp()
        assert taken.microsecond == moment.microsecond

    with pytest.raises(InvalidInputError, match="at '2026-03-05T00:00:00' has no time zone"):
        validation.moment("at", datetime(2026, 3, 5, tzinfo=_Sometimes()))


@pytest.mark.parametrize(
    ("moment", "hours"),
    [(datetime.min.replace(tzinfo=UTC), 12), (datetime.max.replace(tzinfo=UTC), -12)],
    ids=["first", "last"],
)
def test_a_time_beyond_the_calendar_in_utc_is_refused(moment: datetime, hours: int) -> None:
    """Such a moment has no spelling that both PostgreSQL and Python can read back."""
    assert validation.moment("at", moment) == moment
    with pytest.raises(InvalidInputError, match="at '"):
        validation.moment("at", moment.replace(tzinfo=timezone(timedelta(hours=hours))))


def test_tiers_come_back_in_order_and_once() -> None:
    """However they were given."""
    assert validation.tiers(["longterm", "active", "longterm"]) == ["active", "longterm"]
    assert validation.tiers(None) == ["active", "shortterm", "longterm"]


def test_a_refused_value_is_shown_in_part() -> None:
    """A message names the value and stays a line, however long the value is."""
    with pytest.raises(InvalidInputError) as refused:
        validation.source("x" * 10_000)

    assert len(str(refused.value)) < 200


def test_the_least_trusted_label_wins() -> None:
    """What is derived is trusted as its weakest source; the order of labels is that of their trust."""
    assert least_trusted(["user", "model", "tool"]) == "model"
    assert least_trusted(["agent", "user"]) == "agent"
    assert least_trusted([]) == "user"
    assert [SOURCE_TRUST[label] for label in SOURCES] == sorted(SOURCE_TRUST.values(), reverse=True)
