"""Lengths of the sums of vectors around each chunk of a text: pure functions of arrays.

The vector of a window is the sum of the unit vectors of its chunks and its heading, each weighted by its mass (the
number of tokens). A search computes the window's dot product with a question from those of the single vectors; its
length cannot be derived from them, so it is stored.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.domain.index import FIRST, NORMS_DTYPE, REACH, WINDOWS

# Sums are computed for this many chunks at a time: 4,096 vectors of 256 dimensions take 8 MB.
_BLOCK_ENTRIES: Final = 4_096
# Callers compute the norms of more chunks in a thread, so that other tasks can run.
INLINE_CHUNKS: Final = 256


def window_norms(
    layout: NDArray[np.void],
    numbers: NDArray[np.int64],
    masses: NDArray[np.float32],
    vectors: NDArray[np.float32],
    *,
    block_entries: int = _BLOCK_ENTRIES,
) -> NDArray[np.void]:
    """Compute what is stored with one layout, or with several in sequence.

    Args:
        layout: Shape (n,), `LAYOUT_DTYPE`.
        numbers: Shape (m,): whose vectors these are; negative ones are headings. Only those that have a vector.
        masses: Shape (m,): the tokens of each text.
        vectors: Shape (m, dimension), of unit length.
        block_entries: For how many entries sums are held in memory at a time.

    Returns:
        Shape (n,), `NORMS_DTYPE`. A chunk or heading without a vector has mass 0 and contributes nothing.
    """
    result = np.zeros(len(layout), dtype=NORMS_DTYPE)
    if not len(layout) or not len(numbers):
        return result
    order = np.argsort(numbers)
    chunk_indices, chunk_masses = _look_up(layout["number"].astype(np.int64), numbers, masses, order)
    heading_indices, heading_masses = _look_up(layout["heading"].astype(np.int64), numbers, masses, order)
    result["mass"], result["heading_mass"] = chunk_masses, heading_masses
    first, last = _runs(layout)
    for start in range(0, len(layout), block_entries):
        stop = min(start + block_entries, len(layout))
        # Including the neighbours that the windows reach.
        begin, end = max(0, start - REACH), min(stop + REACH, len(layout))
        sums = np.zeros((end - begin + 1, vectors.shape[1]), dtype=np.float64)
        weighted = chunk_masses[begin:end, None].astype(np.float64) * vectors[chunk_indices[begin:end]]
        np.cumsum(weighted, axis=0, out=sums[1:])
        above = heading_masses[start:stop, None].astype(np.float64) * vectors[heading_indices[start:stop]]
        indices = np.arange(start, stop)
        for window, (before, after) in enumerate(WINDOWS):
            low = np.maximum(indices - before, first[start:stop]) - begin
            high = np.minimum(indices + after, last[start:stop]) - begin
            total = sums[high + 1] - sums[low] + above
            result["norms"][start:stop, window] = np.sqrt(np.einsum("ij,ij->i", total, total))
    return result


def _look_up(
    wanted: NDArray[np.int64], numbers: NDArray[np.int64], masses: NDArray[np.float32], order: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """The index of each wanted number in `numbers`, and its mass; 0 if it is not there."""
    found = np.minimum(np.searchsorted(numbers, wanted, sorter=order), len(numbers) - 1)
    indices = order[found]
    return indices, np.where(numbers[indices] == wanted, masses[indices], np.float32(0))


def _runs(layout: NDArray[np.void]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The indices of the first and last entry of the text that each entry belongs to."""
    begins = (layout["flags"] & FIRST) != 0
    begins[0] = True
    starts = np.flatnonzero(begins)
    ends = np.append(starts[1:], len(layout)) - 1
    run = np.cumsum(begins) - 1
    return starts[run], ends[run]
