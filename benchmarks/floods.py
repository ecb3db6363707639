"""One caller floods the server: what is left for another tenant?

    python -m benchmarks.floods [--seconds 20] [--rounds 3] [--chunks 1000] [--floods forged long …] [--quick]

The server is `agent-reminiscence serve --keys` as shipped, on an embedded server. The victim has a key of its own and
recalls again as soon as it has an answer, with nobody else there and then beside each flood. Each flood comes from a
process of its own, and shares the processors with server, database and victim:

- `silent`: 1,100 connections that send nothing; `half`: as many that send half a head. Both connect again at once.
- `forged`: 300 requests in flight, each with another wrong key.
- `long`: 32 questions of 19,000 characters in flight, with a valid key of another tenant.
- `streams`: 300 streams of events, with another tenant's key that may read. The victim also opens a stream.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import secrets
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import numpy as np

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.server.connections.files import raise_file_limit
from benchmarks.common import print_table, scratch_folder, write_json
from benchmarks.served import Client, serving
from benchmarks.synthetic import WordModel

_SEED: Final = 20_261_129
_VICTIM, _FLOODER = "victim", "flooder"
_CHECKOUT = Path(__file__).parent.parent
# So that neither key's own rate ends a flood or the victim's calls.
_ANY_RATE: Final = 1_000_000
_LONG_QUESTION: Final = 19_000
# What a flood needs to be in full force.
_HEAD_START: Final = 4.0
_ALLOWED_RATIO: Final = 3.0


# --- The floods ------------------------------------------------------------------------------------------------------


async def _hold(place: tuple[str, int], sent: bytes) -> None:
    """Open a connection, send this, and wait until the server closes it."""
    reader, writer = await asyncio.open_connection(*place)
    try:
        writer.write(sent)
        while await reader.read(65_536):
            pass
    finally:
        writer.close()


async def _forge(url: str) -> None:
    client = Client(url, f"ar_{secrets.token_urlsafe(32)}")
    try:
        await client.post("/v1/recall", {"query": "Where is the key?"})
    finally:
        client.close()


async def _ask_long(client: Client, words: WordModel) -> None:
    question = " ".join(words.question() for _ in range(_LONG_QUESTION // 20))[:_LONG_QUESTION]
    await client.post("/v1/recall", {"query": question})


async def flood(kind: str, url: str, secret: str) -> None:
    """Flood until somebody ends this process."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    place = (parts.hostname, parts.port)
    stream = (
        f"GET /v1/events?after=latest HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n"
        f"Authorization: Bearer {secret}\r\n\r\n"
    ).encode()
    words = WordModel(_SEED + 2)

    def asking() -> Callable[[], Awaitable[None]]:
        client = Client(url, secret)
        return lambda: _ask_long(client, words)

    calls: dict[str, tuple[int, Callable[[], Callable[[], Awaitable[None]]]]] = {
        "silent": (1_100, lambda: lambda: _hold(place, b"")),
        "half": (1_100, lambda: lambda: _hold(place, b"POST /v1/recall HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: ")),
        "forged": (300, lambda: lambda: _forge(url)),
        "long": (32, asking),
        "streams": (300, lambda: lambda: _hold(place, stream)),
    }
    number, made = calls[kind]

    async def repeat(call: Callable[[], Awaitable[None]]) -> None:
        while True:
            with suppress(OSError, EOFError):
                await call()
            # A client that is refused without a word and calls again at once is the flood; one that never lets its own
            # loop turn is only busy with itself.
            await asyncio.sleep(0)

    await asyncio.gather(*(repeat(made()) for _ in range(number)))


