"""Export and import of whole streams: only events are transferred; everything else is projected again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

from agent_reminiscence.database.connection import IDLE_READ_SECONDS, IDLE_TIMEOUT, SqlExecutor
from agent_reminiscence.database.repositories.event_ledger import (
    StreamState,
    event_digest,
    next_chain,
)
from agent_reminiscence.domain.erasure import ErasureReceipt
from agent_reminiscence.domain.event import Event, EventKind
from agent_reminiscence.domain.memory import ActiveMemory
from agent_reminiscence.domain.progress import Step, StepCallback
from agent_reminiscence.domain.transfer import ExportReport, ImportReport, ReadableExportReport
from agent_reminiscence.exceptions import ExternalIdNotFoundError, InvalidInputError, StoreError
from agent_reminiscence.resilience.retries import repeated
from agent_reminiscence.services import validation
from agent_reminiscence.services.ledger.replay import (
    Replay,
    Replayer,
    check_end,
    check_page,
    check_receipts,
)
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.services.transfer.event_reader import EventFileReader
from agent_reminiscence.services.transfer.event_writer import EventFileWriter
from agent_reminiscence.services.transfer.readable import ReadableFileWriter
from agent_reminiscence.services.vectors.filling import EmbeddingService
from agent_reminiscence.services.vectors.renewal import NormRenewal

_logger = logging.getLogger("agent_reminiscence.transfer")

# An import reads its file within the write, a batch at a time: of all that is ours, only that may wait for a disk or a
# network share. What is read is not kept, as a file may be larger than memory.
_WAITS_FOR_A_FILE = {IDLE_TIMEOUT: f"{IDLE_READ_SECONDS}s"}

# By how much the clocks of two machines may differ.
_CLOCKS_DIFFER_BY = timedelta(minutes=5)


@dataclass(slots=True)
class _Arrival:
    """A stream being imported: as it was in the file, and as it will be here."""

    source: Replay
    external_id: str
    chain: bytes = b""

    def take(self, events: Sequence[Event], path: Path) -> list[Event]:
        """Convert the next events of the stream to `external_id`.

        The digest covers the external_id, so digest and chain are recomputed. An emptied event has no content left to
        digest and keeps its own.

        Raises:
            InvalidInputError: One does not match its own digest and chain.
        """
        check_page(self.source, events)
        self._refuse_faults(path)
        moved = []
        for event in events:
            own = event.model_copy(update={"external_id": self.external_id})
            digest = own.digest if own.salt is None else event_digest(own, own.salt)
            self.chain = next_chain(self.chain, digest, own.position, own.recorded_at)
            moved.append(own.model_copy(update={"digest": digest, "chain": self.chain}))
        return moved

    def end(self, path: Path) -> None:
        """Check the stream after its last event.

        Raises:
            InvalidInputError: An event is empty without an erasure receipt that names it.
        """
        check_receipts(self.source)
        self._refuse_faults(path)

    def _refuse_faults(self, path: Path) -> None:
        if self.source.faults:
            fault = self.source.faults[0]
            raise InvalidInputError(
                f"event {fault.position} of {path} has been altered ({fault.problem}); export it again"
            )


ReadPage = Callable[[UUID | None], Awaitable[Sequence[ActiveMemory]]]
"""Reads the active memories that follow one, or the first; [] behind the last."""


class TransferService:
    """Writes streams to files and reads them back."""

    def __init__(
        self,
        runtime: Runtime,
        replayer: Replayer,
        embedding: EmbeddingService,
        norms: NormRenewal,
    ) -> None:
        self._store = runtime.store
        self._ledger = runtime.repositories.events
        self._profiles = runtime.repositories.tables.profiles
        self._memories = runtime.repositories.tables.active
        self._queue = runtime.repositories.queue
        self._replayer = replayer
        self._embedding = embedding
        self._norms = norms
        self._clock = runtime.clock

    async def export(self, external_id: str, path: Path, *, overwrite: bool, note: StepCallback) -> ExportReport:
        """Write the stream as of one moment.

        Raises:
            InvalidInputError: The target is refused; nothing is left behind.
            ExternalIdNotFoundError: The stream has no events; nothing is written.
            StoreError: The store is unavailable, or the ledger has been altered; nothing is left behind.
        """
        replay = Replay(external_id)
        async with self._store.transaction(external_id, read_only=True) as db:
            head = await self._ledger.head(db, external_id)
            # Events without a stream are a damaged ledger, which is found below.
            if head == 0 and not await self._ledger.read_page(db, external_id, after=0, limit=1):
                raise ExternalIdNotFoundError(external_id)
            writer = EventFileWriter(
                path,
                external_id,
                head,
                overwrite=overwrite,
                is_plain=path.suffix.casefold() != ".zst",
                exported_at=self._clock(),
            )
            try:
                await asyncio.to_thread(writer.open)
                while page := await self._ledger.read_page(db, external_id, after=replay.position):
                    await asyncio.to_thread(check_page, replay, page)
                    _refuse_faults(replay)
                    await asyncio.to_thread(writer.write, page)
                    note(Step(done=replay.position, total=head, unit="events"))
                check_end(replay, await self._ledger.describe(db, external_id))
                _refuse_faults(replay)
                await asyncio.to_thread(writer.finish)
            except BaseException:
                writer.discard()
                raise
        size = (await asyncio.to_thread(path.stat)).st_size
        return ExportReport(external_id=external_id, path=path, events=head, chain=replay.chain.hex(), size_bytes=size)

    async def export_readable(
        self, external_id: str, path: Path, *, overwrite: bool, read_page: ReadPage, note: StepCallback
    ) -> ReadableExportReport:
        """Write the texts of all active memories for people, page by page.

        Raises:
            InvalidInputError: The target is refused; nothing is left behind.
            ExternalIdNotFoundError: The stream has no events; nothing is written.
            StoreError: The store is unavailable; nothing is left behind.
        """
        async with self._store.transaction(external_id, read_only=True) as db:
            if await self._ledger.head(db, external_id) == 0:
                raise ExternalIdNotFoundError(external_id)
        writer = ReadableFileWriter(path, overwrite=overwrite)
        written = 0
        try:
            await asyncio.to_thread(writer.open, external_id)
            after: UUID | None = None
            while page := await read_page(after):
                await asyncio.to_thread(writer.write, page)
                after, written = page[-1].id, written + len(page)
                note(Step(done=written, total=None, unit="memories"))
            await asyncio.to_thread(writer.finish)
        except BaseException:
            writer.discard()
            raise
        size = (await asyncio.to_thread(path.stat)).st_size
        return ReadableExportReport(external_id=external_id, path=path, memories=written, size_bytes=size)

    async def import_(self, path: Path, external_id: str | None, *, note: StepCallback) -> ImportReport:
        """Append the events of the file that are beyond the stream's end, in one transaction, and project them.

        A stream with other events than the file at the same positions is refused. Otherwise the import resumes where
        the stream ends, so a repeated import does nothing.

        Raises:
            InvalidInputError: The file is refused, or does not fit the stream; nothing is written.
            StoreError: The store is unavailable or refused an event; nothing is written.
        """
        with EventFileReader(path) as reader:
            header = await asyncio.to_thread(reader.check)
            tenant = validation.external_id(header.external_id) if external_id is None else external_id
            arrival = _Arrival(Replay(header.external_id), tenant)
            async with self._store.transaction(tenant, settings=_WAITS_FOR_A_FILE) as db:
                await self._ledger.lock(db, tenant)
                state = await self._ledger.describe(db, tenant)
                assert state is not None
                overlap = min(state.head, header.head)
                stored = await self._ledger.read_page(db, tenant, after=max(overlap - 1, 0), limit=1)
                batches = reader.batches()
                while batch := await asyncio.to_thread(next, batches, None):
                    moved = await asyncio.to_thread(arrival.take, batch, path)
                    if any(event.position == overlap and event.chain != stored[0].chain for event in moved):
                        raise InvalidInputError(
                            f"external_id {tenant!r} holds other events than {path}; import the file under another"
                            " external_id, for example a new one"
                        )
                    _refuse_the_future(moved, self._clock(), path)
                    new = [event for event in moved if event.position > state.head]
                    _refuse_late_erasures(new, state.head, tenant, path)
                    await self._ledger.import_events(db, tenant, new)
                    note(Step(done=arrival.source.position, total=header.head, unit="events"))
                arrival.end(path)
                if header.head > state.head:
                    await self._project(db, arrival, state, path)
        missing: int | None = None
        try:
            _, missing = await repeated(
                lambda: self._embedding.fill_missing(tenant),
                operation="fill_missing",
                external_id=tenant,
                repeatable=True,
            )
        except StoreError as error:
            # No traceback: the driver's error in it may quote a row.
            _logger.warning(
                "the import is stored, but its vectors are still missing: %s", error, extra={"external_id": tenant}
            )
        return ImportReport(
            external_id=tenant,
            exported_from=header.external_id,
            events=header.head,
            imported=max(0, header.head - state.head),
            head=max(state.head, header.head),
            vectors_missing=missing,
        )

    async def _project(self, db: SqlExecutor, arrival: _Arrival, state: StreamState, path: Path) -> None:
        """Set the stream's end to its last imported event, and apply the new events."""
        tenant, source = arrival.external_id, arrival.source
        assert source.recorded_at is not None
        await self._ledger.set_head(
            db, tenant, head=source.position, chain=arrival.chain, last_recorded_at=source.recorded_at
        )
        replay = Replay(
            tenant,
            position=state.head,
            chain=state.chain,
            languages=set(state.languages),
        )
        await self._replayer.run(db, replay)
        if replay.faults:
            fault = replay.faults[0]
            raise InvalidInputError(f"event {fault.position} of {path} {fault.problem}; nothing was imported")
        await self._replayer.settle(db, replay)
        if await self._profiles.list_all(db, tenant):
            # A job writes those that are due, and notes when the daily ones will be.
            await self._queue.enqueue(db)
        if (expires_at := await self._memories.find_next_expiry(db, tenant)) is not None:
            await self._queue.review_by(db, tenant, expires_at)
        # Most vectors of texts that have changed stay valid; missing ones are made afterwards.
        await self._norms.renew(db, tenant, None)


