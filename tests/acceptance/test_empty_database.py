"""A database that holds no memory takes the embedder of whoever opens it; one that holds any keeps its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from agent_reminiscence import AgentMem, Config, ConfigurationError
from agent_reminiscence.database.connection import ConnectionSettings, open_connection
from agent_reminiscence.database.generations import owning_generations
from agent_reminiscence.embedders.hashing import HashEmbedder
from agent_reminiscence.services.upkeep.doctor import diagnose
from tests.acceptance.conftest import Server, dsn
from tests.conftest import TEST_DIMENSION
from tests.support.servers import BOTH_SERVERS

_OTHER_DIMENSION = 96
_FACT = "The gate is green."
_QUESTION = "What colour has the gate?"


class _OwnEmbedder(HashEmbedder):
    """Somebody's own embedder, which no other process can make."""

    @property
    def model_name(self) -> str:
        return "our-own-model"


@pytest.fixture
def database(own_database: str) -> str:
    """One of this test's own: its tables of vectors change."""
    return own_database


async def _uses_vectors(memory: AgentMem) -> bool:
    found = await memory.retrieve_memories("agent-1", _QUESTION)
    assert [hit.content for hit in found.hits] == [_FACT]
    return "meaning" in found.hits[0].score_parts


async def _current(memory: AgentMem) -> tuple[str, int]:
    [generation] = await memory.admin.generations()
    return generation.model_name, generation.dimension


