"""What is checked of a server and a login before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from agent_reminiscence.config import constants
from agent_reminiscence.config.constants import APP_ROLE, ERASER_ROLE, EXPORT_FIRST, OWNER_ROLE, SCHEMA_NAME
from agent_reminiscence.database import jobs_schema
from agent_reminiscence.database.connection import ConnectionSettings, Row, SqlExecutor, open_connection
from agent_reminiscence.database.literals import identifier, literal, optional_literal
from agent_reminiscence.database.migrations import Migration, SchemaParameters, migrations
from agent_reminiscence.database.pooling import handed_on
from agent_reminiscence.database.queries import NamedQuery, load_queries
from agent_reminiscence.database.schema_rights import check_rights
from agent_reminiscence.database.versions import version_numbers
from agent_reminiscence.exceptions import ConfigurationError
from agent_reminiscence.telemetry import Telemetry
from agent_reminiscence.text.words import ANALYSER_VERSION

_SQL = load_queries("sql", "schema_checks")

# Migrations of releases before this one, by number and checksum. Their schema needs the extension pg_textsearch, and
# this release's migrations start again at 1: only an export leads from there to here. These checksums identify such a
# database; otherwise its rows in `schema_migration` would look like those of a newer release.
_EARLIER_MIGRATIONS: Final = frozenset(
    {
        (1, "559b947c7866e06aacfc5d3092da701a5f53b29a518da4091da868646f221416"),
        (2, "1ff98609c36697cf2e41002bf528fedce4e74ee8590a3a5a6fe5d0f6f54ae4a4"),
        (3, "95238f30cdf339180c3ef08aa78841a15c8d255edc2401c4660357b6d49e29b2"),
        (4, "be564bc41e558c194b3259dbd893b97e08599832fcc80b71e6ccda6a6f8666fb"),
        (5, "373735a34c56978309dee7fa56bccdecbbe780a1e677e1ce961e08aeda3d375c"),
        (6, "a9adf11573fc4410592ecaf59a31850d7bda5f7c5323652fe4835ac96dddbf78"),
        (7, "728852ddeb8bde5ba2473f1180fc1d23679402ccdee461ab1aa1b122cf1f0490"),
    }
)


class AnalyserOutdatedError(ConfigurationError):
    """The words of the database were indexed by another version of the analyser."""


@dataclass(frozen=True, slots=True)
class SchemaState:
    """What a database's schema was created with, and the embedder of the current vectors."""

    chunk_partitions: int
    generation: int
    model_name: str
    dimension: int
    # Of the names under which streams are announced.
    announcement_key: str = field(default="", repr=False, compare=False)


async def read_jobs_version(db: SqlExecutor) -> str:
    """Which version of the job queue's schema is installed; empty for none."""
    return _jobs_version(await db.fetch_all(_SQL["read_jobs_version"]))


def _jobs_version(rows: Sequence[Row]) -> str:
    return str(rows[0]["value"]) if rows else ""


async def open_checked(settings: ConnectionSettings, telemetry: Telemetry | None = None) -> SqlExecutor:
    """Open a connection, and check that server, schema and login are safe to use.

    Args:
        telemetry: Observes its statements; None observes nothing.

    Raises:
        ConfigurationError: Something is missing or has too many rights; the message says what to run.
        StoreError: The server is unavailable.
    """
    db = await open_connection(settings, telemetry)
    try:
        await check_server(db)
        row = await db.fetch_one(_SQL["describe_login"], {"role": APP_ROLE, "schema": SCHEMA_NAME})
        assert row is not None
        if row["acts_as"] != row["login"]:
            raise ConfigurationError(handed_on(row["login"], row["acts_as"]))
        if row["has_schema"] and row["owner"] != OWNER_ROLE:
            await check_rights(db, settings.database)
        if not row["has_schema"] or row["may_set"] is None:
            raise ConfigurationError(
                f"database {settings.database!r} has no schema {SCHEMA_NAME!r}; have an administrator run"
                f" `agent-reminiscence migrate --admin-dsn … --login {settings.user}`"
            )
        if row["bypasses"]:
            raise ConfigurationError(
                f"login {settings.user!r} is a superuser or has BYPASSRLS, which switches off the isolation of tenants;"
                " connect as a plain login"
            )
        if not row["may_set"]:
            raise ConfigurationError(
                f"login {settings.user!r} may not take the role {APP_ROLE}; have an administrator run"
                f" `agent-reminiscence migrate --admin-dsn … --login {settings.user}`"
            )
        if row["inherits"]:
            raise ConfigurationError(
                f"login {settings.user!r} inherits the rights of {', '.join(row['inherits'])} outside a transaction;"
                f" grant them WITH INHERIT FALSE, SET TRUE (`agent-reminiscence migrate` does)"
            )
    except BaseException:
        db.close()
        raise
    return db


