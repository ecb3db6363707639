"""Facts, each an active memory of its own."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.filter import Filter
from agent_reminiscence.domain.memory import ActiveMemory
from agent_reminiscence.react.failures import guarded
from agent_reminiscence.react.models import Fact
from agent_reminiscence.react.permission import Permission
from agent_reminiscence.react.quotas import Quota
from agent_reminiscence.react.registry import Registry
from agent_reminiscence.react.scope import Scope, default_scope
from agent_reminiscence.react.service_models import (
    DeleteFactRequest,
    DeleteResponse,
    RetrieveFactsRequest,
    RetrieveFactsResponse,
    StoreFactRequest,
    StoreFactResponse,
)
from agent_reminiscence.react.stored import discard, recall
from agent_reminiscence.text.folding import fold_text

FACT_PREFIX: Final = "fact/"
# What an agent holds to matter; the trust in an agent's word limits what comes of it.
PROMOTED_IMPORTANCE: Final = 0.9
_TITLE: Final = "Fact"


class MemoryFacts:
    """Facts of a user and collection, in the memory.

    A fact is found by its words and its meaning as soon as it is stored. It begins in the active tier; its
    consolidation links the names in it to the graph, and moves it on to longterm memory if it is important enough.
    """

    def __init__(
        self,
        memory: AgentMem,
        *,
        scope: Scope = default_scope,
        max_facts: int | None = None,
        permission: Permission | None = None,
    ) -> None:
        self._memory = memory
        self._scope = scope
        self._permission = permission or Permission(memory)
        self._registry = Registry(memory)
        self._quota = Quota(memory, FACT_PREFIX, "facts", max_facts)

    async def retrieve_facts(self, request: RetrieveFactsRequest) -> RetrieveFactsResponse:
        """The facts nearest to a query, best first; with `embedding`, to that vector and the query's words."""

        async def retrieve() -> RetrieveFactsResponse:
            await self._permission.to_read(request.user, request.collection)
            found = await recall(
                self._memory,
                self._scope(request.user, request.collection),
                request.query,
                Filter(key_prefix=FACT_PREFIX),
                limit=request.top_k,
                embedding=request.embedding,
                with_embeddings=request.with_embeddings,
            )
            return RetrieveFactsResponse(facts=tuple(as_fact(*one) for one in found))

        return await guarded(retrieve, lambda error: RetrieveFactsResponse(error=error))

    async def store_fact(self, request: StoreFactRequest) -> StoreFactResponse:
        """Store a fact. The same words, or the same `id`, are stored once."""

        async def store() -> StoreFactResponse:
            await self._permission.to_write(request.user, request.collection, request.source)
            external_id = self._scope(request.user, request.collection)
            fact_id = request.id or fact_id_of(request.content)
            key = FACT_PREFIX + fact_id
            await self._registry.open(request.user, request.collection)
            async with self._quota.room(external_id, key):
                await self._memory.create_active_memory(
                    external_id,
                    _TITLE,
                    request.content,
                    metadata={"source": request.source, "metadata": request.metadata},
                    source="agent",
                    conversation_id=request.source,
                    key=key,
                    if_exists="return",
                )
            return StoreFactResponse(fact_id=fact_id)

        return await guarded(store, lambda error: StoreFactResponse(error=error))

    async def delete_fact(self, request: DeleteFactRequest) -> DeleteResponse:
        """Archive a fact, so that no question finds it; `purge` erases it. Unknown ones are gone already.

        A purge also erases whatever else holds the very words of the fact, if they are at least three, such as the
        invocation in which they were said.
        """
        return await discard(
            self._memory,
            self._scope(request.user, request.collection),
            FACT_PREFIX + request.fact_id,
            purge=request.purge,
            with_words=True,
        )


def fact_id_of(content: str) -> str:
    """The id of a fact that was given none: the same words have the same one."""
    return sha256(" ".join(fold_text(content).split()).encode()).hexdigest()[:32]


async def promote(memory: AgentMem, external_id: str, facts: Sequence[ActiveMemory]) -> int:
    """Consolidate facts that will matter: their names join the graph, and they become longterm memories.

    Returns:
        How many were not consolidated before.
    """
    promoted = 0
    for fact in facts:
        reports = await memory.admin.consolidate(external_id, fact.id, importance=PROMOTED_IMPORTANCE)
        promoted += any(report.consolidated for report in reports)
    return promoted


def as_fact(memory: ActiveMemory, embedding: tuple[float, ...] | None = None) -> Fact:
    """The fact that a memory holds."""
    assert memory.key is not None
    return Fact(
        id=memory.key.removeprefix(FACT_PREFIX),
        content=memory.content,
        source=memory.metadata.get("source"),
        timestamp=memory.occurred_at,
        embedding=embedding,
        metadata=memory.metadata.get("metadata", {}),
    )
