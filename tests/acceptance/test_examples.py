"""The scripts in examples/, run as a reader runs them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_reminiscence import AgentMem, Config
from tests.support.command_line import complaints

# Fewer than the default only to be quick: each takes a while to make.
_PARTITIONS = 4
_EXAMPLES = Path(__file__).parents[2] / "examples"
_EXPECTED = {
    "answer_questions.py": "known: False",
    "custom_embedder.py": "found: ['The thermostat of the oven sticks at 180 degrees.']",
    "consolidate_with_a_model.py": "Kitchen: test read ",
    "follow_a_run.py": "interrupted after 2\n3: It leaves at nine.\n4: the end",
    "forget_a_person.py": "left: ['Ms. Adair brings her own tea.']",
    "import_chat.py": "Ines, 2026-03-05T06:50:00+01:00, in 'Harbour crew': Ines: I have it.",
    "remember_a_conversation.py": "nothing is remembered: model 'test' gave no usable answer",
    "quickstart.py": "answer: Version 2 ships on Monday",
    "multi_agent.py": "the kitchen on salaries: []",
    "without_await.py": "answer: The mill delivers flour on Thursdays.",
    "use_ollama.py": "Ollama is unavailable: searching by words until it is back\nfound: ['The last ferry",
    "time_travel.py": "in February: The team meets in room Aspen.",
    "village.py": "the last 8 events hold the clue: False\nthe 8 most salient hold the clue: True\nwith an index",
}

# Pydantic AI's model for tests fills in what the schemas allow: an answer, a plan for one passage, and numbers of
# messages there are not.
_SETTINGS = {
    "answer_questions.py": {"REMINISCENCE_MEMORY_RETRIEVE_AGENT_MODEL": "test"},
    # Nobody listens on port 9 of this machine.
    "use_ollama.py": {"REMINISCENCE_OLLAMA_BASE_URL": "http://127.0.0.1:9"},
    "consolidate_with_a_model.py": {"REMINISCENCE_MEMORIZER_AGENT_MODEL": "test"},
    "remember_a_conversation.py": {"REMINISCENCE_MEMORY_UPDATE_AGENT_MODEL": "test"},
}


@contextmanager
def _new_data_dir() -> Iterator[Path]:
    """A data folder with a memory that stays open, so that no example has to start and stop its server.

    It is not pytest's own, which the server's user may not enter.
    """
    with tempfile.TemporaryDirectory(prefix="rem-examples-") as folder, asyncio.Runner() as runner:
        memory = AgentMem(Config(data_dir=Path(folder) / "data", chunk_partitions=_PARTITIONS, worker=False))
        runner.run(memory.initialize())
        yield Path(folder) / "data"
        runner.run(memory.close())


@pytest.fixture(scope="module")
def data_dir() -> Iterator[Path]:
    """One data folder for all of them."""
    with _new_data_dir() as folder:
        yield folder


@pytest.fixture
def empty_data_dir() -> Iterator[Path]:
    """A data folder in which nothing is remembered yet."""
    with _new_data_dir() as folder:
        yield folder


def test_every_example_is_run() -> None:
    """An example that nobody runs goes stale."""
    assert {path.name for path in _EXAMPLES.glob("*.py")} == _EXPECTED.keys()


@pytest.mark.parametrize("name", [name for name in _EXPECTED if name != "quickstart.py"])
def test_an_example_says_what_it_should(name: str, data_dir: Path) -> None:
    """It ends without an error or a warning."""
    assert _EXPECTED[name] in _run(_EXAMPLES / name, data_dir)


@pytest.mark.parametrize(
    "name", [name if name == "quickstart.py" else pytest.param(name, marks=pytest.mark.thorough) for name in _EXPECTED]
)
def test_an_example_can_be_run_again(name: str, empty_data_dir: Path) -> None:
    """The second run finds the first one's memories and comes to the same end."""
    outputs = [_run(_EXAMPLES / name, empty_data_dir) for _ in range(2)]

    assert _EXPECTED[name] in outputs[0]
    assert outputs[0] == outputs[1]


def _run(script: Path, data_dir: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("REMINISCENCE_")}
    finished = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", str(script)],
        env=environment
        | {
            "REMINISCENCE_DATA_DIR": str(data_dir),
            "REMINISCENCE_CHUNK_PARTITIONS": str(_PARTITIONS),
            "PYTHONPATH": str(_EXAMPLES.parent),
        }
        | _SETTINGS.get(script.name, {}),
        cwd=data_dir.parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert finished.returncode == 0, finished.stderr
    assert complaints(finished.stderr) == ""
    return finished.stdout