async def check_may_erase(db: SqlExecutor, settings: ConnectionSettings) -> None:
    """Check that the login may erase, where retention has to.

    Raises:
        ConfigurationError: It may not take the role; the message says what to run.
        StoreError: The server is unavailable.
    """
    row = await db.fetch_one(_SQL["may_take"], {"role": ERASER_ROLE})
    if row is None or not row["may_set"]:
        raise ConfigurationError(
            f"retention is 'erase', and login {settings.user!r} may not take the role {ERASER_ROLE}, so nothing could"
            f" be erased; have an administrator run `agent-reminiscence migrate --admin-dsn … --login {settings.user}`,"
            " or set retention='archive'"
        )


async def check_version(db: SqlExecutor) -> SchemaState:
    """Check, as the application role, that the schema is this release's; return what it was created with.

    Raises:
        ConfigurationError: The schema is older or newer than this release, or an applied migration was changed.
    """
    applied = await read_applied(db)
    known = migrations()
    if len(applied) < len(known):
        raise ConfigurationError(
            f"the schema is at migration {len(applied)}, this release needs {len(known)}; have an administrator run"
            " `agent-reminiscence migrate --admin-dsn …`"
        )
    jobs, analysers, states = await db.fetch_together(
        [(_SQL[name], {}) for name in ("read_jobs_version", "read_analyser_version", "read_state")]
    )
    jobs_version = _jobs_version(jobs)
    if jobs_version > jobs_schema.current_version():
        raise ConfigurationError(
            "the tables of Procrastinate are newer than the installed package; update the package procrastinate"
        )
    if jobs_version < jobs_schema.current_version():
        raise ConfigurationError(
            "the tables of Procrastinate are older than the installed package; have an administrator run"
            " `agent-reminiscence migrate --admin-dsn …`"
        )
    analyser = _analyser_version(analysers)
    if analyser != ANALYSER_VERSION:
        raise AnalyserOutdatedError(
            f"the words of this database were indexed by version {analyser} of the analyser, this release has"
            f" {ANALYSER_VERSION}; have an administrator run `agent-reminiscence migrate --admin-dsn …` to index them"
            " again"
        )
    if not states:
        raise ConfigurationError("the schema does not record its parameters; it was not created by `migrate`")
    return SchemaState(**states[0])


async def read_analyser_version(db: SqlExecutor) -> int:
    """The version of the analyser that indexed the words."""
    return _analyser_version(await db.fetch_all(_SQL["read_analyser_version"]))


def _analyser_version(rows: Sequence[Row]) -> int:
    return int(rows[0]["version"]) if rows else 0


async def check_server(db: SqlExecutor) -> None:
    """Refuse a PostgreSQL or pgvector that is too old, or a server without pgvector."""
    row = await db.fetch_one(_SQL["describe_server"])
    assert row is not None
    needed = ".".join(map(str, constants.PGVECTOR_MIN_VERSION))
    if row["version"] < constants.POSTGRES_MIN_VERSION:
        raise ConfigurationError(
            f"the server is PostgreSQL {row['name']}; {constants.POSTGRES_MIN_VERSION // 10_000} or later is needed"
        )
    if row["vector"] is None:
        raise ConfigurationError(
            f"the server has no extension vector; install pgvector {needed} or later on the server"
            " (the image pgvector/pgvector:pg18 has it)"
        )
    if version_numbers(row["vector"]) < constants.PGVECTOR_MIN_VERSION:
        raise ConfigurationError(
            f"the database has pgvector {row['vector']}; {needed} or later is needed: update pgvector on the server and"
            " run ALTER EXTENSION vector UPDATE"
        )


