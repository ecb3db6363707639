"""An event loop in a thread of its own, to which other threads hand their calls and wait for the results."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from concurrent import futures
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Final

from agent_reminiscence.exceptions import NotInitializedError, UsageError
from agent_reminiscence.resilience.processes import check_opened_here, is_inherited

# How long the interpreter's exit waits for a memory that nobody closed: first to close, then to stop at once. Work in
# progress has ten seconds to finish.
_EXIT_SECONDS: Final = 15.0
_STOP_SECONDS: Final = 1.0
# How long a waiting thread sleeps at once. A signal that arrives just before it falls asleep, or in another thread,
# does not wake it, nor does any on Windows.
_SLEEP_SECONDS: Final = 0.2


class LoopThread:
    """A running event loop in a daemon thread; any number of other threads may call at once.

    A call runs in the context (`contextvars`) of its caller, so that spans find their parent. It ends with the caller:
    what interrupts the waiting thread, such as Ctrl-C, cancels it.
    """

    def __init__(self) -> None:
        self._process = os.getpid()
        # Reentrant: the garbage collector may close an iterator while this thread holds it.
        self._lock = threading.RLock()
        self._is_ending = False
        self._is_at_exit = False
        self._end = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        started: Future[asyncio.AbstractEventLoop] = Future()
        self._thread = threading.Thread(target=self._main, args=(started,), name="agent-reminiscence", daemon=True)
        self._thread.start()
        self._loop = started.result()

    def _main(self, started: Future[asyncio.AbstractEventLoop]) -> None:
        try:
            # On Windows, the default loop cannot run workers.
            factory = asyncio.SelectorEventLoop if sys.platform == "win32" else None
            with asyncio.Runner(loop_factory=factory) as runner:
                runner.run(self._serve(started))
        except BaseException as error:
            if not started.done():
                started.set_exception(error)
            # At the exit, some versions of Python start no more threads, and the loop wants one to end its others.
            elif not self._is_at_exit:
                raise

    async def _serve(self, started: Future[asyncio.AbstractEventLoop]) -> None:
        started.set_result(asyncio.get_running_loop())
        await self._end.wait()

    @property
    def is_inherited(self) -> bool:
        """Whether this process was forked from the one with the thread, and has no such thread."""
        return is_inherited(self._process)

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return not self.is_inherited and self._thread.is_alive()

    def check(self) -> None:
        """Check that this thread may wait for the loop.

        Raises:
            UsageError: It is the loop's own thread, or of a forked process.
        """
        check_opened_here(self._process)
        if threading.current_thread() is self._thread:
            raise UsageError(
                "this AgentMem was called from its own thread and would wait for itself forever: embedders, clocks,"
                " redactors, progress callbacks and passed iterables run there; call it from another thread"
            )

    def call[T](self, make: Callable[[], Awaitable[T]]) -> T:
        """Await what `make` returns, in the loop, and return its result or raise its error.

        Raises:
            UsageError: This thread may not wait for the loop.
            NotInitializedError: The thread has ended, or ended during the call.
        """
        self.check()
        call = _Call(make, self._tasks)
        self._run(call, self._begin)
        try:
            return call.result()
        except asyncio.CancelledError:
            if not self._is_ending:
                raise
            raise NotInitializedError("this AgentMem was closed while the call was running") from None

    def iterate[T](self, make: Callable[[], AsyncGenerator[T]]) -> Generator[T]:
        """Iterate over what `make` returns, which runs in the loop, step by step.

        Raises:
            UsageError: This thread may not wait for the loop.
            NotInitializedError: The thread has ended.
        """

        async def begin() -> _Steps[T]:
            return _Steps(make(), self._tasks)

        return _Iterator(self, self.call(begin))

    def schedule(self, make: Callable[[], Awaitable[object]]) -> None:
        """Have what `make` returns awaited, and do not wait for it; does nothing if the thread has ended."""
        if self.is_inherited:
            return
        with self._lock:
            if not self._is_ending:
                self._loop.call_soon_threadsafe(_Call(make, self._tasks).start)

    def close(self, close: Callable[[], Awaitable[None]]) -> None:
        """Cancel what runs, await `close()` and end the thread; raises what `close()` raises.

        Raises:
            UsageError: This thread may not wait for the loop.
        """
        self.check()
        call = self._last_call(close)
        try:
            self._run(call, self._begin_last)
        finally:
            # The call does so itself, unless this thread was interrupted before it had begun.
            self._set_end()
            self._thread.join()
        call.result()

    def abandon(self, close: Callable[[], Awaitable[None]]) -> None:
        """The same without waiting for it."""
        self._begin_last(self._last_call(close))

    def end(self) -> None:
        """Cancel what runs, end the thread and wait until it has ended."""

        async def nothing() -> None:
            """There is nothing to close."""

        self.close(nothing)

    def note_exit(self) -> None:
        """Know that the interpreter exits, before anything ends the thread."""
        self._is_at_exit = True

    def join_at_exit(self) -> None:
        """Wait some seconds for an abandoned thread, and end it if it takes longer."""
        self._thread.join(_EXIT_SECONDS)
        self._set_end()
        self._thread.join(_STOP_SECONDS)

    def _set_end(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._end.set)

    def _last_call(self, close: Callable[[], Awaitable[None]]) -> _Call[None]:
        async def finish() -> None:
            try:
                try:
                    await self._cancel_others()
                finally:
                    await close()
            finally:
                self._end.set()

        return _Call(finish, self._tasks)

    async def _cancel_others(self) -> None:
        """End all other calls, which are then rolled back before the connections close."""
        others = self._tasks - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others)

    def _begin(self, call: _Call[Any]) -> None:
        with self._lock:
            if self._is_ending or not self._thread.is_alive():
                call.refuse(
                    NotInitializedError("this AgentMem was closed; use `with AgentMem()` or `memory.initialize()`")
                )
            else:
                self._loop.call_soon_threadsafe(call.start)

    def _begin_last(self, call: _Call[None]) -> None:
        with self._lock:
            # From here on no call is accepted, and those before were started: the loop runs callbacks in order.
            self._is_ending = True
            self._loop.call_soon_threadsafe(call.start)

    def _run[T](self, call: _Call[T], begin: Callable[[_Call[T]], None]) -> None:
        """Begin a call and wait until it has ended; what interrupts this thread cancels the call."""
        try:
            # Inside, because an interrupt may come as soon as the loop knows of the call.
            begin(call)
            call.wait()
        except BaseException:
            try:
                self._loop.call_soon_threadsafe(call.cancel)
            except RuntimeError:  # the loop is closed, so the call has ended or never began
                call.cancel()
            # Until it has rolled back; a second Ctrl-C does not wait for that.
            call.wait()
            raise


class _Call[T]:
    """One call: begun and cancelled in the loop, awaited in another thread."""

    def __init__(self, make: Callable[[], Awaitable[T]], tasks: set[asyncio.Task[None]]) -> None:
        self._make = make
        self._tasks = tasks
        self._outcome: Future[T] = Future()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin it; in the loop."""
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._tasks.add(self._task)
        self._task.add_done_callback(self._was_done)

    def refuse(self, error: Exception) -> None:
        """End it with `error` before it has begun."""
        self._outcome.set_exception(error)

    def cancel(self) -> None:
        """Cancel it, whether or not it has begun; in the loop, after `start` if that was called."""
        if self._task is not None:
            self._task.cancel()
        elif not self._outcome.done():
            self._outcome.set_exception(asyncio.CancelledError())

    def wait(self) -> None:
        """Wait until it has ended; in any other thread."""
        # A timeout is no exception here: an interrupt while one was handled left it behind in the thread, as the
        # context of every later error.
        while not self._outcome.done():
            futures.wait([self._outcome], _SLEEP_SECONDS)

    def result(self) -> T:
        """What it returned; raises what it raised, with its traceback."""
        return self._outcome.result()

    async def _run(self) -> None:
        try:
            result = await self._make()
        except BaseException as error:  # noqa: BLE001 - raised in the waiting thread; some of them would end the loop
            self._outcome.set_exception(error)
        else:
            self._outcome.set_result(result)

    def _was_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        # Cancelled before its first step.
        if not self._outcome.done():
            self._outcome.set_exception(asyncio.CancelledError())


