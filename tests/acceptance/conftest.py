"""The same tests against two deployments: the embedded server over its socket, and a server given by DSN.

The second is the oldest version of PostgreSQL that is supported, from another supplier and with a locale of the system.
`server` chooses: a test that wants both is marked `BOTH_SERVERS` or `SECOND_SERVER_THOROUGHLY`, all others run on the
first.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, urlsplit

import pytest
import pytest_asyncio

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.database import connection, postgres_manager
from agent_reminiscence.database.connection import ConnectionSettings, open_connection
from agent_reminiscence.database.embedded import EmbeddedPostgres, ServerAddress
from agent_reminiscence.database.migrations import SchemaParameters
from agent_reminiscence.database.schema import migrate
from agent_reminiscence.embedders.hashing import HashEmbedder
from agent_reminiscence.resilience import retries
from tests.conftest import TEST_DIMENSION, TEST_PARTITIONS, TEST_SETTINGS, TestServer, settings_for
from tests.support.costs import count_server
from tests.support.databases import DatabasePool
from tests.support.neo4j_server import Neo4jAddress
from tests.support.oldest_postgres import oldest_programs
from tests.support.proxy import FaultyProxy, TcpSwitch
from tests.support.server_process import free_port
from tests.support.sharing import SharedMemory, shared_memory_on

type Silence = Callable[[FaultyProxy], AbstractContextManager[None]]


class Server(Protocol):
    """Where databases for tests are made."""

    @property
    def databases(self) -> DatabasePool:
        """Databases that tests use one after another."""
        ...

    def superuser(self, database: str) -> ConnectionSettings:
        """Who may do everything on `database`."""
        ...

    def login(self, database: str) -> ConnectionSettings:
        """Who the application is on `database`."""
        ...

    async def create_database(self) -> str:
        """A database with the schema and no memory; returns its name."""
        ...

    async def drop_database(self, name: str) -> None:
        """Remove it."""
        ...


class SocketServer:
    """The embedded server over its Unix socket, as `AgentMem()` finds it without any configuration."""

    def __init__(self, server: TestServer) -> None:
        self._server = server
        self.databases = server.databases

    def superuser(self, database: str) -> ConnectionSettings:
        """The server's superuser."""
        return self._server.administrator(database)

    def login(self, database: str) -> ConnectionSettings:
        """The application."""
        return self._server.login(database)

    async def create_database(self) -> str:
        """A database with the schema."""
        return await self._server.create_database()

    async def drop_database(self, name: str) -> None:
        """Remove a database, whoever is still connected to it."""
        await self._server.drop_database(name)


class TcpServer:
    """A server on a TCP port of this machine, which asks everyone for a password.

    Its administrator is no superuser: a role that may create roles and databases, on a server where a superuser has
    makes the extension, as a managed service hands it out. The login's name and password need quoting everywhere.
    """

    ADMINISTRATOR = "database_administrator"
    LOGIN = 'app "user"/1'

    def __init__(self, address: ServerAddress, port: int) -> None:
        self.address = address
        self.port = port
        self.password = f"p@ss:w/rd?#%{secrets.token_hex(8)}"
        self._made = 0
        self._template: str | None = None
        self.databases = DatabasePool(self.superuser, self.create_database, self.drop_database)

    def superuser(self, database: str) -> ConnectionSettings:
        """The server's superuser, over its socket."""
        return ConnectionSettings(
            host=self.address.host, port=self.address.port, user=self.address.superuser, database=database
        )

    def administrator(self, database: str) -> ConnectionSettings:
        """The administrator, over TCP."""
        return ConnectionSettings(
            host="127.0.0.1", port=self.port, user=self.ADMINISTRATOR, database=database, password=self.password
        )

    def login(self, database: str) -> ConnectionSettings:
        """The application, over TCP."""
        return ConnectionSettings(
            host="127.0.0.1", port=self.port, user=self.LOGIN, database=database, password=self.password
        )

    async def prepare(self) -> None:
        """Make the two roles."""
        quoted = self.LOGIN.replace('"', '""')
        await self._run(
            "postgres",
            f"CREATE ROLE {self.ADMINISTRATOR} LOGIN NOSUPERUSER CREATEDB CREATEROLE PASSWORD '{self.password}';"
            f"""CREATE ROLE "{quoted}" LOGIN NOSUPERUSER NOINHERIT PASSWORD '{self.password}';""",
        )

    async def create_database(self) -> str:
        """A database of the administrator's, with the extension of the superuser's and the schema of `migrate`.

        The schema is made once; the others are copies of it.
        """
        if self._template is None:
            template = await self._create_empty_database()
            await self._run(template, "CREATE EXTENSION vector")
            embedder = HashEmbedder(TEST_DIMENSION)
            await migrate(
                self.administrator(template),
                login=self.LOGIN,
                parameters=SchemaParameters(TEST_PARTITIONS, embedder.dimension, embedder.model_name),
            )
            self._template = template
        return await self._create_empty_database(self._template)

    async def _create_empty_database(self, template: str = "template1") -> str:
        self._made += 1
        name = f"test_{self._made}"
        await self._run(
            "postgres",
            f"CREATE DATABASE {name} OWNER {self.ADMINISTRATOR} TEMPLATE {template} STRATEGY file_copy",
        )
        return name

    async def drop_database(self, name: str) -> None:
        """Remove a database, whoever is still connected to it."""
        await self._run("postgres", f"DROP DATABASE {name} WITH (FORCE)")

    async def _run(self, database: str, script: str) -> None:
        superuser = await open_connection(self.superuser(database))
        try:
            await superuser.execute_script(script)
        finally:
            superuser.close()


