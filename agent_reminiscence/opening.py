"""Opens what a memory stands on: the server and its schema, the embedders of its vectors, and Neo4j."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial

from agent_reminiscence.config.settings import Config
from agent_reminiscence.database.embedded import EmbeddedPostgres, default_data_dir
from agent_reminiscence.database.generations import all_generations, current_generation
from agent_reminiscence.database.neo4j_manager import Neo4jManager, create_neo4j
from agent_reminiscence.database.postgres_manager import ConnectionSettings, PostgresManager
from agent_reminiscence.database.schema import (
    AnalyserOutdatedError,
    SchemaParameters,
    check_login,
    check_version,
    prepare_embedded,
)
from agent_reminiscence.exceptions import ConfigurationError, EmbeddingError
from agent_reminiscence.services.embedders import Embedder, adopt_dimension, create_embedder, describe_failure
from agent_reminiscence.services.generations import Generations, close_all, prepared
from agent_reminiscence.services.reembedding import FindAdministrator, Target
from agent_reminiscence.services.upkeep.reindexing import reindex
from agent_reminiscence.telemetry import Telemetry

_logger = logging.getLogger("agent_reminiscence.embedding")


@dataclass(frozen=True, slots=True)
class Stores:
    """What is open, and who makes the vectors.

    Attributes:
        server: The embedded server; None where the settings name one.
        neo4j: None where the settings name none. It connects when it is first used.
        configured: The model whose vectors the settings, or an embedder that was passed, ask for.
    """

    server: EmbeddedPostgres | None
    postgres: PostgresManager
    neo4j: Neo4jManager | None
    generations: Generations
    configured: Target

    @property
    def find_administrator(self) -> FindAdministrator | None:
        """Finds the login that may make tables; on a server of the user's own nobody here is one."""
        return None if self.server is None else partial(_administrator, self.server, self.postgres)

    async def close(self) -> None:
        """Close everything. What one of them fails with keeps none of the others open."""
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
    """Start or reach the server, and check that its schema and the embedder fit each other; else nothing stays open.

    Args:
        embedder: Instead of the configured one.
        further_embedders: For the vectors of other models, which may become current; None for those of one only.

    Raises:
        ConfigurationError: The schema, the login or the embedder does not fit; the message says what to do.
        StoreError: The store cannot be reached.
    """
    # It connects when it is first used, so that one that is away keeps nothing from beginning.
    neo4j = None if config.neo4j_uri is None else create_neo4j(config, telemetry)
    configured = Target(embedder) if embedder is not None else _configured(config)
    embedders = [configured.embedder, *(further_embedders or ())]
    try:
        await prepared(configured.embedder)
        for further in further_embedders or ():
            await _try_to_prepare(further)
        server, settings = await _connect(config, configured)
    except BaseException:
        await close_all(embedders)
        raise
    postgres = PostgresManager(
        settings,
        pool_size=config.postgres_pool_size,
        pool_timeout_seconds=config.pool_timeout_seconds,
        statement_timeout_seconds=config.statement_timeout_seconds,
        telemetry=telemetry,
        revive=None if server is None else partial(_restart, server, settings),
    )
    stores = Stores(
        server=server,
        postgres=postgres,
        neo4j=neo4j,
        generations=Generations(postgres, embedders, partial(_make_embedder, config)),
        configured=configured,
    )
    try:
        await postgres.initialize()
        check = partial(_check_schema, stores, config, embedders, takes_any_model=further_embedders is not None)
        try:
            await check()
        except AnalyserOutdatedError:
            if server is None:
                # An administrator does it by `migrate`.
                raise
            await reindex(await _administrator(server, postgres))
            await check()
        if neo4j is not None:
            await neo4j.initialize()
    except BaseException:
        await stores.close()
        raise
    return stores


def _configured(config: Config) -> Target:
    embedder = _make_embedder(config, config.embedding_provider, config.embedding_model, config.embedding_dimension)
    return Target(embedder, config.embedding_provider, config.embedding_model)


def _make_embedder(config: Config, provider: str, model: str | None, dimension: int | None) -> Embedder:
    """A built-in embedder: the configured one, or that of a generation that this object was not made with."""
    return create_embedder(provider, model, dimension, config=config)


