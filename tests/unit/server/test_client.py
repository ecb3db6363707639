"""A request that is kept waiting: its client may go, and what it sends is not lost."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.types import Message

from agent_reminiscence.server.guards.client import Client

_GONE: Message = {"type": "http.disconnect"}


def _part(size: int, *, more: bool = True) -> Message:
    return {"type": "http.request", "body": b"x" * size, "more_body": more}


def _client(
    *headers: tuple[bytes, bytes], stopping: asyncio.Event | None = None
) -> tuple[Client, asyncio.Queue[Message]]:
    scope: dict[str, Any] = {"type": "http", "headers": list(headers)}
    coming: asyncio.Queue[Message] = asyncio.Queue()
    return Client(scope, coming.get, stopping or asyncio.Event()), coming


async def test_nobody_is_waited_for_who_has_gone() -> None:
    """However much of the body had come before."""
    client, coming = _client()
    waiting = asyncio.create_task(client.wait(3_600))
    coming.put_nowait(_part(10))
    coming.put_nowait(_part(0, more=False))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    coming.put_nowait(_GONE)
    async with asyncio.timeout(60):
        await waiting
        await client.wait(3_600)
    assert client.is_gone
    client.close()


async def test_what_came_meanwhile_is_received_later_in_its_order() -> None:
    """Also a part that comes after the waiting, and one whose receiver was cancelled."""
    client, coming = _client()
    coming.put_nowait(_part(1))
    coming.put_nowait(_part(2))
    await client.wait(0.05)
    await client.wait(0.01)
    receiving = [asyncio.create_task(client.receive()) for _ in range(3)]
    await asyncio.sleep(0)
    receiving.pop().cancel()
    assert [await one for one in receiving] == [_part(1), _part(2)]
    coming.put_nowait(_part(3))
    coming.put_nowait(_part(4, more=False))
    async with asyncio.timeout(60):
        assert [await client.receive(), await client.receive()] == [_part(3), _part(4, more=False)]
    assert not client.is_gone
    client.close()


async def test_only_so_much_is_kept() -> None:
    """The rest stays where it is, and the time ends the waiting."""
    client, coming = _client()
    for _ in range(10):
        coming.put_nowait(_part(30_000))
    coming.put_nowait(_GONE)
    await client.wait(0.05)
    assert coming.qsize() == 8
    assert not client.is_gone
    client.close()


async def test_a_body_is_not_asked_for_that_may_be_refused() -> None:
    """A client that expects 100 Continue would begin to send it."""
    client, coming = _client((b"expect", b"100-continue"))
    coming.put_nowait(_part(1))
    await client.wait(0.05)
    assert coming.qsize() == 1
    client.close()


async def test_nothing_is_waited_for_when_the_server_stops() -> None:
    """Neither what waits already nor what comes then."""
    stopping = asyncio.Event()
    clients = [_client(stopping=stopping)[0], _client((b"expect", b"100-continue"), stopping=stopping)[0]]
    waiting = [asyncio.create_task(client.wait(3_600)) for client in clients]
    await asyncio.sleep(0.05)
    assert not any(one.done() for one in waiting)
    stopping.set()
    async with asyncio.timeout(60):
        await asyncio.gather(*waiting)
        await clients[0].wait(3_600)
    for client in clients:
        client.close()
