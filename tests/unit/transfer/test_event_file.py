from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from backports import zstd
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.trust import SOURCES
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.services.transfer import event_file, event_reader
from agent_reminiscence.services.transfer.event_file import EventFileHeader
from agent_reminiscence.services.transfer.event_reader import EventFileReader
from agent_reminiscence.services.transfer.event_writer import EventFileWriter

_PAGE = Path(__file__).parents[3] / "docs" / "guide" / "export.md"
_NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)
_SECRET = "the key lies under the third flowerpot"  # what no message may repeat
_SEAL_BYTES = 40

# All that PostgreSQL can hold: Unicode without NUL and without half surrogate pairs.
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=2**63, max_value=10**400)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=10,
)
ZONES = st.sampled_from([UTC, timezone(timedelta(hours=14)), timezone(timedelta(hours=-9, minutes=-30))])
MOMENTS = st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31), timezones=ZONES)  # noqa: DTZ001 - zones are added


@st.composite
def _streams(draw: st.DrawFn) -> list[Event]:
    external_id = draw(st.sampled_from(["agent-1", "агент 💡", "7"]))
    return [
        draw(
            st.builds(
                Event,
                external_id=st.just(external_id),
                event_id=st.uuids(),
                kind=TEXT,
                payload=st.dictionaries(TEXT, JSON, max_size=4),
                occurred_at=MOMENTS,
                source=st.sampled_from(SOURCES),
                actor=st.none() | TEXT,
                conversation_id=st.none() | TEXT,
                turn=st.none() | st.integers(0, 2**31 - 1),
                idempotency_key=st.none() | TEXT,
                request_hash=st.none() | st.binary(max_size=32),
                position=st.just(position),
                recorded_at=MOMENTS,
                salt=st.none() | st.binary(max_size=16),
                digest=st.binary(max_size=32),
                chain=st.binary(max_size=32),
            )
        )
        for position in range(1, draw(st.integers(0, 5)) + 1)
    ]


def _event(position: int = 1, **changes: Any) -> Event:
    defaults: dict[str, Any] = {
        "external_id": "agent-1",
        "event_id": UUID(int=position),
        "kind": "world.observed",
        "payload": {"text": f"{_SECRET}, number {position}", "share": 0.1},
        "occurred_at": _NOON,
        "source": "agent",
        "position": position,
        "recorded_at": _NOON + timedelta(microseconds=position),
        "salt": bytes([position % 256]) * 16,
        "digest": hashlib.sha256(b"digest %d" % position).digest(),
        "chain": hashlib.sha256(b"chain %d" % position).digest(),
    }
    return Event(**(defaults | changes))


def _write(path: Path, events: Sequence[Event], *, external_id: str = "agent-1", overwrite: bool = False) -> Path:
    with EventFileWriter(path, external_id, len(events), overwrite=overwrite, exported_at=_NOON) as writer:
        writer.write(events)
    return path


def _read(path: Path, size: int = 500) -> list[Event]:
    with EventFileReader(path) as reader:
        reader.check()
        return [event for batch in reader.batches(size) for event in batch]


def _lines(path: Path) -> list[dict[str, Any]]:
    """The documents of a file, read by nothing of ours."""
    return [json.loads(line) for line in zstd.decompress(path.read_bytes()).splitlines()]


def _sealed(frame: bytes) -> bytes:
    """A zstd frame with its seal, made by nothing of ours."""
    return frame + bytes.fromhex("502a4d18 20000000") + hashlib.sha256(frame).digest()


def _packed(*lines: object) -> bytes:
    """A whole file of `lines`: bytes as they are, all else as JSON."""
    spelled = [line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines]
    return _sealed(zstd.compress(b"".join(spelled)))


def _honest(*lines: dict[str, Any]) -> bytes:
    """A whole file of a header and events, with a footer that fits them."""
    text = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    chain = lines[-1].get("chain", "")
    return _packed(text, {"events": len(lines) - 1, "chain": chain, "sha256": hashlib.sha256(text).hexdigest()})


