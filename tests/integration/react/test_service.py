"""The stateless agent: it reasons, acts and observes until it has an answer, whatever its tools and its model do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError
from pydantic_ai import RunContext
from pydantic_ai.exceptions import ModelHTTPError, ModelRetry
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import Model
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.toolsets import FunctionToolset

from agent_reminiscence.react import AgentConfig, AgentRequest, AgentService, ReactService, RunDeps
from tests.support.brain import Asked, Brain, act


def _tools() -> FunctionToolset[Any]:
    tools: FunctionToolset[Any] = FunctionToolset()

    @tools.tool_plain
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @tools.tool_plain(metadata={"group": ["office", "home"]})
    def open_door() -> str:
        """Open the door."""
        return "open"

    @tools.tool_plain
    def fail() -> str:
        """Fail."""
        raise LookupError("there is no such row")

    @tools.tool
    def who(ctx: RunContext[RunDeps[str]]) -> str:
        """Say whose run this is."""
        return f"{ctx.deps.user}/{ctx.deps.collection}/{ctx.deps.conversation_id}/{ctx.deps.deps}"

    return tools


def _adds(asked: Asked) -> ModelResponse | str:
    return act("add", f"thought {asked.turn}", a=1, b=asked.turn) if asked.turn < 2 else "three"


def _request(**given: Any) -> AgentRequest:
    return AgentRequest(**{"question": "What is it?", "user": "ana"} | given)


async def test_it_answers_after_the_steps_it_needs() -> None:
    """Steps and usage come with the answer."""
    service: AgentService = ReactService(Brain(_adds).model, toolsets=[_tools()])

    response = await service.answer(_request())

    assert (response.answer, response.error, response.is_final) == ("three", None, True)
    assert [(step.thought, step.action, step.arguments, step.observation) for step in response.steps] == [
        ("thought 0", "add", {"a": 1, "b": 0}, "1"),
        ("thought 1", "add", {"a": 1, "b": 1}, "2"),
    ]
    assert response.usage is not None
    assert (response.usage.requests, response.usage.tool_calls) == (3, 2)


async def test_without_streaming_there_is_one_message_and_with_it_parts_come_first() -> None:
    """The final message is the same in both."""
    service = ReactService(Brain(_adds).model, toolsets=[_tools()])

    whole = [message async for message in service.run(_request())]
    parts = [message async for message in service.run(_request(streaming=True))]

    assert len(whole) == 1
    assert parts[-1].model_copy(update={"invocation_id": "", "usage": None}) == whole[0].model_copy(
        update={"invocation_id": "", "usage": None}
    )
    assert [message.is_final for message in parts] == [False] * (len(parts) - 1) + [True]
    thought = "".join(message.thought for message in parts[:-1] if message.is_partial)
    assert thought == "thought 0thought 1three"
    steps = [message for message in parts[:-1] if not message.is_partial]
    assert [(step.thought, step.observation) for step in steps] == [("thought 0", "1"), ("thought 1", "2")]
    assert len({message.invocation_id for message in parts}) == 1


@pytest.mark.parametrize("wrapped", [lambda model: model, WrapperModel, lambda model: FallbackModel(model, model)])
async def test_a_model_that_cannot_stream_sends_each_thought_as_one_piece(
    wrapped: Callable[[FunctionModel], Model],
) -> None:
    """Any model can serve any request."""
    model = wrapped(FunctionModel(Brain(_adds)._answer))
    parts = [part async for part in ReactService(model, toolsets=[_tools()]).run(_request(streaming=True))]

    assert parts[-1].answer == "three"
    assert [part.thought for part in parts if part.is_partial] == ["thought 0", "thought 1", "three"]
    assert [part.observation for part in parts[:-1] if not part.is_partial] == ["1", "2"]


async def test_several_calls_of_one_response_are_steps_of_one_thought() -> None:
    """Each call is a step; the thought is the first one's."""

    def reason(asked: Asked) -> ModelResponse | str:
        if asked.turn:
            return "done"
        calls = [ToolCallPart("add", {"a": number, "b": 1}) for number in range(3)]
        return ModelResponse(parts=[TextPart("all at once"), *calls])

    response = await ReactService(Brain(reason).model, toolsets=[_tools()]).answer(_request())

    assert [(step.thought, step.observation) for step in response.steps] == [
        ("all at once", "1"),
        ("", "2"),
        ("", "3"),
    ]


