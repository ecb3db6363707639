"""A real server for tests, on this machine and without Docker: a script of `tests/servers` as an object."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

SCRIPTS = Path(__file__).parents[1] / "servers"
_START_SECONDS = 120


class ServerProcess(ABC):
    """A server on a port of its own, which may be stopped, killed, frozen and started again.

    Its methods block; a test that awaits calls them in a thread. It ends with the process that made this object.

    Args:
        folder: Where it works and its log is; made where it is missing.
        port: Where it listens on 127.0.0.1; by default a port that is free now, the same at every start.
        owner_pid: Process with which the server ends, even one that is killed; by default this one.
        settings: Variables for the script, besides those that every call of it gets.
    """

    name: ClassVar[str]
    script: ClassVar[Path]
    # What the first run of the script does with what it needs, and how long that may take.
    made: ClassVar[str]
    make_seconds: ClassVar[float]
    stop_seconds: ClassVar[float]
    # Whether it starts processes of its own, which have to stop, go on and end with it.
    is_group: ClassVar[bool] = False
    # Variables for every call of the script.
    environment: ClassVar[Mapping[str, str]] = {}

    def __init__(
        self,
        folder: Path,
        *,
        port: int | None = None,
        owner_pid: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.port = port or free_port()
        self._settings = {"OWNER_PID": str(owner_pid or os.getpid()), **(settings or {})}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    @abstractmethod
    def client_settings(self) -> dict[str, str]:
        """What a client has to know, as JSON can hold it; it stays the same over restarts."""

    @classmethod
    @abstractmethod
    def missing(cls) -> list[str]:
        """What is not here that the server needs; empty where one can be started, perhaps after it is made."""

    @abstractmethod
    def _is_ready(self) -> bool:
        """Whether it serves by now."""

    @property
    def pid(self) -> int:
        """The running server's process, which leads a group of its own."""
        return self._running().pid

    @property
    def is_running(self) -> bool:
        """Whether there is a process; a frozen one counts."""
        return self._process is not None and self._process.poll() is None

    @classmethod
    def make(cls) -> None:
        """Fetch or build what the server needs where it is not there; once on a machine.

        Raises:
            RuntimeError: That failed; the message has the end of what was said.
        """
        try:
            subprocess.run(
                [cls.script, "fetch"],
                env=os.environ | cls.environment,
                check=True,
                capture_output=True,
                text=True,
                timeout=cls.make_seconds,
            )
        except subprocess.CalledProcessError as error:
            raise RuntimeError(f"{cls.name} could not be {cls.made}:\n{error.stderr[-4_000:]}") from error
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(f"{cls.name} was not {cls.made} within {cls.make_seconds} s") from error

    def start(self) -> None:
        """Start it, and return when it serves.

        Raises:
            RuntimeError: It ended or was not there in time; the message has the end of its log.
        """
        if self.is_running:
            raise RuntimeError("this server is running already")
        self.make()
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [self.script, "run", self.folder, str(self.port)],
                env=os.environ | self.environment | self._settings,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Out of reach of the Ctrl-C that ends the tests: they may still need it to clean up.
                start_new_session=True,
            )
        self._wait_until_ready(self._process)

    def warm_up(self) -> None:  # noqa: B027 - most have nothing to do
        """Do what makes a server's first answers slow, which no test's own timeout should have to know of."""

    def stop(self) -> None:
        """Stop it in an orderly way (SIGTERM), and return when its process is gone. Nothing if it is not running."""
        if not self.is_running:
            return
        process = self._running()
        # A frozen process would not see the signal.
        self.thaw()
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(self.stop_seconds)
        if self.is_group or process.returncode is None:
            self.end(process.pid)
        process.wait()

    def kill(self) -> None:
        """End it at once (SIGKILL), also while it is frozen, and return when its process is gone."""
        process = self._running()
        self.end(process.pid)
        process.wait()

    def freeze(self) -> None:
        """Let it answer nobody, with its connections open and its port still accepting new ones (SIGSTOP)."""
        self._signal(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen server go on (SIGCONT)."""
        self._signal(self.pid, signal.SIGCONT)

    @classmethod
    def end(cls, pid: int) -> None:
        """Kill the server with this process id, even if another process started it. Does nothing if it has ended."""
        with suppress(ProcessLookupError, PermissionError):
            cls._signal(pid, signal.SIGKILL)

    @classmethod
    def _signal(cls, pid: int, number: signal.Signals) -> None:
        if cls.is_group:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)

    @property
    def _log(self) -> Path:
        return self.folder / "server.log"

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            raise RuntimeError("this server is not running")
        return self._process

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not self._is_ready():
            if process.poll() is not None:
                raise RuntimeError(
                    f"{self.name} ended with {process.returncode} while it started:\n{self._last_lines()}"
                )
            if time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"{self.name} did not start within {_START_SECONDS} s:\n{self._last_lines()}")
            time.sleep(0.05)

    def _last_lines(self) -> str:
        return "\n".join(self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:])


def free_port() -> int:
    """A port of this machine on which nothing listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
