"""Exports and imports, and their reports."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from pydantic import Field

from agent_reminiscence.domain.canonical import canonical_json, sha256
from agent_reminiscence.domain.model import FrozenModel


@dataclass(frozen=True, slots=True)
class ImportedMemory:
    """One memory to import: arguments of `create_active_memory`.

    Attributes:
        silent_messages: Chat messages without text that were skipped since the previous memory.
        replaced_characters: Characters that cannot be stored and are U+FFFD now, in what was read since then.
    """

    title: str
    content: str
    metadata: dict[str, Any]
    occurred_at: datetime | None
    conversation_id: str | None = None
    silent_messages: int = 0
    replaced_characters: int = 0

    @property
    def idempotency_key(self) -> str:
        """Key made of the words, their speakers and times; it does not depend on the source or its name."""
        said = {
            "content": self.content,
            "turns": self.metadata.get("turns", []),
            "conversation_id": self.conversation_id,
        }
        return f"import-{sha256(canonical_json(said).encode()).hex()}"


class AddedMemory(FrozenModel):
    """The outcome for one imported memory."""

    memory_id: UUID | None = Field(
        description="The memory, new or existing. None: an event of another kind already had its idempotency key."
    )
    added: bool = Field(description="Whether it is new; an existing memory is left unchanged, unless it `has_grown`.")
    has_grown: bool = Field(
        default=False, description="Whether a memory that held the beginning of the conversation was appended to."
    )
    chunks_added: int
    redactions: dict[str, int] = Field(
        default_factory=dict, description="Number of matches per redactor rule in what was passed."
    )


class SkippedMessage(FrozenModel):
    """A message that was not imported because it cannot be read."""

    number: int = Field(description="Its number among the messages that were passed, from 1.")
    reason: str


MAX_SKIPPED_NAMED = 1_000


class MessageImportReport(FrozenModel):
    """The outcome of a message import, as far as written."""

    external_id: str
    messages: int = Field(default=0, description="Messages read, without those that were skipped.")
    messages_without_text: int = Field(default=0, description="Those of them left out because they have no text.")
    messages_skipped: int = Field(
        default=0, description='Messages that cannot be read and were skipped, with `on_error="skip"`.'
    )
    skipped: tuple[SkippedMessage, ...] = Field(
        default=(), description="The first 1,000 of them: the number of each, and why it cannot be read."
    )
    replaced_characters: int = Field(
        default=0,
        description="Characters that cannot be stored (NUL, halves of surrogate pairs) and were replaced by U+FFFD.",
    )
    added: int = Field(default=0, description="New memories.")
    grown: int = Field(default=0, description="Memories that held the beginning of a conversation and got the rest.")
    unchanged: int = Field(default=0, description="Memories that already existed and were left unchanged.")
    chunks_added: int = 0
    vectors_missing: int = Field(
        default=0, description="Chunks of these memories found by words only, until their vectors are made."
    )
    redactions: dict[str, int] = Field(
        default_factory=dict, description="Number of matches per redactor rule in these messages."
    )

    @property
    def memories(self) -> int:
        """Total number of memories written or found."""
        return self.added + self.grown + self.unchanged

    @property
    def done(self) -> int:
        """Messages read."""
        return self.messages

    @property
    def total(self) -> None:
        """Not known: messages are taken one by one."""

    @property
    def unit(self) -> str:
        """What is counted."""
        return "messages"


class ExportReport(FrozenModel):
    """An exported file, which holds one stream."""

    external_id: str
    path: Path
    events: int
    chain: str = Field(description="Chain of the last event, hexadecimal; '' for an empty stream.")
    size_bytes: int


class ReadableExportReport(FrozenModel):
    """A file with the memories of one tenant for people; it cannot be imported."""

    external_id: str
    path: Path
    memories: int
    size_bytes: int


class ImportReport(FrozenModel):
    """The outcome of an import."""

    external_id: str = Field(description="The external_id that now holds the events.")
    exported_from: str = Field(description="The external_id in the file.")
    events: int = Field(description="Events in the file.")
    imported: int = Field(description="Events that were new.")
    head: int = Field(description="Position of the stream's last event now.")
    vectors_missing: int | None = Field(
        description="Chunks found by words only, until their vectors are made. None: the store became unavailable"
        " before any were made; repeat the import or call rebuild() to make them."
    )
