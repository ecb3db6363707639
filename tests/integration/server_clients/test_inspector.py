"""The inspector in a real browser: every page in both themes and on a telephone, and what is done by mouse and by keys.

A page fails if it says anything to the console, asks another server for anything, gets an error for any request, is
wider than its screen, or has what axe calls serious.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.async_api import Browser, ConsoleMessage, Locator, Page, Request, Response, async_playwright, expect

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.server import ServerConfig, create_app
from agent_reminiscence.server.access.authenticators import LocalToken
from tests.conftest import TEST_DIMENSION, TestServer, dsn
from tests.support.inspected import HOSTILE, MILL, Told, attack, tell
from tests.support.serving import serve

TOKEN: Final = "t" * 32
_ARGUMENTS: Final = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
_DESK, _TELEPHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 844}
_PATIENCE_MILLISECONDS: Final = 60_000
_MOST_TABS: Final = 150


@dataclass
class Watched:
    """A page, and whatever is wrong with it."""

    page: Page
    url: str
    axe: Path
    problems: list[str] = field(default_factory=list)

    def watch(self) -> None:
        """Note from now on what must not happen."""
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.problems.append(f"an error: {error}"))
        self.page.on("response", self._answered)
        self.page.on("requestfailed", self._failed)
        self.page.on("request", lambda request: self._asked(request.url))

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

    def _asked(self, url: str) -> None:
        if not url.startswith(self.url):
            self.problems.append(f"asked elsewhere: {url}")

    async def open(self, path: str) -> None:
        """Go to a page and wait until it is drawn."""
        await self.page.goto(self.url + path)
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


@dataclass(frozen=True)
class Served:
    """A served inspector with a story, and a browser."""

    url: str
    told: Told
    memory: AgentMem
    browser: Browser
    axe: Path

    async def visit(self, *, screen: dict[str, int] = _DESK, theme: str = "light", tenant: str = MILL) -> Watched:
        """A new browser window that has signed in, by the form."""
        context = await self.browser.new_context(viewport=screen, color_scheme=theme)
        context.set_default_timeout(_PATIENCE_MILLISECONDS)
        watched = Watched(await context.new_page(), self.url, self.axe)
        watched.watch()
        await watched.open("/")
        assert watched.page.url.startswith(f"{self.url}/sign-in?next=")
        await watched.check()
        await watched.page.get_by_label("Key or token").fill(TOKEN)
        await watched.page.keyboard.press("Enter")
        await expect(watched.page.get_by_role("heading", name="Whose memory")).to_be_visible()
        await watched.page.get_by_role("textbox", name="external_id").fill(tenant)
        await watched.page.keyboard.press("Enter")
        await expect(watched.page.get_by_role("heading", name="Now")).to_be_visible()
        return watched


@pytest.fixture
async def served(test_server: TestServer, database: str, chromium: str, npm_tools: Path) -> AsyncIterator[Served]:
    """The story and the attack, served, and a browser to look at it."""
    memory = AgentMem(
        Config(
            postgres_dsn=dsn(test_server.login(database)),
            embedding_provider="hash",
            embedding_dimension=TEST_DIMENSION,
            worker=False,
        )
    )
    expect.set_options(timeout=_PATIENCE_MILLISECONDS)
    axe = npm_tools / "node_modules" / "axe-core" / "axe.min.js"
    async with serve(create_app(memory, LocalToken(TOKEN))) as address, async_playwright() as playwright:
        told = await tell(memory)
        browser = await playwright.chromium.launch(
            executable_path=chromium, chromium_sandbox=False, args=list(_ARGUMENTS), timeout=_PATIENCE_MILLISECONDS
        )
        yield Served(address.url, told, memory, browser, axe)
        await browser.close()


def _paths(told: Told) -> list[str]:
    return [
        "/", "/tenants", "/memories", "/memories?order=archived", "/memories?q=ferry", f"/memories/{told.plan}",
        f"/memories/{told.plan}?left=1&right=6&whole=1", f"/memories/{told.talk}", f"/memories/{told.archived}",
        f"/memories/{told.plan}/archive", "/ask", "/ask?q=When+is+opening+day%3F",
        "/ask?q=What+about+the+stairs%3F&token_budget=90&as_of=2025-05-25&sources=user", "/time",
        f"/time?q=When+is+opening+day%3F&as_of=2025-05-10&name=Petra+Lindgren&memory={told.plan}", "/graph",
        "/graph?name=Petra+Lindgren", "/graph/merge?survivor=Ines&merged=Ines+Halvorsen", "/ledger",
        "/ledger?kind=memory.updated", "/ledger/1", "/ledger/verify", "/receipts", "/erase", "/views",
        "/views?agent=mara", "/views?agent=mara&view=salient&scene=a+key", "/views?agent=odo&view=beliefs",
        "/views?agent=mara&view=prompt", "/runs",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("screen", "theme"), [(_DESK, "light"), (_DESK, "dark"), (_TELEPHONE, "light")], ids=["light", "dark", "telephone"]
)
async def test_every_page_is_sound(served: Served, screen: dict[str, int], theme: str) -> None:
    """In both themes, and on a telephone."""
    window = await served.visit(screen=screen, theme=theme)
    await served.memory.admin.erase(MILL, memory_id=served.told.archived)
    for path in _paths(served.told):
        if path.endswith(str(served.told.archived)):
            continue
        await window.open(path)
        await window.check()
    await window.open("/receipts")
    await window.page.get_by_role("link", name="Receipt of").first.click()
    await window.check()
    await window.open("/runs")
    await window.page.get_by_role("link", name="When does the lighthouse open").click()
    await window.check()


async def test_every_page_is_sound_with_scripts_in_every_field(served: Served) -> None:
    """None of them runs, and none breaks a page."""
    kept = await attack(served.memory)
    window = await served.visit(tenant=HOSTILE, screen=_TELEPHONE)
    asked: list[str] = []
    window.page.on("dialog", lambda dialog: asked.append(dialog.message))
    for path in (
        "/", "/memories", f"/memories/{kept}", "/ask?q=Where+does+Sophie+Baker+live%3F",
        f"/time?q=Sophie&name=Sophie+Baker&memory={kept}", "/graph?name=Sophie+Baker", "/ledger", "/receipts", "/runs",
        "/views", "/tenants",
    ):  # fmt: skip
        await window.open(path)
        await window.check()
    assert not asked


async def test_the_sliders_move_list_text_search_and_graph_at_once(served: Served) -> None:
    """By keys and by mouse; the address keeps where they stand."""
    window = await served.visit()
    page = window.page
    await window.open(f"/time?q=When+is+opening+day%3F&name=Petra+Lindgren&memory={served.told.plan}")
    world = page.get_by_role("slider", name="The world's time")
    result = page.locator("#result")
    await expect(result).to_contain_text("June 28")
    await expect(result).to_contain_text("Heritage Fund")

    await world.focus()
    await page.keyboard.press("Home")
    await expect(result).to_contain_text("It did not exist then")
    await expect(result).not_to_contain_text("opening day")
    assert "as_of=2025-02-20" in page.url
    for _ in range(6):
        await page.keyboard.press("ArrowRight")
    await expect(result).to_contain_text("version 3 then, version 6 now")
    await expect(result).to_contain_text("Opening day is Saturday, June 14.")
    await expect(world).to_have_attribute("aria-valuetext", "2025-04-22 10:00:00")
    await expect(result.locator("[data-graph]")).to_have_attribute("data-ready", "yes")
    await window.check()

    await page.get_by_role("link", name="Back to now").click()
    system = page.get_by_role("slider", name="The system's time")
    box = await system.bounding_box()
    assert box is not None
    await page.mouse.click(box["x"] + 2, box["y"] + box["height"] / 2)
    await expect(result).to_contain_text("1 active memory")
    await expect(result).to_contain_text("It did not exist then")
    assert "known_at=" in page.url
    # The address leads to the same page, without the sliders.
    await page.reload()
    await expect(result).to_contain_text("1 active memory")
    await window.check()


async def test_two_versions_stand_side_by_side(served: Served) -> None:
    """Chosen from lists, by keys."""
    window = await served.visit()
    page = window.page
    await window.open("/memories?key_prefix=plans/")
    await page.get_by_role("link", name="Opening of the lighthouse").click()
    await expect(page.locator("del")).to_have_text("14")
    await expect(page.locator("ins")).to_have_text("28, because the paint has to dry")
    await _tab_to(page, page.get_by_role("combobox", name="Version", exact=True))
    await page.keyboard.press("Home")
    await expect(page.locator(".diff .added-line").nth(3)).to_be_visible()
    assert "left=1" in page.url
    await window.check()


async def test_a_search_shows_the_parts_of_each_score_and_the_neighbours(served: Served) -> None:
    """Typed and opened by keys alone."""
    window = await served.visit()
    page = window.page
    await window.open("/ask")
    await page.get_by_role("searchbox", name="Question").fill("Which steps of the stairs are rusted?")
    await page.keyboard.press("Enter")
    first = page.get_by_role("article").first
    await expect(first).to_contain_text("Steps 41 to 58 are rusted through")
    await expect(first.locator(".bars dt", has_text="words_before")).to_be_visible()
    widths = await first.locator(".bars rect.value").evaluate_all("(bars) => bars.map((bar) => bar.getBBox().width)")
    assert widths[0] == 100
    assert all(0 < width <= 100 for width in widths)
    await expect(page.get_by_role("heading", name="What a model would get")).to_be_visible()
    await _tab_to(page, first.locator("summary"))
    await page.keyboard.press("Enter")
    await expect(first.locator(".neighbours")).to_contain_text("What about the stairs?")
    await window.check()
    await first.get_by_role("link", name="In the whole text").click()
    await expect(page.locator(".passage.wanted")).to_contain_text("Steps 41 to 58")


async def test_the_graph_shows_its_evidence_by_a_click_and_by_a_key(served: Served) -> None:
    """On the drawing, and in the tables that hold the same."""
    window = await served.visit()
    page = window.page
    await window.open("/graph?name=Petra+Lindgren")
    evidence = page.locator("#evidence")
    place = await page.evaluate(
        """() => {
            const place = document.querySelector("[data-graph]"), box = place.getBoundingClientRect();
            const node = place.reminiscence.nodes().filter((one) => one.data("label") === "Heritage Fund")[0];
            const at = node.renderedPosition();
            return [box.x + at.x, box.y + at.y];
        }"""
    )
    await page.mouse.click(*place)
    await expect(evidence).to_contain_text("Petra Lindgren works for the Heritage Fund")
    await window.check()

    link = page.get_by_role("link", name="Evidence for Petra Lindgren", exact=True)
    await _tab_to(page, link)
    await page.keyboard.press("Enter")
    await expect(evidence.get_by_role("heading")).to_contain_text("Petra Lindgren")
    await expect(evidence).to_contain_text("rehearses in Port Ellory")
    related = page.get_by_role("row").filter(has_text="Heritage Fund").get_by_role("link", name="Evidence for").first
    await related.click()
    await expect(evidence).to_contain_text("Strength")
    await window.check()


async def _click(page: Page, what: Locator) -> None:
    await what.click()


async def _tab_to(page: Page, what: Locator) -> None:
    """Reach something by the Tab key alone."""
    await expect(what).to_be_visible()
    for _ in range(_MOST_TABS):
        await page.keyboard.press("Tab")
        if await what.evaluate("(one) => one === document.activeElement"):
            return
    raise AssertionError(f"{what} cannot be reached by the Tab key")


async def _press(page: Page, what: Locator) -> None:
    await _tab_to(page, what)
    await page.keyboard.press("Enter")


@pytest.mark.parametrize("do", [_click, _press], ids=["mouse", "keys"])
async def test_an_erasure_leaves_a_receipt_that_is_checked_again(
    served: Served, do: Callable[[Page, Locator], Awaitable[None]]
) -> None:
    """From the ledger to the receipt, by mouse alone and by keys alone."""
    window = await served.visit()
    page = window.page
    await window.open("/ledger")
    await do(page, page.get_by_role("link", name="Erase…"))
    text = page.get_by_role("textbox", name="The exact text")
    await (_click if do is _click else _tab_to)(page, text)
    await page.keyboard.type("Marlow")
    await do(page, page.locator("form", has=text).get_by_role("button"))
    await expect(page.get_by_role("heading", name="This would go")).to_be_visible()
    await expect(page.locator("main")).to_contain_text("Money and paint")
    await window.check()
    await do(page, page.get_by_role("button", name="Erase for good"))
    await expect(page.get_by_role("heading", name="Receipt of an erasure")).to_be_visible()
    await expect(page.locator("main")).to_contain_text("its seal holds")
    await window.check()
    await do(page, page.get_by_role("button", name="Check again"))
    await expect(page.get_by_role("heading", name="Nothing of it is left")).to_be_visible()
    await window.check()
    await window.open("/ledger/verify")
    await do(page, page.get_by_role("button", name="Verify"))
    await expect(page.get_by_role("heading", name="The ledger is unaltered")).to_be_visible()
    await window.check()


async def test_a_server_that_does_not_answer_leaves_the_page_as_it_is(served: Served) -> None:
    """And its reader is told."""
    window = await served.visit()
    page = window.page
    await window.open("/ledger")
    events = page.locator(".timeline > li")
    before = await events.count()
    await page.route("**/ledger?*", lambda route: route.fulfill(status=503, json={"detail": "too many calls"}))
    await page.get_by_role("combobox", name="Kind").select_option("memory.archived")
    await expect(page.get_by_role("alert")).to_contain_text("The server is busy")
    assert await events.count() == before
    await page.unroute("**/ledger?*")
    await page.get_by_role("combobox", name="Kind").select_option("memory.promoted")
    await expect(events).to_have_count(1)
    await expect(page.locator("#trouble")).to_be_hidden()


async def test_pages_work_over_plain_http_under_another_name(served: Served, chromium: str) -> None:
    """There a browser does not say where a request comes from but in `Origin`, which a policy may take away."""
    name = "memory.test"
    async with (
        serve(create_app(served.memory, LocalToken(TOKEN), config=ServerConfig(allowed_hosts=(name,)))) as other,
        async_playwright() as playwright,
    ):
        browser = await playwright.chromium.launch(
            executable_path=chromium,
            chromium_sandbox=False,
            args=[*_ARGUMENTS, f"--host-resolver-rules=MAP {name} 127.0.0.1"],
            timeout=_PATIENCE_MILLISECONDS,
        )
        page = await browser.new_page()
        await page.goto(other.url.replace("127.0.0.1", name))
        await page.get_by_label("Key or token").fill(TOKEN)
        await page.keyboard.press("Enter")
        await page.get_by_role("textbox", name="external_id").fill(MILL)
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Now")).to_be_visible()
        await browser.close()


async def test_a_theme_that_was_chosen_is_kept(served: Served) -> None:
    """On the next page, too, with the drawing and the chart in its colours."""
    window = await served.visit(theme="light")
    page = window.page
    light = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    await _press(page, page.get_by_role("button", name="Dark theme"))
    assert await page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    await window.open("/graph?name=Ines")
    assert await page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    await window.check()
    await page.get_by_role("button", name="Light theme").click()
    assert await page.evaluate("getComputedStyle(document.body).backgroundColor") == light


async def test_a_filter_changes_the_list_without_another_page(served: Served) -> None:
    """And the address with it."""
    window = await served.visit()
    page = window.page
    await window.open("/ledger")
    await page.evaluate("window.isStillThere = true")
    await page.get_by_role("combobox", name="Kind").select_option("memory.archived")
    await expect(page.locator(".timeline > li")).to_have_count(1)
    assert "kind=memory.archived" in page.url
    assert await page.evaluate("window.isStillThere")
    await window.open("/memories")
    await page.evaluate("window.isStillThere = true")
    await page.get_by_role("searchbox").press_sequentially("scaffolding")
    await expect(page.locator(".items .title").first).to_have_text("Money and paint")
    assert await page.evaluate("window.isStillThere")
    await window.check()
