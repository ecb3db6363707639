"""For tests of programs that use a memory: a real one, an `external_id` for each test, and events made by hand.

Name the module in the `conftest.py` at the root of your tests: `pytest_plugins = ["agent_reminiscence.testing"]`.
Otherwise no fixture is active; `make_event` is a function to import. The module needs pytest; `agent_mem` also needs
pytest-asyncio, or tests that anyio runs.

PYTEST_DONT_REWRITE: there are no assertions here, and a `conftest.py` may import from here before pytest does.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote
from uuid import UUID, uuid4

import pytest
from pydantic import SecretStr

from agent_reminiscence import sync
from agent_reminiscence.config.constants import MAX_EVENT_PAYLOAD_BYTES
from agent_reminiscence.config.settings import Config
from agent_reminiscence.core import AgentMem
from agent_reminiscence.database.connection import ConnectionSettings
from agent_reminiscence.database.embedded import EmbeddedPostgres
from agent_reminiscence.database.migrations import SchemaParameters
from agent_reminiscence.database.repositories.event_ledger import event_digest, next_chain
from agent_reminiscence.database.schema import prepare_embedded
from agent_reminiscence.domain.event import Event, EventKind
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.embedders.base import adapted
from agent_reminiscence.embedders.hashing import HASH_DIMENSION, HashEmbedder
from agent_reminiscence.embedders.protocol import Embedder
from agent_reminiscence.services import validation
from agent_reminiscence.sync.loop_thread import LoopThread

try:
    import pytest_asyncio
except ImportError:
    pytest_asyncio = None  # type: ignore[assignment]  # tests may do without

__all__ = ["HashEmbedder", "make_event"]

# Nobody needs the data after the run, so nothing waits for the disk. Each worker of pytest-xdist has connections.
_SERVER_SETTINGS: Final = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "shared_buffers": "64MB",
    "max_wal_size": "128MB",
    "max_connections": "300",
}
_SETTINGS: Final[Mapping[str, Any]] = {
    "embedding_provider": "hash",
    "embedding_dimension": HASH_DIMENSION,
    # Work happens where a test asks for it, and not in between.
    "worker": False,
    "postgres_pool_size": 4,
    # However busy the machine is, recall waits for the graph.
    "graph_deadline_seconds": 30,
}
_PREFIX: Final = "REMINISCENCE_"
_FIRST_EVENT_AT: Final = datetime(2026, 1, 1, tzinfo=UTC)
# Their minutes still fit into a datetime.
_LAST_POSITION: Final = 1_000_000_000
_SALT: Final = bytes(16)
_positions = count(1)


def make_event(
    kind: str,
    text: str | Mapping[str, Any] = "",
    actor: str | None = None,
    turn: int | None = None,
    *,
    position: int | None = None,
    external_id: str = "test",
    conversation_id: str | None = None,
    source: Source = "user",
    occurred_at: datetime | None = None,
) -> Event:
    """An event as a ledger would return it, for tests of views and of other functions of events. Nothing is stored.

    Args:
        kind: Such as "agent.spoke".
        text: What stands under `text` in the payload, or the whole payload.
        actor: Who did it.
        turn: Its turn, from 0.
        position: Its place in the ledger, from 1 to 1,000,000,000; its id is `UUID(int=position)`. None is the next
            place in this process, so that events are in the order in which they were made.
        external_id: Whose ledger it belongs to.
        conversation_id: Its conversation.
        source: Where it came from.
        occurred_at: An aware datetime; None is as many minutes after the start of 2026 as `position` says.

    Returns:
        The event, with a true digest. Its `chain` is that of a first event, whatever its position.

    Raises:
        InvalidInputError: No ledger would hold such an event: an argument is one that `ledger.append` refuses, or the
            position is out of range.
    """
    place = validation.whole_number(
        "position", next(_positions) if position is None else position, minimum=1, maximum=_LAST_POSITION
    )
    moment = validation.optional_moment("occurred_at", occurred_at) or _FIRST_EVENT_AT + timedelta(minutes=place)
    payload = {"text": text} if isinstance(text, str) else text
    event = Event(
        external_id=validation.external_id(external_id),
        event_id=UUID(int=place),
        kind=kind if kind in list(EventKind) else validation.event_kind(kind),
        payload=validation.json_object("text", payload, MAX_EVENT_PAYLOAD_BYTES),
        occurred_at=moment,
        source=validation.source(source),
        actor=validation.optional_identifier("actor", actor),
        conversation_id=validation.optional_identifier("conversation_id", conversation_id),
        turn=None if turn is None else validation.whole_number("turn", turn, minimum=0, maximum=2**31 - 1),
        position=place,
        recorded_at=moment,
        salt=_SALT,
        digest=b"",
        chain=b"",
    )
    digest = event_digest(event, _SALT)
    return event.model_copy(update={"digest": digest, "chain": next_chain(b"", digest, place, moment)})


@pytest.fixture(scope="session")
def agent_mem_embedder() -> Embedder:
    """Makes the vectors of the run: a `HashEmbedder`, without a model. Override it for another one."""
    return HashEmbedder()


@pytest.fixture
def agent_mem_settings() -> Mapping[str, Any]:
    """Settings that `agent_mem_config` gets besides its own: none. Override it, such as for one module."""
    return {}


@pytest.fixture
def agent_mem_arguments() -> Mapping[str, Any]:
    """What `agent_mem` and `sync_agent_mem` are opened with besides, such as `clock` and `models`. Override it."""
    return {}


@pytest.fixture
def external_id() -> str:
    """An `external_id` that no other test has, so that none sees another's memories."""
    return f"test-{uuid4()}"


