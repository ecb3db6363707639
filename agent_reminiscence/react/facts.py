"""Facts, each an active memory of its own."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from agent_reminiscence.config.timezones import stored_zone
from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.filter import Filter
from agent_reminiscence.domain.memory import ActiveMemory
from agent_reminiscence.react.fact_lines import fitting_facts
from agent_reminiscence.react.failures import guarded
from agent_reminiscence.react.models import Fact
from agent_reminiscence.react.permission import Permission
from agent_reminiscence.react.quotas import Quota
from agent_reminiscence.react.registry import Registry
from agent_reminiscence.react.scope import Scope, default_scope
from agent_reminiscence.react.sensitive import SensitiveKind
from agent_reminiscence.react.service_models import (
    DeleteFactRequest,
    DeleteResponse,
    RetrieveFactsRequest,
    RetrieveFactsResponse,
    StoreFactRequest,
    StoreFactResponse,
)
from agent_reminiscence.react.standing_facts import standing_first
from agent_reminiscence.react.stored import by_ids, discard, recall
from agent_reminiscence.text.days import seen_in
from agent_reminiscence.text.folding import fold_text
from agent_reminiscence.text.tokens import TokenCounts

FACT_PREFIX: Final = "fact/"
# What an agent holds to matter; the trust in an agent's word limits what comes of it.
PROMOTED_IMPORTANCE: Final = 0.9
_TITLE: Final = "Fact"
# At once: as many as could fit into any share of a prompt.
_MOST_READ: Final = 500


class MemoryFacts:
    """Facts of a user and collection, in the memory.

    Args:
        allow_sensitive: The kinds of sensitive facts that are shown whatever is asked, such as allergies (`health`),
            where not all facts fit.

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
        allow_sensitive: frozenset[SensitiveKind] = frozenset(),
    ) -> None:
        self._memory = memory
        self._scope = scope
        self._allowed = allow_sensitive
        self._counts = TokenCounts()
        self._permission = permission or Permission(memory)
        self._registry = Registry(memory)
        self._quota = Quota(memory, FACT_PREFIX, "facts", max_facts)

    async def retrieve_facts(self, request: RetrieveFactsRequest) -> RetrieveFactsResponse:
        """The facts nearest to a query, best first; with `embedding`, to that vector and the query's words.

        With `room_tokens` all facts if they fit, else those first that hold whatever is asked.
        """

        async def retrieve() -> RetrieveFactsResponse:
            await self._permission.to_read(request.user, request.collection)
            external_id = self._scope(request.user, request.collection)
            if request.ids:
                known = await by_ids(self._memory, external_id, FACT_PREFIX, request.ids)
                return RetrieveFactsResponse(facts=tuple(map(as_fact, known)))
            if request.room_tokens is None:
                return RetrieveFactsResponse(facts=tuple(await self._nearest(external_id, request)))
            return await self._shown(external_id, request, request.room_tokens)

        return await guarded(retrieve, lambda error: RetrieveFactsResponse(error=error))

    async def _nearest(self, external_id: str, request: RetrieveFactsRequest) -> list[Fact]:
        found = await recall(
            self._memory,
            external_id,
            request.query,
            Filter(key_prefix=FACT_PREFIX),
            limit=request.top_k,
            embedding=request.embedding,
            with_embeddings=request.with_embeddings,
        )
        return [as_fact(*one) for one in found]

    async def _shown(self, external_id: str, request: RetrieveFactsRequest, room: int) -> RetrieveFactsResponse:
        """All facts if they fit into the room; else those that hold whatever is asked, then the nearest."""
        read = await self._memory.get_active_memories(external_id, key_prefix=FACT_PREFIX, limit=_MOST_READ)
        facts = [as_fact(one) for one in read]
        fitting, _ = fitting_facts(facts, room, self._counts.count_one)
        if len(facts) < _MOST_READ and len(fitting) == len(facts):
            return RetrieveFactsResponse(facts=tuple(facts), is_all=True)
        if len(facts) == _MOST_READ:
            # The rest is not read for each question.
            facts += await self._standing_by_form(external_id, request.query)
        standing, _ = fitting_facts(standing_first(facts, self._allowed), room // 2, self._counts.count_one)
        nearest = await self._nearest(external_id, request)
        return RetrieveFactsResponse(facts=tuple({fact.id: fact for fact in (*standing, *nearest)}.values()))

    async def _standing_by_form(self, external_id: str, query: str) -> list[Fact]:
        """Facts that the memory itself shows whatever is asked, also of very many."""
        found = await self._memory.retrieve_memories(
            external_id, query, limit=1, where=Filter(key_prefix=FACT_PREFIX), synthesis=False
        )
        ids = list(dict.fromkeys(hit.memory_id for hit in found.standing))
        return [as_fact(one) for one in await self._memory.get_active_memories(external_id, ids=ids)] if ids else []

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
                    source=request.trust,
                    occurred_at=request.occurred_at,
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
            occurred_at=request.occurred_at,
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
        timestamp=seen_in(memory.occurred_at, stored_zone(memory.timezone)),
        trust=memory.source,
        embedding=embedding,
        metadata=memory.metadata.get("metadata", {}),
    )
