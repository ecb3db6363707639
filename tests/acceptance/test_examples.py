"""The scripts in examples/, run as a reader runs them."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import sys
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent_reminiscence import Config
from tests.support.command_line import environment
from tests.support.examples import EXAMPLES, load_example, new_data_dir, run_example

_EXPECTED = {
    "answer_questions.py": "known: False",
    "custom_embedder.py": "found: ['The thermostat of the oven sticks at 180 degrees.']",
    "consolidate_with_a_model.py": "Kitchen: test read ",
    "follow_a_run.py": "interrupted after 2\n3: It leaves at nine.\n4: the end",
    "forget_a_person.py": "left: ['Ms. Adair brings her own tea.']",
    "import_chat.py": "Ines, 2026-03-05T06:50:00+01:00, in 'Harbour crew': Ines: I have it.",
    "remember_a_conversation.py": "overall: a\noverall: a",
    "team_memory.py": "example-ben: You deploy on Thursdays.\nexample-cleo: You deploy whenever you like.\nwritten",
    "support_bot.py": "bot: Then your X-200 needs a new seal.\nexample-joe: My kettle leaks.\nbot: Which kettle",
    "quickstart.py": "answer: Version 2 ships on Monday",
    "multi_agent.py": "the kitchen on salaries: []",
    "react_agent.py": "attempt 2: turn_off_water, open_vault → The vault is open.",
    "react_from_file.py": "  stored: I live in Rovinj.\nI live in Rovinj. → It leaves from Rovinj at nine.\nWhen does",
    "without_await.py": "answer: The mill delivers flour on Thursdays.",
    "use_ollama.py": "Ollama is unavailable: searching by words until it is back\nfound: ['The last ferry",
    "time_travel.py": "in February: The team meets in room Aspen.",
    "users_days.py": (
        "yesterday in Pacific/Auckland: The tomatoes that Mara gave me are planted, too, in the sunny corner of the"
        " garden.\nyesterday in UTC: I planted beans in the garden."
    ),
    "village.py": "the last 8 events hold the clue: False\nthe 8 most salient hold the clue: True\nwith an index",
}

# Served, and not run.
_SERVICES = {"fastapi_service.py"}
# Run where their framework is installed: tests/integration/<framework>, or server_clients for those that reach a memory
# by MCP. Of Claude's, only what it starts is run: it needs a key.
_OF_FRAMEWORKS = {"claude_memory.py", "hand_over.py", "llamaindex_agent.py", "research_graph.py"}

# The framework that each of these needs, a module of it, and what brings it.
_NEEDED = [
    ("claude_memory.py", "claude_agent_sdk", "the Claude Agent SDK", "pip install claude-agent-sdk"),
    ("hand_over.py", "agents", "the OpenAI Agents SDK", "pip install '.[openai-agents]'"),
    ("llamaindex_agent.py", "llama_index", "LlamaIndex", "pip install llama-index-core llama-index-tools-mcp"),
    ("research_graph.py", "langgraph", "LangGraph", "pip install '.[langgraph]' langgraph"),
]

# Pydantic AI's model for tests fills in what the schemas allow: an answer, a plan for one passage, and numbers of
# messages there are not.
_SETTINGS = {
    "answer_questions.py": {"REMINISCENCE_MEMORY_RETRIEVE_AGENT_MODEL": "test"},
    # Nobody listens on port 9 of this machine.
    "use_ollama.py": {"REMINISCENCE_OLLAMA_BASE_URL": "http://127.0.0.1:9"},
    "consolidate_with_a_model.py": {"REMINISCENCE_MEMORIZER_AGENT_MODEL": "test"},
    "remember_a_conversation.py": {"REMINISCENCE_MEMORY_UPDATE_AGENT_MODEL": "test"},
}


@pytest.mark.parametrize(("name", "module", "framework", "command"), _NEEDED)
def test_an_example_whose_framework_is_missing_says_what_to_install(
    name: str, module: str, framework: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a line, instead of a traceback that names a module, whose distribution has another name."""
    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(SystemExit) as ended:
        load_example(name)

    assert ended.value.code == f"This example needs {framework}; run `{command}`"
    assert {one for one, *_ in _NEEDED} == _OF_FRAMEWORKS


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
    assert {path.name for path in EXAMPLES.glob("*.py")} == _EXPECTED.keys() | _SERVICES | _OF_FRAMEWORKS
    assert [path.name for path in EXAMPLES.glob("*.ipynb")] == ["notebook.ipynb"]


