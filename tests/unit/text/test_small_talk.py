"""What is too little to be worth remembering or comparing."""

from __future__ import annotations

import pytest

from agent_reminiscence.text.small_talk import is_small_talk


@pytest.mark.parametrize(
    "text",
    [
        "ok, thanks!",
        "Thank you very much.",
        "Thanks a lot!",
        "Wow, great!",
        "See you!",
        "Bye, see you later 👋",
        "You're welcome.",
        "好的 谢谢",
        "👍 …",
        "",
    ],
)
def test_greetings_thanks_and_exclamations_are(text: str) -> None:
    """Whatever stands around the words."""
    assert is_small_talk(text)


@pytest.mark.parametrize(
    "text", ["I'm vegan.", "Call me Bob", "素食者", "7", "Yes, on Monday", "Thanks to Ana!", "No nuts."]
)
def test_what_says_something_is_not(text: str) -> None:
    """However short it is: its length says little, and in another script something else."""
    assert not is_small_talk(text)
