"""Connections that do nothing: none of them keeps anybody else out, and none stays for ever."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest
from fastapi import Request
from prometheus_client import CollectorRegistry
from starlette.responses import Response

from agent_reminiscence import AgentMem
from agent_reminiscence.server import ServerConfig
from agent_reminiscence.server.access import strangers
from agent_reminiscence.server.connections.acceptor import Acceptor
from agent_reminiscence.server.connections.registry import Connections
from agent_reminiscence.server.process import Server

_TOKEN = "t" * 32
_PATIENCE_SECONDS = 60
type _Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class _Stage:
    """A server as `serve` runs it, with routes that do what a test tells them."""

    server: Server
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)
    reached: list[str] = field(default_factory=list)
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def connect(self, data: bytes = b"") -> _Client:
        """A connection on which something was sent."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        self.writers.append(writer)
        writer.write(data)
        await writer.drain()
        return reader, writer

    def figure(self, name: str, **labels: str) -> float:
        """One of the server's figures."""
        registry: CollectorRegistry = self.server.app.state.metrics.registry
        return registry.get_sample_value(name, labels) or 0.0

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while not is_so():  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.005)

    async def until_open(self, connections: int) -> None:
        """Wait until so many are open."""
        await self.until(lambda: self.figure("reminiscence_http_connections_open") == connections)

    async def until_in_flight(self, requests: int) -> None:
        """Wait until so many are being answered."""
        await self.until(lambda: self.figure("reminiscence_http_requests_in_flight") == requests)


def _request(path: str, *, method: str = "GET", token: str | None = _TOKEN, more: str = "") -> bytes:
    credential = "" if token is None else f"Authorization: Bearer {token}\r\n"
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{credential}{more}\r\n".encode()


async def _status(reader: asyncio.StreamReader) -> int:
    async with asyncio.timeout(_PATIENCE_SECONDS):
        return int((await reader.readuntil(b"\r\n\r\n")).split()[1])


async def _rest(reader: asyncio.StreamReader) -> bytes:
    """What comes until the server closes the connection."""
    async with asyncio.timeout(_PATIENCE_SECONDS):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""


@asynccontextmanager
async def _on_stage(memory: AgentMem, **settings: object) -> AsyncGenerator[_Stage]:
    server = Server(memory, ServerConfig(port=0, token=_TOKEN, **settings), with_keys=True)
    stage = _Stage(server)
    ours = len(server.app.router.routes)

    @server.app.post("/v1/slow")
    @server.app.get("/v1/slow")
    async def slow() -> dict[str, bool]:
        stage.reached.append("slow")
        await stage.may_answer.wait()
        return {"ok": True}

    @server.app.get("/v1/huge")
    async def huge() -> Response:
        return Response(b"x" * 50_000_000)

    @server.app.post("/v1/count")
    async def count(request: Request) -> dict[str, int]:
        return {"bytes": len(await request.body())}

    server.app.router.routes[:] = [*server.app.router.routes[ours:], *server.app.router.routes[:ours]]
    started = asyncio.Event()
    running = server.as_uvicorn(started.set, file_limit=None)
    async with server:
        # Signals belong to the process that runs the tests.
        task = asyncio.create_task(running._serve(sockets=[]))
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await started.wait()
            yield stage
        finally:
            stage.may_answer.set()
            running.should_exit = True
            for writer in stage.writers:
                writer.close()
            await task


@pytest.fixture
async def stage(unopened: AgentMem) -> AsyncIterator[_Stage]:
    """A server that waits a fifth of a second for heads, and takes eight connections."""
    async with _on_stage(unopened, head_seconds=0.2, max_connections=8) as stage:
        yield stage


async def test_a_connection_that_sends_no_head_is_closed(stage: _Stage) -> None:
    """Neither silence nor a byte now and then keeps it open; who has begun is told why."""
    silent, half, slow = await stage.connect(), await stage.connect(b"GET /healthz HT"), await stage.connect(b"G")

    async def trickle() -> None:
        while True:
            slow[1].write(b"E")
            await asyncio.sleep(0.01)

    trickling = asyncio.create_task(trickle())
    assert await _rest(silent[0]) == b""
    assert (await _rest(half[0])).startswith(b"HTTP/1.1 408 ")
    assert await _rest(slow[0]) in (
        b"",
        b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    )
    trickling.cancel()
    await stage.until_open(0)
    assert stage.figure("reminiscence_http_connections_closed_total", reason="head-too-slow") == 3


