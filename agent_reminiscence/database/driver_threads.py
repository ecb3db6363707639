"""Lets the driver's threads finish before the interpreter ends: otherwise they abort it.

psqlpy answers from threads of its own, which call into Python: they hand over a result, then still hold the
interpreter's lock for a moment, or wait for it. The task that awaited the result may end the program within that
moment, and the lock of an interpreter that is being finalised is taken from such a thread for good, which then dies of
a fatal error: `PyGILState_Release: thread state … must be current when releasing`, and the process of SIGABRT. A
program that ends right after a failed connection did so in most runs.
"""

from __future__ import annotations

import atexit
import sys
import threading
import time
from typing import Final

# Once the lock is free, a thread that waits for it needs microseconds. Exit handlers run before finalisation begins,
# and `sleep` frees the lock.
_PAUSE_SECONDS: Final = 0.005
_PAUSES: Final = 3
# A thread that still runs Python code after this time is not one of the driver's.
_PATIENCE_SECONDS: Final = 0.5

_registering = threading.Lock()
_registered = False


def finish_at_exit() -> None:
    """Have the driver's threads finish when the interpreter ends; called before the driver is first used."""
    global _registered  # noqa: PLW0603 - once per process
    with _registering:
        if not _registered:
            atexit.register(_finish)
            _registered = True


def _finish() -> None:
    end = time.monotonic() + _PATIENCE_SECONDS
    quiet = 0
    while quiet < _PAUSES and time.monotonic() < end:
        time.sleep(_PAUSE_SECONDS)
        quiet = 0 if _driver_is_calling() else quiet + 1


def _driver_is_calling() -> bool:
    """Whether a thread that Python did not start runs Python code."""
    ours = {thread.ident for thread in threading.enumerate()}
    return bool(sys._current_frames().keys() - ours)  # noqa: SLF001 - documented in spite of its name
