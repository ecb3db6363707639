"""What stands before all routes: names, sites, bodies, load, failures, and what every answer tells a browser."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import httpx
import pytest
from fastapi import FastAPI, Request
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.responses import Response, StreamingResponse

from agent_reminiscence import AgentMem
from agent_reminiscence.server import ServerConfig, create_app
from agent_reminiscence.server.access.authenticators import Authenticator, LocalToken
from agent_reminiscence.server.access.grants import Grant
from agent_reminiscence.server.access.grants import Scope as AccessScope
from agent_reminiscence.server.problems import ProblemError
from tests.support.rest import TENANT_SCOPES, Credentials, grant
from tests.support.serving import Served, serve

_TOKEN = "t" * 32
_SECRET = "The harbour opens at nine."


@dataclass
class _Stage:
    """Routes that do what a test tells them, on a real server."""

    app: FastAPI
    served: Served
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)
    reached: list[str] = field(default_factory=list)

    @property
    def client(self) -> httpx.AsyncClient:
        """One with the token."""
        return self.served.client

    async def until_reached(self, times: int) -> None:
        """Wait until so many requests have come to a slow route or a stream."""
        async with asyncio.timeout(60):
            while len(self.reached) < times:  # noqa: ASYNC110 - requests come when they come
                await asyncio.sleep(0.005)

    async def figure(self, name: str) -> float:
        """One of the server's figures."""
        text = (await self.client.get("/metrics")).text
        return float(next(line.split()[-1] for line in text.splitlines() if line.startswith(f"{name} ")))

    async def until_waiting(self, calls: int) -> None:
        """Wait until so many calls wait for a place."""
        async with asyncio.timeout(60):
            while await self.figure("reminiscence_http_calls_waiting") != calls:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.005)


@asynccontextmanager
async def _on_stage(
    memory: AgentMem, authenticator: Authenticator | None = None, **settings: object
) -> AsyncGenerator[_Stage]:
    app = create_app(memory, authenticator or LocalToken(_TOKEN), config=ServerConfig(**settings))
    ours = len(app.router.routes)
    async with serve(app, _TOKEN) as served:
        stage = _Stage(app, served)

        @app.api_route("/v1/slow", methods=["GET", "HEAD"])
        async def slow() -> dict[str, bool]:
            stage.reached.append("slow")
            await stage.may_answer.wait()
            return {"ok": True}

        @app.post("/v1/recall")
        async def question(request: Request) -> dict[str, bool]:
            await request.body()
            stage.reached.append("question")
            await stage.may_answer.wait()
            return {"ok": True}

        @app.get("/v1/stream")
        async def stream(polite: bool = True) -> StreamingResponse:
            async def events() -> AsyncIterator[str]:
                yield "data: first\n\n"
                stage.reached.append("stream")
                await (app.state.stopping if polite else asyncio.Event()).wait()
                yield "data: last\n\n"

            return StreamingResponse(events(), media_type="text/event-stream")

        @app.get("/v1/long")
        async def long() -> Response:
            return Response(b"x" * 2_000_000)

        @app.post("/v1/import")
        @app.post("/v1/count")
        @app.post("/page")
        async def count(request: Request) -> dict[str, int]:
            return {"bytes": len(await request.body())}

        @app.post("/v1/wrapped")
        async def wrapped(body: dict[str, str]) -> dict[str, int]:
            return {"members": len(body)}

        @app.get("/v1/fails")
        async def fails(late: bool = False) -> Response:
            if not late:
                raise ValueError(_SECRET)

            async def begin() -> AsyncIterator[str]:
                yield "the beginning"
                raise ValueError(_SECRET)

            return StreamingResponse(begin(), media_type="text/plain")

        # Before the application's own, one of which is an upload, too.
        app.router.routes[:] = [*app.router.routes[ours:], *app.router.routes[:ours]]
        yield stage
        stage.may_answer.set()


@pytest.fixture
async def stage(unopened: AgentMem) -> AsyncIterator[_Stage]:
    """A server with the settings that it has by itself, but for shorter bodies."""
    async with _on_stage(unopened, max_body_bytes=1_000, max_import_bytes=5_000) as stage:
        yield stage


