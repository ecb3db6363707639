"""Token counts: exact with the bundled tokenizer, never too low without it."""

# ruff: noqa: RUF001 -- the texts are in many scripts on purpose

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_reminiscence.text import tokens
from agent_reminiscence.text.tokens import (
    TokenCounts,
    count_lines,
    count_tokens,
    count_tokens_batch,
    estimate_tokens,
    least_tokens,
    most_tokens,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]))

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


@pytest.fixture
def without_wordllama(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a slim installation."""
    monkeypatch.setattr(tokens, "bundled_tokenizer", lambda: None)


@pytest.mark.parametrize(("text", "count"), [("", 0), ("the", 1), ("Hello world", 2), ("😀", 5), ("\n", 2)])
def test_the_bundled_tokenizer_counts(text: str, count: int) -> None:
    """The numbers are the tokenizer's own; beginning-of-text marks are not counted."""
    assert count_tokens(text) == count


def test_long_text_is_counted_to_its_end() -> None:
    """A tokenizer that cut at its model's context would make every budget wrong."""
    assert count_tokens("word " * 50_000) > 50_000


def test_control_tokens_in_a_text_are_counted_as_the_characters_they_are() -> None:
    """A text cannot hide from a budget behind markup that the tokenizer takes for its own."""
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


def test_the_tokenizer_is_loaded_once_for_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading takes 70 ms and 30 MB; threads that arrive together share one."""
    tokens._load_tokenizer.cache_clear()

    with ThreadPoolExecutor(8) as pool:
        loaded = {id(tokenizer) for tokenizer in pool.map(lambda _: tokens.bundled_tokenizer(), range(32))}

    assert len(loaded) == 1
    assert tokens._load_tokenizer.cache_info().misses == 1


@pytest.mark.usefixtures("without_wordllama")
def test_counts_are_estimated_without_wordllama() -> None:
    """The slim installation works; its budgets are only coarser."""
    assert count_tokens_batch(["", "we ship on Friday", "👍"]) == [0, estimate_tokens("we ship on Friday"), 4]


def test_an_unknown_version_of_wordllama_is_estimated_and_logged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Coarser budgets are better than none, but not in silence."""
    monkeypatch.setattr(tokens, "wordllama_folder", lambda: tmp_path)
    tokens._load_tokenizer.cache_clear()
    try:
        with caplog.at_level(logging.WARNING):
            assert count_tokens("we ship on Friday") == estimate_tokens("we ship on Friday")
    finally:
        tokens._load_tokenizer.cache_clear()
    assert "token counts are estimated" in caplog.text


@pytest.mark.parametrize(("text", "tekken"), TEKKEN_COUNTS.values(), ids=TEKKEN_COUNTS.keys())
def test_the_estimate_is_not_below_a_current_tokenizer(text: str, tekken: int) -> None:
    """An estimate below the truth overruns a model's window; one far above it wastes half of it."""
    assert tekken <= estimate_tokens(text) <= 2.5 * tekken


@given(TEXT, TEXT)
def test_the_estimate_grows_with_the_text(left: str, right: str) -> None:
    """A budget that is spent cannot come back by adding words."""
    assert estimate_tokens(left + right) >= estimate_tokens(left)
    assert estimate_tokens(left) <= 1.1 * 4 * len(left) + 1


def test_identifiers_are_not_underestimated() -> None:
    """Counted as characters divided by four, they would come out three times too low."""
    identifiers = "\n".join(str(uuid.UUID(int=number * 0x1234567890ABCDEF1234567)) for number in range(1, 101))

    assert estimate_tokens(identifiers) >= count_tokens(identifiers)


def test_a_text_that_was_counted_is_not_kept() -> None:
    """The tokenizer has a cache of its own, outside of Python, which would hold whole texts until the process ends."""
    count_tokens("Warm up.")
    before = _resident_bytes()

    for number in range(5_000):
        count_tokens(f"{number} lamps are lit in the hall. " * 5)

    # With the cache: 30 MB.
    assert _resident_bytes() - before < 10_000_000


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@given(TEXT)
@settings(max_examples=500, deadline=None)
def test_no_text_has_more_tokens_than_its_length_allows(text: str) -> None:
    """So short texts need not be counted to know that they fit: whichever of the two counts them."""
    assert count_tokens(text) <= most_tokens(text)
    assert estimate_tokens(text) <= most_tokens(text)


@pytest.mark.parametrize(
    "character", ["a", " ", "\n", "1", "\u00e9", "\u4e2d", "\U0001f600", "\U00012000", "\u200d", "#"]
)
def test_a_character_again_and_again_has_no_more_tokens_than_its_length_allows(character: str) -> None:
    """What merges worst: single letters, joiners, rare scripts."""
    for length in (1, 2, 7, 100):
        assert count_tokens(character * length) <= most_tokens(character * length)
        assert estimate_tokens(character * length) <= most_tokens(character * length)


_LINES = st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=40), max_size=6)


@settings(deadline=None)
@given(lines=_LINES)
def test_lines_add_up_to_the_text(lines: list[str]) -> None:
    """So what a line adds is known without counting the whole again; and never less than was said before counting."""
    text = "\n".join(["Note", *lines])
    counts = count_lines(lines)

    assert count_tokens("Note") + sum(counts) == count_tokens(text)
    assert least_tokens(lines) <= sum(counts)


@pytest.mark.thorough
@settings(deadline=None)
@given(lines=_LINES)
def test_estimates_of_lines_are_not_below_that_of_the_text(lines: list[str]) -> None:
    """Each is rounded up."""
    with pytest.MonkeyPatch.context() as without:
        without.setattr(tokens, "bundled_tokenizer", lambda: None)
        counts = count_lines(lines)

        assert count_tokens("Note") + sum(counts) >= count_tokens("\n".join(["Note", *lines]))
        assert least_tokens(lines) <= sum(counts)


def test_no_token_spans_two_words_or_lines() -> None:
    """On which both rest."""
    tokenizer = tokens.bundled_tokenizer()
    assert tokenizer is not None

    for piece in tokenizer.get_vocab():
        assert len(piece.replace("▁", " ").split()) <= 1
        assert "\n" not in piece
