"""Opening and closing a memory in its own thread, and what its parts have in common."""

from __future__ import annotations

import atexit
import threading
import warnings
import weakref
from types import TracebackType
from typing import Any, Self

from agent_reminiscence import core
from agent_reminiscence.exceptions import NotInitializedError
from agent_reminiscence.resilience.processes import check_driver
from agent_reminiscence.sync.loop_thread import LoopThread

_opened: weakref.WeakSet[Lifecycle] = weakref.WeakSet()
_abandoned: weakref.WeakSet[LoopThread] = weakref.WeakSet()


class Twin:
    """Calls the asynchronous object `wrapped`, which lives in `thread`."""

    # Each twin narrows the type.
    _wrapped: Any

    def __init__(self, thread: LoopThread, wrapped: Any) -> None:
        self._thread = thread
        self._wrapped = wrapped


class Lifecycle:
    """Opens the asynchronous memory `wrapped` in a thread, and closes both."""

    def __init__(self, wrapped: core.AgentMem) -> None:
        self._wrapped = wrapped
        self._turn = threading.Lock()
        self._running: LoopThread | None = None
        self._is_open = False
        self._was_closed = False

    def initialize(self) -> None:
        """Start the thread, start or reach the store, check that it fits, and start the worker.

        A second call does nothing.

        Raises:
            ConfigurationError: The schema, the login or the embedder does not fit; the message says what to do.
            StoreError: The store cannot be reached.
            UsageError: This process was forked from one that had already opened a memory.
        """
        self._check()
        check_driver()
        with self._turn:
            if self._running is not None:
                return
            self._running = LoopThread()
            try:
                self._running.call(self._wrapped.initialize)
            except BaseException:
                running, self._running = self._running, None
                running.end()
                raise
            self._is_open = True
            _opened.add(self)

    def close(self) -> None:
        """Stop the worker, close the connections, release the embedded server and end the thread.

        A second call does nothing. Work in progress has ten seconds to finish; the rest stays due for the next worker.
        Calls of other threads that are still running end with `NotInitializedError`. In a forked process, only this
        object is marked as closed: whoever opened it closes it.
        """
        if self._running is not None and self._running.is_inherited:
            # Whoever opened it closes it.
            self._forget()
            return
        self._check()
        with self._turn:
            if self._running is None:
                return
            running = self._forget()
            running.close(self._wrapped.close)

    def __enter__(self) -> Self:
        self.initialize()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self._abandon()

    @property
    def _thread(self) -> LoopThread:
        """The thread of an open memory."""
        if self._running is None or not self._is_open:
            state = "was closed" if self._was_closed else "is not initialized"
            raise NotInitializedError(f"this AgentMem {state}; use `with AgentMem()` or `memory.initialize()`")
        return self._running

    def _check(self) -> None:
        """Refuse what would wait forever, before it waits for its turn."""
        if self._running is not None:
            self._running.check()

    def _abandon(self) -> None:
        """Warn that nobody closed this, and have it closed."""
        # Nothing is set if the constructor has failed.
        running: LoopThread | None = getattr(self, "_running", None)
        if running is None or not running.is_alive:
            return
        self._forget()
        running.abandon(self._wrapped.close)
        _abandoned.add(running)
        # Last, because it may be an error.
        warnings.warn(
            "an AgentMem was never closed; use `with AgentMem()` or `memory.close()`",
            ResourceWarning,
            stacklevel=3,
            source=self,
        )

    def _forget(self) -> LoopThread:
        running, self._running = self._running, None
        assert running is not None
        self._is_open = False
        self._was_closed = True
        return running


def _close_at_exit() -> None:
    """Close what nobody closed, in the last moment in which threads can still be started."""
    opened = list(_opened)
    # First of all: a warning may take longer than closing does.
    for thread in (*(memory._running for memory in opened), *_abandoned):  # noqa: SLF001 - of this module
        if thread is not None:
            thread.note_exit()
    for memory in opened:
        memory._abandon()  # noqa: SLF001 - of this module
    for thread in list(_abandoned):
        thread.join_at_exit()


# `atexit` is too late: closing needs an executor, and those are shut down before, by means of the same private hook.
getattr(threading, "_register_atexit", atexit.register)(_close_at_exit)