# What every answer says ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/healthz", {}, 200),
        ("/v1/nothing-here", {}, 404),
        ("/v1/fails", {}, 500),
        ("/v1/slow", {"Authorization": "Bearer wrong"}, 401),
        ("/v1/slow", {"Host": "evil.example"}, 421),
    ],
)
async def test_every_answer_tells_a_browser_to_be_careful(
    stage: _Stage, path: str, headers: dict[str, str], status: int
) -> None:
    """Also those that a guard gives, and those to what has failed."""
    answer = await stage.client.get(path, headers=headers)
    assert answer.status_code == status
    policy = answer.headers["content-security-policy"].split("; ")
    assert {"default-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"} <= set(policy)
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "same-origin"
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert answer.headers.get_list("cache-control") == ["no-store"]


@pytest.mark.thorough
async def test_only_static_files_may_be_kept(stage: _Stage) -> None:
    """They decide it themselves; what a page shows of a memory is kept nowhere."""
    style = await stage.client.get("/static/inspector.css")
    assert style.status_code == 200
    assert "no-store" not in style.headers.get("cache-control", "")


# Whose names -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [
        ("127.0.0.1", True),
        ("127.0.0.1:8765", True),
        ("LOCALHOST:1", True),
        ("[::1]:8765", True),
        ("[::1]", True),
        ("memory.example.org", True),
        ("a.b.memory.test", True),
        ("memory.test", False),
        ("evil-memory.test", False),
        ("evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("localhost:80@evil.example", False),
        ("localhost.", False),
        ("", False),
        ("[::1]:x", False),
    ],
)
async def test_a_server_answers_to_its_own_names_only(unopened: AgentMem, host: str, is_ours: bool) -> None:
    """A page whose name leads here for the moment reads nothing: its requests still have its own name."""
    names = ("127.0.0.1", "localhost", "[::1]", "memory.example.org", "*.memory.test")
    async with _on_stage(unopened, allowed_hosts=names) as stage:
        stage.may_answer.set()
        answer = await stage.client.get("/v1/slow", headers={"Host": host})
        assert answer.status_code == (200 if is_ours else 421)
        if not is_ours:
            assert answer.json()["type"] == "urn:agent-reminiscence:problem:host-not-allowed"
            assert host == "" or host not in answer.text
        # A probe comes by address.
        assert (await stage.client.get("/healthz", headers={"Host": host})).status_code == 200


# Whose pages -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "is_ours"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Sec-Fetch-Site": "none"}, True),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "same-origin, cross-site"}, False),
        # What a browser says counts, whatever else is there.
        ({"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost"}, False),
        ({"Origin": "http://localhost"}, True),
        ({"Origin": "https://localhost"}, True),
        ({"Origin": "http://localhost:1"}, False),
        ({"Origin": "http://evil.example"}, False),
        ({"Origin": "null"}, False),
        ({"Origin": "http://[evil"}, False),
        # A proxy's password, which a browser adds by itself, is no key: the cookie would decide.
        ({"Sec-Fetch-Site": "cross-site", "Authorization": "Basic eDp5"}, False),
        ({"Sec-Fetch-Site": "cross-site", "Authorization": "Bearer"}, False),
        ({"Sec-Fetch-Site": "same-origin", "Authorization": "Basic eDp5"}, True),
        ({}, False),
    ],
)
async def test_a_cookie_writes_only_from_our_own_pages(stage: _Stage, headers: dict[str, str], is_ours: bool) -> None:
    """A browser sends it with any page's request; what it says of that page decides."""
    async with stage.served.with_token(
        None, {"Cookie": f"reminiscence_credential={_TOKEN}", "Host": "localhost"} | headers
    ) as browser:
        answer = await browser.post("/page", content=b"abc")
        assert answer.status_code == (200 if is_ours else 403)
        if not is_ours:
            assert answer.json()["type"] == "urn:agent-reminiscence:problem:cross-site"
        # Reading is safe: another site's page does not get to see the answer.
        stage.may_answer.set()
        assert (await browser.get("/page")).status_code == 405


