"""The tools of MCP's reference server for a knowledge graph, over a memory, asked by the official client."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any

import anyio
import jsonschema  # type: ignore[import-untyped]
import pytest
from mcp import Client, MCPError, types
from mcp.server import ServerRequestContext
from mcp.shared.subscriptions import ResourceUpdated

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.server.access.grants import Caller, Scope
from agent_reminiscence.server.mcp.knowledge_graph.resource import RESOURCE_URI
from agent_reminiscence.server.mcp.knowledge_graph.server import build_knowledge_graph
from agent_reminiscence.server.mcp.tools import Backing
from tests.support.knowledge_graphs import (
    PATIENCE_SECONDS,
    Heard,
    acting_for,
    call,
    subscribe,
    unsubscribe,
)
from tests.support.mcp_clients import refusal, text_of
from tests.support.redaction_cases import SECRETS

_MODES = ("legacy", "2026-07-28")
_ANA = {"name": "Ana_Sousa", "entityType": "person", "observations": ["Speaks Portuguese", "Keeps a red boat"]}
_MILL = {"name": "The Mill", "entityType": "place", "observations": []}
_WORKS = {"from": "Ana_Sousa", "to": "The Mill", "relationType": "works_at"}


@asynccontextmanager
async def _connected(
    memory: AgentMem, mode: str = "legacy", *, caller: Caller | None = None, **options: Any
) -> AsyncGenerator[Client]:
    server = build_knowledge_graph(Backing(memory=memory, caller_of=lambda _: caller or acting_for("ida")))
    async with Client(server, mode=mode, **options) as client:
        yield client


@pytest.mark.parametrize("mode", _MODES)
async def test_what_is_created_is_read_back_as_it_was(memory: AgentMem, mode: str) -> None:
    """In order, with what was new; models read the same as programs."""
    async with _connected(memory, mode) as client:
        created = await call(client, "create_entities", entities=[_ANA, _MILL])
        again = await call(client, "create_entities", entities=[_MILL | {"entityType": "factory"}])
        related = await call(client, "create_relations", relations=[_WORKS])
        repeated = await call(client, "create_relations", relations=[_WORKS])
        answered = await client.call_tool("read_graph", {})

    assert created == {"entities": [_ANA, _MILL]}
    assert again == {"entities": []}
    assert (related, repeated) == ({"relations": [_WORKS]}, {"relations": []})
    assert answered.structured_content == {"entities": [_ANA, _MILL], "relations": [_WORKS]}
    assert json.loads(text_of(answered)) == answered.structured_content
    assert (await memory.admin.verify("ida")).ok


async def test_observations_come_and_go(memory: AgentMem) -> None:
    """What is there already is not added, and what is not there is not missed."""
    async with _connected(memory) as client:
        await call(client, "create_entities", entities=[_ANA, _MILL])
        added = await call(
            client,
            "add_observations",
            observations=[
                {"entityName": "The Mill", "contents": ["Is old", "Is old"]},
                {"entityName": "Ana_Sousa", "contents": ["Keeps a red boat", "Sings"]},
                {"entityName": "The Mill", "contents": ["Is old", "Is tall"]},
            ],
        )
        unknown = [{"entityName": "Ana_Sousa", "contents": ["Dances"]}, {"entityName": "Ben", "contents": ["x"]}]
        refused = await refusal(client, "add_observations", observations=unknown)
        gone = [
            {"entityName": "The Mill", "observations": ["Is old", "Is new"]},
            {"entityName": "Ben", "observations": []},
        ]
        deleted = await client.call_tool("delete_observations", {"deletions": gone})
        graph = await call(client, "read_graph")

    assert added == {
        "results": [
            {"entityName": "The Mill", "addedObservations": ["Is old", "Is old"]},
            {"entityName": "Ana_Sousa", "addedObservations": ["Sings"]},
            {"entityName": "The Mill", "addedObservations": ["Is tall"]},
        ]
    }
    assert refused == "Entity with name Ben not found"
    assert deleted.structured_content == {"success": True, "message": "Observations deleted successfully"}
    assert text_of(deleted) == "Observations deleted successfully"
    assert [entity["observations"] for entity in graph["entities"]] == [[*_ANA["observations"], "Sings"], ["Is tall"]]


async def test_a_deleted_entity_takes_its_relations_along(memory: AgentMem) -> None:
    """Those that begin at it, and those that end there; what is created again is new."""
    other = {"from": "Ben", "to": "Cem", "relationType": "knows"}
    async with _connected(memory) as client:
        await call(client, "create_entities", entities=[_ANA, _MILL])
        relations = [_WORKS, {"from": "Ben", "to": "Ana_Sousa", "relationType": "likes"}, other]
        await call(client, "create_relations", relations=relations)
        await call(client, "delete_entities", entityNames=["Ana_Sousa", "nobody"])
        left = await call(client, "read_graph")
        await call(client, "delete_relations", relations=[other, _WORKS])
        await call(client, "create_entities", entities=[_ANA | {"observations": []}])
        after = await call(client, "read_graph")

    assert left == {"entities": [_MILL], "relations": [other]}
    assert after == {"entities": [_MILL, _ANA | {"observations": []}], "relations": []}


async def test_nodes_are_searched_and_opened_with_their_relations(memory: AgentMem) -> None:
    """A relation counts if one of its ends was found, whether the other one is an entity or not."""
    likes = {"from": "Ben", "to": "The Mill", "relationType": "likes"}
    async with _connected(memory) as client:
        await call(client, "create_entities", entities=[_ANA, _MILL])
        await call(client, "create_relations", relations=[likes, _WORKS])
        by_observation = await call(client, "search_nodes", query="RED BOAT")
        by_type = await call(client, "search_nodes", query="plac")
        nothing = await call(client, "search_nodes", query="Ben")
        everything = await call(client, "search_nodes", query="")
        opened = await call(client, "open_nodes", names=["The Mill", "Ben"])

    assert by_observation == {"entities": [_ANA], "relations": [_WORKS]}
    assert by_type == opened == {"entities": [_MILL], "relations": [likes, _WORKS]}
    assert nothing == {"entities": [], "relations": []}
    assert everything == {"entities": [_ANA, _MILL], "relations": [likes, _WORKS]}


_ODD = [
    "",
    " ",
    "a\nb\n\nc",
    "nul \0 and \x1a and \x1a0 and \x1b",
    "  leading and trailing  ",
    "x" * 300,
    "é ☕ \U0001f98a \u2028",
    "entity#1",
    "a/b",
    "- item\n# heading\n```",
    "Alice: said it",
    "{{}} $ne %_",
]


@pytest.mark.thorough
async def test_any_text_comes_back_as_it_was_given(memory: AgentMem) -> None:
    """Empty, on many lines, with NUL, long, or like something else; as a name, a type and an observation."""
    entities = [{"name": name, "entityType": name, "observations": _ODD} for name in _ODD]
    relations = [{"from": name, "to": "x", "relationType": name} for name in _ODD]
    async with _connected(memory) as client:
        assert await call(client, "create_entities", entities=entities) == {"entities": entities}
        assert await call(client, "create_relations", relations=relations) == {"relations": relations}
        assert await call(client, "read_graph") == {"entities": entities, "relations": relations}
        for entity, relation in zip(entities, relations, strict=True):
            opened = await call(client, "open_nodes", names=[entity["name"]])
            assert opened == {"entities": [entity], "relations": [relation]}
        await call(client, "delete_relations", relations=relations)
        await call(client, "delete_entities", entityNames=_ODD)
        assert await call(client, "read_graph") == {"entities": [], "relations": []}
    assert (await memory.admin.verify("ida")).ok


async def test_a_name_is_unique_within_a_call_too(memory: AgentMem) -> None:
    """Where the reference server makes two entities of one name, of which it then changes only the first."""
    async with _connected(memory) as client:
        created = await call(client, "create_entities", entities=[_ANA, _ANA | {"observations": []}])
        related = await call(client, "create_relations", relations=[_WORKS, _WORKS])

    assert created == {"entities": [_ANA]}
    assert related == {"relations": [_WORKS]}


async def test_the_tools_are_those_of_the_reference_server(memory: AgentMem) -> None:
    """Their names, in its order, and what they say that they change; every result fits its schema."""
    async with _connected(memory) as client:
        tools = (await client.list_tools()).tools
        schemas = {tool.name: tool.output_schema for tool in tools}
        for name, arguments in (
            ("create_entities", {"entities": [_ANA, _MILL]}),
            ("create_relations", {"relations": [_WORKS]}),
            ("add_observations", {"observations": [{"entityName": "The Mill", "contents": ["Is old"]}]}),
            ("read_graph", {}),
            ("search_nodes", {"query": "mill"}),
            ("open_nodes", {"names": ["The Mill"]}),
            ("delete_observations", {"deletions": [{"entityName": "The Mill", "observations": ["Is old"]}]}),
            ("delete_relations", {"relations": [_WORKS]}),
            ("delete_entities", {"entityNames": ["The Mill"]}),
        ):
            jsonschema.validate(await call(client, name, **arguments), schemas[name])

    hints = {tool.name: tool.annotations for tool in tools}
    assert list(hints) == [
        *("create_entities", "create_relations", "add_observations"),
        *("delete_entities", "delete_observations", "delete_relations"),
        *("read_graph", "search_nodes", "open_nodes"),
    ]
    for name, hint in hints.items():
        assert hint is not None
        is_reading, is_deleting = name in {"read_graph", "search_nodes", "open_nodes"}, name.startswith("delete")
        assert (hint.read_only_hint, hint.destructive_hint) == (is_reading, is_deleting)
        assert (hint.idempotent_hint, hint.open_world_hint) == (is_reading or is_deleting, False)
    assert tools[0].input_schema["required"] == ["entities"]


@pytest.mark.parametrize(
    ("tool", "arguments", "fault"),
    [
        ("create_entities", {}, "Field required at entities"),
        ("create_entities", {"entities": [{"name": 7}]}, "Input should be a valid string at entities.0.name"),
        ("create_relations", {"relations": [{"from": "a", "to": "b"}]}, "Field required at relations.0.relationType"),
        ("open_nodes", {"names": ["a", None]}, "Input should be a valid string at names.1"),
    ],
)
async def test_bad_arguments_are_told_without_their_values(
    memory: AgentMem, tool: str, arguments: dict[str, Any], fault: str
) -> None:
    """As the reference server begins it; nothing is written."""
    async with _connected(memory) as client:
        told = await refusal(client, tool, **arguments)
    assert told.startswith(f"MCP error -32602: Input validation error: Invalid arguments for tool {tool}: {fault}")
    assert await memory.ledger.head("ida") == 0


async def test_what_is_unknown_is_ignored_and_an_unknown_tool_is_not(memory: AgentMem) -> None:
    """Clients of the reference server may send more than it reads."""
    async with _connected(memory) as client:
        created = await call(client, "create_entities", entities=[_MILL | {"note": 1}], tenant="joe")
        refused = await refusal(client, "drop_graph")
    assert created == {"entities": [_MILL]}
    assert refused == "MCP error -32602: Tool drop_graph not found"
    assert await memory.ledger.head("joe") == 0


@pytest.mark.promise
async def test_two_clients_at_once_lose_nothing(config: Callable[..., Config], memory: AgentMem) -> None:
    """Of two processes over one database, each with its own connection: every observation and relation is there."""
    count = 6
    async with AgentMem(config()) as other, _connected(memory) as first, _connected(other) as second:
        clients = {"first": first, "second": second}
        await call(first, "create_entities", entities=[_ANA | {"observations": []}])

        async def write(name: str, client: Client) -> None:
            for number in range(count):
                text = f"{name} {number}"
                addition = {"entityName": "Ana_Sousa", "contents": [text, f"both {number}"]}
                await call(client, "add_observations", observations=[addition])
                await call(client, "create_entities", entities=[_MILL | {"name": text}, _MILL | {"name": f"x{number}"}])
                await call(client, "create_relations", relations=[_WORKS | {"to": text}, _WORKS])

        await asyncio.gather(*(write(name, client) for name, client in clients.items()))
        graph = await call(second, "read_graph")

    ana = graph["entities"][0]
    texts = [f"{name} {number}" for name in clients for number in range(count)]
    assert sorted(ana["observations"]) == sorted([*texts, *(f"both {number}" for number in range(count))])
    names = [entity["name"] for entity in graph["entities"]]
    assert sorted(names) == sorted(["Ana_Sousa", *texts, *(f"x{number}" for number in range(count))])
    assert sorted(relation["to"] for relation in graph["relations"]) == sorted([*texts, "The Mill"])
    assert (await memory.admin.verify("ida")).ok


@pytest.mark.thorough
async def test_what_is_deleted_meanwhile_does_not_come_back(config: Callable[..., Config], memory: AgentMem) -> None:
    """An entity that is deleted and created anew gets nothing of what the old one had, by another client's write."""
    async with AgentMem(config()) as other, _connected(memory) as first, _connected(other) as second:
        for number in range(6):
            await call(first, "create_entities", entities=[_ANA | {"observations": ["old"]}])

            async def renew() -> None:
                await call(first, "delete_entities", entityNames=["Ana_Sousa"])
                await call(first, "create_entities", entities=[_ANA | {"observations": ["new"]}])

            addition = {"entityName": "Ana_Sousa", "contents": [f"more {number}"]}
            _, added = await asyncio.gather(renew(), second.call_tool("add_observations", {"observations": [addition]}))
            [ana] = (await call(second, "read_graph"))["entities"]
            assert "old" not in ana["observations"]
            assert "new" in ana["observations"]
            if added.is_error:
                assert text_of(added) == "Entity with name Ana_Sousa not found"
            await call(first, "delete_entities", entityNames=["Ana_Sousa"])


