"""The embedded server of a data folder: who uses it, who starts it and who stops it.

The programs come from a wheel or from a configured folder; starting and stopping them is done here
(docs/adr/0002-embedded-server-is-ours-to-start.md).

**Who uses the server.** A data folder holds two lock files. `start.lock` is held while starting or stopping the server;
`users.lock` is shared by everyone who uses it. Whoever can lock it exclusively was the last user and stops the server.
The kernel drops a lock when its holder dies, so no count is left behind. If the last user is killed, the server keeps
running and the next user joins it.

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
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import platformdirs

from agent_reminiscence.database.embedded.cluster import Cluster, Deadline, ServerAddress
from agent_reminiscence.exceptions import ConfigurationError, ReminiscenceError, StoreError, StoreTimeoutError

if sys.platform != "win32":
    import fcntl

_logger = logging.getLogger("agent_reminiscence.embedded")

_DATA_DIR_OF_ROOT: Final = Path("/var/lib/agent-reminiscence")

# Starting takes 0.1 s, creating a cluster 0.6 s, crash recovery depends on the size of its log.
_START_TIMEOUT_SECONDS: Final = 60.0
# A stop writes everything that is only in memory, up to `shared_buffers`.
_STOP_TIMEOUT_SECONDS: Final = 60.0


class EmbeddedPostgres:
    """The server of one data folder; any number of objects and processes may use it at once.

    A process that ends without `stop()` leaves when the interpreter exits, or when the kernel cleans up after it. A
    process forked while the server is in use counts as a user until it ends.

    Args:
        data_dir: Created if missing. Holds the cluster (`postgres/`), its log and the locks; existing files stay.
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
        self._process = 0

    async def start(self) -> ServerAddress:
        """Join the running server, or create and start it; if called again, restart it after a crash.

        Returns:
            The address, once the server accepts connections.

        Raises:
            ConfigurationError: The programs are missing or do not fit, the data folder was created by another
                PostgreSQL version or an earlier release, or this user cannot run a server in it. Nothing was changed.
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
            self._cluster.check()
            self._data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self._start_lock(deadline) as start_lock:
                joining = self._users_lock is None
                if joining:
                    self._become_user()
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

    def _become_user(self) -> None:
        self._users_lock = _open_lock(self._data_dir / "users.lock")
        # Can be shared: exclusive locks are only taken under the start lock, which we hold.
        fcntl.flock(self._users_lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        self._process = os.getpid()
        atexit.register(self._leave_at_exit)

    def _leave_locked(self, start_lock: int, *, stop: bool) -> None:
        """Stop being a user and, if `stop`, stop a server without other users; needs the start lock."""
        self._drop_users_lock()
        if stop and self._is_unused():
            self._cluster.stop(Deadline(_STOP_TIMEOUT_SECONDS), start_lock)

    def _drop_users_lock(self) -> None:
        atexit.unregister(self._leave_at_exit)
        if self._users_lock is not None:
            os.close(self._users_lock)
            self._users_lock = None

    def _is_unused(self) -> bool:
        # Opened again: locks belong to an open file, so other objects of this process count as other users.
        users_lock = _open_lock(self._data_dir / "users.lock")
        try:
            return _try_lock(users_lock)
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
        lock = _open_lock(self._data_dir / "start.lock")
        try:
            while not _try_lock(lock):
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


@contextmanager
def _errors_name(data_dir: Path) -> Iterator[None]:
    """Translate operating system errors into errors that name the data folder."""
    try:
        yield
    except PermissionError as error:
        raise ConfigurationError(
            f"user {os.geteuid()} cannot use the data folder {str(data_dir)!r}: {error};"
            " choose another one (data_dir, REMINISCENCE_DATA_DIR)"
        ) from error
    except OSError as error:
        raise StoreError(f"the server of data folder {str(data_dir)!r} cannot be run: {error}") from error


def _open_lock(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
