"""What facts and episodes have in common: each is an active memory with a key."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple

from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.erasure import ErasureReceipt
from agent_reminiscence.domain.filter import Filter
from agent_reminiscence.domain.memory import ActiveMemory
from agent_reminiscence.domain.retrieval import RetrievalResult
from agent_reminiscence.exceptions import MemoryNotFoundError
from agent_reminiscence.react.failures import guarded
from agent_reminiscence.react.likeness import Likeness
from agent_reminiscence.react.paging import all_events
from agent_reminiscence.react.service_models import DeleteResponse

# A memory may be found by several of its passages.
_HITS_PER_MEMORY = 2
_LEAST_WORDS = 3
# As many as one question to the memory may name.
_MAX_IDS = 1_000


class Recalled(NamedTuple):
    """A memory that answers a query.

    Attributes:
        embedding: The stored vector of its passage that answers best; None if it was not asked for, or is not made yet.
    """

    memory: ActiveMemory
    embedding: tuple[float, ...] | None


async def recall(
    memory: AgentMem,
    external_id: str,
    query: str,
    where: Filter,
    *,
    limit: int,
    embedding: Sequence[float] | None = None,
    with_embeddings: bool = False,
    run_id: str | None = None,
    least: float | Likeness | None = None,
) -> list[Recalled]:
    """The active memories that answer a query, best first.

    Args:
        embedding: The vector of the query; None has it embedded.
        run_id: The run whose outcome scores what is found; then only what is returned is searched for, so that nothing
            gets credit that was not shown. A long memory may then take the place of two.
        least: The least `match` of what is returned, 0 to 1, or what finds it for this memory; None: any.

    Raises:
        InvalidInputError: `embedding` does not fit the stored vectors.
    """
    if limit == 0:
        return []
    most = limit if run_id is not None else min(limit * _HITS_PER_MEMORY, 200)

    async def search(min_match: float | None) -> RetrievalResult:
        return await memory.retrieve_memories(
            external_id,
            query,
            limit=most,
            where=where,
            min_match=min_match,
            embedding=embedding,
            run_id=run_id,
            synthesis=False,
        )

    hits = (await _search_alike(search, least) if isinstance(least, Likeness) else await search(least)).hits
    # Of each memory the passage that answers best.
    best = {hit.memory_id: hit.chunk_id for hit in reversed(hits)}
    ids = list(dict.fromkeys(hit.memory_id for hit in hits))[:limit]
    if not ids:
        return []
    by_id = {one.id: one for one in await memory.get_active_memories(external_id, ids=ids)}
    vectors = await memory.admin.vectors(external_id, [best[one] for one in ids]) if with_embeddings else {}
    return [Recalled(by_id[one], vectors.get(best[one])) for one in ids if one in by_id]


async def by_ids(memory: AgentMem, external_id: str, prefix: str, ids: Sequence[str]) -> list[ActiveMemory]:
    """The active memories with these names behind the prefix of their keys, in this order; those that are gone, not."""
    keys = [prefix + one for one in dict.fromkeys(ids)][:_MAX_IDS]
    if not keys:
        return []
    found = {one.key: one for one in await memory.get_active_memories(external_id, keys=keys)}
    return [found[key] for key in keys if key in found]


async def _search_alike(
    search: Callable[[float | None], Awaitable[RetrievalResult]], likeness: Likeness
) -> RetrievalResult:
    """Search with the bound that fits the memory's vectors; twice if it turns out to be another one."""
    found = await search(likeness.least)
    if likeness.must_search_again(found):
        found = await search(likeness.least)
    least = likeness.least_of(found)
    return found.model_copy(update={"hits": tuple(hit for hit in found.hits if hit.match >= least)})


async def discard(
    memory: AgentMem,
    external_id: str,
    key: str,
    *,
    purge: bool,
    with_words: bool = False,
    occurred_at: datetime | None = None,
) -> DeleteResponse:
    """Archive the memory with a key and end its passages, or erase it; one that is not there is gone already.

    Args:
        purge: Whether to erase it, also if it is archived.
        with_words: Whether a purge also erases whatever else in the ledger holds its words.
        occurred_at: Since when an archived one no longer holds; None: now.
    """

    async def delete() -> DeleteResponse:
        if purge:
            receipts = await _purge(memory, external_id, key, with_words=with_words)
            return DeleteResponse(success=True, receipts=tuple(receipts))
        with suppress(MemoryNotFoundError):
            await memory.admin.archive(external_id, key=key, end_chunks=True, occurred_at=occurred_at)
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
