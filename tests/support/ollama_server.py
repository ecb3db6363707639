"""A real Ollama for tests, on this machine and without Docker: `tests/servers/ollama.sh` as an object."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import httpx

OLLAMA_MODEL = "all-minilm"
OLLAMA_DIMENSION = 384

_SCRIPT = Path(__file__).parents[1] / "servers" / "ollama.sh"
_FETCH_SECONDS = 2_400
_START_SECONDS = 120
_STOP_SECONDS = 30


class OllamaServer:
    """A server on a port of its own, which may be stopped, killed, frozen and started again.

    Its methods block; a test that awaits calls them in a thread. It ends with the process that made this object.

    Args:
        folder: Its home, with its log; made where it is missing.
        owner_pid: Process with which the server ends, even one that is killed; by default this one.
    """

    def __init__(self, folder: Path, *, owner_pid: int | None = None) -> None:
        self.folder = folder
        self.port = _free_port()
        self._owner_pid = owner_pid or os.getpid()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """For a client; it stays the same over restarts."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The running server's process, which leads a group of its own."""
        return self._running().pid

    @property
    def is_running(self) -> bool:
        """Whether there is a process; a frozen one counts."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, and return when it answers: after a second.

        Raises:
            RuntimeError: It ended or was not there in time; the message has the end of its log.
        """
        if self.is_running:
            raise RuntimeError("this server is running already")
        fetch_ollama()
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [_SCRIPT, "run", self.folder, str(self.port)],
                env=_environment() | {"OWNER_PID": str(self._owner_pid)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Out of reach of the Ctrl-C that ends the tests, and one group with the processes of loaded models.
                start_new_session=True,
            )
        self._wait_until_started(self._process)

    def stop(self) -> None:
        """Stop it in an orderly way (SIGTERM), and return when its process is gone. Nothing if it is not running."""
        if not self.is_running:
            return
        process = self._running()
        self.thaw()
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_SECONDS)
        end_group(process.pid)
        process.wait()

    def kill(self) -> None:
        """End it and its models at once (SIGKILL), also while they are frozen, and return when its process is gone."""
        process = self._running()
        end_group(process.pid)
        process.wait()

    def freeze(self) -> None:
        """Let it answer nobody, with its port still accepting connections (SIGSTOP)."""
        os.killpg(self._running().pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen server go on (SIGCONT)."""
        os.killpg(self._running().pid, signal.SIGCONT)

    @property
    def _log(self) -> Path:
        return self.folder / "server.log"

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            raise RuntimeError("this server is not running")
        return self._process

    def _wait_until_started(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            if process.poll() is not None:
                raise RuntimeError(f"Ollama ended with {process.returncode} while it started:\n{self._last_lines()}")
            if time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"Ollama did not start within {_START_SECONDS} s:\n{self._last_lines()}")
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/api/version", timeout=5, trust_env=False).is_success
        except httpx.TransportError:
            return False

    def _last_lines(self) -> str:
        return "\n".join(self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:])


def end_group(pid: int) -> None:
    """Kill a server and the processes of its models; nothing where they have ended."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def missing_for_ollama() -> list[str]:
    """What is not here that an `OllamaServer` needs; empty where one can be started, perhaps after a build."""
    try:
        return subprocess.run(
            [_SCRIPT, "missing"], env=_environment(), check=True, capture_output=True, text=True
        ).stdout.splitlines()
    except OSError as error:
        return [f"no bash ({error})"]


def fetch_ollama() -> None:
    """Build the server and import the model where they are not there: some 10 minutes, once.

    Raises:
        RuntimeError: That failed; the message has the end of what was said.
    """
    try:
        subprocess.run(
            [_SCRIPT, "fetch"], env=_environment(), check=True, capture_output=True, text=True, timeout=_FETCH_SECONDS
        )
    except subprocess.CalledProcessError as error:
        raise RuntimeError(f"Ollama could not be built:\n{error.stderr[-4_000:]}") from error
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"Ollama was not built within {_FETCH_SECONDS} s") from error


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHON": sys.executable}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
