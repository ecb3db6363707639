"""What restarts, crashes and VACUUM leave of the BM25 indexes."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.database.embedded import EmbeddedPostgres
from agent_reminiscence.database.postgres_manager import ConnectionSettings, open_connection
from agent_reminiscence.database.queries import all_query_files, load_queries
from tests.conftest import TestServer

_COLOURS = ("red", "green", "blue", "amber", "violet")


@pytest.fixture
def own_folder() -> Iterator[Config]:
    """A data folder of this test's own, whose server it may stop and kill."""
    folder = Path(tempfile.mkdtemp(prefix="reminiscence-restart-"))
    yield Config(data_dir=folder, embedding_provider="hash", embedding_dimension=64, chunk_partitions=4)
    shutil.rmtree(folder, ignore_errors=True)


async def _remember(memory: AgentMem) -> None:
    for colour in _COLOURS:
        await memory.create_active_memory("agent-1", "Doors", f"The key of the {colour} door hangs by the window.")


async def _check_words(memory: AgentMem) -> None:
    """Each colour is found first by all three word rankings."""
    for colour in _COLOURS:
        found = await memory.retrieve_memories("agent-1", f"the {colour} door")
        assert colour in found.hits[0].content
        assert {"bm25_text", "bm25_before", "bm25_around"} <= found.hits[0].ranks.keys()
        assert found.hits[0].ranks["bm25_text"] == 1


async def test_words_are_found_after_the_server_was_stopped_and_started(own_folder: Config) -> None:
    """The last user stops the server; the next one finds what was written, by its words."""
    async with AgentMem(own_folder) as memory:
        await _remember(memory)

    async with AgentMem(own_folder) as memory:
        await _check_words(memory)
        await memory.create_active_memory("agent-1", "Doors", "The key of the white door is lost.")
        found = await memory.retrieve_memories("agent-1", "white door")
        assert found.hits[0].ranks["bm25_text"] == 1


async def test_the_planner_knows_after_a_restart_how_much_there_is(own_folder: Config) -> None:
    """Building a text index makes PostgreSQL forget how many rows there are; look-ups of a few would read them all."""
    async with AgentMem(own_folder) as memory:
        await _remember(memory)

    async with (
        AgentMem(own_folder) as memory,
        memory._ready().stores.postgres.transaction("agent-1", read_only=True) as db,
    ):
        row = await db.fetch_one(
            "SELECT sum(greatest(reltuples, 0))::float8 AS rows FROM pg_class"
            " WHERE relname ~ '^memory_chunk_p[0-9]+$' AND relkind = 'r'"
        )
    assert row == {"rows": len(_COLOURS)}


async def test_words_are_found_after_a_crash_under_an_open_memory(own_folder: Config) -> None:
    """A killed backend makes the server clear its shared memory; new connections mend the indexes first."""
    async with AgentMem(own_folder) as memory:
        await _remember(memory)
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
            await bystander.start()  # waits until the server accepts connections again

            await _check_words(memory)
        finally:
            await bystander.stop()


async def test_words_are_found_after_vacuum(memory: AgentMem, test_server: TestServer, database: str) -> None:
    """A consolidation changes the rows of its chunks; VACUUM must not take their entries for those of dead rows."""
    numbers = range(60)
    text = "\n\n".join(f"The lighthouse keeper counted beacon{number} on his round." for number in numbers)
    await memory.create_active_memory("agent-1", "Round", text)
    await memory.admin.consolidate("agent-1")
    administrator = await open_connection(test_server.administrator(database))
    try:
        await administrator.execute_script("SET search_path = reminiscence, public")
        await administrator.execute_script("VACUUM memory_chunk")
    finally:
        administrator.close()

    for number in numbers:
        found = await memory.retrieve_memories("agent-1", f"beacon{number}")
        assert found.hits[0].tier != "active"
        assert f"beacon{number} " in found.hits[0].content
        assert found.hits[0].ranks["bm25_text"] == 1


def test_every_update_of_a_chunk_raises_its_revision() -> None:
    """An update in place would leave the text indexes with the row's first version, which VACUUM drops from them."""
    updates = [
        statement
        for stem in all_query_files("sql")
        for query in load_queries("sql", stem).values()
        for statement in query.split("UPDATE memory_chunk")[1:]
    ]

    assert len(updates) == 10
    for statement in updates:
        assignments, _, _ = statement.partition("WHERE")
        assert "revision = " in assignments
