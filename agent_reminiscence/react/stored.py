"""What facts and episodes have in common: each is an active memory with a key."""

from __future__ import annotations

from contextlib import suppress

from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.filter import Filter
from agent_reminiscence.domain.memory import ActiveMemory
from agent_reminiscence.exceptions import MemoryNotFoundError
from agent_reminiscence.react.failures import guarded
from agent_reminiscence.react.service_models import DeleteResponse

# A memory may be found by several of its passages.
_HITS_PER_MEMORY = 2


async def recall(
    memory: AgentMem, external_id: str, query: str, where: Filter, *, limit: int, run_id: str | None = None
) -> list[ActiveMemory]:
    """The active memories that answer a query, best first."""
    if limit == 0:
        return []
    found = await memory.retrieve_memories(
        external_id, query, limit=min(limit * _HITS_PER_MEMORY, 200), where=where, run_id=run_id
    )
    ids = list(dict.fromkeys(hit.memory_id for hit in found.hits))[:limit]
    if not ids:
        return []
    by_id = {one.id: one for one in await memory.get_active_memories(external_id, ids=ids)}
    return [by_id[one] for one in ids if one in by_id]


async def discard(memory: AgentMem, external_id: str, key: str, *, purge: bool) -> DeleteResponse:
    """Archive the memory with a key and end its passages, or erase it; one that is not there is gone already."""

    async def delete() -> DeleteResponse:
        if purge:
            for one in await memory.get_active_memories(external_id, keys=[key]):
                await memory.admin.erase(external_id, memory_id=one.id)
        else:
            with suppress(MemoryNotFoundError):
                await memory.admin.archive(external_id, key=key, end_chunks=True)
        return DeleteResponse(success=True)

    return await guarded(delete, lambda error: DeleteResponse(error=error))
