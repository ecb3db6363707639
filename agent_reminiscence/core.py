"""`AgentMem`: four methods and `async with`. Builds everything below it, validates, and delegates."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from agent_reminiscence.admin import MemoryAdmin
from agent_reminiscence.config.constants import MAX_RESULTS, Source, Tier
from agent_reminiscence.config.settings import Config
from agent_reminiscence.database.embedded import EmbeddedPostgres, default_data_dir
from agent_reminiscence.database.neo4j_manager import Neo4jManager, create_neo4j
from agent_reminiscence.database.postgres_manager import ConnectionSettings, PostgresManager
from agent_reminiscence.database.repositories.active_memory import ActiveMemoryRepository
from agent_reminiscence.database.repositories.chunk_use import ChunkUseRepository
from agent_reminiscence.database.repositories.chunk_vector import ChunkVectorRepository
from agent_reminiscence.database.repositories.entity_graph import EntityGraphRepository, GraphStore
from agent_reminiscence.database.repositories.entity_graph_neo4j import Neo4jGraph
from agent_reminiscence.database.repositories.entity_graph_postgres import PostgresGraph
from agent_reminiscence.database.repositories.erasure import ErasureRepository
from agent_reminiscence.database.repositories.event_ledger import EventLedger
from agent_reminiscence.database.repositories.graph_changes import GraphChangesRepository
from agent_reminiscence.database.repositories.graph_progress import GraphProgressRepository
from agent_reminiscence.database.repositories.history import HistoryRepository
from agent_reminiscence.database.repositories.lifecycle import LifecycleRepository
from agent_reminiscence.database.repositories.longterm_memory import LongtermMemoryRepository
from agent_reminiscence.database.repositories.memory_chunk import MemoryChunkRepository
from agent_reminiscence.database.repositories.scratch import ScratchRepository
from agent_reminiscence.database.repositories.search import SearchRepository, Weights
from agent_reminiscence.database.repositories.shortterm_memory import ShorttermMemoryRepository
from agent_reminiscence.database.repositories.usage import UsageRepository
from agent_reminiscence.database.repositories.work_queue import WorkQueue
from agent_reminiscence.database.schema import SchemaParameters, check_login, check_version, prepare_embedded
from agent_reminiscence.domain.memory import ActiveMemory
from agent_reminiscence.domain.retrieval import RetrievalResult
from agent_reminiscence.exceptions import ConfigurationError, InvalidInputError, NotInitializedError
from agent_reminiscence.projections import Tables
from agent_reminiscence.services import validation
from agent_reminiscence.services.breaker import Breaker
from agent_reminiscence.services.bulk import BulkService
from agent_reminiscence.services.consolidation import ConsolidationService
from agent_reminiscence.services.embedders import Embedder, create_embedder
from agent_reminiscence.services.embedding import EmbeddingService
from agent_reminiscence.services.erasure import ErasureService
from agent_reminiscence.services.graph import MemoryGraph
from agent_reminiscence.services.graph_follower import GraphFollower
from agent_reminiscence.services.graph_recall import GraphRecall
from agent_reminiscence.services.history import HistoryService
from agent_reminiscence.services.ledger import MemoryLedger
from agent_reminiscence.services.lifecycle import LifecycleService
from agent_reminiscence.services.memory_manager import MemoryManager
from agent_reminiscence.services.projector import Projector
from agent_reminiscence.services.promotion import PromotionService
from agent_reminiscence.services.replay import Replayer
from agent_reminiscence.services.requests import UNSET, CreateRequest, Unset, UpdateRequest
from agent_reminiscence.services.retrieval import RetrievalService, RetrieveRequest
from agent_reminiscence.services.transfer import TransferService
from agent_reminiscence.services.usage import UsageService
from agent_reminiscence.services.use import UseRecorder
from agent_reminiscence.services.verification import VerificationService
from agent_reminiscence.services.work import WorkService
from agent_reminiscence.services.worker import Worker, WorkerSetup
from agent_reminiscence.telemetry import Attribute, Telemetry


def _utc_now() -> datetime:
    return datetime.now(UTC)


class AgentMem:
    """The memory of agents: whole texts that are worked on, and what became of them.

    Use it as `async with AgentMem() as memory:`, or call `initialize()` and `close()` yourself. One object serves any
    number of tasks of one event loop and any number of tenants.

    Args:
        config: Settings; None reads them from the environment and `.env`.
        embedder: Makes the vectors instead of the configured provider.
        clock: Says what time it is, for `occurred_at`, for recency and for how old a chunk is; the ledger's recording
            time is the server's.
        weights: How retrieval weighs its lists; None is the measured default.
        tracer_provider: Where OpenTelemetry spans go; None is the provider that the application sets for the process.
        meter_provider: Where OpenTelemetry metrics go; None is as above.

    Raises:
        ConfigurationError: A setting is unknown or contradicts another.
    """

    def __init__(
        self,
        config: Config | None = None,
        *,
        embedder: Embedder | None = None,
        clock: Callable[[], datetime] = _utc_now,
        weights: Weights | None = None,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        self._config = config if config is not None else Config()
        self._embedder = embedder
        self._clock = lambda: validation.moment("clock", clock())
        self._weights = weights
        self._telemetry = Telemetry(tracer_provider, meter_provider, with_content=self._config.telemetry_content)
        self._lifecycle = asyncio.Lock()
        self._parts: _Parts | None = None
        self._was_closed = False

    async def initialize(self) -> None:
        """Start or reach the store, check that it fits, and start the worker; a second call does nothing.

        Raises:
            ConfigurationError: The schema, the login or the embedder does not fit; the message says what to do.
            StoreError: The store cannot be reached.
        """
        async with self._lifecycle:
            if self._parts is None:
                self._parts = await _build(self._config, self._embedder, self._clock, self._weights, self._telemetry)
                if self._config.worker:
                    self._parts.worker.start()
                self._was_closed = False

    async def close(self) -> None:
        """End the worker, close the connections and leave the embedded server; again does nothing.

        Work under way has ten seconds to finish; what has not stays due, and the next worker does it. The embedded
        server is stopped by its last user.
        """
        async with self._lifecycle:
            parts, self._parts = self._parts, None
            if parts is not None:
                self._was_closed = True
                await parts.close()

    async def __aenter__(self) -> Self:
        await self.initialize()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __del__(self) -> None:
        if getattr(self, "_parts", None) is not None:
            warnings.warn(
                "an AgentMem was never closed; use `async with AgentMem()` or `await memory.close()`",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )

    @property
    def ledger(self) -> MemoryLedger:
        """Append and read events."""
        return self._ready().ledger

    @property
    def admin(self) -> MemoryAdmin:
        """What is not daily work."""
        return self._ready().admin

    async def create_active_memory(
        self,
        external_id: str | int | UUID,
        title: str,
        content: str,
        *,
        description: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        occurred_at: datetime | None = None,
        actor: str | None = None,
        conversation_id: str | None = None,
        source: Source = "user",
        idempotency_key: str | None = None,
    ) -> ActiveMemory:
        """Remember a text. It is stored verbatim and found from the moment this returns.

        Args:
            external_id: Whose memory it is: your own id of a user or agent. 7 and "7" are the same.
            title: At most 500 characters; indexed with every chunk.
            content: At most 1,000,000 characters.
            description: At most 10,000 characters; stored, not searched.
            metadata: A JSON object. `speaker` names who speaks throughout; `turns`, a list of objects with `start`
                (a position in `content`) and `speaker`, says where each utterance begins.
            occurred_at: When it was true in the world, with a time zone; None is now.
            actor: Which agent, user or tool causes the write.
            conversation_id: The conversation it belongs to.
            source: How far it is trusted: user, agent, tool, import or model.
            idempotency_key: A second call with the same key and request returns the first one's result.

        Returns:
            The memory at version 1, as this write left it, and in `write` what became of it. The consolidation of a
            text of more than 2,000 characters is queued with it; a worker does it soon after.

        Raises:
            InvalidInputError: An argument is refused; nothing is written.
            IdempotencyConflictError: The key was used for a different request.
            StoreError: The store is away or refused the write.
        """
        with self._telemetry.operation("create_active_memory") as operation:
            parts = self._ready()
            tenant = validation.external_id(external_id)
            operation.note(external_id=tenant)
            text = validation.content(content)
            request = CreateRequest(
                external_id=tenant,
                title=validation.title(title),
                content=text,
                description=validation.description(description),
                metadata=validation.memory_metadata(metadata, text),
                occurred_at=validation.optional_moment("occurred_at", occurred_at),
                actor=validation.optional_identifier("actor", actor),
                conversation_id=validation.optional_identifier("conversation_id", conversation_id),
                source=validation.source(source),
                idempotency_key=validation.optional_identifier("idempotency_key", idempotency_key),
            )
            operation.quote(title=request.title, content=request.content, description=request.description)
            memory = await parts.manager.create(request)
            operation.note(**_written(memory))
            return memory

    async def get_active_memories(self, external_id: str | int | UUID) -> list[ActiveMemory]:
        """All memories being worked on, oldest first; archived ones are left out, and an unknown id has none.

        Raises:
            InvalidInputError: The id is refused.
            StoreError: The store is away.
        """
        with self._telemetry.operation("get_active_memories") as operation:
            parts = self._ready()
            tenant = validation.external_id(external_id)
            operation.note(external_id=tenant)
            memories = await parts.manager.get_all(tenant)
            operation.note(memories=len(memories))
            return memories

    async def update_active_memory(
        self,
        external_id: str | int | UUID,
        memory_id: UUID | str,
        *,
        title: str | Unset = UNSET,
        content: str | Unset = UNSET,
        description: str | Unset | None = UNSET,
        metadata: Mapping[str, Any] | Unset | None = UNSET,
        occurred_at: datetime | None = None,
        actor: str | None = None,
        conversation_id: str | None = None,
        source: Source = "user",
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> ActiveMemory:
        """Change a memory. What its text no longer says has ended; it is kept, and found with `as_of`.

        Args:
            title: A new title; it re-indexes the whole memory.
            content: A new text. Passages that stay the same keep their chunks, with importance and dates.
            description: A new description; None removes it.
            metadata: New metadata in place of all of the old; None empties it. Without it, a new `content` drops
                `turns` from the old metadata, whose positions were those of the old text.
            expected_version: The version you have read; the update is refused when another writer was first.
            occurred_at: As in `create_active_memory`, and so the arguments not described here.

        Returns:
            The memory at its new version, as this write left it; an update with the same values is one too. With every
            fifth update (`active_memory_update_threshold`) its consolidation is queued; a worker does it soon after.

        Raises:
            InvalidInputError: An argument is refused, nothing is to be changed, or the memory is archived.
            MemoryNotFoundError: `external_id` has no such memory.
            VersionConflictError: Another writer was first.
            IdempotencyConflictError: The key was used for a different request.
            StoreError: The store is away or refused the write.
        """
        with self._telemetry.operation("update_active_memory") as operation:
            parts = self._ready()
            tenant = validation.external_id(external_id)
            operation.note(external_id=tenant)
            changes: dict[str, Any] = {}
            if not isinstance(title, Unset):
                changes["title"] = validation.title(title)
            if not isinstance(content, Unset):
                changes["content"] = validation.content(content)
            if not isinstance(description, Unset):
                changes["description"] = validation.description(description)
            if not isinstance(metadata, Unset):
                changes["metadata"] = validation.memory_metadata(metadata, changes.get("content"))
            if not changes:
                raise InvalidInputError("nothing to change; pass title, content, description or metadata")
            request = UpdateRequest(
                external_id=tenant,
                memory_id=validation.memory_id(memory_id),
                changes=changes,
                occurred_at=validation.optional_moment("occurred_at", occurred_at),
                actor=validation.optional_identifier("actor", actor),
                conversation_id=validation.optional_identifier("conversation_id", conversation_id),
                source=validation.source(source),
                expected_version=_optional_number("expected_version", expected_version, maximum=2**31 - 1),
                idempotency_key=validation.optional_identifier("idempotency_key", idempotency_key),
            )
            operation.note(memory_id=str(request.memory_id))
            operation.quote(**{name: changes.get(name) for name in ("title", "content", "description")})
            memory = await parts.manager.update(request)
            operation.note(**_written(memory))
            return memory

    async def retrieve_memories(
        self,
        external_id: str | int | UUID,
        query: str,
        *,
        limit: int | None = None,
        tiers: Iterable[Tier] | None = None,
        token_budget: int | None = None,
        min_confidence: float | None = None,
        as_of: datetime | None = None,
        known_at: datetime | None = None,
    ) -> RetrievalResult:
        """Find what answers a question, best first. Calls no model.

        Args:
            query: At most 20,000 characters, in any language; operators have no meaning.
            limit: At most so many hits, from 1 to 200; None is the configured default, 10.
            tiers: Only these of active, shortterm and longterm; None is all.
            token_budget: At most so many tokens of hits' text; what does not fit is left out and counted.
            min_confidence: Only chunks with at least this confidence, 0 to 1.
            as_of: What was true in the world at that moment. None is the latest that the memory holds: what has been
                replaced is left out, and what only begins later is in.
            known_at: What the memory held at that moment; None is all it holds. Alone, it asks for what was then known
                to be true then.

        Returns:
            Hits with their sources, and a summary quoted from the best of them.

        Raises:
            InvalidInputError: An argument is refused.
            StoreError: The store is away.
        """
        with self._telemetry.operation("retrieve_memories") as operation:
            parts = self._ready()
            tenant = validation.external_id(external_id)
            operation.note(external_id=tenant)
            hits = _optional_number("limit", limit, maximum=MAX_RESULTS)
            budget = _optional_number("token_budget", token_budget)
            request = RetrieveRequest(
                external_id=tenant,
                query=validation.query(query),
                limit=hits if hits is not None else self._config.retrieval_limit,
                tiers=validation.tiers(tiers),
                token_budget=budget if budget is not None else self._config.token_budget,
                min_confidence=None if min_confidence is None else validation.share("min_confidence", min_confidence),
                as_of=validation.optional_moment("as_of", as_of),
                known_at=validation.optional_moment("known_at", known_at),
            )
            operation.note(limit=request.limit, tiers=tuple(request.tiers))
            operation.quote(query=request.query)
            result = await parts.retrieval.retrieve(request)
            operation.note(hits=len(result.hits), entities=len(result.entities))
            operation.quote(
                hit_titles=[hit.title for hit in result.hits], hit_contents=[hit.content for hit in result.hits]
            )
            return result

    def _ready(self) -> _Parts:
        if self._parts is None:
            state = "was closed" if self._was_closed else "is not initialized"
            raise NotInitializedError(
                f"this AgentMem {state}; use `async with AgentMem()` or `await memory.initialize()`"
            )
        return self._parts


def _optional_number(name: str, value: object, *, maximum: int | None = None) -> int | None:
    return None if value is None else validation.whole_number(name, value, minimum=1, maximum=maximum)


def _written(memory: ActiveMemory) -> dict[str, Attribute]:
    """What a write's span says of its result."""
    assert memory.write is not None
    return {
        "memory_id": str(memory.id),
        "version": memory.version,
        "chunks_added": memory.write.chunks_added,
        "chunks_kept": memory.write.chunks_kept,
        "chunks_ended": memory.write.chunks_ended,
        "consolidation_queued": memory.write.consolidation_queued,
    }


