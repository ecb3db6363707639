"""Writes what memories and turns are filtered by; called by the repositories of both, so no handler has to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import batched
from typing import Any, Final
from uuid import UUID

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.database.repositories.arrays import uuid_array
from agent_reminiscence.domain.attributes import (
    ACTOR,
    CONVERSATION,
    OF_TURN,
    Attribute,
    attributes_of,
    memory_attributes,
)
from agent_reminiscence.domain.canonical import beside, beside_many
from agent_reminiscence.domain.memory import StoredMemory

_SQL = load_queries("sql", "memory_attribute")
_PER_STATEMENT: Final = 2_000


async def add_memory_attributes(db: SqlExecutor, memory: StoredMemory) -> None:
    """Store the attributes of a new memory."""
    found = await _of_memory(memory)
    await _add(db, memory.external_id, [(attribute, memory.memory_id) for attribute in found])


async def replace_memory_attributes(db: SqlExecutor, memory: StoredMemory) -> None:
    """Store the attributes of a memory's next version."""
    found = await _of_memory(memory)
    rows = [(attribute, memory.memory_id) for attribute in found]
    params = _columns(memory.external_id, rows) | {"replaced": [memory.memory_id], "replaced_paths": None}
    await db.defer(_SQL["replace_attributes"], params)


async def replace_named_attributes(
    db: SqlExecutor, external_id: str, memory_id: UUID, *, conversation_id: str | None, actor: str | None
) -> None:
    """Store by whom and in which conversation a memory was written last; its metadata stays."""
    found = memory_attributes({}, conversation_id=conversation_id, actor=actor, key=None)
    params = _columns(external_id, [(attribute, memory_id) for attribute in found])
    params |= {"replaced": [memory_id], "replaced_paths": [CONVERSATION, ACTOR]}
    await db.defer(_SQL["replace_attributes"], params)


async def add_turn_attributes(db: SqlExecutor, external_id: str, metadata: Mapping[UUID, Mapping[str, Any]]) -> None:
    """Store the attributes of new chunks, given the metadata of their turns by their ids."""
    await _add(db, external_id, await _of_turns(metadata))


async def replace_turn_attributes(
    db: SqlExecutor, external_id: str, metadata: Mapping[UUID, Mapping[str, Any]]
) -> None:
    """Store the attributes of chunks whose turns have other metadata now."""
    for portion in batched(metadata, _PER_STATEMENT):
        rows = await _of_turns({chunk_id: metadata[chunk_id] for chunk_id in portion})
        params = _columns(external_id, rows) | {"replaced": uuid_array(portion), "replaced_paths": None}
        await db.defer(_SQL["replace_attributes"], params)


async def _of_memory(memory: StoredMemory) -> Sequence[Attribute]:
    return await beside(
        lambda: memory_attributes(
            memory.metadata, conversation_id=memory.conversation_id, actor=memory.actor, key=memory.key
        ),
        value=memory.metadata,
    )


async def _of_turns(metadata: Mapping[UUID, Mapping[str, Any]]) -> list[tuple[Attribute, UUID]]:
    return await beside_many(
        lambda: [
            (attribute, chunk_id)
            for chunk_id, of_turn in metadata.items()
            for attribute in sorted(attributes_of(of_turn, prefix=OF_TURN))
        ],
        items=len(metadata),
    )


async def _add(db: SqlExecutor, external_id: str, rows: Sequence[tuple[Attribute, UUID]]) -> None:
    for portion in batched(rows, _PER_STATEMENT):
        await db.defer(_SQL["add_attributes"], _columns(external_id, portion))


def _columns(external_id: str, rows: Sequence[tuple[Attribute, UUID]]) -> dict[str, object]:
    return {
        "external_id": external_id,
        "paths": [attribute.path for attribute, _ in rows],
        "values": [attribute.value for attribute, _ in rows],
        "item_ids": uuid_array([item_id for _, item_id in rows]),
    }
