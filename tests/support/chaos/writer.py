"""Writes until it is killed, and says on its standard output what it is about to write and what has been written.

Run as a script by `test_kills.py`; `test_jobs.py` makes the same calls. Each line is one JSON object: `begun` names the
call with its key before it is made, `done` what it returned. The key is the idempotency key, or begins the ids of a
conversation's turns. What a key writes follows from the key alone, so that whoever finds a key knows what must stand
beside it.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from pydantic import SecretStr

from agent_reminiscence import AgentMem, Config, Turn

_TASKS = 3
_CALLS = {"create": 6, "update": 8, "append": 6, "say": 6, "observe": 4, "carry": 1, "restore": 2}
_OF_AN_OLDER = ("update", "append", "restore")
_END = datetime(2999, 1, 1, tzinfo=UTC)
_ROOMS = ("hall", "kitchen", "attic", "cellar", "garden")

UPDATES_UNTIL_DUE = 3
"""After so many updates a memory is consolidated."""

CHAT = "chat"
"""The conversation that all tasks of a tenant add to."""

# So that the work of the dead is taken over, and what failed is tried again, many times in a run of minutes. Each kill
# of the server is a failure of all that is under way, and no reason to give up.
HASTE: dict[str, Any] = {"job_heartbeat_seconds": 0.5, "job_retry_seconds": 0.2, "job_max_attempts": 100}


def text_of(key: str) -> str:
    """A text of one to five paragraphs that only this key writes; some repeat others, word for word."""
    dice = random.Random(key)
    paragraphs = [
        f"Keeper {key} counted {dice.randrange(1_000)} lamps in the {room} with Ana Sousa on 3 May."
        for room in dice.sample(_ROOMS, dice.randrange(1, 5))
    ]
    return "\n\n".join([*paragraphs, "The spare key of the blue cabin hangs behind the old clock."])


def reading_of(key: str) -> str:
    """What a key carries beside its text: more than one event takes, so that the ledger divides it over several."""
    return f"{key} reads {random.Random(key).randrange(1_000)} lux. " * 60_000


def turns_of(key: str) -> list[Turn]:
    """What a key says in one call: up to three turns of different trust, so one event each.

    The last one is so long that after a few such calls the conversation's next memory begins.
    """
    speakers = ("user", "assistant", "tool")[: random.Random(key).randrange(1, 4)]
    turns = [Turn(text=text_of(f"{key}/{speaker}"), speaker=speaker, id=f"{key}/{speaker}") for speaker in speakers]
    if "tool" in speakers:
        reading = "\n\n".join(text_of(f"{key}/tool/{number}") for number in range(20))
        turns[-1] = turns[-1].model_copy(update={"text": reading})
    return turns


def settings_for(dsn_or_folder: str, *, worker: bool = False, **settings: Any) -> Config:
    """Settings of a database given by DSN, or of the embedded server of a folder."""
    common: dict[str, Any] = {
        "worker": worker,
        "embedding_provider": "hash",
        "embedding_dimension": 64,
        "active_memory_update_threshold": UPDATES_UNTIL_DUE,
        "shortterm_promotion_threshold": 0.5,
        **settings,
    }
    if dsn_or_folder.startswith("postgresql://"):
        return Config(postgres_dsn=SecretStr(dsn_or_folder), **common)
    return Config(data_dir=Path(dsn_or_folder), chunk_partitions=4, **common)


async def create(memory: AgentMem, tenant: str, key: str) -> dict[str, Any]:
    """A new memory with the key's text; every third has an end that it does not reach here."""
    end = _END if random.Random(key).randrange(3) == 0 else None
    made = await memory.create_active_memory(tenant, key, text_of(key), idempotency_key=key, expires_at=end)
    assert made.write is not None
    return {"memory_id": str(made.id), "version": made.version, "position": made.write.position}


async def update(memory: AgentMem, tenant: str, key: str, memory_id: str) -> dict[str, Any]:
    """The key's text for an older memory."""
    made = await memory.update_active_memory(tenant, memory_id, title=key, content=text_of(key), idempotency_key=key)
    assert made.write is not None
    return {"memory_id": str(made.id), "version": made.version, "position": made.write.position}


