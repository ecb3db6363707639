"""SIGKILL at any moment, of a process that writes and of the server that it writes to: what was returned is there."""

# ruff: noqa: ASYNC110 - files and processes are what is tested; nothing else is on the loop

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent_reminiscence import AgentMem, Event
from agent_reminiscence.config.constants import EMBEDDED_LOGIN
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.exceptions import StoreError
from tests.chaos.conftest import Repetitions
from tests.conftest import TestServer, dsn
from tests.support.chaos import writer
from tests.support.chaos.killing import administrator, kill_server, read_all
from tests.support.factories import superuser
from tests.support.processes import PATIENCE_SECONDS

_ROOT = Path(__file__).parents[2]


# --- A process that writes -------------------------------------------------------------------------------------------


@dataclass
class Said:
    """What a writer has said by the time it was killed.

    Attributes:
        begun: Calls by their key that may or may not have been made.
        done: Calls that had returned, with what they returned.
    """

    begun: dict[str, dict[str, Any]] = field(default_factory=dict)
    done: dict[str, dict[str, Any]] = field(default_factory=dict)

    def hear(self, line: bytes) -> None:
        """Note one line. The last one may be cut off in the middle: then its call had not been reported."""
        with suppress(json.JSONDecodeError):
            said = json.loads(line)
            if "begun" in said:
                self.begun[said["begun"]["key"]] = said["begun"]
            elif "done" in said:
                self.done[said["done"]["key"]] = said["done"]


class Writer:
    """A process that runs `writer.py`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.said = Said()

    async def hear(self, calls: int) -> None:
        """Wait until so many calls have returned."""
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.said.done) < calls:
                line = await self._process.stdout.readline()
                assert line, f"the writer ended by itself with {await self._process.wait()}"
                self.said.hear(line)

    async def kill(self) -> None:
        """SIGKILL, and hear what it had said until then."""
        assert self._process.stdout is not None
        with suppress(ProcessLookupError):
            self._process.kill()
        for line in (await self._process.stdout.read()).splitlines():
            self.said.hear(line)
        await self._process.wait()


@asynccontextmanager
async def _writing(dsn_or_folder: str, tenant: str, seed: int) -> AsyncIterator[Writer]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.support.chaos.writer",
        dsn_or_folder,
        tenant,
        str(seed),
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        # What it says of a server that was killed under it is no news here.
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    started = Writer(process)
    try:
        yield started
    finally:
        await started.kill()


# Calls without a key that put a memory on the active list or take it off, and their events.
_LISTS = {"archive": "memory.archived", "unarchive": "memory.unarchived"}


# --- What must be true afterwards ------------------------------------------------------------------------------------


def _says(event: Event) -> str | None:
    """The text that an event of one call holds; None for a version that has the text of the one before it."""
    payload = event.payload
    match event.kind:
        case "memory.created":
            return str(payload["content"])
        case "memory.updated":
            content: str | None = payload["changes"].get("content")
            return content
        case "memory.appended":
            return str(payload["content"]).lstrip("\n")
        case _:
            return str(payload["text"])


def _ids(event: Event) -> list[str]:
    """What a caller has called what an event holds: its idempotency key, or the ids of a conversation's turns."""
    if event.idempotency_key is not None:
        return [event.idempotency_key]
    payload = event.payload
    match event.kind:
        case "memory.created":
            return [turn["id"] for turn in payload["metadata"]["turns"]]
        case "memory.appended":
            return [turn["id"] for turn in payload["turns"]]
        case _:
            return []


def _ids_of(call: dict[str, Any]) -> list[str]:
    """The same of a call, in the order of its writing."""
    key: str = call["key"]
    return [str(turn.id) for turn in writer.turns_of(key)] if call["call"] == "say" else [key]