async def test_a_key_in_the_header_needs_no_page(stage: _Stage) -> None:
    """No browser adds it by itself: whoever sends it has it."""
    answer = await stage.client.post("/page", content=b"abc", headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.json() == {"bytes": 3}
    # Where only keys count, the credential is what is missing.
    async with stage.served.with_token(None) as nobody:
        assert (await nobody.post("/v1/count", content=b"abc")).status_code == 401


# Bodies ----------------------------------------------------------------------------------------------------------


async def _in_parts(size: int) -> AsyncIterator[bytes]:
    """A body whose length nobody has declared."""
    while size > 0:
        yield b"x" * min(size, 100)
        size -= 100


@pytest.mark.parametrize("path", ["/v1/count", "/v1/wrapped"])
@pytest.mark.parametrize("is_declared", [True, False])
async def test_a_body_that_is_too_long_is_refused(stage: _Stage, path: str, is_declared: bool) -> None:
    """Whether it says so at first, or while it arrives; the application's own reading of that is not told."""
    headers = {"Content-Type": "application/json"}
    size = 1_001
    answer = await stage.client.post(path, content=b"x" * size if is_declared else _in_parts(size), headers=headers)
    assert answer.status_code == 413
    assert answer.json()["type"] == "urn:agent-reminiscence:problem:too-large"
    assert "1,000 bytes" in answer.json()["detail"]


@pytest.mark.parametrize("is_declared", [True, False])
async def test_a_body_at_the_limit_is_taken(stage: _Stage, is_declared: bool) -> None:
    """A file may be longer."""
    for path, size in (("/v1/count", 1_000), ("/v1/import", 5_000)):
        answer = await stage.client.post(path, content=b"x" * size if is_declared else _in_parts(size))
        assert answer.json() == {"bytes": size}
    assert (await stage.client.post("/v1/import", content=b"x" * 5_001)).status_code == 413


async def test_a_client_that_sends_nothing_more_is_not_waited_for(unopened: AgentMem) -> None:
    """It would keep a place as long as it likes."""
    async with _on_stage(unopened, body_pause_seconds=0.2) as stage:
        host, port = stage.served.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            f"POST /v1/count HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {_TOKEN}\r\n"
            "Content-Length: 10\r\n\r\nabc".encode()
        )
        async with asyncio.timeout(60):
            head = await reader.readuntil(b"\r\n\r\n")
        writer.close()
        assert head.startswith(b"HTTP/1.1 408 ")
        assert await stage.figure("reminiscence_http_calls_running") == 0


async def test_a_byte_now_and_then_is_no_body(unopened: AgentMem) -> None:
    """It never pauses, and would never end."""
    async with _on_stage(unopened, body_pause_seconds=0.3, body_bytes_per_second=1_000_000) as stage:
        host, port = stage.served.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            f"POST /v1/count HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {_TOKEN}\r\n"
            "Content-Length: 1000\r\n\r\n".encode()
        )

        async def trickle() -> None:
            while True:
                writer.write(b"x")
                await asyncio.sleep(0.01)

        trickling = asyncio.create_task(trickle())
        async with asyncio.timeout(60):
            head = await reader.readuntil(b"\r\n\r\n")
        trickling.cancel()
        writer.close()
        assert head.startswith(b"HTTP/1.1 408 ")


@pytest.mark.thorough
async def test_whoever_has_no_key_takes_no_place_by_a_slow_form(unopened: AgentMem) -> None:
    """As many as like may begin to sign in; the calls of others are answered meanwhile."""
    async with _on_stage(unopened, max_calls=1, max_waiting_calls=0, body_pause_seconds=60) as stage:
        host, port = stage.served.url.removeprefix("http://").split(":")
        slow = [await asyncio.open_connection(host, int(port)) for _ in range(3)]
        for reader, writer in slow:
            writer.write(
                b"POST /sign-in HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nExpect: 100-continue\r\n"
                b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\n"
            )
            # Its body is waited for now.
            async with asyncio.timeout(60):
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
            writer.write(b"token=")
        assert (await stage.client.get("/v1/openapi.json")).status_code == 200
        for _, writer in slow:
            writer.close()


