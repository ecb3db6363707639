"""A real browser that looks at the inspector, and notes whatever is wrong with what it sees."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from playwright.async_api import (
    Browser,
    ConsoleMessage,
    Locator,
    Page,
    Request,
    Response,
    async_playwright,
    expect,
)

DESK: Final = {"width": 1280, "height": 860}
TELEPHONE: Final = {"width": 390, "height": 844}
_ARGUMENTS: Final = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
_PATIENCE_MILLISECONDS: Final = 60_000
_MOST_TABS: Final = 150


@asynccontextmanager
async def browsing(chromium: str, *arguments: str) -> AsyncIterator[Browser]:
    """A browser of its own."""
    expect.set_options(timeout=_PATIENCE_MILLISECONDS)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium,
            chromium_sandbox=False,
            args=[*_ARGUMENTS, *arguments],
            timeout=_PATIENCE_MILLISECONDS,
        )
        yield browser
        await browser.close()


@dataclass
class Watched:
    """A page, and whatever is wrong with it.

    A page fails if it says anything to the console, asks another server for anything, gets an error for any request,
    is wider than its screen, opens a dialog, or has what axe calls serious.

    Attributes:
        url: Where the inspector is, with the prefix if it has one.
        asked: The paths that were asked for.
    """

    page: Page
    url: str
    axe: Path
    problems: list[str] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)

    @classmethod
    async def visit(
        cls,
        browser: Browser,
        url: str,
        axe: Path,
        *,
        token: str,
        tenant: str,
        screen: dict[str, int] = DESK,
        theme: str = "light",
    ) -> Watched:
        """A new browser window that has signed in, by the form."""
        context = await browser.new_context(viewport=screen, color_scheme=theme)
        context.set_default_timeout(_PATIENCE_MILLISECONDS)
        watched = cls(await context.new_page(), url, axe)
        watched._watch()
        await watched.open("/")
        assert watched.page.url.startswith(f"{url}/sign-in?next=")
        await watched.check()
        await watched.page.get_by_label("Key or token").fill(token)
        await watched.page.keyboard.press("Enter")
        await expect(watched.page.get_by_role("heading", name="Whose memory")).to_be_visible()
        await watched.page.get_by_role("textbox", name="external_id").fill(tenant)
        await watched.page.keyboard.press("Enter")
        await watched._sees_memory()
        return watched

    async def change_to(self, tenant: str) -> None:
        """Look at somebody else's memory."""
        await self.open("/tenants")
        await self.page.get_by_role("textbox", name="external_id").fill(tenant)
        await self.page.keyboard.press("Enter")
        await self._sees_memory()

    async def _sees_memory(self) -> None:
        """Wait until the choice of a tenant is kept."""
        # Exact: the page of the choice has a heading "Known here", which holds these letters as well.
        await expect(self.page.get_by_role("heading", name="Now", exact=True)).to_be_visible()

    def _watch(self) -> None:
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.problems.append(f"an error: {error}"))
        self.page.on("dialog", lambda dialog: self.problems.append(f"a dialog: {dialog.message}"))
        self.page.on("response", self._answered)
        self.page.on("requestfailed", self._failed)
        self.page.on("request", self._asked)

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.problems.append(f"console: {message.text}")

    def _answered(self, response: Response) -> None:
        if response.status >= 400:
            self.problems.append(f"{response.status}: {response.url}")

    def _failed(self, request: Request) -> None:
        # What is left before it has come is not what is wrong with a page.
        if request.failure != "net::ERR_ABORTED":
            self.problems.append(f"failed: {request.url} {request.failure}")

    def _asked(self, request: Request) -> None:
        if not request.url.startswith(f"{self.url}/"):
            self.problems.append(f"asked elsewhere: {request.url}")
        self.asked.add(request.url.removeprefix(self.url).partition("?")[0])

    async def open(self, path: str) -> None:
        """Go to a page and wait until it is drawn."""
        answer = await self.page.goto(self.url + path)
        assert answer is not None
        assert answer.ok, f"{path} was answered with {answer.status}: {await answer.text()}"
        await self.drawn()

    async def drawn(self) -> None:
        """Wait until all drawings and charts are there."""
        for place in await self.page.locator("[data-graph], #growth").all():
            await expect(place).to_have_attribute("data-ready", "yes")

    async def check(self) -> None:
        """Fail if anything was wrong, or is."""
        wider = await self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        if wider > 0:
            self.problems.append(f"{self.page.url} is {wider} pixels wider than the screen")
        await self.page.evaluate(self.axe.read_text(encoding="utf-8"))
        found: list[dict[str, Any]] = await self.page.evaluate("axe.run().then((found) => found.violations)")
        for one in found:
            if one["impact"] in {"serious", "critical"}:
                places = [node["html"][:200] for node in one["nodes"][:3]]
                self.problems.append(f"{self.page.url}: {one['id']}: {places}")
        assert not self.problems, self.problems


async def tab_to(page: Page, what: Locator) -> None:
    """Reach something by the Tab key alone."""
    await expect(what).to_be_visible()
    for _ in range(_MOST_TABS):
        await page.keyboard.press("Tab")
        if await what.evaluate("(one) => one === document.activeElement"):
            return
    raise AssertionError(f"{what} cannot be reached by the Tab key")


async def click(page: Page, what: Locator) -> None:
    """Do something by mouse."""
    del page
    await what.click()


async def press(page: Page, what: Locator) -> None:
    """Do something by keys alone."""
    await tab_to(page, what)
    await page.keyboard.press("Enter")
