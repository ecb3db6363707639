"""Reads the state of a server and its schema with the caller's own rights; changes nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from agent_reminiscence.config.constants import (
    APP_ROLE,
    ERASER_ROLE,
    OWNER_ROLE,
    SCHEDULER_ROLE,
    SCHEMA_NAME,
    WORKER_ROLE,
)
from agent_reminiscence.database.connection import Row, SqlExecutor
from agent_reminiscence.database.neo4j_manager import CypherExecutor, Neo4jManager
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.queries import statement_folder
from agent_reminiscence.database.repositories.graph.progress import graph_lag

EXTENSIONS: Final = ("vector",)
ROLES: Final = (APP_ROLE, SCHEDULER_ROLE, WORKER_ROLE, ERASER_ROLE)
"""The roles that a login takes for one transaction."""


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """The server's version.

    Attributes:
        version: `server_version_num`, such as 180006.
    """

    version: int
    version_name: str


@dataclass(frozen=True, slots=True)
class ExtensionFacts:
    """An extension: the version the server can install, and the one in this database."""

    name: str
    available: str | None
    installed: str | None


@dataclass(frozen=True, slots=True)
class LoginFacts:
    """The login that connects, and its own rights."""

    name: str
    is_superuser: bool
    bypasses_row_security: bool
    creates_roles: bool


@dataclass(frozen=True, slots=True)
class MembershipFacts:
    """One of our roles and this login's membership in it.

    Attributes:
        inherits: `inherit_option`: its rights apply without taking the role; None means no direct membership.
        may_set: `set_option`: the login may take the role.
        has_usage: Whether the login has its rights in any way, including indirect memberships.
    """

    role: str
    exists: bool
    inherits: bool | None
    may_set: bool | None
    has_usage: bool


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """One stream as the scheduler sees it."""

    external_id: str
    live_chunks: int
    last_recorded_at: datetime
    work_at: datetime | None
    failed_at: datetime | None
    graph_head: int
    graph_position: int
    graph_store: str | None

    def graph_lag(self, graph_store: str) -> int:
        """How many positions this graph store is behind."""
        return graph_lag(self.graph_head, self.graph_position, self.graph_store, graph_store)


@dataclass(frozen=True, slots=True)
class Neo4jFacts:
    """The Neo4j version, and which of our constraints and indexes are missing."""

    version: str
    edition: str
    missing: tuple[str, ...]


def embedded_server_exists(data_dir: Path) -> bool:
    """Whether `data_dir` holds the embedded server's files.

    Raises:
        OSError: The folder cannot be read.
    """
    try:
        (data_dir / "postgres" / "PG_VERSION").stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


async def read_server(db: SqlExecutor) -> ServerFacts:
    """Return the version of the server."""
    rows = await db.fetch_all(_SERVER)
    return ServerFacts(**rows[0])


_SERVER = """
SELECT current_setting('server_version_num')::int AS version, current_setting('server_version') AS version_name
"""


async def read_extensions(db: SqlExecutor) -> list[ExtensionFacts]:
    """Return the extensions that the schema needs."""
    rows = await db.fetch_all(_EXTENSIONS, {"names": list(EXTENSIONS)})
    return [ExtensionFacts(**row) for row in rows]


_EXTENSIONS = """
SELECT wanted.name, a.default_version AS available, a.installed_version AS installed
FROM unnest($(names)p::text[]) WITH ORDINALITY AS wanted (name, place)
LEFT JOIN pg_available_extensions AS a ON a.name = wanted.name
ORDER BY wanted.place
"""


async def read_login(db: SqlExecutor) -> LoginFacts:
    """Return the login of this connection."""
    rows = await db.fetch_all(
        "SELECT rolname::text AS name, rolsuper AS is_superuser, rolbypassrls AS bypasses_row_security,"
        " rolcreaterole AS creates_roles FROM pg_roles WHERE rolname = session_user"
    )
    return LoginFacts(**rows[0])


async def read_memberships(db: SqlExecutor) -> list[MembershipFacts]:
    """Return the login's membership in each of our roles, the owner last."""
    rows = await db.fetch_all(_MEMBERSHIPS, {"names": [*ROLES, OWNER_ROLE]})
    return [MembershipFacts(**row) for row in rows]


