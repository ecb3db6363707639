"""What the guards tell a browser is what a real one does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from fastapi import FastAPI
from playwright.async_api import Browser, async_playwright
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.server import create_app
from agent_reminiscence.server.access.authenticators import LocalToken
from tests.support.serving import Served, serve

_TOKEN = "t" * 32
# What a memory could hold, if its text came into a page unescaped.
_STORED = """<script>document.title = "taken"</script>
<img src="/static/none" onerror="document.title = 'taken'"><style>body { color: rgb(255, 0, 0) }</style>
<a id="link" href="javascript:document.title = 'taken'">a link</a>
<form id="elsewhere" action="http://evil.example/" method="post"><button>send</button></form>"""
_PAGE = f"""<!doctype html><title>ours</title><script src="/static/ours.js"></script>
<form id="ours" action="/page" method="post"><button>write</button></form>{_STORED}"""


@pytest.fixture
async def served(config: Callable[..., Config]) -> AsyncIterator[Served]:
    """A page that holds what it should not, and a form that writes."""
    app = create_app(AgentMem(config()), LocalToken(_TOKEN))
    given = list(app.router.routes)

    @app.get("/sign-in/page")
    async def page() -> Response:
        return HTMLResponse(_PAGE)

    @app.get("/static/ours.js")
    async def script() -> Response:
        return PlainTextResponse("window.ours = true", media_type="text/javascript")

    @app.post("/page")
    async def write() -> Response:
        return PlainTextResponse("written")

    # Before the application's own, which have static files, too.
    app.router.routes[:] = [*(one for one in app.router.routes if one not in given), *given]
    async with serve(app, _TOKEN) as served:
        yield served


@pytest.fixture
async def browser(chromium: str) -> AsyncIterator[Browser]:
    """Chromium, for which evil.example is this machine."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium,
            chromium_sandbox=False,
            args=[
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--host-resolver-rules=MAP evil.example 127.0.0.1",
            ],
        )
        yield browser
        await browser.close()


async def test_markup_in_a_text_does_nothing(served: Served, browser: Browser) -> None:
    """Even if a page forgot to escape it: no script, no style, no link and no form of it has any effect."""
    page = await browser.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    await page.goto(f"{served.url}/sign-in/page", wait_until="networkidle")
    assert await page.evaluate("window.ours") is True
    await page.click("#link")
    assert await page.title() == "ours"
    assert await page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"

    other, reached = FastAPI(), []

    @other.post("/")
    async def take() -> None:
        reached.append("it")

    async with serve(other) as elsewhere:
        await page.evaluate(
            "url => { const form = document.getElementById('elsewhere'); form.action = url; form.requestSubmit() }",
            elsewhere.url,
        )
        async with asyncio.timeout(60):
            while not any("form-action" in text for text in said):  # noqa: ASYNC110 - the browser says it when it does
                await asyncio.sleep(0.02)
    assert reached == []
    for directive in ("script-src", "style-src"):
        assert any(directive in text for text in said), directive


async def test_no_page_of_another_site_may_hold_or_read_ours(served: Served, browser: Browser) -> None:
    """Neither in a frame, where its clicks would be stolen, nor as a script."""
    other = FastAPI()

    @other.get("/")
    async def page() -> Response:
        framed = f'<iframe id="frame" src="{served.url}/sign-in/page"></iframe>'
        return HTMLResponse(f'<title>evil</title>{framed}<script src="{served.url}/static/ours.js"></script>')

    async with serve(other) as elsewhere:
        shown = await browser.new_page()
        await shown.goto(elsewhere.url.replace("127.0.0.1", "localhost"), wait_until="networkidle")
        assert await shown.evaluate("window.ours") is None
        assert all("/sign-in/page" not in frame.url for frame in shown.frames)


async def test_only_our_own_page_writes_with_a_cookie(served: Served, browser: Browser) -> None:
    """A form of another site is refused, whatever the cookie allows."""
    other = FastAPI()

    @other.get("/")
    async def page() -> Response:
        return HTMLResponse(f'<form action="{served.url}/page" method="post"><button>win</button></form>')

    context = await browser.new_context()
    cookie = {"name": "reminiscence_credential", "value": _TOKEN, "url": served.url}
    await context.add_cookies([cookie])  # type: ignore[list-item, unused-ignore]
    ours = await context.new_page()
    await ours.goto(f"{served.url}/sign-in/page")
    await ours.click("#ours button")
    assert await ours.inner_text("body") == "written"

    async with serve(other) as elsewhere:
        evil = await context.new_page()
        await evil.goto(elsewhere.url.replace("127.0.0.1", "localhost"))
        async with evil.expect_response(f"{served.url}/page") as answered:
            await evil.click("button")
        answer = await answered.value
        assert answer.status == 403
        assert (await answer.json())["type"] == "urn:agent-reminiscence:problem:cross-site"


async def test_a_name_that_leads_here_is_not_enough(served: Served, browser: Browser) -> None:
    """As after DNS rebinding, the browser takes the attacker's name for this server, which does not answer to it."""
    page = await browser.new_page()
    answer = await page.goto(f"{served.url.replace('127.0.0.1', 'evil.example')}/sign-in/page")
    assert answer is not None
    assert answer.status == 421
