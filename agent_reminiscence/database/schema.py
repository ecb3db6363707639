"""Creates and checks the schema: roles and extensions by an administrator, tables by their owner, once per database."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agent_reminiscence.config import constants
from agent_reminiscence.config.constants import (
    APP_ROLE,
    EMBEDDED_DATABASE,
    EMBEDDED_LOGIN,
    EXPORT_FIRST,
    JOBS_SCHEMA_NAME,
    OWNER_ROLE,
    SCHEDULER_ROLE,
    SCHEMA_NAME,
)
from agent_reminiscence.database import jobs_schema
from agent_reminiscence.database.postgres_manager import ConnectionSettings, Row, SqlExecutor, open_connection
from agent_reminiscence.database.queries import statement_folder
from agent_reminiscence.database.versions import version_numbers
from agent_reminiscence.exceptions import ConfigurationError
from agent_reminiscence.text.words import ANALYSER_VERSION

_logger = logging.getLogger("agent_reminiscence.database")

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


# Advisory lock of everyone who changes a database's schema: the bytes of "remi" as a number.
_SCHEMA_LOCK = 0x72656D69


@dataclass(frozen=True, slots=True)
class SchemaParameters:
    """The values the schema is rendered with; fixed once it is created."""

    chunk_partitions: int
    embedding_dimension: int
    model_name: str
    # What `create_embedder` makes the embedder from; None is a custom embedder.
    provider: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Migration:
    """One file of `sql/migrations`."""

    version: int
    name: str
    script: str

    @property
    def checksum(self) -> bytes:
        """SHA-256 of the file as released."""
        return hashlib.sha256(self.script.encode()).digest()


@dataclass(frozen=True, slots=True)
class SchemaState:
    """What a database's schema was created with, and the embedder of the current vectors."""

    chunk_partitions: int
    generation: int
    model_name: str
    dimension: int


def migrations() -> list[Migration]:
    """Return all migrations of this release, in order."""
    found = [_read(path) for path in sorted((statement_folder("sql") / "migrations").glob("*.sql"))]
    if [m.version for m in found] != list(range(1, len(found) + 1)):
        raise RuntimeError(f"the migrations are not numbered 1 to {len(found)}")
    return found


def _read(path: Path) -> Migration:
    number, _, name = path.stem.partition("_")
    return Migration(int(number), name, path.read_text(encoding="utf-8"))


def render(script: str, parameters: SchemaParameters) -> str:
    """Fill in the placeholders of a schema script."""
    values = {
        "chunk_partitions": str(parameters.chunk_partitions),
        "embedding_dimension": str(parameters.embedding_dimension),
        "procrastinate_version": jobs_schema.current_version(),
        "procrastinate_schema": jobs_schema.current_script(),
    }
    for name, value in values.items():
        script = script.replace(f"{{{{{name}}}}}", value)
    return script


def bootstrap_script(login: str) -> str:
    """Return what an administrator runs first; `login` is the role that the application connects as."""
    script = (statement_folder("sql") / "bootstrap.sql").read_text(encoding="utf-8")
    return script.replace("{{login}}", _identifier(login))


def schema_script() -> str:
    """Return the whole current schema, not yet rendered."""
    return (statement_folder("sql") / "schema.sql").read_text(encoding="utf-8")


def installation_script(login: str, parameters: SchemaParameters) -> str:
    """Return everything as one SQL script for psql, to hand to someone who may create roles."""
    return "\n".join(
        [
            "BEGIN;",
            bootstrap_script(login),
            f"SET LOCAL ROLE {OWNER_ROLE};",
            SEARCH_PATH_SCRIPT,
            render(schema_script(), parameters),
            _records_script(migrations(), parameters),
            "COMMIT;",
            "",
        ]
    )


# The extension may be in any schema; its operators must be found without qualifying them.
SEARCH_PATH_SCRIPT = f"""SELECT set_config(
    'search_path', '{SCHEMA_NAME}, ' || string_agg(DISTINCT extnamespace::regnamespace::text, ', '), true)
FROM pg_extension WHERE extname = 'vector';"""


