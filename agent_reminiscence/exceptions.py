"""The exceptions a caller can catch, from usage errors to unavailable stores."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID


class ReminiscenceError(Exception):
    """Base class of all errors this package raises on purpose."""


class UsageError(ReminiscenceError):
    """The caller made a mistake; retrying the same call will not help."""


class ConfigurationError(UsageError):
    """A setting is missing, unknown, contradicts another, or does not match the installation."""


class InvalidInputError(UsageError, ValueError):
    """An argument was refused before anything was written; the message names the value and the limit."""


class RedactionError(UsageError):
    """The redactor failed or returned an invalid result; nothing was written. The message does not quote the text."""


class NotInitializedError(UsageError):
    """The object was used before `initialize()` or after `close()`."""


class MemoryNotFoundError(UsageError):
    """This `external_id` has no such memory. Another tenant's memory id gives the same error, revealing nothing.

    Of `memory_id` and `key`, the one that the memory was asked for by is set.
    """

    def __init__(self, external_id: str, memory_id: UUID | None = None, *, key: str | None = None) -> None:
        super().__init__(
            f"external_id {external_id!r} has no memory {str(memory_id)!r}; get_active_memories() lists the ids it has"
            if key is None
            else f"external_id {external_id!r} has no active memory with the key {key!r};"
            " create it with create_active_memory(…, key=…)"
        )
        self.external_id = external_id
        self.memory_id = memory_id
        self.key = key


class MemoryExistsError(UsageError):
    """An active memory of this `external_id` has the key already; nothing was written. `memory_id` says which."""

    def __init__(self, external_id: str, key: str, memory_id: UUID, *, archived_id: UUID | None = None) -> None:
        """Say who has the key.

        Args:
            archived_id: The memory that cannot be unarchived because of the other one; None if one was to be created.
        """
        super().__init__(
            f"external_id {external_id!r} already has a memory with the key {key!r}: {str(memory_id)!r}. Pass"
            ' if_exists="update" to replace it or if_exists="return" to get it, or archive it first'
            if archived_id is None
            else f"memory {str(archived_id)!r} of external_id {external_id!r} cannot be unarchived: its key {key!r} is"
            f" now that of the memory {str(memory_id)!r}; archive that one first"
        )
        self.external_id = external_id
        self.key = key
        self.memory_id = memory_id


class ExternalIdNotFoundError(UsageError):
    """Nothing was ever stored for this `external_id`, and the call needs something: most likely it is mistyped."""

    def __init__(self, external_id: str) -> None:
        super().__init__(f"no memory is stored for external_id {external_id!r}; check its spelling")
        self.external_id = external_id


class EntityNotFoundError(UsageError):
    """This `external_id` has no such entity. Another tenant's entity gives the same error, revealing nothing.

    `entity` is the requested id or name.
    """

    def __init__(self, external_id: str, entity: UUID | str) -> None:
        super().__init__(
            f"external_id {external_id!r} has no entity {str(entity)!r};"
            " memory.admin.graph.entities() lists the entities it has"
        )
        self.external_id = external_id
        self.entity = entity


class RelationshipNotFoundError(UsageError):
    """This `external_id` has no such relationship. Another tenant's relationship id gives the same error."""

    def __init__(self, external_id: str, relationship_id: UUID) -> None:
        super().__init__(
            f"external_id {external_id!r} has no relationship {str(relationship_id)!r};"
            " memory.admin.graph.neighbourhood() shows an entity's relationships with their ids"
        )
        self.external_id = external_id
        self.relationship_id = relationship_id


class ProfileNotFoundError(UsageError):
    """This `external_id` has no such profile, or had none at that time; `name` is the requested one."""

    def __init__(self, external_id: str, name: str, *, known_at: datetime | None = None) -> None:
        listed = f"memory.admin.profiles.list({external_id!r})"
        if known_at is None:
            message = (
                f"external_id {external_id!r} has no profile {name!r}; define one with"
                f" memory.admin.profiles.define({external_id!r}, {name!r}, question), or see {listed} for those it has"
            )
        else:
            message = (
                f"external_id {external_id!r} had no profile {name!r} at {known_at.isoformat()}; ask about a later"
                f" time, or see {listed} for those it has now"
            )
        super().__init__(message)
        self.external_id = external_id
        self.name = name