@pytest.mark.thorough
async def test_a_call_that_is_given_up_is_carried_out_to_its_end(memory: AgentMem) -> None:
    """No list of changes stops in the middle because a client has lost its patience."""
    entities = [_MILL | {"name": f"Mill {number}"} for number in range(20)]
    async with _connected(memory) as client, asyncio.timeout(PATIENCE_SECONDS), anyio.create_task_group() as tasks:
        tasks.start_soon(client.call_tool, "create_entities", {"entities": entities})
        async with aclosing(memory.ledger.subscribe("ida")) as events:
            await anext(events)
        tasks.cancel_scope.cancel()
    async with _connected(memory) as client, asyncio.timeout(PATIENCE_SECONDS):
        # The first client may have gone before its call came to its end.
        while (graph := await call(client, "read_graph"))["entities"] != entities:
            assert len(graph["entities"]) < len(entities)
            await asyncio.sleep(0.01)
    assert (await memory.admin.verify("ida")).ok


async def test_a_restart_keeps_everything(config: Callable[..., Config]) -> None:
    """It is in the database, not in a file beside the server."""
    async with AgentMem(config()) as memory, _connected(memory) as client:
        await call(client, "create_entities", entities=[_ANA, _MILL])
        await call(client, "create_relations", relations=[_WORKS])
    async with AgentMem(config()) as memory, _connected(memory) as client:
        assert await call(client, "read_graph") == {"entities": [_ANA, _MILL], "relations": [_WORKS]}


