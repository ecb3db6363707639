"""The schema is made once, by whoever may, in one of three ways that give the same; what does not fit is refused."""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from pydantic import SecretStr

from agent_reminiscence import AgentMem, Config, ConfigurationError
from agent_reminiscence.config import constants
from agent_reminiscence.config.constants import APP_ROLE, EMBEDDED_DATABASE, EMBEDDED_LOGIN, OWNER_ROLE, WORKER_ROLE
from agent_reminiscence.database import jobs_schema, queries
from agent_reminiscence.database.connection import ConnectionSettings, SqlExecutor, open_connection
from agent_reminiscence.database.embedded import EmbeddedPostgres, find_programs, server_binaries
from agent_reminiscence.database.migrations import SchemaParameters, migrations, render
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.schema import (
    JOBS_SCHEMA_NAME,
    bootstrap_script,
    installation_script,
    migrate,
    prepare_embedded,
)
from agent_reminiscence.database.schema_checks import SchemaState, check_version, open_checked
from agent_reminiscence.database.text_columns import CELL_TABLE, NORMS_TABLE, TEXT_COLUMNS, VECTOR_TABLE, Holds
from agent_reminiscence.embedders.hashing import HashEmbedder
from agent_reminiscence.exceptions import StoreError
from agent_reminiscence.services.upkeep.doctor import diagnose
from tests.conftest import TEST_DIMENSION, TEST_PARTITIONS, TestServer, dsn
from tests.support.factories import fill_tenant, stored_rows, superuser

_PARAMETERS = SchemaParameters(2, 16, "hash-16")
# The number of the migration that comes next.
_NEXT = len(migrations()) + 1
# An older release of Procrastinate, by the last migration of its tables.
_OLDER_JOBS = "03.00.00_50_post_cancel_notification.sql"

NewDatabase = Callable[[], Awaitable[str]]


@pytest.fixture
async def new_database(test_server: TestServer) -> AsyncIterator[NewDatabase]:
    """Makes empty databases, which end with the test."""
    names: list[str] = []

    async def make() -> str:
        names.append(await test_server.create_empty_database())
        return names[-1]

    yield make
    for name in names:
        await test_server.drop_database(name)


@pytest.fixture(scope="module")
def made_database(test_server: TestServer) -> Iterator[str]:
    """A database with the schema, for tests that leave it as it is."""
    name = asyncio.run(test_server.create_database())
    yield name
    asyncio.run(test_server.drop_database(name))


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """A later release: the SQL files of this one, and what is added to its migrations by name and script."""
    shutil.copytree(queries.statement_folder("sql"), tmp_path / "sql")
    monkeypatch.setattr(queries, "_PACKAGE", tmp_path)

    def add(name: str, script: str) -> None:
        (tmp_path / "sql" / "migrations" / name).write_text(script, encoding="utf-8")

    return add


@pytest.fixture
def later_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """A later Procrastinate: the migrations of the installed one, and what is added to them by name and script."""
    folder = tmp_path / "procrastinate"
    shutil.copytree(jobs_schema._folder(), folder)
    monkeypatch.setattr(jobs_schema, "_folder", lambda: folder)

    def add(name: str, script: str) -> None:
        (folder / "migrations" / name).write_text(script, encoding="utf-8")

    return add


@asynccontextmanager
async def _login(server: TestServer, options: str) -> AsyncIterator[str]:
    """A login of its own on the whole server, made by the script `options`, in which {name} stands for it."""
    name = "somebody"
    async with superuser(server, "postgres") as db:
        await db.execute_script(options.format(name=name))
        try:
            yield name
        finally:
            await db.execute_script(f"DROP ROLE {name}")


def _connection(server: TestServer, user: str, database: str) -> ConnectionSettings:
    return ConnectionSettings(server.address.host, server.address.port, user, database)


