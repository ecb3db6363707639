"""The stateless agent service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from pydantic_ai.models import Model
from pydantic_ai.toolsets import AbstractToolset

from agent_reminiscence.react.config import AgentConfig
from agent_reminiscence.react.manager import ReactAgentManager, Reasoned, Sink
from agent_reminiscence.react.models import AgentRequest, AgentResponse


class ReactService:
    """An agent without memory: reason, act, observe, answer.

    Use it as `async with ReactService(model) as agent:`; that connects to the MCP servers among its tools once.

    Args:
        model: A Pydantic AI model, or its name.
        toolsets: The agent's tools; see `ReactAgentManager`.
        deps: The application's own dependencies; a tool finds them as `ctx.deps.deps`.
    """

    def __init__(
        self,
        model: Model | str,
        *,
        toolsets: Sequence[AbstractToolset[Any]] = (),
        config: AgentConfig | None = None,
        deps: Any = None,
    ) -> None:
        self._manager = ReactAgentManager(model, toolsets=toolsets, config=config or AgentConfig(), deps=deps)
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._open.enter_async_context(self._manager.agent)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Disconnect from the MCP servers; one that was started with `keep_alive=False` ends."""
        await self._open.aclose()

    async def run(self, request: AgentRequest) -> AsyncGenerator[AgentResponse]:
        """Answer a question. The last message is final; without `streaming`, it is the only one.

        Closing the iterator early cancels the invocation.
        """
        invocation_id = request.invocation_id or str(uuid4())

        async def reason(sink: Sink) -> AgentResponse:
            return final_response(invocation_id, await self._manager.reason(request, invocation_id, sink))

        async with aclosing(streamed(reason)) as messages:
            async for message in messages:
                yield message

    async def answer(self, request: AgentRequest) -> AgentResponse:
        """The final message alone."""
        return await last_of(self.run(request))


def final_response(invocation_id: str, reasoned: Reasoned) -> AgentResponse:
    """The message that ends an invocation."""
    last = reasoned.steps[-1] if reasoned.steps else None
    return AgentResponse(
        invocation_id=invocation_id,
        thought="" if last is None else last.thought,
        observation="" if last is None else last.observation,
        answer=reasoned.answer,
        is_final=True,
        error=reasoned.failure,
        steps=reasoned.steps,
        usage=reasoned.usage,
    )


async def streamed(work: Callable[[Sink], Awaitable[AgentResponse]]) -> AsyncGenerator[AgentResponse]:
    """Yield what `work` sends, then what it returns.

    `work` runs in a task of its own: a generator that another task closes cannot leave its timeouts and task groups
    properly. Closing the generator cancels the task and waits for its end.
    """
    messages: asyncio.Queue[AgentResponse | None] = asyncio.Queue()

    async def do() -> AgentResponse:
        try:
            return await work(messages.put_nowait)
        finally:
            messages.put_nowait(None)

    task = asyncio.create_task(do())
    try:
        while (message := await messages.get()) is not None:
            yield message
        yield await task
    finally:
        if not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def last_of(messages: AsyncGenerator[AgentResponse]) -> AgentResponse:
    """The final message."""
    last: AgentResponse | None = None
    async with aclosing(messages):
        async for message in messages:
            last = message
    assert last is not None
    return last
