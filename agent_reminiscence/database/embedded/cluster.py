"""The cluster of one data folder: its files, its settings, and the programs that create, start and stop its server."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Final, Literal, NamedTuple

from agent_reminiscence.config.constants import EXPORT_FIRST
from agent_reminiscence.database.embedded.programs import (
    SYSTEM_USER,
    Account,
    Programs,
    find_programs,
    run_environment,
    system_account,
)
from agent_reminiscence.database.embedded.recovery import RecoveryWatch
from agent_reminiscence.database.embedded.watcher import end_by_force, works_in
from agent_reminiscence.exceptions import ConfigurationError, ReminiscenceError, StoreError, StoreTimeoutError

_logger = logging.getLogger("agent_reminiscence.embedded")

_SUPERUSER: Final = "postgres"

_POLL_SECONDS: Final = 0.02
# How long a program may keep running after we have stopped waiting for it.
_GRACE_SECONDS: Final = 1.0

# A socket's path may have 107 bytes on Linux and 103 on macOS (sockaddr_un without the terminating zero).
_SOCKET_PATH_LIMIT_BYTES: Final = 103
# The log gains a few lines per start; beyond this size a start moves it to `postgres.log.1`.
_LOG_LIMIT_BYTES: Final = 1_000_000
_LOG_TAIL_LINES: Final = 20

# Larger than any process id, so it never matches a process.
_NO_PROCESS: Final = 2**31 - 1

# The first version with its own locale provider. Older ones use the system library for case and sort order: with the
# locale C both are the same on every machine, and none of our statements depends on either.
_BUILTIN_LOCALES_SINCE: Final = 17
# Only releases on PostgreSQL 17 preloaded this extension. It identifies their folders among others of that version.
_EARLIER_LIBRARY: Final = "pg_textsearch"

_SETTINGS: Final = {
    "cluster_name": "agent-reminiscence",
    # The socket is in the server's working folder, which is the cluster's.
    "listen_addresses": "",
    "unix_socket_directories": ".",
    "unix_socket_permissions": "0700",
    "port": "5432",
    "max_connections": "100",
    # One statement on a partitioned table locks all its partitions and indexes.
    "max_locks_per_transaction": "512",
    "shared_buffers": "128MB",
    # No replicas: the log only has to restore the server, and stays small on disk.
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "min_wal_size": "64MB",
    "max_wal_size": "512MB",
    # Parallel workers need shared memory, and a container's /dev/shm has 64 MB. One process answers in milliseconds.
    "max_parallel_workers_per_gather": "0",
    "max_parallel_maintenance_workers": "0",
    "fsync": "on",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "lc_messages": "C",
    # Statements, parameters and error messages quote memories, and none of that may reach the log: only the server's
    # messages about itself do (`log` omits WARNING and ERROR, which the client gets; `terse` omits the statement
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
# Where the server and its clients meet; with other values clients could not find it.
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


type _Answer = Literal["ready", "busy", "silent"]


class ServerAddress(NamedTuple):
    """Where a client finds the server.

    Attributes:
        host: The folder of the Unix socket; at most 103 bytes including the socket's name.
        port: Part of the socket's name; a TCP port only if `listen_addresses` is set.
        superuser: A database role with all rights and no password.
    """

    host: str
    port: int
    superuser: str


class CallerGoneError(ReminiscenceError):
    """The waiting task was cancelled; this error never leaves the package."""


class Deadline:
    """A time limit for blocking work, which also ends when `cancelled` is set."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.cancelled = threading.Event()
        self._end = time.monotonic() + seconds

    def pause(self) -> bool:
        """Wait a moment; return False when the time is over.

        Raises:
            CallerGoneError: Nobody is waiting for the work any more.
        """
        if self.cancelled.wait(_POLL_SECONDS):
            raise CallerGoneError("cancelled")
        return time.monotonic() < self._end


