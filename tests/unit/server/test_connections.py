"""How many connections fit into a limit on open files, and which one makes room."""

from __future__ import annotations

import asyncio
import resource

import pytest

from agent_reminiscence.server.connections.files import connections_within, raise_file_limit
from agent_reminiscence.server.connections.registry import Connections
from agent_reminiscence.server.guards.admission import Load
from agent_reminiscence.server.guards.gate import Gate
from agent_reminiscence.server.metrics import Metrics


@pytest.mark.parametrize(
    ("wanted", "limit", "possible"),
    [(2_000, None, 2_000), (2_000, 2_200, 2_000), (2_000, 1_024, 824), (2_000, 256, 128), (100, 256, 100)],
)
def test_connections_leave_files_for_everything_else(wanted: int, limit: int | None, possible: int) -> None:
    """A server that has none left cannot even answer who is connected."""
    assert connections_within(wanted, limit) == possible


def test_the_soft_limit_on_files_is_raised_to_the_hard_one() -> None:
    """Most systems begin with 1,024, for programs of another time."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or soft == resource.RLIM_INFINITY:
        pytest.skip("this system has no limit to raise to")
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, hard, 512), hard))
        assert raise_file_limit() == hard
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class _Connection:
    def __init__(self, *, is_of_stranger: bool) -> None:
        self.is_of_stranger = is_of_stranger
        self.is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True


def test_the_idle_go_first_and_callers_with_a_credential_never() -> None:
    """Each of a kind for longest first; whoever has done something since is not idle for long."""
    load = Load(Gate(1, queue=0, wait_seconds=1), max_streams=1, stopping=asyncio.Event())
    connections = Connections(Metrics(load), most=5)
    ours, form, first, second, third = all_five = [_Connection(is_of_stranger=number == 1) for number in range(5)]
    for one in all_five:
        assert connections.make_room()
        connections.opened(one)
    connections.busy(ours)
    connections.busy(form)
    connections.busy(first)
    connections.idle(first)

    for spared in (second, third, first, form):
        assert connections.close_one()
        assert spared.is_aborted
    assert not connections.close_one()
    assert not ours.is_aborted
