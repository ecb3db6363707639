"""Which sentences an extract quotes: what keeps coming up, said once, within its tokens."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID, uuid5

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_reminiscence.services.profiles.choosing import Sentence, choose, find_statements
from agent_reminiscence.text.tokens import count_lines

_MEMORIES = tuple(UUID(int=number) for number in range(1, 9))
_MAY = datetime(2026, 5, 1, tzinfo=UTC)


def _sentence(
    text: str,
    memory: int = 0,
    *,
    importance: float = 0.5,
    is_own: bool = True,
    asked: float = 0,
    is_outdated: bool = False,
) -> Sentence:
    return Sentence(
        text=text,
        chunk_id=uuid5(_MEMORIES[memory], text),
        memory_id=_MEMORIES[memory],
        speaker="Robin",
        said_at=_MAY,
        source="user",
        language="en",
        importance=importance,
        is_own=is_own,
        asked=asked,
        is_outdated=is_outdated,
    )


def _choose(sentences: list[Sentence], max_tokens: int = 1_000) -> list[str]:
    costs = count_lines([one.text for one in sentences])
    return [one.text for one in choose(sentences, max_tokens, costs)]


def test_what_many_memories_say_comes_first() -> None:
    """A topic that keeps coming up lasts longer than one that was mentioned once."""
    boats = [_sentence(f"I varnished the sloop again on pier {number}.", number) for number in range(1, 6)]
    once = _sentence("I watched a juggler near the fountain.", 0)

    assert "sloop" in _choose([once, *boats])[0]


def test_nothing_is_said_twice() -> None:
    """Neither the same sentence nor one without a word that is new."""
    sentences = [
        _sentence("I work as a carpenter in the old shipyard.", 0),
        _sentence("I work as a carpenter in the old shipyard", 1),
        _sentence("In the old shipyard I work as a carpenter.", 2),
        _sentence("My sister keeps three hives behind the lighthouse.", 3),
    ]

    chosen = _choose(sentences)

    assert [sum("carpenter" in one for one in chosen), sum("hives" in one for one in chosen)] == [1, 1]
    assert len(chosen) == 2


def test_who_speaks_of_himself_comes_before_who_speaks_of_the_weather() -> None:
    """Of sentences of the same length."""
    sentences = [
        _sentence("Rain fell on harbour roofs until midnight.", 0),
        _sentence("My daughter studies medicine in Coimbra now.", 1),
    ]

    assert _choose(sentences)[0] == "My daughter studies medicine in Coimbra now."


def test_an_important_or_asked_sentence_comes_first() -> None:
    """Of two that are otherwise alike."""
    plain = _sentence("The kettle whistles beside the copper pan.", 0)

    for better in (
        _sentence("The violin leans against the birch shelf.", 1, importance=0.9),
        _sentence("The violin leans against the birch shelf.", 1, asked=1.0),
    ):
        assert _choose([plain, better])[0] == better.text


def test_questions_and_small_talk_are_no_statements() -> None:
    """They are left out even where there is room."""
    text = "Hello! How are you today? I keep bees behind the lighthouse.\nWhere is the smoker?"

    assert find_statements(text) == ["Hello!", "I keep bees behind the lighthouse."]
    assert _choose([_sentence(one) for one in find_statements(text)]) == ["I keep bees behind the lighthouse."]


@settings(max_examples=100, deadline=None)
@given(
    texts=st.lists(st.text(max_size=80), max_size=12),
    max_tokens=st.integers(1, 200),
)
def test_any_texts_keep_the_limit(texts: list[str], max_tokens: int) -> None:
    """And the same texts always give the same choice."""
    sentences = [_sentence(one, index % 8) for index, text in enumerate(texts) for one in find_statements(text)]
    costs = count_lines([one.text for one in sentences])

    chosen = choose(sentences, max_tokens, costs)

    assert sum(costs[sentences.index(one)] for one in chosen) <= max_tokens
    assert chosen == choose(sentences, max_tokens, costs)
    assert len({one.text for one in chosen}) == len(chosen)


def test_what_is_probably_out_of_date_is_quoted_last() -> None:
    """And only where there is room left."""
    old = _sentence("I live in a small flat in Porto.", 0, is_outdated=True)
    new = _sentence("I walk along the river every evening.", 1)

    assert _choose([old, new]) == [new.text, old.text]
    assert _choose([old._replace(is_outdated=False), new]) == [old.text, new.text]
