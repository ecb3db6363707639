"""What the pages change: only with the scope, only by POST, and each as an event that says who did it."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import httpx
import pytest

from agent_reminiscence import AgentMem, MemoryNotFoundError
from tests.integration.server.inspector.conftest import SignedIn
from tests.support.browsing import read
from tests.support.inspected import MILL, Told, day, tell

_ANY = "00000000-0000-0000-0000-000000000000"
_WRITES = (
    f"/memories/{_ANY}/archive", f"/memories/{_ANY}/unarchive", f"/memories/{_ANY}/pin", "/graph/merge",
    f"/graph/entities/{_ANY}/unmerge",
    f"/graph/relationships/{_ANY}/end", "/ask",
)  # fmt: skip
_ERASURES = ("/erase", "/erase/preview")


@pytest.mark.thorough
@pytest.mark.parametrize(("key", "refused"), [("reader", (*_WRITES, *_ERASURES)), ("writer", _ERASURES)])
async def test_without_its_scope_a_write_is_neither_offered_nor_done(
    unopened: AgentMem, told: Told, signed_in: SignedIn, key: str, refused: tuple[str, ...]
) -> None:
    """No button, no page that asks, and a refusal of what is sent all the same."""
    async with signed_in(key) as client:
        head = await unopened.ledger.head(MILL)
        data = {
            "q": "x", "run_id": "r", "scope": "tenant", "confirmed": MILL, "survivor": "Ines", "merged": "Tomas",
        }  # fmt: skip
        for path in refused:
            answer = await client.post(path.replace(_ANY, str(told.plan)), data=data)
            assert answer.status_code == 403, path
            assert "memory:" in read(answer).text
        asks = [
            path
            for path in refused
            if path not in {"/ask", "/erase/preview"} and not path.endswith(("unmerge", "/pin", "/unarchive"))
        ]
        for path in asks:
            assert (await client.get(path.replace(_ANY, str(told.plan)))).status_code == 403, path
        assert await unopened.ledger.head(MILL) == head
        for path in ("/", f"/memories/{told.plan}", "/ask", "/graph?name=Ines", "/ledger", "/receipts"):
            seen = read(await client.get(path))
            offered = [link for link in seen.links if link.startswith("/erase") or link.endswith("/archive")]
            offered += [action for _, action in seen.forms if action in {"/erase", "/graph/merge"}]
            if key == "reader":
                assert not offered, path
                assert "Ask and write" not in seen.text
            assert not [link for link in offered if link.startswith("/erase")], path


@pytest.mark.thorough
async def test_reading_a_page_changes_nothing(unopened: AgentMem, told: Told, signed_in: SignedIn) -> None:
    """Also those that ask whether a change is meant; every change takes a POST."""
    async with signed_in("owner") as client:
        head = await unopened.ledger.head(MILL)
        one = await _relationship(unopened)
        for path in (
            f"/memories/{told.plan}/archive", "/graph/merge?survivor=Ines&merged=Tomas", "/erase?scope=memory",
            f"/graph/relationships/{one[0]}/end?entity={one[1]}", "/ask?q=x&run_id=run-9&synthesis=1", "/ledger/verify",
        ):  # fmt: skip
            assert (await client.get(path)).status_code == 200, path
        assert (await client.get(f"/graph/entities/{one[1]}/unmerge")).status_code in {404, 405}
        assert await unopened.ledger.head(MILL) == head


@pytest.mark.thorough
async def test_a_memory_shows_when_it_expires(unopened: AgentMem, told: Told, signed_in: SignedIn) -> None:
    """On its page, beside its version."""
    await unopened.update_active_memory(MILL, told.plan, expires_at=datetime(2100, 1, 1, tzinfo=UTC))
    async with signed_in("reader") as client:
        assert "expires 2100-01-01 00:00" in read(await client.get(f"/memories/{told.plan}")).text


@pytest.mark.thorough
async def test_a_memory_is_archived_after_it_was_asked(unopened: AgentMem, told: Told, signed_in: SignedIn) -> None:
    """The event names the key."""
    async with signed_in("writer") as client:
        asked = read(await client.get(f"/memories/{told.note}/archive"))
        assert "Archive “Found by a model”?" in asked.text
        assert ("post", f"/memories/{told.note}/archive") in asked.forms
        done = await client.post(f"/memories/{told.note}/archive", data={"end_chunks": "1"}, follow_redirects=True)
        assert "archived" in read(done).text
        event = (await unopened.ledger.read(MILL, kinds=["memory.archived"]))[-1]
        assert (event.actor, event.payload["end_chunks"]) == ("inspector/k2", True)


@pytest.mark.thorough
async def test_an_archived_memory_is_taken_back(unopened: AgentMem, told: Told, signed_in: SignedIn) -> None:
    """By a button that only an archived one has."""
    path = f"/memories/{told.note}/unarchive"
    async with signed_in("writer") as client:
        assert ("post", path) not in read(await client.get(f"/memories/{told.note}")).forms
        archived = await client.post(f"/memories/{told.note}/archive", data={}, follow_redirects=True)
        assert ("post", path) in read(archived).forms
        back = await client.post(path, data={}, follow_redirects=True)
        assert ("post", path) not in read(back).forms
        [memory] = await unopened.get_active_memories(MILL, ids=[told.note])
        assert memory.archived_at is None
        [event] = await unopened.ledger.read(MILL, kinds=["memory.unarchived"])
        assert event.actor == "inspector/k2"


@pytest.mark.thorough
async def test_a_memory_is_pinned_and_unpinned(unopened: AgentMem, told: Told, signed_in: SignedIn) -> None:
    """By a button on its page, which offers the other next."""
    path = f"/memories/{told.plan}/pin"
    async with signed_in("writer") as client:
        assert ("post", path) in read(await client.get(f"/memories/{told.plan}")).forms
        pinned = await client.post(path, data={"pinned": "1"}, follow_redirects=True)
        assert "Unpin" in read(pinned).text
        assert "pinned" in read(await client.get("/ask", params={"q": "Who is it?"})).text
        [memory] = await unopened.get_active_memories(MILL, ids=[told.plan])
        assert (memory.pinned, memory.actor) == (True, "inspector/k2")
        await client.post(path, data={})
        [memory] = await unopened.get_active_memories(MILL, ids=[told.plan])
        assert not memory.pinned


@pytest.mark.thorough
async def test_entities_are_merged_and_separated(unopened: AgentMem, told: Told, signed_in: SignedIn) -> None:
    """From the page of the one that stays."""
    async with signed_in("writer") as client:
        # By their names, the consolidation took the two for one already.
        [joined] = await unopened.admin.graph.entities(MILL, name="Ines Halvorsen")
        for entity_id in joined.merged_ids:
            await client.post(f"/graph/entities/{entity_id}/unmerge", data={})
        asked = await client.get("/graph/merge", params={"survivor": "Ines Halvorsen", "merged": "Ines"})
        assert "Merge “Ines” into “Ines Halvorsen”?" in read(asked).text
        survivor, merged = await _id(unopened, "Ines Halvorsen"), await _id(unopened, "Ines")
        done = await client.post("/graph/merge", data={"survivor": survivor, "merged": merged}, follow_redirects=True)
        assert "Merged into it" in read(done).text
        assert await _id(unopened, "Ines") == survivor
        await client.post(f"/graph/entities/{merged}/unmerge", data={})
        assert await _id(unopened, "Ines") == merged
        seen = read(await client.get("/graph")).text
        assert "Two entities became one: somebody said so." in seen
        assert "An entity is separate again." in seen


@pytest.mark.thorough
async def test_a_relationship_ends_at_the_day_that_is_named(
    unopened: AgentMem, told: Told, signed_in: SignedIn
) -> None:
    """Questions about earlier times still find it."""
    async with signed_in("writer") as client:
        relationship, entity = await _relationship(unopened)
        assert "Is it over?" in read(await client.get(f"/graph/relationships/{relationship}/end?entity={entity}")).text
        sent = await client.post(f"/graph/relationships/{relationship}/end", data={"end_date": "2025-06-01"})
        assert sent.status_code == 303
        now = await unopened.admin.graph.neighbourhood(MILL, entity)
        assert relationship not in {one.id for one in now.relationships}
        then = await unopened.admin.graph.neighbourhood(MILL, entity, at=day(5, 1))
        assert relationship in {one.id for one in then.relationships}
        wrong = await client.post(f"/graph/relationships/{relationship}/end", data={"end_date": "1999-01-01"})
        assert wrong.status_code == 400


@pytest.mark.thorough
async def test_an_erasure_is_previewed_done_and_checked_again(
    unopened: AgentMem, told: Told, signed_in: SignedIn
) -> None:
    """No address holds the text; the receipt comes from the ledger, and its check looks again."""
    async with signed_in("owner") as client:
        preview = await client.post("/erase/preview", data={"scope": "text", "text": "Marlow"})
        seen = read(preview)
        assert "Money and paint" in seen.text
        assert "Erase for good" in seen.text
        assert await _finds(unopened, "Marlow")
        done = await client.post("/erase", data={"scope": "text", "text": "Marlow"})
        receipt = done.headers["location"]
        assert receipt.startswith("/receipts/")
        assert not await _finds(unopened, "Marlow")
        page = read(await client.get(receipt))
        assert "its seal holds" in page.text
        assert "inspector/k3" in page.text
        again = read(await client.post(receipt, data={"text": "Marlow"}))
        assert "Nothing of it is left" in again.text
        await unopened.create_active_memory(MILL, "Again", "Marlow is back.", language="en")
        found = read(await client.post(receipt, data={"text": "Marlow"}))
        assert "Something is left" in found.text
        assert "text" in read(await client.get("/receipts")).text


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({}, "scope must be one of"),
        ({"scope": "world"}, "world"),
        ({"scope": "memory"}, "say which memory"),
        ({"scope": "memory", "memory_id": "7"}, "7"),
        ({"scope": "text", "text": "   "}, "say which text"),
        ({"scope": "conversation"}, "say which conversation"),
        ({"scope": "tenant"}, "type the external_id"),
        ({"scope": "tenant", "confirmed": "mil"}, "nothing was erased"),
    ],
)
async def test_an_erasure_that_names_nothing_erases_nothing(
    unopened: AgentMem, signed_in: SignedIn, data: dict[str, str], said: str
) -> None:
    """An empty field never means everything."""
    async with signed_in("owner") as client:
        kept = await unopened.create_active_memory(MILL, "Rye", "Ten sacks.", language="en")
        answer = await client.post("/erase", data=data)
        assert answer.status_code == 400
        assert said in read(answer).text
        assert [one.id for one in await unopened.get_active_memories(MILL)] == [kept.id]


async def test_everything_of_a_tenant_goes_once_its_name_was_typed(unopened: AgentMem, signed_in: SignedIn) -> None:
    """And of nobody else."""
    async with signed_in("owner") as client:
        await unopened.create_active_memory(MILL, "Rye", "Ten sacks.", language="en")
        await unopened.create_active_memory("neighbour", "Rye", "Ten sacks.", language="en")
        done = await client.post("/erase", data={"scope": "tenant", "confirmed": MILL}, follow_redirects=True)
        assert "Receipt of an erasure" in read(done).text
        assert not await unopened.get_active_memories(MILL)
        assert await unopened.get_active_memories("neighbour")


@pytest.mark.thorough
async def test_a_question_is_recorded_for_a_run_only_by_post(
    unopened: AgentMem, told: Told, signed_in: SignedIn
) -> None:
    """And the page shows the same answer."""
    async with signed_in("writer") as client:
        answer = await client.post("/ask", data={"q": "When is opening day?", "run_id": "run-7", "limit": "2"})
        assert "June 28" in read(answer).text
        event = (await unopened.ledger.read(MILL, kinds=["memory.recalled"]))[-1]
        assert event.payload["run_id"] == "run-7"
        # No model is configured here, which the page says.
        asked = await client.post("/ask", data={"q": "When is opening day?", "synthesis": "1"})
        assert asked.status_code == 400
        assert "model" in read(asked).text


@pytest.mark.thorough
async def test_verifying_says_what_was_compared(unopened: AgentMem, signed_in: SignedIn) -> None:
    """Of one stream, with its result."""
    async with signed_in("reader") as client:
        assert "nothing to verify" in read(await client.post("/ledger/verify", data={})).text
        await tell(unopened)
        seen = read(await client.post("/ledger/verify", data={})).text
        assert "The ledger is unaltered, and everything matches it" in seen
        assert (await unopened.ledger.read(MILL, limit=1_000))[-1].chain.hex() in seen


@pytest.mark.thorough
async def test_what_is_somebody_elses_does_not_exist(unopened: AgentMem, told: Told, signed_in: SignedIn) -> None:
    """Every page and every write with an id of another tenant."""
    async with signed_in("neighbour") as client:
        await unopened.create_active_memory("neighbour", "Own", "Anna Miller knows Bob Stone.", language="en")
        await unopened.admin.consolidate("neighbour")
        own = await _id(unopened, "Anna Miller", "neighbour")
        relationship, entity = await _relationship(unopened)
        (hit,) = (await unopened.retrieve_memories(MILL, "stairs", limit=1)).hits
        receipts = await unopened.admin.erase(MILL, memory_id=told.archived)
        heads = [await unopened.ledger.head(tenant) for tenant in (MILL, "neighbour")]

        async def refused(answer: httpx.Response, *statuses: int) -> None:
            assert answer.status_code in statuses, (str(answer.url), read(answer).text)
            assert "Opening" not in answer.text
            assert "Ines" not in answer.text

        for path in (
            f"/memories/{told.plan}", f"/memories/{told.plan}/archive",
            f"/memories/{told.plan}/passages/{hit.chunk_id}", f"/graph/entities/{entity}",
            f"/graph/relationships/{relationship}?entity={entity}", f"/graph/relationships/{relationship}?entity={own}",
            f"/graph/relationships/{relationship}/end?entity={own}",
            f"/graph/merge?survivor={own}&merged={entity}", "/ledger/20", "/receipts/20", "/runs/34",
        ):  # fmt: skip
            await refused(await client.get(path), 404)
        await refused(await client.get(f"/passages/{hit.chunk_id}"), 404)
        await refused(await client.get(f"/graph?name={entity}"), 400, 404)
        await refused(await client.get(f"/time?memory={told.plan}"), 400)
        await refused(await client.get(f"/memories?memory_ids={told.plan}"), 200)
        await refused(await client.get(f"/ask?q=opening+day+stairs&memory_ids={told.plan}"), 200)
        for path, data in (
            (f"/memories/{told.plan}/archive", {}),
            ("/graph/merge", {"survivor": own, "merged": str(entity)}),
            (f"/graph/entities/{entity}/unmerge", {}),
            (f"/graph/relationships/{relationship}/end", {}),
            ("/erase", {"scope": "memory", "memory_id": str(told.plan)}),
            ("/erase/preview", {"scope": "memory", "memory_id": str(told.plan)}),
        ):
            await refused(await client.post(path, data=data), 404)
        assert [await unopened.ledger.head(tenant) for tenant in (MILL, "neighbour")] == heads
        assert receipts.external_id == MILL
        with pytest.raises(MemoryNotFoundError):
            await unopened.admin.history("neighbour", told.plan)


async def _finds(memory: AgentMem, word: str) -> bool:
    found = await memory.retrieve_memories(MILL, word, limit=50)
    return any(word in hit.content for hit in found.hits)


async def _id(memory: AgentMem, name: str, tenant: str = MILL) -> str:
    return str((await memory.admin.graph.entities(tenant, name=name))[0].id)


async def _relationship(memory: AgentMem) -> tuple[UUID, UUID]:
    found = await memory.admin.graph.neighbourhood(MILL, "Petra Lindgren")
    return found.relationships[0].id, found.relationships[0].from_id
