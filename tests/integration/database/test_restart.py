"""After a restart, a crash or a VACUUM everything is found at once: there is nothing to restore."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.database.connection import ConnectionSettings, open_connection
from agent_reminiscence.database.embedded import EmbeddedPostgres
from tests.conftest import TestServer

_COLOURS = ("red", "green", "blue", "amber", "violet")


@pytest.fixture
def own_folder() -> Iterator[Config]:
    """A data folder of this test's own, whose server it may stop and kill."""
    folder = Path(tempfile.mkdtemp(prefix="reminiscence-restart-"))
    yield Config(data_dir=folder, embedding_provider="hash", embedding_dimension=64, chunk_partitions=4, worker=False)
    shutil.rmtree(folder, ignore_errors=True)


async def _remember(memory: AgentMem) -> None:
    for colour in _COLOURS:
        await memory.create_active_memory("agent-1", "Doors", f"The key of the {colour} door hangs by the window.")


async def _found(memory: AgentMem) -> list[list[tuple[str, float, dict[str, float]]]]:
    """What is found for each colour, with scores; each is found first, by its words and by its vector."""
    found = []
    for colour in _COLOURS:
        result = await memory.retrieve_memories("agent-1", f"the {colour} door")
        assert colour in result.hits[0].content
        assert {"words", "meaning"} <= result.hits[0].score_parts.keys()
        found.append([(hit.content, hit.score_parts["words"], dict(hit.score_parts)) for hit in result.hits])
    return found


async def _wait_for_recovery(data_dir: Path) -> None:
    """Wait until the server has noticed the crash: until then it answers as if nothing had happened."""
    log, noticed = data_dir / "postgres.log", "automatic recovery in progress"
    async with asyncio.timeout(60):
        while noticed not in log.read_text(errors="replace"):  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.01)


@pytest.mark.promise
async def test_a_restart_changes_nothing_that_is_found(own_folder: Config) -> None:
    """The last user stops the server; the next one finds the same by words and vectors, and writes go on."""
    async with AgentMem(own_folder) as memory:
        await _remember(memory)
        before = await _found(memory)

    async with AgentMem(own_folder) as memory:
        assert await _found(memory) == before
        assert (await memory.admin.run_due("agent-1")).vectors_filled == 0
        await memory.create_active_memory("agent-1", "Doors", "The key of the white door is lost.")
        found = await memory.retrieve_memories("agent-1", "white door")
        assert "white" in found.hits[0].content


@pytest.mark.promise
async def test_a_crash_under_an_open_memory_changes_nothing_that_is_found(own_folder: Config) -> None:
    """A killed backend makes the server clear its shared memory; nothing of an index was kept there alone."""
    async with AgentMem(own_folder) as memory:
        await _remember(memory)
        before = await _found(memory)
        assert own_folder.data_dir is not None
        bystander = EmbeddedPostgres(own_folder.data_dir)
        address = await bystander.start()
        try:
            admin = await open_connection(
                ConnectionSettings(
                    host=address.host, port=address.port, user=address.superuser, database="reminiscence"
                )
            )
            row = await admin.fetch_one("SELECT pg_backend_pid() AS pid")
            assert row is not None
            os.kill(row["pid"], signal.SIGKILL)
            admin.close()
            await _wait_for_recovery(own_folder.data_dir)
            await bystander.start()  # waits until the server accepts connections again

            assert await _found(memory) == before
        finally:
            await bystander.stop()


async def test_vacuum_and_reindex_change_nothing_that_is_found(
    memory: AgentMem, test_server: TestServer, database: str
) -> None:
    """A consolidation changes the rows of its chunks; what the index says of them stays where it is."""
    await _remember(memory)
    await memory.admin.consolidate("agent-1")
    before = await _found(memory)
    administrator = await open_connection(test_server.administrator(database))
    try:
        await administrator.execute_script("SET search_path = reminiscence, public")
        await administrator.execute_script("VACUUM")
        await administrator.execute_script("REINDEX SCHEMA reminiscence")
    finally:
        administrator.close()

    assert await _found(memory) == before
