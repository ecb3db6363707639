"""Following a stream: how soon events come, whether any is lost or repeated, and what it costs those who write.

    python -m benchmarks.subscribe [--seconds 30] [--rate 1000] [--rounds 8] [--writes 200] [--quick]

Everything runs on one embedded server as shipped. Writers and subscribers are processes of their own.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from uuid_utils.compat import uuid7

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.core import utc_now
from agent_reminiscence.database.announcements import channel_of
from agent_reminiscence.database.connection import SqlExecutor, open_connection
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.domain.event import NewEvent
from benchmarks.common import Timing, changed, print_table, scratch_folder, write_json
from benchmarks.jobs import Server, embedded_server

_CHECKOUT = Path(__file__).parent.parent
_STREAM = "world"
# Events of one transaction: a call of its own for each would take longer than a thousandth of a second.
_BATCH = 20
_NEIGHBOURS = 4
_LISTENERS = (
    "SELECT pid FROM pg_stat_activity"
    " WHERE datname = current_database() AND application_name = 'agent_reminiscence subscriber'"
)


def _memory(dsn: str) -> AgentMem:
    return AgentMem(Config(postgres_dsn=SecretStr(dsn), worker=False))


# --- The other processes ----------------------------------------------------------------------------------------------


async def write(dsn: str, events: int, rate: float) -> None:
    """Append so many events to one stream at so many a second, many in a transaction."""
    async with _memory(dsn) as memory:
        assert memory._parts is not None
        runtime = memory._parts.services.runtime
        ledger = runtime.repositories.events
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        started = time.perf_counter()
        for first in range(0, events, _BATCH):
            await asyncio.sleep(max(0.0, started + first / rate - time.perf_counter()))
            async with runtime.store.transaction(_STREAM) as db:
                await ledger.lock(db, _STREAM)
                for number in range(first, min(first + _BATCH, events)):
                    event = NewEvent(
                        external_id=_STREAM,
                        event_id=uuid7(),
                        kind="world.observed",
                        payload={"n": number},
                        occurred_at=utc_now(),
                        source="tool",
                    )
                    await ledger.append(db, event)
        print(time.perf_counter() - started, flush=True)


async def follow(dsn: str, streams: Sequence[str]) -> None:
    """Follow some streams until standard input ends."""
    async with _memory(dsn) as memory:
        assert memory._parts is not None

        async def consume(stream: str) -> None:
            head = await memory.ledger.head(stream)
            async with aclosing(memory.ledger.subscribe(stream, after=head)) as events:
                async for _ in events:
                    pass

        tasks = [asyncio.create_task(consume(stream)) for stream in streams]
        while not memory._parts.subscriptions._heard:  # noqa: ASYNC110 - nothing says it
            await asyncio.sleep(0.01)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


@asynccontextmanager
async def _process(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """This script in another process, once it is ready; it ends when its input does."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "benchmarks.subscribe",
        *arguments,
        cwd=_CHECKOUT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert (await process.stdout.readline()) == b"ready\n"
        yield process
    finally:
        process.stdin.close()
        await process.wait()


# --- What comes -------------------------------------------------------------------------------------------------------


async def measure_flow(server: Server, *, seconds: float, rate: float, reconnects: int) -> dict[str, Any]:
    """Follow a stream that grows by `rate` events a second, while the listening connection is ended now and then."""
    database = f"flow_{reconnects}"
    await server.create_database(database)
    events = int(seconds * rate)
    positions: list[int] = []
    lags: list[float] = []
    admin = await open_connection(server.administrator(database))

    async def consume(memory: AgentMem) -> None:
        async with aclosing(memory.ledger.subscribe(_STREAM)) as stream:
            async for event in stream:
                positions.append(event.position)
                lags.append(time.time() - event.recorded_at.timestamp())
                if event.position >= events:
                    return

    try:
        async with (
            _process("--write", server.dsn(database), str(events), str(rate)) as writer,
            _memory(server.dsn(database)) as memory,
        ):
            assert writer.stdin is not None
            assert writer.stdout is not None
            consuming = asyncio.create_task(consume(memory))
            await _listener(admin, consuming)
            writer.stdin.write(b"\n")
            ended = 0
            for _ in range(reconnects):
                await asyncio.sleep(seconds / (reconnects + 1))
                # A short stream may end before the listener is back.
                if (listener := await _listener(admin, consuming)) is None:
                    break
                await admin.execute("SELECT pg_terminate_backend($(pid)p)", {"pid": listener})
                ended += 1
                print(f"ended the listener {ended} at event {len(positions)}", flush=True)
            written_in = float(await writer.stdout.readline())
            await asyncio.wait_for(consuming, 120)
    finally:
        admin.close()
    return {
        "reconnects": ended,
        "events": events,
        "per_second": round(events / written_in),
        "missing": events - len(set(positions)),
        "repeated": len(positions) - len(set(positions)),
        "out_of_order": sum(1 for one, other in pairwise(positions) if other != one + 1),
        "lag": Timing.of(lags),
        "max_lag_ms": round(1000 * max(lags)),
    }