async def test_each_further_head_has_the_same_time(stage: _Stage) -> None:
    """A client that was answered once has no more of it."""
    reader, writer = await stage.connect(_request("/healthz"))
    assert await _status(reader) == 200
    await asyncio.sleep(0.3)
    # It is kept for a next request, which comes now, but not to its end.
    writer.write(b"GET /healthz HTTP/1.1\r\n")
    assert b"408 Request Timeout" in await _rest(reader)


async def test_the_rest_of_a_body_that_nobody_wants_keeps_nothing_open(stage: _Stage) -> None:
    """The answer is there before the body is; the client goes on sending."""
    reader, writer = await stage.connect(
        _request("/v1/count", method="POST", token=None, more="Content-Length: 9999\r\n")
    )
    assert await _status(reader) == 401

    async def trickle() -> None:
        while True:
            writer.write(b"x")
            await asyncio.sleep(0.01)

    trickling = asyncio.create_task(trickle())
    await stage.until_open(0)
    trickling.cancel()


async def test_one_more_takes_the_place_of_the_one_that_was_idle_for_longest(unopened: AgentMem) -> None:
    """Also of one that is kept for a next request."""
    async with _on_stage(unopened, head_seconds=600, max_connections=8) as stage:
        kept = await stage.connect(_request("/healthz"))
        assert await _status(kept[0]) == 200
        busy = await stage.connect(_request("/v1/slow"))
        await stage.until(lambda: len(stage.reached) == 1)
        idle = []
        for number in range(3, 9):
            idle.append(await stage.connect(b"GET"))
            await stage.until_open(number)
        for victim in (kept, idle[0]):
            new = await stage.connect(_request("/healthz"))
            assert await _status(new[0]) == 200
            await _rest(victim[0])
        assert stage.figure("reminiscence_http_connections_open") == 8
        assert stage.figure("reminiscence_http_connections_closed_total", reason="crowded-out") == 2
        stage.may_answer.set()
        assert await _status(busy[0]) == 200


async def test_a_request_of_a_stranger_makes_room_and_one_with_a_credential_does_not(unopened: AgentMem) -> None:
    """A form of signing in may take its time only while nobody needs the place."""
    settings = {"max_connections": 8, "max_connections_per_subject": 8, "max_calls_per_subject": 8}
    async with _on_stage(unopened, head_seconds=600, **settings) as stage:
        form = "Origin: http://localhost\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 9\r\n"
        stranger = await stage.connect(_request("/sign-in", method="POST", token=None, more=form))
        await stage.until_open(1)
        calls = [await stage.connect(_request("/v1/slow")) for _ in range(7)]
        await stage.until(lambda: len(stage.reached) == 7)
        calls.append(await stage.connect(_request("/v1/slow")))
        await stage.until(lambda: len(stage.reached) == 8)
        assert await _rest(stranger[0]) == b""
        # Now all are busy for callers of ours: one more waits, and nobody is cut off.
        waiting = await stage.connect(_request("/healthz"))
        await asyncio.sleep(0.3)
        assert stage.figure("reminiscence_http_connections_open") == 8
        stage.may_answer.set()
        assert [await _status(reader) for reader, _ in calls] == [200] * 8
        assert await _status(waiting[0]) == 200


