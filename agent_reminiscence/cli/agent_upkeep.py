"""Maintains the memory of ReAct agents, beside the jobs of the `worker` command."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from agent_reminiscence.exceptions import ConfigurationError

if TYPE_CHECKING:
    from agent_reminiscence import AgentMem
    from agent_reminiscence.react import Lifecycle

_SECTIONS: Final = ("agent", "agent-mem")


def read_agent_file(path: Path) -> dict[str, Any]:
    """The sections `agent` and `agent-mem` of a TOML or JSON file; others belong to other programs.

    Raises:
        ConfigurationError: The file cannot be read, is neither, or has no section `agent-mem`.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise ConfigurationError(f"--agent {str(path)!r} cannot be read: {error}") from None
    try:
        found = json.loads(text) if path.suffix.lower() == ".json" else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"--agent {str(path)!r} is not valid TOML (or JSON, if its name ends in .json): {error}"
        ) from None
    if not isinstance(found, Mapping) or "agent-mem" not in found:
        raise ConfigurationError(f"--agent {str(path)!r} has no section 'agent-mem'; add it, or leave the option out")
    return {name: found[name] for name in _SECTIONS if name in found}


def agent_lifecycle(memory: AgentMem, sections: Mapping[str, Any], model: str | None) -> tuple[Lifecycle, float | None]:
    """What maintains the agents' memory, and how often; None: not in the background.

    Raises:
        ConfigurationError: A setting is wrong, a model is missing, or the extra for agents is not installed.
    """
    from agent_reminiscence.react import ReactMemConfig, create_lifecycle, read_sections

    config = read_sections(sections)
    named = config.learning_model if isinstance(config, ReactMemConfig) and model is None else model
    if isinstance(config, ReactMemConfig) and config.learn_with == "model" and named is None:
        raise ConfigurationError(
            "the agent of --agent learns with a model; name it with --agent-model, or set learn-with to rules"
        )
    lifecycle = create_lifecycle(sections, memory, model=model)
    return lifecycle, config.maintenance_seconds if isinstance(config, ReactMemConfig) else None
