"""The error tree: what a caller can catch, from the caller's own mistakes to a store that is away."""

from __future__ import annotations

from uuid import UUID


class ReminiscenceError(Exception):
    """Base of every error this package raises on purpose."""


class UsageError(ReminiscenceError):
    """The caller's mistake; retrying the same call changes nothing."""


class ConfigurationError(UsageError):
    """A setting is missing, unknown or contradicts another, or the installation does not fit it."""


class InvalidInputError(UsageError, ValueError):
    """An argument was refused before anything was written; the message names the value and the limit."""


class RedactionError(UsageError):
    """The redactor failed, or returned what none may; nothing was written. The message does not quote the text."""


class NotInitializedError(UsageError):
    """The object was used before `initialize()` or after `close()`."""


class MemoryNotFoundError(UsageError):
    """No such memory for this `external_id`; another tenant's id gives the same answer, so who asks learns nothing."""

    def __init__(self, external_id: str, memory_id: UUID) -> None:
        super().__init__(
            f"external_id {external_id!r} has no memory {str(memory_id)!r}; get_active_memories() lists the ids it has"
        )
        self.external_id = external_id
        self.memory_id = memory_id


class EntityNotFoundError(UsageError):
    """No such entity for this `external_id`; another tenant's gives the same answer, so who asks learns nothing.

    `entity` is the id or the name that was asked for.
    """

    def __init__(self, external_id: str, entity: UUID | str) -> None:
        super().__init__(
            f"external_id {external_id!r} has no entity {str(entity)!r};"
            " memory.admin.graph.entities() lists those it has"
        )
        self.external_id = external_id
        self.entity = entity


class RelationshipNotFoundError(UsageError):
    """No such relationship for this `external_id`; another tenant's id gives the same answer."""

    def __init__(self, external_id: str, relationship_id: UUID) -> None:
        super().__init__(
            f"external_id {external_id!r} has no relationship {str(relationship_id)!r};"
            " memory.admin.graph.neighbourhood() shows those of an entity with their ids"
        )
        self.external_id = external_id
        self.relationship_id = relationship_id


class IdempotencyConflictError(UsageError):
    """The idempotency key was used before for a different request."""

    def __init__(self, external_id: str, idempotency_key: str) -> None:
        super().__init__(
            f"idempotency_key {idempotency_key!r} of external_id {external_id!r} was used for a different request;"
            " a new request needs a new key"
        )
        self.external_id = external_id
        self.idempotency_key = idempotency_key


class QuotaExceededError(UsageError):
    """A write would exceed a limit of its `external_id`; nothing was written, and the message names the way out."""

    def __init__(self, external_id: str, quota: str, limit: int, value: int, way_out: str) -> None:
        super().__init__(
            f"{quota} allows {limit:,} for external_id {external_id!r}, and this would be {value:,}; {way_out}"
        )
        self.external_id = external_id
        self.quota = quota
        self.limit = limit
        self.value = value


class ReembeddingError(UsageError):
    """Vectors of another model are being made already, or are not to be made in this state; the message says which."""


class StoreError(ReminiscenceError):
    """A database refused or is away; `__cause__` holds the driver's error. Nothing was half-written."""


class StoreUnavailableError(StoreError):
    """The server is away, or the connection was lost before COMMIT was sent: nothing was written; safe to repeat."""


class CommitUnknownError(StoreError):
    """The connection was lost during COMMIT: all of the write took effect or none of it, and which is unknown.

    Repeat it with the same `idempotency_key`, or read before you repeat it.
    """


class StoreTimeoutError(StoreError):
    """No connection became free, or a statement ran longer than its timeout."""


class VersionConflictError(StoreError):
    """Another writer was first; read the memory again and decide again."""

    def __init__(self, external_id: str, memory_id: UUID, expected_version: int, version: int) -> None:
        super().__init__(
            f"memory {str(memory_id)!r} of external_id {external_id!r} is at version {version},"
            f" not {expected_version}; read it again and decide again"
        )
        self.external_id = external_id
        self.memory_id = memory_id
        self.expected_version = expected_version
        self.version = version


class WorkTimeoutError(ReminiscenceError, TimeoutError):
    """Work that follows writes was not done in the time it was waited for; it stays queued."""


class EmbeddingError(ReminiscenceError):
    """An embedder gave no vector, or one of the wrong length."""


class EmbedderAwayError(EmbeddingError):
    """The server that makes vectors is away or too slow: what lacks them gets them later, with nothing to be done."""


class AgentError(ReminiscenceError):
    """A model failed, or its plan did not validate."""
