"""Runs commands of the command line, in this process and as a program of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent_reminiscence import Config
from agent_reminiscence.cli import ADMIN_DSN_VARIABLE, run


class CommandLine:
    """Runs commands in this process, on this test's database."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.code = 0
        self.out = ""
        self.err = ""

    def __call__(self, *words: str | Path) -> str:
        """Run a command; returns what it wrote to standard output."""
        self.code = run([str(word) for word in words])
        self.out, self.err = self._capsys.readouterr()
        return self.out

    def json(self, *words: str | Path) -> Any:
        """Run a command with `--json`; returns its one document."""
        return json.loads(self(*words, "--json"))

    def json_lines(self, *words: str | Path) -> list[Any]:
        """Run a command with `--json`; returns its documents, one a line."""
        return [json.loads(line) for line in self(*words, "--json").splitlines()]


def command_line(settings: Config, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """The command line with the place of `settings` in the environment."""
    for name, value in environment(settings).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv(ADMIN_DSN_VARIABLE, raising=False)
    return CommandLine(capsys)


def environment(settings: Config) -> dict[str, str]:
    """The variables that lead a program to the place of `settings`."""
    assert settings.postgres_dsn is not None
    return {
        "REMINISCENCE_POSTGRES_DSN": settings.postgres_dsn.get_secret_value(),
        "REMINISCENCE_EMBEDDING_PROVIDER": settings.embedding_provider,
        "REMINISCENCE_EMBEDDING_DIMENSION": str(settings.embedding_dimension),
    }


def program(
    *words: str | Path,
    standard_input: bytes = b"",
    settings: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run a command as a program of its own, with no settings but these; `folder` is where, the checkout by default."""
    return subprocess.run(
        [sys.executable, "-m", "agent_reminiscence.cli", *words],
        env=clean_environment() | {"PYTHONPATH": str(CHECKOUT)} | dict(settings or {}),
        cwd=folder or CHECKOUT,
        input=standard_input,
        capture_output=True,
        check=False,
        timeout=120,
    )


def complaints(stderr: bytes | str) -> str:
    """What a program wrote to standard error, without the line that a slow start of the embedded server is worth."""
    text = stderr if isinstance(stderr, str) else stderr.decode(errors="replace")
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(_SLOW_START))


def clean_environment() -> dict[str, str]:
    """The environment without settings of ours."""
    return {name: value for name, value in os.environ.items() if not name.startswith("REMINISCENCE_")}


CHECKOUT = Path(__file__).parents[2]
_SLOW_START = "agent_reminiscence: still starting the embedded server in "
