"""What holds of filters beside what they admit: repetitions, other tenants, repairs, erasures, models, and stores."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agent_reminiscence import AgentMem, AgentModels, Config, Filter, InvalidInputError, RetrievalResult
from agent_reminiscence.database.connection import SqlExecutor, open_connection
from tests.acceptance.conftest import Server
from tests.support.openings import openings_of
from tests.support.scripted import ScriptedModel, answer, call_all

_TWICE = "The spare key of the blue cabin hangs behind the old clock in the hall."
_QUESTION = "Where is the spare key of the cabin?"


@pytest.fixture
async def superuser(server: Server, database: str) -> AsyncIterator[SqlExecutor]:
    """A connection that no policy holds."""
    db = await open_connection(server.superuser(database))
    await db.execute_script("SET search_path = reminiscence")
    yield db
    db.close()


def _contents(found: RetrievalResult) -> list[str]:
    return [hit.content.strip() for hit in found.hits]


@pytest.mark.parametrize("whole", [10_000, 0])
async def test_where_only_the_repetition_is_admitted_it_stands_for_what_it_repeats(
    memory: AgentMem, monkeypatch: pytest.MonkeyPatch, whole: int
) -> None:
    """It has ended, because another memory says the same; asked about alone, its memory says it still."""
    monkeypatch.setattr(openings_of(memory), "_whole_max_chunks", whole)
    for number in range(3):
        note = await memory.create_active_memory(
            "agent-1", "House", _TWICE, metadata={"of": number}, conversation_id=f"talk-{number}"
        )
        await memory.admin.consolidate("agent-1", note.id)
    assert len((await memory.retrieve_memories("agent-1", _QUESTION)).hits) == 1

    for where, of in (
        (Filter(metadata={"of": 0}), {0}),
        (Filter(metadata={"of": 2}), {2}),
        (Filter(conversation_ids=["talk-2"]), {2}),
        # One of those that repeat the same is enough.
        (Filter(metadata={"of": {"$gt": 0}}), {1}),
        (Filter(metadata={"of": {"$gte": 0}}), {0}),
        (Filter(metadata={"of": 7}), set()),
    ):
        found = await memory.retrieve_memories("agent-1", _QUESTION, where=where)
        metadata = {one.id: one.metadata["of"] for one in await memory.get_active_memories("agent-1")}
        assert [metadata[hit.memory_id] for hit in found.hits] == list(of), where
        assert all(hit.end_date is None and hit.superseded_at is None for hit in found.hits)
        assert found.found is bool(of)


async def test_a_repetition_stands_for_nothing_that_its_memory_no_longer_says(memory: AgentMem, tenant: str) -> None:
    """Nor does one whose passage is gone from the text, nor is it found twice when both are admitted again."""
    notes = []
    for number in range(2):
        note = await memory.create_active_memory(tenant, "House", _TWICE, metadata={"of": number})
        await memory.admin.consolidate(tenant, note.id)
        notes.append(note)
    await memory.update_active_memory(tenant, notes[1].id, content="Nothing is known of any key.")

    second = await memory.retrieve_memories(tenant, _QUESTION, where=Filter(metadata={"of": 1}))
    both = await memory.retrieve_memories(tenant, _QUESTION, where=Filter(memory_ids=[one.id for one in notes]))

    assert _TWICE not in _contents(second)
    assert _contents(both).count(_TWICE) == 1


async def test_archived_memories_are_filtered_by_what_they_are(memory: AgentMem, tenant: str) -> None:
    """Their passages stay searchable, and a key of theirs still names them; lists leave them out."""
    note = await memory.create_active_memory(
        tenant, "House", _TWICE, key="house", metadata={"room": "hall"}, actor="bot", conversation_id="talk"
    )
    await memory.admin.archive(tenant, note.id)
    new = await memory.create_active_memory(tenant, "House", "The spare key of the cabin is lost.", key="house")

    for where in (
        Filter(metadata={"room": "hall"}),
        Filter(actors=["bot"]),
        Filter(conversation_ids=["talk"]),
        Filter(memory_ids=[note.id]),
    ):
        assert _contents(await memory.retrieve_memories(tenant, _QUESTION, where=where)) == [_TWICE]
        assert await memory.get_active_memories(tenant, where=where) == []
    by_key = await memory.retrieve_memories(tenant, _QUESTION, where=Filter(keys=["house"]))
    assert {hit.memory_id for hit in by_key.hits} == {note.id, new.id}
    assert [one.id for one in await memory.get_active_memories(tenant, where=Filter(key_prefix="ho"))] == [new.id]


async def test_a_filter_admits_no_hit_that_has_nothing_to_do_with_the_question(
    memory: AgentMem,
    tenant: str,
) -> None:
    """It leaves out; it does not fill up to `limit` with what neither words nor meaning lead to."""
    for number in range(3):
        await memory.create_active_memory(tenant, "House", f"{_TWICE} {number}", metadata={"of": number})
    admitted = Filter(metadata={"of": {"$gte": 0}})

    asked = await memory.retrieve_memories(tenant, _QUESTION, limit=3, where=admitted)
    senseless = await memory.retrieve_memories(tenant, "xyzzy", limit=3, where=admitted)

    assert (len(asked.hits), senseless.hits, senseless.found) == (3, (), False)


async def test_another_tenants_ids_keys_and_metadata_admit_nothing(
    memory: AgentMem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same words, keys and metadata are there twice, and only one's own come back."""
    ids = {}
    for tenant in ("agent-1", "agent-2"):
        note = await memory.create_active_memory(
            tenant,
            "House",
            f"{_TWICE} It is {tenant}'s.",
            key="house",
            actor="bot",
            conversation_id="talk",
            metadata={"room": "hall", "turns": [{"start": 0, "speaker": "Mara", "mood": "glad"}]},
        )
        ids[tenant] = note.id

    for whole in (10_000, 0):
        monkeypatch.setattr(openings_of(memory), "_whole_max_chunks", whole)
        for where in (
            Filter(keys=["house"]),
            Filter(actors=["bot"], conversation_ids=["talk"], speakers=["Mara"]),
            Filter(metadata={"room": "hall"}, turn_metadata={"mood": "glad"}),
            Filter(metadata={"room": {"$ne": "cellar"}}),
            Filter(metadata={"$or": [{"room": "hall"}, {"room": {"$exists": False}}]}),
            Filter(metadata={"$not": {"room": "cellar"}}, turn_metadata={"$not": {"mood": "sad"}}),
            Filter(memory_ids=list(ids.values()), metadata={"$not": {"room": {"$nin": ["hall"]}}}),
            Filter(memory_ids=list(ids.values())),
        ):
            found = await memory.retrieve_memories("agent-1", _QUESTION, where=where)
            assert {hit.memory_id for hit in found.hits} == {ids["agent-1"]}, where
            assert [one.id for one in await memory.get_active_memories("agent-1", where=where)] == [ids["agent-1"]]
        theirs = await memory.retrieve_memories("agent-1", _QUESTION, where=Filter(memory_ids=[ids["agent-2"]]))
        assert (theirs.hits, theirs.found) == ((), False)


