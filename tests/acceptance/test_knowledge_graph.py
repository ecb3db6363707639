"""The knowledge graph's tools as their users run them: programs of their own, started, ended and started again."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager

import pytest
from mcp import Client

from agent_reminiscence import Config
from agent_reminiscence.server.mcp.knowledge_graph.resource import RESOURCE_URI
from tests.conftest import TestServer, dsn
from tests.support.command_line import CHECKOUT, clean_environment, environment, program
from tests.support.knowledge_graphs import ANA, LEFT, MILL, call, use_every_tool
from tests.support.mcp_clients import MODES, connected, refusal, started
from tests.support.serving_programs import Running, serving

_TOOLS = ("--tools", "knowledge-graph")
_PATH = "/mcp/knowledge-graph"


@pytest.fixture
def settings(config: Callable[..., Config]) -> dict[str, str]:
    """What leads a program to this test's database."""
    return environment(config())


@pytest.fixture
def variables(settings: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of a program that a client starts."""
    return clean_environment() | dict(settings) | {"PYTHONPATH": str(CHECKOUT)}


@asynccontextmanager
async def _asking(running: Running, mode: str, tenant: str = "ida") -> AsyncGenerator[Client]:
    """A client with the token that the server has printed."""
    assert running.token is not None
    async with connected(running, running.token, mode, path=_PATH, headers={"X-External-Id": tenant}) as client:
        yield client


@pytest.mark.thorough
@pytest.mark.parametrize("mode", MODES)
async def test_a_program_that_is_started_again_has_the_graph(variables: Mapping[str, str], mode: str) -> None:
    """By standard input and output: every tool works, and the next program reads what the last one has left."""
    async with started(variables, mode, *_TOOLS) as client:
        await use_every_tool(client)
    async with started(variables, mode, *_TOOLS, "--scope", "read") as client:
        assert await call(client, "read_graph") == LEFT
        assert "memory:write" in await refusal(client, "create_entities", entities=[ANA])


@pytest.mark.thorough
@pytest.mark.parametrize("mode", MODES)
async def test_a_server_that_is_started_again_has_the_graph(settings: Mapping[str, str], mode: str) -> None:
    """By HTTP: every tool works, and the next server reads what the last one has left."""
    async with serving("--no-worker", settings=settings) as running:
        async with _asking(running, mode) as client:
            await use_every_tool(client)
        running.process.terminate()
        assert await running.end() == (0, "agent-reminiscence: stopped")
    async with serving("--no-worker", settings=settings) as running:
        async with _asking(running, mode) as client:
            assert await call(client, "read_graph") == LEFT
        async with _asking(running, mode, "joe") as client:
            assert await call(client, "read_graph") == {"entities": [], "relations": []}


@pytest.mark.thorough
async def test_a_program_and_a_server_share_one_graph(
    settings: Mapping[str, str], variables: Mapping[str, str]
) -> None:
    """What one of them writes, the other one reads at once."""
    async with (
        serving("--no-worker", settings=settings) as running,
        started(variables, "legacy", *_TOOLS) as here,
        _asking(running, "auto") as there,
    ):
        await call(here, "create_entities", entities=[MILL])
        assert (await call(there, "create_entities", entities=[ANA, MILL]))["entities"] == [ANA]
        assert (await call(here, "read_graph"))["entities"] == [MILL, ANA]
        await call(here, "delete_entities", entityNames=["The Mill"])
        assert (await call(there, "read_graph"))["entities"] == [ANA]


@pytest.mark.thorough
async def test_a_server_s_keys_say_whose_graph_it_is_and_what_may_be_done(
    settings: Mapping[str, str], test_server: TestServer, database: str
) -> None:
    """Keys as `agent-reminiscence keys create` prints them."""

    def key(tenant: str, scope: str) -> str:
        created = program(
            *("keys", "create", "--external-id", tenant, "--scope", scope, "--json"),
            *("--admin-dsn", dsn(test_server.administrator(database))),
            settings=settings,
        )
        assert created.returncode == 0, created.stderr
        return str(json.loads(created.stdout)["secret"])

    writer, reader, other = key("ida", "read,write"), key("ida", "read"), key("joe", "read,write")
    async with serving("--no-worker", "--keys", settings=settings) as running:
        async with connected(running, writer, "auto", path=_PATH) as client:
            await use_every_tool(client)
        async with connected(running, reader, "auto", path=_PATH) as client:
            assert len((await client.list_tools()).tools) == 3
            assert "memory:write" in await refusal(client, "delete_entities", entityNames=["The Mill"])
            assert await call(client, "read_graph") == LEFT
        async with connected(running, other, "auto", path=_PATH) as client:
            await call(client, "delete_entities", entityNames=["The Mill"])
            assert await call(client, "read_graph") == {"entities": [], "relations": []}
        async with connected(running, reader, "auto", path=_PATH) as client:
            assert await call(client, "read_graph") == LEFT


@pytest.mark.thorough
async def test_a_client_that_listens_does_not_keep_a_server_from_ending(settings: Mapping[str, str]) -> None:
    """Its stream ends, as those of the ledger's events do."""
    async with (
        serving("--no-worker", settings=settings) as running,
        _asking(running, "2026-07-28") as client,
        client.listen(resource_subscriptions=[RESOURCE_URI]) as heard,
    ):
        await call(client, "create_entities", entities=[MILL])
        await anext(heard)
        running.process.terminate()
        assert await running.end() == (0, "agent-reminiscence: stopped")
