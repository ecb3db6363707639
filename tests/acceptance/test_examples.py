"""The scripts in examples/, run as a reader runs them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.examples import EXAMPLES, new_data_dir, run_example

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

# Run where their framework is installed: tests/integration/<framework>.
_OF_FRAMEWORKS = {"research_graph.py"}

# Pydantic AI's model for tests fills in what the schemas allow: an answer, a plan for one passage, and numbers of
# messages there are not.
_SETTINGS = {
    "answer_questions.py": {"REMINISCENCE_MEMORY_RETRIEVE_AGENT_MODEL": "test"},
    # Nobody listens on port 9 of this machine.
    "use_ollama.py": {"REMINISCENCE_OLLAMA_BASE_URL": "http://127.0.0.1:9"},
    "consolidate_with_a_model.py": {"REMINISCENCE_MEMORIZER_AGENT_MODEL": "test"},
    "remember_a_conversation.py": {"REMINISCENCE_MEMORY_UPDATE_AGENT_MODEL": "test"},
}


@pytest.fixture(scope="module")
def data_dir() -> Iterator[Path]:
    """One data folder for all of them."""
    with new_data_dir() as folder:
        yield folder


@pytest.fixture
def empty_data_dir() -> Iterator[Path]:
    """A data folder in which nothing is remembered yet."""
    with new_data_dir() as folder:
        yield folder


def test_every_example_is_run() -> None:
    """An example that nobody runs goes stale."""
    assert {path.name for path in EXAMPLES.glob("*.py")} == _EXPECTED.keys() | _OF_FRAMEWORKS


@pytest.mark.parametrize("name", [name for name in _EXPECTED if name != "quickstart.py"])
def test_an_example_says_what_it_should(name: str, data_dir: Path) -> None:
    """It ends without an error or a warning."""
    assert _EXPECTED[name] in run_example(EXAMPLES / name, data_dir, _SETTINGS.get(name))


@pytest.mark.parametrize(
    "name", [name if name == "quickstart.py" else pytest.param(name, marks=pytest.mark.thorough) for name in _EXPECTED]
)
def test_an_example_can_be_run_again(name: str, empty_data_dir: Path) -> None:
    """The second run finds the first one's memories and comes to the same end."""
    outputs = [run_example(EXAMPLES / name, empty_data_dir, _SETTINGS.get(name)) for _ in range(2)]

    assert _EXPECTED[name] in outputs[0]
    assert outputs[0] == outputs[1]