_ROOMS = Filter(metadata={"room": {"$in": ["hall", "attic"]}}, turn_metadata={"mood": {"$ne": "sad"}})


async def _furnish(memory: AgentMem, tenant: str) -> None:
    for number, room in enumerate(("hall", "attic", "cellar")):
        text = f"The spare key number {number} of the cabin is in the {room}."
        turns = [{"start": 0, "speaker": None, "mood": "glad"}]
        await memory.create_active_memory(
            tenant, "House", text, metadata={"room": room, "turns": turns}, conversation_id=f"talk-{number}"
        )


async def _rooms(memory: AgentMem, tenant: str, where: Filter = _ROOMS) -> set[str]:
    found = await memory.retrieve_memories(tenant, _QUESTION, where=where)
    return {content.split()[-1].rstrip(".") for content in _contents(found)}


@pytest.mark.thorough
async def test_a_rebuild_repairs_what_filters_look_up(memory: AgentMem, superuser: SqlExecutor) -> None:
    """A row taken away, changed or put there behind the memory's back is named by its memory, and put right."""
    await _furnish(memory, "agent-1")
    assert await _rooms(memory, "agent-1") == {"hall", "attic"}
    assert (await memory.admin.verify("agent-1")).ok
    await superuser.execute_script(
        "DELETE FROM memory_attribute WHERE value = 'shall';"
        " UPDATE memory_attribute SET value = 'shall' WHERE value = 'scellar';"
        " UPDATE memory_attribute SET value = 'ssad' WHERE value = 'sglad'"
    )
    assert await _rooms(memory, "agent-1") != {"hall", "attic"}

    (report,) = (await memory.admin.verify("agent-1")).streams
    assert {drift.table for drift in report.drift} == {"memory_attribute"}
    assert "hall" not in report.model_dump_json()
    await memory.admin.rebuild("agent-1")

    assert await _rooms(memory, "agent-1") == {"hall", "attic"}
    assert (await memory.admin.verify("agent-1")).ok


async def test_an_export_brings_what_filters_look_up(memory: AgentMem, tenant: str, tmp_path: Path) -> None:
    """Elsewhere the same filters admit the same."""
    await _furnish(memory, tenant)
    await memory.admin.export(tenant, tmp_path / "house.export")

    await memory.admin.import_(tmp_path / "house.export", f"{tenant}-copy")

    assert await _rooms(memory, f"{tenant}-copy") == {"hall", "attic"}
    assert (await memory.admin.verify(f"{tenant}-copy")).ok


