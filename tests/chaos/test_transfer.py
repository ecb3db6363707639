"""Export and import by force of numbers: long histories, damage at any byte, and faults and writers at any moment."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from agent_reminiscence import (
    ActiveMemory,
    AgentMem,
    CommitUnknownError,
    Config,
    InvalidInputError,
    MemoryNotFoundError,
    StoreUnavailableError,
)
from agent_reminiscence.database import postgres_manager
from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.memory import WriteOutcome
from agent_reminiscence.resilience import retries
from agent_reminiscence.services.transfer.event_reader import EventFileReader
from tests.chaos.conftest import Repetitions
from tests.conftest import TEST_DIMENSION, TestServer, dsn
from tests.support.chaos import stories
from tests.support.exports import export_text, read_export
from tests.support.factories import fill_tenant, stored_rows, superuser
from tests.support.fakes import SetClock
from tests.support.proxy import FaultyProxy, Loss

pytestmark = pytest.mark.thorough

_SEED = 20_260_611
_EVERYTHING = 200

# Right to left, joined signs, combining marks, line ends that are none to JSON, what looks like a lone surrogate.
_ODD = (
    "שלום עולם – مرحبا",
    "\U0001f469\u200d\U0001f467 and e\u0301 and \U0001d518",
    "a\u2028b\u2029c\u0085d\ufeffe",
    r"\ud800 \u0000 \"quoted\" \\ back",
    "\ufffd\uffff\U0010ffff",
)
_NUMBERS = (2**63 + 1, 10**60, -(10**25), 0.1, 1e-7, 1.7976931348623157e308, 5e-324, 1.0, 0, -1.5, 123456789.123456789)
_CANARY = "canary-7f3a"


@dataclass
class _Story:
    """What has happened to a tenant, and what retries must return."""

    memory: AgentMem
    tenant: str
    rng: random.Random
    head: int = 0
    notes: list[UUID] = field(default_factory=list)
    # Words that stand in one memory only.
    marks: list[str] = field(default_factory=list)
    retries: list[tuple[Callable[[AgentMem, str], Awaitable[Any]], Any]] = field(default_factory=list)

    async def tell(self, events: int) -> None:
        """Let things happen until there are at least so many events."""
        erase_at = events // 3
        while self.head < events:
            (step,) = self.rng.choices(
                [self.create, self.update, self.observe, self.archive, self.consolidate], [3, 6, 8, 0.4, 1]
            )
            with suppress(MemoryNotFoundError):
                await step()
            self.head = await self.memory.ledger.head(self.tenant)
            if self.head >= erase_at:
                await self.erase()
                erase_at += events // 3
        await self.erase()

    def _text(self) -> str:
        ending = self.rng.choice(["", f" {self.rng.choice(_ODD)}", f" It was number {self.rng.randrange(9)}"])
        return stories.content(self.rng.sample(range(len(stories.LINES)), self.rng.randint(1, 4)), ending)

    def _moment(self) -> datetime | None:
        return stories.moment(self.rng.choice([None, *range(-4, 7)]))

    def _key(self) -> str | None:
        return self.rng.choice([None, f"key {self.rng.choice(_ODD[:2])} {self.rng.random()}"])

    async def create(self) -> None:
        """A memory; one in ten with the canary that will be erased."""
        marked = self.rng.random() < 0.1
        self.marks.append(f"mark{len(self.marks)}")
        text = f"{self.marks[-1]} is here.\n\n{self._text()}" + (f"\n\n{_CANARY} sings." if marked else "")
        title, moment, key = self.rng.choice([*stories.TITLES, *_ODD[:2]]), self._moment(), self._key()
        conversation = f"c-{self.rng.randrange(5)}"

        async def call(memory: AgentMem, tenant: str) -> ActiveMemory:
            return await memory.create_active_memory(
                tenant,
                title,
                text,
                metadata={"n": 10**30, "odd": _ODD[1]},
                occurred_at=moment,
                actor="ana",
                conversation_id=conversation,
                idempotency_key=key,
            )

        self._remember(key, call, result := await call(self.memory, self.tenant))
        self.notes.append(result.id)

    async def update(self) -> None:
        """A new version, often of a moment that is past."""
        if not self.notes:
            return
        # The first ones most often, so that some of their chunks stay long enough to be promoted.
        memory_id = self.rng.choice(self.notes if self.rng.random() < 0.3 else self.notes[:5])
        text, moment, key = self._text(), self._moment(), self._key()

        async def call(memory: AgentMem, tenant: str) -> ActiveMemory:
            return await memory.update_active_memory(
                tenant, memory_id, content=text, occurred_at=moment, source="agent", idempotency_key=key
            )

        with suppress(InvalidInputError):  # archived
            self._remember(key, call, await call(self.memory, self.tenant))

    async def observe(self) -> None:
        """An event of a kind of the user's."""
        payload = {"text": self.rng.choice(_ODD), "numbers": list(_NUMBERS), self.rng.choice(_ODD): None}
        key, conversation = self._key(), f"c-{self.rng.randrange(5)}"

        async def call(memory: AgentMem, tenant: str) -> Event:
            return await memory.ledger.append(
                tenant,
                "world.observed",
                payload,
                occurred_at=stories.START,
                actor="камера",
                conversation_id=conversation,
                turn=2**31 - 1,
                idempotency_key=key,
            )

        self._remember(key, call, await call(self.memory, self.tenant))

    async def archive(self) -> None:
        """A memory ends, with its chunks or without."""
        if self.notes:
            memory_id = self.rng.choice(self.notes)
            await self.memory.admin.archive(self.tenant, memory_id, end_chunks=self.rng.random() < 0.5)

    async def consolidate(self) -> None:
        """One of them, before it is due."""
        if self.notes:
            await self.memory.admin.consolidate(self.tenant, self.rng.choice(self.notes))

    async def erase(self) -> None:
        """By a memory, a conversation's events or the canary."""
        await self.memory.admin.erase(self.tenant, text=_CANARY, actor="keeper")
        with suppress(MemoryNotFoundError):
            await self.memory.admin.erase(self.tenant, memory_id=self.rng.choice(self.notes))

    def _remember(self, key: str | None, call: Callable[[AgentMem, str], Awaitable[Any]], result: Any) -> None:
        if key is not None:
            self.retries.append((call, result))


