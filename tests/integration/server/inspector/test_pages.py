"""Every page, of a memory without anything, with something of everything, and with scripts in every field."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import httpx
import pytest
import pytest_asyncio

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.server import create_app
from tests.conftest import TEST_DIMENSION, TestServer, dsn
from tests.integration.server.conftest import make_config
from tests.integration.server.inspector.conftest import Keys, SignedIn, sign_in
from tests.support.browsing import read, walk
from tests.support.inspected import ATTACK, HOSTILE, MILL, Told, attack, day, overdo, tell
from tests.support.outdated import mark
from tests.support.serving import serve

PAGES = (
    "/", "/memories", "/ask", "/time", "/graph", "/ledger", "/ledger/verify", "/receipts", "/erase", "/views", "/runs",
    "/docs", "/memories?order=oldest", "/memories?order=archived", "/memories?q=lighthouse", "/ask?q=opening",
)  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def reader(test_server: TestServer) -> AsyncIterator[httpx.AsyncClient]:
    """A browser of the owner of a memory without anything, opened once for the tests that only read."""
    database = await test_server.databases.take()
    memory = AgentMem(make_config(test_server, database))
    async with serve(create_app(memory, Keys())) as served, sign_in(served.url, "owner") as client:
        yield client
        assert await memory.ledger.head(MILL) == 0
    await test_server.databases.give_back(database)


@pytest.mark.thorough
@pytest.mark.parametrize("key", ["nobody", "owner", "hostile"])
async def test_every_page_that_can_be_reached_is_whole(unopened: AgentMem, signed_in: SignedIn, key: str) -> None:
    """No link leads to nothing, and no page holds a script or a style, whatever its texts say."""
    async with signed_in(key) as client:
        if key == "owner":
            await tell(unopened)
        if key == "hostile":
            await attack(unopened)
            await overdo(unopened, HOSTILE)
        hostile = quote(ATTACK)
        starts = [
            *PAGES,
            f"/time?q={hostile}&name=Sophie%20Baker&as_of=2025-01-02&known_at=2100-01-01",
            f"/graph?name={hostile}",
            f"/ask?q={hostile}&metadata={hostile}",
            f"/views?agent={hostile}&view=prompt&scene={hostile}",
            *(f"/views?agent={hostile}&view={view}" for view in ("recent", "salient", "beliefs")),
            *(f"/views?agent=mara&view={view}&scene=key" for view in ("recent", "salient", "beliefs", "prompt")),
            f"/memories?q={hostile}&key_prefix={hostile}",
            f"/ledger?kind={hostile}&actor={hostile}&conversation={hostile}",
        ]
        pages = await walk(client, *starts)

    asked_wrongly = {path for path in starts if "metadata=" in path or path.startswith("/graph?name=%3C")}
    for path, (answer, seen) in pages.items():
        expected = {200, 400} if path in asked_wrongly else {200}
        assert answer.status_code in expected, (path, seen.text[:600])
        assert not seen.faults, path
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'self';")
        assert "unsafe" not in policy
        assert answer.headers["cache-control"] == "no-store"
    assert len(pages) > (70 if key != "nobody" else 20)
    if key == "hostile":
        texts = "".join(answer.text for answer, _ in pages.values())
        assert "<script>alert" not in texts
        assert "<img src=x" not in texts
        assert "&lt;script&gt;alert" in texts
        assert any("{{7*7}}" in seen.text for _, seen in pages.values())


@pytest.mark.thorough
async def test_a_hit_says_how_often_it_was_said_and_what_replaces_it(unopened: AgentMem, signed_in: SignedIn) -> None:
    """Beside what always holds, of which what is pinned is marked; texts are escaped."""
    # The first is a better match by its title, so it stands for the second, which says the same.
    for date, title, content in (
        (1, "Ida's office", "Ida's office is in <b>Porto</b>."),
        (5, "Note", "Ida's office is in <b>Porto</b>."),
        (9, "Ida's office", "Ida's office is in <b>Faro</b>."),
    ):
        await unopened.create_active_memory(MILL, title, content, occurred_at=datetime(2026, 3, date, tzinfo=UTC))
    await unopened.create_active_memory(MILL, "Key", "The key is under the <i>mat</i>.", pinned=True)
    await unopened.conversation(MILL, "chat").add("user", "Always answer in Dutch.")

    async with signed_in("reader") as client:
        answer = await client.get("/ask", params={"q": "Where is Ida's office?", "limit": "2"})

    seen = read(answer)
    assert not seen.faults
    assert "What always holds The key is under the <i>mat</i>. pinned user: Always answer in Dutch. Left" in seen.text
    assert "said 2026-03-01 00:00 · 2 times, last 2026-03-05 00:00 newer: hit 1" in seen.text
    assert "1 hit repeated the words of a better one." in seen.text
    newest, older = re.findall(r"<article .*?</article>", answer.text, re.DOTALL)
    assert "in &lt;b&gt;Faro&lt;/b&gt;" in newest
    assert 'id="hit-1"' in newest
    assert "newer:" not in newest
    assert "in &lt;b&gt;Porto&lt;/b&gt;" in older
    assert '<a class="chip warn" href="#hit-1">newer: hit 1</a>' in older
    assert "<b>" not in answer.text
    assert "<i>" not in answer.text


@pytest.mark.thorough
async def test_the_pages_say_what_the_memory_holds(unopened: AgentMem, told: Told, signed_in: SignedIn) -> None:
    """Each page shows what only it is for."""
    async with signed_in("reader") as client:

        async def text(path: str) -> str:
            answer = await client.get(path, follow_redirects=True)
            assert answer.status_code == 200, (path, answer.text[:500])
            return read(answer).text

        now = await text("/")
        assert "Shortterm passages" in now
        assert "1 archived" in now
        assert "About the ferry" in await text("/memories")
        assert "An old shopping list" not in await text("/memories")
        assert "An old shopping list" in await text("/memories?order=archived")
        assert "Opening of the lighthouse" in await text("/memories?key_prefix=plans/")
        assert "About the ferry" not in await text("/memories?key_prefix=plans/")

        plan = await text(f"/memories/{told.plan}?left=5&right=6")
        assert "because the paint has to dry" in plan
        assert "consolidated version 6" in plan
        assert "opening" in plan
        assert "14 . 3 Opening day is Saturday, June 28, because" in plan

        asked = await text("/ask?q=When+is+opening+day%3F&limit=3")
        assert "words_wide" in asked
        assert "Recalled memory, quoted as data" in asked
        tight = await text("/ask?q=When+is+opening+day%3F&token_budget=70")
        assert "did not fit into the token budget" in tight

        then = await text(f"/time?q=When+is+opening+day%3F&as_of=2025-05-10&memory={told.plan}&name=Petra+Lindgren")
        assert "Opening day is Saturday, June 14." in then
        assert "version 5 then, version 6 now" in then
        assert "3 unchanged" not in then
        assert "Nothing was known about it" in await text("/time?q=opening&as_of=2025-01-01")
        before = await text("/time?known_at=2025-01-01&name=Petra+Lindgren&q=opening")
        assert "None was active then" in before
        assert "Nothing of it was known then" in before
        assert "has no system's time" in await text("/time?known_at=2100-01-01&name=Petra+Lindgren")

        around = await text("/graph?name=Petra+Lindgren")
        assert "Port Ellory" in around
        assert "Heritage Fund" in around
        assert "Who is who" in await text(f"/graph/entities/{await _entity(unopened, 'Petra Lindgren')}")

        assert "Was asked “When does the lighthouse open" in await text("/ledger?kind=react.invocation.finished")
        assert "The plan says when it opens." in await text(f"/runs/{await _finished(unopened)}")
        assert "The visitor came on the right day." in await text("/runs")
        mine = await text("/views?agent=mara&view=recent")
        assert "The brass key lies under the mill wheel." in mine
        assert "I hope nobody finds my key." not in mine
        # It rests on a thought of hers.
        assert "Somebody has lost a key." in await text("/views?agent=mara&view=beliefs")
        assert "Somebody has lost a key." not in await text("/views?agent=odo&view=beliefs")
        assert "## YOUR MEMORY" in await text("/views?agent=mara&view=prompt")


@pytest.mark.thorough
async def test_a_passage_is_found_by_its_id_and_shown_between_its_neighbours(
    unopened: AgentMem, told: Told, signed_in: SignedIn
) -> None:
    """A hit leads to its place in the text."""
    async with signed_in("reader") as client:
        (hit,) = (await unopened.retrieve_memories(MILL, "rusted steps of the stairs", limit=1)).hits
        near = await client.get(f"/memories/{hit.memory_id}/passages/{hit.chunk_id}?version={hit.memory_version}")
        seen = read(near).text
        assert "Steps 41 to 58 are rusted through" in seen
        assert "What about the stairs?" in seen
        assert "brass fog bell" in seen
        found = await client.get(f"/passages/{hit.chunk_id}")
        assert found.headers["location"] == f"/memories/{hit.memory_id}?passage={hit.chunk_id}"


@pytest.mark.thorough
async def test_the_chart_ends_where_the_memory_stands(unopened: AgentMem, told: Told, signed_in: SignedIn) -> None:
    """What the events tell is what the tables hold, also after passages ended and events were erased."""
    async with signed_in("owner") as client:

        async def compare() -> dict[str, object]:
            grown: dict[str, object] = (await client.get("/growth.json")).json()
            usage = await unopened.admin.usage(MILL)
            counts = grown["counts"]
            assert isinstance(counts, list)
            assert [line[-1] for line in counts] == [
                usage.active.live_chunks, usage.shortterm.live_chunks, usage.longterm.live_chunks,
            ]  # fmt: skip
            assert grown["position"] == usage.events
            return grown

        await compare()
        await unopened.update_active_memory(MILL, told.plan, content="The opening is cancelled.")
        await compare()
        await unopened.admin.archive(MILL, told.note, end_chunks=True)
        await compare()
        await unopened.admin.erase(MILL, text="Marlow")
        grown = await compare()
        assert grown["is_whole"] is True


async def test_questions_are_shown_by_day(unopened: AgentMem, signed_in: SignedIn) -> None:
    """How many there were, how many found something, and how long they took, as soon as they have been written."""
    await unopened.create_active_memory("neighbour", "Tea", "The jasmine tea is in the blue tin.")
    async with signed_in("neighbour") as client:
        assert "Nothing was asked." in read(await client.get("/")).text
        await unopened.retrieve_memories("neighbour", "Where is the jasmine tea?")
        await unopened.retrieve_memories("neighbour", "zxqv wvut")
        await unopened._ready().uses.write()

        page = read(await client.get("/")).text
        assert "2 questions in 90 days, 50 % found something that fits" in page
        recalls = (await client.get("/growth.json")).json()["recalls"]
        assert (recalls["found"], recalls["not_found"]) == ([1], [1])
        ((half,), (nearly_all,)) = recalls["milliseconds"]
        assert 0 < half <= nearly_all


async def test_limits_stand_beside_what_is_used(test_server: TestServer, database: str) -> None:
    """Of the settings that the memory was opened with."""
    memory = AgentMem(
        Config(
            postgres_dsn=dsn(test_server.login(database)),
            embedding_provider="hash",
            embedding_dimension=TEST_DIMENSION,
            worker=False,
            max_chunks=40,
            max_active_memories=7,
            agent_daily_tokens=90_000,
        )
    )
    async with serve(create_app(memory, Keys())) as served:
        await memory.create_active_memory(MILL, "Rye", "Ten sacks.", language="en")
        async with served.with_token("reader") as client:
            seen = read(await client.get("/")).text
    assert "1 of 40" in seen
    assert "1 of 7" in seen
    assert "90,000" in seen


@pytest.mark.thorough
async def test_what_was_erased_is_on_no_page(unopened: AgentMem, told: Told, signed_in: SignedIn) -> None:
    """Pages keep nothing of their own."""
    async with signed_in("owner") as client:
        paths = [
            *PAGES, f"/memories/{told.plan}", "/ask?q=Who+lends+the+scaffolding%3F", "/graph?name=Tomas",
            "/growth.json", "/time?q=scaffolding&name=Tomas&as_of=2025-04-16",
        ]  # fmt: skip
        before = {path: (await client.get(path)).text for path in paths}
        assert sum("Marlow" in text for text in before.values()) > 3
        await unopened.admin.erase(MILL, text="Marlow")
        after = {path: (await client.get(path)).text for path in paths}
        assert not [path for path, text in after.items() if "Marlow" in text]


@pytest.mark.thorough
async def test_a_list_of_memories_has_pages_without_gaps(unopened: AgentMem, signed_in: SignedIn) -> None:
    """Changed last or oldest first: every memory comes once."""
    async with signed_in("reader") as client:
        written = [
            await unopened.create_active_memory(MILL, f"Note {number}", f"Text {number}", language="en")
            for number in range(120)
        ]
        await unopened.update_active_memory(MILL, written[3].id, content="Changed last")
        for order in ("changed", "oldest"):
            titles: list[str] = []
            path: str | None = f"/memories?order={order}"
            while path is not None:
                answer = await client.get(path)
                titles += [
                    line.split("</a>")[0].rpartition(">")[2] for line in answer.text.split('<a class="title"')[1:]
                ]
                nexts = [link for link in read(answer).links if "before=" in link or "after=" in link]
                path = nexts[0] if nexts else None
            assert sorted(titles) == sorted(memory.title for memory in written), order
            assert titles[0] == ("Note 3" if order == "changed" else "Note 0")


@pytest.mark.thorough
async def test_the_sliders_stop_where_something_changed(unopened: AgentMem, signed_in: SignedIn) -> None:
    """Their moments are those of the events, in the world and in the system."""
    async with signed_in("reader") as client:
        for month in (1, 3, 2):
            await unopened.create_active_memory(MILL, "Note", "Text", occurred_at=day(month, 1), language="en")
        page = (await client.get("/time")).text
        world, system = (
            json.loads(part.split('"')[0].replace("&#34;", '"')) for part in page.split('data-moments="')[1:]
        )
        assert world == [day(month, 1).isoformat() for month in (1, 2, 3)]
        assert system == sorted(system)
        assert len(system) == 3


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/memories?order=random", "random"),
        ("/memories?order=oldest&after=7", "after must be an id"),
        ("/memories?order=changed&before=x", "before must be a whole number"),
        ("/ask?q=x&limit=many", "limit must be a whole number"),
        ("/ask?q=x&limit=1000", "1000"),
        ("/ask?q=x&as_of=tomorrow", "tomorrow"),
        ("/ask?q=x&min_match=2", "min_match"),
        ("/ask?q=x&min_confidence=high", "min_confidence must be a number"),
        ("/ask?q=x&metadata=7", "JSON object"),
        ("/ask?q=x&tiers=eternal", "eternal"),
        ("/ask?q=x&sources=nobody", "nobody"),
        ("/ask?q=" + "x" * 20_001, "20,000"),
        ("/time?as_of=99", "as_of must be a time"),
        ("/time?memory=7", "memory must be an id"),
        ("/time?memory=00000000-0000-0000-0000-000000000000", "there is no memory"),
        ("/graph?name=Nobody", "No memory names"),
        ("/graph?name=Nobody&hops=9", "hops"),
        ("/ledger?before=x", "before must be a whole number"),
        ("/ledger?before=0", "before"),
        ("/views?agent=mara&view=all", "all"),
        ("/views?agent=mara&window=0", "from 1, not 0"),
        ("/views?agent=mara&global_kinds=memory.created", "global_kinds"),
        ("/graph/merge?survivor=Ines", "name the entity"),
        ("/memories/7", "memory_id"),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_what_cannot_be_asked_is_said_with_its_value(reader: httpx.AsyncClient, path: str, named: str) -> None:
    """A mistake is shown where it was made."""
    answer = await reader.get(path)
    seen = read(answer)
    assert answer.status_code == 400, seen.text
    assert named in seen.text
    assert "()" not in seen.text, "a page has no calls of Python"
    assert not seen.faults


@pytest.mark.parametrize(
    "path",
    [
        "/ledger/0", "/ledger/1", "/ledger/99999999999999999999", "/ledger/x", "/receipts/1", "/runs/1",
        "/memories/00000000-0000-0000-0000-000000000000", "/memories/00000000-0000-0000-0000-000000000000/archive",
        "/graph/entities/00000000-0000-0000-0000-000000000000", "/ask?q=x&profile=nobody",
    ],
)  # fmt: skip
@pytest.mark.asyncio(loop_scope="module")
async def test_what_is_not_there_is_not_found(reader: httpx.AsyncClient, path: str) -> None:
    """As a page, in words of the pages."""
    answer = await reader.get(path)
    assert answer.status_code == 404
    assert not re.search(r"[a-z_]\(", read(answer).text), "a page has no calls of Python"
    assert not read(answer).faults


async def test_a_search_for_a_tenant_with_a_hostile_name_shows_it_escaped(
    unopened: AgentMem, signed_in: SignedIn
) -> None:
    """An external_id is a text of somebody else, too."""
    async with signed_in("t" * 32) as client:
        await unopened.create_active_memory(HOSTILE, "Note", "x" * 3_000, language="en")
        seen = read(await client.get("/tenants"))
        assert HOSTILE in seen.text.replace("  ", " ")
        chosen = await client.post("/tenants", data={"external_id": HOSTILE})
        assert chosen.status_code == 303
        assert "1 active memory" in read(await client.get("/")).text


async def _entity(memory: AgentMem, name: str) -> str:
    return str((await memory.admin.graph.entities(MILL, name=name))[0].id)


async def _finished(memory: AgentMem) -> int:
    return (await memory.ledger.read(MILL, kinds=["react.invocation.finished"]))[0].position


@pytest.mark.thorough
async def test_a_hit_that_is_probably_out_of_date_says_so(unopened: AgentMem, signed_in: SignedIn) -> None:
    """With a link to the newer one and what it takes from the score; of an earlier time nothing says so."""
    march = datetime(2026, 3, 9, tzinfo=UTC)
    old, new = "The office closes at <b>six</b>.", "The office stays open until eight now."
    await unopened.create_active_memory(MILL, "Office", old, occurred_at=march - timedelta(days=7))
    await unopened.create_active_memory(MILL, "News", new, occurred_at=march)
    question = {"q": "When does the office close?"}

    async with signed_in("reader") as client:
        await mark(unopened, MILL, old, new, since=march)
        answer = await client.get("/ask", params=question)
        before = await client.get("/ask", params=question | {"as_of": "2026-03-05"})
        later = await client.get("/time", params=question | {"as_of": "2026-03-20"})

    assert not read(answer).faults
    assert '<a class="chip warn" href="#hit-1">probably out of date since 2026-03-09, see [1]</a>' in answer.text
    assert '<dt title="probably out of date">outdated</dt>' in answer.text
    assert "probably out of date" not in before.text
    assert "probably out of date since 2026-03-09" in read(later).text
