"""What in a request decides for whom it acts, and how many a credential may make."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from agent_reminiscence.server.access.authenticators import AnyOf, LocalToken
from agent_reminiscence.server.access.grants import Grant, Scope
from agent_reminiscence.server.access.limiter import RateLimiter
from tests.support.guarded import guarded
from tests.support.serving import Served, serve


class _Keys:
    """Credentials that a test hands out."""

    def __init__(self, *grants: Grant) -> None:
        self._grants = {grant.subject: grant for grant in grants}

    async def authenticate(self, secret: str) -> Grant | None:
        return self._grants.get(secret)


_READ = frozenset({Scope.READ})
_KEYS = _Keys(
    Grant(subject="ida", scopes=_READ, external_id="ida"),
    Grant(subject="joe", scopes=_READ, external_id="joe", requests_per_minute=2),
    Grant(subject="zoe", scopes=_READ, external_id="zoe", requests_per_minute=5),
    Grant(subject="backend", scopes=_READ | {Scope.DELEGATE}),
    Grant(subject="odd", scopes=_READ),
)


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    """A server whose clock stands still, with a limit of three for those who have none of their own."""
    app = guarded(AnyOf([LocalToken("t" * 32), _KEYS]), RateLimiter(3, clock=lambda: 0.0))
    async with serve(app) as served:
        yield served


async def _whoami(
    served: Served, token: str | None, *headers: tuple[str, bytes | str], path: str = "/v1/whoami"
) -> httpx.Response:
    async with served.with_token(token) as client:
        request = client.build_request("GET", path, headers=[*client.headers.raw, *_raw(headers)])
        return await client.send(request)


def _raw(headers: tuple[tuple[str, bytes | str], ...]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value if isinstance(value, bytes) else value.encode()) for name, value in headers]


@pytest.mark.parametrize(
    ("value", "tenant"),
    [
        ("joe", "joe"),
        ("z%C3%B6e", "zöe"),
        ("a%2Fb%25", "a/b%"),
        ("a/../b", "a/../b"),
        ("%F0%9F%94%91", "🔑"),
        ("x" * 256, "x" * 256),
    ],
)
async def test_a_tenant_is_named_in_percent_encoded_utf8(served: Served, value: str, tenant: str) -> None:
    """Any id that the memory takes can be named in a header."""
    answer = await _whoami(served, "backend", ("X-External-Id", value))

    assert (answer.status_code, answer.json()) == (200, {"tenant": tenant})


@pytest.mark.parametrize(
    "value",
    [
        "",
        "%20",
        "%20joe",
        "joe%0Abob",
        "joe%00",
        "%FF",
        "z%F6e",
        "zöe".encode(),
        b"z\xf6e",
        "x" * 257,
        "%C2%85",
        "100%",
        "a%zz",
    ],
)
async def test_what_names_no_tenant_is_refused(served: Served, value: bytes | str) -> None:
    """Not guessed, cut or repaired: two tenants could become one."""
    answer = await _whoami(served, "backend", ("X-External-Id", value))

    assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (400, "tenant-invalid")


@pytest.mark.parametrize("value", ["joe", "ida", "%49da"])
async def test_who_acts_for_one_tenant_names_none(served: Served, value: str) -> None:
    """Not even itself: whoever sends the header believes that it decides."""
    answer = await _whoami(served, "ida", ("X-External-Id", value))

    assert answer.status_code == 403


async def test_a_credential_without_tenant_and_delegation_acts_for_nobody(served: Served) -> None:
    """Whatever has made it."""
    for headers in ([], [("X-External-Id", "joe")]):
        assert (await _whoami(served, "odd", *headers)).status_code == 403


@pytest.mark.parametrize(
    "name", ["X-External-Id", "x-external-id", "Authorization", "authorization", "X-Also-Reads", "x-also-reads"]
)
async def test_a_header_that_decides_stands_there_once(served: Served, name: str) -> None:
    """A proxy may have checked the other one."""
    first = [("X-External-Id", "joe"), ("X-Also-Reads", "zoe")]
    second = (name, "Bearer ida" if name.lower() == "authorization" else "ida")

    answer = await _whoami(served, "backend", *first, second)

    assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (400, "header-repeated")


async def test_a_cookie_counts_for_pages_only(served: Served) -> None:
    """Also where a proxy has put the application under a prefix, and however the path is spelled."""
    cookie = ("Cookie", "reminiscence_credential=backend; reminiscence_external_id=z%C3%B6e")

    page = await _whoami(served, None, cookie, path="/whoami")
    assert (page.status_code, page.json()) == (200, {"tenant": "zöe"})
    for path in ("/v1/whoami", "/%76%31/whoami", "/v1/", "/mcp", "/metrics"):
        assert (await _whoami(served, None, cookie, path=path)).status_code == 401

    app = guarded(_KEYS)
    client = TestClient(app, root_path="/memory", headers=dict([cookie]))
    assert client.get("/memory/whoami").status_code == 200
    assert client.get("/memory/v1/whoami").status_code == 401


async def test_a_page_without_a_chosen_tenant_says_so(served: Served) -> None:
    """An empty cookie is one that was taken away."""
    for chosen in ("", "; reminiscence_external_id=", '; reminiscence_external_id=""'):
        answer = await _whoami(served, None, ("Cookie", f"reminiscence_credential=backend{chosen}"), path="/whoami")
        assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (400, "tenant-missing")


@pytest.mark.parametrize("path", ["/socket", "/healthz", "/static/x"])
def test_no_socket_is_opened(path: str) -> None:
    """None of ours is one, and no credential is asked of them."""
    client = TestClient(guarded(_KEYS))
    with pytest.raises(WebSocketDisconnect), client.websocket_connect(path):
        pass


# --- How many requests -----------------------------------------------------------------------------------------------


async def test_a_credential_makes_as_many_requests_as_it_may(served: Served) -> None:
    """Its own limit, else the server's; others are not affected, and the answer says how long to wait."""
    for token, limit in (("joe", 2), ("zoe", 5), ("ida", 3), ("t" * 32, 3)):
        headers = [("X-External-Id", "joe")] if token == "t" * 32 else []
        for _ in range(limit):
            assert (await _whoami(served, token, *headers)).status_code == 200
        answer = await _whoami(served, token, *headers)

        assert (answer.status_code, answer.headers["retry-after"]) == (429, str(60 // limit))
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json() == {
            "type": "urn:agent-reminiscence:problem:too-many-requests",
            "title": "Too many requests",
            "status": 429,
            "detail": f"this credential may make {limit} requests a minute; wait {60 // limit} s",
        }


async def test_a_backend_has_one_limit_for_all_for_whom_it_acts(served: Served) -> None:
    """The limit is the credential's; a refused request counts, too."""
    codes = [(await _whoami(served, "backend", ("X-External-Id", tenant))).status_code for tenant in "ab"]
    codes.append((await _whoami(served, "backend")).status_code)
    codes.append((await _whoami(served, "backend", ("X-External-Id", "c"))).status_code)

    assert codes == [200, 200, 400, 429]
