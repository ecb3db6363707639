"""The registry of columns where memory text can be, held against the schema: an erasure must know all of them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator

import pytest

from agent_reminiscence.config.constants import OWNER_ROLE, SCHEMA_NAME
from agent_reminiscence.database.connection import Row, SqlExecutor
from agent_reminiscence.database.schema import JOBS_SCHEMA_NAME
from agent_reminiscence.database.text_columns import (
    CELL_TABLE,
    NORMS_TABLE,
    TEXT_COLUMNS,
    VECTOR_TABLE,
    Holds,
    scanned_columns,
)
from tests.conftest import TestServer
from tests.support.factories import superuser

# Types that can hold no text and nothing made of it. Whatever is not among them can, as far as this test knows.
_TYPES_WITHOUT_TEXT = {
    "bigint",
    "boolean",
    "date",
    "double precision",
    "integer",
    "real",
    "smallint",
    "timestamp with time zone",
    "uuid",
}

# Partitions store what their parents stand for, and a plain view stores nothing; a materialized one does.
_STORED_COLUMNS = """
SELECT n.nspname::text AS schema, c.relname::text AS table, a.attname::text AS column,
    format_type(a.atttypid, NULL) AS type
FROM pg_attribute AS a
JOIN pg_class AS c ON c.oid = a.attrelid
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'm', 'f') AND NOT c.relispartition AND c.relpersistence <> 't'
    AND a.attnum > 0 AND NOT a.attisdropped
    AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
    AND NOT EXISTS (
        SELECT FROM pg_depend AS d
        WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'
    )
ORDER BY 1, 2, a.attnum
"""


@pytest.fixture(scope="module")
def database(test_server: TestServer) -> Iterator[str]:
    """One database for this module; a test takes back what it changes."""
    name = asyncio.run(test_server.create_database())
    yield name
    asyncio.run(test_server.drop_database(name))


async def _stored_columns(db: SqlExecutor) -> list[Row]:
    return await db.fetch_all(_STORED_COLUMNS)


def _could_hold_text(column: Row) -> bool:
    return column["type"].removesuffix("[]") not in _TYPES_WITHOUT_TEXT


def _table_and_column(column: Row) -> tuple[str, str]:
    """How the registry spells a column; tables of a generation of vectors stand there without its number."""
    return re.sub(rf"^({VECTOR_TABLE}|{NORMS_TABLE}|{CELL_TABLE})_\d+$", r"\1", column["table"]), column["column"]


async def _unnamed(db: SqlExecutor) -> set[tuple[str, str]]:
    """Columns that could hold text and that the registry does not name."""
    found = {_table_and_column(column) for column in await _stored_columns(db) if _could_hold_text(column)}
    return found - {(column.table, column.name) for column in TEXT_COLUMNS}


async def test_every_column_that_could_hold_text_is_in_the_registry(test_server: TestServer, database: str) -> None:
    """Whoever adds a column says in the registry what it holds, and so whether an erasure has to reach it."""
    async with superuser(test_server, database) as db:
        assert await _unnamed(db) == set()


async def test_the_registry_names_nothing_that_is_not_there(test_server: TestServer, database: str) -> None:
    """A column that is gone, or that can hold no text, would make a scan look longer than it is."""
    async with superuser(test_server, database) as db:
        found = {_table_and_column(column) for column in await _stored_columns(db) if _could_hold_text(column)}

    assert {(column.table, column.name) for column in TEXT_COLUMNS} - found == set()
    assert len({(column.table, column.name) for column in TEXT_COLUMNS}) == len(TEXT_COLUMNS)


async def test_the_registry_knows_what_is_json(test_server: TestServer, database: str) -> None:
    """JSON spells quotes and line breaks in its own way, so a scan looks for another spelling there."""
    async with superuser(test_server, database) as db:
        types = {_table_and_column(column): column["type"] for column in await _stored_columns(db)}

    for column in TEXT_COLUMNS:
        assert column.is_json == (types[column.table, column.name] in {"json", "jsonb"}), column


async def test_everything_is_stored_in_two_schemas(test_server: TestServer, database: str) -> None:
    """Ours and the work queue's. The registry names tables without a schema, so no name is in both."""
    async with superuser(test_server, database) as db:
        schemas = {column["table"]: column["schema"] for column in await _stored_columns(db)}
        pairs = {(column["schema"], column["table"]) for column in await _stored_columns(db)}

    assert set(schemas.values()) == {SCHEMA_NAME, JOBS_SCHEMA_NAME}
    assert len(schemas) == len(pairs)


