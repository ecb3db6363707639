"""Memory for AI agents that can be trusted: three tiers over an append-only ledger."""

import logging

from agent_reminiscence.agents.models import AgentModels
from agent_reminiscence.config.settings import Config
from agent_reminiscence.conversation import Conversation
from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.access import AccessKey, AccessScope, CreatedKey, KeyGrant
from agent_reminiscence.domain.audit import AuditProgress, AuditReport, Drift, LedgerFault, StreamReport
from agent_reminiscence.domain.erasure import (
    ErasedEvent,
    ErasureCheck,
    ErasureFinding,
    ErasureItem,
    ErasurePreview,
    ErasureReceipt,
)
from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.filter import Filter
from agent_reminiscence.domain.generation import Generation, GenerationFill, ReembedProgress, ReembedReport
from agent_reminiscence.domain.graph import Entity, GraphPath, GraphTriple, Relationship, Subgraph
from agent_reminiscence.domain.history import Derivation, MemoryHistory, MemoryVersion
from agent_reminiscence.domain.lifecycle import LifecycleReport
from agent_reminiscence.domain.memory import ActiveMemory, ConsolidationReport, WriteOutcome
from agent_reminiscence.domain.outcome import RunOutcome
from agent_reminiscence.domain.payloads import ModelUsage, ProfileCitation
from agent_reminiscence.domain.profile import Profile
from agent_reminiscence.domain.progress import Progress, Step
from agent_reminiscence.domain.reflecting import ReflectionReport
from agent_reminiscence.domain.remembering import DeletionRequest, RememberedChange, RememberReport
from agent_reminiscence.domain.retrieval import (
    Citation,
    CitedPassage,
    EntityHit,
    Omission,
    RelationshipHit,
    RetrievalResult,
    SearchHit,
    Synthesis,
    Usage,
)
from agent_reminiscence.domain.said import SaidFrom
from agent_reminiscence.domain.transfer import (
    AddedMemory,
    ExportReport,
    ImportedMemory,
    ImportReport,
    MessageImportReport,
)
from agent_reminiscence.domain.turn import Turn
from agent_reminiscence.domain.usage import MemoryUsage, TenantOverview, TierUsage
from agent_reminiscence.domain.work import Health, Job, JobCounts, WorkReport
from agent_reminiscence.embedders.base import BaseEmbedder
from agent_reminiscence.embedders.protocol import Embedder
from agent_reminiscence.exceptions import (
    AccessKeyNotFoundError,
    AgentError,
    CommitUnknownError,
    ConfigurationError,
    EmbedderAwayError,
    EmbeddingError,
    EntityNotFoundError,
    ExternalIdNotFoundError,
    IdempotencyConflictError,
    InvalidInputError,
    MemoryExistsError,
    MemoryNotFoundError,
    NotInitializedError,
    OutcomeConflictError,
    PositionConflictError,
    ProfileNotFoundError,
    QuotaExceededError,
    RedactionError,
    ReembeddingError,
    RelationshipNotFoundError,
    ReminiscenceError,
    RunNotFoundError,
    StoreError,
    StoreTimeoutError,
    StoreUnavailableError,
    UsageError,
    VersionConflictError,
    WorkTimeoutError,
)
from agent_reminiscence.redaction.redactor import DefaultRedactor, Redaction, Redactor
from agent_reminiscence.services.reflection.memory_index import EventIndex

__all__ = [
    "AccessKey",
    "AccessKeyNotFoundError",
    "AccessScope",
    "ActiveMemory",
    "AddedMemory",
    "AgentError",
    "AgentMem",
    "AgentModels",
    "AuditProgress",
    "AuditReport",
    "BaseEmbedder",
    "Citation",
    "CitedPassage",
    "CommitUnknownError",
    "Config",
    "ConfigurationError",
    "ConsolidationReport",
    "Conversation",
    "CreatedKey",
    "DefaultRedactor",
    "DeletionRequest",
    "Derivation",
    "Drift",
    "Embedder",
    "EmbedderAwayError",
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
    "EventIndex",
    "ExportReport",
    "ExternalIdNotFoundError",
    "Filter",
    "Generation",
    "GenerationFill",
    "GraphPath",
    "GraphTriple",
    "Health",
    "IdempotencyConflictError",
    "ImportReport",
    "ImportedMemory",
    "InvalidInputError",
    "Job",
    "JobCounts",
    "KeyGrant",
    "LedgerFault",
    "LifecycleReport",
    "MemoryExistsError",
    "MemoryHistory",
    "MemoryNotFoundError",
    "MemoryUsage",
    "MemoryVersion",
    "MessageImportReport",
    "ModelUsage",
    "NotInitializedError",
    "Omission",
    "OutcomeConflictError",
    "PositionConflictError",
    "Profile",
    "ProfileCitation",
    "ProfileNotFoundError",
    "Progress",
    "QuotaExceededError",
    "Redaction",
    "RedactionError",
    "Redactor",
    "ReembedProgress",
    "ReembedReport",
    "ReembeddingError",
    "ReflectionReport",
    "Relationship",
    "RelationshipHit",
    "RelationshipNotFoundError",
    "RememberReport",
    "RememberedChange",
    "ReminiscenceError",
    "RetrievalResult",
    "RunNotFoundError",
    "RunOutcome",
    "SaidFrom",
    "SearchHit",
    "Step",
    "StoreError",
    "StoreTimeoutError",
    "StoreUnavailableError",
    "StreamReport",
    "Subgraph",
    "Synthesis",
    "TenantOverview",
    "TierUsage",
    "Turn",
    "Usage",
    "UsageError",
    "VersionConflictError",
    "WorkReport",
    "WorkTimeoutError",
    "WriteOutcome",
]

# A library stays silent unless the application configures logging.
logging.getLogger("agent_reminiscence").addHandler(logging.NullHandler())