async def test_tenants_see_only_their_own(memory: AgentMem) -> None:
    """Whose graph it is says the credential."""
    async with _connected(memory) as ida, _connected(memory, caller=acting_for("joe")) as joe:
        await call(ida, "create_entities", entities=[_ANA])
        assert await call(joe, "read_graph") == {"entities": [], "relations": []}
        assert await call(joe, "open_nodes", names=["Ana_Sousa"]) == {"entities": [], "relations": []}
        told = await refusal(joe, "add_observations", observations=[{"entityName": "Ana_Sousa", "contents": ["x"]}])
        assert told == "Entity with name Ana_Sousa not found"
        await call(joe, "delete_entities", entityNames=["Ana_Sousa"])
        assert (await call(ida, "read_graph"))["entities"] == [_ANA]


async def test_a_key_that_only_reads_cannot_write(memory: AgentMem) -> None:
    """It is not shown what it may not call, and refused if it does."""
    async with _connected(memory, caller=acting_for("ida", frozenset({Scope.READ}))) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["read_graph", "search_nodes", "open_nodes"]
        assert "memory:write" in await refusal(client, "create_entities", entities=[_ANA])
    async with _connected(memory, caller=acting_for("ida", frozenset({Scope.WRITE}))) as client:
        assert "memory:read" in await refusal(client, "read_graph")
        assert (await client.list_resources()).resources == []
        with pytest.raises(MCPError, match="memory:read"):
            await client.read_resource(RESOURCE_URI)