async def append(memory: AgentMem, tenant: str, key: str, memory_id: str) -> dict[str, Any]:
    """The key's text at the end of an older memory."""
    made = await memory.update_active_memory(tenant, memory_id, append=text_of(key), idempotency_key=key)
    assert made.write is not None
    return {"memory_id": str(made.id), "version": made.version, "position": made.write.position}


async def say(memory: AgentMem, tenant: str, key: str) -> dict[str, Any]:
    """The key's turns in the tenant's conversation; the position is that of the last, and none if all were known."""
    made = await memory.conversation(tenant, CHAT).add_turns(turns_of(key))
    return {} if made.write is None else {"position": made.write.position}


async def observe(memory: AgentMem, tenant: str, key: str) -> dict[str, Any]:
    """An event of a user's own kind with the key's text."""
    event = await memory.ledger.append(tenant, "world.observed", {"text": text_of(key)}, idempotency_key=key)
    return {"position": event.position}


async def carry(memory: AgentMem, tenant: str, key: str) -> dict[str, Any]:
    """An event of a user's own kind that is too large to be one."""
    payload = {"text": text_of(key), "reading": reading_of(key)}
    event = await memory.ledger.append(tenant, "world.carried", payload, idempotency_key=key)
    return {"position": event.position}


async def restore(memory: AgentMem, tenant: str, key: str, memory_id: str) -> dict[str, Any]:
    """The first version of an older memory once more."""
    made = await memory.admin.restore_version(tenant, memory_id, 1, idempotency_key=key)
    assert made.write is not None
    return {"memory_id": str(made.id), "version": made.version, "position": made.write.position}


async def repeat(memory: AgentMem, tenant: str, call: dict[str, Any]) -> dict[str, Any]:
    """Make a call that was begun, once more."""
    match call["call"]:
        case "create":
            return await create(memory, tenant, call["key"])
        case "update":
            return await update(memory, tenant, call["key"], call["memory_id"])
        case "append":
            return await append(memory, tenant, call["key"], call["memory_id"])
        case "say":
            return await say(memory, tenant, call["key"])
        case "carry":
            return await carry(memory, tenant, call["key"])
        case "restore":
            return await restore(memory, tenant, call["key"], call["memory_id"])
        case "archive":
            await memory.admin.archive(tenant, call["memory_id"], end_chunks=call["end_chunks"])
            return {}
        case "unarchive":
            await memory.admin.unarchive(tenant, call["memory_id"])
            return {}
        case _:
            return await observe(memory, tenant, call["key"])


def _say(**line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


async def _write(memory: AgentMem, tenant: str, worker: int, seed: int) -> None:
    dice = random.Random(f"{seed} {worker}")
    mine: list[str] = []
    away: list[str] = []

    async def do(call: dict[str, Any]) -> dict[str, Any]:
        _say(begun=call)
        made = await repeat(memory, tenant, call)
        _say(done=call | made)
        return made

    for number in range(1_000_000):
        key = f"{seed}-{worker}-{number}"
        (name,) = dice.choices(list(_CALLS), list(_CALLS.values()))
        if name in _OF_AN_OLDER and not mine:
            name = "create"
        call: dict[str, Any] = {"key": key, "call": name}
        if name in _OF_AN_OLDER:
            call["memory_id"] = dice.choice(mine[-4:])
        made = await do(call)
        if name == "create":
            mine.append(made["memory_id"])
        if mine and dice.random() < 0.15:
            await memory.admin.consolidate(tenant, UUID(dice.choice(mine[-4:])))
        if len(mine) > 2 and dice.random() < 0.15:
            away.append(mine.pop(0))
            ends = dice.random() < 0.5
            await do({"key": f"{key}-archive", "call": "archive", "memory_id": away[-1], "end_chunks": ends})
        if away and dice.random() < 0.1:
            mine.append(away.pop(0))
            await do({"key": f"{key}-unarchive", "call": "unarchive", "memory_id": mine[-1]})


async def _main(dsn_or_folder: str, tenant: str, seed: int) -> None:
    async with AgentMem(settings_for(dsn_or_folder, worker=True)) as memory:
        _say(ready=True)
        await asyncio.gather(*(_write(memory, tenant, worker, seed) for worker in range(_TASKS)))


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
