"""Memory for AI agents that can be trusted: three tiers over an append-only ledger."""

import logging

from agent_reminiscence.config.settings import Config
from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.audit import AuditReport, Drift, LedgerFault, Progress, StreamReport
from agent_reminiscence.domain.erasure import (
    ErasedEvent,
    ErasureCheck,
    ErasureFinding,
    ErasureItem,
    ErasurePreview,
    ErasureReceipt,
)
from agent_reminiscence.domain.event import Event, ModelUsage
from agent_reminiscence.domain.graph import Entity, GraphPath, GraphTriple, Relationship, Subgraph
from agent_reminiscence.domain.history import Derivation, MemoryHistory, MemoryVersion
from agent_reminiscence.domain.lifecycle import LifecycleReport
from agent_reminiscence.domain.memory import ActiveMemory, ConsolidationReport, WriteOutcome
from agent_reminiscence.domain.retrieval import (
    Citation,
    EntityHit,
    Omission,
    RelationshipHit,
    RetrievalResult,
    SearchHit,
    Usage,
)
from agent_reminiscence.domain.transfer import (
    AddedMemory,
    ExportReport,
    ImportedMemory,
    ImportReport,
    MessageImportReport,
)
from agent_reminiscence.domain.usage import MemoryUsage, TierUsage
from agent_reminiscence.domain.work import Job, WorkReport
from agent_reminiscence.exceptions import (
    AgentError,
    CommitUnknownError,
    ConfigurationError,
    EmbeddingError,
    EntityNotFoundError,
    IdempotencyConflictError,
    InvalidInputError,
    MemoryNotFoundError,
    NotInitializedError,
    QuotaExceededError,
    RelationshipNotFoundError,
    ReminiscenceError,
    StoreError,
    StoreTimeoutError,
    StoreUnavailableError,
    UsageError,
    VersionConflictError,
    WorkTimeoutError,
)
from agent_reminiscence.services.embedders import Embedder

__all__ = [
    "ActiveMemory",
    "AddedMemory",
    "AgentError",
    "AgentMem",
    "AuditReport",
    "Citation",
    "CommitUnknownError",
    "Config",
    "ConfigurationError",
    "ConsolidationReport",
    "Derivation",
    "Drift",
    "Embedder",
    "EmbeddingError",
    "Entity",
    "EntityHit",
    "EntityNotFoundError",
    "ErasedEvent",
    "ErasureCheck",
    "ErasureFinding",
    "ErasureItem",
    "ErasurePreview",
    "ErasureReceipt",
    "Event",
    "ExportReport",
    "GraphPath",
    "GraphTriple",
    "IdempotencyConflictError",
    "ImportReport",
    "ImportedMemory",
    "InvalidInputError",
    "Job",
    "LedgerFault",
    "LifecycleReport",
    "MemoryHistory",
    "MemoryNotFoundError",
    "MemoryUsage",
    "MemoryVersion",
    "MessageImportReport",
    "ModelUsage",
    "NotInitializedError",
    "Omission",
    "Progress",
    "QuotaExceededError",
    "Relationship",
    "RelationshipHit",
    "RelationshipNotFoundError",
    "ReminiscenceError",
    "RetrievalResult",
    "SearchHit",
    "StoreError",
    "StoreTimeoutError",
    "StoreUnavailableError",
    "StreamReport",
    "Subgraph",
    "TierUsage",
    "Usage",
    "UsageError",
    "VersionConflictError",
    "WorkReport",
    "WorkTimeoutError",
    "WriteOutcome",
]

# A library says nothing unless its user asks to hear it.
logging.getLogger("agent_reminiscence").addHandler(logging.NullHandler())
