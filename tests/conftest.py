"""Databases for tests are real: one embedded server for each worker, and a fresh database for each test."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.config.constants import EMBEDDED_LOGIN
from agent_reminiscence.database.embedded import EmbeddedPostgres, ServerAddress
from agent_reminiscence.database.postgres_manager import ConnectionSettings, PostgresManager, open_connection
from agent_reminiscence.database.schema import SchemaParameters, prepare_embedded
from agent_reminiscence.services.embedders import HashEmbedder, WordLlamaEmbedder

# Few partitions keep the copies small; what depends on their number is tested with other numbers.
TEST_PARTITIONS = 4
TEST_DIMENSION = 64
_TEMPLATE = "reminiscence"


class TestServer:
    """The embedded server of this test process and its template database."""

    __test__ = False

    def __init__(self, address: ServerAddress) -> None:
        self.address = address
        self._databases = 0

    def administrator(self, database: str) -> ConnectionSettings:
        """The superuser on `database`."""
        return ConnectionSettings(
            host=self.address.host, port=self.address.port, user=self.address.superuser, database=database
        )

    def login(self, database: str) -> ConnectionSettings:
        """The application's login on `database`."""
        return ConnectionSettings(
            host=self.address.host, port=self.address.port, user=EMBEDDED_LOGIN, database=database
        )

    async def create_database(self, template: str = _TEMPLATE) -> str:
        """A copy of `template`; returns its name."""
        self._databases += 1
        name = f"test_{self._databases}"
        admin = await open_connection(self.administrator("postgres"))
        try:
            await admin.execute_script(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
        finally:
            admin.close()
        return name

    async def drop_database(self, name: str) -> None:
        """Remove a database, whoever is still connected to it."""
        admin = await open_connection(self.administrator("postgres"))
        try:
            await admin.execute_script(f"DROP DATABASE {name} WITH (FORCE)")
        finally:
            admin.close()


@pytest.fixture(scope="session")
def test_server() -> Iterator[TestServer]:
    """One embedded server for this process, with the schema in its template database."""
    # Not pytest's own folder: the server runs as another user when the tests run as root.
    folder = Path(tempfile.mkdtemp(prefix="reminiscence-test-"))
    server = EmbeddedPostgres(folder / "data", settings={"fsync": "off", "shared_buffers": "64MB"})

    async def start() -> ServerAddress:
        address = await server.start()
        settings = ConnectionSettings(host=address.host, port=address.port, user=address.superuser, database="postgres")
        embedder = HashEmbedder(TEST_DIMENSION)
        await prepare_embedded(settings, SchemaParameters(TEST_PARTITIONS, embedder.dimension, embedder.model_name))
        return address

    try:
        yield TestServer(asyncio.run(start()))
    finally:
        asyncio.run(server.stop())
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
async def database(test_server: TestServer) -> AsyncIterator[str]:
    """The name of a database of this test's own, with the schema and no memory; vectors by `HashEmbedder`."""
    name = await test_server.create_database()
    yield name
    await test_server.drop_database(name)


@pytest.fixture
async def store(test_server: TestServer, database: str) -> AsyncIterator[PostgresManager]:
    """A pool of connections as the application's login."""
    manager = PostgresManager(
        test_server.login(database), pool_size=4, pool_timeout_seconds=10, statement_timeout_seconds=30
    )
    await manager.initialize()
    yield manager
    await manager.close()


def dsn(settings: ConnectionSettings) -> str:
    """`settings` as a DSN."""
    return f"postgresql://{settings.user}@/{settings.database}?host={settings.host}&port={settings.port}"


@pytest.fixture
def config(test_server: TestServer, database: str) -> Callable[..., Config]:
    """Makes a `Config` for this test's database; keywords override settings."""

    def make(**settings: object) -> Config:
        defaults: dict[str, object] = {
            "postgres_dsn": dsn(test_server.login(database)),
            "embedding_provider": "hash",
            "embedding_dimension": TEST_DIMENSION,
        }
        return Config(**(defaults | settings))

    return make


@pytest.fixture
async def memory(config: Callable[..., Config]) -> AsyncIterator[AgentMem]:
    """A memory on a database of this test's own."""
    async with AgentMem(config()) as opened:
        yield opened


@pytest.fixture
async def wordllama_memory(test_server: TestServer) -> AsyncIterator[AgentMem]:
    """A memory with the bundled embedder, on a database of its own."""
    embedder = WordLlamaEmbedder()
    name = await _database_for(test_server, embedder.model_name, embedder.dimension)
    async with AgentMem(Config(postgres_dsn=dsn(test_server.login(name)))) as opened:  # type: ignore[arg-type]
        yield opened
    await test_server.drop_database(name)


async def _database_for(test_server: TestServer, model_name: str, dimension: int) -> str:
    """A database whose schema is made for another embedder than the template's."""
    from agent_reminiscence.database.schema import migrate

    name = await test_server.create_database("template1")
    await migrate(
        test_server.administrator(name),
        login=EMBEDDED_LOGIN,
        parameters=SchemaParameters(TEST_PARTITIONS, dimension, model_name),
    )
    return name