def _events_or_error(path: Path) -> list[Event] | str:
    """The events, or the message with which they are refused."""
    try:
        return _read(path)
    except InvalidInputError as error:
        return str(error)


def _refusal(path: Path) -> str:
    """The message with which a file is refused, after what every message must keep to."""
    with pytest.raises(InvalidInputError) as caught, EventFileReader(path) as reader:
        reader.check()
    message = str(caught.value)
    assert message.startswith(str(path))
    assert _SECRET not in message
    return message.removeprefix(str(path))


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A file of two events."""
    return _write(tmp_path / "small.jsonl.zst", [_event(1), _event(2)])


# What comes back ------------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(events=_streams(), size=st.integers(1, 4))
def test_events_come_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, events: list[Event], size: int
) -> None:
    """Every field, number, text and moment; `repr` also tells 1 from 1.0 and from True, which are equal."""
    external_id = events[0].external_id if events else "агент 💡"
    path = _write(tmp_path_factory.mktemp("export") / "file", events, external_id=external_id)

    found = _read(path, size)

    assert found == events
    assert [repr(event.payload) for event in found] == [repr(event.payload) for event in events]
    assert {event.occurred_at.tzinfo for event in found} <= {UTC}


@pytest.mark.parametrize(
    "number", [0.1, 1e-7, 5e-324, 1.7976931348623157e308, 1e22, 2**53 + 1, 10**30, -1, 1.0, 0, -0.0]
)
def test_a_number_keeps_its_value_and_its_kind(tmp_path: Path, number: float) -> None:
    """A digest is computed over the spelling of the value, so the last bit counts."""
    [found] = _read(_write(tmp_path / "file", [_event(payload={"number": number})]))

    assert repr(found.payload["number"]) == repr(number)


def test_an_empty_stream_is_a_file_too(tmp_path: Path) -> None:
    """Head 0: a header, and a footer with the empty chain."""
    path = _write(tmp_path / "file", [])

    with EventFileReader(path) as reader:
        assert reader.check().head == 0
        assert list(reader.batches()) == []
    assert _lines(path)[-1]["chain"] == ""


def test_the_header_says_whose_events_and_how_many(small: Path) -> None:
    """What an import decides by before it writes anything."""
    with EventFileReader(small) as reader:
        header = reader.check()

    assert header == EventFileHeader(
        version=1, external_id="agent-1", head=2, exported_at=_NOON, package_version=header.package_version
    )
    assert header.package_version[0].isdigit()


def test_a_file_is_what_its_documentation_says(small: Path) -> None:
    """Whoever reads it without this package relies on names, order and spellings."""
    header, first, _, footer = _lines(small)

    assert {**header, "package_version": ""} == {
        "format": "agent_reminiscence.events",
        "version": 1,
        "external_id": "agent-1",
        "head": 2,
        "exported_at": "2024-03-01T12:00:00.000000+00:00",
        "package_version": "",
    }
    assert first == {
        "external_id": "agent-1",
        "event_id": "00000000-0000-0000-0000-000000000001",
        "kind": "world.observed",
        "payload": {"text": f"{_SECRET}, number 1", "share": 0.1},
        "occurred_at": "2024-03-01T12:00:00.000000+00:00",
        "source": "agent",
        "actor": None,
        "conversation_id": None,
        "turn": None,
        "idempotency_key": None,
        "request_hash": None,
        "position": 1,
        "recorded_at": "2024-03-01T12:00:00.000001+00:00",
        "salt": "01" * 16,
        "digest": hashlib.sha256(b"digest 1").hexdigest(),
        "chain": hashlib.sha256(b"chain 1").hexdigest(),
    }
    content = zstd.decompress(small.read_bytes())
    before_footer = content[: content.rindex(b"\n", 0, -1) + 1]
    assert footer == {
        "events": 2,
        "chain": hashlib.sha256(b"chain 2").hexdigest(),
        "sha256": hashlib.sha256(before_footer).hexdigest(),
    }
    frame = small.read_bytes()[:-_SEAL_BYTES]
    assert small.read_bytes() == _sealed(frame)
    assert frame[4] & 0b100, "the frame carries zstd's own checksum"


def test_the_page_lists_every_field_of_an_event() -> None:
    """A new field of an event is a new version of the format, and belongs into its description."""
    section = _PAGE.read_text(encoding="utf-8").partition("### An event")[2].partition("\n### ")[0]
    rows = [line.split("`")[1] for line in section.splitlines() if line.startswith("| `")]

    assert rows == list(Event.model_fields)


def test_text_is_not_escaped(tmp_path: Path) -> None:
    """The file can be searched with grep; only line breaks and other control characters are escaped."""
    text = "Zürich 東京 💡 \u2028 \x85 \r\n\t\x1f"
    path = _write(tmp_path / "file", [_event(payload={"text": text})])

    content = zstd.decompress(path.read_bytes())

    assert "Zürich 東京 💡 \u2028 \x85 \\r\\n\\t\\u001f".encode() in content
    assert content.count(b"\n") == 3
    assert _read(path)[0].payload["text"] == text


def test_batches_are_full_but_for_the_last(tmp_path: Path) -> None:
    """A caller writes one batch at a time and sizes it for its database."""
    path = _write(tmp_path / "file", [_event(position) for position in range(1, 8)])

    with EventFileReader(path) as reader:
        reader.check()
        assert [[event.position for event in batch] for batch in reader.batches(3)] == [[1, 2, 3], [4, 5, 6], [7]]
        assert sum(map(len, reader.batches(7))) == 7, "a second iteration begins anew"


# Damage ---------------------------------------------------------------------------------------------------------------


def test_a_flipped_byte_anywhere_is_found(small: Path) -> None:
    """Each single bit of each byte, and all its bits at once, the seal included."""
    whole = small.read_bytes()
    accepted = []
    for index in range(len(whole)):
        for mask in (1, 2, 4, 8, 16, 32, 64, 128, 255):
            damaged = bytearray(whole)
            damaged[index] ^= mask
            small.write_bytes(damaged)
            if not isinstance(_events_or_error(small), str):
                accepted.append((index, mask))
    assert accepted == []


def test_a_flipped_byte_under_a_new_seal_changes_no_event_and_breaks_no_reader(small: Path) -> None:
    """Behind the seal stand zstd's checksum and the footer; an error of another class would be a crash."""
    whole = small.read_bytes()
    events = _read(small)
    for index in range(len(whole) - _SEAL_BYTES):
        for mask in (1, 2, 4, 8, 16, 32, 64, 128):
            damaged = bytearray(whole[:-_SEAL_BYTES])
            damaged[index] ^= mask
            small.write_bytes(_sealed(bytes(damaged)))
            found = _events_or_error(small)
            assert found == events if isinstance(found, list) else _SECRET not in found


