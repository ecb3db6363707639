"""Chunking loses nothing, keeps ideas and utterances whole, and knows who speaks."""

from __future__ import annotations

import gc
import tracemalloc
from functools import partial

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.text.chunking import _FENCE, TextSpan, Turn, _find_fence_lines, chunk_text, clean_speaker
from agent_reminiscence.text.tokens import count_tokens

# Pieces that meet in real notes and chats, so that random texts reach every rule, beside characters of any kind.
PIECES = st.sampled_from(
    [
        *("Alice: ", "**Bob:** ", "user: ", "Note: ", "[10:31] Eve: ", "https://a.example ", "we ship. ", "word " * 30),
        *("# Title", "## Part", "===", "---", "- item", "1. item", "```", "```python", "~~~", "Steps:", "你好。"),
        *("\n", "\n", "\n\n", "\r\n", "\r", " ", "\t", "\u2028", "👩‍👩‍👧", "e\u0301", "\u200d", "a" * 40),
    ]
)
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
TEXT = st.one_of(ANY_TEXT, st.lists(st.one_of(PIECES, ANY_TEXT), max_size=30).map("".join))


@st.composite
def spoken_text(draw: st.DrawFn) -> tuple[str, list[Turn]]:
    """A text with turns anywhere in it, as metadata may place them."""
    text = draw(TEXT.filter(bool))
    starts = draw(st.lists(st.integers(0, len(text) - 1), unique=True, max_size=6).map(sorted))
    speakers = st.one_of(st.none(), st.sampled_from(["Alice", "Bob"]))
    return text, [Turn(start, draw(speakers)) for start in starts]


def words(text: str, spans: list[TextSpan]) -> list[str]:
    """What each chunk says, without the white space at its ends."""
    return [text[span.start : span.end].strip() for span in spans]


def chunks(text: str, *, max_tokens: int = 120) -> list[str]:
    """The chunks' words of a text without metadata."""
    return words(text, chunk_text(text, max_tokens=max_tokens))


def spoken(text: str, *, speaker: str | None = None, turns: list[Turn] | None = None) -> list[tuple[str | None, str]]:
    """Each chunk's speaker and words."""
    spans = chunk_text(text, speaker=speaker, turns=turns)
    return list(zip([span.speaker for span in spans], words(text, spans), strict=True))


def assert_tiles(text: str, spans: list[TextSpan]) -> None:
    """No character is lost, doubled or moved, and no span is empty."""
    edges = [0, *(span.end for span in spans)]
    assert [span.start for span in spans] == edges[:-1]
    assert all(span.start < span.end for span in spans)
    assert edges[-1] == len(text)


@settings(max_examples=120, deadline=None)
@given(TEXT, st.integers(1, 150))
@example("\n \n", 5)
@example("Alice: \u2028", 1)
def test_spans_tile_any_text_within_the_limit(text: str, max_tokens: int) -> None:
    """Nothing that was accepted is lost, and no chunk is too long to be searched well."""
    spans = chunk_text(text, max_tokens=max_tokens)

    assert_tiles(text, spans)
    for chunk in words(text, spans):
        assert count_tokens(chunk) <= max_tokens or len(chunk) == 1
        assert len(chunk) <= 16 * max_tokens
    assert spans == chunk_text(text, max_tokens=max_tokens)


@settings(max_examples=80, deadline=None)
@given(spoken_text(), st.sampled_from([None, "Carol"]), st.integers(1, 60))
def test_every_piece_of_a_turn_has_its_speaker(
    spoken: tuple[str, list[Turn]], speaker: str | None, max_tokens: int
) -> None:
    """Metadata is exact: no word may end up in another one's mouth."""
    text, turns = spoken
    spans = chunk_text(text, speaker=speaker, turns=turns, max_tokens=max_tokens)

    assert_tiles(text, spans)
    if not turns:
        return
    for span in spans:
        offsets = [offset for offset in range(span.start, span.end) if not text[offset].isspace()]
        for offset in offsets:
            turn = max((turn for turn in turns if turn.start <= offset), key=lambda turn: turn.start, default=None)
            assert span.speaker == ((turn and turn.speaker) or speaker)