def _dump(server: TestServer, database: str) -> str:
    """The schema as `pg_dump` writes it, with owners, rights, policies, storage and index options."""
    settings = server.administrator(database)
    done = subprocess.run(
        [
            server_binaries() / "pg_dump",
            f"--host={settings.host}",
            f"--port={settings.port}",
            f"--username={settings.user}",
            "--schema-only",
            database,
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    # A random word around the script that tells psql where it ends.
    return "\n".join(line for line in done.stdout.splitlines() if not line.startswith(("\\restrict", "\\unrestrict")))


def _in_any_order(dump: str) -> list[str]:
    """The lines of a dump: a column that was added later stands at the end of its table."""
    return sorted(line.rstrip(",") for line in dump.splitlines())


async def _jobs_version(db: SqlExecutor) -> str:
    row = await db.fetch_one("SELECT value FROM schema_parameter WHERE name = 'procrastinate_schema'")
    assert row is not None
    return str(row["value"])


async def _state(server: TestServer, database: str, user: str = EMBEDDED_LOGIN) -> SchemaState:
    """What the application role reads of the schema."""
    store = PostgresManager(
        _connection(server, user, database), pool_size=1, pool_timeout_seconds=10, statement_timeout_seconds=30
    )
    await store.initialize()
    try:
        async with store.transaction("", read_only=True) as db:
            return await check_version(db)
    finally:
        await store.close()


# Made in three ways -----------------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("dimension", [64, 1536])
async def test_the_migrations_in_order_give_the_schema(
    test_server: TestServer, new_database: NewDatabase, partitions: int, dimension: int
) -> None:
    """A database that was migrated step by step is the same as one made today."""
    parameters = SchemaParameters(partitions, dimension, "any")
    at_once, in_steps = await new_database(), await new_database()

    await migrate(test_server.administrator(at_once), login=EMBEDDED_LOGIN, parameters=parameters)
    async with superuser(test_server, in_steps) as db:
        await db.execute_script(bootstrap_script(EMBEDDED_LOGIN))
        await db.execute_script(f"SET ROLE {OWNER_ROLE}")
        for migration in migrations():
            await db.execute_script(render(migration.script, parameters))

    made = _dump(test_server, at_once)
    assert made == _dump(test_server, in_steps)
    assert made.count("PARTITION OF") + made.count("ATTACH PARTITION reminiscence.memory_chunk_p") >= partitions
    assert f"halfvec({dimension})" in made


@pytest.mark.parametrize(("dimension", "storage"), [(1024, "p"), (1025, "e")])
async def test_vectors_lie_in_the_row_where_three_of_them_fit(
    test_server: TestServer, new_database: NewDatabase, dimension: int, storage: str
) -> None:
    """PLAIN up to 1,024 dimensions, EXTERNAL above, in every partition; a row of such vectors can be stored."""
    name = await new_database()
    await migrate(
        test_server.administrator(name),
        login=EMBEDDED_LOGIN,
        parameters=SchemaParameters(2, dimension, f"hash-{dimension}"),
    )

    async with superuser(test_server, name) as db:
        rows = await db.fetch_all(
            "SELECT c.relname::text AS table, a.attstorage::text AS storage FROM pg_attribute AS a"
            " JOIN pg_class AS c ON c.oid = a.attrelid"
            " WHERE c.relname ~ '^(chunk_vector|vector_cell)_1(_p[0-9]+)?$' AND c.relkind IN ('r', 'p')"
            " AND a.attname = 'vector' ORDER BY 1"
        )
    settings: dict[str, object] = {
        "postgres_dsn": dsn(test_server.login(name)),
        "embedding_provider": "hash",
        "embedding_dimension": dimension,
    }
    async with AgentMem(Config(**settings)) as memory:
        note = await memory.create_active_memory("agent-1", "Plan", "Ship on Friday")

    tables = [
        f"{table}{partition}" for table in ("chunk_vector_1", "vector_cell_1") for partition in ("", "_p0", "_p1")
    ]
    assert rows == [{"table": table, "storage": storage} for table in tables]
    assert note.write is not None
    assert note.write.vectors_missing == 0


async def test_every_generation_of_vectors_has_tables_like_the_first_ones(
    test_server: TestServer, new_database: NewDatabase
) -> None:
    """Columns, keys, storage, indexes, policies, rights and what is not sampled: all but the name and the dimension."""
    name = await new_database()
    await migrate(test_server.administrator(name), login=EMBEDDED_LOGIN, parameters=_PARAMETERS)
    async with superuser(test_server, name) as db:
        await db.execute_script(f"SET ROLE {OWNER_ROLE}; SELECT create_chunk_vectors(2, 24)")

    dump = _dump(test_server, name).splitlines()
    for table in ("chunk_vector", "chunk_norms", "vector_cell"):
        first, second = (
            [line.replace(f"{table}_{number}", table) for line in _about(dump, f"{table}_{number}")]
            for number in (1, 2)
        )
        assert [line.replace("halfvec(24)", "halfvec(16)") for line in second] == first
        for part in ("CREATE TABLE", "PRIMARY KEY", "CREATE POLICY", "FORCE ROW LEVEL SECURITY", "SET STATISTICS 0"):
            assert any(part in statement for statement in first), (table, part)


async def test_what_is_made_of_texts_is_sampled_in_no_table_and_no_partition(
    test_server: TestServer, new_database: NewDatabase
) -> None:
    """The planner keeps samples of columns in the clear, and an erasure does not reach them."""
    name = await new_database()
    await migrate(test_server.administrator(name), login=EMBEDDED_LOGIN, parameters=_PARAMETERS)
    async with superuser(test_server, name) as db:
        rows = await db.fetch_all(
            "SELECT c.relname::text AS table, a.attname::text AS column FROM pg_attribute AS a"
            " JOIN pg_class AS c ON c.oid = a.attrelid"
            " WHERE c.relnamespace = 'reminiscence'::regnamespace AND c.relkind IN ('r', 'p')"
            " AND a.attstattarget = 0"
        )

    held = {
        (re.sub(rf"^({VECTOR_TABLE}|{NORMS_TABLE}|{CELL_TABLE})$", r"\1_1", column.table), column.name)
        for column in TEXT_COLUMNS
        if column.holds in {Holds.TEXT, Holds.DERIVED}
    }
    assert held >= {
        ("posting", "term"),
        ("posting", "entries"),
        ("memory_layout", "entries"),
        ("chunk_norms_1", "norms"),
    }
    found = {(row["table"], row["column"]) for row in rows}
    for table, column in held:
        assert {(table, column), (f"{table}_p0", column), (f"{table}_p1", column)} <= found, (table, column)


async def test_the_schema_needs_no_extension_but_pgvector(test_server: TestServer, new_database: NewDatabase) -> None:
    """A server of the user's own has to offer nothing else."""
    name = await new_database()
    await migrate(test_server.administrator(name), login=EMBEDDED_LOGIN, parameters=_PARAMETERS)

    async with superuser(test_server, name) as db:
        rows = await db.fetch_all("SELECT extname::text AS name FROM pg_extension ORDER BY 1")

    assert [row["name"] for row in rows] == ["plpgsql", "vector"]


def _about(dump: list[str], table: str) -> list[str]:
    """The statements of a dump that name a table or one of its partitions."""
    statements = [part.strip() for part in "\n".join(dump).split(";\n")]
    return [statement for statement in statements if re.search(rf"\b{table}(_|\b)", statement)]


@pytest.mark.thorough
async def test_the_script_for_an_administrator_does_the_whole_installation(
    test_server: TestServer, new_database: NewDatabase
) -> None:
    """It makes what `migrate` makes, and records it, so that `migrate` finds nothing left to do."""
    by_hand, by_us = await new_database(), await new_database()
    await migrate(test_server.administrator(by_us), login=EMBEDDED_LOGIN, parameters=_PARAMETERS)

    async with superuser(test_server, by_hand) as db:
        await db.execute_script(installation_script(EMBEDDED_LOGIN, _PARAMETERS))

    made = _dump(test_server, by_hand)
    assert made == _dump(test_server, by_us)
    assert f"CREATE TABLE {JOBS_SCHEMA_NAME}.procrastinate_jobs" in made
    async with superuser(test_server, by_hand) as db:
        assert await _jobs_version(db) == jobs_schema.current_version()
    (await open_checked(test_server.login(by_hand))).close()
    assert await _state(test_server, by_hand) == SchemaState(2, 1, "hash-16", 16)
    applied = await migrate(test_server.administrator(by_hand), login=EMBEDDED_LOGIN, parameters=_PARAMETERS)
    assert applied == []


async def test_a_models_name_with_a_quote_is_only_a_name(test_server: TestServer, new_database: NewDatabase) -> None:
    """Names come from users; the scripts quote them."""
    name = await new_database()
    parameters = SchemaParameters(1, 16, "it's; DROP TABLE memory_event")

    async with _login(test_server, 'CREATE ROLE {name} LOGIN; ALTER ROLE {name} RENAME TO "some ""body"""'):
        try:
            await migrate(test_server.administrator(name), login='some "body"', parameters=parameters)
            (await open_checked(_connection(test_server, 'some "body"', name))).close()
            assert (await _state(test_server, name, 'some "body"')).model_name == parameters.model_name
        finally:
            async with superuser(test_server, "postgres") as db:
                await db.execute_script('ALTER ROLE "some ""body""" RENAME TO somebody')


# Migrating ------------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
async def test_migrating_again_changes_nothing_and_keeps_every_row(
    test_server: TestServer, memory: AgentMem, database: str
) -> None:
    """`migrate` may run at every deployment."""
    await fill_tenant(memory, "agent-1")
    async with superuser(test_server, database) as db:
        rows = await stored_rows(db)
    schema = _dump(test_server, database)

    applied = await migrate(test_server.administrator(database), login=EMBEDDED_LOGIN, parameters=_PARAMETERS)

    assert applied == []
    assert _dump(test_server, database) == schema
    async with superuser(test_server, database) as db:
        assert await stored_rows(db) == rows
    assert "spare key" in (await memory.retrieve_memories("agent-1", "spare key")).hits[0].content


async def test_of_several_who_migrate_at_once_one_does_it(test_server: TestServer, new_database: NewDatabase) -> None:
    """Processes that start together wait for each other; the later ones find it done."""
    name = await new_database()

    applied = await asyncio.gather(
        *(migrate(test_server.administrator(name), login=EMBEDDED_LOGIN, parameters=_PARAMETERS) for _ in range(4))
    )

    assert sorted(len(done) for done in applied) == [0, 0, 0, len(migrations())]


@pytest.mark.thorough
async def test_two_databases_of_one_server_are_migrated_at_once(
    test_server: TestServer, new_database: NewDatabase
) -> None:
    """Roles belong to the whole server, so two installations beside each other meet there."""
    names = [await new_database() for _ in range(3)]

    applied = await asyncio.gather(
        *(migrate(test_server.administrator(name), login=EMBEDDED_LOGIN, parameters=_PARAMETERS) for name in names)
    )

    assert [len(done) for done in applied] == [len(migrations())] * 3


@pytest.mark.thorough
async def test_a_migration_changes_a_filled_database(
    test_server: TestServer, memory: AgentMem, database: str, release: Callable[[str, str], None]
) -> None:
    """A data migration takes NO FORCE within its transaction: otherwise the owner sees no row to change."""
    await fill_tenant(memory, "agent-1")
    release(
        f"{_NEXT:04}_shout.sql",
        "ALTER TABLE active_memory ADD COLUMN width integer NOT NULL DEFAULT {{embedding_dimension}};"
        "ALTER TABLE active_memory NO FORCE ROW LEVEL SECURITY;"
        "UPDATE active_memory SET title = upper(title);"
        "ALTER TABLE active_memory FORCE ROW LEVEL SECURITY;",
    )
    with pytest.raises(ConfigurationError, match=rf"is at migration {_NEXT - 1}, this release needs {_NEXT}.*migrate"):
        await _state(test_server, database)

    applied = await migrate(test_server.administrator(database), login=EMBEDDED_LOGIN, parameters=_PARAMETERS)

    assert [migration.name for migration in applied] == ["shout"]
    # As the schema was made, whatever the caller's parameters say now.
    assert await _state(test_server, database) == SchemaState(
        TEST_PARTITIONS, 1, f"hash-{TEST_DIMENSION}", TEST_DIMENSION
    )
    async with superuser(test_server, database) as db:
        rows = await db.fetch_all("SELECT DISTINCT title, width FROM active_memory ORDER BY title")
    assert rows == [
        {"title": title, "width": TEST_DIMENSION} for title in ("CONVERSATION", "DRAFT", "HOUSE", "LOG", "MILL")
    ]


@pytest.mark.thorough
async def test_a_migration_that_fails_leaves_the_database_as_it_was(
    test_server: TestServer, memory: AgentMem, database: str, release: Callable[[str, str], None]
) -> None:
    """All pending migrations and the bootstrap are one transaction; mended, they are applied."""
    await fill_tenant(memory, "agent-1")
    async with superuser(test_server, database) as db:
        rows = await stored_rows(db)
    schema = _dump(test_server, database)
    release(f"{_NEXT:04}_first.sql", "ALTER TABLE active_memory ADD COLUMN first text;")
    release(f"{_NEXT + 1:04}_second.sql", "UPDATE schema_parameter SET value = '0'; SELECT 1 / 0;")

    with pytest.raises(StoreError, match="division by zero"):
        await migrate(test_server.administrator(database), login=EMBEDDED_LOGIN, parameters=_PARAMETERS)

    assert _dump(test_server, database) == schema
    async with superuser(test_server, database) as db:
        assert await stored_rows(db) == rows
    release(f"{_NEXT + 1:04}_second.sql", "SELECT 1;")
    applied = await migrate(test_server.administrator(database), login=EMBEDDED_LOGIN, parameters=_PARAMETERS)
    assert [migration.version for migration in applied] == [_NEXT, _NEXT + 1]


async def test_a_first_installation_that_fails_leaves_an_empty_database(
    test_server: TestServer, new_database: NewDatabase
) -> None:
    """More dimensions than a vector can have: the server refuses, and nothing of the schema is there."""
    name = await new_database()
    empty = _dump(test_server, name)

    with pytest.raises(StoreError, match="cannot exceed 16000"):
        await migrate(
            test_server.administrator(name), login=EMBEDDED_LOGIN, parameters=SchemaParameters(1, 16_001, "any")
        )

    assert _dump(test_server, name) == empty


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            r"UPDATE schema_migration SET checksum = '\x00' WHERE version = 1",
            "0001_initial was applied with other contents.*install the release",
        ),
        (
            rf"INSERT INTO schema_migration (version, name, checksum) VALUES ({_NEXT}, 'later', '\x00')",  # noqa: S608
            f"is at migration {_NEXT}, newer than this release.*update agent-reminiscence",
        ),
    ],
    ids=["other contents", "newer"],
)
async def test_a_schema_of_another_release_is_refused(
    test_server: TestServer, made_database: str, change: str, message: str
) -> None:
    """Neither `migrate` nor the library goes on with rows whose shape it does not know."""
    async with superuser(test_server, made_database) as db:
        await db.execute_script(f"CREATE TABLE kept AS TABLE schema_migration; {change}")
        try:
            for attempt in (_state(test_server, made_database), _migrate(test_server, made_database)):
                with pytest.raises(ConfigurationError, match=message):
                    await attempt
        finally:
            await db.execute_script(
                "DELETE FROM schema_migration; INSERT INTO schema_migration TABLE kept; DROP TABLE kept"
            )


