"""Something that happens before a statement is sent: it is noted, it takes too long, or the process ends there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import pytest

from agent_reminiscence.database.postgres_manager import Params, Row, SqlExecutor
from agent_reminiscence.database.queries import statement_name

Watcher = Callable[[SqlExecutor, str], Awaitable[None]]

# What a watcher sends itself is not watched.
_is_watching = ContextVar("_is_watching", default=False)


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Call `watcher` with the connection and the statement's name before each statement that is sent meanwhile."""
    fetch_all, execute_script = SqlExecutor.fetch_all, SqlExecutor.execute_script

    async def watch(db: SqlExecutor, statement: str) -> None:
        if _is_watching.get():
            return
        token = _is_watching.set(True)
        try:
            await watcher(db, statement_name(statement))
        finally:
            _is_watching.reset(token)

    async def watched_fetch(
        self: SqlExecutor, statement: str, params: Params | None = None, *, prepared: bool = True
    ) -> list[Row]:
        await watch(self, statement)
        return await fetch_all(self, statement, params, prepared=prepared)

    async def watched_script(self: SqlExecutor, script: str) -> None:
        await watch(self, script)
        await execute_script(self, script)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqlExecutor, "fetch_all", watched_fetch)
        patch.setattr(SqlExecutor, "execute_script", watched_script)
        yield