async def migrate(settings: ConnectionSettings, *, login: str, parameters: SchemaParameters) -> list[Migration]:
    """Create the schema or bring it up to date, as the administrator named in `settings`.

    Everything happens in one transaction under an advisory lock: concurrent callers wait for each other, and a failure
    leaves the database unchanged.

    Returns:
        The migrations applied now; empty if there was nothing to do.

    Raises:
        ConfigurationError: The server, an extension, a privilege or an applied migration does not fit, or an earlier
            release created the schema; the message says what to run.
        StoreError: The server is unavailable or refused a statement.
    """
    db = await open_connection(settings)
    try:
        await _check_server(db)
        await _refuse_earlier_release(db)
        await _check_administrator(db, login)
        await db.execute_script("BEGIN")
        await db.execute("SELECT pg_advisory_xact_lock($(key)p)::text", {"key": _SCHEMA_LOCK})
        await db.execute_script(bootstrap_script(login))
        await db.execute_script(f"SET LOCAL ROLE {OWNER_ROLE}")
        await db.execute_script(SEARCH_PATH_SCRIPT)
        applied = await _applied(db)
        pending = migrations()[len(applied) :]
        if not applied:
            # A new database gets the current schema at once; a test checks that both ways give the same result.
            await db.execute_script(render(schema_script(), parameters))
            await db.execute_script(_records_script(pending, parameters))
        elif pending:
            stored = await db.fetch_one(_MADE_WITH)
            if stored is None:
                raise ConfigurationError("the schema does not record its parameters; it was not created by `migrate`")
            made_with = SchemaParameters(stored["chunk_partitions"], stored["dimension"], stored["model_name"])
            for migration in pending:
                await db.execute_script(render(migration.script, made_with))
            await db.execute_script(_migration_records(pending))
        upgraded = await _upgrade_jobs(db)
        if applied and pending:
            await db.execute_script("RESET ROLE")
            await _drop_samples(db)
        await db.execute_script("COMMIT")
    finally:
        db.close()
    for migration in pending:
        _logger.info("applied migration %04d_%s", migration.version, migration.name)
    for name in upgraded:
        _logger.info("applied Procrastinate's migration %s", name)
    return pending


async def _upgrade_jobs(db: SqlExecutor) -> list[str]:
    """Upgrade Procrastinate's tables, as their owner, to the installed package; returns what was applied."""
    migrations_due = jobs_schema.migrations_after(await _jobs_version(db))
    for name, script in migrations_due:
        await db.execute_script(f"SET LOCAL search_path = {JOBS_SCHEMA_NAME}")
        await db.execute_script(script)
        await db.execute_script(SEARCH_PATH_SCRIPT)
        await db.execute(
            "UPDATE schema_parameter SET value = $(name)p WHERE name = 'procrastinate_schema'", {"name": name}
        )
    return [name for name, _ in migrations_due]


async def _jobs_version(db: SqlExecutor) -> str:
    row = await db.fetch_one("SELECT value FROM schema_parameter WHERE name = 'procrastinate_schema'")
    return "" if row is None else str(row["value"])