async def _migrate(server: TestServer, database: str) -> object:
    return await migrate(server.administrator(database), login=EMBEDDED_LOGIN, parameters=_PARAMETERS)


# Procrastinate's tables -----------------------------------------------------------------------------------------------


@pytest.mark.thorough
async def test_older_tables_of_procrastinate_are_brought_to_the_installed_package(
    test_server: TestServer, new_database: NewDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own migrations do it: jobs stay, and in the end all is as if made today, owners and rights included."""
    at_once, in_steps = await new_database(), await new_database()
    await migrate(test_server.administrator(at_once), login=EMBEDDED_LOGIN, parameters=_PARAMETERS)
    steps = jobs_schema.migrations_after("")
    with monkeypatch.context() as older:
        older.setattr(jobs_schema, "_names", lambda: [name for name, _ in steps if name <= _OLDER_JOBS])
        older.setattr(
            jobs_schema, "current_script", lambda: "\n".join(script for name, script in steps if name <= _OLDER_JOBS)
        )
        await migrate(test_server.administrator(in_steps), login=EMBEDDED_LOGIN, parameters=_PARAMETERS)
        assert (await _state(test_server, in_steps)).dimension == 16
    async with superuser(test_server, in_steps) as db:
        assert await _jobs_version(db) == _OLDER_JOBS
        await db.execute_script(
            "SET search_path = reminiscence_jobs;"
            "INSERT INTO procrastinate_jobs (queue_name, task_name) VALUES ('any', 'waiting')"
        )
    with pytest.raises(ConfigurationError, match=r"Procrastinate are older than the installed.*migrate --admin-dsn"):
        await _state(test_server, in_steps)

    applied = await migrate(test_server.administrator(in_steps), login=EMBEDDED_LOGIN, parameters=_PARAMETERS)

    assert applied == []
    assert _in_any_order(_dump(test_server, in_steps)) == _in_any_order(_dump(test_server, at_once))
    assert (await _state(test_server, in_steps)).dimension == 16
    async with superuser(test_server, in_steps) as db:
        jobs = await db.fetch_all("SELECT task_name FROM reminiscence_jobs.procrastinate_jobs")
    assert jobs == [{"task_name": "waiting"}]


@pytest.mark.thorough
async def test_what_a_later_procrastinate_brings_is_applied_once(
    test_server: TestServer,
    new_database: NewDatabase,
    later_package: Callable[[str, str], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whoever works the queue off may use it as he may use the rest, and nobody else may; `migrate` may run again."""
    name = await new_database()
    await _migrate(test_server, name)
    later_package("98.00.00_01_results.sql", "CREATE TABLE procrastinate_results (id bigserial PRIMARY KEY);")
    later_package("99.00.00_01_more.sql", "ALTER TABLE procrastinate_results ADD COLUMN kept boolean;")
    with pytest.raises(ConfigurationError, match=r"Procrastinate are older than the installed.*migrate --admin-dsn"):
        await _state(test_server, name)

    caplog.set_level(logging.INFO, logger="agent_reminiscence.database")
    applied = await asyncio.gather(*(_migrate(test_server, name) for _ in range(3)))
    schema = _dump(test_server, name)
    await _migrate(test_server, name)

    assert applied == [[], [], []]
    assert [record.getMessage() for record in caplog.records] == [
        "applied Procrastinate's migration 98.00.00_01_results.sql",
        "applied Procrastinate's migration 99.00.00_01_more.sql",
    ]
    assert _dump(test_server, name) == schema
    assert (await _state(test_server, name)).dimension == 16
    async with superuser(test_server, name) as db:
        assert await _jobs_version(db) == "99.00.00_01_more.sql"
        rights = await db.fetch_all(
            "SELECT r.rolname::text AS role FROM pg_roles AS r WHERE starts_with(r.rolname, 'reminiscence_')"
            " AND has_table_privilege(r.oid, 'reminiscence_jobs.procrastinate_results', 'SELECT')"
            " AND has_table_privilege(r.oid, 'reminiscence_jobs.procrastinate_results', 'INSERT')"
            " AND has_table_privilege(r.oid, 'reminiscence_jobs.procrastinate_results', 'UPDATE')"
            " AND has_table_privilege(r.oid, 'reminiscence_jobs.procrastinate_results', 'DELETE')"
            " AND has_sequence_privilege(r.oid, 'reminiscence_jobs.procrastinate_results_id_seq', 'USAGE')"
            " ORDER BY 1"
        )
    assert [row["role"] for row in rights] == [OWNER_ROLE, WORKER_ROLE]


@pytest.mark.thorough
async def test_an_upgrade_of_procrastinate_that_fails_leaves_the_database_as_it_was(
    test_server: TestServer,
    memory: AgentMem,
    database: str,
    release: Callable[[str, str], None],
    later_package: Callable[[str, str], None],
) -> None:
    """It is part of the transaction in which our own migrations are; mended, all of it is applied."""
    await fill_tenant(memory, "agent-1")
    async with superuser(test_server, database) as db:
        rows, version = await stored_rows(db), await _jobs_version(db)
    schema = _dump(test_server, database)
    release(f"{_NEXT:04}_ours.sql", "ALTER TABLE active_memory ADD COLUMN ours text;")
    later_package("98.00.00_01_results.sql", "CREATE TABLE procrastinate_results (id bigserial PRIMARY KEY);")
    later_package("99.00.00_01_more.sql", "SELECT 1 / 0;")

    with pytest.raises(StoreError, match="division by zero"):
        await _migrate(test_server, database)

    assert _dump(test_server, database) == schema
    async with superuser(test_server, database) as db:
        assert await stored_rows(db) == rows
        assert await _jobs_version(db) == version
    later_package("99.00.00_01_more.sql", "SELECT 1;")
    applied = await migrate(test_server.administrator(database), login=EMBEDDED_LOGIN, parameters=_PARAMETERS)
    assert [migration.name for migration in applied] == ["ours"]
    async with superuser(test_server, database) as db:
        assert await _jobs_version(db) == "99.00.00_01_more.sql"


async def test_the_embedded_database_follows_the_installed_procrastinate_by_itself(
    test_server: TestServer, later_package: Callable[[str, str], None]
) -> None:
    """Nobody runs `migrate` there, so an update of that package alone must not lock its user out."""
    try:
        login = await prepare_embedded(test_server.administrator("postgres"), _PARAMETERS)
        later_package("99.00.00_01_results.sql", "CREATE TABLE procrastinate_results (id bigserial PRIMARY KEY);")
        with pytest.raises(ConfigurationError, match="older than the installed"):
            await _state(test_server, login.database)

        assert await prepare_embedded(test_server.administrator("postgres"), _PARAMETERS) == login

        assert (await _state(test_server, login.database)).dimension == 16
    finally:
        await test_server.drop_database(EMBEDDED_DATABASE)


# Who may install and who may connect ----------------------------------------------------------------------------------


async def test_a_login_that_does_not_exist_is_named(test_server: TestServer, new_database: NewDatabase) -> None:
    """The message holds the statement that makes it."""
    with pytest.raises(ConfigurationError, match=r'the role .nobody. does not exist.*CREATE ROLE "nobody" LOGIN'):
        await migrate(test_server.administrator(await new_database()), login="nobody", parameters=_PARAMETERS)


async def test_the_administrator_is_no_login_for_the_application(
    test_server: TestServer, new_database: NewDatabase
) -> None:
    """Granting the roles to a superuser would leave every policy without effect."""
    with pytest.raises(ConfigurationError, match="needs a separate login"):
        await migrate(
            test_server.administrator(await new_database()),
            login=test_server.address.superuser,
            parameters=_PARAMETERS,
        )


async def test_who_may_not_install_learns_whom_to_ask(test_server: TestServer, new_database: NewDatabase) -> None:
    """A plain login learns what it lacks, and gets the command that prints the SQL for an administrator.

    Managed services differ in what their administrators may do.
    """
    name = await new_database()
    lacks = r"CREATEROLE and to own the database and the extension vector"
    message = (
        rf"'somebody' may not do this here\. It needs the attribute {lacks}.*--print-sql --login reminiscence_login"
    )

    async with _login(test_server, "CREATE ROLE {name} LOGIN"):
        with pytest.raises(ConfigurationError, match=message):
            await migrate(_connection(test_server, "somebody", name), login=EMBEDDED_LOGIN, parameters=_PARAMETERS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("CREATE ROLE {name} LOGIN SUPERUSER", "superuser or has BYPASSRLS.*connect as a plain login"),
        (
            f"CREATE ROLE {{name}} LOGIN BYPASSRLS; GRANT {APP_ROLE} TO {{name}} WITH INHERIT FALSE",
            "superuser or has BYPASSRLS.*connect as a plain login",
        ),
        (
            f"CREATE ROLE {{name}} LOGIN NOINHERIT; GRANT {APP_ROLE} TO {{name}} WITH INHERIT TRUE, SET TRUE",
            f"inherits the rights of {APP_ROLE}.*WITH INHERIT FALSE, SET TRUE",
        ),
        (
            f"CREATE ROLE {{name}} LOGIN; GRANT {APP_ROLE} TO {{name}}; GRANT {OWNER_ROLE} TO {{name}}",
            f"inherits the rights of {APP_ROLE}, {OWNER_ROLE}.*WITH INHERIT FALSE, SET TRUE",
        ),
        ("CREATE ROLE {name} LOGIN", "may not take the role reminiscence_app.*migrate --admin-dsn … --login somebody"),
        (
            f"CREATE ROLE {{name}} LOGIN; GRANT {APP_ROLE} TO {{name}} WITH INHERIT FALSE, SET FALSE",
            "may not take the role reminiscence_app.*migrate --admin-dsn … --login somebody",
        ),
    ],
    ids=["superuser", "bypasses policies", "inherits", "inherits from the owner", "no member", "may not set"],
)
async def test_a_login_with_the_wrong_powers_is_refused(
    test_server: TestServer, made_database: str, options: str, message: str
) -> None:
    """Too much and the isolation is gone, too little and nothing works: either way the message says what to run."""
    async with _login(test_server, options) as name:
        with pytest.raises(ConfigurationError, match=message):
            await open_checked(_connection(test_server, name, made_database))


