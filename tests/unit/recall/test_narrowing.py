"""Which chunks of a large tenant are ranked."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agent_reminiscence.database.repositories.chunk_vector import Dots
from agent_reminiscence.database.repositories.search import FoundTerm
from agent_reminiscence.domain.index import FIRST, LAYOUT_DTYPE, chunk_number
from agent_reminiscence.services.recall.narrowing import MAX_ENTRIES, choose, choose_rare, weigh, zone

_NOBODY = np.zeros(0, dtype=np.int64)


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
    chosen = choose(
        weigh([_found(1, 2, -9)], 1_000, 10),
        np.array([2, 5], dtype=np.int64),
        _dots({1: 0.5, 3: 0.9, -7: 0.8}),
        {4: 1.0},
        np.array([6], dtype=np.int64),
    )

    assert chosen.tolist() == [-9, -7, 1, 2, 3, 4, 5, 6]


def test_of_a_rare_and_a_frequent_word_the_rare_one_chooses() -> None:
    """Chunks that have only the frequent one give way."""
    frequent = _found(*range(1_000, 2_000))
    rare = _found(3)

    chosen = choose(weigh([frequent, rare], 100_000, 10), None, None, {}, _NOBODY)

    assert 3 in chosen
    assert len(chosen) < 200


def test_a_question_that_finds_nothing_chooses_nothing() -> None:
    """Neither words nor vectors: there is nothing to look at."""
    assert choose(weigh([], 1_000, 10), None, None, {}, _NOBODY).tolist() == []


def test_around_what_was_chosen_stands_what_its_windows_reach() -> None:
    """Neighbours may be hits; further chunks lend their words, and another text lends none."""
    entries = _texts(40, 3)

    places, may_be_hit = zone(entries, np.array([chunk_number(1, 20)], dtype=np.int64))

    ranked = [place for place in places.tolist() if place < 40]
    assert ranked == list(range(12, 29))
    assert [place for place, is_hit in zip(places.tolist(), may_be_hit, strict=True) if is_hit and place < 40] == [
        18, 19, 20, 21, 22,
    ]  # fmt: skip


def test_a_text_that_was_found_by_its_heading_is_ranked_from_its_beginning() -> None:
    """None of its chunks was chosen, so none is better than another."""
    entries = _texts(5)

    places, may_be_hit = zone(entries, np.array([-chunk_number(1, 0)], dtype=np.int64))

    assert places.tolist() == [0, 1, 2, 3, 4]
    assert may_be_hit.all()


@given(sizes=st.lists(st.integers(1, 30), min_size=1, max_size=6), data=st.data())
def test_windows_of_what_may_be_a_hit_are_whole(sizes: list[int], data: st.DataObject) -> None:
    """Otherwise it would be scored by less than it says."""
    entries = _texts(*sizes)
    chosen = data.draw(st.lists(st.sampled_from(entries["number"].astype(np.int64).tolist()), unique=True))

    places, may_be_hit = zone(entries, np.array(sorted(chosen), dtype=np.int64))

    there = set(places.tolist())
    text = np.cumsum((entries["flags"] & FIRST) != 0)
    for place in places[may_be_hit].tolist():
        window = range(max(0, place - 6), min(len(entries), place + 7))
        assert {near for near in window if text[near] == text[place]} <= there
    assert set(chosen) <= set(entries["number"][places[may_be_hit]].tolist())
