"""Entities and relationships: what memories name, and what stands beside what."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from agent_reminiscence.config.constants import (
    NAME_KEY_CHARACTERS,
    STRENGTH_HALF,
)

GraphTier = Literal["shortterm", "longterm"]

# Accents of Latin, Greek and Cyrillic, but for the one that makes another letter of и; and the vowel points of Arabic
# and Hebrew. Other marks, such as those of kana and Devanagari, make another letter.
_ACCENT = re.compile(r"[\u0300-\u0305\u0307-\u036f]|(?<![иИ])\u0306|[\u064b-\u065f\u0591-\u05c7]")
_POSSESSIVE = re.compile(r"['’]s$|['’]$")

FORMS_OF_ADDRESS = frozenset(
    {"dr", "herr", "frau", "madame", "miss", "monsieur", "mr", "mrs", "ms", "mx", "prof", "professor"}
)
"""Titles that are no part of a name, in lower case; more of them would change keys that rows hold."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class Entity(_Frozen):
    """Something that memories name: a person, a place, a thing.

    It speaks for all that were merged into it: their names are its aliases, their mentions its own.
    """

    id: UUID
    external_id: str
    tier: GraphTier
    name: str
    type: str
    description: str | None = None
    confidence: float = Field(description="How sure it is that this is a name at all, and of this type, 0 to 1.")
    importance: float = Field(description="Of the most important chunk that names it, 0 to 1.")
    first_seen: datetime = Field(
        description="In the world's time: from when on the earliest chunk that names it holds."
    )
    last_seen: datetime
    aliases: tuple[str, ...] = Field(default=(), description="Other names, in order of the alphabet.")
    merged_ids: tuple[UUID, ...] = Field(default=(), description="Of the entities that it speaks for, in order.")
    metadata: dict[str, Any] = Field(default_factory=dict)
    shortterm_memory_id: UUID = Field(description="The memory that named it first.")
    mentions: int = Field(description="Live chunks that name it; 0 for one of the past.")
    chunk_ids: tuple[UUID, ...] = Field(default=(), description="The newest of them, newest first.")
    positions: tuple[int, ...] = Field(
        default=(), description="Positions of the events that those chunks were found by, in order."
    )


class Relationship(_Frozen):
    """That two entities have to do with each other; both ends are ids as `Entity` has them."""

    id: UUID
    external_id: str
    tier: GraphTier
    from_id: UUID
    to_id: UUID
    type: str
    description: str | None = None
    confidence: float = Field(description="How sure it is, 0 to 1; standing in one chunk says little.")
    strength: float = Field(description="How often it was observed, as a share of for ever: 0.5 at the third time.")
    importance: float
    observations: int = Field(description="Live chunks that say it; 0 for one of the past.")
    first_observed: datetime = Field(description="In the world's time.")
    last_observed: datetime
    start_date: datetime = Field(description="From when on it is true in the world.")
    end_date: datetime | None = Field(default=None, description="Until when; None is still.")
    last_updated: datetime = Field(description="When the ledger recorded the event that changed it last.")
    metadata: dict[str, Any] = Field(default_factory=dict)
    chunk_ids: tuple[UUID, ...] = Field(default=(), description="The newest chunks that say it, newest first.")
    positions: tuple[int, ...] = Field(
        default=(), description="Positions of the events that those chunks were found by, in order."
    )


class Subgraph(_Frozen):
    """Some entities and the relationships between them."""

    entities: tuple[Entity, ...] = Field(description="Nearest first, then those of more mentions.")
    relationships: tuple[Relationship, ...] = Field(description="Strongest first; both ends are among the entities.")
    distances: dict[UUID, int] = Field(
        default_factory=dict, description="Of each entity from where it was looked from, in hops."
    )
    is_truncated: bool = Field(default=False, description="Whether a cap left something out.")


class GraphPath(_Frozen):
    """A way from one entity to another; one relationship fewer than entities, in order."""

    entities: tuple[Entity, ...]
    relationships: tuple[Relationship, ...]


class GraphPattern(_Frozen):
    """Entities of a type, a relationship of a type, entities of a type; what is None fits anything.

    Properties fit where an entity's or a relationship's metadata holds the same value under the same name, at its top.
    """

    from_type: str | None = None
    relationship_type: str | None = None
    to_type: str | None = None
    from_properties: dict[str, str | int | float | bool] = Field(default_factory=dict)
    relationship_properties: dict[str, str | int | float | bool] = Field(default_factory=dict)
    to_properties: dict[str, str | int | float | bool] = Field(default_factory=dict)


class GraphTriple(_Frozen):
    """One match of a pattern."""

    source: Entity
    relationship: Relationship
    target: Entity


def strength(observations: int) -> float:
    """How strong a relationship is that so many live chunks say, 0 to 1, rounded to six digits: 1 − 0.5^(n / 3)."""
    return round(1 - float(0.5 ** (observations / STRENGTH_HALF)), 6)


def without_possessive(text: str) -> str:
    """`text` without the ending of a possessive: `Tim's` is `Tim`, and `James'` is `James`."""
    # Most words have none, which is told faster than by searching them.
    return _POSSESSIVE.sub("", text) if text.endswith(("s", "'", "’")) else text


def name_key(name: str) -> str:
    """A name as it is compared: without case, accents, titles, a possessive's end and surplus spaces.

    A long one is cut and ends in a hash of the whole, so that different names have different keys and an index can hold
    each. '' where nothing is left.
    """
    if not name.isascii():
        decomposed = _ACCENT.sub("", unicodedata.normalize("NFKD", name.replace("’", "'")))
        name = unicodedata.normalize("NFC", decomposed)
    words = name.split()
    while len(words) > 1 and _is_title(words[0]):
        words.pop(0)
    key = without_possessive(" ".join(words).casefold()).strip()
    if len(key) > NAME_KEY_CHARACTERS:
        return f"{key[:NAME_KEY_CHARACTERS]}#{hashlib.sha256(key.encode()).hexdigest()}"
    return key


def _is_title(word: str) -> bool:
    """Whether a word before a name is a title; in capitals alone it may be something else, such as MS."""
    return word.rstrip(".").casefold() in FORMS_OF_ADDRESS and not (len(word) > 1 and word.isupper())