async def test_the_login_that_migrate_has_prepared_is_accepted(test_server: TestServer, made_database: str) -> None:
    """The control for the refusals above."""
    (await open_checked(test_server.login(made_database))).close()


async def test_a_database_without_the_schema_is_refused(test_server: TestServer, new_database: NewDatabase) -> None:
    """The roles are there, because they belong to the server; the schema is not."""
    name = await new_database()

    with pytest.raises(ConfigurationError, match=rf"{name!r} has no schema.*migrate --admin-dsn … --login"):
        await open_checked(test_server.login(name))


# Servers that are set up otherwise ------------------------------------------------------------------------------------


@pytest.mark.thorough
async def test_the_extension_may_live_in_a_schema_of_its_own(
    test_server: TestServer, new_database: NewDatabase
) -> None:
    """Managed servers keep extensions out of `public`; everything works from there."""
    name = await new_database()
    async with superuser(test_server, name) as db:
        await db.execute_script(
            "CREATE SCHEMA extensions;CREATE EXTENSION vector SCHEMA extensions;REVOKE ALL ON SCHEMA public FROM PUBLIC"
        )

    await migrate(test_server.administrator(name), login=EMBEDDED_LOGIN, parameters=_PARAMETERS)

    settings: dict[str, object] = {
        "postgres_dsn": dsn(test_server.login(name)),
        "embedding_provider": "hash",
        "embedding_dimension": 16,
    }
    async with AgentMem(Config(**settings)) as memory:
        await fill_tenant(memory, "agent-1")
        found = await memory.retrieve_memories("agent-1", "spare key of the blue cabin")
    assert "spare key" in found.hits[0].content
    assert {"words", "meaning"} <= found.hits[0].score_parts.keys()


