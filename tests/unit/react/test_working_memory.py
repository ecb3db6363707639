"""Working memory keeps every step, and shows a model no more of them than its budget allows."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_reminiscence.react.models import AgentStep
from agent_reminiscence.react.working_memory import WorkingMemory, set_aside_note
from agent_reminiscence.text.tokens import count_tokens

_NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def _words(text: str) -> int:
    return len(text.split())


def _step(number: int, words: int = 50) -> AgentStep:
    return AgentStep(
        thought=f"thought {number}",
        action="look",
        arguments={"at": number},
        observation=" ".join([f"seen-{number}", *["word"] * (words - 1)]),
    )


def _filled(steps: int, words: int = 50) -> WorkingMemory:
    working = WorkingMemory("find it", _NOW, _words)
    for number in range(1, steps + 1):
        working.append([_step(number, words)], _NOW)
    return working


def test_entries_are_typed_counted_and_begin_with_the_goal() -> None:
    """As the client specification has them."""
    working = _filled(2, words=3)

    items = working.items

    assert [item.type for item in items] == ["thought", *["thought", "action", "observation"] * 2]
    assert items[0].content == "Goal: find it"
    assert items[3].content == "seen-1 word word"
    assert items[3].metadata == {"step": 1, "token_count": 3}


def test_below_the_threshold_everything_is_shown() -> None:
    """A short task never meets compression."""
    view = _filled(10).compress(2_000, 3)

    assert (view.first_turn, view.set_aside, view.digest) == (1, {}, "")


def test_above_it_the_oldest_are_left_out_and_named() -> None:
    """The model knows that there was more, and what."""
    working = _filled(40)

    view = working.compress(1_000, 3)

    assert view.first_turn > 3
    assert view.tokens <= 1_000
    assert view.digest.startswith(f"Turns 1 to {view.first_turn - 1} are not shown: look {view.first_turn - 1}×.")
    assert f'- turn {view.first_turn - 1}: look({{"at": {view.first_turn - 1}}})' in view.digest


def test_the_digest_says_what_each_step_found() -> None:
    """Not only the call: the model can go on without reading the step again."""
    working = _filled(20, words=40)

    view = working.compress(1_000, 3)

    lines = view.digest.splitlines()[1:]
    assert len(lines) == view.first_turn - 1
    for number, line in enumerate(lines, start=1):
        assert line.startswith(f'- turn {number}: look({{"at": {number}}}) → seen-{number} word word')
    assert view.tokens <= 1_000


def test_lines_are_shortened_before_any_step_goes_without() -> None:
    """Half a line about each step is worth more than whole lines about some."""
    working = WorkingMemory("find it", _NOW)
    for number in range(1, 31):
        found = f"House {number} has a door, " + "and so on, " * 40
        working.append([AgentStep(action="look", arguments={"at": number}, observation=found)], _NOW)

    view = working.compress(4_000, 1)

    lines = view.digest.splitlines()[1:]
    assert len(lines) == view.first_turn - 1
    assert all(f"→ House {number} has a door, and so on" in line for number, line in enumerate(lines, start=1))
    assert all(len(line) < 110 for line in lines)


def test_if_there_are_too_many_the_newest_have_lines_and_the_model_is_told_of_the_others() -> None:
    """The digest stays within its share of the budget."""
    working = _filled(300)

    view = working.compress(400, 3)

    _, told, *lines = view.digest.splitlines()
    assert told == "What the steps before these found: search_working_memory."
    assert lines[-1].startswith(f"- turn {view.first_turn - 1}: ")
    assert 1 < len(lines) < 20


def test_a_line_tells_the_calls_of_one_turn_apart() -> None:
    """As `read_working_memory` counts them."""
    working = WorkingMemory("find it", _NOW, _words)
    for turn in range(1, 12):
        working.append([_step(2 * turn - 1, 100), _step(2 * turn, 100)], _NOW)

    digest = working.compress(2_000, 1).digest

    assert '- turn 1, step 2: look({"at": 2}) → seen-2' in digest


def test_a_note_says_how_the_result_begins() -> None:
    """The model then knows whether it needs to read it."""
    working = _filled(2)
    working.append([_step(3, words=50_000)], _NOW)

    note = working.compress(1_000, 3).set_aside[3, 1]

    assert note.startswith("(This result of 50,000 tokens is not shown.")
    assert " It begins: seen-3 word word" in note


@given(st.lists(st.integers(0, 1_500), min_size=1, max_size=30), st.integers(400, 3_000), st.integers(1, 5))
def test_the_newest_turns_stay_word_for_word_as_long_as_they_fit_into_four_fifths_of_the_threshold(
    sizes: list[int], threshold: int, keep_recent: int
) -> None:
    """As the guide says, whatever came before them; what was set aside once stays so."""
    working = WorkingMemory("find it", _NOW, _words)
    before: set[tuple[int, int]] = set()
    for number, size in enumerate(sizes, start=1):
        working.append([_step(number, size)], _NOW)

        view = working.compress(threshold, keep_recent)

        # A thought has two words, a call as well.
        newest = [max(size, 1) + 4 for size in sizes[:number][-keep_recent:]]
        if sum(newest) <= threshold * 0.8 - 1:
            first = number - len(newest) + 1
            assert view.first_turn <= first
            assert not [place for place in view.set_aside.keys() - before if place[0] >= first]
        before = set(view.set_aside)


@given(
    st.lists(st.lists(st.integers(0, 1_500), min_size=1, max_size=3), min_size=1, max_size=30),
    st.integers(400, 3_000),
    st.integers(1, 5),
)
def test_no_result_gives_way_for_a_gain_of_less_than_200_tokens(
    turns: list[list[int]], threshold: int, keep_recent: int
) -> None:
    """But in the newest turn, if it alone is too long."""
    working = WorkingMemory("find it", _NOW, _words)
    before: set[tuple[int, int]] = set()
    for number, sizes in enumerate(turns, start=1):
        working.append([_step(number, size) for size in sizes], _NOW)

        view = working.compress(threshold, keep_recent)

        for turn, step in view.set_aside.keys() - before:
            gain = max(turns[turn - 1][step - 1], 1) - _words(view.set_aside[turn, step])
            assert gain >= 200 or (turn == number and sum(sizes) + 4 * len(sizes) > threshold * 0.8 - 1)
        before = set(view.set_aside)


def test_the_result_that_gains_most_gives_way_first_and_no_more_than_needed() -> None:
    """A short file with the one rule that matters stays, and a long log goes, though the file is older."""
    rule = "Deploy with the flag --canary. " * 15
    working = WorkingMemory("deploy it", _NOW)
    for name, content in (
        ("README", rule),
        ("log", "The build was fine. " * 260),
        ("notes", "Look at the log first. " * 60),
        ("status", "All is well. " * 60),
    ):
        working.append([AgentStep(action="read", arguments={"file": name}, observation=content)], _NOW)
    assert 100 < count_tokens(rule) < 200

    view = working.compress(2_000, 3)

    assert (view.first_turn, list(view.set_aside), view.digest) == (1, [(2, 1)], "")
    assert working.observation(2) == "The build was fine. " * 260


def test_results_of_the_newest_turns_stay_while_older_ones_are_enough() -> None:
    """The longest of all is new, and what is older makes room."""
    working = _filled(2, words=500)
    working.append([_step(3, words=900)], _NOW)
    working.append([_step(4, words=300)], _NOW)

    view = working.compress(2_000, 2)

    assert (view.first_turn, sorted(view.set_aside)) == (1, [(1, 1), (2, 1)])
    assert view.tokens <= 2_000 * 0.8


def test_the_digest_keeps_what_the_model_thought() -> None:
    """Its conclusions are in no tool's result, so nothing could give them back."""
    working = WorkingMemory("deploy it", _NOW)
    for number in range(1, 61):
        thought = f"So host {number} is the one to spare." if number == 3 else ""
        working.append([AgentStep(thought=thought, action="ping", observation="It answers. " * 10)], _NOW)
        if number == 4:
            working.append([AgentStep(thought="I have two left.")], _NOW)
        digest = working.compress(900, 1).digest
        if number == 30:
            few = digest

    for shown in (few, digest):
        assert "(thought: So host 3 is the one to spare.)" in shown
        assert "- turn 5: (thought: I have two left.)" in shown
    assert "search_working_memory" in digest