# Several grantors may grant a role, each with their own options; it is enough if one allows something.
_MEMBERSHIPS = """
SELECT wanted.name AS role, r.oid IS NOT NULL AS exists, m.inherits, m.may_set,
    coalesce(pg_has_role(session_user, r.oid, 'USAGE'), false) AS has_usage
FROM unnest($(names)p::text[]) WITH ORDINALITY AS wanted (name, place)
LEFT JOIN pg_roles AS r ON r.rolname = wanted.name
LEFT JOIN LATERAL (
    SELECT bool_or(am.inherit_option) AS inherits, bool_or(am.set_option) AS may_set
    FROM pg_auth_members AS am
    JOIN pg_roles AS login ON login.oid = am.member
    WHERE am.roleid = r.oid AND login.rolname = session_user
) AS m ON true
ORDER BY wanted.place
"""


async def has_schema(db: SqlExecutor) -> bool:
    """Whether this database has our schema with a record of its migrations."""
    # Not to_regclass: the login itself has no usage right on the schema.
    row = await db.fetch_one(
        "SELECT EXISTS (SELECT FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace"
        " WHERE n.nspname = $(schema)p AND c.relname = 'schema_migration') AS found",
        {"schema": SCHEMA_NAME},
    )
    return row is not None and bool(row["found"])


async def read_unprotected_tables(db: SqlExecutor) -> list[str]:
    """Return tables of our schema that hold memory without forced row level security; there should be none."""
    rows = await db.fetch_all(_UNPROTECTED, {"schema": SCHEMA_NAME})
    return [row["name"] for row in rows]


_UNPROTECTED = """
SELECT c.relname::text AS name
FROM pg_class AS c
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = 'external_id'
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $(schema)p AND c.relkind IN ('r', 'p')
    AND NOT (c.relrowsecurity AND c.relforcerowsecurity)
ORDER BY 1
"""


async def read_streams(store: PostgresManager) -> list[StreamFacts]:
    """Return all streams, those with most chunks first."""
    async with store.transaction("", role=SCHEDULER_ROLE, read_only=True) as db:
        rows = await db.fetch_all(
            "SELECT external_id, live_chunks, last_recorded_at, work_at, failed_at, graph_head, graph_position,"
            " graph_store FROM memory_stream ORDER BY live_chunks DESC, external_id"
        )
    return [StreamFacts(**row) for row in rows]


async def read_neo4j(neo4j: Neo4jManager) -> Neo4jFacts:
    """Return the version, the edition, and what is missing of `cypher/schema.cypher`."""

    async def look(db: CypherExecutor) -> tuple[Row | None, list[Row], list[Row]]:
        return (
            await db.fetch_one(
                "CALL dbms.components() YIELD name, versions, edition RETURN versions[0] AS version, edition"
            ),
            await db.fetch_all("SHOW CONSTRAINTS YIELD name"),
            await db.fetch_all("SHOW INDEXES YIELD name"),
        )

    server, constraints, indexes = await neo4j.read(look)
    assert server is not None
    there = {row["name"] for row in (*constraints, *indexes)}
    schema = (statement_folder("cypher") / "schema.cypher").read_text(encoding="utf-8")
    wanted = re.findall(r"^CREATE (?:CONSTRAINT|INDEX) (\w+)", schema, re.MULTILINE)
    return Neo4jFacts(server["version"], server["edition"], tuple(name for name in wanted if name not in there))


async def count_workers(store: PostgresManager, *, silence_seconds: float) -> int:
    """Count workers that have sent a heartbeat within `silence_seconds`."""
    async with store.transaction("", role=WORKER_ROLE, read_only=True) as db:
        row = await db.fetch_one(_WORKERS, {"silence": silence_seconds})
    return 0 if row is None else int(row["workers"])


_WORKERS = """
SELECT count(*) AS workers
FROM reminiscence_jobs.procrastinate_workers
WHERE last_heartbeat > clock_timestamp() - make_interval(secs => $(silence)p::float8)
"""
