"""MCP at `/mcp`: who gets in, for whom they act, and that nobody's request touches another's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, Final

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from agent_reminiscence import AgentMem
from agent_reminiscence.server import ServerConfig, create_app
from agent_reminiscence.server.access.grants import Grant, Scope
from tests.conftest import TestServer
from tests.support.mcp_clients import MODES, PATIENCE_SECONDS, Keys, call, connected, key_for, refusal, remember
from tests.support.serving import Served, serve
from tests.support.steps import streams_held, wait_until_unblocked

_INITIALIZE: Final = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
_ACCEPTS: Final = {"Accept": "application/json, text/event-stream"}


@pytest.fixture
def keys() -> Keys:
    """Two tenants' keys, one that may only read, and a backend's."""
    return Keys(
        ida=key_for("ida"),
        joe=key_for("joe"),
        reader=key_for("ida", frozenset({Scope.READ})),
        backend=Grant(subject="backend", scopes=frozenset({Scope.READ, Scope.WRITE, Scope.DELEGATE})),
    )


@pytest.fixture
async def served(unopened: AgentMem, keys: Keys) -> AsyncIterator[Served]:
    """A server of ours; its client has Ida's key."""
    async with serve(create_app(unopened, keys, config=ServerConfig(max_body_bytes=100_000)), "ida") as served:
        yield served


@pytest.mark.parametrize("mode", MODES)
async def test_a_client_of_each_era_uses_the_tools(served: Served, mode: str) -> None:
    """Those of 2026, which send single requests, and those that begin with a handshake."""
    async with connected(served, "ida", mode) as client:
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == [
            "recall",
            "remember",
            "update_memory",
            "list_memories",
            "history",
            "forget",
        ]
        memory_id = str(await remember(client, "Ida drinks green tea."))
        updated = {"memory_id": memory_id, "content": "Ida drinks black tea.", "expected_version": 1}
        assert (await call(client, "update_memory", **updated))[0]["version"] == 2
        found, _ = await call(client, "recall", query="What does Ida drink?")
        assert [hit["content"] for hit in found["hits"]] == ["Ida drinks black tea."]
        assert len((await call(client, "history", memory_id=memory_id))[0]["versions"]) == 2
        assert len((await call(client, "list_memories"))[0]["memories"]) == 1
        await call(client, "forget", memory_id=memory_id)
        assert (await call(client, "list_memories"))[0]["memories"] == []


async def test_without_a_valid_key_nothing_is_answered(served: Served) -> None:
    """The same as for the rest of the server."""
    for token in (None, "wrong"):
        for revision in ("2025-06-18", "2026-07-28"):
            async with served.with_token(token, _ACCEPTS | {"MCP-Protocol-Version": revision}) as client:
                answer = await client.post("/mcp", json=_INITIALIZE)
            assert answer.status_code == 401
            assert answer.headers["content-type"] == "application/problem+json"


async def test_a_message_with_a_key_twice_is_refused(served: Served) -> None:
    """Whoever reads it takes one of the two, and not everybody the same; what is no JSON is told as ever."""
    headers = _ACCEPTS | {"Content-Type": "application/json"}
    call = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "remember", "name": "recall"}}'
    refused = await served.client.post("/mcp", content=call, headers=headers)
    assert refused.status_code == 400
    assert refused.json()["error"] == {
        "code": -32700,
        "message": "Parse error: an object has the key 'name' twice; send each key once",
    }
    for body in (b"{", b"[" * 50_000):
        refused = await served.client.post("/mcp", content=body, headers=headers)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, -32700)
    assert (await served.client.post("/mcp", json=_INITIALIZE, headers=_ACCEPTS)).status_code == 200


@pytest.mark.everyday("auto", "legacy", why="between programs of today, auto finds what the third names")
@pytest.mark.parametrize("mode", MODES)
async def test_a_key_counts_for_each_request(served: Served, keys: Keys, mode: str) -> None:
    """Once it is revoked or has expired, a client that is connected gets nothing any more."""
    async with connected(served, "ida", mode) as client:
        await remember(client, "Ida drinks green tea.")
        del keys.grants["ida"]
        with pytest.raises(MCPError, match="error response"):
            await client.call_tool("recall", {"query": "What does Ida drink?"})