async def test_a_slow_sender_keeps_no_call_waiting(unopened: AgentMem) -> None:
    """The place is somebody else's until more of the body comes; if there is none then, the call can be repeated."""
    async with _on_stage(unopened, max_calls=1, max_waiting_calls=0, body_pause_seconds=60) as stage:

        async def send_slowly() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            host, port = stage.served.url.removeprefix("http://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(
                f"POST /v1/count HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {_TOKEN}\r\n"
                "Expect: 100-continue\r\nContent-Length: 6\r\n\r\n".encode()
            )
            async with asyncio.timeout(60):
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
                writer.write(b"abc")
                # It waits aside.
                while await stage.figure("reminiscence_http_calls_running"):  # noqa: ASYNC110 - no event
                    await asyncio.sleep(0.02)
            return reader, writer

        async def status_of(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
            writer.write(b"def")
            async with asyncio.timeout(60):
                head = await reader.readuntil(b"\r\n\r\n")
            writer.close()
            return int(head.split()[1])

        slow = await send_slowly()
        assert (await stage.client.get("/v1/openapi.json")).status_code == 200
        assert await status_of(*slow) == 200

        slow = await send_slowly()
        call = asyncio.create_task(stage.client.get("/v1/slow"))
        await stage.until_reached(1)
        assert await status_of(*slow) == 503
        stage.may_answer.set()
        assert (await call).status_code == 200
        assert await stage.figure("reminiscence_http_calls_running") == 0


async def test_a_form_of_a_stranger_is_short_and_soon_there(unopened: AgentMem) -> None:
    """However long a body may be otherwise."""
    form = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}
    async with _on_stage(unopened) as stage, stage.served.with_token(None, form) as nobody:
        for body in (b"token=" + b"x" * 20_000, _in_parts(20_001)):
            assert (await nobody.post("/sign-in", content=body)).status_code == 413
        assert (await nobody.post("/sign-in", content=b"token=" + b"x" * 10_000)).status_code == 403
        entered = await nobody.post("/sign-in", content=f"token={_TOKEN}".encode())
        assert entered.status_code == 303
    async with _on_stage(unopened, body_pause_seconds=0.2) as stage:
        host, port = stage.served.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            b"POST /sign-in HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nContent-Length: 9\r\n\r\nabc"
        )
        async with asyncio.timeout(60):
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 408 ")
        writer.close()


# Load ------------------------------------------------------------------------------------------------------------


async def test_what_is_too_much_waits_for_its_turn(unopened: AgentMem) -> None:
    """More calls than places, none of them lost, and never more at a time than there are places."""
    async with _on_stage(unopened, max_calls=2, max_waiting_calls=10, max_wait_seconds=60) as stage:
        calls = [asyncio.create_task(stage.client.get("/v1/slow")) for _ in range(6)]
        await stage.until_waiting(4)
        assert len(stage.reached) == 2
        stage.may_answer.set()
        assert [answer.status_code for answer in await asyncio.gather(*calls)] == [200] * 6
        assert await stage.figure("reminiscence_http_calls_running") == 0


async def test_a_call_that_cannot_even_wait_is_refused_at_once(unopened: AgentMem) -> None:
    """With the time after which a repetition makes sense; health and figures are told all the same."""
    async with _on_stage(unopened, max_calls=1, max_waiting_calls=1, max_wait_seconds=600) as stage:
        calls = [asyncio.create_task(stage.client.get("/v1/slow")) for _ in range(2)]
        await stage.until_waiting(1)

        refused = await stage.client.get("/v1/slow")
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "600"
        assert refused.json()["type"] == "urn:agent-reminiscence:problem:overloaded"
        assert (await stage.client.get("/healthz")).status_code == 200
        assert (await stage.client.get("/readyz")).status_code == 200
        assert await stage.figure('reminiscence_http_refused_total{reason="overloaded"}') == 1

        stage.may_answer.set()
        assert [answer.status_code for answer in await asyncio.gather(*calls)] == [200] * 2


async def test_nobody_waits_for_long(unopened: AgentMem) -> None:
    """A call whose turn does not come in time is refused, and leaves the queue."""
    async with _on_stage(unopened, max_calls=1, max_waiting_calls=5, max_wait_seconds=0.1) as stage:
        first = asyncio.create_task(stage.client.get("/v1/slow"))
        await stage.until_reached(1)
        assert (await stage.client.get("/v1/slow")).status_code == 503
        assert await stage.figure("reminiscence_http_calls_waiting") == 0
        stage.may_answer.set()
        assert (await first).status_code == 200
        assert len(stage.reached) == 1
        assert (await stage.client.get("/v1/slow")).status_code == 200


