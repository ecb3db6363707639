"""Which chunks of a large tenant are ranked."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_reminiscence.database.repositories.chunk_vector import Dots
from agent_reminiscence.database.repositories.search import FoundTerm
from agent_reminiscence.domain.index import FIRST, LAYOUT_DTYPE, chunk_number
from agent_reminiscence.services.recall.narrowing import MAX_ENTRIES, choose, choose_rare, promise, weigh, zone
from agent_reminiscence.services.recall.ranking import DEFAULT_WEIGHTS


def _found(*numbers: int, frequency: float = 1.0) -> FoundTerm:
    return FoundTerm(
        np.array(numbers, dtype=np.int64),
        np.full(len(numbers), frequency, dtype=np.float32),
        np.full(len(numbers), 10, dtype=np.float32),
    )


def _dots(values: dict[int, float]) -> Dots:
    return Dots(np.array(list(values), dtype=np.int64), np.array(list(values.values()), dtype=np.float32))


def _texts(*sizes: int) -> np.ndarray:
    """Texts of so many chunks each; the numbers of text `k` are those of position `k` + 1."""
    rows = [
        (chunk_number(position, index), -chunk_number(position, 0), 0, 0, 10, FIRST if index == 0 else 0, 2)
        for position, size in enumerate(sizes, start=1)
        for index in range(size)
    ]
    return np.array(rows, dtype=LAYOUT_DTYPE)


def test_rare_words_are_read_whole_and_the_rarest_in_any_case() -> None:
    """Of a question of frequent words only, one list is still read."""
    assert choose_rare({"harbour": 12, "day": MAX_ENTRIES + 1}) == ["harbour"]
    assert choose_rare({"good": MAX_ENTRIES * 3, "day": MAX_ENTRIES * 2}) == ["day"]
    assert choose_rare({}) == []


def test_what_anything_speaks_for_is_chosen() -> None:
    """By a word, by a heading's word, by meaning, by a time, by the graph; each once."""
    weighed, near = weigh([_found(1, 2, -9)], 1_000, 10), _dots({1: 0.5, 3: 0.9, -7: 0.8})

    chosen = choose(
        promise(weighed, near, DEFAULT_WEIGHTS),
        weighed,
        np.array([2, 5], dtype=np.int64),
        near,
        {4: 1.0},
    )

    assert chosen.tolist() == [-9, -7, 1, 2, 3, 4, 5]


def test_of_a_rare_and_a_frequent_word_the_rare_one_chooses() -> None:
    """Chunks that have only the frequent one give way."""
    frequent = _found(*range(1_000, 2_000))
    rare = _found(3)

    weighed = weigh([frequent, rare], 100_000, 10)
    chosen = choose(promise(weighed, None, DEFAULT_WEIGHTS), weighed, None, None, {})

    assert 3 in chosen
    assert len(chosen) < 200


def test_a_question_that_finds_nothing_chooses_nothing() -> None:
    """Neither words nor vectors: there is nothing to look at."""
    weighed = weigh([], 1_000, 10)

    assert choose(promise(weighed, None, DEFAULT_WEIGHTS), weighed, None, None, {}).tolist() == []


def test_what_stands_among_the_words_of_the_question_promises_most() -> None:
    """An answer is often found by the lines around it; those of another event are no neighbours of its own."""
    beside, alone, last = chunk_number(5, 10), chunk_number(7, 10), chunk_number(8, 0)
    near_by = [beside + distance for distance in (-6, -2, -1, 2, 6)]
    weighed = weigh([_found(beside, alone, last), _found(*near_by, chunk_number(7, 3), chunk_number(7, 17))], 1_000, 10)

    promised = promise(weighed, None, DEFAULT_WEIGHTS)

    by_number = dict(zip(promised.numbers.tolist(), promised.values.tolist(), strict=True))
    assert max(by_number, key=lambda number: by_number[number]) == beside
    assert by_number[alone] == pytest.approx(by_number[last])


def test_meaning_and_speaker_add_to_what_words_promise() -> None:
    """Each counts with its weight in the ranking. A speaker is enough on its own, a heading is not."""
    weighed, near = weigh([_found(1)], 1_000, 10), _dots({1: 0.9, 100: 0.45, 200: -0.5, -1: 0.9})

    promised = promise(weighed, near, DEFAULT_WEIGHTS).raised(np.array([100, 300], dtype=np.int64), 0.6)

    words, meaning = sum(DEFAULT_WEIGHTS.words), sum(DEFAULT_WEIGHTS.meaning)
    assert dict(zip(promised.numbers.tolist(), promised.values.tolist(), strict=True)) == pytest.approx(
        {1: words + meaning, 100: meaning / 2 + 0.6, 200: 0, 300: 0.6}
    )
    assert set(promised.best(2).tolist()) == {1, 100}


def test_around_what_was_chosen_stands_what_its_windows_reach() -> None:
    """Neighbours may be hits; further chunks lend their words, and another text lends none."""
    entries = _texts(40, 3)

    indices, may_be_hit = zone(entries, np.array([chunk_number(1, 20)], dtype=np.int64))

    ranked = [index for index in indices.tolist() if index < 40]
    assert ranked == list(range(12, 29))
    assert [index for index, is_hit in zip(indices.tolist(), may_be_hit, strict=True) if is_hit and index < 40] == [
        18, 19, 20, 21, 22,
    ]  # fmt: skip


def test_a_text_that_was_found_by_its_heading_is_ranked_from_its_beginning() -> None:
    """None of its chunks was chosen, so none is better than another."""
    entries = _texts(5)

    indices, may_be_hit = zone(entries, np.array([-chunk_number(1, 0)], dtype=np.int64))

    assert indices.tolist() == [0, 1, 2, 3, 4]
    assert may_be_hit.all()


@given(sizes=st.lists(st.integers(1, 30), min_size=1, max_size=6), data=st.data())
def test_windows_of_what_may_be_a_hit_are_whole(sizes: list[int], data: st.DataObject) -> None:
    """Otherwise it would be scored by less than it says."""
    entries = _texts(*sizes)
    chosen = data.draw(st.lists(st.sampled_from(entries["number"].astype(np.int64).tolist()), unique=True))

    indices, may_be_hit = zone(entries, np.array(sorted(chosen), dtype=np.int64))

    there = set(indices.tolist())
    text = np.cumsum((entries["flags"] & FIRST) != 0)
    for index in indices[may_be_hit].tolist():
        window = range(max(0, index - 6), min(len(entries), index + 7))
        assert {near for near in window if text[near] == text[index]} <= there
    assert set(chosen) <= set(entries["number"][indices[may_be_hit]].tolist())
