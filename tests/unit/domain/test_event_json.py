"""Events as JSON and back."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.event_json import read_event, write_event
from agent_reminiscence.domain.trust import SOURCES
from agent_reminiscence.exceptions import InvalidInputError
from tests.support.ledger_events import make_event

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
ZONES = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
TIMES = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=ZONES)  # noqa: DTZ001 - zones are drawn
EVENTS = st.builds(
    Event,
    external_id=TEXT,
    event_id=st.uuids(),
    kind=TEXT,
    payload=st.dictionaries(TEXT, JSON, max_size=4),
    occurred_at=TIMES,
    source=st.sampled_from(SOURCES),
    actor=st.none() | TEXT,
    conversation_id=st.none() | TEXT,
    turn=st.none() | st.integers(),
    idempotency_key=st.none() | TEXT,
    request_hash=st.none() | st.binary(),
    position=st.integers(),
    recorded_at=TIMES,
    salt=st.none() | st.binary(),
    digest=st.binary(),
    chain=st.binary(),
)


@settings(max_examples=50)
@given(EVENTS)
def test_what_is_written_is_read_as_it_was(event: Event) -> None:
    """Every field, and the offsets of its times."""
    read = read_event(write_event(event))

    assert read == event
    assert (read.occurred_at.utcoffset(), read.recorded_at.utcoffset()) == (
        event.occurred_at.utcoffset(),
        event.recorded_at.utcoffset(),
    )


@pytest.mark.parametrize(
    "payload",
    [
        {"at": timedelta(1)},
        {"of": (1, 2)},
        {"by": {1: "one"}},
        {"is": float("nan")},
        {"is": float("inf")},
        {"a": "\ud800"},
    ],
)
def test_what_would_come_back_as_something_else_is_refused(payload: dict[str, Any]) -> None:
    """The message names the event and does not quote it."""
    event = make_event(7).model_copy(update={"payload": payload | {"text": "the miller hides a key"}})

    with pytest.raises(InvalidInputError, match=f"the payload of event {event.event_id} is not JSON") as refused:
        write_event(event)
    assert "miller" not in str(refused.value)


@pytest.mark.parametrize("cut", [0, 1, 40, -1])
@pytest.mark.parametrize("text", [write_event(make_event(7, "the miller hides a key")), "[]", '{"kind": "secret"}'])
def test_what_is_no_event_is_refused_without_quoting_it(text: str, cut: int) -> None:
    """Rows of somebody else's store may be anything."""
    with pytest.raises(ValueError, match=r"is not JSON|is not a JSON object|is not an event") as refused:
        read_event(text[:cut])
    assert "miller" not in str(refused.value)
    assert refused.value.__cause__ is None
