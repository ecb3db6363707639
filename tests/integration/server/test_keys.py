"""Keys of the database as credentials of the server."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi import Request

from agent_reminiscence import AgentMem, CreatedKey
from agent_reminiscence.database.connection import open_connection
from agent_reminiscence.server import ServerConfig, create_app
from agent_reminiscence.server.access.authenticators import LocalToken
from agent_reminiscence.server.access.grants import Caller, Scope
from agent_reminiscence.server.access.keys import TRUSTED_SECONDS, KeyAuthenticator
from agent_reminiscence.server.access.limiter import RateLimiter
from agent_reminiscence.server.access.setting_up import make_authenticator
from agent_reminiscence.server.problems import ProblemError
from tests.conftest import TestServer, dsn
from tests.support.issuer import AUDIENCE, ISSUER, claims, serve_issuer, signing_key
from tests.support.serving import Served, serve

MakeKey = Callable[..., Awaitable[CreatedKey]]


class _Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def admin_dsn(test_server: TestServer, database: str) -> str:
    """Who manages keys."""
    return dsn(test_server.administrator(database))


@pytest.fixture
def make_key(memory: AgentMem, admin_dsn: str) -> MakeKey:
    """Makes a key as an administrator does, in a process of their own."""

    async def make(external_id: str | None, *scopes: str, **settings: Any) -> CreatedKey:
        return await memory.admin.keys.create(external_id, scopes=scopes, admin_dsn=admin_dsn, **settings)

    return make


@pytest.fixture
async def served(unopened: AgentMem) -> AsyncIterator[Served]:
    """A server as it is set up by default, with two routes of its own."""
    config = ServerConfig()
    app = create_app(unopened, make_authenticator(unopened, config, local=LocalToken("t" * 32)), config=config)

    @app.get("/v1/titles")
    async def memories(request: Request) -> list[str]:
        caller: Caller = request.state.caller
        found = await request.app.state.memory.get_active_memories(caller.tenant(Scope.READ))
        return [one.title for one in found]

    @app.get("/v1/erase")
    async def erase(request: Request) -> None:
        caller: Caller = request.state.caller
        caller.require(Scope.ERASE)

    async with serve(app) as served:
        yield served


async def test_a_key_reads_what_its_tenant_has_and_nothing_else(
    served: Served, memory: AgentMem, make_key: MakeKey
) -> None:
    """The tenant is in the credential: a key of another one reads another memory by the same path."""
    await memory.create_active_memory("ida", "Hers", "The key is under the mat.")
    await memory.create_active_memory("joe", "His", "The key is in the shed.")
    keys = {tenant: (await make_key(tenant, "read")).secret for tenant in ("ida", "joe", "zöe")}

    seen = {}
    for tenant, key in keys.items():
        async with served.with_token(key) as client:
            seen[tenant] = (await client.get("/v1/titles")).json()
            assert (await client.get("/v1/titles", headers={"X-External-Id": "ida"})).status_code == 403
            assert (await client.get("/v1/erase")).status_code == 403

    assert seen == {"ida": ["Hers"], "joe": ["His"], "zöe": []}


@pytest.mark.thorough
async def test_a_backends_key_acts_for_whomever_it_names(served: Served, memory: AgentMem, make_key: MakeKey) -> None:
    """With the scopes that it has, for each of them."""
    await memory.create_active_memory("ida", "Hers", "The key is under the mat.")
    key = await make_key(None, "read", "delegate")

    async with served.with_token(key.secret) as client:
        nobody = await client.get("/v1/titles")
        hers = await client.get("/v1/titles", headers={"X-External-Id": "ida"})
        assert (await client.get("/v1/erase", headers={"X-External-Id": "ida"})).status_code == 403

    assert (nobody.status_code, hers.json()) == (400, ["Hers"])


async def test_what_is_no_valid_key_is_refused(
    served: Served, make_key: MakeKey, memory: AgentMem, test_server: TestServer, database: str, admin_dsn: str
) -> None:
    """Revoked, expired, of another database, or made up."""
    revoked, expired = await make_key("ida", "read"), await make_key("ida", "read")
    await memory.admin.keys.revoke(revoked.id, admin_dsn=admin_dsn)
    db = await open_connection(test_server.administrator(database))
    await db.execute(
        "UPDATE reminiscence.access_key SET expires_at = clock_timestamp() WHERE id = $(id)p", {"id": expired.id}
    )
    db.close()
    made_up = f"{expired.secret[:-1]}{'0' if expired.secret[-1] != '0' else '1'}"

    for secret in (revoked.secret, expired.secret, made_up, f"arkey_{'0' * 32}_{'0' * 64}", "arkey_", "x" * 5_000):
        async with served.with_token(secret) as client:
            answer = await client.get("/v1/titles")
        assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (401, "not-authenticated")
        assert secret not in answer.text


async def test_keys_tokens_and_the_local_token_stand_beside_each_other(unopened: AgentMem, make_key: MakeKey) -> None:
    """Each credential is known by one of them, whichever others there are."""
    signing = signing_key("first")
    key = await make_key("ida", "read")
    async with serve_issuer(signing) as issuer, unopened:
        config = ServerConfig(jwt_jwks_url=issuer.jwks_url, jwt_audience=AUDIENCE, jwt_issuer=ISSUER)
        with_tokens = make_authenticator(unopened, config, local=LocalToken("t" * 32))
        without = make_authenticator(unopened, ServerConfig())
        secrets = [key.secret, signing.sign(claims(sub="joe")), "t" * 32, "another"]

        known = [await with_tokens.authenticate(secret) for secret in secrets]
        fewer = [await without.authenticate(secret) for secret in secrets]

    assert [grant and grant.subject.partition(":")[0] for grant in known] == ["key", "jwt", "local", None]
    assert [grant and grant.external_id for grant in known] == ["ida", "joe", None, None]
    assert [grant is not None for grant in fewer] == [True, False, False, False]


async def test_a_grant_says_what_the_key_says(memory: AgentMem, make_key: MakeKey) -> None:
    """Its subject is the id of the key, which may be logged."""
    end = datetime.now(UTC) + timedelta(days=1)
    key = await make_key("ida", "read", "erase", expires_at=end, requests_per_minute=7)

    grant = await KeyAuthenticator(memory).authenticate(key.secret)

    assert grant is not None
    assert (grant.subject, grant.external_id, set(grant.scopes)) == (f"key:{key.id}", "ida", {Scope.READ, Scope.ERASE})
    assert (grant.expires_at, grant.requests_per_minute) == (end, 7)


async def test_the_requests_of_a_day_are_counted_for_all_servers_together(memory: AgentMem, make_key: MakeKey) -> None:
    """Each server knows what the others let in when it checks the key again, and none forgets what it has let in."""
    clock, limiter = _Clock(), RateLimiter()
    first, second = KeyAuthenticator(memory, clock=clock), KeyAuthenticator(memory, clock=clock)
    key = await make_key("ida", "read", requests_per_day=5)

    async def ask(server: KeyAuthenticator) -> int:
        """Make one request; how many seconds to wait for the next day, or 0 if it was let in."""
        grant = await server.authenticate(key.secret)
        assert grant is not None
        try:
            limiter.take(grant)
        except ProblemError as problem:
            return int(problem.headers["Retry-After"])
        return 0

    assert [await ask(first) for _ in range(3)] == [0, 0, 0]
    clock.now += TRUSTED_SECONDS
    assert await ask(first) == 0
    clock.now += TRUSTED_SECONDS
    # The fourth is told with the next check.
    await first.authenticate(key.secret)
    assert await ask(second) == 0
    clock.now += TRUSTED_SECONDS
    assert 0 < await ask(second) <= 86_400
    assert 0 < await ask(first) <= 86_400


async def test_a_server_that_stops_has_told_of_all_that_it_let_in(
    unopened: AgentMem, memory: AgentMem, make_key: MakeKey, admin_dsn: str
) -> None:
    """A restart renews no quota."""
    key = await make_key("ida", "read", requests_per_day=5)
    async with serve(create_app(unopened)) as served, served.with_token(key.secret) as client:
        answers = [await client.get("/v1/usage") for _ in range(4)]

    assert [answer.status_code for answer in answers] == [200] * 4
    assert [one.requests_today for one in await memory.admin.keys.list(admin_dsn=admin_dsn)] == [4]


async def test_who_has_used_up_a_day_is_told_when_the_next_one_begins(served: Served, make_key: MakeKey) -> None:
    """What was refused does not count."""
    key = await make_key("ida", "read", requests_per_day=2)

    async with served.with_token(key.secret) as client:
        answers = [await client.get("/v1/titles") for _ in range(4)]

    assert [answer.status_code for answer in answers] == [200, 200, 429, 429]
    assert answers[-1].json()["type"].rpartition(":")[2] == "too-many-requests"
    assert "2 requests a day" in answers[-1].json()["detail"]
    assert 0 < int(answers[-1].headers["Retry-After"]) <= 86_400


async def test_a_revoked_key_is_refused_within_the_seconds_that_a_check_holds(
    memory: AgentMem, unopened: AgentMem, make_key: MakeKey, admin_dsn: str
) -> None:
    """A check holds from when it began, so the bound holds from when another process has revoked the key."""
    clock = _Clock()
    authenticator = KeyAuthenticator(memory, clock=clock)
    key = await make_key("ida", "read")
    assert await authenticator.authenticate(key.secret) is not None
    async with unopened as another:
        await another.admin.keys.revoke(key.id, admin_dsn=admin_dsn)

    clock.now = TRUSTED_SECONDS - 0.001
    assert await authenticator.authenticate(key.secret) is not None
    clock.now = TRUSTED_SECONDS
    assert await authenticator.authenticate(key.secret) is None
    assert authenticator._checked == {}


async def test_a_key_that_this_process_revokes_is_refused_at_once(
    memory: AgentMem, make_key: MakeKey, admin_dsn: str
) -> None:
    """Or forgets; no other process tells it."""
    authenticator = KeyAuthenticator(memory, clock=_Clock())
    revoked, forgotten = await make_key("ida", "read"), await make_key("joe", "read")
    for key in (revoked, forgotten):
        assert await authenticator.authenticate(key.secret) is not None

    await memory.admin.keys.revoke(revoked.id, admin_dsn=admin_dsn)
    assert await authenticator.authenticate(revoked.secret) is None
    assert await authenticator.authenticate(forgotten.secret) is not None
    await memory.admin.keys.forget("joe", admin_dsn=admin_dsn)
    assert await authenticator.authenticate(forgotten.secret) is None


async def test_a_key_that_expires_is_refused_at_once(
    memory: AgentMem, make_key: MakeKey, test_server: TestServer, database: str
) -> None:
    """However short a time ago it was checked."""
    authenticator = KeyAuthenticator(memory, clock=_Clock())
    key = await make_key("ida", "read", expires_at=datetime.now(UTC) + timedelta(hours=1))
    assert await authenticator.authenticate(key.secret) is not None
    # An hour passes.
    [(hashed, known)] = authenticator._checked.items()
    authenticator._checked[hashed] = replace(known, grant=replace(known.grant, expires_at=datetime.now(UTC)))
    db = await open_connection(test_server.administrator(database))
    await db.execute(
        "UPDATE reminiscence.access_key SET expires_at = clock_timestamp() WHERE id = $(id)p", {"id": key.id}
    )
    db.close()

    assert await authenticator.authenticate(key.secret) is None


async def test_a_key_that_is_refused_is_asked_for_each_time(memory: AgentMem, make_key: MakeKey) -> None:
    """So that one works at once when it is there, and strangers fill no memory."""
    clock = _Clock()
    authenticator = KeyAuthenticator(memory, clock=clock)
    for number in range(20):
        assert await authenticator.authenticate(f"arkey_{number:032x}_{'0' * 64}") is None

    assert (authenticator._checked, authenticator._checks) == ({}, {})


async def test_one_check_serves_all_who_wait_for_it(memory: AgentMem, make_key: MakeKey) -> None:
    """Whichever of them goes away meanwhile."""
    authenticator = KeyAuthenticator(memory)
    key = await make_key("ida", "read")
    tasks = [asyncio.create_task(authenticator.authenticate(key.secret)) for _ in range(50)]
    await asyncio.sleep(0)
    checks = list(authenticator._checks)
    tasks[0].cancel()

    answers = await asyncio.gather(*tasks, return_exceptions=True)

    assert checks == [hashlib.sha256(key.secret.encode()).digest()]
    assert isinstance(answers[0], asyncio.CancelledError)
    assert {getattr(answer, "external_id", None) for answer in answers[1:]} == {"ida"}
    assert authenticator._checks == {}


async def test_while_the_memory_is_away_nobody_is_refused_for_good(
    unopened: AgentMem, memory: AgentMem, make_key: MakeKey
) -> None:
    """503 says to try again; a 401 would have the client throw a good key away."""
    key = await make_key("ida", "read")
    clock = _Clock()
    authenticator = KeyAuthenticator(unopened, clock=clock)
    async with unopened:
        assert await authenticator.authenticate(key.secret) is not None
    clock.now = TRUSTED_SECONDS

    for _ in range(2):
        with pytest.raises(ProblemError, match="the memory is unavailable") as refused:
            await authenticator.authenticate(key.secret)
        assert (refused.value.status, refused.value.headers["Retry-After"]) == (503, "1")
    assert await authenticator.authenticate("no key") is None