async def test_steps_already_taken_are_not_taken_again() -> None:
    """A client goes on after an iteration limit by sending back the steps."""
    brain = Brain(_adds)
    first = await ReactService(brain.model, toolsets=[_tools()], config=AgentConfig(max_iterations=1)).answer(
        _request()
    )
    assert first.error is not None
    assert first.error.reason == "iteration_limit"
    assert len(first.steps) == 1

    second = await ReactService(brain.model, toolsets=[_tools()]).answer(_request(history=first.steps))

    assert second.answer == "three"
    assert [step.observation for step in second.steps] == ["2"]


async def test_a_tool_that_fails_is_an_observation() -> None:
    """The model can do something else."""
    brain = Brain(lambda asked: act("fail") if not asked.turn else asked.shown.splitlines()[-1])

    response = await ReactService(brain.model, toolsets=[_tools()]).answer(_request())

    assert response.error is None
    assert response.answer == "fail failed: LookupError: there is no such row"


async def test_a_tool_that_asks_for_another_try_is_an_observation_also_once_too_often() -> None:
    """What it says of the arguments helps the model more than that it has said so before."""
    tools: FunctionToolset[Any] = FunctionToolset()

    @tools.tool_plain
    def find(name: str) -> str:
        """Find somebody."""
        raise ModelRetry(f"nobody is called {name}")

    names = ["Ana", "Bo", "Cy", "Di", "Ed"]
    brain = Brain(lambda asked: act("find", name=names[asked.turn]) if asked.turn < len(names) else "done")

    response = await ReactService(brain.model, toolsets=[tools]).answer(_request())

    assert (response.answer, response.error) == ("done", None)
    assert len(response.steps) == len(names)
    for name, step in zip(names, response.steps, strict=True):
        assert f"nobody is called {name}" in step.observation


async def test_a_model_that_repeats_itself_is_told_so_and_the_tool_is_left_alone() -> None:
    """Side effects do not pile up while a model goes in circles."""
    called = 0
    tools: FunctionToolset[Any] = FunctionToolset()

    @tools.tool_plain
    def look() -> str:
        """Look."""
        nonlocal called
        called += 1
        return "nothing"

    brain = Brain(lambda _: act("look"))
    service = ReactService(brain.model, toolsets=[tools], config=AgentConfig(max_iterations=8, max_repeats=2))

    response = await service.answer(_request())

    assert response.error is not None
    assert response.error.reason == "iteration_limit"
    assert called == 2
    assert [step.observation for step in response.steps[:2]] == ["nothing", "nothing"]
    assert all(step.observation.startswith("look was not called") for step in response.steps[2:])
    assert len(response.steps) == 8


async def test_the_limit_of_iterations_is_exact() -> None:
    """It counts requests to the model; the message names the setting."""
    brain = Brain(lambda asked: act("add", a=asked.turn, b=0))

    response = await ReactService(brain.model, toolsets=[_tools()], config=AgentConfig(max_iterations=5)).answer(
        _request()
    )

    assert len(brain.asked) == 5
    assert response.error is not None
    assert "max_iterations" in response.error.message


async def test_only_tools_of_the_groups_asked_for_can_be_used() -> None:
    """A tool without a group is in the group `default`."""
    brain = Brain(lambda _: "done")
    service = ReactService(brain.model, toolsets=[_tools()])

    for group in (("default",), ("office",), ("home", "default"), ("*",), ("nobody",)):
        await service.answer(_request(group=group))

    of_default, all_tools = {"add", "fail", "who"}, {"add", "fail", "who", "open_door"}
    assert [set(asked.tools) for asked in brain.asked] == [of_default, {"open_door"}, all_tools, all_tools, set()]


async def test_a_tool_learns_whose_run_it_is_from_its_run() -> None:
    """It is no argument that a model could choose."""
    brain = Brain(lambda asked: act("who") if not asked.turn else asked.shown.splitlines()[-1])
    service = ReactService(brain.model, toolsets=[_tools()], deps="the application's")

    response = await service.answer(_request(collection="work", conversation_id="c-1"))

    assert response.answer == "ana/work/c-1/the application's"


