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
from agent_reminiscence.database.queries import load_queries, statement_folder
from agent_reminiscence.database.repositories.graph.progress import graph_lag

_SQL = load_queries("sql", "inspection")
_CYPHER = load_queries("cypher", "inspection")

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
class ChecksumFacts:
    """The checksums of the pages of this database.

    Attributes:
        failures: How often a page that was read did not match, since the statistics were reset, as after a crash.
    """

    are_on: bool
    failures: int
    last_failure: datetime | None


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
    """One stream as the scheduler sees it.

    Attributes:
        last_recorded_at: None for a stream without an event.
    """

    external_id: str
    live_chunks: int
    last_recorded_at: datetime | None
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
    rows = await db.fetch_all(_SQL["read_server"])
    return ServerFacts(**rows[0])


async def read_extensions(db: SqlExecutor) -> list[ExtensionFacts]:
    """Return the extensions that the schema needs."""
    rows = await db.fetch_all(_SQL["list_extensions"], {"names": list(EXTENSIONS)})
    return [ExtensionFacts(**row) for row in rows]


async def read_checksums(db: SqlExecutor) -> ChecksumFacts:
    """Return whether pages have checksums, and how often one failed."""
    rows = await db.fetch_all(_SQL["read_checksums"])
    return ChecksumFacts(**rows[0])


async def read_login(db: SqlExecutor) -> LoginFacts:
    """Return the login of this connection."""
    rows = await db.fetch_all(_SQL["read_login"])
    return LoginFacts(**rows[0])


async def read_memberships(db: SqlExecutor) -> list[MembershipFacts]:
    """Return the login's membership in each of our roles, the owner last."""
    rows = await db.fetch_all(_SQL["list_memberships"], {"names": [*ROLES, OWNER_ROLE]})
    return [MembershipFacts(**row) for row in rows]


async def has_schema(db: SqlExecutor) -> bool:
    """Whether this database has our schema with a record of its migrations."""
    row = await db.fetch_one(_SQL["find_schema"], {"schema": SCHEMA_NAME})
    return row is not None and bool(row["found"])


async def read_unprotected_tables(db: SqlExecutor) -> list[str]:
    """Return tables of our schema that hold memory without forced row level security; there should be none."""
    rows = await db.fetch_all(_SQL["list_unprotected_tables"], {"schema": SCHEMA_NAME})
    return [row["name"] for row in rows]


async def read_streams(store: PostgresManager) -> list[StreamFacts]:
    """Return all streams, those with most chunks first."""
    async with store.transaction("", role=SCHEDULER_ROLE, read_only=True) as db:
        rows = await db.fetch_all(_SQL["list_streams"])
    return [StreamFacts(**row) for row in rows]


async def read_neo4j(neo4j: Neo4jManager) -> Neo4jFacts:
    """Return the version, the edition, and what is missing of `cypher/schema.cypher`."""

    async def look(db: CypherExecutor) -> tuple[Row | None, list[Row], list[Row]]:
        return (
            await db.fetch_one(_CYPHER["read_server"]),
            await db.fetch_all(_CYPHER["list_constraints"]),
            await db.fetch_all(_CYPHER["list_indexes"]),
        )

    server, constraints, indexes = await neo4j.read(look)
    assert server is not None
    # An index may have a constraint's name, where the creation of the constraint broke off.
    there = {("CONSTRAINT", row["name"]) for row in constraints} | {("INDEX", row["name"]) for row in indexes}
    schema = (statement_folder("cypher") / "schema.cypher").read_text(encoding="utf-8")
    wanted = re.findall(r"^CREATE (CONSTRAINT|INDEX) (\w+)", schema, re.MULTILINE)
    missing = tuple(name for kind, name in wanted if (kind, name) not in there)
    return Neo4jFacts(server["version"], server["edition"], missing)


async def count_workers(store: PostgresManager, *, silence_seconds: float) -> int:
    """Count workers that have sent a heartbeat within `silence_seconds`."""
    async with store.transaction("", role=WORKER_ROLE, read_only=True) as db:
        row = await db.fetch_one(_SQL["count_workers"], {"silence": silence_seconds})
    return 0 if row is None else int(row["workers"])
