"""What memories with keys, appends and conversations have to hold after any history: a small model in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from uuid import UUID

from agent_reminiscence import Turn

_SOURCES = {"user": "user", "assistant": "agent"}


@dataclass(frozen=True)
class Version:
    """A memory's fields from one event on, whole."""

    occurred_at: datetime
    recorded_at: datetime
    title: str
    content: str
    turns: tuple[Turn, ...] = ()


@dataclass
class Known:
    """A memory, with everything that was ever said of it."""

    id: UUID
    key: str | None
    versions: list[Version]
    archived: tuple[datetime, datetime] | None = None
    conversations: set[str] = field(default_factory=set)

    @property
    def last(self) -> Version:
        """Its newest version."""
        return self.versions[-1]

    def held(self, as_of: datetime | None, known_at: datetime | None) -> tuple[int, Version] | None:
        """The version of a moment with its number, by the definition; None if there is none or it was archived."""
        moment = as_of or known_at
        begun = [
            (number, version)
            for number, version in enumerate(self.versions, start=1)
            if (known_at is None or version.recorded_at <= known_at)
            and (moment is None or version.occurred_at <= moment)
        ]
        if not begun:
            return None
        if self.archived is not None:
            occurred_at, recorded_at = self.archived
            if (known_at is None or recorded_at <= known_at) and (moment is None or occurred_at <= moment):
                return None
        return begun[-1]


def turn_line(turn: Turn) -> str:
    """A turn as a line of its memory's text."""
    return turn.text if turn.speaker is None else f"{turn.speaker}: {turn.text}"


@dataclass
class Book:
    """All memories of one tenant that were not erased, oldest first."""

    memories: list[Known] = field(default_factory=list)

    def find(self, memory_id: UUID) -> Known:
        """The memory with this id."""
        (found,) = [one for one in self.memories if one.id == memory_id]
        return found

    def holder(self, key: str) -> Known | None:
        """The memory that has a key and is not archived."""
        found = [one for one in self.memories if one.key == key and one.archived is None]
        assert len(found) <= 1, "two memories have a key"
        return found[0] if found else None

    def at(self, as_of: datetime | None = None, known_at: datetime | None = None) -> dict[UUID, tuple[int, Version]]:
        """What held at a moment, by memory; of two with one key the one that was created last."""
        held = [(one, version) for one in self.memories if (version := one.held(as_of, known_at)) is not None]
        holders = {one.key: one.id for one, _ in held if one.key is not None}
        return {one.id: version for one, version in held if one.key is None or holders[one.key] == one.id}

    def parts(self, conversation_id: str) -> list[Known]:
        """The memories of a conversation, in order of their keys."""
        prefix = f"conversation/{conversation_id}/"
        found = [one for one in self.memories if one.key is not None and one.key.startswith(prefix)]
        return sorted(found, key=lambda one: str(one.key))

    def scope(self, known: Known) -> list[Known]:
        """Where the ids of a memory's turns are unique: in its whole conversation, if it is of one."""
        prefix, _, rest = (known.key or "").partition("/")
        return self.parts(rest.rpartition("/")[0]) if prefix == "conversation" else [known]

    def turns(self, conversation_id: str) -> list[Turn]:
        """What a conversation shows."""
        return [turn for one in self.parts(conversation_id) if one.archived is None for turn in one.last.turns]

    def new_turns(self, turns: Sequence[Turn], known: Sequence[Known]) -> list[Turn]:
        """Those that are not held yet, each id once."""
        seen = {turn.id for one in known for turn in one.last.turns if turn.id is not None}
        new = []
        for turn in turns:
            if turn.id is None or turn.id not in seen:
                new.append(turn)
            if turn.id is not None:
                seen.add(turn.id)
        return new

    def plan_talk(self, conversation_id: str, turns: Sequence[Turn]) -> list[tuple[str, list[Turn], datetime]]:
        """The events that turns of a conversation make: the key of the memory, the turns and when it occurred."""
        parts = self.parts(conversation_id)
        key = parts[-1].key if parts else None
        last_at = parts[-1].last.occurred_at if parts else None
        is_closed = bool(parts) and parts[-1].archived is not None
        placed: list[tuple[str, str, Turn]] = []
        for turn in self.new_turns(turns, parts):
            assert turn.time is not None
            if key is None or last_at is None or is_closed or turn.time.date() > last_at.date():
                number = 0 if key is None else int(key[-6:])
                key, last_at, is_closed = f"conversation/{conversation_id}/{number + 1:06}", turn.time, False
            last_at = max(last_at, turn.time)
            placed.append((key, _SOURCES.get(turn.speaker or "", "user"), turn))
        events: list[tuple[str, list[Turn], datetime]] = []
        ends = {str(one.key): one.last.occurred_at for one in parts}
        for (event_key, _), group in groupby(placed, key=lambda one: one[:2]):
            said = [turn for *_, turn in group]
            times = [turn.time for turn in said if turn.time is not None]
            ends[event_key] = max([*times, *([ends[event_key]] if event_key in ends else [])])
            events.append((event_key, said, ends[event_key]))
        return events


def appended(version: Version, turns: Sequence[Turn], *, occurred_at: datetime, recorded_at: datetime) -> Version:
    """The version after turns were appended."""
    lines = "\n".join(map(turn_line, turns))
    return replace(
        version,
        content=f"{version.content}\n{lines}" if version.content else lines,
        turns=(*version.turns, *turns),
        occurred_at=occurred_at,
        recorded_at=recorded_at,
    )
