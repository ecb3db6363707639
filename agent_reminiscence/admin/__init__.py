"""`memory.admin`: maintenance of memories."""

from agent_reminiscence.admin.memory_admin import MemoryAdmin

__all__ = ["MemoryAdmin"]
