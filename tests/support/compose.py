"""docker-compose.yml and the Dockerfile, read as Docker Compose reads them, and their services run without Docker."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import CHECKOUT
from tests.support.server_process import SCRIPTS

_SCRIPT = SCRIPTS / "compose.sh"
_INSTRUCTION = re.compile(r"^(ENTRYPOINT|CMD) (\[.*\])$", re.MULTILINE)


def require_compose() -> None:
    """Skip the test that asks where compose-go is not there and cannot be built."""
    if shutil.which("go") is None and subprocess.run([_SCRIPT, "fetch"], check=False, capture_output=True).returncode:
        pytest.skip("needs compose-go: no go")


@dataclass(frozen=True, slots=True)
class Stack:
    """The services of docker-compose.yml with the variables of one `.env` and one `memory.env`.

    Attributes:
        services: By name, as compose-go resolves them.
        configs: By name.
        addresses: Where the servers are that the services know by name, such as `postgres:5432`.
    """

    services: Mapping[str, Any]
    configs: Mapping[str, Any]
    addresses: Mapping[str, str]

    @classmethod
    def resolve(
        cls, folder: Path, *, env: Mapping[str, str], memory_env: Mapping[str, str], addresses: Mapping[str, str]
    ) -> Stack:
        """Copy the file to `folder`, write both env files beside it as a user does, and read them."""
        shutil.copy(CHECKOUT / "docker-compose.yml", folder)
        example = (CHECKOUT / ".env.example").read_text(encoding="utf-8")
        for name, value in env.items():
            example, filled = re.subn(rf"^{name}=.*$", f"{name}={value}", example, flags=re.MULTILINE)
            assert filled == 1, f".env.example does not name {name}"
        (folder / ".env").write_text(example, encoding="utf-8")
        lines = "".join(f"{name}={value}\n" for name, value in memory_env.items())
        (folder / "memory.env").write_text(lines, encoding="utf-8")
        said = subprocess.run([_SCRIPT, "resolve", folder], check=False, capture_output=True, text=True)
        assert said.returncode == 0, said.stderr
        project = json.loads(said.stdout)
        return cls(project["services"], project["configs"], addresses)

    def environment(self, service: str) -> dict[str, str]:
        """What a service has in its environment, with the servers' addresses here, and nothing of ours besides."""
        return _outer() | {name: self._here(value) for name, value in self.services[service]["environment"].items()}

    def _here(self, value: str) -> str:
        for name, address in self.addresses.items():
            value = value.replace(name, address)
        return value

    def words(self, service: str, *other: str) -> list[str]:
        """What a service runs: the image's program with the service's command or `other`, as `run` has it."""
        image = {name: json.loads(words) for name, words in _INSTRUCTION.findall(_dockerfile())}
        [program] = image["ENTRYPOINT"]
        return [
            str(Path(sys.executable).with_name(program)),
            *(other or self.services[service].get("command") or image["CMD"]),
        ]

    def run(self, service: str, *other: str) -> str:
        """Run a service that ends, and return what it wrote to standard output."""
        said = subprocess.run(
            self.words(service, *other),
            env=self.environment(service),
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert said.returncode == 0, said.stderr
        return said.stdout


def bare_environment(**variables: str) -> dict[str, str]:
    """An environment with these variables and none of ours."""
    return _outer() | variables


def _outer() -> dict[str, str]:
    # What a container has of its own, and where the checkout's code is.
    return {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ} | {"PYTHONPATH": str(CHECKOUT)}


def _dockerfile() -> str:
    return (CHECKOUT / "Dockerfile").read_text(encoding="utf-8").rpartition("\nFROM ")[2]