async def check_administrator(db: SqlExecutor, login: str) -> None:
    """Refuse a login that may not install the schema."""
    row = await db.fetch_one(_SQL["describe_administrator"], {"login": login})
    assert row is not None
    if not row["has_login"]:
        raise ConfigurationError(
            f"the role {login!r} does not exist; run CREATE ROLE {identifier(login)} LOGIN PASSWORD '…' first"
        )
    if login == row["name"]:
        raise ConfigurationError(f"{login!r} is the administrator itself; the application needs a separate login")
    if row["rolsuper"] or (row["rolcreaterole"] and row["owns_database"] and row["has_vector"]):
        return
    raise ConfigurationError(
        f"{row['name']!r} may not do this here. It needs {_missing(row)}; or give the output of"
        f" `agent-reminiscence migrate --print-sql --login {login}` to an administrator of the database"
    )


def _missing(row: Row) -> str:
    """In words, what an administrator who is not a superuser lacks."""
    wanted = [
        (row["rolcreaterole"], "the attribute CREATEROLE"),
        (row["owns_database"], "to own the database"),
        (row["has_vector"], "the extension vector in this database, created beforehand (CREATE EXTENSION vector)"),
    ]
    return " and ".join(words for has, words in wanted if not has)


async def is_current(settings: ConnectionSettings) -> bool:
    """Whether the schema of the database is that of this release."""
    db = await open_connection(settings)
    try:
        row = await db.fetch_one(_SQL["find_migrations"])
        if row is None or row["name"] is None:
            return False
        await db.execute_script(_SQL["search_own_schema"])
        return (
            len(await read_applied(db)) == len(migrations())
            and await read_jobs_version(db) >= jobs_schema.current_version()
        )
    finally:
        db.close()


async def refuse_earlier_release(db: SqlExecutor) -> None:
    """Look for the schema of an earlier release with the rights this administrator already has.

    Raises:
        ConfigurationError: It exists.
    """
    row = await db.fetch_one(_SQL["may_look"], {"owner": OWNER_ROLE, "schema": SCHEMA_NAME})
    if row is None or not row["may_look"]:
        # There is no schema, or this role may not act as its owner yet: the check is repeated as its owner later.
        return
    await db.execute_script("BEGIN READ ONLY")
    await db.set_local({"role": OWNER_ROLE})
    await read_applied(db)
    await db.execute_script("ROLLBACK")


async def read_applied(db: SqlExecutor) -> list[int]:
    """Return the applied versions, checked against the files of this release.

    Raises:
        ConfigurationError: The schema was created by an earlier release, which this one cannot upgrade, or by a newer
            one, or an applied migration was changed.
    """
    exists = await db.fetch_one(_SQL["find_migrations"])
    if exists is None or exists["name"] is None:
        return []
    rows = await db.fetch_all(_SQL["list_applied"])
    known = migrations()
    own = {(migration.version, migration.checksum.hex()) for migration in known}
    if ({(row["version"], row["checksum"].hex()) for row in rows} - own) & _EARLIER_MIGRATIONS:
        raise ConfigurationError(
            "the schema of this database was created by an earlier release, and this one cannot bring it up to date;"
            f" nothing was changed. {EXPORT_FIRST} a new database, for which an administrator has run"
            " `agent-reminiscence migrate`"
        )
    if len(rows) > len(known):
        raise ConfigurationError(
            f"the schema is at migration {len(rows)}, newer than this release, which knows {len(known)};"
            " update agent-reminiscence"
        )
    for row, migration in zip(rows, known, strict=False):
        if row["checksum"] != migration.checksum:
            raise ConfigurationError(
                f"migration {row['version']:04d}_{row['name']} was applied with other contents than this release has;"
                " install the release that created the schema"
            )
    return [row["version"] for row in rows]


def records_script(applied: list[Migration], parameters: SchemaParameters) -> str:
    """The script that records a fresh schema: its migrations, parameters and first vector generation."""
    statements = [
        migration_records(applied),
        _SQL["record_parameters"].fill(
            chunk_partitions=literal(str(parameters.chunk_partitions)),
            analyser_version=literal(str(ANALYSER_VERSION)),
        ),
        _SQL["record_first_generation"].fill(
            model_name=literal(parameters.model_name),
            dimension=parameters.embedding_dimension,
            provider=optional_literal(parameters.provider),
            model=optional_literal(parameters.model),
        ),
    ]
    return "\n".join(f"{statement};" for statement in statements)


def migration_records(applied: list[Migration]) -> NamedQuery:
    """The statement that records migrations as applied."""
    values = (f"({m.version}, {literal(m.name)}, {literal(rf'\x{m.checksum.hex()}')})" for m in applied)
    return _SQL["record_migrations"].fill(values=", ".join(values))
