"""The inspector of `serve --demo` in a browser: every page in both themes and on a telephone, by mouse and by keys.

What makes a page fail is in `tests.support.watching`.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
import pytest
from playwright.async_api import Browser, Locator, Page, expect
from starlette.routing import Route

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.cli.showcase import OFFICE, RUN, SHOP, WALKER
from agent_reminiscence.cli.story import KEEPER
from agent_reminiscence.server import create_app
from agent_reminiscence.server.access.authenticators import LocalToken
from tests.support.command_line import CHECKOUT, clean_environment
from tests.support.watching import DESK, TELEPHONE, Watched, browsing, click, press, tab_to

_TOKEN: Final = "t" * 32
_OTHER_NAME: Final = "memory.test"
_QUESTION: Final = "q=When+is+opening+day%3F"
_INES: Final = "name=Ines+Halvorsen"


@dataclass(frozen=True, slots=True)
class Demo:
    """What `serve --demo` serves.

    Attributes:
        memories: The ids of the keeper's memories, by title.
    """

    url: str
    memories: dict[str, str]

    def remember(self, tenant: str, title: str, content: str) -> None:
        """Write a memory of somebody whom the story does not know."""
        with _client(self.url, tenant) as client:
            written = client.post("/v1/memories", json={"title": title, "content": content, "language": "en"})
            assert written.status_code == 201, written.text


def _client(url: str, tenant: str) -> httpx.Client:
    headers = {"Authorization": f"Bearer {_TOKEN}", "X-External-Id": tenant}
    return httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=False)


@pytest.fixture(scope="module")
def demo() -> Iterator[Demo]:
    """The command as a stranger runs it, once for all tests; those that change something do so for other tenants."""
    settings = {"AGENT_REMINISCENCE_SERVER_TOKEN": _TOKEN, "REMINISCENCE_CHUNK_PARTITIONS": "4"}
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "agent_reminiscence.cli", "serve", "--demo", "--port", "0",
             "--allowed-host", _OTHER_NAME],
            env=clean_environment() | {"PYTHONPATH": str(CHECKOUT)} | settings,
            cwd=CHECKOUT,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            found = re.match(r"Serving on (http://\S+);", process.stdout.readline())
            if found is None:
                process.wait()
                said.seek(0)
                raise AssertionError(said.read())
            with _client(found[1], KEEPER) as client:
                listed = client.get("/v1/memories", params={"limit": 100}).json()["memories"]
            yield Demo(found[1], {memory["title"]: memory["id"] for memory in listed})
        finally:
            process.terminate()
            process.communicate()


@pytest.fixture
async def browser(chromium: str) -> AsyncIterator[Browser]:
    """Chromium, for which the other name is this machine."""
    async with browsing(chromium, f"--host-resolver-rules=MAP {_OTHER_NAME} 127.0.0.1") as browser:
        yield browser


type Visit = Callable[..., Awaitable[Watched]]


@pytest.fixture
def visit(demo: Demo, browser: Browser, npm_tools: Path) -> Visit:
    """Opens a window that has signed in."""
    axe = npm_tools / "node_modules" / "axe-core" / "axe.min.js"

    async def open_window(tenant: str = KEEPER, *, screen: dict[str, int] = DESK, theme: str = "light") -> Watched:
        return await Watched.visit(browser, demo.url, axe, token=_TOKEN, tenant=tenant, screen=screen, theme=theme)

    return open_window


def _of_the_keeper(memories: dict[str, str]) -> list[str]:
    plan, prices, talk = (memories[one] for one in ("Opening of the lighthouse", "Tickets", "A question about tours"))
    return [
        "/", "/memories", "/memories?order=archived", "/memories?q=ferry", f"/memories/{plan}",
        f"/memories/{prices}?left=1&right=3&whole=1", f"/memories/{talk}", f"/memories/{plan}/archive",
        "/ask?q=What+about+the+stairs%3F&token_budget=90&as_of=2025-05-25&sources=user",
        f"/time?{_QUESTION}&as_of=2025-05-10&{_INES}&memory={plan}", "/graph",
        "/graph/merge?survivor=Annika&merged=Port+Ellory", "/ledger", "/ledger?kind=memory.updated", "/ledger/1",
        "/ledger/verify", "/erase", "/views", "/runs",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("screen", "theme"), [(DESK, "light"), (DESK, "dark"), (TELEPHONE, "light")], ids=["light", "dark", "telephone"]
)
async def test_every_page_is_sound(demo: Demo, visit: Visit, screen: dict[str, int], theme: str) -> None:
    """In both themes and on a telephone; no page of the inspector is left out."""
    window = await visit(screen=screen, theme=theme)
    page = window.page
    for path in _of_the_keeper(demo.memories):
        await window.open(path)
        await window.check()

    await window.open("/receipts")
    await window.check()
    await page.get_by_role("link", name="Receipt of").first.click()
    await expect(page.get_by_text("its seal holds")).to_be_visible()
    await window.check()

    await window.open(f"/ask?{_QUESTION}")
    hit = page.get_by_role("article").first
    await hit.locator("summary").click()
    await expect(hit.locator(".neighbours")).to_be_visible()
    await window.check()
    href = await hit.get_by_role("link", name="In the whole text").get_attribute("href")
    assert href is not None
    await window.open(f"/passages/{href.rpartition('passage=')[2]}")
    await expect(page.locator(".passage.wanted")).to_be_visible()

    await window.open(f"/graph?{_INES}")
    row = page.get_by_role("row").filter(has_text="keeps")
    await page.get_by_role("link", name="Evidence for Tomas Brandt", exact=True).click()
    await expect(page.locator("#evidence").get_by_role("heading")).to_contain_text("Tomas Brandt")
    await row.get_by_role("link", name="Evidence for").click()
    await expect(page.locator("#evidence")).to_contain_text("Strength")
    await window.check()
    await row.get_by_role("link", name="End…").click()
    await expect(page.get_by_role("heading", name="Is it over?")).to_be_visible()
    await window.check()

    await window.change_to(RUN)
    for view in ("recent", "salient&scene=a+bell", "beliefs", "prompt"):
        await window.open(f"/views?agent=pilot&view={view}")
        await expect(page.locator("#result")).to_contain_text("pilot sees")
        await window.check()
    await window.change_to(f"react/{WALKER}/default")
    await window.open("/runs")
    await window.check()
    await page.get_by_role("link", name="How do I get to the lighthouse today?").click()
    await expect(page.get_by_role("heading", name="Learned from it")).to_be_visible()
    await window.check()
    await window.open("/tenants")
    await window.check()
    await window.open("/docs")
    await window.check()

    missed = [path for path, route in _PAGES if not any(route.path_regex.match(asked) for asked in window.asked)]
    assert not missed


def _pages() -> list[tuple[str, Route]]:
    """All pages there are."""
    app = create_app(AgentMem(Config(worker=False)), LocalToken(_TOKEN))
    return [
        (route.path, route)
        for route in app.routes
        if isinstance(route, Route)
        and "GET" in (route.methods or ())
        and route.endpoint.__module__.startswith("agent_reminiscence.server.inspector")
    ]


_PAGES: Final = _pages()


async def test_now_shows_what_is_limited_spent_waiting_and_given_up(visit: Visit) -> None:
    """None of it written into a table by hand: a model was asked, and an embedder refused texts."""
    window = await visit()
    main = window.page.locator("main")
    await expect(window.page.get_by_role("region", name="Limits")).to_contain_text("Live passages")
    await expect(window.page.get_by_role("region", name="Limits")).to_contain_text("of 200")
    await expect(window.page.locator("#tokens-today")).not_to_have_text(re.compile("^(–|0)$"))
    await expect(window.page.get_by_role("region", name="Spent on models")).to_contain_text("scripted-keeper")
    await expect(window.page.locator("#tokens .uplot")).to_be_visible()
    # What was given up has an attempt in the queue still, from the write that the embedder refused.
    await expect(main).to_contain_text("Work of all tenants: 2 waiting, 0 running, 1 given up.")

    await window.change_to(OFFICE)
    work = window.page.get_by_role("region", name="Work")
    await expect(work).to_contain_text("1 given up")
    await expect(work).to_contain_text("takes no texts of more than 20 characters")
    await expect(work).to_contain_text("found by words only until they are made")
    await window.check()
    await window.change_to(SHOP)
    await expect(work).to_contain_text("1 waiting")
    await expect(work).to_contain_text("next attempt")
    await window.check()


async def test_the_sliders_move_list_text_search_and_graph_at_once(demo: Demo, visit: Visit) -> None:
    """By keys and by mouse; the address keeps where they stand."""
    window = await visit()
    page = window.page
    await window.open(f"/time?{_QUESTION}&{_INES}&memory={demo.memories['Opening of the lighthouse']}")
    world = page.get_by_role("slider", name="The world's time")
    result = page.locator("#result")
    await expect(result).to_contain_text("June 28")
    graph = result.get_by_role("region", name="Graph")
    await expect(graph).to_contain_text("Ellory Brass Quintet")

    await world.focus()
    await page.keyboard.press("Home")
    await expect(result).to_contain_text("It did not exist then")
    await expect(result).not_to_contain_text("opening day")
    await expect(graph).not_to_contain_text("Ellory Brass Quintet")
    await expect(page).to_have_url(re.compile("as_of=2025-02-10"))
    for _ in range(20):
        await page.keyboard.press("ArrowRight")
        if (await world.get_attribute("aria-valuetext") or "").startswith("2025-05-06"):
            break
    await expect(result).to_contain_text("version 3 then, version 6 now")
    await expect(result).to_contain_text("Opening day is Saturday, June 14.")
    await expect(world).to_have_attribute("aria-valuetext", "2025-05-06 10:00:00")
    await expect(result.locator("[data-graph]")).to_have_attribute("data-ready", "yes")
    await window.check()

    await page.get_by_role("link", name="Back to now").click()
    # It is another page, whose sliders move nothing before its script has run.
    await expect(world).to_have_attribute("aria-valuetext", "now")
    system = page.get_by_role("slider", name="The system's time")
    box = await system.bounding_box()
    assert box is not None
    await page.mouse.click(box["x"] + 2, box["y"] + box["height"] / 2)
    await expect(result).to_contain_text("1 active memory")
    await expect(result).to_contain_text("It did not exist then")
    await expect(page).to_have_url(re.compile("known_at="))
    # The address leads to the same page, without the sliders.
    await page.reload()
    await expect(result).to_contain_text("1 active memory")
    await window.check()


async def test_two_versions_stand_side_by_side(visit: Visit) -> None:
    """Chosen from lists, by keys."""
    window = await visit()
    page = window.page
    await window.open("/memories")
    await page.get_by_role("link", name="Opening of the lighthouse").click()
    await expect(page.locator("del")).to_have_text("14")
    await expect(page.locator("ins")).to_have_text("28, because the paint has to dry")
    await tab_to(page, page.get_by_role("combobox", name="Version", exact=True))
    await page.keyboard.press("Home")
    await expect(page.locator(".diff .added-line").nth(3)).to_be_visible()
    await expect(page).to_have_url(re.compile("left=1"))
    await window.check()


async def test_a_search_shows_the_parts_of_each_score_and_the_neighbours(visit: Visit) -> None:
    """Typed and opened by keys alone."""
    window = await visit()
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
    await tab_to(page, first.locator("summary"))
    await page.keyboard.press("Enter")
    await expect(first.locator(".neighbours")).to_contain_text("What about the stairs?")
    await window.check()
    await first.get_by_role("link", name="In the whole text").click()
    await expect(page.locator(".passage.wanted")).to_contain_text("Steps 41 to 58")


async def test_the_graph_shows_its_evidence_by_a_click_and_by_a_key(visit: Visit) -> None:
    """On the drawing, and in the tables that hold the same."""
    window = await visit()
    page = window.page
    await window.open(f"/graph?{_INES}")
    evidence = page.locator("#evidence")
    place = await page.evaluate(
        """() => {
            const place = document.querySelector("[data-graph]"), box = place.getBoundingClientRect();
            const node = place.reminiscence.nodes().filter((one) => one.data("label") === "Cape Wrenfield")[0];
            const at = node.renderedPosition();
            return [box.x + at.x, box.y + at.y];
        }"""
    )
    await page.mouse.click(*place)
    # The page begins with the evidence for Ines.
    await expect(evidence.get_by_role("heading")).to_contain_text("Cape Wrenfield")
    await expect(evidence).to_contain_text("Ines Halvorsen keeps the lighthouse at Cape Wrenfield.")
    await window.check()

    link = page.get_by_role("link", name="Evidence for Ines Halvorsen", exact=True)
    await tab_to(page, link)
    await page.keyboard.press("Enter")
    await expect(evidence.get_by_role("heading")).to_contain_text("Ines Halvorsen")
    await expect(evidence).to_contain_text("brass fog bell")
    await window.check()


@pytest.mark.parametrize("do", [click, press], ids=["mouse", "keys"])
async def test_an_erasure_leaves_a_receipt_that_is_checked_again(
    demo: Demo, visit: Visit, do: Callable[[Page, Locator], Awaitable[None]]
) -> None:
    """From the ledger to the receipt, by mouse alone and by keys alone."""
    tenant = f"erased-by-{do.__name__}"
    demo.remember(tenant, "The keys", "Marlow has the key of the boathouse.")
    demo.remember(tenant, "The oars", "The oars are under the stairs.")
    window = await visit(tenant)
    page = window.page
    await window.open("/ledger")
    await do(page, page.get_by_role("link", name="Erase…"))
    text = page.get_by_role("textbox", name="The exact text")
    await (click if do is click else tab_to)(page, text)
    await page.keyboard.type("Marlow")
    await do(page, page.locator("form", has=text).get_by_role("button"))
    await expect(page.get_by_role("heading", name="This would go")).to_be_visible()
    await expect(page.locator("main")).to_contain_text("The keys")
    await expect(page.locator("main")).not_to_contain_text("The oars")
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


async def test_a_server_that_does_not_answer_leaves_the_page_as_it_is(visit: Visit) -> None:
    """And its reader is told."""
    window = await visit()
    page = window.page
    await window.open("/ledger")
    events = page.locator(".timeline > li")
    before = await events.count()
    await page.route("**/ledger?*", lambda route: route.fulfill(status=503, json={"detail": "too many calls"}))
    await page.get_by_role("combobox", name="Kind").select_option("memory.archived")
    await expect(page.get_by_role("alert")).to_contain_text("The server is busy")
    assert await events.count() == before
    await page.unroute("**/ledger?*")
    await page.get_by_role("combobox", name="Kind").select_option("memory.erased")
    await expect(events).to_have_count(1)
    await expect(page.locator("#trouble")).to_be_hidden()


async def test_pages_work_over_plain_http_under_another_name(demo: Demo, browser: Browser) -> None:
    """There a browser does not say where a request comes from but in `Origin`, which a policy may take away."""
    page = await browser.new_page()
    await page.goto(demo.url.replace("127.0.0.1", _OTHER_NAME))
    await page.get_by_label("Key or token").fill(_TOKEN)
    await page.keyboard.press("Enter")
    await page.get_by_role("textbox", name="external_id").fill(KEEPER)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Now", exact=True)).to_be_visible()


async def test_a_theme_that_was_chosen_is_kept(visit: Visit) -> None:
    """On the next page, too, with the drawing and the chart in its colours."""
    window = await visit()
    page = window.page
    light = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    await press(page, page.get_by_role("button", name="Dark theme"))
    assert await page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    await window.open(f"/graph?{_INES}")
    assert await page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    await window.check()
    await page.get_by_role("button", name="Light theme").click()
    assert await page.evaluate("getComputedStyle(document.body).backgroundColor") == light


async def test_a_filter_changes_the_list_without_another_page(visit: Visit) -> None:
    """And the address with it."""
    window = await visit()
    page = window.page
    await window.open("/ledger")
    await page.evaluate("window.isStillThere = true")
    await page.get_by_role("combobox", name="Kind").select_option("memory.archived")
    await expect(page.locator(".timeline > li")).to_have_count(2)
    await expect(page).to_have_url(re.compile(r"kind=memory\.archived"))
    assert await page.evaluate("window.isStillThere")
    await window.open("/memories")
    await page.evaluate("window.isStillThere = true")
    await page.get_by_role("searchbox").press_sequentially("clapper rope")
    await expect(page.locator(".items .title").first).to_have_text("First walk through the tower")
    assert await page.evaluate("window.isStillThere")
    await window.check()
