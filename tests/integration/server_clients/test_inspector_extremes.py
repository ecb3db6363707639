"""The inspector in a browser where things are bad: hostile texts, an altered ledger, a store that lags."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pytest
from playwright.async_api import Browser, expect

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.server import ServerConfig, create_app
from agent_reminiscence.server.access.authenticators import LocalToken
from tests.conftest import TEST_DIMENSION, TestServer, dsn
from tests.support.factories import superuser
from tests.support.inspected import HOSTILE, LONG, Overlong, attack, overdo
from tests.support.serving import serve
from tests.support.watching import DESK, TELEPHONE, Watched, browsing

_TOKEN: Final = "t" * 32
_PREFIX: Final = "/memory"
_TENANT: Final = "mill"


@pytest.fixture
async def browser(chromium: str) -> AsyncIterator[Browser]:
    """Chromium, for one test."""
    async with browsing(chromium) as browser:
        yield browser


@pytest.fixture
def axe(npm_tools: Path) -> Path:
    """What finds faults of accessibility."""
    return npm_tools / "node_modules" / "axe-core" / "axe.min.js"


@pytest.fixture
def config(test_server: TestServer, database: str) -> Config:
    """Of a database of its own, whose work is done when a test asks for it."""
    return Config(
        postgres_dsn=dsn(test_server.login(database)),
        embedding_provider="hash",
        embedding_dimension=TEST_DIMENSION,
        worker=False,
    )


@asynccontextmanager
async def _served(memory: AgentMem, prefix: str = "") -> AsyncIterator[str]:
    app = create_app(memory, LocalToken(_TOKEN), config=ServerConfig(root_path=prefix))
    async with serve(app) as address:
        yield address.url + prefix


@pytest.mark.parametrize("screen", [DESK, TELEPHONE], ids=["desk", "telephone"])
async def test_no_name_runs_or_breaks_a_page(
    config: Config, browser: Browser, axe: Path, screen: dict[str, int]
) -> None:
    """Scripts, quotes, addresses that run, marks that turn the direction, and 10,000 characters without a space.

    Under a prefix, below which the requests of scripts have to stay as well.
    """
    memory = AgentMem(config)
    async with _served(memory, _PREFIX) as url:
        kept = await attack(memory)
        worse = await overdo(memory, HOSTILE)
        window = await Watched.visit(browser, url, axe, token=_TOKEN, tenant=HOSTILE, screen=screen)
        page = window.page
        for path in _everywhere(str(kept), worse):
            await window.open(path)
            await window.check()

        # The drawing holds them as they are, and shows the evidence of each.
        await window.open(f"/graph?name={quote(worse.names[0], safe='')}")
        drawn = await page.evaluate(
            """() => document.querySelector("[data-graph]").reminiscence.nodes().map((node) => node.data("label"))"""
        )
        assert set(worse.names) <= set(drawn)
        for number in range(len(worse.names)):
            place = await page.evaluate(
                """(name) => {
                    const place = document.querySelector("[data-graph]");
                    place.scrollIntoView({ block: "center" });
                    const node = place.reminiscence.nodes().filter((one) => one.data("label") === name)[0];
                    const at = node.renderedPosition();
                    const now = place.getBoundingClientRect();
                    return [now.x + at.x, now.y + at.y];
                }""",
                worse.names[number],
            )
            await page.mouse.click(*place)
            await expect(page.locator("#evidence h3 a").first).to_have_text(worse.names[number].strip())
        await window.check()
        assert await page.title() != "taken"
        assert not await page.evaluate("window.taken === true")


def _everywhere(kept: str, worse: Overlong) -> list[str]:
    first = quote(worse.names[0], safe="")
    return [
        "/", "/tenants", "/memories", "/memories?order=archived", "/memories?q=Sophie", f"/memories/{kept}",
        f"/memories/{worse.memory}?left=1&right=2&whole=1", f"/memories/{worse.memory}/archive",
        "/ask?q=Where+does+Sophie+Baker+live%3F", f"/ask?q={LONG[:2000]}",
        f"/time?q=Sophie&name={first}&memory={worse.memory}", "/graph", f"/graph?name={first}",
        f"/graph/merge?survivor={first}&merged={quote(worse.names[1], safe='')}", "/ledger",
        *(f"/ledger/{position}" for position in worse.positions), "/receipts", "/erase", "/runs",
        f"/runs/{worse.run}", "/views", f"/views?agent={quote(worse.actor, safe='')}",
        f"/views?agent={quote(worse.actor, safe='')}&view=beliefs",
        f"/views?agent={quote(worse.actor, safe='')}&view=prompt&scene={LONG[:2000]}",
    ]  # fmt: skip


async def test_an_altered_ledger_is_shown_with_what_was_altered(
    config: Config, test_server: TestServer, database: str, browser: Browser, axe: Path
) -> None:
    """Once as an event that does not fit its digest, and once as a row that does not follow from any event."""
    memory = AgentMem(config)
    async with _served(memory) as url:
        kept = await memory.create_active_memory(_TENANT, "Rye", "Ten sacks of rye are in the loft.", language="en")
        await memory.create_active_memory(_TENANT, "Oats", "The oats are wet.", language="en")
        await memory.admin.consolidate(_TENANT, kept.id)
        window = await Watched.visit(browser, url, axe, token=_TOKEN, tenant=_TENANT)
        page = window.page
        async with superuser(test_server, database) as db:
            await db.execute_script("UPDATE active_memory SET title = 'Barley' WHERE title = 'Rye'")
        await window.open("/ledger/verify")
        await page.get_by_role("button", name="Verify").click()
        await expect(page.get_by_role("heading", name="What is stored differs from the ledger")).to_be_visible()
        await expect(page.get_by_role("row").filter(has_text="active_memory")).to_contain_text("title")
        await window.check()

        async with superuser(test_server, database) as db:
            await db.execute_script("UPDATE memory_event SET actor = 'nobody' WHERE position = 2")
        await page.get_by_role("button", name="Verify again").click()
        await expect(page.get_by_role("heading", name="The ledger was altered")).to_be_visible()
        await window.check()
        await page.locator("#result").get_by_role("link", name="#2").first.click()
        await expect(page.get_by_role("heading", name="Event 2")).to_be_visible()
        await window.check()


@pytest.fixture
def closed_port() -> Iterator[int]:
    """Where nobody answers, for as long as the test runs."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


async def test_a_neo4j_that_is_away_takes_nothing_from_any_page(
    config: Config, closed_port: int, browser: Browser, axe: Path
) -> None:
    """PostgreSQL answers for the graph; Now says how far Neo4j is behind, counted in events."""
    away = config.model_copy(update={"neo4j_uri": f"bolt://127.0.0.1:{closed_port}"})
    memory = AgentMem(away)
    async with _served(memory) as url:
        kept = await memory.create_active_memory(
            _TENANT, "People", "Sophie Baker works for Anna Miller in Graz.", language="en"
        )
        await memory.admin.consolidate(_TENANT, kept.id)
        window = await Watched.visit(browser, url, axe, token=_TOKEN, tenant=_TENANT)
        await expect(window.page.get_by_role("region", name="Work")).to_contain_text("2 events behind")
        await window.check()
        for path in (
            f"/memories/{kept.id}",
            "/time?name=Sophie+Baker&q=Sophie",
            "/ask?q=Where+does+Sophie+Baker+work%3F",
            "/graph?name=Sophie+Baker",
        ):
            await window.open(path)
            await expect(window.page.get_by_role("main")).to_contain_text("Anna Miller")
            await expect(window.page.get_by_text("did not answer")).to_have_count(0)
            await window.check()
