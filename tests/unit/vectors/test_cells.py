"""Cells of like vectors: pure functions of arrays."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from agent_reminiscence.services.vectors.cells import CELL_MIN_CHUNKS, find_centres, find_nearest, wants_sorting


def _clusters(count: int, members: int) -> tuple[NDArray[np.float32], NDArray[np.intp]]:
    """Unit vectors around `count` random directions, and which direction each is around."""
    random = np.random.default_rng(3)
    directions = random.normal(size=(count, 16))
    kinds = np.repeat(np.arange(count), members)
    vectors = directions[kinds] + 0.05 * random.normal(size=(count * members, 16))
    unit: NDArray[np.float32] = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return unit, kinds


def test_centres_are_of_unit_length_and_the_same_every_time() -> None:
    """Two runs over the same vectors sort them alike."""
    vectors, _ = _clusters(8, 40)

    first, second = find_centres(vectors, 8), find_centres(vectors, 8)

    assert first.tobytes() == second.tobytes()
    np.testing.assert_allclose(np.linalg.norm(first, axis=1), 1, rtol=1e-5)


def test_what_is_alike_falls_into_one_cell() -> None:
    """No cell mixes two groups that are far from each other, where there are more cells than groups."""
    vectors, kinds = _clusters(6, 40)

    cells = find_nearest(vectors, find_centres(vectors, 24))

    assert all(len(set(kinds[cells == cell].tolist())) == 1 for cell in set(cells.tolist()))


@pytest.mark.parametrize("count", [1, 5])
def test_equal_vectors_give_centres_too(count: int) -> None:
    """Texts that say the same have the same vector; cells that stay empty keep a centre."""
    vectors = np.tile(np.eye(4, dtype=np.float32)[0], (5, 1))

    centres = find_centres(vectors, count)

    assert np.isfinite(centres).all()
    assert find_nearest(vectors, centres).tolist() == [0] * 5


def test_many_equal_vectors_take_one_cell() -> None:
    """Headings of the same text are as many as the memories; the other cells are for what differs."""
    different, _ = _clusters(100, 3)
    equal = np.tile(np.eye(16, dtype=np.float32)[0], (300, 1))

    cells = find_nearest(np.concatenate((equal, different)), find_centres(np.concatenate((equal, different)), 24))

    assert len(set(cells[:300].tolist())) == 1
    assert len(set(cells.tolist())) == 24


def test_the_nearest_is_the_one_with_the_largest_dot_product() -> None:
    """As the database finds it."""
    vectors, _ = _clusters(4, 5)
    centres = find_centres(vectors, 7)

    found = find_nearest(vectors, centres)

    dots = vectors @ centres.T
    assert (dots[np.arange(len(vectors)), found] == dots.max(axis=1)).all()


@pytest.mark.parametrize(
    ("vectors", "cells", "expected"),
    [
        (CELL_MIN_CHUNKS - 1, 0, False),
        (CELL_MIN_CHUNKS, 0, True),
        (20_000, 141, False),
        (2 * 141**2 - 1, 141, False),
        (2 * 141**2, 141, True),
    ],
)
def test_a_tenant_is_sorted_when_it_is_large_and_again_when_it_has_doubled(
    vectors: int, cells: int, expected: bool
) -> None:
    """The number of cells says how large it was."""
    assert wants_sorting(vectors, cells) is expected
