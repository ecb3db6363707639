"""What writes of memories take, and a page of them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, model_validator

from agent_reminiscence.domain.memory import ActiveMemory, IfExists
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.server.rest.fields import (
    MAX_DESCRIPTION_CHARACTERS,
    Body,
    Flag,
    Id,
    JsonObject,
    Language,
    Moment,
    Number,
    Text,
    Timezone,
    Title,
    TurnGiven,
    one_of,
)


class _Described(Body):
    """What every write may say of itself."""

    occurred_at: Moment | None = Field(default=None, description="When it was true in the world; null: now.")
    actor: Id | None = Field(default=None, description="The agent, user or tool that causes the write.")
    conversation_id: Id | None = Field(default=None, description="The conversation it belongs to.")
    source: Source = Field(default="user", description="Its trust label.")


class MemoryPut(_Described):
    """A whole memory."""

    title: Title = Field(description="Indexed with every passage.")
    content: Text
    description: str | None = Field(
        default=None, max_length=MAX_DESCRIPTION_CHARACTERS, description="Stored, not searched."
    )
    metadata: JsonObject | None = Field(
        default=None,
        description="`speaker` names the speaker of the whole text; `turns`, a list of objects with `start` and"
        " `speaker`, marks where each turn begins.",
    )
    language: Language | None = Field(
        default=None, description="As ISO 639-1, such as `de`; null: the setting, or what the text shows."
    )
    timezone: Timezone | None = Field(
        default=None,
        description="What days in the text, such as yesterday, are understood in: an IANA name such as Europe/Lisbon;"
        " null: the setting.",
    )
    pinned: Flag | None = Field(
        default=None, description="Whether it is shown whatever is asked; null: as before, and a new one is not."
    )
    expires_at: Moment | None = Field(
        default=None, description="From when on nothing finds it; null: it does not expire."
    )


class MemoryCreate(MemoryPut):
    """A memory to create."""

    key: Id | None = Field(
        default=None,
        description="Your own name for it; no other active memory may have it, and it does not begin with"
        " `conversation/`.",
    )
    if_exists: IfExists = Field(
        default="error",
        description="If an active memory has the key: `error` refuses, `update` makes it what this request would have"
        " created, `return` leaves it as it is.",
    )


class MemoryChange(_Described):
    """What to change; a field that is left out stays as it is."""

    title: Title = Field(default_factory=str)
    content: Text = Field(
        default_factory=str, description="Unchanged passages keep their chunks, importance and dates."
    )
    description: str | None = Field(default=None, max_length=MAX_DESCRIPTION_CHARACTERS, description="null removes it.")
    metadata: JsonObject | None = Field(
        default=None, description="Replaces all of the old; null empties it. `turns` stay as long as the text does."
    )
    language: Language | None = Field(
        default=None, description="From now on, unchanged passages included; null keeps it."
    )
    timezone: Timezone | None = Field(
        default=None, description="Its time zone from now on, unchanged passages included; null keeps it."
    )
    pinned: Flag | None = Field(default=None, description="Whether it is shown whatever is asked; null: as before.")
    expires_at: Moment | None = Field(
        default=None, description="From when on nothing finds it; null: it does not expire any more."
    )


class MemoryAddition(_Described):
    """What to add at the end of a memory's text: either a text or turns."""

    model_config = ConfigDict(json_schema_extra=one_of(text="string", turns="array"))

    text: Text | None = Field(default=None, description="Begins a new paragraph.")
    turns: list[TurnGiven] | None = Field(
        default=None, min_length=1, description="A turn with an id that the memory holds already is left out."
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> MemoryAddition:
        if (self.text is None) == (self.turns is None):
            raise ValueError("pass either text or turns")
        return self

    def addition(self) -> str | list[dict[str, Any]]:
        """What the memory takes."""
        return [turn.model_dump() for turn in self.turns or ()] if self.text is None else self.text


class VersionToRestore(Body):
    """An earlier version of a memory."""

    version: Number = Field(description="Which one, from 1; the history has them.")
    occurred_at: Moment | None = Field(default=None, description="When it became true in the world; null: now.")
    actor: Id | None = Field(default=None, description="Who restores it.")


class MemoryPage(BaseModel):
    """Some memories, oldest first."""

    memories: tuple[ActiveMemory, ...]
    next: UUID | None = Field(description="Pass it as `after` for the next page; null: this is the last one.")
