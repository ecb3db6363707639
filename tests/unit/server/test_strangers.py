"""What requests without a valid credential cost: little, and nobody else anything."""

from __future__ import annotations

import asyncio

import pytest

from agent_reminiscence.server.access import strangers as module
from agent_reminiscence.server.access.grants import Grant, Scope
from agent_reminiscence.server.access.strangers import Strangers, TooManyWaitError

_GRANT = Grant(subject="key:1", scopes=frozenset({Scope.READ}), external_id="ida")


class _Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


class _Store:
    """Knows some secrets, and counts how often it is asked."""

    def __init__(self, *known: str) -> None:
        self.known = set(known)
        self.asked: list[str] = []
        self.at_a_time = 0
        self.most_at_a_time = 0

    async def authenticate(self, secret: str) -> Grant | None:
        """The grant of one that it knows."""
        self.asked.append(secret)
        self.at_a_time += 1
        self.most_at_a_time = max(self.most_at_a_time, self.at_a_time)
        await asyncio.sleep(0)
        self.at_a_time -= 1
        return _GRANT if secret in self.known else None


class _Delays(list[float]):
    """The delays there were, none of which is waited for."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)
        await asyncio.sleep(0)


@pytest.fixture
def delays() -> _Delays:
    """The delays of one client."""
    return _Delays()


def _strangers(store: _Store, clock: _Clock, *, wrong_per_minute: int = 3) -> Strangers:
    return Strangers(store, wrong_per_minute=wrong_per_minute, delay_seconds=2.0, clock=clock)


async def test_a_few_wrong_credentials_are_refused_at_once_and_more_of_them_late(delays: _Delays) -> None:
    """Also none at all; another address is not concerned."""
    strangers = _strangers(_Store(), _Clock())
    for secret in ("a", None, "c"):
        assert await strangers.authenticate(secret, "192.0.2.7", delays) is None
    assert delays == []
    assert await strangers.authenticate("d", "192.0.2.7", delays) is None
    # Before the check, and before the answer.
    assert len(delays) == 2
    assert await strangers.authenticate(None, "192.0.2.7", delays) is None
    assert len(delays) == 3
    # Not all of them for the same time: those that come together would come back together.
    assert all(1.0 <= delay <= 4.0 for delay in delays)
    assert len(set(delays)) == 3
    assert await strangers.authenticate("e", "192.0.2.8", delays) is None
    assert len(delays) == 3


async def test_a_valid_credential_is_let_in_whatever_else_comes_from_its_address(delays: _Delays) -> None:
    """At once if it has been valid before, else after the delay; a proxy's clients have one address."""
    store = _Store("old", "new")
    strangers = _strangers(store, _Clock())
    assert await strangers.authenticate("old", "192.0.2.7", delays) is _GRANT
    for number in range(50):
        await strangers.authenticate(f"wrong-{number}", "192.0.2.7", delays)
    delays.clear()
    assert await strangers.authenticate("old", "192.0.2.7", delays) is _GRANT
    assert delays == []
    assert await strangers.authenticate("new", "192.0.2.7", delays) is _GRANT
    assert len(delays) == 1
    assert await strangers.authenticate("new", "192.0.2.7", delays) is _GRANT
    assert len(delays) == 1
    # Until it ends: then it is as wrong as any other.
    store.known.clear()
    assert await strangers.authenticate("old", "192.0.2.7", delays) is None
    assert len(delays) == 2


async def test_the_store_is_not_asked_twice_about_a_wrong_credential(delays: _Delays) -> None:
    """For two seconds; a token may be valid once its issuer's keys are known."""
    store, clock = _Store(), _Clock()
    strangers = _strangers(store, clock, wrong_per_minute=100)
    for _ in range(5):
        assert await strangers.authenticate("soon", "192.0.2.7", delays) is None
    assert store.asked == ["soon"]
    store.known.add("soon")
    clock.now += 2.1
    assert await strangers.authenticate("soon", "192.0.2.7", delays) is _GRANT
    assert delays == []


async def test_an_address_with_too_many_has_one_check_at_a_time(delays: _Delays) -> None:
    """So the store is there for everybody else."""
    store = _Store()
    strangers = _strangers(store, _Clock(), wrong_per_minute=1)
    await strangers.authenticate("first", "192.0.2.7", delays)
    await asyncio.gather(*(strangers.authenticate(f"wrong-{number}", "192.0.2.7", delays) for number in range(100)))
    assert store.most_at_a_time == 1
    assert len(store.asked) == 101


async def test_a_flood_leaves_no_debt(delays: _Delays) -> None:
    """A minute after its end, the address has its allowance again."""
    clock = _Clock()
    strangers = _strangers(_Store(), clock)
    for number in range(1_000):
        await strangers.authenticate(f"wrong-{number}", "192.0.2.7", delays)
    delays.clear()
    clock.now += 60
    for number in range(3):
        await strangers.authenticate(f"late-{number}", "192.0.2.7", delays)
    assert delays == []


async def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch, delays: _Delays) -> None:
    """However many secrets there are."""
    monkeypatch.setattr(module, "_MOST_REMEMBERED", 10)
    store = _Store(*(f"good-{number}" for number in range(30)))
    strangers = _strangers(store, _Clock())
    for number in range(30):
        await strangers.authenticate(f"good-{number}", "192.0.2.7", delays)
        await strangers.authenticate(f"wrong-{number}", "192.0.2.7", delays)
    assert (len(strangers._known), len(strangers._refused)) == (10, 10)


async def test_the_more_refusals_wait_the_longer_each_does(delays: _Delays) -> None:
    """Of one address; a flood of them then costs little more than a few."""
    strangers = _strangers(_Store(), _Clock(), wrong_per_minute=1)
    await strangers.authenticate(None, "192.0.2.7", delays)
    await asyncio.gather(*(strangers.authenticate(None, "192.0.2.7", delays) for _ in range(400)))
    assert max(delays[:10]) <= 4.0
    assert min(delays[-10:]) >= 10.0
    delays.clear()
    await strangers.authenticate(None, "192.0.2.8", delays)
    await strangers.authenticate(None, "192.0.2.8", delays)
    assert max(delays) <= 4.0


async def test_of_those_that_wait_there_is_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one network; another one has its own, and whoever is known needs none."""
    monkeypatch.setattr(module, "MOST_WAITING", 20)
    store = _Store("known")
    strangers = _strangers(store, _Clock(), wrong_per_minute=1)
    may_end = asyncio.Event()

    async def hold(seconds: float) -> None:
        await may_end.wait()

    assert await strangers.authenticate("known", "192.0.2.7", hold) is _GRANT
    assert await strangers.authenticate(None, "192.0.2.7", hold) is None
    held = [asyncio.create_task(strangers.authenticate(f"wrong-{number}", "192.0.2.7", hold)) for number in range(20)]
    held += [asyncio.create_task(strangers.authenticate(None, "192.0.2.7", hold)) for _ in range(20)]
    await asyncio.sleep(0)
    for secret in ("one-more", None):
        with pytest.raises(TooManyWaitError):
            await strangers.authenticate(secret, "192.0.2.7", hold)
    assert "one-more" not in store.asked
    assert await strangers.authenticate("known", "192.0.2.7", hold) is _GRANT
    assert await strangers.authenticate("wrong", "192.0.2.8", hold) is None
    may_end.set()
    # Some of those that were checked late find too many waiting for their refusal.
    assert {type(ended) for ended in await asyncio.gather(*held, return_exceptions=True)} <= {
        type(None),
        TooManyWaitError,
    }
    assert (strangers._late, strangers._patience._waiting) == ({}, {})
