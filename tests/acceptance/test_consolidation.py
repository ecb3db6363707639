"""Consolidation and promotion without a model: when, what of it, and what is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from uuid import uuid4

import pytest

from agent_reminiscence import AgentMem, Config, InvalidInputError, MemoryNotFoundError, SearchHit
from tests.acceptance.conftest import Server
from tests.support.servers import SECOND_SERVER_THOROUGHLY
from tests.support.steps import EVERYTHING, all_events, in_turn, lines, only_memory, refusing, texts

# Names, numbers and dates: as specific as a chunk gets, so that time and trust make it important.
FACT = "Please note that Ann Miller owes Bob Stone 300 dollars since 5 May."


async def _kinds(memory: AgentMem, external_id: str = "agent-1") -> list[str]:
    return [event.kind.removeprefix("memory.") for event in await all_events(memory, external_id)]


async def _hits(memory: AgentMem, query: str, external_id: str = "agent-1") -> dict[str, SearchHit]:
    found = await memory.retrieve_memories(external_id, query, limit=EVERYTHING)
    return {hit.content.strip(): hit for hit in found.hits}


@SECOND_SERVER_THOROUGHLY
async def test_the_fifth_update_consolidates(memory: AgentMem, tenant: str) -> None:
    """The first four do not; what was consolidated is in shortterm, under its title, with a summary."""
    note = await memory.create_active_memory(tenant, "Plan", "Ship version 1.")
    for number in range(2, 6):
        note = await memory.update_active_memory(tenant, note.id, content=f"Ship version {number}.")
        assert note.write is not None
        assert not note.write.consolidation_queued
    assert {hit.tier for hit in (await _hits(memory, "version", external_id=tenant)).values()} == {"active"}

    fifth = await memory.update_active_memory(tenant, note.id, content="Ship version 6.")

    assert fifth.write is not None
    assert fifth.write.consolidation_queued
    assert await _kinds(memory, external_id=tenant) == ["created", *["updated"] * 5], "an agent does not wait for it"
    report = await memory.admin.run_due(tenant)
    assert report.consolidated == (note.id,)
    assert await _kinds(memory, external_id=tenant) == ["created", *["updated"] * 5, "consolidated"]
    assert (await only_memory(memory, tenant)).consolidated_version == 6
    assert {text: hit.tier for text, hit in (await _hits(memory, "version", external_id=tenant)).items()} == {
        "Ship version 6.": "shortterm"
    }


@SECOND_SERVER_THOROUGHLY
async def test_the_threshold_is_configured(config: Callable[..., Config]) -> None:
    """`active_memory_update_threshold` counts updates since the last consolidation."""
    async with AgentMem(config(active_memory_update_threshold=2)) as memory:
        note = await memory.create_active_memory("agent-1", "Plan", "Ship version 1.")
        for number in range(2, 7):
            await memory.update_active_memory("agent-1", note.id, content=f"Ship version {number}.")
            await memory.admin.run_due("agent-1")

        assert await _kinds(memory) == [
            "created", "updated", "updated", "consolidated", "updated", "updated", "consolidated", "updated",
        ]  # fmt: skip


@SECOND_SERVER_THOROUGHLY
@pytest.mark.parametrize(("length", "tier"), [(2_000, "active"), (2_001, "shortterm")])
async def test_the_consolidation_of_a_long_text_is_queued_with_it(
    memory: AgentMem, tenant: str, length: int, tier: str
) -> None:
    """More than 2,000 characters need no further editing to be worth it."""
    text = ("The harbour is open. " * 100)[: length - 1] + "."

    note = await memory.create_active_memory(tenant, "Harbour", text)

    assert note.write is not None
    assert note.write.consolidation_queued == (tier == "shortterm")
    await memory.admin.run_due(tenant)
    assert {hit.tier for hit in (await _hits(memory, "harbour", external_id=tenant)).values()} == {tier}


@SECOND_SERVER_THOROUGHLY
async def test_consolidation_can_be_asked_for(memory: AgentMem, tenant: str) -> None:
    """For one memory or for all of a tenant; the report says what was done."""
    notes = [await memory.create_active_memory(tenant, f"Note {n}", f"Text {n}.\n\nMore {n}.") for n in range(3)]
    await memory.admin.archive(tenant, notes[2].id)

    (one,) = await memory.admin.consolidate(tenant, str(notes[1].id))
    reports = await memory.admin.consolidate(tenant)

    assert (one.memory_id, one.version, one.consolidated, one.chunks) == (notes[1].id, 1, True, 2)
    assert [(report.memory_id, report.consolidated, report.chunks) for report in reports] == [
        (notes[0].id, True, 2),
        (notes[1].id, False, 0),
        (notes[2].id, True, 2),
    ]
    assert await memory.admin.consolidate(f"{tenant}-2") == []
    with pytest.raises(MemoryNotFoundError):
        await memory.admin.consolidate(tenant, uuid4())
    with pytest.raises(InvalidInputError, match="memory_id must be a UUID"):
        await memory.admin.consolidate(tenant, "note-1")


@SECOND_SERVER_THOROUGHLY
async def test_a_version_is_consolidated_at_most_once(memory: AgentMem, tenant: str) -> None:
    """However often and by how many it is asked for at once."""
    note = await memory.create_active_memory(tenant, "Plan", FACT)
    await asyncio.gather(*(memory.admin.consolidate(tenant) for _ in range(8)))
    await memory.update_active_memory(tenant, note.id, content=f"{FACT}\n\nNothing more.")
    await asyncio.gather(*(memory.admin.consolidate(tenant, note.id) for _ in range(8)))

    consolidated = await memory.ledger.read(tenant, kinds=["memory.consolidated"])
    assert [event.payload["version"] for event in consolidated] == [1, 2]


@SECOND_SERVER_THOROUGHLY
async def test_a_repetition_ends_and_its_original_gains(memory: AgentMem, tenant: str) -> None:
    """Said again word for word, it is found once, at the older place, which matters more from then on."""
    first = await memory.create_active_memory(tenant, "Accounts", FACT)
    await memory.admin.consolidate(tenant)
    before = (await _hits(memory, "who owes whom", external_id=tenant))[FACT]
    second = await memory.create_active_memory(tenant, "Again", f"{FACT.upper()}\n\nAnd the rain goes on.")
    (twice, *_) = (await memory.retrieve_memories(tenant, "who owes whom")).hits
    assert len(twice.same_text) == 1

    (report,) = await memory.admin.consolidate(tenant, second.id)

    after = await _hits(memory, "who owes whom", external_id=tenant)
    assert sorted(after) == sorted(["And the rain goes on.", FACT])
    assert after[FACT].memory_id == first.id
    assert after[FACT].importance > before.importance
    assert report.duplicates == 1
    # The text itself stays whole.
    assert (await memory.get_active_memories(tenant))[1].content == second.content


async def test_a_repetition_lives_again_when_its_original_ends(memory: AgentMem, tenant: str) -> None:
    """What stands in a memory's text is found, whatever becomes of other memories."""
    first = await memory.create_active_memory(tenant, "Accounts", f"{FACT}\n\nSunny.")
    await memory.admin.consolidate(tenant)
    second = await memory.create_active_memory(tenant, "Again", FACT)
    await memory.admin.consolidate(tenant)

    await memory.update_active_memory(tenant, first.id, content="Sunny.")

    assert (await _hits(memory, "who owes whom", external_id=tenant))[FACT].memory_id == second.id


