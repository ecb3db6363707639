"""An MCP server is a toolset like any other: its tools, their groups and their errors; and its process ends in time."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastmcp.client.transports import StdioTransport
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelResponse
from pydantic_ai.toolsets import FunctionToolset

from agent_reminiscence import AgentMem
from agent_reminiscence.react import (
    AgentConfig,
    AgentRequest,
    MemoryEpisodes,
    ReactMemConfig,
    ReactMemService,
    ReactService,
    RetrieveEpisodesRequest,
)
from tests.support import mcp_mill
from tests.support.brain import Asked, Brain, act
from tests.support.processes import PATIENCE_SECONDS, is_running, wait_until_ended

type MakeServer = Callable[[], MCPToolset[Any]]
_RAIN = "It rains in Graz."


@pytest.fixture
def mill(tmp_path: Path) -> MakeServer:
    """Makes a toolset of a server of its own, which is started when the toolset is opened."""

    def make() -> MCPToolset[Any]:
        transport = StdioTransport(
            # Left to its default, it keeps the process for the next connection.
            sys.executable,
            [mcp_mill.__file__],
            keep_alive=False,
            log_file=tmp_path / "server.log",
        )
        return MCPToolset(transport, init_timeout=PATIENCE_SECONDS)

    return make


def _request(**given: Any) -> AgentRequest:
    values: dict[str, Any] = {"question": "Does it rain in Graz?", "user": "ana", "enable_memory": True}
    return AgentRequest(**values | given)


def _looks(asked: Asked) -> ModelResponse | str:
    """Looks at the weather, and says it."""
    return asked.shown.splitlines()[-1] if asked.turn else act("weather", "I will look.", place="Graz")


def _does(*calls: ModelResponse) -> Brain:
    """A model that makes these calls, one after another, in every run."""
    return Brain(lambda asked: calls[asked.turn] if asked.turn < len(calls) else "done")


def _wait_for(file: Path) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not file.exists():
        if time.monotonic() > end:
            raise TimeoutError(f"not there: {file}")
        time.sleep(0.01)


@pytest.mark.thorough
@pytest.mark.parametrize("has_memory", [False, True])
async def test_a_tool_of_a_server_is_a_step_and_leads_to_the_answer(
    mill: MakeServer, memory: AgentMem, has_memory: bool
) -> None:
    """With memory or without; in parts it is the same step."""
    brain = Brain(_looks)
    service = (
        ReactMemService(brain.model, memory, toolsets=[mill()])
        if has_memory
        else ReactService(brain.model, toolsets=[mill()])
    )
    async with service as agent:
        response = await agent.answer(_request())
        parts = [message async for message in agent.run(_request(streaming=True))]

    assert (response.answer, response.error) == (_RAIN, None)
    [step] = response.steps
    assert (step.thought, step.action, step.arguments) == ("I will look.", "weather", {"place": "Graz"})
    assert step.observation == _RAIN
    assert parts[-1].steps == response.steps
    assert [part.observation for part in parts[:-1] if not part.is_partial] == [_RAIN]


@pytest.mark.thorough
async def test_the_application_says_in_which_group_a_server_is(mill: MakeServer) -> None:
    """In `default`, unless the toolset is given metadata. What the server says of itself opens no door."""
    own: FunctionToolset[Any] = FunctionToolset()

    @own.tool_plain
    def ring() -> str:
        """Ring the bell."""
        return "rung"

    brain = Brain(lambda _: "done")
    of_server = {"weather", "grind", "ledger", "process", "wait", "burn_down"}
    async with ReactService(brain.model, toolsets=[own, mill()]) as agent:
        for group in ("default", "office"):
            await agent.answer(_request(group=[group]))
    async with ReactService(brain.model, toolsets=[own, mill().with_metadata(group=["office", "night"])]) as agent:
        for groups in (["default"], ["office"], ["night", "default"], ["*"], ["nobody"]):
            await agent.answer(_request(group=groups))

    assert [set(asked.tools) for asked in brain.asked] == [
        {"ring"} | of_server,
        set(),
        {"ring"},
        of_server,
        {"ring"} | of_server,
        {"ring"} | of_server,
        set(),
    ]


@pytest.mark.thorough
async def test_an_error_of_the_server_is_an_observation_however_often_it_comes(mill: MakeServer) -> None:
    """The model reads the server's own words each time, and can do something else in the end."""
    grains = ["rye", "oats", "spelt", "barley", "wheat"]
    brain = _does(*(act("grind", grain=grain) for grain in grains), act("weather", place="Graz"))
    async with ReactService(brain.model, toolsets=[mill()], config=AgentConfig(max_iterations=20)) as agent:
        response = await agent.answer(_request())

    assert (response.answer, response.error) == ("done", None)
    *failed, last = response.steps
    assert len(failed) == len(grains)
    for grain, step in zip(grains, failed, strict=True):
        assert f"There is no {grain}." in step.observation
        assert f"There is no {grain}." in brain.asked[-1].shown
        assert "UnexpectedModelBehavior" not in step.observation
    assert last.observation == _RAIN


