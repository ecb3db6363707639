"""What is and was stored: usage, history, verification, rebuild, erasure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Literal, overload
from uuid import UUID

from agent_reminiscence.admin.topic import Topic
from agent_reminiscence.domain.audit import AuditProgress, AuditReport
from agent_reminiscence.domain.erasure import ErasureCheck, ErasurePreview, ErasureReceipt
from agent_reminiscence.domain.history import MemoryHistory
from agent_reminiscence.domain.memory import ActiveMemory
from agent_reminiscence.domain.usage import KEPT_DAYS, MemoryUsage, RecallDay, TenantOverview
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.services import validation
from agent_reminiscence.services.audit.erasure import EraseRequest
from agent_reminiscence.services.audit.targets import erasure_target
from agent_reminiscence.services.ledger.requests import UNSET, Unset


class AuditAdmin(Topic):
    """What is and was stored: usage, history, verification, rebuild, erasure."""

    async def usage(self, external_id: str | int | UUID) -> MemoryUsage:
        """What `external_id` holds, its pending work, and its model usage.

        Reads every chunk and counts tokens in a thread: about 75 ms for 1,000 chunks of 50 tokens.

        Raises:
            InvalidInputError: The id is invalid.
            StoreError: The store is unavailable.
        """
        return await self._services.usage.usage(validation.external_id(external_id))

    async def recalls(self, external_id: str | int | UUID, days: int = 30) -> list[RecallDay]:
        """The questions of the last days: how many were answered, how many found something, and how long they took.

        Counted while questions are answered and written every few seconds, so the latest may be missing, and after a
        crash are. A model's own searches do not count. Days older than 800 are deleted with the next question, and all
        of them with the tenant.

        Args:
            days: How many days, today included, from 1 to 800.

        Returns:
            The days with questions, the oldest first.

        Raises:
            InvalidInputError: An argument is invalid.
            StoreError: The store is unavailable.
        """
        return await self._services.usage.recalls(
            validation.external_id(external_id), validation.whole_number("days", days, minimum=1, maximum=KEPT_DAYS)
        )

    async def tenants(self, after: str | int | UUID | None = None, limit: int = 100) -> list[TenantOverview]:
        """The `external_id`s of this database that have events, in the database's order of texts; also erased ones.

        Args:
            after: Only those behind this one, for the next page; None begins with the first.
            limit: At most this many, up to 1,000.

        Raises:
            InvalidInputError: An argument is invalid.
            StoreError: The store is unavailable.
        """
        return await self._services.usage.tenants(
            None if after is None else validation.external_id(after),
            validation.whole_number("limit", limit, minimum=1, maximum=1_000),
        )

    async def history(self, external_id: str | int | UUID, memory_id: UUID | str) -> MemoryHistory:
        """Every version of a memory, oldest first, with both times, its actor, and what was derived from it.

        Raises:
            InvalidInputError: An argument is invalid.
            MemoryNotFoundError: `external_id` has no such memory; an erased one has no history.
            StoreError: The store is unavailable.
        """
        return await self._services.history.history(
            validation.external_id(external_id), validation.memory_id(memory_id)
        )

    async def active_memories(
        self,
        external_id: str | int | UUID,
        *,
        as_of: datetime | None = None,
        known_at: datetime | None = None,
        key: str | None = None,
    ) -> list[ActiveMemory]:
        """The active memories at an earlier time, oldest first.

        No two have the same key. Where two held it at that time in the world, because the later one was given an
        earlier `occurred_at`, the one that was created last counts.

        Args:
            as_of: As true in the world at this time; None is `known_at`.
            known_at: As recorded by this time; None is all that is known today. Without either argument, the same as
                `get_active_memories`.
            key: Only the memory that had this key then.

        Raises:
            InvalidInputError: An argument is invalid.
            StoreError: The store is unavailable.
        """
        return await self._services.history.active_memories(
            validation.external_id(external_id),
            as_of=validation.optional_moment("as_of", as_of),
            known_at=validation.optional_moment("known_at", known_at),
            key=validation.memory_key(key),
        )

    async def verify(
        self,
        external_id: str | int | UUID | None = None,
        *,
        repair: bool = False,
        progress: Callable[[AuditProgress], None] | None = None,
    ) -> AuditReport:
        """Replay the ledger and compare the result with what is stored, row by row.

        The ledger itself is checked first: every event against its digest, every digest against the chain. Nothing is
        locked; the comparison uses one snapshot, whatever is written meanwhile. Differences are logged, without text.

        Args:
            external_id: One stream; None is all, one after another. A stream still has events after all its memories
                were erased, and can be checked.
            repair: Rebuild streams that differ. A fault in the ledger itself cannot be repaired, and nothing is
                rebuilt from a faulty ledger.
            progress: Called after each page of events.

        Raises:
            InvalidInputError: An argument is invalid.
            ExternalIdNotFoundError: Nothing was ever stored for `external_id`, so there is nothing to check.
            StoreError: The store is unavailable.
        """
        return await self._services.verification.verify(
            None if external_id is None else validation.external_id(external_id),
            repair=validation.flag("repair", repair),
            progress=progress,
        )

    async def rebuild(
        self,
        external_id: str | int | UUID | None = None,
        *,
        progress: Callable[[AuditProgress], None] | None = None,
    ) -> AuditReport:
        """Rebuild the tiers by replaying the ledger, and fill in missing vectors.

        Searches see the old rows until the new ones are in place, and writers wait only for the last events. Correct
        rows are left as they are; the report names the others.

        Args:
            external_id: One stream; None is all, one after another.
            progress: Called after each page of events.

        Raises:
            InvalidInputError: The id is invalid.
            ExternalIdNotFoundError: Nothing was ever stored for `external_id`, so there is nothing to rebuild.
            StoreError: The store is unavailable; the current stream is unchanged, those before it are rebuilt.
        """
        return await self._services.verification.rebuild(
            None if external_id is None else validation.external_id(external_id), progress=progress
        )

    @overload
    async def erase(
        self,
        external_id: str | int | UUID,
        *,
        memory_id: UUID | str | Unset = UNSET,
        conversation_id: str | Unset = UNSET,
        text: str | Unset = UNSET,
        before: datetime | Unset = UNSET,
        memory_versions: Mapping[UUID, int] | Unset = UNSET,
        event_ids: Collection[UUID] | Unset = UNSET,
        dry_run: Literal[False] = False,
        actor: str | None = None,
        reason: str | None = None,
    ) -> ErasureReceipt: ...

    @overload
    async def erase(
        self,
        external_id: str | int | UUID,
        *,
        memory_id: UUID | str | Unset = UNSET,
        conversation_id: str | Unset = UNSET,
        text: str | Unset = UNSET,
        before: datetime | Unset = UNSET,
        memory_versions: Mapping[UUID, int] | Unset = UNSET,
        event_ids: Collection[UUID] | Unset = UNSET,
        dry_run: Literal[True],
        actor: str | None = None,
        reason: str | None = None,
    ) -> ErasurePreview: ...

    @overload
    async def erase(
        self,
        external_id: str | int | UUID,
        *,
        memory_id: UUID | str | Unset = UNSET,
        conversation_id: str | Unset = UNSET,
        text: str | Unset = UNSET,
        before: datetime | Unset = UNSET,
        memory_versions: Mapping[UUID, int] | Unset = UNSET,
        event_ids: Collection[UUID] | Unset = UNSET,
        dry_run: bool = False,
        actor: str | None = None,
        reason: str | None = None,
    ) -> ErasureReceipt | ErasurePreview: ...

    async def erase(
        self,
        external_id: str | int | UUID,
        *,
        memory_id: UUID | str | Unset = UNSET,
        conversation_id: str | Unset = UNSET,
        text: str | Unset = UNSET,
        before: datetime | Unset = UNSET,
        memory_versions: Mapping[UUID, int] | Unset = UNSET,
        event_ids: Collection[UUID] | Unset = UNSET,
        dry_run: bool = False,
        actor: str | None = None,
        reason: str | None = None,
    ) -> ErasureReceipt | ErasurePreview:
        """Erase a memory, a conversation, a text, what is older than a moment, or all data of `external_id`.

        When the call returns, the data is gone from events, tiers, vectors and caches, and a scan in the same
        transaction has confirmed it. A memory is erased with all its versions, because later ones repeat what earlier
        ones say; other memories keep what they say. The ledger keeps the emptied rows, so that its chain still holds.

        Keys of `external_id` are no memory, and stay: with one of them the receipt can still be checked.
        `memory.admin.keys.forget` deletes them.

        Args:
            memory_id: Erase this memory.
            conversation_id: Erase every memory this conversation created or changed, and its events of other kinds.
            text: Erase everything that ever contained this exact text, in any version.
            before: Erase what was recorded before this moment, which has a zone and is not in the future: memories
                that nothing was written to since, with all their versions, and single events. A memory that was
                created, updated or appended to since stays as a whole.
            memory_versions: Erase these memories, by id, each only if it is still at the version that you have read.
                One that is gone or was written to since is left out, so the receipt may name fewer.
            event_ids: Erase these events of your own kinds; alone or with `memory_versions`. Others are left out.
            dry_run: Only report what would be erased.
            actor: Who erases; kept in the receipt.
            reason: Why, in at most 256 characters without anything personal; kept in the receipt.

        Returns:
            The receipt, which is also a ledger event and holds none of the text; with `dry_run`, a preview.

        Raises:
            InvalidInputError: An argument is invalid or None, or several that exclude each other are given.
            MemoryNotFoundError: `external_id` has no such memory.
            ExternalIdNotFoundError: Nothing was ever stored for `external_id`: most likely it is mistyped. Nothing is
                written. If everything was erased before, the call succeeds and its receipt names nothing.
            StoreError: The store is unavailable; nothing is erased.
        """
        request = EraseRequest(
            external_id=validation.external_id(external_id),
            target=erasure_target(
                {
                    "memory_id": memory_id,
                    "conversation_id": conversation_id,
                    "text": text,
                    "before": before,
                    "memory_versions": memory_versions,
                    "event_ids": event_ids,
                },
                now=self._services.runtime.clock(),
            ),
            actor=validation.optional_identifier("actor", actor),
            reason=validation.optional_identifier("reason", reason),
        )
        if validation.flag("dry_run", dry_run):
            return await self._services.erasure.preview(request)
        return await self._services.erasure.erase(request)

    async def verify_erased(self, receipt: ErasureReceipt, *, text: str | None = None) -> ErasureCheck:
        """Scan again, everywhere memory text can be stored, for what a receipt says is gone.

        Args:
            receipt: As returned by `erase`.
            text: Also look for this text, which the receipt does not hold.

        Raises:
            InvalidInputError: An argument is invalid.
            StoreError: The store is unavailable.
        """
        if not isinstance(receipt, ErasureReceipt):
            raise InvalidInputError(f"receipt must be what erase() returned, not {type(receipt).__name__}")
        wanted = None if text is None else validation.erased_text(text)
        return await self._services.erasure.verify_erased(receipt, text=wanted)
