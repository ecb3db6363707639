"""The knowledge graph's tools at `/mcp/knowledge-graph`: each request is its key's, and may do what that may."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.shared.subscriptions import ResourceUpdated

from agent_reminiscence import AgentMem
from agent_reminiscence.server import create_app
from agent_reminiscence.server.access.grants import Grant, Scope
from agent_reminiscence.server.mcp.building import KINDS
from agent_reminiscence.server.mcp.http import PATHS
from agent_reminiscence.server.mcp.knowledge_graph.resource import RESOURCE_URI
from tests.support.knowledge_graphs import ANA, LEFT, MILL, PATIENCE_SECONDS, call, subscribe, use_every_tool
from tests.support.mcp_clients import MODES, Keys, connected, key_for, refusal
from tests.support.mcp_clients import call as call_native
from tests.support.serving import Served, serve

_PATH = "/mcp/knowledge-graph"
_ACCEPTS = {"Accept": "application/json, text/event-stream"}
_READING = ["read_graph", "search_nodes", "open_nodes"]
_WRITING = [
    *("create_entities", "create_relations", "add_observations"),
    *("delete_entities", "delete_observations", "delete_relations"),
]


@pytest.fixture
def keys() -> Keys:
    """Two tenants' keys, some that may do only one thing, and a backend's."""
    return Keys(
        ida=key_for("ida"),
        joe=key_for("joe"),
        reader=key_for("ida", frozenset({Scope.READ})),
        writer=key_for("ida", frozenset({Scope.WRITE})),
        eraser=key_for("ida", frozenset({Scope.ERASE, Scope.ADMIN})),
        backend=Grant(subject="backend", scopes=frozenset({Scope.READ, Scope.WRITE, Scope.DELEGATE})),
    )


@pytest.fixture
async def served(unopened: AgentMem, keys: Keys) -> AsyncIterator[Served]:
    """A server of ours; its client has Ida's key."""
    async with serve(create_app(unopened, keys), "ida") as served:
        yield served


def test_every_kind_of_tools_has_a_path_of_its_own() -> None:
    """So whatever standard input and output can have, HTTP has too."""
    assert dict(PATHS) == {"native": "/mcp", "knowledge-graph": _PATH}
    assert tuple(PATHS) == KINDS


@pytest.mark.thorough
@pytest.mark.parametrize("mode", MODES)
async def test_a_client_of_each_era_uses_the_tools(served: Served, mode: str) -> None:
    """All nine, and the resource; beside the native tools, over one memory."""
    async with connected(served, "ida", mode, path=_PATH) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == [*_WRITING, *_READING]
        await use_every_tool(client)
        [listed] = (await client.list_resources()).resources
        assert str(listed.uri) == RESOURCE_URI
    async with connected(served, "ida", mode) as native:
        assert "recall" in {tool.name for tool in (await native.list_tools()).tools}
        found, _ = await call_native(native, "recall", query="Who keeps a red boat?", limit=1)
        assert [(hit["title"], hit["content"]) for hit in found["hits"]] == [("Ana_Sousa", "Keeps a red boat")]


@pytest.mark.thorough
@pytest.mark.parametrize("mode", MODES)
async def test_a_key_reads_or_writes_as_its_scopes_say(served: Served, mode: str) -> None:
    """It sees the tools that it may call; the others are refused, and change nothing. To erase is neither."""
    arguments: dict[str, dict[str, Any]] = {
        "create_entities": {"entities": [ANA]},
        "create_relations": {"relations": []},
        "add_observations": {"observations": []},
        "delete_entities": {"entityNames": ["The Mill"]},
        "delete_observations": {"deletions": []},
        "delete_relations": {"relations": []},
        "read_graph": {},
        "search_nodes": {"query": "mill"},
        "open_nodes": {"names": ["The Mill"]},
    }
    async with connected(served, "ida", mode, path=_PATH) as client:
        await call(client, "create_entities", entities=[MILL])
    for token, allowed in (("reader", _READING), ("writer", _WRITING), ("eraser", [])):
        async with connected(served, token, mode, path=_PATH) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == allowed
            for tool in arguments.keys() - set(allowed):
                scope = "memory:read" if tool in _READING else "memory:write"
                told = await refusal(client, tool, **arguments[tool])
                assert told == f"this credential lacks the scope {scope}"
            if token != "reader":
                assert (await client.list_resources()).resources == []
                with pytest.raises(MCPError, match="memory:read"):
                    await client.read_resource(RESOURCE_URI)
    async with connected(served, "reader", mode, path=_PATH) as client:
        assert await call(client, "read_graph") == {"entities": [MILL], "relations": []}


