"""examples/llamaindex_agent.py against a server of ours: LlamaIndex's own client, agent and tools."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from llama_index.core.llms.mock import MockFunctionCallingLLM

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.server import create_app
from agent_reminiscence.text.rendering import split_recalled
from tests.support.examples import load_example
from tests.support.mcp_clients import Keys, key_for
from tests.support.serving import Served, serve

# LlamaIndex's workflows look at every attribute of an agent, also at those that Pydantic has given up.
pytestmark = pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning")


@pytest.fixture
async def served(config: Callable[..., Config]) -> AsyncIterator[Served]:
    """A server with two users' keys."""
    async with serve(create_app(AgentMem(config()), Keys(ida=key_for("ida"), joe=key_for("joe"))), "ida") as served:
        yield served


@pytest.fixture
def example() -> Any:
    """The example, as a module."""
    return load_example("llamaindex_agent.py")


async def test_the_example_runs(
    example: Any, served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As its reader runs it, once the server runs."""
    monkeypatch.setenv("MEMORY_URL", served.url)
    monkeypatch.setenv("MEMORY_KEY", "ida")

    await example.main()

    ((_, is_recalled), *_) = [part for part in split_recalled(capsys.readouterr().out) if "ferry" in part[0]]
    assert is_recalled


async def test_each_key_has_a_memory_of_its_own(example: Any, served: Served) -> None:
    """The agent of another user finds nothing."""
    await example.Memory(served.url, "ida").call_tool("remember", {"content": "The last ferry leaves at nine."})
    llm = MockFunctionCallingLLM(response_generator=example.scripted)

    assert "leaves at nine" in await example.ask(served.url, "ida", "When does the last ferry leave?", llm)
    assert await example.ask(served.url, "joe", "When does the last ferry leave?", llm) == ("No passage matches this.")
