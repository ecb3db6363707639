"""MCP over standard input and output, for a program that starts this one.

Not with the SDK's own transport: its thread that reads cannot be interrupted, so SIGTERM would have no effect until the
next line; and at the end of the input it gives up what is being answered.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import types
from mcp.server import Server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

_logger = logging.getLogger("agent_reminiscence.mcp")

_INPUT: Final = 0
_OUTPUT: Final = 1
_ERRORS: Final = 2
_READ_BYTES: Final = 65_536
_PATIENCE_SECONDS: Final = 10.0


@contextmanager
def standard_streams() -> Iterator[tuple[int, int]]:
    """Take standard input and output for the protocol; returns the descriptors that are them now.

    Meanwhile nothing can be read from standard input, and what anybody prints goes to standard error.
    """
    # Not inherited by processes that are started meanwhile.
    taken = os.dup(_INPUT), os.dup(_OUTPUT)
    nothing = os.open(os.devnull, os.O_RDWR)
    try:
        os.dup2(nothing, _INPUT)
        try:
            os.dup2(_ERRORS, _OUTPUT)
        except OSError:
            # Standard error is closed.
            os.dup2(nothing, _OUTPUT)
        yield taken
    finally:
        # The others stay open: a thread may still read, and must not read what gets their number.
        os.close(nothing)
        os.dup2(taken[0], _INPUT)
        os.dup2(taken[1], _OUTPUT)


async def serve_stdio(server: Server[Any], source: int, target: int, ending: asyncio.Event) -> None:
    """Serve one client until its input ends or `ending` is set; what it has asked by then is still answered.

    Args:
        source: Where messages are read, one a line.
        target: Where messages are written.
    """
    wire = _Wire(source, target, ending)
    incoming, from_client = anyio.create_memory_object_stream[SessionMessage | Exception]()
    to_client, outgoing = anyio.create_memory_object_stream[SessionMessage]()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wire.read, incoming)
        tasks.start_soon(wire.write, outgoing)
        await server.run(from_client, to_client, server.create_initialization_options())


class _Wire:
    """Messages as lines, and which requests are not answered yet."""

    def __init__(self, source: int, target: int, ending: asyncio.Event) -> None:
        self._source = source
        self._target = target
        self._ending = ending
        self._unanswered: set[str] = set()
        self._settled = asyncio.Event()

    async def read(self, incoming: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        """Pass on what the client sends; return when it has been answered."""
        async with incoming:
            async for line in self._lines():
                try:
                    message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValidationError:
                    _logger.warning("a line of standard input is no message of MCP, and is left out")
                    continue
                self._note_asked(message)
                await incoming.send(SessionMessage(message))
            # Once this stream is closed, the server gives up what it is doing.
            with anyio.move_on_after(_PATIENCE_SECONDS):
                while self._unanswered:
                    self._settled.clear()
                    await self._settled.wait()

    async def write(self, outgoing: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Write what the server answers."""
        is_open = True
        async with outgoing:
            async for sent in outgoing:
                message = sent.message
                if is_open:
                    line = message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
                    try:
                        await _aside(_write_all, self._target, line)
                    except OSError:
                        # The client is gone.
                        is_open = False
                        self._ending.set()
                if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
                    self._note_settled(str(message.id))

    async def _lines(self) -> AsyncIterator[bytes]:
        rest = b""
        while chunk := await self._chunk():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                if line.strip():
                    yield line
        if rest.strip():
            yield rest

    async def _chunk(self) -> bytes:
        """What comes next; empty at the end."""
        reading = asyncio.ensure_future(_aside(os.read, self._source, _READ_BYTES))
        ending = asyncio.ensure_future(self._ending.wait())
        try:
            await asyncio.wait({reading, ending}, return_when=asyncio.FIRST_COMPLETED)
            return b"" if self._ending.is_set() else reading.result()
        except OSError:
            return b""
        finally:
            reading.cancel()
            ending.cancel()

    def _note_asked(self, message: types.JSONRPCMessage) -> None:
        match message:
            case types.JSONRPCRequest(id=request_id):
                self._unanswered.add(str(request_id))
            case types.JSONRPCNotification(method="notifications/cancelled", params={"requestId": request_id}):
                # Nobody waits for it, and no answer is sent.
                self._note_settled(str(request_id))

    def _note_settled(self, request_id: str) -> None:
        self._unanswered.discard(request_id)
        self._settled.set()


async def _aside[T](call: Callable[..., T], *arguments: Any) -> T:
    """What a blocking call returns, from a thread for which the process does not wait when it ends."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(result)  # type: ignore[arg-type]
        else:
            done.set_exception(error)

    def work() -> None:
        result, error = None, None
        try:
            result = call(*arguments)
        except OSError as failure:
            error = failure
        # The loop has ended if nobody waits any more.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=work, name="agent-reminiscence-mcp", daemon=True).start()
    return await done


def _write_all(target: int, line: bytes) -> None:
    left = memoryview(line)
    while left:
        left = left[os.write(target, left) :]
