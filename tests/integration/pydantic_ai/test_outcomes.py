"""`learn=True`: what was recalled in a run is scored by how the run ended."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agent_reminiscence import AgentMem, RunNotFoundError
from agent_reminiscence.exceptions import ConfigurationError, OutcomeConflictError
from agent_reminiscence.integrations.pydantic_ai import Reminiscence

_PATIENCE_SECONDS = 60
_QUESTION = "How do I open the lock gate?"


def answers(text: str) -> FunctionModel:
    """A model that says one thing."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse([TextPart(text)])

    return FunctionModel(answer)


async def outcomes(memory: AgentMem) -> list[bool]:
    """What was reported, in order."""
    return [event.payload["success"] for event in await memory.ledger.read("ana", kinds=["memory.outcome"])]


@pytest.fixture
async def lessons(memory: AgentMem) -> AgentMem:
    """A memory with one lesson."""
    await memory.create_active_memory("ana", "Lessons", "To open the lock gate, turn the wheel to the left.")
    return memory


async def test_a_run_that_completes_speaks_for_what_was_recalled(lessons: AgentMem) -> None:
    """The lesson carries the success of the run."""
    agent = Agent(answers("Left."), capabilities=[Reminiscence(lessons, external_id="ana", learn=True)])

    await agent.run(_QUESTION)

    assert await outcomes(lessons) == [True]
    hits = (await lessons.retrieve_memories("ana", _QUESTION)).hits
    assert [hit.successes for hit in hits if "wheel" in hit.content] == [1]


async def test_a_run_says_nothing_of_what_it_was_not_shown(bundled_memory: AgentMem) -> None:
    """A weak match is withheld, and gets no credit."""
    memory = bundled_memory
    await memory.create_active_memory("ana", "Lessons", "To open the lock gate, turn the wheel to the left.")
    agent = Agent(answers("France."), capabilities=[Reminiscence(memory, external_id="ana", learn=True)])

    await agent.run("Who won the 1998 world cup?")

    hits = (await memory.retrieve_memories("ana", _QUESTION)).hits
    assert [hit.successes for hit in hits if "wheel" in hit.content] == [0]


