"""How many requests a credential may make, and what that takes to know."""

from __future__ import annotations

import pytest

from agent_reminiscence.server.access import limiter as module
from agent_reminiscence.server.access.grants import Grant, Scope
from agent_reminiscence.server.access.limiter import RateLimiter, WrongAttempts
from agent_reminiscence.server.problems import ProblemError


class _Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 12_345.678

    def __call__(self) -> float:
        return self.now


def _grant(subject: str = "ida", limit: int | None = None) -> Grant:
    return Grant(subject=subject, scopes=frozenset({Scope.READ}), external_id="ida", requests_per_minute=limit)


def _taken(limiter: RateLimiter, grant: Grant, *, at_most: int = 10_000) -> int:
    """How many requests are let in at once."""
    for number in range(at_most):
        try:
            limiter.take(grant)
        except ProblemError:
            return number
    return at_most


@pytest.mark.parametrize("limit", [1, 3, 7, 59, 60, 61, 999, 3_600])
def test_a_minutes_requests_may_come_at_once_and_no_more(limit: int) -> None:
    """And as many again only when the bucket is full again."""
    clock = _Clock()
    limiter = RateLimiter(clock=clock)

    assert _taken(limiter, _grant(limit=limit)) == limit
    assert _taken(limiter, _grant(limit=limit)) == 0
    clock.now += 60
    assert _taken(limiter, _grant(limit=limit)) == limit
    clock.now += 30
    assert _taken(limiter, _grant(limit=limit)) == limit // 2
    clock.now += 1_000_000
    assert _taken(limiter, _grant(limit=limit)) == limit


def test_whoever_waits_as_long_as_told_is_let_in() -> None:
    """The time is whole seconds, rounded up, as the header has it."""
    clock = _Clock()
    limiter = RateLimiter(7, clock=clock)
    assert _taken(limiter, _grant()) == 7

    for _ in range(20):
        with pytest.raises(ProblemError) as refused:
            limiter.take(_grant())
        seconds = int(refused.value.headers["Retry-After"])
        assert seconds == 9
        clock.now += seconds
        limiter.take(_grant())
        # Nine seconds are a little more than a seventh of a minute, and the rest would add up.
        clock.now -= seconds - 60 / 7


def test_a_steady_client_below_its_limit_is_never_refused() -> None:
    """However long it goes on."""
    clock = _Clock()
    limiter = RateLimiter(100, clock=clock)
    for _ in range(5_000):
        limiter.take(_grant())
        clock.now += 60 / 99


def test_no_limit_counts_nothing() -> None:
    """Neither of the server nor of the credential; a credential's own one counts in any case."""
    limiter = RateLimiter(None, clock=_Clock())

    assert _taken(limiter, _grant()) == 10_000
    assert limiter._buckets._full_at == {}
    assert _taken(limiter, _grant(limit=5)) == 5


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Full buckets are forgotten, and with very many credentials those that were used least recently."""
    monkeypatch.setattr(module, "_MOST_NAMES", 100)
    clock = _Clock()
    limiter = RateLimiter(2, clock=clock)
    for number in range(250):
        limiter.take(_grant(f"subject-{number}"))
    assert len(limiter._buckets._full_at) == 100
    assert _taken(limiter, _grant("subject-249")) == 1

    clock.now += 61
    for _ in range(300):
        clock.now += 31
        limiter.take(_grant("subject-1"))
    assert list(limiter._buckets._full_at) == ["subject-1"]


def test_wrong_secrets_are_counted_by_address() -> None:
    """Ten a minute, and another one every six seconds; others are not concerned."""
    clock = _Clock()
    attempts = WrongAttempts(clock=clock)
    for _ in range(10):
        assert attempts.wait("192.0.2.7") == 0
        attempts.count("192.0.2.7")

    assert attempts.wait("192.0.2.7") == 6
    assert attempts.wait("192.0.2.8") == 0
    clock.now += 6
    assert attempts.wait("192.0.2.7") == 0
    attempts.count("192.0.2.7")
    assert attempts.wait("192.0.2.7") == 6


def test_addresses_of_one_network_of_ipv6_are_one() -> None:
    """Whoever has one has 2**64."""
    attempts = WrongAttempts(clock=_Clock())
    for number in range(10):
        attempts.count(f"2001:db8::{number}")

    assert attempts.wait("2001:db8::ffff:1") == 6
    assert attempts.wait("2001:db8:0:1::1") == 0
    # Of a Unix socket there is no address.
    assert attempts.wait("") == 0