class AccessKeyNotFoundError(UsageError):
    """This database has no such key. `key_id` is the requested one."""

    def __init__(self, key_id: UUID) -> None:
        super().__init__(f"there is no key {str(key_id)!r}; memory.admin.keys.list() lists those there are")
        self.key_id = key_id


class IdempotencyConflictError(UsageError):
    """The idempotency key was already used for a different request."""

    def __init__(self, external_id: str, idempotency_key: str) -> None:
        super().__init__(
            f"idempotency_key {idempotency_key!r} of external_id {external_id!r} was used for a different request;"
            " a new request needs a new key"
        )
        self.external_id = external_id
        self.idempotency_key = idempotency_key


class RunNotFoundError(UsageError):
    """Nothing that still exists was recalled for this run of this `external_id`. `run_id` is the requested one."""

    def __init__(self, external_id: str, run_id: str) -> None:
        super().__init__(
            f"external_id {external_id!r} has no record that anything was recalled in run {run_id!r}; pass"
            " run_id=… to retrieve_memories(). A run whose searches found nothing has no record, and one whose memories"
            " were all erased has none any more"
        )
        self.external_id = external_id
        self.run_id = run_id


class OutcomeConflictError(UsageError):
    """Another outcome was reported for this run before. That one stays: `success` says which."""

    def __init__(self, external_id: str, run_id: str, *, success: bool) -> None:
        reported, other = ("success", "a failure") if success else ("failure", "a success")
        super().__init__(
            f"run {run_id!r} of external_id {external_id!r} was reported as a {reported}, so it cannot be reported as"
            f" {other}; a new run needs a new run_id"
        )
        self.external_id = external_id
        self.run_id = run_id
        self.success = success


class QuotaExceededError(UsageError):
    """A write would exceed a limit of its `external_id`; nothing was written. The message says what to do."""

    def __init__(self, external_id: str, quota: str, limit: int, value: int, way_out: str) -> None:
        super().__init__(
            f"{quota} allows {limit:,} for external_id {external_id!r}, and this would be {value:,}; {way_out}"
        )
        self.external_id = external_id
        self.quota = quota
        self.limit = limit
        self.value = value


class ReembeddingError(UsageError):
    """Another vector generation is being built, or this one cannot be built now; the message says which."""


class StoreError(ReminiscenceError):
    """A database refused or is unavailable; `__cause__` holds the driver's error. Nothing was partially written."""


class StoreUnavailableError(StoreError):
    """The server is unavailable, or the connection was lost before COMMIT. Nothing was written; safe to retry."""


class CommitUnknownError(StoreError):
    """The connection was lost during COMMIT: it is unknown whether the write took effect, wholly or not at all.

    Retry it with the same `idempotency_key`, or read before you retry.
    """


class StoreTimeoutError(StoreError):
    """No connection became free, or a statement ran longer than its timeout."""


class VersionConflictError(StoreError):
    """Another writer was first; read the memory again and redo the change on that version."""

    def __init__(self, external_id: str, memory_id: UUID, expected_version: int, version: int) -> None:
        super().__init__(
            f"memory {str(memory_id)!r} of external_id {external_id!r} is at version {version},"
            f" not {expected_version}; read it again and redo the change"
        )
        self.external_id = external_id
        self.memory_id = memory_id
        self.expected_version = expected_version
        self.version = version


class PositionConflictError(StoreError):
    """Another writer appended first; read what was appended and decide again."""

    def __init__(
        self, external_id: str, conversation_id: str, kind: str, expected_position: int, position: int
    ) -> None:
        super().__init__(
            f"the last event of kind {kind!r} in conversation {conversation_id!r} of external_id {external_id!r} is at"
            f" position {position}, not {expected_position} (0 is none); read the conversation again and decide again"
        )
        self.external_id = external_id
        self.conversation_id = conversation_id
        self.kind = kind
        self.expected_position = expected_position
        self.position = position


class WorkTimeoutError(ReminiscenceError, TimeoutError):
    """Work queued by writes did not finish within the timeout; it stays queued."""


class EmbeddingError(ReminiscenceError):
    """An embedder returned no vector, or one of the wrong length."""


class EmbedderAwayError(EmbeddingError):
    """The embedder's server is unavailable or too slow. Missing vectors are filled in later, automatically."""


class AgentError(ReminiscenceError):
    """A model failed, or its plan did not validate."""
