"""Unique words in every place of many memories, some erased in each way: gone everywhere, and the others all there."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import re
import string
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from backports import zstd

from agent_reminiscence import AgentMem, Config, ErasureReceipt, Event, MemoryNotFoundError
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.embedded import server_binaries
from agent_reminiscence.domain.canonical import sha256
from agent_reminiscence.domain.index import LAYOUT_DTYPE, decode_postings
from agent_reminiscence.text.languages import DEFAULT_LANGUAGE
from agent_reminiscence.text.words import analyse
from tests.chaos.conftest import Repetitions
from tests.conftest import TestServer
from tests.support.factories import stored_rows, superuser
from tests.support.fakes import RecordingEmbedder

_SEED = 20_260_611
_CANARY = re.compile("canary[a-z]{14}")
_JANUARY = datetime(2026, 1, 1, 12, tzinfo=UTC)
_TASKS = 6
# The numbers of memories with an event that somebody reflects on.
_REFLECTED_ON = {3, 6}


_ENDED_AS_DUPLICATES = "SELECT chunk_id::text AS chunk_id FROM memory_chunk WHERE duplicate_of IS NOT NULL"


def _canaries_in(text: str) -> set[str]:
    return set(_CANARY.findall(text.lower()))


class _Aviary:
    """Makes canaries, no two of them alike."""

    def __init__(self, numbers: random.Random) -> None:
        self._numbers = numbers

    def __call__(self) -> str:
        while True:
            canary = "canary" + "".join(self._numbers.choices(string.ascii_lowercase, k=14))
            # Its own stem, so that the index spells it as the text does.
            if analyse(canary, DEFAULT_LANGUAGE) == [canary]:
                return canary


@dataclass
class _Unit:
    """What an erasure takes or leaves as a whole: a memory, or an event of a user's own kind.

    Attributes:
        rests_on: The position of the event that it was drawn from, and with which it is erased.
        current: The canary by which a search finds it now; None where none does.
        repeat: Makes the first write again, with its idempotency key.
    """

    tenant: str
    canaries: set[str]
    conversations: set[str]
    memory_id: UUID | None = None
    position: int | None = None
    rests_on: int | None = None
    current: str | None = None
    repeat: Callable[[], Awaitable[Any]] | None = None


@dataclass
class _Story:
    """Everything that is remembered, and what has been erased of it."""

    memory: AgentMem
    mint: _Aviary
    units: list[_Unit] = field(default_factory=list)
    erased: list[_Unit] = field(default_factory=list)
    receipts: list[ErasureReceipt] = field(default_factory=list)
    erased_texts: list[tuple[str, ErasureReceipt]] = field(default_factory=list)

    @property
    def kept_canaries(self) -> set[str]:
        """Those that have to be there."""
        return set().union(*(unit.canaries for unit in self.units))

    @property
    def lost_canaries(self) -> set[str]:
        """Those that must not."""
        return set().union(*(unit.canaries for unit in self.erased)) - self.kept_canaries

    # --- Remembering -------------------------------------------------------------------------------------------------

    async def remember(self, tenant: str, number: int, conversation: str, shared: str) -> None:
        """One memory with its life so far, and every third time an event of a user's own kind."""
        mint, memory = self.mint, self.memory
        conversation = conversation if number % 2 else mint()
        speaker = f"Kim {mint()}"
        current = mint()
        details: dict[str, Any] = {"note": [{mint(): mint()}]}
        content = f"We met at the {current} in Lisbon on 3 May with Ana Sousa, flight TP671."
        match number % 8:
            case 1:
                told = [f"{speaker}: We met at the {current}.", f"Lou: Near {mint()}?", f"{speaker}: By {mint()}."]
                starts = [sum(len(line) + 1 for line in told[:index]) for index in range(3)]
                details["turns"] = [
                    {"start": start, "speaker": line.split(":")[0], "id": mint(), mint(): 1}
                    for start, line in zip(starts, told, strict=True)
                ]
                content = "\n".join(told)
            case 2:
                said = [f"{mint()} is number {index} of the {current}, and rather far away." for index in range(45)]
                content = "\n\n".join(said)
            case 4:
                current = shared
                content = f"Everybody knows that the {shared} sings before the sun is up."
            case 0 | 3 | 5 | 6:
                details["speaker"] = speaker
        first: dict[str, Any] = {
            "title": f"About {mint()}",
            "content": content,
            "description": f"Of {mint()}",
            "metadata": details,
            "occurred_at": _JANUARY + timedelta(days=number % 20),
            "actor": mint(),
            "conversation_id": conversation,
            "idempotency_key": mint(),
        }
        note = await memory.create_active_memory(tenant, **first)
        said_later: list[dict[str, Any]] = []
        if number % 8 == 3:
            current = mint()
            said_later = [
                {"content": f"It was the {mint()}.", "actor": mint()},
                {"title": f"No, {mint()}", "conversation_id": mint(), "idempotency_key": mint()},
                {"content": f"It is the {current} after all.", "description": mint(), "metadata": {mint(): 1}},
            ]
        elif number % 8 == 6:
            current = mint()
            said_later = [{"content": f"It was the {current} all along.", "occurred_at": _JANUARY - timedelta(days=9)}]
        elif number % 8 == 7:
            # Survives five updates, which makes it longterm.
            said_later = [{"content": f"{content}\n\nLou: Step {step}, {mint()}."} for step in range(5)]
        for change in said_later:
            await memory.update_active_memory(tenant, note.id, **change)
        ends = number % 8 == 5 and number % 16 == 5
        if number % 8 == 5:
            keeper = mint()
            said_later.append({"actor": keeper})
            await memory.admin.archive(tenant, note.id, end_chunks=ends, actor=keeper)
        written = [first, *said_later]
        self.units.append(
            _Unit(
                tenant,
                _canaries_in(json.dumps(written, default=str)),
                {str(change["conversation_id"]) for change in written if "conversation_id" in change},
                memory_id=note.id,
                current=None if ends else current,
                repeat=partial(memory.create_active_memory, tenant, **first),
            )
        )
        if number % 3 == 0:
            seen = await self._append(tenant, conversation if number % 2 else None)
            if number in _REFLECTED_ON:
                await self._reflect(tenant, seen)

    async def _append(self, tenant: str, conversation: str | None) -> Event:
        mint = self.mint
        arguments: dict[str, Any] = {
            "payload": {mint(): [{"said": f"the {mint()}"}]},
            "actor": mint(),
            "conversation_id": conversation,
            "idempotency_key": mint(),
        }
        event = await self.memory.ledger.append(tenant, "world.observed", **arguments)
        self.units.append(
            _Unit(
                tenant,
                _canaries_in(json.dumps(arguments)),
                set() if conversation is None else {conversation},
                position=event.position,
                repeat=partial(self.memory.ledger.append, tenant, "world.observed", **arguments),
            )
        )
        return event

    async def _reflect(self, tenant: str, seen: Event) -> None:
        """A reflection that is too large for one event."""
        mint = self.mint
        arguments: dict[str, Any] = {
            "payload": {
                "belief": f"The {mint()} is a bird.",
                "based_on": [str(seen.event_id)],
                "transcript": [f"{mint()} {'x ' * 400_000} {mint()}", {mint(): "y " * 200_000}],
            },
            "actor": mint(),
            "conversation_id": mint(),
            "idempotency_key": mint(),
        }
        event = await self.memory.ledger.append(tenant, "agent.reflected", **arguments)
        assert "memory.divided" in event.payload
        self.units.append(
            _Unit(
                tenant,
                _canaries_in(json.dumps(arguments)),
                {arguments["conversation_id"]},
                position=event.position,
                rests_on=seen.position,
                repeat=partial(self.memory.ledger.append, tenant, "agent.reflected", **arguments),
            )
        )

    # --- Erasing -----------------------------------------------------------------------------------------------------

    async def erase(self, tenant: str, way: str, chosen: _Unit) -> None:
        """Erase in one of the ways, after a dry run, and compare what it took with what it had to take."""
        mine = [unit for unit in self.units if unit.tenant == tenant]
        arguments: dict[str, Any] = {}
        match way:
            case "memory":
                arguments, taken = {"memory_id": chosen.memory_id}, [chosen]
            case "conversation":
                conversation = max(chosen.conversations)
                arguments = {"conversation_id": conversation}
                taken = [unit for unit in mine if conversation in unit.conversations]
            case "text":
                text = max(chosen.canaries)
                arguments, taken = {"text": text}, [unit for unit in mine if text in unit.canaries]
            case _:
                taken = mine
        drawn_from = {unit.position for unit in taken if unit.position is not None}
        taken = taken + [unit for unit in mine if unit not in taken and unit.rests_on in drawn_from]
        preview = await self.memory.admin.erase(tenant, **arguments, dry_run=True)
        receipt = await self.memory.admin.erase(tenant, **arguments)
        memory_ids = {unit.memory_id for unit in taken if unit.memory_id is not None}
        positions = {unit.position for unit in taken if unit.position is not None}
        assert set(receipt.memory_ids) == memory_ids == {item.memory_id for item in preview.items if item.memory_id}
        assert positions <= {event.position for event in receipt.events}
        assert preview.events == len(receipt.events)
        self.units = [unit for unit in self.units if unit not in taken]
        self.erased += taken
        self.receipts.append(receipt)
        if way == "text":
            self.erased_texts.append((arguments["text"], receipt))

    # --- Asking ------------------------------------------------------------------------------------------------------

    async def ledger_of(self, tenant: str) -> str:
        """All that can be read of a tenant's events, as text."""
        said, after = "", 0
        while page := await self.memory.ledger.read(tenant, after=after, limit=500):
            assert [event.position for event in page] == list(range(after + 1, after + 1 + len(page)))
            after = page[-1].position
            said += "".join(repr(event) for event in page)
        return said

    async def search(self, tenant: str, query: str, **moments: Any) -> str:
        """All that a result says, except for the query that it repeats."""
        found = await self.memory.retrieve_memories(tenant, query, **moments)
        return found.model_dump_json(exclude={"query"}) + found.as_prompt()

    async def told_of_past(self, tenant: str, moments: list[dict[str, Any]]) -> str:
        """The active list at some moments."""
        lists = [await self.memory.admin.active_memories(tenant, **moment) for moment in moments]
        return "".join(note.model_dump_json() for notes in lists for note in notes)


