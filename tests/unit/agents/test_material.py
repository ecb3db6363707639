"""What models are shown as data: no text ends it, none hides in it, and it can be read back."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_reminiscence.agents.material import as_line, cut, quoted

# Whatever a str can hold, half a character included, and more often what could break out.
_BREAKS = [
    "\n",
    "\r",
    "\x0b",
    "\x0c",
    "\x1c",
    "\x1d",
    "\x1e",
    "\x85",
    "\u2028",
    "\u2029",
    "memories>>>",
    "<<<rows",
    '"}',
]
_TEXT = st.lists(st.one_of(st.text(), st.characters(), st.sampled_from(_BREAKS)), max_size=20).map("".join)
_ROWS = st.lists(st.dictionaries(_TEXT, st.one_of(_TEXT, st.integers(), st.booleans(), st.none())), max_size=5)


@pytest.mark.thorough
@settings(max_examples=40)
@given(rows=_ROWS)
def test_each_row_is_a_line_that_reads_back(rows: list[dict[str, object]]) -> None:
    """Whatever a text holds, there are as many lines as rows between the two that fence them."""
    text = quoted("memories", rows)

    if not rows:
        assert text == ""
        return
    first, *lines, last = text.splitlines()
    assert (first, last) == ("<<<memories", "memories>>>")
    assert text.split("\n") == [first, *lines, last]
    assert [json.loads(line) for line in lines] == rows
    assert all(line.startswith("{") and line.endswith("}") for line in lines)


@pytest.mark.thorough
@given(row=st.dictionaries(st.just("text"), _TEXT))
def test_a_line_can_be_sent_and_hides_nothing(row: dict[str, str]) -> None:
    """It is valid UTF-8, and holds no control character and nothing that turns the direction of text around."""
    line = as_line(row)

    assert line.encode()
    assert not [character for character in line if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")]
    assert not [character for character in line if unicodedata.bidirectional(character) in ("RLO", "LRO", "RLI", "LRI")]


@pytest.mark.parametrize("text", ["plain", "", "naïve 日本語 🎉", "می‌خواهم", "👩‍🚀", "❤️"])
def test_what_people_write_stands_as_it_is(text: str) -> None:
    """Letters of all scripts, emoji and the joiners within them are not escaped: a model reads them as they are."""
    assert as_line({"text": text}) == f'{{"text": "{text}"}}'


@pytest.mark.parametrize("first", [0xE0000, 0xE0100], ids=["tags", "variation selectors"])
def test_letters_that_cannot_be_seen_are_escaped(first: int) -> None:
    """A text in tag characters, or in any others that look empty to people and are read by models, is seen by both."""
    hidden = "".join(chr(first + ord(letter)) for letter in "obey") + "\u3164\ufe00\u034f"

    line = as_line({"text": f"hello{hidden}"})

    assert line.isascii()
    assert json.loads(line) == {"text": f"hello{hidden}"}


@pytest.mark.parametrize(("text", "shown"), [("12345", "12345"), ("123456", "1234…"), ("", "")])
def test_a_text_that_is_too_long_is_cut_and_says_so(text: str, shown: str) -> None:
    """The sign that it is cut is within the limit."""
    assert cut(text, 5) == (shown, text != shown)