@pytest.fixture(scope="session")
def agent_mem_dsn(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config, agent_mem_embedder: Embedder
) -> Iterator[str]:
    """The DSN of the run's server, which all workers of pytest-xdist share and the last one stops and removes.

    Override it for a server of your own, whose database `agent-reminiscence migrate` has prepared for the embedder.
    """
    base = tmp_path_factory.getbasetemp()
    if hasattr(pytestconfig, "workerinput"):
        # Each worker has a folder of its own in that of the run.
        base = base.parent
    # A thread of its own leaves the event loop of the tests as it is.
    thread = LoopThread()
    try:
        with _shared_folder(base, "agent-reminiscence") as folder:
            server = EmbeddedPostgres(folder, settings=_SERVER_SETTINGS)
            try:
                yield _dsn(thread.call(lambda: _prepare(server, agent_mem_embedder)))
            finally:
                thread.call(server.stop)
    finally:
        thread.end()


@pytest.fixture
def agent_mem_config(agent_mem_dsn: str, agent_mem_settings: Mapping[str, Any]) -> Config:
    """Settings for the run's server, without a worker and without what the environment says."""
    with pytest.MonkeyPatch.context() as environment:
        _clear(environment)
        return Config(**{"postgres_dsn": SecretStr(agent_mem_dsn), **_SETTINGS, **agent_mem_settings})


@pytest.fixture
def agent_mem_environment(monkeypatch: pytest.MonkeyPatch, agent_mem_config: Config) -> None:
    """Has `AgentMem()` without a config, here and in processes started from here, use the run's server."""
    _clear(monkeypatch)
    for name in agent_mem_config.model_fields_set:
        value = getattr(agent_mem_config, name)
        if value is not None:
            text = value.get_secret_value() if isinstance(value, SecretStr) else str(value)
            monkeypatch.setenv(f"{_PREFIX}{name.upper()}", text)


@pytest.fixture
def sync_agent_mem(
    agent_mem_config: Config, agent_mem_embedder: Embedder, agent_mem_arguments: Mapping[str, Any]
) -> Iterator[sync.AgentMem]:
    """An open `agent_reminiscence.sync.AgentMem`, for tests that do not await."""
    with sync.AgentMem(agent_mem_config, **{"embedder": agent_mem_embedder, **agent_mem_arguments}) as memory:
        yield memory


