"""Credentials and a served application for tests of REST."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpx
from fastapi import FastAPI

from agent_reminiscence import AgentMem
from agent_reminiscence.server import ServerConfig, create_app
from agent_reminiscence.server.access.grants import Grant, Scope
from tests.support.serving import Served, serve

TENANT_SCOPES: Final = frozenset({Scope.READ, Scope.WRITE, Scope.ERASE, Scope.ADMIN})


class Credentials:
    """Secrets that a test hands out, each with its grant."""

    def __init__(self, grants: Mapping[str, Grant]) -> None:
        self._grants = dict(grants)

    async def authenticate(self, secret: str) -> Grant | None:
        """The grant of a secret; None if it is none of them."""
        return self._grants.get(secret)


def grant(external_id: str | None, *scopes: Scope) -> Grant:
    """A grant for one tenant, or for all."""
    return Grant(subject=f"key of {external_id}", scopes=frozenset(scopes) or TENANT_SCOPES, external_id=external_id)


CREDENTIALS: Final = Credentials(
    {
        "ida": grant("ida"),
        "joe": grant("joe"),
        "ida-reads": grant("ida", Scope.READ),
        "ida-writes": grant("ida", Scope.WRITE),
        "ida-erases": grant("ida", Scope.ERASE),
        "ida-manages": grant("ida", Scope.ADMIN),
        "backend": grant(None, *TENANT_SCOPES, Scope.DELEGATE),
    }
)


@dataclass(frozen=True, slots=True)
class Rest:
    """A served application, and the memory that it serves.

    Attributes:
        client: Acts for ida.
        other: Acts for joe.
        memory: The same memory, in process.
    """

    served: Served
    app: FastAPI
    memory: AgentMem
    client: httpx.AsyncClient
    other: httpx.AsyncClient

    async def remember(self, content: str, *, external_id: str = "ida", **given: Any) -> str:
        """Create a memory in process; returns its id."""
        return str((await self.memory.create_active_memory(external_id, "Note", content, **given)).id)


@asynccontextmanager
async def serve_rest(
    memory: AgentMem, *, credentials: Credentials = CREDENTIALS, **config: Any
) -> AsyncGenerator[Rest]:
    """Serve a memory that nobody has opened yet."""
    app = create_app(memory, credentials, config=ServerConfig(**config))
    async with serve(app, "ida") as served, served.with_token("joe") as other:
        yield Rest(served, app, memory, served.client, other)


def kind_of(answer: httpx.Response) -> str:
    """The kind of a problem, whose form is checked."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    problem = answer.json()
    assert problem["status"] == answer.status_code
    assert problem["title"]
    assert problem["detail"]
    prefix, _, kind = problem["type"].rpartition(":")
    assert prefix == "urn:agent-reminiscence:problem"
    return str(kind)
