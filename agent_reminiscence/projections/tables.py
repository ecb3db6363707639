"""The repositories that handlers write through."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from agent_reminiscence.database.repositories.active_memory import ActiveMemoryRepository
from agent_reminiscence.database.repositories.graph_changes import GraphChangesRepository
from agent_reminiscence.database.repositories.longterm_memory import LongtermMemoryRepository
from agent_reminiscence.database.repositories.memory_chunk import MemoryChunkRepository
from agent_reminiscence.database.repositories.shortterm_memory import ShorttermMemoryRepository
from agent_reminiscence.database.repositories.text_index import TextIndexRepository


@dataclass(frozen=True, slots=True)
class Tables:
    """All that a handler may change."""

    active: ActiveMemoryRepository
    shortterm: ShorttermMemoryRepository
    longterm: LongtermMemoryRepository
    chunks: MemoryChunkRepository
    index: TextIndexRepository
    graph: GraphChangesRepository


@dataclass(frozen=True, slots=True)
class Change:
    """What an event has changed of the tenant's counts, and whose texts.

    Attributes:
        live_chunks: By how many the chunks that a search may find now have grown.
        text_chunks: By how many entries the layouts have grown.
        text_words: By how many terms.
        language: Of a text that has come in.
        memory_ids: Memories whose layouts may have changed.
    """

    live_chunks: int = 0
    text_chunks: int = 0
    text_words: int = 0
    language: str | None = None
    memory_ids: frozenset[UUID] = frozenset()
