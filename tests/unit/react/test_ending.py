"""Rules that tell the end of a conversation, measured on dialogues of our own."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from agent_reminiscence.react.ending import EndSign, find_ending
from agent_reminiscence.react.models import InvocationSummary

_DIALOGUES = Path(__file__).with_name("ending_dialogues.txt")
_NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
_ALL: tuple[EndSign, ...] = ("farewell", "pause", "topic")


class _Message(NamedTuple):
    """What a user says, after what, and what it is marked as."""

    before: tuple[InvocationSummary, ...]
    text: str
    marked: str


def _said(query: str, result: str = "", at: datetime = _NOW) -> InvocationSummary:
    return InvocationSummary(query=query, summary="", result=result, timestamp=at)


def _messages() -> list[_Message]:
    found: list[_Message] = []
    before: list[InvocationSummary] = []
    for line in _DIALOGUES.read_text(encoding="utf-8").splitlines():
        if line.startswith("="):
            before = []
        elif line and not line.startswith("#"):
            text, _, result = line.partition(" -> ")
            marked = text[1 : text.index("]")] if text.startswith("[") else ""
            text = text.removeprefix(f"[{marked}] ")
            found.append(_Message(tuple(before), text, marked))
            before.append(_said(text, result))
    return found


def _found(message: _Message, signs: tuple[EndSign, ...] = _ALL) -> str:
    ending = find_ending(message.before, message.text, _NOW, signs=signs, pause_seconds=1800)
    return "" if ending is None else ending.reason


def test_the_rules_find_what_the_module_says() -> None:
    """Also where words that say goodbye do not mean it, and questions have only their topic in common."""
    counts = Counter((one.marked, _found(one)) for one in _messages())

    assert counts == _MEASURED


_MEASURED = {
    ("", ""): 103,
    ("farewell", "farewell"): 15,
    ("farewell", ""): 1,
    ("topic", "topic"): 10,
    ("topic", ""): 6,
}


@pytest.mark.parametrize("text", ["Thanks, bye!", "That’s all.", "Tschüss, Sam", "Das war’s für heute, vielen Dank"])
def test_a_farewell_ends_a_conversation(text: str) -> None:
    """Also as the first message; the message belongs to what is over."""
    ending = find_ending((), text, _NOW, signs=_ALL, pause_seconds=1800)

    assert ending is not None
    assert (ending.reason, ending.why, ending.is_before) == ("farewell", "the user said goodbye", False)


@pytest.mark.parametrize(
    "text",
    [
        "Translate goodbye",
        "Play Ciao Bella",
        "That's all wrong",
        "Nothing else works",
        "I'm done with step",
        "Take care of that",
        "Das ist alles falsch",
        "Ich bin fertig damit",
        "Schreib das bis morgen",
        "Schönen Tag der Arbeit",
        "Sonst nichts gefunden",
    ],
)
def test_a_short_task_is_no_farewell(text: str) -> None:
    """Although it has the words of one, and few others."""
    assert find_ending([_said("Where is the boat?")], text, _NOW, signs=["farewell"], pause_seconds=1800) is None


def test_a_pause_ends_what_was_before_it() -> None:
    """Longer than the limit, and said in seconds; the message after it begins something else."""
    before = [_said("Where is the boat?", at=_NOW - timedelta(seconds=1801))]

    ending = find_ending(before, "And the oars?", _NOW, signs=_ALL, pause_seconds=1800)

    assert ending is not None
    assert (ending.reason, ending.why, ending.is_before) == ("pause", "nothing was said for 1,801 s", True)
    assert find_ending(before, "And the oars?", _NOW, signs=_ALL, pause_seconds=1801) is None


def test_only_what_is_asked_for_counts() -> None:
    """Without a sign nothing ends a conversation."""
    before = [_said("Where is the boat?", at=_NOW - timedelta(days=1))]
    cases: tuple[tuple[tuple[EndSign, ...], str | None], ...] = (
        (("farewell",), "farewell"),
        (("pause",), "pause"),
        (("topic",), None),
        ((), None),
    )
    for signs, expected in cases:
        ending = find_ending(before, "Bye!", _NOW, signs=signs, pause_seconds=1800)
        assert (None if ending is None else ending.reason) == expected


def test_why_quotes_nothing() -> None:
    """It stands in events and logs; what was said does not belong there."""
    [message] = [one for one in _messages() if one.text.startswith("Which train goes")]
    ending = find_ending(message.before, message.text, _NOW, signs=_ALL, pause_seconds=1800)

    assert ending is not None
    assert ending.why == "none of 6 words of the message occurs in the last 4 invocations"


@pytest.mark.parametrize("text", ["", " ", "?", "🙂", "a" * 20_000, "bye " * 5_000, "that's " * 3_000])
def test_any_text_is_read(text: str) -> None:
    """Without an error, and in no time."""
    find_ending([_said("Where is the boat?")], text, _NOW, signs=_ALL, pause_seconds=1800)