def test_a_compression_leaves_room_for_what_comes() -> None:
    """The window then stays as it is for a while, and with it a provider's prompt cache."""
    working = _filled(40)
    first = working.compress(1_000, 3).first_turn

    working.append([_step(41)], _NOW)

    assert working.compress(1_000, 3).first_turn == first


@pytest.mark.thorough
def test_500_steps_never_exceed_the_budget_and_are_all_still_there() -> None:
    """Whatever their sizes are; results asked for later are found."""
    working = WorkingMemory("find it", _NOW)
    for number in range(1, 501):
        working.append([_step(number, words=1 + number * 7 % 120)], _NOW)
        view = working.compress(2_000, 3)
        assert view.tokens <= 2_000
        assert view.first_turn <= max(number - 2, 1)

    for number in range(1, 501):
        observed = working.observation(number)
        assert observed is not None
        assert observed.startswith(f"seen-{number} ") or observed == f"seen-{number}"
    assert [turn for turn, _, _ in working.search("seen-217")] == [217]


def test_one_result_longer_than_the_budget_is_set_aside_whole() -> None:
    """It is never cut: a note says how to read it."""
    working = _filled(2)
    working.append([_step(3, words=50_000)], _NOW)

    view = working.compress(1_000, 3)

    assert list(view.set_aside) == [(3, 1)]
    assert "read_working_memory(turn=3, step=1, part=1)" in view.set_aside[3, 1]
    assert view.tokens <= 1_000
    assert working.observation(3) == _step(3, words=50_000).observation


@given(
    st.lists(st.lists(st.integers(0, 3_000), min_size=1, max_size=4), max_size=60),
    st.integers(400, 5_000),
    st.integers(1, 10),
)
def test_the_budget_holds_whatever_the_steps_are(turns: list[list[int]], threshold: int, keep_recent: int) -> None:
    """Turns of several calls, short and long results in any order; the newest turn is always shown."""
    working = WorkingMemory("find it", _NOW, _words)
    last_first = 1
    for number, sizes in enumerate(turns, start=1):
        working.append([_step(number, size) for size in sizes], _NOW)

        view = working.compress(threshold, keep_recent)

        assert view.tokens <= threshold
        assert last_first <= view.first_turn <= number
        last_first = view.first_turn


def test_the_note_is_not_longer_than_it_is_counted() -> None:
    """The budget counts a fixed length for it."""
    assert count_tokens(set_aside_note(9_999, 99, 9_999_999)) <= 60


def test_a_search_finds_the_rarest_words_first_and_the_newest_of_equals() -> None:
    """Later steps correct earlier ones."""
    working = _filled(5, words=3)

    assert working.search("seen-2 word")[0][0] == 2
    assert [turn for turn, _, _ in working.search("word", limit=2)] == [5, 4]
    assert working.search("nothing of it") == []
    assert working.observation(9) is None
    assert working.observation(1, step=2) is None
