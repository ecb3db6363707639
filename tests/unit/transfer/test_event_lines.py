"""Events as a file of JSON Lines, read and written without a memory."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_reminiscence import Event, InvalidInputError, read_events, write_events
from agent_reminiscence.services.transfer.event_writer import EventFileWriter
from agent_reminiscence.testing import make_event

EVENTS = [
    make_event("agent.spoke", "Brötchen für Mara", "odo", 1, position=3),
    make_event("dice.rolled", {"sides": 10**30, "share": 0.1, "of": [1.5e300, None, True]}, position=7),
    # As an erasure leaves one.
    make_event("agent.thought", {}, position=5).model_copy(update={"salt": None}),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that is not there yet."""
    return tmp_path / "events.jsonl"


def test_what_is_written_is_read_in_the_order_given(path: Path) -> None:
    """Bytes, large numbers and events out of order, and nobody else may read the file."""
    assert write_events(path, EVENTS) == 3
    assert list(read_events(path)) == EVENTS
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("event", EVENTS)
def test_an_event_is_json_by_its_own_methods(path: Path, event: Event) -> None:
    """`model_dump_json` and `model_dump` give lines that are read by the model and as a file."""
    text = event.model_dump_json()
    path.write_text(f"{text}\n\n{text}")

    assert Event.model_validate_json(text) == event
    assert Event.model_validate(event.model_dump(mode="json")) == event
    assert list(read_events(path)) == [event, event]


@pytest.mark.parametrize("name", ["events.jsonl", "events.jsonl.zst"])
def test_an_export_is_read_too(tmp_path: Path, name: str) -> None:
    """Compressed or not; its header and footer are no events."""
    path = tmp_path / name
    events = [make_event("agent.spoke", f"Sack {number}", position=number) for number in (1, 2, 3)]
    with EventFileWriter(path, "test", 3, is_plain=not name.endswith(".zst")) as writer:
        writer.write(events)

    assert list(read_events(path)) == events

    path.write_bytes(path.read_bytes().replace(b"Sack 2", b"Sack 9")[:-1])
    with pytest.raises(InvalidInputError, match="copy or export it again"):
        list(read_events(path))


def test_a_file_that_exists_is_replaced_only_when_asked(path: Path) -> None:
    """A fixture is not lost by a second run."""
    write_events(path, EVENTS)
    with pytest.raises(InvalidInputError, match="exists; choose another path"):
        write_events(path, [])
    assert len(list(read_events(path))) == 3

    assert write_events(path, [], overwrite=True) == 0
    assert list(read_events(path)) == []


def test_a_file_appears_whole_or_not_at_all(path: Path) -> None:
    """Whatever ends the writing, nothing is left beside it either."""

    def failing() -> Iterator[Event]:
        yield EVENTS[0]
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        write_events(path, failing())
    with pytest.raises(InvalidInputError, match=r"number 2 is dict"):
        write_events(path, [EVENTS[0], EVENTS[1].model_dump()])  # type: ignore[list-item]
    for events in (None, EVENTS[0], 7):
        with pytest.raises(InvalidInputError, match="events must be several Event objects"):
            write_events(path, events)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="is not JSON: it may hold only"):
        write_events(path, [EVENTS[0].model_copy(update={"payload": {"at": (1, 2)}})])
    with pytest.raises(InvalidInputError, match=r"call it .*events\.jsonl, or use admin\.export"):
        write_events(path.with_suffix(".jsonl.zst"), EVENTS)
    assert list(path.parent.iterdir()) == []


_LINE = EVENTS[0].model_dump_json()


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"the mill", "is not JSON"),
        (b'["the mill"]', "is not a JSON object"),
        (b"\xff\xfe", "is not UTF-8"),
        (_LINE.replace('"digest":"', '"digest":"zz').encode(), "is not an event: wrong or missing digest"),
        (_LINE.replace('"position":3', '"position":"the mill"').encode(), "is not an event: wrong or missing position"),
        (_LINE.replace('{"external_id"', '{"the mill"').encode(), "is not an event: wrong or missing external_id"),
        (f'{_LINE[:-1]},"the mill":1}}'.encode(), "has fields that an event does not have"),
        (_LINE.replace('"text":', '"n":NaN,"text":').encode(), "is not JSON"),
        (_LINE.replace('"text":', '"n":1e999,"text":').encode(), "is not JSON"),
        (_LINE.replace("00Z", "00").encode(), "has no offset from UTC in occurred_at and recorded_at"),
    ],
)
def test_a_line_that_is_no_event_is_named_and_not_quoted(path: Path, line: bytes, problem: str) -> None:
    """The events before it were returned by then."""
    path.write_bytes(f"{_LINE}\n".encode() + line + b"\n")

    events = read_events(path)
    assert next(events) == EVENTS[0]
    with pytest.raises(InvalidInputError, match=f"line 2 {problem}") as refused:
        next(events)
    assert "mill" not in str(refused.value).removeprefix(str(path))


def test_a_file_that_cannot_be_read_is_named_at_once(tmp_path: Path) -> None:
    """Not only when the first event is asked for."""
    with pytest.raises(InvalidInputError, match=r"none\.jsonl cannot be read: No such file"):
        read_events(tmp_path / "none.jsonl")
    with pytest.raises(InvalidInputError, match="cannot be read: Is a directory"):
        read_events(tmp_path)
    with pytest.raises(InvalidInputError, match="path must be"):
        read_events(7)  # type: ignore[arg-type]
