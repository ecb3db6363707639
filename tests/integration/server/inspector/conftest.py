"""A served inspector, and keys of every kind for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import ClassVar

import httpx
import pytest

from agent_reminiscence import AgentMem
from agent_reminiscence.server import create_app
from agent_reminiscence.server.access.authenticators import AnyOf, LocalToken
from agent_reminiscence.server.access.grants import Grant, Scope
from tests.conftest import TestServer
from tests.integration.server.conftest import make_config
from tests.support.filled import FilledDatabases
from tests.support.inspected import EMPTY, HOSTILE, MILL, Told, tell
from tests.support.serving import serve

TOKEN = "t" * 32
type SignedIn = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]


class Keys:
    """Credentials that a test hands out; each is named for what it may do."""

    _GRANTS: ClassVar = {
        "reader": Grant(subject="k1", scopes=frozenset({Scope.READ}), external_id=MILL),
        "writer": Grant(subject="k2", scopes=frozenset({Scope.READ, Scope.WRITE}), external_id=MILL),
        "owner": Grant(subject="k3", scopes=frozenset({Scope.READ, Scope.WRITE, Scope.ERASE}), external_id=MILL),
        "blind": Grant(subject="k4", scopes=frozenset({Scope.WRITE, Scope.ERASE}), external_id=MILL),
        "neighbour": Grant(
            subject="k5", scopes=frozenset({Scope.READ, Scope.WRITE, Scope.ERASE}), external_id="neighbour"
        ),
        "member": Grant(subject="k8", scopes=frozenset({Scope.READ}), external_id="member", also_reads=(MILL,)),
        "nobody": Grant(subject="k6", scopes=frozenset({Scope.READ, Scope.WRITE, Scope.ERASE}), external_id=EMPTY),
        "hostile": Grant(subject="k7", scopes=frozenset(Scope) - {Scope.DELEGATE}, external_id=HOSTILE),
    }

    async def authenticate(self, secret: str) -> Grant | None:
        return self._GRANTS.get(secret)


@pytest.fixture(scope="session")
def told_databases(test_server: TestServer) -> FilledDatabases[Told]:
    """Databases in which the story is told; to tell it costs half a second of CPU, and to copy it a tenth."""
    return asyncio.run(FilledDatabases.fill(test_server, partial(make_config, test_server), tell))


@pytest.fixture
async def database(
    request: pytest.FixtureRequest, test_server: TestServer, told_databases: FilledDatabases[Told]
) -> AsyncIterator[str]:
    """A database in which the story is told, for a test that asks for `told`; for others one without a memory."""
    if "told" in request.fixturenames:
        async with told_databases.lent() as name:
            yield name
    else:
        name = await test_server.databases.take()
        yield name
        await test_server.databases.give_back(name)


@pytest.fixture
def told(database: str, told_databases: FilledDatabases[Told]) -> Told:
    """Where the parts of the story are, in the database of the test."""
    return told_databases.contents


@pytest.fixture
async def address(unopened: AgentMem) -> AsyncIterator[str]:
    """Where the inspector is served."""
    async with serve(create_app(unopened, AnyOf([LocalToken(TOKEN), Keys()]))) as served:
        yield served.url


@asynccontextmanager
async def sign_in(address: str, key: str | None) -> AsyncGenerator[httpx.AsyncClient]:
    """A browser that has signed in with a key."""
    headers = {"Accept": "text/html", "Sec-Fetch-Site": "same-origin"}
    async with httpx.AsyncClient(base_url=address, headers=headers, timeout=60) as client:
        if key is not None:
            answer = await client.post("/sign-in", data={"token": key})
            assert answer.status_code == 303
        yield client


@pytest.fixture
def signed_in(address: str) -> SignedIn:
    """Opens a browser that has signed in with a key."""
    return partial(sign_in, address)
