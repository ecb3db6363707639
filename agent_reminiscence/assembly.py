"""Assembles a memory: the one place that constructs repositories and services."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from agent_reminiscence.admin import MemoryAdmin
from agent_reminiscence.agents.models import AgentLimits, AgentModels, find_model
from agent_reminiscence.config.installation import check_installation
from agent_reminiscence.config.settings import Config
from agent_reminiscence.config.timezones import zone_named
from agent_reminiscence.database.neo4j_manager import Neo4jManager
from agent_reminiscence.database.repositories.graph.followed import FollowedGraph
from agent_reminiscence.database.repositories.graph.neo4j import Neo4jGraph
from agent_reminiscence.database.repositories.graph.postgres import PostgresGraph
from agent_reminiscence.database.repositories.graph.store import GraphStore
from agent_reminiscence.database.repositories.repositories import Repositories
from agent_reminiscence.given import Given
from agent_reminiscence.opening import Stores, open_stores
from agent_reminiscence.resilience.breaker import Breaker
from agent_reminiscence.services.access.keys import AccessKeys
from agent_reminiscence.services.administrators import Administrators
from agent_reminiscence.services.audit.erasure import ErasureService
from agent_reminiscence.services.audit.verification import VerificationService
from agent_reminiscence.services.graph.follower import GraphFollower
from agent_reminiscence.services.graph.ledger_beliefs import LedgerBeliefs
from agent_reminiscence.services.graph.memory_graph import MemoryGraph
from agent_reminiscence.services.ledger.expiry import Expiry
from agent_reminiscence.services.ledger.memory_ledger import MemoryLedger
from agent_reminiscence.services.ledger.projector import Projector
from agent_reminiscence.services.ledger.replay import Replayer
from agent_reminiscence.services.ledger.subscriptions import Subscriptions
from agent_reminiscence.services.memories.history import HistoryService
from agent_reminiscence.services.memories.manager import MemoryManager
from agent_reminiscence.services.memories.remembering import RememberingService
from agent_reminiscence.services.memories.writes import MemoryRules
from agent_reminiscence.services.model_budget import ModelBudget
from agent_reminiscence.services.profiles.extracting import ProfileExtractor
from agent_reminiscence.services.profiles.profiles import Profiles
from agent_reminiscence.services.profiles.refreshing import ProfileRefresher
from agent_reminiscence.services.profiles.writing import ProfileWriter
from agent_reminiscence.services.recall.finding import Finder
from agent_reminiscence.services.recall.graph_list import GraphRecall, GraphServer
from agent_reminiscence.services.recall.neighbours import NeighbourReader
from agent_reminiscence.services.recall.outcomes import RunOutcomes
from agent_reminiscence.services.recall.retrieval import RetrievalService
from agent_reminiscence.services.recall.searching import Search
from agent_reminiscence.services.recall.streaming import HitStream
from agent_reminiscence.services.recall.synthesis import SynthesisService
from agent_reminiscence.services.recall.uses import USE_WRITE_SECONDS, UseRecorder
from agent_reminiscence.services.reflection.memory_index import EventSearch
from agent_reminiscence.services.reflection.reflection import Reflections
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.services.services import Services
from agent_reminiscence.services.tiers.consolidation import ConsolidationService
from agent_reminiscence.services.tiers.memorizing import MemorizingService
from agent_reminiscence.services.tiers.promotion import PromotionService
from agent_reminiscence.services.tiers.reading_turns import ReadingTurns
from agent_reminiscence.services.tiers.review import LifecycleService
from agent_reminiscence.services.transfer.batches import BulkService
from agent_reminiscence.services.transfer.export import TransferService
from agent_reminiscence.services.upkeep.pricing import ModelPrices
from agent_reminiscence.services.upkeep.usage import UsageService
from agent_reminiscence.services.vectors.audit import VectorUpkeep
from agent_reminiscence.services.vectors.cells import CellService
from agent_reminiscence.services.vectors.filling import EmbeddingService
from agent_reminiscence.services.vectors.reembedding import ReembeddingService
from agent_reminiscence.services.vectors.renewal import NormRenewal
from agent_reminiscence.services.vectors.writing import WriteVectors
from agent_reminiscence.services.work.health import HealthService
from agent_reminiscence.services.work.remembering import ConversationReader
from agent_reminiscence.services.work.retention import Retention
from agent_reminiscence.services.work.stream_work import WorkerSetup, WorkService
from agent_reminiscence.services.work.watch import WorkerWatch
from agent_reminiscence.services.work.worker import Worker

if TYPE_CHECKING:
    from pydantic_ai.models import Model


@dataclass(frozen=True, slots=True)
class _Models:
    """The model of each agent, or None."""

    memorizer: Model | None
    updater: Model | None
    retriever: Model | None
    reflector: Model | None
    given: AgentModels

    async def close(self) -> None:
        """Close the models' connections, except those of models the caller passed."""
        async with AsyncExitStack() as closing:
            for model, given in (
                (self.memorizer, self.given.memorizer),
                (self.updater, self.given.memory_update),
                (self.retriever, self.given.memory_retrieve),
                (self.reflector, self.given.reflector),
            ):
                if model is not None:
                    # Imported here: Pydantic AI takes most of a second to load.
                    from agent_reminiscence.agents.running import close_clients

                    closing.push_async_callback(close_clients, model, given)


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything below the facade."""

    stores: Stores
    models: _Models
    services: Services
    admin: MemoryAdmin
    graph_recall: GraphRecall
    uses: UseRecorder
    subscriptions: Subscriptions

    async def close(self) -> None:
        """End the subscriptions and the worker, write what is still to be noted, and close everything.

        An error from one of them keeps none of the others open.
        """
        async with AsyncExitStack() as closing:
            closing.push_async_callback(self.stores.close)
            closing.push_async_callback(self.models.close)
            closing.push_async_callback(self.uses.close)
            closing.push_async_callback(self.services.worker.stop)
            closing.push_async_callback(self.subscriptions.close)


async def build(config: Config, given: Given) -> Parts:
    """Open the stores and construct everything that uses them.

    Raises:
        ConfigurationError: A model, the schema, the login or the embedder does not fit, or another project's files are
            mixed into the package; the message says what to do.
        StoreError: The store cannot be reached.
    """
    check_installation()
    # First, so that an unknown model leaves nothing open.
    models = await _find_models(config, given.models)
    stores = await open_stores(
        config, embedder=given.embedder, further_embedders=given.further_embedders, telemetry=given.telemetry
    )
    parts = _assemble(config, given, models, stores)
    try:
        await parts.graph_recall.warm()
    except BaseException:
        await parts.close()
        raise
    return parts


async def _find_models(config: Config, given: AgentModels) -> _Models:
    def find() -> _Models:
        return _Models(
            memorizer=find_model(config, given, "memorizer"),
            updater=find_model(config, given, "memory_update"),
            retriever=find_model(config, given, "memory_retrieve"),
            reflector=find_model(config, given, "reflector"),
            given=given,
        )

    # In a thread: if there is a model, the first call takes most of a second.
    return await asyncio.to_thread(find)


def _assemble(config: Config, given: Given, models: _Models, stores: Stores) -> Parts:
    repositories = Repositories()
    runtime = Runtime(stores.postgres, repositories, given.clock, given.scrubber, given.telemetry)
    renewal = NormRenewal(repositories.norms, repositories.vectors)
    cells = CellService(runtime.store, repositories.events, repositories.vectors, repositories.cells)
    projector = Projector(repositories, renewal.renew, graph_follows=stores.neo4j is not None)
    replayer = Replayer(repositories, graph_follows=stores.neo4j is not None)
    embedding = EmbeddingService(
        runtime.store,
        repositories,
        stores.generations,
        renewal,
        retry_seconds=config.job_retry_seconds,
        review_within_seconds=min((days * 86_400 for days in config.ttl_days.values()), default=None),
    )
    graph, recall, follower = _graph_services(config, runtime, stores.neo4j)
    limits = AgentLimits(
        timeout_seconds=config.agent_timeout_seconds,
        max_requests=config.agent_max_requests,
        max_tokens=config.agent_max_tokens,
    )
    budget = ModelBudget(runtime, projector, limits, daily_tokens=config.agent_daily_tokens)
    expiry = Expiry(runtime.store, repositories, projector, runtime.clock)
    manager = MemoryManager(
        runtime,
        projector,
        embedding,
        WriteVectors(runtime.store, repositories, embedding),
        MemoryRules(
            update_threshold=config.active_memory_update_threshold,
            language=config.language,
            timezone=config.timezone,
            chunks_expire=bool(config.ttl_days),
            max_chunks=config.max_chunks,
            max_active_memories=config.max_active_memories,
            remember_after_seconds=config.remember_after_seconds,
        ),
        expiry,
    )
    uses = UseRecorder(runtime)
    outcomes = RunOutcomes(runtime, projector)
    search = Search(runtime, Finder(runtime, embedding, given.weights), recall)
    retrieval = RetrievalService(runtime, search, embedding, uses, outcomes)
    promotion = PromotionService(runtime, projector, threshold=config.shortterm_promotion_threshold)
    reading_turns = ReadingTurns(runtime)
    memorizing = MemorizingService(
        runtime, embedding, budget, reading_turns, models.memorizer, timeout_seconds=config.memorizer_timeout_seconds
    )
    consolidation = ConsolidationService(runtime, projector, embedding, memorizing, promotion)
    # What only ends can be used again; what is erased is gone.
    grace = timedelta(seconds=2 * USE_WRITE_SECONDS if config.retention == "erase" else 0)
    review = LifecycleService(
        runtime, projector, promotion, expiry, max_chunks=config.max_chunks, ttl_days=config.ttl_days, grace=grace
    )
    upkeep = VectorUpkeep(repositories, renewal)
    erasure = ErasureService(runtime, replayer, upkeep, follower)
    retention = Retention(
        runtime,
        review,
        erasure,
        uses,
        erases=config.retention == "erase",
        ttl_days=config.ttl_days,
        is_limited=config.max_chunks is not None,
    )
    neighbours = NeighbourReader(runtime)
    extractor = ProfileExtractor(runtime, retrieval)
    writer = (
        None
        if models.retriever is None
        else ProfileWriter(
            runtime, retrieval, neighbours, extractor, budget, models.retriever, zone=zone_named(config.timezone)
        )
    )
    refresher = ProfileRefresher(runtime, projector, reading_turns, extractor, writer)
    remembering = RememberingService(runtime, manager, budget, models.updater, timezone=config.timezone)
    work = WorkService(
        runtime,
        embedding,
        consolidation,
        review,
        retention,
        cells,
        refresher,
        ConversationReader(runtime, projector, reading_turns, remembering, pause_seconds=config.remember_after_seconds),
        follower,
        max_attempts=config.job_max_attempts,
        retry_seconds=config.job_retry_seconds,
    )
    worker = Worker(
        WorkerSetup(
            store=runtime.store,
            work=work,
            telemetry=runtime.telemetry,
            concurrency=config.worker_concurrency,
            heartbeat_seconds=config.job_heartbeat_seconds,
            watch=WorkerWatch(),
        )
    )
    subscriptions = Subscriptions(runtime.store, repositories.events, poll_seconds=config.subscription_poll_seconds)
    administrators = Administrators(runtime.store, stores.find_administrator)
    services = Services(
        runtime=runtime,
        manager=manager,
        retrieval=retrieval,
        hit_stream=HitStream(runtime, retrieval),
        outcomes=outcomes,
        synthesis=SynthesisService(runtime, retrieval, neighbours, budget, models.retriever),
        remembering=remembering,
        consolidation=consolidation,
        review=review,
        history=HistoryService(runtime, updates_left=manager.updates_left),
        verification=VerificationService(runtime, replayer, embedding, upkeep, follower),
        erasure=erasure,
        transfer=TransferService(runtime, replayer, embedding, renewal),
        bulk=BulkService(manager, runtime.scrubber),
        retention=retention,
        work=work,
        worker=worker,
        health=HealthService(runtime, worker),
        usage=UsageService(runtime, embedding, follower, ModelPrices(config.model_prices)),
        graph=MemoryGraph(runtime, projector, graph, expiry),
        beliefs=LedgerBeliefs(runtime, graph),
        ledger=MemoryLedger(
            runtime.store, repositories.events, projector, runtime.scrubber, subscriptions, clock=runtime.clock
        ),
        embedding=embedding,
        reembedding=ReembeddingService(
            runtime.store,
            repositories.events,
            embedding,
            cells,
            administrators=administrators,
            configured=stores.configured,
        ),
        profiles=Profiles(runtime, projector, refresher),
        refresher=refresher,
        event_search=EventSearch(runtime, embedding),
        reflections=Reflections(runtime, projector, budget, models.reflector),
        keys=AccessKeys(runtime, administrators),
    )
    return Parts(
        stores=stores,
        models=models,
        services=services,
        admin=MemoryAdmin(services, config),
        graph_recall=recall,
        uses=uses,
        subscriptions=subscriptions,
    )


def _graph_services(
    config: Config, runtime: Runtime, neo4j: Neo4jManager | None
) -> tuple[GraphStore, GraphRecall, GraphFollower | None]:
    """The graph's store, what recall asks of it, and what brings Neo4j up to it; the last is None without a Neo4j."""
    store, repositories, deadline = runtime.store, runtime.repositories, config.graph_deadline_seconds
    # PostgreSQL ends recall's statements itself; what users read of the graph has no such deadline.
    recalled = PostgresGraph(store, repositories.graph, deadline_seconds=deadline)
    tables = PostgresGraph(store, repositories.graph)
    if neo4j is None:
        return tables, GraphRecall(repositories, recalled, deadline_seconds=deadline), None
    graph, patience = Neo4jGraph(neo4j), config.neo4j_timeout_seconds
    follower = GraphFollower(
        runtime,
        graph,
        Breaker("Neo4j", patience_seconds=patience),
        lease_seconds=max(15.0, 3 * patience),
    )
    # A breaker of its own: recall waits far less long than the follower, and running out of that time does not mean
    # that Neo4j is down.
    breaker = Breaker("Neo4j, for recall,", timeouts=2, patience_seconds=deadline)
    recall = GraphRecall(repositories, recalled, deadline_seconds=deadline, server=GraphServer(graph, breaker))
    reading = Breaker("Neo4j, for reading the graph,", patience_seconds=patience)
    return FollowedGraph(graph, tables, reading), recall, follower
