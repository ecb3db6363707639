"""From a secret to a grant."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from agent_reminiscence.server.access.grants import Grant, Scope


class Authenticator(Protocol):
    """Knows some credentials."""

    async def authenticate(self, secret: str) -> Grant | None:
        """What a credential allows; None if it is not one of its own, or is not valid (any more)."""
        ...


@runtime_checkable
class Counting(Protocol):
    """An authenticator that counts requests, and stores from time to time how many there were."""

    async def close(self) -> None:
        """Store the rest, while the memory is still open: the server has answered its last request."""
        ...


class LocalToken:
    """The token that a server without keys makes when it starts: for all tenants of its database."""

    def __init__(self, token: str | None = None) -> None:
        self.token = token or secrets.token_urlsafe(32)

    async def authenticate(self, secret: str) -> Grant | None:
        """Everything, for whoever has the token."""
        if not secrets.compare_digest(secret.encode(), self.token.encode()):
            return None
        return Grant(subject="local", scopes=frozenset(Scope))


class AnyOf:
    """The first of several that knows a credential."""

    def __init__(self, authenticators: Sequence[Authenticator]) -> None:
        self._authenticators = tuple(authenticators)

    async def authenticate(self, secret: str) -> Grant | None:
        """What the first one says that knows it."""
        for one in self._authenticators:
            if (grant := await one.authenticate(secret)) is not None:
                return grant
        return None

    async def close(self) -> None:
        """Close those that count."""
        for one in self._authenticators:
            if isinstance(one, Counting):
                await one.close()
