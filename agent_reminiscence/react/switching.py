"""Chooses the service by configuration, so that a client notices nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic_ai.models import Model
from pydantic_ai.toolsets import AbstractToolset

from agent_reminiscence.config.timezones import zone_named
from agent_reminiscence.core import AgentMem
from agent_reminiscence.exceptions import ConfigurationError
from agent_reminiscence.react.chosen_model import ChosenModel
from agent_reminiscence.react.config import ReactMemConfig, read_sections
from agent_reminiscence.react.journal import Journal
from agent_reminiscence.react.learning import Learning, LearningByModel, LearningByRules
from agent_reminiscence.react.lifecycle import Lifecycle
from agent_reminiscence.react.mem_service import ReactMemService
from agent_reminiscence.react.memory_services import MemoryServices
from agent_reminiscence.react.named import named_scope, named_services
from agent_reminiscence.react.registry import Registry
from agent_reminiscence.react.scope import Scope
from agent_reminiscence.react.service import ReactService
from agent_reminiscence.telemetry import Telemetry


def create_lifecycle(sections: Mapping[str, Any], memory: AgentMem, *, model: Model | str | None = None) -> Lifecycle:
    """What happens around invocations, for a process that answers none, such as a worker that maintains.

    Args:
        sections: As for `create_agent_service`; `agent-mem` must be one of them.
        memory: Open.
        model: Draws facts and lessons; None is the section's `learning-model`. Needed unless the section says
            `learn-with = "rules"`.

    Raises:
        ConfigurationError: A section or a setting is unknown or invalid, `agent-mem` or the model is missing, or what
            a setting names cannot be used.
    """
    config = read_sections(sections)
    if not isinstance(config, ReactMemConfig):
        raise ConfigurationError("there is no section 'agent-mem', so no memory of an agent to maintain; add it")
    learning: Learning = LearningByRules()
    if config.learn_with == "model":
        name = config.learning_model if model is None else model
        if name is None:
            raise ConfigurationError(
                "the agent learns with a model, and none is named; name it, or set learn-with to rules in 'agent-mem'"
            )
        chosen = ChosenModel(name, argument="model", ollama_base_url=memory.config.ollama_base_url)
        learning = LearningByModel(
            chosen, config.prompts, config.allow_sensitive, zone=zone_named(memory.config.timezone)
        )
    scope = named_scope(config)
    return Lifecycle(
        memory,
        named_services(config, memory, scope) or MemoryServices.of(memory, config, scope),
        Journal(memory),
        Registry(memory),
        learning,
        config=config,
        scope=scope,
        clock=lambda: datetime.now(UTC),
        telemetry=Telemetry(None, None),
    )


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
