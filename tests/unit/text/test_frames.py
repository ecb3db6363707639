"""What only introduces or repeats a statement."""

from __future__ import annotations

import pytest

from agent_reminiscence.text.folding import fold_text
from agent_reminiscence.text.frames import unframed

STATEMENT = "the ferry leaves at noon"


@pytest.mark.parametrize(
    "text",
    [
        "The ferry leaves at noon.",
        "The ferry leaves at noon!",
        "Remember: the ferry leaves at noon.",
        "As I said, the ferry leaves at noon.",
        "Don't forget: the ferry leaves at noon, please.",
        "Don\u2019t forget that the ferry leaves at noon.",
        "Just to repeat it: the ferry leaves at noon, as always.",
        "Wie gesagt: The ferry leaves at noon, danke.",
        "Also, by the way, the ferry leaves at noon",
    ],
)
def test_a_frame_is_taken_off(text: str) -> None:
    """Whoever says it again says it in other words."""
    assert unframed(fold_text(text)) == STATEMENT


@pytest.mark.parametrize(
    "text",
    [
        "remember the milk",
        "again and again he called",
        "i said that it rains",
        "the ferry does not leave at noon",
        "as always",
        "so be it",
        "it is not true that the ferry leaves at noon",
        "if the ferry leaves at noon, call me",
    ],
)
def test_what_says_something_stays(text: str) -> None:
    """A word that begins like a frame may be the statement, and a frame alone is all there is."""
    assert unframed(fold_text(text)) == text
