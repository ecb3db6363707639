"""Something that happens before a statement is sent: it is noted, it takes too long, or the process ends there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import pytest

from agent_reminiscence.database.connection import Deferred, Params, Row, SqlExecutor
from agent_reminiscence.database.queries import statement_name

Watcher = Callable[[SqlExecutor, str], Awaitable[None]]

# What a watcher sends itself is not watched, nor is a second time what was deferred and is sent now.
_is_watching = ContextVar("_is_watching", default=False)


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Call `watcher` with the connection and the statement's name before each statement is sent, or put by to be."""
    fetch_all, execute_script, ask, flush = (
        SqlExecutor.fetch_all,
        SqlExecutor.execute_script,
        SqlExecutor.ask,
        SqlExecutor.flush,
    )

    @contextmanager
    def unwatched() -> Iterator[None]:
        token = _is_watching.set(True)
        try:
            yield
        finally:
            _is_watching.reset(token)

    async def watch(db: SqlExecutor, statement: str) -> None:
        if not _is_watching.get():
            with unwatched():
                await watcher(db, statement_name(statement))

    async def watched_fetch(
        self: SqlExecutor, statement: str, params: Params | None = None, *, prepared: bool = True
    ) -> list[Row]:
        await watch(self, statement)
        with unwatched():
            return await fetch_all(self, statement, params, prepared=prepared)

    async def watched_script(self: SqlExecutor, script: str) -> None:
        await watch(self, script)
        with unwatched():
            await execute_script(self, script)

    async def watched_ask[T](
        self: SqlExecutor, statement: str, params: Params | None, read: Callable[[list[Row]], T]
    ) -> Deferred[T]:
        await watch(self, statement)
        with unwatched():
            return await ask(self, statement, params, read)

    async def watched_flush(self: SqlExecutor) -> None:
        with unwatched():
            await flush(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqlExecutor, "fetch_all", watched_fetch)
        patch.setattr(SqlExecutor, "execute_script", watched_script)
        patch.setattr(SqlExecutor, "ask", watched_ask)
        patch.setattr(SqlExecutor, "flush", watched_flush)
        yield