def test_a_file_cut_off_anywhere_is_refused(small: Path) -> None:
    """At every length, as a broken copy leaves it; also where the rest gets a seal of its own."""
    whole = small.read_bytes()
    for length in range(len(whole)):
        small.write_bytes(whole[:length])
        _refusal(small)
    for length in range(len(whole) - _SEAL_BYTES):
        small.write_bytes(_sealed(whole[:length]))
        _refusal(small)


@pytest.mark.parametrize("tail", [b"\n", b"\x00", b"garbage" * 100, bytes.fromhex("502a4d1800000000")])
def test_bytes_behind_the_seal_are_refused(small: Path, tail: bytes) -> None:
    """Even where zstd would skip them."""
    small.write_bytes(small.read_bytes() + tail)

    assert "does not end with the seal" in _refusal(small)


def test_files_put_together_are_refused(small: Path) -> None:
    """zstd joins frames without a word; the second half would be lost or read twice."""
    whole = small.read_bytes()
    frame = whole[:-_SEAL_BYTES]

    small.write_bytes(whole + whole)
    assert "damaged" in _refusal(small)
    for parts in (whole + frame, frame + frame, whole[-_SEAL_BYTES:] + frame, frame + b"\x00"):
        small.write_bytes(_sealed(parts))
        _refusal(small)


