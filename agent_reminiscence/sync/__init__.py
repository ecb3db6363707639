# Written by scripts/write_sync.py from the asynchronous classes: `make sync` writes it anew.
"""`AgentMem` for programs that do not await: scripts, notebooks, threads."""

from agent_reminiscence.sync.access_keys import AccessKeys
from agent_reminiscence.sync.agent_mem import AgentMem
from agent_reminiscence.sync.conversation import Conversation
from agent_reminiscence.sync.event_index import EventIndex
from agent_reminiscence.sync.ledger_beliefs import LedgerBeliefs
from agent_reminiscence.sync.memory_admin import MemoryAdmin
from agent_reminiscence.sync.memory_graph import MemoryGraph
from agent_reminiscence.sync.memory_ledger import MemoryLedger
from agent_reminiscence.sync.profiles import Profiles
from agent_reminiscence.sync.reflections import Reflections

__all__ = [
    "AccessKeys",
    "AgentMem",
    "Conversation",
    "EventIndex",
    "LedgerBeliefs",
    "MemoryAdmin",
    "MemoryGraph",
    "MemoryLedger",
    "Profiles",
    "Reflections",
]