def _count_bytes(text: str) -> int:
    return len(text.encode())


@pytest.mark.thorough
@settings(max_examples=100, deadline=None)
@given(TEXT, st.integers(5, 60))
def test_another_token_counter_is_held_to_as_well(text: str, max_tokens: int) -> None:
    """A user's own counter decides, also when it disagrees with the bundled one."""
    spans = chunk_text(text, max_tokens=max_tokens, token_counter=_count_bytes)

    assert_tiles(text, spans)
    assert all(_count_bytes(chunk) <= max_tokens or len(chunk) == 1 for chunk in words(text, spans))


def test_a_chunk_begins_with_its_words() -> None:
    """White space goes with the chunk before it; only the first chunk may begin with some."""
    text = "\n  First.\n\n\n   Second.  \n \n\tThird.\n"

    assert [text[s.start : s.end] for s in chunk_text(text)] == ["\n  First.\n\n\n   ", "Second.  \n \n\t", "Third.\n"]


def test_white_space_alone_is_one_chunk_and_no_text_is_none() -> None:
    """Tiling holds at its ends, too."""
    assert chunk_text(" \r\n\t ") == [TextSpan(0, 5, None)]
    assert chunk_text("") == []


def test_paragraphs_are_chunks_however_short() -> None:
    """Two facts in two paragraphs are two ideas; joined, each would blur the other's vector."""
    assert chunks("Ana lives in Porto.\n\nBen prefers tea.\nWith milk.\n \nThe rent is due.") == [
        "Ana lives in Porto.",
        "Ben prefers tea.\nWith milk.",
        "The rent is due.",
    ]


def test_a_heading_goes_with_the_text_under_it() -> None:
    """A heading alone answers nothing, and the text under it often does not repeat it."""
    assert chunks("# Plan\n\n## Release\n\nShip on Friday.\n\nTell Ana.\n## Party\nBring cake.") == [
        "# Plan\n\n## Release\n\nShip on Friday.",
        "Tell Ana.",
        "## Party\nBring cake.",
    ]


def test_an_underlined_heading_is_a_heading() -> None:
    """Markdown's older spelling, which READMEs and mails still use."""
    assert chunks("Release\n=======\nShip on Friday.\nParty\n\nCake\n---\nBring some.") == [
        "Release\n=======\nShip on Friday.\nParty",
        "Cake\n---\nBring some.",
    ]


def test_a_heading_stays_alone_when_both_do_not_fit() -> None:
    """The limit comes first."""
    text = "# Release plan\n\n" + "word " * 122

    assert chunks(text)[0] == "# Release plan"


def test_a_hash_tag_is_no_heading() -> None:
    """`#release` is a word."""
    assert chunks("We ship.\n#release today") == ["We ship.\n#release today"]


def test_the_items_of_a_list_are_one_chunk() -> None:
    """One loose item of a shopping list says nothing by itself; the line that introduces it belongs to it."""
    assert chunks("Buy:\n\n- milk\n\n- eggs\n\n1. bread\n\nThen rest.") == [
        "Buy:\n\n- milk\n\n- eggs\n\n1. bread",
        "Then rest.",
    ]


def test_a_long_list_is_cut_between_its_items() -> None:
    """An item is the smallest idea of a list."""
    items = [f"- item number {number} of the list" for number in range(40)]

    for text in ("\n\n".join(items), "\n".join(items)):
        assert [item.strip() for chunk in chunks(text) for item in chunk.split("\n") if item] == items


def test_a_block_without_words_joins_the_one_before() -> None:
    """A rule or a lone emoji would be a row that no question finds."""
    assert chunks("It works.\n\n🎉\n\n---\n\nNext.") == ["It works.\n\n🎉\n\n---", "Next."]


