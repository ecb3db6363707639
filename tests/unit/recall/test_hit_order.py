"""One hit for each text, and of what has changed the newest first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from agent_reminiscence.services.recall.hit_order import NEWEST_AMONG, newest_first, one_per_text

START = datetime(2026, 3, 1, tzinfo=UTC)
SAME_TOPIC = 0.5

Row = dict[str, Any]


def rows(*contents: str, speaker: str | None = None, newest: int = 0) -> list[Row]:
    """Rows with falling scores, each said a day before the one above it, the one at `newest` last of all."""
    return [
        {
            "number": number,
            "external_id": "agent-1",
            "chunk_id": UUID(int=number),
            "content": content,
            "speaker": speaker,
            "said_at": START + timedelta(days=100 if number == newest else -number),
            "score": 1 - number / 20,
            "only_asks": content.endswith("?"),
            "match": 0.5 - number / 20,
            "source": "user",
            "memory_key": None,
            "derived_from": (),
            "successes": 0,
            "failures": 0,
        }
        for number, content in enumerate(contents)
    ]


def contents(found: list[Row]) -> list[str]:
    """What rows say."""
    return [row["content"] for row in found]


def ordered(found: list[Row], query: str = "", close: tuple[int, ...] = ()) -> list[Row]:
    """The rows as they are shown; those in `close` are about one topic."""
    vectors = {row["number"]: np.array([1, 0] if row["number"] in close else [0, 1], np.float32) for row in found}
    vectors = {number: vector for number, vector in vectors.items() if number in close}
    return newest_first(found, query, ["en"], vectors, SAME_TOPIC)


def test_equal_texts_are_one_hit_that_names_the_others() -> None:
    """Case, a full stop, and words that only introduce a statement make no difference."""
    found = one_per_text(
        rows("The key is behind the clock.", "the key is behind the clock", "Remember: the key is behind the clock.")
    )

    assert contents(found) == ["The key is behind the clock."]
    assert found[0]["same_text"] == [UUID(int=1), UUID(int=2)]
    assert found[0]["last_said_at"] == START + timedelta(days=100)


@pytest.mark.parametrize(
    "other", ["The key is not behind the clock.", "The keys are behind the clock.", "The key is behind the clock?"]
)
def test_another_statement_is_another_hit(other: str) -> None:
    """One word may deny all of it."""
    assert len(one_per_text(rows("The key is behind the clock.", other))) == 2


def test_what_two_people_say_is_two_hits() -> None:
    """It matters who agrees."""
    found = one_per_text([*rows("I like tea.", speaker="Ann"), *rows("I like tea.", speaker="Ben")])

    assert len(found) == 2


def test_what_a_tool_has_stored_does_not_stand_for_what_the_user_said() -> None:
    """Whoever writes a page cannot take a statement over."""
    told = rows("The key is behind the clock.", "The key is behind the clock.")
    told[0]["source"] = "tool"

    assert len(one_per_text(told)) == 2


def test_the_newest_matches_as_well_as_what_it_replaces() -> None:
    """A least match cannot leave out the newest and keep the older."""
    found = ordered(rows("The office closes at six.", "The office closes at eight now.", newest=1))

    assert [row["match"] for row in found] == [0.5, 0.5]


def test_the_newest_of_what_has_changed_is_first_and_the_others_name_it() -> None:
    """Both answer the question; one no longer."""
    found = ordered(rows("The office closes at six.", "I like tea.", "The office closes at eight now.", newest=2))

    assert contents(found) == ["The office closes at eight now.", "I like tea.", "The office closes at six."]
    assert [row.get("later") for row in found] == [None, None, UUID(int=2)]


def test_other_words_about_the_same_topic_are_known_by_their_vectors() -> None:
    """A change is seldom told in the words of what it changes."""
    told = rows("I drive an old red Lancer.", "The Lancer is sold, I have a blue van.", newest=1)

    assert contents(ordered(told, close=(0, 1)))[0] == "The Lancer is sold, I have a blue van."
    assert contents(ordered(told))[0] == "I drive an old red Lancer."


def test_long_texts_are_not_compared_by_their_vectors() -> None:
    """They say several things; a high cosine tells their subject, not that one replaces the other."""
    walk = "The Lancer was in the way, so we walked to the lake, where Ruth told us all about her new job and the flat."
    told = rows("I drive an old red Lancer.", walk, newest=1)

    assert contents(ordered(told, close=(0, 1))) == contents(told)


@pytest.mark.parametrize(
    ("first", "second", "query"),
    [
        ("Ruth's fee is 45 an hour.", "Nina's fee is 60 an hour.", "What does Ruth charge?"),
        ("The M5 screws are in box A.", "The M6 screws are in box A.", "Where are the M5 screws?"),
        ("We use C++ in the engine.", "We use C# in the engine.", "Where do we use C++?"),
        ("I go for my dreams.", "I make dreams happen.", "I go for my dreams"),
        ("I will rehearse the dance for the show.", "Thanks, we practise.", "I will rehearse the dance for the show."),
    ],
)
def test_a_statement_about_another_thing_does_not_take_the_first_place(first: str, second: str, query: str) -> None:
    """Whatever it is called, the question means the other one."""
    assert contents(ordered(rows(first, second, newest=1), query, close=(0, 1)))[0] == first


def test_neither_a_question_nor_a_weak_hit_takes_the_first_place() -> None:
    """The newest is not the best whatever it says."""
    told = rows("The office closes at six.", "The office closes at six when?", "The office closes at nine.", newest=2)
    told[2]["score"] = 0.1

    assert contents(ordered(told)) == contents(told)


def test_what_failed_does_not_replace_what_did_not() -> None:
    """Of two lessons the one that helped stays first."""
    told = rows("Turn the wheel of the gate left.", "Turn the wheel of the gate right.", newest=1)
    told[1]["failures"] = 1

    assert contents(ordered(told)) == contents(told)


def test_what_others_say_replaces_nothing() -> None:
    """Ann's address is not Ben's."""
    told = [*rows("I live in the old town.", speaker="Ann"), *rows("I live in the new town.", speaker="Ben", newest=0)]

    assert contents(ordered(told)) == contents(told)


def test_hits_beyond_the_first_ones_do_not_change_their_order() -> None:
    """So a smaller limit returns the first hits of a larger one."""
    told = rows("The office closes at six.", *(f"Other thing {n}." for n in range(NEWEST_AMONG)))
    told += rows("The office closes at nine.")

    assert contents(ordered(told)) == contents(told)