@asynccontextmanager
async def _streams(stage: _Stage, number: int) -> AsyncGenerator[list[httpx.Response]]:
    async with AsyncExitStack() as opened:
        yield [await opened.enter_async_context(stage.client.stream("GET", "/v1/stream")) for _ in range(number)]


async def test_streams_keep_no_call_waiting_and_have_a_bound_of_their_own(unopened: AgentMem) -> None:
    """With one place for calls, three streams are open, and a call is answered; a fourth stream is not."""
    async with _on_stage(unopened, max_calls=1, max_waiting_calls=0, max_streams=3) as stage:
        async with _streams(stage, 3) as opened:
            assert [answer.status_code for answer in opened] == [200] * 3
            assert opened[0].headers["x-accel-buffering"] == "no"
            assert await stage.figure("reminiscence_http_streams_open") == 3
            stage.may_answer.set()
            assert (await stage.client.get("/v1/slow")).status_code == 200
            for path in ("/v1/stream", "/v1/long"):
                refused = await stage.client.get(path)
                assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
                assert refused.json()["type"] == "urn:agent-reminiscence:problem:too-many-streams"
            assert (await stage.client.post("/v1/import", content=b"x")).status_code == 503
            # A head has no length that counts.
            assert (await stage.client.head("/v1/slow")).status_code == 200

        async with asyncio.timeout(60):
            while await stage.figure("reminiscence_http_streams_open"):  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.005)
        assert (await stage.client.get("/v1/long")).status_code == 200
        assert (await stage.client.post("/v1/import", content=b"x")).json() == {"bytes": 1}
        assert await stage.figure("reminiscence_http_calls_running") == 0


@pytest.mark.parametrize("polite", [True, False])
async def test_streams_end_cleanly_when_the_server_stops(unopened: AgentMem, polite: bool) -> None:
    """One that watches has its last word; one that does not is ended, and its client sees a whole answer."""
    async with _on_stage(unopened) as stage:
        async with stage.client.stream("GET", "/v1/stream", params={"polite": polite}) as answer:
            lines = answer.aiter_lines()
            assert await anext(lines) == "data: first"
            stage.app.state.stopping.set()
            # Raises if the connection breaks off within the answer.
            rest = [line async for line in lines if line]
        assert rest == (["data: last"] if polite else [])
        assert (await stage.client.get("/readyz")).json()["reasons"] == ["stopping"]
        refused = await stage.client.get("/v1/stream")
        assert refused.json()["type"] == "urn:agent-reminiscence:problem:stopping"
        # Calls are answered to the last.
        stage.may_answer.set()
        assert (await stage.client.get("/v1/slow")).status_code == 200
        assert len((await stage.client.get("/v1/long")).content) == 2_000_000


# Shares ----------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _between_tenants(memory: AgentMem, **settings: object) -> AsyncGenerator[tuple[_Stage, httpx.AsyncClient]]:
    """A stage whose own client is a greedy tenant's, and another tenant's client."""
    credentials = Credentials({_TOKEN: grant(None, AccessScope.ADMIN, AccessScope.DELEGATE), "modest": grant("modest")})
    async with _on_stage(memory, credentials, **settings) as stage, stage.served.with_token("modest") as modest:
        yield stage, modest


def _as_greedy(stage: _Stage, calls: int) -> list[asyncio.Task[httpx.Response]]:
    headers = {"X-External-Id": "greedy"}
    return [asyncio.create_task(stage.client.get("/v1/slow", headers=headers)) for _ in range(calls)]


async def test_one_caller_leaves_places_to_others(unopened: AgentMem) -> None:
    """With all of its calls waiting, another tenant's is answered; its own are answered one after another."""
    async with _between_tenants(unopened, max_calls=4, max_calls_per_subject=2, max_wait_seconds=60) as (stage, modest):
        calls = _as_greedy(stage, 20)
        await stage.until_waiting(18)
        assert len(stage.reached) == 2
        assert (await modest.get("/v1/openapi.json")).status_code == 200
        # Another tenant of the same backend has its own share.
        other = await stage.client.get("/v1/openapi.json", headers={"X-External-Id": "other"})
        assert other.status_code == 200
        stage.may_answer.set()
        assert [answer.status_code for answer in await asyncio.gather(*calls)] == [200] * 20


