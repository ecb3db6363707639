"""What connects the memory to other packages. Each is imported when it is used, and none is needed to import this."""

from agent_reminiscence.integrations.environment import memory_index_from_env
from agent_reminiscence.integrations.mem0 import MINILM, Mem0CloudIndex, Mem0MemoryIndex, local_config

__all__ = [
    "MINILM",
    "Mem0CloudIndex",
    "Mem0MemoryIndex",
    "local_config",
    "memory_index_from_env",
]
