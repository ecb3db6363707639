"""What standing summaries cost: no text is paid for twice, and one that a model cannot write not again and again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agent_reminiscence import AgentMem, AgentModels, Config
from agent_reminiscence.agents.memory_retriever import cited_numbers
from agent_reminiscence.agents.profile_writer import profile_agent
from agent_reminiscence.exceptions import AgentError
from agent_reminiscence.services.tiers.reading_turns import ReadingTurns
from tests.support.fakes import SetClock
from tests.support.scripted import ScriptedModel, Step, answer
from tests.support.steps import all_events

MakeConfig = Callable[..., Config]

_WHO = "Who is Robin, and what matters to her?"
_NOW = datetime(2026, 5, 8, 9, tzinfo=UTC)
_BOAT = "Robin: I own a red sailing boat called Heron, and I moor it in the old harbour."
_GOOD = answer({"answer": "Robin owns Heron [1].", "is_known": True})
# Cites nothing, whatever it is told.
_BAD = answer({"answer": "Robin is certainly rich.", "is_known": True})


@asynccontextmanager
async def _memory(config: MakeConfig, clock: SetClock, *steps: Step) -> AsyncIterator[tuple[AgentMem, ScriptedModel]]:
    model = ScriptedModel(*steps)
    async with AgentMem(config(), models=AgentModels(memory_retrieve=model.model), clock=clock) as memory:
        yield memory, model
        assert (await memory.admin.verify()).ok


def _both_want_a_turn(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Is set when a second call waits for its turn at the model."""
    hold = ReadingTurns.hold
    wanting: list[str] = []
    both = asyncio.Event()

    def counted(turns: ReadingTurns, external_id: str) -> AbstractAsyncContextManager[None]:
        wanting.append(external_id)
        if len(wanting) == 2:
            both.set()
        return hold(turns, external_id)

    monkeypatch.setattr(ReadingTurns, "hold", counted)
    return both


async def _tell(memory: AgentMem, title: str = "Boats") -> UUID:
    return (await memory.create_active_memory("agent-1", title, _BOAT, occurred_at=_NOW - timedelta(days=7))).id


async def test_a_model_that_was_paid_in_vain_is_asked_again_after_an_hour(config: MakeConfig) -> None:
    """Whatever makes work meanwhile, in whichever process; the ledger says when it failed, and of which profile."""
    clock = SetClock(_NOW)
    async with _memory(config, clock, *[_BAD] * 3, _GOOD) as (memory, model):
        await _tell(memory)
        definition = await memory.admin.profiles.define("agent-1", "robin", _WHO)
        failed = await memory.admin.run_due("agent-1")
        asked = len(model.asked)
        assert failed.error_type == "AgentFailedError"

        await _tell(memory, "Again")
        clock.now = _NOW + timedelta(minutes=59)
        await memory.admin.run_due("agent-1")

        assert len(model.asked) == asked == 3
        # The work of the stream is due when the hour is over.
        assert await memory._ready().services.refresher.next_due_at("agent-1") == _NOW + timedelta(hours=1)
        clock.now = _NOW + timedelta(hours=1)
        assert (await memory.admin.run_due("agent-1")).profiles == ("robin",)
        assert len(model.asked) == asked + 1
        [event] = [one for one in await all_events(memory, "agent-1") if one.kind == "memory.model_asked"]
        assert (event.payload["profile"], event.payload["outcome"]) == (definition.definition, "invalid")


async def test_a_new_question_does_not_wait_for_the_failure_of_the_former_one(config: MakeConfig) -> None:
    """It may be one that the model can answer."""
    async with _memory(config, SetClock(_NOW), *[_BAD] * 3, _GOOD) as (memory, _):
        await _tell(memory)
        await memory.admin.profiles.define("agent-1", "robin", _WHO)
        await memory.admin.run_due("agent-1")

        await memory.admin.profiles.define("agent-1", "robin", "What does Robin own?")

        assert (await memory.admin.run_due("agent-1")).profiles == ("robin",)


