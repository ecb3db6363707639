"""Tells from a conversation whether it, or the part of it before a message, is over, and why. Asks nobody.

In 26 dialogues of our own in English and German (`tests/unit/react/test_ending.py`), the rules find 15 of 16 farewells
and 10 of 16 changes of topic, and take none of 103 other messages for an end. The rules were adjusted on these
dialogues, so expect less of others. They prefer to miss an end: a timeout ends the conversation later.

The vectors of messages were tried, too. "Is breakfast included?" is as far from what was said before (a cosine of 0.02)
as another topic (-0.03 to 0.31), so they are not used.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

from agent_reminiscence.domain.model import FrozenModel
from agent_reminiscence.react.models import InvocationSummary
from agent_reminiscence.text.folding import WORD

type EndSign = Literal["farewell", "pause", "topic"]
type EndReason = EndSign | Literal["call", "request", "timeout"]

_WORDS: Final[dict[str, list[str]]] = tomllib.loads(
    Path(__file__).with_name("ending_words.toml").read_text(encoding="utf-8")
)


def _any_of(phrases: Iterable[str]) -> re.Pattern[str]:
    longest_first = sorted(phrases, key=len, reverse=True)
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)")


_FAREWELL: Final = _any_of(_WORDS["farewell"])
_END: Final = _any_of([*_WORDS["farewell"], *_WORDS["closing"]])
_TURN: Final = _any_of(_WORDS["turn"])
_COURTESY: Final = frozenset(_WORDS["courtesy"])
_CONTINUING: Final = frozenset(_WORDS["continuing"])
_EMPTY: Final = frozenset(_WORDS["empty"])
# Behind a farewell, beside courtesy: a name.
_OTHER_WORDS: Final = 2
# Where a message says that it is about something else: in its first words.
_TURN_CHARACTERS: Final = 30
# How many of the last invocations a message is compared with, and how many of its words must be new to all of them.
_COMPARED: Final = 5
_NEW_WORDS: Final = 5
# Words are alike if they begin alike: boat, boats; Wetter, Wetterbericht.
_STEM: Final = 4


class Ending(FrozenModel):
    """That a conversation is over, and why.

    Attributes:
        is_before: Whether it was over before the message, which begins something else; else the message ends it.
        why: In words, without any of the conversation.
    """

    reason: EndReason
    why: str
    is_before: bool = False


class ConversationEnd(FrozenModel):
    """What came of the end of a conversation.

    Attributes:
        reason: What ended it: a `call`, the `request`, a `timeout`, or a sign that the setting `end_heuristic` names.
        why: The same in words, without any of the conversation.
    """

    conversation_id: str
    is_new: bool
    reason: EndReason = "call"
    why: str = ""
    promoted_facts: int = 0
    episode_id: str | None = None


def find_ending(
    before: Sequence[InvocationSummary],
    message: str,
    now: datetime,
    *,
    signs: Collection[EndSign],
    pause_seconds: float,
) -> Ending | None:
    """Whether a message shows that its conversation is over; None if it goes on.

    Args:
        before: The conversation before the message, oldest first.
        now: When the message was sent.
        signs: What counts.
        pause_seconds: How long nobody must have said anything.
    """
    if before and "pause" in signs and (pause := (now - before[-1].timestamp).total_seconds()) > pause_seconds:
        return Ending(reason="pause", why=f"nothing was said for {pause:,.0f} s", is_before=True)
    if "farewell" in signs and _is_farewell(message):
        return Ending(reason="farewell", why="the user said goodbye")
    if before and "topic" in signs and (why := _why_other_topic(before, message)) is not None:
        return Ending(reason="topic", why=why, is_before=True)
    return None


def _is_farewell(message: str) -> bool:
    folded = message.casefold().replace("’", "'")
    first = _END.search(folded)
    if first is None or "?" in message or _others(folded[: first.start()]):
        return False
    return _others(_END.sub(" ", folded)) <= (_OTHER_WORDS if _FAREWELL.search(folded) else 0)


def _others(text: str) -> int:
    """How many words are no courtesy."""
    return sum(word not in _COURTESY for word in WORD.findall(text))


def _why_other_topic(before: Sequence[InvocationSummary], message: str) -> str | None:
    folded = message.casefold().replace("’", "'")
    words = WORD.findall(folded)
    topic = _stems(words)
    if not topic:
        return None
    known = _stems(word for one in before[-_COMPARED:] for word in WORD.findall(f"{one.query} {one.result}".casefold()))
    shared = topic & known
    if _TURN.search(folded[:_TURN_CHARACTERS]) and not shared:
        return "the user turned to something else"
    if shared or len(topic) < _NEW_WORDS or not _CONTINUING.isdisjoint(words):
        return None
    return f"none of {len(topic)} words of the message occurs in the last {min(len(before), _COMPARED)} invocations"


def _stems(words: Iterable[str]) -> frozenset[str]:
    """The beginnings of words that say what something is about."""
    return frozenset(word[:_STEM] for word in words if len(word) >= _STEM and word not in _EMPTY | _CONTINUING)
