"""Faults of Neo4j and of those who follow it: writes go on meanwhile, and one catch-up afterwards makes it good."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from uuid import UUID

from neo4j import AsyncGraphDatabase

from agent_reminiscence import AgentMem, Config
from tests.chaos.conftest import Repetitions
from tests.support.chaos import writer
from tests.support.chaos.graph_worker import neo4j_settings
from tests.support.chaos.killing import administrator
from tests.support.neo4j_server import Neo4jServer

_ROOT = Path(__file__).parents[2]
# A comparison that was broken off counts as such after three times Neo4j's timeout, which is 30 seconds in the checks.
_PATIENCE_SECONDS = 150.0
_NEO4J_TIMEOUT_SECONDS = 8.0
# But for erasures, which wait for Neo4j up to five seconds.
_LONGEST_CALL_SECONDS = 5.0
_TENANTS = ("agent0", "agent1", "agent2")
_PEOPLE = (
    "Ana Sousa",
    "Piet Bakker",
    "Marta Lind",
    "Jonas Weber",
    "Ida Holm",
    "Omar Haddad",
    "Lucia Rossi",
    "Tom Reed",
)
_PLACES = ("Lisbon", "Porto", "Bergen", "Rotterdam", "Bologna")


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to the server, and how it is put right; both are called in a thread."""

    name: str
    strike: Callable[[Neo4jServer], None]
    heal: Callable[[Neo4jServer], None]


def _kill_and_wipe(server: Neo4jServer) -> None:
    server.kill()
    server.wipe()


_STOPPED = Fault("stopped", Neo4jServer.stop, Neo4jServer.start)
_KILLED = Fault("SIGKILLed", Neo4jServer.kill, Neo4jServer.start)
_FROZEN = Fault("frozen", Neo4jServer.freeze, Neo4jServer.thaw)
_EMPTIED = Fault("restarted empty", _kill_and_wipe, Neo4jServer.start)
_ALL = (_STOPPED, _KILLED, _FROZEN, _EMPTIED)
# An emptied server has been killed before.
_FEW = (_FROZEN, _EMPTIED)


@dataclass
class Told:
    """What was done, for the last line of a test."""

    calls: Counter[str] = field(default_factory=Counter)
    longest_call_seconds: float = 0.0
    catch_up_seconds: float = 0.0
    edges: int = 0


def _config(data_dir: Path, server: Neo4jServer, *, worker: bool = False) -> Config:
    settings = neo4j_settings(server.address) | {"neo4j_timeout_seconds": _NEO4J_TIMEOUT_SECONDS}
    return writer.settings_for(str(data_dir), worker=worker, **writer.HASTE, **settings)


def _text(dice: random.Random) -> str:
    """Two to five sentences about few people and places, so that most of them recur."""
    sentences = []
    for _ in range(dice.randrange(2, 6)):
        one, other = dice.sample(_PEOPLE, 2)
        sentences.append(f"{one} met {other} in {dice.choice(_PLACES)}, at table {dice.randrange(100)}.")
    return "\n\n".join(sentences)


# Writers ------------------------------------------------------------------------------------------


async def _write(memory: AgentMem, tenant: str, dice: random.Random, told: Told, stopped: asyncio.Event) -> None:
    """Call all that changes a graph, and recall, without a pause; none of it may fail for Neo4j's sake."""
    mine: list[UUID] = []
    while not stopped.is_set():
        call = (
            dice.choices(("create", "update", "archive", "erase", "recall"), (5, 5, 1, 1, 3))[0] if mine else "create"
        )
        began = time.monotonic()
        match call:
            case "create":
                note = await memory.create_active_memory(tenant, "Meetings", _text(dice))
                await memory.admin.consolidate(tenant, note.id)
                mine.append(note.id)
            case "update":
                memory_id = dice.choice(mine)
                await memory.update_active_memory(tenant, memory_id, content=_text(dice))
                await memory.admin.consolidate(tenant, memory_id)
            case "archive":
                await memory.admin.archive(tenant, mine.pop(0), end_chunks=True)
            case "erase":
                await memory.admin.erase(tenant, memory_id=mine.pop(0))
            case "recall":
                await memory.retrieve_memories(tenant, f"whom did {dice.choice(_PEOPLE)} meet?")
        told.calls[call] += 1
        if call != "erase":
            told.longest_call_seconds = max(told.longest_call_seconds, time.monotonic() - began)


async def _write_through(
    data_dir: Path, server: Neo4jServer, fault: Fault, dice: random.Random, told: Told, pause_seconds: float
) -> None:
    """Write before, during and after a fault, with a worker beside it that follows."""
    stopped = asyncio.Event()
    async with AgentMem(_config(data_dir, server, worker=True)) as memory, asyncio.TaskGroup() as writers:
        for tenant in _TENANTS:
            writers.create_task(_write(memory, tenant, dice, told, stopped))
        await asyncio.sleep(dice.uniform(0.5, 1.0) * pause_seconds)
        await asyncio.to_thread(fault.strike, server)
        await asyncio.sleep(dice.uniform(0.5, 1.0) * pause_seconds)
        await asyncio.to_thread(fault.heal, server)
        await asyncio.sleep(dice.uniform(0.2, 1.0) * pause_seconds)
        stopped.set()


