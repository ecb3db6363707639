"""Fixtures for tests that need mem0, which has an environment of its own (`make test-mem0`); a plugin of `conftest.py`.

Each test that asks for one of them gets the mark `mem0`; one that asks while it runs has to be given it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import psycopg
import pytest

from agent_reminiscence.integrations import Mem0CloudIndex, Mem0MemoryIndex
from agent_reminiscence.integrations.mem0 import _import_mem0
from tests.support.everyday import refuse_server
from tests.support.mem0_servers import EmbeddingModel, HostedMem0, served

MARK: Final = "mem0"
_FIXTURES: Final = frozenset({"mem0_home", "mem0_backends", "embedding_url"})

KINDS: Final = ("qdrant", "pgvector", "cloud")
"""What an index of mem0 can be made over without another server."""

_LLM: Final = {"provider": "openai", "config": {"api_key": "unused", "model": "none"}}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what asks for mem0, before `-m` selects."""
    for item in items:
        if _FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(MARK)


@pytest.fixture(scope="session")
def mem0_home(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The user's data folder, with mem0's in it; skips the test where mem0 is not installed."""
    refuse_server(pytestconfig, MARK)
    if find_spec("mem0") is None:
        pytest.skip("needs mem0: make test-mem0")
    folder = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(folder))
        patch.setenv("NO_PROXY", "127.0.0.1")
        for name in [name for name in os.environ if name.startswith(("MEM0_", "MEMORY_INDEX", "OPENAI_"))]:
            patch.delenv(name)
        # Before a test imports it: mem0 would begin to send statistics.
        _import_mem0(folder / "agent-reminiscence" / "mem0")
        yield folder


@pytest.fixture(scope="session")
def embedding_model() -> EmbeddingModel:
    """The bundled model, which mem0 asks for vectors."""
    return EmbeddingModel()


@pytest.fixture(scope="session")
def embedding_url(mem0_home: Path, embedding_model: EmbeddingModel) -> Iterator[str]:
    """Where that model is."""
    with served(embedding_model) as url:
        yield url


class Mem0Backends:
    """Makes indexes over stores that are one test's alone, and closes them."""

    def __init__(self, request: pytest.FixtureRequest, folder: Path, model: EmbeddingModel, url: str) -> None:
        self._request = request
        self._folder = folder
        self._model = model
        self._url = url
        self._made = 0
        self._opened = ExitStack()
        self._database: str | None = None
        self._ollama_url = ""
        self._hosted: tuple[HostedMem0, str] | None = None

    def close(self) -> None:
        """Close all indexes, then what they were over."""
        self._opened.close()

    def prepare(self, kind: str) -> None:
        """Start what indexes of a kind are over; not to be called while an event loop runs."""
        if kind == "pgvector":
            self.database()
        elif kind == "minilm":
            self._ollama_url = self._request.getfixturevalue("ollama_url")

    def make(self, kind: str, external_id: str | None = None, **settings: Any) -> Mem0MemoryIndex | Mem0CloudIndex:
        """An index; those of one kind share a store, except that each Qdrant has a folder unless `folder` names one.

        Args:
            kind: `qdrant`, `pgvector`, `cloud`, or `minilm`, which is a Qdrant with a real Ollama's vectors.
        """
        if kind == "cloud":
            hosted, url = self.hosted()
            with warnings.catch_warnings():
                # That texts leave the machine is said once, and has a test of its own.
                warnings.simplefilter("ignore", UserWarning)
                return self._opened.enter_context(Mem0CloudIndex(hosted.key, url, external_id=external_id, **settings))
        config = self.config(kind, settings.pop("folder", None))
        return self._opened.enter_context(Mem0MemoryIndex(external_id, config=config, **settings))

    def config(self, kind: str, folder: Path | None = None) -> dict[str, Any]:
        """A configuration for mem0."""
        if kind == "minilm":
            settings = {"model": "all-minilm", "ollama_base_url": self._ollama_url, "embedding_dims": 384}
            embedder, dimension = {"provider": "ollama", "config": settings}, 384
        else:
            settings = {"api_key": "unused", "openai_base_url": f"{self._url}/v1", "model": "bundled"}
            embedder, dimension = {"provider": "openai", "config": settings}, self._model.dimension
        if kind == "pgvector":
            store = {"connection_string": self.database(), "collection_name": "events", "hnsw": False}
        else:
            self._made += 1
            path = folder or self._folder / f"qdrant-{self._made}"
            store = {"path": str(path), "collection_name": "events", "on_disk": True}
        return {
            "vector_store": {
                "provider": "pgvector" if kind == "pgvector" else "qdrant",
                "config": store | {"embedding_model_dims": dimension},
            },
            "embedder": embedder,
            "llm": _LLM,
            "history_db_path": ":memory:",
        }

    def database(self) -> str:
        """The DSN of an empty database on the embedded server, as its superuser."""
        if self._database is None:
            server = self._request.getfixturevalue("test_server")
            admin = server.administrator("postgres")
            address = f"host={admin.host} port={admin.port} user={admin.user}"
            name = f"mem0_{uuid4().hex}"
            _execute(f"{address} dbname=postgres", f"CREATE DATABASE {name}")
            self._opened.callback(_execute, f"{address} dbname=postgres", f"DROP DATABASE {name} WITH (FORCE)")
            self._database = f"{address} dbname={name}"
        return self._database

    def hosted(self, pending: int = 2) -> tuple[HostedMem0, str]:
        """The hosted service and its address."""
        if self._hosted is None:
            hosted = HostedMem0(self._model, pending=pending)
            self._hosted = hosted, self._opened.enter_context(served(hosted))
        return self._hosted


def _execute(dsn: str, statement: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as db:
        db.execute(statement.encode())


@pytest.fixture
def mem0_backends(
    request: pytest.FixtureRequest, tmp_path: Path, embedding_model: EmbeddingModel, embedding_url: str
) -> Iterator[Mem0Backends]:
    """Makes indexes of mem0."""
    backends = Mem0Backends(request, tmp_path, embedding_model, embedding_url)
    yield backends
    backends.close()
