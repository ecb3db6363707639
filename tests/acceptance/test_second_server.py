"""A server given by DSN: who connects there, and what is refused before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from agent_reminiscence import AgentMem, Config, ConfigurationError, StoreError
from agent_reminiscence.database.connection import open_connection
from tests.acceptance.conftest import Server, TcpServer, dsn
from tests.support.servers import BOTH_SERVERS


@BOTH_SERVERS
async def test_the_application_is_neither_owner_nor_superuser(server: Server, database: str) -> None:
    """What the isolation of tenants rests on holds for the login that every other test uses."""
    db = await open_connection(server.login(database))
    try:
        row = await db.fetch_one(
            "SELECT rolsuper, rolbypassrls, rolcreaterole,"
            " (SELECT count(*) FROM pg_class WHERE relowner = r.oid) AS owned,"
            " pg_has_role('reminiscence_owner', 'MEMBER') AS is_owner"
            " FROM pg_roles AS r WHERE rolname = current_user"
        )
    finally:
        db.close()

    assert row == {
        "rolsuper": False,
        "rolbypassrls": False,
        "rolcreaterole": False,
        "owned": 0,
        "is_owner": False,
    }


@BOTH_SERVERS
async def test_the_login_by_itself_reads_no_memory(memory: AgentMem, server: Server, database: str) -> None:
    """Outside a transaction of the package the login has no rights on the tables at all."""
    await memory.create_active_memory("agent-1", "Plan", "Ship on Friday")

    db = await open_connection(server.login(database))
    try:
        with pytest.raises(StoreError, match="permission denied"):
            await db.fetch_all("SELECT content FROM reminiscence.active_memory")
    finally:
        db.close()


@BOTH_SERVERS
async def test_an_administrator_is_refused_as_the_applications_login(
    server: Server, database: str, config: Callable[..., Config]
) -> None:
    """A login that would switch the isolation of tenants off is refused by name, with the way out."""
    with pytest.raises(ConfigurationError, match=r"superuser.*plain login"):
        await AgentMem(config(postgres_dsn=dsn(server.superuser(database)))).initialize()


async def test_a_server_that_is_away_is_a_store_error_without_the_password(
    config: Callable[..., Config],
) -> None:
    """The message says where and as whom, and keeps the password."""
    memory = AgentMem(config(postgres_dsn="postgresql://ann:opensesame@127.0.0.1:1/memory"))

    with pytest.raises(StoreError, match=r"cannot connect to PostgreSQL as .*ann@127\.0\.0\.1:1/memory") as refused:
        await memory.initialize()

    assert "opensesame" not in str(refused.value)
    assert "opensesame" not in repr(memory)


async def test_a_wrong_password_is_a_store_error(tcp_server: TcpServer, config: Callable[..., Config]) -> None:
    """Who is refused by the server hears it when opening, not at the first write."""
    name = await tcp_server.create_database()
    settings = tcp_server.login(name)
    wrong = dsn(replace(settings, password="opensesame"))

    with pytest.raises(StoreError, match="password authentication failed") as refused:
        await AgentMem(config(postgres_dsn=wrong)).initialize()

    assert "opensesame" not in str(refused.value)
    await tcp_server.drop_database(name)


@BOTH_SERVERS
async def test_a_database_without_the_schema_says_what_to_run(server: Server, config: Callable[..., Config]) -> None:
    """The message of a first start holds the command that an administrator runs."""
    postgres = server.login("postgres")

    with pytest.raises(ConfigurationError, match="agent-reminiscence migrate"):
        await AgentMem(config(postgres_dsn=dsn(postgres))).initialize()


@BOTH_SERVERS
async def test_another_embedder_than_the_schemas_is_refused(config: Callable[..., Config]) -> None:
    """Vectors of two models cannot be compared, so they never meet in one table; an empty database takes the new."""
    async with AgentMem(config()) as memory:
        await memory.create_active_memory("agent-1", "Tea", "The jasmine tea is in the blue tin.")
    with pytest.raises(ConfigurationError, match=r"'hash-64' with 64 dimensions.*'hash-32' is configured"):
        await AgentMem(config(embedding_dimension=32)).initialize()


@BOTH_SERVERS
async def test_another_partition_count_than_the_schemas_is_refused(config: Callable[..., Config]) -> None:
    """The number of partitions is fixed when the schema is made."""
    with pytest.raises(ConfigurationError, match="chunk_partitions is 7, but this database has 2"):
        await AgentMem(config(chunk_partitions=7)).initialize()
