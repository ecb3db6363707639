"""The errors for optional dependencies that are not installed."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Final, Literal

from agent_reminiscence.config.installation import install_command
from agent_reminiscence.exceptions import ConfigurationError

type Extra = Literal[
    "cli", "langgraph", "mem0", "models", "openai-agents", "pydantic-ai", "server", "telemetry", "yaml"
]

# What tells whether an extra is installed: a module that nothing else brings along.
_MODULES: Final[dict[Extra, tuple[str, ...]]] = {
    "cli": ("cyclopts", "rich"),
    "langgraph": ("langgraph.store.base",),
    # The hosted index needs no embedder, so the extra's other requirement is asked for where it is used.
    "mem0": ("mem0",),
    "models": ("pydantic_ai",),
    # A program may have a package `agents` of its own.
    "openai-agents": ("agents.memory",),
    # Whether it is recent enough is asked where it is used.
    "pydantic-ai": ("pydantic_ai",),
    "server": ("fastapi", "jinja2", "mcp.server.mcpserver", "prometheus_client", "uvicorn"),
    # Other distributions put modules into the namespace `opentelemetry`.
    "telemetry": ("opentelemetry.trace",),
    "yaml": ("yaml",),
}
_PYDANTIC_AI_EXTRA = re.compile(r"pydantic-ai-slim\[([\w-]+)\]")


def require(extra: Extra, purpose: str) -> None:
    """Refuse what an extra serves if it is not installed.

    Args:
        purpose: What needs it, as the beginning of a sentence: "memorizer_agent_model is 'test', which".

    Raises:
        ConfigurationError: A module of the extra is missing; the message says what to install.
    """
    missing = [module for module in _MODULES[extra] if not _is_there(module)]
    if missing:
        raise ConfigurationError(
            f"{purpose} needs {missing[0].partition('.')[0]}, which is not installed; run `{install_command(extra)}`"
        )


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        # Its parent is missing.
        return False


def missing_extra(error: ImportError, provider: str) -> str:
    """The extra of pydantic-ai-slim with a provider's client: the one Pydantic AI names, else the provider's name.

    Many providers share a client: `together` and `vllm` need the extra `openai`.
    """
    named = _PYDANTIC_AI_EXTRA.search(str(error))
    return named[1] if named else provider
