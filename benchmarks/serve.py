"""The server under load: recalls over HTTP beside the same calls in this process, and a long run that loses nothing.

    python -m benchmarks.serve [--concurrency 1 16 256 1024] [--seconds 10] [--chunks 10000] [--minutes 0] [--quick]

The server is `agent-reminiscence serve` in a process of its own, as shipped, on an embedded server; the clients are in
this process. In process, as many calls as there are clients run at once, and nothing bounds them. Each client repeats
its call as soon as it is answered; one that is refused waits as long as `Retry-After` says.

`--minutes` then adds a steady load of 16 clients, of which every twentieth call writes: no acknowledged write may be
missing afterwards, and memory and open files may not grow.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import psutil  # type: ignore[import-untyped, unused-ignore]

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.database.connection import open_connection
from benchmarks.common import print_table, scratch_folder, write_json
from benchmarks.served import Client, serving
from benchmarks.synthetic import Corpus, WordModel

_SEED = 20_261_126
_TENANT = "bench"
_STEADY_CLIENTS = 16
_WRITES_EVERY = 20
_SAMPLE_SECONDS = 5.0
# Of what a process has after its first quarter.
_ALLOWED_GROWTH = 0.10


@dataclass
class Outcome:
    """What one load came to.

    Attributes:
        in_time: How many were answered while all clients called, which was for `seconds`.
    """

    answered: list[float] = field(default_factory=list)
    in_time: int = 0
    refused: list[float] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    seconds: float = 0.0
    megabytes: float = 0.0

    def row(self, clients: int, where: str) -> list[object]:
        """A line of the table."""
        p50, p99 = np.percentile(np.asarray(self.answered) * 1000, (50, 99)) if self.answered else (0.0, 0.0)
        return [
            clients,
            where,
            f"{self.in_time / self.seconds:.0f}",
            f"{p50:.0f}",
            f"{p99:.0f}",
            len(self.refused),
            len(self.lost),
            f"{self.megabytes:.0f}",
        ]


async def load(clients: Sequence[Callable[[Outcome], Awaitable[None]]], seconds: float) -> Outcome:
    """Let each client repeat its call for some time."""
    outcome = Outcome()
    began = time.perf_counter()

    async def repeat(call: Callable[[Outcome], Awaitable[None]]) -> None:
        while time.perf_counter() - began < seconds:
            await call(outcome)

    async def count() -> None:
        await asyncio.sleep(seconds)
        outcome.in_time, outcome.seconds = len(outcome.answered), time.perf_counter() - began

    # Calls that have begun are finished, but the rate is that of the time in which all clients called.
    await asyncio.gather(count(), *(repeat(call) for call in clients))
    return outcome


def over_http(client: Client, questions: Sequence[str]) -> Callable[[Outcome], Awaitable[None]]:
    """A recall as a program makes it."""

    async def call(outcome: Outcome) -> None:
        began = time.perf_counter()
        try:
            status, headers, _ = await client.post("/v1/recall", {"query": random.choice(questions)})
        except (OSError, EOFError) as error:
            client.close()
            outcome.lost.append(type(error).__name__)
            return
        took = time.perf_counter() - began
        if status == 200:
            outcome.answered.append(took)
        elif status == 503 and "retry-after" in headers:
            outcome.refused.append(took)
            await asyncio.sleep(float(headers["retry-after"]))
        else:
            outcome.lost.append(str(status))

    return call


def in_process(memory: AgentMem, questions: Sequence[str]) -> Callable[[Outcome], Awaitable[None]]:
    """The same recall as a call."""

    async def call(outcome: Outcome) -> None:
        began = time.perf_counter()
        try:
            await memory.retrieve_memories(_TENANT, random.choice(questions))
        except Exception as error:  # noqa: BLE001 - it is counted
            outcome.lost.append(type(error).__name__)
            return
        outcome.answered.append(time.perf_counter() - began)

    return call


async def compare(arguments: argparse.Namespace, data_dir: Path, questions: Sequence[str]) -> list[list[object]]:
    """Each number of clients against the server, and as calls in this process."""
    rows = []
    async with serving(data_dir) as served:
        for clients in arguments.concurrency:
            connections = [Client(served.url, served.token, _TENANT) for _ in range(clients)]
            await load([over_http(connections[0], questions)], 1.0)
            outcome = await load([over_http(one, questions) for one in connections], arguments.seconds)
            outcome.megabytes = served.megabytes
            rows.append(outcome.row(clients, "HTTP"))
            for one in connections:
                one.close()
    async with AgentMem(Config(data_dir=data_dir, worker=False)) as memory:
        for clients in arguments.concurrency:
            await load([in_process(memory, questions)], 1.0)
            outcome = await load([in_process(memory, questions)] * clients, arguments.seconds)
            outcome.megabytes = psutil.Process().memory_info().rss / 2**20
            rows.append(outcome.row(clients, "in process"))
    rows.sort(key=lambda row: (int(str(row[0])), str(row[1])))
    return rows


async def endure(minutes: float, data_dir: Path, questions: Sequence[str], words: WordModel) -> dict[str, Any]:
    """A steady load, and what it has cost and lost."""
    written: set[str] = set()
    samples: list[tuple[float, float, int]] = []
    async with serving(data_dir) as served:

        def writing(client: Client) -> Callable[[Outcome], Awaitable[None]]:
            recall = over_http(client, questions)

            async def call(outcome: Outcome) -> None:
                if random.random() * _WRITES_EVERY >= 1:
                    await recall(outcome)
                    return
                key = f"steady/{uuid4()}"
                note = {"title": "Note", "content": words.sentence(words.topic()), "key": key}
                began = time.perf_counter()
                try:
                    status, headers, _ = await client.post("/v1/memories", note)
                except (OSError, EOFError) as error:
                    client.close()
                    outcome.lost.append(type(error).__name__)
                    return
                if status == 201:
                    written.add(key)
                    outcome.answered.append(time.perf_counter() - began)
                elif status == 503:
                    await asyncio.sleep(float(headers["retry-after"]))
                else:
                    outcome.lost.append(str(status))

            return call

        async def sample() -> None:
            began = time.perf_counter()
            while True:
                await asyncio.sleep(_SAMPLE_SECONDS)
                samples.append((time.perf_counter() - began, served.megabytes, served.process.num_fds()))

        connections = [Client(served.url, served.token, _TENANT) for _ in range(_STEADY_CLIENTS)]
        sampling = asyncio.create_task(sample())
        outcome = await load([writing(one) for one in connections], minutes * 60)
        sampling.cancel()
        for one in connections:
            one.close()
    async with AgentMem(Config(data_dir=data_dir, worker=False)) as memory:
        found = {one.key for one in await memory.get_active_memories(_TENANT, key_prefix="steady/")}
    quarter = max(1, len(samples) // 4)
    before, after = samples[quarter : 2 * quarter] or samples, samples[-quarter:]
    memory_before, memory_after = (float(np.mean([one[1] for one in some])) for some in (before, after))
    files_before, files_after = (float(np.mean([one[2] for one in some])) for some in (before, after))
    return {
        "calls": len(outcome.answered),
        "p50_ms": round(float(np.percentile(outcome.answered, 50)) * 1000, 1),
        "p99_ms": round(float(np.percentile(outcome.answered, 99)) * 1000, 1),
        "refused": len(outcome.refused),
        "lost_calls": len(outcome.lost),
        "written": len(written),
        "lost_writes": len(written - found),
        "memory_mb": [round(memory_before, 1), round(memory_after, 1)],
        "open_files": [round(files_before, 1), round(files_after, 1)],
        "is_steady": not outcome.lost
        and written <= found
        and memory_after <= memory_before * (1 + _ALLOWED_GROWTH)
        and files_after <= files_before + 2,
    }


async def run(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Fill a memory, and measure."""
    data_dir = folder / "data"
    words = WordModel(_SEED)
    async with AgentMem(Config(data_dir=data_dir, worker=False)) as memory:
        assert memory._parts is not None
        admin = await open_connection(replace(memory._parts.stores.postgres.settings, user="postgres"))
        await Corpus(words, arguments.chunks).give(admin, memory, [(_TENANT, arguments.chunks)])
        admin.close()
    words.reseed(_SEED + 1)
    questions = [words.question() for _ in range(500)]
    result: dict[str, Any] = {"cores": os.cpu_count(), "chunks": arguments.chunks}
    header = ["clients", "recall", "calls/s", "p50 ms", "p99 ms", "refused", "lost", "RSS MB"]
    if arguments.concurrency:
        rows = await compare(arguments, data_dir, questions)
        print_table(header, rows)
        result["rows"] = [dict(zip(header, row, strict=True)) for row in rows]
    if arguments.minutes:
        result["steady"] = steady = await endure(arguments.minutes, data_dir, questions, words)
        print_table(["figure", "value"], [[name, value] for name, value in steady.items()])
    return result


def main() -> None:
    """Parse the arguments, measure, print tables; exit with 1 if the steady load has lost something or grown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--concurrency", type=int, nargs="*", default=[1, 16, 256, 1024], help="clients at a time")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each number of clients calls")
    parser.add_argument("--chunks", type=int, default=10_000, help="chunks in the memory")
    parser.add_argument("--minutes", type=float, default=0.0, help="how long a steady load lasts; 0: none")
    parser.add_argument("--quick", action="store_true", help="a smoke run, whose figures say little")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.concurrency, arguments.seconds, arguments.chunks = [1, 16], 2.0, 200
    with scratch_folder("reminiscence-serve-") as folder:
        result = asyncio.run(run(arguments, folder))
    if arguments.json:
        write_json(arguments.json, result)
    if not result.get("steady", {}).get("is_steady", True):
        sys.exit("the steady load has lost something, or the server has grown")


if __name__ == "__main__":
    main()