def test_a_changed_external_id_under_a_new_seal_is_refused(small: Path) -> None:
    """The footer holds the sum of all lines, so no line can be changed alone."""
    content = zstd.decompress(small.read_bytes())
    header, rest = content.split(b"\n", 1)

    small.write_bytes(_packed(header.replace(b'"agent-1"', b'"agent-2"') + b"\n" + rest))
    assert "line 2 belongs to a different external_id" in _refusal(small)

    small.write_bytes(_packed(content.replace(b'"agent-1"', b'"agent-2"')))
    assert "line 4 has a different sha256 than the lines before it" in _refusal(small)


def test_the_header_of_an_empty_stream_cannot_be_changed_alone(tmp_path: Path) -> None:
    """There the footer is all that stands behind it."""
    path = _write(tmp_path / "file", [])
    path.write_bytes(_packed(zstd.decompress(path.read_bytes()).replace(b'"agent-1"', b'"agent-2"')))

    assert "line 2 has a different sha256 than the lines before it" in _refusal(path)


# Files that contradict themselves or the format -----------------------------------------------------------------------

Tamper = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("tamper", "problem"),
    [
        (lambda header: header.update(format="other.events"), "is not an export of agent_reminiscence"),
        (lambda header: header.update(version="1"), "line 1 has no format version"),
        (lambda header: header.update(version=True), "line 1 has no format version"),
        (lambda header: header.update(version=0), "line 1 has no format version"),
        (lambda header: header.pop("head"), "line 1 is not a header"),
        (lambda header: header.update(more=1), "line 1 is not a header"),
        (lambda header: header.update(head=True), "line 1 is not a header"),
        (lambda header: header.update(head=-1), "line 1 is not a header"),
        (lambda header: header.update(external_id=""), "line 1 is not a header"),
        (lambda header: header.update(external_id=7), "line 1 is not a header"),
        (lambda header: header.update(exported_at="2024-03-01"), "line 1 is not a header"),
        (lambda header: header.update(exported_at="0001-01-01T00:00:00.000000+05:00"), "line 1 is not a header"),
        (lambda header: header.update(package_version=None), "line 1 is not a header"),
        (lambda header: header.update(head=1), "line 3 is not the footer, which must follow 1 events"),
        (lambda header: header.update(head=3), "line 4 does not have the fields of an event"),
        (lambda header: header.update(head=10**30), "line 4 does not have the fields of an event"),
    ],
)
def test_a_wrong_header_is_refused(small: Path, tamper: Tamper, problem: str) -> None:
    """Also under a footer and a seal that fit it."""
    header, *events, _ = _lines(small)
    tamper(header)
    small.write_bytes(_honest(header, *events))

    assert problem in _refusal(small)


def test_a_newer_version_asks_for_an_update(small: Path) -> None:
    """Whatever else its header and its lines hold, the reader must not call it damaged."""
    small.write_bytes(_packed({"format": "agent_reminiscence.events", "version": 2, "new": 1}, b"new\n"))

    message = _refusal(small)

    assert "was written by a newer release" in message
    assert message.endswith("update agent-reminiscence")


