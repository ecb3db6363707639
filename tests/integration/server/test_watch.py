"""An answer that takes long does not outlast its credential."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from starlette.responses import StreamingResponse

from agent_reminiscence import AgentMem
from agent_reminiscence.server import ServerConfig, create_app
from agent_reminiscence.server.access.authenticators import Authenticator
from agent_reminiscence.server.access.grants import Grant, Scope
from agent_reminiscence.server.access.keys import KeyAuthenticator
from agent_reminiscence.server.problems import ProblemError
from tests.conftest import TestServer, dsn
from tests.support.mcp_clients import Keys
from tests.support.serving import Served, serve
from tests.support.sse import ServerEvent, read_events

_READS = frozenset({Scope.READ})
_EVENTS = {"Accept": "text/event-stream"}
_PATIENCE_SECONDS = 60
_SELDOM_SECONDS = 3_600.0


@asynccontextmanager
async def _served(memory: AgentMem, authenticator: Authenticator, check_seconds: float) -> AsyncGenerator[Served]:
    app = create_app(memory, authenticator, config=ServerConfig(credential_check_seconds=check_seconds))

    @app.get("/v1/file")
    async def file() -> StreamingResponse:
        async def parts() -> AsyncIterator[bytes]:
            yield b"the beginning"
            await asyncio.Event().wait()

        return StreamingResponse(parts(), headers={"Content-Length": "2000000"})

    # Before the inspector, which has the other paths.
    app.router.routes.insert(0, app.router.routes.pop())
    async with serve(app) as served:
        yield served


async def _first_of(events: AsyncIterator[ServerEvent]) -> ServerEvent:
    """The next event that is none of the stream's own comments."""
    return await anext(event async for event in events if event.data is not None)


async def _rest_of(answer: httpx.Response) -> list[str]:
    """The titles that a stream still brings, to its end."""
    async with asyncio.timeout(_PATIENCE_SECONDS):
        return [event.data["payload"]["title"] async for event in read_events(answer) if event.data is not None]


async def test_a_stream_ends_soon_after_its_key_is_revoked(
    unopened: AgentMem, memory: AgentMem, test_server: TestServer, database: str
) -> None:
    """As a whole answer; whoever connects again is told why not."""
    admin_dsn = dsn(test_server.administrator(database))
    key = await memory.admin.keys.create("ida", scopes=["read"], admin_dsn=admin_dsn)
    async with (
        _served(unopened, KeyAuthenticator(unopened), 0.05) as served,
        served.with_token(key.secret, _EVENTS) as client,
    ):
        async with client.stream("GET", "/v1/events") as answer:
            await memory.create_active_memory("ida", "Before", "The kettle is on.")
            events = read_events(answer)
            assert (await _first_of(events)).data["payload"]["title"] == "Before"
            await memory.admin.keys.revoke(key.id, admin_dsn=admin_dsn)
            async with asyncio.timeout(_PATIENCE_SECONDS):
                assert [event async for event in events if event.data is not None] == []
        assert (await client.get("/v1/events")).status_code == 401


async def test_a_stream_ends_when_its_credential_expires(unopened: AgentMem) -> None:
    """However seldom it is checked."""
    grant = Grant(subject="k", scopes=_READS, external_id="ida", expires_at=datetime.now(UTC) + timedelta(seconds=1))
    async with (
        _served(unopened, Keys(ida=grant), _SELDOM_SECONDS) as served,
        served.with_token("ida", _EVENTS) as client,
        client.stream("GET", "/v1/events") as answer,
    ):
        assert answer.status_code == 200
        assert await _rest_of(answer) == []


async def test_a_file_that_is_not_whole_is_broken_off(unopened: AgentMem) -> None:
    """It would be taken for all that there is."""
    keys = Keys(ida=Grant(subject="k", scopes=_READS, external_id="ida"))
    async with (
        _served(unopened, keys, 0.05) as served,
        served.with_token("ida") as client,
        client.stream("GET", "/v1/file") as answer,
    ):
        parts = answer.aiter_bytes()
        assert await anext(parts) == b"the beginning"
        del keys.grants["ida"]
        with pytest.raises(httpx.RemoteProtocolError):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await anext(parts)


class _Away:
    """Knows a credential, and then cannot be asked any more.

    Attributes:
        asked: How often it was asked since.
    """

    def __init__(self) -> None:
        self.is_away = False
        self.asked = asyncio.Semaphore(0)

    async def authenticate(self, secret: str) -> Grant | None:
        """The same for everybody."""
        if self.is_away:
            self.asked.release()
            raise ProblemError(503, "unavailable", "the issuer is away")
        return Grant(subject="k", scopes=_READS, external_id="ida")


async def test_a_stream_goes_on_while_nobody_knows_whether_its_credential_is_valid(
    unopened: AgentMem, memory: AgentMem
) -> None:
    """Or an issuer that restarts would end all of them."""
    away = _Away()
    async with (
        _served(unopened, away, 0.02) as served,
        served.with_token("ida", _EVENTS) as client,
        client.stream("GET", "/v1/events") as answer,
    ):
        away.is_away = True
        async with asyncio.timeout(_PATIENCE_SECONDS):
            for _ in range(3):
                await away.asked.acquire()
            await memory.create_active_memory("ida", "After", "The kettle is on.")
            first = await _first_of(read_events(answer))
    assert first.data["payload"]["title"] == "After"


async def test_a_credential_that_allows_less_than_before_ends_its_stream(unopened: AgentMem) -> None:
    """Or acts for somebody else: a grant counts as a whole."""
    for other in (
        Grant(subject="k", scopes=frozenset({Scope.WRITE}), external_id="ida"),
        Grant(subject="k", scopes=_READS, external_id="joe", also_reads=("team",)),
        Grant(subject="k", scopes=_READS, external_id="ida"),
    ):
        keys = Keys(ida=Grant(subject="k", scopes=_READS, external_id="ida", also_reads=("team",)))
        async with (
            _served(unopened, keys, 0.05) as served,
            served.with_token("ida", _EVENTS) as client,
            client.stream("GET", "/v1/events") as answer,
        ):
            keys.grants["ida"] = other
            assert await _rest_of(answer) == []


async def test_a_call_of_mcp_is_answered_by_a_credential_that_is_valid(unopened: AgentMem) -> None:
    """Its answer is a stream, too, and complete long before the next check."""
    keys = Keys(ida=Grant(subject="k", scopes=_READS, external_id="ida"))
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
    async with _served(unopened, keys, _SELDOM_SECONDS) as served, served.with_token("ida", headers) as client:
        answer = await client.post("/mcp", json=message)
    [data] = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: {")]
    assert len(json.loads(data)["result"]["tools"]) == 3