async def test_the_state_and_the_context_reach_the_model() -> None:
    """The context as instructions, the state beside the question."""
    brain = Brain(lambda _: "done")
    config = AgentConfig(persona="You are a gardener.", additional_context="It is winter.")

    await ReactService(brain.model, config=config).answer(_request(state="The beds are empty."))

    [asked] = brain.asked
    assert asked.instructions == "You are a gardener.\n\nIt is winter."
    assert "The beds are empty." in asked.prompt
    assert "What is it?" in asked.prompt


async def test_a_model_that_fails_is_a_value_without_its_words() -> None:
    """A provider's error may quote the prompt; its status is safe to tell."""

    def reason(_: Asked) -> str:
        raise ModelHTTPError(500, "brain", {"prompt": "What is it?"})

    response = await ReactService(Brain(reason).model).answer(_request())

    assert response.error is not None
    assert response.error.reason == "model_failed"
    assert "status 500" in response.error.message
    assert "What is it?" not in response.error.message


async def test_a_timeout_is_a_value_and_the_steps_taken_are_kept() -> None:
    """A client can go on from them."""
    tools: FunctionToolset[Any] = FunctionToolset()
    is_waiting = asyncio.Event()

    @tools.tool_plain
    async def wait() -> str:
        """Wait for ever."""
        is_waiting.set()
        await asyncio.Event().wait()
        return "never"

    @tools.tool_plain
    def look() -> str:
        """Look."""
        return "seen"

    brain = Brain(lambda asked: act("wait") if asked.turn else act("look"))
    service = ReactService(brain.model, toolsets=[tools], config=AgentConfig(timeout_seconds=3))

    response = await service.answer(_request())

    assert is_waiting.is_set()
    assert response.error is not None
    assert response.error.reason == "timeout"
    assert [step.observation for step in response.steps] == ["seen"]


async def test_whoever_stops_listening_ends_the_invocation() -> None:
    """Nothing goes on for nobody."""
    tools: FunctionToolset[Any] = FunctionToolset()
    ended = asyncio.Event()
    begun = asyncio.Event()

    @tools.tool_plain
    async def wait() -> str:
        """Wait for ever."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    service = ReactService(Brain(lambda _: act("wait", "let me wait")).model, toolsets=[tools])
    messages = service.run(_request(streaming=True))
    assert (await anext(messages)).thought == "let "
    await begun.wait()

    await messages.aclose()

    assert ended.is_set()


async def test_a_caller_that_is_cancelled_takes_the_run_along() -> None:
    """Its tools are cancelled, too."""
    tools: FunctionToolset[Any] = FunctionToolset()
    begun, ended = asyncio.Event(), asyncio.Event()

    @tools.tool_plain
    async def wait() -> str:
        """Wait for ever."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    service = ReactService(Brain(lambda _: act("wait")).model, toolsets=[tools])
    answer = asyncio.create_task(service.answer(_request()))
    await begun.wait()
    answer.cancel()

    with pytest.raises(asyncio.CancelledError):
        await answer
    assert ended.is_set()


async def test_invocations_at_the_same_time_do_not_meet() -> None:
    """Repetitions are counted for each run, and steps are its own."""

    def reason(asked: Asked) -> ModelResponse | str:
        number = int(asked.prompt.split()[-1])
        return act("add", a=number, b=0) if asked.turn < 3 else f"{number}"

    service = ReactService(Brain(reason).model, toolsets=[_tools()], config=AgentConfig(max_repeats=3))

    answers = await asyncio.gather(*(service.answer(_request(question=f"number {n}")) for n in range(10)))

    assert [answer.answer for answer in answers] == [str(n) for n in range(10)]
    assert all(step.observation == answer.answer for answer in answers for step in answer.steps)


@pytest.mark.parametrize(
    "given",
    [
        {"question": ""},
        {"user": ""},
        {"user": "x" * 300},
        {"collection": ""},
        {"question": "x" * 20_001},
        {"unknown": 1},
    ],
)
def test_a_request_that_makes_no_sense_is_refused(given: dict[str, Any]) -> None:
    """Before anything is asked; the field is named."""
    with pytest.raises(ValidationError, match=next(iter(given))):
        _request(**given)
