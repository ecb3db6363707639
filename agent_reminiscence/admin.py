"""`memory.admin`: what is not daily work."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Literal, overload
from uuid import UUID

from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.domain.audit import AuditReport, Progress
from agent_reminiscence.domain.erasure import ErasureCheck, ErasurePreview, ErasureReceipt
from agent_reminiscence.domain.history import MemoryHistory
from agent_reminiscence.domain.memory import ActiveMemory, ConsolidationReport
from agent_reminiscence.domain.transfer import ExportReport, ImportReport
from agent_reminiscence.exceptions import InvalidInputError, MemoryNotFoundError
from agent_reminiscence.projections import Tables
from agent_reminiscence.services import validation
from agent_reminiscence.services.consolidation import ConsolidationService
from agent_reminiscence.services.erasure import EraseRequest, ErasureService
from agent_reminiscence.services.history import HistoryService
from agent_reminiscence.services.memory_manager import MemoryManager
from agent_reminiscence.services.requests import UNSET, ArchiveRequest, Unset
from agent_reminiscence.services.retries import repeated
from agent_reminiscence.services.transfer import TransferService
from agent_reminiscence.services.verification import VerificationService


class MemoryAdmin:
    """Maintenance of one database's memories."""

    def __init__(
        self,
        store: PostgresManager,
        tables: Tables,
        manager: MemoryManager,
        consolidation: ConsolidationService,
        history: HistoryService,
        verification: VerificationService,
        erasure: ErasureService,
        transfer: TransferService,
    ) -> None:
        self._store = store
        self._tables = tables
        self._manager = manager
        self._consolidation = consolidation
        self._history = history
        self._verification = verification
        self._erasure = erasure
        self._transfer = transfer

    async def consolidate(
        self, external_id: str | int | UUID, memory_id: UUID | str | None = None
    ) -> list[ConsolidationReport]:
        """Consolidate now what would be consolidated later, fill in missing vectors, and promote what is important.

        Args:
            memory_id: One memory; None is all of the tenant's, archived ones too, oldest first.

        Returns:
            What was done, one report for each memory. A version that was consolidated before is not again.

        Raises:
            InvalidInputError: An argument is refused.
            MemoryNotFoundError: `external_id` has no such memory.
            StoreError: The store is away; what was done until then stays done.
        """
        tenant = validation.external_id(external_id)
        if memory_id is not None:
            return [await self._consolidate(tenant, validation.memory_id(memory_id))]
        async with self._store.transaction(tenant, read_only=True) as db:
            memory_ids = await self._tables.active.find_ids(db, tenant)
        reports = []
        for found in memory_ids:
            # One that was erased meanwhile is not asked for by name.
            with suppress(MemoryNotFoundError):
                reports.append(await self._consolidate(tenant, found))
        return reports

    async def _consolidate(self, external_id: str, memory_id: UUID) -> ConsolidationReport:
        # A version is consolidated once, however often it is asked for.
        return await repeated(
            lambda: self._consolidation.consolidate(external_id, memory_id),
            operation="consolidate",
            external_id=external_id,
            repeatable=True,
        )

    async def archive(
        self,
        external_id: str | int | UUID,
        memory_id: UUID | str,
        *,
        end_chunks: bool = False,
        occurred_at: datetime | None = None,
        actor: str | None = None,
    ) -> ActiveMemory:
        """Finish an active memory: it leaves the active list and takes no update.

        Args:
            end_chunks: Whether what it says ends too. Without it the chunks stay searchable; with it they are found
                only by a search `as_of` an earlier time.
            occurred_at: When that was in the world; None is now.
            actor: Who archives it.

        Raises:
            InvalidInputError: An argument is refused.
            MemoryNotFoundError: `external_id` has no such memory.
            StoreError: The store is away.
        """
        request = ArchiveRequest(
            external_id=validation.external_id(external_id),
            memory_id=validation.memory_id(memory_id),
            end_chunks=validation.flag("end_chunks", end_chunks),
            occurred_at=validation.optional_moment("occurred_at", occurred_at),
            actor=validation.optional_identifier("actor", actor),
        )
        return await self._manager.archive(request)

    async def history(self, external_id: str | int | UUID, memory_id: UUID | str) -> MemoryHistory:
        """Every version of a memory, oldest first, with both times, who caused it, and what was made of it.

        Raises:
            InvalidInputError: An argument is refused.
            MemoryNotFoundError: `external_id` has no such memory; an erased one has no history.
            StoreError: The store is away.
        """
        return await self._history.history(validation.external_id(external_id), validation.memory_id(memory_id))

    async def active_memories(
        self, external_id: str | int | UUID, *, as_of: datetime | None = None, known_at: datetime | None = None
    ) -> list[ActiveMemory]:
        """The active memories as they were, oldest first.

        Args:
            as_of: As they were true at this moment in the world; None is `known_at`.
            known_at: As far as they were recorded by this moment; None is all that is known today. Without either, the
                memories as `get_active_memories` gives them.

        Raises:
            InvalidInputError: An argument is refused.
            StoreError: The store is away.
        """
        return await self._history.active_memories(
            validation.external_id(external_id),
            as_of=validation.optional_moment("as_of", as_of),
            known_at=validation.optional_moment("known_at", known_at),
        )

    async def verify(
        self,
        external_id: str | int | UUID | None = None,
        *,
        repair: bool = False,
        progress: Callable[[Progress], None] | None = None,
    ) -> AuditReport:
        """Replay the ledger and compare the result with what is stored, row by row.

        The ledger itself is checked first: every event against its digest, every digest against the chain. Nothing is
        locked, and one moment is compared, whatever is written meanwhile. Differences are logged, without any text.

        Args:
            external_id: One stream; None is all of them, one after the other.
            repair: Whether a stream with differences is rebuilt. A fault of the ledger itself cannot be mended, and
                nothing is rebuilt from a ledger that has one.
            progress: Called after each page of events.

        Raises:
            InvalidInputError: An argument is refused.
            StoreError: The store is away.
        """
        return await self._verification.verify(
            None if external_id is None else validation.external_id(external_id),
            repair=validation.flag("repair", repair),
            progress=progress,
        )

    async def rebuild(
        self,
        external_id: str | int | UUID | None = None,
        *,
        progress: Callable[[Progress], None] | None = None,
    ) -> AuditReport:
        """Make the tiers what a replay of the ledger gives, and fill in missing vectors.

        Searches see the old rows until all is in place, and writers wait for the last events only. Rows that are right
        already stay as they are. The report names those that were not.

        Args:
            external_id: One stream; None is all of them, one after the other.
            progress: Called after each page of events.

        Raises:
            InvalidInputError: The id is refused.
            StoreError: The store is away; the stream at hand is as it was, those before it are rebuilt.
        """
        return await self._verification.rebuild(
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
        dry_run: Literal[False] = False,
        actor: str | None = None,
    ) -> ErasureReceipt: ...

    @overload
    async def erase(
        self,
        external_id: str | int | UUID,
        *,
        memory_id: UUID | str | Unset = UNSET,
        conversation_id: str | Unset = UNSET,
        text: str | Unset = UNSET,
        dry_run: Literal[True],
        actor: str | None = None,
    ) -> ErasurePreview: ...

    async def erase(
        self,
        external_id: str | int | UUID,
        *,
        memory_id: UUID | str | Unset = UNSET,
        conversation_id: str | Unset = UNSET,
        text: str | Unset = UNSET,
        dry_run: bool = False,
        actor: str | None = None,
    ) -> ErasureReceipt | ErasurePreview:
        """Erase a memory, a conversation, whatever contains a text, or all that `external_id` has.

        What is erased is gone from events, tiers, vectors and caches when the call returns, and a scan in the same
        transaction has looked for it. A memory is erased with all its versions, because later ones repeat what earlier
        ones say; what other memories say stays. The ledger keeps the emptied rows, so that its chain still holds.

        Args:
            memory_id: This memory.
            conversation_id: Every memory that this conversation made or changed, and its events of other kinds.
            text: Whatever ever contained this text, exactly as it is spelled here, in any version.
            dry_run: Only say what would be erased.
            actor: Who erases; it is kept with the receipt.

        Returns:
            The receipt, which is also an event of the ledger and holds none of the text; with `dry_run`, a preview.

        Raises:
            InvalidInputError: An argument is refused, None among them, or more than one of the three is given.
            MemoryNotFoundError: `external_id` has no such memory.
            StoreError: The store is away; nothing is erased.
        """
        given = {
            name: value
            for name, value in (("memory_id", memory_id), ("conversation_id", conversation_id), ("text", text))
            if not isinstance(value, Unset)
        }
        if len(given) > 1:
            raise InvalidInputError("erase() takes one of memory_id, conversation_id and text; call it once for each")
        for name, value in given.items():
            # Most likely a variable that was never set, and "everything" is not what was meant.
            if value is None:
                raise InvalidInputError(
                    f"{name} is None, which names nothing to erase; leave it out to erase all that external_id has"
                )
        request = EraseRequest(
            external_id=validation.external_id(external_id),
            memory_id=validation.memory_id(memory_id) if "memory_id" in given else None,
            conversation=validation.identifier("conversation_id", conversation_id)
            if "conversation_id" in given
            else None,
            text=validation.erased_text(text) if "text" in given else None,
            actor=validation.optional_identifier("actor", actor),
        )
        if validation.flag("dry_run", dry_run):
            return await self._erasure.preview(request)
        return await self._erasure.erase(request)

    async def verify_erased(self, receipt: ErasureReceipt, *, text: str | None = None) -> ErasureCheck:
        """Look once more, in every place that can hold memory text, for what a receipt says is gone.

        Args:
            receipt: As `erase` returned it.
            text: Also look for this text. The receipt does not hold it.

        Raises:
            InvalidInputError: An argument is refused.
            StoreError: The store is away.
        """
        if not isinstance(receipt, ErasureReceipt):
            raise InvalidInputError(f"receipt must be what erase() returned, not {type(receipt).__name__}")
        wanted = None if text is None else validation.erased_text(text)
        return await self._erasure.verify_erased(receipt, text=wanted)

    async def export(
        self,
        external_id: str | int | UUID,
        path: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> ExportReport:
        """Write all events of `external_id` to a file, as they are at one moment; the format is documented.

        Args:
            path: The file; it appears whole or not at all.
            overwrite: Whether an existing file is replaced.
            progress: Called with the events written so far and those there are.

        Raises:
            InvalidInputError: An argument is refused, or the file exists.
            StoreError: The store is away, or the ledger is not as it was written; nothing is left behind.
        """
        return await self._transfer.export(
            validation.external_id(external_id),
            Path(path),
            overwrite=validation.flag("overwrite", overwrite),
            note=progress or _no_note,
        )

    async def import_(
        self,
        path: str | os.PathLike[str],
        external_id: str | int | UUID | None = None,
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> ImportReport:
        """Read a file that `export` wrote, and project its events; all of it or none.

        A second import of the same file does nothing, and one of a later export adds what is new. A checksum shows that
        a file is whole, not who wrote it: import files of those you trust.

        Args:
            path: The file.
            external_id: Whose the memories are to be; None is as in the file. It must be new, or hold nothing but the
                same events.
            progress: Called with the events read so far and those there are.

        Raises:
            InvalidInputError: The file is damaged, incomplete or of a newer version, or does not fit what
                `external_id` holds; nothing is written.
            StoreError: The store is away or refused an event; nothing is written.
        """
        return await self._transfer.import_(
            Path(path),
            None if external_id is None else validation.external_id(external_id),
            note=progress or _no_note,
        )


def _no_note(done: int, total: int) -> None:
    """Nobody wants to know."""
