"""Clients of MCP, as others write them: the official SDK's, in each of its modes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, Protocol, cast
from uuid import UUID

import httpx2
from mcp import Client, StdioServerParameters, types
from mcp.client.streamable_http import streamable_http_client

from agent_reminiscence.server.access.grants import Caller, Grant, Scope
from tests.support.command_line import CHECKOUT

MODES: Final = ("auto", "legacy", "2026-07-28")
"""How a client finds the revision of the protocol: by asking, by the handshake of old, or by knowing it."""

EVERYTHING: Final = frozenset({Scope.READ, Scope.WRITE, Scope.ERASE})
PATIENCE_SECONDS: Final = 60.0
PROGRAM: Final = ("-m", "agent_reminiscence.cli", "mcp")
"""What Python is started with to serve by standard input and output."""


class Answering(Protocol):
    """A server of ours, in this process or in one of its own."""

    @property
    def url(self) -> str:
        """Where it answers, without a path."""


class Keys:
    """Credentials that a test hands out, and takes back."""

    def __init__(self, **grants: Grant) -> None:
        self.grants = grants

    async def authenticate(self, secret: str) -> Grant | None:
        """The grant of a key that is still there."""
        return self.grants.get(secret)


def key_for(external_id: str, scopes: frozenset[Scope] = EVERYTHING) -> Grant:
    """A key for one tenant."""
    return Grant(subject=f"key-of-{external_id}", scopes=scopes, external_id=external_id)


def acting_as(external_id: str, scopes: frozenset[Scope] = EVERYTHING) -> Caller:
    """Somebody with such a key."""
    return Caller(key_for(external_id, scopes), external_id)


@asynccontextmanager
async def connected(
    served: Answering, token: str, mode: str, *, path: str = "/mcp", headers: Mapping[str, str] | None = None
) -> AsyncGenerator[Client]:
    """A client of a server of ours, by HTTP."""
    named = {"Authorization": f"Bearer {token}"} | dict(headers or {})
    async with httpx2.AsyncClient(headers=named, timeout=PATIENCE_SECONDS) as http:
        transport = streamable_http_client(f"{served.url}{path}", http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client


@asynccontextmanager
async def started(variables: Mapping[str, str], mode: str, *words: str, tenant: str = "ida") -> AsyncGenerator[Client]:
    """A client that starts `agent-reminiscence mcp`, and talks to it by its standard input and output."""
    parameters = StdioServerParameters(
        command=sys.executable, args=[*PROGRAM, "--external-id", tenant, *words], env=dict(variables), cwd=CHECKOUT
    )
    async with Client(parameters, mode=mode) as client:
        yield client


@asynccontextmanager
async def held[T](manager: AbstractAsyncContextManager[T]) -> AsyncGenerator[T]:
    """Enter and leave in one task, as a client demands; pytest begins and ends a fixture in two."""
    opened: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    is_done = asyncio.Event()

    async def hold() -> None:
        async with manager as value:
            opened.set_result(value)
            await is_done.wait()

    holding = asyncio.create_task(hold())
    either: set[asyncio.Future[Any]] = {holding, opened}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    try:
        if opened.done():
            yield opened.result()
    finally:
        is_done.set()
        await holding


async def call(client: Client, tool: str, **arguments: Any) -> tuple[dict[str, Any], str]:
    """What a tool returns to programs and to models; fails if it refuses."""
    answered = await client.call_tool(tool, arguments)
    assert not answered.is_error, text_of(answered)
    return cast("dict[str, Any]", answered.structured_content), text_of(answered)


async def refusal(client: Client, tool: str, **arguments: Any) -> str:
    """Why a tool refuses."""
    answered = await client.call_tool(tool, arguments)
    assert answered.is_error
    assert answered.structured_content is None
    return text_of(answered)


async def remember(client: Client, content: str, **arguments: Any) -> UUID:
    """Have a client remember something; returns the memory's id."""
    written, _ = await call(client, "remember", content=content, **arguments)
    return UUID(written["memory_id"])


def text_of(answered: types.CallToolResult) -> str:
    """The one text of an answer."""
    (part,) = answered.content
    assert isinstance(part, types.TextContent)
    return part.text
