"""Inspects an installation and says what is there, what is wrong and what to do; it creates and changes nothing.

Every check is independent: one that an earlier fault prevents says so. Its purpose is broken installations, so it
raises nothing that is wrong with one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agent_reminiscence.config.constants import EMBEDDED_DATABASE, EMBEDDED_LOGIN, SCHEDULER_ROLE
from agent_reminiscence.config.settings import Config
from agent_reminiscence.database import inspection as facts
from agent_reminiscence.database.connection import ConnectionSettings, SqlExecutor, open_connection
from agent_reminiscence.database.embedded import EmbeddedPostgres, check_folder, default_data_dir, find_programs
from agent_reminiscence.database.generations import all_generations, list_generations, table_sizes
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.repositories.event_ledger import EventLedger
from agent_reminiscence.database.schema_checks import check_version
from agent_reminiscence.embedders.base import BaseEmbedder
from agent_reminiscence.exceptions import (
    ConfigurationError,
    ReminiscenceError,
    StoreError,
)
from agent_reminiscence.services.upkeep.damage_checks import check_checksums, check_ledger
from agent_reminiscence.services.upkeep.doctor_checks import (
    MIGRATE,
    Diagnosis,
    check_embedder,
    check_extensions,
    check_generation,
    check_isolation,
    check_login,
    check_memberships,
    check_neo4j,
    check_other_generations,
    check_ownership,
    check_packages,
    check_server_version,
    check_session_dsn,
    check_streams,
)

_STATEMENT_TIMEOUT_SECONDS: Final = 60.0


async def diagnose(make_config: Callable[[], Config]) -> Diagnosis:
    """Check everything that `make_config` names.

    An existing embedded server is started for the checks and left in its former state; a missing one is not created.

    Args:
        make_config: Reads the settings; its errors are the first finding.
    """
    diagnosis = Diagnosis()
    try:
        config = make_config()
    except ConfigurationError as error:
        diagnosis.add(
            "settings",
            "problem",
            str(error),
            "correct it in the environment, in the file that --env-file names, or in the options",
        )
        check_packages(diagnosis, None)
        diagnosis.add("server", "skipped", "needs valid settings")
        return diagnosis
    diagnosis.add("settings", "ok", _describe_settings(config))
    check_packages(diagnosis, config)
    embedder = await check_embedder(diagnosis, config)
    graph_store = await check_neo4j(diagnosis, config)
    expected = _Expected(embedder, graph_store)
    if config.postgres_dsn is None:
        await _check_embedded(diagnosis, config, expected)
    else:
        try:
            settings = ConnectionSettings.from_dsn(config.postgres_dsn.get_secret_value())
        except (ConfigurationError, ValueError):
            # Without the parser's reason, which may repeat the DSN.
            diagnosis.add(
                "server",
                "problem",
                "postgres_dsn cannot be read",
                "write postgresql://login:password@host:port/database, with special characters as %xx",
            )
        else:
            if await _check_server(diagnosis, settings, expected, embedded=False):
                await diagnosis.run("sessions", lambda: check_session_dsn(diagnosis, config, settings))
    return diagnosis


@dataclass(frozen=True, slots=True)
class _Expected:
    """What the database is compared with; each is None if it is unavailable."""

    embedder: BaseEmbedder | None
    graph_store: str | None


def _describe_settings(config: Config) -> str:
    server = "your own server" if config.postgres_dsn is not None else "the embedded server"
    graph = "" if config.neo4j_uri is None else ", graph also in Neo4j"
    return f"{server}, embeddings by {config.embedding_provider}{graph}"


# The server ---------------------------------------------------------------------------------------


async def _check_embedded(diagnosis: Diagnosis, config: Config, expected: _Expected) -> None:
    if sys.platform == "win32":
        diagnosis.add("server", "problem", "the embedded server needs Linux or macOS", "set postgres_dsn")
        return
    try:
        programs = find_programs(config.postgres_programs)
    except ConfigurationError as error:
        diagnosis.add("programs", "problem", str(error))
        return
    diagnosis.add(
        "programs", "ok", f"PostgreSQL {programs.version_name}, pgvector {programs.vector_version}: {programs.folder}"
    )
    data_dir = config.data_dir or default_data_dir()
    if not _check_data_dir(diagnosis, data_dir):
        return
    server = EmbeddedPostgres(data_dir, programs=config.postgres_programs)
    try:
        address = await server.start()
    except ConfigurationError as error:
        # The message says what to do, and nothing was written to the log.
        diagnosis.add("server", "problem", str(error))
        return
    except ReminiscenceError as error:
        diagnosis.add("server", "problem", str(error), f"see {data_dir / 'postgres.log'}")
        return
    if server.has_ended_stuck_server:
        diagnosis.add(
            "recovery",
            "warning",
            "the server was in recovery without a process that recovers it (its startup process had been killed), and"
            " would have refused every connection for ever; it was ended and started anew, and nothing that was"
            " acknowledged is lost",
            "look in the system's log for what kills its processes, most likely a lack of memory",
        )
    try:
        settings = ConnectionSettings(
            host=address.host, port=address.port, user=EMBEDDED_LOGIN, database=EMBEDDED_DATABASE
        )
        await _check_server(diagnosis, settings, expected, embedded=True)
    finally:
        try:
            await server.stop()
        except ReminiscenceError as error:
            diagnosis.add("server", "problem", f"does not stop: {error}", f"see {data_dir / 'postgres.log'}")


def _check_data_dir(diagnosis: Diagnosis, data_dir: Path) -> bool:
    """Whether there is an embedded server to check."""
    try:
        exists = facts.embedded_server_exists(data_dir)
    except OSError as error:
        diagnosis.add(
            "data folder",
            "problem",
            f"{data_dir} cannot be read: {error.strerror}",
            "run as its owner, or choose another folder (--data-dir, REMINISCENCE_DATA_DIR)",
        )
        return False
    try:
        check_folder(data_dir)
    except (ConfigurationError, OSError) as error:
        # The message says what to do: it is the one that a start would give.
        diagnosis.add("data folder", "problem", str(error))
        return False
    if not exists:
        diagnosis.add("data folder", "ok", f"{data_dir} holds no server yet")
        diagnosis.add(
            "server",
            "ok",
            "none yet; it is created on first use",
            "run `agent-reminiscence doctor --start` to create and check it now",
        )
        return False
    diagnosis.add("data folder", "ok", str(data_dir))
    return True


async def _check_server(
    diagnosis: Diagnosis, settings: ConnectionSettings, expected: _Expected, *, embedded: bool
) -> bool:
    """Check all that one connection shows; whether there was one."""
    try:
        db = await open_connection(settings)
    except StoreError as error:
        diagnosis.add(
            "server",
            "problem",
            str(error),
            "run `agent-reminiscence doctor --start`, which creates what is missing"
            if embedded
            else "check that the server is running, that host, port, database and password in postgres_dsn are right,"
            " and that pg_hba.conf admits the login",
        )
        return False
    try:
        await diagnosis.run("server", lambda: check_server_version(diagnosis, db))
        await diagnosis.run("extensions", lambda: check_extensions(diagnosis, db))
        await diagnosis.run("login", lambda: check_login(diagnosis, db))
        await diagnosis.run("roles", lambda: check_memberships(diagnosis, db, settings.user))
        await diagnosis.run("isolation", lambda: check_isolation(diagnosis, db))
        await diagnosis.run("ownership", lambda: check_ownership(diagnosis, db))
        await diagnosis.run("schema", lambda: _check_schema(diagnosis, db, settings, expected))
        await diagnosis.run("checksums", lambda: check_checksums(diagnosis, db))
    finally:
        db.close()
    return True


# The schema ---------------------------------------------------------------------------------------


async def _check_schema(
    diagnosis: Diagnosis, db: SqlExecutor, settings: ConnectionSettings, expected: _Expected
) -> None:
    if not await facts.has_schema(db):
        diagnosis.add(
            "schema",
            "problem",
            f"database {settings.database!r} has none",
            MIGRATE.format(login=settings.user),
        )
        return
    store = PostgresManager(
        settings, pool_size=1, pool_timeout_seconds=10.0, statement_timeout_seconds=_STATEMENT_TIMEOUT_SECONDS
    )
    try:
        await store.initialize()
        async with store.transaction("", read_only=True) as transaction:
            try:
                state = await check_version(transaction)
            except ConfigurationError as error:
                diagnosis.add("schema", "problem", str(error))
                return
        diagnosis.add("schema", "ok", "matches this release")
        async with store.transaction("", read_only=True) as transaction:
            known = await all_generations(transaction)
            generations = await list_generations(transaction)
            sizes = await table_sizes(transaction)
        current = next(generation for generation in generations if generation.number == state.generation)
        check_generation(
            diagnosis,
            current,
            expected.embedder,
            known={g.model_name for g in known},
            # Vectors that an administrator is changing are left alone.
            is_empty=len(generations) == 1 and await _is_empty(store),
        )
        check_other_generations(diagnosis, generations, sizes)
        await diagnosis.run("memories", lambda: check_streams(diagnosis, store, generations, expected.graph_store))
        await diagnosis.run("ledger", lambda: check_ledger(diagnosis, store))
    finally:
        await store.close()


async def _is_empty(store: PostgresManager) -> bool:
    """Whether nothing was ever written; False if this could not be read, of which the next checks say why."""
    try:
        async with store.transaction("", role=SCHEDULER_ROLE, read_only=True) as db:
            return not await EventLedger().has_events(db)
    except StoreError:
        return False
