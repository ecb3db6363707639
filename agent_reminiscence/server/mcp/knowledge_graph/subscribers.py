"""Who is told that a tenant's knowledge graph has changed: clients of this process that asked to be.

Clients of the protocol's handshake revisions subscribe to the resource, later ones listen; each hears of its own tenant
only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mcp import types
from mcp.server import ServerRequestContext
from mcp.server.connection import Connection
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ServerEvent
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated

_MAX_LISTENING: Final = 1_024


class Subscribers:
    """Those who want to hear of one resource."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        # By tenant; those of which the last has gone are not kept.
        self._sessions: dict[str, dict[Connection, ServerSession]] = {}
        self._buses: dict[str, _Bus] = {}

    def add(self, tenant: str, session: ServerSession, uri: str) -> None:
        """Tell a client of changes until its connection ends; other resources never change."""
        if uri != self._uri:
            return
        connection = _connection_of(session)
        connection.exit_stack.callback(self._forget, connection)
        self._sessions.setdefault(tenant, {})[connection] = session

    def remove(self, session: ServerSession, uri: str) -> None:
        """Tell a client no more."""
        if uri == self._uri:
            self._forget(_connection_of(session))

    def _forget(self, connection: Connection) -> None:
        for tenant, sessions in list(self._sessions.items()):
            sessions.pop(connection, None)
            if not sessions:
                del self._sessions[tenant]

    async def listen(
        self, tenant: str, context: ServerRequestContext[Any, Any], params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Tell a client of changes until it goes.

        Raises:
            MCPError: Too many listen.
        """
        if sum(bus.listeners for bus in self._buses.values()) >= _MAX_LISTENING:
            raise MCPError(types.INTERNAL_ERROR, f"{_MAX_LISTENING} clients are listening already; try again later")
        bus = self._buses.setdefault(tenant, _Bus())
        try:
            return await ListenHandler(bus)(context, params)
        finally:
            if not bus.listeners and self._buses.get(tenant) is bus:
                del self._buses[tenant]

    async def notify(self, tenant: str) -> None:
        """Tell everybody that a tenant's graph has changed."""
        for session in list(self._sessions.get(tenant, {}).values()):
            await session.send_resource_updated(self._uri)
        if (bus := self._buses.get(tenant)) is not None:
            await bus.publish(ResourceUpdated(uri=self._uri))


class _Bus(InMemorySubscriptionBus):
    """Passes events on, and knows how many listen."""

    def __init__(self) -> None:
        super().__init__()
        self.listeners = 0

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Add a listener; what is returned takes it away again, once."""
        unsubscribe = super().subscribe(listener)
        self.listeners += 1
        is_listening = True

        def leave() -> None:
            nonlocal is_listening
            self.listeners -= is_listening
            is_listening = False
            unsubscribe()

        return leave


def _connection_of(session: ServerSession) -> Connection:
    # Each request has a session of its own, and the SDK hands out nothing else by which a client can be known again.
    return session._connection  # noqa: SLF001
