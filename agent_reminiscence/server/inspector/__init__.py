"""Pages to look at one memory: what is stored, why it was recalled, what changed it, and what was erased."""

from agent_reminiscence.server.inspector.mounting import add_inspector

__all__ = ["add_inspector"]