@pytest.mark.parametrize("name", ["support_bot.py", *sorted(_SERVICES | _OF_FRAMEWORKS)])
def test_an_example_of_a_framework_is_short(name: str) -> None:
    """Eighty lines show what is to be done; more would show something else."""
    assert len((EXAMPLES / name).read_text(encoding="utf-8").splitlines()) <= 80


# Each of these leads through other parts of the package; test_an_example_can_be_run_again runs all of them, thoroughly.
@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", ["answer_questions.py", "follow_a_run.py", "import_chat.py", "multi_agent.py", "react_agent.py"]
)
def test_an_example_says_what_it_should(name: str, data_dir: Path) -> None:
    """It ends without an error or a warning."""
    assert _EXPECTED[name] in run_example(EXAMPLES / name, data_dir, _SETTINGS.get(name))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", [name if name == "quickstart.py" else pytest.param(name, marks=pytest.mark.thorough) for name in _EXPECTED]
)
def test_an_example_can_be_run_again(name: str, empty_data_dir: Path) -> None:
    """The second run finds the first one's memories and comes to the same end."""
    outputs = [run_example(EXAMPLES / name, empty_data_dir, _SETTINGS.get(name)) for _ in range(2)]

    assert _EXPECTED[name] in outputs[0]
    assert outputs[0] == outputs[1]


@pytest.fixture
def settings(config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment in which `AgentMem()` opens this test's database."""
    for name, value in environment(config()).items():
        monkeypatch.setenv(name, value)


@pytest.mark.thorough
@pytest.mark.usefixtures("settings")
async def test_the_service_answers_each_user_from_their_own_memory() -> None:
    """Two users with the same chat, at the same time; who is not signed in is refused, and nothing is written."""
    spec = spec_from_file_location("fastapi_service", EXAMPLES / "fastapi_service.py")
    assert spec is not None
    assert spec.loader is not None
    service = module_from_spec(spec)
    # FastAPI looks the types of its endpoints up there.
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, spec.name, service)
        spec.loader.exec_module(service)

        async with (
            service.app.router.lifespan_context(service.app),
            httpx.AsyncClient(transport=httpx.ASGITransport(service.app), base_url="http://service") as client,
        ):

            async def say(token: str, text: str) -> httpx.Response:
                return await client.post(
                    "/chats/monday", json={"text": text}, headers={"Authorization": f"Bearer {token}"}
                )

            answers = await asyncio.gather(
                say("ida-token", "My boat is called Bura."), say("joe-token", "My boat is called Maestral.")
            )
            again = await say("ida-token", "What is my boat called?")
            refused = [await say("nobody", "Hello"), await client.post("/chats/monday", json={"text": "Hello"})]
            memory = service.app.state.memory
            said = {
                user: [turn.text for turn in await memory.conversation(user, "monday").turns()]
                for user in service.USERS.values()
            }

    assert [response.status_code for response in (*answers, again)] == [200] * 3
    assert all(response.json()["text"] for response in (*answers, again))
    assert [response.status_code for response in refused] == [401, 401]
    assert said["example-ida"][0] == "My boat is called Bura."
    assert said["example-ida"][2] == "What is my boat called?"
    assert said["example-joe"][0] == "My boat is called Maestral."
    assert "Maestral" not in str(said["example-ida"])


@pytest.mark.usefixtures("settings")
async def test_the_cells_of_the_notebook_run_one_after_another() -> None:
    """In a loop that is running, as in Jupyter; each cell may await at its top level, and no output is stored."""
    notebook = json.loads((EXAMPLES / "notebook.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
    names: dict[str, Any] = {}

    for number, cell in enumerate(cells):
        source = "".join(cell["source"])
        code = compile(source, f"cell {number}", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        result = eval(code, names)  # noqa: S307 - the notebook is our own
        if inspect.iscoroutine(result):
            await result

    assert names["result"].hits[0].content == "The ferry to Vis leaves at nine; on Sundays at ten."
    assert names["turns"][0].text == "When does the ferry leave on Sundays?"
    assert len(names["receipt"].events) > 1