async def test_a_full_queue_still_takes_another_tenants_call(unopened: AgentMem) -> None:
    """One of those that filled it gives way."""
    settings = {"max_calls": 1, "max_waiting_calls": 4, "max_wait_seconds": 60, "refusal_delay_seconds": 0}
    async with _between_tenants(unopened, **settings) as (stage, modest):
        calls = _as_greedy(stage, 5)
        await stage.until_waiting(4)
        call = asyncio.create_task(modest.get("/v1/openapi.json"))
        done, _ = await asyncio.wait(calls, timeout=60, return_when=asyncio.FIRST_COMPLETED)
        assert [one.result().status_code for one in done] == [503]
        stage.may_answer.set()
        assert (await call).status_code == 200
        assert sorted(answer.status_code for answer in await asyncio.gather(*calls)) == [200] * 4 + [503]


async def test_streams_of_one_caller_leave_some_to_others(unopened: AgentMem) -> None:
    """However many it asks for."""
    settings = {"max_streams": 3, "max_streams_per_subject": 2, "refusal_delay_seconds": 0}
    async with _between_tenants(unopened, **settings) as (stage, modest), AsyncExitStack() as opened:
        greedy = {"X-External-Id": "greedy"}
        answers = [
            await opened.enter_async_context(stage.client.stream("GET", "/v1/stream", headers=greedy)) for _ in range(3)
        ]
        assert [answer.status_code for answer in answers] == [200, 200, 503]
        # One that asks for events does not even come to the route.
        await stage.until_reached(2)
        reached = len(stage.reached)
        asking = greedy | {"Accept": "text/event-stream"}
        assert (await stage.client.get("/v1/slow", headers=asking)).status_code == 503
        assert len(stage.reached) == reached
        assert (await opened.enter_async_context(modest.stream("GET", "/v1/stream"))).status_code == 200
        stage.may_answer.set()


async def test_a_long_question_takes_several_places_of_its_callers_share(unopened: AgentMem) -> None:
    """Also one whose length nobody has declared; what is no question has no price."""
    settings = {"max_calls": 16, "max_calls_per_subject": 4, "question_bytes_per_place": 100, "max_wait_seconds": 60}
    async with _between_tenants(unopened, **settings) as (stage, modest):
        greedy = {"X-External-Id": "greedy"}
        for body, at_a_time in ((b"x" * 50, 4), (b"x" * 250, 2), (b"x" * 5_000, 1), (_in_parts(5), 1)):
            stage.may_answer.clear()
            stage.reached.clear()
            bodies = [body if isinstance(body, bytes) else _in_parts(5) for _ in range(6)]
            calls = [
                asyncio.create_task(stage.client.post("/v1/recall", content=one, headers=greedy)) for one in bodies
            ]
            await stage.until_waiting(6 - at_a_time)
            await stage.until_reached(at_a_time)
            assert len(stage.reached) == at_a_time
            assert (await modest.get("/v1/openapi.json")).status_code == 200
            stage.may_answer.set()
            assert [answer.status_code for answer in await asyncio.gather(*calls)] == [200] * 6


async def test_a_forged_key_takes_no_place(unopened: AgentMem) -> None:
    """With all places and the whole queue taken it is still refused for what it is."""
    async with _on_stage(unopened, max_calls=1, max_waiting_calls=0) as stage:
        call = asyncio.create_task(stage.client.get("/v1/slow"))
        await stage.until_reached(1)
        async with stage.served.with_token(f"arkey_{'0' * 32}_{'1' * 64}") as forger:
            assert (await forger.get("/v1/slow")).status_code == 401
        stage.may_answer.set()
        assert (await call).status_code == 200


