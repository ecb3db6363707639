"""What a model has made of memories is the ledger's: rebuilt, moved and erased without it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.database.connection import SqlExecutor
from tests.acceptance.conftest import SocketServer, dsn
from tests.support.factories import stored_rows, superuser
from tests.support.memorizing import MakeConfig, Shown, concludes, fact, hits_of, memorizing, payloads, reads
from tests.support.scripted import ScriptedModel, Step
from tests.support.steps import all_events, lines

_EARLY = datetime(2024, 3, 1, 12, tzinfo=UTC)
_LATE = datetime(2024, 3, 9, 12, tzinfo=UTC)

_HIRED = "Tom Weber works for Acme in Porto since spring."
_SAILS = "Tom Weber sails with Maria Silva on Sundays."
_FIRED = "Tom Weber was fired by Acme in Porto."
_FACT = "Tom Weber works in Porto, and sails there with Maria Silva."
_WHO = "who works for Acme in Porto, and sails?"


def _first(shown: Shown) -> dict[str, Any]:
    return {
        "entities": [
            {"name": "Tom Weber", "type": "person", "description": "A sailor.", "also_called": ["Tom"]},
            {"name": "Acme", "type": "organization"},
            {"name": "Maria Silva", "type": "person"},
        ],
        "relationships": [
            {"who": "Tom Weber", "relation": relation, "whom": other, "passages": shown.new(said), "since": "2024-02"}
            for other, relation, said in (("Acme", "works_for", _HIRED), ("Maria Silva", "sails_with", _SAILS))
        ],
        "facts": [fact(shown, _FACT, _HIRED, _SAILS), fact(shown, "They sail.", _SAILS, importance=0.1)],
        "summary": "Tom works and sails.",
    }


def _second(shown: Shown) -> dict[str, Any]:
    over = (shown.ref("stored_passages", _HIRED), shown.ref("known_relationships", "works_for"))
    return {
        "over": [{"number": number, "by": 1, "part": _HIRED, "why": "He was fired."} for number in over],
        "facts": [fact(shown, "Tom Weber has no job.")],
        "summary": "Tom was fired.",
    }


async def _live(memory: AgentMem, external_id: str = "agent-1") -> None:
    """Two memories of which the second ends a part of what the first says; and a third, which no model has read."""
    first = await memory.create_active_memory(external_id, "Tom", lines([_HIRED, _SAILS]), occurred_at=_EARLY)
    await memory.admin.consolidate(external_id, first.id)
    second = await memory.create_active_memory(external_id, "News", _FIRED, occurred_at=_LATE)
    await memory.admin.consolidate(external_id, second.id)
    await memory.create_active_memory(external_id, "Weather", "It rains.", occurred_at=_LATE)


def _model() -> ScriptedModel:
    return ScriptedModel(reads(_first, importance=1.0), reads(_second))


@pytest.fixture
async def db(socket_server: SocketServer, database: str) -> AsyncIterator[SqlExecutor]:
    """A connection that no policy holds."""
    async with superuser(socket_server._server, database) as connection:
        yield connection


@pytest.fixture
async def elsewhere(
    socket_server: SocketServer, own_database: str, config: Callable[..., Config]
) -> AsyncIterator[AgentMem]:
    """A memory on another database, without a model."""
    async with AgentMem(config(postgres_dsn=dsn(socket_server.login(own_database)))) as opened:
        yield opened


async def _seen(memory: AgentMem, external_id: str) -> dict[str, Any]:
    """What can be asked of a tenant about what a model has read, today and before, but for whose it is."""
    graph = memory.admin.graph
    entities = await graph.entities(external_id)
    seen: dict[str, Any] = {"entities": {one.name: one.model_dump(exclude={"external_id"}) for one in entities}}
    for at in (None, _EARLY + timedelta(days=1)):
        around = await graph.neighbourhood(external_id, "Tom Weber", hops=2, at=at)
        seen[f"relationships {at}"] = sorted(
            (one.model_dump(exclude={"external_id"}) for one in around.relationships), key=lambda one: str(one["id"])
        )
        hits = await hits_of(memory, _WHO, external_id, as_of=at)
        seen[f"hits {at}"] = {
            text: hit.model_dump(exclude={"external_id", "score", "score_parts", "match"}) for text, hit in hits.items()
        }
    return seen


# Rebuilding and moving --------------------------------------------------------------------------------


@pytest.mark.promise
async def test_a_rebuild_asks_no_model(config: MakeConfig, db: SqlExecutor) -> None:
    """With the model unplugged it gives the same rows: chunks, facts, entities, relationships, and when each ended."""
    async with memorizing(config, _model()) as memory:
        await _live(memory)
        expected = await _seen(memory, "agent-1")
        # The one that holds, and that two known names stand together, which no model has to say.
        assert sorted(one["type"] for one in expected["relationships None"]) == ["related_to", "sails_with"]
        assert len(expected[f"relationships {_EARLY + timedelta(days=1)}"]) == 2
        assert set(expected["hits None"]) == {_SAILS, _FIRED, "They sail.", "Tom Weber has no job.", "It rains."}
        assert expected["hits None"]["They sail."]["tier"] == "shortterm"
        assert {_HIRED, _FACT} < set(expected[f"hits {_EARLY + timedelta(days=1)}"])
    rows = await stored_rows(db, "agent-1", with_ctid=False)

    async with AgentMem(config()) as plain:
        assert (await plain.admin.verify("agent-1")).ok
        await plain.admin.rebuild("agent-1")

        assert await stored_rows(db, "agent-1", with_ctid=False) == rows
        assert await _seen(plain, "agent-1") == expected
        assert (await plain.admin.verify("agent-1")).ok


@pytest.mark.thorough
async def test_a_copy_has_what_the_model_made(config: MakeConfig, elsewhere: AgentMem, tmp_path: Path) -> None:
    """Under another name and in another database, where no model is; with what it cost."""
    file = tmp_path / "export.jsonl.zst"
    async with memorizing(config, _model()) as memory:
        await _live(memory)
        expected = await _seen(memory, "agent-1")
        usage = (await memory.admin.usage("agent-1")).models
        await memory.admin.export("agent-1", file)
        await memory.admin.import_(file, "copy")
        assert await _seen(memory, "copy") == expected

    await elsewhere.admin.import_(file)

    assert await _seen(elsewhere, "agent-1") == expected
    assert (await elsewhere.admin.usage("agent-1")).models == usage
    assert (await elsewhere.admin.verify("agent-1")).ok


# Erasing ----------------------------------------------------------------------------------------------

_VAULT = "The vault of the harbour opens with the word swordfish."
_HARBOUR = "The vault of the harbour is painted green."


def _leak(shown: Shown) -> dict[str, Any]:
    """A plan that repeats in every place what another memory says."""
    stored = " ".join(row["text"] for row in shown.parts.get("stored_passages", []))
    return {
        "entities": [{"name": "the harbour", "type": "place", "description": f"Told elsewhere: {stored}"}],
        "facts": [fact(shown, f"It is green, and said is too: {stored}")],
        "summary": f"Green. {stored}",
    }


async def _read_beside(memory: AgentMem) -> tuple[UUID, UUID]:
    """A memory with a secret, and one that was due and was consolidated by a model that was shown the secret."""
    vault = await memory.create_active_memory("agent-1", "Vault", _VAULT, occurred_at=_EARLY)
    await memory.admin.run_due("agent-1")
    await memory.admin.consolidate("agent-1", vault.id)
    harbour = await memory.create_active_memory("agent-1", "Harbour", "The vault.", occurred_at=_EARLY)
    await memory.update_active_memory("agent-1", harbour.id, content=_HARBOUR, occurred_at=_LATE)
    await memory.admin.run_due("agent-1")
    return vault.id, harbour.id


@pytest.mark.thorough
async def test_what_a_model_was_shown_for_another_memory_goes_with_it(config: MakeConfig, db: SqlExecutor) -> None:
    """The plan that rests on it is erased too: the other memory keeps its text, and is consolidated anew."""
    model = ScriptedModel(reads(), reads(_leak))
    async with memorizing(config, model, active_memory_update_threshold=1) as memory:
        vault, harbour = await _read_beside(memory)
        assert "swordfish" in repr((await payloads(memory, "consolidated"))[-1])
        assert any("swordfish" in text for text in await hits_of(memory, "is it green?"))

        receipt = await memory.admin.erase("agent-1", memory_id=vault)

        check = await memory.admin.verify_erased(receipt, text="swordfish")
        assert (check.ok, check.findings) == (True, ())
        assert "swordfish" not in repr(await stored_rows(db, "agent-1"))
        assert set(receipt.memory_ids) == {vault}
        (left,) = await memory.get_active_memories("agent-1")
        assert (left.id, left.content, left.version) == (harbour, _HARBOUR, 2)
        assert set(await hits_of(memory, "is it green?")) == {_HARBOUR}
        assert (await memory.admin.verify("agent-1")).ok

        report = await memory.admin.run_due("agent-1")

        assert report.consolidated == (harbour,)
        assert len(model.asked) == 3
        assert "swordfish" not in Shown(model.asked[2]).prompt
        assert "swordfish" not in repr(await stored_rows(db, "agent-1"))
        assert (await memory.admin.verify("agent-1")).ok


@pytest.mark.thorough
async def test_what_was_promoted_of_an_erased_plan_is_no_fault(config: MakeConfig, db: SqlExecutor) -> None:
    """A later event names a fact that is gone; the passages that it names are those of the text."""
    settings = {"active_memory_update_threshold": 1, "shortterm_promotion_threshold": 0.3}
    async with memorizing(config, ScriptedModel(reads(), reads(_leak)), **settings) as memory:
        vault, harbour = await _read_beside(memory)
        assert [one["memory_id"] for one in await payloads(memory, "promoted")][-1] == str(harbour)
        await memory.update_active_memory("agent-1", harbour, content=lines([_HARBOUR, "The paint is wet."]))

        receipt = await memory.admin.erase("agent-1", memory_id=vault)

        assert (await memory.admin.verify_erased(receipt, text="swordfish")).ok
        assert set(await hits_of(memory, "is it green?")) == {_HARBOUR, "The paint is wet."}
        await memory.admin.run_due("agent-1")
        assert "swordfish" not in repr(await stored_rows(db, "agent-1"))
        assert (await memory.admin.verify("agent-1")).ok


@pytest.mark.thorough
async def test_what_an_erased_memory_had_ended_holds_again(config: MakeConfig) -> None:
    """A passage, what was concluded from it, and a relationship; and nothing says any more why they were over."""
    async with memorizing(config, _model()) as memory:
        await _live(memory)
        news = next(one for one in await memory.get_active_memories("agent-1") if one.title == "News")
        assert _HIRED not in await hits_of(memory, _WHO)

        receipt = await memory.admin.erase("agent-1", memory_id=news.id)

        assert {_HIRED, _SAILS, _FACT} < set(await hits_of(memory, _WHO))
        around = await memory.admin.graph.neighbourhood("agent-1", "Tom Weber")
        assert {one.type: one.end_date for one in around.relationships} == {"works_for": None, "sails_with": None}
        assert (await memory.admin.verify_erased(receipt, text="fired")).ok
        assert "fired" not in repr(await all_events(memory, "agent-1"))
        assert (await memory.admin.verify("agent-1")).ok


@pytest.mark.thorough
async def test_erasing_what_was_ended_keeps_what_has_ended_it(config: MakeConfig) -> None:
    """The newer memory stays as it is, but for what a model wrote of it when it had the older one before it."""
    async with memorizing(config, _model()) as memory:
        await _live(memory)
        tom = next(one for one in await memory.get_active_memories("agent-1") if one.title == "Tom")

        receipt = await memory.admin.erase("agent-1", memory_id=tom.id)

        assert (await memory.admin.verify_erased(receipt, text=_SAILS)).ok
        assert set(await hits_of(memory, _WHO)) == {_FIRED, "It rains."}
        assert [one for one in await payloads(memory, "ended") if one] == []
        assert (await memory.admin.verify("agent-1")).ok


@pytest.mark.thorough
async def test_a_word_that_only_the_model_repeats_erases_no_memory(config: MakeConfig) -> None:
    """Erasing by text takes the memory that says it, and of others only the plans that quote it."""
    model = ScriptedModel(reads(), reads(_leak))
    async with memorizing(config, model, active_memory_update_threshold=1) as memory:
        vault, harbour = await _read_beside(memory)

        receipt = await memory.admin.erase("agent-1", text="swordfish")

        assert set(receipt.memory_ids) == {vault}
        assert [one.id for one in await memory.get_active_memories("agent-1")] == [harbour]
        assert (await memory.admin.verify_erased(receipt, text="swordfish")).ok
        assert (await memory.admin.verify("agent-1")).ok


async def test_what_somebody_was_called_goes_with_the_memory_that_says_it(config: MakeConfig, db: SqlExecutor) -> None:
    """A type in a model's own words is no other memory's: it is not shown with a known name, and not taken over."""

    def call(type_: str) -> Step:
        return reads(lambda shown: {"entities": [{"name": "Maria Silva", "type": type_}]})

    hides = "In the year of the great storm we hid her below deck between the nets, Maria Silva, and all she knew."
    model = ScriptedModel(call("agent swordfish"), call("person"))
    async with memorizing(config, model) as memory:
        notes = [
            await memory.create_active_memory("agent-1", title, text, occurred_at=_EARLY)
            for title, text in (("Crew", hides), ("Bread", "Bread, said Maria Silva."))
        ]
        for note in notes:
            await memory.admin.consolidate("agent-1", note.id)
        shown = Shown(model.asked[1])
        assert [(row["name"], row["type"]) for row in shown.parts["known_entities"]] == [("Maria Silva", "other")]
        assert "stored_passages" not in shown.parts
        [maria] = await memory.admin.graph.entities("agent-1")
        assert (maria.type, maria.mentions) == ("agent_swordfish", 2)

        await memory.admin.erase("agent-1", memory_id=notes[0].id)

        assert "swordfish" not in repr(await stored_rows(db, "agent-1"))
        [left] = await memory.admin.graph.entities("agent-1")
        assert (left.name, left.type, left.mentions) == ("Maria Silva", "person", 1)
        assert (await memory.admin.verify("agent-1")).ok


@pytest.mark.thorough
@pytest.mark.parametrize("step", [concludes(_FACT, _HIRED), reads(_first)], ids=["fact", "names"])
async def test_nothing_of_an_erased_memory_is_left(config: MakeConfig, db: SqlExecutor, step: Step) -> None:
    """Neither its facts nor its names, in any table."""
    async with memorizing(config, ScriptedModel(step)) as memory:
        note = await memory.create_active_memory("agent-1", "Job", lines([_HIRED, _SAILS]), occurred_at=_EARLY)
        await memory.create_active_memory("agent-1", "Weather", "It rains.", occurred_at=_EARLY)
        await memory.admin.consolidate("agent-1", note.id)

        receipt = await memory.admin.erase("agent-1", memory_id=note.id)

        for text in ("Tom Weber", "sail"):
            assert (await memory.admin.verify_erased(receipt, text=text)).ok
            assert text not in repr(await stored_rows(db, "agent-1"))
        assert set(await hits_of(memory, _WHO)) == {"It rains."}
        assert (await memory.admin.verify("agent-1")).ok


@pytest.mark.promise
@pytest.mark.everyday("fact", "why of a relationship", why="the plan is searched as a whole, and what it made as well")
@pytest.mark.parametrize("field", ["fact", "summary", "description", "type", "why", "why of a relationship"])
async def test_a_word_that_only_the_model_wrote_can_be_erased(config: MakeConfig, db: SqlExecutor, field: str) -> None:
    """Wherever it stands in a plan; the memories do not say it and stay."""
    word = "swordfish"

    def write(shown: Shown) -> dict[str, Any]:
        plan = _second(shown)
        fields = {
            "fact": (plan["facts"][0], "text"),
            "summary": (plan, "summary"),
            "why": (plan["over"][0], "why"),
            "why of a relationship": (plan["over"][1], "why"),
        }
        if field in fields:
            where, key = fields[field]
            where[key] = f"{word} {where[key]}"
            return plan
        return plan | {"entities": [{"name": "Tom Weber", "type": "person"} | {field: word}]}

    async with memorizing(config, ScriptedModel(reads(_first), reads(write))) as memory:
        await _live(memory)
        notes = await memory.get_active_memories("agent-1")
        assert word in repr(await all_events(memory, "agent-1"))

        receipt = await memory.admin.erase("agent-1", text=word)

        check = await memory.admin.verify_erased(receipt, text=word)
        assert (check.ok, receipt.memory_ids) == (True, ())
        assert word not in repr(await stored_rows(db, "agent-1"))
        assert [(one.id, one.content) for one in await memory.get_active_memories("agent-1")] == [
            (note.id, note.content) for note in notes
        ]
        assert {_SAILS, _FIRED} < set(await hits_of(memory, _WHO))
        assert (await memory.admin.verify("agent-1")).ok