async def test_two_who_refresh_at_once_pay_for_one_text(config: MakeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes second waits, and gets the text of the first."""
    script = ScriptedModel(_GOOD)
    both = _both_want_a_turn(monkeypatch)

    async def think(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        # Without this, the first text could be there before the second call begins, which would want a newer one.
        await both.wait()
        return await script._answer(messages, info)

    models = AgentModels(memory_retrieve=FunctionModel(think, model_name="slow"))
    async with AgentMem(config(), models=models, clock=SetClock(_NOW)) as memory:
        await _tell(memory)
        await memory.admin.profiles.define("agent-1", "robin", _WHO)

        first, second = await asyncio.gather(
            memory.admin.profiles.refresh("agent-1", "robin"), memory.admin.profiles.refresh("agent-1", "robin")
        )

        assert (len(script.asked), first.text) == (1, second.text)
        # Not an old text: who asks later gets a new one.
        await memory.admin.profiles.refresh("agent-1", "robin")
        assert len(script.asked) == 2
        assert (await memory.admin.verify()).ok


@pytest.mark.parametrize("changes", [False, True])
async def test_a_second_text_is_paid_for_only_if_memory_says_something_new(
    config: MakeConfig, monkeypatch: pytest.MonkeyPatch, changes: bool
) -> None:
    """The ledger also grows by what no text could say: a promotion, a user's event, a model's cost."""
    script = ScriptedModel(_GOOD)
    both = _both_want_a_turn(monkeypatch)
    thinking, answering = asyncio.Event(), asyncio.Event()

    async def think(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        thinking.set()
        await answering.wait()
        return await script._answer(messages, info)

    models = AgentModels(memory_retrieve=FunctionModel(think, model_name="slow"))
    async with AgentMem(config(worker=False), models=models, clock=SetClock(_NOW)) as memory:
        await _tell(memory)
        await memory.admin.profiles.define("agent-1", "robin", _WHO)
        first = asyncio.create_task(memory.admin.profiles.refresh("agent-1", "robin"))
        await thinking.wait()
        if changes:
            await _tell(memory, "More boats")
        else:
            await memory.ledger.append("agent-1", "agent.thought", {"text": "Hm."})

        second = asyncio.create_task(memory.admin.profiles.refresh("agent-1", "robin"))
        # By then it has read where the ledger ends.
        await both.wait()
        answering.set()
        await asyncio.gather(first, second)

        assert len(script.asked) == (2 if changes else 1)


@pytest.mark.thorough
async def test_attempts_that_are_overtaken_share_the_tokens_of_one_text(config: MakeConfig) -> None:
    """Something is erased during each of them: the last one is not begun, and the ledger has the cost of the others."""
    long = answer({"answer": f"Robin owns Heron{' and Heron' * 700} [1].", "is_known": True})
    script = ScriptedModel(long)
    opened: list[AgentMem] = []
    notes: list[UUID] = []

    async def think(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        await opened[0].admin.erase("agent-1", memory_id=notes.pop())
        return await script._answer(messages, info)

    models = AgentModels(memory_retrieve=FunctionModel(think, model_name="slow"))
    async with AgentMem(config(), models=models, clock=SetClock(_NOW)) as memory:
        opened.append(memory)
        notes += [await _tell(memory, f"Boat {number}") for number in range(10)]
        await memory.admin.profiles.define("agent-1", "robin", _WHO, refresh_tokens=5_000, max_tokens=4_000)

        with pytest.raises(AgentError, match="refresh_tokens are used up; refresh again"):
            await memory.admin.profiles.refresh("agent-1", "robin")

        usage = await memory.admin.usage("agent-1")
        spent = sum(one.input_tokens + one.output_tokens for one in usage.models)
        assert len(script.asked) > 1
        assert spent <= 5_000


async def test_the_examples_of_the_instructions_cannot_be_cited(config: MakeConfig) -> None:
    """A model that repeats them is told that no passage has their numbers."""
    echo = answer({"answer": "Lea has a daughter, Ida, who loves trams [9003].", "is_known": True})
    async with _memory(config, SetClock(_NOW), echo, _GOOD) as (memory, model):
        await _tell(memory)
        await memory.admin.profiles.define("agent-1", "robin", _WHO)

        profile = await memory.admin.profiles.refresh("agent-1", "robin")

        assert profile.text == "Robin owns Heron."
        assert "no passage has the number 9003" in model.shown
    instructions = "\n".join(str(one) for one in profile_agent()._instructions)
    assert set(cited_numbers(instructions)) == {9001, 9002, 9003}
