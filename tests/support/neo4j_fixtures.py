"""Fixtures for tests that need a real Neo4j; a plugin of `conftest.py`, which is told what did not run, too.

Each test that asks for one of them gets the mark `neo4j`; `make test-servers` runs these, `make test` does not. One
that asks while it runs, by `request.getfixturevalue`, has to be given it.

One server serves the whole run, all processes of xdist together, and is started when the first test asks for it. Tests
share it, so each uses an `external_id` of its own. Another server is used when `REMINISCENCE_NEO4J_URI` names it.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import tempfile
import time
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from neo4j import Driver, GraphDatabase

from tests.support.everyday import refuse_server
from tests.support.neo4j_server import Neo4jAddress, Neo4jServer, missing_for_neo4j

_PREFIX = "REMINISCENCE_NEO4J_"
_URI = f"{_PREFIX}URI"
_REASON = "needs Neo4j"
_WORKERINPUT = "reminiscence_neo4j"
_MARK = "neo4j"
_FIXTURES = {"startable_neo4j", "neo4j_server", "own_neo4j_server"}


class _SharedServer:
    """What all processes of a test run know: a folder in common, and the server that the environment names, if any."""

    def __init__(self, folder: Path, owner_pid: int, given: Neo4jAddress | None) -> None:
        self.folder = folder
        self.owner_pid = owner_pid
        self.given = given
        self.started_here: Neo4jServer | None = None

    @property
    def address_file(self) -> Path:
        """Written when the server is ready."""
        return self.folder / "address.json"

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
            with suppress(FileNotFoundError, ProcessLookupError):
                os.kill(int(self.pid_file.read_text()), signal.SIGKILL)
        # A process that is just being killed may still write for a moment.
        for _ in range(50):
            shutil.rmtree(self.folder, ignore_errors=True)
            if not self.folder.exists():
                return
            time.sleep(0.1)


_SHARED = pytest.StashKey[_SharedServer]()


# The run ------------------------------------------------------------------------------------------


def pytest_configure(config: pytest.Config) -> None:
    """Take the variables out of the environment: a `Config` made by a test must not find a Neo4j there."""
    config.addinivalue_line(
        "markers", f"{_MARK}: needs a real Neo4j; `make test-servers` runs these, `make test` does not"
    )
    workerinput: dict[str, Any] | None = getattr(config, "workerinput", None)
    if workerinput is not None:
        shared = workerinput[_WORKERINPUT]
        given = None if shared["given"] is None else Neo4jAddress(**shared["given"])
        config.stash[_SHARED] = _SharedServer(Path(shared["folder"]), shared["owner_pid"], given)
        return
    folder = Path(tempfile.mkdtemp(prefix="reminiscence-neo4j-"))
    config.stash[_SHARED] = _SharedServer(folder, os.getpid(), _take_from_environment())


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a process of xdist what all of them share."""
    shared = node.config.stash[_SHARED]
    node.workerinput[_WORKERINPUT] = {
        "folder": str(shared.folder),
        "owner_pid": shared.owner_pid,
        "given": None if shared.given is None else asdict(shared.given),
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
    """Say what did not run for want of a Neo4j, behind everything else."""
    yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    count = sum(_REASON in str(report.longrepr) for report in reporter.stats.get("skipped", []))
    if count:
        tests = "1 test that needs" if count == 1 else f"{count} tests that need"
        reporter.write_line(f"not run: {tests} Neo4j ({_why_not(session.config)})", yellow=True)


def _take_from_environment() -> Neo4jAddress | None:
    taken = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith(_PREFIX)}
    if not (uri := taken.get(_URI)):
        return None
    return Neo4jAddress(
        uri,
        taken.get(f"{_PREFIX}USER", "neo4j"),
        taken.get(f"{_PREFIX}PASSWORD", ""),
        taken.get(f"{_PREFIX}DATABASE", "neo4j"),
    )


def _why_not(config: pytest.Config) -> str:
    missing = missing_for_neo4j()
    if config.stash[_SHARED].given is None:
        missing.append(f"{_URI} is not set")
    return ", ".join(missing)


# Fixtures -----------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def startable_neo4j(pytestconfig: pytest.Config) -> None:
    """Skips a test that starts a `Neo4jServer` of its own where that cannot be done."""
    _skip_without_neo4j(pytestconfig)


@pytest.fixture(scope="session")
def neo4j_server(pytestconfig: pytest.Config) -> Neo4jAddress:
    """A Neo4j for this run, with authentication on, shared by all tests; skips the test where none can be had."""
    shared = pytestconfig.stash[_SHARED]
    if shared.given is not None:
        return shared.given
    _skip_without_neo4j(pytestconfig)
    with shared.locked():
        if not shared.address_file.exists():
            server = Neo4jServer(shared.folder / "server", owner_pid=shared.owner_pid)
            server.start()
            shared.started_here = server
            shared.pid_file.write_text(str(server.pid))
            _warm_up(server.address)
            shared.address_file.write_text(json.dumps(asdict(server.address)))
    return Neo4jAddress(**json.loads(shared.address_file.read_text()))


@pytest.fixture
def own_neo4j_server(startable_neo4j: None) -> Iterator[Neo4jServer]:
    """A server that is this test's alone, started and empty: it may be stopped, killed, frozen and wiped."""
    folder = Path(tempfile.mkdtemp(prefix="reminiscence-neo4j-own-"))
    server = Neo4jServer(folder)
    try:
        server.start()
        _warm_up(server.address)
        yield server
    finally:
        if server.is_running:
            server.kill()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def new_neo4j_tenant(neo4j_server: Neo4jAddress) -> Iterator[Callable[[], str]]:
    """Makes an `external_id` that nobody else uses on the shared server; all that is stored under it is removed."""
    tenants: list[str] = []

    def make() -> str:
        tenants.append(f"test-{uuid.uuid4()}")
        return tenants[-1]

    yield make
    if tenants:
        with _driver(neo4j_server) as driver:
            driver.execute_query(
                "MATCH (node) WHERE node.external_id IN $tenants DETACH DELETE node",
                tenants=tenants,
                database_=neo4j_server.database,
            )


@pytest.fixture
def neo4j_tenant(new_neo4j_tenant: Callable[[], str]) -> str:
    """One `external_id` of this test's own on the shared server."""
    return new_neo4j_tenant()


def _skip_without_neo4j(config: pytest.Config) -> None:
    refuse_server(config, "neo4j")
    if missing_for_neo4j():
        pytest.skip(f"{_REASON}: {_why_not(config)}")


def _driver(address: Neo4jAddress) -> Driver:
    return GraphDatabase.driver(address.uri, auth=(address.user, address.password), telemetry_disabled=True)


def _warm_up(address: Neo4jAddress) -> None:
    """A JVM's first queries take seconds, which no test's own timeout should have to know of."""
    with _driver(address) as driver:
        driver.execute_query(
            "CREATE (first:WarmUp)-[edge:WARMS_UP]->(second:WarmUp) WITH first, second DETACH DELETE first, second",
            database_=address.database,
        )
        driver.execute_query("MATCH (node:WarmUp)--(other) RETURN other LIMIT 1", database_=address.database)