@asynccontextmanager
async def _database(server: TestServer, **settings: Any) -> AsyncIterator[tuple[str, AgentMem]]:
    """A database of its own and a memory on it."""
    name = await server.create_database()
    try:
        async with AgentMem(_config(server, name), **settings) as memory:
            yield name, memory
    finally:
        await server.drop_database(name)


def _config(server: TestServer, database: str, **settings: Any) -> Config:
    defaults = {
        "postgres_dsn": dsn(server.login(database)),
        "embedding_provider": "hash",
        "embedding_dimension": TEST_DIMENSION,
        "worker": False,
    }
    return Config(**(defaults | settings))


async def _rows(server: TestServer, database: str, tenant: str) -> dict[str, list[str]]:
    async with superuser(server, database) as db:
        return {table: rows for table, rows in (await stored_rows(db, tenant)).items() if rows}


async def _answers(memory: AgentMem, tenant: str, queries: Sequence[str]) -> list[list[dict[str, Any]]]:
    """What is found now and at other moments, with scores and what gave them."""
    found: list[list[dict[str, Any]]] = []
    for query in queries:
        for moment in (None, stories.moment(-1), stories.moment(2)):
            result = await memory.retrieve_memories(tenant, query, limit=_EVERYTHING, as_of=moment)
            found.append([hit.model_dump(exclude={"external_id"}) for hit in result.hits])
    return found


async def _memories(memory: AgentMem, tenant: str, notes: list[UUID]) -> list[Any]:
    """Lists and histories, without whose they are."""
    found: list[Any] = []
    for moment in (None, stories.moment(0), stories.moment(3)):
        listed = await memory.admin.active_memories(tenant, as_of=moment)
        found.append([one.model_dump(exclude={"external_id"}) for one in listed])
    for memory_id in notes:
        try:
            history = await memory.admin.history(tenant, memory_id)
        except MemoryNotFoundError:
            found.append(None)
        else:
            found.append(history.model_dump(exclude={"external_id"}))
    return found