async def test_whoever_forges_many_keys_is_told_so_slowly_and_others_are_not(unopened: AgentMem) -> None:
    """From the same address, which may be a proxy's."""
    async with _on_stage(unopened, wrong_credentials_per_minute=1, refusal_delay_seconds=60) as stage:
        stage.may_answer.set()
        assert (await stage.client.get("/v1/slow")).status_code == 200
        async with stage.served.with_token("forged") as forger:
            assert (await forger.get("/v1/slow")).status_code == 401
            late = [asyncio.create_task(forger.get("/v1/slow")) for _ in range(20)]
            await asyncio.sleep(0.2)
            assert (await stage.client.get("/v1/slow")).status_code == 200
            assert not any(one.done() for one in late)
            for one in late:
                one.cancel()
            await asyncio.gather(*late, return_exceptions=True)


async def test_only_wrong_credentials_use_up_an_addresss_allowance(unopened: AgentMem) -> None:
    """Not what a valid key may not do, nor what cannot be checked; two of the same header are as good as none."""

    class _Away(Credentials):
        async def authenticate(self, secret: str) -> Grant | None:
            if secret == "unchecked":
                raise ProblemError(503, "store-unavailable", "the store is away")
            return await super().authenticate(secret)

    credentials = _Away({_TOKEN: grant("ida")})
    settings = {"wrong_credentials_per_minute": 1, "refusal_delay_seconds": 60}
    async with _on_stage(unopened, credentials, **settings) as stage:
        for _ in range(3):
            assert (await stage.client.get("/v1/slow", headers={"X-External-Id": "joe"})).status_code == 403
            async with stage.served.with_token("unchecked") as other:
                assert (await other.get("/v1/slow")).status_code == 503
        async with stage.served.with_token(None) as nobody:
            repeated = [("Authorization", "Bearer a"), ("Authorization", "Bearer b")]
            assert (await nobody.get("/v1/slow", headers=repeated)).status_code == 400
            late = asyncio.create_task(nobody.get("/v1/slow", headers=repeated))
            await asyncio.sleep(0.2)
            assert not late.done()
            # After that, what is no wrong credential is still told at once.
            assert (await stage.client.get("/v1/slow", headers={"X-External-Id": "joe"})).status_code == 403
            late.cancel()
            await asyncio.gather(late, return_exceptions=True)


# Failures --------------------------------------------------------------------------------------------------------


async def test_a_failure_says_nothing_of_what_it_was_about(stage: _Stage, caplog: pytest.LogCaptureFixture) -> None:
    """Neither to the client nor in the log, which has its class."""
    with caplog.at_level(logging.DEBUG):
        answer = await stage.client.get("/v1/fails")
    assert answer.status_code == 500
    assert answer.json()["type"] == "urn:agent-reminiscence:problem:internal-error"
    assert _SECRET not in answer.text
    assert "a request failed: ValueError" in caplog.messages
    assert _SECRET not in caplog.text


async def test_an_answer_that_breaks_off_is_no_whole_answer(stage: _Stage, caplog: pytest.LogCaptureFixture) -> None:
    """Its client sees that the end is missing, and the log still quotes nothing."""
    with caplog.at_level(logging.DEBUG), pytest.raises(httpx.RemoteProtocolError):
        await stage.client.get("/v1/fails", params={"late": True})
    assert "a request failed: ValueError" in caplog.messages
    assert _SECRET not in caplog.text


