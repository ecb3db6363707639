"""Tests that try to break promises by force of numbers: few repetitions in `make test`, many in `make chaos`."""

from __future__ import annotations

from dataclasses import dataclass

import pytest


@dataclass(frozen=True, slots=True)
class Repetitions:
    """How often a test repeats what it tries."""

    is_full: bool

    def __call__(self, *, reduced: int, full: int) -> int:
        """`reduced` in every test run, `full` with `--full-chaos`."""
        return full if self.is_full else reduced


@pytest.fixture(scope="session")
def repetitions(pytestconfig: pytest.Config) -> Repetitions:
    """Chooses between the numbers of `make test` and of `make chaos`."""
    return Repetitions(is_full=bool(pytestconfig.getoption("--full-chaos")))
