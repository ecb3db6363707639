"""Texts of other zones than the question's, of earlier zones, and those that other calls write."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models.function import AgentInfo

from agent_reminiscence import AgentMem, AgentModels, Config, ImportedMemory
from agent_reminiscence.exceptions import InvalidInputError
from tests.support.fakes import SetClock
from tests.support.memorizing import concludes
from tests.support.openings import openings_of
from tests.support.scripted import ScriptedModel

_WORDS = ("lorem", "ipsum", "dolor", "sit", "amet", "elit", "sed", "tempor", "magna", "aliqua", "veniam", "nostrud")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("Pacific/Auckland", "Pacific/Auckland"),
        ("Pacific/Auckland", "UTC"),
        ("UTC", "Pacific/Auckland"),
        ("Pacific/Kiritimati", "Pacific/Pago_Pago"),
    ],
)
async def test_a_large_memory_finds_a_day_of_another_zone(
    config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch, written: str, asked: str
) -> None:
    """Only some texts of a day are read there; the many of the day before must not take their place."""
    there = ZoneInfo(asked)
    yesterday = datetime(2026, 3, 1, 12, tzinfo=there)
    randomness = random.Random(1)
    moments = [
        *(datetime(2026, 1, 1 + number % 25, 12, number % 60, tzinfo=there) for number in range(300)),
        *(yesterday - timedelta(days=1, minutes=number) for number in range(40)),
        *(yesterday + timedelta(minutes=number) for number in range(3)),
    ]
    notes = [" ".join([*randomness.choices(_WORDS, k=12), str(number)]) for number in range(len(moments))]
    async with AgentMem(config(worker=False), clock=SetClock(yesterday + timedelta(hours=21))) as memory:
        monkeypatch.setattr(openings_of(memory), "_whole_max_chunks", 1)
        await memory.admin.import_memories(
            "ana",
            [ImportedMemory("Note", text, {"n": text}, said) for text, said in zip(notes, moments, strict=True)],
            timezone=written,
        )

        found = await memory.retrieve_memories("ana", "What happened yesterday?", timezone=asked, limit=100)

    assert {hit.content for hit in found.hits} >= {*notes[-3:]}


async def test_an_ended_passage_keeps_its_heading_when_the_memory_moves(memory: AgentMem, tenant: str) -> None:
    """Also under an earlier title: asked about then, the words of the heading find it as before."""
    note = await memory.create_active_memory(
        tenant, "Garden", "The gate is green.", occurred_at=datetime(2026, 2, 10, 23, 30, tzinfo=UTC)
    )
    await memory.update_active_memory(
        tenant, note.id, title="Roof", content="It is tall.", occurred_at=datetime(2026, 2, 20, 12, tzinfo=UTC)
    )

    async def ask() -> list[tuple[str, Any]]:
        found = await memory.retrieve_memories(tenant, "Garden", as_of=datetime(2026, 2, 15, tzinfo=UTC))
        return [(hit.content, pytest.approx(hit.match, abs=0.01)) for hit in found.hits]

    before = await ask()
    assert before
    await memory.update_active_memory(tenant, note.id, timezone="Pacific/Auckland")
    assert await ask() == before

    history = await memory.admin.history(tenant, note.id)
    assert [version.timezone for version in history.versions] == ["UTC", "UTC", "Pacific/Auckland"]


async def test_a_fact_has_the_day_of_its_memorys_zone(config: Callable[..., Config]) -> None:
    """Nine in the morning of 2 March in Auckland is 1 March in UTC."""
    clock = SetClock(datetime(2026, 3, 2, 9, tzinfo=ZoneInfo("Pacific/Auckland")))
    memorizer = ScriptedModel(concludes("Ana has a green gate.", "gate")).model
    settings = config(worker=False, timezone="Pacific/Auckland")
    async with AgentMem(settings, clock=clock, models=AgentModels(memorizer=memorizer)) as memory:
        await memory.create_active_memory("ana", "Note", "My gate is green since today.")
        await memory.admin.consolidate("ana")

        async def match(day: str) -> float:
            found = await memory.retrieve_memories("ana", f"What was on {day} March 2026?", min_match=None)
            [fact] = [hit for hit in found.hits if hit.content == "Ana has a green gate."]
            return fact.match

        assert await match("2") > await match("1")
        assert (await memory.admin.verify("ana")).ok


async def test_what_was_said_with_a_model_away_is_recorded_in_its_zone(config: Callable[..., Config]) -> None:
    """The conversation that takes its place begins its days there."""

    def fails(messages: Sequence[ModelMessage], info: AgentInfo) -> ModelResponse:
        raise RuntimeError("away")

    models = AgentModels(memory_update=ScriptedModel(fails).model)
    async with AgentMem(config(worker=False), models=models) as memory:
        report = await memory.admin.remember(
            "ana",
            [{"role": "user", "content": "The gate of the old mill is green now."}],
            conversation_id="talk",
            timezone="Pacific/Auckland",
            on_failure="record",
        )
        assert report.recorded_turns == 1
        [recorded] = await memory.get_active_memories("ana")
        assert recorded.timezone == "Pacific/Auckland"
        await memory.conversation("ana", "talk").add("user", "The shed is blue.")
        assert {one.timezone for one in await memory.get_active_memories("ana")} == {"Pacific/Auckland"}


async def test_an_import_names_its_zone(memory: AgentMem, tenant: str) -> None:
    """Of chats and of texts; an unknown one is refused before anything is written."""
    said = [{"speaker": "Ana", "text": "I moved yesterday.", "timestamp": "2026-03-01T20:00:00Z"}]
    with pytest.raises(InvalidInputError, match="'Lisbon' is not a time zone"):
        await memory.admin.import_messages(tenant, said, timezone="Lisbon")
    await memory.admin.import_messages(tenant, said, timezone="Pacific/Auckland")

    [imported] = await memory.get_active_memories(tenant)

    assert imported.timezone == "Pacific/Auckland"
    found = await memory.retrieve_memories(tenant, "Who moved on 1 March 2026?", timezone="Pacific/Auckland")
    assert "2026-03-02 Monday" in found.as_prompt()
