"""Runs the scripts in examples/ as a reader runs them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Final

from agent_reminiscence import AgentMem, Config
from tests.support.command_line import CHECKOUT, clean_environment, complaints

EXAMPLES: Final = CHECKOUT / "examples"
# Fewer than the default only to be quick: each takes a while to make.
_PARTITIONS: Final = 4


@contextmanager
def new_data_dir() -> Iterator[Path]:
    """A data folder with a memory that stays open, so that no example has to start and stop its server.

    It is not pytest's own, which the server's user may not enter.
    """
    with tempfile.TemporaryDirectory(prefix="rem-examples-") as folder, asyncio.Runner() as runner:
        memory = AgentMem(Config(data_dir=Path(folder) / "data", chunk_partitions=_PARTITIONS, worker=False))
        runner.run(memory.initialize())
        yield Path(folder) / "data"
        runner.run(memory.close())


def load_example(name: str) -> Any:
    """A script as a module, for tests that call its functions."""
    spec = spec_from_file_location(name.removesuffix(".py"), EXAMPLES / name)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_example(script: Path, data_dir: Path, settings: Mapping[str, str] | None = None) -> str:
    """Run a script over the memories in a data folder; returns what it wrote, and it must not complain of anything."""
    finished = finish_example(script, data_dir, settings)
    assert complaints(finished.stderr) == ""
    return finished.stdout


def finish_example(
    script: Path, data_dir: Path, settings: Mapping[str, str] | None = None, *, timeout_seconds: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run a script over the memories in a data folder; it must end without an error."""
    finished = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", str(script)],
        env=clean_environment()
        | {
            "REMINISCENCE_DATA_DIR": str(data_dir),
            "REMINISCENCE_CHUNK_PARTITIONS": str(_PARTITIONS),
            "PYTHONPATH": str(CHECKOUT),
        }
        | dict(settings or {}),
        cwd=data_dir.parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_seconds,
    )
    assert finished.returncode == 0, finished.stderr
    return finished
