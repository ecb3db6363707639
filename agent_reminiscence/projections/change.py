"""What a handler has changed."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Change:
    """How an event changed the tenant's counts, and which memories' texts it touched.

    Attributes:
        live_chunks: Change in the number of chunks that a search may find now.
        text_chunks: Change in the number of entries in the layouts.
        text_words: Change in the number of terms.
        language: The language of an added text.
        memory_ids: Memories whose layouts may have changed.
        states_belief: Whether it added a belief, which belongs to the graph.
    """

    live_chunks: int = 0
    text_chunks: int = 0
    text_words: int = 0
    language: str | None = None
    memory_ids: frozenset[UUID] = frozenset()
    states_belief: bool = False