def _refuse_the_future(events: Sequence[Event], now: datetime, path: Path) -> None:
    """Refuse events from the future: everything written here afterwards would get a later time still."""
    for event in events:
        if event.recorded_at > now + _CLOCKS_DIFFER_BY:
            raise InvalidInputError(
                f"event {event.position} of {path} was recorded on {event.recorded_at.isoformat()}, which is in the"
                " future; correct the clock of this machine or of the one that wrote it"
            )


def _refuse_late_erasures(events: Sequence[Event], head: int, external_id: str, path: Path) -> None:
    """Refuse an erasure receipt beyond `head` for an event up to it that was not erased here."""
    for event in events:
        if event.kind == EventKind.ERASED and event.salt is not None:
            reached = [erased.position for erased in ErasureReceipt.model_validate(event.payload).events]
            if reached and min(reached) <= head:
                raise InvalidInputError(
                    f"event {event.position} of {path} says that event {min(reached)} was erased, but external_id"
                    f" {external_id!r} still holds it from an earlier import; import the file under a new external_id"
                    " and erase this one"
                )


def _refuse_faults(replay: Replay) -> None:
    if replay.faults:
        fault = replay.faults[0]
        raise StoreError(
            f"event {fault.position} of external_id {replay.external_id!r} has been altered"
            f" ({fault.problem}), so nothing was exported; verify() lists all such events"
        )
