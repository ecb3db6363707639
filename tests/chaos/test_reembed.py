"""SIGKILL for who builds another model's vectors, while others search: no search fails, and no vector is missing."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agent_reminiscence import AgentMem
from agent_reminiscence.database.connection import SqlExecutor
from tests.chaos.conftest import Repetitions
from tests.support.chaos import writer
from tests.support.chaos.killing import administrator
from tests.support.chaos.searcher import MEMORIES, PARAGRAPHS, fact, tenant_of

_ROOT = Path(__file__).parents[2]
_PATIENCE_SECONDS = 120.0


class _Move(NamedTuple):
    """From which model to which.

    Attributes:
        old: The settings of the embedder that made the vectors.
        new: The options of the command that replaces them.
        models: Name and dimension of both.
    """

    old: dict[str, Any]
    new: tuple[str, ...]
    models: tuple[tuple[str, int], tuple[str, int]]


_DIMENSION = _Move(
    {"embedding_provider": "hash", "embedding_dimension": 256},
    ("--provider", "hash", "--dimension", "384"),
    (("hash-256", 256), ("hash-384", 384)),
)
_DEFAULT = _Move(
    {"embedding_provider": "wordllama", "embedding_dimension": None},
    ("--provider", "universal"),
    (("wordllama-l2-supercat-256", 256), ("use-multilingual-3-q6-512", 512)),
)


async def _remember(memory: AgentMem, tenants: int) -> None:
    for tenant in range(tenants):
        for number in range(MEMORIES):
            text = "\n\n".join(fact(tenant, number, paragraph) for paragraph in range(PARAGRAPHS))
            await memory.create_active_memory(tenant_of(tenant), f"Pier {number}", text)


async def _start(*words: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *words,
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None,
        start_new_session=True,
    )


@asynccontextmanager
async def _searching(data_dir: Path, move: _Move, tenants: int) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that searches, with the settings of before the change."""
    process = await _start("-m", "tests.support.chaos.searcher", str(data_dir), json.dumps(move.old), str(tenants))
    try:
        assert process.stdout is not None
        async with asyncio.timeout(_PATIENCE_SECONDS):
            assert await process.stdout.readline() == b"searching\n"
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _end(process: asyncio.subprocess.Process) -> dict[str, Any]:
    async with asyncio.timeout(_PATIENCE_SECONDS):
        said, _ = await process.communicate()
    result: dict[str, Any] = json.loads(said)
    return result


async def _reembed(data_dir: Path, *options: str) -> asyncio.subprocess.Process:
    """The command, as a process that may be killed."""
    return await _start("-m", "agent_reminiscence.cli", "reembed", "--data-dir", str(data_dir), "--json", *options)


async def _vectors(db: SqlExecutor) -> int:
    """How many chunks have vectors in the second generation; 0 before there is one."""
    found = await db.fetch_one("SELECT to_regclass('chunk_vector_2')::text AS name")
    if found is None or found["name"] is None:
        return 0
    # Headings have vectors, too, which the report does not count.
    rows = await db.fetch_all(
        "SELECT count(*) AS rows FROM chunk_vector_2 JOIN memory_chunk USING (external_id, number)"
    )
    return int(rows[0]["rows"])


async def _kill_at(data_dir: Path, move: _Move, db: SqlExecutor, vectors: int) -> int:
    """Run the command until so many vectors are made, and kill it unless it has ended; how many there are then."""
    process = await _reembed(data_dir, *move.new)
    end = time.monotonic() + _PATIENCE_SECONDS
    while process.returncode is None and await _vectors(db) < vectors:
        assert time.monotonic() < end, "the build does not get on"
        await asyncio.sleep(0.01)
    if process.returncode is None:
        process.kill()
        await process.wait()
    else:
        # This machine was too busy to look in time.
        assert process.returncode == 0
    return await _vectors(db)


async def _write_on(memory: AgentMem, ended: asyncio.Event) -> int:
    """Write and change memories until `ended`; how many writes there were."""
    writes = 0
    note = await memory.create_active_memory("writer", "Log", "Day 0.")
    while not ended.is_set():
        writes += 1
        note = await memory.update_active_memory(
            "writer", note.id, content=f"Day {writes}.\n\nThe sea is {writes} deep."
        )
        await memory.create_active_memory("writer", f"Day {writes}", f"On day {writes} nothing was seen.")
        await asyncio.sleep(0.05)
    return writes


@pytest.mark.promise
@pytest.mark.everyday("dimension", why="the models that are real cost more and are moved in the same way")
@pytest.mark.parametrize("move", [_DIMENSION, _DEFAULT], ids=["dimension", "default"])
async def test_a_build_that_is_killed_and_continued_costs_no_search_and_no_vector(
    move: _Move, data_dir: Path, repetitions: Repetitions
) -> None:
    """Two processes search and a third one writes while it is killed twice, continued, and switched."""
    tenants = repetitions(reduced=2, full=100)
    chunks = tenants * MEMORIES * PARAGRAPHS
    async with AgentMem(writer.settings_for(str(data_dir), **move.old)) as memory:
        await _remember(memory, tenants)
        async with (
            administrator(data_dir) as db,
            _searching(data_dir, move, tenants) as first,
            _searching(data_dir, move, tenants) as second,
            asyncio.TaskGroup() as group,
        ):
            ended = asyncio.Event()
            writing = group.create_task(_write_on(memory, ended))
            started = time.monotonic()
            killed = [await _kill_at(data_dir, move, db, chunks // share) for share in (4, 2)]
            # On a busy machine the build may have come to its end before it was killed.
            is_built = await db.fetch_all(
                "SELECT state FROM embedding_generation WHERE generation = 2 AND state = 'current'"
            )

            # What is being built is continued without a name for it.
            process = await _reembed(data_dir, *(move.new if is_built else ()))
            async with asyncio.timeout(20 * _PATIENCE_SECONDS):
                said, _ = await process.communicate()
            seconds = time.monotonic() - started
            report = json.loads(said)
            # Long enough for each of them to have searched among the new vectors.
            await asyncio.sleep(2)
            ended.set()
            writes = await writing
            results = [await _end(first), await _end(second)]

            missing = await db.fetch_all(
                "(SELECT number FROM memory_chunk UNION ALL SELECT number FROM memory_heading)"
                " EXCEPT SELECT number FROM chunk_vector_2"
            )
            states = await db.fetch_all("SELECT generation, dimension, state FROM embedding_generation ORDER BY 1")
        audit = await memory.admin.verify()

    (old, old_dimension), (new, new_dimension) = move.models
    print(  # noqa: T201 - what `make chaos-reembed` is run for
        f"\n{chunks:,} chunks from {old} to {new} in {seconds:.1f} s, killed at {killed};"
        f" {report['vectors_filled']:,} vectors in the last run of {report['seconds']:.1f} s; {writes} writes;"
        f" searches {[result['searches'] for result in results]}, by model {[result['models'] for result in results]},"
        f" failed {[result['failed'] for result in results]}; vectors missing {len(missing)}"
    )
    assert process.returncode == 0
    assert [result["failed"] for result in results] == [{}, {}]
    for result in results:
        assert result["models"].keys() == {old, new}
    assert missing == []
    assert report["vectors_missing"] == 0
    # Each round of the writer adds up to three chunks, and it began with one.
    assert report["vectors_filled"] <= max(chunks - killed[1], 0) + 3 * writes + 1
    assert report["vectors_filled"] > 0 or is_built
    assert [(row["generation"], row["dimension"], row["state"]) for row in states] == [
        (1, old_dimension, "retired"),
        (2, new_dimension, "current"),
    ]
    assert audit.ok
