"""Those who follow streams: one connection listens for all of them, and each reads for itself, as its own tenant.

A notification only wakes a subscription, which then reads what follows its position. Positions are gapless and visible
in order, so it misses and repeats nothing, whatever notifications come, come twice or are lost. It reads

- when it begins, and again once this process listens: what is committed before that is read then, and what is committed
  later is announced;
- when its stream is announced, and when the listening connection is lost or comes back;
- every half minute anyway, for what nobody announced;
- every second (`subscription_poll_seconds`) while notifications do not reach this process.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from agent_reminiscence.config.constants import CONNECT_TIMEOUT_SECONDS
from agent_reminiscence.database.announcements import PROOF_CHANNEL, StreamName
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.repositories.event_ledger import EventLedger
from agent_reminiscence.domain.event import Event
from agent_reminiscence.exceptions import (
    NotInitializedError,
    ReminiscenceError,
    StoreError,
    StoreTimeoutError,
    StoreUnavailableError,
)
from agent_reminiscence.resilience.breaker import BREAKER_FIRST_PAUSE_SECONDS, Breaker
from agent_reminiscence.telemetry import detached

if TYPE_CHECKING:
    from agent_reminiscence.database.listening import ListeningConnection

_logger = logging.getLogger("agent_reminiscence.subscriptions")

# How often a subscription looks although notifications reach it.
SAFETY_POLL_SECONDS: Final = 30.0
# How long a notification may take to show that they pass, and after which time it is tried again where none did.
PROOF_SECONDS: Final = 5.0
DEAF_SECONDS: Final = 60.0
# The longest pause in which nobody asks whether the server is back.
_MAX_PAUSE_SECONDS: Final = 5.0
# The most events read at once; their size is limited, too.
_PAGE_EVENTS: Final = 200
_PAGE_BYTES: Final = 2 * 1024 * 1024
# The most positions looked through at once: a rare kind in a long stream must not outlast the statement timeout.
_MOST_POSITIONS: Final = 10_000


class _Place:
    """One subscription: what its stream is called, whether there may be news for it, and whether it answers in time."""

    def __init__(self, stream: StreamName | None) -> None:
        self.stream = stream
        self.news = asyncio.Event()
        # Its own: a stream that is slow to read must not pause the others.
        self.answers = Breaker("PostgreSQL, for one subscription,", max_pause_seconds=_MAX_PAUSE_SECONDS)


class Subscriptions:
    """All subscriptions of one open memory, and the connection that listens for them while there are any.

    Args:
        poll_seconds: How often a subscription looks for events while notifications do not reach this process.
    """

    def __init__(self, store: PostgresManager, ledger: EventLedger, *, poll_seconds: float) -> None:
        self._store = store
        self._ledger = ledger
        self._poll_seconds = poll_seconds
        self._places: dict[str, set[_Place]] = defaultdict(set)
        self._heard: frozenset[int] = frozenset()
        # Set when a subscription begins or ends.
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        # Those that close their connection.
        self._ending: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self._reading = Breaker(
            "PostgreSQL, for subscriptions,",
            max_pause_seconds=_MAX_PAUSE_SECONDS,
            patience_seconds=CONNECT_TIMEOUT_SECONDS,
        )
        self._listening = Breaker("PostgreSQL, to listen,", max_pause_seconds=_MAX_PAUSE_SECONDS)

    async def follow(
        self, external_id: str, *, after: int, kinds: Sequence[str] | None, actor: str | None
    ) -> AsyncGenerator[Event]:
        """Yield the events of a stream after a position, and then those to come.

        Raises:
            NotInitializedError: The memory was closed.
            StoreError: The store refused to be read.
        """
        with self._place(external_id) as place:
            position = after
            while True:
                head, page = await self._read(place, external_id, position, kinds, actor)
                for event in page:
                    yield event
                # Without a page, all of these positions were looked at, and none was wanted.
                position = page[-1].position if page else max(position, min(head, position + _MOST_POSITIONS))
                if position >= head:
                    await self._pause(place, self._patience_seconds(place))

    async def close(self) -> None:
        """End all subscriptions, each of which raises an error, and close the connection."""
        self._is_closed = True
        self._wake_all()
        self._stop()
        if self._ending:
            await asyncio.wait(self._ending)

    # Reading ----------------------------------------------------------------------------------------------------------

    async def _read(
        self, place: _Place, external_id: str, after: int, kinds: Sequence[str] | None, actor: str | None
    ) -> tuple[int, list[Event]]:
        """The stream's end, and a page of what follows `after`; waits for a store that is unavailable."""
        while True:
            # Before it is read: what is announced from now on may not be in the page.
            place.news.clear()
            self._check_open()
            if place.answers.allows() and self._reading.allows():
                try:
                    found = await self._read_page(external_id, after, kinds, actor)
                except StoreTimeoutError as error:
                    (self._reading if self._reading.is_open else place.answers).failed(error)
                except StoreUnavailableError as error:
                    self._reading.failed(error)
                except StoreError:
                    self._check_open()
                    raise
                else:
                    self._reading.succeeded()
                    place.answers.succeeded()
                    return found
            await self._pause(place, max(place.answers.pause_left_seconds, self._reading.pause_left_seconds))

    async def _read_page(
        self, external_id: str, after: int, kinds: Sequence[str] | None, actor: str | None
    ) -> tuple[int, list[Event]]:
        return await self._store.read_once(
            external_id,
            lambda db: self._ledger.read_news(
                db,
                external_id,
                after=after,
                positions=_MOST_POSITIONS,
                kinds=kinds,
                actor=actor,
                limit=_PAGE_EVENTS,
                max_bytes=_PAGE_BYTES,
            ),
        )

    async def _pause(self, place: _Place, seconds: float) -> None:
        """Wait for news, at most so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await place.news.wait()

    def _patience_seconds(self, place: _Place) -> float:
        is_heard = place.stream is not None and place.stream.bucket in self._heard
        # Jittered, so that many subscriptions do not look at the same moment.
        return random.uniform(0.75, 1.25) * (SAFETY_POLL_SECONDS if is_heard else self._poll_seconds)  # noqa: S311

    def _check_open(self) -> None:
        if self._is_closed:
            raise NotInitializedError("this AgentMem was closed while a subscription was open")

    # Listening --------------------------------------------------------------------------------------------------------

    @contextmanager
    def _place(self, external_id: str) -> Iterator[_Place]:
        """Take part in the listening for as long as a block lasts."""
        self._check_open()
        announcements = self._store.announcements
        place = _Place(None if announcements is None else announcements.name_of(external_id))
        name = "" if place.stream is None else place.stream.name
        self._places[name].add(place)
        self._changed.set()
        if self._task is None and place.stream is not None:
            self._task = asyncio.create_task(
                self._listen(), name="agent_reminiscence subscriptions", context=detached()
            )
        try:
            yield place
        finally:
            self._places[name].discard(place)
            if not self._places[name]:
                del self._places[name]
            self._changed.set()
            if not self._places:
                self._stop()

    def _stop(self) -> None:
        task, self._task = self._task, None
        self._heard = frozenset()
        if task is not None and task.cancel():
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    def _wake_all(self) -> None:
        for places in self._places.values():
            for place in places:
                place.news.set()

    def _tell(self, name: str) -> None:
        for place in self._places.get(name, ()):
            place.news.set()

    async def _listen(self) -> None:
        """Listen until cancelled, on one connection after another; not where a pooler would keep what listens."""
        if not self._store.has_sessions:
            _logger.info(
                "postgres_dsn leads through a connection pooler in transaction mode, on which nobody can listen;"
                " subscriptions look for events every %g s. Set session_dsn to be told at once",
                self._poll_seconds,
            )
            return
        while True:
            await asyncio.sleep(self._listening.pause_left_seconds)
            if not self._listening.allows():
                continue
            began = asyncio.get_running_loop().time()
            try:
                # In a thread: importing psycopg takes a tenth of a second.
                kind = await asyncio.to_thread(_connection_class)
                connection = await kind.open(self._store.sessions_for("A subscription"))
                try:
                    await self._listen_on(connection)
                finally:
                    await connection.close()
            except Exception as error:  # noqa: BLE001 - whatever it is, subscriptions go on by looking
                has_listened = bool(self._heard)
                self._heard = frozenset()
                self._wake_all()
                if not isinstance(error, ReminiscenceError):
                    _logger.error("listening failed: %s", type(error).__name__)
                if has_listened and asyncio.get_running_loop().time() - began > BREAKER_FIRST_PAUSE_SECONDS:
                    # One connection was lost; that is no reason to take the server for lost.
                    _logger.info("the connection that listens was lost; connecting again: %s", error)
                else:
                    self._listening.failed(error)
                continue
            _logger.info(
                "notifications of PostgreSQL do not reach this process, which happens behind a connection pooler;"
                " subscriptions look for events every %g s. Set session_dsn to be told at once",
                self._poll_seconds,
            )
            await asyncio.sleep(DEAF_SECONDS)

    async def _listen_on(self, connection: ListeningConnection) -> None:
        """Listen until the connection is lost; returns if notifications do not reach it.

        Raises:
            StoreError: The connection was lost.
        """
        if not await self._is_proven(connection):
            return
        self._listening.succeeded()
        while True:
            self._changed.clear()
            wanted = frozenset(
                place.stream.bucket for places in self._places.values() for place in places if place.stream is not None
            )
            gained, left = wanted - self._heard, self._heard - wanted
            await connection.begin(gained)
            await connection.end(left)
            self._heard = wanted
            # The server is there: whoever still waits for it need not, and whoever began to be heard looks once more.
            if gained:
                self._reading.succeeded()
                self._wake(gained)
            await _first(connection.receive(self._tell), self._changed.wait)

    def _wake(self, buckets: frozenset[int]) -> None:
        for places in self._places.values():
            for place in places:
                if place.stream is not None and place.stream.bucket in buckets:
                    place.answers.succeeded()
                    place.news.set()

    async def _is_proven(self, connection: ListeningConnection) -> bool:
        """Whether a notification that another connection sends arrives."""
        sent = secrets.token_hex(16)
        arrived = asyncio.Event()

        def tell(payload: str) -> None:
            if payload == sent:
                arrived.set()

        async def prove() -> bool:
            await self._store.notify(PROOF_CHANNEL, sent)
            return await arrived.wait()

        with suppress(TimeoutError):
            async with asyncio.timeout(PROOF_SECONDS):
                await _first(connection.receive(tell), prove)
        return arrived.is_set()


async def _first(receiving: Awaitable[None], other: Callable[[], Awaitable[bool]]) -> None:
    """Wait until one of both ends, end the other, and raise what was raised."""
    tasks = {asyncio.ensure_future(receiving), asyncio.ensure_future(other())}
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


def _connection_class() -> type[ListeningConnection]:
    from agent_reminiscence.database.listening import ListeningConnection

    return ListeningConnection