async def test_a_repetition_stays_when_its_original_ends_meanwhile(
    memory: AgentMem, server: Server, database: str
) -> None:
    """A plan made before the original ended does not end the only place where the words still stand."""
    first = await memory.create_active_memory("agent-1", "Accounts", f"{FACT}\n\nSunny.")
    await memory.admin.consolidate("agent-1")
    second = await memory.create_active_memory("agent-1", "Again", FACT)
    # The plan of the second is made before the first is done.
    await in_turn(
        server.superuser(database),
        lambda: memory.update_active_memory("agent-1", first.id, content="Sunny."),
        lambda: memory.admin.consolidate("agent-1", second.id),
    )

    assert (await _hits(memory, "who owes whom"))[FACT].memory_id == second.id


async def test_a_repetition_that_left_its_text_stays_ended(memory: AgentMem, tenant: str) -> None:
    """What stands in no memory's text any more is found no more, in whichever order it was removed."""
    first = await memory.create_active_memory(tenant, "Accounts", f"{FACT}\n\nSunny.")
    await memory.admin.consolidate(tenant)
    second = await memory.create_active_memory(tenant, "Again", f"{FACT}\n\nRainy.")
    await memory.admin.consolidate(tenant)

    await memory.update_active_memory(tenant, second.id, content="Rainy.")
    await memory.update_active_memory(tenant, first.id, content="Sunny.")

    assert sorted(await _hits(memory, f"{FACT} Rainy or sunny?", external_id=tenant)) == ["Rainy.", "Sunny."]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Ann owes Bob exactly 300 dollars since May.", "Ann owes Bob exactly 301 dollars since May."),
        ("Ann owes Bob exactly 3.5 dollars since May.", "Ann owes Bob exactly 35 dollars since May."),
        ("Ann owes Bob exactly $300 since last May.", "Ann owes Bob exactly €300 since last May."),
        ("The harbour had -5 degrees on this morning.", "The harbour had 5 degrees on this morning."),
        ("The whole harbour system is written in C.", "The whole harbour system is written in C++."),
        ("The harbour is open on this Monday morning.", "The harbour is not open on this Monday morning."),
        ("Ann owes Bob a boat and a house.", "Bob owes Ann a boat and a house."),
        ("Does Ann keep the keys of the harbour?", "Does Ann keep the keys of the harbour!"),
    ],
    ids=["number", "decimal point", "currency", "sign", "language", "negation", "order", "question"],
)
async def test_what_differs_in_one_detail_is_no_repetition(
    memory: AgentMem, tenant: str, first: str, second: str
) -> None:
    """Two statements that are close as vectors and mean different things both stay."""
    await memory.create_active_memory(tenant, "First", first)
    await memory.admin.consolidate(tenant)
    await memory.create_active_memory(tenant, "Second", second)
    await memory.admin.consolidate(tenant)

    assert sorted(await _hits(memory, "harbour dollars boat keys", external_id=tenant)) == sorted([first, second])


