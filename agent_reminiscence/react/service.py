"""The stateless agent service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic_ai.models import Model
from pydantic_ai.toolsets import AbstractToolset

from agent_reminiscence.react.chosen_model import ChosenModel
from agent_reminiscence.react.config import AgentConfig
from agent_reminiscence.react.manager import ReactAgentManager, Sink
from agent_reminiscence.react.models import AgentRequest, AgentResponse
from agent_reminiscence.react.serving import Service


class ReactService(Service[ReactAgentManager]):
    """An agent without memory: reason, act, observe, answer.

    Use it as `async with ReactService(model) as agent:`; that connects to the MCP servers among its tools once.

    Args:
        model: A Pydantic AI model, or its name; several names, separated by commas, stand in for each other.
        toolsets: The agent's tools; see `ReactAgentManager`.
        deps: The application's own dependencies; a tool finds them as `ctx.deps.deps`.
        ollama_base_url: The server for `ollama:` models; None: the setting of that name.

    Raises:
        ConfigurationError: The name says no model, or its provider's client or settings are missing.
    """

    def __init__(
        self,
        model: Model | str,
        *,
        toolsets: Sequence[AbstractToolset[Any]] = (),
        config: AgentConfig | None = None,
        deps: Any = None,
        ollama_base_url: str | None = None,
    ) -> None:
        chosen = ChosenModel(model, argument="model", ollama_base_url=ollama_base_url)
        super().__init__(
            ReactAgentManager(chosen, toolsets=toolsets, config=config or AgentConfig(), deps=deps), chosen
        )

    async def _respond(self, request: AgentRequest, invocation_id: str, sink: Sink) -> AgentResponse:
        return await self._reason(request, invocation_id, sink)