async def _check_all_returned(memory: AgentMem, tenant: str, said: Said) -> None:
    """Every call that had returned is in the ledger, where it said and with what it wrote; no position is left out."""
    events = [await memory.ledger.whole(event) for event in await read_all(memory, tenant)]
    assert [event.position for event in events] == list(range(1, len(events) + 1))
    written = [(id_, event.position) for event in events for id_ in _ids(event)]
    positions = dict(written)
    assert len(positions) == len(written), "something was written twice"
    _check_lists(events, said)
    for call in said.done.values():
        if call["call"] in _LISTS:
            continue
        assert all(id_ in positions for id_ in _ids_of(call))
        # Turns whose COMMIT was lost from sight were known when the library itself repeated it.
        if call["call"] != "say" or "position" in call:
            assert positions[_ids_of(call)[-1]] == call["position"]
    # Whatever else is there was begun, and is there as a whole.
    whole = {id_: _ids_of(call) for call in said.begun.values() for id_ in _ids_of(call)}
    for event in events:
        for id_ in _ids(event):
            assert [one for one, _ in written if one in whole[id_]] == whole[id_]
        if event.idempotency_key is not None:
            assert _says(event) in (None, writer.text_of(_author(event.idempotency_key, said)))
        if event.kind == "world.carried":
            assert event.payload["reading"] == writer.reading_of(_ids(event)[0])
    await _check_turns(memory, tenant, events, said)


def _author(key: str, said: Said) -> str:
    """The key whose text a call writes: its own, or that of the call that created what it restores."""
    call = said.begun[key]
    if call["call"] != "restore":
        return key
    created = (one for one in said.done.values() if one["call"] == "create" and one["memory_id"] == call["memory_id"])
    return str(next(created)["key"])


def _check_lists(events: Sequence[Event], said: Said) -> None:
    """What was archived or taken back as often as was returned is so in the ledger, or once more."""
    written = Counter((event.kind, event.payload["memory_id"]) for event in events if event.kind in _LISTS.values())
    for calls, minimum in ((said.done, True), (said.begun, False)):
        counted = Counter((_LISTS[one["call"]], one["memory_id"]) for one in calls.values() if one["call"] in _LISTS)
        for what, times in counted.items():
            assert written[what] >= times if minimum else written[what] <= times


async def _check_turns(memory: AgentMem, tenant: str, events: Sequence[Event], said: Said) -> None:
    """The conversation holds each turn that was recorded once, word for word, and in the order of recording."""
    begun = [turn for call in said.begun.values() if call["call"] == "say" for turn in writer.turns_of(call["key"])]
    texts = {turn.id: turn.text for turn in begun}
    recorded = [id_ for event in events if event.idempotency_key is None for id_ in _ids(event)]
    turns = await memory.conversation(tenant, writer.CHAT).turns(10_000)
    assert [(turn.id, turn.text) for turn in turns] == [(id_, texts[id_]) for id_ in recorded]


async def _check_whole(memory: AgentMem, db: SqlExecutor, tenant: str) -> None:
    """Nothing is half-written: the tiers are what the ledger gives, and the chunks of each memory tile its text."""
    (report,) = (await memory.admin.verify(tenant)).streams
    assert (report.faults, report.drift) == ((), ())
    untiled = await db.fetch_all(
        "WITH part AS ("
        "  SELECT memory_id, 0 AS segment, content, chunk_ids FROM active_memory WHERE external_id = $(tenant)p::text"
        "  UNION ALL"
        "  SELECT memory_id, segment, content, chunk_ids FROM memory_segment WHERE external_id = $(tenant)p::text"
        "), whole AS ("
        "  SELECT memory_id, string_agg(content, '' ORDER BY segment) AS content FROM part GROUP BY memory_id"
        "), tiles AS ("
        "  SELECT part.memory_id, string_agg(c.content, '' ORDER BY part.segment, layout.place) AS content"
        "  FROM part"
        "  CROSS JOIN LATERAL unnest(part.chunk_ids) WITH ORDINALITY AS layout (chunk_id, place)"
        "  JOIN memory_chunk AS c ON c.external_id = $(tenant)p::text AND c.chunk_id = layout.chunk_id"
        "  GROUP BY part.memory_id"
        ") "
        "SELECT memory_id FROM whole LEFT JOIN tiles USING (memory_id)"
        " WHERE whole.content IS DISTINCT FROM tiles.content",
        {"tenant": tenant},
    )
    assert untiled == []
    alone = await db.fetch_all(
        "SELECT c.chunk_id FROM memory_chunk AS c WHERE c.external_id = $(tenant)p::text AND NOT EXISTS ("
        "  SELECT FROM active_memory AS m WHERE m.external_id = c.external_id AND m.memory_id = c.memory_id)",
        {"tenant": tenant},
    )
    assert alone == []