async def test_a_recall_finds_an_observation_by_its_words(memory: AgentMem) -> None:
    """Beside everything else in the memory, and under the entity's name."""
    for number in range(10):
        await memory.create_active_memory("ida", "Trams", f"Tram {number} was late again.")
    async with _connected(memory) as client:
        await call(client, "create_entities", entities=[_ANA, _MILL])
        await call(
            client, "add_observations", observations=[{"entityName": "Ana_Sousa", "contents": ["Collects old stamps"]}]
        )
        await call(client, "create_relations", relations=[_WORKS])

    stamps = (await memory.retrieve_memories("ida", "Who collects stamps?")).hits[0]
    work = await memory.retrieve_memories("ida", "Who works at the mill?", limit=2)

    assert (stamps.title, stamps.content, stamps.source) == ("Ana_Sousa", "Collects old stamps", "agent")
    assert "Ana_Sousa works at The Mill" in [hit.content for hit in work.hits]


async def test_the_graph_of_the_memory_knows_the_same(memory: AgentMem) -> None:
    """Entities with their types, on every passage about them; relations with both ends, until they are deleted."""
    async with _connected(memory) as client:
        await call(client, "create_entities", entities=[_ANA, _MILL])
        await call(client, "create_relations", relations=[_WORKS, _WORKS | {"to": "Lisbon"}])
        await call(
            client, "add_observations", observations=[{"entityName": "Ana_Sousa", "contents": ["Sings", "Dances"]}]
        )
        graph = memory.admin.graph
        around = await graph.neighbourhood("ida", "ana_sousa")
        await call(client, "delete_relations", relations=[_WORKS])
        later = await graph.neighbourhood("ida", "ana_sousa")
        await call(client, "delete_entities", entityNames=["Ana_Sousa"])
        last = await graph.entities("ida", name="ana_sousa")

    assert {(entity.name, entity.type) for entity in around.entities} == {
        ("Ana_Sousa", "person"),
        ("The Mill", "place"),
        ("Lisbon", "other"),
    }
    # Its own memory has five passages, and each relation one.
    assert around.entities[0].mentions == 7
    assert [relation.type for relation in around.relationships] == ["works_at", "works_at"]
    assert len(later.relationships) == 1
    assert [entity.mentions for entity in last] == [0]


