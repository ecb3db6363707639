"""Tools as MCP offers them: a schema, a call for one tenant, a result for programs and a text for models."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from mcp import types
from mcp.server import ServerRequestContext
from pydantic import BaseModel, ConfigDict

from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.retrieval import RetrievalResult
from agent_reminiscence.domain.search import OwnAndShared
from agent_reminiscence.server.access.grants import Caller, Scope
from agent_reminiscence.server.mcp.schemas import lean_schema
from agent_reminiscence.server.problems import ProblemError

IDEMPOTENCY_KEY: Final = "agent-reminiscence/idempotency-key"
"""In `_meta` of a call: its idempotency key, for programs that repeat calls."""

MEMORIES: Final = "external_ids"
"""The argument that chooses memories, of tools that ask several."""

type Context = ServerRequestContext[Any, Any]
type CallerOf = Callable[[Context], Caller]
"""Who makes a call; it never depends on the call's arguments."""


class Arguments(BaseModel):
    """The arguments of a tool. What it does not know is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Result(BaseModel):
    """What a tool returns to programs; what is None is left out."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ToolRefusedError(Exception):
    """A call that is refused; the model reads the message."""


def _count_nothing(_result: RetrievalResult) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Backing:
    """What a server of MCP stands on; it knows nothing of HTTP, of standard input, or of credentials.

    Attributes:
        memory: Open while the server runs.
        caller_of: Tells who makes a request, from its context.
        count_recall: Called for each question that is answered.
        has_sessions: Whether a connection outlasts its requests, so that a client can be told something later.
    """

    memory: AgentMem
    caller_of: CallerOf
    count_recall: Callable[[RetrievalResult], None] = _count_nothing
    has_sessions: bool = True


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool."""

    backing: Backing
    caller: Caller
    context: Context

    @property
    def memory(self) -> AgentMem:
        """The open memory."""
        return self.backing.memory

    def tenant(self, scope: Scope) -> str:
        """The tenant to act for.

        Raises:
            ToolRefusedError: The credential lacks the scope, or the request names no tenant.
        """
        try:
            return self.caller.tenant(scope)
        except ProblemError as problem:
            raise ToolRefusedError(problem.detail) from None

    def asked(self, external_ids: Sequence[str] | None) -> str | OwnAndShared:
        """Which memories a question is asked of: those named, of those that the credential may read; None is all.

        Raises:
            ToolRefusedError: As for `tenant`, or one may not be read.
        """
        try:
            return self.caller.asked(external_ids)
        except ProblemError as problem:
            raise ToolRefusedError(problem.detail) from None

    @property
    def actor(self) -> str:
        """Who writes, as the ledger records it: the credential."""
        return self.caller.grant.subject

    @property
    def idempotency_key(self) -> str | None:
        """What the client sent along to repeat this call safely, if anything.

        Raises:
            ToolRefusedError: It is not text.
        """
        key = (self.context.meta or {}).get(IDEMPOTENCY_KEY)
        if key is not None and not isinstance(key, str):
            raise ToolRefusedError(f"_meta[{IDEMPOTENCY_KEY!r}] must be text")
        return key


@dataclass(frozen=True, kw_only=True)
class Tool[ArgumentsT: BaseModel, ResultT: BaseModel]:
    """One tool.

    Attributes:
        description: What a model reads; every word costs tokens in every conversation.
        scopes: It is listed for credentials that have one of these. The call itself asks for what it needs.
        run: Carries out a call; returns the result for programs, and the same as a text in which what memories say is
            fenced.
        is_usable: Whether a memory, once open, can do it.
        is_always_finished: Whether a call is carried out to its end although the client has given it up.
    """

    name: str
    title: str
    description: str
    arguments: type[ArgumentsT]
    result: type[ResultT]
    scopes: frozenset[Scope]
    annotations: types.ToolAnnotations
    run: Callable[[Call, ArgumentsT], Coroutine[Any, Any, tuple[ResultT, str]]]
    is_usable: Callable[[AgentMem], bool] = lambda _: True
    is_always_finished: bool = False

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        """All that a call may say."""
        return lean_schema(self.arguments)

    @cached_property
    def listed(self) -> types.Tool:
        """As `tools/list` shows it to a caller who may read one memory: without the choice of memories."""
        properties = {name: one for name, one in self.input_schema["properties"].items() if name != MEMORIES}
        return types.Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=self.input_schema | {"properties": properties},
            output_schema=lean_schema(self.result),
            annotations=self.annotations,
        )

    def listed_for(self, caller: Caller) -> types.Tool:
        """As `tools/list` shows it to a caller; one who may read several memories is told which these are."""
        properties = self.input_schema["properties"]
        if caller.external_id is None or not caller.also_reads or MEMORIES not in properties:
            return self.listed
        names = {"type": "string", "enum": [caller.external_id, *caller.also_reads]}
        chosen = properties | {MEMORIES: properties[MEMORIES] | {"items": names}}
        return self.listed.model_copy(update={"input_schema": self.input_schema | {"properties": chosen}})

    def is_offered_to(self, caller: Caller, memory: AgentMem) -> bool:
        """Whether `tools/list` shows it."""
        return any(map(caller.may, self.scopes)) and self.is_usable(memory)