async def _administrator(server: EmbeddedPostgres, store: PostgresManager) -> ConnectionSettings:
    """The superuser of the embedded server, in the database of the memory."""
    address = await server.start()
    return replace(store.settings, host=address.host, port=address.port, user=address.superuser)


async def _connect(config: Config, configured: Target) -> tuple[EmbeddedPostgres | None, ConnectionSettings]:
    """Reach the configured server, or start the embedded one with its schema."""
    if config.postgres_dsn is not None:
        settings = ConnectionSettings.from_dsn(config.postgres_dsn.get_secret_value())
        await check_login(settings)
        return None, settings
    server = EmbeddedPostgres(config.data_dir or default_data_dir(), programs=config.postgres_programs)
    address = await server.start()
    try:
        administrator = ConnectionSettings(
            host=address.host, port=address.port, user=address.superuser, database="postgres"
        )
        # Asked for where a schema is made: of one that is there, a server that is away need not tell the dimension.
        return server, await prepare_embedded(
            administrator,
            lambda: SchemaParameters(
                chunk_partitions=config.chunk_partitions,
                embedding_dimension=configured.embedder.dimension,
                model_name=configured.embedder.model_name,
                provider=configured.provider,
                model=configured.model,
            ),
        )
    except BaseException:
        await server.stop()
        raise


async def _restart(server: EmbeddedPostgres, settings: ConnectionSettings) -> ConnectionSettings:
    """Start an embedded server that has died under us, unless another of its users was faster."""
    address = await server.start()
    return replace(settings, host=address.host, port=address.port)


async def _try_to_prepare(embedder: Embedder) -> None:
    """Look whether an embedder for later is ready. One that is not keeps nothing from beginning."""
    try:
        await prepared(embedder)
    except Exception as error:  # noqa: BLE001 - one of the user's own may raise anything
        _logger.warning(
            "an embedder that was passed cannot be used as it is: %s",
            describe_failure(embedder, error),
            extra={"model_name": embedder.model_name},
        )


async def _check_schema(
    stores: Stores, config: Config, embedders: Sequence[Embedder], *, takes_any_model: bool
) -> None:
    """Check that the schema is this release's, and that this process may use the vectors that are current.

    Args:
        embedders: The one that is configured, and those that were passed beside it.
        takes_any_model: Whether it was given several embedders, and takes the vectors of whichever model is current.
    """
    # No tenant: the tables of the schema itself belong to none.
    async with stores.postgres.transaction("", read_only=True) as db:
        state = await check_version(db)
        current = await current_generation(db)
        known = await all_generations(db)
    if "chunk_partitions" in config.model_fields_set and config.chunk_partitions != state.chunk_partitions:
        raise ConfigurationError(
            f"chunk_partitions is {config.chunk_partitions}, but this database has {state.chunk_partitions},"
            " which cannot be changed; unset it, or use another database (data_dir, postgres_dsn)"
        )
    stores.generations.follow(current)
    # Whose server is away learns here how long its vectors are, by the latest that is recorded of its model.
    for generation in reversed(known):
        for one in embedders:
            adopt_dimension(one, generation.model_name, generation.dimension)
    embedder = embedders[0]
    # The name first: a dimension that nobody has recorded may not be known while the embedder's server is away.
    if current.model_name == embedder.model_name and current.dimension == embedder.dimension:
        return
    # Of a model that this database has had, or is to have: it has been told of the change.
    if not takes_any_model and embedder.model_name not in {generation.model_name for generation in known}:
        raise ConfigurationError(
            f"the vectors of this database were made by {current.made_by}, but {embedder.model_name!r} is configured;"
            " vectors of different models cannot be compared. To make those of the new model, run `agent-reminiscence"
            " reembed`; or set embedding_provider, embedding_model and embedding_dimension to what made them, or use"
            " another database (data_dir, postgres_dsn)"
        )
    try:
        await stores.generations.embedder(current)
    except EmbeddingError as error:
        if takes_any_model:
            # It was logged: until another generation is current, searches go by words.
            return
        raise ConfigurationError(
            f"the vectors of this database are of {current.made_by}, which this process cannot make: {error}. Set"
            " embedding_provider, embedding_model and embedding_dimension to it, or pass the embedder to"
            " AgentMem(embedders=[…])"
        ) from error
    _logger.warning(
        "vectors of %s are current, and used, though %s is configured",
        current.made_by,
        embedder.model_name,
        extra={"model_name": current.model_name},
    )