async def test_entities_of_one_name_and_two_types_stay_apart(memory: AgentMem) -> None:
    """Deleted and created as something else; its relations are those of the new one."""
    async with _connected(memory) as client:
        await call(client, "create_entities", entities=[_MILL, _ANA])
        await call(client, "delete_entities", entityNames=["The Mill"])
        await call(client, "create_entities", entities=[_MILL | {"entityType": "company"}])
        await call(client, "create_relations", relations=[_WORKS])
    [triple] = await memory.admin.graph.match("ida", "person", "works_at")
    assert (triple.target.name, triple.target.type) == ("The Mill", "company")


async def test_an_erasure_leaves_nothing(memory: AgentMem) -> None:
    """Of a tenant, deleted entities included."""
    async with _connected(memory) as client:
        await call(client, "create_entities", entities=[_ANA, _MILL])
        await call(client, "create_relations", relations=[_WORKS])
        await call(client, "delete_entities", entityNames=["Ana_Sousa"])
        receipt = await memory.admin.erase("ida")
        assert (await memory.admin.verify_erased(receipt, text="red boat")).ok
        assert await call(client, "read_graph") == {"entities": [], "relations": []}
        assert await memory.admin.graph.entities("ida") == []
        await call(client, "create_entities", entities=[_ANA])
        assert (await call(client, "read_graph"))["entities"] == [_ANA]


