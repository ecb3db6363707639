"""Numbers as PostgreSQL reads and sends them, against struct's own packing."""

from __future__ import annotations

import struct
from uuid import UUID

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agent_reminiscence.database.repositories.arrays import bigint_array, int_array, real_array, uuid_array
from agent_reminiscence.database.repositories.chunk_vector import halfvec, read_halfvecs

_REALS = st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=20)
_NUMBERS = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20)


@given(_REALS)
def test_reals_are_an_array_of_one_dimension(values: list[float]) -> None:
    """Header, then each value behind its length."""
    head = struct.pack(">iiIii", 1, 0, 700, len(values), 1) if values else struct.pack(">iiI", 0, 0, 700)

    assert real_array(values) == head + b"".join(struct.pack(">if", 4, value) for value in values)


@given(_NUMBERS)
def test_bigints_are_an_array_of_one_dimension(values: list[int]) -> None:
    """The same, eight bytes each."""
    head = struct.pack(">iiIii", 1, 0, 20, len(values), 1) if values else struct.pack(">iiI", 0, 0, 20)

    assert bigint_array(values) == head + b"".join(struct.pack(">iq", 8, value) for value in values)


@given(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=20))
def test_ints_are_an_array_of_one_dimension(values: list[int]) -> None:
    """The same, four bytes each."""
    head = struct.pack(">iiIii", 1, 0, 23, len(values), 1) if values else struct.pack(">iiI", 0, 0, 23)

    assert int_array(values) == head + b"".join(struct.pack(">ii", 4, value) for value in values)


@given(st.lists(st.uuids() | st.just(UUID(int=1 << 64)), max_size=20))
def test_ids_are_an_array_of_one_dimension(values: list[UUID]) -> None:
    """The same, sixteen bytes each, zeros at the end included."""
    head = struct.pack(">iiIii", 1, 0, 2950, len(values), 1) if values else struct.pack(">iiI", 0, 0, 2950)

    assert uuid_array(values) == head + b"".join(struct.pack(">i", 16) + value.bytes for value in values)


@given(st.lists(st.lists(st.floats(-1, 1, width=16), min_size=4, max_size=4), min_size=1, max_size=9))
def test_vectors_come_back_as_they_were_sent(vectors: list[list[float]]) -> None:
    """Float16 values keep every bit."""
    blob = b"".join(halfvec(vector) for vector in vectors)

    assert read_halfvecs(blob, len(vectors)).tolist() == np.array(vectors, dtype=np.float32).tolist()