@pytest.mark.thorough
async def test_a_long_history_is_the_same_in_another_database_and_under_another_external_id(
    test_server: TestServer, repetitions: Repetitions, tmp_path: Path
) -> None:
    """Ledger and chain, lists, histories, every hit with its score, and what a retry returns.

    With a clock that stands, because recency counts.
    """
    clock, file = SetClock(datetime.now(UTC) + timedelta(days=1)), tmp_path / "long.jsonl.zst"
    async with (
        _database(test_server, clock=clock) as (_, origin),
        _database(test_server, clock=clock) as (_, same),
        _database(test_server, clock=clock) as (_, other),
    ):
        story = _Story(origin, "origin", random.Random(_SEED))
        await story.tell(repetitions(reduced=300, full=10_000))
        exported = await origin.admin.export("origin", file)
        assert exported.events >= repetitions(reduced=300, full=10_000)
        kinds = {event.kind for event in read_export(file)}
        assert {"memory.archived", "memory.consolidated", "memory.promoted", "memory.erased"} < kinds
        assert _CANARY not in export_text(file)

        await same.admin.import_(file)
        await other.admin.import_(file, "copy")

        for memory in (origin, same, other):
            audit = await memory.admin.verify()
            assert (audit.ok, audit.streams[0].head) == (True, exported.events)
        (known,), (unchanged,) = [(await one.admin.verify()).streams for one in (origin, same)]
        assert known == unchanged
        assert unchanged.chain == exported.chain

        told = await _memories(origin, "origin", story.notes)
        for memory, tenant in ((same, "origin"), (other, "copy")):
            assert await _memories(memory, tenant, story.notes) == told

        broad = [*stories.LINES, *stories.TITLES, *_ODD[:2], "the key and the lemon tree", _CANARY]
        narrow = story.rng.sample(story.marks, repetitions(reduced=8, full=100))
        answers = await _answers(origin, "origin", [*broad, *narrow])
        assert sum(map(len, answers)) > 100
        assert await _answers(same, "origin", [*broad, *narrow]) == answers
        assert await _answers(other, "copy", [*broad, *narrow]) == answers

        retried = 0
        for call, first in story.rng.sample(story.retries, repetitions(reduced=40, full=300)):
            if not await _still_there(origin, "origin", first):
                continue
            retried += 1
            again, here_again = await call(other, "copy"), await call(origin, "origin")
            assert _comparable(again) == _comparable(here_again)
            assert again.position == first.position if isinstance(first, Event) else again.id == first.id
        assert retried > 10
        assert await other.ledger.head("copy") == exported.events


async def _still_there(memory: AgentMem, tenant: str, first: ActiveMemory | Event) -> bool:
    """Whether what a call made was not erased since: an erased key is free again."""
    position = first.position if isinstance(first, Event) else _outcome(first).position
    (event,) = await memory.ledger.read(tenant, after=position - 1, limit=1)
    return event.salt is not None


def _outcome(memory: ActiveMemory) -> WriteOutcome:
    assert memory.write is not None
    return memory.write


def _comparable(result: ActiveMemory | Event) -> dict[str, Any]:
    """A result without whose it is, what its digest was made of, and how many vectors were missing in that moment."""
    if isinstance(result, Event):
        return result.model_dump(exclude={"external_id", "digest", "chain"})
    return result.model_dump(exclude={"external_id": True, "write": {"vectors_missing"}})


async def test_a_flipped_bit_anywhere_is_refused_and_nothing_is_written(
    test_server: TestServer, memory: AgentMem, database: str, repetitions: Repetitions, tmp_path: Path
) -> None:
    """At the edges of the file and at random places between them."""
    rng, file = random.Random(_SEED), tmp_path / "house.jsonl.zst"
    await fill_tenant(memory, "house")
    await memory.admin.export("house", file)
    whole = file.read_bytes()
    before = await _rows(test_server, database, "house")
    edges = [0, 1, 5, len(whole) - 41, len(whole) - 40, len(whole) - 33, len(whole) - 32, len(whole) - 1]

    for offset in [*edges, *rng.sample(range(len(whole)), repetitions(reduced=60, full=1_500))]:
        flipped = bytearray(whole)
        flipped[offset] ^= 1 << rng.randrange(8)
        file.write_bytes(flipped)
        with pytest.raises(InvalidInputError):
            await memory.admin.import_(file, "copy")
        with pytest.raises(InvalidInputError):
            await memory.admin.import_(file)

    assert await _rows(test_server, database, "copy") == {}
    assert await _rows(test_server, database, "house") == before