@pytest.fixture
def everything_logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """All loggers at DEBUG, those too that were set to something else."""
    loggers = [logging.getLogger(name) for name in logging.root.manager.loggerDict]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.NOTSET)
    caplog.set_level(logging.DEBUG)
    yield caplog
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


async def _dump(server: TestServer, database: str) -> str:
    """What `pg_dump` writes of a database; the program comes with the server."""
    program = server_binaries() / "pg_dump"
    who = server.administrator(database)
    process = await asyncio.create_subprocess_exec(
        program, "--host", who.host, "--port", str(who.port), "--username", who.user, "--no-password", database,
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    output, _ = await process.communicate()
    assert process.returncode == 0
    return output.decode()


def _server_log(server: TestServer) -> str:
    """Its socket stands in the cluster's folder, and its log beside that."""
    return (Path(server.address.host).resolve().parent / "postgres.log").read_text()


async def _rows(db: SqlExecutor) -> str:
    return "\n".join(row for rows in (await stored_rows(db)).values() for row in rows)


async def _exports(memory: AgentMem, tenants: list[str], folder: Path) -> str:
    said = ""
    for tenant in tenants:
        file = folder / f"{tenant}.jsonl.zst"
        await memory.admin.export(tenant, file, overwrite=True)
        said += zstd.decompress(await asyncio.to_thread(file.read_bytes)).decode()
    return said


async def _catalog(db: SqlExecutor) -> str:
    """What the server itself keeps and shows: statistics, statements, settings and all else in its catalog."""
    await db.execute_script("ANALYZE")
    tables = await db.fetch_all(
        "SELECT oid::regclass::text AS name FROM pg_class"
        " WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind IN ('r', 'v')"
        # On which processor's memory something lies; the server refuses to say so where there is one processor.
        " AND relname !~ '_numa$'"
    )
    rows = [
        row["row"] or ""
        for table in tables
        for row in await db.fetch_all(f"SELECT t::text AS row FROM {table['name']} AS t")  # noqa: S608
    ]
    assert len(rows) > 10_000
    return "\n".join(rows)


async def _vectors(db: SqlExecutor) -> tuple[set[bytes], set[bytes]]:
    """Every stored vector as the bytes of its 16-bit numbers, and every hash in the cache."""
    rows = await db.fetch_all(
        "SELECT vector::text AS vector FROM chunk_vector_1 UNION SELECT vector::text FROM embedding_cache"
    )
    hashes = await db.fetch_all("SELECT text_hash FROM embedding_cache")
    vectors = {np.array(json.loads(row["vector"]), dtype=np.float16).tobytes() for row in rows}
    return vectors, {bytes(row["text_hash"]) for row in hashes}


async def _check_index(db: SqlExecutor, lost: set[str]) -> None:
    """Nothing in the index is of a chunk, heading, text or speaker that is gone, and no term is of a lost canary."""
    rows = await db.fetch_all(
        "SELECT external_id, number, speaker_key FROM memory_chunk"
        " UNION ALL SELECT external_id, number, NULL FROM memory_heading"
    )
    there = {(row["external_id"], row["number"]) for row in rows}
    speakers = {(row["external_id"], int.from_bytes(sha256(row["speaker_key"].encode())[:4]))
                for row in rows if row["speaker_key"] is not None}  # fmt: skip
    terms = {term for canary in lost for term in analyse(canary, DEFAULT_LANGUAGE)}
    postings = await db.fetch_all("SELECT external_id, term, block, entries FROM posting")
    assert postings
    for row in postings:
        # A stem of a canary is no canary, so it would not be found among all the rows.
        assert row["term"] not in terms
        numbers, _ = decode_postings(row["block"], row["entries"])
        assert len(numbers), "a row without entries says that somebody had the word"
        assert {(row["external_id"], number) for number in numbers.tolist()} <= there
    layouts = await db.fetch_all(
        "SELECT external_id, memory_id::text || segment AS memory_id, entries FROM memory_layout"
    )
    for row in layouts:
        layout = np.frombuffer(row["entries"], LAYOUT_DTYPE)
        named = {*layout["number"].tolist(), *layout["heading"].tolist()} - {0}
        assert {(row["external_id"], number) for number in named} <= there
        assert {(row["external_id"], speaker) for speaker in layout["speaker"].tolist() if speaker} <= speakers
    vectors = await db.fetch_all("SELECT external_id, number FROM chunk_vector_1")
    assert {(row["external_id"], row["number"]) for row in vectors} <= there
    norms = await db.fetch_all(
        "SELECT external_id, memory_id::text || segment AS memory_id, layout_hash FROM chunk_norms_1"
    )
    hashes = {(row["external_id"], row["memory_id"]): sha256(sha256(row["entries"])) for row in layouts}
    assert {(row["external_id"], row["memory_id"]): bytes(row["layout_hash"]) for row in norms} == hashes


async def _in_turns(calls: list[Callable[[], Awaitable[None]]]) -> None:
    """Make the calls, a few at a time."""
    waiting = iter(calls)

    async def work() -> None:
        for call in waiting:
            await call()

    await asyncio.gather(*(work() for _ in range(_TASKS)))


@pytest.mark.promise
async def test_no_canary_is_left_of_what_was_erased_and_every_other_is(
    test_server: TestServer,
    database: str,
    config: Callable[..., Config],
    everything_logged: pytest.LogCaptureFixture,
    tmp_path: Path,
    repetitions: Repetitions,
) -> None:
    """Not in a dump, a log, an export, a result of any moment, an error or a vector; and nothing else is touched."""
    numbers = random.Random(_SEED)
    memories = repetitions(everyday=30, reduced=60, full=1_000)
    per_tenant = repetitions(reduced=15, full=50)
    tenants = [f"tenant-{number}" for number in range(memories // per_tenant)]
    embedder = RecordingEmbedder()
    async with AgentMem(config(), embedder=embedder) as memory, superuser(test_server, database) as db:
        story = _Story(memory, _Aviary(numbers))

        # --- Remember, and see that every way of looking finds what is there
        await _in_turns([partial(_fill, story, tenant, per_tenant) for tenant in tenants])
        before = datetime.now(UTC)
        everything = story.kept_canaries
        assert _canaries_in(await _rows(db)) == everything
        assert _canaries_in(await _dump(test_server, database)) == everything
        assert _canaries_in(await _exports(memory, tenants, tmp_path)) == everything
        assert _canaries_in("".join([await story.ledger_of(tenant) for tenant in tenants])) == everything
        vectors, hashes = await _vectors(db)
        assert {sha256(text.encode()) for text in embedder.texts} == hashes
        made = dict(zip(embedder.texts, await embedder.embed(list(embedder.texts)), strict=True))
        halved = {
            text: np.array(vector, dtype=np.float32).astype(np.float16).tobytes() for text, vector in made.items()
        }
        assert set(halved.values()) == vectors
        await _check_index(db, set())
        tiers = await db.fetch_all("SELECT DISTINCT tier FROM memory_chunk WHERE superseded_at IS NULL")
        assert {row["tier"] for row in tiers} == {"active", "shortterm", "longterm"}

        # --- Erase
        ended = [UUID(row["chunk_id"]) for row in await db.fetch_all(_ENDED_AS_DUPLICATES)]
        await _in_turns([partial(_erase, story, tenant) for tenant in tenants])
        lost, kept = story.lost_canaries, story.kept_canaries
        revived = await db.fetch_all(
            "SELECT chunk_id FROM memory_chunk WHERE superseded_at IS NULL AND chunk_id = ANY($(ended)p::uuid[])",
            {"ended": ended},
        )
        assert revived
        assert len(story.erased) >= memories // 4
        assert len(story.units) >= memories // 3
        assert lost | kept == everything

        # --- Nothing of it in what is stored
        assert _canaries_in(await _rows(db)) == kept
        assert _canaries_in(await _dump(test_server, database)) == kept
        assert not _canaries_in(await _catalog(db))
        assert _canaries_in(await _exports(memory, tenants, tmp_path)) == kept
        assert _canaries_in("".join([await story.ledger_of(tenant) for tenant in tenants])) == kept
        vectors, hashes = await _vectors(db)
        gone = [text for text in halved if _canaries_in(text) & lost]
        assert gone
        assert not hashes & {sha256(text.encode()) for text in gone}
        assert not vectors & {halved[text] for text in gone}
        await _check_index(db, lost)

        # --- Nothing of it in any answer, and all of the rest
        long_ago, now = _JANUARY + timedelta(days=30), datetime.now(UTC)
        moments: list[dict[str, Any]] = [
            {}, {"as_of": long_ago}, {"known_at": before}, {"as_of": long_ago, "known_at": before},
            {"as_of": now, "known_at": before}, {"as_of": now},
        ]  # fmt: skip
        for unit in story.erased:
            canary = max(unit.canaries & lost)
            for moment in moments if unit.memory_id is not None else moments[:1]:
                assert not _canaries_in(await story.search(unit.tenant, f"Who met the {canary}?", **moment)) & lost
        for unit in story.units:
            if unit.current is not None:
                said = _canaries_in(await story.search(unit.tenant, unit.current))
                assert unit.current in said
                assert not said & lost
        for tenant in tenants:
            assert not _canaries_in(await story.told_of_past(tenant, moments)) & lost
        for unit in story.units:
            assert unit.repeat is not None
            assert not _canaries_in(repr(await unit.repeat())) & lost
            if unit.memory_id is not None:
                history = _canaries_in((await memory.admin.history(unit.tenant, unit.memory_id)).model_dump_json())
                assert unit.current is None or unit.current in history
                assert not history & lost
        for unit in story.erased:
            if unit.memory_id is not None:
                with pytest.raises(MemoryNotFoundError) as refused:
                    await memory.admin.history(unit.tenant, unit.memory_id)
                assert not _canaries_in(f"{refused.value!r} {refused.value.__cause__!r} {vars(refused.value)}")

        # --- Everything is in order, and can be shown to be
        assert _canaries_in(await _rows(db)) == kept, "a repeated write has written"
        report = await memory.admin.verify()
        assert report.ok
        assert {stream.external_id for stream in report.streams} == set(tenants)
        for receipt in story.receipts:
            written = receipt.model_dump_json()
            assert not _canaries_in(written)
            assert (await memory.admin.verify_erased(ErasureReceipt.model_validate_json(written))).ok
        for text, receipt in story.erased_texts:
            assert (await memory.admin.verify_erased(receipt, text=text)).ok
        rows = await stored_rows(db)
        assert [stream.drift for stream in (await memory.admin.rebuild()).streams] == [()] * len(tenants)
        rebuilt = await stored_rows(db)
        # A rebuild writes to the streams' own rows alone; what the searches above have used is noted in the background.
        others: dict[str, list[str]] = {"memory_stream": [], "chunk_use": [], "recall_day": []}
        assert rebuilt | others == rows | others

    # --- Nothing of anything in a log
    for record in everything_logged.records:
        assert not _canaries_in(f"{logging.Formatter().format(record)} {vars(record)!r}")
    log = await asyncio.to_thread(_server_log, test_server)
    assert "ready to accept connections" in log
    assert not _canaries_in(log)


async def _fill(story: _Story, tenant: str, memories: int) -> None:
    """All memories of one tenant, a third of them consolidated on the way and the rest but a few at the end."""
    conversation = shared = ""
    for number in range(memories):
        if number % 4 == 0:
            conversation = story.mint()
        if number % 16 == 0:
            shared = story.mint()
        await story.remember(tenant, number, conversation, shared)
        if number == memories // 3:
            await story.memory.admin.consolidate(tenant)
    known = [unit.memory_id for unit in story.units if unit.tenant == tenant and unit.memory_id is not None]
    for memory_id in known[:-2]:
        await story.memory.admin.consolidate(tenant, memory_id)


async def _erase(story: _Story, tenant: str) -> None:
    """Every fifth tenant as a whole; of the others some memories and events in each way."""
    numbers = random.Random(f"{_SEED} {tenant}")
    mine = [unit for unit in story.units if unit.tenant == tenant]
    if tenant.endswith(("-3", "-8")):
        return await story.erase(tenant, "tenant", mine[0])
    # One reflection stays, as far as the others below leave it, and the other goes with what it rests on.
    doomed = next(unit.rests_on for unit in mine if unit.rests_on is not None)
    await story.erase(tenant, "text", next(unit for unit in mine if unit.position == doomed))
    for _ in range(max(1, len(mine) // 16)):
        for way in ("memory", "conversation", "text"):
            fitting = [
                unit
                for unit in story.units
                if unit.tenant == tenant
                and (way != "memory" or unit.memory_id is not None)
                and (way != "conversation" or unit.conversations)
            ]
            await story.erase(tenant, way, numbers.choice(fitting))
    # Of two memories with the same sentence, the one that was first.
    for unit in [unit for unit in story.units if unit.tenant == tenant and unit.memory_id is not None]:
        twins = [other for other in story.units if other.current is not None and other.current == unit.current]
        if len(twins) > 1:
            return await story.erase(tenant, "memory", unit)
    return None


# --- Others at work meanwhile ----------------------------------------------------------------------------------------


@pytest.mark.thorough
async def test_erasures_among_other_calls_leave_nothing_behind(
    test_server: TestServer, database: str, config: Callable[..., Config], repetitions: Repetitions
) -> None:
    """Whatever is created, changed, consolidated, rebuilt and erased at the same time, in whatever order it comes."""
    embedder = RecordingEmbedder()
    async with (
        AgentMem(config(active_memory_update_threshold=2), embedder=embedder) as memory,
        superuser(test_server, database) as db,
    ):
        for number in range(repetitions(everyday=1, reduced=4, full=40)):
            await _race(memory, db, embedder, f"race-{number}", random.Random(_SEED + number))
        assert (await memory.admin.verify()).ok


async def _race(
    memory: AgentMem, db: SqlExecutor, embedder: RecordingEmbedder, tenant: str, numbers: random.Random
) -> None:
    mint = _Aviary(numbers)
    told = {mint(): mint() for _ in range(5)}
    notes = {}
    for canary, conversation in told.items():
        note = await memory.create_active_memory(
            tenant, "Birds", f"Everybody knows the {canary} sings at dawn.", conversation_id=conversation
        )
        notes[canary] = note.id
    doomed, unnamed = list(told)[:3], set(list(told)[3:])

    async def later(call: Callable[[], Awaitable[Any]]) -> Any:
        await asyncio.sleep(numbers.random() * 0.15)
        return await call()

    calls: list[Callable[[], Awaitable[Any]]] = [
        partial(memory.admin.erase, tenant, memory_id=notes[doomed[0]]),
        partial(memory.admin.erase, tenant, conversation_id=told[doomed[1]]),
        partial(memory.admin.erase, tenant, text=doomed[2]),
    ]
    for canary, memory_id in notes.items():
        for number in range(3):
            text = f"Version {number} of the {canary} sings."
            calls.append(partial(memory.update_active_memory, tenant, memory_id, title=f"Birds {number}", content=text))
        calls.append(partial(memory.admin.consolidate, tenant, memory_id))
    calls += [
        partial(memory.admin.consolidate, tenant),
        partial(memory.admin.rebuild, tenant),
        partial(memory.admin.verify, tenant, repair=True),
        partial(memory.create_active_memory, tenant, "New", "Nothing with feathers is meant by this one."),
        partial(memory.ledger.append, tenant, "world.observed", {"sky": "grey"}),
        partial(memory.retrieve_memories, tenant, "Who sings?"),
    ]
    numbers.shuffle(calls)
    answers = await asyncio.gather(*map(later, calls), return_exceptions=True)

    unexpected = [answer for answer in answers if isinstance(answer, BaseException)]
    assert {type(error) for error in unexpected} <= {MemoryNotFoundError}, unexpected
    receipts = [answer for answer in answers if isinstance(answer, ErasureReceipt)]
    assert len(receipts) == len(doomed)
    for receipt in receipts:
        check = await memory.admin.verify_erased(receipt)
        assert check.ok, check.findings
    gone = set(doomed)
    there = _canaries_in("".join(row for rows in (await stored_rows(db, tenant)).values() for row in rows))
    assert not there & gone
    assert unnamed <= there
    hashes = {bytes(row["text_hash"]) for row in await db.fetch_all("SELECT text_hash FROM embedding_cache")}
    assert not hashes & {sha256(text.encode()) for text in embedder.texts if _canaries_in(text) & gone}
    report = await memory.admin.verify(tenant)
    assert report.ok, report
    positions = [event.position for event in await memory.ledger.read(tenant, limit=1_000)]
    assert positions == list(range(1, len(positions) + 1))
    assert positions[-1] == await memory.ledger.head(tenant)


@pytest.mark.thorough
@pytest.mark.usefixtures("attentive_server")
async def test_a_cancelled_erasure_is_made_wholly_or_not_at_all(
    test_server: TestServer, database: str, memory: AgentMem, repetitions: Repetitions
) -> None:
    """Cancelled at any moment, all is as before or nothing is left; and the next one makes it so."""
    numbers = random.Random(_SEED)
    made = 0
    async with superuser(test_server, database) as db:
        for number in range(repetitions(reduced=10, full=100)):
            tenant, canary = f"cancelled-{number}", _Aviary(numbers)()
            for index in range(3):
                await memory.create_active_memory(tenant, "Birds", f"The {canary} is number {index}.")
            kept = await memory.create_active_memory(tenant, "Fish", "The trout is number one.")
            await memory.admin.consolidate(tenant)
            before = await stored_rows(db, tenant)

            task = asyncio.create_task(memory.admin.erase(tenant, text=canary))
            await asyncio.sleep(numbers.random() * 0.2)
            task.cancel()
            await asyncio.wait([task])
            await db.execute_script("BEGIN")
            # What the server still does in the cancelled call's name ends before this lock is given.
            await db.execute(
                "SELECT head FROM memory_stream WHERE external_id = $(tenant)p FOR UPDATE", {"tenant": tenant}
            )
            await db.execute_script("ROLLBACK")

            after = await stored_rows(db, tenant)
            was_made = canary not in "".join(row for rows in after.values() for row in rows)
            made += was_made
            # Only a lock has been taken where nothing was made.
            assert was_made or {**after, "memory_stream": []} == {**before, "memory_stream": []}
            assert was_made or not (task.done() and not task.cancelled())
            assert (await memory.admin.verify(tenant)).ok
            receipt = await memory.admin.erase(tenant, text=canary)
            assert len(receipt.memory_ids) == (0 if was_made else 3)
            assert (await memory.admin.verify_erased(receipt, text=canary)).ok
            assert [note.id for note in await memory.get_active_memories(tenant)] == [kept.id]
    assert made < repetitions(reduced=10, full=100), "none was cancelled in time"
