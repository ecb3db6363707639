"""The norms of windows against a slow reference that adds up vectors one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from agent_reminiscence.domain.index import FACT, FIRST, LAYOUT_DTYPE, NORMS_DTYPE, WINDOWS
from agent_reminiscence.services.vectors.norms import window_norms

_DIMENSION = 8


@st.composite
def _texts(draw: st.DrawFn) -> tuple[NDArray[np.void], dict[int, tuple[float, NDArray[np.float32]]]]:
    """Some texts one after the other, and mass and vector of most of their chunks and headings."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = []
    number = 1 << 20
    for _ in range(draw(st.integers(1, 4))):
        heading = -number
        for index in range(draw(st.integers(1, 15))):
            number += 1
            rows.append((number, heading if index % 5 else heading - 1, 0, 0, 1, FIRST if index == 0 else 0, 1))
        for _ in range(draw(st.integers(0, 3))):
            number += 1
            rows.append((number, 0, 0, 0, 1, FIRST | FACT, 0))
    layout = np.array(rows, dtype=LAYOUT_DTYPE)
    named = {*layout["number"].tolist(), *layout["heading"].tolist()} - {0}
    missing = draw(st.sets(st.sampled_from(sorted(named)), max_size=5))
    vectors = {}
    for one in sorted(named - missing):
        vector = random.normal(size=_DIMENSION)
        vectors[one] = (float(random.integers(1, 200)), (vector / np.linalg.norm(vector)).astype(np.float32))
    return layout, vectors


def _reference(
    layout: NDArray[np.void], vectors: dict[int, tuple[float, NDArray[np.float32]]], index: int, before: int, after: int
) -> float:
    """|Σ mass u + mass u of the heading|, with the window cut off where the text begins and ends."""
    low = index
    while index - low < before and not layout["flags"][low] & FIRST:
        low -= 1
    high = index
    while high - index < after and high + 1 < len(layout) and not layout["flags"][high + 1] & FIRST:
        high += 1
    total = np.zeros(_DIMENSION)
    for number in [*layout["number"][low : high + 1].tolist(), int(layout["heading"][index])]:
        mass, vector = vectors.get(number, (0.0, np.zeros(_DIMENSION, dtype=np.float32)))
        total += mass * vector.astype(np.float64)
    return float(np.linalg.norm(total))


def _arrays(
    vectors: dict[int, tuple[float, NDArray[np.float32]]],
) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.float32]]:
    numbers = list(reversed(vectors))
    return (
        np.array(numbers, dtype=np.int64),
        np.array([vectors[number][0] for number in numbers], dtype=np.float32),
        np.array([vectors[number][1] for number in numbers], dtype=np.float32).reshape(len(numbers), _DIMENSION),
    )


@given(_texts())
@settings(deadline=None)
def test_norms_are_lengths_of_sums_within_each_text(
    texts: tuple[NDArray[np.void], dict[int, tuple[float, NDArray[np.float32]]]],
) -> None:
    """No window runs from one text into the next, a fact stands alone, and the heading counts once."""
    layout, vectors = texts

    found = window_norms(layout, *_arrays(vectors))

    for index, entry in enumerate(layout):
        assert found["mass"][index] == vectors.get(int(entry["number"]), (0,))[0]
        assert found["heading_mass"][index] == vectors.get(int(entry["heading"]), (0,))[0]
        expected = [_reference(layout, vectors, index, *window) for window in WINDOWS]
        np.testing.assert_allclose(found["norms"][index], expected, rtol=1e-5, atol=1e-4)


@given(_texts(), st.integers(1, 9))
@settings(deadline=None)
def test_norms_do_not_depend_on_the_size_of_a_block(
    texts: tuple[NDArray[np.void], dict[int, tuple[float, NDArray[np.float32]]]], entries: int
) -> None:
    """A long text is computed in parts, and windows reach from one into the next."""
    layout, vectors = texts
    whole = window_norms(layout, *_arrays(vectors))

    parts = window_norms(layout, *_arrays(vectors), block_entries=entries)

    np.testing.assert_allclose(parts["norms"], whole["norms"], rtol=1e-5, atol=1e-4)


def test_a_text_without_vectors_has_norms_of_zero() -> None:
    """What has no vector adds nothing, and nothing is divided by it."""
    layout = np.array([(1, -1, 0, 0, 1, FIRST, 1)], dtype=LAYOUT_DTYPE)

    found = window_norms(
        layout, np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32), np.zeros((0, 0), dtype=np.float32)
    )

    assert found.tobytes() == bytes(NORMS_DTYPE.itemsize)
