"""The `unarchive` and `restore-version` commands."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from agent_reminiscence.cli.parameters import (
    EXIT_OK,
    HERE,
    Actor,
    AsJson,
    Database,
    Tenant,
    check_stored,
    moment,
    opened,
)
from agent_reminiscence.cli.terminal import console, count, one_line, say, write_json

if TYPE_CHECKING:
    from agent_reminiscence import ActiveMemory


def unarchive(
    memory_id: str,
    *,
    external_id: Tenant,
    occurred_at: Annotated[str | None, Parameter(help="When this happened in the world; default: now.")] = None,
    actor: Actor = None,
    as_json: AsJson = False,
    database: Database = HERE,
) -> int:
    """Take an archived memory back: it is listed again and takes updates; what archiving ended holds from now on."""
    occurred_at_time = moment("--occurred-at", occurred_at)

    async def write() -> ActiveMemory:
        async with opened(database) as memory:
            await check_stored(memory, external_id)
            return await memory.admin.unarchive(external_id, memory_id, occurred_at=occurred_at_time, actor=actor)

    back = asyncio.run(write())
    if as_json:
        write_json(back.model_dump(mode="json"))
        return EXIT_OK
    returned = 0 if back.write is None else back.write.chunks_added
    came = f"; {count(returned, 'chunk', 'chunks')} came back" if returned else ""
    say(console(), f"{one_line(back.title)!r} is active at version {back.version}{came}.")
    return EXIT_OK


def restore_version(
    memory_id: str,
    version: Annotated[int, Parameter(help="Which one, from 1, as `history` prints them.")],
    *,
    external_id: Tenant,
    expected_version: Annotated[
        int | None, Parameter(help="The version you read; nothing is written if another writer was first.")
    ] = None,
    occurred_at: Annotated[str | None, Parameter(help="When this became true in the world; default: now.")] = None,
    actor: Actor = None,
    as_json: AsJson = False,
    database: Database = HERE,
) -> int:
    """Make a memory say again what it said at an earlier version, as its next version; nothing is rewritten."""
    occurred_at_time = moment("--occurred-at", occurred_at)

    async def write() -> ActiveMemory:
        async with opened(database) as memory:
            await check_stored(memory, external_id)
            return await memory.admin.restore_version(
                external_id,
                memory_id,
                version,
                expected_version=expected_version,
                occurred_at=occurred_at_time,
                actor=actor,
            )

    restored = asyncio.run(write())
    if as_json:
        write_json(restored.model_dump(mode="json"))
        return EXIT_OK
    say(
        console(), f"{one_line(restored.title)!r} says at version {restored.version} what it said at version {version}."
    )
    return EXIT_OK
