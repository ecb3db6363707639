"""Leaves out of a conversation what its user does not want kept, before any model reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from agent_reminiscence.agents.plans import Said
from agent_reminiscence.text.folding import WORD
from agent_reminiscence.text.off_record import RecordMark, record_marks

# After such a pause people talk of something else.
OFF_RECORD_PAUSE: Final = timedelta(hours=8)
# With so few words beside it, "don't store that" is about what was said before.
_WORDS_BESIDE: Final = 4


@dataclass(frozen=True, slots=True)
class OnRecord:
    """What of a conversation may be kept.

    Attributes:
        said: Without what was said off the record.
        left_out: How many texts that leaves out.
        off_at: When the last text was said, if it was off the record; else None.
    """

    said: Sequence[Said]
    left_out: int = 0
    off_at: datetime | None = None


def keep_on_record(said: Sequence[Said], off_at: datetime | None = None) -> OnRecord:
    """Leave out what the user says is not to be kept, and what others say meanwhile.

    "Off the record" holds for the whole text in which the user says so and for all that follows, until the user says
    "back on the record" or nothing is said for eight hours. "Don't store that" holds for that text; if it says little
    else, also for the user's text before it, and what others said from there to the user's next one.

    Args:
        off_at: When what came before was said, if it was off the record.
    """
    kept: list[Said | None] = []
    is_off, last = off_at is not None, off_at
    is_aside = False
    users_last: int | None = None
    for index, one in enumerate(said):
        if is_off and last is not None and one.said_at is not None and one.said_at - last >= OFF_RECORD_PAUSE:
            is_off = False
        last = one.said_at or last
        # What was recalled are not the user's words of now.
        if one.role != "user" or one.is_recalled:
            kept.append(None if is_off or is_aside else one)
            continue
        is_aside = False
        start = None if is_off else 0
        for mark in record_marks(one.text):
            if mark.kind == "on":
                start = mark.start if is_off else start
                is_off = False
            elif mark.kind == "off":
                is_off, start = True, None
            elif _words_beside(one.text, mark) > _WORDS_BESIDE:
                is_aside, start = True, None
            elif users_last is not None:
                kept[users_last:] = [None] * (index - users_last)
                is_aside, start = True, None
            # Else it is about what was read earlier: the model is to read the wish.
        users_last = index
        kept.append(None if start is None else replace(one, text=one.text[start:]))
    rest = [one for one in kept if one is not None and one.text.strip()]
    return OnRecord(rest, len(said) - len(rest), (last or datetime.min.replace(tzinfo=UTC)) if is_off else None)


def _words_beside(text: str, mark: RecordMark) -> int:
    return len(WORD.findall(text[: mark.start])) + len(WORD.findall(text[mark.end :]))