@pytest.mark.everyday("auto", "legacy", why="between programs of today, auto finds what the third names")
@pytest.mark.parametrize("mode", MODES)
async def test_a_key_without_the_scope_is_told_so(served: Served, mode: str) -> None:
    """By the tool, so that the model can say it."""
    async with connected(served, "reader", mode) as client:
        assert len((await client.list_tools()).tools) == 3
        told = await refusal(client, "remember", content="Ida drinks green tea.")
    assert told == "this credential lacks the scope memory:write"


@pytest.mark.everyday("auto", "legacy", why="between programs of today, auto finds what the third names")
@pytest.mark.parametrize("mode", MODES)
async def test_only_a_delegate_names_the_tenant(served: Served, mode: str) -> None:
    """In a header, which the model does not write; whoever may not is refused, not ignored."""
    async with connected(served, "backend", mode, headers={"X-External-Id": "z%C3%B6e"}) as client:
        await remember(client, "Zöe drinks cocoa.")
    async with connected(served, "backend", mode, headers={"X-External-Id": "ida"}) as client:
        assert (await call(client, "list_memories"))[0]["memories"] == []
    async with connected(served, "backend", mode) as client:
        assert "X-External-Id" in await refusal(client, "list_memories")
    refused = await served.client.post("/mcp", json=_INITIALIZE, headers=_ACCEPTS | {"X-External-Id": "joe"})
    assert refused.status_code == 403


@pytest.mark.thorough
async def test_two_tenants_on_one_connection_are_never_mixed(served: Served) -> None:
    """Clients of each era and tenant take turns on a single connection, and all at once on several."""
    for connections in (1, 8):
        async with AsyncExitStack() as open_clients:
            transport = await open_clients.enter_async_context(
                httpx2.AsyncHTTPTransport(limits=httpx2.Limits(max_connections=connections))
            )
            clients: list[tuple[str, Client]] = []
            for tenant in ("ida", "joe"):
                for mode in MODES:
                    http = httpx2.AsyncClient(
                        transport=transport,
                        headers={"Authorization": f"Bearer {tenant}"},
                        timeout=PATIENCE_SECONDS,
                    )
                    connection = streamable_http_client(f"{served.url}/mcp", http_client=http)
                    clients.append((tenant, await open_clients.enter_async_context(Client(connection, mode=mode))))

            async def use(tenant: str, client: Client, number: int) -> None:
                await remember(client, f"{tenant} keeps lamp {number}.")
                found, text = await call(client, "recall", query=f"Who keeps lamp {number}?")
                assert {hit["content"].split()[0] for hit in found["hits"]} == {tenant}
                listed, more = await call(client, "list_memories", limit=100)
                assert {one["content"].split()[0] for one in listed["memories"]} == {tenant}
                other = {"ida": "joe", "joe": "ida"}[tenant]
                assert f"{other} keeps" not in text + more

            await asyncio.gather(
                *(use(tenant, client, number) for number in range(2) for tenant, client in clients),
            )


async def test_there_is_no_session_that_could_be_used_by_another(served: Served) -> None:
    """The handshake gives out no name of a session, and one that is sent means nothing."""
    began = await served.client.post("/mcp", json=_INITIALIZE, headers=_ACCEPTS)
    assert began.status_code == 200
    assert "mcp-session-id" not in began.headers

    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "list_memories"}}
    headers = _ACCEPTS | {"MCP-Protocol-Version": "2025-06-18", "Mcp-Session-Id": "7"}
    await served.client.post("/mcp", json=listing, headers=headers)
    async with served.with_token("joe") as joe:
        answer = await joe.post("/mcp", json=listing, headers=headers)
    assert '"memories":[]' in answer.text.replace(" ", "")


