"""The demo as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models.function import AgentInfo
from pydantic_ai.usage import RequestUsage

from agent_reminiscence import AgentMem, AgentModels, Config
from agent_reminiscence.cli.story import Stage, play, read
from tests.support.command_line import complaints
from tests.support.memorizing import Shown, fact, reads
from tests.support.scripted import ScriptedModel, Step, fail

_PREFIX = "REMINISCENCE_"


@pytest.fixture
def temporary_folder() -> Iterator[Path]:
    """An empty folder for temporary files; not pytest's own, which the server's user may not enter."""
    with tempfile.TemporaryDirectory(prefix="rem-demo-") as folder:
        yield Path(folder)


def _demo(folder: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[bytes]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_PREFIX)}
    return subprocess.run(
        [sys.executable, "-m", "agent_reminiscence.cli", "demo", *arguments],
        env=environment | {"TMPDIR": str(folder)} | settings,
        cwd=Path(__file__).parents[2],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=120,
    )


@pytest.mark.thorough
def test_the_demo_holds_what_it_claims_and_leaves_nothing_behind(temporary_folder: Path) -> None:
    """Without a terminal, in an encoding that lacks its characters, whatever the environment sets."""
    finished = _demo(
        temporary_folder,
        PYTHONIOENCODING="ascii",
        REMINISCENCE_ACTIVE_MEMORY_UPDATE_THRESHOLD="2",
        REMINISCENCE_POSTGRES_DSN="postgresql://nobody@nowhere.invalid/none",
        REMINISCENCE_MEMORY_UPDATE_AGENT_MODEL="nobody:none",
        REMINISCENCE_MEMORY_RETRIEVE_AGENT_MODEL="nobody:none",
    )

    output = finished.stdout.decode("ascii")
    assert (finished.returncode, complaints(finished.stderr)) == (0, "")
    assert "DOES NOT HOLD" not in output
    for shown in ("(active,", "(shortterm,", "(longterm,", "June 28", "June 14", "claims hold"):
        assert shown in output
    assert "tokens" not in output
    assert list(temporary_folder.iterdir()) == []


@pytest.mark.thorough
def test_the_demo_as_json_is_one_document_with_every_claim(temporary_folder: Path) -> None:
    """A program can read what was claimed; a folder that is given is kept, and a second run in it holds, too."""
    folder = temporary_folder / "data"
    for _ in range(2):
        finished = _demo(temporary_folder, "--json", "--data-dir", str(folder))

        assert finished.returncode == 0, finished.stderr.decode()
        document = json.loads(finished.stdout)
        assert document["ok"]
        assert len(document["claims"]) > 15
        assert all(claim["holds"] for claim in document["claims"])
    assert folder.is_dir()


@pytest.mark.thorough
async def test_the_demo_notices_when_a_claim_does_not_hold(config: Callable[..., Config]) -> None:
    """Its checks can fail: a write that is not in the story is found out."""
    stage = Stage()
    async with AgentMem(config(worker=True)) as memory:
        note = await memory.create_active_memory("lighthouse-keeper", "Old", "Not the demo's own.")
        await memory.admin.archive("lighthouse-keeper", note.id)

        await play(memory, stage)

    wrong = [claim.text for claim in stage.claims if not claim.holds]
    assert "positions have no gaps, and recording times increase" not in wrong
    assert "every write above is one event" in wrong


class _Notes(Stage):
    """Keeps what is shown and claims nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def _counted(step: Step) -> Step:
    """The same answer, for which a provider counts 1,234 tokens in and 56 out."""

    def counted(messages: Sequence[ModelMessage], info: AgentInfo) -> ModelResponse:
        response = step(messages, info)
        response.usage = RequestUsage(input_tokens=1_234, output_tokens=56)
        return response

    return counted


def _conclude(shown: Shown) -> dict[str, object]:
    (title,) = shown.parts["memory"]
    speaks = any("Tomas" in str(row["said_by"]) for row in shown.parts["new_passages"])
    return {
        "facts": [fact(shown, f"They talked about this: {title['title']}.")],
        "entities": [{"name": "Tomas", "type": "person"}] if speaks else [],
    }


@pytest.mark.thorough
async def test_the_demo_says_what_a_model_costs_and_what_comes_of_it(config: Callable[..., Config]) -> None:
    """For each memory: requests, tokens in and out as the provider counts them, and what was taken over."""
    stage, model = _Notes(), ScriptedModel(_counted(reads(_conclude)))
    async with AgentMem(config(), models=AgentModels(memorizer=model.model)) as memory:
        await read(memory, stage)

        (usage,) = (await memory.admin.usage("lighthouse-reader")).models

    assert [claim.text for claim in stage.claims if not claim.holds] == []
    assert len(stage.claims) == 3
    assert len(stage.notes) == len(model.asked) == 4
    assert (usage.requests, usage.input_tokens, usage.output_tokens) == (4, 4 * 1_234, 4 * 56)
    for note in stage.notes:
        assert ": 1 request, 1,234 tokens in, 56 tokens out; entities: " in note
        assert note.endswith(" facts: 1, ended: 0")
    assert stage.notes[0].startswith("“First walk through the tower”: ")
    # Tomas, whom the model names, and Ines, whom it leaves out though she speaks.
    assert "entities: 2," in stage.notes[0]


async def test_the_demo_goes_on_without_a_model_that_fails(config: Callable[..., Config]) -> None:
    """It says so, and what it claims holds all the same."""
    stage, model = _Notes(), ScriptedModel(fail(RuntimeError("away")))
    async with AgentMem(config(), models=AgentModels(memorizer=model.model)) as memory:
        await read(memory, stage)

    assert [claim.text for claim in stage.claims if not claim.holds] == []
    assert all(note.endswith("rules used (failed)") for note in stage.notes)


@pytest.mark.thorough
def test_the_demo_reads_with_the_model_that_the_environment_names(temporary_folder: Path) -> None:
    """The story is told without it, and its claims hold; then it is asked, and what that took is printed."""
    finished = _demo(temporary_folder, REMINISCENCE_MEMORIZER_AGENT_MODEL="test", PYTHONIOENCODING="utf-8")

    assert (finished.returncode, complaints(finished.stderr)) == (0, "")
    output = finished.stdout.decode()
    assert output.count(" tokens in, ") == 4
    assert "DOES NOT HOLD" not in output
    assert list(temporary_folder.iterdir()) == []
