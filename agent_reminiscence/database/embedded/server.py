"""The embedded server of a data folder: who uses it, who starts it and who stops it.

The programs come from a wheel or from a configured folder; starting and stopping them is done here
(docs/adr/0002-embedded-server-is-ours-to-start.md).

**Who uses the server.** A data folder holds lock files. `start.lock` is held while starting or stopping the server;
`users.lock` is shared by everyone who uses it. Whoever can lock it exclusively was the last user and stops the server.
The kernel drops a lock when its holder dies, so no count is left behind. If the last user is killed, nobody is left to
stop the server, so a small process watches it (`watcher.py`): it waits for a third lock, `watch.lock`, that all users
share, and stops the server if they have not. This way no signal handler is needed, which a library must not install.

**Who can reach the server.** It listens only on a Unix socket. The socket is in the cluster's own folder, which
PostgreSQL requires to be closed to others (0700), and has mode 0700 itself, so only the system user that runs the
server and root can reach it. They need no password (`trust`): whoever can open the socket can also open the files
beside it. TCP, which a setting can add, requires a password.

**Under root** the server runs as the system user `reminiscence`, or as the owner of an existing data folder: it
refuses to be root. It is started from inside its folder and never needs the path to it, so folders above stay closed.

**On Windows** there is no shared lock that the kernel drops like this, and folder permissions do not protect a socket.
The server is refused there; everything else in the package works with a PostgreSQL given by its DSN.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import platformdirs

from agent_reminiscence.database.embedded import watcher
from agent_reminiscence.database.embedded.cluster import Cluster, Deadline, ServerAddress
from agent_reminiscence.database.embedded.folder import check_folder, create_folder
from agent_reminiscence.database.embedded.programs import run_environment
from agent_reminiscence.database.embedded.watcher import WATCH_LOCK, WATCHER_LOCK, open_lock, try_lock
from agent_reminiscence.exceptions import ConfigurationError, ReminiscenceError, StoreError, StoreTimeoutError

_logger = logging.getLogger("agent_reminiscence.embedded")

_DATA_DIR_OF_ROOT: Final = Path("/var/lib/agent-reminiscence")

# Starting takes 0.1 s, creating a cluster 0.6 s, crash recovery depends on the size of its log.
_START_TIMEOUT_SECONDS: Final = 60.0
# A stop writes everything that is only in memory, up to `shared_buffers`.
_STOP_TIMEOUT_SECONDS: Final = 60.0


class EmbeddedPostgres:
    """The server of one data folder; any number of objects and processes may use it at once.

    A process that ends without `stop()` leaves when the interpreter exits, or when the kernel cleans up after it; if it
    was the last user, the server ends soon after. A process forked while the server is in use counts as a user until
    it ends.

    Args:
        data_dir: A new or empty folder, or one that was used before; created if missing. Holds the cluster
            (`postgres/`), its log and the locks.
        settings: Added to ours in `postgresql.conf`. They take effect when this object starts the server; a running
            server keeps its own.
        programs: A folder of PostgreSQL programs; None is the wheel's.
        start_timeout_seconds: How long `start()` waits for the server, including crash recovery.

    Raises:
        ConfigurationError: A setting's name or value is not possible in the file, or would hide the server from
            clients; or this is Windows.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        settings: Mapping[str, str] | None = None,
        programs: Path | None = None,
        start_timeout_seconds: float = _START_TIMEOUT_SECONDS,
    ) -> None:
        if sys.platform == "win32":
            raise ConfigurationError("the embedded server needs Linux or macOS; set postgres_dsn to your own server")
        self._data_dir = data_dir.expanduser().resolve()
        self._cluster = Cluster(self._data_dir, settings or {}, programs)
        self._start_timeout_seconds = start_timeout_seconds
        # Held during one blocking call: `start()` and `stop()` of one object may run in two threads.
        self._turn = threading.Lock()
        self._users_lock: int | None = None
        self._watch_lock: int | None = None
        self._process = 0

    async def start(self) -> ServerAddress:
        """Join the running server, or create and start it; if called again, restart it after a crash.

        A server that a crash within a crash has left in recovery for ever is ended and started anew.

        Returns:
            The address, once the server accepts connections.

        Raises:
            ConfigurationError: The programs are missing or do not fit, the data folder cannot be one, was created by
                another PostgreSQL version or an earlier release, or this user cannot run a server in it. Nothing was
                changed.
            StoreTimeoutError: The server, or another process that is starting it, took longer than the timeout.
            StoreError: The server did not start; the message ends with the last lines of its log.
        """
        deadline = Deadline(self._start_timeout_seconds)
        was_user = self._users_lock is not None
        # A future, not a task: a loop that shuts down would cancel a task, leaving the thread unwatched.
        work = asyncio.get_running_loop().run_in_executor(None, self._join, deadline)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            # A thread cannot be interrupted, but it sees the mark within about a second and leaves.
            deadline.cancelled.set()
            await asyncio.wait([work])
            if work.exception() is None and not was_user:
                await asyncio.to_thread(self._leave)
            raise

    @property
    def has_ended_stuck_server(self) -> bool:
        """Whether this object found the server in recovery for ever, and ended it."""
        return self._cluster.endings > 0

    async def stop(self) -> None:
        """Leave the server; the last user stops it. Does nothing without an earlier `start()`.

        Raises:
            StoreTimeoutError: Another process held the start lock, or the server kept writing, for too long.
            StoreError: The server refused to stop.
        """
        await asyncio.to_thread(self._leave)

    def _join(self, deadline: Deadline) -> ServerAddress:
        with self._turn, _errors_name(self._data_dir):
            if self._users_lock is not None and not self._cluster.exists():
                # A new one would be empty, and its users would take that for all the data there was.
                raise StoreError(
                    f"the data folder {str(self._data_dir)!r} was removed while it was in use; put it back, or close"
                    " everything that uses it and reopen it to start with an empty one"
                )
            # Checked before anything is written, so that a refused folder stays unchanged.
            if self._users_lock is None:
                check_folder(self._data_dir)
            self._cluster.check()
            create_folder(self._data_dir)
            with self._start_lock(deadline) as start_lock:
                joining = self._users_lock is None
                if joining:
                    self._become_user(deadline)
                self._ensure_watched()
                try:
                    self._cluster.ensure_running(deadline, start_lock)
                except (ReminiscenceError, OSError):
                    if joining:
                        self._leave_locked(start_lock, stop=deadline.cancelled.is_set())
                    raise
            return self._cluster.address

    def _leave(self) -> None:
        with self._turn, _errors_name(self._data_dir):
            if self._users_lock is None:
                return
            try:
                with self._start_lock(Deadline(_STOP_TIMEOUT_SECONDS)) as start_lock:
                    self._leave_locked(start_lock, stop=True)
            except FileNotFoundError:
                if self._data_dir.exists():
                    raise
                _logger.info("the data folder %s is gone; its server stops by itself", self._data_dir)
            finally:
                self._drop_users_lock()

    def _become_user(self, deadline: Deadline) -> None:
        users_lock, watch_lock = (open_lock(self._data_dir / name) for name in ("users.lock", WATCH_LOCK))
        try:
            # The first can be shared at once: exclusive locks on it are only taken under the start lock, which we hold.
            # The watcher holds the second for a moment after the last user has left.
            while not (try_lock(users_lock, shared=True) and try_lock(watch_lock, shared=True)):
                if not deadline.pause():
                    raise StoreTimeoutError(
                        f"another process has locked {str(self._data_dir / WATCH_LOCK)!r} for {deadline.seconds:g} s"
                    )
        except BaseException:
            os.close(users_lock)
            os.close(watch_lock)
            raise
        self._users_lock, self._watch_lock = users_lock, watch_lock
        self._process = os.getpid()
        atexit.register(self._leave_at_exit)

    def _ensure_watched(self) -> None:
        """Start the watcher unless there is one; needs the start lock."""
        lock = open_lock(self._data_dir / WATCHER_LOCK)
        try:
            if not try_lock(lock):
                return
            if not Path(sys.executable or "").name.lower().startswith("python"):
                # A program that embeds Python: running it again would not run our file.
                _logger.info(
                    "the server of %s is not watched: %r is not a Python interpreter", self._data_dir, sys.executable
                )
                return
            program = [sys.executable, "-I", "-S", str(Path(watcher.__file__)), str(self._data_dir), str(lock)]
            # By way of a shell that ends at once: the watcher is to outlive this process, and is nobody's child. It
            # inherits the open lock, and so holds it.
            subprocess.run(  # noqa: S603 - this interpreter, arguments are ours
                ["/bin/sh", "-c", '"$@" &', "sh", *program],
                check=False,
                cwd="/",
                env=run_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[lock],
                start_new_session=True,
            )
        finally:
            os.close(lock)

    def _leave_locked(self, start_lock: int, *, stop: bool) -> None:
        """Stop being a user and, if `stop`, stop a server without other users; needs the start lock."""
        self._drop_users_lock()
        if stop and self._is_unused():
            self._cluster.stop(Deadline(_STOP_TIMEOUT_SECONDS), start_lock)

    def _drop_users_lock(self) -> None:
        atexit.unregister(self._leave_at_exit)
        for lock in (self._users_lock, self._watch_lock):
            if lock is not None:
                os.close(lock)
        self._users_lock = self._watch_lock = None

    def _is_unused(self) -> bool:
        # Opened again: locks belong to an open file, so other objects of this process count as other users.
        users_lock = open_lock(self._data_dir / "users.lock")
        try:
            return try_lock(users_lock)
        finally:
            os.close(users_lock)

    def _leave_at_exit(self) -> None:
        if os.getpid() != self._process:
            return  # a fork inherits the handler but does not use the server
        try:
            self._leave()
        except ReminiscenceError as error:
            _logger.warning("leaving the embedded server at exit failed: %s", error)

    @contextmanager
    def _start_lock(self, deadline: Deadline) -> Iterator[int]:
        lock = open_lock(self._data_dir / "start.lock")
        try:
            while not try_lock(lock):
                if not deadline.pause():
                    raise StoreTimeoutError(
                        f"another process has been starting or stopping the server of {str(self._data_dir)!r} for"
                        f" {deadline.seconds:g} s; wait for it or end it"
                    )
            yield lock
        finally:
            os.close(lock)


def default_data_dir() -> Path:
    """Return this user's data folder if none is configured.

    For root it is a system folder: the server runs as another user, and a service's data is not root's own.
    """
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return _DATA_DIR_OF_ROOT
    return platformdirs.user_data_path("agent-reminiscence", appauthor=False)


def tell_who_waits(message: str) -> None:
    """Log a warning that somebody who waits should see: on standard error if nobody has set up logging."""
    _logger.warning("%s", message)
    # Logging itself would do so, but for the package's NullHandler.
    logger: logging.Logger | None = _logger
    while logger is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            return
        logger = logger.parent if logger.propagate else None
    if sys.stderr is not None:
        sys.stderr.write(f"agent_reminiscence: {message}\n")


@contextmanager
def _errors_name(data_dir: Path) -> Iterator[None]:
    """Translate operating system errors into errors that name the data folder."""
    try:
        yield
    except PermissionError as error:
        raise ConfigurationError(
            f"user {os.geteuid()} cannot use the data folder {str(data_dir)!r}: {error};"
            " choose another one (data_dir, REMINISCENCE_DATA_DIR)"
        ) from None
    except OSError as error:
        raise StoreError(f"the server of data folder {str(data_dir)!r} cannot be run: {error}") from error