# What must be true afterwards ---------------------------------------------------------------------


async def _check(data_dir: Path, server: Neo4jServer, told: Told) -> None:
    """One catch-up of each tenant, and both stores hold the same: each edge that there is, and each once."""
    # A server that has just started takes its time.
    settings = _config(data_dir, server).model_copy(update={"neo4j_timeout_seconds": 30.0})
    async with AgentMem(settings) as memory:
        began = time.monotonic()
        for tenant in _TENANTS:
            await _catch_up(memory, tenant)
            assert (await memory.admin.usage(tenant)).graph_lag == 0
        told.catch_up_seconds = max(told.catch_up_seconds, time.monotonic() - began)
        audit = await memory.admin.verify()
    assert audit.ok
    assert {stream.graph for stream in audit.streams} == {"current"}
    assert [stream.drift for stream in audit.streams if stream.drift] == []
    stored = await _edges_in_postgres(data_dir)
    found = await _edges_in_neo4j(server)
    assert found == stored
    assert set(found.values()) <= {1}
    told.edges = len(found)


async def _catch_up(memory: AgentMem, tenant: str) -> None:
    """One catch-up, as soon as it may be: who died over a comparison is waited for until that is known."""
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while True:
            report = await memory.admin.run_due(tenant)
            assert report.error is None
            if report.graph_followed:
                return
            await asyncio.sleep(0.5)


async def _edges_in_postgres(data_dir: Path) -> Counter[str]:
    async with administrator(data_dir) as db:
        rows = await db.fetch_all("SELECT relationship_id FROM relationship WHERE from_id <> to_id")
    return Counter(str(row["relationship_id"]) for row in rows)


async def _edges_in_neo4j(server: Neo4jServer) -> Counter[str]:
    address = server.address
    driver = AsyncGraphDatabase.driver(address.uri, auth=(address.user, address.password), telemetry_disabled=True)
    async with driver:
        records, _, _ = await driver.execute_query("MATCH ()-[r]->() RETURN r.id AS id", database_=address.database)
    return Counter(record["id"] for record in records)


# The tests ----------------------------------------------------------------------------------------


async def test_neo4j_may_stop_die_freeze_and_lose_everything(
    data_dir: Path, own_neo4j_server: Neo4jServer, repetitions: Repetitions
) -> None:
    """No call fails for it, and after each fault one catch-up leaves nothing to be found by `verify`."""
    dice, told = random.Random(6), Told()
    faults = _ALL * 5 if repetitions.is_full else _FEW
    for fault in faults:
        await _write_through(
            data_dir, own_neo4j_server, fault, dice, told, pause_seconds=4 if repetitions.is_full else 1
        )
        await _check(data_dir, own_neo4j_server, told)
        sys.stdout.write(f"\n{fault.name}: {told.calls.total()} calls so far, {told.edges} edges, each once")
        sys.stdout.flush()

    calls = ", ".join(f"{number} {call}" for call, number in sorted(told.calls.items()))
    sys.stdout.write(
        f"\nNeo4j was {', '.join(dict.fromkeys(fault.name for fault in faults))}, {len(faults)} faults in all; no call"
        f" failed ({calls}), the longest but for erasures took {told.longest_call_seconds:.2f} s; {told.edges} edges,"
        f" the longest catch-up {told.catch_up_seconds:.2f} s\n"
    )
    assert told.edges > 0
    # Nobody waits for a Neo4j that is silent, neither for its timeout nor for more than one deadline of recall's.
    assert told.longest_call_seconds < _LONGEST_CALL_SECONDS


async def test_a_worker_may_die_between_applying_and_recording(
    data_dir: Path, tmp_path: Path, own_neo4j_server: Neo4jServer, repetitions: Repetitions
) -> None:
    """What Neo4j has taken over and nobody has noted is neither lost nor taken over twice."""
    dice, told = random.Random(7), Told()
    rounds = repetitions(reduced=2, full=20)
    for _ in range(rounds):
        async with AgentMem(_config(data_dir, own_neo4j_server)) as memory:
            for tenant in _TENANTS:
                for _ in range(dice.randrange(1, 4)):
                    note = await memory.create_active_memory(tenant, "Meetings", _text(dice))
                    await memory.admin.consolidate(tenant, note.id)
        await _follow_and_die(data_dir, own_neo4j_server, dice.choice(_TENANTS), tmp_path / "worker.log")
        await _check(data_dir, own_neo4j_server, told)

    sys.stdout.write(f"\n{rounds} workers killed between applying and recording; {told.edges} edges, each once\n")
    assert told.edges > 0


async def _follow_and_die(data_dir: Path, server: Neo4jServer, tenant: str, log: Path) -> None:
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.support.chaos.graph_worker",
            str(data_dir),
            json.dumps(asdict(server.address)),
            tenant,
            cwd=_ROOT,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
    said = b""
    try:
        assert process.stdout is not None
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                said = await process.stdout.readline()
    finally:
        process.kill()
        await process.wait()
    assert said == b"applied\n", await asyncio.to_thread(log.read_text)