async def _check_repeated(memory: AgentMem, tenant: str, said: Said, dice: random.Random) -> None:
    """A retry of what had returned gives the same; of what had only begun, it writes once at most."""
    # Without a key, a retry would archive again what was taken back.
    keyed = sorted(key for key, call in said.done.items() if call["call"] not in _LISTS)
    for key in dice.sample(keyed, min(5, len(keyed))):
        call = said.done[key]
        head = await memory.ledger.head(tenant)
        assert call.items() >= (await writer.repeat(memory, tenant, call)).items()
        assert await memory.ledger.head(tenant) == head
    archived = {
        event.payload["memory_id"] for event in await read_all(memory, tenant) if event.kind == "memory.archived"
    }
    for key in sorted(said.begun.keys() - said.done.keys()):
        call = said.begun[key]
        if call.get("memory_id") in archived:
            continue  # refused, as it may have been before
        first = await writer.repeat(memory, tenant, call)
        head = await memory.ledger.head(tenant)
        # Of turns that are known nothing is returned, of all other calls the same.
        assert (await writer.repeat(memory, tenant, call)).items() <= first.items()
        assert await memory.ledger.head(tenant) == head
        said.done[key] = call | first
    await _check_all_returned(memory, tenant, said)


async def _check_found(memory: AgentMem, db: SqlExecutor, tenant: str, dice: random.Random) -> None:
    """What was killed before it had made its vectors gets them later; each chunk is found by its words and by them."""
    await memory.admin.consolidate(tenant)
    (report,) = (await memory.admin.verify(tenant)).streams
    assert (report.faults, report.drift, report.missing_vectors) == ((), (), 0)
    live = await db.fetch_all(
        "SELECT content FROM memory_chunk WHERE external_id = $(tenant)p::text AND superseded_at IS NULL"
        " AND content ~ '^(user: )?Keeper' ORDER BY chunk_id",
        {"tenant": tenant},
    )
    for row in dice.sample(live, min(3, len(live))):
        found = await memory.retrieve_memories(tenant, row["content"], limit=50)
        (hit,) = [hit for hit in found.hits if hit.content == row["content"]]
        # Not always the very first: a neighbour says nearly the same, and the windows around a chunk count too.
        assert found.hits.index(hit) < 5
        assert {"words", "meaning"} <= hit.score_parts.keys()


async def _check(memory: AgentMem, db: SqlExecutor, tenant: str, said: Said, dice: random.Random) -> None:
    await _check_all_returned(memory, tenant, said)
    await _check_whole(memory, db, tenant)
    await _check_repeated(memory, tenant, said, dice)
    await _check_found(memory, db, tenant, dice)


# --- The writer is killed --------------------------------------------------------------------------------------------


