# Written by scripts/write_sync.py from the asynchronous classes: `make sync` writes it anew.
"""The blocking twin of `agent_reminiscence.admin.memory_admin.MemoryAdmin`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from agent_reminiscence.domain.memory import ActiveMemory
from agent_reminiscence.domain.outcome import RunOutcome
from agent_reminiscence.sync.access_keys import AccessKeys
from agent_reminiscence.sync.audit_admin import AuditAdmin
from agent_reminiscence.sync.ledger_beliefs import LedgerBeliefs
from agent_reminiscence.sync.memory_graph import MemoryGraph
from agent_reminiscence.sync.model_admin import ModelAdmin
from agent_reminiscence.sync.profiles import Profiles
from agent_reminiscence.sync.reflections import Reflections
from agent_reminiscence.sync.transfer_admin import TransferAdmin
from agent_reminiscence.sync.vector_admin import VectorAdmin
from agent_reminiscence.sync.work_admin import WorkAdmin

if TYPE_CHECKING:
    from agent_reminiscence.admin.memory_admin import MemoryAdmin as AsyncMemoryAdmin


class MemoryAdmin(WorkAdmin, AuditAdmin, VectorAdmin, TransferAdmin, ModelAdmin):
    """Maintenance of one database's memories."""

    _wrapped: AsyncMemoryAdmin

    @property
    def graph(self) -> MemoryGraph:
        """The entities that memories name, and the relationships between them."""
        return MemoryGraph(self._thread, self._wrapped.graph)

    @property
    def beliefs(self) -> LedgerBeliefs:
        """What the agents of a ledger believe, on what evidence, and who disagrees."""
        return LedgerBeliefs(self._thread, self._wrapped.beliefs)

    @property
    def profiles(self) -> Profiles:
        """Standing summaries: texts about a tenant, or a topic, that keep themselves up to date."""
        return Profiles(self._thread, self._wrapped.profiles)

    @property
    def reflections(self) -> Reflections:
        """What agents that share a ledger conclude from what they have seen, written by a model."""
        return Reflections(self._thread, self._wrapped.reflections)

    @property
    def keys(self) -> AccessKeys:
        """Keys for the server: who may do what, and for whom."""
        return AccessKeys(self._thread, self._wrapped.keys)

    def archive(
        self,
        external_id: str | int | UUID,
        memory_id: UUID | str | None = None,
        *,
        key: str | None = None,
        end_chunks: bool = False,
        occurred_at: datetime | None = None,
        actor: str | None = None,
    ) -> ActiveMemory:
        """Archive an active memory: it leaves the active list and takes no more updates.

        Its key is free again: a new memory may take it.

        Args:
            memory_id: The memory; or pass `key`.
            key: The key of an active memory, in place of `memory_id`.
            end_chunks: Also end its chunks, so that only searches `as_of` an earlier time find them. Otherwise they
                stay searchable.
            occurred_at: When this happened in the world; None is now.
            actor: Who archives it.

        Raises:
            InvalidInputError: An argument is invalid.
            MemoryNotFoundError: `external_id` has no such memory.
            StoreError: The store is unavailable.
        """
        return self._thread.call(
            lambda: self._wrapped.archive(
                external_id, memory_id, key=key, end_chunks=end_chunks, occurred_at=occurred_at, actor=actor
            )
        )

    def unarchive(
        self,
        external_id: str | int | UUID,
        memory_id: UUID | str,
        *,
        occurred_at: datetime | None = None,
        actor: str | None = None,
    ) -> ActiveMemory:
        """Take an archived memory back: it is on the active list again, has its key, and takes updates.

        Chunks that archiving ended (`end_chunks`) come back in a new version, from now on and dated as when they were
        first said; searches `as_of` a time in between still do not find them. If the memory was consolidated, a
        consolidation is queued, which draws facts and entities from them again. Chunks that ended for another reason
        stay ended.

        Args:
            memory_id: The memory; an archived one has no key.
            occurred_at: When this happened in the world; None is now.
            actor: Who takes it back.

        Returns:
            The memory; its `write` tells about the new version if there is one. A memory that is not archived is
            returned as it is, and nothing is written.

        Raises:
            InvalidInputError: An argument is invalid, or the memory has expired.
            MemoryNotFoundError: `external_id` has no such memory; an erased one does not come back.
            MemoryExistsError: Another memory has its key by now.
            QuotaExceededError: It would exceed `max_active_memories`.
            StoreError: The store is unavailable.
        """
        return self._thread.call(
            lambda: self._wrapped.unarchive(external_id, memory_id, occurred_at=occurred_at, actor=actor)
        )

    def restore_version(
        self,
        external_id: str | int | UUID,
        memory_id: UUID | str,
        version: int,
        *,
        expected_version: int | None = None,
        occurred_at: datetime | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> ActiveMemory:
        """Make a memory say again what it said at an earlier version, as a new version; nothing is rewritten.

        It is an update with the title, text, description, metadata and time zone of that version. Passages that stand
        in both texts keep their chunks, the others end, and those that come back hold from now on. They keep the trust
        label of that version, no matter who restores it. The memory stays pinned or not, and in its conversation.

        Args:
            version: Which one, from 1; `history` shows them.
            expected_version: The version you read; the call is refused if another writer was first.
            occurred_at: When this became true in the world; None is now.
            actor: Who restores it.
            idempotency_key: As in `update_active_memory`.

        Returns:
            The memory at its new version.

        Raises:
            InvalidInputError: An argument is invalid, the version does not exist, or the memory is archived or expired.
            MemoryNotFoundError: `external_id` has no such memory; an erased one has no versions.
            RedactionError: Your redactor failed; nothing is written.
            VersionConflictError: Another writer was first.
            IdempotencyConflictError: The key was used for a different request.
            StoreError: The store is unavailable or refused the write.
        """
        return self._thread.call(
            lambda: self._wrapped.restore_version(
                external_id,
                memory_id,
                version,
                expected_version=expected_version,
                occurred_at=occurred_at,
                actor=actor,
                idempotency_key=idempotency_key,
            )
        )

    def report_outcome(
        self,
        external_id: str | int | UUID,
        run_id: str,
        *,
        success: bool,
        memory_ids: Iterable[UUID | str] | None = None,
        note: str | None = None,
        actor: str | None = None,
    ) -> RunOutcome:
        """Report how a run ended: what was recalled in it ranks a little higher from now on, or a little lower.

        It counts for the hits of the searches that were given this `run_id` before. Report once the run is over:
        passages that are recalled in it later do not count.

        Args:
            run_id: As passed to `retrieve_memories`; at most 256 characters.
            success: Whether the run did what it was to do.
            memory_ids: The memories that the run went by; only their passages count. None: all that it recalled.
            note: A remark for readers of the ledger; at most 2,000 characters, redacted before it is stored. It
                affects no ranking.
            actor: Who reports.

        Returns:
            What is recorded. If the same outcome was reported before, nothing is written, and this is the first
            report, with its note.

        Raises:
            InvalidInputError: An argument is invalid.
            RunNotFoundError: Nothing was recalled in this run, nothing of `memory_ids`, or all of it was erased.
            OutcomeConflictError: The run was reported with the other outcome.
            RedactionError: Your redactor failed; nothing is written.
            StoreError: The store is unavailable.
        """
        return self._thread.call(
            lambda: self._wrapped.report_outcome(
                external_id, run_id, success=success, memory_ids=memory_ids, note=note, actor=actor
            )
        )