async def _listener(admin: SqlExecutor, consuming: asyncio.Task[None]) -> int | None:
    """The process of the listening connection, once there is one; None if nobody follows any more."""
    while not consuming.done():
        if rows := await admin.fetch_all(_LISTENERS):
            return int(rows[0]["pid"])
        await asyncio.sleep(0.01)
    return None


# --- What it costs ----------------------------------------------------------------------------------------------------

_MODES = (
    "nobody follows",
    "another is followed",
    "another is followed, notified within each write",
    "all are followed",
)


async def measure_neighbours(server: Server, *, rounds: int, writes: int) -> list[dict[str, Any]]:
    """How long appends to some streams take, at the same time, while others write another stream.

    The modes take turns. In the third each write notifies in its own transaction, as it would without further thought.
    """
    database = "neighbours"
    await server.create_database(database)
    seconds: dict[str, list[float]] = {mode: [] for mode in _MODES}
    neighbours = [f"neighbour-{number}" for number in range(_NEIGHBOURS)]
    followed = {
        _MODES[0]: [],
        _MODES[1]: [_STREAM],
        _MODES[2]: [_STREAM],
        _MODES[3]: [_STREAM, *neighbours],
    }
    async with _memory(server.dsn(database)) as memory:
        for number in range(rounds + 1):
            for mode in [*_MODES[number % len(_MODES) :], *_MODES[: number % len(_MODES)]]:
                # The first round is not counted.
                kept = seconds[mode] if number else []
                if not followed[mode]:
                    await _write_together(memory, neighbours, writes, kept)
                    continue
                async with _process("--follow", server.dsn(database), *followed[mode]):
                    if mode != _MODES[2]:
                        await _write_together(memory, neighbours, writes, kept)
                        continue
                    with changed(PostgresManager, _commit=_commit_within):
                        await _write_together(memory, neighbours, writes, kept)
    return [{"mode": mode, "append": Timing.of(seconds[mode])} for mode in _MODES]


def _commit_within(store: PostgresManager, connection: SqlExecutor, external_id: str) -> str:
    """The end of a transaction that notifies before its COMMIT, whether or not anybody listens."""
    if store.announcements is None or not connection.has_appended:
        return "COMMIT"
    stream = store.announcements.name_of(external_id)
    return f"SELECT pg_notify('{channel_of(stream.bucket)}', '{stream.name}'); COMMIT"


async def _write_together(memory: AgentMem, streams: Sequence[str], writes: int, seconds: list[float]) -> None:
    """Append to all streams and to the one beside them; the neighbours' calls are timed."""

    async def append(stream: str, kept: list[float]) -> None:
        for number in range(writes):
            started = time.perf_counter()
            await memory.ledger.append(stream, "world.observed", {"n": number})
            kept.append(time.perf_counter() - started)

    await asyncio.gather(append(_STREAM, []), *(append(stream, seconds) for stream in streams))


async def run(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Everything, one part after the other."""
    async with embedded_server(folder) as server:
        flows = [
            await measure_flow(server, seconds=arguments.seconds, rate=arguments.rate, reconnects=reconnects)
            for reconnects in (0, 2)
        ]
        neighbours = await measure_neighbours(server, rounds=arguments.rounds, writes=arguments.writes)
    print_table(
        (
            "reconnects",
            "events",
            "per second",
            "missing",
            "repeated",
            "out of order",
            "write to reader, p50 / p95",
            "max",
        ),
        [
            (
                *(one[name] for name in ("reconnects", "events", "per_second", "missing", "repeated", "out_of_order")),
                one["lag"],
                f"{one['max_lag_ms']} ms",
            )
            for one in flows
        ],
    )
    print_table((f"{_NEIGHBOURS} writers at once", "append, p50 / p95"), [tuple(one.values()) for one in neighbours])
    if lost := [one for one in flows if one["missing"] or one["repeated"] or one["out_of_order"]]:
        raise SystemExit(f"events were lost, repeated or out of order: {lost}")
    return {"flows": flows, "neighbours": neighbours}


def main() -> None:
    """Parse the arguments, measure, print tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=30.0, help="how long the stream grows")
    parser.add_argument("--rate", type=float, default=1_000.0, help="events a second")
    parser.add_argument("--rounds", type=int, default=8, help="turns of each mode")
    parser.add_argument("--writes", type=int, default=200, help="appends of each writer in a turn")
    parser.add_argument("--quick", action="store_true", help="a smoke run, whose figures say little")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--write", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--follow", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.write:
        dsn, events, rate = arguments.write
        asyncio.run(write(dsn, int(events), float(rate)))
        return
    if arguments.follow:
        dsn, *streams = arguments.follow
        asyncio.run(follow(dsn, streams))
        return
    if arguments.quick:
        arguments.seconds, arguments.rounds, arguments.writes = 3.0, 1, 30
    with scratch_folder("reminiscence-subscribe-") as folder:
        result = asyncio.run(run(arguments, folder))
    if arguments.json:
        write_json(arguments.json, result)


if __name__ == "__main__":
    main()
