"""Opens the stores a memory needs: the server and its schema, the embedders, and Neo4j."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal

from agent_reminiscence.apart import run_apart
from agent_reminiscence.config.constants import SCHEDULER_ROLE
from agent_reminiscence.config.settings import Config
from agent_reminiscence.database.connection import ConnectionSettings, SqlExecutor
from agent_reminiscence.database.embedded import EmbeddedPostgres, ServerAddress, default_data_dir, tell_who_waits
from agent_reminiscence.database.generations import all_generations, ask_for_current, take_embedder
from agent_reminiscence.database.migrations import SchemaParameters
from agent_reminiscence.database.neo4j_manager import Neo4jManager, create_neo4j
from agent_reminiscence.database.pooling import is_shared, needs_session
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.repositories.event_ledger import EventLedger
from agent_reminiscence.database.schema import prepare_embedded
from agent_reminiscence.database.schema_checks import (
    AnalyserOutdatedError,
    check_may_erase,
    check_version,
    open_checked,
)
from agent_reminiscence.database.sessions import check_sessions
from agent_reminiscence.domain.generation import Generation
from agent_reminiscence.embedders.base import BaseEmbedder, adapted, adopt_dimension
from agent_reminiscence.embedders.checked import describe_failure
from agent_reminiscence.embedders.create import create_embedder, succeeds_default
from agent_reminiscence.embedders.protocol import Embedder
from agent_reminiscence.embedders.universal import UniversalSentenceEmbedder
from agent_reminiscence.embedders.wordllama import WordLlamaEmbedder
from agent_reminiscence.exceptions import ConfigurationError, EmbeddingError
from agent_reminiscence.resilience.retries import repeated
from agent_reminiscence.services.administrators import FindAdministrator
from agent_reminiscence.services.recall.question import read_question
from agent_reminiscence.services.upkeep.reindexing import reindex
from agent_reminiscence.services.vectors.generations import Generations, check_storable, close_all
from agent_reminiscence.services.vectors.reembedding import Target
from agent_reminiscence.telemetry import Telemetry

_logger = logging.getLogger("agent_reminiscence.embedding")

# A first start, or one that repairs the database after a crash, may take longer than calls are retried for.
_RETRY_SECONDS: Final = 60.0
# After this time a start of the embedded server says what is being waited for.
_SLOW_START_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True)
class Stores:
    """The open stores and the embedders.

    Attributes:
        server: The embedded server; None if the settings name a server.
        neo4j: None if the settings name none. It connects on first use.
        configured: The embedding model requested by the settings or by a passed embedder.
    """

    server: EmbeddedPostgres | None
    postgres: PostgresManager
    neo4j: Neo4jManager | None
    generations: Generations
    configured: Target

    @property
    def find_administrator(self) -> FindAdministrator | None:
        """Finds the login that may act as the schema's owner; None on the user's own server, where we have none."""
        return None if self.server is None else partial(_administrator, self.server, self.postgres)

    async def close(self) -> None:
        """Close everything; if one close fails, the others still run."""
        async with AsyncExitStack() as closing:
            if self.server is not None:
                closing.push_async_callback(self.server.stop)
            closing.push_async_callback(self.postgres.close)
            if self.neo4j is not None:
                closing.push_async_callback(self.neo4j.close)
            closing.push_async_callback(self.generations.close)


async def open_stores(
    config: Config,
    *,
    embedder: Embedder | None,
    further_embedders: Sequence[Embedder] | None,
    telemetry: Telemetry,
) -> Stores:
    """Start or reach the server and check that its schema matches the embedder; on failure, nothing stays open.

    Args:
        embedder: Used instead of the configured one.
        further_embedders: For vectors of other models, which may become current; None: vectors of one model only.

    Raises:
        ConfigurationError: The schema, the login or the embedder does not fit; the message says what to do.
        StoreError: The store cannot be reached.
    """
    configured = Target(adapted(embedder)) if embedder is not None else _configured(config)
    opening = _Opening(
        config,
        configured,
        [configured.embedder, *map(adapted, further_embedders or ())],
        takes_any_model=further_embedders is not None,
        telemetry=telemetry,
    )
    loading = asyncio.ensure_future(asyncio.to_thread(_load_ahead, configured.embedder, config.language))
    # If opening fails for another reason, nobody asks how this went.
    loading.add_done_callback(lambda task: task.cancelled() or task.exception())
    try:
        await run_apart(configured.embedder.prepare())
        for further in opening.embedders[1:]:
            await _try_to_prepare(further)
        stores = await opening.on_own_server() if config.postgres_dsn is None else await opening.on_given_server()
    except BaseException:
        loading.cancel()
        await close_all(opening.embedders)
        raise
    try:
        await loading
    except BaseException:
        await stores.close()
        raise
    return stores


def _load_ahead(embedder: BaseEmbedder, language: str | None) -> None:
    """Load, while the server starts or is reached, what the first question would otherwise wait for."""
    if isinstance(embedder, UniversalSentenceEmbedder | WordLlamaEmbedder):
        embedder.load()
    read_question("", (language or "en",), first_day=0, last_day=0)


@dataclass(frozen=True, slots=True)
class _Opening:
    """One opening of the stores, parts of which are repeated if the server dies meanwhile.

    Attributes:
        embedders: The configured one, then the further ones that were passed.
        takes_any_model: Whether further embedders were passed, so that vectors of any model may be current.
    """

    config: Config
    configured: Target
    embedders: Sequence[BaseEmbedder]
    takes_any_model: bool
    telemetry: Telemetry

    async def on_given_server(self) -> Stores:
        """Reach the server that the settings name."""
        assert self.config.postgres_dsn is not None
        settings = ConnectionSettings.from_dsn(self.config.postgres_dsn.get_secret_value())
        # Once: a server that cannot be reached at all is more likely a wrong address than one that is just restarting.
        first = await open_checked(settings, self.telemetry)
        try:
            if self.config.retention == "erase":
                # Before anything is written that would silently stay.
                await check_may_erase(first, settings)
            sessions = await self._find_sessions(settings, first)
        except BaseException:
            first.close()
            raise
        unused = [] if first.is_broken else [first]

        async def open_stores() -> Stores:
            return await self._open(None, settings, unused.pop() if unused else None, sessions)

        try:
            return await repeated(open_stores, operation="initialize", external_id="", total_seconds=_RETRY_SECONDS)
        finally:
            # Left only if nothing was tried.
            for connection in unused:
                connection.close()

    async def _find_sessions(
        self, settings: ConnectionSettings, first: SqlExecutor
    ) -> ConnectionSettings | Literal["same"] | None:
        """Where the worker and subscriptions connect, as `PostgresManager` takes it.

        Raises:
            ConfigurationError: A pooler shares sessions, and the worker has no other address; or that address does not
                fit.
        """
        shared = await is_shared(settings, first)
        if self.config.session_dsn is not None:
            other = ConnectionSettings.from_dsn(self.config.session_dsn.get_secret_value(), setting="session_dsn")
            await check_sessions(other, settings)
            return other
        if not shared:
            return "same"
        if self.config.worker:
            raise ConfigurationError(
                needs_session(
                    "The worker of this process",
                    way_out="set session_dsn to an address of PostgreSQL itself, past the pooler, or worker=False here"
                    " if another process has the worker",
                )
            )
        return None

    async def on_own_server(self) -> Stores:
        """Start or join the embedded server."""
        data_dir = self.config.data_dir or default_data_dir()
        server = EmbeddedPostgres(data_dir, programs=self.config.postgres_programs)
        creates = "" if (data_dir / "postgres").exists() else ": the first start creates its database"
        slow = asyncio.get_running_loop().call_later(
            _SLOW_START_SECONDS,
            tell_who_waits,
            f"still starting the embedded server in {data_dir}{creates}; see {data_dir / 'postgres.log'}",
        )

        async def start_and_open() -> Stores:
            # Also after a server that died: this starts it again.
            return await self._open(server, await self._prepared(await server.start()))

        try:
            return await repeated(start_and_open, operation="initialize", external_id="", total_seconds=_RETRY_SECONDS)
        except BaseException:
            await server.stop()
            raise
        finally:
            slow.cancel()

    async def _prepared(self, address: ServerAddress) -> ConnectionSettings:
        """Create what is missing on the embedded server; returns how to connect."""
        administrator = ConnectionSettings(
            host=address.host, port=address.port, user=address.superuser, database="postgres"
        )
        embedder = self.configured.embedder
        # Called only to create a schema: an existing one needs no dimension from a server that may be unavailable.
        return await prepare_embedded(
            administrator,
            lambda: SchemaParameters(
                chunk_partitions=self.config.chunk_partitions,
                embedding_dimension=embedder.dimension,
                model_name=embedder.model_name,
                provider=self.configured.provider,
                model=self.configured.model,
            ),
        )

    async def _open(
        self,
        server: EmbeddedPostgres | None,
        settings: ConnectionSettings,
        connection: SqlExecutor | None = None,
        sessions: ConnectionSettings | Literal["same"] | None = "same",
    ) -> Stores:
        """Connect and check the schema; on failure, no connection stays open.

        Args:
            connection: One that is open already, to be used first.
            sessions: As `PostgresManager` takes it.
        """
        config = self.config
        try:
            # It connects on first use, so an unavailable Neo4j does not prevent opening.
            neo4j = None if config.neo4j_uri is None else create_neo4j(config, self.telemetry)
        except BaseException:
            if connection is not None:
                connection.close()
            raise
        postgres = PostgresManager(
            settings,
            pool_size=config.postgres_pool_size,
            pool_timeout_seconds=config.pool_timeout_seconds,
            statement_timeout_seconds=config.statement_timeout_seconds,
            telemetry=self.telemetry,
            revive=None if server is None else partial(_restart, server, settings),
            sessions=sessions,
        )
        stores = Stores(
            server=server,
            postgres=postgres,
            neo4j=neo4j,
            generations=Generations(postgres, self.embedders, partial(_make_embedder, config)),
            configured=self.configured,
        )
        try:
            await postgres.initialize(connection)
            check = partial(_check_schema, stores, config, self.embedders, takes_any_model=self.takes_any_model)
            try:
                await check()
            except AnalyserOutdatedError:
                if server is None:
                    # An administrator has to run `migrate`.
                    raise
                await reindex(await _administrator(server, postgres))
                await check()
            if neo4j is not None:
                await neo4j.initialize()
        except BaseException:
            # The embedders and the embedded server stay for another attempt.
            async with AsyncExitStack() as closing:
                closing.push_async_callback(postgres.close)
                if neo4j is not None:
                    closing.push_async_callback(neo4j.close)
                closing.push_async_callback(stores.generations.close, keep=self.embedders)
            raise
        return stores


def _configured(config: Config) -> Target:
    embedder = _make_embedder(config, config.embedding_provider, config.embedding_model, config.embedding_dimension)
    return Target(embedder, config.embedding_provider, config.embedding_model)


def _make_embedder(config: Config, provider: str, model: str | None, dimension: int | None) -> BaseEmbedder:
    """A built-in embedder: the configured one, or one for another vector generation."""
    return create_embedder(provider, model, dimension, config=config)


async def _administrator(server: EmbeddedPostgres, store: PostgresManager) -> ConnectionSettings:
    """The embedded server's superuser, connecting to the memory's database."""
    address = await server.start()
    return replace(store.settings, host=address.host, port=address.port, user=address.superuser)


async def _restart(server: EmbeddedPostgres, settings: ConnectionSettings) -> ConnectionSettings:
    """Restart an embedded server that died while in use, unless another user of it already did."""
    address = await server.start()
    return replace(settings, host=address.host, port=address.port)


async def _try_to_prepare(embedder: BaseEmbedder) -> None:
    """Check whether an embedder for later use is ready; one that is not does not prevent opening."""
    try:
        await run_apart(embedder.prepare())
    except Exception as error:  # noqa: BLE001 - one of the user's own may raise anything
        _logger.warning(
            "a passed embedder cannot be used: %s",
            describe_failure(embedder, error),
            extra={"model_name": embedder.model_name},
        )


async def _check_schema(
    stores: Stores, config: Config, embedders: Sequence[BaseEmbedder], *, takes_any_model: bool
) -> None:
    """Check that the schema matches this release and that this process may use the current vectors.

    Args:
        embedders: The configured one, then the further ones that were passed.
        takes_any_model: Whether further embedders were passed, so that vectors of any model may be current.
    """
    # No tenant: the schema's own tables belong to none.
    async with stores.postgres.transaction("", read_only=True) as db:
        state = await check_version(db)
        asked = await ask_for_current(db)
        known = await all_generations(db)
        current = await asked.result()
    if "chunk_partitions" in config.model_fields_set and config.chunk_partitions != state.chunk_partitions:
        raise ConfigurationError(
            f"chunk_partitions is {config.chunk_partitions}, but this database has {state.chunk_partitions},"
            " which cannot change; unset it, or use another database (data_dir, postgres_dsn)"
        )
    stores.postgres.announce_with(state.announcement_key)
    # An embedder whose server is unavailable takes its dimension from the latest generation of its model.
    for generation in reversed(known):
        for one in embedders:
            adopt_dimension(one, generation.model_name, generation.dimension)
    embedder = embedders[0]
    # The name first: an unrecorded dimension may be unknown while the embedder's server is unavailable.
    if current.model_name == embedder.model_name and current.dimension == embedder.dimension:
        stores.generations.follow(current)
        return
    if await _take_if_empty(stores, current):
        return
    stores.generations.follow(current)
    if succeeds_default(embedder, current.model_name):
        await _keep_earlier_default(stores.generations, current, embedder)
        return
    # If this database has had the model, or is getting it, the change was requested.
    if not takes_any_model and embedder.model_name not in {generation.model_name for generation in known}:
        raise ConfigurationError(
            f"the vectors of this database were made by {current.made_by}, but {embedder.model_name!r} is configured;"
            " vectors of different models cannot be compared. To switch to the new model, run `agent-reminiscence"
            " reembed`; otherwise set embedding_provider, embedding_model and embedding_dimension to the old one, or"
            " use another database (data_dir, postgres_dsn)"
        )
    try:
        await stores.generations.embedder(current)
    except EmbeddingError as error:
        if takes_any_model:
            # Already logged: until another generation is current, searches use words only.
            return
        raise ConfigurationError(
            f"the vectors of this database are from {current.made_by}, which this process cannot use: {error}. Set"
            " embedding_provider, embedding_model and embedding_dimension to it, or pass its embedder to"
            " AgentMem(embedders=[…])"
        ) from error
    _logger.warning(
        "using the current vectors, from %s, although %s is configured",
        current.made_by,
        embedder.model_name,
        extra={"model_name": current.model_name},
    )


async def _take_if_empty(stores: Stores, current: Generation) -> bool:
    """Let a database that holds no memory take the configured embedder: who ran `migrate` need not know it.

    Returns:
        Whether it has that embedder now; another process may have given it the same one.
    """
    embedder, provider, model = stores.configured
    async with stores.postgres.transaction("", role=SCHEDULER_ROLE, read_only=True) as db:
        if await EventLedger().has_events(db):
            return False
    check_storable(embedder)
    async with stores.postgres.transaction("") as db:
        is_taken = await take_embedder(
            db, model_name=embedder.model_name, dimension=embedder.dimension, provider=provider, model=model
        )
        asked = await ask_for_current(db)
        taken = await asked.result()
    if is_taken:
        _logger.info(
            "this database holds no memory yet: it was prepared for the vectors of %s, and takes those of %s",
            current.made_by,
            taken.made_by,
            extra={"model_name": taken.model_name},
        )
        stores.generations.follow(taken)
    return is_taken


async def _keep_earlier_default(generations: Generations, current: Generation, embedder: BaseEmbedder) -> None:
    """Go on with the vectors of a database whose model was the default before, and say how to replace them."""
    try:
        await generations.embedder(current)
        use = "they stay in use"
    except EmbeddingError:
        # Why is already logged.
        use = "without that package, searches use words only and new texts get no vectors"
    _logger.warning(
        "the vectors of this database are from %s, the default of an earlier version; %s. To move to %s, run"
        " `agent-reminiscence reembed`, or call memory.admin.reembed()",
        current.made_by,
        use,
        embedder.model_name,
        extra={"model_name": current.model_name},
    )
