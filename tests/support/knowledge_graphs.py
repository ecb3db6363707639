"""Clients of a knowledge graph's tools, over a memory and over MCP's reference server."""

from __future__ import annotations

import asyncio
from typing import Any, Final, cast

from mcp import Client, types

from agent_reminiscence.server.access.grants import Caller, Grant, Scope
from tests.support.mcp_clients import text_of

PATIENCE_SECONDS: Final = 60.0
_READ_AND_WRITE: Final = frozenset({Scope.READ, Scope.WRITE})


def acting_for(tenant: str, scopes: frozenset[Scope] = _READ_AND_WRITE) -> Caller:
    """Somebody with a key for one tenant."""
    return Caller(Grant(subject=f"key-of-{tenant}", scopes=scopes, external_id=tenant), tenant)


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """What a tool returns to programs; fails if it refuses."""
    answered = await client.call_tool(tool, arguments)
    assert not answered.is_error, text_of(answered)
    return cast("dict[str, Any]", answered.structured_content)


ANA: Final = {"name": "Ana_Sousa", "entityType": "person", "observations": ["Speaks Portuguese"]}
MILL: Final = {"name": "The Mill", "entityType": "place", "observations": []}
_WORKS: Final = {"from": "Ana_Sousa", "to": "The Mill", "relationType": "works_at"}
_OWNS: Final = {"from": "Ana_Sousa", "to": "Red_Boat", "relationType": "owns"}
LEFT: Final = {
    "entities": [MILL, {"name": "Ana_Sousa", "entityType": "person", "observations": ["Keeps a red boat"]}],
    "relations": [_WORKS],
}
"""The graph that `use_every_tool` leaves behind."""


async def use_every_tool(client: Client) -> None:
    """As an agent does that gets to know somebody: on an empty graph, in which `LEFT` is then."""
    boat = {"name": "Red_Boat", "entityType": "boat", "observations": []}
    assert await call(client, "create_entities", entities=[MILL, ANA, boat]) == {"entities": [MILL, ANA, boat]}
    addition = {"entityName": "Ana_Sousa", "contents": ["Keeps a red boat", "Speaks Portuguese"]}
    added = {"entityName": "Ana_Sousa", "addedObservations": ["Keeps a red boat"]}
    assert await call(client, "add_observations", observations=[addition]) == {"results": [added]}
    assert await call(client, "create_relations", relations=[_WORKS, _OWNS]) == {"relations": [_WORKS, _OWNS]}

    known = ANA | {"observations": ["Speaks Portuguese", "Keeps a red boat"]}
    found = {"entities": [known], "relations": [_WORKS, _OWNS]}
    assert await call(client, "search_nodes", query="RED BOAT") == found
    assert await call(client, "open_nodes", names=["The Mill"]) == {"entities": [MILL], "relations": [_WORKS]}

    await call(client, "delete_relations", relations=[_OWNS | {"relationType": "sells"}])
    await call(client, "delete_entities", entityNames=["Red_Boat"])
    forgotten = {"entityName": "Ana_Sousa", "observations": ["Speaks Portuguese"]}
    await call(client, "delete_observations", deletions=[forgotten])
    assert await call(client, "read_graph") == LEFT


async def subscribe(client: Client, uri: str) -> None:
    """As the revisions of the protocol with a handshake do it."""
    wanted = types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri))
    await client.session.send_request(wanted, types.EmptyResult)


async def unsubscribe(client: Client, uri: str) -> None:
    """The reverse."""
    unwanted = types.UnsubscribeRequest(params=types.UnsubscribeRequestParams(uri=uri))
    await client.session.send_request(unwanted, types.EmptyResult)


class Heard:
    """The resources that a client was told have changed; its `message_handler`."""

    def __init__(self) -> None:
        self._uris: asyncio.Queue[str] = asyncio.Queue()

    async def __call__(self, message: Any) -> None:
        """Keep what is told of a resource."""
        if isinstance(message, types.ResourceUpdatedNotification):
            self._uris.put_nowait(str(message.params.uri))

    async def next(self, count: int) -> list[str]:
        """The next ones."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            return [await self._uris.get() for _ in range(count)]

    @property
    def is_empty(self) -> bool:
        """Whether nothing else was told by now."""
        return self._uris.empty()
