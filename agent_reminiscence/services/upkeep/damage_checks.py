"""The doctor's checks of what is stored: whether every event can be read, and whether pages failed their checksums."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from agent_reminiscence.database import inspection as facts
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.driver_errors import is_damaged
from agent_reminiscence.database.inspection import StreamFacts
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.repositories.event_ledger import EventLedger
from agent_reminiscence.exceptions import StoreError
from agent_reminiscence.services.upkeep.doctor_checks import RESTORE, Diagnosis

# The largest streams are read first; `verify` reads all, however long that takes.
_READING_SECONDS: Final = 60.0
# How many external_ids a finding names.
_MOST_NAMED: Final = 5


@dataclass(slots=True)
class _Reading:
    """What came of reading all streams.

    Attributes:
        damaged: What the server said of each stream that is damaged, by `external_id`.
        failed: Why each other stream could not be read; that need not be the fault of what is stored.
        untried: How many were not reached in the time for it.
    """

    damaged: dict[str, StoreError] = field(default_factory=dict)
    failed: dict[str, StoreError] = field(default_factory=dict)
    untried: int = 0

    def not_read(self) -> str:
        """How many streams nothing is known of, and why; "" if there are none."""
        parts = []
        if self.failed:
            name, error = next(iter(self.failed.items()))
            parts.append(f"{len(self.failed):,} could not be read, {name!r} the first of them: {error}")
        if self.untried:
            parts.append(
                f"{self.untried:,} more were not tried, which would have taken longer; `agent-reminiscence verify`"
                " reads all"
            )
        return "; ".join(parts)


async def check_ledger(diagnosis: Diagnosis, store: PostgresManager) -> None:
    """Whether the events of each stream can be read, byte by byte; a page that is damaged cannot."""
    streams = await facts.read_streams(store)
    reading = await _read_all(store, streams)
    readable = len(streams) - len(reading.damaged) - len(reading.failed) - reading.untried
    rest = f"; {reading.not_read()}" if reading.not_read() else ""
    if reading.damaged:
        named = ", ".join(repr(name) for name in list(reading.damaged)[:_MOST_NAMED])
        more = "" if len(reading.damaged) <= _MOST_NAMED else f" and {len(reading.damaged) - _MOST_NAMED:,} more"
        diagnosis.add(
            "ledger",
            "problem",
            f"the events of {len(reading.damaged):,} external_ids cannot be read: {named}{more};"
            f" {next(iter(reading.damaged.values()))}{rest}",
            RESTORE,
        )
    elif reading.failed:
        diagnosis.add("ledger", "skipped", f"the events of {readable:,} external_ids can be read{rest}")
    elif reading.untried:
        diagnosis.add("ledger", "ok", f"the events of {readable:,} external_ids can be read{rest}")
    else:
        diagnosis.add("ledger", "ok", f"all events of {len(streams):,} external_ids can be read")


async def check_checksums(diagnosis: Diagnosis, db: SqlExecutor) -> None:
    """Whether the server has met pages that failed their checksums; after what reads the most."""
    found = await facts.read_checksums(db)
    if not found.are_on:
        diagnosis.add("checksums", "ok", "off on this server: it does not notice a damaged page")
    elif found.failures:
        last = "" if found.last_failure is None else f", the last at {found.last_failure:%Y-%m-%d %H:%M:%S} UTC"
        diagnosis.add(
            "checksums",
            "problem",
            f"{found.failures:,} times a page of this database failed its checksum{last}",
            RESTORE,
        )
    else:
        diagnosis.add("checksums", "ok", "no page that was read has failed its checksum")


async def _read_all(store: PostgresManager, streams: Sequence[StreamFacts]) -> _Reading:
    """Read all streams, for as long as that may take; one that fails keeps none of the others from being read."""
    ledger = EventLedger()
    reading = _Reading()
    end = time.monotonic() + _READING_SECONDS
    for number, stream in enumerate(streams):
        if time.monotonic() > end:
            reading.untried = len(streams) - number
            break
        try:
            async with store.transaction(stream.external_id, read_only=True) as db:
                await ledger.count_bytes(db, stream.external_id)
        except StoreError as error:
            kept = reading.damaged if is_damaged(str(error)) else reading.failed
            kept[stream.external_id] = error
    return reading
