"""Makes a memory of a few chunks be read as one of very many."""

from __future__ import annotations

from agent_reminiscence import AgentMem
from agent_reminiscence.services.recall.opening import Openings


def openings_of(memory: AgentMem) -> Openings:
    """Where a memory decides whether it ranks all chunks: up to `_whole_max_chunks` of them."""
    return memory._ready().services.retrieval._search.finder.openings