async def test_the_name_of_an_extensions_schema_may_need_quotes(
    test_server: TestServer, new_database: NewDatabase
) -> None:
    """A search path is a list of identifiers, so a name with a dash or a capital is quoted in it."""
    name = await new_database()
    async with superuser(test_server, name) as db:
        await db.execute_script(
            'CREATE SCHEMA "Ext-1"; GRANT USAGE ON SCHEMA "Ext-1" TO PUBLIC;CREATE EXTENSION vector SCHEMA "Ext-1"'
        )

    await migrate(test_server.administrator(name), login=EMBEDDED_LOGIN, parameters=_PARAMETERS)

    assert (await _state(test_server, name)).dimension == 16


@pytest.fixture(scope="module")
def bare_server_dir() -> Iterator[Path]:
    """The data folder of a server on which nobody has made a role of ours."""
    folder = Path(tempfile.mkdtemp(prefix="reminiscence-test-"))
    yield folder / "data"
    shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def _bare_server(folder: Path, programs: Path | None = None) -> AsyncIterator[TestServer]:
    server = EmbeddedPostgres(folder, programs=programs, settings={"fsync": "off", "shared_buffers": "16MB"})
    try:
        yield TestServer(await server.start())
    finally:
        await server.stop()


async def test_an_old_server_is_refused(
    test_server: TestServer, new_database: NewDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the version that is there and the one that is needed."""
    name = await new_database()
    monkeypatch.setattr(constants, "POSTGRES_MIN_VERSION", 990_000)

    for attempt in (_migrate(test_server, name), open_checked(test_server.login(name))):
        with pytest.raises(ConfigurationError, match=r"the server is PostgreSQL \d+\.\d+; 99 or later is needed"):
            await attempt


@pytest.fixture
def own_programs() -> Iterator[Path]:
    """A copy of the server's programs, which a test may change; open to the server's user."""
    install = server_binaries().parent
    with tempfile.TemporaryDirectory(prefix="reminiscence-test-") as folder:
        Path(folder).chmod(0o755)
        copy = Path(folder) / install.parent.name / install.name
        shutil.copytree(install, copy, ignore=shutil.ignore_patterns("include", "*.a"))
        libraries = install.parent.with_name(f"{install.parent.name}.libs")
        if libraries.exists():
            shutil.copytree(libraries, Path(folder) / libraries.name)
        yield copy / "bin"


@pytest.mark.thorough
async def test_a_server_without_pgvector_or_with_an_old_one_is_refused(own_programs: Path) -> None:
    """Each time the message says what to do on the server, and the doctor says the same."""
    control = find_programs(own_programs).share / "extension" / "vector.control"
    offered = control.read_text()
    with tempfile.TemporaryDirectory(prefix="reminiscence-test-") as folder:
        async with _bare_server(Path(folder) / "data", own_programs) as server:
            async with superuser(server, "postgres") as db:
                await db.execute_script(f"CREATE ROLE {EMBEDDED_LOGIN} LOGIN")
            config = Config(postgres_dsn=SecretStr(dsn(server.login("postgres"))), embedding_provider="hash")

            # The server reads the file whenever it is asked.
            control.unlink()
            for attempt in (_migrate(server, "postgres"), open_checked(server.login("postgres"))):
                with pytest.raises(ConfigurationError, match=r"no extension vector; install pgvector 0\.7\.0 or later"):
                    await attempt
            assert "install pgvector 0.7.0" in (await _doctor(config, "extension vector")).remedy

            control.write_text(re.sub("default_version = '.*'", "default_version = '0.6.2'", offered))
            for attempt in (_migrate(server, "postgres"), open_checked(server.login("postgres"))):
                with pytest.raises(ConfigurationError, match=r"has pgvector 0\.6\.2; 0\.7\.0 or later is needed"):
                    await attempt
            assert "CREATE EXTENSION vector" in (await _doctor(config, "extension vector")).remedy

            control.write_text(offered)
            async with superuser(server, "postgres") as db:
                await db.execute_script(
                    "CREATE EXTENSION vector; UPDATE pg_extension SET extversion = '0.6.2' WHERE extname = 'vector'"
                )
            with pytest.raises(ConfigurationError, match=r"has pgvector 0\.6\.2.*ALTER EXTENSION vector UPDATE"):
                await _migrate(server, "postgres")
            assert "ALTER EXTENSION vector UPDATE" in (await _doctor(config, "extension vector")).remedy


async def _doctor(config: Config, name: str) -> _Finding:
    (found,) = [check for check in (await diagnose(lambda: config)).checks if check.name == name]
    assert found.status == "problem"
    return _Finding(found.detail, found.remedy or "")


class _Finding(NamedTuple):
    detail: str
    remedy: str


@pytest.mark.thorough
async def test_an_administrator_who_is_no_superuser_can_install(
    bare_server_dir: Path, later_package: Callable[[str, str], None]
) -> None:
    """Managed servers give CREATEROLE and their own database, with the extension made by somebody else.

    Procrastinate's script asks for PL/pgSQL, which only a superuser may make, and which is there.
    """
    async with _bare_server(bare_server_dir) as server:
        async with superuser(server, "postgres") as db:
            await db.execute_script("CREATE ROLE manager LOGIN CREATEROLE; CREATE ROLE application LOGIN")
            await db.execute_script("GRANT application TO manager WITH ADMIN TRUE, INHERIT FALSE, SET FALSE")
            await db.execute_script("CREATE DATABASE managed OWNER manager")
        async with superuser(server, "managed") as db:
            await db.execute_script("CREATE EXTENSION vector")
            with pytest.raises(ConfigurationError, match=r"no schema.*migrate"):
                await open_checked(_connection(server, "application", "managed"))

        manager = _connection(server, "manager", "managed")
        embedder = HashEmbedder(16)
        parameters = SchemaParameters(2, embedder.dimension, embedder.model_name)
        assert await migrate(manager, login="application", parameters=parameters) == migrations()
        assert await migrate(manager, login="application", parameters=parameters) == []
        later_package("99.00.00_01_results.sql", "CREATE TABLE procrastinate_results (id bigserial PRIMARY KEY);")
        assert await migrate(manager, login="application", parameters=parameters) == []
        async with superuser(server, "managed") as db:
            assert await _jobs_version(db) == "99.00.00_01_results.sql"

        settings: dict[str, object] = {"postgres_dsn": dsn(_connection(server, "application", "managed"))}
        async with AgentMem(Config(**settings), embedder=embedder) as memory:
            await fill_tenant(memory, "agent-1")
            assert (await memory.retrieve_memories("agent-1", "spare key")).hits


async def test_an_unreachable_server_is_named_without_its_password() -> None:
    """Who reads the message learns where it was looked for, and no secret."""
    settings = ConnectionSettings("127.0.0.1", 1, "somebody", "memories", password="open sesame")

    with pytest.raises(StoreError, match=r"somebody@127.0.0.1:1/memories") as caught:
        await open_connection(settings)

    assert "open sesame" not in str(caught.value)
    assert "open sesame" not in repr(settings)
