"""Ways to change what is stored by hand, and back: a superuser on a database with filled tenants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.database.connection import Row, SqlExecutor
from agent_reminiscence.domain.audit import StreamReport
from tests.conftest import TEST_DIMENSION, TestServer, dsn
from tests.support.factories import stored_rows

# Each table with the columns that name a row within its stream.
PROJECTED: Mapping[str, tuple[str, ...]] = {
    "active_memory": ("memory_id",),
    "memory_segment": ("memory_id", "segment"),
    "memory_turn": ("memory_id", "scope", "turn_id"),
    "shortterm_memory": ("memory_id",),
    "memory_chunk": ("chunk_id",),
    "memory_heading": ("number",),
    "posting": ("term", "block"),
    "memory_layout": ("memory_id", "segment"),
    "memory_attribute": ("item_id", "path", "value"),
    "chunk_vector_1": ("number",),
    "chunk_norms_1": ("memory_id", "segment"),
    "entity": ("entity_id",),
    "entity_name": ("entity_id", "key"),
    "relationship": ("relationship_id",),
    "graph_mention": ("item_id", "chunk_id"),
    "belief": ("position",),
    "profile": ("position",),
    "recalled_chunk": ("chunk_id", "run_id"),
    "outdated_chunk": ("chunk_id", "position", "part"),
    "event_index": ("position",),
    "event_posting": ("term", "block"),
}

# Far from every number, position and block that a test has, and short of what the index keeps for a next event.
_FAR = 500_000

# The smallest change that a value of each type can have, but for numbers, of which the next one may be taken. A column
# of another type fails until its type is here.
_OTHER_VALUES = {
    "bigint": f"coalesce({{0}}, 0) + {_FAR}",
    "boolean": "NOT coalesce({0}, false)",
    "bytea": r"coalesce({0}, '') || '\x00'",
    "date": "coalesce({0}, '2020-02-02') + 1",
    "double precision": "coalesce({0}, 0.5) + 1e-12",
    "halfvec": "{0} + {0}",
    "integer": "coalesce({0}, 0) + 1",
    "integer[]": "array_append({0}, 1)",
    "jsonb": """{0} || '{{"!": 1}}'""",
    "real": "{0} + 1",
    "smallint": "{0} + 1",
    "text": "coalesce({0}, '') || '!'",
    "text[]": "array_append({0}, '!')",
    "timestamp with time zone": "coalesce({0}, '2020-02-02') + interval '1 microsecond'",
    "timestamp with time zone[]": "array_append({0}, '2020-02-02')",
    "uuid": "gen_random_uuid()",
    "uuid[]": "array_append({0}, gen_random_uuid())",
}
# Where a constraint takes only some values, or the next one may be taken.
_OTHER_WORDS = {
    ("memory_chunk", "tier"): "CASE tier WHEN 'active' THEN 'longterm' ELSE 'active' END",
    ("entity", "tier"): "CASE tier WHEN 'shortterm' THEN 'longterm' ELSE 'shortterm' END",
    ("relationship", "tier"): "CASE tier WHEN 'shortterm' THEN 'longterm' ELSE 'shortterm' END",
    ("active_memory", "language_origin"): "CASE language_origin WHEN 'chosen' THEN 'default' ELSE 'chosen' END",
    ("memory_segment", "segment"): f"segment + {_FAR}",
    ("memory_layout", "segment"): f"segment - {_FAR}",
    ("chunk_norms_1", "segment"): f"segment - {_FAR}",
    ("profile", "refresh"): "CASE refresh WHEN 'daily' THEN 'consolidation' ELSE 'daily' END",
    ("profile", "made_by"): "CASE made_by WHEN 'model' THEN 'extractive' ELSE 'model' END",
    ("memory_event", "source"): "CASE source WHEN 'user' THEN 'model' ELSE 'user' END",
}


def row_key(table: str) -> str:
    """An SQL expression that names a row within its stream."""
    return f"concat_ws('/', {', '.join(PROJECTED.get(table, ('position',)))})"


def key_parts(table: str, key: str) -> list[str]:
    """What each of the table's key columns holds, as text; only names and terms may hold a slash themselves."""
    columns = PROJECTED[table]
    return (
        key.rsplit("/", len(columns) - 1) if table in ("posting", "event_posting") else key.split("/", len(columns) - 1)
    )


def shown_key(table: str, key: str) -> str:
    """How a report names the row: names, terms and ids of turns are memory text, so it says only whose they are."""
    match table:
        case "entity_name" | "memory_turn" | "memory_attribute" | "recalled_chunk":
            return key_parts(table, key)[0]
        case "posting" | "event_posting":
            return key_parts(table, key)[1]
        case _:
            return key


@dataclass(frozen=True, slots=True)
class Column:
    """A column as the catalog lists it."""

    table: str
    name: str
    type: str
    is_nullable: bool

    @property
    def other_value(self) -> str:
        """An SQL expression that is never what the column holds."""
        return _OTHER_WORDS.get((self.table, self.name), _OTHER_VALUES[self.type].format(self.name))

    @property
    def unused_value(self) -> str:
        """An SQL expression for what no other row of the table holds, of a column that is a key."""
        return "gen_random_uuid()" if self.type == "uuid" else self.other_value


async def columns(db: SqlExecutor, table: str) -> list[Column]:
    """Every column that can be written, taken from the catalog, so that a new one is tried without naming it here."""
    rows = await db.fetch_all(
        "SELECT attname::text AS name, format_type(atttypid, NULL) AS type, NOT attnotnull AS is_nullable"
        " FROM pg_attribute WHERE attrelid = $(table)p::text::regclass AND attnum > 0 AND NOT attisdropped"
        " AND attgenerated = '' ORDER BY attnum",
        {"table": table},
    )
    return [Column(table, row["name"], row["type"], row["is_nullable"]) for row in rows]


def config(server: TestServer, database: str) -> Config:
    """Of a memory on a test's database."""
    settings: dict[str, Any] = {
        "postgres_dsn": dsn(server.login(database)),
        "embedding_provider": "hash",
        "embedding_dimension": TEST_DIMENSION,
        "worker": False,
    }
    return Config(**settings)


@dataclass(frozen=True, slots=True)
class Scene:
    """A filled database, a memory on it, and somebody who may change anything."""

    memory: AgentMem
    db: SqlExecutor
    external_id: str

    async def verify(self, external_id: str | None = None) -> StreamReport:
        """What `verify` finds; that it changes nothing is part of every test."""
        # Otherwise the uses of an earlier search might be written between the two looks.
        await self.memory._ready().uses.write()
        before = await stored_rows(self.db)
        [report] = (await self.memory.admin.verify(external_id or self.external_id)).streams
        assert await stored_rows(self.db) == before
        return report

    async def mend(self, external_id: str | None = None, *, by_rebuild: bool) -> StreamReport:
        """What `rebuild` makes of it, or `verify` told to repair."""
        tenant = external_id or self.external_id
        if by_rebuild:
            [report] = (await self.memory.admin.rebuild(tenant)).streams
        else:
            [report] = (await self.memory.admin.verify(tenant, repair=True)).streams
        return report

    async def update(self, table: str, assignment: str, key: str | int, **params: Any) -> list[Row]:
        """Change one row of the tenant by hand; returns its key afterwards."""
        name = row_key(table)
        return await self.db.fetch_all(
            f"UPDATE {table} SET {assignment}"  # noqa: S608
            f" WHERE external_id = $(tenant)p AND {name} = $(key)p RETURNING {name} AS key",
            {"tenant": self.external_id, "key": str(key)} | params,
        )
