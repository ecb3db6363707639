"""What a model that writes a profile is shown first."""

from __future__ import annotations

from agent_reminiscence.services.profiles.writing import SHOWN_PASSAGES, choose_shown
from tests.unit.recall.test_retrieval import make_hit


def test_a_passage_that_is_too_long_keeps_out_no_shorter_one() -> None:
    """Nor does it use up the room or one of the places."""
    short = [make_hit(f"Short {number}.", tokens=10) for number in range(SHOWN_PASSAGES + 5)]

    assert len(choose_shown([make_hit("Long.", tokens=90), *short[:3]], 35)) == 3
    assert len(choose_shown(short, 25)) == 2
    assert len(choose_shown(short, 10_000)) == SHOWN_PASSAGES
