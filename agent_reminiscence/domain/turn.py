"""Turns of a conversation, and how they are laid out in a memory's text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from pydantic import Field, field_validator

from agent_reminiscence.domain.conversation_key import ConversationKeys
from agent_reminiscence.domain.model import StrictModel
from agent_reminiscence.domain.trust import Source

RESERVED_TURN_KEYS: Final = frozenset({"start", "speaker", "time", "id"})
"""What a turn's entry in `metadata["turns"]` says by itself; a caller's own metadata has other keys."""


class Turn(StrictModel):
    """Something that somebody said.

    Source: the `turns` of a memory's metadata, which hold `start`, `speaker`, `time`, `id` and the rest of `metadata`.
    """

    text: str
    speaker: str | None = None
    time: datetime | None = Field(default=None, description="When it was said, with a time zone; None: when written.")
    id: str | None = Field(
        default=None,
        description="Your own id of it, also a UUID; a turn with an id that is stored already is not appended again.",
    )
    metadata: dict[str, Any] = Field(default_factory=dict)

    @field_validator("id", mode="before")
    @classmethod
    def _as_text(cls, value: object) -> object:
        """A UUID as its text, as the id of an imported message is read."""
        return str(value) if isinstance(value, UUID) else value


_SOURCES: Final[Mapping[str, Source]] = {
    "user": "user",
    "human": "user",
    "assistant": "agent",
    "ai": "agent",
    "model": "agent",
    "agent": "agent",
    "tool": "tool",
    "function": "tool",
}


def source_of(speaker: str | None, default: Source) -> Source:
    """The trust label of what a speaker says: that of a role that chat models know, else the default."""
    return default if speaker is None else _SOURCES.get(speaker.casefold(), default)


def turn_text(turn: Turn) -> str:
    """A turn as a line of the text: `Speaker: words`."""
    return turn.text if turn.speaker is None else f"{turn.speaker}: {turn.text}"


def lay_out_turns(turns: Sequence[Turn], *, start: int = 0) -> tuple[str, list[dict[str, Any]]]:
    """The text of some turns, one per line, and the entries of `metadata["turns"]` that describe them.

    Args:
        start: Where the text begins, as a position in the memory's text.
    """
    texts: list[str] = []
    entries: list[dict[str, Any]] = []
    at = start
    for turn in turns:
        text = turn_text(turn)
        entry: dict[str, Any] = {"start": at, "speaker": turn.speaker}
        if turn.time is not None:
            entry["time"] = turn.time.isoformat()
        if turn.id is not None:
            entry["id"] = turn.id
        entries.append(entry | turn.metadata)
        texts.append(text)
        at += len(text) + 1
    return "\n".join(texts), entries


def read_turns(content: str, metadata: Mapping[str, Any]) -> list[Turn]:
    """The turns of a memory's text, in order; empty if its metadata marks none."""
    entries = turns_of(metadata)
    ends = [*(entry["start"] for entry in entries), len(content)][1:]
    turns = []
    for entry, end in zip(entries, ends, strict=True):
        text, speaker = content[entry["start"] : end].strip(), entry.get("speaker")
        turn_id = entry.get("id")
        turns.append(
            Turn(
                text=text.removeprefix(f"{speaker}: ") if speaker else text,
                speaker=speaker,
                time=said_at(entry),
                id=turn_id if isinstance(turn_id, str) else None,
                metadata={key: value for key, value in entry.items() if key not in RESERVED_TURN_KEYS},
            )
        )
    return turns


def turn_scope(memory_id: UUID, key: str | None) -> UUID:
    """What the ids of a memory's turns are unique in: its conversation if its key is of one, else the memory."""
    keys = ConversationKeys.of(key)
    return memory_id if keys is None else keys.scope


def turns_of(metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The entries of `metadata["turns"]`; empty if there are none."""
    turns = metadata.get("turns")
    return [turn for turn in turns if isinstance(turn, dict)] if isinstance(turns, list) else []


def turn_ids(entries: Sequence[dict[str, Any]]) -> list[str]:
    """The ids in entries of `metadata["turns"]`, each once, in order; one that is no text, or too long, is none."""
    ids = (entry.get("id") for entry in entries)
    return list(dict.fromkeys(one for one in ids if isinstance(one, str) and 0 < len(one) <= MAX_TURN_ID_CHARACTERS))


MAX_TURN_ID_CHARACTERS: Final = 256


def said_at(entry: Mapping[str, Any]) -> datetime | None:
    """When a turn was said, by its entry in `metadata["turns"]`; None where a caller wrote something else."""
    value = entry.get("time")
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return moment if moment.utcoffset() is not None else None
