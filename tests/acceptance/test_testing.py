"""`agent_reminiscence.testing`, used by suites as users write them: each is run by a pytest of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from agent_reminiscence import InvalidInputError
from agent_reminiscence.database.repositories.event_ledger import event_digest
from agent_reminiscence.testing import make_event
from tests.support.command_line import CHECKOUT, clean_environment
from tests.support.processes import wait_until_ended

type Suite = Callable[..., str]

_PAGE = (CHECKOUT / "docs" / "guide" / "testing.md").read_text(encoding="utf-8")
_FILE = re.compile(r"In `(\w+\.py)`:\n\n(?:<!--[^\n]*-->\n)?```python\n(.*?)```", re.DOTALL)
_CONFTEST = 'pytest_plugins = ["agent_reminiscence.testing"]\n'
_STRICT = "[pytest]\nasyncio_default_fixture_loop_scope = function\n"
_AUTO = f"{_STRICT}asyncio_mode = auto\n"

_MANY = """
import pytest

@pytest.mark.asyncio
@pytest.mark.parametrize("number", range(12))
async def test_a_note(agent_mem, external_id, number):
    await agent_mem.create_active_memory(external_id, "Bench", f"Bench {number} is painted.")
    [note] = await agent_mem.get_active_memories(external_id)
    assert note.content == f"Bench {number} is painted."

@pytest.mark.parametrize("number", range(3))
def test_a_note_without_await(sync_agent_mem, external_id, number):
    sync_agent_mem.create_active_memory(external_id, "Bench", f"Bench {number} is painted.")
    assert len(sync_agent_mem.get_active_memories(external_id)) == 1
"""

# Notes the loop that a memory is opened on.
_NOTING = f"""
import asyncio
import agent_reminiscence.testing

{_CONFTEST}
class Noting(agent_reminiscence.AgentMem):
    async def initialize(self):
        self.opened_on = asyncio.get_running_loop()
        await super().initialize()

agent_reminiscence.testing.AgentMem = Noting
"""
_USES = """
import asyncio
import pytest

@pytest.fixture
def anyio_backend():
    return "asyncio"

async def use(agent_mem, external_id):
    calls = [agent_mem.create_active_memory(external_id, "Bench", f"Bench {number}") for number in range(20)]
    await asyncio.gather(*calls)
    assert agent_mem.opened_on is asyncio.get_running_loop()
"""
_STRICT_MARKS = ("asyncio", "asyncio(loop_scope='module')", "asyncio(loop_scope='session')", "anyio")


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    """Writes files into a folder, runs pytest there and returns what it printed."""

    def run(*options: str, fails: bool = False, environment: dict[str, str] | None = None, **files: str) -> str:
        folder = tmp_path / "suite"
        folder.mkdir(exist_ok=True)
        for name, text in files.items():
            (folder / (f"{name}.py" if name != "pytest_ini" else "pytest.ini")).write_text(text, encoding="utf-8")
        finished = subprocess.run(
            [sys.executable, "-m", "pytest", "-W", "error", "-p", "no:cacheprovider", *options, str(folder)],
            env=clean_environment() | {"PYTHONPATH": str(CHECKOUT)} | (environment or {}),
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert finished.returncode == (1 if fails else 0), finished.stdout + finished.stderr
        return finished.stdout

    return run


@pytest.mark.thorough
@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["one process", "two workers"])
def test_the_suite_of_the_page_passes(suite: Suite, options: tuple[str, ...]) -> None:
    """The agent of the documentation, its tests, and as many more as make twenty."""
    files = {name.removesuffix(".py"): text for name, text in _FILE.findall(_PAGE)}
    assert files.keys() == {"conftest", "assistant", "test_assistant"}

    printed = suite(*options, pytest_ini=_STRICT, test_many=_MANY, **files)

    assert "20 passed" in printed


_NOTES_ITS_SERVER = """
import os, pathlib, time
import pytest
from urllib.parse import parse_qs, urlsplit

@pytest.mark.parametrize("number", range(8))
def test_one(sync_agent_mem, external_id, agent_mem_dsn, number):
    sync_agent_mem.create_active_memory(external_id, "Bench", "It is painted.")
    [host] = parse_qs(urlsplit(agent_mem_dsn).query)["host"]
    server = (pathlib.Path(host) / "postmaster.pid").read_text().splitlines()[0]
    worker = os.environ["PYTEST_XDIST_WORKER"]
    here = pathlib.Path(os.environ["NOTES"])
    (here / f"{worker}.txt").write_text(f"{server} {pathlib.Path(host).resolve()}")
    # Until the other worker has had a test, too.
    while len(list(here.iterdir())) < 2:
        time.sleep(0.05)
"""


@pytest.mark.thorough
def test_the_workers_of_a_run_share_one_server_which_ends_with_it(suite: Suite, tmp_path: Path) -> None:
    """No process and no data are left."""
    notes = tmp_path / "notes"
    notes.mkdir()

    suite(
        "-n", "2", conftest=_CONFTEST, pytest_ini=_STRICT, test_it=_NOTES_ITS_SERVER, environment={"NOTES": str(notes)}
    )

    first, second = [path.read_text() for path in notes.iterdir()]
    assert first == second
    server, folder = first.split(maxsplit=1)
    assert not Path(folder).exists()
    wait_until_ended([int(server)])


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("ini", "marks"),
    [
        (_STRICT, _STRICT_MARKS),
        pytest.param(
            f"{_AUTO}asyncio_default_test_loop_scope = session\n",
            ("filterwarnings('error')",),
            marks=pytest.mark.thorough,
        ),
    ],
    ids=["strict", "auto"],
)
def test_a_memory_is_opened_on_the_loop_of_its_test(suite: Suite, ini: str, marks: tuple[str, ...]) -> None:
    """Whoever runs the tests, and on however many loops."""
    tests = [
        f"@pytest.mark.{mark}\nasync def test_{number}_{turn}(agent_mem, external_id):\n"
        "    await use(agent_mem, external_id)\n"
        for number, mark in enumerate(marks)
        for turn in range(2)
    ]

    printed = suite(conftest=_NOTING, pytest_ini=ini, test_it="\n".join([_USES, *tests]))

    assert f"{len(tests)} passed" in printed


@pytest.mark.thorough
def test_without_a_plugin_that_awaits_the_blocking_memory_is_there(suite: Suite) -> None:
    """And the other one says what it lacks."""
    tests = """