async def test_an_erasure_leaves_no_attribute(memory: AgentMem, superuser: SqlExecutor) -> None:
    """Not of the memory and not of its turns; a row put back is found by the check."""
    await _furnish(memory, "agent-1")
    kept = await superuser.fetch_all(
        "SELECT external_id, path, value, item_id FROM memory_attribute WHERE value = 'shall'"
    )
    receipt = await memory.admin.erase("agent-1", conversation_id="talk-0")

    left = await superuser.fetch_all("SELECT path, value FROM memory_attribute")
    assert len(left) == 2 * 3
    assert "hall" not in json.dumps(left)
    assert await _rooms(memory, "agent-1") == {"attic"}
    assert (await memory.admin.verify_erased(receipt, text="hall")).ok

    await superuser.execute(
        "INSERT INTO memory_attribute (external_id, path, value, item_id)"
        " VALUES ($(external_id)p, $(path)p, $(value)p, $(item_id)p::text::uuid)",
        {name: str(value) for name, value in kept[0].items()},
    )
    places = {finding.place for finding in (await memory.admin.verify_erased(receipt, text="hall")).findings}
    assert places == {"memory_attribute.value"}


async def test_the_graph_shows_only_what_admitted_passages_say(memory: AgentMem, tenant: str) -> None:
    """An entity that nothing admitted mentions is not shown, and the evidence is of admitted passages."""
    for title, text in (
        ("Boats", "The Red Boat belongs to Ivo Brandt."),
        ("Work", "Ivo Brandt works with Mara Lindt."),
    ):
        note = await memory.create_active_memory(tenant, title, text, metadata={"about": title})
        await memory.admin.consolidate(tenant, note.id)
    question = "Who works with the owner of the Red Boat?"
    assert {one.name for one in (await memory.retrieve_memories(tenant, question)).entities} == {
        "Red Boat",
        "Ivo Brandt",
        "Mara Lindt",
    }

    for as_of in (None, datetime.now(UTC) + timedelta(days=1)):
        found = await memory.retrieve_memories(tenant, question, where=Filter(metadata={"about": "Boats"}), as_of=as_of)

        assert {one.name for one in found.entities} == {"Red Boat", "Ivo Brandt"}
        admitted = {hit.chunk_id for hit in found.hits}
        assert len(admitted) == 1
        assert all(set(one.chunk_ids) == admitted for one in found.entities)
        assert all(set(one.chunk_ids) <= admitted for one in found.relationships)


async def test_a_filter_goes_together_with_the_other_arguments(memory: AgentMem, tenant: str) -> None:
    """The budget and the match are those of admitted hits, and what they leave out is counted."""
    await _furnish(memory, tenant)

    budget = await memory.retrieve_memories(tenant, _QUESTION, where=_ROOMS, token_budget=60)
    match = await memory.retrieve_memories(tenant, "What did the zebra eat?", where=_ROOMS, min_match=0.9)
    tiers = await memory.retrieve_memories(tenant, _QUESTION, where=_ROOMS, tiers=["longterm"])
    confident = await memory.retrieve_memories(tenant, _QUESTION, where=_ROOMS, min_confidence=1)

    assert (len(budget.hits), [(one.reason, one.count) for one in budget.omitted]) == (1, [("token_budget", 1)])
    assert match.hits == ()
    assert not match.found
    assert tiers.hits == ()
    assert {hit.confidence for hit in confident.hits} <= {1.0}


@pytest.mark.parametrize("wrong", [{"actors": ["bot"]}, "actors", 3])
async def test_only_a_filter_is_one(memory: AgentMem, tenant: str, wrong: Any) -> None:
    """A mapping would be taken for metadata by one reader and for fields by another."""
    with pytest.raises(InvalidInputError, match=f"where must be a Filter.* not an? {type(wrong).__name__}"):
        await memory.retrieve_memories(tenant, _QUESTION, where=wrong)
    with pytest.raises(InvalidInputError, match="where must be a Filter"):
        await memory.get_active_memories(tenant, where=wrong)


@asynccontextmanager
async def _asking(config: Callable[..., Config], model: ScriptedModel) -> AsyncIterator[AgentMem]:
    async with AgentMem(config(), models=AgentModels(memory_retrieve=model.model)) as memory:
        await _furnish(memory, "agent-1")
        yield memory


