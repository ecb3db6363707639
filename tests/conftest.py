"""Databases for tests are real: one embedded server for each worker, and a database without a memory for each test."""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio
from pydantic import SecretStr

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.config.constants import EMBEDDED_LOGIN
from agent_reminiscence.database.connection import ConnectionSettings, open_connection
from agent_reminiscence.database.embedded import ServerAddress
from agent_reminiscence.database.migrations import SchemaParameters
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.schema import migrate
from agent_reminiscence.embedders.hashing import HashEmbedder
from agent_reminiscence.embedders.protocol import Embedder
from agent_reminiscence.embedders.universal import UniversalSentenceEmbedder
from agent_reminiscence.embedders.wordllama import WordLlamaEmbedder
from tests.support.databases import DatabasePool
from tests.support.factories import Tenant, fill_tenant
from tests.support.filled import FilledDatabases
from tests.support.sharing import SharedMemory, shared_memory_on

# Few partitions keep the copies small; what depends on their number is tested with other numbers.
TEST_PARTITIONS = 2
TEST_DIMENSION = 64
# No test cuts this machine's power, and the log of what was written may lie in memory.
TEST_SETTINGS = {"fsync": "off", "shared_buffers": "64MB", "max_wal_size": "128MB"}

_ROOT = Path(__file__).parents[1]
# A folder for the server that outlives the run. Read here, because settings are taken out of the environment later.
KEPT_FOLDER = os.environ.get("REMINISCENCE_TEST_DATA") or None