async def test_secrets_are_redacted_in_observations_and_refused_in_names(memory: AgentMem) -> None:
    """What is stored is returned, and is not added twice."""
    secret = next(case.secret for case in SECRETS if case.rule == "github-token")
    async with _connected(memory) as client:
        created = await call(client, "create_entities", entities=[_MILL | {"observations": [f"key {secret}"]}])
        [entity] = created["entities"]
        again = {"entityName": "The Mill", "contents": [f"key {secret}", "new"]}
        added = await call(client, "add_observations", observations=[again])
        await call(
            client, "delete_observations", deletions=[{"entityName": "The Mill", "observations": [f"key {secret}"]}]
        )
        left = await call(client, "read_graph")
        told = [
            await refusal(client, "create_entities", entities=[_MILL | {"name": secret}]),
            await refusal(client, "create_entities", entities=[_MILL | {"name": "a", "entityType": secret}]),
            await refusal(client, "create_relations", relations=[_WORKS | {"to": secret}]),
        ]

    assert entity["observations"] == ["key [redacted:github-token]"]
    assert added["results"] == [{"entityName": "The Mill", "addedObservations": ["new"]}]
    assert left["entities"] == [_MILL | {"observations": ["new"]}]
    assert all("looks like a secret" in one and secret not in one for one in told)
    events = await memory.ledger.read("ida")
    assert secret not in repr(events)


async def test_an_entity_that_is_too_large_is_refused_with_a_way_out(memory: AgentMem) -> None:
    """It stays as it was."""
    async with _connected(memory) as client:
        await call(client, "create_entities", entities=[_ANA])
        addition = {"entityName": "Ana_Sousa", "contents": ["x" * 150_000, "y" * 150_000]}
        told = await refusal(client, "add_observations", observations=[addition])
        graph = await call(client, "read_graph")
    assert told.startswith("the entity 'Ana_Sousa' would take 300,")
    assert told.endswith("delete observations, or put them on another entity")
    assert graph["entities"] == [_ANA]


async def test_memories_that_others_write_are_no_entities(memory: AgentMem) -> None:
    """Nor does one that looks like an entity, and is none, break the graph."""
    await memory.create_active_memory("ida", "Note", "not an entity", key="knowledge-graph/entity/note")
    about = {"knowledge_graph": {"entity": {"name": "broken"}}}
    await memory.create_active_memory("ida", "Note", "not one either", key="knowledge-graph/entity/b", metadata=about)
    async with _connected(memory) as client:
        assert await call(client, "read_graph") == {"entities": [], "relations": []}
        assert await call(client, "create_entities", entities=[_MILL | {"name": "note"}]) == {"entities": []}


async def test_the_resource_is_the_graph(memory: AgentMem) -> None:
    """With the name and type that the reference server gives it."""
    async with _connected(memory) as client:
        await call(client, "create_entities", entities=[_ANA])
        [listed] = (await client.list_resources()).resources
        [content] = (await client.read_resource(RESOURCE_URI)).contents
        with pytest.raises(MCPError, match="not found"):
            await client.read_resource("memory://other")
    assert (str(listed.uri), listed.name, listed.mime_type) == (RESOURCE_URI, "knowledge-graph", "application/json")
    assert isinstance(content, types.TextResourceContents)
    assert content.mime_type == "application/json"
    assert json.loads(content.text) == {"entities": [_ANA], "relations": []}


def _named_by_the_client(context: ServerRequestContext[Any, Any]) -> Caller:
    told = context.session.client_params
    assert told is not None
    return acting_for(told.client_info.name)


def _as(name: str) -> types.Implementation:
    return types.Implementation(name=name, version="1")


async def _change(client: Client) -> None:
    """One call of each kind: four that change the graph, if only by name; one that fails, and one that reads."""
    await call(client, "create_entities", entities=[_MILL])
    await call(client, "create_entities", entities=[_MILL])
    await call(client, "delete_relations", relations=[])
    await call(client, "delete_entities", entityNames=["The Mill"])
    await refusal(client, "add_observations", observations=[{"entityName": "The Mill", "contents": ["x"]}])
    await call(client, "read_graph")


