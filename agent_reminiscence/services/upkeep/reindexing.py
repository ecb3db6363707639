"""Reindexes the words of a whole database after the analyser has changed."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

from agent_reminiscence.config.constants import SCHEDULER_ROLE
from agent_reminiscence.database import schema
from agent_reminiscence.database.connection import ConnectionSettings
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.repositories.event_ledger import EventLedger
from agent_reminiscence.database.repositories.repositories import Repositories
from agent_reminiscence.exceptions import StoreError
from agent_reminiscence.services.ledger.replay import Replay, Replayer
from agent_reminiscence.services.vectors.renewal import NormRenewal

_logger = logging.getLogger("agent_reminiscence.database")


class Reindexed(NamedTuple):
    """The progress of a reindexing."""

    streams_done: int
    streams_total: int


class ReindexReport(NamedTuple):
    """The result of a reindexing.

    Attributes:
        streams: How many streams; 0 if the words were already indexed by this analyser.
        faulty: Streams that were left unchanged because their ledger has been altered.
    """

    streams: int = 0
    faulty: tuple[str, ...] = ()


async def reindex(
    administrator: ConnectionSettings, progress: Callable[[Reindexed], None] = lambda done: None
) -> ReindexReport:
    """Reindex the words of every stream if another analyser than this release's has indexed them.

    Each stream is replayed in its own transaction, and its writers wait meanwhile. If interrupted, it resumes on the
    next call: the version is recorded at the end, and until then no process of this release opens the database. A
    stream whose ledger has been altered is left unchanged and does not block the others.

    Args:
        administrator: The owner of the schema.
    """
    if not await schema.is_analyser_outdated(administrator):
        return ReindexReport()
    indexed, faulty = 0, []
    async with schema.reindexing_allowed(administrator), _opened(administrator) as store:
        ledger = EventLedger()
        async with store.transaction("", role=SCHEDULER_ROLE, read_only=True) as db:
            tenants = await ledger.list_streams(db)
        begun = await schema.count_reindexed(administrator)
        for done, tenant in enumerate(tenants[begun:], begun):
            progress(Reindexed(done, len(tenants)))
            try:
                await _reindex_stream(store, ledger, tenant)
                indexed += 1
            except _FaultyStreamError as error:
                _logger.warning("%s", error, extra={"external_id": tenant})
                faulty.append(tenant)
            await schema.record_reindexed(administrator, done + 1)
        progress(Reindexed(len(tenants), len(tenants)))
    await schema.record_analyser(administrator)
    _logger.info("reindexed %d streams", indexed)
    return ReindexReport(indexed, tuple(faulty))


@asynccontextmanager
async def _opened(administrator: ConnectionSettings) -> AsyncIterator[PostgresManager]:
    store = PostgresManager(administrator, pool_size=2, pool_timeout_seconds=30, statement_timeout_seconds=600)
    await store.initialize()
    try:
        yield store
    finally:
        await store.close()


class _FaultyStreamError(StoreError):
    """A stream's ledger has been altered, so it cannot be reindexed."""


async def _reindex_stream(store: PostgresManager, ledger: EventLedger, external_id: str) -> None:
    repositories = Repositories()
    scratch, replayer = repositories.replay_tables, Replayer(repositories)
    async with store.scratch_transaction(external_id) as db:
        await scratch.create(db)
        await ledger.lock(db, external_id)
        replay = Replay(external_id)
        await replayer.run(db, replay)
        if not replay.is_complete or replay.faults:
            raise _FaultyStreamError(
                f"the words of external_id {external_id!r} remain indexed by the former analyser, because event"
                f" {replay.faults[0].position} has been altered ({replay.faults[0].problem}); restore that event"
                " from a backup, then call rebuild()"
            )
        await scratch.swap(db, external_id)
        # Texts now have different lengths in terms, so their layouts differ, too.
        await NormRenewal(repositories.norms, repositories.vectors).renew(db, external_id, None)
        await replayer.settle(db, replay)