async def test_the_work_queue_holds_labels_only(test_server: TestServer, database: str) -> None:
    """An erasure does not look there and has no right to, so nothing that a memory says may be put there.

    What is put there is shown in `test_work_queue.py`; what a later version of Procrastinate adds has to be named.
    """
    async with superuser(test_server, database) as db:
        queue = {column["table"] for column in await _stored_columns(db) if column["schema"] == JOBS_SCHEMA_NAME}

    assert {column.holds for column in TEXT_COLUMNS if column.table in queue} == {Holds.LABEL}
    assert queue.isdisjoint(scanned_columns())


@pytest.mark.parametrize(
    "kind",
    [
        "text",
        "varchar(20)",
        "char(20)",
        "name",
        "text[]",
        "json",
        "jsonb",
        "jsonb[]",
        "bytea",
        "bytea[]",
        "xml",
        "tsvector",
        "bit varying",
        "numeric",
        "memory_note",
        "memory_word",
        "public.halfvec(4)",
        "public.vector(4)",
        "public.sparsevec(4)",
        "public.halfvec(4)[]",
    ],
)
async def test_a_new_column_that_could_hold_text_has_to_be_named(
    test_server: TestServer, database: str, kind: str
) -> None:
    """The test above fails for it, whatever its type, until the registry says what it holds."""
    async with superuser(test_server, database) as db:
        await db.execute_script(
            f"BEGIN; SET LOCAL ROLE {OWNER_ROLE};"
            "CREATE TYPE memory_note AS (words text); CREATE DOMAIN memory_word AS text;"
            f"ALTER TABLE memory_chunk ADD COLUMN added {kind}"
        )

        assert await _unnamed(db) == {("memory_chunk", "added")}
        await db.execute_script("ROLLBACK")


@pytest.mark.parametrize("kind", ["bigint", "uuid[]", "timestamptz", "timestamptz[]", "boolean", "float8"])
async def test_a_new_column_that_can_hold_no_text_need_not_be_named(
    test_server: TestServer, database: str, kind: str
) -> None:
    """The control: not every column is in the registry."""
    async with superuser(test_server, database) as db:
        await db.execute_script(f"BEGIN; ALTER TABLE memory_chunk ADD COLUMN added {kind}")

        assert await _unnamed(db) == set()
        await db.execute_script("ROLLBACK")


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("CREATE TABLE letter (external_id text, words text)", {("letter", "external_id"), ("letter", "words")}),
        ("CREATE UNLOGGED TABLE letter (words text)", {("letter", "words")}),
        ("CREATE MATERIALIZED VIEW titles AS SELECT title FROM active_memory", {("titles", "title")}),
        ("CREATE TABLE public.letter (words text)", {("letter", "words")}),
        ("CREATE TABLE reminiscence_jobs.results (result jsonb)", {("results", "result")}),
        ("ALTER TABLE reminiscence_jobs.procrastinate_jobs ADD COLUMN error text", {("procrastinate_jobs", "error")}),
        ("CREATE VIEW titles AS SELECT title FROM active_memory", set()),
        ("CREATE TEMPORARY TABLE titles (title text)", set()),
        ("CREATE TABLE chunk_vector_2 (LIKE chunk_vector_1)", set()),
        ("CREATE TABLE chunk_vector_2 (LIKE chunk_vector_1, words text)", {(VECTOR_TABLE, "words")}),
        ("SELECT create_chunk_vectors(2, 8)", set()),
        ("CREATE TABLE chunk_norms_2 (LIKE chunk_norms_1, words text)", {(NORMS_TABLE, "words")}),
        ("CREATE TABLE vector_cell_2 (LIKE vector_cell_1, words text)", {(CELL_TABLE, "words")}),
    ],
)
async def test_a_new_table_that_could_hold_text_has_to_be_named(
    test_server: TestServer, database: str, script: str, expected: set[tuple[str, str]]
) -> None:
    """Whatever stores something of its own; another generation of vectors is known already."""
    async with superuser(test_server, database) as db:
        await db.execute_script(f"BEGIN; {script}")

        assert await _unnamed(db) == expected
        await db.execute_script("ROLLBACK")
