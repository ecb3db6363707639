"""Chooses the service by configuration, so that a client notices nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_ai.models import Model
from pydantic_ai.toolsets import AbstractToolset

from agent_reminiscence.core import AgentMem
from agent_reminiscence.exceptions import ConfigurationError
from agent_reminiscence.react.config import ReactMemConfig, read_sections
from agent_reminiscence.react.mem_service import ReactMemService
from agent_reminiscence.react.memory_services import MemoryServices
from agent_reminiscence.react.scope import Scope
from agent_reminiscence.react.service import ReactService


def create_agent_service(
    sections: Mapping[str, Any],
    model: Model | str,
    memory: AgentMem | None = None,
    *,
    toolsets: Sequence[AbstractToolset[Any]] = (),
    learning_model: Model | str | None = None,
    summary_model: Model | str | None = None,
    services: MemoryServices | None = None,
    scope: Scope | None = None,
    deps: Any = None,
) -> ReactService | ReactMemService:
    """The service that a configuration asks for: with memory if it has a section `agent-mem`.

    Args:
        sections: `agent` and `agent-mem`, with names in kebab case or snake case.
        memory: Open; needed by the service with memory.
        learning_model: As for `ReactMemService`, like the next three. Each can also be a setting of `agent-mem`: models
            by their names, and what is Python as `package.module:name`. The service without memory ignores them.

    Raises:
        ConfigurationError: A section or a setting is unknown or invalid, there is no memory for `agent-mem`, or what a
            setting names cannot be used.
    """
    config = read_sections(sections)
    if not isinstance(config, ReactMemConfig):
        url = None if memory is None else memory.config.ollama_base_url
        return ReactService(model, toolsets=toolsets, config=config, deps=deps, ollama_base_url=url)
    if memory is None:
        raise ConfigurationError("section 'agent-mem' needs a memory; pass an AgentMem that is open")
    return ReactMemService(
        model,
        memory,
        toolsets=toolsets,
        config=config,
        learning_model=learning_model,
        summary_model=summary_model,
        services=services,
        scope=scope,
        deps=deps,
    )
