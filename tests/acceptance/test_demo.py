"""The demo as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.demo import Stage, play

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


def test_the_demo_holds_what_it_claims_and_leaves_nothing_behind(temporary_folder: Path) -> None:
    """Without a terminal, in an encoding that lacks its characters, whatever the environment sets."""
    finished = _demo(
        temporary_folder,
        PYTHONIOENCODING="ascii",
        REMINISCENCE_ACTIVE_MEMORY_UPDATE_THRESHOLD="2",
        REMINISCENCE_POSTGRES_DSN="postgresql://nobody@nowhere.invalid/none",
    )

    output = finished.stdout.decode("ascii")
    assert (finished.returncode, finished.stderr) == (0, b""), finished.stderr.decode()
    assert "DOES NOT HOLD" not in output
    for shown in ("(active,", "(shortterm,", "(longterm,", "June 28", "June 14", "claims hold"):
        assert shown in output
    assert list(temporary_folder.iterdir()) == []


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


async def test_the_demo_notices_when_a_claim_does_not_hold(config: Callable[..., Config]) -> None:
    """Its checks can fail: a write that is not in the story is found out."""
    stage = Stage()
    async with AgentMem(config(worker=True)) as memory:
        note = await memory.create_active_memory("lighthouse-keeper", "Old", "Not the demo's own.")
        await memory.admin.archive("lighthouse-keeper", note.id)

        await play(memory, stage)

    wrong = [claim.text for claim in stage.claims if not claim.holds]
    assert "the positions have no gap, and time never runs against them" not in wrong
    assert "every write above is one event" in wrong