@asynccontextmanager
async def flooding(kind: str, url: str, secret: str) -> AsyncIterator[None]:
    """A flood in a process of its own, in full force."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.floods", "--flood", kind, url, secret), cwd=_CHECKOUT
    )
    try:
        await asyncio.sleep(_HEAD_START)
        if process.returncode is not None:
            raise SystemExit(f"the flood {kind!r} ended by itself with {process.returncode}")
        yield
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


# --- The victim ------------------------------------------------------------------------------------------------------


@dataclass
class Calls:
    """What the victim's calls came to.

    Attributes:
        seconds: Of each call that was answered.
        failed: What the others came to: a status, or the name of an error.
        is_stream_open: Whether a stream of its own was accepted.
    """

    seconds: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    is_stream_open: bool = False

    def percentile(self, percent: float) -> float:
        """Of the calls that were answered, in milliseconds."""
        return float(np.percentile(self.seconds, percent)) * 1000 if self.seconds else float("inf")


async def _can_stream(url: str, secret: str) -> bool:
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        writer.write(
            b"GET /v1/events?after=latest HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n"
            + f"Authorization: Bearer {secret}\r\n\r\n".encode()
        )
        return b" 200 " in await reader.readline()
    finally:
        writer.close()


async def suffer(url: str, secret: str, questions: list[str], seconds: float) -> Calls:
    """Recall for some time, one call after the other."""
    client, calls, began = Client(url, secret), Calls(), time.perf_counter()
    calls.is_stream_open = await _can_stream(url, secret)
    while time.perf_counter() - began < seconds:
        asked = time.perf_counter()
        try:
            status, _, _ = await client.post("/v1/recall", {"query": random.choice(questions)})
        except (OSError, EOFError) as error:
            client.close()
            calls.failed.append(type(error).__name__)
            continue
        if status == 200:
            calls.seconds.append(time.perf_counter() - asked)
        else:
            calls.failed.append(str(status))
    client.close()
    return calls


# --- The measurement -------------------------------------------------------------------------------------------------


async def _fill(data_dir: Path, chunks: int, words: WordModel) -> tuple[str, str]:
    """Give both tenants something to find, and return their keys."""
    async with AgentMem(Config(data_dir=data_dir, worker=False)) as memory:
        keys = []
        for tenant in (_VICTIM, _FLOODER):
            for number in range(chunks // 50):
                text = "\n\n".join(words.sentence(words.topic()) for _ in range(50))
                await memory.create_active_memory(tenant, f"Note {number}", text)
            scopes = ["memory:read"]
            made = await memory.admin.keys.create(tenant, scopes=scopes, requests_per_minute=_ANY_RATE)
            keys.append(made.secret)
    return keys[0], keys[1]


async def run(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Measure the victim alone and beside each flood, in turns."""
    words = WordModel(_SEED)
    victim, flooder = await _fill(folder / "data", arguments.chunks, words)
    questions = [words.question() for _ in range(200)]
    named = ["alone", *arguments.floods]
    measured: dict[str, list[Calls]] = {name: [] for name in named}
    async with serving(folder / "data", "--keys") as served:
        await suffer(served.url, victim, questions, 2.0)
        for _ in range(arguments.rounds):
            for name in named:
                if name == "alone":
                    measured[name].append(await suffer(served.url, victim, questions, arguments.seconds))
                    continue
                async with flooding(name, served.url, flooder):
                    measured[name].append(await suffer(served.url, victim, questions, arguments.seconds))
                # What the flood has left in the server's queues is not the next one's.
                await asyncio.sleep(_HEAD_START)
    alone = float(np.median([calls.percentile(95) for calls in measured["alone"]]))
    rows = []
    for name in named:
        p50, p95 = (float(np.median([calls.percentile(part) for calls in measured[name]])) for part in (50, 95))
        rows.append(
            {
                "flood": name,
                "answered": sum(len(calls.seconds) for calls in measured[name]),
                "failed": sum(len(calls.failed) for calls in measured[name]),
                "p50 ms": round(p50, 1),
                "p95 ms": round(p95, 1),
                "of p95 alone": round(p95 / alone, 2),
                "streams": f"{sum(calls.is_stream_open for calls in measured[name])} of {arguments.rounds}",
            }
        )
        for failure in sorted({failure for calls in measured[name] for failure in calls.failed}):
            print(f"{name}: {failure}")
    print_table(list(rows[0]), [list(row.values()) for row in rows])
    return {"cores": os.cpu_count(), "rows": rows}


def main() -> None:
    """Parse the arguments, measure, print a table; exit with 1 if a flood did more than it may."""
    kinds = ["silent", "half", "forged", "long", "streams"]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long the victim calls beside each flood")
    parser.add_argument("--rounds", type=int, default=3, help="how often; the figures are medians of the rounds")
    parser.add_argument("--chunks", type=int, default=1_000, help="chunks of each of the two tenants")
    parser.add_argument("--floods", nargs="+", choices=kinds, default=kinds, help="which floods")
    parser.add_argument("--quick", action="store_true", help="a smoke run, whose figures say little")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--flood", nargs=3, metavar=("KIND", "URL", "KEY"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.flood:
        raise_file_limit()
        asyncio.run(flood(*arguments.flood))
    if arguments.quick:
        arguments.seconds, arguments.rounds, arguments.chunks = 3.0, 1, 100
    with scratch_folder("reminiscence-floods-") as folder:
        result = asyncio.run(run(arguments, folder))
    if arguments.json:
        write_json(arguments.json, result)
    if any(row["failed"] or row["of p95 alone"] > _ALLOWED_RATIO for row in result["rows"]):
        sys.exit("a flood did more to another tenant than it may")


if __name__ == "__main__":
    main()
