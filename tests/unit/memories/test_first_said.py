"""Each line of a text keeps the date on which it first appeared, through every edit of its neighbours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_reminiscence.domain.memory import StoredChunk
from agent_reminiscence.domain.payloads import ChunkEntry
from agent_reminiscence.domain.said import SaidFrom, said_parts
from agent_reminiscence.services.memories.first_said import date_entries, match_lines
from agent_reminiscence.services.memories.layout import chunked, match

_DAY_1 = datetime(2026, 3, 1, 9, tzinfo=UTC)
_DAY_10 = _DAY_1 + timedelta(days=9)


def _stored(
    content: str, entries: Sequence[ChunkEntry], occurred_at: datetime, before: Sequence[StoredChunk] = ()
) -> list[StoredChunk]:
    """The chunks of a text as a handler stores them."""
    known = {chunk.chunk_id: chunk for chunk in before}
    stored = []
    for entry in entries:
        text = content[entry.start : entry.end]
        if not entry.new:
            stored.append(known[entry.id].model_copy(update={"content": text}))
            continue
        stored.append(
            StoredChunk(
                chunk_id=entry.id,
                content=text,
                speaker=entry.speaker,
                tier="active",
                importance=0.5,
                confidence=1,
                source="user",
                memory_version=1,
                start_date=entry.start_date or occurred_at,
                first_said=entry.said_at,
                said_lines=entry.said_lines,
            )
        )
    return stored


def _created(content: str, occurred_at: datetime = _DAY_1) -> list[StoredChunk]:
    return _stored(content, chunked(content, {}), occurred_at)


def _edited(before: Sequence[StoredChunk], content: str, occurred_at: datetime = _DAY_10) -> list[StoredChunk]:
    """What an update makes of a text; it cannot keep a chunk that holds only from later."""
    entries = match(content, chunked(content, {}), [chunk for chunk in before if chunk.start_date <= occurred_at])
    return _stored(content, date_entries(content, entries, before, occurred_at), occurred_at, before)


def _said(chunks: Sequence[StoredChunk]) -> list[tuple[str, datetime]]:
    """The lines of a text, each with its date."""
    return [
        (line.strip(), said_at)
        for chunk in chunks
        for part, said_at in said_parts(chunk.content, chunk.said_at, chunk.said_lines)
        for line in part.splitlines()
        if line.strip()
    ]


def test_a_line_keeps_its_date_when_its_neighbour_is_edited() -> None:
    """The chunk holds from the edit, and each of its lines was said when it was."""
    before = _created("- I called her yesterday.\n- The plumber comes on Monday.\n")

    (chunk,) = _edited(before, "- I called her yesterday.\n- The plumber comes on Tuesday.\n")

    assert chunk.start_date == _DAY_10
    assert _said([chunk]) == [("- I called her yesterday.", _DAY_1), ("- The plumber comes on Tuesday.", _DAY_10)]
    assert chunk.said_lines == (
        SaidFrom(start=0, said_at=_DAY_1),
        SaidFrom(start=len("- I called her yesterday.\n"), said_at=_DAY_10),
    )
    # Most of the words, not the first of them.
    assert chunk.said_at == _DAY_10
    assert chunk.first_said is None


def test_most_words_date_a_chunk() -> None:
    """A heading that stays does not make what was written anew below it old; of equal shares the earlier counts."""
    (mostly_new,) = _edited(_created("# Plan\nWe meet in the garden."), "# Plan\nWe stay in the house tonight.")
    (mostly_old,) = _edited(_created("# Plan\nWe meet in the garden."), "# New plan\nWe meet in the garden.")
    (even,) = _edited(_created("- abcd\n- efgh"), "- abcd\n- ijkl")

    assert (mostly_new.said_at, mostly_old.said_at, even.said_at) == (_DAY_10, _DAY_1, _DAY_1)


def test_what_only_lost_a_line_has_one_date() -> None:
    """No line is new, so nothing is recorded line by line."""
    before = _created("- Tea for Ann.\n- Milk for Bob.\n- Juice for Cy.\n")

    (chunk,) = _edited(before, "- Tea for Ann.\n- Juice for Cy.\n")

    assert (chunk.start_date, chunk.first_said, chunk.said_lines) == (_DAY_10, _DAY_1, ())


def test_what_is_all_new_records_nothing() -> None:
    """Its date is that of the event, as before."""
    before = _created("We meet in the garden.")
    content = "We stay at home."

    entries = date_entries(content, match(content, chunked(content, {}), before), before, _DAY_10)

    assert [entry.model_dump(mode="json").keys() & {"said_at", "said_lines"} for entry in entries] == [set()]


def test_a_line_keeps_its_date_in_another_chunk() -> None:
    """A paragraph that is cut in two, and one that moves to the end, were said when they were."""
    before = _created("Ann paints boats.\nBob sells them.\n\nCy sails.")

    cut = _edited(before, "Cy sails.\n\nBob sells them.\n\nDee swims.\n\nAnn paints boats.")

    assert _said(cut) == [
        ("Cy sails.", _DAY_1),
        ("Bob sells them.", _DAY_1),
        ("Dee swims.", _DAY_10),
        ("Ann paints boats.", _DAY_1),
    ]


def test_what_still_stands_elsewhere_was_not_moved() -> None:
    """A line that is written a second time is new where the first one stayed."""
    before = _created("Cy sails.\n\nAnn paints boats.")

    after = _edited(before, "Cy sails.\n\nBob sells boats.\nCy sails.")

    assert _said(after) == [("Cy sails.", _DAY_1), ("Bob sells boats.", _DAY_10), ("Cy sails.", _DAY_10)]


def test_a_repeated_line_goes_with_its_neighbour() -> None:
    """Of two equal lines with two dates, the one that stays is the one beside what stays."""
    first = _created("- Ann:\n- all done")
    second = _edited(first, "- Ann:\n- all done\n- Bob:\n- all done")
    third = _edited(second, "- Cy:\n- Bob:\n- all done", _DAY_10 + timedelta(days=1))

    assert _said(second)[1::2] == [("- all done", _DAY_1), ("- all done", _DAY_10)]
    assert _said(third) == [
        ("- Cy:", _DAY_10 + timedelta(days=1)),
        ("- Bob:", _DAY_10),
        ("- all done", _DAY_10),
    ]


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        # b is where it was, and so is the x beside it, before it or after it.
        ("xaxbc", "nxbd", [None, 2, 3, None]),
        ("xacxa", "ncxn", [None, 2, 3, None]),
        # A longer run goes on from there.
        ("xyaxyb", "nxybn", [None, 3, 4, 5, None]),
        # The beginning and the end of a text are such neighbours.
        ("xx", "nx", [None, 1]),
        ("xx", "xn", [0, None]),
        # What nothing stands beside is taken in order.
        ("xnxp", "mxmxmxm", [None, 0, None, 2, None, None, None]),
        ("ab", "ba", [1, 0]),
        ("", "a", [None]),
    ],
)
def test_lines_are_found_by_themselves_then_by_their_neighbours_then_in_order(
    before: str, after: str, found: list[int | None]
) -> None:
    """A letter is a line."""
    assert match_lines(list(before), list(after)) == found


def test_nothing_was_said_after_it_began_to_hold() -> None:
    """An update that turns out to hold from before the former text was said then."""
    before = _created("- Tea for Ann.\n- Milk for Bob.", _DAY_10)

    (chunk,) = _edited(before, "- Tea for Ann.\n- Juice for Bob.", _DAY_1)

    assert (chunk.start_date, chunk.said_at, chunk.said_lines) == (_DAY_1, _DAY_1, ())


def test_white_space_before_a_chunk_moves_no_date() -> None:
    """It may change without a new chunk, so that places are counted from the first word."""
    before = _edited(_created("- Tea for Ann.\n- Milk."), "- Tea for Ann.\n- Juice for Bob.")

    (chunk,) = _edited(before, "\n\n  - Tea for Ann.\n- Juice for Bob.\n", _DAY_10 + timedelta(days=1))

    assert chunk.chunk_id == before[0].chunk_id
    assert _said([chunk]) == [("- Tea for Ann.", _DAY_1), ("- Juice for Bob.", _DAY_10)]


@pytest.mark.parametrize(
    "lines",
    [
        [{"start": 0, "said_at": _DAY_1}],
        [{"start": 1, "said_at": _DAY_1}, {"start": 5, "said_at": _DAY_10}],
        [{"start": 0, "said_at": _DAY_1}, {"start": 0, "said_at": _DAY_10}],
        [{"start": 0, "said_at": _DAY_1}, {"start": 9, "said_at": _DAY_10}, {"start": 5, "said_at": _DAY_1}],
        [{"start": 0, "said_at": _DAY_1}, {"start": -1, "said_at": _DAY_10}],
        [{"start": 0, "said_at": _DAY_1}, {"start": 5, "said_at": _DAY_10.replace(tzinfo=None)}],
    ],
)
def test_an_event_with_dates_in_disorder_is_refused(lines: list[dict[str, object]]) -> None:
    """An imported event may hold anything."""
    with pytest.raises(ValueError, match=r"said_lines|greater_than_equal|timezone"):
        ChunkEntry.model_validate({"id": uuid4(), "start": 0, "end": 9, "new": True, "said_lines": lines})


# Random histories -----------------------------------------------------------------------------------

_KINDS = ("{}", "- {}", "# {}", "  * {}", "Ann: {}")


@st.composite
def _histories(draw: st.DrawFn) -> list[list[tuple[str, int]]]:
    """Versions of a text as lines, each with the version that brought it in; no line is like another one."""
    fresh = iter(range(10_000))

    def line(version: int) -> tuple[str, int]:
        words = " ".join(draw(st.lists(st.sampled_from(["boat", "garden", "on Monday", "x" * 80]), max_size=8)))
        return draw(st.sampled_from(_KINDS)).format(f"Note {next(fresh)} {words}"), version

    versions = [[line(0) for _ in range(draw(st.integers(1, 6)))]]
    for version in range(1, draw(st.integers(2, 6))):
        lines = list(versions[-1])
        for _ in range(draw(st.integers(1, 3))):
            at = draw(st.integers(0, len(lines)))
            match draw(st.sampled_from(["insert", "replace", "delete", "move"])):
                case "insert":
                    lines.insert(at, line(version))
                case "replace" if at < len(lines):
                    lines[at] = line(version)
                case "delete" if at < len(lines) > 1:
                    del lines[at]
                case "move" if at < len(lines):
                    moved = lines.pop(at)
                    lines.insert(draw(st.integers(0, len(lines))), moved)
        versions.append(lines)
    return versions


@pytest.mark.thorough
@settings(max_examples=60, deadline=None)
@given(_histories(), st.data())
def test_every_line_keeps_its_first_date_through_every_history(
    versions: list[list[tuple[str, int]]], data: st.DataObject
) -> None:
    """However the text is cut into chunks: compared with a history that knows where each line comes from."""
    chunks: list[StoredChunk] = []
    for version, lines in enumerate(versions):
        breaks = [data.draw(st.sampled_from(["\n", "\n\n", "\r\n"])) for _ in lines]
        content = "".join(line + end for (line, _), end in zip(lines, breaks, strict=True))
        now = _DAY_1 + timedelta(days=version)
        chunks = _edited(chunks, content, now) if version else _created(content, now)

        # A line too long for a chunk is in several, each of which is a line by itself.
        dates = dict(_said(chunks))
        whole = [(line.strip(), _DAY_1 + timedelta(days=first)) for line, first in lines if line.strip() in dates]
        assert [(line, dates[line]) for line, _ in whole] == whole
        assert all(date <= chunk.start_date for chunk in chunks for date in chunk.said_dates)


@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12))
def test_as_many_lines_are_found_as_there_are_in_both(before: list[str], after: list[str]) -> None:
    """Each former line once, and only where the same words stand."""
    found = match_lines(before, after)

    places = [place for place in found if place is not None]
    assert len(places) == len(set(places)) == (Counter(before) & Counter(after)).total()
    assert all(place is None or before[place] == line for place, line in zip(found, after, strict=True))
    assert match_lines(before, before) == list(range(len(before)))