@pytest.mark.thorough
@pytest.mark.parametrize("mode", MODES)
async def test_the_tenant_is_the_credential_s(served: Served, mode: str) -> None:
    """No argument changes it, and only a delegate's header does; without one, it acts for nobody."""
    async with connected(served, "ida", mode, path=_PATH) as ida:
        await use_every_tool(ida)
    async with connected(served, "joe", mode, path=_PATH) as joe:
        for claimed in ("external_id", "tenant", "X-External-Id"):
            assert await call(joe, "read_graph", **{claimed: "ida"}) == {"entities": [], "relations": []}
        await call(joe, "delete_entities", entityNames=["Ana_Sousa"])
    async with connected(served, "backend", mode, path=_PATH, headers={"X-External-Id": "ida"}) as backend:
        assert await call(backend, "read_graph") == LEFT
    async with connected(served, "backend", mode, path=_PATH) as backend:
        assert "X-External-Id" in await refusal(backend, "read_graph")
        assert "X-External-Id" in await refusal(backend, "create_entities", entities=[ANA])


@pytest.mark.parametrize("mode", MODES)
async def test_a_key_counts_for_each_request(served: Served, keys: Keys, mode: str) -> None:
    """Once it is revoked, a client that is connected gets nothing any more."""
    async with connected(served, "ida", mode, path=_PATH) as client:
        await call(client, "create_entities", entities=[ANA])
        del keys.grants["ida"]
        with pytest.raises(MCPError, match="error response"):
            await client.call_tool("read_graph", {})


@pytest.mark.thorough
async def test_without_a_valid_key_nothing_is_answered(served: Served) -> None:
    """Nor to another method than POST, to another host's name, or to a cookie."""
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    for token in (None, "wrong"):
        async with served.with_token(token, _ACCEPTS | {"Cookie": "reminiscence_credential=ida"}) as client:
            answer = await client.post(_PATH, json=listing)
        assert (answer.status_code, answer.headers["content-type"]) == (401, "application/problem+json")
    foreign = await served.client.post(_PATH, json=listing, headers=_ACCEPTS | {"Host": "evil.example"})
    assert foreign.status_code == 421
    asked = await served.client.post(_PATH, json=listing, headers=_ACCEPTS | {"X-External-Id": "joe"})
    assert asked.status_code == 403
    for method in ("GET", "DELETE", "PUT", "OPTIONS"):
        answer = await served.client.request(method, _PATH, headers=_ACCEPTS)
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    for path in (f"{_PATH}/x", "/mcp/native"):
        assert (await served.client.post(path, json=listing, headers=_ACCEPTS)).status_code == 404


@pytest.mark.thorough
async def test_a_client_that_listens_hears_of_changes(served: Served) -> None:
    """Of its own tenant, by whichever client and era; no other listener hears of them."""
    async with (
        connected(served, "reader", "2026-07-28", path=_PATH) as ida,
        connected(served, "joe", "2026-07-28", path=_PATH) as joe,
        connected(served, "writer", "legacy", path=_PATH) as writer,
        ida.listen(resource_subscriptions=[RESOURCE_URI]) as of_ida,
        joe.listen(resource_subscriptions=[RESOURCE_URI]) as of_joe,
        asyncio.timeout(PATIENCE_SECONDS),
    ):
        await call(writer, "create_entities", entities=[MILL])
        assert await anext(of_ida) == ResourceUpdated(uri=RESOURCE_URI)
        assert (await call(ida, "read_graph"))["entities"] == [MILL]
        # What joe hears first is of his own.
        await call(joe, "create_entities", entities=[ANA])
        assert await anext(of_joe) == ResourceUpdated(uri=RESOURCE_URI)
        assert (await call(joe, "read_graph"))["entities"] == [ANA]


async def test_only_those_may_listen_who_may_read(served: Served) -> None:
    """That something has changed is a thing to know, too."""
    async with connected(served, "writer", "2026-07-28", path=_PATH) as client:
        with pytest.raises(MCPError, match="memory:read"):
            async with client.listen(resource_subscriptions=[RESOURCE_URI]):
                pass


@pytest.mark.thorough
async def test_a_subscription_that_could_not_last_is_not_offered(served: Served) -> None:
    """With a handshake it would end with the request that makes it; those who can listen are told so."""

    def offers(client: Client) -> bool | None:
        resources = client.server_capabilities.resources
        assert resources is not None
        return resources.subscribe

    async with connected(served, "ida", "legacy", path=_PATH) as client:
        assert not offers(client)
        with pytest.raises(MCPError, match="Method not found"):
            await subscribe(client, RESOURCE_URI)
    async with connected(served, "ida", "auto", path=_PATH) as client:
        assert offers(client)
