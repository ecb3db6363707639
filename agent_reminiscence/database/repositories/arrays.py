"""Arrays in PostgreSQL's binary form, for parameters of many values: the driver converts lists value by value.

It does so on the event loop, taking 1.5 µs for each UUID and 0.5 for each number.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

# Element types by PostgreSQL's numbers in its binary form; the same on every server.
_INT8_TYPE: Final = 20
_INT4_TYPE: Final = 23
_FLOAT4_TYPE: Final = 700
_UUID_TYPE: Final = 2950
_HEAD = struct.Struct(">iiIii")


def real_array(values: Sequence[float] | NDArray[np.float32]) -> bytes:
    """Numbers of any shape as the binary form of a flat `real[]`.

    For 75 vectors the driver takes 15 ms with a list of floats, this 1 ms.
    """
    return _array(np.asarray(values, dtype=np.float32).ravel(), ">f4", _FLOAT4_TYPE)


def bigint_array(values: Sequence[int] | NDArray[np.int64]) -> bytes:
    """Numbers as the binary form of `bigint[]`."""
    return _array(np.asarray(values, dtype=np.int64), ">i8", _INT8_TYPE)


def int_array(values: Sequence[int]) -> bytes:
    """Numbers as the binary form of `int[]`."""
    return _array(np.asarray(values, dtype=np.int64), ">i4", _INT4_TYPE)


def uuid_array(values: Sequence[UUID]) -> bytes:
    """Ids as the binary form of `uuid[]`."""
    return uuid_blob_array(b"".join([value.bytes for value in values]))


def uuid_blob_array(ids: bytes) -> bytes:
    """Consecutive ids of 16 bytes as the binary form of `uuid[]`."""
    # Not `S16`, which drops trailing zeros.
    return _array(np.frombuffer(ids, dtype="V16"), "V16", _UUID_TYPE)


def _array(values: NDArray[np.float32] | NDArray[np.int64] | NDArray[np.void], item: str, element_type: int) -> bytes:
    if not len(values):
        return struct.pack(">iiI", 0, 0, element_type)
    elements = np.empty(len(values), dtype=[("length", ">i4"), ("value", item)])
    elements["length"] = elements.dtype["value"].itemsize
    elements["value"] = values
    # One dimension, no NULLs, counted from 1.
    return _HEAD.pack(1, 0, element_type, len(values), 1) + elements.tobytes()