class _Parts:
    """Everything below the facade, once it is built."""

    def __init__(
        self,
        server: EmbeddedPostgres | None,
        store: PostgresManager,
        neo4j: Neo4jManager | None,
        manager: MemoryManager,
        retrieval: RetrievalService,
        ledger: MemoryLedger,
        admin: MemoryAdmin,
        worker: Worker,
        uses: UseRecorder,
    ) -> None:
        self.server = server
        self.store = store
        self.neo4j = neo4j
        self.worker = worker
        self.uses = uses
        self.manager = manager
        self.retrieval = retrieval
        self.ledger = ledger
        self.admin = admin

    async def close(self) -> None:
        # What one of them fails with keeps none of the others open.
        async with AsyncExitStack() as closing:
            if self.server is not None:
                closing.push_async_callback(self.server.stop)
            closing.push_async_callback(self.store.close)
            if self.neo4j is not None:
                closing.push_async_callback(self.neo4j.close)
            closing.push_async_callback(self.uses.close)
            closing.push_async_callback(self.worker.stop)


async def _build(
    config: Config,
    embedder: Embedder | None,
    clock: Callable[[], datetime],
    weights: Weights | None,
    telemetry: Telemetry,
) -> _Parts:
    """The one place that constructs managers, repositories and services."""
    if embedder is None:
        embedder = create_embedder(config.embedding_provider, config.embedding_model, config.embedding_dimension)
    # It connects when it is first used, so that one that is away keeps nothing from beginning.
    neo4j = None if config.neo4j_uri is None else create_neo4j(config, telemetry)
    server, settings = await _connect(config, embedder)
    store = PostgresManager(
        settings,
        pool_size=config.postgres_pool_size,
        pool_timeout_seconds=config.pool_timeout_seconds,
        statement_timeout_seconds=config.statement_timeout_seconds,
        telemetry=telemetry,
        revive=None if server is None else partial(_restart, server, settings),
    )
    try:
        await store.initialize()
        generation = await _check_schema(store, config, embedder)
        if neo4j is not None:
            await neo4j.initialize()
    except BaseException:
        await store.close()
        if server is not None:
            await server.stop()
        raise

    event_ledger = EventLedger()
    tables = Tables(
        active=ActiveMemoryRepository(),
        shortterm=ShorttermMemoryRepository(),
        longterm=LongtermMemoryRepository(generation),
        chunks=MemoryChunkRepository(generation),
        graph=GraphChangesRepository(),
    )
    queue = WorkQueue()
    graph_follows = neo4j is not None
    projector = Projector(event_ledger, tables, queue, graph_follows=graph_follows)
    vectors = ChunkVectorRepository(generation, embedder.model_name)
    embedding = EmbeddingService(
        store,
        event_ledger,
        queue,
        vectors,
        embedder,
        review_within_seconds=min((days * 86_400 for days in config.ttl_days.values()), default=None),
    )
    uses = ChunkUseRepository()
    recorder = UseRecorder(store, uses, clock=clock)
    promotion = PromotionService(projector, tables, uses, clock=clock, threshold=config.shortterm_promotion_threshold)
    graph = EntityGraphRepository()
    progress = GraphProgressRepository()
    graph_store: GraphStore = PostgresGraph(store, graph)
    follower: GraphFollower | None = None
    # Recall has far less time than the follower; that it ran out says nothing of whether Neo4j is there.
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
    consolidation = ConsolidationService(
        store, event_ledger, projector, tables, graph, embedding, promotion, clock=clock, generation=generation
    )
    manager = MemoryManager(
        store,
        event_ledger,
        projector,
        tables,
        embedding,
        queue,
        uses,
        clock=clock,
        update_threshold=config.active_memory_update_threshold,
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
        LifecycleRepository(),
        clock=clock,
        max_chunks=config.max_chunks,
        ttl_days=config.ttl_days,
    )
    history = HistoryRepository()
    scratch = ScratchRepository(generation, embedder.model_name)
    replayer = Replayer(event_ledger, tables, queue, graph_follows=graph_follows)
    work = WorkService(
        store,
        event_ledger,
        queue,
        embedding,
        consolidation,
        lifecycle,
        follower,
        max_attempts=config.job_max_attempts,
        retry_seconds=config.job_retry_seconds,
    )
    worker = Worker(
        WorkerSetup(
            store=store,
            work=work,
            telemetry=telemetry,
            concurrency=config.worker_concurrency,
            heartbeat_seconds=config.job_heartbeat_seconds,
        )
    )
    search = SearchRepository(generation, weights)
    recall = GraphRecall(
        graph,
        search,
        # Neo4j is waited for under recall's own deadline, Postgres ends its statements itself.
        PostgresGraph(store, graph, deadline_seconds=config.graph_deadline_seconds) if neo4j is None else graph_store,
        deadline_seconds=config.graph_deadline_seconds,
        breaker=recall_breaker,
    )
    return _Parts(
        server=server,
        store=store,
        neo4j=neo4j,
        manager=manager,
        retrieval=RetrievalService(store, search, recall, embedding, history, recorder, clock=clock),
        ledger=MemoryLedger(store, event_ledger, projector, clock=clock),
        admin=MemoryAdmin(
            store,
            tables,
            manager,
            consolidation,
            HistoryService(store, event_ledger, history, updates_left=manager.updates_left),
            VerificationService(store, event_ledger, scratch, replayer, embedding, follower, clock=clock),
            ErasureService(
                store,
                event_ledger,
                scratch,
                ErasureRepository(generation),
                replayer,
                uses,
                progress,
                follower,
                clock=clock,
            ),
            TransferService(store, event_ledger, replayer, embedding, clock=clock),
            BulkService(manager),
            work,
            worker,
            lifecycle,
            UsageService(store, event_ledger, embedding, queue, UsageRepository(), progress, follower),
            MemoryGraph(store, projector, tables.active, graph, graph_store, clock=clock),
        ),
        worker=worker,
        uses=recorder,
    )