async def test_a_short_remark_is_no_repetition(memory: AgentMem, tenant: str) -> None:
    """“Thanks a lot!” means something each time."""
    for title in ("First", "Second"):
        await memory.create_active_memory(tenant, title, "Thanks a lot!")
        await memory.admin.consolidate(tenant)

    (hit,) = (await memory.retrieve_memories(tenant, "thanks a lot")).hits
    assert len(hit.same_text) == 1


async def test_the_same_words_of_someone_else_are_no_repetition(memory: AgentMem, tenant: str) -> None:
    """Who says something is part of what is said."""
    for speaker in ("Ann", "Bob"):
        await memory.create_active_memory(tenant, "Chat", FACT, metadata={"speaker": speaker})
        await memory.admin.consolidate(tenant)

    hits = (await memory.retrieve_memories(tenant, "who owes whom")).hits
    assert {hit.speaker for hit in hits} == {"Ann", "Bob"}


async def test_what_is_trusted_less_does_not_stand_in_for_what_is_trusted_more(memory: AgentMem, tenant: str) -> None:
    """A model's guess that a user confirms is the user's statement from then on."""
    await memory.create_active_memory(tenant, "Guess", FACT, source="model")
    await memory.admin.consolidate(tenant)
    await memory.create_active_memory(tenant, "Fact", FACT, source="user")
    await memory.admin.consolidate(tenant)

    hits = (await memory.retrieve_memories(tenant, "who owes whom")).hits
    assert "user" in {hit.source for hit in hits}


async def test_other_tenants_repetitions_are_nobodys_business(memory: AgentMem) -> None:
    """Another tenant's words end nothing here and add no importance."""
    for tenant in ("agent-1", "agent-2", "agent-3"):
        await memory.create_active_memory(tenant, "Accounts", FACT)
        await memory.admin.consolidate(tenant)

    importances = {(await _hits(memory, "who owes whom", tenant))[FACT].importance for tenant in ("agent-1", "agent-3")}
    assert len(importances) == 1