@pytest.mark.thorough
async def test_arguments_that_the_server_refuses_are_an_observation(mill: MakeServer) -> None:
    """It is the server that knows which arguments its tools take."""
    brain = _does(act("weather", town="Graz"), act("weather", place="Graz"))
    async with ReactService(brain.model, toolsets=[mill()]) as agent:
        response = await agent.answer(_request())

    assert (response.answer, response.error) == ("done", None)
    assert "place" in response.steps[0].observation
    assert response.steps[1].observation == _RAIN


@pytest.mark.thorough
@pytest.mark.parametrize("has_memory", [False, True])
async def test_a_server_serves_all_requests_and_ends_with_the_service(
    mill: MakeServer, memory: AgentMem, has_memory: bool
) -> None:
    """One process from the beginning to `close()`."""
    brain = _does(act("process"))
    service = (
        ReactMemService(brain.model, memory, toolsets=[mill()])
        if has_memory
        else ReactService(brain.model, toolsets=[mill()])
    )
    async with service as agent:
        answers = [await agent.answer(_request()) for _ in range(3)]
        [process] = {int(answer.steps[0].observation) for answer in answers}
        assert is_running(process)

    await asyncio.to_thread(wait_until_ended, [process])


@pytest.mark.thorough
async def test_a_service_that_is_not_opened_starts_a_server_for_each_request(mill: MakeServer) -> None:
    """Nothing is left behind by one that nobody closes."""
    agent = ReactService(_does(act("process")).model, toolsets=[mill()])

    answers = [await agent.answer(_request()) for _ in range(2)]

    processes = {int(answer.steps[0].observation) for answer in answers}
    assert len(processes) == 2
    await asyncio.to_thread(wait_until_ended, processes)


@pytest.mark.thorough
async def test_a_server_that_dies_costs_its_tools_and_not_the_answer(mill: MakeServer) -> None:
    """What it was to do is an observation, and opening the service again starts it again."""
    toolset = mill()
    looks = act("weather", place="Graz")
    brain = _does(looks, act("burn_down"), looks)
    async with ReactService(brain.model, toolsets=[toolset]) as agent:
        response = await agent.answer(_request())
    async with ReactService(Brain(_looks).model, toolsets=[toolset]) as agent:
        after = await agent.answer(_request())

    assert (response.answer, response.error) == ("done", None)
    seen, died, refused = (step.observation for step in response.steps)
    assert seen == _RAIN
    assert _RAIN not in died + refused
    assert after.answer == _RAIN


@pytest.mark.thorough
async def test_a_client_that_hangs_up_leaves_the_server_to_the_next(mill: MakeServer, tmp_path: Path) -> None:
    """While a tool of the server is at work."""
    began = tmp_path / "began"
    brain = Brain(
        lambda asked: (
            (act("wait", file=str(began)) if "Wait" in asked.prompt else act("process")) if not asked.turn else "done"
        )
    )
    async with ReactService(brain.model, toolsets=[mill()]) as agent:
        before = await agent.answer(_request())
        waiting = asyncio.create_task(agent.answer(_request(question="Wait for me.")))
        await asyncio.to_thread(_wait_for, began)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        after = await agent.answer(_request())

    assert after.error is None
    assert after.steps == before.steps


async def test_a_server_that_cannot_be_started_is_a_failure_of_the_request() -> None:
    """Of a service that is not opened; opening one says it at once, with the cause."""
    toolset = MCPToolset(StdioTransport("/no/such/program", [], keep_alive=False))
    agent = ReactService(Brain(_looks).model, toolsets=[toolset])

    response = await agent.answer(_request())

    assert response.error is not None
    assert response.error.reason == "model_failed"
    with pytest.raises(RuntimeError, match="no/such/program"):
        async with agent:
            pass


@pytest.mark.thorough
async def test_an_episode_has_the_steps_that_a_server_took(mill: MakeServer, memory: AgentMem) -> None:
    """Arguments and observation; the conversation says which tool was used, and the next run is shown both."""
    brain = Brain(
        _looks,
        learn=lambda _: {"success": True, "outcome": "It rains.", "lessons": ["Ask the mill for the weather."]},
    )
    config = ReactMemConfig(episode_min_steps=1, show_retrieval=True)
    async with ReactMemService(brain.model, memory, toolsets=[mill()], config=config) as agent:
        await agent.answer(_request(conversation_id="c-1"))
        await agent.drain()
        second = await agent.answer(_request(conversation_id="c-1"))
    found = await MemoryEpisodes(memory).retrieve_episodes(RetrieveEpisodesRequest(user="ana", query="rain in Graz"))

    first, *_ = sorted(found.episodes, key=lambda episode: episode.timestamp)
    [step] = first.steps
    assert (step.action, step.arguments, step.observation) == ("weather", {"place": "Graz"}, _RAIN)
    assert (first.success, first.lessons) == (True, ("Ask the mill for the weather.",))
    assert second.memory is not None
    assert [one.steps for one in second.memory.episodes] == [first.steps]
    assert "agent did: used weather; result was: It rains in Graz." in brain.asked[-1].prompt
    assert _RAIN in brain.transcripts[0]
