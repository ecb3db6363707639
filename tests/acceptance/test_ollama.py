"""A memory whose vectors come from a real Ollama, which is there, is away, comes back; and a writer that is killed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.embedders.ollama import OllamaEmbedder
from tests.acceptance.conftest import dsn
from tests.conftest import TestServer
from tests.support.ollama_server import OLLAMA_DIMENSION, OLLAMA_MODEL, OllamaServer

NOTES = (
    "We ship the release on Friday after lunch.",
    "My cat sleeps all day on the warm radiator.",
    "The rent of the flat in Porto is due on the first.",
)
QUESTION = "When will the new version be delivered?"

WRITER = """
import asyncio, sys
from pydantic import SecretStr
from agent_reminiscence import AgentMem, Config

async def write(dsn, url):
    config = Config(
        postgres_dsn=SecretStr(dsn), embedding_provider="ollama", embedding_model="all-minilm", ollama_base_url=url,
        worker=False,
    )
    async with AgentMem(config) as memory:
        for number in range(10_000):
            await memory.create_active_memory("ollama-killed", f"Note {number}", f"The heron of day {number} was grey.")
            print(number, flush=True)

asyncio.run(write(*sys.argv[1:]))
"""


@pytest.fixture
async def ollama_database(test_server: TestServer) -> AsyncIterator[str]:
    """A DSN of a database for the vectors of all-minilm."""
    name = await test_server.create_database(OllamaEmbedder(OLLAMA_MODEL))
    yield dsn(test_server.login(name))
    await test_server.drop_database(name)


@pytest.fixture
def make_config(ollama_database: str) -> Callable[..., Config]:
    """Makes settings for that database; keywords override them."""

    def make(url: str, **settings: Any) -> Config:
        defaults: dict[str, Any] = {
            "postgres_dsn": ollama_database,
            "embedding_provider": "ollama",
            "embedding_model": OLLAMA_MODEL,
            "embedding_timeout_seconds": 120,
            "ollama_base_url": url,
            "worker": False,
        }
        return Config(**(defaults | settings))

    return make


async def test_memories_are_found_by_meaning(ollama_url: str, make_config: Callable[..., Config]) -> None:
    """A question that shares no word with its answer finds it, which words alone do not."""
    async with AgentMem(make_config(ollama_url)) as memory:
        for number, note in enumerate(NOTES):
            written = await memory.create_active_memory("ollama-reader", f"Note {number}", note)
            assert written.write is not None
            assert written.write.vectors_missing == 0
        found = await memory.retrieve_memories("ollama-reader", QUESTION)

    assert found.hits[0].content == NOTES[0]
    assert "meaning" in found.hits[0].score_parts
    assert not found.omitted


async def test_a_start_a_write_and_a_question_go_on_without_the_server(
    own_ollama_server: OllamaServer, make_config: Callable[..., Config]
) -> None:
    """An outage costs vectors, never a memory; once it is over, one run of the work makes what is missing."""
    await asyncio.to_thread(own_ollama_server.stop)
    async with AgentMem(make_config(own_ollama_server.url)) as memory:
        written = await memory.create_active_memory("ollama-away", "Plan", NOTES[0])
        assert written.write is not None
        assert written.write.vectors_missing == 1
        found = await memory.retrieve_memories("ollama-away", "release on Friday")
        assert [hit.content for hit in found.hits] == [NOTES[0]]
        assert [omission.reason for omission in found.omitted] == ["no_query_vector"]

    await asyncio.to_thread(own_ollama_server.start)
    async with AgentMem(make_config(own_ollama_server.url)) as memory:
        await memory.admin.consolidate("ollama-away")
        found = await memory.retrieve_memories("ollama-away", QUESTION)
        assert "meaning" in found.hits[0].score_parts
        assert (await memory.admin.verify("ollama-away")).ok


async def test_what_a_killed_writer_left_is_filled_in(
    own_ollama_server: OllamaServer, make_config: Callable[..., Config], ollama_database: str
) -> None:
    """SIGKILL in the middle of an ingest, and the server away meanwhile: afterwards no chunk lacks its vector."""
    writer = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", WRITER, ollama_database, own_ollama_server.url),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert writer.stdout is not None
    written = 0
    while line := await writer.stdout.readline():
        written = int(line) + 1
        if written == 5:
            # From here on it writes without vectors.
            await asyncio.to_thread(own_ollama_server.kill)
        if written == 10:
            writer.kill()
            break
    await writer.wait()
    assert written == 10
    await asyncio.to_thread(own_ollama_server.start)

    async with AgentMem(make_config(own_ollama_server.url, worker=True, job_retry_seconds=0.5)) as memory:
        await memory.admin.consolidate("ollama-killed")
        await memory.admin.wait_until_idle("ollama-killed", timeout_seconds=240)
        memories = await memory.get_active_memories("ollama-killed")
        usage = await memory.admin.usage("ollama-killed")
        assert (await memory.admin.verify("ollama-killed")).ok

    assert len(memories) >= written
    assert usage.vectors_missing == 0


async def test_the_recorded_dimension_is_that_of_the_model(ollama_url: str) -> None:
    """What is known of a well-known model is what the server says of it."""
    embedder = OllamaEmbedder(OLLAMA_MODEL, base_url=ollama_url)
    await embedder.prepare()
    await embedder.aclose()

    assert embedder.dimension == OLLAMA_DIMENSION
