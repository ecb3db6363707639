"""Lets a model read a memory's new chunks, outside any transaction and with no caller waiting."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from agent_reminiscence.agents.model_call import AgentFailedError, Meter
from agent_reminiscence.agents.plans import ConsolidationMaterial
from agent_reminiscence.config import constants
from agent_reminiscence.database.generations import current_generation
from agent_reminiscence.database.repositories.graph.tables import StatedRelationship
from agent_reminiscence.database.repositories.memory_chunk import NearChunk
from agent_reminiscence.domain.event import AskOutcome, Fallback, ModelUsage
from agent_reminiscence.domain.graph import TOGETHER
from agent_reminiscence.domain.memory import StoredMemory
from agent_reminiscence.domain.trust import SOURCES, least_trusted, may_end
from agent_reminiscence.exceptions import RedactionError, StoreError
from agent_reminiscence.services.model_budget import ModelBudget
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.services.tiers.plan import Draft
from agent_reminiscence.services.tiers.proposal import Proposal, take_over, take_over_endings
from agent_reminiscence.services.tiers.windows import Window, make_windows, set_apart

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic_ai import Agent
    from pydantic_ai.models import Model

_logger = logging.getLogger("agent_reminiscence.models")

# Stored chunks that a chunk of the window may contradict: minimum cosine similarity; newest are compared first.
# Slightly more than half of all pairs of utterances are this near (bundled embedder, five long conversations): it only
# excludes what has nothing in common, and `NEAR_PER_CHUNK` chooses among the rest.
NEAR_SIMILARITY: Final = 0.24
NEAR_PER_CHUNK: Final = 3
NEAR_COMPARED_CHUNKS: Final = 2_000
NEAR_SHOWN: Final = 20
# Entities and relationships of the tenant that a model is shown beside a window.
KNOWN_ENTITIES_SHOWN: Final = 40
KNOWN_RELATIONSHIPS_SHOWN: Final = 30

AGENT = "memorizer"
# After one of these, the next window would fail as well.
_HOPELESS = frozenset({"timeout", "limit", "unavailable", "failed"})


@dataclass(slots=True)
class Cost:
    """What models have cost while a memory was read, also if that failed.

    Attributes:
        usage: One per model.
        unanswered: How many of the requests got no answer.
        outcome: How it went so far.
        is_recorded: Whether the consolidation event records it.
    """

    usage: list[ModelUsage] = field(default_factory=list)
    unanswered: int = 0
    outcome: AskOutcome = "failed"
    is_recorded: bool = False

    def add(self, meter: Meter) -> None:
        """Add the cost of one request or more to the total of the same model."""
        self.unanswered += meter.unanswered
        usage = meter.usage
        if usage is None or not usage.requests:
            return
        for index, one in enumerate(self.usage):
            if one.model == usage.model:
                self.usage[index] = ModelUsage(
                    model=one.model,
                    requests=one.requests + usage.requests,
                    input_tokens=one.input_tokens + usage.input_tokens,
                    output_tokens=one.output_tokens + usage.output_tokens,
                )
                return
        self.usage.append(usage)


class MemorizingService:
    """Asks a model window by window and collects its proposals.

    Args:
        model: None if none is configured; then nothing is read.
    """

    def __init__(
        self,
        runtime: Runtime,
        budget: ModelBudget,
        model: Model | None,
    ) -> None:
        self._store = runtime.store
        self._ledger = runtime.repositories.events
        self._memories = runtime.repositories.tables.active
        self._chunks = runtime.repositories.tables.chunks
        self._graph = runtime.repositories.graph
        self._scrubber = runtime.scrubber
        self._budget = budget
        self._model = model
        self._clock = runtime.clock

    @asynccontextmanager
    async def metered(self, external_id: str) -> AsyncIterator[Cost]:
        """Record what models cost in the enclosed block, however it ends, unless the consolidation event records it."""
        cost = Cost()
        try:
            yield cost
        except StoreError:
            cost.outcome = "store"
            raise
        except asyncio.CancelledError:
            cost.outcome = "cancelled"
            raise
        finally:
            if not cost.is_recorded:
                for number, usage in enumerate(cost.usage):
                    unanswered = cost.unanswered if number == 0 else 0
                    await self._budget.record(external_id, AGENT, usage, cost.outcome, unanswered=unanswered)

    @property
    def has_model(self) -> bool:
        """Whether a model is configured."""
        return self._model is not None

    async def propose(self, draft: Draft, cost: Cost, *, is_busy: bool = False) -> Proposal:
        """What a model proposes for the chunks that no consolidation has read yet.

        Args:
            draft: The memory, and the names in it that were found without a model.
            cost: Grows with each request, so that it is known even if this fails.
            is_busy: Whether others are waiting for this to end; then no model is asked.
        """
        proposal = Proposal()
        if self._model is not None and draft.memory.consolidated_version < draft.memory.version:
            if is_busy:
                proposal.unread = sum(chunk.tier == "active" for chunk in draft.chunks)
                proposal.fallback = "busy" if proposal.unread else None
            else:
                await self._read_windows(proposal, draft, cost)
        proposal.usage = tuple(cost.usage)
        cost.outcome = "answered" if proposal.fallback is None or proposal.fallback == "busy" else proposal.fallback
        return proposal

    async def _read_windows(self, proposal: Proposal, draft: Draft, cost: Cost) -> None:
        memory = draft.memory
        # In a thread: counting the tokens of a long text takes time.
        windows = await asyncio.to_thread(make_windows, draft.chunks, draft.context)
        comparisons: list[Window] = []
        for number, window in enumerate(windows):
            if not await self._is_current(memory):
                # The result would be dropped.
                return
            whole, apart = await self._complete(draft, window)
            comparisons += apart
            fallback = await self._read_window(proposal, memory, whole, cost)
            if fallback is None:
                continue
            proposal.fallback = proposal.fallback or fallback
            if fallback in _HOPELESS:
                proposal.unread += sum(len(left.indices) for left in windows[number:])
                return
            proposal.unread += len(window.indices)
        await self._compare(proposal, memory, comparisons, cost)

    async def _read_window(
        self, proposal: Proposal, memory: StoredMemory, window: Window, cost: Cost
    ) -> Fallback | None:
        """Read one window; returns why it failed, or None."""
        # Imported here because it takes most of a second the first time.
        from agent_reminiscence.agents.memorizer import make_prompt, memorizer_agent

        material = window.material(memory)
        plan = await self._ask(memory, material, cost, memorizer_agent(), make_prompt(material))
        if isinstance(plan, str):
            return plan
        proposal.rests_on |= window.rests_on(memory)
        take_over(proposal, window, plan)
        return None

    async def _compare(
        self, proposal: Proposal, memory: StoredMemory, comparisons: Sequence[Window], cost: Cost
    ) -> None:
        """Compare windows that were read with less trusted memories.

        This runs last, so that less trusted text cannot keep anything from being read.
        """
        from agent_reminiscence.agents.memorizer import comparer_agent, make_comparing_prompt

        for compared in comparisons:
            if not set(compared.indices) <= proposal.importances.keys():
                # Rules were used instead.
                continue
            if not await self._is_current(memory):
                return
            if not await self._is_there(memory, compared):
                # Erased while the windows were being read.
                continue
            material = compared.material(memory)
            plan = await self._ask(memory, material, cost, comparer_agent(), make_comparing_prompt(material))
            if isinstance(plan, str):
                proposal.fallback = proposal.fallback or plan
                if plan in _HOPELESS:
                    return
                continue
            if plan.ended_chunks or plan.ended_relationships:
                proposal.rests_on |= compared.rests_on(memory)
            take_over_endings(proposal, compared, plan, is_compared=True)

    async def _ask[T: BaseModel](
        self,
        memory: StoredMemory,
        material: ConsolidationMaterial,
        cost: Cost,
        agent: Agent[ConsolidationMaterial, T],
        prompt: str,
    ) -> T | Fallback:
        """Return a usable answer from the model, or why there is none."""
        from agent_reminiscence.agents.running import run_agent

        assert self._model is not None
        spent = sum(usage.input_tokens + usage.output_tokens for usage in cost.usage)
        limits = await self._budget.limits(memory.external_id, spent=spent)
        if limits is None:
            return "limit"
        meter = Meter()
        try:
            answered = await run_agent(agent, prompt, model=self._model, deps=material, limits=limits, meter=meter)
        except AgentFailedError as error:
            _logger.warning(
                "the model consolidated only part of a memory: %s", error, extra={"external_id": memory.external_id}
            )
            return error.reason
        finally:
            cost.add(meter)
        if not await self._is_clean(answered.output.model_dump(mode="json"), memory.external_id):
            return "invalid"
        return answered.output

    async def _is_current(self, memory: StoredMemory) -> bool:
        """Whether the memory is still unchanged and not yet consolidated."""
        async with self._store.transaction(memory.external_id, read_only=True) as db:
            return await self._memories.is_to_consolidate(
                db, memory.external_id, memory.memory_id, version=memory.version
            )

    async def _is_there(self, memory: StoredMemory, compared: Window) -> bool:
        """Whether all memories that a comparison quotes still exist."""
        async with self._store.transaction(memory.external_id, read_only=True) as db:
            return await self._memories.are_there(db, memory.external_id, compared.rests_on(memory))

    async def _is_clean(self, plan: object, external_id: str) -> bool:
        """Whether a plan holds nothing that the redactor removes: it may join parts of a text into a secret."""
        texts = list(_strings(plan))
        try:
            problem = None if await self._scrubber.scrub_texts(texts) == texts else "holds text the redactor removes"
        except RedactionError:
            problem = "cannot be checked by the redactor"
        if problem is not None:
            extra = {"external_id": external_id}
            _logger.warning("the model consolidated only part of a memory: its plan %s", problem, extra=extra)
        return problem is None

    async def _complete(self, draft: Draft, window: Window) -> tuple[Window, list[Window]]:
        """Add what is stored and known to the window; returns it with the windows to compare separately."""
        memory = draft.memory
        inside = set(window.indices)
        by_key = {row.key: row for row in reversed(draft.known)}
        named = [
            # As these chunks spell it: another memory's spelling may be erased.
            replace(by_key[entity.key], name=entity.name)
            for entity in draft.entities
            if entity.key in by_key and inside.intersection(entity.passages)
        ]
        named = sorted(named, key=lambda row: -row.mentions)[:KNOWN_ENTITIES_SHOWN]
        async with self._store.transaction(memory.external_id, read_only=True) as db:
            writers = await self._ledger.find_writers(db, memory.external_id, [memory.memory_id])
            generation = (await current_generation(db)).number
            near: list[NearChunk] = []
            # Each separately: less trusted text must not crowd out more trusted text.
            for sources in filter(None, (window.trusted, window.lesser)):
                near += await self._chunks.find_near(
                    db,
                    memory.external_id,
                    [chunk.chunk_id for chunk in window.chunks],
                    sources=sources,
                    generation=generation,
                    similarity=NEAR_SIMILARITY,
                    per_chunk=NEAR_PER_CHUNK,
                    compared=NEAR_COMPARED_CHUNKS,
                    limit=NEAR_SHOWN,
                )
            relationships: Sequence[StatedRelationship] = []
            if named:
                relationships = await self._graph.find_known_relationships(
                    db,
                    memory.external_id,
                    [row.canonical_id for row in named],
                    except_type=TOGETHER,
                    now=self._clock(),
                    evidence_chunks=constants.KNOWN_RELATIONSHIP_MEMORIES,
                    limit=KNOWN_RELATIONSHIPS_SHOWN,
                )
        # Erased in the meantime.
        written_by = least_trusted(writers.get(memory.memory_id, SOURCES))
        title = memory.title if may_end(written_by, [window.source]) else None
        spelled = {row.canonical_id: row.name for row in reversed(named)}
        return set_apart(replace(window, title=title, named=named, spelled=spelled), near, relationships)


def _strings(value: object) -> Iterator[str]:
    """All strings in a JSON value."""
    match value:
        case str():
            yield value
        case dict():
            for item in value.values():
                yield from _strings(item)
        case list():
            for item in value:
                yield from _strings(item)
