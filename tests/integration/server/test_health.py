"""What the server says of itself to whoever started it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

import httpx
import pytest

from agent_reminiscence import AgentMem, Config, EmbeddingError
from agent_reminiscence.database.connection import open_connection
from agent_reminiscence.server import ServerConfig, create_app
from agent_reminiscence.server.access.authenticators import LocalToken
from agent_reminiscence.server.health import HealthCheck
from tests.conftest import TestServer
from tests.support.fakes import FaultyEmbedder
from tests.support.serving import serve
from tests.support.steps import refusing

_TOKEN = "t" * 32
_LONG = "The harbour of Lisbon opens at nine on Monday. " * 50


async def _until(client: httpx.AsyncClient, status: int) -> Any:
    """What `/readyz` says once it has this status."""
    async with asyncio.timeout(60):
        while (answer := await client.get("/readyz")).status_code != status:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.05)
    return answer.json()


@pytest.mark.thorough
async def test_a_worker_that_fails_is_not_ready(
    config: Callable[..., Config], test_server: TestServer, database: str
) -> None:
    """It would look healthy while nothing of what it is told is worked on; it is alive all the same."""
    memory = AgentMem(config(worker=True, job_retry_seconds=3600))
    superuser = test_server.administrator(database)
    async with serve(create_app(memory, LocalToken(_TOKEN)), _TOKEN) as served, served.with_token(None) as client:
        assert await _until(client, 200) == {"status": "ready"}
        async with refusing(superuser, "memory_event", "kind <> 'memory.consolidated'"):
            await memory.create_active_memory("agent-1", "Harbour", _LONG)
            told = await _until(client, 503)
            assert told["reasons"] == ["work"]
            assert (told["type"], told["status"]) == ("urn:agent-reminiscence:problem:not-ready", 503)
            assert "agent-1" not in str(told)
            assert "Lisbon" not in str(told)
            assert (await client.get("/healthz")).json() == {"status": "ok"}
            figures = (await served.client.get("/metrics")).text.splitlines()
            assert "reminiscence_worker_up 0.0" in figures
            assert "reminiscence_store_up 1.0" in figures
        # The next write is worked on at once, whatever failed before it.
        await memory.create_active_memory("agent-1", "Quay", _LONG)
        assert await _until(client, 200) == {"status": "ready"}
        assert 'reminiscence_jobs{state="failed"} 0.0' in (await served.client.get("/metrics")).text


async def test_a_store_that_does_not_answer_is_not_ready(
    config: Callable[..., Config], test_server: TestServer, database: str
) -> None:
    """Within the time that is set; figures are told all the same, without those that only the store knows."""
    app = create_app(AgentMem(config(worker=True)), LocalToken(_TOKEN), config=ServerConfig(ready_timeout_seconds=0.3))
    async with serve(app, _TOKEN) as served, served.with_token(None) as client:
        await _until(client, 200)
        db = await open_connection(test_server.administrator(database))
        try:
            await db.execute_script("BEGIN; LOCK TABLE reminiscence.memory_stream IN ACCESS EXCLUSIVE MODE")
            told = await _until(client, 503)
            assert told["reasons"][0] == "store"
            figures = (await served.client.get("/metrics")).text
            assert "reminiscence_store_up 0.0" in figures
            assert "reminiscence_jobs{" not in figures
            await db.execute_script("ROLLBACK")
        finally:
            db.close()
        assert await _until(client, 200) == {"status": "ready"}


async def test_a_server_that_leaves_the_work_to_others_needs_no_worker(unopened: AgentMem) -> None:
    """And has no figure of one."""
    async with serve(create_app(unopened, LocalToken(_TOKEN)), _TOKEN) as served:
        assert (await served.client.get("/readyz")).json() == {"status": "ready"}
        assert "reminiscence_worker_up" not in (await served.client.get("/metrics")).text


async def test_many_who_ask_at_once_ask_the_store_once(memory: AgentMem) -> None:
    """Anybody may ask, and as often as they like; an answer is kept for a second."""
    now = 100.0
    check = HealthCheck(memory, timeout_seconds=30, clock=lambda: now)
    first, *others = await asyncio.gather(*(check.look() for _ in range(20)))
    assert all(one is first for one in others)
    now += 0.9
    assert await check.look() is first
    now += 0.2
    assert await check.look() is not first


async def test_vectors_that_could_not_be_made_are_told_to_those_whom_they_concern(
    config: Callable[..., Config],
) -> None:
    """A tenant's administrator sees its own; whoever runs the server sees numbers, and the server stays ready."""

    def refuse(texts: Sequence[str], right: list[list[float]]) -> list[list[float]]:
        raise EmbeddingError(f"no vector of {list(texts)!r}")

    embedder = FaultyEmbedder(refuse)
    memory = AgentMem(config(), embedder=embedder)
    async with serve(create_app(memory, LocalToken(_TOKEN)), _TOKEN) as served:

        async def jobs_of(tenant: str) -> list[dict[str, Any]]:
            answer = await served.client.get("/v1/jobs", headers={"X-External-Id": tenant})
            return cast("list[dict[str, Any]]", answer.json()["jobs"])

        written = await memory.create_active_memory("agent-1", "Harbour", "The harbour of Lisbon opens at nine.")
        assert written.write is not None
        [job] = await jobs_of("agent-1")
        assert (job["state"], job["vectors_missing"]) == ("waiting", 1)
        assert job["vectors_missing_since"] is not None
        assert "EmbeddingError" in job["vectors_error"]
        assert "Lisbon" not in str(job)
        assert await jobs_of("agent-2") == []
        assert (await served.client.get("/readyz")).status_code == 200
        figures = (await served.client.get("/metrics")).text
        assert "reminiscence_chunks_without_vectors 1.0" in figures
        assert "reminiscence_tenants_without_vectors 1.0" in figures
        assert "agent-1" not in figures

        embedder.mend()
        await memory.admin.run_due("agent-1")
        assert [job["vectors_missing_since"] for job in await jobs_of("agent-1")] == [None]
