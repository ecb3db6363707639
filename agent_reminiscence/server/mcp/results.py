"""What the native tools return to programs."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import Field

from agent_reminiscence.config.constants import Tier
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.server.mcp.tools import Result
from agent_reminiscence.text.rendering import NOTE


class _Quoting(Result):
    """Quotes memories. Some clients show a model this instead of the text, so it carries the same note."""

    note: str = NOTE


class OutOfDate(Result):
    """Something newer seems to contradict it."""

    since: datetime
    by: UUID | None = Field(default=None, description="The chunk_id of the newer hit, if it is one.")
    is_partly: bool | None = Field(default=None, description="Only some of its words are.")


class Hit(Result):
    """A passage that was recalled."""

    number: int = Field(description="As in the text.")
    external_id: str | None = Field(default=None, description="Whose memory it is from, if several were asked.")
    also_in: list[str] | None = Field(default=None, description="Whose memories have the same words.")
    chunk_id: UUID
    memory_id: UUID
    title: str
    content: str
    said_at: datetime
    last_said_at: datetime | None = Field(default=None, description="If the same words were said again after that.")
    later: UUID | None = Field(default=None, description="The chunk_id of the hit that says the same later.")
    until: datetime | None = Field(default=None, description="When it ceased to be true.")
    outdated: OutOfDate | None = Field(default=None, description="Whether it is probably out of date.")
    speaker: str | None = None
    source: Source
    tier: Tier
    match: float = Field(description="0 to 1: how much of the question it covers.")
    memory_metadata: dict[str, Any] | None = Field(default=None, description="Of its memory, if it has any.")


class Standing(Result):
    """A statement that always holds."""

    external_id: str | None = Field(default=None, description="Whose memory it is from, if several were asked.")
    memory_id: UUID
    content: str
    said_at: datetime
    source: Source
    outdated: OutOfDate | None = None
    is_pinned: bool = Field(description="Its memory is pinned; otherwise the statement was known by its form.")


class Recalled(_Quoting):
    """What `recall` returns."""

    found: bool = Field(description="False: a weak match; the hits may be about something else.")
    standing: list[Standing] = Field(default_factory=list, description="What always holds, whatever is asked.")
    hits: list[Hit] = Field(description="Best first.")
    omitted: dict[str, int] = Field(default_factory=dict, description="How many were left out, by reason.")


class Written(Result):
    """What `remember` and `update_memory` return."""

    memory_id: UUID
    version: int
    key: str | None = None
    changed: bool = Field(description="False: the memory said so already.")
    redactions: dict[str, int] = Field(
        default_factory=dict, description="Secrets that were replaced before storing, by kind."
    )


class Listed(Result):
    """A memory in a list."""

    memory_id: UUID
    version: int
    key: str | None = None
    title: str
    content: str = Field(description="Its beginning.")
    characters: int = Field(description="Of the whole content.")
    source: Source
    occurred_at: datetime
    updated_at: datetime


class ListedMemories(_Quoting):
    """What `list_memories` returns."""

    memories: list[Listed] = Field(description="Oldest first.")
    next: UUID | None = Field(default=None, description="Pass it as `after` for the next page; absent on the last.")


class Version(Result):
    """A version of a memory."""

    version: int
    title: str
    content: str
    characters: int = Field(description="Of the whole content, of which only the beginning may be here.")
    is_append: bool = Field(description="Whether the content is only what this version added.")
    source: Source
    actor: str | None = None
    occurred_at: datetime
    recorded_at: datetime


class History(_Quoting):
    """What `history` returns."""

    memory_id: UUID
    key: str | None = None
    archived_at: datetime | None = None
    versions: list[Version] = Field(description="Oldest first; the last is whole.")
    omitted: int = Field(description="How many older versions are left out.")


class Forgotten(Result):
    """What `forget` returns."""

    memory_id: UUID
    erased: bool
    archived_at: datetime | None = None
    receipt_id: UUID | None = None
    receipt_sha256: str | None = None
    events: int | None = Field(default=None, description="How many events of the ledger were emptied.")


class Cited(Result):
    """A passage that an answer cites."""

    number: int
    external_id: str | None = Field(default=None, description="Whose memory it is from, if several were asked.")
    memory_id: UUID
    title: str
    content: str


class Answered(_Quoting):
    """What `answer` returns."""

    answer: str
    is_known: bool | None = Field(default=None, description="False: memory does not hold the answer.")
    citations: list[Cited]
