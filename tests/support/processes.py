"""Whether processes run that a test did not start itself, such as those of a server."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

PATIENCE_SECONDS: Final = 120.0


def is_running(process: int) -> bool:
    """Whether a process still does something.

    Not asked by a signal, nor by `/proc/<id>`: one that has ended has both until its parent has noticed.
    """
    try:
        # The name, in parentheses, may hold anything; the state follows it.
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in ("Z", "X")


def wait_until_ended(processes: Iterable[int]) -> None:
    """Return when none of the processes runs any more.

    A server that has been stopped removes its files a moment before it ends.

    Raises:
        TimeoutError: One still runs after two minutes.
    """
    left = list(processes)
    end = time.monotonic() + PATIENCE_SECONDS
    while left := [process for process in left if is_running(process)]:
        if time.monotonic() > end:
            raise TimeoutError(f"still running: {left}")
        time.sleep(0.002)
