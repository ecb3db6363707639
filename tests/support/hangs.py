"""A test that hangs fails by name, and says what it was waiting for; a plugin of `conftest.py`.

`timeout` in pyproject.toml, which pytest-timeout reads, is the limit of each test with its fixtures. Where a failure
cannot get through, because a call never returns to Python, `faulthandler_timeout` ends the process a little later, and
xdist names the test that it was running.
"""

from __future__ import annotations

import asyncio
import gc
import traceback
from collections.abc import Generator, Iterator
from types import FrameType
from typing import Any

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what each task waits for to the report of a test that took too long; pytest-timeout tells of threads only."""
    report = yield
    if call.excinfo is not None and _is_timeout(call.excinfo.value):
        tasks = "\n".join(map(_describe, _pending_tasks()))
        report.sections.append(("Tasks at the timeout", tasks or "none"))
    return report


def _is_timeout(error: BaseException) -> bool:
    return isinstance(error, pytest.fail.Exception) and "from pytest-timeout" in str(error)


def _pending_tasks() -> list[asyncio.Task[Any]]:
    """Those of all loops of this process: the loop in the way may be another thread's."""
    return [one for one in gc.get_objects() if isinstance(one, asyncio.Task) and not one.done()]


def _describe(task: asyncio.Task[Any]) -> str:
    frames = [(frame, frame.f_lineno) for frame in _awaiting(task.get_coro())]
    return f"{task.get_name()}\n{''.join(traceback.StackSummary.extract(frames).format())}"


def _awaiting(awaited: object) -> Iterator[FrameType]:
    """The frames from a coroutine down to the one that waits; `Task.get_stack` has only the first of them."""
    while awaited is not None:
        for kind in ("cr", "ag", "gi"):
            if (frame := getattr(awaited, f"{kind}_frame", None)) is not None:
                yield frame
                awaited = getattr(awaited, f"{kind}_await", None) or getattr(awaited, f"{kind}_yieldfrom", None)
                break
        else:
            return
