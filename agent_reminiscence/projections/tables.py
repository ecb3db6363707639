"""The repositories that handlers write through."""

from __future__ import annotations

from dataclasses import dataclass

from agent_reminiscence.database.repositories.active_memory import ActiveMemoryRepository
from agent_reminiscence.database.repositories.graph_changes import GraphChangesRepository
from agent_reminiscence.database.repositories.longterm_memory import LongtermMemoryRepository
from agent_reminiscence.database.repositories.memory_chunk import MemoryChunkRepository
from agent_reminiscence.database.repositories.shortterm_memory import ShorttermMemoryRepository


@dataclass(frozen=True, slots=True)
class Tables:
    """All that a handler may change."""

    active: ActiveMemoryRepository
    shortterm: ShorttermMemoryRepository
    longterm: LongtermMemoryRepository
    chunks: MemoryChunkRepository
    graph: GraphChangesRepository
