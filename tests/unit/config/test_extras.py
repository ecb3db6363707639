"""What an installation without extras says when it is asked for something that needs one."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest

from agent_reminiscence.config.installation import install_command
from tests.support.command_line import CHECKOUT
from tests.support.extras import MODULES, run_without

_EVERY = tuple(MODULES)
# Extras that only name others.
_OTHER_NAMES = ("all", "memory")
# Extras that `all` leaves out.
_APART = {"langgraph", "mem0", "openai-agents", "wordllama"}

OPEN = """
import asyncio, tempfile
from pathlib import Path
from agent_reminiscence import AgentMem, AgentModels, Config, ConfigurationError
with tempfile.TemporaryDirectory() as folder:
    data_dir = Path(folder, "data")
    try:
        asyncio.run(AgentMem(Config(data_dir=data_dir, **{settings!r}), {passed}).initialize())
    except ConfigurationError as error:
        print(error)
    assert not data_dir.exists(), "something was written"
"""


def _project() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("settings", "passed", "complaint"),
    [
        (
            {"memorizer_agent_model": "openai:gpt-5-mini"},
            "",
            (
                "memorizer_agent_model is 'openai:gpt-5-mini', which needs pydantic_ai, which is not installed; run"
                f" `{install_command('models')}`"
            ),
        ),
        (
            {},
            "models=AgentModels(memory_retrieve='ollama:qwen3')",
            (
                "memory_retrieve_agent_model is 'ollama:qwen3', which needs pydantic_ai, which is not installed;"
                f" run `{install_command('models')}`"
            ),
        ),
        (
            {"embedding_provider": "pydantic_ai", "embedding_model": "openai:text-embedding-3-small"},
            "",
            (
                "embedding_model is 'openai:text-embedding-3-small', which needs pydantic_ai, which is not installed;"
                f" run `{install_command('models')}`"
            ),
        ),
        (
            {"telemetry_content": True},
            "",
            (
                "telemetry_content is set, which needs opentelemetry, which is not installed; run"
                f" `{install_command('telemetry')}`"
            ),
        ),
    ],
)
def test_a_setting_that_needs_a_missing_extra_is_refused_by_its_name(
    settings: dict[str, object], passed: str, complaint: str
) -> None:
    """Before anything is written, and not by an ImportError from the depths."""
    done = run_without(*_EVERY, program=OPEN.format(settings=settings, passed=passed))

    assert (done.returncode, done.stdout.strip()) == (0, complaint), done.stderr


@pytest.mark.thorough
def test_the_command_without_its_extra_says_what_to_install() -> None:
    """In one line; the script is installed with or without the extra."""
    done = run_without("cli", program="from agent_reminiscence_launcher import main\nsys.exit(main())")

    assert done.returncode == 2
    assert done.stderr == (
        f"agent-reminiscence: the command line needs cyclopts, which is not installed; run `{install_command('cli')}`\n"
    )


@pytest.mark.thorough
def test_what_needs_no_extra_imports_none() -> None:
    """Only the command line, the agents' models and frameworks may fail to be imported.

    What stands for a class of another framework cannot do without it either, and says what to install.
    """
    program = """
import importlib, pkgutil
import agent_reminiscence
for module in pkgutil.walk_packages(agent_reminiscence.__path__, "agent_reminiscence.", onerror=lambda name: None):
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError:
        print(module.name)
    except agent_reminiscence.ConfigurationError as error:
        print(module.name, str(error).partition("; run ")[2])
"""
    done = run_without(*_EVERY, program=program)

    assert done.returncode == 0, done.stderr
    assert set(done.stdout.splitlines()) == {
        "agent_reminiscence.agents.framing_tags",
        "agent_reminiscence.agents.memorizer",
        "agent_reminiscence.agents.memory_retriever",
        "agent_reminiscence.agents.memory_updater",
        "agent_reminiscence.agents.profile_writer",
        "agent_reminiscence.agents.reflector",
        "agent_reminiscence.agents.running",
        "agent_reminiscence.cli",
        "agent_reminiscence.integrations.pydantic_ai.capability",
        "agent_reminiscence.integrations.pydantic_ai.conversations",
        "agent_reminiscence.integrations.pydantic_ai.entries",
        "agent_reminiscence.integrations.pydantic_ai.messages",
        "agent_reminiscence.integrations.pydantic_ai.tools",
        f"agent_reminiscence.integrations.langgraph `{install_command('langgraph')}`",
        f"agent_reminiscence.react `{install_command('pydantic-ai')}`",
        f"agent_reminiscence.server `{install_command('server')}`",
    }


@pytest.mark.thorough
def test_nothing_is_observed_without_opentelemetry() -> None:
    """The blocks run as they are, and what they report is not kept."""
    program = """
import asyncio
from agent_reminiscence.telemetry import Telemetry, detached
telemetry = Telemetry()
with telemetry.operation("create_active_memory") as operation:
    assert not operation.is_recording
    operation.note(external_id="ana")
    operation.quote(content="a text")
    operation.failed("StoreError")
with telemetry.statement("find", "memory", system="neo4j", statements=2):
    pass
try:
    with telemetry.job("consolidate", external_id="ana", attempt=1, delay_seconds=2.0) as job:
        job.outcome = "put off"
        raise LookupError("as it was raised")
except LookupError as error:
    print(error)
print(detached().run(str, "ran"))
"""
    done = run_without("telemetry", program=program)

    assert (done.returncode, done.stdout.split("\n")[:2]) == (0, ["as it was raised", "ran"]), done.stderr


@pytest.mark.thorough
def test_all_is_every_extra_but_those_of_other_frameworks_and_of_the_earlier_default() -> None:
    """Whoever installs `[all]` lacks nothing else; what it leaves out is of use only where it is in use already."""
    extras = _project()["optional-dependencies"]

    assert set(extras) == {"all", "memory", *MODULES}
    assert extras["all"] == [f"agent-reminiscence-ledger[{','.join(sorted(set(MODULES) - _APART))}]"]
    assert extras["memory"] == ["agent-reminiscence-ledger[mem0]"]


def test_the_page_lists_every_extra_with_what_it_requires() -> None:
    """And the README names each."""
    page = (CHECKOUT / "docs" / "guide" / "installation.md").read_text(encoding="utf-8").partition("<!-- sizes -->")[0]
    rows = {
        name: set(re.findall(r"`([\w-]+)`", row))
        for name, row in re.findall(r"^\| `([\w-]+)` \|.*\| (.*) \|$", page, re.MULTILINE)
    }
    extras = {
        # The extra of ours that another one brings along is not a distribution of its own.
        name: {re.split(r"[<>=\[]", requirement)[0] for requirement in requirements} - {_project()["name"]}
        for name, requirements in _project()["optional-dependencies"].items()
        if name not in _OTHER_NAMES
    }

    assert {name: rows[name] for name in extras} == extras
    readme = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([\w-]+)` \|", readme, re.MULTILINE)) >= set(extras)