async def test_who_subscribes_is_told_of_changes(memory: AgentMem) -> None:
    """By the handshake revisions: of its own tenant, by whichever client, until it unsubscribes or goes."""
    server = build_knowledge_graph(Backing(memory=memory, caller_of=_named_by_the_client))
    subscribed, silent, joe = Heard(), Heard(), Heard()

    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                Client(server, mode="legacy", client_info=_as(tenant), message_handler=heard)
            )
            for tenant, heard in (("ida", subscribed), ("ida", silent), ("joe", joe))
        ]
        capabilities = clients[0].server_capabilities.resources
        assert capabilities is not None
        assert capabilities.subscribe
        for client, uri in zip(clients, (RESOURCE_URI, "memory://other", RESOURCE_URI), strict=True):
            await subscribe(client, uri)
        await _change(clients[0])
        await _change(clients[1])
        assert await subscribed.next(8) == [RESOURCE_URI] * 8

        await unsubscribe(clients[0], RESOURCE_URI)
        await _change(clients[1])
        await call(clients[2], "delete_entities", entityNames=[])
        assert await joe.next(1) == [RESOURCE_URI]
        for client in clients:
            # What was sent before has arrived with the answer.
            await call(client, "read_graph")
        assert (subscribed.is_empty, silent.is_empty, joe.is_empty) == (True, True, True)
    async with Client(server, mode="legacy", client_info=_as("joe")) as later:
        await _change(later)
    assert joe.is_empty


async def test_who_listens_is_told_of_changes(memory: AgentMem) -> None:
    """By the later revisions: of its own tenant, by whichever client, as long as it listens."""
    server = build_knowledge_graph(Backing(memory=memory, caller_of=_named_by_the_client))

    async with (
        Client(server, mode="2026-07-28", client_info=_as("ida")) as ida,
        Client(server, mode="2026-07-28", client_info=_as("joe")) as joe,
        Client(server, mode="2026-07-28", client_info=_as("ida")) as writer,
    ):
        async with (
            ida.listen(resource_subscriptions=[RESOURCE_URI]) as of_ida,
            joe.listen(resource_subscriptions=[RESOURCE_URI]) as of_joe,
        ):
            await call(writer, "create_entities", entities=[_MILL])
            heard = await anext(of_ida)
            # What joe hears first is of his own.
            await call(joe, "create_entities", entities=[_ANA])
            first = await anext(of_joe)
            assert (await call(joe, "read_graph"))["entities"] == [_ANA]
        await call(writer, "delete_entities", entityNames=["The Mill"])

    assert heard == first == ResourceUpdated(uri=RESOURCE_URI)


@pytest.mark.thorough
async def test_subscribers_hear_of_a_change_whose_client_has_given_up(memory: AgentMem) -> None:
    """The graph has changed all the same."""
    server, heard = build_knowledge_graph(Backing(memory=memory, caller_of=_named_by_the_client)), Heard()
    entities = [_MILL | {"name": f"Mill {number}"} for number in range(20)]
    async with (
        Client(server, mode="legacy", client_info=_as("ida"), message_handler=heard) as subscriber,
        Client(server, mode="legacy", client_info=_as("ida")) as writer,
        aclosing(memory.ledger.subscribe("ida")) as events,
        asyncio.timeout(PATIENCE_SECONDS),
    ):
        await subscribe(subscriber, RESOURCE_URI)
        writing = asyncio.ensure_future(writer.call_tool("create_entities", {"entities": entities}))
        await anext(events)
        writing.cancel()
        await asyncio.wait({writing})
        assert writing.cancelled()
        assert await heard.next(1) == [RESOURCE_URI]
        assert (await call(subscriber, "read_graph"))["entities"] == entities


async def test_no_text_of_the_graph_is_logged(memory: AgentMem, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever succeeds or fails."""
    caplog.set_level(logging.DEBUG)
    async with _connected(memory) as client:
        await call(client, "create_entities", entities=[_ANA | {"name": "marmalade"}])
        await refusal(client, "add_observations", observations=[{"entityName": "marmalade!", "contents": ["x"]}])
        await refusal(client, "create_entities", entities=[{"name": "marmalade"}])
        await refusal(client, "marmalade")
        await call(client, "delete_entities", entityNames=["marmalade"])
    assert "marmalade" not in "".join(repr(vars(record)) for record in caplog.records if record.name != "asyncio")
