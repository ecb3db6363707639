"""Lets a model read a memory's new chunks, outside any transaction and with no caller waiting."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Final
from uuid import UUID

from agent_reminiscence.agents.model_call import AgentFailedError, Meter
from agent_reminiscence.agents.plans import ConsolidationMaterial, Reader, WindowReading
from agent_reminiscence.config import constants
from agent_reminiscence.config.timezones import stored_zone
from agent_reminiscence.database.generations import current_generation
from agent_reminiscence.database.repositories.chunk_similarity import NearChunk
from agent_reminiscence.database.repositories.graph.tables import KnownEntityName, StatedRelationship
from agent_reminiscence.domain.canonical import sha256
from agent_reminiscence.domain.graph import TOGETHER
from agent_reminiscence.domain.memory import StoredChunk, StoredMemory
from agent_reminiscence.domain.payloads import AskOutcome, Fallback, ModelAsked, ModelUsage
from agent_reminiscence.domain.trust import SOURCES, least_trusted, may_end
from agent_reminiscence.exceptions import RedactionError, StoreError
from agent_reminiscence.services.model_budget import ModelBudget
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.services.tiers.ending_decisions import Decision, EndingReader, Vectors
from agent_reminiscence.services.tiers.plan import Draft
from agent_reminiscence.services.tiers.proposal import Proposal, possible_endings, take_over, take_over_endings
from agent_reminiscence.services.tiers.reading_turns import ReadingTurns
from agent_reminiscence.services.tiers.windows import Window, make_windows, says_too_little, set_apart
from agent_reminiscence.services.vectors.filling import EmbeddingService
from agent_reminiscence.text.folding import without_speaker

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic_ai import Agent
    from pydantic_ai.models import Model

_logger = logging.getLogger("agent_reminiscence.models")

# Stored chunks that a chunk of the window may contradict: minimum cosine similarity; newest are compared first.
# Of all pairs of utterances 78 % are this near (bundled embedder, five long conversations): it only excludes what has
# nothing in common, and `NEAR_PER_CHUNK` chooses among the rest.
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
        prompts: Versions of the prompts that were sent, each once.
        unanswered: How many of the requests got no answer.
        outcome: How it went so far.
        is_recorded: Whether the consolidation event records it.
        turn: The turn at asking a model, from when it was taken until the end of what is metered.
    """

    usage: list[ModelUsage] = field(default_factory=list)
    prompts: list[str] = field(default_factory=list)
    unanswered: int = 0
    outcome: AskOutcome = "failed"
    is_recorded: bool = False
    turn: AsyncExitStack = field(default_factory=AsyncExitStack)

    def add(self, meter: Meter) -> None:
        """Add the cost of one request or more to the total of the same model."""
        self.unanswered += meter.unanswered
        if meter.prompt is not None and meter.prompt not in self.prompts:
            self.prompts.append(meter.prompt)
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
        timeout_seconds: How long one request may take. Nobody waits for them all.
    """

    def __init__(
        self,
        runtime: Runtime,
        embedding: EmbeddingService,
        budget: ModelBudget,
        turns: ReadingTurns,
        model: Model | None,
        *,
        timeout_seconds: float,
    ) -> None:
        self._store = runtime.store
        self._ledger = runtime.repositories.events
        self._memories = runtime.repositories.tables.active
        self._similarity = runtime.repositories.similarity
        self._graph = runtime.repositories.graph
        self._scrubber = runtime.scrubber
        self._embedding = embedding
        self._budget = budget
        self._model = model
        self._timeout_seconds = timeout_seconds
        self._clock = runtime.clock
        self._turns = turns

    @asynccontextmanager
    async def metered(self, external_id: str) -> AsyncIterator[Cost]:
        """Record what models cost in the enclosed block, however it ends, unless the consolidation event records it.

        At its end, the turn at asking a model is released.
        """
        cost = Cost()
        async with cost.turn:
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
                        payload = ModelAsked(
                            agent=AGENT,
                            outcome=cost.outcome,
                            usage=(usage,),
                            unanswered=cost.unanswered if number == 0 else 0,
                            prompt=cost.prompts[0] if cost.prompts else None,
                        )
                        await self._budget.record(external_id, payload)

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
            elif any(chunk.tier == "active" for chunk in draft.chunks):
                # Until the plan is recorded: whoever comes next has to find the memory consolidated.
                await cost.turn.enter_async_context(self._turns.hold(draft.memory.external_id))
                await self._read_windows(proposal, draft, cost)
        proposal.usage = tuple(cost.usage)
        proposal.prompts = tuple(cost.prompts)
        cost.outcome = "answered" if proposal.fallback is None or proposal.fallback == "busy" else proposal.fallback
        return proposal

    async def _read_windows(self, proposal: Proposal, draft: Draft, cost: Cost) -> None:
        memory = draft.memory
        # In a thread: counting the tokens of a long text takes time.
        windows = await asyncio.to_thread(
            make_windows, draft.chunks, draft.context, zone=stored_zone(draft.memory.timezone)
        )
        comparisons: list[Window] = []
        for number, window in enumerate(windows):
            if not await self._is_current(memory):
                # The result would be dropped.
                return
            whole, apart = await self._complete(draft, window)
            comparisons += apart
            was_read, failure = await self._read_window(proposal, memory, whole, cost)
            # Of a window that failed, an earlier answer may stand.
            unread = [] if was_read else [window]
            if failure in _HOPELESS:
                unread += windows[number + 1 :]
            if unread:
                proposal.fallback = proposal.fallback or failure
                # A chunk that is shown in parts may be in two windows.
                proposal.unread += len({index for one in unread for index in one.indices} - proposal.read)
            if failure in _HOPELESS:
                if comparisons:
                    # An earlier answer stands for the window, but nothing less trusted is compared with it.
                    proposal.fallback = proposal.fallback or failure
                return
        await self._compare(proposal, memory, comparisons, cost)

    async def _read_window(
        self, proposal: Proposal, memory: StoredMemory, window: Window, cost: Cost
    ) -> tuple[bool, Fallback | None]:
        """Read one window, as far as the model can; returns whether it was read, and what failed, if anything did."""
        # Imported here because it takes most of a second the first time.
        from agent_reminiscence.agents.memorizer import make_prompt, memorizer_agent

        material = window.material(memory)
        reading, failure = await self._ask(memory, material, cost, memorizer_agent(), make_prompt(material))
        if reading is not None:
            proposal.rests_on |= window.rests_on(memory)
            take_over(proposal, window, reading, await self._decide(memory, window, reading))
        return reading is not None, failure

    async def _compare(
        self, proposal: Proposal, memory: StoredMemory, comparisons: Sequence[Window], cost: Cost
    ) -> None:
        """Compare windows that were read with less trusted memories.

        This runs last, so that less trusted text cannot keep anything from being read.
        """
        from agent_reminiscence.agents.memorizer import comparer_agent, make_comparing_prompt

        for number, compared in enumerate(comparisons, start=1):
            if not proposal.read.issuperset(compared.indices):
                # Rules were used instead.
                continue
            if not await self._is_current(memory):
                return
            if not await self._is_there(memory, compared):
                # Erased while the windows were being read.
                continue
            material = compared.material(memory)
            reading, failure = await self._ask(
                memory, material, cost, comparer_agent(), make_comparing_prompt(material)
            )
            if reading is None:
                proposal.fallback = proposal.fallback or failure
            elif reading.endings:
                proposal.rests_on |= compared.rests_on(memory)
                decisions = await self._decide(memory, compared, reading, is_compared=True)
                take_over_endings(proposal, compared, reading, decisions, is_compared=True)
            if failure in _HOPELESS:
                if number < len(comparisons):
                    proposal.fallback = proposal.fallback or failure
                return

    async def _decide(
        self, memory: StoredMemory, window: Window, reading: WindowReading, *, is_compared: bool = False
    ) -> list[Decision]:
        """What the endings of passages do, given what code can see of these."""
        possible = possible_endings(window, reading, is_compared=is_compared)
        if not possible:
            return []
        # In threads: statements are read for names.
        reader = await asyncio.to_thread(EndingReader, window, possible, memory.language, stored_zone(memory.timezone))
        texts = await asyncio.to_thread(lambda: reader.compared)
        vectors: Vectors = {}
        if texts:
            made, _ = await self._embedding.embed_texts(self._embedding.generations.current, texts)
            vectors = {text: made[digest] for text in texts if (digest := sha256(text.encode())) in made}
        return reader.decide(vectors)

    async def _ask[T: BaseModel](
        self,
        memory: StoredMemory,
        material: ConsolidationMaterial,
        cost: Cost,
        agent: Agent[Reader, T],
        prompt: str,
    ) -> tuple[WindowReading | None, Fallback | None]:
        """What the model read, as far as it can be used; and what failed, if anything did."""
        from agent_reminiscence.agents.running import run_agent

        assert self._model is not None
        spent = sum(usage.input_tokens + usage.output_tokens for usage in cost.usage)
        limits = await self._budget.limits(memory.external_id, spent=spent)
        if limits is None:
            return None, "limit"
        limits = replace(limits, timeout_seconds=None, request_timeout_seconds=self._timeout_seconds)
        meter, reader = Meter(), Reader(material)
        failure: Fallback | None = None
        try:
            await run_agent(agent, prompt, model=self._model, deps=reader, limits=limits, meter=meter)
        except AgentFailedError as error:
            failure = error.reason
            _logger.warning(
                "the model consolidated only part of a memory: %s", error, extra={"external_id": memory.external_id}
            )
        finally:
            cost.add(meter)
        # An earlier answer may stand although a later one failed.
        reading = reader.reading
        if reading is not None and not await self._is_clean(asdict(reading), memory.external_id):
            return None, failure or "invalid"
        return reading, failure

    async def _is_current(self, memory: StoredMemory) -> bool:
        """Whether the memory is still unchanged, not yet consolidated and not expired."""
        async with self._store.transaction(memory.external_id, read_only=True) as db:
            return await self._memories.is_to_consolidate(
                db, memory.external_id, memory.memory_id, version=memory.version, now=self._clock()
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
        named, also_called = _find_named(draft, inside)
        async with self._store.transaction(memory.external_id, read_only=True) as db:
            writers = await self._ledger.find_writers(db, memory.external_id, [memory.memory_id])
            generation = (await current_generation(db)).number
            near: list[NearChunk] = []
            # Each separately: less trusted text must not crowd out more trusted text.
            for sources in filter(None, (window.trusted, window.lesser)):
                near += await self._similarity.find_near(
                    db,
                    memory.external_id,
                    # "Thanks a lot!" is near every other thanks.
                    list(dict.fromkeys(chunk.chunk_id for chunk in window.chunks if not _says_too_little(chunk))),
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
        near = [one for one in near if not _says_too_little(one)]
        # Erased in the meantime.
        written_by = least_trusted(writers.get(memory.memory_id, SOURCES))
        title = memory.title if may_end(written_by, [window.source]) else None
        return set_apart(replace(window, title=title, named=named, also_called=also_called), near, relationships)


def _says_too_little(chunk: StoredChunk | NearChunk) -> bool:
    return says_too_little(without_speaker(chunk.content, chunk.speaker))


def _find_named(draft: Draft, inside: set[int]) -> tuple[Sequence[KnownEntityName], Mapping[UUID, Sequence[str]]]:
    """The known entities that some chunks name, each once, most mentioned first; and what else they call each.

    All names are as these chunks spell them: another memory's spelling may be erased.
    """
    by_key = {row.key: row for row in reversed(draft.known)}
    rows = [
        replace(by_key[entity.key], name=entity.name)
        for entity in draft.entities
        if entity.key in by_key and inside.intersection(entity.passages)
    ]
    rows.sort(key=lambda row: -row.mentions)
    named: dict[UUID, KnownEntityName] = {}
    also_called: dict[UUID, list[str]] = {}
    for row in rows:
        if named.setdefault(row.canonical_id, row) is not row:
            also_called.setdefault(row.canonical_id, []).append(row.name)
    return list(named.values())[:KNOWN_ENTITIES_SHOWN], also_called


def _strings(value: object) -> Iterator[str]:
    """All strings in a value."""
    match value:
        case str():
            yield value
        case dict():
            for item in value.values():
                yield from _strings(item)
        case list() | tuple():
            for item in value:
                yield from _strings(item)