async def _drop_samples(db: SqlExecutor) -> None:
    """Drop the planner's samples of columns that may no longer be sampled: ANALYZE does not remove them."""
    row = await db.fetch_one("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
    if row is None or not row["rolsuper"]:
        _logger.warning(
            "samples of memory text may remain in pg_statistic from before this migration, where erasures do not reach"
            " them; a superuser removes them with: %s",
            " ".join(_DROP_SAMPLES.split()),
        )
        return
    await db.execute_script(_DROP_SAMPLES)


_DROP_SAMPLES = f"""
DELETE FROM pg_catalog.pg_statistic AS s
USING pg_catalog.pg_attribute AS a
JOIN pg_catalog.pg_class AS c ON c.oid = a.attrelid
WHERE s.starelid = a.attrelid AND s.staattnum = a.attnum AND a.attstattarget = 0
    AND c.relnamespace = '{SCHEMA_NAME}'::regnamespace
"""


async def prepare_embedded(
    server: ConnectionSettings, parameters: SchemaParameters | Callable[[], SchemaParameters]
) -> ConnectionSettings:
    """Create login, database and schema on the embedded server if they are missing.

    Args:
        server: The embedded server's superuser, on its database `postgres`.
        parameters: What a schema is created with; a function is only called if one has to be created.

    Returns:
        How the library connects: the login, on the package's own database.
    """
    admin = await open_connection(server)
    try:
        # Session lock: CREATE DATABASE cannot run in a transaction, and another process may be doing the same.
        await admin.execute("SELECT pg_advisory_lock($(key)p)::text", {"key": _SCHEMA_LOCK})
        rows = await admin.fetch_all(
            "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $(login)p) AS has_login,"
            " EXISTS (SELECT FROM pg_database WHERE datname = $(database)p) AS has_database",
            {"login": EMBEDDED_LOGIN, "database": EMBEDDED_DATABASE},
        )
        if not rows[0]["has_login"]:
            await admin.execute_script(f"CREATE ROLE {EMBEDDED_LOGIN} LOGIN NOSUPERUSER NOBYPASSRLS NOINHERIT")
        if not rows[0]["has_database"]:
            await admin.execute_script(f"CREATE DATABASE {EMBEDDED_DATABASE}")
    finally:
        admin.close()
    owner = ConnectionSettings(host=server.host, port=server.port, user=server.user, database=EMBEDDED_DATABASE)
    if not await _is_current(owner):
        made_with = parameters() if callable(parameters) else parameters
        await migrate(owner, login=EMBEDDED_LOGIN, parameters=made_with)
    return ConnectionSettings(host=server.host, port=server.port, user=EMBEDDED_LOGIN, database=EMBEDDED_DATABASE)


async def check_login(settings: ConnectionSettings) -> None:
    """Check that server, schema and login are safe to use.

    Raises:
        ConfigurationError: Something is missing or has too many rights; the message says what to run.
        StoreError: The server is unavailable.
    """
    db = await open_connection(settings)
    try:
        await _check_server(db)
        row = await db.fetch_one(_LOGIN_FACTS, {"role": APP_ROLE, "schema": SCHEMA_NAME})
        assert row is not None
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
    finally:
        db.close()


_LOGIN_FACTS = """
SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $(schema)p) AS has_schema,
    (SELECT pg_has_role(oid, 'SET') FROM pg_roles WHERE rolname = $(role)p) AS may_set,
    (SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user) AS bypasses,
    (SELECT array_agg(rolname::text ORDER BY rolname) FROM pg_roles
     WHERE starts_with(rolname, $(schema)p || '_') AND rolname <> current_user
        AND pg_has_role(oid, 'USAGE')) AS inherits
"""


_STATE = """
SELECT p.value::int AS chunk_partitions, g.generation, g.model_name, g.dimension
FROM embedding_generation AS g
CROSS JOIN schema_parameter AS p
WHERE g.state = 'current' AND p.name = 'chunk_partitions'
"""
# For a schema of any release: the first generation is the one the schema was created with.
_MADE_WITH = """
SELECT p.value::int AS chunk_partitions, g.model_name, g.dimension
FROM embedding_generation AS g
CROSS JOIN schema_parameter AS p
WHERE g.generation = 1 AND p.name = 'chunk_partitions'
"""


async def check_version(db: SqlExecutor) -> SchemaState:
    """Check, as the application role, that the schema is this release's; return what it was created with.

    Raises:
        ConfigurationError: The schema is older or newer than this release, or an applied migration was changed.
    """
    applied = await _applied(db)
    known = migrations()
    if len(applied) < len(known):
        raise ConfigurationError(
            f"the schema is at migration {len(applied)}, this release needs {len(known)}; have an administrator run"
            " `agent-reminiscence migrate --admin-dsn …`"
        )
    jobs_version = await _jobs_version(db)
    if jobs_version > jobs_schema.current_version():
        raise ConfigurationError(
            "the tables of Procrastinate are newer than the installed package; update the package procrastinate"
        )
    if jobs_version < jobs_schema.current_version():
        raise ConfigurationError(
            "the tables of Procrastinate are older than the installed package; have an administrator run"
            " `agent-reminiscence migrate --admin-dsn …`"
        )
    analyser = await _analyser_version(db)
    if analyser != ANALYSER_VERSION:
        raise AnalyserOutdatedError(
            f"the words of this database were indexed by version {analyser} of the analyser, this release has"
            f" {ANALYSER_VERSION}; have an administrator run `agent-reminiscence migrate --admin-dsn …` to index them"
            " again"
        )
    row = await db.fetch_one(_STATE)
    if row is None:
        raise ConfigurationError("the schema does not record its parameters; it was not created by `migrate`")
    return SchemaState(**row)


async def _analyser_version(db: SqlExecutor) -> int:
    """The version of the analyser that indexed the words."""
    row = await db.fetch_one("SELECT value::int AS version FROM schema_parameter WHERE name = 'analyser_version'")
    return 0 if row is None else int(row["version"])


async def is_analyser_outdated(administrator: ConnectionSettings) -> bool:
    """Whether the words were indexed by another version of the analyser than this release's."""
    async with _as_owner(administrator) as db:
        return await _analyser_version(db) != ANALYSER_VERSION


async def count_reindexed(administrator: ConnectionSettings) -> int:
    """Return how many streams this release's analyser had indexed before it was interrupted."""
    async with _as_owner(administrator) as db:
        row = await db.fetch_one("SELECT value FROM schema_parameter WHERE name = 'reindexed'")
    version, _, done = ("" if row is None else str(row["value"])).partition(":")
    return int(done) if version == str(ANALYSER_VERSION) else 0


async def record_reindexed(administrator: ConnectionSettings, streams: int) -> None:
    """Record that this release's analyser has indexed the first `streams` streams."""
    async with _as_owner(administrator) as db:
        await db.execute(
            "INSERT INTO schema_parameter (name, value) VALUES ('reindexed', $(value)p)"
            " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            {"value": f"{ANALYSER_VERSION}:{streams}"},
        )


async def record_analyser(administrator: ConnectionSettings) -> None:
    """Record that this release's analyser has indexed all words."""
    async with _as_owner(administrator) as db:
        await db.execute(
            "UPDATE schema_parameter SET value = $(version)p WHERE name = 'analyser_version'",
            {"version": str(ANALYSER_VERSION)},
        )
        await db.execute("DELETE FROM schema_parameter WHERE name = 'reindexed'")


@asynccontextmanager
async def _as_owner(administrator: ConnectionSettings) -> AsyncIterator[SqlExecutor]:
    """A transaction as the owner of the schema."""
    db = await open_connection(administrator)
    try:
        await db.execute_script("BEGIN")
        await db.execute_script(f"SET LOCAL ROLE {OWNER_ROLE}")
        await db.execute_script(SEARCH_PATH_SCRIPT)
        yield db
        await db.execute_script("COMMIT")
    finally:
        db.close()


@asynccontextmanager
async def reindexing_allowed(administrator: ConnectionSettings) -> AsyncIterator[None]:
    """Let the administrator act as the application, one tenant at a time, and revoke that at the end.

    The administrator created these roles and may do so. A superuser needs no membership.
    """
    db = await open_connection(administrator)
    try:
        rows = await db.fetch_all(
            "SELECT rolname::text AS role FROM pg_roles"
            " WHERE rolname = ANY($(roles)p::text[]) AND NOT pg_has_role(oid, 'SET') ORDER BY 1",
            {"roles": [APP_ROLE, SCHEDULER_ROLE]},
        )
        roles = ", ".join(row["role"] for row in rows)
        if roles:
            await db.execute_script(f"GRANT {roles} TO CURRENT_USER WITH INHERIT FALSE, SET TRUE")
        try:
            yield
        finally:
            if roles:
                await db.execute_script(f"REVOKE {roles} FROM CURRENT_USER")
    finally:
        db.close()


async def _check_server(db: SqlExecutor) -> None:
    row = await db.fetch_one(
        "SELECT current_setting('server_version_num')::int AS version, current_setting('server_version') AS name,"
        " (SELECT coalesce(installed_version, default_version) FROM pg_available_extensions WHERE name = 'vector')"
        " AS vector"
    )
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


async def _check_administrator(db: SqlExecutor, login: str) -> None:
    row = await db.fetch_one(
        "SELECT r.rolsuper, r.rolcreaterole, current_user::text AS name,"
        " EXISTS (SELECT FROM pg_extension WHERE extname = 'vector') AS has_vector,"
        " (SELECT pg_has_role(datdba, 'USAGE') FROM pg_database WHERE datname = current_database()) AS owns_database,"
        " EXISTS (SELECT FROM pg_roles WHERE rolname = $(login)p) AS has_login"
        " FROM pg_roles r WHERE r.rolname = current_user",
        {"login": login},
    )
    assert row is not None
    if not row["has_login"]:
        raise ConfigurationError(
            f"there is no role {login!r}; run CREATE ROLE {_identifier(login)} LOGIN PASSWORD '…' first"
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


async def _is_current(settings: ConnectionSettings) -> bool:
    db = await open_connection(settings)
    try:
        row = await db.fetch_one(
            "SELECT to_regclass($(name)p)::text AS name", {"name": f"{SCHEMA_NAME}.schema_migration"}
        )
        if row is None or row["name"] is None:
            return False
        await db.execute_script(f"SET search_path = {SCHEMA_NAME}")
        return len(await _applied(db)) == len(migrations()) and await _jobs_version(db) >= jobs_schema.current_version()
    finally:
        db.close()


async def _refuse_earlier_release(db: SqlExecutor) -> None:
    """Look for the schema of an earlier release with the rights this administrator already has.

    Raises:
        ConfigurationError: It exists.
    """
    row = await db.fetch_one(_MAY_LOOK, {"owner": OWNER_ROLE, "schema": SCHEMA_NAME})
    if row is None or not row["may_look"]:
        # There is no schema, or this role may not act as its owner yet: the check is repeated as its owner later.
        return
    await db.execute_script("BEGIN READ ONLY")
    await db.execute_script(f"SET LOCAL ROLE {OWNER_ROLE}")
    await _applied(db)
    await db.execute_script("ROLLBACK")


_MAY_LOOK = """
SELECT EXISTS (
    SELECT FROM pg_class AS c
    JOIN pg_namespace AS n ON n.oid = c.relnamespace
    JOIN pg_roles AS r ON r.rolname = $(owner)p
    WHERE n.nspname = $(schema)p AND c.relname = 'schema_migration' AND pg_has_role(r.oid, 'SET')
) AS may_look
"""


async def _applied(db: SqlExecutor) -> list[int]:
    """Return the applied versions, checked against the files of this release.

    Raises:
        ConfigurationError: The schema was created by an earlier release, which this one cannot upgrade, or by a newer
            one, or an applied migration was changed.
    """
    exists = await db.fetch_one(f"SELECT to_regclass('{SCHEMA_NAME}.schema_migration')::text AS name")
    if exists is None or exists["name"] is None:
        return []
    rows = await db.fetch_all(f"SELECT version, name, checksum FROM {SCHEMA_NAME}.schema_migration ORDER BY version")
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


def _records_script(applied: list[Migration], parameters: SchemaParameters) -> str:
    return f"""{_migration_records(applied)}
INSERT INTO schema_parameter (name, value) VALUES
    ('chunk_partitions', '{parameters.chunk_partitions}'), ('analyser_version', '{ANALYSER_VERSION}');
INSERT INTO embedding_generation (generation, model_name, dimension, state, provider, model)
VALUES (1, {_literal(parameters.model_name)}, {parameters.embedding_dimension}, 'current',
    {_optional_literal(parameters.provider)}, {_optional_literal(parameters.model)});"""


def _migration_records(applied: list[Migration]) -> str:
    values = ", ".join(rf"({m.version}, {_literal(m.name)}, '\x{m.checksum.hex()}')" for m in applied)
    return f"INSERT INTO schema_migration (version, name, checksum) VALUES {values};"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _optional_literal(text: str | None) -> str:
    return "NULL" if text is None else _literal(text)
