"""The `migrate` and `doctor` commands."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import urlsplit

from cyclopts import Parameter
from rich.console import Console

from agent_reminiscence.cli.parameters import (
    ADMIN_DSN_VARIABLE,
    EXIT_OK,
    EXIT_WRONG,
    HERE,
    AsJson,
    Database,
    opened,
)
from agent_reminiscence.cli.settings import read_settings
from agent_reminiscence.cli.terminal import console, count, say, write_json
from agent_reminiscence.exceptions import InvalidInputError, ReminiscenceError, StoreError

if TYPE_CHECKING:
    from agent_reminiscence import Config
    from agent_reminiscence.database.migrations import SchemaParameters
    from agent_reminiscence.embedders.base import BaseEmbedder
    from agent_reminiscence.services.upkeep.doctor_checks import Diagnosis
    from agent_reminiscence.services.upkeep.reindexing import Reindexed


def migrate(
    *,
    login: Annotated[str, Parameter(help="The role the application connects as; it must exist.")],
    admin_dsn: Annotated[
        str | None,
        Parameter(
            help="DSN of a database administrator, who may create roles and extensions; prefer"
            f" {ADMIN_DSN_VARIABLE}, which the process list does not show."
        ),
    ] = None,
    print_sql: Annotated[
        bool,
        Parameter(
            negative="", help="Do not connect; print the SQL for an administrator of a new database to run in psql."
        ),
    ] = False,
    chunk_partitions: Annotated[int | None, Parameter(help="Hash partitions per table, for a new schema.")] = None,
    embedding_provider: Annotated[
        Literal["universal", "wordllama", "ollama", "pydantic_ai", "hash"] | None,
        Parameter(help="Provider of the vectors."),
    ] = None,
    embedding_model: Annotated[
        str | None, Parameter(help="The model's name; for an embedder of your own, its `model_name`.")
    ] = None,
    embedding_dimension: Annotated[
        int | None, Parameter(help="Vector dimension; for an embedder of your own, its `dimension`.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Create or upgrade the schema on a server of your own, and in Neo4j if one is configured.

    Partitions and embeddings are fixed when the schema is created and ignored later. A model and a dimension given
    together are used unchecked, so they may describe an embedder of your own.
    """
    from agent_reminiscence.database import schema
    from agent_reminiscence.database.connection import ConnectionSettings
    from agent_reminiscence.services import validation
    from agent_reminiscence.services.upkeep.reindexing import reindex

    validation.identifier("--login", login)
    parameters = _schema_parameters(chunk_partitions, embedding_provider, embedding_model, embedding_dimension)
    if print_sql:
        script = schema.installation_script(login, parameters)
        if as_json:
            write_json({"sql": script})
        else:
            sys.stdout.write(script)
        return EXIT_OK
    dsn = admin_dsn or os.environ.get(ADMIN_DSN_VARIABLE)
    if not dsn:
        raise InvalidInputError(
            f"migrate needs an administrator's DSN: pass --admin-dsn or set {ADMIN_DSN_VARIABLE}; or use --print-sql"
        )
    settings = ConnectionSettings.from_dsn(_checked_dsn(dsn))
    applied = asyncio.run(schema.migrate(settings, login=login, parameters=parameters))
    reindexed = asyncio.run(reindex(settings, _quiet if as_json else _tell_reindexed))
    names = [f"{migration.version:04d}_{migration.name}" for migration in applied]
    if not as_json:
        done = f"applied {', '.join(names)}" if names else "is up to date"
        say(console(), f"Database {settings.database!r}: {done}; the login {login!r} may use it.")
        if reindexed.streams:
            say(console(), f"Reindexed {count(reindexed.streams, 'stream', 'streams')}.")
        for external_id in reindexed.faulty:
            say(
                console(),
                f"Skipped {external_id!r}: its ledger has been altered; `verify` shows where.",
            )
    config = read_settings()
    trouble = None if config.neo4j_uri is None else asyncio.run(_prepare_neo4j(config))
    is_there = config.neo4j_uri is not None and trouble is None
    if as_json:
        write_json(
            {
                "database": settings.database,
                "applied": names,
                "streams_indexed": reindexed.streams,
                "streams_faulty": list(reindexed.faulty),
                "neo4j": is_there,
                "neo4j_trouble": trouble,
            }
        )
    elif is_there:
        say(console(), "Neo4j: constraints and indexes are in place.")
    elif trouble is not None:
        say(console(), f"Neo4j: {trouble}. A worker will create the constraints and indexes once that is resolved.")
    return EXIT_OK