@pytest.mark.parametrize(
    ("tamper", "problem"),
    [
        (lambda event: event.pop("salt"), "does not have the fields of an event"),
        (lambda event: event.update({_SECRET: 1}), "does not have the fields of an event"),
        (lambda event: event.update(position=1), "is event 1, expected 2"),
        (lambda event: event.update(position=3), "is event 3, expected 2"),
        (lambda event: event.update(position="2"), "has a wrong position"),
        (lambda event: event.update(position=2.0), "has a wrong position"),
        (lambda event: event.update(position=True), "has a wrong position"),
        (lambda event: event.update(payload=[_SECRET]), "has a wrong payload"),
        (lambda event: event.update(payload=_SECRET), "has a wrong payload"),
        (lambda event: event.update(kind=None, turn=_SECRET), "has a wrong kind, turn"),
        (lambda event: event.update(source=_SECRET), "has a wrong source"),
        (lambda event: event.update(chain=None), "has a wrong chain"),
        (lambda event: event.update(salt="AB"), "has a wrong salt"),
        (lambda event: event.update(salt="a b"), "has a wrong salt"),
        (lambda event: event.update(salt=_SECRET), "has a wrong salt"),
        (lambda event: event.update(digest=7), "has a wrong digest"),
        (lambda event: event.update(event_id=_SECRET), "has a wrong event_id"),
        (lambda event: event.update(event_id=event["event_id"].replace("-", "")), "has a wrong event_id"),
        (lambda event: event.update(occurred_at=0), "has a wrong occurred_at"),
        (lambda event: event.update(occurred_at="2024-03-01T12:00:00.000000"), "has a wrong occurred_at"),
        (lambda event: event.update(occurred_at="2024-03-01T12:00:00+00:00"), "has a wrong occurred_at"),
        (lambda event: event.update(recorded_at="2024-03-01T13:00:00.000000+01:00"), "has a wrong recorded_at"),
        (lambda event: event.update(recorded_at="9999-12-31T23:59:59.000000-05:00"), "has a wrong recorded_at"),
    ],
)
def test_a_wrong_event_is_refused(small: Path, tamper: Tamper, problem: str) -> None:
    """Nothing is bent into shape: one spelling for each value, and none of its text in the message."""
    header, first, second, _ = _lines(small)
    tamper(second)
    small.write_bytes(_honest(header, first, second))

    assert f"line 3 {problem}" in _refusal(small)


@pytest.mark.parametrize(
    ("tamper", "problem"),
    [
        (lambda footer: footer.update(events=1), "has a different event count than the header"),
        (lambda footer: footer.update(events=2.0), "has a different event count than the header"),
        (lambda footer: footer.update(chain=""), "has a different chain than the last event"),
        (lambda footer: footer.update(sha256="0" * 64), "has a different sha256 than the lines before it"),
        (
            lambda footer: footer.update(sha256=footer["sha256"].upper()),
            "has a different sha256 than the lines before it",
        ),
        (lambda footer: footer.pop("sha256"), "is not the footer"),
        (lambda footer: footer.update(more=1), "is not the footer"),
    ],
)
def test_a_wrong_footer_is_refused(small: Path, tamper: Tamper, problem: str) -> None:
    """It is what makes a whole file of whole lines."""
    *lines, footer = _lines(small)
    text = zstd.decompress(small.read_bytes())
    tamper(footer)
    small.write_bytes(_packed(text[: text.rindex(b"\n", 0, -1) + 1], footer))

    assert f"line {len(lines) + 1} {problem}" in _refusal(small)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"\n", "is not JSON that a ledger can store"),
        (b"{\n", "is not JSON that a ledger can store"),
        (b'\xff{"a":1}\n', "is not JSON that a ledger can store"),
        (b'\xef\xbb\xbf{"a":1}\n', "is not JSON that a ledger can store"),
        ('{"a":1}\n'.encode("utf-16-le"), "is not JSON that a ledger can store"),
        (b"[1]\n", "is not a JSON object"),
        (b'{"a":NaN}\n', "is not JSON that a ledger can store"),
        (b'{"a":-Infinity}\n', "is not JSON that a ledger can store"),
        (b'{"a":1e999}\n', "is not JSON that a ledger can store"),
        (b'{"a":' + b"9" * 5_000 + b"}\n", "is not JSON that a ledger can store"),
        (b'{"a":"\\u0000"}\n', "is not JSON that a ledger can store"),
        (b'{"\\u0000":1}\n', "is not JSON that a ledger can store"),
        (b'{"a":["\\ud800"]}\n', "is not JSON that a ledger can store"),
        (b'{"a":' + b"[" * 100 + b"]" * 100 + b"}\n", "is not JSON that a ledger can store"),
        (b'{"a":' + b"[" * 500_000 + b"]" * 500_000 + b"}\n", "is not JSON that a ledger can store"),
        (b'{"a":1}', "is cut off"),
        (b"", "is missing"),
    ],
)
def test_a_line_that_no_ledger_can_hold_is_refused(small: Path, line: bytes, problem: str) -> None:
    """Before the database sees it; PostgreSQL would fail later, with an error that quotes the text."""
    header, *_ = _lines(small)
    small.write_bytes(_packed(header, line))

    assert f"line 2 {problem}" in _refusal(small)


