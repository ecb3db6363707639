"""JSON of any length is read item by item, and is what `json.loads` makes of it."""

from __future__ import annotations

import io
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.services.transfer import json_files
from agent_reminiscence.services.transfer.json_files import json_document, json_lines
from agent_reminiscence.services.transfer.parts import NotedFile

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='a"\\[]{},:\n\u00e9\U0001f600', max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(alphabet='k"]}', max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)


class _InSmallBlocks(io.BytesIO):
    """Returns a few bytes at a time, as a pipe may."""

    def __init__(self, data: bytes, size: int) -> None:
        super().__init__(data)
        self._size = size

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(self._size if size is None or size < 0 else min(size, self._size))


def _read(data: bytes, *, block: int = 1_000_000) -> list[Any]:
    return [item.value for item in json_document(NotedFile(_InSmallBlocks(data, block), lambda size: None))]


@given(
    values=st.lists(_VALUES, max_size=5),
    indent=st.sampled_from([None, 1]),
    ascii_only=st.booleans(),
    before=st.sampled_from(["", "\ufeff", " \n"]),
    block=st.integers(min_value=4, max_value=40),
)
def test_a_list_is_read_item_by_item(
    values: list[Any], indent: int | None, ascii_only: bool, before: str, block: int
) -> None:
    """However its texts look, and wherever a block of the file ends."""
    text = before + json.dumps(values, indent=indent, ensure_ascii=ascii_only) + "\n"

    assert _read(text.encode(), block=block) == values


@given(text=st.text(alphabet='[]{},:"\\1a \n', max_size=30), block=st.integers(min_value=1, max_value=8))
def test_what_is_not_json_is_refused_and_what_is_json_is_not(text: str, block: int) -> None:
    """The items of a list are told apart by brackets, and still nothing else passes for a list."""
    try:
        expected = json.loads(text)
    except ValueError:
        if text.strip():
            with pytest.raises(InvalidInputError, match=r"line \d+, column \d+: this is not JSON"):
                _read(text.encode(), block=block)
        return

    assert _read(text.encode(), block=block) == (expected if isinstance(expected, list) else [expected])


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('[{"a": 1},\n {"b" 2}]', r"line 2, column 7: .*Expecting ':'"),
        ('[{"\u00e9": "\U0001f600"}, {"b" 2}]', r"line 1, column 19: .*Expecting ':'"),
        ('[{"a": 1},\n', "line 1, column 11: .*the file ends inside its list: was it downloaded completely"),
        ('[{"a": 1}, {"b": "cut of', r"line 1, column 18: .*Unterminated string.*was it downloaded completely"),
        ('[{"a": 1}]\n\n [2]', "line 3, column 2: .*extra data after the list"),
        ('[{"a": 1}}', r"line 1, column 10: .*expected a comma or \]"),
        ("[1,,2]", r"line 1, column 4: .*Expecting value"),
        ("[1,]", r"line 1, column 4: .*Expecting value"),
    ],
)
def test_a_fault_is_placed_in_the_file_and_not_in_the_item(text: str, place: str) -> None:
    """Exports are one long line, so the column counts."""
    with pytest.raises(InvalidInputError, match=place):
        _read(text.encode(), block=3)


def test_a_list_may_be_longer_than_what_is_parsed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An export of years is larger than memory; one item of it must not be."""
    monkeypatch.setattr(json_files, "MAX_JSON_BYTES", 1_000)
    items = [{"text": "x" * 900}] * 50

    assert _read(json.dumps(items).encode(), block=64) == items
    with pytest.raises(InvalidInputError, match=r"line 2 has more than .* MiB of JSON"):
        _read(f'[{{"text": "short"}},\n{{"text": "{"x" * 3_000}"}}]'.encode(), block=64)
    with pytest.raises(InvalidInputError, match="the file has more than"):
        _read(json.dumps({"text": "x" * 3_000}).encode())


def test_lines_are_values_of_their_own() -> None:
    """Blank ones have none, and the first may begin with a byte order mark."""
    data = '\ufeff{"a": 1}\n\n[2]\r\n'.encode()

    assert [(item.value, item.number) for item in json_lines(NotedFile(io.BytesIO(data), lambda size: None))] == [
        ({"a": 1}, 1),
        ([2], 3),
    ]


def test_an_item_that_arrives_in_small_blocks_is_not_searched_again_for_each() -> None:
    """The work grows with the length, whatever the length of a block: counted, not timed."""
    text = json.dumps([{"text": "".join(random.Random(7).choices('ab"\\[', k=200_000))}])
    file = _CountingFile(text.encode())

    [item] = json_document(NotedFile(file, lambda size: None))

    assert item.value == json.loads(text)[0]
    # Blocks of 64 KiB, doubled while the item goes on.
    assert file.reads < 12


class _CountingFile(io.BytesIO):
    reads = 0

    def read(self, size: int | None = -1, /) -> bytes:
        self.reads += 1
        return super().read(size)