async def _connect(config: Config, embedder: Embedder) -> tuple[EmbeddedPostgres | None, ConnectionSettings]:
    """Reach the configured server, or start the embedded one with its schema."""
    if config.postgres_dsn is not None:
        settings = ConnectionSettings.from_dsn(config.postgres_dsn.get_secret_value())
        await check_login(settings)
        return None, settings
    server = EmbeddedPostgres(config.data_dir or default_data_dir())
    address = await server.start()
    try:
        administrator = ConnectionSettings(
            host=address.host, port=address.port, user=address.superuser, database="postgres"
        )
        parameters = SchemaParameters(
            chunk_partitions=config.chunk_partitions,
            embedding_dimension=embedder.dimension,
            model_name=embedder.model_name,
        )
        return server, await prepare_embedded(administrator, parameters)
    except BaseException:
        await server.stop()
        raise


async def _restart(server: EmbeddedPostgres, settings: ConnectionSettings) -> ConnectionSettings:
    """Start an embedded server that has died under us, unless another of its users was faster."""
    address = await server.start()
    return replace(settings, host=address.host, port=address.port)


async def _check_schema(store: PostgresManager, config: Config, embedder: Embedder) -> int:
    """The generation of vectors to use, after checking that the schema and this embedder fit each other."""
    # No tenant: the tables of the schema itself belong to none.
    async with store.transaction("", read_only=True) as db:
        current = await check_version(db)
    if "chunk_partitions" in config.model_fields_set and config.chunk_partitions != current.chunk_partitions:
        raise ConfigurationError(
            f"chunk_partitions is {config.chunk_partitions}, but this database has {current.chunk_partitions},"
            " which cannot be changed; unset it, or use another database (data_dir, postgres_dsn)"
        )
    if (current.model_name, current.dimension) != (embedder.model_name, embedder.dimension):
        raise ConfigurationError(
            f"the vectors of this database were made by {current.model_name!r} with {current.dimension} dimensions, but"
            f" {embedder.model_name!r} with {embedder.dimension} is configured; vectors of different models cannot be"
            " compared. Set embedding_provider, embedding_model and embedding_dimension to what made them, or use"
            " another database (data_dir, postgres_dsn)"
        )
    return current.generation