async def test_nothing_of_a_request_goes_into_spans(unopened: AgentMem, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where OpenTelemetry is set up: a query may hold a question, or the token of a sign-in."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    async with _on_stage(unopened) as stage:
        await stage.client.get("/v1/fails", params={"question": "lisbon"})
        await stage.client.get("/sign-in", params={"token": "lisbon"})
    assert [span.to_json() for span in exporter.get_finished_spans() if "lisbon" in span.to_json()] == []
    # The way that it would go exists.
    loud = FastAPI()
    async with serve(loud) as served, served.with_token(None) as client:
        await client.get("/sign-in", params={"token": "lisbon"})
    assert any("lisbon" in span.to_json() for span in exporter.get_finished_spans())


# Figures ---------------------------------------------------------------------------------------------------------


async def test_figures_have_routes_and_no_paths(stage: _Stage) -> None:
    """What nobody has declared is one label, however many there are; so is a method that does not exist."""

    @stage.app.get("/v1/things/{name}")
    async def thing(name: str) -> dict[str, str]:
        return {"name": name}

    for name in ("lisbon-harbour", "lisbon-quay"):
        await stage.client.get(f"/v1/things/{name}")
        await stage.client.get(f"/v1/{name}")
        await stage.client.request("BREW", f"/v1/{name}")
        await stage.client.get(f"/{name}", headers={"Host": "evil.example"})
    await stage.client.post("/v1/things/lisbon-harbour", headers={"X-External-Id": "lisbon-tenant"})
    async with stage.served.with_token("wrong") as stranger:
        await stranger.get("/v1/things/lisbon-harbour")

    text = (await stage.client.get("/metrics")).text
    assert "lisbon" not in text
    assert "evil" not in text
    for line in (
        'reminiscence_http_requests_total{method="GET",route="/v1/things/{name}",status="200"} 2.0',
        'reminiscence_http_requests_total{method="POST",route="/v1/things/{name}",status="405"} 1.0',
        'reminiscence_http_requests_total{method="GET",route="none",status="404"} 2.0',
        'reminiscence_http_requests_total{method="GET",route="none",status="421"} 2.0',
        'reminiscence_http_requests_total{method="other",route="none",status="404"} 2.0',
        'reminiscence_http_refused_total{reason="host-not-allowed"} 2.0',
        'reminiscence_http_refused_total{reason="not-authenticated"} 1.0',
        'reminiscence_http_request_duration_seconds_count{method="GET",route="/v1/things/{name}"} 2.0',
        'reminiscence_jobs{state="waiting"} 0.0',
        "reminiscence_store_up 1.0",
        # A share of what is absent is no share, so these are there before the first question.
        'reminiscence_recalls_total{found="yes",via="mcp"} 0.0',
        'reminiscence_recalls_total{found="no",via="rest"} 0.0',
    ):
        assert line in text.splitlines()


async def test_two_applications_count_apart(unopened: AgentMem, stage: _Stage, config: Callable[..., object]) -> None:
    """Each has a registry of its own, so that a second one in a process is no conflict."""
    other = create_app(unopened, LocalToken(_TOKEN))
    assert other.state.metrics.registry is not stage.app.state.metrics.registry
    stage.app.state.metrics.recalled("rest", found=False)
    assert await stage.figure('reminiscence_recalls_total{found="no",via="rest"}') == 1


async def test_figures_take_a_scope_unless_they_are_public(unopened: AgentMem) -> None:
    """They are of all tenants."""
    async with _on_stage(unopened) as stage, stage.served.with_token(None) as nobody:
        assert (await nobody.get("/metrics")).status_code == 401


async def test_figures_of_all_tenants_take_a_credential_of_all(unopened: AgentMem) -> None:
    """A tenant's own key does not open them, whatever else it may do for that tenant."""
    credentials = Credentials(
        {
            "tenant": grant("ida", *TENANT_SCOPES),
            "backend": grant(None, AccessScope.READ, AccessScope.DELEGATE),
            "prometheus": grant(None, AccessScope.ADMIN, AccessScope.DELEGATE),
        }
    )
    answers = {}
    async with serve(create_app(unopened, credentials, config=ServerConfig())) as served:
        for secret in ("tenant", "backend", "prometheus"):
            async with served.with_token(secret) as client:
                answers[secret] = await client.get("/metrics")
    assert {secret: answer.status_code for secret, answer in answers.items()} == {
        "tenant": 403,
        "backend": 403,
        "prometheus": 200,
    }
    assert "reminiscence_" not in answers["tenant"].text
    assert "acts for one" in answers["tenant"].json()["detail"]


async def test_public_figures_need_no_credential(unopened: AgentMem) -> None:
    """For a network in which only Prometheus can ask; nothing else is open by it."""
    async with _on_stage(unopened, metrics_public=True) as stage, stage.served.with_token(None) as nobody:
        answer = await nobody.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("application/openmetrics-text")
        assert answer.text.endswith("# EOF\n")
        assert (await nobody.get("/v1/slow")).status_code == 401


async def test_problems_are_json_of_their_own_kind(stage: _Stage) -> None:
    """As RFC 9457 has it, whoever refuses."""
    answer = await stage.client.get("/v1/slow", headers={"Host": "evil.example"})
    assert answer.headers["content-type"] == "application/problem+json"
    assert json.loads(answer.text)["status"] == 421
