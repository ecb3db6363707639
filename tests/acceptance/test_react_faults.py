"""An agent answers while its memory is away, says so, and writes nothing of a user whose memory may be off."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.react import AgentRequest, ReactMemConfig, ReactMemService, default_scope
from agent_reminiscence.react.journal import RECORDED
from tests.acceptance.conftest import Silence, SocketServer, dsn
from tests.support.brain import Asked, Brain
from tests.support.proxy import FaultyProxy
from tests.support.steps import all_events

_SCOPE = default_scope("ana", "default")


@pytest.fixture
async def proxy(socket_server: SocketServer) -> AsyncIterator[FaultyProxy]:
    """A way to the server on which things get lost."""
    address = socket_server.superuser("postgres")
    async with FaultyProxy(address.host, address.port) as opened:
        yield opened


@pytest.fixture
async def memory(
    config: Callable[..., Config],
    proxy: FaultyProxy,
    socket_server: SocketServer,
    database: str,
    silence: Silence,
) -> AsyncIterator[AgentMem]:
    """A memory behind the proxy."""
    del silence
    settings = config(
        postgres_dsn=dsn(proxy.settings(socket_server.login(database))),
        worker=False,
        statement_timeout_seconds=1,
        pool_timeout_seconds=1,
    )
    async with AgentMem(settings) as opened:
        yield opened


def _request(question: str = "What is it?", **given: Any) -> AgentRequest:
    values: dict[str, Any] = {"user": "ana", "enable_memory": True, "conversation_id": "c-1"}
    return AgentRequest(question=question, **values | given)


async def test_an_agent_answers_while_its_memory_is_away(
    memory: AgentMem, proxy: FaultyProxy, silence: Silence
) -> None:
    """Nothing is shown, nothing is written, and the answer says so; afterwards it remembers again."""
    brain = Brain(lambda _: "noted")
    async with ReactMemService(brain.model, memory, config=ReactMemConfig(learn_with="rules")) as agent:
        with silence(proxy):
            away = await agent.answer(_request("I prefer tea."))
            await agent.drain()
        back = await agent.answer(_request("I prefer coffee."))
        await agent.drain()

    assert (away.answer, away.error) == ("noted", None)
    assert any("the memory cannot be reached" in warning for warning in away.warnings)
    assert back.warnings == ()
    assert [one.content for one in await memory.get_active_memories(_SCOPE)] == ["I prefer coffee."]


async def test_an_answer_that_cannot_be_recorded_is_given_all_the_same(
    memory: AgentMem, proxy: FaultyProxy, silence: Silence
) -> None:
    """The memory goes away while the model thinks; the client learns that this answer is not remembered."""
    with silence(proxy):
        proxy.speak()

        def reason(_: Asked) -> str:
            proxy.fall_silent()
            return "noted"

        agent = ReactMemService(Brain(reason).model, memory, config=ReactMemConfig(learn_with="rules"))
        response = await agent.answer(_request())

    assert response.answer == "noted"
    assert any(warning.startswith("not recorded: ") for warning in response.warnings)
    await agent.close()


async def test_what_follows_an_answer_is_made_up_for_after_an_outage(
    memory: AgentMem, proxy: FaultyProxy, silence: Silence
) -> None:
    """The answer was recorded, and then the memory went away."""
    gone: list[bool] = []

    def learn(_: str) -> dict[str, Any]:
        if not gone:
            gone.append(True)
            proxy.fall_silent()
        return {"facts": ["Ana likes tea."]}

    async with ReactMemService(Brain(lambda _: "noted", learn=learn).model, memory) as agent:
        with silence(proxy):
            proxy.speak()
            response = await agent.answer(_request())
            await agent.drain()
        assert response.warnings == ()
        assert RECORDED not in [event.kind for event in await all_events(memory, _SCOPE)]

        report = await agent.lifecycle.maintain("ana")

    assert report.recorded == 1
    assert [one.content for one in await memory.get_active_memories(_SCOPE)] == ["Ana likes tea."]
