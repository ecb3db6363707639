"""The repositories that handlers write through."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from agent_reminiscence.database.repositories.active_memory import ActiveMemoryRepository
from agent_reminiscence.database.repositories.graph.changes import GraphChangesRepository
from agent_reminiscence.database.repositories.longterm_memory import LongtermMemoryRepository
from agent_reminiscence.database.repositories.memory_chunk import MemoryChunkRepository
from agent_reminiscence.database.repositories.shortterm_memory import ShorttermMemoryRepository
from agent_reminiscence.database.repositories.text_index import TextIndexRepository


@dataclass(frozen=True, slots=True)
class Tables:
    """Everything that a handler may change."""

    active: ActiveMemoryRepository
    shortterm: ShorttermMemoryRepository
    longterm: LongtermMemoryRepository
    chunks: MemoryChunkRepository
    index: TextIndexRepository
    graph: GraphChangesRepository


@dataclass(frozen=True, slots=True)
class Change:
    """How an event changed the tenant's counts, and which memories' texts it touched.

    Attributes:
        live_chunks: Change in the number of chunks that a search may find now.
        text_chunks: Change in the number of entries in the layouts.
        text_words: Change in the number of terms.
        language: The language of an added text.
        memory_ids: Memories whose layouts may have changed.
    """

    live_chunks: int = 0
    text_chunks: int = 0
    text_words: int = 0
    language: str | None = None
    memory_ids: frozenset[UUID] = frozenset()