def test_line_ends_of_every_system_separate_paragraphs() -> None:
    """Windows and old Macintosh files are text as well; form feeds and line separators are no line ends."""
    assert chunks("One.\r\n\r\nTwo.\r\rThree.\n\nFour\u2028\x0c\u2028five.") == [
        "One.",
        "Two.",
        "Three.",
        "Four\u2028\x0c\u2028five.",
    ]


def test_each_dialogue_line_is_one_chunk_with_its_speaker() -> None:
    """An utterance is what a question about a conversation looks for."""
    text = "Ana: Hi!\nBen O'Hara-Smith: Hello.\nHow are you?\nuser: fine\nDr. Eve: 👋\n**Zoë**: bold\n__Max:__ too"

    assert spoken(text) == [
        ("Ana", "Ana: Hi!"),
        ("Ben O'Hara-Smith", "Ben O'Hara-Smith: Hello.\nHow are you?"),
        ("user", "user: fine"),
        ("Dr. Eve", "Dr. Eve: 👋"),
        ("Zoë", "**Zoë**: bold"),
        ("Max", "__Max:__ too"),
    ]


@pytest.mark.parametrize(
    ("line", "speaker"),
    [
        ("[10:31] Ana: hi", "Ana"),
        ("(2026-05-08 10:31) Ana: hi", "Ana"),
        ("10:31:05 PM Ana: hi", "Ana"),
        ("SPEAKER_00: hi", "SPEAKER_00"),
        ("Speaker 2: hi", "Speaker 2"),
        ("Assistant: hi", "Assistant"),
        ("TOOL: hi", "TOOL"),
        ("April: hi", "April"),
        ("Jean-Luc Picard: hi", "Jean-Luc Picard"),
        ("Élodie: salut", "Élodie"),
    ],
)
def test_a_name_before_a_colon_is_a_speaker(line: str, speaker: str) -> None:
    """The spellings of the transcripts people paste."""
    assert spoken(line) == [(speaker, line)]


@pytest.mark.parametrize(
    "line",
    [
        "Note: buy milk",
        "WARNING: hot",
        "TODO: call Ana",
        "P.S.: bring cake",
        "Due Date: Friday",
        "Step 2: mix",
        "Content-Type: text/html",
        "Final Answer: 42",
        "Returns: the sum",
        "https: //a.example",
        "https://a.example: broken",
        "Ana:no space",
        "Ana: ",
        "ana: lower case",
        "We met: it was fine",
        "One Two Three Four Five: too many words",
        "- Ana: a list item",
        "    Ana: indented code",
        "10:31: lunch",
        "*: x",
    ],
)
def test_what_is_no_name_is_no_speaker(line: str) -> None:
    """A wrong speaker is worse than none: searches boost what a person said."""
    assert [speaker for speaker, _ in spoken(line)] == [None]


def test_an_utterance_ends_at_a_blank_line_and_at_a_heading() -> None:
    """What the writer of a transcript adds between two utterances was said by nobody."""
    assert spoken("Ana: Hi.\n\n(They laugh.)\nBen: Bye.\n## Later\nThey left.") == [
        ("Ana", "Ana: Hi."),
        (None, "(They laugh.)"),
        ("Ben", "Ben: Bye."),
        (None, "## Later\nThey left."),
    ]


def test_a_heading_above_an_utterance_goes_with_it() -> None:
    """The chunk is the utterance's: one chunk has one speaker."""
    assert spoken("# Monday\n\nAna: Hi.\nBen: Bye.") == [("Ana", "# Monday\n\nAna: Hi."), ("Ben", "Ben: Bye.")]


def test_labels_in_a_code_fence_are_code() -> None:
    """A pasted configuration file is not a conversation."""
    code = "```yaml\nName: Ana\n\nOwner: Ben\n# no heading\n```"

    assert spoken(f"Ana: look\n{code}\nEve: nice") == [("Ana", f"Ana: look\n{code}"), ("Eve", "Eve: nice")]


def test_a_fence_may_open_behind_a_label() -> None:
    """In a rendered chat, a message that is all code begins with its speaker."""
    code = "Ana: ```python\nBen: int\n\nx = 1\n```"

    assert spoken(f"{code}\nEve: nice") == [("Ana", code), ("Eve", "Eve: nice")]


