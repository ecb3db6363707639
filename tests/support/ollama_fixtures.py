"""Fixtures for tests that need a real Ollama; a plugin of `conftest.py`, which is told what did not run, too.

Each test that asks for one of them gets the mark `ollama`; `make test-servers` runs these, `make test` does not. One
that asks while it runs, by `request.getfixturevalue`, has to be given it.

One server serves the whole run, all processes of xdist together, and is started when the first test asks for it; the
first time on a machine it is built, which takes minutes. Another server is used when `REMINISCENCE_OLLAMA_URL` names
it; it has to have the model all-minilm.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.everyday import refuse_server
from tests.support.ollama_server import OllamaServer, end_group, missing_for_ollama

_URL = "REMINISCENCE_OLLAMA_URL"
_REASON = "needs Ollama"
_WORKERINPUT = "reminiscence_ollama"
_MARK = "ollama"
_FIXTURES = {"startable_ollama", "ollama_url", "own_ollama_server"}


class _SharedServer:
    """What all processes of a test run know: a folder in common, and the server that the environment names, if any."""

    def __init__(self, folder: Path, owner_pid: int, given: str | None) -> None:
        self.folder = folder
        self.owner_pid = owner_pid
        self.given = given
        self.started_here: OllamaServer | None = None

    @property
    def url_file(self) -> Path:
        """Written when the server is ready."""
        return self.folder / "url"

    @property
    def pid_file(self) -> Path:
        """The server's process."""
        return self.folder / "pid"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One process at a time."""
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def end(self) -> None:
        """End the server if one was started, without asking it, for nobody needs its data; remove the folder."""
        if self.started_here is not None:
            if self.started_here.is_running:
                self.started_here.kill()
        else:
            # Started by another process of xdist, which has ended by now.
            with suppress(FileNotFoundError):
                end_group(int(self.pid_file.read_text()))
        # A process that is just being killed may still write for a moment.
        for _ in range(50):
            shutil.rmtree(self.folder, ignore_errors=True)
            if not self.folder.exists():
                return
            time.sleep(0.1)


_SHARED = pytest.StashKey[_SharedServer]()


# The run ------------------------------------------------------------------------------------------


def pytest_configure(config: pytest.Config) -> None:
    """Take the variable out of the environment: for a `Config` made by a test it is an unknown setting."""
    config.addinivalue_line(
        "markers", f"{_MARK}: needs a real Ollama; `make test-servers` runs these, `make test` does not"
    )
    workerinput: dict[str, Any] | None = getattr(config, "workerinput", None)
    if workerinput is not None:
        shared = workerinput[_WORKERINPUT]
        config.stash[_SHARED] = _SharedServer(Path(shared["folder"]), shared["owner_pid"], shared["given"])
        return
    folder = Path(tempfile.mkdtemp(prefix="reminiscence-ollama-"))
    config.stash[_SHARED] = _SharedServer(folder, os.getpid(), os.environ.pop(_URL, None) or None)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a process of xdist what all of them share."""
    shared = node.config.stash[_SHARED]
    node.workerinput[_WORKERINPUT] = {
        "folder": str(shared.folder),
        "owner_pid": shared.owner_pid,
        "given": shared.given,
    }


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what asks for a server, before `-m` selects."""
    for item in items:
        if _FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(_MARK)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the server with the run; the process that started it may have ended before."""
    if not hasattr(config, "workerinput") and (shared := config.stash.get(_SHARED, None)) is not None:
        shared.end()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None]:
    """Say what did not run for want of an Ollama, behind everything else."""
    yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    count = sum(_REASON in str(report.longrepr) for report in reporter.stats.get("skipped", []))
    if count:
        tests = "1 test that needs" if count == 1 else f"{count} tests that need"
        reporter.write_line(f"not run: {tests} Ollama ({_why_not(session.config)})", yellow=True)


def _why_not(config: pytest.Config) -> str:
    missing = missing_for_ollama()
    if config.stash[_SHARED].given is None:
        missing.append(f"{_URL} is not set")
    return ", ".join(missing)


# Fixtures -----------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def startable_ollama(pytestconfig: pytest.Config) -> None:
    """Skips a test that starts an `OllamaServer` of its own where that cannot be done."""
    _skip_without_ollama(pytestconfig)


@pytest.fixture(scope="session")
def ollama_url(pytestconfig: pytest.Config) -> str:
    """Where an Ollama with the model all-minilm is, shared by all tests; skips the test where none can be had."""
    shared = pytestconfig.stash[_SHARED]
    if shared.given is not None:
        return shared.given
    _skip_without_ollama(pytestconfig)
    with shared.locked():
        if not shared.url_file.exists():
            server = OllamaServer(shared.folder / "server", owner_pid=shared.owner_pid)
            server.start()
            shared.started_here = server
            shared.pid_file.write_text(str(server.pid))
            shared.url_file.write_text(server.url)
    return shared.url_file.read_text()


@pytest.fixture
def own_ollama_server(startable_ollama: None) -> Iterator[OllamaServer]:
    """A server that is this test's alone, started: it may be stopped, killed and frozen."""
    folder = Path(tempfile.mkdtemp(prefix="reminiscence-ollama-own-"))
    server = OllamaServer(folder)
    try:
        server.start()
        yield server
    finally:
        if server.is_running:
            server.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _skip_without_ollama(config: pytest.Config) -> None:
    refuse_server(config, "ollama")
    if missing_for_ollama():
        pytest.skip(f"{_REASON}: {_why_not(config)}")
