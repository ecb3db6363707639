"""The five services of an agent's memory, each replaceable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from agent_reminiscence.core import AgentMem
from agent_reminiscence.react.config import ReactMemConfig
from agent_reminiscence.react.conversations import MemoryConversations
from agent_reminiscence.react.episodes import MemoryEpisodes
from agent_reminiscence.react.facts import MemoryFacts
from agent_reminiscence.react.permission import Permission
from agent_reminiscence.react.protocols import (
    ConversationMemoryService,
    EpisodeRetrieval,
    EpisodeStorage,
    FactRetrieval,
    FactStorage,
)
from agent_reminiscence.react.scope import Scope, default_scope


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryServices:
    """Who finds and keeps facts, episodes and conversations."""

    fact_retrieval: FactRetrieval
    fact_storage: FactStorage
    episode_retrieval: EpisodeRetrieval
    episode_storage: EpisodeStorage
    conversations: ConversationMemoryService

    @classmethod
    def of(cls, memory: AgentMem, config: ReactMemConfig | None = None, scope: Scope = default_scope) -> Self:
        """All five in one memory, which allow no more than `memory_mode`, the user and the conversation do."""
        config = config or ReactMemConfig()
        permission = Permission(memory, config.memory_mode)
        facts = MemoryFacts(
            memory,
            scope=scope,
            max_facts=config.max_facts,
            permission=permission,
            allow_sensitive=config.allow_sensitive,
        )
        episodes = MemoryEpisodes(memory, scope=scope, max_episodes=config.max_episodes, permission=permission)
        return cls(
            fact_retrieval=facts,
            fact_storage=facts,
            episode_retrieval=episodes,
            episode_storage=episodes,
            conversations=MemoryConversations(memory, scope=scope, permission=permission),
        )
