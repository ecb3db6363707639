"""Numbers of the chunks and headings of several memories as those of one: each memory has a range of its own."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

# So many bits are enough for the numbers of one memory.
_BITS: Final = 40


def joint(place: int, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Numbers of the memory at `place`, from 0, among those of all; 0, which is none, stays 0."""
    return numbers + np.sign(numbers) * (place << _BITS) if place else numbers


def joint_number(place: int, number: int) -> int:
    """As `joint`, of one chunk."""
    return number + (place << _BITS)


def places_of(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The place of the memory that each chunk belongs to."""
    return numbers >> _BITS


def own(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers of chunks in their own memories."""
    return numbers & ((1 << _BITS) - 1)
