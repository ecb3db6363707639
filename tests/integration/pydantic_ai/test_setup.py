"""What a user needs to begin: the release, a file that describes the agent, and who opens the memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.config.installation import install_command
from agent_reminiscence.config.pydantic_ai_release import check_release
from agent_reminiscence.exceptions import ConfigurationError, NotInitializedError
from agent_reminiscence.integrations.pydantic_ai import Reminiscence
from tests.support.extras import run_without

_SPEC = """\
model: test
capabilities:
  - Reminiscence:
      external_id: "ana"
      dsn: "{dsn}"
      tools: [search_memory]
      learn: true
"""


@pytest.fixture
def agent_file(tmp_path: Path, config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file for `Agent.from_file` whose memory is this test's database."""
    settings = config()
    for name in ("embedding_provider", "embedding_dimension"):
        monkeypatch.setenv(f"REMINISCENCE_{name.upper()}", str(getattr(settings, name)))
    monkeypatch.setenv("REMINISCENCE_WORKER", "false")
    assert settings.postgres_dsn is not None
    path = tmp_path / "agent.yaml"
    path.write_text(_SPEC.format(dsn=settings.postgres_dsn.get_secret_value()), encoding="utf-8")
    return path


def capability_of(agent: Agent[Any, Any]) -> Reminiscence:
    """The memory of an agent."""
    found: list[Reminiscence] = []
    agent.root_capability.apply(lambda one: found.append(one) if isinstance(one, Reminiscence) else None)
    [capability] = found
    return capability


async def test_a_file_describes_an_agent_with_a_memory(agent_file: Path, memory: AgentMem) -> None:
    """The capability opens its memory for a run and closes it after the run's record."""
    agent = Agent.from_file(agent_file, custom_capability_types=[Reminiscence])

    await agent.run("My boat is called Bura.", conversation_id="chat")

    own = capability_of(agent).memory
    with pytest.raises(NotInitializedError):
        await own.ledger.head("ana")
    assert (await memory.conversation("ana", "chat").turns())[0].text == "My boat is called Bura."


async def test_an_agent_that_is_entered_keeps_its_memory_open(agent_file: Path) -> None:
    """For all runs of the block, some at the same time; it is closed at the end of the block."""
    agent = Agent.from_file(agent_file, custom_capability_types=[Reminiscence])
    own = capability_of(agent).memory

    async with agent:
        await asyncio.gather(*(agent.run("Hello.", conversation_id=f"chat-{number}") for number in range(4)))
        assert await own.ledger.head("ana") > 0
    with pytest.raises(NotInitializedError):
        await own.ledger.head("ana")


async def test_a_memory_of_the_callers_stays_open(memory: AgentMem) -> None:
    """Who opens it closes it."""
    agent = Agent(TestModel(), capabilities=[Reminiscence(memory, external_id="ana")])

    async with agent:
        await agent.run("Hello.")

    assert await memory.ledger.head("ana") > 0


def test_a_template_that_was_not_read_as_one_is_no_tenant() -> None:
    """All users would share it."""
    with pytest.raises(ConfigurationError, match=r"install pydantic-ai-slim\[spec\]"):
        Reminiscence.from_spec(external_id="{{user_id}}")


@pytest.mark.parametrize("installed", ["2.65.9", "2.9.0", "1.99.0", "2.65.0rc1"])
def test_an_older_release_is_refused(installed: str) -> None:
    """With what is needed, what is there and what to install."""
    with pytest.raises(ConfigurationError, match=r"needs pydantic-ai-slim 2\.66 or later") as caught:
        check_release("this", installed)
    assert installed in str(caught.value)
    assert install_command("pydantic-ai") in str(caught.value)


@pytest.mark.parametrize("installed", ["2.66.0", "2.68.0", "2.100.1", "3.0.0", "unknown"])
def test_a_recent_release_is_taken(installed: str) -> None:
    """And so is one whose number cannot be read."""
    check_release("this", installed)


@pytest.mark.thorough
def test_without_the_package_the_extra_is_named() -> None:
    """The module can be imported; what is imported from it says what to install."""
    done = run_without(
        "models",
        program=(
            "from agent_reminiscence import ConfigurationError\n"
            "import agent_reminiscence.integrations.pydantic_ai\n"
            "try:\n"
            "    from agent_reminiscence.integrations.pydantic_ai import Reminiscence\n"
            "except ConfigurationError as error:\n"
            "    print(error)\n"
        ),
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        "agent_reminiscence.integrations.pydantic_ai needs pydantic_ai, which is not installed; run"
        f" `{install_command('pydantic-ai')}`\n"
    )
