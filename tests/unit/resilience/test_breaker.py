"""When a store that is away is asked again."""

from __future__ import annotations

import logging

import pytest

from agent_reminiscence.exceptions import StoreError, StoreTimeoutError, StoreUnavailableError
from agent_reminiscence.resilience.breaker import Breaker


class _Clock:
    """Seconds that a test moves on."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> _Clock:
    """A clock that stands still."""
    return _Clock()


@pytest.fixture
def breaker(clock: _Clock) -> Breaker:
    """One that pauses for 1, 2, 4 and then 5 seconds."""
    return Breaker("The graph", first_pause_seconds=1.0, max_pause_seconds=5.0, clock=clock)


def test_a_store_that_answers_is_always_asked(breaker: Breaker) -> None:
    """Nothing stands between callers and a healthy store."""
    for _ in range(3):
        assert breaker.allows()
        breaker.succeeded()
    assert not breaker.is_open


def test_after_a_failure_nobody_asks_until_the_pause_is_over(breaker: Breaker, clock: _Clock) -> None:
    """Callers do not wait for what is known to be away."""
    breaker.failed(TimeoutError())

    assert not breaker.allows()
    assert breaker.pause_left_seconds == 1.0
    clock.now += 0.9
    assert not breaker.allows()
    clock.now += 0.1
    assert breaker.allows()


def test_after_a_pause_only_one_caller_finds_out(breaker: Breaker, clock: _Clock) -> None:
    """Many callers at once do not all wait for the deadline."""
    breaker.failed(TimeoutError())
    clock.now += 1

    assert [breaker.allows() for _ in range(3)] == [True, False, False]


def test_only_one_caller_asks_however_long_an_answer_takes(clock: _Clock) -> None:
    """A store that says nothing holds one caller up, though its pauses are shorter than the patience with it."""
    breaker = Breaker("The graph", first_pause_seconds=1.0, patience_seconds=10.0, clock=clock)
    breaker.failed(TimeoutError())
    clock.now += 1
    assert breaker.allows()
    clock.now += 9
    assert not breaker.allows()

    breaker.failed(TimeoutError())

    assert breaker.pause_left_seconds == 2


def test_each_pause_is_twice_as_long_up_to_the_limit(breaker: Breaker, clock: _Clock) -> None:
    """A long outage costs less and less."""
    pauses = []
    for _ in range(5):
        breaker.failed(TimeoutError())
        pauses.append(breaker.pause_left_seconds)
        clock.now += breaker.pause_left_seconds
        assert breaker.allows()

    assert pauses == [1, 2, 4, 5, 5]


def test_calls_that_fail_together_are_one_failure(breaker: Breaker, caplog: pytest.LogCaptureFixture) -> None:
    """Calls that were under way when the store went lengthen no pause and fill no log."""
    with caplog.at_level(logging.WARNING):
        for _ in range(20):
            breaker.failed(TimeoutError())

    assert breaker.pause_left_seconds == 1.0
    assert [record.getMessage() for record in caplog.records] == [
        "The graph is unavailable; not calling it for 1 s: TimeoutError"
    ]


def test_an_answer_ends_the_outage_for_everybody(breaker: Breaker, clock: _Clock) -> None:
    """Whoever reaches the store first spares the others the pause, and the next outage begins small."""
    breaker.failed(TimeoutError())
    clock.now += 1
    breaker.allows()
    breaker.failed(TimeoutError())

    breaker.succeeded()

    assert breaker.allows()
    breaker.failed(TimeoutError())
    assert breaker.pause_left_seconds == 1.0


def test_who_is_let_through_and_never_reports_blocks_nobody_for_good(breaker: Breaker, clock: _Clock) -> None:
    """A cancelled caller is followed by another after one more pause."""
    breaker.failed(TimeoutError())
    clock.now += 1
    assert breaker.allows()

    clock.now += 1

    assert breaker.allows()


def test_the_log_quotes_no_message(breaker: Breaker, caplog: pytest.LogCaptureFixture) -> None:
    """An error of a driver may quote a row or a password."""
    with caplog.at_level(logging.WARNING):
        breaker.failed(ConnectionError("hunter2"))

    assert "hunter2" not in caplog.text


def test_one_deadline_may_run_out_where_two_in_a_row_count(clock: _Clock) -> None:
    """That a healthy store took too long once keeps nobody from it; that it is not there, does at once."""
    patient = Breaker("The graph", timeouts=2, clock=clock)
    for _ in range(3):
        patient.failed(TimeoutError())
        assert patient.allows()
        patient.succeeded()
    patient.failed(TimeoutError())
    patient.failed(StoreTimeoutError("late"))
    assert not patient.allows()

    other = Breaker("The graph", timeouts=2, clock=clock)
    other.failed(StoreUnavailableError("away"))
    assert not other.allows()


def test_a_long_outage_does_not_fill_the_log(breaker: Breaker, clock: _Clock, caplog: pytest.LogCaptureFixture) -> None:
    """A line for each longer pause, in our own words; of an error that is not ours, only what it is called."""
    for _ in range(20):
        breaker.failed(StoreError("refuses 'memory'"))
        clock.now += breaker.pause_left_seconds
        assert breaker.allows()
    breaker.succeeded()
    breaker.failed(ValueError("a secret"))

    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert told[0] == "The graph refuses calls; not calling it for 1 s: refuses 'memory'"
    assert len(told) == 5
    assert told[-1] == "The graph refuses calls; not calling it for 1 s: ValueError"
