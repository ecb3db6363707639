"""What both services have in common: they open and close, and answer with messages, the last of which is final."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, suppress
from types import TracebackType
from typing import Self
from uuid import uuid4

from agent_reminiscence.react.chosen_model import ChosenModel
from agent_reminiscence.react.manager import ReactAgentManager, Reasoned, Sink
from agent_reminiscence.react.models import AgentRequest, AgentResponse


class Service[Manager: ReactAgentManager](ABC):
    """An agent service, apart from what it does to answer.

    Args:
        manager: Reasons.
        models: All that the service asks, each once; they are open as long as it is.
    """

    def __init__(self, manager: Manager, *models: ChosenModel) -> None:
        self._manager = manager
        self._models = models
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._open.enter_async_context(self._manager.agent)
        for model in self._models:
            await self._open.enter_async_context(model.get())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Disconnect from models and MCP servers; a server that was started with `keep_alive=False` ends."""
        await self._open.aclose()
        for model in self._models:
            await model.close()

    async def run(self, request: AgentRequest) -> AsyncGenerator[AgentResponse]:
        """Answer a question. The last message is final; without `streaming`, it is the only one.

        Closing the iterator early cancels the invocation; one with memory only if it has not been answered.
        """
        invocation_id = request.invocation_id or str(uuid4())

        async def respond(sink: Sink) -> AgentResponse:
            return await self._respond(request, invocation_id, sink)

        async with aclosing(_streamed(respond)) as messages:
            async for message in messages:
                yield message

    async def answer(self, request: AgentRequest) -> AgentResponse:
        """The final message alone."""
        last: AgentResponse | None = None
        async with aclosing(self.run(request)) as messages:
            async for message in messages:
                last = message
        assert last is not None
        return last

    @abstractmethod
    async def _respond(self, request: AgentRequest, invocation_id: str, sink: Sink) -> AgentResponse:
        """Answer a question.

        Args:
            sink: Called with what comes before the final message, which is returned.
        """

    async def _reason(self, request: AgentRequest, invocation_id: str, sink: Sink) -> AgentResponse:
        """Answer a question without memory."""
        return final_response(invocation_id, await self._manager.reason(request, invocation_id, sink))


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
        forget_requests=reasoned.forget_requests,
    )


async def _streamed(work: Callable[[Sink], Awaitable[AgentResponse]]) -> AsyncGenerator[AgentResponse]:
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
