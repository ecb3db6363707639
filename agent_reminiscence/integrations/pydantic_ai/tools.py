"""The tools that a model gets, and the toolset that holds a memory open."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self, cast
from uuid import UUID, uuid5

from pydantic_ai import FunctionToolset, ModelRetry, RunContext, ToolReturn

from agent_reminiscence.config.constants import MAX_ID_CHARACTERS
from agent_reminiscence.integrations.pydantic_ai.messages import ORIGIN
from agent_reminiscence.integrations.pydantic_ai.writes import Seat

_KEYS = UUID("0d0e7d2c-2f0b-4f0f-8f55-3c8f4a1b7f52")


@dataclass(frozen=True)
class Answer:
    """What a tool returns to the model; if it was refused, the model may call it again otherwise.

    Attributes:
        memory_ids: The memories that it quotes.
    """

    text: str
    is_refused: bool = False
    memory_ids: tuple[str, ...] = ()

    def given(self) -> str:
        """The text.

        Raises:
            ModelRetry: The call was refused.
        """
        if self.is_refused:
            raise ModelRetry(self.text)
        return self.text


class Remembering(Protocol):
    """What carries out the tools: the capability of a run."""

    async def search(self, ctx: RunContext[Any], query: str) -> Answer:
        """Search for `query`."""
        ...

    async def note(self, ctx: RunContext[Any], text: str, title: str) -> Answer:
        """Store `text`."""
        ...


class MemoryToolset(FunctionToolset[Any]):
    """`search_memory` and `remember`; a memory that is made here is open while this is entered."""

    def __init__(self, capability: Remembering, capability_id: str | None, names: tuple[str, ...], seat: Seat) -> None:
        super().__init__(id=capability_id)
        self._seat = seat

        def current(ctx: RunContext[Any]) -> Remembering:
            # The copy of this run, which knows whose memory it is.
            own = None if capability_id is None else ctx.capabilities.get(capability_id)
            return cast("Remembering", own) if isinstance(own, type(capability)) else capability

        async def search_memory(ctx: RunContext[Any], query: str) -> ToolReturn[str]:
            """Search what is remembered of earlier conversations.

            Args:
                query: What to look for, as a question or in a few words.
            """
            answer = await current(ctx).search(ctx, query)
            # Whoever keeps the messages can tell that this part quotes memories, and which.
            metadata = {"origin": ORIGIN, "memory_ids": list(answer.memory_ids)}
            return ToolReturn(answer.given(), metadata=metadata)

        async def remember(ctx: RunContext[Any], text: str, title: str = "Note") -> str:
            """Keep something for later conversations.

            Args:
                text: What to keep, in full sentences that can be understood without this conversation.
                title: What it is about, in a few words.
            """
            return (await current(ctx).note(ctx, text, title)).given()

        for tool in (search_memory, remember):
            if tool.__name__ in names:
                self.add_function(tool)

    async def __aenter__(self) -> Self:
        await self._seat.__aenter__()
        return await super().__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        try:
            return await super().__aexit__(kind, error, trace)
        finally:
            await self._seat.__aexit__(kind, error, trace)


def call_key(ctx: RunContext[Any], *arguments: str) -> str:
    """The idempotency key of a tool's call: the same for each attempt at it.

    Some models number their calls alike in each answer, so the arguments tell them apart, too.
    """
    digest = hashlib.sha256("\0".join(arguments).encode(errors="surrogatepass")).hexdigest()
    key = f"{ctx.run_id}:{ctx.tool_call_id}:{digest}"
    return key if len(key) <= MAX_ID_CHARACTERS else str(uuid5(_KEYS, key))