def test_lines_behind_the_footer_are_refused(small: Path) -> None:
    """The footer's sum cannot speak for them."""
    content = zstd.decompress(small.read_bytes())

    small.write_bytes(_packed(content, {"more": _SECRET}))

    assert "line 4 is not the last line, as the footer must be" in _refusal(small)


@settings(max_examples=80, deadline=None)
@given(data=st.binary(max_size=200), frame=st.booleans())
def test_no_bytes_make_the_reader_fail_otherwise(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, frame: bool
) -> None:
    """Whatever a file holds, the answer is an InvalidInputError."""
    path = tmp_path_factory.mktemp("export") / "file"
    path.write_bytes(_packed(data) if frame else _sealed(bytes.fromhex("28b52ffd") + data))

    _refusal(path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is empty"),
        (b'{"format"', "does not end with the footer"),
        (zstd.compress(b"{}\n"), "does not end with the seal"),
    ],
)
def test_another_file_is_told_from_a_damaged_one(tmp_path: Path, content: bytes, problem: str) -> None:
    """The usual mistakes: a wrong name, an unpacked file, one that was packed by hand."""
    path = tmp_path / "file"
    path.write_bytes(content)

    assert problem in _refusal(path)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """Absent, or a folder."""
    assert "cannot be read: No such file" in _refusal(tmp_path / "absent")
    assert "is not a regular file" in _refusal(tmp_path)


# Memory ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def peak() -> Iterator[Callable[[], int]]:
    """Bytes that Python had allocated at most since the test began."""
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()


def test_a_line_that_unpacks_without_end_is_refused_before_it_fills_memory(
    small: Path, peak: Callable[[], int]
) -> None:
    """A gigabyte of one line takes some 30 kilobytes in the file."""
    header = json.dumps(_lines(small)[0]).encode() + b'\n{"text": "'
    compressor = zstd.ZstdCompressor()
    frame = compressor.compress(header)
    for _ in range(64):
        frame += compressor.compress(b"a" * 2**24)
    small.write_bytes(_sealed(frame + compressor.flush()))
    assert small.stat().st_size < 200_000

    message = _refusal(small)

    assert "line 2 takes more than 67,108,864 bytes" in message
    assert peak() < 2 * event_file.MAX_LINE_BYTES


def test_a_line_that_parses_into_far_more_than_its_size_is_refused(small: Path, peak: Callable[[], int]) -> None:
    """An empty list takes three bytes in the file and 64 in memory."""
    small.write_bytes(_packed(_lines(small)[0], b'{"a":[' + b"[]," * 5_000_000 + b"0]}\n"))

    assert "line 2 holds more than 4,000,000 values" in _refusal(small)
    assert peak() < 100_000_000


def test_a_frame_that_asks_for_a_large_window_is_refused(small: Path) -> None:
    """A header of a few bytes can ask the decompressor for gigabytes."""
    compressor = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: 27})
    content = zstd.decompress(small.read_bytes())
    small.write_bytes(_sealed(compressor.compress(content) + compressor.flush()))

    assert "has invalid zstd data" in _refusal(small)


