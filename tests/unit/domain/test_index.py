"""The index's records, put in order."""

from __future__ import annotations

import numpy as np
import pytest

from agent_reminiscence.domain.index import NORMS_DTYPE, SegmentSizes, in_layout_order


def _segments(**sizes: int) -> SegmentSizes:
    keys = sorted(sizes)
    return SegmentSizes(
        np.array([key.encode().ljust(20, b".") for key in keys]), np.array([sizes[key] for key in keys], dtype=np.int64)
    )


def _norms(*masses: int) -> np.ndarray:
    norms = np.zeros(len(masses), dtype=NORMS_DTYPE)
    norms["mass"] = masses
    return norms


@pytest.mark.parametrize(
    ("stored", "masses", "expected"),
    [
        pytest.param({"a": 2, "b": 1, "c": 3}, [1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6], id="all there"),
        pytest.param({"a": 2, "c": 3}, [1, 2, 4, 5, 6], [1, 2, 0, 4, 5, 6], id="one without"),
        pytest.param({"a": 1, "b": 1, "c": 3}, [9, 3, 4, 5, 6], [0, 0, 3, 4, 5, 6], id="one of an earlier layout"),
        pytest.param({"b": 1, "x": 2}, [3, 8, 8], [0, 0, 3, 0, 0, 0], id="one of no layout"),
        pytest.param({}, [], [0, 0, 0, 0, 0, 0], id="none there"),
    ],
)
def test_norms_stand_where_their_layouts_are(stored: dict[str, int], masses: list[int], expected: list[int]) -> None:
    """A segment whose norms are missing, or were computed for an earlier layout, has zeros."""
    ordered = in_layout_order(_segments(a=2, b=1, c=3), _segments(**stored), _norms(*masses))
    assert ordered["mass"].tolist() == expected
