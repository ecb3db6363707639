"""Refuses a forked process what only its parent has.

The PostgreSQL driver answers from threads of its own, which it starts with the first connection and never again. A fork
copies its memory but none of its threads: in the child, every connection waits for an answer that nobody will give,
also long after the parent has closed everything. Nothing restarts them, so such a process is told at once.
"""

from __future__ import annotations

import os
from typing import Final

from agent_reminiscence.exceptions import UsageError

_WAY_OUT: Final = (
    'Start the process by spawn instead of fork (`multiprocessing.get_context("spawn")`), or fork before the first'
    " AgentMem is opened; then open one in each process"
)

# The process in which the driver has started its threads; None if it has not. A fork inherits it.
_driver_process: int | None = None


def claim_driver() -> None:
    """Note that this process uses the driver; called before each connection.

    Raises:
        UsageError: It was forked from one that has used it.
    """
    global _driver_process  # noqa: PLW0603 - the driver's threads are the process's, too
    check_driver()
    _driver_process = os.getpid()


def check_driver() -> None:
    """Check that this process can use the driver, without using it.

    Raises:
        UsageError: It was forked from one that has used it.
    """
    if _driver_process not in (None, os.getpid()):
        raise UsageError(
            f"process {os.getpid()} was forked after process {_driver_process} had opened a memory, so it can never"
            f" open one: the threads of the PostgreSQL driver do not survive a fork. {_WAY_OUT}"
        )


def is_inherited(process: int) -> bool:
    """Whether what `process` has opened came into this process by a fork."""
    return os.getpid() != process


def check_opened_here(process: int) -> None:
    """Check that this process is the one that has opened something.

    Args:
        process: The id of the process that has opened it.

    Raises:
        UsageError: It is another one.
    """
    if is_inherited(process):
        raise UsageError(
            f"this AgentMem was opened by process {process}; process {os.getpid()}, which was forked from it, has"
            f" neither its threads nor its connections. {_WAY_OUT}"
        )
