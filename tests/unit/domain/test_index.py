"""The index's records, put in order."""

from __future__ import annotations

import numpy as np
import pytest

from agent_reminiscence.domain.index import (
    MAX_INDEX,
    NORMS_DTYPE,
    SegmentSizes,
    chunk_number,
    in_layout_order,
    with_beginnings,
)


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


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        pytest.param([], [], id="none"),
        pytest.param([(7, 0)], [(-7, 0), (7, 0)], id="a first chunk"),
        pytest.param([(-7, 0)], [(-7, 0), (7, 0)], id="a first heading"),
        pytest.param([(-7, 2), (7, MAX_INDEX)], [(-7, 2), (-7, 0), (7, 0), (7, MAX_INDEX)], id="later ones"),
        pytest.param([(7, 1), (9, 0)], [(-9, 0), (-7, 0), (7, 0), (7, 1), (9, 0)], id="of two events"),
    ],
)
def test_an_event_begins_with_a_chunk_and_a_heading(
    numbers: list[tuple[int, int]], expected: list[tuple[int, int]]
) -> None:
    """Their numbers follow from that of any chunk or heading that it added."""

    def number(position: int, index: int) -> int:
        return chunk_number(abs(position), index) * (1 if position > 0 else -1)

    found = with_beginnings(np.array([number(*one) for one in numbers], dtype=np.int64))

    assert found.tolist() == [number(*one) for one in expected]