class Cluster:
    """The files and server processes of one data folder; the caller holds the start lock."""

    def __init__(self, data_dir: Path, settings: Mapping[str, str], programs: Path | None) -> None:
        self._data_dir = data_dir
        self._named_programs = programs
        self._folder = data_dir / "postgres"
        self._log = data_dir / "postgres.log"
        self.endings = 0
        """How many servers were ended by force because they were in recovery for ever."""
        self._settings = _SETTINGS | {_checked(name, value): value for name, value in settings.items()}

    @property
    def address(self) -> ServerAddress:
        """The server's address, whether it is running or not."""
        port = self._port()
        return ServerAddress(_short_path(self._folder, f".s.PGSQL.{port}"), port, _SUPERUSER)

    def exists(self) -> bool:
        """Whether the cluster has been created."""
        return self._made_by() is not None

    def check(self) -> None:
        """Check that the programs fit, and the cluster if it exists; changes nothing.

        Raises:
            ConfigurationError: The programs are missing or too old, or the cluster was created by another PostgreSQL
                version or an earlier release; the message says how to move its memories.
        """
        programs = self._programs
        made_by = self._made_by()
        if made_by is None:
            return
        if self._is_of_earlier_release():
            raise ConfigurationError(
                f"the data folder {str(self._data_dir)!r} (PostgreSQL {made_by}) was made by an earlier release, whose"
                f" tables this one cannot read; nothing in it was changed. {EXPORT_FIRST} a new data folder (data_dir)"
            )
        if made_by != str(programs.major):
            raise ConfigurationError(
                f"the data folder {str(self._data_dir)!r} was created by PostgreSQL {made_by}; the programs in"
                f" {str(programs.folder)!r}, PostgreSQL {programs.version_name}, cannot read it. Nothing in it was"
                f" changed. Set postgres_programs to a folder with PostgreSQL {made_by} and pgvector. Or upgrade:"
                f" {EXPORT_FIRST[0].lower()}{EXPORT_FIRST[1:]} a new data folder (data_dir)"
            )

    def _made_by(self) -> str | None:
        """The major version that created the cluster, such as `18`; None if there is no cluster."""
        try:
            return (self._folder / "PG_VERSION").read_text().strip()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _is_of_earlier_release(self) -> bool:
        """Recognise it by the settings that are written at each start of the server."""
        try:
            return _EARLIER_LIBRARY in (self._folder / "reminiscence.conf").read_text()
        except FileNotFoundError:
            return False

    def ensure_running(self, deadline: Deadline, start_lock: int) -> None:
        """Create the cluster and start the server if needed; return when the server accepts connections."""
        # Checked again under the lock: another process may just have created the cluster.
        self.check()
        if not self.exists():
            self._create(deadline, start_lock)
        watch = RecoveryWatch(self._folder, self._log)
        while (answer := self._answer()) != "ready":
            postmaster = self._postmaster()
            if postmaster is not None and watch.is_in_vain(postmaster):
                self._end_stuck(postmaster)
                continue
            # A process id alone proves nothing, but a starting server has no socket yet.
            if answer == "silent" and postmaster is None:
                self._launch(deadline, start_lock)
            if not deadline.pause():
                raise StoreTimeoutError(
                    f"the server of {str(self._data_dir)!r} did not accept connections within {deadline.seconds:g} s;"
                    f" if it is recovering from a crash, it continues, and a later start joins it."
                    f" The end of its log:\n{self._log_tail()}"
                )

    def stop(self, deadline: Deadline, start_lock: int) -> None:
        """Stop the server if it is running, and wait until it has ended."""
        host = Path(self.address.host)
        answer = self._answer()
        if answer == "silent" and not self._has_postmaster():
            return
        if answer != "ready" and self._is_stuck(deadline):
            return
        code = self._run(
            ["pg_ctl", "stop", "-s", "-w", "-m", "fast", "-t", f"{deadline.seconds:.0f}"], deadline, start_lock
        )
        if code is None:
            raise StoreTimeoutError(f"the server of {str(self._data_dir)!r} did not stop within {deadline.seconds:g} s")
        # It may have stopped by itself meanwhile.
        if code != 0 and (self._answer() != "silent" or self._has_postmaster()):
            raise StoreError(
                f"the server of {str(self._data_dir)!r} did not stop; the end of its log:\n{self._log_tail()}"
            )
        if host != self._folder:
            host.unlink(missing_ok=True)

    def _is_stuck(self, deadline: Deadline) -> bool:
        """Whether the server was in recovery for ever, where it does not hear that it is to stop; it is ended then."""
        watch = RecoveryWatch(self._folder, self._log)
        while self._answer() != "ready" and (postmaster := self._postmaster()) is not None:
            if watch.is_in_vain(postmaster):
                self._end_stuck(postmaster)
                return True
            # One that is really recovering can be stopped.
            if watch.is_recovering or not deadline.pause():
                break
        return False

    def _end_stuck(self, postmaster: int) -> None:
        _logger.warning(
            "the server of %s was in recovery without a process that recovers it, and would have stayed so; it was"
            " ended, and the next start repairs the database",
            self._data_dir,
        )
        end_by_force(postmaster, self._folder)
        self.endings += 1

    def _create(self, deadline: Deadline, start_lock: int) -> None:
        """Create the cluster in a temporary place and move it when it is complete."""
        unfinished = self._folder.with_name("postgres.new")
        _remove(unfinished, deadline)
        unfinished.mkdir(mode=0o700)
        if self._account:
            os.chown(unfinished, self._account.uid, self._account.gid)
        code = self._run(
            [
                "initdb",
                f"--username={_SUPERUSER}",
                "--auth-local=trust",
                "--auth-host=scram-sha-256",
                "--encoding=UTF8",
                "--locale=C",
                *self._locale_options(),
                "--data-checksums",
                # For the server that fills the cluster, which then costs less; each start sets our own.
                "--set=shared_buffers=8MB",
                *(["--no-sync"] if self._settings["fsync"] == "off" else []),
            ],
            deadline,
            start_lock,
            folder=unfinished,
        )
        if code is None:
            raise StoreTimeoutError(f"creating {str(self._folder)!r} took longer than {deadline.seconds:g} s")
        if code != 0:
            raise StoreError(f"creating {str(self._folder)!r} failed:\n{self._log_tail()}")
        configuration = unfinished / "postgresql.conf"
        self._write(configuration, configuration.read_text() + "\ninclude_if_exists 'reminiscence.conf'\n")
        unfinished.rename(self._folder)
        _sync_folder(self._data_dir)

    def _locale_options(self) -> list[str]:
        """Use the server's own locale provider if it has one, so that order and case are the same on every machine."""
        if self._programs.major >= _BUILTIN_LOCALES_SINCE:
            return ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        return ["--locale-provider=libc"]

    def _launch(self, deadline: Deadline, start_lock: int) -> None:
        lines = [f"{name} = {_quoted(value)}\n" for name, value in self._settings.items()]
        self._write(
            self._folder / "reminiscence.conf", "# Rewritten whenever the server is started.\n" + "".join(lines)
        )
        self._disown_stale_locks()
        self._rotate_log()
        before = self._log_size()
        # At least a second for `pg_ctl`, which takes whole ones; the deadline ends it earlier.
        code = self._run(["pg_ctl", "start", "-s", "-w", "-t", f"{max(deadline.seconds, 1):.0f}"], deadline, start_lock)
        # Processes of a killed server end as soon as they notice; until then their shared memory blocks a new one.
        if code not in (0, None) and "pre-existing shared memory block" not in self._log_since(before):
            raise StoreError(
                f"the server of {str(self._data_dir)!r} did not start; the end of its log:\n{self._log_tail()}"
            )

    def _answer(self) -> _Answer:
        """Ask the server itself: if something answers on the socket, it is alive, whatever process ids say."""
        address = self.address
        command = [str(self._programs.program("pg_isready")), "-q", "-h", address.host, "-p", str(address.port)]
        code = subprocess.run(  # noqa: S603 - a PostgreSQL program, arguments are ours
            [*command, "-t", "3", "-U", _SUPERUSER, "-d", "postgres"],
            check=False,
            env=run_environment(),
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
        """The running server's port, which another object's settings may have chosen; otherwise ours."""
        lines = self._pid_file()
        return int(lines[3]) if len(lines) > 3 and lines[3].isdigit() else int(self._settings["port"])

    def _has_postmaster(self) -> bool:
        return self._postmaster() is not None

    def _postmaster(self) -> int | None:
        """The id of the server's first process; None if it does not run."""
        lines = self._pid_file()
        if lines and lines[0].isdigit() and works_in(int(lines[0]), self._folder):
            return int(lines[0])
        return None

    def _disown_stale_locks(self) -> None:
        """Prevent a process that reuses a killed server's id from being mistaken for the server.

        The server would refuse to start ("lock file already exists"). `postmaster.pid` is not removed: through the
        shared memory it names, the server makes sure that no process of the killed one is still writing.
        """
        if lines := self._pid_file():
            self._write(self._folder / "postmaster.pid", "\n".join([str(_NO_PROCESS), *lines[1:]]) + "\n")
        for socket_lock in self._folder.glob(".s.PGSQL.*.lock"):
            socket_lock.unlink()

    @cached_property
    def _account(self) -> Account | None:
        """The account that runs the server; None is this process's own user."""
        if os.geteuid() != 0:
            return None
        try:
            owner = self._folder.stat()
        except FileNotFoundError:
            return system_account()
        if owner.st_uid == 0:
            raise ConfigurationError(
                f"{str(self._folder)!r} belongs to root, but PostgreSQL refuses to run as root:"
                f" run `chown -R {SYSTEM_USER}: {self._folder}`"
            )
        return Account(owner.st_uid, owner.st_gid)

    @cached_property
    def _programs(self) -> Programs:
        return find_programs(self._named_programs)

    @cached_property
    def _runnable(self) -> Path:
        """The folder from which the server's user runs the programs."""
        return self._programs.for_account(self._account)

    def _run(
        self, command: list[str], deadline: Deadline, start_lock: int, *, folder: Path | None = None
    ) -> int | None:
        """Run a PostgreSQL program on the cluster as the server's user, with its output in the log.

        It gets its own session, so that Ctrl-C in a terminal does not reach the server, and writes to a file: a pipe
        would stay open as long as the server runs. Its input is the start lock, which is thus held until the program
        has ended, even if this process is killed first; `pg_ctl` gives the server another input.

        Returns:
            Its exit code, or None if it was ended at the deadline; a server that it started keeps running.
        """
        folder = folder or self._folder
        account = self._account
        # For root, the path may lead through folders that the server's user may not enter, but it need not do so:
        # root enters the folder, and from inside it has this name. (Other systems need the path.)
        inside = account is not None and Path("/proc/self/cwd").exists()
        log = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            process = subprocess.Popen(  # noqa: S603 - a PostgreSQL program, arguments are ours
                [str(self._runnable / command[0]), *command[1:], "-D", "/proc/self/cwd" if inside else str(folder)],
                cwd=folder,
                env=run_environment(),
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
            # If ended in its first moments, `pg_ctl` would leave a server that has not yet written its pid file.
            with suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE_SECONDS)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return process.returncode

    def _write(self, path: Path, text: str) -> None:
        """Replace a file of the cluster, keeping the owner."""
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


def _remove(folder: Path, deadline: Deadline) -> None:
    while folder.exists():
        try:
            shutil.rmtree(folder)
        except PermissionError:
            raise
        except OSError:
            # A process left over from a killed creation is just removing its own files.
            if not deadline.pause():
                raise


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _checked(name: str, value: str) -> str:
    """Return the name of a permitted setting, or raise."""
    if not _SETTING_NAME.fullmatch(name):
        raise ConfigurationError(f"{name!r} is not a PostgreSQL setting name (lower case)")
    if name in _FIXED_SETTINGS:
        raise ConfigurationError(f"the setting {name!r} is fixed: with another value clients could not find the server")
    if name == "port" and not value.isdecimal():
        raise ConfigurationError(f"the port {value!r} is not a number")
    if not value.isprintable():
        raise ConfigurationError(f"the value of {name!r} has characters not allowed in a configuration file: {value!r}")
    return name


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


def _short_path(folder: Path, socket_name: str) -> str:
    """Return a path to `folder` that is short enough for a client to open the socket.

    If the folder's own path is too long, this is a link in a private temporary folder. Only the client needs it, so
    processes need not agree on it, and it is recreated if a cleaner removes it.

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
