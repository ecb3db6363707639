"""The integration of the OpenAI Agents SDK where that is not installed."""

from __future__ import annotations

import pytest

from agent_reminiscence.config.installation import install_command
from tests.support.extras import run_without

PROGRAM = """
from agent_reminiscence import AgentMem, ConfigurationError
from agent_reminiscence.integrations.openai_agents import ReminiscenceSession, memory_tools, recall_filter

memory = AgentMem()
for make in (lambda: ReminiscenceSession(memory, "ana", "chat-7"), lambda: recall_filter(memory, "ana"),
             lambda: memory_tools(memory, "ana")):
    try:
        make()
    except ConfigurationError as error:
        print(error)
"""


@pytest.mark.thorough
def test_each_part_says_what_to_install() -> None:
    """The module can be imported; what it makes needs the framework."""
    done = run_without("openai-agents", program=PROGRAM)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"{name} needs agents, which is not installed; run `{install_command('openai-agents')}`"
        for name in ("ReminiscenceSession", "recall_filter", "memory_tools")
    ]
