"""Memory as views over the ledger: pure functions from events to what an agent remembers.

They use no clock, store or model: the same events give the same memories.
"""

from agent_reminiscence.domain.belief import Belief, BeliefPlan, Reflection, ReflectionPlan
from agent_reminiscence.domain.event_text import event_text
from agent_reminiscence.views.beliefs import BeliefGraph
from agent_reminiscence.views.context import Context, ContextBuilder, ContextFollower, quote
from agent_reminiscence.views.episodic import EpisodicFollower, EpisodicMemory
from agent_reminiscence.views.index import BM25Index, IndexAdapter, MemoryIndex
from agent_reminiscence.views.manifest import AgentManifest, MemoryManifest
from agent_reminiscence.views.reflection import (
    ReflectionFollower,
    ReflectionMemory,
    ReflectionTracker,
    read_reflection,
    reflection_payload,
)
from agent_reminiscence.views.salience import IMPORTANCE, SalienceFollower, SalienceMemory, SalienceWeights
from agent_reminiscence.views.visibility import GLOBAL_KINDS, Visibility
from agent_reminiscence.views.wording import format_events

__all__ = [
    "GLOBAL_KINDS",
    "IMPORTANCE",
    "AgentManifest",
    "BM25Index",
    "Belief",
    "BeliefGraph",
    "BeliefPlan",
    "Context",
    "ContextBuilder",
    "ContextFollower",
    "EpisodicFollower",
    "EpisodicMemory",
    "IndexAdapter",
    "MemoryIndex",
    "MemoryManifest",
    "Reflection",
    "ReflectionFollower",
    "ReflectionMemory",
    "ReflectionPlan",
    "ReflectionTracker",
    "SalienceFollower",
    "SalienceMemory",
    "SalienceWeights",
    "Visibility",
    "event_text",
    "format_events",
    "quote",
    "read_reflection",
    "reflection_payload",
]
