"""The PostgreSQL of a test process; a plugin of `conftest.py`, because documents use it as well as tests."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_reminiscence.config.constants import EMBEDDED_LOGIN
from agent_reminiscence.database.connection import open_connection
from agent_reminiscence.database.embedded import EmbeddedPostgres, ServerAddress
from tests.conftest import KEPT_FOLDER, TEST_SETTINGS, TestServer
from tests.support.costs import count_server


@pytest.fixture(scope="session")
def test_server(request: pytest.FixtureRequest) -> Iterator[TestServer]:
    """One embedded server for this process, with the application's login and no database of ours.

    In the folder that `REMINISCENCE_TEST_DATA` names it keeps its templates for the next run.
    """
    folder = Path(KEPT_FOLDER or tempfile.mkdtemp(prefix="reminiscence-test-"))
    server = EmbeddedPostgres(folder / "data", settings=TEST_SETTINGS)

    async def start() -> ServerAddress:
        address = await server.start()
        admin = await open_connection(TestServer(address).administrator("postgres"))
        try:
            if not await admin.fetch_all("SELECT 1 FROM pg_roles WHERE rolname = $(name)p", {"name": EMBEDDED_LOGIN}):
                await admin.execute_script(f"CREATE ROLE {EMBEDDED_LOGIN} LOGIN NOSUPERUSER NOBYPASSRLS NOINHERIT")
        finally:
            admin.close()
        return address

    try:
        started = TestServer(asyncio.run(start()))
        count_server(request.config, folder)
        yield started
        if KEPT_FOLDER is not None:
            asyncio.run(started.drop_databases())
    finally:
        asyncio.run(server.stop())
        if KEPT_FOLDER is None:
            shutil.rmtree(folder, ignore_errors=True)
