"""Finds who may act as the owner of this memory's schema: the embedded server's superuser, or whom the caller names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from agent_reminiscence.database.connection import ConnectionSettings
from agent_reminiscence.database.ownership import DatabaseIdentity, identify
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.exceptions import ConfigurationError

FindAdministrator = Callable[[], Awaitable[ConnectionSettings]]
"""Says how to reach the store as someone who may act as its owner."""


class Administrators:
    """Who may do what the application's own login may not.

    Args:
        find: Returns the embedded server's superuser; None on a server of the user's own.
    """

    def __init__(self, store: PostgresManager, find: FindAdministrator | None) -> None:
        self._store = store
        self._find = find

    async def settings(self, admin_dsn: str | None, *, needed: str, command: str) -> ConnectionSettings:
        """How the administrator connects.

        Args:
            admin_dsn: Whom the caller names.
            needed: What needs an administrator, and why: the beginning of a message.
            command: What does the same on the command line.

        Raises:
            ConfigurationError: No administrator is known, or the DSN is invalid.
        """
        if admin_dsn is not None:
            return ConnectionSettings.from_dsn(admin_dsn)
        if self._find is None:
            raise ConfigurationError(
                f"{needed}; pass an administrator's DSN as admin_dsn (`agent-reminiscence {command} --admin-dsn …`)"
            )
        return await self._find()

    async def check_database(self, administrator: ConnectionSettings, theirs: DatabaseIdentity) -> None:
        """Make sure that an administrator is connected to the database of this memory.

        Args:
            theirs: Which database it is.

        Raises:
            ConfigurationError: It is another database.
        """
        async with self._store.transaction("", read_only=True) as db:
            ours = await identify(db)
        if theirs != ours:
            raise ConfigurationError(
                f"the administrator {administrator!r} belongs to another database than this memory"
            )