@BOTH_SERVERS
async def test_an_empty_database_takes_the_embedder_it_is_opened_with(
    config: Callable[..., Config], caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever ran `migrate` did not choose it, and the application's login may not change tables itself."""
    caplog.set_level(logging.INFO, "agent_reminiscence.embedding")
    for dimension in (_OTHER_DIMENSION, 32):
        async with AgentMem(config(embedding_dimension=dimension)) as memory:
            assert await _current(memory) == (f"hash-{dimension}", dimension)
    async with AgentMem(config(), embedder=_OwnEmbedder(48)) as memory:
        assert await _current(memory) == ("our-own-model", 48)
        await memory.create_active_memory("agent-1", "House", _FACT)
        assert await _uses_vectors(memory)
        assert (await memory.admin.verify()).ok

    assert "takes those of 'hash-96' with 96 dimensions" in caplog.text
    with pytest.raises(ConfigurationError, match="'our-own-model' with 48 dimensions, but 'hash-64' is configured"):
        async with AgentMem(config()):
            pass


async def test_one_memory_of_anybody_settles_it(config: Callable[..., Config], memory: AgentMem) -> None:
    """Even after it was erased: its receipt and its numbers belong to the ledger."""
    await memory.create_active_memory("agent-1", "House", _FACT)
    with pytest.raises(ConfigurationError, match="run `agent-reminiscence reembed`"):
        async with AgentMem(config(embedding_dimension=_OTHER_DIMENSION)):
            pass
    await memory.admin.erase("agent-1")

    with pytest.raises(ConfigurationError, match="run `agent-reminiscence reembed`"):
        async with AgentMem(config(embedding_dimension=_OTHER_DIMENSION)):
            pass
    assert await _current(memory) == (f"hash-{TEST_DIMENSION}", TEST_DIMENSION)


async def test_a_process_that_was_open_follows(config: Callable[..., Config], memory: AgentMem) -> None:
    """As with reembed: it makes the same embedder, whose name the database has, and writes and searches with it."""
    async with AgentMem(config(embedding_dimension=_OTHER_DIMENSION)) as other:
        written = await memory.create_active_memory("agent-1", "House", _FACT)

        assert written.write is not None
        assert written.write.vectors_missing == 0
        assert await _uses_vectors(memory)
        assert await _uses_vectors(other)
        assert await _current(memory) == ("hash-96", 96)


async def test_of_several_who_open_at_once_each_can_remember(config: Callable[..., Config]) -> None:
    """The last one to open before the first write decides, and the others make that one's vectors, too."""
    dimensions = (32, 48, 80, 96)
    memories = [AgentMem(config(embedding_dimension=dimension, worker=False)) for dimension in dimensions * 2]
    try:
        await asyncio.gather(*(memory.initialize() for memory in memories))
        names = {await _current(memory) for memory in memories}
        assert len(names) == 1
        assert names < {(f"hash-{dimension}", dimension) for dimension in dimensions}

        for number, memory in enumerate(memories):
            written = await memory.create_active_memory(f"agent-{number}", "House", _FACT)
            assert written.write is not None
            assert written.write.vectors_missing == 0
        assert (await memories[0].admin.verify()).ok
    finally:
        for memory in memories:
            await memory.close()


async def test_who_opens_while_somebody_writes_leaves_the_vectors_alone(
    config: Callable[..., Config], server: Server, database: str, memory: AgentMem
) -> None:
    """The first write of all has begun and is not committed: it counts."""
    writer = await open_connection(server.superuser(database))
    try:
        await writer.execute_script(
            "BEGIN; INSERT INTO reminiscence.memory_stream (external_id, head) VALUES ('agent-9', 1)"
        )
        with pytest.raises(ConfigurationError, match="run `agent-reminiscence reembed`"):
            async with AgentMem(config(embedding_dimension=_OTHER_DIMENSION)):
                pass
        await writer.execute_script("ROLLBACK")
    finally:
        writer.close()

    async with AgentMem(config(embedding_dimension=_OTHER_DIMENSION)) as other:
        assert await _current(other) == ("hash-96", 96)


async def test_a_transaction_that_cannot_see_a_first_write_changes_nothing(
    server: Server, database: str, memory: AgentMem
) -> None:
    """A database's default may be another isolation level, whose snapshot is older than the locks."""
    login = await open_connection(server.login(database))
    try:
        await login.execute_script(
            "BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL ROLE reminiscence_app;"
            " SELECT count(*) FROM reminiscence.memory_stream"
        )
        await memory.create_active_memory("agent-1", "House", _FACT)
        await login.execute_script("SELECT reminiscence.take_embedder('hash-96', 96, 'hash', NULL); COMMIT")
    finally:
        login.close()

    assert await _current(memory) == (f"hash-{TEST_DIMENSION}", TEST_DIMENSION)
    assert await _uses_vectors(memory)


async def test_vectors_that_an_administrator_is_changing_are_left_alone(
    config: Callable[..., Config], server: Server, database: str, memory: AgentMem
) -> None:
    """A change that was asked for goes on, on an empty database, too."""
    administrator = ConnectionSettings.from_dsn(dsn(getattr(server, "administrator", server.superuser)(database)))
    async with owning_generations(administrator):
        with pytest.raises(ConfigurationError, match="run `agent-reminiscence reembed`"):
            async with AgentMem(config(embedding_dimension=_OTHER_DIMENSION)):
                pass


async def test_an_embedder_that_does_not_fit_is_refused_and_changes_nothing(
    config: Callable[..., Config], memory: AgentMem
) -> None:
    """More dimensions than can be indexed."""
    with pytest.raises(ConfigurationError, match="have 4001 dimensions; the index supports at most 4,000"):
        async with AgentMem(config(), embedder=HashEmbedder(4001)):
            pass

    assert await _current(memory) == (f"hash-{TEST_DIMENSION}", TEST_DIMENSION)


async def test_the_doctor_says_what_an_empty_database_will_take(
    config: Callable[..., Config], memory: AgentMem
) -> None:
    """It is no problem, and nothing is changed by looking."""
    diagnosis = await diagnose(lambda: config(embedding_dimension=_OTHER_DIMENSION))

    assert diagnosis.problems == []
    [detail] = [check.detail for check in diagnosis.checks if check.name == "embeddings"]
    assert (
        detail == "none yet; prepared for hash-64 with 64 dimensions, and takes hash-96 when a memory is opened with it"
    )
    assert await _current(memory) == (f"hash-{TEST_DIMENSION}", TEST_DIMENSION)