def _quiet(done: Reindexed) -> None:
    pass


def _tell_reindexed(done: Reindexed) -> None:
    """Report reindexing progress every 100 streams."""
    if done.streams_done % 100 == 0:
        say(console(), f"Indexing words: {done.streams_done:,} of {done.streams_total:,} streams done.", style="dim")


async def _prepare_neo4j(config: Config) -> str | None:
    """Create constraints and indexes in Neo4j; returns what prevented it, or None."""
    from agent_reminiscence.database.neo4j_manager import create_neo4j
    from agent_reminiscence.database.repositories.graph.neo4j import Neo4jGraph

    neo4j = create_neo4j(config)
    await neo4j.initialize()
    try:
        await Neo4jGraph(neo4j).ensure_schema()
    except StoreError as error:
        return str(error)
    finally:
        await neo4j.close()
    return None


def _checked_dsn(dsn: str) -> str:
    try:
        parts = urlsplit(dsn)
    except ValueError:
        # Without the parser's reason, which repeats the DSN.
        raise InvalidInputError("the DSN cannot be parsed; write special characters in it as %xx") from None
    if parts.scheme not in ("postgres", "postgresql"):
        raise InvalidInputError("the DSN must begin with postgresql://")
    return dsn


async def _prepare(embedder: BaseEmbedder) -> None:
    """Ask the embedder's server, if any, whether the model is there and how long its vectors are."""
    try:
        await embedder.prepare()
    finally:
        await embedder.aclose()


def _schema_parameters(
    chunk_partitions: int | None, provider: str | None, model: str | None, dimension: int | None
) -> SchemaParameters:
    from agent_reminiscence.database.migrations import SchemaParameters
    from agent_reminiscence.embedders.create import create_embedder

    given = {
        "chunk_partitions": chunk_partitions,
        "embedding_provider": provider,
        "embedding_model": model,
        "embedding_dimension": dimension,
    }
    config = read_settings(**{name: value for name, value in given.items() if value is not None})
    if model is not None and dimension is not None and provider is None:
        return SchemaParameters(config.chunk_partitions, dimension, model)
    embedder = create_embedder(
        config.embedding_provider, config.embedding_model, config.embedding_dimension, config=config
    )
    if dimension is None:
        asyncio.run(_prepare(embedder))
    return SchemaParameters(
        config.chunk_partitions,
        embedder.dimension,
        embedder.model_name,
        config.embedding_provider,
        config.embedding_model,
    )


# doctor -------------------------------------------------------------------------------------------


def doctor(
    *,
    start: Annotated[
        bool, Parameter(negative="", help="Open the memory first, which creates the embedded server if there is none.")
    ] = False,
    as_json: AsJson = False,
    database: Database = HERE,
) -> int:
    """Check what is installed, reachable and mismatched, and say what to do about it.

    Changes nothing without --start. Exits with 1 if it finds a problem or could not check something.
    """
    from agent_reminiscence.services.upkeep.doctor import diagnose
    from agent_reminiscence.services.upkeep.doctor_checks import Diagnosis

    async def look() -> Diagnosis:
        first = Diagnosis()
        if start:
            try:
                async with opened(database):
                    first.add("start", "ok", "the memory opens")
            except ReminiscenceError as error:
                first.add("start", "problem", str(error))
        found = await diagnose(database.config)
        found.checks[:0] = first.checks
        return found

    diagnosis = asyncio.run(look())
    if as_json:
        checks = [
            {"name": check.name, "status": check.status, "detail": check.detail, "remedy": check.remedy}
            for check in diagnosis.checks
        ]
        write_json({"ok": diagnosis.is_healthy, "checks": checks})
    else:
        _show_diagnosis(console(), diagnosis)
    return EXIT_OK if diagnosis.is_healthy else EXIT_WRONG


def _show_diagnosis(out: Console, diagnosis: Diagnosis) -> None:
    styles = {"ok": "", "warning": "yellow", "problem": "bold red", "skipped": "dim"}
    for check in diagnosis.checks:
        say(out, f"{check.status:<8} {check.name}: {check.detail}", style=styles[check.status])
        if check.remedy:
            say(out, f"→ {check.remedy}", indent=9)
    problems, skipped = len(diagnosis.problems), diagnosis.skipped
    say(out, "")
    found = f"{count(problems, 'problem', 'problems')} found" if problems else "No problems found"
    if skipped:
        found += f", but {count(len(skipped), 'check', 'checks')} could not be made"
    say(out, f"{found}{':' if skipped else '.'}")
    for check in skipped:
        say(out, f"{check.name}: {check.detail}", indent=2)