@SECOND_SERVER_THOROUGHLY
async def test_what_proved_important_becomes_longterm(config: Callable[..., Config]) -> None:
    """Specific, trusted and unchanged through five updates: longterm, with dates and confidence."""
    async with AgentMem(config()) as memory:
        note = await memory.create_active_memory("agent-1", "Accounts", lines([FACT, "rain 0"]))
        for number in range(1, 6):
            await memory.update_active_memory("agent-1", note.id, content=lines([FACT, f"rain {number}"]))
        await memory.admin.run_due("agent-1")

        hits = await _hits(memory, "who owes whom")

        assert {text: hit.tier for text, hit in hits.items()} == {FACT: "longterm", "rain 5": "shortterm"}
        promoted = hits[FACT]
        # 0.30 trust + 0.25 specificity + 0.20 stability, and nothing was said twice.
        assert promoted.importance == pytest.approx(0.75)
        assert (promoted.confidence, promoted.start_date, promoted.end_date) == (1.0, note.occurred_at, None)
        assert texts(await memory.retrieve_memories("agent-1", "who owes whom", tiers=["longterm"])) == [FACT]
        (event,) = await memory.ledger.read("agent-1", kinds=["memory.promoted"])
        assert [chunk["id"] for chunk in event.payload["chunks"]] == [str(promoted.chunk_id)]


async def test_a_longterm_chunk_ends_like_any_other(config: Callable[..., Config]) -> None:
    """Longterm is no archive of its own: a text that no longer says it has ended it."""
    async with AgentMem(config(shortterm_promotion_threshold=0.5)) as memory:
        note = await memory.create_active_memory("agent-1", "Accounts", FACT)
        (report,) = await memory.admin.consolidate("agent-1")
        assert report.promoted == 1

        await memory.update_active_memory("agent-1", note.id, content="All debts are paid.")

        assert list(await _hits(memory, f"{FACT} Are all debts paid?")) == ["All debts are paid."]


@SECOND_SERVER_THOROUGHLY
async def test_derived_events_carry_the_least_trusted_label(memory: AgentMem, tenant: str) -> None:
    """What comes from a user's and a model's words is trusted as the model's; promotion by the chunk's own label."""
    note = await memory.create_active_memory(tenant, "Accounts", lines([FACT, "A start."]), source="user")
    await memory.update_active_memory(tenant, note.id, content=lines([FACT, "A guess."]), source="model")
    await memory.admin.consolidate(tenant)
    for number in range(5):
        await memory.update_active_memory(tenant, note.id, title=f"Accounts {number}", source="tool")
    await memory.admin.run_due(tenant)

    derived = await memory.ledger.read(tenant, kinds=["memory.consolidated", "memory.promoted"])
    assert [(event.kind, event.source) for event in derived] == [
        ("memory.consolidated", "model"),
        ("memory.consolidated", "model"),
        ("memory.promoted", "user"),
    ]


NO_CONSOLIDATION = "kind <> 'memory.consolidated'"


@SECOND_SERVER_THOROUGHLY
async def test_the_write_stands_when_its_consolidation_fails(
    config: Callable[..., Config], server: Server, database: str
) -> None:
    """What follows a write cannot undo it; it stays due, and after the next update it is done."""
    async with AgentMem(config(active_memory_update_threshold=1)) as memory:
        note = await memory.create_active_memory("agent-1", "Plan", "Ship on Friday.")
        async with refusing(server.superuser(database), "memory_event", NO_CONSOLIDATION):
            updated = await memory.update_active_memory("agent-1", note.id, content="Ship on Monday.")
            report = await memory.admin.run_due("agent-1")
        assert (updated.version, updated.content) == (2, "Ship on Monday.")
        assert (report.consolidated, report.error_type) == ((), "StoreError")
        assert await _kinds(memory) == ["created", "updated"]

        await memory.update_active_memory("agent-1", note.id, content="Ship on Tuesday.")
        await memory.admin.run_due("agent-1")
        assert await _kinds(memory) == ["created", "updated", "updated", "consolidated"]


async def test_a_long_text_stays_due_when_its_consolidation_fails(
    memory: AgentMem, server: Server, database: str
) -> None:
    """What was due at the creation is due at the next update too, though no five updates have passed."""
    async with refusing(server.superuser(database), "memory_event", NO_CONSOLIDATION):
        note = await memory.create_active_memory("agent-1", "Harbour", "The harbour is open. " * 120)
        await memory.admin.run_due("agent-1")
    assert await _kinds(memory) == ["created"]

    updated = await memory.update_active_memory("agent-1", note.id, title="The harbour")
    assert updated.write is not None
    assert updated.write.consolidation_queued
    await memory.admin.run_due("agent-1")

    assert await _kinds(memory) == ["created", "updated", "consolidated"]
