"""The index's numbers and records: each number comes back from its posting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_reminiscence.domain.index import (
    LAYOUT_DTYPE,
    MAX_INDEX,
    NORMS_DTYPE,
    POSTING_DTYPE,
    block_of,
    blocks_of,
    chunk_number,
    decode_postings,
    index_of,
    offset_of,
    position_of,
    posting_numbers,
)

numbers = st.builds(
    lambda position, index, sign: sign * chunk_number(position, index),
    st.integers(1, 2**40),
    st.integers(0, MAX_INDEX),
    st.sampled_from([1, -1]),
)


@given(st.lists(numbers, min_size=1, max_size=8))
def test_a_number_comes_back_from_its_block_and_offset(expected: list[int]) -> None:
    """A posting names its chunk with six bytes and the block that it stands in."""
    blocks = np.array([block_of(number) for number in expected])
    offsets = np.array([offset_of(number) for number in expected], dtype=np.uint16)

    assert posting_numbers(blocks, offsets).tolist() == expected


@given(st.integers(1, 2**40), st.integers(0, MAX_INDEX))
def test_position_and_index_come_back_from_a_number(position: int, index: int) -> None:
    """A chunk's number says which event brought it in, and so does its heading's."""
    number = chunk_number(position, index)

    assert (position_of(number), index_of(number)) == (position_of(-number), index_of(-number)) == (position, index)


@pytest.mark.parametrize(("position", "index"), [(0, 0), (1, -1), (1, MAX_INDEX + 1)])
def test_a_number_out_of_range_is_refused(position: int, index: int) -> None:
    """It would be another chunk's number."""
    with pytest.raises(ValueError, match="cannot belong to a chunk"):
        chunk_number(position, index)


def test_postings_are_read_as_they_are_written() -> None:
    """The bytes are big-endian, 6 a posting, whatever machine reads them."""
    number = chunk_number(70, 600)
    entries = bytes.fromhex("0c5800090002") + bytes.fromhex("8c5800040001")

    found, frequencies = decode_postings(block_of(number), entries)

    assert found.tolist() == [number, -number]
    assert frequencies.tolist() == [2, 1]


def test_records_have_the_sizes_of_the_schema() -> None:
    """What is stored was written with these sizes."""
    assert (POSTING_DTYPE.itemsize, LAYOUT_DTYPE.itemsize, NORMS_DTYPE.itemsize) == (6, 32, 24)


@given(st.lists(st.tuples(st.integers(1, 1 << 30), st.integers(0, MAX_INDEX), st.booleans()), max_size=20))
def test_blocks_of_many_are_those_of_each(coordinates: list[tuple[int, int, bool]]) -> None:
    """The fast way for arrays gives what the plain one gives."""
    numbers = [chunk_number(position, index) * (-1 if is_heading else 1) for position, index, is_heading in coordinates]

    assert blocks_of(np.array(numbers, dtype=np.int64)).tolist() == sorted({block_of(number) for number in numbers})
