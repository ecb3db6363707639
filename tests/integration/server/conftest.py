"""A memory for a server: the application opens and closes it."""

from __future__ import annotations

import pytest

from agent_reminiscence import AgentMem, Config
from tests.conftest import TEST_DIMENSION, TestServer, dsn


def make_config(test_server: TestServer, database: str) -> Config:
    """Settings of a memory on a database; its work is done when a test asks for it."""
    return Config(
        postgres_dsn=dsn(test_server.login(database)),
        embedding_provider="hash",
        embedding_dimension=TEST_DIMENSION,
        worker=False,
    )


@pytest.fixture
def unopened(test_server: TestServer, database: str) -> AgentMem:
    """A memory on a database of its own that nobody has opened yet."""
    return AgentMem(make_config(test_server, database))
