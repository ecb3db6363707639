"""Who gets in, and for whom they act."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from fastapi import Request

from agent_reminiscence import AgentMem
from agent_reminiscence.server import create_app
from agent_reminiscence.server.access.authenticators import AnyOf, LocalToken
from agent_reminiscence.server.access.grants import Caller, Grant, Scope
from tests.support.serving import Served, serve


class _Keys:
    """Credentials that a test hands out."""

    def __init__(self, **grants: Grant) -> None:
        self._grants = grants

    async def authenticate(self, secret: str) -> Grant | None:
        return self._grants.get(secret)


_KEYS = _Keys(
    ida=Grant(subject="k1", scopes=frozenset({Scope.READ}), external_id="ida"),
    backend=Grant(subject="k2", scopes=frozenset({Scope.READ, Scope.DELEGATE})),
)


@pytest.fixture
async def served(unopened: AgentMem) -> AsyncIterator[Served]:
    """A server with a few credentials, and two routes that say for whom they act."""
    app = create_app(unopened, AnyOf([LocalToken("t" * 32), _KEYS]))

    @app.get("/v1/whoami")
    async def whoami(request: Request) -> dict[str, str]:
        caller: Caller = request.state.caller
        return {"tenant": caller.tenant(Scope.READ)}

    @app.get("/v1/erase")
    async def erase(request: Request) -> dict[str, str]:
        caller: Caller = request.state.caller
        return {"tenant": caller.tenant(Scope.ERASE)}

    async with serve(app, "ida") as served:
        yield served


async def test_a_credential_acts_for_its_tenant(served: Served) -> None:
    """The tenant is in the credential."""
    answer = await served.client.get("/v1/whoami")
    assert answer.json() == {"tenant": "ida"}


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic aWRh"}])
async def test_without_a_valid_credential_nothing_is_answered(served: Served, headers: dict[str, str]) -> None:
    """Nobody, a stranger, and another scheme."""
    async with served.with_token(None, headers) as client:
        answer = await client.get("/v1/whoami")
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_a_cookie_lets_no_program_in(served: Served) -> None:
    """A browser sends cookies by itself."""
    async with served.with_token(None, {"Cookie": "reminiscence_credential=ida"}) as client:
        assert (await client.get("/v1/whoami")).status_code == 401


async def test_only_a_delegate_names_the_tenant(served: Served) -> None:
    """For others the header is refused, not ignored."""
    refused = await served.client.get("/v1/whoami", headers={"X-External-Id": "joe"})
    assert refused.status_code == 403
    async with served.with_token("backend") as client:
        assert (await client.get("/v1/whoami")).status_code == 400
        named = await client.get("/v1/whoami", headers={"X-External-Id": "z%C3%B6e"})
    assert named.json() == {"tenant": "zöe"}


async def test_a_scope_is_asked_for(served: Served) -> None:
    """The answer names the scope that is missing."""
    answer = await served.client.get("/v1/erase")
    assert answer.status_code == 403
    assert "memory:erase" in answer.json()["detail"]


async def test_the_local_token_may_do_everything_for_everyone(served: Served) -> None:
    """It is for who started the server."""
    async with served.with_token("t" * 32, {"X-External-Id": "joe"}) as client:
        assert (await client.get("/v1/erase")).json() == {"tenant": "joe"}


async def test_health_needs_no_credential(served: Served) -> None:
    """It reveals nothing."""
    async with served.with_token(None) as client:
        assert (await client.get("/healthz")).json() == {"status": "ok"}