async def test_of_many_imports_of_one_file_at_once_exactly_one_does_the_work(
    memory: AgentMem, repetitions: Repetitions, tmp_path: Path
) -> None:
    """The others find it done, and none of them fails."""
    file = tmp_path / "house.jsonl.zst"
    await fill_tenant(memory, "house")
    head = (await memory.admin.export("house", file)).events

    for number in range(repetitions(reduced=3, full=40)):
        tenant = f"copy-{number}"
        reports = await asyncio.gather(*(memory.admin.import_(file, tenant) for _ in range(5)))

        assert sorted(report.imported for report in reports) == [0, 0, 0, 0, head]
        assert {report.head for report in reports} == {head}
    assert (await memory.admin.verify()).ok


async def test_a_file_that_is_slow_to_read_does_not_end_its_import(
    config: Callable[..., Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk or a network share may take longer for a batch than a write may otherwise be silent."""
    monkeypatch.setattr(postgres_manager, "IDLE_WRITE_SECONDS", 1)
    batches = EventFileReader.batches

    def slow_batches(reader: EventFileReader, size: int = 500) -> Iterator[list[Event]]:
        for batch in batches(reader, size):
            time.sleep(3)
            yield batch

    async with AgentMem(config()) as memory:
        await memory.create_active_memory("house", "Gate", "The gate is green.")
        await memory.admin.export("house", tmp_path / "house.jsonl")
        monkeypatch.setattr(EventFileReader, "batches", slow_batches)

        report = await memory.admin.import_(tmp_path / "house.jsonl", "copy")

        assert report.imported == 1
        assert (await memory.admin.verify("copy")).ok


@pytest.mark.parametrize("loss", ["message", "answer"])
async def test_an_import_is_all_there_or_not_at_all_wherever_its_connection_is_cut(
    test_server: TestServer,
    memory: AgentMem,
    database: str,
    repetitions: Repetitions,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    loss: Loss,
) -> None:
    """Repeated, it is there once, with its vectors; what is lost while they are made loses nothing."""
    monkeypatch.setattr(retries, "RETRY_FIRST_WAIT_SECONDS", 0.001)
    file = tmp_path / "house.jsonl.zst"
    await fill_tenant(memory, "house")
    head = (await memory.admin.export("house", file)).events
    address = test_server.administrator("postgres")
    raised: set[type[Exception] | None] = set()

    async with FaultyProxy(address.host, address.port) as proxy:
        config = _config(test_server, database, postgres_dsn=dsn(proxy.settings(test_server.login(database))))
        async with AgentMem(config) as behind:
            # The two ways of losing it are tried at different messages.
            step, first = repetitions(reduced=22, full=1), 1 if loss == "message" else repetitions(reduced=12, full=1)
            for message in range(first, 10_000, step):
                tenant = f"copy-{message}"
                proxy.cut_at(message, loss)
                try:
                    await behind.admin.import_(file, tenant)
                    raised.add(None)
                except (StoreUnavailableError, CommitUnknownError) as error:
                    raised.add(type(error))
                    if isinstance(error, StoreUnavailableError):
                        assert await _rows(test_server, database, tenant) == {}
                if not proxy.cuts:
                    break
                assert await memory.ledger.head(tenant) in (0, head)
                report = await memory.admin.import_(file, tenant)
                assert (report.head, report.vectors_missing) == (head, 0)
            else:
                raise AssertionError("the import never came to its end")
    assert StoreUnavailableError in raised
    assert (await memory.admin.verify()).ok


@pytest.mark.thorough
async def test_a_cancelled_import_or_export_leaves_nothing_behind(
    test_server: TestServer, memory: AgentMem, database: str, repetitions: Repetitions, tmp_path: Path
) -> None:
    """At any moment; of an import all or nothing is there, of an export no file and no part of one."""
    rng, file, folder = random.Random(_SEED), tmp_path / "house.jsonl.zst", tmp_path / "exports"
    folder.mkdir()
    await fill_tenant(memory, "house")
    head = (await memory.admin.export("house", file)).events
    loop = asyncio.get_running_loop()
    began = loop.time()
    await memory.admin.import_(file, "whole")
    seconds = loop.time() - began
    undone = 0

    for number in range(repetitions(reduced=8, full=150)):
        tenant, target = f"copy-{number}", folder / f"{number}.jsonl.zst"
        task = asyncio.create_task(memory.admin.import_(file, tenant))
        await asyncio.sleep(rng.uniform(0, seconds))
        task.cancel()
        await asyncio.wait([task])
        undone += task.cancelled()
        assert await memory.ledger.head(tenant) in (0, head)
        assert (await memory.admin.import_(file, tenant)).head == head

        export = asyncio.create_task(memory.admin.export("house", target))
        await asyncio.sleep(rng.uniform(0, seconds / 5))
        export.cancel()
        await asyncio.wait([export])
        if target.exists():
            assert len(read_export(target)) == head
            target.unlink()
    # A thread that was writing when its task was cancelled may need a moment more.
    async with asyncio.timeout(60):
        while list(folder.iterdir()):  # noqa: ASYNC110 - a folder has no event
            await asyncio.sleep(0.05)
    assert undone
    assert (await memory.admin.verify()).ok


async def test_an_export_among_writers_is_the_ledger_as_it_was_at_one_moment(
    memory: AgentMem, repetitions: Repetitions, tmp_path: Path
) -> None:
    """Each file is a whole beginning of the stream, and what is imported from it verifies."""
    done = asyncio.Event()
    tenant = "busy"

    async def write(number: int) -> None:
        note = await memory.create_active_memory(tenant, f"Note {number}", stories.content([number]))
        while not done.is_set():
            await memory.ledger.append(tenant, "world.observed", {"by": number})
            note = await memory.update_active_memory(
                tenant, note.id, content=stories.content([number, (number + note.version) % len(stories.LINES)])
            )
            await memory.admin.consolidate(tenant, note.id)

    writers = [asyncio.create_task(write(number)) for number in range(3)]
    files = [tmp_path / f"{number}.jsonl.zst" for number in range(repetitions(reduced=6, full=60))]
    heads = [0]
    try:
        for file in files:
            while await memory.ledger.head(tenant) == heads[-1]:
                pass
            heads.append((await memory.admin.export(tenant, file)).events)
    finally:
        done.set()
        await asyncio.gather(*writers)

    del heads[0]
    assert heads == sorted(set(heads))
    whole = {event.position: event for event in await _all_events(memory, tenant)}
    for number, (file, head) in enumerate(zip(files, heads, strict=True)):
        assert read_export(file) == [whole[position] for position in range(1, head + 1)]
        if number % 3 == 0:
            assert (await memory.admin.import_(file, f"copy-{number}")).head == head
    # One after the other into one stream: each adds what the one before it did not have.
    added = [(await memory.admin.import_(file, "follower")).imported for file in files]
    assert sum(added) == heads[-1]
    assert (await memory.admin.verify()).ok


@pytest.mark.thorough
async def test_an_import_and_a_first_write_at_once_never_mix(
    memory: AgentMem, repetitions: Repetitions, tmp_path: Path
) -> None:
    """Either the write comes behind what was imported, or it was first and the import is refused."""
    rng, file = random.Random(_SEED), tmp_path / "house.jsonl.zst"
    await fill_tenant(memory, "house")
    head = (await memory.admin.export("house", file)).events
    were_refused: set[bool] = set()

    for number in range(repetitions(reduced=15, full=150)):
        tenant = f"new-{number}"

        # Every fifth time one of them has a start that is long enough.
        delays = {0: (0.3, 0.0), 1: (0.0, 0.6)}.get(number % 5, (rng.uniform(0, 0.02), rng.uniform(0, 0.04)))
        imported, written = await asyncio.gather(
            _later(delays[0], partial(memory.admin.import_, file, tenant)),
            _later(delays[1], partial(memory.create_active_memory, tenant, "Own", "Something else.")),
            return_exceptions=True,
        )

        assert isinstance(written, ActiveMemory), written
        if isinstance(imported, BaseException):
            assert isinstance(imported, InvalidInputError)
            assert (_outcome(written).position, await memory.ledger.head(tenant)) == (1, 1)
        else:
            assert (_outcome(written).position, await memory.ledger.head(tenant)) == (head + 1, head + 1)
        were_refused.add(isinstance(imported, BaseException))
    assert were_refused == {True, False}
    assert (await memory.admin.verify()).ok


async def _later[T](seconds: float, call: Callable[[], Awaitable[T]]) -> T:
    await asyncio.sleep(seconds)
    return await call()


async def _all_events(memory: AgentMem, tenant: str) -> list[Event]:
    events: list[Event] = []
    while page := await memory.ledger.read(tenant, after=len(events), limit=1_000):
        events += page
    return events