def test_blocking(sync_agent_mem, external_id):
    assert sync_agent_mem.get_active_memories(external_id) == []

def test_other(agent_mem):
    raise AssertionError
"""

    printed = suite("-p", "no:asyncio", "-p", "no:anyio", fails=True, conftest=_CONFTEST, test_it=tests)

    assert "1 passed, 1 error" in printed
    assert "agent_mem needs pytest-asyncio, or a test that is marked anyio" in printed


_EMBEDDER = """
import pytest
from agent_reminiscence.testing import HashEmbedder

@pytest.fixture(scope="session")
def agent_mem_embedder():
    return HashEmbedder(16)
"""

_OWN_CONFIGURATION = """
import pytest
from datetime import UTC, datetime
from agent_reminiscence import QuotaExceededError

@pytest.fixture
def agent_mem_settings():
    return {"max_active_memories": 1}

@pytest.fixture
def agent_mem_arguments():
    return {"clock": lambda: datetime(2026, 4, 1, 12, tzinfo=UTC)}

def test_all_of_it_counts(sync_agent_mem, external_id):
    note = sync_agent_mem.create_active_memory(external_id, "Bench", "It is painted.")
    assert note.occurred_at == datetime(2026, 4, 1, 12, tzinfo=UTC)
    assert [one.dimension for one in sync_agent_mem.admin.generations()] == [16]
    with pytest.raises(QuotaExceededError):
        sync_agent_mem.create_active_memory(external_id, "Bench", "It is green.")
"""

_ENVIRONMENT = """
import os
from agent_reminiscence.sync import AgentMem
from agent_reminiscence.testing import HashEmbedder

def test_code_that_reads_the_environment_uses_the_server_of_the_run(
    agent_mem_environment, sync_agent_mem, external_id
):
    with AgentMem(embedder=HashEmbedder(16)) as of_the_application:
        of_the_application.create_active_memory(external_id, "Bench", "It is painted.")
    assert len(sync_agent_mem.get_active_memories(external_id)) == 1

def test_the_environment_is_as_it_was():
    assert os.environ["REMINISCENCE_DATA_DIR"] == "/nonexistent"
    assert "REMINISCENCE_POSTGRES_DSN" not in os.environ
"""


@pytest.mark.thorough
def test_what_it_is_opened_with_can_be_overridden_but_not_by_the_developers_own_settings(suite: Suite) -> None:
    """Fixtures of the same names count, and the environment does not."""
    own = {"REMINISCENCE_DATA_DIR": "/nonexistent", "REMINISCENCE_MEMORIZER_AGENT_MODEL": "nobody:nothing"}

    printed = suite(
        conftest=_CONFTEST + _EMBEDDER,
        pytest_ini=_STRICT,
        test_overridden=_OWN_CONFIGURATION,
        test_environment=_ENVIRONMENT,
        environment=own,
    )

    assert "3 passed" in printed


def test_events_by_hand_are_as_a_ledger_returns_them() -> None:
    """In the order in which they are made, each with a digest of what it holds."""
    first = make_event("agent.spoke", "The mill stands still.", "ann", 1)
    second = make_event("dice.rolled", {"eyes": 6}, conversation_id="game", source="tool")

    assert (first.payload, first.actor, first.turn) == ({"text": "The mill stands still."}, "ann", 1)
    assert (second.payload, second.actor, second.turn) == ({"eyes": 6}, None, None)
    assert first.salt is not None
    assert first.digest == event_digest(first, first.salt) != second.digest
    assert second.position == first.position + 1
    assert second.occurred_at - first.occurred_at == timedelta(minutes=1)
    assert make_event("agent.spoke", position=9).event_id == UUID(int=9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "spoke"}, "kind 'spoke' must be lower-case words joined by dots"),
        ({"kind": "memory.thought"}, "kind 'memory.thought' begins with 'memory.'"),
        ({"kind": "agent.spoke", "text": {"at": object()}}, "text holds an object, which is not JSON"),
        ({"kind": "agent.spoke", "position": 0}, "position must be"),
        ({"kind": "agent.spoke", "position": 10**12}, "position must be"),
        ({"kind": "agent.spoke", "turn": -1}, "turn must be"),
        ({"kind": "agent.spoke", "turn": "5"}, "turn must be a whole number"),
        ({"kind": "agent.spoke", "actor": ""}, "actor must not be empty"),
        ({"kind": "agent.spoke", "actor": 5}, "actor must be"),
        ({"kind": "agent.spoke", "conversation_id": ""}, "conversation_id must not be empty"),
        ({"kind": "agent.spoke", "source": "wizard"}, "source 'wizard' is unknown"),
        ({"kind": "agent.spoke", "occurred_at": datetime(2026, 1, 1)}, "occurred_at"),  # noqa: DTZ001 - refused
    ],
)
def test_an_event_that_no_ledger_would_hold_is_refused(arguments: dict[str, Any], message: str) -> None:
    """A test on it would prove nothing."""
    with pytest.raises(InvalidInputError, match=message):
        make_event(**arguments)
