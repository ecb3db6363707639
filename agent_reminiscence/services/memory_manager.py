"""The specification's place of `MemoryManager`, which lives in the room of memories."""

from agent_reminiscence.services.memories.manager import MemoryManager

__all__ = ["MemoryManager"]