@pytest.fixture
def agent_mem(request: pytest.FixtureRequest) -> AgentMem:
    """An open `AgentMem` on the event loop of the test, whether pytest-asyncio or anyio runs it."""
    memory: AgentMem = request.getfixturevalue(_fixture_of_loop(request))
    return memory


def _fixture_of_loop(request: pytest.FixtureRequest) -> str:
    """The fixture that opens a memory on the loop that the test runs on."""
    if "anyio_backend" in request.fixturenames:
        return "_agent_mem_of_anyio"
    if not request.config.pluginmanager.has_plugin("asyncio"):
        pytest.fail(
            "agent_mem needs pytest-asyncio, or a test that is marked anyio; tests without await take sync_agent_mem",
            pytrace=False,
        )
    marker = request.node.get_closest_marker("asyncio")
    scope = None if marker is None else marker.kwargs.get("loop_scope")
    return f"_agent_mem_of_{scope or request.config.getini('asyncio_default_test_loop_scope') or 'function'}"


def _opening(make_fixture: Callable[..., Any], **arguments: Any) -> Any:
    """A fixture that opens a memory on the loop on which it is awaited."""

    async def opened(
        agent_mem_config: Config, agent_mem_embedder: Embedder, agent_mem_arguments: Mapping[str, Any]
    ) -> AsyncIterator[AgentMem]:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pytest.fail("agent_mem needs asyncio; have the fixture anyio_backend return 'asyncio'", pytrace=False)
        async with AgentMem(agent_mem_config, **{"embedder": agent_mem_embedder, **agent_mem_arguments}) as memory:
            yield memory

    return make_fixture(**arguments)(opened)


_agent_mem_of_anyio = _opening(pytest.fixture)
if pytest_asyncio is not None:
    # One for each loop a test can run on: a memory belongs to the loop that it was opened on.
    _agent_mem_of_function = _opening(pytest_asyncio.fixture, loop_scope="function")
    _agent_mem_of_class = _opening(pytest_asyncio.fixture, loop_scope="class")
    _agent_mem_of_module = _opening(pytest_asyncio.fixture, loop_scope="module")
    _agent_mem_of_package = _opening(pytest_asyncio.fixture, loop_scope="package")
    _agent_mem_of_session = _opening(pytest_asyncio.fixture, loop_scope="session")


async def _prepare(server: EmbeddedPostgres, embedder: Embedder) -> ConnectionSettings:
    """Start the server, or join it, and make its schema unless another worker has."""
    checked = adapted(embedder)
    await checked.prepare()
    address = await server.start()
    administrator = ConnectionSettings(
        host=address.host, port=address.port, user=address.superuser, database="postgres"
    )
    partitions: int = Config.model_fields["chunk_partitions"].default
    return await prepare_embedded(
        administrator, lambda: SchemaParameters(partitions, checked.dimension, checked.model_name)
    )


def _dsn(settings: ConnectionSettings) -> str:
    host = quote(settings.host, safe="/")
    return f"postgresql://{quote(settings.user, safe='')}@/{settings.database}?host={host}&port={settings.port}"


@contextmanager
def _shared_folder(base: Path, name: str) -> Iterator[Path]:
    """A folder that several processes use, and the last of them removes."""
    # Not there on Windows, where no embedded server runs either.
    import fcntl

    lock = os.open(base / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield base / name
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        shutil.rmtree(base / name, ignore_errors=True)
    finally:
        os.close(lock)


def _clear(environment: pytest.MonkeyPatch) -> None:
    """Forget settings of the developer's own, and with them the developer's own memories."""
    for name in [name for name in os.environ if name.upper().startswith(_PREFIX)]:
        environment.delenv(name)
