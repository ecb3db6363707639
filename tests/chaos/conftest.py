"""Tests that try to break promises by force of numbers: few repetitions in `make test-thorough`, many in `make chaos`.

`make test` runs the first case of those that a promise of the README names, and of those that kill: with fewer
repetitions still where that takes long. The other modules are marked `thorough`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent_reminiscence.database.postgres_manager import PostgresManager
from tests.support.chaos.killing import kill_server

_HERE = f"{Path(__file__).parent}/"


@dataclass(frozen=True, slots=True)
class Repetitions:
    """How often a test repeats what it tries."""

    is_full: bool
    is_everyday: bool

    def __call__(self, *, reduced: int, full: int, everyday: int | None = None) -> int:
        """`reduced`, or `full` with `--full-chaos`, or `everyday` with `--everyday`; None is `reduced`."""
        if self.is_full:
            return full
        return everyday if self.is_everyday and everyday is not None else reduced


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is in this folder, before `-m` selects."""
    for item in items:
        # A text, because comparing the parts of thousands of paths takes a second.
        if str(item.path).startswith(_HERE):
            item.add_marker("chaos")


@pytest.fixture(scope="session")
def repetitions(pytestconfig: pytest.Config) -> Repetitions:
    """Chooses between the numbers of `make test`, of `make test-thorough` and of `make chaos`."""
    return Repetitions(
        is_full=bool(pytestconfig.getoption("--full-chaos")), is_everyday=bool(pytestconfig.getoption("--everyday"))
    )


@pytest.fixture
def attentive_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that notices at once, and not within a second, that nobody waits for a statement any more."""
    local = PostgresManager._local

    def attentive(self: PostgresManager, external_id: str, role: str, *, read_only: bool) -> dict[str, str]:
        return local(self, external_id, role, read_only=read_only) | {"client_connection_check_interval": "20ms"}

    monkeypatch.setattr(PostgresManager, "_local", attentive)


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A data folder whose server may be killed; fsync is on as it always is, though a SIGKILL does not need it.

    What a killed process has written is in the kernel's cache and reaches the disk all the same; fsync is for a
    machine that loses its power, which no test here can do.
    """
    folder = Path(tempfile.mkdtemp(prefix="reminiscence-killed-"))
    yield folder
    kill_server(folder)
    shutil.rmtree(folder, ignore_errors=True)
