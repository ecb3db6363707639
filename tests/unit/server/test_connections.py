"""How many connections fit into a limit on open files, and which one makes room."""

from __future__ import annotations

import asyncio
import resource

import pytest

from agent_reminiscence.server import ServerConfig
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


class _Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


class _Connection:
    def __init__(self, *, is_of_stranger: bool = True, subject: str | None = None, is_spare: bool = False) -> None:
        self.is_of_stranger = is_of_stranger
        self.subject = subject
        self.is_spare = is_spare
        self.is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True


def _connections(clock: _Clock, *, most: int) -> Connections:
    load = Load(Gate(1, queue=0, wait_seconds=1), max_streams=1, stopping=asyncio.Event())
    return Connections(Metrics(load), most=most, clock=clock)


def test_what_was_there_for_longest_goes_first_and_a_caller_with_a_credential_never() -> None:
    """Idle or with a stranger's request; a valid credential renews the time, and nothing else does."""
    clock = _Clock()
    connections = _connections(clock, most=5)
    ours, form, kept, second, third = all_five = [_Connection() for _ in range(5)]
    for one in all_five:
        assert connections.make_room()
        connections.opened(one)
        clock.now += 1
    for one in (ours, form, kept, second):
        connections.busy(one)
    ours.is_of_stranger = kept.is_of_stranger = False
    connections.idle(kept)
    # An answer to anybody, such as one of health, makes it no younger.
    connections.idle(second)
    clock.now += 2

    for spared in (form, second, third, kept):
        assert connections.close_one()
        assert spared.is_aborted
    assert not connections.close_one()
    assert not ours.is_aborted


def test_a_kept_connection_is_not_too_old_when_it_has_a_next_request() -> None:
    """Its credential is checked then; once, since a next one without a credential would never be given up."""
    clock = _Clock()
    connections = _connections(clock, most=2)
    kept, other = _Connection(is_of_stranger=False), _Connection()
    for one in (kept, other):
        connections.opened(one)
    connections.busy(kept)
    connections.idle(kept)
    clock.now += 10
    kept.is_of_stranger = True
    connections.busy(kept)
    assert connections.close_one()
    assert other.is_aborted
    clock.now += 0.9
    connections.idle(kept)
    connections.busy(kept)
    assert not connections.close_one()
    clock.now += 0.1
    assert connections.close_one()
    assert kept.is_aborted


def test_a_flood_of_forged_keys_closes_nobody_who_has_just_come() -> None:
    """All places have requests whose refusals wait, and as many clients reconnect: each has a second for its head."""
    clock = _Clock()
    connections = _connections(clock, most=10)
    open_now: list[_Connection] = []
    victims = 0
    for number in range(2_000):
        clock.now += 0.01
        if not connections.make_room():
            continue
        new = _Connection()
        connections.opened(new)
        open_now.append(new)
        if number % 7:
            # A stranger's, which is busy from its first moment on.
            connections.busy(new)
            continue
        # A client with a valid key, whose request comes half a second later, while the flood goes on.
        for _ in range(50):
            clock.now += 0.01
            if connections.make_room():
                forged = _Connection()
                connections.opened(forged)
                connections.busy(forged)
        assert not new.is_aborted
        connections.busy(new)
        new.is_of_stranger = False
        connections.idle(new)
        connections.lost(new)
        victims += 1
    assert victims > 5
    assert sum(one.is_aborted for one in open_now) > 50


def test_of_callers_with_a_credential_only_requests_that_wait_are_given_up() -> None:
    """The oldest of the subject that has most requests; whoever works is left alone."""
    clock = _Clock()
    connections = _connections(clock, most=8)
    ours = [
        _Connection(is_of_stranger=False, subject=subject, is_spare=is_spare)
        for subject, is_spare in (("b", True), ("a", False), ("a", True), ("a", True), ("b", False), ("c", False))
    ]
    for one in ours:
        connections.opened(one)
        connections.busy(one)
    # One that is idle is no request of its subject.
    kept = [_Connection(is_of_stranger=False, subject="b", is_spare=True) for _ in range(2)]
    for one in kept:
        connections.opened(one)
    assert not connections.make_room()
    clock.now += 1
    for spared in (*kept, ours[2], ours[0], ours[3]):
        assert connections.close_one()
        assert spared.is_aborted
    assert not connections.close_one()
    assert [one.is_aborted for one in ours] == [True, False, True, True, False, False]


def test_a_subject_has_a_quarter_of_the_connections_unless_it_is_said_otherwise() -> None:
    """Of those that the limit on files leaves."""
    assert [ServerConfig().connections_per_subject(most) for most in (2_000, 824, 8, 1)] == [500, 206, 2, 1]
    assert ServerConfig(max_connections_per_subject=7).connections_per_subject(2_000) == 7


async def test_a_subject_has_its_share_of_requests() -> None:
    """Each gives its room back, also one that had none."""
    load = Load(Gate(1, queue=0, wait_seconds=1), max_streams=1, max_requests_per_subject=2, stopping=asyncio.Event())
    with load.request("a") as first, load.request("a") as second:
        with load.request("a") as third, load.request("b") as other:
            assert (first, second, third, other) == (True, True, False, True)
        with load.request("a") as fourth:
            assert not fourth
    with load.request("a") as fifth:
        assert fifth
