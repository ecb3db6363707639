"""The index's numbers and binary records: pure functions of bytes and arrays.

All records are big-endian, as PostgreSQL sends numbers: a blob looks the same in SQL, on the wire and in Python.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.domain.canonical import sha256

WINDOWS: Final = ((0, 0), (2, 0), (2, 2), (6, 6))
"""Numbers of chunks before and after: the chunk alone, two before, two on each side, six on each side."""

REACH: Final = max(max(window) for window in WINDOWS)
"""How many chunks before and after a chunk its windows reach."""

FACTS_SEGMENT: Final = 2**31 - 1
"""The segment of a memory's layout that holds its facts."""

FIRST: Final = 1
"""The chunk begins the text of a memory. Facts have this flag too: each stands alone."""
FACT: Final = 2
"""A statement a model derived from chunks."""
DUPLICATE: Final = 4
"""The chunk repeats another one: part of the text, but never a hit."""
QUESTION: Final = 8
"""The chunk ends in a question mark."""
TIME_WORDS: Final = 16
"""The chunk says when something happened."""
USER: Final = 32
"""The chunk's speaker is `user`."""
STANDING: Final = 64
"""The chunk says what holds from now on: a wish, a rule, a constraint of the user."""
ASKS: Final = 128
"""The chunk only asks, and it is the user, an agent or nobody in particular who does."""

OF_SELF: Final = 256
"""The user speaks of themselves: a sentence with "I" as its subject."""

LAYOUT_DTYPE: Final = np.dtype(
    [
        ("number", ">i8"),
        ("heading", ">i8"),
        ("day", ">i4"),
        ("speaker", ">u4"),
        ("length", ">u4"),
        ("flags", ">u2"),
        ("heading_length", ">u2"),
    ]
)
"""A chunk of a text, 32 bytes: its number, its heading's (0: none), days since 1970-01-01, speaker (0: none), number
of terms in its own text, flags, number of terms in its heading."""

POSTING_DTYPE: Final = np.dtype([("offset", ">u2"), ("length", ">u2"), ("frequency", ">u2")])
"""A chunk or heading that contains a term, 6 bytes: its offset in the block, its number of terms, the term's
frequency."""

NORMS_DTYPE: Final = np.dtype([("mass", ">f4"), ("heading_mass", ">f4"), ("norms", ">f4", (len(WINDOWS),))])
"""The vectors around an entry of a layout, 24 bytes: the token counts of the chunk and of its heading (0: no vector),
and the length of each window's vector sum, in the order of `WINDOWS`."""


class SegmentSizes(NamedTuple):
    """How many entries each of some segments has.

    Attributes:
        keys: Of segments, each once, ascending; 20 bytes, memory and segment.
        sizes: Of each.
    """

    keys: NDArray[np.bytes_]
    sizes: NDArray[np.int64]


HEADING: Final = 0x8000
"""Added to the offset of a heading's posting."""

MAX_COUNT: Final = 0xFFFF
"""Cap on lengths and frequencies in postings."""

MAX_HEADING_LENGTH: Final = 0x7FFF
"""Cap on a heading's number of terms in a layout: SQL writes it too, and has no unsigned numbers."""

_INDEX_BITS: Final = 20
MAX_INDEX: Final = (1 << _INDEX_BITS) - 1
"""The largest index of a chunk in its event."""

# A block holds 64 ledger positions with 512 consecutive chunks each.
_BLOCK_POSITION_BITS: Final = 6
_BLOCK_INDEX_BITS: Final = 9
_INDEX_BLOCK_BITS: Final = _INDEX_BITS - _BLOCK_INDEX_BITS


def speaker_hash(speaker_key: str) -> int:
    """A speaker as stored in layouts: the first four bytes of the SHA-256 of the folded name."""
    return int.from_bytes(sha256(speaker_key.encode())[:4], "big")


def speaker_term(speaker_key: str) -> str:
    """The term under which a speaker's words are indexed.

    It begins with a control character, so `analyse` never returns it.
    """
    return f"\x03{speaker_hash(speaker_key):08x}"


def chunk_number(position: int, index: int) -> int:
    """The number of the chunk added by entry `index` of the event at `position`.

    A heading's number is this number negated.

    Args:
        position: Position of the event in its stream, from 1.
        index: Index of the chunk in the event's list, from 0 to `MAX_INDEX`.

    Raises:
        ValueError: An argument is out of range.
    """
    if position < 1 or not 0 <= index <= MAX_INDEX:
        raise ValueError(f"position {position}, index {index} cannot belong to a chunk")
    return position << _INDEX_BITS | index