def test_a_fence_that_is_never_closed_is_a_line_like_any_other() -> None:
    """A cut-off log must not swallow the speakers of the rest of the text."""
    assert spoken("Ana: see\n````sh\nBen: what?\n```\nEve: this") == [
        ("Ana", "Ana: see\n````sh"),
        ("Ben", "Ben: what?\n```"),
        ("Eve", "Eve: this"),
    ]


def test_a_code_fence_that_fits_stays_whole() -> None:
    """Half a function is no answer; blank lines and comments in it are no boundaries."""
    code = "```python\ndef add(a, b):\n\n    # Heading?\n    return a + b\n```"
    before, after = "word " * 100, "more " * 100

    assert chunks(f"{before.strip()}\n{code}\n{after.strip()}") == [before.strip(), code, after.strip()]


def test_a_long_utterance_is_cut_at_sentences_and_keeps_its_speaker() -> None:
    """Every piece of what Ana said is found as hers."""
    sentences = [f"In year {year} we sailed to the island and came back in autumn." for year in range(1990, 2020)]

    pieces = spoken("Ana: " + " ".join(sentences) + "\nBen: Wow!")

    assert len(pieces) > 3
    assert pieces[-1] == ("Ben", "Ben: Wow!")
    assert all(speaker == "Ana" and piece.endswith("autumn.") for speaker, piece in pieces[:-1])


def test_a_long_message_is_cut_at_its_own_structure() -> None:
    """An assistant's answer has headings, paragraphs and code; a label in it is a word of the assistant's."""
    text = "# Answer\n\nUse this:\n\n```sh\nmake\n```\n\nUser: is a label here.\n\n" + "word " * 110

    assert [piece[:12] for _, piece in spoken(text, speaker="assistant")] == [
        "# Answer\n\nUs",
        "User: is a l",
        "word word wo",
    ]
    assert {speaker for speaker, _ in spoken(text, speaker="assistant")} == {"assistant"}


def test_a_text_of_one_speaker_is_one_utterance() -> None:
    """Metadata comes before `Name:` lines, and short paragraphs of one utterance stay together."""
    assert spoken("Ben: said hi.\n\nSo did I.", speaker=" **Ana** ") == [("Ana", "Ben: said hi.\n\nSo did I.")]


def test_turns_say_where_utterances_begin() -> None:
    """An importer knows it exactly, whatever the words look like."""
    text = "Log\nHi Ben!\nEve: says hi, too.\n\nBye.\nHello."
    turns = [Turn(text.index("Hi"), "Ana"), Turn(text.index("Hello"), "*Ben*")]

    assert spoken(text, turns=turns) == [
        (None, "Log"),
        ("Ana", "Hi Ben!\nEve: says hi, too.\n\nBye."),
        ("Ben", "Hello."),
    ]


def test_a_turn_without_a_speaker_is_the_whole_texts_speakers() -> None:
    """The nearer statement wins, and the farther one fills its gaps."""
    text = "Hi. Hello. Bye."

    assert spoken(text, speaker="Ana", turns=[Turn(4, None), Turn(11, "Ben")]) == [
        ("Ana", "Hi."),
        ("Ana", "Hello."),
        ("Ben", "Bye."),
    ]


def test_a_turn_of_white_space_leaves_no_chunk() -> None:
    """An empty message in an import says nothing."""
    text = "Hi.\n  \nBye."

    assert spoken(text, turns=[Turn(0, "Ana"), Turn(4, "Ben"), Turn(7, "Eve")]) == [("Ana", "Hi."), ("Eve", "Bye.")]


@pytest.mark.parametrize(
    ("turns", "message"),
    [
        ([Turn(3, "Ana")], "starts at 3, outside the text's 3 characters"),
        ([Turn(-1, "Ana")], "starts at -1"),
        ([Turn(1, "Ana"), Turn(1, "Ben")], "starts at 1, not after"),
        ([Turn(2, "Ana"), Turn(0, "Ben")], "starts at 0, not after"),
    ],
)
def test_turns_that_cannot_be_are_refused(turns: list[Turn], message: str) -> None:
    """Offsets of another version of the text would put words into wrong mouths."""
    with pytest.raises(InvalidInputError, match=message):
        chunk_text("Hi!", turns=turns)


