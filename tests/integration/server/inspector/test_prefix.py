"""Behind a proxy that has put the server under a prefix: every address of a page stays below it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import quote

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from agent_reminiscence import AgentMem
from agent_reminiscence.server import ServerConfig, create_app
from agent_reminiscence.server.access.authenticators import AnyOf, LocalToken
from agent_reminiscence.server.inspector.mounting import STATIC
from agent_reminiscence.server.paths import OPEN, PROGRAMS
from tests.integration.server.inspector.conftest import TOKEN, Keys
from tests.integration.server.inspector.test_pages import PAGES
from tests.support.browsing import read, walk
from tests.support.inspected import MILL, Told
from tests.support.serving import serve

PREFIX: Final = "/memory"


class Proxy:
    """Has a server under the prefix, and nothing else.

    Args:
        strips: Whether it takes the prefix away.
        says: What the ASGI server behind it was told, as by `uvicorn --root-path`.
    """

    def __init__(self, app: ASGIApp, *, strips: bool, says: str = "") -> None:
        self._app = app
        self._strips = strips
        self._says = says

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path: str = scope["path"]
            if not path.startswith(f"{PREFIX}/"):
                await send({"type": "http.response.start", "status": 404, "headers": []})
                await send({"type": "http.response.body", "body": b"something else is here"})
                return
            if self._strips:
                # uvicorn puts the prefix that it was told before what it receives.
                path = self._says + path.removeprefix(PREFIX)
            scope = {**scope, "path": path, "raw_path": quote(path).encode(), "root_path": self._says}
        await self._app(scope, receive, send)


def _stripping(app: Callable[[str], ASGIApp]) -> ASGIApp:
    return Proxy(app(PREFIX), strips=True)


def _passing(app: Callable[[str], ASGIApp]) -> ASGIApp:
    return Proxy(app(PREFIX), strips=False)


def _told_to_uvicorn(app: Callable[[str], ASGIApp]) -> ASGIApp:
    return Proxy(app(""), strips=True, says=PREFIX)


@asynccontextmanager
async def _behind(
    memory: AgentMem, proxy: Callable[[Callable[[str], ASGIApp]], ASGIApp]
) -> AsyncIterator[httpx.AsyncClient]:
    authenticator = AnyOf([LocalToken(TOKEN), Keys()])
    behind = proxy(lambda prefix: create_app(memory, authenticator, config=ServerConfig(root_path=prefix)))
    headers = {"Accept": "text/html", "Sec-Fetch-Site": "same-origin"}
    async with (
        serve(behind) as served,
        httpx.AsyncClient(base_url=served.url, headers=headers, timeout=60) as client,
    ):
        yield client


@pytest.mark.thorough
async def test_no_address_of_any_page_leads_out_of_the_prefix(unopened: AgentMem, told: Told) -> None:
    """Links, forms, files, requests of scripts, and the redirects on the way."""
    async with _behind(unopened, _stripping) as client:
        await client.post(f"{PREFIX}/sign-in", data={"token": "owner"})
        starts = [f"{PREFIX}{path}" for path in (*PAGES, f"/time?name=Ines&memory={told.plan}", "/views?agent=mara")]
        pages = await walk(client, *starts, prefix=PREFIX)
        for path, (answer, seen) in pages.items():
            assert path.startswith(f"{PREFIX}/"), path
            assert answer.status_code == 200, (path, answer.text[:500])
            assert not seen.faults, path
            assert all(action.startswith(f"{PREFIX}/") for _, action in seen.forms), path
            for step in answer.history:
                assert step.headers["location"].startswith(f"{PREFIX}/"), path
        assert len(pages) > 70
        for file in ("inspector.css", "inspector.js", "vendor/htmx.min.js"):
            assert (await client.get(f"{PREFIX}/static/{file}")).status_code == 200


@pytest.mark.thorough
@pytest.mark.parametrize("proxy", [_stripping, _passing, _told_to_uvicorn])
async def test_signing_in_choosing_and_changing_stay_below_the_prefix(
    unopened: AgentMem, proxy: Callable[[Callable[[str], ASGIApp]], ASGIApp]
) -> None:
    """However the prefix was said; cookies too."""
    async with _behind(unopened, proxy) as client:
        kept = await unopened.create_active_memory(MILL, "Rye", "Ten sacks.", language="en")
        asked = await client.get(f"{PREFIX}/memories?order=oldest")
        back = f"{PREFIX}/memories?order=oldest"
        assert asked.headers["location"] == f"{PREFIX}/sign-in?next={quote(back, safe='')}"
        part = await client.get(f"{PREFIX}/memories", headers={"HX-Request": "true"})
        assert part.headers["hx-redirect"] == f"{PREFIX}/sign-in"

        entered = await client.post(f"{PREFIX}/sign-in", data={"token": TOKEN, "next": back})
        assert entered.headers["location"] == back
        cookies = entered.headers.get_list("set-cookie")
        assert len(cookies) == 2
        assert all(f"Path={PREFIX}" in [part.strip() for part in cookie.split(";")] for cookie in cookies)
        for elsewhere in (
            "/other",
            "//example.org/",
            f"{PREFIX}//example.org",
            "/memoryless",
            f"{PREFIX}/sign-out",
            "",
        ):
            again = await client.post(f"{PREFIX}/sign-in", data={"token": TOKEN, "next": elsewhere})
            assert again.headers["location"] == f"{PREFIX}/", elsewhere

        asked = await client.get(back)
        assert asked.headers["location"] == f"{PREFIX}/tenants?next={quote(back, safe='')}"
        chosen = await client.post(f"{PREFIX}/tenants", data={"external_id": MILL, "next": back})
        assert chosen.headers["location"] == back
        assert "Rye" in read(await client.get(back)).text
        marked = await client.get(f"{PREFIX}/memories/{kept.id}")
        assert f'href="{PREFIX}/memories" aria-current="page"' in marked.text
        assert f"{PREFIX}/tenants?next={quote(f'{PREFIX}/memories/{kept.id}', safe='')}" in marked.text

        done = await client.post(f"{PREFIX}/memories/{kept.id}/archive", data={})
        assert done.headers["location"] == f"{PREFIX}/memories/{kept.id}"
        done = await client.post(f"{PREFIX}/erase", data={"scope": "memory", "memory_id": str(kept.id)})
        assert done.headers["location"].startswith(f"{PREFIX}/receipts/")
        left = await client.post(f"{PREFIX}/sign-out", data={})
        assert left.headers["location"] == f"{PREFIX}/sign-in"
        assert (await client.get(f"{PREFIX}/")).status_code == 303


async def test_an_application_of_somebody_else_can_hold_it(unopened: AgentMem) -> None:
    """Mounted, with no setting at all."""
    mounted = create_app(unopened, LocalToken(TOKEN))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with mounted.router.lifespan_context(mounted):
            yield

    outer = Starlette(routes=[Mount(PREFIX, mounted)], lifespan=lifespan)
    async with (
        serve(outer) as served,
        httpx.AsyncClient(base_url=served.url, headers={"Accept": "text/html"}) as client,
    ):
        answer = await client.get(f"{PREFIX}/sign-in?token={TOKEN}")
        assert answer.headers["location"] == f"{PREFIX}/"
        answer = await client.get(f"{PREFIX}/", follow_redirects=True)
        assert answer.status_code == 200
        assert "Whose memory" in answer.text
        assert not read(answer, PREFIX).faults


async def test_rest_says_where_something_is_below_the_prefix(unopened: AgentMem) -> None:
    """Once, not twice."""
    async with _behind(unopened, _stripping) as client:
        headers = {"Authorization": f"Bearer {TOKEN}", "X-External-Id": MILL}
        answer = await client.post(
            f"{PREFIX}/v1/memories", json={"title": "Rye", "content": "Ten sacks."}, headers=headers
        )
        assert answer.status_code == 201
        assert answer.headers["location"].startswith(f"{PREFIX}/v1/memories/")
        assert (await client.get(answer.headers["location"], headers=headers)).status_code == 200


def test_no_prefix_can_be_taken_for_a_path_of_ours(unopened: AgentMem) -> None:
    """All first parts of the application's paths are refused as a prefix."""
    app = create_app(unopened, LocalToken(TOKEN))
    paths = [route.path for route in app.routes if isinstance(route, Route | Mount)]
    firsts = {path.split("/")[1] for path in (*paths, *PROGRAMS, *OPEN, STATIC)} - {""}
    assert len(firsts) > 15
    for first in firsts:
        with pytest.raises(Exception, match="begins like a path of this server"):
            ServerConfig(root_path=f"/{first}")