async def test_forged_keys_that_wait_for_their_refusal_keep_nobody_out(unopened: AgentMem) -> None:
    """They hold all places and come again at once, and a valid key is answered all the same."""
    settings = {"max_connections": 8, "wrong_credentials_per_minute": 1, "refusal_delay_seconds": 30}
    async with _on_stage(unopened, head_seconds=600, **settings) as stage:

        async def forge(number: int) -> None:
            while True:
                reader, writer = await stage.connect(_request("/v1/slow", token=f"forged-{number}"))
                with suppress(OSError):
                    await reader.read()
                writer.close()

        stage.may_answer.set()
        first, _ = await stage.connect(_request("/v1/slow", more="Connection: close\r\n"))
        assert await _status(first) == 200
        forging = [asyncio.create_task(forge(number)) for number in range(12)]
        await stage.until(lambda: stage.figure("reminiscence_http_requests_in_flight") >= 8)
        for _ in range(5):
            reader, writer = await stage.connect()
            # The head comes a moment later: more of them come meanwhile.
            await asyncio.sleep(0.1)
            writer.write(_request("/v1/slow"))
            assert await _status(reader) == 200
            writer.close()
        for task in forging:
            task.cancel()
        await asyncio.gather(*forging, return_exceptions=True)


def _slow_body(tenant: str) -> bytes:
    return _request("/v1/count", method="POST", more=f"X-External-Id: {tenant}\r\nContent-Length: 5\r\n")


async def test_one_caller_has_only_its_share_of_connections(unopened: AgentMem) -> None:
    """Each further request of it is refused at once; those that it has are answered, and so is everybody else."""
    async with _on_stage(unopened, max_connections=16, body_pause_seconds=600) as stage:
        slow = [await stage.connect(_slow_body("greedy")) for _ in range(4)]
        await stage.until_in_flight(4)
        for _ in range(20):
            reader, _ = await stage.connect(_slow_body("greedy"))
            answer = (await _rest(reader)).lower()
            assert answer.startswith(b"http/1.1 503 ")
            assert b"connection: close" in answer
        reader, _ = await stage.connect(_request("/v1/openapi.json", more="X-External-Id: modest\r\n"))
        assert await _status(reader) == 200
        for _, writer in slow:
            writer.write(b"abcde")
        assert [await _status(reader) for reader, _ in slow] == [200] * 4
        reader, writer = await stage.connect(_slow_body("greedy"))
        writer.write(b"abcde")
        assert await _status(reader) == 200


async def test_when_places_are_full_the_caller_with_most_gives_one_up_that_only_waits(unopened: AgentMem) -> None:
    """For its body here; a call that is worked on stays."""
    settings = {"max_connections": 8, "max_connections_per_subject": 8, "body_pause_seconds": 600}
    async with _on_stage(unopened, head_seconds=600, **settings) as stage:
        call = await stage.connect(_request("/v1/slow", more="X-External-Id: greedy\r\n"))
        await stage.until(lambda: len(stage.reached) == 1)
        modest = [await stage.connect(_slow_body("modest")) for _ in range(3)]
        await stage.until_in_flight(4)
        greedy = []
        for number in range(5, 9):
            greedy.append(await stage.connect(_slow_body("greedy")))
            await stage.until_in_flight(number)
        # All have had their first second, and are known to be slow.
        await asyncio.sleep(2)
        reader, _ = await stage.connect(_request("/healthz"))
        assert await _status(reader) == 200
        assert await _rest(greedy[0][0]) == b""
        assert stage.figure("reminiscence_http_connections_closed_total", reason="crowded-out") == 1
        stage.may_answer.set()
        for _, writer in (*modest, *greedy[1:]):
            writer.write(b"abcde")
        assert [await _status(reader) for reader, _ in (call, *modest, *greedy[1:])] == [200] * 7


@pytest.mark.parametrize("body", ["", "Content-Length: 5\r\n"])
async def test_a_refusal_waits_no_longer_than_its_client_or_the_server(unopened: AgentMem, body: str) -> None:
    """Of forged keys whose clients have gone nothing is left, whether or not a body was still to come."""
    async with _on_stage(unopened, wrong_credentials_per_minute=1, refusal_delay_seconds=60) as stage:
        for number in range(20):
            await stage.connect(_request("/v1/count", method="POST", token=f"forged-{number}", more=body))
        # One is within the allowance.
        await stage.until_in_flight(19)
        for writer in stage.writers:
            writer.close()
        await stage.until_in_flight(0)

        reader, _ = await stage.connect(_request("/v1/count", token=None))
        late, _ = await stage.connect(_request("/v1/count", token="forged"))
        await stage.until_in_flight(2)
        stage.server.app.state.stopping.set()
        assert [await _status(reader), await _status(late)] == [401, 401]


