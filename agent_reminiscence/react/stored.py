"""What facts and episodes have in common: each is an active memory with a key."""

from __future__ import annotations

from contextlib import suppress

from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.erasure import ErasureReceipt
from agent_reminiscence.domain.filter import Filter
from agent_reminiscence.domain.memory import ActiveMemory
from agent_reminiscence.exceptions import MemoryNotFoundError
from agent_reminiscence.react.failures import guarded
from agent_reminiscence.react.paging import all_events
from agent_reminiscence.react.service_models import DeleteResponse

# A memory may be found by several of its passages.
_HITS_PER_MEMORY = 2
_LEAST_WORDS = 3


async def recall(
    memory: AgentMem, external_id: str, query: str, where: Filter, *, limit: int, run_id: str | None = None
) -> list[ActiveMemory]:
    """The active memories that answer a query, best first.

    Args:
        run_id: The run whose outcome scores what is found; then only what is returned is searched for, so that nothing
            gets credit that was not shown. A long memory may then take the place of two.
    """
    if limit == 0:
        return []
    most = limit if run_id is not None else min(limit * _HITS_PER_MEMORY, 200)
    found = await memory.retrieve_memories(external_id, query, limit=most, where=where, run_id=run_id, synthesis=False)
    ids = list(dict.fromkeys(hit.memory_id for hit in found.hits))[:limit]
    if not ids:
        return []
    by_id = {one.id: one for one in await memory.get_active_memories(external_id, ids=ids)}
    return [by_id[one] for one in ids if one in by_id]


async def discard(
    memory: AgentMem, external_id: str, key: str, *, purge: bool, with_words: bool = False
) -> DeleteResponse:
    """Archive the memory with a key and end its passages, or erase it; one that is not there is gone already.

    Args:
        purge: Whether to erase it, also if it is archived.
        with_words: Whether a purge also erases whatever else in the ledger holds its words.
    """

    async def delete() -> DeleteResponse:
        if purge:
            receipts = await _purge(memory, external_id, key, with_words=with_words)
            return DeleteResponse(success=True, receipts=tuple(receipts))
        with suppress(MemoryNotFoundError):
            await memory.admin.archive(external_id, key=key, end_chunks=True)
        return DeleteResponse(success=True)

    return await guarded(delete, lambda error: DeleteResponse(error=error))


async def _purge(memory: AgentMem, external_id: str, key: str, *, with_words: bool) -> list[ErasureReceipt]:
    """Erase every memory that has or had a key."""
    texts: set[str] = set()
    receipts: list[ErasureReceipt] = []
    # No list has archived memories; the ledger has what created them.
    async for event in all_events(memory, external_id, "memory.created"):
        if event.payload.get("key") == key:
            texts.add(event.payload["content"])
            with suppress(MemoryNotFoundError):
                receipts.append(await memory.admin.erase(external_id, memory_id=event.payload["memory_id"]))
    # A word or two may stand anywhere.
    worded = [text for text in texts if with_words and len(text.split()) >= _LEAST_WORDS]
    return receipts + [await memory.admin.erase(external_id, text=text) for text in worded]