class _End:
    """What `_Steps.step` returns at the end."""


class _Steps[T]:
    """An asynchronous generator that goes one step at a time, all of them in one task.

    What it enters, such as a timeout, it must leave in the same task.
    """

    def __init__(self, items: AsyncGenerator[T], tasks: set[asyncio.Task[None]]) -> None:
        self._items = items
        self._tasks = tasks
        self._wanted: asyncio.Queue[asyncio.Future[T | _End] | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._waiting: asyncio.Future[T | _End] | None = None

    async def step(self) -> T | _End:
        """The next item, or `_End`."""
        if self._task is None:
            self._task = asyncio.create_task(self._go())
            self._tasks.add(self._task)
            self._task.add_done_callback(self._tasks.discard)
        elif self._task.done():
            return _End()
        answer: asyncio.Future[T | _End] = asyncio.get_running_loop().create_future()
        self._wanted.put_nowait(answer)
        return await answer

    async def close(self) -> None:
        """End the generator where it stands."""
        if self._task is None or self._task.done():
            return
        if self._waiting is None:
            self._wanted.put_nowait(None)
        else:
            self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _go(self) -> None:
        async with contextlib.aclosing(self._items):
            while (answer := await self._wanted.get()) is not None:
                self._waiting = answer
                try:
                    item: T | _End = await anext(self._items, _End())
                except BaseException as error:  # noqa: BLE001 - raised in the waiting thread
                    if not answer.done():
                        answer.set_exception(error)
                    return
                if not answer.done():
                    answer.set_result(item)
                if isinstance(item, _End):
                    return
                self._waiting = None


class _Iterator[T](Generator[T]):
    """The items of `_Steps`. `close()` waits until the generator has ended; the garbage collector does not."""

    def __init__(self, thread: LoopThread, steps: _Steps[T]) -> None:
        self._thread = thread
        self._steps: _Steps[T] | None = steps

    def send(self, value: None, /) -> T:
        if self._steps is None:
            raise StopIteration
        try:
            item = self._thread.call(self._steps.step)
        except BaseException:
            self.close()
            raise
        if isinstance(item, _End):
            self._steps = None
            raise StopIteration
        return item

    def throw(
        self,
        kind: type[BaseException] | BaseException,
        value: BaseException | object = None,
        traceback: TracebackType | None = None,
        /,
    ) -> T:
        self.close()
        raise kind

    def close(self) -> None:
        steps, self._steps = self._steps, None
        if steps is not None and self._thread.is_alive:
            with contextlib.suppress(NotInitializedError):
                self._thread.call(steps.close)

    def __del__(self) -> None:
        # Waiting here could be forever: the collector runs in any thread, whatever locks it holds.
        if self._steps is not None:
            self._thread.schedule(self._steps.close)
