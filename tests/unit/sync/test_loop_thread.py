"""Calls that another thread makes: begun, ended, and interrupted wherever the caller stands."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from agent_reminiscence.exceptions import NotInitializedError
from agent_reminiscence.sync import loop_thread
from agent_reminiscence.sync.loop_thread import LoopThread

type _Line = Callable[[FrameType], None]


@contextmanager
def _watching(line: _Line) -> Iterator[None]:
    """Call `line` before each line of `loop_thread` that this thread runs."""

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != loop_thread.__file__:
            return None
        if event == "line":
            line(frame)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def _lines(run: Callable[[], object]) -> list[str]:
    """The functions whose lines `run` passes, one entry a line."""
    passed: list[str] = []
    with _watching(lambda frame: passed.append(frame.f_code.co_name)):
        run()
    return passed


def _interrupted_at(number: int, run: Callable[[], object]) -> None:
    """Run `run` and interrupt it before its line `number`, counted from 0."""
    passed = 0

    def interrupt(frame: FrameType) -> None:
        nonlocal passed
        passed += 1
        if passed == number + 1:
            raise KeyboardInterrupt

    with _watching(interrupt), pytest.raises(KeyboardInterrupt):
        run()


async def _nothing() -> None:
    """Return at once."""


def test_an_interrupt_cancels_the_call_wherever_its_caller_stands() -> None:
    """Also between handing the call over and waiting for it, where the loop already runs it."""
    thread = LoopThread()
    begun: list[str] = []
    ended: list[str] = []

    async def wait_forever() -> None:
        begun.append("call")
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("call")

    passed = _lines(lambda: thread.call(_nothing))
    # Up to the line that waits: a call that waits forever passes no other.
    waits = len(passed) - passed[::-1].index("wait")
    assert waits > 5
    for number in range(waits):
        _interrupted_at(number, lambda: thread.call(wait_forever))
        assert begun == ended
        thread.call(_nothing)
    thread.end()
    assert not thread.is_alive


def test_an_interrupted_end_ends_the_thread() -> None:
    """Whether or not the loop has been told before the interrupt."""
    whole = LoopThread()
    passed = _lines(lambda: whole.close(_nothing))
    ends = [number for number, name in enumerate(passed) if name == "_run"]
    for number in range(ends[0], ends[-1] + 1):
        thread = LoopThread()
        _interrupted_at(number, lambda thread=thread: thread.close(_nothing))  # type: ignore[misc]
        assert not thread.is_alive


def test_a_call_after_the_end_is_refused() -> None:
    """It would wait forever."""
    thread = LoopThread()
    thread.end()

    with pytest.raises(NotInitializedError, match="was closed"):
        thread.call(_nothing)
