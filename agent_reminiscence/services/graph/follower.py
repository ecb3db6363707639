"""Neo4j follows the graph in PostgreSQL: it is sent the states of everything that changed since its own position.

The changes and the new position go in one Neo4j transaction, which succeeds only if the position is still the one that
was read. So a crash between the two stores costs a repetition but never an edge, and of two processes that follow the
same stream at once, one finds the work done.

Work that does not fit one transaction, and a comparison of everything, runs under a lease (`Lease`): the stream's node
says who holds it and until when. Each part renews the lease and applies only while it is held, so nobody else's part
comes in between. An abandoned lease expires, and the next process starts the work over: changes are sent again, and a
comparison is repeated.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import NamedTuple
from uuid import uuid4
from weakref import WeakValueDictionary

from agent_reminiscence.config.constants import SCHEDULER_ROLE
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.graph.neo4j import Lease, Neo4jGraph, StreamMark
from agent_reminiscence.database.repositories.graph.progress import GraphProgress
from agent_reminiscence.database.repositories.graph.store import GraphDelta
from agent_reminiscence.domain.audit import Drift
from agent_reminiscence.domain.erasure import ErasureFinding, ErasureReceipt
from agent_reminiscence.domain.event import EventKind
from agent_reminiscence.domain.payloads import GraphErased
from agent_reminiscence.exceptions import (
    CommitUnknownError,
    StoreError,
    StoreTimeoutError,
    StoreUnavailableError,
)
from agent_reminiscence.resilience.breaker import Breaker
from agent_reminiscence.services.graph.comparison import (
    BELIEF_TABLE,
    ENTITY_TABLE,
    RELATIONSHIP_TABLE,
    GraphComparison,
    StoredState,
    left_over,
    stray_entity,
    unnamed_event,
)
from agent_reminiscence.services.graph.leases import (
    PART_ROWS,
    Batch,
    OpenLease,
    OvertakenError,
    parts_of,
    slices,
    sort_in,
)
from agent_reminiscence.services.graph.pages import GraphPages
from agent_reminiscence.services.ledger.requests import WriteRequest
from agent_reminiscence.services.runtime import Runtime

_logger = logging.getLogger("agent_reminiscence.graph")

# How often to start over when another process was faster.
_ATTEMPTS = 5
_COMPARISONS = 3

# Prefix of the id of a lease for changes; the position and chain they lead to come after it.
_CHANGES = "changes"

# The store's id, and how far it has followed a stream.
_Where = tuple[str, StreamMark]


class GraphAwayError(StoreError):
    """Neo4j could not be updated: it is unavailable, it refused, or another process is syncing the same stream.

    The graph is safe in PostgreSQL; Neo4j catches up later.
    """


class _RefusedError(GraphAwayError):
    """Neo4j is available but did not do what it was asked."""


class _NotedMeanwhileError(OvertakenError):
    """Another process has recorded Neo4j's progress; this does not mean that Neo4j's contents are wrong."""


class FollowReport(NamedTuple):
    """What one catch-up did.

    Attributes:
        position: The event up to which Neo4j now holds the graph.
        sent: How many states of entities, relationships and beliefs were sent.
        removed: How many were deleted from it.
        compared: Whether everything was compared, not only what changed.
        drift: What a comparison found.
    """

    position: int
    sent: int = 0
    removed: int = 0
    compared: bool = False
    drift: tuple[Drift, ...] = ()


class GraphFollower:
    """Brings Neo4j up to date with the graph, one stream at a time, and reports how far it is.

    Args:
        clock: The time, for the event that records an erasure in Neo4j.
        lease_seconds: How long this process's lease lasts after each part; longer than a part may take.
    """

    def __init__(
        self,
        runtime: Runtime,
        graph: Neo4jGraph,
        breaker: Breaker,
        *,
        lease_seconds: float = 15.0,
    ) -> None:
        self._store = runtime.store
        self._ledger = runtime.repositories.events
        self._graph = graph
        self._repository = runtime.repositories.graph
        self._beliefs = runtime.repositories.tables.beliefs
        self._progress = runtime.repositories.graph_progress
        self._pages = GraphPages(runtime.repositories, graph, self._ask)
        self._breaker = breaker
        self._clock = runtime.clock
        # In this process, one task at a time follows a stream.
        self._streams: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        # Streams that fail although Neo4j is available, each with its own growing pause.
        self._failing: dict[str, Breaker] = {}
        # Tells this process's leases from those of others.
        self._name = uuid4().hex
        self._lease_seconds = lease_seconds
        self._schema_is_there = False
        self._store_id: str | None = None

    @property
    def store_id(self) -> str | None:
        """Neo4j's store id when this process last read it; None if it has not yet."""
        return self._store_id

    @property
    def is_away(self) -> bool:
        """Whether Neo4j is known to be unavailable; reading this changes nothing."""
        return self._breaker.is_open

    @property
    def pause_seconds(self) -> float:
        """How many seconds not to call Neo4j because it is unavailable; 0 if it may be called."""
        return self._breaker.pause_left_seconds

    def pause_of(self, external_id: str) -> float:
        """How many seconds this stream pauses because Neo4j is unavailable or its last attempts failed."""
        failing = self._failing.get(external_id)
        return max(self.pause_seconds, 0.0 if failing is None else failing.pause_left_seconds)

    async def follow(self, external_id: str) -> FollowReport:
        """Bring Neo4j up to the end of the stream; writes nothing if it is already there.

        After any failure the stream pauses, longer each time.

        Raises:
            GraphAwayError: Neo4j could not be updated; call again once it can be.
            StoreError: PostgreSQL is unavailable.
        """
        failing = self._failing.get(external_id)
        if failing is not None and not failing.allows():
            raise GraphAwayError(f"syncing to Neo4j failed; next attempt in {failing.pause_left_seconds:.0f} s")
        try:
            report = await self._follow(external_id, compare=False)
        except Exception as error:
            # An outage of Neo4j is not this stream's fault.
            if isinstance(error, _RefusedError) or not isinstance(error, GraphAwayError):
                self._failing.setdefault(external_id, Breaker("Neo4j, for one external_id,")).failed(error)
            raise
        self._failing.pop(external_id, None)
        return report

    async def resync(self, external_id: str) -> FollowReport:
        """Compare everything, and make Neo4j match PostgreSQL.

        Raises:
            GraphAwayError: As for `follow`.
            StoreError: PostgreSQL is unavailable.
        """
        return await self._follow(external_id, compare=True)

    async def follow_soon(self, external_id: str, *, timeout_seconds: float) -> bool:
        """Follow now if it takes only seconds; False if it is left to a worker, for whatever reason."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self.follow(external_id)
        except Exception as error:  # noqa: BLE001 - the caller's work is done, and a worker can make up for this
            # Without a traceback, and in our own words: a driver's error may quote a row.
            why = str(error) if isinstance(error, StoreError) else type(error).__name__
            _logger.info("Neo4j will follow later: %s", why, extra={"external_id": external_id})
            return False
        return True

    async def compare(self, external_id: str) -> GraphComparison:
        """Compare the two stores without changing anything; differences do not count while Neo4j is behind.

        Raises:
            StoreError: PostgreSQL is unavailable.
        """
        try:
            for _ in range(_COMPARISONS):
                if (found := await self._try_to_compare(external_id)) is not None:
                    return found
        except GraphAwayError as error:
            _logger.warning("could not compare the graph in Neo4j: %s", error, extra={"external_id": external_id})
            return GraphComparison("unavailable")
        return GraphComparison("behind")

    async def is_behind(self, external_id: str) -> bool:
        """Whether Neo4j lacks something, as far as PostgreSQL knows."""
        async with self._store.transaction(external_id, read_only=True) as db:
            seen = await self._progress.read(db, external_id)
        return seen is not None and seen.lag(self._store_id) > 0

    async def list_behind(self, *, after: str, limit: int) -> list[str]:
        """Streams that Neo4j does not hold completely, in order, at most `limit` after `after`.

        An emptied or replaced Neo4j is behind in every stream.

        Raises:
            GraphAwayError: Neo4j's store id could not be read.
            StoreError: PostgreSQL is unavailable.
        """
        store_id = await self._find_store_id()
        async with self._store.transaction("", role=SCHEDULER_ROLE, read_only=True) as db:
            return await self._progress.list_behind(db, graph_store=store_id, after=after, limit=limit)

    async def find_left_over(self, receipt: ErasureReceipt, *, text: str | None) -> list[ErasureFinding] | None:
        """What Neo4j still holds of what was erased; None if it cannot be reached.

        Raises:
            StoreError: PostgreSQL is unavailable.
        """
        erased = set(receipt.memory_ids)
        findings: list[ErasureFinding] = []
        try:
            tables: tuple[tuple[str, AsyncIterator[StoredState]], ...] = (
                (ENTITY_TABLE, self._pages.entities(receipt.external_id)),
                (RELATIONSHIP_TABLE, self._pages.relationships(receipt.external_id)),
                (ENTITY_TABLE, self._pages.strays(receipt.external_id)),
                (BELIEF_TABLE, self._pages.beliefs(receipt.external_id)),
            )
            for table, items in tables:
                async for item in items:
                    problem = left_over(item, erased, text)
                    if problem is not None:
                        findings.append(ErasureFinding(place=table, key=item.id, problem=problem))
            compared = await self._try_to_compare(receipt.external_id)
        except GraphAwayError:
            return None
        known = {finding.key for finding in findings}
        if compared is not None:
            findings += [
                ErasureFinding(place=drift.table, key=drift.key, problem="it is no longer in PostgreSQL")
                for drift in compared.drift
                if drift.problem == "unexpected" and drift.key not in known
            ]
        return findings

    # One catch-up

    async def _follow(self, external_id: str, *, compare: bool) -> FollowReport:
        async with self._streams.setdefault(external_id, asyncio.Lock()):
            refused: tuple[str, int | None, str | None] | None = None
            for attempt in range(_ATTEMPTS):
                await self._prepare()
                where = await self._where(external_id)
                if not where[0]:
                    # It was emptied meanwhile; its constraints may be gone along with its data.
                    self._schema_is_there = False
                    continue
                # A lease, such as our own of the last attempt, is not progress.
                reached = where[0], where[1].position, where[1].chain
                # Refused although nobody has followed meanwhile: something the changes depend on is missing.
                compare = compare or reached == refused
                try:
                    return await self._try_to_follow(external_id, where, compare=compare)
                except _NotedMeanwhileError:
                    refused = None
                except OvertakenError:
                    refused = reached
                await asyncio.sleep(random.uniform(0, 0.02) * 2**attempt)  # noqa: S311 - no secret
        raise _RefusedError("other processes are syncing the same stream; it will be retried")

    async def _try_to_follow(self, external_id: str, where: _Where, *, compare: bool) -> FollowReport:
        """One attempt. `where` is read before PostgreSQL, so that PostgreSQL is never older.

        Raises:
            OvertakenError: Neo4j is not in the expected state.
        """
        store_id, mark = where
        position = mark.position
        async with self._store.transaction(external_id, read_only=True) as db:
            seen = await self._progress.read(db, external_id)
            if seen is None or seen.head == 0:
                return FollowReport(0)
            delta = GraphDelta()
            # A requested comparison must report what differs.
            may_empty = not compare and await self._is_empty(db, external_id)
            compare = compare or await self._needs_comparison(db, external_id, seen, where)
            if not compare and position is not None and position < seen.graph_head:
                beliefs = await self._beliefs.read_after(db, external_id, after=position)
                delta = replace(await self._repository.read_changes(db, external_id, after=position), beliefs=beliefs)
        if compare or mark.lease is not None:
            self._respect(mark)
        if compare:
            if may_empty:
                return await self._empty(external_id, store_id, mark, seen)
            return await self._compare_everything(external_id, store_id, mark)
        if position != seen.head:
            await self._send(external_id, delta, mark, seen)
        if (seen.graph_position, seen.graph_store) != (seen.head, store_id):
            await self._note(external_id, seen, store_id)
        _logger.debug("sent %d states to Neo4j", delta.sent, extra={"external_id": external_id, "position": seen.head})
        return FollowReport(seen.head, sent=delta.sent, removed=delta.removed)

    async def _is_empty(self, db: SqlExecutor, external_id: str) -> bool:
        """Whether a stream has no graph at all."""
        if await self._repository.read_entities(db, external_id, after=None, limit=1):
            return False
        return not await self._beliefs.read(db, external_id, after=None, limit=1)

    async def _prepare(self) -> None:
        """Create Neo4j's missing constraints and indexes, once per process."""
        if self._schema_is_there:
            return

        async def prepare() -> None:
            try:
                await self._graph.ensure_schema()
            except (StoreUnavailableError, StoreTimeoutError, CommitUnknownError):
                raise
            except StoreError:
                # A login that may not create them may still write if an administrator has created them.
                if await self._graph.find_store_id() is None:
                    raise

        await self._ask(prepare)
        self._schema_is_there = True

    async def _find_store_id(self) -> str:
        """Neo4j's store id; '' if it has none yet."""
        self._store_id = await self._ask(self._graph.find_store_id) or ""
        return self._store_id

    async def _where(self, external_id: str) -> _Where:
        """Neo4j's store id, and how far it has followed the stream."""
        store_id = await self._find_store_id()
        return store_id, await self._ask(partial(self._graph.mark, external_id))

    async def _needs_comparison(self, db: SqlExecutor, external_id: str, seen: GraphProgress, where: _Where) -> bool:
        """Whether Neo4j may lack more than the changes since its position."""
        store_id, mark = where
        if seen.graph_position < 0:
            # It was requested.
            return True
        if mark.lease is not None:
            # Work under a lease for changes is finished by sending them again, if they belong to this history.
            aim = _aim_of(mark.lease)
            if aim is None or aim[1] != await self._progress.find_chain(db, external_id, aim[0]):
                return True
        if mark.position is None:
            return seen.graph_head > 0
        if seen.graph_store != store_id or seen.graph_position > mark.position:
            # A different store than last time, or an older state of it, as from a backup. If it is ahead of what was
            # recorded, the sender could not record it.
            return True
        # A different history: PostgreSQL was restored from a backup, or there are two of them.
        return mark.chain is None or mark.chain != await self._progress.find_chain(db, external_id, mark.position)

    async def _is_behind(self, db: SqlExecutor, external_id: str, seen: GraphProgress | None, where: _Where) -> bool:
        if seen is None:
            return False
        mark = where[1]
        if await self._needs_comparison(db, external_id, seen, where):
            return True
        return mark.position is not None and mark.position < seen.graph_head

    async def _send(self, external_id: str, delta: GraphDelta, mark: StreamMark, seen: GraphProgress) -> None:
        """Send changes and the position they lead to: in one transaction, or under a lease if there are many."""
        *others, last = parts_of(delta)
        if not others and mark.lease is None:
            await self._apply(external_id, last, expected=mark.position, position=seen.head, chain=seen.chain)
            return
        lease = await self._begin_lease(external_id, mark, f"{_CHANGES}/{seen.head}/{seen.chain}")
        for part in others:
            await lease.send(part)
        await lease.end(last, seen)

    async def _begin_lease(self, external_id: str, mark: StreamMark, purpose: str) -> OpenLease:
        lease = Lease(f"{purpose}/{self._name}/{uuid4().hex}", self._lease_seconds)
        if not await self._ask(partial(self._graph.take_lease, external_id, lease, seen=mark)):
            raise OvertakenError
        apply = partial(self._apply, external_id, expected=mark.position, lease=lease)
        return OpenLease(lease, apply)

    async def _empty(self, external_id: str, store_id: str, mark: StreamMark, seen: GraphProgress) -> FollowReport:
        """Delete everything of a stream that has no graph, as after the erasure of a whole tenant."""
        lease = await self._begin_lease(external_id, mark, "comparison")
        if not await self._ask(partial(self._graph.erase, external_id, lease=lease.lease)):
            raise OvertakenError
        await lease.end(GraphDelta(), seen)
        await self._note(external_id, seen, store_id, confirm_erasures=True)
        return FollowReport(seen.head, compared=True)

    async def _compare_everything(self, external_id: str, store_id: str, mark: StreamMark) -> FollowReport:
        lease = await self._begin_lease(external_id, mark, "comparison")
        batch, gone, drift = Batch(), list[str](), list[Drift]()
        sent = 0
        async with self._store.transaction(external_id, read_only=True) as db:
            seen = await self._progress.read(db, external_id)
            assert seen is not None
            async with aclosing(self._pages.differences(db, external_id, renew=lease.renew)) as differences:
                async for difference in differences:
                    drift.append(difference.describe())
                    sent += difference.ours is not None
                    sort_in(batch, gone, difference)
                    if batch.rows >= PART_ROWS:
                        await lease.send(batch.take())
        await lease.send(batch.take())
        # Read after all entities are sent, page by page.
        async for stray in self._pages.strays(external_id, lease.renew):
            drift.append(stray_entity(stray.id))
            gone.append(stray.id)
        unnamed = [each.id async for each in self._pages.unnamed(external_id, lease.renew)]
        drift += [unnamed_event(event_id) for event_id in unnamed]
        for ids in slices(unnamed):
            await lease.send(GraphDelta(removed_beliefs=ids))
        # Entities are deleted last: by then their relationships have been moved to another end.
        for ids in slices(list(dict.fromkeys(gone))):
            await lease.send(GraphDelta(removed_entities=ids))
        await lease.end(GraphDelta(), seen)
        await self._note(external_id, seen, store_id, confirm_erasures=True)
        _logger.info(
            "compared the graph with Neo4j: %d states sent, %d removed",
            sent,
            len(drift) - sent,
            extra={"external_id": external_id, "position": seen.head},
        )
        return FollowReport(seen.head, sent=sent, removed=len(drift) - sent, compared=True, drift=tuple(drift))

    def _respect(self, mark: StreamMark) -> None:
        """Respect another process's lease while it lasts; one of this process was abandoned."""
        if mark.lease is None or f"/{self._name}/" in mark.lease:
            return
        left = mark.lease_left_seconds
        if left is not None and left > 0:
            raise GraphAwayError(f"another process is syncing this external_id; its lease ends in {left:.0f} s")

    async def _apply(
        self,
        external_id: str,
        delta: GraphDelta,
        *,
        expected: int | None,
        position: int | None = None,
        chain: str | None = None,
        lease: Lease | None = None,
    ) -> None:
        apply = partial(
            self._graph.apply, external_id, delta, expected=expected, position=position, chain=chain, lease=lease
        )
        if not await self._ask(apply):
            raise OvertakenError

    async def _note(
        self,
        external_id: str,
        seen: GraphProgress,
        store_id: str,
        *,
        confirm_erasures: bool = False,
    ) -> None:
        """Record that Neo4j is where `seen` ends and, after a comparison, which erasures it has followed."""
        async with self._store.transaction(external_id) as db:
            await self._ledger.lock(db, external_id)
            if not await self._progress.note(db, external_id, seen, position=seen.head, graph_store=store_id):
                raise _NotedMeanwhileError
            if confirm_erasures:
                for receipt_id in await self._progress.find_unconfirmed_erasures(db, external_id, seen.head):
                    now = self._clock()
                    payload = GraphErased(receipt_id=receipt_id, store=store_id, erased_at=now)
                    request = WriteRequest(external_id=external_id)
                    await self._ledger.append(
                        db, request.event(EventKind.GRAPH_ERASED, payload.model_dump(mode="json"), now)
                    )

    # Comparing

    async def _try_to_compare(self, external_id: str) -> GraphComparison | None:
        """The differences at one moment; None if Neo4j has moved meanwhile."""
        before = await self._where(external_id)
        async with self._store.transaction(external_id, read_only=True) as db:
            seen = await self._progress.read(db, external_id)
            if await self._is_behind(db, external_id, seen, before):
                return GraphComparison("behind")
            async with aclosing(self._pages.differences(db, external_id)) as differences:
                drift = [difference.describe() async for difference in differences]
        known = {found.key for found in drift}
        strays = [stray.id async for stray in self._pages.strays(external_id)]
        # Stray names of an entity that already differs add nothing.
        drift += [stray_entity(entity_id) for entity_id in strays if entity_id not in known]
        drift += [unnamed_event(each.id) async for each in self._pages.unnamed(external_id)]
        return GraphComparison("current", tuple(drift)) if await self._where(external_id) == before else None

    async def _ask[T](self, question: Callable[[], Awaitable[T]]) -> T:
        """Neo4j's answer; while it is known to be unavailable, it is not called.

        Raises:
            GraphAwayError: It did not answer, or refused.
        """
        if not self._breaker.allows():
            raise GraphAwayError(f"Neo4j is unavailable; next attempt in {self._breaker.pause_left_seconds:.0f} s")
        try:
            answer = await question()
        except (StoreUnavailableError, StoreTimeoutError, CommitUnknownError) as error:
            self._breaker.failed(error)
            raise GraphAwayError(str(error)) from error
        except StoreError as error:
            self._breaker.failed(error)
            raise _RefusedError(str(error)) from error
        self._breaker.succeeded()
        return answer


def _aim_of(lease: str) -> tuple[int, str] | None:
    """The position and chain that a lease's changes lead to; None if it is a different kind of lease."""
    purpose, *rest = lease.split("/")
    if purpose != _CHANGES or len(rest) != 4 or not rest[0].isdecimal():
        return None
    return int(rest[0]), rest[1]