def with_beginnings(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Some chunks and headings, with the first chunk and the first heading of each event that added them.

    A text that was written at once, and is one chunk, has no others.

    Returns:
        Ascending and unique.
    """
    firsts = np.abs(numbers) & ~np.int64(MAX_INDEX)
    return distinct(np.concatenate((numbers, firsts, -firsts)))


def position_of(number: int) -> int:
    """The ledger position of the event that added the chunk or heading `number`."""
    return abs(number) >> _INDEX_BITS


def index_of(number: int) -> int:
    """The index of the chunk or heading `number` in its event."""
    return abs(number) & MAX_INDEX


def block_of(number: int) -> int:
    """The postings block of the chunk or heading `number`."""
    return position_of(number) >> _BLOCK_POSITION_BITS << _INDEX_BLOCK_BITS | index_of(number) >> _BLOCK_INDEX_BITS


def blocks_of(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The distinct blocks of some chunks and headings, ascending."""
    unsigned = np.abs(numbers)
    blocks = (
        unsigned >> _INDEX_BITS + _BLOCK_POSITION_BITS << _INDEX_BLOCK_BITS
        | (unsigned & MAX_INDEX) >> _BLOCK_INDEX_BITS
    )
    return distinct(blocks)


def offset_of(number: int) -> int:
    """The offset of the chunk or heading `number` in its block, as stored in a posting."""
    position = position_of(number) & (1 << _BLOCK_POSITION_BITS) - 1
    offset = position << _BLOCK_INDEX_BITS | index_of(number) & (1 << _BLOCK_INDEX_BITS) - 1
    return offset | HEADING if number < 0 else offset


def position_in_block(offset: int) -> int:
    """Which of its block's ledger positions an offset belongs to."""
    return (offset & HEADING - 1) >> _BLOCK_INDEX_BITS


def posting_numbers(blocks: NDArray[np.int64] | int, offsets: NDArray[np.uint16]) -> NDArray[np.int64]:
    """The chunk (positive) and heading (negative) numbers of postings.

    Args:
        blocks: The block of each posting, or one block for all.
        offsets: The `offset` field of each posting.

    Returns:
        One number per posting, in order.
    """
    wide = np.asarray(offsets).astype(np.int64)
    block = np.asarray(blocks, dtype=np.int64)
    low_positions = (wide & HEADING - 1) >> _BLOCK_INDEX_BITS
    position = block >> _INDEX_BLOCK_BITS << _BLOCK_POSITION_BITS | low_positions
    high_indexes = (block & (1 << _INDEX_BLOCK_BITS) - 1) << _BLOCK_INDEX_BITS
    index = high_indexes | wide & (1 << _BLOCK_INDEX_BITS) - 1
    number: NDArray[np.int64] = position << _INDEX_BITS | index
    return np.where(wide & HEADING, -number, number)


def decode_postings(block: int, entries: bytes) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The numbers and term frequencies of one term's postings in a block.

    Args:
        block: The block.
        entries: Its `POSTING_DTYPE` records.

    Returns:
        Numbers (positive for chunks, negative for headings) and frequencies, in the order of the records.
    """
    postings = np.frombuffer(entries, POSTING_DTYPE)
    return posting_numbers(block, postings["offset"]), postings["frequency"].astype(np.float32)


def in_layout_order(layouts: SegmentSizes, stored: SegmentSizes, norms: NDArray[np.void]) -> NDArray[np.void]:
    """The norms of all entries of some layouts, in their order; zeros for a segment without norms.

    Args:
        layouts: How many entries each segment's layout has, and the order wanted.
        stored: How many norms each segment has. Another number than its layout has are those of an earlier layout.
        norms: Shape (n,), `NORMS_DTYPE`, in the order of `stored`.
    """
    if np.array_equal(layouts.keys, stored.keys) and np.array_equal(layouts.sizes, stored.sizes):
        return norms
    ordered = np.zeros(int(layouts.sizes.sum()), dtype=NORMS_DTYPE)
    _, wanted, given = np.intersect1d(layouts.keys, stored.keys, assume_unique=True, return_indices=True)
    fits = layouts.sizes[wanted] == stored.sizes[given]
    sizes = layouts.sizes[wanted[fits]]
    # Position by position: where the segment begins, plus 0, 1, 2 … within it.
    within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    targets = np.repeat(_begins(layouts.sizes)[wanted[fits]], sizes) + within
    ordered[targets] = norms[np.repeat(_begins(stored.sizes)[given[fits]], sizes) + within]
    return ordered


def _begins(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    begins: NDArray[np.int64] = np.cumsum(sizes) - sizes
    return begins


def distinct(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers, ascending, each once. Of thousands, ten times as fast as `np.unique`, which hashes integers."""
    ascending = np.sort(numbers)
    is_first = np.ones(len(ascending), dtype=np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=is_first[1:])
    return ascending[is_first]


def are_among(numbers: NDArray[np.int64], ascending: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """Which of `numbers` are in `ascending`, and their indices there."""
    if not len(ascending):
        return np.zeros(len(numbers), dtype=np.bool_), np.zeros(len(numbers), dtype=np.intp)
    indices = np.minimum(np.searchsorted(ascending, numbers), len(ascending) - 1)
    return ascending[indices] == numbers, indices
