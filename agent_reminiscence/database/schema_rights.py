"""Finds a schema that was restored without its roles: a dump holds none, since roles belong to the whole server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from agent_reminiscence.config.constants import (
    APP_ROLE,
    ERASER_ROLE,
    OWNER_ROLE,
    SCHEDULER_ROLE,
    SCHEMA_NAME,
    WORKER_ROLE,
)
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.exceptions import ConfigurationError

_SQL = load_queries("sql", "schema_rights")

_SCHEMAS: Final = (SCHEMA_NAME, f"{SCHEMA_NAME}_jobs")
_ROLES: Final = (OWNER_ROLE, APP_ROLE, SCHEDULER_ROLE, WORKER_ROLE, ERASER_ROLE)
# The keys of the server, of which no role but the owner reads a row.
_PRIVATE: Final = ("access_key",)

RESTORE_WITH_ROLES: Final = (
    "create the roles on this server (`pg_dumpall --roles-only` writes them on the old one), empty the database and"
    " restore the dump again; or restore a file of `agent-reminiscence backup`, which needs no roles."
    " docs/guide/backup.md has the commands"
)


@dataclass(frozen=True, slots=True)
class SchemaRights:
    """What our schemas lack of owners, policies and grants.

    Attributes:
        has_schema: Whether there is anything to lack them.
        has_rights: Whether the schema and its first table have owner and grants; the counts then say nothing.
        strangers: How many schemas, tables, views, sequences and functions do not belong to the owner role.
        stranger: Whom such a one belongs to.
        without_policy: How many tables with row level security have no policy, so that nobody sees a row.
        without_grants: How many tables and views no role may use.
    """

    has_schema: bool
    has_rights: bool
    missing_roles: list[str]
    strangers: int
    stranger: str | None
    without_policy: int
    without_grants: int

    @property
    def complaint(self) -> str | None:
        """In words, what is missing; None if nothing is."""
        if not self.has_schema or (self.has_rights and not self.without_policy):
            return None
        found: list[str] = []
        if self.missing_roles and self.strangers:
            found.append(f"the roles {', '.join(self.missing_roles)} do not exist on this server")
        if self.strangers:
            found.append(
                f"{self.strangers:,} schemas, tables and functions belong to {self.stranger!r} instead of {OWNER_ROLE}"
            )
        if self.without_policy:
            found.append(f"{self.without_policy:,} tables have no policy, so that nobody sees a row")
        if self.without_grants:
            found.append(f"{self.without_grants:,} tables and views have no grant")
        return "; ".join(found) or None


async def read_rights(db: SqlExecutor) -> SchemaRights:
    """Read from the catalogs what our schemas lack; any login may."""
    names = {
        "schemas": list(_SCHEMAS),
        "schema": SCHEMA_NAME,
        "roles": list(_ROLES),
        "owner": OWNER_ROLE,
        "private": list(_PRIVATE),
    }
    rows = await db.fetch_all(_SQL["describe_rights"], names)
    return SchemaRights(**rows[0])


async def check_rights(db: SqlExecutor, database: str) -> None:
    """Refuse a schema that was restored without its roles.

    Nothing of it is repaired: which policy and which grant a table lacks is known only to the scripts that create it.

    Raises:
        ConfigurationError: Something is missing; the message counts it and names the way out.
    """
    complaint = (await read_rights(db)).complaint
    if complaint is not None:
        raise ConfigurationError(
            f"the schema of database {database!r} was restored without its roles: {complaint}. Nothing was changed."
            f" {RESTORE_WITH_ROLES[0].upper()}{RESTORE_WITH_ROLES[1:]}"
        )
