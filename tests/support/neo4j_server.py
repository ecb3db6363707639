"""A real Neo4j for tests, on this machine and without Docker: `tests/servers/neo4j.sh` as an object."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

_SCRIPT = Path(__file__).parents[1] / "servers" / "neo4j.sh"
_POM = Path(__file__).parents[1] / "servers" / "pom.xml"
_LOWEST_JAVA = 17
_FETCH_SECONDS = 600
_START_SECONDS = 120
_STOP_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Neo4jAddress:
    """Where a Neo4j is, and who may use it."""

    uri: str
    user: str
    password: str
    database: str = "neo4j"


class Neo4jServer:
    """A server in a folder and on a port of its own, which may be stopped, killed, frozen, emptied and started again.

    Its methods block; a test that awaits calls them in a thread. It ends with the process that made this object.

    Args:
        folder: Where its data and its log are; made where it is missing.
        port: Where it listens on 127.0.0.1; by default a port that is free now, the same at every start.
        heap_mb: Heap of its JVM, in MiB.
        page_cache_mb: Page cache, in MiB.
        is_measured: Whether Java is to work as it does in a deployment. A start then takes twice the processor time.
        owner_pid: Process with which the server ends, even one that is killed; by default this one.
    """

    user = "neo4j"
    database = "neo4j"

    def __init__(
        self,
        folder: Path,
        *,
        port: int | None = None,
        heap_mb: int = 512,
        page_cache_mb: int = 64,
        is_measured: bool = False,
        owner_pid: int | None = None,
    ) -> None:
        self.folder = folder
        self.port = port or _free_port()
        self.password = secrets.token_hex(16)
        self._settings = {
            "PASSWORD": self.password,
            "OWNER_PID": str(owner_pid or os.getpid()),
            "HEAP_MB": str(heap_mb),
            "PAGE_CACHE_MB": str(page_cache_mb),
        }
        if is_measured:
            self._settings["JAVA_FLAGS"] = ""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        """For a driver; it stays the same over restarts."""
        return f"bolt://127.0.0.1:{self.port}"

    @property
    def address(self) -> Neo4jAddress:
        """All that a driver needs."""
        return Neo4jAddress(self.uri, self.user, self.password, self.database)

    @property
    def pid(self) -> int:
        """The running server's process."""
        return self._running().pid

    @property
    def is_running(self) -> bool:
        """Whether there is a process; a frozen one counts."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, and return when it accepts connections: after some 6 seconds, 8 with an empty folder.

        Raises:
            RuntimeError: It ended or was not there in time; the message has the end of its log.
        """
        if self.is_running:
            raise RuntimeError("this server is running already")
        fetch_neo4j()
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [_SCRIPT, "run", self.folder, str(self.port)],
                env=os.environ | self._settings,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Out of reach of the Ctrl-C that ends the tests: they may still need it to clean up.
                start_new_session=True,
            )
        self._wait_until_started(self._process)

    def stop(self) -> None:
        """Stop it in an orderly way (SIGTERM), and return when its process is gone. Nothing if it is not running."""
        if not self.is_running:
            return
        process = self._running()
        # A frozen process would not see the signal.
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it at once (SIGKILL), also while it is frozen, and return when its process is gone."""
        process = self._running()
        process.kill()
        process.wait()

    def freeze(self) -> None:
        """Let it answer nobody, with its connections open and its port still accepting new ones (SIGSTOP)."""
        self._running().send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen server go on (SIGCONT)."""
        self._running().send_signal(signal.SIGCONT)

    def wipe(self) -> None:
        """Remove all data of a server that is not running; the next start finds none, and has the same password."""
        if self.is_running:
            raise RuntimeError("a running server cannot be wiped; stop it first")
        shutil.rmtree(self.folder / "data", ignore_errors=True)

    @property
    def _log(self) -> Path:
        return self.folder / "server.log"

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            raise RuntimeError("this server is not running")
        return self._process

    def _wait_until_started(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not re.search(rb" Started\.$", self._log.read_bytes(), re.MULTILINE):
            if process.poll() is not None:
                raise RuntimeError(f"Neo4j ended with {process.returncode} while it started:\n{self._last_lines()}")
            if time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"Neo4j did not start within {_START_SECONDS} s:\n{self._last_lines()}")
            time.sleep(0.05)

    def _last_lines(self) -> str:
        return "\n".join(self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:])


def missing_for_neo4j() -> list[str]:
    """What is not here that a `Neo4jServer` needs; empty where one can be started."""
    missing = []
    java = shutil.which("java")
    if java is None:
        missing.append("no java")
    elif (version := _java_version(java)) < _LOWEST_JAVA:
        missing.append(f"java is {version} and has to be {_LOWEST_JAVA} or later")
    if shutil.which("mvn") is None and not (_jars() / ".complete").exists():
        missing.append("no mvn")
    return missing


def fetch_neo4j() -> None:
    """Fetch the jars where they are not there: 118 MB, once.

    Raises:
        RuntimeError: Maven could not; the message has what it said.
    """
    try:
        subprocess.run([_SCRIPT, "fetch"], check=True, capture_output=True, text=True, timeout=_FETCH_SECONDS)
    except subprocess.CalledProcessError as error:
        raise RuntimeError(f"Maven could not fetch Neo4j:\n{error.stderr}") from error
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"Maven did not fetch Neo4j within {_FETCH_SECONDS} s") from error


def _jars() -> Path:
    """The folder that `neo4j.sh fetch` fills."""
    found = re.search(r"<neo4j\.version>(.+?)</neo4j\.version>", _POM.read_text(encoding="utf-8"))
    assert found is not None
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "agent-reminiscence" / f"neo4j-community-{found[1]}"


def _java_version(java: str) -> int:
    """The major version, 0 where it cannot be told."""
    said = subprocess.run([java, "-version"], check=False, capture_output=True, text=True).stderr
    found = re.search(r'version "(\d+)', said)
    return int(found[1]) if found else 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
