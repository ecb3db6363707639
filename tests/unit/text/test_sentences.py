"""Where sentences begin and end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_reminiscence.text.sentences import first_sentence, split_sentences


@pytest.mark.parametrize(
    "sentences",
    [
        ["I work night shifts at St. Anna hospital.", "It is in Halle."],
        ["Tomas works for Dr. Weber.", "He is glad!"],
        ["He pays 3.50 EUR, e.g. for coffee.", "More he does not pay."],
        ["We met J. R. R. Tolkien in Oxford.", "So did I.", "So did she."],
        ["She sells nuts, figs, etc. to tourists.", "She came at 5 p.m.", "Then she left."],
        ["Er wohnt in Frankfurt a. d. Oder.", "Dort gibt es z. B. Kaffee bei Fr. Lind."],
        ["Am 5. Mai zieht sie um.", "Das war im Jahr 2024.", "Es war spät."],
        ["Il a vu Mme. Petit hier.", "Ella vive con la Sra. Gómez."],
        ["彼は来た。", 'She asked: "Why?"', "Nobody knew (I think).", "No."],
        ["no", "end"],
    ],
)
def test_sentences_end_where_a_reader_sees_it(sentences: list[str]) -> None:
    """Abbreviations, initials, times and dates do not end one; a line break does."""
    text = "\n".join(sentences) if sentences[0] == "no" else " ".join(sentences)

    assert list(split_sentences(text)) == sentences
    assert first_sentence(f"  {text}") == sentences[0]


@given(st.text(alphabet="aI. !?\n5\u3002Dr", max_size=60))
def test_nothing_is_lost(text: str) -> None:
    """The sentences are the text, but for the white space around them."""
    assert "".join("".join(split_sentences(text)).split()) == "".join(text.split())
    assert first_sentence(text) == next(iter(split_sentences(text)), "")