async def test_a_model_that_answers_searches_within_the_filter(config: Callable[..., Config]) -> None:
    """Neither a further search nor the text around a passage shows it anything else."""
    tools = call_all(("search_memory", {"query": "cabin, cellar and attic"}), ("show_around", {"ref": 1}))
    model = ScriptedModel(tools, answer({"answer": "In the hall [1].", "is_known": True}))
    async with _asking(config, model) as memory:
        where = Filter(metadata={"room": "hall"})
        await memory.retrieve_memories("agent-1", _QUESTION, where=where, synthesis=True)

    assert "in the hall" in model.shown
    assert "in the cellar" not in model.shown
    assert "in the attic" not in model.shown


# --- A store of items in namespaces, such as LangGraph's ------------------------------------------------------------


class _Store:
    """Items under a namespace and a key, each a value; what an adapter would make of the four methods."""

    def __init__(self, memory: AgentMem, owner: str) -> None:
        self._memory = memory
        self._owner = owner

    async def put(self, namespace: tuple[str, ...], key: str, value: dict[str, Any]) -> None:
        await self._memory.create_active_memory(
            self._owner,
            key,
            json.dumps(value, ensure_ascii=False),
            metadata={"value": value},
            key=_path(namespace) + key,
            if_exists="update",
        )

    async def get(self, namespace: tuple[str, ...], key: str) -> dict[str, Any] | None:
        found = await self._memory.get_active_memories(self._owner, keys=[_path(namespace) + key])
        return found[0].metadata["value"] if found else None

    async def delete(self, namespace: tuple[str, ...], key: str) -> None:
        await self._memory.admin.archive(self._owner, key=_path(namespace) + key, end_chunks=True)

    async def search(
        self,
        namespace: tuple[str, ...],
        *,
        query: str | None = None,
        filter: dict[str, Any] | None = None,
        limit: int = 10,
    ) -> list[str]:
        """The keys of the items, best first if there is a query."""
        where = Filter(key_prefix=_path(namespace), metadata=None if filter is None else {"value": filter})
        listed = await self._memory.get_active_memories(self._owner, where=where)
        keys = {one.id: one.title for one in listed}
        if query is None:
            return list(keys.values())[:limit]
        found = await self._memory.retrieve_memories(self._owner, query, where=where, limit=limit)
        return list(dict.fromkeys(keys[hit.memory_id] for hit in found.hits if hit.memory_id in keys))


def _path(namespace: tuple[str, ...]) -> str:
    return "/".join(namespace) + "/"


async def test_items_in_namespaces_are_put_found_filtered_and_deleted(memory: AgentMem) -> None:
    """The namespace is the beginning of the key, and the value is metadata, as an adapter of a store needs it."""
    store, other = _Store(memory, "agent-1"), _Store(memory, "agent-2")
    likes = ("users", "ana", "likes")
    await store.put(likes, "tea", {"text": "Ana likes green tea", "kind": "drink", "score": 4, "by": {"name": "bot"}})
    await store.put(likes, "jazz", {"text": "Ana likes loud jazz", "kind": "music", "score": 2, "by": {"name": "ana"}})
    await store.put(("users", "ivo", "likes"), "tea", {"text": "Ivo likes black tea", "kind": "drink", "score": 5})
    await store.put(("users", "ana2"), "tea", {"text": "Ana2 likes white tea", "kind": "drink", "score": 9})
    await other.put(likes, "tea", {"text": "Somebody else likes tea", "kind": "drink", "score": 4})

    assert await store.get(likes, "tea") == {
        "text": "Ana likes green tea",
        "kind": "drink",
        "score": 4,
        "by": {"name": "bot"},
    }
    assert await store.get(likes, "coffee") is None
    assert await store.search(("users", "ana")) == ["tea", "jazz"]
    assert await store.search(("users",), filter={"kind": "drink"}) == ["tea", "tea", "tea"]
    assert await store.search(likes, filter={"score": {"$gte": 3}}) == ["tea"]
    assert await store.search(likes, filter={"score": {"$gt": 2, "$lt": 4}}) == []
    assert await store.search(likes, filter={"kind": {"$ne": "drink"}}) == ["jazz"]
    assert await store.search(likes, filter={"by": {"name": "ana"}}) == ["jazz"]
    assert await store.search(likes, query="Which music does Ana like?", limit=1) == ["jazz"]
    assert await store.search(likes, query="Which tea?", filter={"kind": "music"}) == ["jazz"]

    await store.put(likes, "tea", {"text": "Ana likes no tea any more", "kind": "drink", "score": 0})
    assert await store.search(likes, filter={"score": {"$gte": 3}}) == []
    assert await store.search(likes, query="tea", filter={"score": 0}) == ["tea"]
    await store.delete(likes, "tea")
    assert await store.get(likes, "tea") is None
    assert await store.search(likes, query="tea") == ["jazz"]
    assert (await memory.admin.verify()).ok