async def test_a_run_that_fails_speaks_against_it(lessons: AgentMem) -> None:
    """Also if it is not recorded otherwise."""

    def fail(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        raise RuntimeError("stuck")

    agent = Agent(
        FunctionModel(fail), capabilities=[Reminiscence(lessons, external_id="ana", learn=True, remember="never")]
    )

    with pytest.raises(RuntimeError):
        await agent.run(_QUESTION)

    assert await outcomes(lessons) == [False]
    [hit] = (await lessons.retrieve_memories("ana", _QUESTION)).hits
    assert (hit.successes, hit.failures) == (0, 1)


async def test_a_run_that_was_cancelled_says_nothing(lessons: AgentMem) -> None:
    """Somebody changed their mind, or a deadline passed."""
    is_asked = asyncio.Event()

    async def hang(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        is_asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    agent = Agent(FunctionModel(hang), capabilities=[Reminiscence(lessons, external_id="ana", learn=True)])
    task = asyncio.create_task(agent.run(_QUESTION))
    async with asyncio.timeout(_PATIENCE_SECONDS):
        await is_asked.wait()
        task.cancel()
        await asyncio.wait([task])

    assert await outcomes(lessons) == []


async def test_a_run_that_pauses_says_nothing_yet(lessons: AgentMem) -> None:
    """Nobody knows how it will end, and a judge of results is not asked."""

    def ask(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse([ToolCallPart("turn", {})])

    agent = Agent(
        FunctionModel(ask),
        output_type=[str, DeferredToolRequests],
        capabilities=[
            Reminiscence(lessons, external_id="ana", learn=True, outcome=lambda result: "x" in result.output)
        ],
    )

    @agent.tool_plain(requires_approval=True)
    def turn() -> str:
        return "turned"

    assert isinstance((await agent.run(_QUESTION)).output, DeferredToolRequests)
    assert await outcomes(lessons) == []


@pytest.mark.parametrize(("verdict", "reported"), [(True, [True]), (False, [False]), (None, [])])
async def test_an_application_can_say_what_a_success_is(
    lessons: AgentMem, verdict: bool | None, reported: list[bool]
) -> None:
    """A run that completed may have failed nevertheless; None leaves it open."""
    judged: list[Any] = []

    def judge(result: Any) -> bool | None:
        judged.append(result.output)
        return verdict

    capability = Reminiscence(lessons, external_id="ana", learn=True, outcome=judge)

    await Agent(answers("Left."), capabilities=[capability]).run(_QUESTION)

    assert judged == ["Left."]
    assert await outcomes(lessons) == reported


def _mistaken(result: Any) -> bool:
    raise KeyError("sorry")


@pytest.mark.parametrize("judge", [_mistaken, lambda result: result.output])
async def test_a_judge_with_a_mistake_costs_nothing_but_the_verdict(
    lessons: AgentMem, judge: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """One that raises, or returns something else: the run is recorded, has its result, and the log says what is not."""
    capability = Reminiscence(lessons, external_id="ana", learn=True, outcome=judge)

    result = await Agent(answers("Left."), capabilities=[capability]).run(_QUESTION, conversation_id="chat")

    assert result.output == "Left."
    assert [turn.text for turn in await lessons.conversation("ana", "chat").turns()] == [_QUESTION, "Left."]
    assert await outcomes(lessons) == []
    assert "the outcome of run" in caplog.text
    assert "is not recorded" not in caplog.text


async def test_a_judge_with_a_mistake_can_stop_the_run(lessons: AgentMem) -> None:
    """With `on_error="raise"`, after its record."""
    capability = Reminiscence(lessons, external_id="ana", learn=True, outcome=_mistaken, on_error="raise")

    with pytest.raises(KeyError):
        await Agent(answers("Left."), capabilities=[capability]).run(_QUESTION, conversation_id="chat")

    assert len(await lessons.conversation("ana", "chat").turns()) == 2


async def test_an_outcome_can_be_reported_later(lessons: AgentMem) -> None:
    """Of a run that was left open, by its id."""
    capability = Reminiscence(lessons, external_id="ana", learn=True, outcome=lambda result: None)
    result = await Agent(answers("Left."), capabilities=[capability]).run(_QUESTION)

    await lessons.admin.report_outcome("ana", result.run_id, success=False, note="the gate stayed shut")

    assert await outcomes(lessons) == [False]


async def test_a_run_that_recalled_nothing_reports_nothing(memory: AgentMem) -> None:
    """There is nothing to score."""
    agent = Agent(
        answers("Left."), capabilities=[Reminiscence(memory, external_id="ana", learn=True, remember="never")]
    )

    await agent.run(_QUESTION)

    assert await memory.ledger.head("ana") == 0


async def test_without_learning_no_run_is_noted(lessons: AgentMem) -> None:
    """Neither what was recalled nor how it ended."""
    result = await Agent(answers("Left."), capabilities=[Reminiscence(lessons, external_id="ana")]).run(_QUESTION)

    with pytest.raises(RunNotFoundError):
        await lessons.admin.report_outcome("ana", result.run_id, success=True)


async def test_an_outcome_that_was_reported_otherwise_already_stays(lessons: AgentMem) -> None:
    """By the application, from within the run; with `on_error="raise"` the run says so."""
    agent = Agent(
        answers("Left."),
        deps_type=AgentMem,
        capabilities=[Reminiscence(lessons, external_id="ana", learn=True, on_error="raise")],
    )

    @agent.output_validator
    async def report(ctx: Any, output: str) -> str:
        await lessons.admin.report_outcome("ana", ctx.run_id, success=False)
        return output

    with pytest.raises(OutcomeConflictError):
        await agent.run(_QUESTION, deps=lessons)

    assert await outcomes(lessons) == [False]
    # What was said is recorded all the same.
    assert "user: How do I open" in (await lessons.retrieve_memories("ana", "lock gate")).as_prompt()


async def test_a_lesson_that_led_astray_falls_behind(memory: AgentMem) -> None:
    """Two lessons fit alike, and the one that comes first is wrong: after some runs the other one is first."""
    for side in ("left", "right"):
        await memory.create_active_memory("ana", "Lessons", f"To open the lock gate, turn the wheel to the {side}.")
    wrong, right = [hit.content.split()[-1][:-1] for hit in (await memory.retrieve_memories("ana", _QUESTION)).hits]

    def follow(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        block = str(messages)
        first = min(("left", "right"), key=lambda side: _place(block, side))
        return ModelResponse([TextPart(first)])

    capability = Reminiscence(
        memory,
        external_id="ana",
        token_budget=60,
        remember="never",
        learn=True,
        outcome=lambda result: bool(result.output == right),
    )
    agent = Agent(FunctionModel(follow), capabilities=[capability])

    followed = [(await agent.run(_QUESTION)).output for _ in range(8)]

    assert (followed[0], followed[-1]) == (wrong, right)
    best = (await memory.retrieve_memories("ana", _QUESTION)).hits[0]
    assert best.content.endswith(f"{right}.")


def _place(block: str, side: str) -> int:
    """The rank of a lesson in the block; large if it is not there."""
    rank, found, _ = block.partition(f"] To open the lock gate, turn the wheel to the {side}.")
    return int(rank.rpartition("[")[2]) if found else 99


def test_a_judge_without_learning_is_refused() -> None:
    """It would never be asked."""
    with pytest.raises(ConfigurationError, match="only with learn=True"):
        Reminiscence(AgentMem(), external_id="ana", outcome=lambda result: True)
