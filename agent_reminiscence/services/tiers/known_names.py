"""What the graph knows of the names in a text, looked up a portion at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import batched
from typing import Final

from agent_reminiscence.config import constants
from agent_reminiscence.database.connection import PLANNED_ONCE, SqlExecutor
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.repositories.graph.tables import KnownEntityName
from agent_reminiscence.domain.canonical import beside
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.services.tiers.entities import PlannedEntity, beginnings_of, find_likely, find_unknown

# How many of a tenant's names with the same beginning a new name's spelling is compared with, newest first.
LIKENESS_COMPARED_NAMES: Final = 5_000


@asynccontextmanager
async def short_read(store: PostgresManager, external_id: str, db: SqlExecutor | None) -> AsyncIterator[SqlExecutor]:
    """The open transaction, or a short one of its own, so that none stays open for long."""
    if db is not None:
        yield db
    else:
        async with store.transaction(external_id, settings=PLANNED_ONCE, read_only=True) as own:
            yield own


class KnownNames:
    """Looks up names. Without an open transaction, each portion is read in a short one of its own."""

    def __init__(self, runtime: Runtime) -> None:
        self._store = runtime.store
        self._graph = runtime.repositories.graph

    async def find(self, external_id: str, keys: Sequence[str], db: SqlExecutor | None) -> list[KnownEntityName]:
        """What the graph knows about some names."""
        known: list[KnownEntityName] = []
        for batch in batched(keys, constants.NAME_LOOKUP_KEYS):
            async with short_read(self._store, external_id, db) as reader:
                known += await self._graph.known_names(reader, external_id, batch)
        return known

    async def compare(
        self,
        external_id: str,
        drafted: list[PlannedEntity],
        known: Sequence[KnownEntityName],
        db: SqlExecutor | None,
    ) -> list[PlannedEntity]:
        """`drafted`, with the known entities that unknown names most likely mean."""
        unknown = find_unknown(drafted, known)
        if not unknown:
            return drafted
        async with short_read(self._store, external_id, db) as reader:
            others = await self._graph.list_names(
                reader,
                external_id,
                beginnings=beginnings_of(unknown),
                limit=LIKENESS_COMPARED_NAMES,
            )
        compared = [*known, *others]
        return await beside(lambda: find_likely(drafted, unknown, compared), value=[row.key for row in compared])
