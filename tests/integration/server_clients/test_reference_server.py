"""The tools of a knowledge graph, held against the server whose they are: `@modelcontextprotocol/server-memory`.

It runs as its users run it, as a process of its own that speaks over standard input and output. What is left out here
is told by the tests of tests/integration/server/test_knowledge_graph.py: names twice in one call, of which the
reference server makes two entities; secrets; and texts that are too long.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp import Client, StdioServerParameters, types
from mcp.server import Server

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.server.access.grants import Caller
from agent_reminiscence.server.mcp.knowledge_graph.resource import RESOURCE_URI
from agent_reminiscence.server.mcp.knowledge_graph.server import build_knowledge_graph
from agent_reminiscence.server.mcp.tools import Backing
from tests.conftest import TEST_DIMENSION, TestServer, dsn
from tests.support.knowledge_graphs import Heard, acting_for, subscribe
from tests.support.mcp_clients import held, text_of

_EXAMPLES = 40
_CALLS = 20

# Few, so that calls meet each other; and some that are hard to keep.
_COMMON_NAMES = ("Ana", "ana", "Ben Ito")
_NAMES = ("The Mill", "", " x ", "two\nlines", "nul\0", "éß☕", "x" * 300, "__proto__")
_TYPES = ("person", "Person", "place of work", "", "a\tb")
_COMMON_TEXTS = ("likes tea", "Likes TEA", "is ill")
_TEXTS = ("works\n\nat the mill", "", "nul\0", "ÉCLAIR", "- a\n- b", '"quoted" \\ \u2028')
_SORTS = ("knows", "works_at", "", "knows ")
_QUERIES = ("", "ana", "AN", "tea", "TEA", "éclair", "zz", "\n", "PERSON", "\0", " ", ".*", "ß")

_names = st.sampled_from(_COMMON_NAMES) | st.sampled_from(_COMMON_NAMES) | st.sampled_from(_NAMES)
_texts = st.lists(st.sampled_from(_COMMON_TEXTS) | st.sampled_from(_TEXTS), max_size=4)
_entity = st.fixed_dictionaries({"name": _names, "entityType": st.sampled_from(_TYPES), "observations": _texts})
_relation = st.fixed_dictionaries({"from": _names, "to": _names, "relationType": st.sampled_from(_SORTS)})
_entities = st.lists(_entity, max_size=4, unique_by=lambda entity: str(entity["name"]))
_relations = st.lists(_relation, max_size=4, unique_by=lambda relation: tuple(sorted(relation.items())))
_additions = st.lists(st.fixed_dictionaries({"entityName": _names, "contents": _texts}), max_size=3)
_deletions = st.lists(st.fixed_dictionaries({"entityName": _names, "observations": _texts}), max_size=3)
_some_names = st.lists(_names, max_size=3)
# What most calls are about.
_everybody = st.lists(_texts, min_size=3, max_size=3).map(
    lambda said: [
        {"name": name, "entityType": "person", "observations": texts}
        for name, texts in zip(_COMMON_NAMES, said, strict=True)
    ]
)

_FAULTY: tuple[tuple[str, dict[str, Any]], ...] = (
    ("create_entities", {}),
    ("create_entities", {"entities": [{"name": 1, "entityType": "a", "observations": []}]}),
    ("create_entities", {"entities": [{"name": "a", "entityType": "a", "observations": "b"}]}),
    ("create_relations", {"relations": [{"from": "a", "to": "b"}]}),
    ("add_observations", {"observations": [{"entityName": "Ana", "contents": [None]}]}),
    ("delete_entities", {"entityNames": "Ana"}),
    ("search_nodes", {"query": 7}),
    ("open_nodes", {"names": None}),
    ("no_such_tool", {}),
)

type _Asked = tuple[str, dict[str, Any]]


def _asking(tool: str, argument: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[_Asked]:
    return values.map(lambda value: (tool, {argument: value}))


_calls = st.one_of(
    _asking("create_entities", "entities", _entities),
    _asking("create_relations", "relations", _relations),
    _asking("add_observations", "observations", _additions),
    _asking("delete_entities", "entityNames", _some_names),
    _asking("delete_observations", "deletions", _deletions),
    _asking("delete_relations", "relations", _relations),
    _asking("search_nodes", "query", st.sampled_from(_QUERIES)),
    _asking("open_nodes", "names", _some_names),
    st.just(("read_graph", {"ignored": True})),
    st.sampled_from(_FAULTY),
)
_sequences = st.builds(
    lambda first, rest: [first, *rest],
    _asking("create_entities", "entities", _everybody),
    st.lists(_calls, min_size=_CALLS, max_size=_CALLS),
)


@dataclass
class _Pair:
    """A client of ours and one of the reference server's, both subscribed, and the graph of a tenant that both show."""

    ours: Client
    theirs: Client
    file: Path
    tenant: list[str]
    heard: tuple[Heard, Heard] = field(default_factory=lambda: (Heard(), Heard()))

    def begin(self) -> None:
        """With an empty graph. The reference server reads its file at every call."""
        self.tenant[:] = [uuid4().hex]
        self.file.unlink(missing_ok=True)

    async def ask(self, tool: str, arguments: dict[str, Any]) -> tuple[types.CallToolResult, types.CallToolResult]:
        """What both answer."""
        return await self.ours.call_tool(tool, arguments), await self.theirs.call_tool(tool, arguments)


