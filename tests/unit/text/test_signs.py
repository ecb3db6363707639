"""Signs are terms beside the words that they stand by, and ordinary text has none."""
# ruff: noqa: RUF001  # signs of many scripts

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_reminiscence.text.signs import signs
from agent_reminiscence.text.words import MAX_TERM_BYTES, analyse, query_words

ORDINARY = [
    "Well-known names, on pages 5-6; the twenty-first of March.",
    "- 5 eggs\n- flour\n* milk\n1. whisk\n# Heading\n## Second – with a dash",
    "He said: wait... no -- yes—maybe. Isn't it “fine”? (Of course!)",
    "Look at https://ann.example.com/a/1.2/?price=$5&x=+3#part or www.example.org/#top, or write to ann.b@example.com.",
    "That was in 2023, on 2023-05-08, from 9 - 10, page 7.",
    "Haupt- und Nebeneingang, E.ON, z. B. der 8. Mai: „Grüß Gott!“",
    "L’été dernier, c’était « parfait » : 12 personnes, n'est-ce pas ?",
    "¿Dónde está? ¡Allí! Quedamos a las 8, ¿vale?",
    "Ну что ж, кто-то пришёл — и всё.",
    "你好。我们在北京见面，好吗？3点-5点",
    "今日は「晴れ」です。ラーメンを食べた！",
    "متى وصلت إلى المدينة؟",
    "echo $HOME; ${PATH}; $(date); a->b; x_y = [1]; i-1; f(x); *bold*; `code`; a\\b; 1) 2)",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_has_no_signs(text: str) -> None:
    """Its terms, and those of a question like it, are its words and nothing more."""
    assert signs(text.casefold()) == []
    assert all(term.replace("\u0651", "").isalnum() for term in analyse(text, "en"))
    assert not any(word.is_sign for word in query_words(text, ["en", "de", "tr"]))


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("C++ or C#, not C", ["c", "c", "c", "c++", "c#"]),
        ("She got A- and B+", ["got", "b", "b+", "a-"]),
        ("blood group AB-, 0+", ["blood", "group", "ab", "0", "0+", "ab-"]),
        ("minus -7, \u22127 or –7, plus (+7)", ["minus", "7", "7", "7", "plus", "7", "-7", "-7", "-7", "+7"]),
        ("$20 20 $ US$20", ["20", "20", "us", "20", "$20", "$20", "$20", "$", "$", "$"]),
        ("€1.50", ["1", "50", "1.50", "€1.50", "€"]),
        ("paid in €", ["paid", "€"]),
        ("-$3", ["3", "-3", "$3", "$"]),
        ("30% and 30\u00a0%", ["30", "30", "30%", "30%"]),
        ("v3.2.1 follows 3.2", ["v3", "2", "1", "follow", "3", "2", "3.2.1", "3.2"]),
        ("at 18:45, 1/2 cup", ["18", "45", "1", "2", "cup", "18:45", "1/2"]),
        ("#garden #12 @bo_b .NET", ["garden", "12", "bo", "b", "net", "#garden", "#12", "@bo_b", ".net"]),
        ("Disney+ is 16+", ["disney", "16", "disney+", "16+"]),
        ("用C++，涨12%，花€9", ["用", "c", "涨", "12", "花", "9", "12%", "c++", "€9", "€"]),
        ("＋４０ ％", ["40", "+40", "40%"]),
    ],
)  # fmt: skip
def test_a_sign_is_a_term_beside_its_words(text: str, terms: list[str]) -> None:
    """The bare words are still found, and the sign tells apart what has the same words."""
    assert analyse(text, "en") == terms


def test_a_pictograph_is_one_term_in_every_style() -> None:
    """Whoever sends a thumb in another skin tone, or a heart without colour, means the same."""
    assert analyse("👍🏽👍 ❤️❤", "en") == ["👍", "👍", "❤", "❤"]
    assert analyse("👩🏿‍🚀 and 👩‍🚀 from 🇫🇮", "en") == ["👩\u200d🚀", "👩\u200d🚀", "🇫🇮"]
    assert analyse("\U0001f3fd", "en") == []


def test_a_question_looks_up_its_signs_once_in_all_languages() -> None:
    """A sign is read alike in each of them."""
    read = query_words("C++ or -4? C++!", ["en", "de", "tr", "ja"])

    assert [(word.terms, word.count) for word in read if word.is_sign] == [(("-4",), 1), (("c++",), 2)]


@given(
    st.text(
        st.one_of(st.characters(), st.sampled_from("a1c+-−–#@.$€%,:/ \n👍🏽\u200d\ufe0f🇩🇪❤")),
        max_size=80,
    )
)
def test_any_text_has_signs_that_can_be_stored(text: str) -> None:
    """Each holds a character that no word has, and fits the index."""
    for term in analyse(text, "xx"):
        assert 0 < len(term.encode()) <= MAX_TERM_BYTES
    for sign in signs(text.casefold()):
        assert not sign.isalnum()
        assert " " not in sign
        assert "\n" not in sign
