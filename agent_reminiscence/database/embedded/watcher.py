"""Stops the embedded server when its last user is gone, even if that was killed; a program of its own.

It is run as a file, by an interpreter that does not load the package, and uses little of the standard library, because
it stays for as long as the server. It waits for a lock that all users share; the kernel drops a lock when its holder
dies, however it dies. Usually the last user has stopped the server by then, and nothing is left to do.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Final

if sys.platform != "win32":
    import fcntl

# Held exclusively by the watcher while it runs, so that there is one.
WATCHER_LOCK: Final = "watcher.lock"
# Shared by the users, for the watcher to wait for. Not `users.lock`: a leaving user learns from that one whether it was
# the last, and must not meet the watcher there.
WATCH_LOCK: Final = "watch.lock"

_STOP_SECONDS: Final = 60.0
# How long a server that is ended by force may take to end its processes.
_FORCE_SECONDS: Final = 3.0
_POLL_SECONDS: Final = 0.02
# How soon to look again at a server that must not be stopped yet.
_PAUSE_SECONDS: Final = 1.0


def works_in(process: int, folder: Path) -> bool:
    """Whether the process with this id is the server of `folder`, which stays its working folder."""
    if Path("/proc/self/cwd").exists():
        try:
            return Path(f"/proc/{process}/cwd").samefile(folder)
        except OSError:
            return False
    # Imported here: most watchers need no program.
    import subprocess

    listed = subprocess.run(  # noqa: S603 - numbers only
        ["/bin/ps", "-p", str(process), "-o", "comm="], check=False, capture_output=True, text=True
    )
    return Path(listed.stdout.strip()).name == "postgres"


def end_by_force(process: int, folder: Path) -> None:
    """End the server of `folder` as if it had crashed; what was committed stays, and the next start repairs the rest.

    Args:
        process: The id of its first process.
    """
    # As `pg_ctl stop -m immediate` does; if it does not even hear that, its other processes notice that it is gone.
    for signal_number in (signal.SIGQUIT, signal.SIGKILL):
        try:
            os.kill(process, signal_number)
        except ProcessLookupError:
            return
        if _has_ended(process, folder, _FORCE_SECONDS):
            return


def _has_ended(process: int, folder: Path, seconds: float) -> bool:
    """Wait until the server has ended, at most so long."""
    end = time.monotonic() + seconds
    while works_in(process, folder):
        if time.monotonic() > end:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def open_lock(path: Path) -> int:
    """Open a lock file, created if missing; the lock is dropped when it is closed."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def try_lock(lock: int, *, shared: bool = False) -> bool:
    """Lock without waiting; return False if that is not possible."""
    try:
        fcntl.flock(lock, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def watch(data_dir: Path, watcher_lock: int) -> None:
    """Wait until nobody uses the server of `data_dir`, then stop it if it still runs.

    Args:
        watcher_lock: The open lock of the one watcher.
    """
    watched, users, start = (open_lock(data_dir / name) for name in (WATCH_LOCK, "users.lock", "start.lock"))
    while True:
        fcntl.flock(watched, fcntl.LOCK_EX)
        # At once: a new user may be waiting for it.
        fcntl.flock(watched, fcntl.LOCK_UN)
        fcntl.flock(start, fcntl.LOCK_EX)
        if not (_is_still(data_dir / "users.lock", users) and _is_still(data_dir / "start.lock", start)):
            return  # the folder was removed; what is there now is not ours
        if try_lock(users):
            if _stop(data_dir / "postgres"):
                # The start lock is still held, so whoever starts the server next starts a watcher as well.
                os.close(watcher_lock)
                return
            fcntl.flock(users, fcntl.LOCK_UN)
        fcntl.flock(start, fcntl.LOCK_UN)
        time.sleep(_PAUSE_SECONDS)


def _stop(folder: Path) -> bool:
    """Stop the server if there is one, and wait until it has ended; return False if it has to be left alone for now."""
    try:
        lines = (folder / "postmaster.pid").read_text().splitlines()
        process = int(lines[0])
    except (OSError, ValueError, IndexError):
        return True
    if not works_in(process, folder):
        return True
    # The server writes the last line once it accepts connections. Stopped earlier, a recovery would have to begin anew.
    if len(lines) < 8 or lines[7].strip() == "starting":
        return False
    try:
        # As `pg_ctl stop -m fast` does.
        os.kill(process, signal.SIGINT)
    except ProcessLookupError:
        return True
    if not _has_ended(process, folder, _STOP_SECONDS):
        # Most likely it lost its `startup` process in a recovery, and hears nothing (recovery.py). Nobody is left who
        # would notice, and nothing that was committed is lost.
        end_by_force(process, folder)
    return True


def _is_still(path: Path, lock: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(lock))
    except OSError:
        return False


if __name__ == "__main__":
    watch(Path(sys.argv[1]), int(sys.argv[2]))