class TestServer:
    """The embedded server of this test process."""

    __test__ = False

    def __init__(self, address: ServerAddress) -> None:
        self.address = address
        # A kept server may have databases of another run.
        self._prefix = f"test_{secrets.token_hex(4)}_"
        self._databases = 0
        self._templates: dict[SchemaParameters, str] = {}
        self.databases = DatabasePool(self.administrator, self.create_database, self.drop_database)
        self.bundled_databases = DatabasePool(
            self.administrator, lambda: self.create_database(UniversalSentenceEmbedder()), self.drop_database
        )
        self.wordllama_databases = DatabasePool(
            self.administrator, lambda: self.create_database(WordLlamaEmbedder()), self.drop_database
        )

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

    async def create_empty_database(self, template: str = "template1") -> str:
        """A database as `template`, which has no schema of ours unless another one is named; returns its name."""
        self._databases += 1
        name = f"{self._prefix}{self._databases}"
        admin = await open_connection(self.administrator("postgres"))
        try:
            # The other strategy writes each page to the log, which costs three times as much.
            await admin.execute_script(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        finally:
            admin.close()
        return name

    async def create_database(self, embedder: Embedder | None = None, *, partitions: int = TEST_PARTITIONS) -> str:
        """A database with the schema for `embedder` (`HashEmbedder` if None) and no memory; returns its name.

        The schema is made once for each embedder and number of partitions; the others are copies of it.
        """
        embedder = embedder or HashEmbedder(TEST_DIMENSION)
        parameters = SchemaParameters(partitions, embedder.dimension, embedder.model_name)
        template = self._templates.get(parameters)
        if template is None:
            template = self._templates[parameters] = await self._find_or_make_template(parameters)
        return await self.create_empty_database(template)

    async def _find_or_make_template(self, parameters: SchemaParameters) -> str:
        """The name of a database with the schema; a kept server may have it from an earlier run."""
        name = f"template_{_schema_digest(parameters)}"
        admin = await open_connection(self.administrator("postgres"))
        try:
            # Until the connection is closed: another run may be about to make it, too.
            await admin.execute("SELECT pg_advisory_lock(1)::text")
            if not await admin.fetch_all(
                "SELECT datname::text FROM pg_database WHERE datname = $(name)p", {"name": name}
            ):
                made = await self.create_empty_database()
                await migrate(self.administrator(made), login=EMBEDDED_LOGIN, parameters=parameters)
                await admin.execute_script(f"ALTER DATABASE {made} RENAME TO {name}")
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

    async def drop_databases(self) -> None:
        """Remove all databases of this run, but no template."""
        admin = await open_connection(self.administrator("postgres"))
        try:
            rows = await admin.fetch_all(
                "SELECT datname::text AS name FROM pg_database WHERE starts_with(datname, $(prefix)p)",
                {"prefix": self._prefix},
            )
            for row in rows:
                await admin.execute_script(f"DROP DATABASE {row['name']} WITH (FORCE)")
        finally:
            admin.close()


def _schema_digest(parameters: SchemaParameters) -> str:
    """Changes with everything that the schema is made from."""
    digest = hashlib.sha256(repr(parameters).encode())
    sources = [*(_ROOT / "sql").rglob("*.sql"), *(_ROOT / "agent_reminiscence" / "database").rglob("*.py")]
    for source in [*sorted(sources), _ROOT / "requirements" / "runtime.txt"]:
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


@pytest.fixture
async def database(test_server: TestServer) -> AsyncIterator[str]:
    """The name of a database with the schema and no memory that is this test's alone; vectors by `HashEmbedder`.

    Earlier tests may have used it: statistics, and the numbers of jobs, are not those of a new one.
    """
    name = await test_server.databases.take()
    yield name
    await test_server.databases.give_back(name)


@pytest.fixture(scope="session")
def filled_databases(test_server: TestServer) -> FilledDatabases[Tenant]:
    """Databases in which the tenant "house" has all that a tenant can have."""

    def settings(database: str) -> Config:
        return Config(
            postgres_dsn=SecretStr(dsn(test_server.login(database))),
            embedding_provider="hash",
            embedding_dimension=TEST_DIMENSION,
            worker=False,
        )

    return asyncio.run(FilledDatabases.fill(test_server, settings, lambda memory: fill_tenant(memory, "house")))


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


def settings_for(dsn: str, **settings: object) -> Config:
    """The settings of tests for a database; keywords override them."""
    defaults: dict[str, object] = {
        "postgres_dsn": dsn,
        "embedding_provider": "hash",
        "embedding_dimension": TEST_DIMENSION,
        # Work that follows writes is done where a test says so; the worker has tests of its own.
        "worker": False,
        # However busy this machine is, a search waits for the graph.
        "graph_deadline_seconds": 30,
    }
    return Config(**(defaults | settings))


@pytest.fixture
def config(test_server: TestServer, database: str) -> Callable[..., Config]:
    """Makes a `Config` for this test's database; keywords override settings."""
    return partial(settings_for, dsn(test_server.login(database)))


@pytest.fixture
async def own_memory(config: Callable[..., Config]) -> AsyncIterator[AgentMem]:
    """A memory on a database of this test's own."""
    async with AgentMem(config()) as opened:
        yield opened


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def first_shared_memory(test_server: TestServer) -> AsyncIterator[SharedMemory]:
    """A memory on a database of this process, for tests that need only a tenant of their own."""
    name = await test_server.create_database()
    settings = settings_for(dsn(test_server.login(name)))
    async with shared_memory_on(test_server.administrator(name), settings) as shared:
        yield shared


@pytest.fixture
def shared_memory(first_shared_memory: SharedMemory) -> Iterator[AgentMem]:
    """The memory that tests share; ask for it as `memory`, with a `tenant`."""
    with first_shared_memory.lent() as lent:
        yield lent


@pytest.fixture
def memory(request: pytest.FixtureRequest) -> AgentMem:
    """A memory on a database of this test's own; if the test asks for `tenant`, one that it shares with others."""
    chosen: AgentMem = request.getfixturevalue(
        "shared_memory" if "shared_memory" in request.fixturenames else "own_memory"
    )
    return chosen


@pytest.fixture
async def bundled_memory(test_server: TestServer) -> AsyncIterator[AgentMem]:
    """A memory with the bundled embedder, on a database of its own."""
    name = await test_server.bundled_databases.take()
    async with AgentMem(Config(postgres_dsn=SecretStr(dsn(test_server.login(name))), worker=False)) as opened:
        yield opened
    await test_server.bundled_databases.give_back(name)


@pytest.fixture
async def wordllama_memory(test_server: TestServer) -> AsyncIterator[AgentMem]:
    """A memory with the embedder `wordllama`, on a database of its own."""
    name = await test_server.wordllama_databases.take()
    config = Config(postgres_dsn=SecretStr(dsn(test_server.login(name))), embedding_provider="wordllama", worker=False)
    async with AgentMem(config) as opened:
        yield opened
    await test_server.wordllama_databases.give_back(name)
