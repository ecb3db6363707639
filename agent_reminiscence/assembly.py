"""Assembles a memory: the one place that constructs repositories and services."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from agent_reminiscence.admin import MemoryAdmin
from agent_reminiscence.agents.models import AgentLimits, AgentModels, find_model
from agent_reminiscence.config.settings import Config
from agent_reminiscence.database.repositories.active_memory import ActiveMemoryRepository
from agent_reminiscence.database.repositories.chunk_norms import ChunkNormsRepository
from agent_reminiscence.database.repositories.chunk_use import ChunkUseRepository
from agent_reminiscence.database.repositories.chunk_vector import ChunkVectorRepository
from agent_reminiscence.database.repositories.erasure import ErasureRepository
from agent_reminiscence.database.repositories.event_ledger import EventLedger
from agent_reminiscence.database.repositories.graph.changes import GraphChangesRepository
from agent_reminiscence.database.repositories.graph.neo4j import Neo4jGraph
from agent_reminiscence.database.repositories.graph.postgres import PostgresGraph
from agent_reminiscence.database.repositories.graph.progress import GraphProgressRepository
from agent_reminiscence.database.repositories.graph.store import GraphStore
from agent_reminiscence.database.repositories.graph.tables import EntityGraphRepository
from agent_reminiscence.database.repositories.history import HistoryRepository
from agent_reminiscence.database.repositories.live_chunks import LifecycleRepository
from agent_reminiscence.database.repositories.longterm_memory import LongtermMemoryRepository
from agent_reminiscence.database.repositories.memory_chunk import MemoryChunkRepository
from agent_reminiscence.database.repositories.replay_tables import ScratchRepository
from agent_reminiscence.database.repositories.search import SearchRepository
from agent_reminiscence.database.repositories.shortterm_memory import ShorttermMemoryRepository
from agent_reminiscence.database.repositories.text_index import TextIndexRepository
from agent_reminiscence.database.repositories.totals import UsageRepository
from agent_reminiscence.database.repositories.vector_cell import VectorCellRepository
from agent_reminiscence.database.repositories.work_queue import WorkQueue
from agent_reminiscence.embedders.protocol import Embedder
from agent_reminiscence.opening import Stores, open_stores
from agent_reminiscence.projections import Tables
from agent_reminiscence.resilience.breaker import Breaker
from agent_reminiscence.services.audit.erasure import ErasureService
from agent_reminiscence.services.audit.verification import VerificationService
from agent_reminiscence.services.graph.follower import GraphFollower
from agent_reminiscence.services.graph.memory_graph import MemoryGraph
from agent_reminiscence.services.ledger.memory_ledger import MemoryLedger
from agent_reminiscence.services.ledger.projector import Projector
from agent_reminiscence.services.ledger.replay import Replayer
from agent_reminiscence.services.ledger.scrubber import Scrubber
from agent_reminiscence.services.memories.history import HistoryService
from agent_reminiscence.services.memories.manager import MemoryManager
from agent_reminiscence.services.memories.remembering import RememberingService
from agent_reminiscence.services.model_budget import ModelBudget
from agent_reminiscence.services.recall.finding import Finder
from agent_reminiscence.services.recall.graph_list import GraphRecall
from agent_reminiscence.services.recall.ranking import Weights
from agent_reminiscence.services.recall.retrieval import RetrievalService
from agent_reminiscence.services.recall.synthesis import SynthesisService
from agent_reminiscence.services.recall.texts import TextReader
from agent_reminiscence.services.recall.uses import UseRecorder
from agent_reminiscence.services.tiers.consolidation import ConsolidationService
from agent_reminiscence.services.tiers.promotion import PromotionService
from agent_reminiscence.services.tiers.reading import MemorizingService
from agent_reminiscence.services.tiers.review import LifecycleService
from agent_reminiscence.services.transfer.batches import BulkService
from agent_reminiscence.services.transfer.export import TransferService
from agent_reminiscence.services.upkeep.usage import UsageService
from agent_reminiscence.services.vectors.audit import VectorUpkeep
from agent_reminiscence.services.vectors.cells import CellService
from agent_reminiscence.services.vectors.filling import EmbeddingService
from agent_reminiscence.services.vectors.reembedding import ReembeddingService
from agent_reminiscence.services.vectors.renewal import NormRenewal
from agent_reminiscence.services.vectors.writing import WriteVectors
from agent_reminiscence.services.work.stream_work import WorkerSetup, WorkService
from agent_reminiscence.services.work.worker import Worker
from agent_reminiscence.telemetry import Telemetry

if TYPE_CHECKING:
    from pydantic_ai.models import Model


@dataclass(frozen=True, slots=True)
class Given:
    """What an application passes besides the settings.

    Attributes:
        embedder: Used instead of the configured one.
        further_embedders: For vectors of other models, which may become current; None: vectors of one model only.
        models: Models of the agents.
        weights: Weights of retrieval's lists; None is the measured default.
        clock: Returns the current time.
    """

    embedder: Embedder | None
    further_embedders: Sequence[Embedder] | None
    models: AgentModels
    weights: Weights | None
    scrubber: Scrubber
    clock: Callable[[], datetime]
    telemetry: Telemetry


@dataclass(frozen=True, slots=True)
class _Models:
    """The model of each agent, or None."""

    memorizer: Model | None
    updater: Model | None
    retriever: Model | None
    given: AgentModels

    async def close(self) -> None:
        """Close the models' connections, except those of models the caller passed."""
        async with AsyncExitStack() as closing:
            for model, given in (
                (self.memorizer, self.given.memorizer),
                (self.updater, self.given.memory_update),
                (self.retriever, self.given.memory_retrieve),
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
    manager: MemoryManager
    retrieval: RetrievalService
    synthesis: SynthesisService
    ledger: MemoryLedger
    admin: MemoryAdmin
    worker: Worker
    uses: UseRecorder

    async def close(self) -> None:
        """Stop the worker, write pending use counts, and close everything.

        If one close fails, the others still run.
        """
        async with AsyncExitStack() as closing:
            closing.push_async_callback(self.stores.close)
            closing.push_async_callback(self.models.close)
            closing.push_async_callback(self.uses.close)
            closing.push_async_callback(self.worker.stop)


async def build(config: Config, given: Given) -> Parts:
    """Open the stores and construct everything that uses them.

    Raises:
        ConfigurationError: A model, the schema, the login or the embedder does not fit; the message says what to do.
        StoreError: The store cannot be reached.
    """
    # First, so that an unknown model leaves nothing open.
    models = await _find_models(config, given.models)
    stores = await open_stores(
        config, embedder=given.embedder, further_embedders=given.further_embedders, telemetry=given.telemetry
    )
    return _assemble(config, given, models, stores)


async def _find_models(config: Config, given: AgentModels) -> _Models:
    # In a thread: if there is a model, the first call takes most of a second.
    return _Models(
        memorizer=await asyncio.to_thread(find_model, config, given, "memorizer"),
        updater=await asyncio.to_thread(find_model, config, given, "memory_update"),
        retriever=await asyncio.to_thread(find_model, config, given, "memory_retrieve"),
        given=given,
    )


def _assemble(config: Config, given: Given, models: _Models, stores: Stores) -> Parts:
    store, neo4j, clock, scrubber = stores.postgres, stores.neo4j, given.clock, given.scrubber
    event_ledger = EventLedger()
    tables = Tables(
        active=ActiveMemoryRepository(),
        shortterm=ShorttermMemoryRepository(),
        longterm=LongtermMemoryRepository(),
        chunks=MemoryChunkRepository(),
        index=TextIndexRepository(),
        graph=GraphChangesRepository(),
    )
    queue = WorkQueue()
    graph_follows = neo4j is not None
    vectors, norms = ChunkVectorRepository(), ChunkNormsRepository()
    cell_rows, renewal = VectorCellRepository(), NormRenewal(norms)
    cells = CellService(store, event_ledger, vectors, cell_rows)
    projector = Projector(event_ledger, tables, queue, renewal.renew, graph_follows=graph_follows)
    embedding = EmbeddingService(
        store,
        event_ledger,
        queue,
        vectors,
        stores.generations,
        renewal,
        review_within_seconds=min((days * 86_400 for days in config.ttl_days.values()), default=None),
    )
    uses = ChunkUseRepository()
    recorder = UseRecorder(store, uses, clock=clock)
    promotion = PromotionService(projector, tables, uses, clock=clock, threshold=config.shortterm_promotion_threshold)
    graph = EntityGraphRepository()
    progress = GraphProgressRepository()
    graph_store: GraphStore = PostgresGraph(store, graph)
    follower: GraphFollower | None = None
    # Recall has far less time than the follower; its timeouts do not mean that Neo4j is unavailable.
    recall_breaker = (
        None
        if neo4j is None
        else Breaker("Neo4j, for recall,", timeouts=2, patience_seconds=config.graph_deadline_seconds)
    )
    if neo4j is not None:
        neo4j_graph = Neo4jGraph(neo4j)
        graph_store = neo4j_graph
        follower = GraphFollower(
            store,
            event_ledger,
            neo4j_graph,
            graph,
            progress,
            Breaker("Neo4j", patience_seconds=config.neo4j_timeout_seconds),
            clock=clock,
            turn_seconds=max(15.0, 3 * config.neo4j_timeout_seconds),
        )
    lifecycle_rows = LifecycleRepository()
    limits = AgentLimits(
        timeout_seconds=config.agent_timeout_seconds,
        max_requests=config.agent_max_requests,
        max_tokens=config.agent_max_tokens,
    )
    budget = ModelBudget(
        store, projector, UsageRepository(), limits, clock=clock, daily_tokens=config.agent_daily_tokens
    )
    consolidation = ConsolidationService(
        store,
        event_ledger,
        projector,
        tables,
        graph,
        lifecycle_rows,
        uses,
        embedding,
        MemorizingService(
            store, event_ledger, tables.active, tables.chunks, graph, scrubber, budget, models.memorizer, clock=clock
        ),
        promotion,
        clock=clock,
    )
    manager = MemoryManager(
        store,
        event_ledger,
        projector,
        tables,
        embedding,
        WriteVectors(store, embedding, vectors, norms, queue),
        queue,
        uses,
        scrubber,
        clock=clock,
        update_threshold=config.active_memory_update_threshold,
        language=config.language,
        chunks_expire=bool(config.ttl_days),
        max_chunks=config.max_chunks,
        max_active_memories=config.max_active_memories,
    )
    lifecycle = LifecycleService(
        store,
        event_ledger,
        projector,
        promotion,
        uses,
        lifecycle_rows,
        clock=clock,
        max_chunks=config.max_chunks,
        ttl_days=config.ttl_days,
    )
    history = HistoryRepository()
    scratch = ScratchRepository()
    upkeep = VectorUpkeep(scratch, norms, cell_rows, renewal)
    replayer = Replayer(event_ledger, tables, queue, graph_follows=graph_follows)
    work = WorkService(
        store,
        event_ledger,
        queue,
        embedding,
        consolidation,
        lifecycle,
        cells,
        follower,
        max_attempts=config.job_max_attempts,
        retry_seconds=config.job_retry_seconds,
    )
    worker = Worker(
        WorkerSetup(
            store=store,
            work=work,
            telemetry=given.telemetry,
            concurrency=config.worker_concurrency,
            heartbeat_seconds=config.job_heartbeat_seconds,
        )
    )
    search = SearchRepository()
    recall = GraphRecall(
        graph,
        search,
        # Recall enforces its own deadline on Neo4j; Postgres ends its statements itself.
        PostgresGraph(store, graph, deadline_seconds=config.graph_deadline_seconds) if neo4j is None else graph_store,
        deadline_seconds=config.graph_deadline_seconds,
        breaker=recall_breaker,
    )
    finder = Finder(search, TextReader(search, history, vectors), history, embedding, given.weights)
    retrieval = RetrievalService(store, finder, recall, embedding, recorder, scrubber, clock=clock)
    synthesis = SynthesisService(retrieval, manager, scrubber, budget, models.retriever, given.telemetry)
    admin = MemoryAdmin(
        store,
        tables,
        manager,
        consolidation,
        HistoryService(store, event_ledger, history, updates_left=manager.updates_left),
        VerificationService(store, event_ledger, scratch, replayer, embedding, upkeep, follower, clock=clock),
        ErasureService(
            store,
            event_ledger,
            scratch,
            ErasureRepository(),
            replayer,
            upkeep,
            uses,
            progress,
            follower,
            scrubber,
            clock=clock,
        ),
        TransferService(store, event_ledger, replayer, embedding, renewal, clock=clock),
        BulkService(manager, scrubber),
        work,
        worker,
        lifecycle,
        UsageService(store, event_ledger, embedding, queue, UsageRepository(), progress, follower),
        MemoryGraph(store, projector, tables.active, graph, graph_store, scrubber, clock=clock),
        ReembeddingService(
            store,
            event_ledger,
            embedding,
            cells,
            configured=stores.configured,
            find_administrator=stores.find_administrator,
        ),
        RememberingService(store, manager, tables.chunks, scrubber, budget, models.updater, given.telemetry),
        synthesis,
        config,
    )
    return Parts(
        stores=stores,
        models=models,
        manager=manager,
        retrieval=retrieval,
        synthesis=synthesis,
        ledger=MemoryLedger(store, event_ledger, projector, scrubber, clock=clock),
        admin=admin,
        worker=worker,
        uses=recorder,
    )