async def test_only_posts_are_answered(served: Served) -> None:
    """A stream of events, or the end of a session, would mean nothing without sessions."""
    for method in ("GET", "DELETE", "PUT", "OPTIONS"):
        answer = await served.client.request(method, "/mcp", headers=_ACCEPTS)
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


async def test_what_is_no_message_is_refused(served: Served) -> None:
    """With an error of the client, whatever revision it claims to speak."""
    is_json = _ACCEPTS | {"Content-Type": "application/json"}
    long = b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"x": "' + b"y" * 200_000 + b'"}}'
    requests = (
        (b"{", is_json, 400),
        (b"[]", is_json, 400),
        (long, is_json, 413),
        (b"{}", is_json | {"Content-Type": "text/plain"}, 400),
        (b"{}", is_json | {"Accept": "text/html"}, 406),
    )
    for body, headers, status in requests:
        for revision in ({}, {"MCP-Protocol-Version": "2026-07-28"}, {"MCP-Protocol-Version": "1999-01-01"}):
            answer = await served.client.post("/mcp", content=body, headers=headers | revision)
            assert answer.status_code == status, (body[:20], headers, revision)


@pytest.mark.everyday("auto", why="between programs of today, auto finds what the other one names")
@pytest.mark.parametrize("mode", ["auto", "2026-07-28"])
async def test_a_call_that_is_given_up_is_ended_in_the_server(
    served: Served, test_server: TestServer, database: str, mode: str
) -> None:
    """What it was about to write is not written, and what comes after it is."""
    superuser = test_server.administrator(database)
    async with connected(served, "ida", mode) as client:
        await remember(client, "Kept 1.")
        async with streams_held(superuser) as queued:
            waiting = asyncio.ensure_future(client.call_tool("remember", {"content": "Lost."}))
            await queued(1)
            waiting.cancel()
            await asyncio.wait({waiting})
            await wait_until_unblocked(superuser)
        await remember(client, "Kept 2.")
        listed, _ = await call(client, "list_memories")
    assert [one["content"] for one in listed["memories"]] == ["Kept 1.", "Kept 2."]


@pytest.mark.thorough
@pytest.mark.parametrize("mode", MODES)
async def test_the_calls_of_a_client_that_leaves_are_ended(
    served: Served, test_server: TestServer, database: str, mode: str
) -> None:
    """Also of one that began with a handshake: without a session, it cannot say that it gives up a single call."""
    superuser = test_server.administrator(database)
    async with connected(served, "ida", mode) as client:
        await remember(client, "Kept.")

    async def leave_behind() -> None:
        async with connected(served, "ida", mode) as client:
            await client.call_tool("remember", {"content": "Lost."})

    async with streams_held(superuser) as queued:
        leaving = asyncio.create_task(leave_behind())
        await queued(1)
        leaving.cancel()
        await asyncio.wait({leaving})
        await wait_until_unblocked(superuser)
    async with connected(served, "ida", mode) as client:
        listed, _ = await call(client, "list_memories")
    assert [one["content"] for one in listed["memories"]] == ["Kept."]


async def test_an_application_may_be_served_again(unopened: AgentMem, keys: Keys) -> None:
    """As some servers and tests do: with each start comes a new manager."""
    app = create_app(unopened, keys)
    for number in range(2):
        async with serve(app) as served, connected(served, "ida", "auto") as client:
            await remember(client, f"Start {number}.")
            listed, _ = await call(client, "list_memories")
            assert len(listed["memories"]) == number + 1


@pytest.mark.thorough
async def test_many_clients_at_once_are_all_answered(served: Served) -> None:
    """Each with its own answer."""

    async def ask(number: int) -> Any:
        async with connected(served, ("ida", "joe")[number % 2], MODES[number % 3]) as client:
            await remember(client, f"Lamp {number} is lit.", key=f"lamps/{number}")
            return (await call(client, "list_memories", key_prefix=f"lamps/{number}"))[0]["memories"]

    answers = await asyncio.gather(*map(ask, range(12)))
    assert [f"Lamp {number} is lit." in {one["content"] for one in found} for number, found in enumerate(answers)] == [
        True
    ] * 12