def test_a_limit_below_one_token_is_refused() -> None:
    """No text fits into it."""
    with pytest.raises(InvalidInputError, match="max_tokens is 0"):
        chunk_text("Hi!", max_tokens=0)


@pytest.mark.parametrize(
    ("speaker", "name"),
    [(" **Ana  B.** ", "Ana B."), ("`tool`", "tool"), ("Ana:", "Ana"), ("**", None), ("  ", None), (None, None)],
)
def test_speakers_are_names_without_markup(speaker: str | None, name: str | None) -> None:
    """`**Ana**` and `Ana` are one person."""
    assert clean_speaker(speaker) == name


def test_chinese_is_cut_at_sentences() -> None:
    """No spaces, three bytes a character: offsets are characters all the same."""
    sentence = "我昨天去了一个支持小组那里的故事非常感人。"

    pieces = chunks(sentence * 20)

    assert "".join(pieces) == sentence * 20
    assert all(piece.endswith("。") for piece in pieces)


def test_emoji_families_and_accents_stay_whole() -> None:
    """Half a cluster shows as other people, or as a stray mark."""
    family = "👩‍👩‍👧‍👦"

    assert "".join(chunks(family * 50, max_tokens=40)) == family * 50
    assert all(len(piece) % len(family) == 0 for piece in chunks(family * 50, max_tokens=40))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "text",
    [
        "word " * 200_000,
        "Ana: we ship on Friday, if all goes well.\n" * 24_000,
        "a" * 300_000,
        " " * 500_000 + "x" + "\n" * 500_000,
        "```x\n" * 60_000,
        "---\n\n" * 30_000,
        "天地玄黄宇宙洪荒" * 12_500,
    ],
    ids=["words", "dialogue", "one word", "white space", "fences", "rules", "chinese without punctuation"],
)
def test_a_large_text_is_chunked_whole(text: str) -> None:
    """Up to a megabyte, in seconds: what grew with the square of the text would keep this test busy for hours."""
    assert_tiles(text, chunk_text(text))


@pytest.mark.thorough
def test_a_text_that_was_chunked_is_let_go() -> None:
    """A process that writes for months does not keep what it has written."""
    chunk_text("Warm up.")
    tracemalloc.start()
    try:
        for number in range(5):
            chunk_text(f"{number} " + "All is well. " * 4_000)
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    # One such text takes 52 kB.
    assert kept < 100_000


_FENCE_PIECES = st.lists(
    st.sampled_from(["```", "~~~", "````", "`", "~", "\n", "\r", "\r\n", "words", " ", "python", "Ann: "]), max_size=14
).map("".join)


@given(_FENCE_PIECES, st.integers(0, 20), st.integers(0, 20))
@settings(max_examples=150, deadline=None)
@example("a\r```\r\n~~~ b", 0, 0)
def test_fences_are_found_where_the_pattern_finds_them(text: str, cut: int, rest: int) -> None:
    """Looked for by their marks, in a part of a text as in all of it."""
    start, end = min(cut, len(text)), max(0, len(text) - rest)

    found = [match.span() for match in _find_fence_lines(text, start, end)]

    assert found == [match.span() for match in _FENCE.finditer(text, start, end)]


@given(
    st.lists(
        st.sampled_from(["Ann: yes", "# Head", "- item", "a" * 130, "word " * 40, "\u00e9" * 60, "", "x"]), max_size=9
    )
)
@settings(deadline=None)
def test_what_is_too_short_to_be_counted_is_cut_as_if_it_were(lines: list[str]) -> None:
    """A counter that is not known to be bounded is always asked; both give the same chunks."""
    text = "\n".join(lines)

    assert chunk_text(text) == chunk_text(text, token_counter=partial(count_tokens))
