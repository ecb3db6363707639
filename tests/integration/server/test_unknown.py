"""What is answered where there is nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from agent_reminiscence import AgentMem
from agent_reminiscence.server import create_app
from agent_reminiscence.server.access.authenticators import LocalToken
from tests.support.browsing import read
from tests.support.rest import kind_of
from tests.support.serving import serve

_TOKEN = "t" * 32


@pytest.fixture
async def client(unopened: AgentMem) -> AsyncIterator[httpx.AsyncClient]:
    """Somebody with a token."""
    async with serve(create_app(unopened, LocalToken(_TOKEN)), _TOKEN) as served:
        yield served.client


@pytest.mark.parametrize(
    "path", ["/nothing", "/memories/1/nothing", "/v1", "/v1/nothing", "/mcp/x", "/healthz/x", "/static/x"]
)
@pytest.mark.parametrize("accept", ["*/*", "application/json"])
async def test_a_program_gets_a_problem(client: httpx.AsyncClient, path: str, accept: str) -> None:
    """Wherever it looks."""
    answer = await client.get(path, headers={"Accept": accept})
    assert (answer.status_code, kind_of(answer)) == (404, "not-found")


@pytest.mark.parametrize("path", ["/nothing", "/memories/1/nothing", "/healthz/x", "/static/x"])
async def test_a_browser_gets_a_page(client: httpx.AsyncClient, path: str) -> None:
    """Also one that has not signed in, where that is not asked for."""
    answer = await client.get(path, headers={"Accept": "text/html,*/*;q=0.8"})
    assert answer.status_code == 404
    page = read(answer)
    assert not page.faults
    assert "There is no page at this address." in page.text


async def test_under_v1_a_browser_gets_a_problem_too(client: httpx.AsyncClient) -> None:
    """There are no pages."""
    answer = await client.get("/v1/nothing", headers={"Accept": "text/html"})
    assert (answer.status_code, kind_of(answer)) == (404, "not-found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/ask", {"GET", "HEAD"}),
        ("GET", "/sign-out", {"POST"}),
        ("GET", "/mcp", {"POST"}),
        ("PUT", "/v1/memories", {"GET", "POST"}),
    ],
)
async def test_another_method_is_told_which_there_are(
    client: httpx.AsyncClient, method: str, path: str, allowed: set[str]
) -> None:
    """In the header, and as a problem or a page."""
    answer = await client.request(method, path)
    assert (answer.status_code, kind_of(answer)) == (405, "method-not-allowed")
    assert allowed <= set(answer.headers["allow"].split(", "))
    page = await client.request(method, path, headers={"Accept": "text/html"})
    assert page.status_code == 405
    assert page.headers["allow"] == answer.headers["allow"]
