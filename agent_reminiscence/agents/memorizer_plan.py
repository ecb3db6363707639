"""The plan that a model answers with: its fields, and what they may hold."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from agent_reminiscence.agents.plan_dates import MAX_DATE_CHARACTERS
from agent_reminiscence.config.constants import MAX_ENTITY_NAME_CHARACTERS

# Limits on one window and on what a plan for it may hold.
MAX_WINDOW_PASSAGES = 200
_MAX_ENTITIES = 60
_MAX_RELATIONSHIPS = 100
_MAX_FACTS = 30
_MAX_ENDINGS = 30
_MAX_ALIASES = 10

# Lower-casing may turn one character into two: doubled, this still fits the limit for a type.
_MAX_TYPE_CHARACTERS = 50
_MAX_DESCRIPTION_CHARACTERS = 500
_MAX_FACT_CHARACTERS = 500
_MAX_WHY_CHARACTERS = 300
_MAX_SUMMARY_CHARACTERS = 1_000

# A larger number is never a reference, whatever was shown.
_MAX_REF = 9_999


def _sayable(text: str) -> str:
    """`text` if it says something and can be stored; lone surrogates are refused before this."""
    if "\0" in text:
        raise ValueError("it contains a NUL character")
    if not any(character.isalnum() for character in text):
        raise ValueError("it is blank")
    return text


def _none_if_blank(value: object) -> object:
    return None if isinstance(value, str) and not value.strip() else value


_Ref = Annotated[int, Field(ge=1, le=_MAX_REF)]
_Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]

_Passages = Annotated[
    list[_Ref], Field(min_length=1, max_length=MAX_WINDOW_PASSAGES, description="New passages that say it.")
]

_Name = Annotated[str, Field(max_length=MAX_ENTITY_NAME_CHARACTERS), AfterValidator(_sayable)]
_Type = Annotated[str, Field(max_length=_MAX_TYPE_CHARACTERS), AfterValidator(_sayable)]

_Why = Annotated[
    str, Field(max_length=_MAX_WHY_CHARACTERS, description="Why, in a sentence."), AfterValidator(_sayable)
]

_Description = Annotated[
    Annotated[str, Field(max_length=_MAX_DESCRIPTION_CHARACTERS), AfterValidator(_sayable)] | None,
    BeforeValidator(_none_if_blank),
]

_Date = Annotated[
    Annotated[str, Field(max_length=MAX_DATE_CHARACTERS), AfterValidator(_sayable)] | None,
    BeforeValidator(_none_if_blank),
]


class _Part(BaseModel):
    model_config = ConfigDict(str_strip_whitespace=True)


class RatedChunk(_Part):
    """How important a new passage is."""

    ref: _Ref = Field(description="Number of the new passage.")
    importance: _Share


class FoundEntity(_Part):
    """Somebody or something that new passages name."""

    ref: _Ref = Field(description="Its own number in this plan, from 1.")
    name: _Name = Field(description="Its fullest name in the passages.")
    type: _Type
    description: _Description = Field(default=None, description="What the passages say it is, in a sentence.")
    confidence: _Share
    aliases: list[_Name] = Field(
        default_factory=list, max_length=_MAX_ALIASES, description="Other names that the passages call it by."
    )
    chunks: _Passages
    known: _Ref | None = Field(default=None, description="Number of the known entity that it is.")
    is_other: bool = Field(default=False, description="True if it is not the known entity of the same name.")


class FoundRelationship(_Part):
    """How two entities of this plan are related."""

    from_entity: _Ref = Field(description="The `ref` of an entity of this plan.")
    to_entity: _Ref = Field(description="The `ref` of another one.")
    type: _Type
    description: _Description = Field(default=None, description="What the passages say about it, in a sentence.")
    confidence: _Share
    chunks: _Passages
    start: _Date = Field(default=None, description="Since when.")
    end: _Date = Field(default=None, description="Until when, if it is over or will be.")


class AutoResolve(_Part):
    """Who and what the new passages are about."""

    entities: list[FoundEntity] = Field(default_factory=list, max_length=_MAX_ENTITIES)
    relationships: list[FoundRelationship] = Field(default_factory=list, max_length=_MAX_RELATIONSHIPS)


class Fact(_Part):
    """A statement that can be understood alone."""

    text: Annotated[str, AfterValidator(_sayable)] = Field(max_length=_MAX_FACT_CHARACTERS)
    chunks: _Passages
    confidence: _Share
    importance: _Share
    start: _Date = Field(default=None, description="Since when it is true.")
    end: _Date = Field(
        default=None, description="Until when the sentence as written is true; that something happened stays true."
    )


class EndedChunk(_Part):
    """A stored passage that a new one shows to be over."""

    stored: _Ref = Field(description="Number of the stored passage.")
    by: _Ref = Field(description="Number of the new passage.")
    reason: Literal["contradicted", "replaced"]
    why: _Why


class EndedRelationship(_Part):
    """A known relationship that a new passage says is over."""

    relationship: _Ref = Field(description="Number of the known relationship.")
    by: _Ref = Field(description="Number of the new passage.")
    on: _Date = Field(default=None, description="When it ended; null means when the passage was said.")
    why: _Why


class ConsolidationPlan(_Part):
    """What to make of the new passages."""

    chunks: list[RatedChunk] = Field(
        min_length=1, max_length=MAX_WINDOW_PASSAGES, description="Each new passage, exactly once."
    )
    auto_resolve: AutoResolve = Field(default_factory=AutoResolve)
    facts: list[Fact] = Field(default_factory=list, max_length=_MAX_FACTS)
    ended_chunks: list[EndedChunk] = Field(default_factory=list, max_length=_MAX_ENDINGS)
    ended_relationships: list[EndedRelationship] = Field(default_factory=list, max_length=_MAX_ENDINGS)
    summary: Annotated[str, AfterValidator(_sayable)] = Field(max_length=_MAX_SUMMARY_CHARACTERS)


class EndingsPlan(_Part):
    """Which statements of less trusted sources the new passages show to be over."""

    ended_chunks: list[EndedChunk] = Field(default_factory=list, max_length=_MAX_ENDINGS)
    ended_relationships: list[EndedRelationship] = Field(default_factory=list, max_length=_MAX_ENDINGS)