@pytest.mark.thorough
def test_a_long_stream_is_read_in_little_memory(tmp_path: Path, peak: Callable[[], int]) -> None:
    """Neither side holds more than a batch; the events together are more than 20 MB."""
    path = tmp_path / "file"
    with EventFileWriter(path, "agent-1", 2_000) as writer:
        for position in range(1, 2_001):
            writer.write([_event(position, payload={"text": f"{position} " * 2_500})])

    with EventFileReader(path) as reader:
        assert reader.check().head == 2_000
        assert sum(len(batch) for batch in reader.batches(10)) == 2_000

    assert len(zstd.decompress(path.read_bytes())) > 20_000_000
    assert peak() < 60_000_000


def test_what_could_not_be_read_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An export that no import accepts would be found out on the day it is needed."""
    monkeypatch.setattr(event_reader, "MAX_LINE_BYTES", 1_000)

    with pytest.raises(InvalidInputError, match="line 3 takes more than 1,000 bytes; it cannot be exported"):
        _write(tmp_path / "file", [_event(1), _event(2, payload={"text": "a" * 1_000})])

    assert list(tmp_path.iterdir()) == []


# A file that changes --------------------------------------------------------------------------------------------------


def test_events_other_than_those_checked_are_refused(small: Path) -> None:
    """Overwritten in place after the check, by a file that is right by itself, of the same size and with its times."""
    before = small.stat()
    others = (_write(small.with_name(f"other-{n}"), [_event(1, salt=b"%03d" % n), _event(2)]) for n in range(1_000))
    size = _write(small, [_event(1, salt=b"abc"), _event(2)], overwrite=True).stat().st_size
    other = next(path for path in others if path.stat().st_size == size).read_bytes()

    with EventFileReader(small) as reader:
        reader.check()
        small.write_bytes(other)
        os.utime(small, ns=(before.st_atime_ns, before.st_mtime_ns))
        with pytest.raises(InvalidInputError, match="was changed while it was read"):
            list(reader.batches())


def test_a_file_that_is_cut_off_after_the_check_is_refused(small: Path) -> None:
    """What was read by then must not count as the whole."""
    with EventFileReader(small) as reader:
        reader.check()
        os.truncate(small, small.stat().st_size // 2)
        with pytest.raises(InvalidInputError, match="ends before its contents do"):
            list(reader.batches(1))


def test_a_file_replaced_after_the_check_does_not_matter(small: Path) -> None:
    """The reader holds on to the file that it checked, not to its name."""
    with EventFileReader(small) as reader:
        reader.check()
        _write(small, [_event(1, kind="world.changed")], overwrite=True)
        assert [event.kind for batch in reader.batches() for event in batch] == ["world.observed"] * 2


def test_a_file_may_grow_after_the_check_without_being_read_on(small: Path) -> None:
    """What was checked is read, and nothing else."""
    with EventFileReader(small) as reader:
        reader.check()
        with small.open("ab") as file:
            file.write(small.read_bytes())
        assert len(list(reader.batches(1))) == 2


# Writing --------------------------------------------------------------------------------------------------------------


def test_an_error_in_the_block_leaves_nothing_behind(tmp_path: Path) -> None:
    """Neither a partial target nor a temporary file, whatever was written by then."""

    def export() -> None:
        with EventFileWriter(tmp_path / "file", "agent-1", 2) as writer:
            writer.write([_event(1)])
            assert not (tmp_path / "file").exists()
            assert len(list(tmp_path.iterdir())) == 1
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export()

    assert list(tmp_path.iterdir()) == []


def test_an_error_in_the_block_leaves_the_old_file_as_it_was(small: Path) -> None:
    """A failed export must not cost the last good one."""
    before = small.read_bytes()

    def export() -> None:
        with EventFileWriter(small, "agent-1", 2, overwrite=True) as writer:
            writer.write([_event(1)])
            raise RuntimeError

    with pytest.raises(RuntimeError):
        export()

    assert small.read_bytes() == before
    assert list(small.parent.iterdir()) == [small]


def test_an_existing_target_is_refused_by_its_name(small: Path) -> None:
    """Before anything is written; an export is often the only copy."""
    before = small.read_bytes()

    with pytest.raises(InvalidInputError, match=r"small\.jsonl\.zst exists"):
        _write(small, [_event(1)])

    assert small.read_bytes() == before
    assert list(small.parent.iterdir()) == [small]


def test_a_target_that_comes_into_being_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    """Two exports to one path: the second to end is refused."""
    writer = EventFileWriter(tmp_path / "file", "agent-1", 0)
    writer.open()
    (tmp_path / "file").write_text("mine")

    with pytest.raises(InvalidInputError, match="exists"):
        writer.finish()

    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("file", "mine")]


def test_an_existing_target_is_replaced_on_request(small: Path) -> None:
    """In one step: a reader sees the old file or the new one."""
    _write(small, [_event(1)], overwrite=True)

    assert len(_read(small)) == 1
    assert list(small.parent.iterdir()) == [small]


@pytest.mark.parametrize("overwrite", [False, True])
def test_only_a_regular_file_is_ever_replaced(tmp_path: Path, small: Path, overwrite: bool) -> None:
    """A rename would put a file in the place of a device or of a link."""
    link = tmp_path / "link"
    link.symlink_to(small)
    for target in (link, tmp_path):
        with pytest.raises(InvalidInputError, match="is not a regular file"):
            _write(target, [], overwrite=overwrite)
    assert link.is_symlink()


def test_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    """With the path and what to do."""
    with pytest.raises(InvalidInputError, match=r"absent/file cannot be written: No such file"):
        _write(tmp_path / "absent" / "file", [])


def test_only_its_owner_may_read_an_export(small: Path) -> None:
    """It holds all that the memory holds; the folder may be one that everybody reads."""
    assert small.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("positions", [[1], [1, 2, 3, 4], [1, 3, 2], [2, 3], [1, 1, 2], [1, 2, 2]])
def test_events_that_do_not_make_up_the_stream_are_refused(tmp_path: Path, positions: list[int]) -> None:
    """Missing, doubled, out of order, too many: rather no file than one that lacks a memory."""

    def export() -> None:
        with EventFileWriter(tmp_path / "file", "agent-1", 3) as writer:
            writer.write([_event(position) for position in positions])

    with pytest.raises(InvalidInputError, match="file: "):
        export()

    assert list(tmp_path.iterdir()) == []


def test_an_event_of_another_stream_is_refused(tmp_path: Path) -> None:
    """One file holds the memory of one external_id."""
    with pytest.raises(InvalidInputError, match="external_id 'agent-2'"):
        _write(tmp_path / "file", [_event(1, external_id="agent-2")])

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("room", [100, 100_000])
def test_a_full_disk_leaves_nothing_behind_and_says_so(tmp_path: Path, room: int) -> None:
    """Whether it is full at the first write or at a later one; the limit on file size stands for it."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    events = [_event(1, payload={"text": random.Random(1).randbytes(300_000).hex()})]

    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
    try:
        with pytest.raises(InvalidInputError, match="file cannot be written: File too large"):
            _write(tmp_path / "file", events)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert list(tmp_path.iterdir()) == []


def test_a_finished_writer_takes_no_more(small: Path) -> None:
    """What came too late would be in no file."""
    writer = EventFileWriter(small.with_name("other"), "agent-1", 1)
    with pytest.raises(InvalidInputError, match="not open"):
        writer.write([_event(1)])
    with EventFileWriter(small, "agent-1", 1, overwrite=True) as ended:
        ended.write([_event(1)])
    ended.discard()
    with pytest.raises(InvalidInputError, match="this writer was already used"):
        ended.open()
    assert len(_read(small)) == 1
