"""The real servers that tests may ask for, each shared by all processes of a test run."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.everyday import refuse_server
from tests.support.neo4j_server import Neo4jServer
from tests.support.ollama_server import OllamaServer
from tests.support.server_process import ServerProcess


@dataclass(frozen=True, slots=True)
class ServerKind:
    """A server that tests may ask for.

    Attributes:
        server: Starts one.
        mark: What tests that need one are marked with; also part of the names of variables.
        settings: What a client has to know of it. The environment names a server by the first, `REMINISCENCE_NEO4J_URI`
            for example, and may have the others.
        fixtures: Tests that ask for one of these need a server.
    """

    server: type[ServerProcess]
    mark: str
    settings: tuple[str, ...]
    fixtures: frozenset[str]

    @property
    def name(self) -> str:
        """What people call it."""
        return self.server.name

    @property
    def reason(self) -> str:
        """Why a test is skipped."""
        return f"needs {self.name}"

    @property
    def variable(self) -> str:
        """The variable that names a server."""
        return f"{self._prefix}{self.settings[0].upper()}"

    @property
    def _prefix(self) -> str:
        return f"REMINISCENCE_{self.mark.upper()}_"

    def take_from_environment(self) -> dict[str, str] | None:
        """Where the server is that the environment names, None if it names none; all its variables are removed."""
        prefix = self._prefix
        taken = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith(prefix)}
        if not taken.get(self.variable):
            return None
        told = {name.removeprefix(prefix).lower(): value for name, value in taken.items()}
        return {setting: told[setting] for setting in self.settings if setting in told}


NEO4J = ServerKind(
    Neo4jServer,
    "neo4j",
    ("uri", "user", "password", "database"),
    frozenset({"startable_neo4j", "neo4j_server", "own_neo4j_server"}),
)
OLLAMA = ServerKind(
    OllamaServer, "ollama", ("url",), frozenset({"startable_ollama", "ollama_url", "own_ollama_server"})
)
KINDS = (NEO4J, OLLAMA)


class SharedServer:
    """What all processes of a test run know: a folder in common, and the server that the environment names, if any."""

    def __init__(self, kind: ServerKind, folder: Path, owner_pid: int, given: dict[str, str] | None) -> None:
        self.kind = kind
        self.given = given
        self._folder = folder
        self._owner_pid = owner_pid
        self._started_here: ServerProcess | None = None

    @classmethod
    def of_this_run(cls, kind: ServerKind) -> SharedServer:
        """For the process that starts the others, with which the server ends."""
        folder = Path(tempfile.mkdtemp(prefix=f"reminiscence-{kind.mark}-"))
        return cls(kind, folder, os.getpid(), kind.take_from_environment())

    @classmethod
    def from_told(cls, kind: ServerKind, told: dict[str, Any]) -> SharedServer:
        """For a process of xdist."""
        return cls(kind, Path(told["folder"]), told["owner_pid"], told["given"])

    def to_tell(self) -> dict[str, Any]:
        """What a process of xdist is told."""
        return {"folder": str(self._folder), "owner_pid": self._owner_pid, "given": self.given}

    def client_settings(self) -> dict[str, str]:
        """Where the server is; started if no process has started it."""
        if self.given is not None:
            return self.given
        file = self._folder / "client_settings.json"
        with self._locked():
            # Written when the server is ready.
            if not file.exists():
                server = self.kind.server(self._folder / "server", owner_pid=self._owner_pid)
                server.start()
                self._started_here = server
                self._pid_file.write_text(str(server.pid))
                server.warm_up()
                file.write_text(json.dumps(server.client_settings))
        client_settings: dict[str, str] = json.loads(file.read_text())
        return client_settings

    def end(self) -> None:
        """End the server if one was started, without asking it, for nobody needs its data; remove the folder."""
        if self._started_here is not None:
            if self._started_here.is_running:
                self._started_here.kill()
        else:
            # Started by another process of xdist, which has ended by now.
            with suppress(FileNotFoundError):
                self.kind.server.end(int(self._pid_file.read_text()))
        # A process that is just being killed may still write for a moment.
        for _ in range(50):
            shutil.rmtree(self._folder, ignore_errors=True)
            if not self._folder.exists():
                return
            time.sleep(0.1)

    def skip_where_not_startable(self) -> None:
        """Skip the test that asks for a server of this kind where none can be started."""
        if self.kind.server.missing():
            pytest.skip(f"{self.kind.reason}: {self.why_not()}")

    def why_not(self) -> str:
        """What is missing to start a server or to find one, separated by commas."""
        missing = self.kind.server.missing()
        if self.given is None:
            missing.append(f"{self.kind.variable} is not set")
        return ", ".join(missing)

    @property
    def _pid_file(self) -> Path:
        """The server's process."""
        return self._folder / "pid"

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One process at a time."""
        with (self._folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


SHARED = pytest.StashKey[dict[str, SharedServer]]()
"""By their marks; in the stash of `pytest.Config`."""


def require_startable(config: pytest.Config, kind: ServerKind) -> None:
    """Skip a test that starts a server where that cannot be done; fail it where it must not."""
    refuse_server(config, kind.mark)
    config.stash[SHARED][kind.mark].skip_where_not_startable()


def shared_client_settings(config: pytest.Config, kind: ServerKind) -> dict[str, str]:
    """Where the server of this run is; skips the test where none can be had."""
    shared = config.stash[SHARED][kind.mark]
    if shared.given is None:
        require_startable(config, kind)
    return shared.client_settings()


@contextmanager
def own_server[S: ServerProcess](server_type: type[S]) -> Iterator[S]:
    """A server that is one test's alone, started, in a folder that is removed."""
    folder = Path(tempfile.mkdtemp(prefix=f"reminiscence-{server_type.name.lower()}-own-"))
    server = server_type(folder)
    try:
        server.start()
        server.warm_up()
        yield server
    finally:
        if server.is_running:
            server.kill()
        shutil.rmtree(folder, ignore_errors=True)
