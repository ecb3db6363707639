"""Fixtures for tests that need a real Ollama; a plugin of `conftest.py`. `server_hooks` says what all servers share.

The first time on a machine, Ollama is built, which takes minutes. A server that the environment names must have the
models all-minilm and smollm2:135m.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.ollama_server import OllamaServer
from tests.support.shared_servers import OLLAMA, own_server, require_startable, shared_client_settings


@pytest.fixture(scope="session")
def startable_ollama(pytestconfig: pytest.Config) -> None:
    """Skips a test that starts an `OllamaServer` of its own where that cannot be done."""
    require_startable(pytestconfig, OLLAMA)


@pytest.fixture(scope="session")
def ollama_url(pytestconfig: pytest.Config) -> str:
    """Where an Ollama with the models of `OllamaServer` is, shared by all tests; skips a test where none can be had."""
    return shared_client_settings(pytestconfig, OLLAMA)["url"]


@pytest.fixture
def own_ollama_server(startable_ollama: None) -> Iterator[OllamaServer]:
    """A server that is this test's alone, started: it may be stopped, killed and frozen."""
    with own_server(OllamaServer) as server:
        yield server
