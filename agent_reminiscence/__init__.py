"""Memory for AI agents that can be trusted: three tiers over an append-only ledger.

A name is imported when it is first used. What needs none of them, such as `agent-reminiscence --help`, starts without
pydantic.
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
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
    from agent_reminiscence.domain.graph import Entity, GraphPath, GraphStep, GraphTriple, Relationship, Subgraph
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
        Outdated,
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
        ReadableExportReport,
        SkippedMessage,
    )
    from agent_reminiscence.domain.turn import Turn
    from agent_reminiscence.domain.usage import MemoryUsage, ModelSpending, RecallDay, TenantOverview, TierUsage
    from agent_reminiscence.domain.work import Health, Job, JobCounts, MissingVectors, WorkReport
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
    from agent_reminiscence.services.reflection.event_index import EventIndex
    from agent_reminiscence.services.transfer.event_lines import read_events, write_events

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
    "GraphStep",
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
    "MissingVectors",
    "ModelSpending",
    "ModelUsage",
    "NotInitializedError",
    "Omission",
    "OutcomeConflictError",
    "Outdated",
    "PositionConflictError",
    "Profile",
    "ProfileCitation",
    "ProfileNotFoundError",
    "Progress",
    "QuotaExceededError",
    "ReadableExportReport",
    "RecallDay",
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
    "SkippedMessage",
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
    "read_events",
    "write_events",
]

# Where each public name is defined: the imports above, for the interpreter. A test compares the two.
_MODULES: Final = {
    "agents.models": ("AgentModels",),
    "config.settings": ("Config",),
    "conversation": ("Conversation",),
    "core": ("AgentMem",),
    "domain.access": (
        "AccessKey",
        "AccessScope",
        "CreatedKey",
        "KeyGrant",
    ),
    "domain.audit": (
        "AuditProgress",
        "AuditReport",
        "Drift",
        "LedgerFault",
        "StreamReport",
    ),
    "domain.erasure": (
        "ErasedEvent",
        "ErasureCheck",
        "ErasureFinding",
        "ErasureItem",
        "ErasurePreview",
        "ErasureReceipt",
    ),
    "domain.event": ("Event",),
    "domain.filter": ("Filter",),
    "domain.generation": (
        "Generation",
        "GenerationFill",
        "ReembedProgress",
        "ReembedReport",
    ),
    "domain.graph": (
        "Entity",
        "GraphPath",
        "GraphStep",
        "GraphTriple",
        "Relationship",
        "Subgraph",
    ),
    "domain.history": (
        "Derivation",
        "MemoryHistory",
        "MemoryVersion",
    ),
    "domain.lifecycle": ("LifecycleReport",),
    "domain.memory": (
        "ActiveMemory",
        "ConsolidationReport",
        "WriteOutcome",
    ),
    "domain.outcome": ("RunOutcome",),
    "domain.payloads": (
        "ModelUsage",
        "ProfileCitation",
    ),
    "domain.profile": ("Profile",),
    "domain.progress": (
        "Progress",
        "Step",
    ),
    "domain.reflecting": ("ReflectionReport",),
    "domain.remembering": (
        "DeletionRequest",
        "RememberedChange",
        "RememberReport",
    ),
    "domain.retrieval": (
        "Citation",
        "CitedPassage",
        "EntityHit",
        "Omission",
        "Outdated",
        "RelationshipHit",
        "RetrievalResult",
        "SearchHit",
        "Synthesis",
        "Usage",
    ),
    "domain.said": ("SaidFrom",),
    "domain.transfer": (
        "AddedMemory",
        "ExportReport",
        "ReadableExportReport",
        "ImportedMemory",
        "ImportReport",
        "MessageImportReport",
        "SkippedMessage",
    ),
    "domain.turn": ("Turn",),
    "domain.usage": (
        "MemoryUsage",
        "ModelSpending",
        "RecallDay",
        "TenantOverview",
        "TierUsage",
    ),
    "domain.work": (
        "Health",
        "Job",
        "JobCounts",
        "MissingVectors",
        "WorkReport",
    ),
    "embedders.base": ("BaseEmbedder",),
    "embedders.protocol": ("Embedder",),
    "exceptions": (
        "AccessKeyNotFoundError",
        "AgentError",
        "CommitUnknownError",
        "ConfigurationError",
        "EmbedderAwayError",
        "EmbeddingError",
        "EntityNotFoundError",
        "ExternalIdNotFoundError",
        "IdempotencyConflictError",
        "InvalidInputError",
        "MemoryExistsError",
        "MemoryNotFoundError",
        "NotInitializedError",
        "OutcomeConflictError",
        "PositionConflictError",
        "ProfileNotFoundError",
        "QuotaExceededError",
        "RedactionError",
        "ReembeddingError",
        "RelationshipNotFoundError",
        "ReminiscenceError",
        "RunNotFoundError",
        "StoreError",
        "StoreTimeoutError",
        "StoreUnavailableError",
        "UsageError",
        "VersionConflictError",
        "WorkTimeoutError",
    ),
    "redaction.redactor": (
        "DefaultRedactor",
        "Redaction",
        "Redactor",
    ),
    "services.reflection.event_index": ("EventIndex",),
    "services.transfer.event_lines": ("read_events", "write_events"),
}
_MODULE_OF: Final = {name: module for module, names in _MODULES.items() for name in names}
# As `agent_reminiscence.exceptions`, which an eager import would have made attributes.
_SUBMODULES: Final = frozenset(module.partition(".")[0] for module in _MODULES)

# Type checkers read the imports above; with a `__getattr__`, they would accept any name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import the public name `name`; only its first use comes here."""
        if name in _SUBMODULES:
            return import_module(f"{__name__}.{name}")
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        """Also the names that were not used yet."""
        return sorted({*globals(), *__all__})


# A library stays silent unless the application configures logging.
logging.getLogger("agent_reminiscence").addHandler(logging.NullHandler())