async def test_a_flood_of_forged_keys_is_hung_up_on(
    unopened: AgentMem, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Beyond as many as may wait; whoever is known is answered, and nothing is logged."""
    monkeypatch.setattr(strangers, "MOST_WAITING", 3)
    async with _on_stage(unopened, wrong_credentials_per_minute=1, refusal_delay_seconds=60) as stage:
        stage.may_answer.set()
        for token, status in ((_TOKEN, 200), (None, 401)):
            reader, _ = await stage.connect(_request("/v1/slow", token=token))
            assert await _status(reader) == status
        for number in range(3):
            await stage.connect(_request("/v1/slow", token=f"forged-{number}"))
            await stage.connect(_request("/v1/slow", token=None))
        await stage.until_in_flight(6)
        with caplog.at_level(logging.WARNING):
            for token in ("forged", None):
                reader, _ = await stage.connect(_request("/v1/slow", token=token))
                assert await _rest(reader) == b""
            reader, _ = await stage.connect(_request("/v1/slow"))
            assert await _status(reader) == 200
        assert caplog.messages == []
        assert stage.figure("reminiscence_http_refused_total", reason="too-many-requests") == 2


async def test_what_is_no_http_is_counted_and_not_logged(stage: _Stage, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever sends it could otherwise fill the disk; a body that breaks off in the middle is no other thing."""
    chunked = _request("/v1/count", method="POST", more="Transfer-Encoding: chunked\r\n") + b"zz\r\n"
    later = _request("/v1/slow", method="POST", more="Transfer-Encoding: chunked\r\n")
    with caplog.at_level(logging.INFO):
        for data in (b"\x16\x03\x01\x02\x00\r\n\r\n", b"GET / HTTP/9\r\n\r\n", chunked):
            reader, _ = await stage.connect(data)
            assert await _status(reader) == 400
            await _rest(reader)
        reader, writer = await stage.connect(later)
        await stage.until(lambda: len(stage.reached) == 1)
        writer.write(b"zz\r\n")
        assert await _status(reader) == 400
        stage.may_answer.set()
        await stage.until_open(0)
    assert stage.figure("reminiscence_http_malformed_requests_total") == 4
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_an_answer_that_nobody_reads_is_given_up(unopened: AgentMem) -> None:
    """Its client would keep a connection, and a place, for as long as it likes."""
    async with _on_stage(unopened, answer_pause_seconds=0.2) as stage:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(client, ("127.0.0.1", stage.server.port))
        await loop.sock_sendall(client, _request("/v1/huge"))
        await stage.until_open(1)
        await stage.until_open(0)
        assert stage.figure("reminiscence_http_connections_closed_total", reason="answer-not-read") == 1
        assert stage.figure("reminiscence_http_streams_open") == 0
        client.close()


async def test_when_no_file_can_be_opened_it_is_said_once_and_taken_up_again(
    stage: _Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """The connections wait meanwhile, and nothing spins."""
    listening = socket.create_server(("127.0.0.1", 0))
    made: list[asyncio.Protocol] = []

    def make() -> asyncio.Protocol:
        made.append(asyncio.Protocol())
        return made[-1]

    clients = [socket.create_connection(listening.getsockname()) for _ in range(3)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    fillers = []
    with caplog.at_level(logging.ERROR):
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 64), hard))
        try:
            with suppress(OSError):
                while True:
                    fillers.append(os.open(os.devnull, os.O_RDONLY))
            acceptor = Acceptor(listening, make, Connections(stage.server.app.state.metrics, most=100))
            await asyncio.sleep(0.5)
            assert made == []
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for filler in fillers:
                os.close(filler)
        await stage.until(lambda: len(made) == 3)
    acceptor.close()
    await acceptor.wait_closed()
    for client in clients:
        client.close()
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 1
    assert "no connection can be taken" in told[0]
