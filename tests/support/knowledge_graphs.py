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
