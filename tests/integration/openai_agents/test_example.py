"""The example of the OpenAI Agents SDK and its page of the guide, run as a reader runs them."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agents.testing import ScriptedModel, assistant_message

from agent_reminiscence import AgentMem, Config
from tests.support.command_line import CHECKOUT, clean_environment, complaints, environment


def test_the_second_agent_knows_what_the_first_one_learned() -> None:
    """Also when it is run again, on what the first run remembered."""
    # Not pytest's own folder, which the server's user may not enter.
    with tempfile.TemporaryDirectory(prefix="rem-hand-over-") as folder, asyncio.Runner() as runner:
        data = Path(folder) / "data"
        memory = AgentMem(Config(data_dir=data, chunk_partitions=4, worker=False))
        runner.run(memory.initialize())
        try:
            outputs = [_run(data) for _ in range(2)]
        finally:
            runner.run(memory.close())

    assert outputs == ["Guide: Take the south pier, where there is a ramp.\nitems of tuesday: 4\n"] * 2


def test_the_test_of_the_guide_passes_as_it_is_written(tmp_path: Path) -> None:
    """Its files in an empty folder, with nothing of this checkout's configuration, and without Pydantic AI."""
    page = (CHECKOUT / "docs" / "guide" / "openai-agents.md").read_text(encoding="utf-8")
    files = dict(re.findall(r"In `(\w+\.py)`:\n\n(?:<!--[^\n]*-->\n)?```python\n(.*?)```", page, re.DOTALL))
    assert files.keys() == {"conftest.py", "test_guide.py"}
    for name, text in files.items():
        assert "pydantic_ai" not in text
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")

    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tmp_path)],
        env=clean_environment() | {"PYTHONPATH": str(CHECKOUT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "1 passed" in finished.stdout


async def test_the_code_of_the_guide_does_what_it_says(
    config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second run is sent what was said in another session; the test that the page shows passes."""
    for name, value in environment(config()).items():
        monkeypatch.setenv(name, value)
    page = (CHECKOUT / "docs" / "guide" / "openai-agents.md").read_text(encoding="utf-8")
    model = ScriptedModel([[assistant_message("Noted.")], [assistant_message("At the north pier.")]])
    names: dict[str, Any] = {"model": model}

    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        code = compile(block, "openai-agents.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        result = eval(code, names)  # noqa: S307 - the page is our own
        if inspect.iscoroutine(result):
            await result

    assert "The Tuesday ferry lands at the north pier." in str(model.calls[1].input[0])
    async with AgentMem(config()) as memory:
        await names["test_the_agent_is_told_what_the_user_said_before"](memory, "user-2")


def _run(data: Path) -> str:
    settings = {"REMINISCENCE_DATA_DIR": str(data), "REMINISCENCE_CHUNK_PARTITIONS": "4", "PYTHONPATH": str(CHECKOUT)}
    finished = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", str(CHECKOUT / "examples" / "hand_over.py")],
        env=clean_environment() | settings,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert finished.returncode == 0, finished.stderr
    assert complaints(finished.stderr) == ""
    return finished.stdout