@asynccontextmanager
async def _opened(server: TestServer, npm_tools: Path, folder: Path) -> AsyncIterator[_Pair]:
    database = await server.create_database()
    config = Config(
        postgres_dsn=dsn(server.login(database)),
        embedding_provider="hash",
        embedding_dimension=TEST_DIMENSION,
        worker=False,
    )
    file, tenant, heard = folder / "memory.jsonl", ["nobody"], (Heard(), Heard())
    reference = StdioServerParameters(
        command=str(npm_tools / "node_modules" / ".bin" / "mcp-server-memory"),
        env={"MEMORY_FILE_PATH": str(file), "PATH": os.environ["PATH"]},
    )

    def caller_of(context: object) -> Caller:
        del context
        return acting_for(tenant[0])

    async with AsyncExitStack() as stack:
        stack.push_async_callback(server.drop_database, database)
        memory = await stack.enter_async_context(AgentMem(config))
        servers: tuple[Server[Any] | StdioServerParameters, ...] = (
            build_knowledge_graph(Backing(memory=memory, caller_of=caller_of)),
            reference,
        )
        ours, theirs = [
            await stack.enter_async_context(held(Client(one, mode="legacy", message_handler=listener)))
            for one, listener in zip(servers, heard, strict=True)
        ]
        yield _Pair(ours, theirs, file, tenant, heard)


@pytest.fixture
async def pair(test_server: TestServer, npm_tools: Path, tmp_path: Path) -> AsyncIterator[_Pair]:
    """Both, with an empty graph."""
    async with _opened(test_server, npm_tools, tmp_path) as pair:
        pair.begin()
        yield pair


async def _play(pair: _Pair, sequence: Sequence[_Asked]) -> None:
    pair.begin()
    for client in (pair.ours, pair.theirs):
        await subscribe(client, RESOURCE_URI)
    told = 0
    for tool, arguments in [*sequence, ("read_graph", {})]:
        our, their = await pair.ask(tool, arguments)
        assert our.is_error == their.is_error, (tool, arguments, text_of(our), text_of(their))
        assert our.structured_content == their.structured_content, (tool, arguments)
        if (tool, arguments) in _FAULTY:
            # What follows is the words of the library that each reads its arguments with.
            named = f" for tool {tool}:" if "tool no" not in text_of(their) else text_of(their)
            assert text_of(our).partition(named)[0] == text_of(their).partition(named)[0]
        else:
            assert text_of(our) == text_of(their), (tool, arguments)
        told += not their.is_error and tool.startswith(("create", "add", "delete"))
    contents = [(await client.read_resource(RESOURCE_URI)).contents for client in (pair.ours, pair.theirs)]
    assert [one.model_dump() for one in contents[0]] == [one.model_dump() for one in contents[1]]
    our_heard, their_heard = pair.heard
    assert await our_heard.next(told) == await their_heard.next(told)
    assert our_heard.is_empty
    assert their_heard.is_empty


def test_any_calls_are_answered_as_the_reference_server_answers_them(
    test_server: TestServer, npm_tools: Path, tmp_path: Path
) -> None:
    """Call by call: results, texts, errors, who is told of a change; and at the end the whole graph."""
    with asyncio.Runner() as runner:
        opened = _opened(test_server, npm_tools, tmp_path)
        pair = runner.run(_enter(opened))
        try:

            @settings(max_examples=_EXAMPLES, deadline=None, print_blob=True)
            @given(_sequences)
            def check(sequence: list[_Asked]) -> None:
                runner.run(_play(pair, sequence))

            check()
        finally:
            runner.run(_leave(opened))


async def _enter(opened: Any) -> _Pair:
    return cast("_Pair", await opened.__aenter__())


async def _leave(opened: Any) -> None:
    await opened.__aexit__(None, None, None)


async def test_the_tools_and_the_resource_are_listed_alike(pair: _Pair) -> None:
    """Names, titles, descriptions, what they change, and schemas but for how these are written down."""
    ours, theirs = [
        [
            tool.model_dump(exclude={"input_schema", "output_schema", "execution"})
            | {"in": _plain(tool.input_schema), "out": _plain(tool.output_schema)}
            for tool in (await client.list_tools()).tools
        ]
        for client in (pair.ours, pair.theirs)
    ]
    assert ours == theirs
    listed = [(await client.list_resources()).resources for client in (pair.ours, pair.theirs)]
    assert listed[0] == listed[1]
    assert (await pair.ours.list_resource_templates()).resource_templates == []
    assert [client.server_capabilities.resources for client in (pair.ours, pair.theirs)] == [
        types.ResourcesCapability(subscribe=True, list_changed=is_theirs) for is_theirs in (False, True)
    ]


def _plain(schema: Any, definitions: Any = None) -> Any:
    """A schema without references, without its dialect, and without whether more properties may be there."""
    if isinstance(schema, list):
        return [_plain(one, definitions) for one in schema]
    if not isinstance(schema, dict):
        return schema
    definitions = schema.get("$defs", definitions)
    if "$ref" in schema:
        return _plain(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    left_out = {"$defs", "$schema", "additionalProperties"}
    return {key: _plain(value, definitions) for key, value in schema.items() if key not in left_out}
