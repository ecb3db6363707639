"""Searches until its standard input ends, and then says on its standard output how that went, as one JSON object.

Run as a script by `test_reembed.py`, with the embedded server's folder, the settings of the embedder as JSON, and the
number of external_ids. Every question is what one chunk says, so that chunk is among the answers, by its vector too.
`failed` holds what went otherwise.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import sys
from collections import Counter
from typing import Any

from agent_reminiscence import AgentMem, ReminiscenceError
from tests.support.chaos import writer

PARAGRAPHS = 20
MEMORIES = 5


def tenant_of(number: int) -> str:
    """The name of an external_id."""
    return f"tenant-{number}"


def fact(tenant: int, memory: int, paragraph: int) -> str:
    """What one chunk says, and no other one."""
    return f"Lamp {tenant:03}{memory:03}{paragraph:03} of the long pier burns in shade {tenant * memory * paragraph}."


async def _search(memory: AgentMem, tenants: int, result: dict[str, Any], dice: random.Random) -> None:
    key = (dice.randrange(tenants), dice.randrange(MEMORIES), dice.randrange(PARAGRAPHS))
    said = fact(*key)
    try:
        found = await memory.retrieve_memories(tenant_of(key[0]), said)
    except ReminiscenceError as error:
        result["failed"][type(error).__name__] += 1
        return
    result["searches"] += 1
    result["models"][memory._ready().services.retrieval._embedding.generations.current.model_name] += 1
    # Its neighbours are indexed with what it says, and may come before it.
    answer = next((hit for hit in found.hits if hit.content.strip() == said), None)
    if answer is None:
        result["failed"]["not found"] += 1
    elif found.omitted:
        result["failed"][found.omitted[0].reason] += 1
    elif "meaning" not in answer.score_parts:
        result["failed"]["not found by its vector"] += 1


async def _main(data_dir: str, embedder: dict[str, Any], tenants: int) -> None:
    result: dict[str, Any] = {"searches": 0, "failed": Counter(), "models": Counter()}
    ended = asyncio.ensure_future(asyncio.to_thread(sys.stdin.buffer.read))
    settings = writer.settings_for(data_dir, **embedder)
    async with AgentMem(settings) as memory:
        for number in itertools.count():
            if ended.done():
                break
            await _search(memory, tenants, result, random.Random(number))
            if number == 0:
                print("searching", flush=True)  # noqa: T201 - for whoever has started this
            # Leaves the processors to the build and to the other searcher.
            await asyncio.sleep(0.02)
    print(json.dumps(result), flush=True)  # noqa: T201 - likewise


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])))