@pytest.fixture(scope="session")
def tcp_server(request: pytest.FixtureRequest) -> Iterator[TcpServer]:
    """A second server for this process, PostgreSQL 16, reached by DSN."""
    # Not pytest's own folder: the server runs as another user when the tests run as root.
    folder = Path(tempfile.mkdtemp(prefix="reminiscence-tcp-"))
    port = free_port()
    postgres = EmbeddedPostgres(
        folder / "data",
        programs=oldest_programs(),
        settings=TEST_SETTINGS | {"listen_addresses": "127.0.0.1", "port": str(port)},
    )

    async def start() -> TcpServer:
        server = TcpServer(await postgres.start(), port)
        await server.prepare()
        return server

    try:
        started = asyncio.run(start())
        count_server(request.config, folder)
        yield started
    finally:
        asyncio.run(postgres.stop())
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def socket_server(test_server: TestServer) -> SocketServer:
    """The server of all tests of this process."""
    return SocketServer(test_server)


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Server:
    """The deployment that this test runs against."""
    chosen: Server = request.getfixturevalue(getattr(request, "param", "socket_server"))
    return chosen


@pytest.fixture
async def database(server: Server) -> AsyncIterator[str]:
    """The name of a database with the schema and no memory; what the test leaves there is removed."""
    name = await server.databases.take()
    yield name
    await server.databases.give_back(name)


@pytest.fixture
async def own_database(server: Server) -> AsyncIterator[str]:
    """The name of a database that no other test uses, for what must not meet the statistics of others."""
    name = await server.create_database()
    yield name
    await server.drop_database(name)


def dsn(settings: ConnectionSettings) -> str:
    """`settings` as a DSN, with everything quoted that a URL gives a meaning to."""
    password = "" if settings.password is None else f":{quote(settings.password, safe='')}"
    user = quote(settings.user, safe="")
    return f"postgresql://{user}{password}@/{settings.database}?host={settings.host}&port={settings.port}"


@pytest.fixture
def config(server: Server, database: str) -> Callable[..., Config]:
    """Makes a `Config` for this test's database; keywords override settings."""
    return partial(settings_for, dsn(server.login(database)))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def second_shared_memory(tcp_server: TcpServer) -> AsyncIterator[SharedMemory]:
    """A memory on a database of the second server, for tests that need only a tenant of their own."""
    name = await tcp_server.create_database()
    settings = settings_for(dsn(tcp_server.login(name)))
    async with shared_memory_on(tcp_server.superuser(name), settings) as shared:
        yield shared


@pytest.fixture
def shared_memory(request: pytest.FixtureRequest, server: Server) -> Iterator[AgentMem]:
    """The memory that tests of this server share; ask for it as `memory`, with a `tenant`."""
    shared: SharedMemory = request.getfixturevalue(
        "second_shared_memory" if isinstance(server, TcpServer) else "first_shared_memory"
    )
    with shared.lent() as lent:
        yield lent


@pytest.fixture
def memory(server: Server, memory: AgentMem) -> AgentMem:
    """As for all tests, and on the server that this one chooses."""
    return memory


@pytest.fixture
def silence(monkeypatch: pytest.MonkeyPatch) -> Silence:
    """Makes a server silent for as long as a block lasts, in which it is not waited for as long as usual.

    What a memory waits for an answer is settled when it is opened, so this is to be asked for before.
    """
    monkeypatch.setattr(postgres_manager, "ANSWER_GRACE_SECONDS", 0.1)

    @contextmanager
    def silent(proxy: FaultyProxy) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(connection, "CONNECT_TIMEOUT_SECONDS", 1)
            patch.setattr(retries, "RETRY_TOTAL_SECONDS", 0.0)
            proxy.fall_silent()
            try:
                yield
            finally:
                proxy.speak()

    return silent


@pytest.fixture
def with_neo4j(config: Callable[..., Config], neo4j_server: Neo4jAddress) -> Callable[..., Config]:
    """Makes a `Config` whose graph the Neo4j of this run follows; keywords override settings."""

    def make(**settings: object) -> Config:
        defaults: dict[str, object] = {
            "neo4j_uri": neo4j_server.uri,
            "neo4j_user": neo4j_server.user,
            "neo4j_password": neo4j_server.password,
            "neo4j_database": neo4j_server.database,
            # A machine that does much else takes its time; no test waits for this to pass.
            "neo4j_timeout_seconds": 240.0,
        }
        return config(**(defaults | settings))

    return make


@pytest.fixture
async def switch(neo4j_server: Neo4jAddress) -> AsyncIterator[TcpSwitch]:
    """The way to Neo4j, which can be cut."""
    port = urlsplit(neo4j_server.uri).port
    if urlsplit(neo4j_server.uri).hostname not in ("127.0.0.1", "localhost") or port is None:
        pytest.skip("needs Neo4j on this machine, to cut it off")
    async with TcpSwitch(port) as opened:
        yield opened
