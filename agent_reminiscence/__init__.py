"""Memory for AI agents that can be trusted: three tiers over an append-only ledger."""

import logging

from agent_reminiscence.config.settings import Config
from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.memory import ActiveMemory, ConsolidationReport, WriteOutcome
from agent_reminiscence.domain.retrieval import Citation, Omission, RetrievalResult, SearchHit, Usage
from agent_reminiscence.exceptions import (
    AgentError,
    CommitUnknownError,
    ConfigurationError,
    EmbeddingError,
    IdempotencyConflictError,
    InvalidInputError,
    MemoryNotFoundError,
    NotInitializedError,
    ReminiscenceError,
    StoreError,
    StoreTimeoutError,
    StoreUnavailableError,
    UsageError,
    VersionConflictError,
)
from agent_reminiscence.services.embedders import Embedder

__all__ = [
    "ActiveMemory",
    "AgentError",
    "AgentMem",
    "Citation",
    "CommitUnknownError",
    "Config",
    "ConfigurationError",
    "ConsolidationReport",
    "Embedder",
    "EmbeddingError",
    "Event",
    "IdempotencyConflictError",
    "InvalidInputError",
    "MemoryNotFoundError",
    "NotInitializedError",
    "Omission",
    "ReminiscenceError",
    "RetrievalResult",
    "SearchHit",
    "StoreError",
    "StoreTimeoutError",
    "StoreUnavailableError",
    "Usage",
    "UsageError",
    "VersionConflictError",
    "WriteOutcome",
]

# A library says nothing unless its user asks to hear it.
logging.getLogger("agent_reminiscence").addHandler(logging.NullHandler())
