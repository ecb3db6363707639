"""The Neo4j that the other tests rely on: `tests/support/neo4j_server.py` and its fixtures."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from neo4j import Driver, GraphDatabase
from neo4j.exceptions import AuthError, ServiceUnavailable

from agent_reminiscence import Config
from tests.support.neo4j_server import Neo4jAddress, Neo4jServer

_ROOT = Path(__file__).parents[3]
# "May we speak version 5.8 to 5.0, or 4.4?"
_BOLT_HANDSHAKE = bytes.fromhex("6060b017 00080805 00000404 00000000 00000000")


def _driver(address: Neo4jAddress, password: str | None = None) -> Driver:
    return GraphDatabase.driver(
        address.uri, auth=(address.user, password or address.password), connection_timeout=2, telemetry_disabled=True
    )


def _count(server: Neo4jServer) -> int:
    with _driver(server.address) as driver:
        count: int = driver.execute_query("MATCH (thing:Thing) RETURN count(thing) AS count").records[0]["count"]
        return count


def test_tenants_of_the_shared_server_are_new_ones(new_neo4j_tenant: Callable[[], str], neo4j_tenant: str) -> None:
    """Tests that share a server must not meet."""
    assert len({neo4j_tenant, new_neo4j_tenant(), new_neo4j_tenant()}) == 3


def test_no_setting_of_a_test_names_the_server_of_the_tests(neo4j_server: Neo4jAddress) -> None:
    """A variable that is meant for the test run must not make every `Config` of a test use Neo4j."""
    assert not [name for name in os.environ if name.startswith("REMINISCENCE_NEO4J_")]
    assert Config().neo4j_uri is None


def test_a_server_survives_what_is_done_to_it_and_comes_back_on_its_port(own_neo4j_server: Neo4jServer) -> None:
    """Tests of faults need a server that keeps its data over a crash, loses it when told, and never its address."""
    server, address = own_neo4j_server, own_neo4j_server.address
    with _driver(address) as driver:
        driver.execute_query("CREATE (:Thing)")
    with _driver(address, password="neo4j") as stranger, pytest.raises(AuthError):
        stranger.verify_connectivity()

    server.kill()
    assert not server.is_running
    with _driver(address) as driver, pytest.raises(ServiceUnavailable):
        driver.verify_connectivity()
    server.start()
    assert _count(server) == 1

    server.freeze()
    with socket.create_connection(("127.0.0.1", server.port), timeout=2) as client:
        client.sendall(_BOLT_HANDSHAKE)
        with pytest.raises(TimeoutError):
            client.recv(4)
    server.thaw()
    assert _count(server) == 1

    server.freeze()
    server.stop()
    assert not server.is_running
    server.wipe()
    server.start()
    assert _count(server) == 0
    assert server.address == address


def test_a_server_ends_with_the_process_that_owns_it(tmp_path: Path, startable_neo4j: None) -> None:
    """A test run that is killed leaves no server behind."""
    owner = subprocess.Popen(["sleep", "600"])
    settings = {"PASSWORD": "only-for-this-test", "OWNER_PID": str(owner.pid)}
    server = subprocess.Popen(
        [_ROOT / "tests" / "servers" / "neo4j.sh", "run", tmp_path, "0"],
        env=os.environ | settings,
        stdout=subprocess.DEVNULL,
    )
    try:
        _wait_for(tmp_path / "logs" / "debug.log")
        owner.kill()
        owner.wait()

        assert server.wait(timeout=60) == -signal.SIGKILL
    finally:
        for process in (owner, server):
            process.kill()
            process.wait()


def _wait_for(path: Path) -> None:
    """Until the server has begun to write its log."""
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
