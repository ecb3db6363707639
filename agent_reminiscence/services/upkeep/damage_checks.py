"""The doctor's checks of what is stored: whether every event can be read, and whether pages failed their checksums."""

from __future__ import annotations

import time
from collections.abc import Sequence
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


async def check_ledger(diagnosis: Diagnosis, store: PostgresManager) -> None:
    """Whether the events of each stream can be read, byte by byte; a page that is damaged cannot."""
    streams = await facts.read_streams(store)
    unreadable, unread = await _read_all(store, streams)
    if unreadable:
        named = ", ".join(repr(name) for name in list(unreadable)[:_MOST_NAMED])
        more = "" if len(unreadable) <= _MOST_NAMED else f" and {len(unreadable) - _MOST_NAMED:,} more"
        diagnosis.add(
            "ledger",
            "problem",
            f"the events of {len(unreadable):,} external_ids cannot be read: {named}{more};"
            f" {next(iter(unreadable.values()))}",
            RESTORE,
        )
    elif unread:
        diagnosis.add(
            "ledger",
            "ok",
            f"the events of {len(streams) - unread:,} external_ids can be read; {unread:,} more were not tried, which"
            " would have taken longer; `agent-reminiscence verify` reads all",
        )
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


async def _read_all(store: PostgresManager, streams: Sequence[StreamFacts]) -> tuple[dict[str, str], int]:
    """Read all streams, for as long as that may take.

    Returns:
        What the server said of each stream that cannot be read, and how many streams were not read.
    """
    ledger = EventLedger()
    unreadable: dict[str, str] = {}
    end = time.monotonic() + _READING_SECONDS
    for number, stream in enumerate(streams):
        if time.monotonic() > end:
            return unreadable, len(streams) - number
        try:
            async with store.transaction(stream.external_id, read_only=True) as db:
                await ledger.count_bytes(db, stream.external_id)
        except StoreError as error:
            if not is_damaged(str(error)):
                raise
            unreadable[stream.external_id] = str(error)
    return unreadable, 0