async def _wait_until_gone(db: SqlExecutor, database: str) -> None:
    """Wait for the server's processes of a client that is gone: one of them may still commit."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await db.fetch_all(
            "SELECT pid FROM pg_stat_activity WHERE usename = $(login)p::text AND datname = $(database)p::text",
            {"login": EMBEDDED_LOGIN, "database": database},
        ):
            await asyncio.sleep(0.01)


@pytest.mark.thorough
async def test_a_killed_process_loses_nothing_that_had_returned(
    test_server: TestServer, database: str, repetitions: Repetitions
) -> None:
    """SIGKILL after a random number of calls and milliseconds, in the middle of several calls."""
    dsn_or_folder = dsn(test_server.login(database))
    async with superuser(test_server, database) as db:
        for seed in range(repetitions(everyday=2, reduced=5, full=200)):
            dice, tenant = random.Random(seed), f"killed-{seed}"
            async with _writing(dsn_or_folder, tenant, seed) as writing:
                await writing.hear(dice.randrange(1, 40))
                await asyncio.sleep(dice.uniform(0, 0.05))
            await _wait_until_gone(db, database)
            async with AgentMem(writer.settings_for(dsn_or_folder)) as memory:
                await _check(memory, db, tenant, writing.said, dice)


# --- The server is killed --------------------------------------------------------------------------------------------


# The memory that outlives its server, below, shows it every day.
@pytest.mark.thorough
async def test_a_killed_server_loses_nothing_that_had_returned(data_dir: Path, repetitions: Repetitions) -> None:
    """SIGKILL for the embedded server in the middle of several calls; the next start finds all that had returned.

    In turn for the postmaster alone and for all its processes, and with a writer that is killed at once or only
    after it has seen its server die.
    """
    for seed in range(repetitions(everyday=1, reduced=2, full=50)):
        dice, tenant = random.Random(seed), f"agent-{seed}"
        async with _writing(str(data_dir), tenant, seed) as writing:
            await writing.hear(dice.randrange(1, 40))
            await asyncio.sleep(dice.uniform(0, 0.05))
            await asyncio.to_thread(kill_server, data_dir, with_children=bool(seed % 2))
            await asyncio.sleep(dice.choice((0, 0, 0.3)))

        async with AgentMem(writer.settings_for(str(data_dir))) as memory, administrator(data_dir) as db:
            await _check(memory, db, tenant, writing.said, dice)

    async with AgentMem(writer.settings_for(str(data_dir))) as memory:
        assert (await memory.admin.verify()).ok


@pytest.mark.thorough
async def test_an_open_memory_outlives_its_killed_server(data_dir: Path, repetitions: Repetitions) -> None:
    """The server is killed under calls of this very process; each returns after a restart, or says that it did not.

    Repeated with their idempotency keys and turn ids those that failed write once, and all that returned is there.
    """
    dice, tenant, said = random.Random(0), "agent-1", Said()

    async def write(memory: AgentMem, worker: int, stopped: asyncio.Event) -> None:
        number, last = 0, None
        while not stopped.is_set():
            call: dict[str, Any] = {"key": f"{worker}-{number}", "call": ("create", "say", "append")[number % 3]}
            if call["call"] == "append":
                call |= {"memory_id": last} if last is not None else {"call": "create"}
            said.begun[call["key"]] = call
            with suppress(StoreError):
                made = await writer.repeat(memory, tenant, call)
                said.done[call["key"]] = call | made
                last = made.get("memory_id", last)
            number += 1

    async with AgentMem(writer.settings_for(str(data_dir))) as memory:
        stopped = asyncio.Event()
        async with asyncio.TaskGroup() as writers:
            for worker in range(3):
                writers.create_task(write(memory, worker, stopped))
            for kill in range(repetitions(reduced=1, full=15)):
                await asyncio.sleep(dice.uniform(0.2, 0.6))
                await asyncio.to_thread(kill_server, data_dir, with_children=bool(kill % 2))
            returned = len(said.done)
            async with asyncio.timeout(PATIENCE_SECONDS):
                while len(said.done) == returned:
                    await asyncio.sleep(0.05)
            stopped.set()
        async with administrator(data_dir) as db:
            await _check(memory, db, tenant, said, dice)
