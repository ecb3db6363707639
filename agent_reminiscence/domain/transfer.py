"""What is exported and imported, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from agent_reminiscence.domain.canonical import canonical_json, sha256


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


@dataclass(frozen=True, slots=True)
class ImportedMemory:
    """One memory to import: arguments of `create_active_memory`.

    Attributes:
        silent_messages: Messages of a chat left out because they have no text, since the memory before it.
    """

    title: str
    content: str
    metadata: dict[str, Any]
    occurred_at: datetime | None
    conversation_id: str | None = None
    silent_messages: int = 0

    @property
    def idempotency_key(self) -> str:
        """Made of the words, who said them and when: the same wherever they come from and whatever that is called."""
        said = {
            "content": self.content,
            "turns": self.metadata.get("turns", []),
            "conversation_id": self.conversation_id,
        }
        return f"import-{sha256(canonical_json(said).encode()).hex()}"


class AddedMemory(_Frozen):
    """What became of one memory of an import."""

    memory_id: UUID | None = Field(
        description="The memory, new or known. None: an event of another kind had its idempotency key before."
    )
    added: bool = Field(description="Whether it is new; otherwise it was there, and stays as it is.")
    chunks_added: int
    redactions: dict[str, int] = Field(
        default_factory=dict, description="How often which rule of the redactor has matched in what was passed."
    )


class MessageImportReport(_Frozen):
    """What became of messages, as far as they are written."""

    external_id: str
    messages: int = Field(default=0, description="Messages read.")
    messages_without_text: int = Field(default=0, description="Those of them that were left out for it.")
    added: int = Field(default=0, description="Memories that were not there before.")
    unchanged: int = Field(default=0, description="Memories that were there already and stay as they are.")
    chunks_added: int = 0
    vectors_missing: int = Field(
        default=0, description="Chunks of these memories found by words only until their vectors are made."
    )
    redactions: dict[str, int] = Field(
        default_factory=dict, description="How often which rule of the redactor has matched in these messages."
    )

    @property
    def memories(self) -> int:
        """Memories written or found, in all."""
        return self.added + self.unchanged


class ExportReport(_Frozen):
    """A file that holds a stream."""

    external_id: str
    path: Path
    events: int
    chain: str = Field(description="Chain of the last event, hexadecimal; '' for an empty stream.")
    size_bytes: int


class ImportReport(_Frozen):
    """What became of an import."""

    external_id: str = Field(description="Whose the events are now.")
    exported_from: str = Field(description="Whose they were in the file.")
    events: int = Field(description="Events of the file.")
    imported: int = Field(description="Events that were not there before.")
    head: int = Field(description="Position of the stream's last event now.")
    vectors_missing: int | None = Field(
        description="Chunks that are found by words only until their vectors are made. None: the store went away"
        " before any were made; a repeated import, or rebuild(), makes them."
    )
