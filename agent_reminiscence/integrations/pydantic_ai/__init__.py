"""Pydantic AI: a capability that gives an agent a memory, and a store of its conversations.

Needs `pydantic-ai-slim` 2.66 or later, from the extra `pydantic-ai`: without it, `from … import Reminiscence` is a
`ConfigurationError` that says what to install.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from agent_reminiscence.config.pydantic_ai_release import require_release

if TYPE_CHECKING:
    from agent_reminiscence.integrations.pydantic_ai.capability import GUIDE, Reminiscence
    from agent_reminiscence.integrations.pydantic_ai.conversations import ReminiscenceConversations
    from agent_reminiscence.integrations.pydantic_ai.messages import ORIGIN, Recalled

__all__ = ["GUIDE", "ORIGIN", "Recalled", "Reminiscence", "ReminiscenceConversations"]

_MODULES: Final = {
    "GUIDE": "capability",
    "ORIGIN": "messages",
    "Recalled": "messages",
    "Reminiscence": "capability",
    "ReminiscenceConversations": "conversations",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for, once it is certain that it can be imported."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require_release(__name__)
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
