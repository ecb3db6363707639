"""The plugins that watch over the tests: what a hanging test says, and what a test is said to cost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

_ROOT = Path(__file__).parents[3]


def _run_pytest(folder: Path, tests: str, plugin: str, *arguments: str) -> str:
    """Run tests with one of our plugins, in a process of their own; returns what it prints."""
    (folder / "test_example.py").write_text(dedent(tests), encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", f"tests.support.{plugin}", "-p", "no:cacheprovider", *arguments]
    return subprocess.run([*command, str(folder)], cwd=_ROOT, check=False, capture_output=True, text=True).stdout


@pytest.mark.thorough
def test_a_test_that_hangs_fails_by_name_and_says_what_its_tasks_wait_for(tmp_path: Path) -> None:
    """A run once stood still at 99 % for ever, and nobody could tell why."""
    printed = _run_pytest(
        tmp_path,
        """
        import asyncio

        async def wait_for_an_event_that_never_comes():
            await asyncio.Event().wait()

        async def test_hangs():
            await asyncio.create_task(wait_for_an_event_that_never_comes(), name="the listener")

        def test_goes_on():
            pass
        """,
        "hangs",
        "--timeout=1",
    )

    assert "1 failed, 1 passed" in printed
    assert "FAILED" in printed
    assert "test_example.py::test_hangs" in printed
    tasks = printed.partition("Tasks at the timeout")[2]
    assert "the listener" in tasks
    assert "await asyncio.Event().wait()" in tasks


@pytest.mark.thorough
def test_a_test_costs_what_it_and_its_processes_compute_and_no_shared_fixture(tmp_path: Path) -> None:
    """Waiting costs nothing, and the first user of a shared fixture does not pay for it."""
    file = tmp_path / "costs.json"
    _run_pytest(
        tmp_path,
        """
        import subprocess, sys, time
        import pytest

        COMPUTE = "import time\\nwhile time.process_time() < 1: pass"

        @pytest.fixture(scope="module")
        def shared():
            subprocess.run([sys.executable, "-c", COMPUTE], check=True)

        def test_waits(shared):
            time.sleep(1)

        @pytest.mark.promise
        def test_starts_a_process():
            subprocess.run([sys.executable, "-c", COMPUTE], check=True)
        """,
        "costs",
        f"--costs={file}",
    )

    told = json.loads(file.read_text(encoding="utf-8"))
    seconds = {test.partition("::")[2]: cost for test, cost in told["seconds"].items()}
    assert seconds["test_waits"] < 0.9
    assert seconds["test_starts_a_process"] >= 0.9
    assert [test.partition("::")[2] for test in told["promises"]] == ["test_starts_a_process"]
