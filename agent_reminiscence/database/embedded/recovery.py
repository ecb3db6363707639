"""Recognises a server that is in recovery and will never leave it.

PostgreSQL restarts by itself when one of its processes was killed: it ends the others, and a `startup` process repairs
the database. If that one is killed as well, the postmaster may wait for ever: it refuses connections because it is in
recovery, starts no other `startup` process, and does not end when asked to. Only ending it by force helps, and nothing
that was committed is lost by that: the next start repairs the database from its log.
"""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path
from typing import Final

# How long a server may be without a `startup` process. After a crash it waits up to five seconds for its other
# processes to end before it starts one.
_PATIENCE_SECONDS: Final = 7.0
# A stop in order has no such process either, and may write for long; what is told apart only by the log.
_STOPPING_PATIENCE_SECONDS: Final = 40.0
# Looking takes milliseconds; and a time in which this process did not look, because it slept, proves little.
_LOOK_SECONDS: Final = 0.25
_LONGEST_STEP_SECONDS: Final = 1.0
_TAIL_BYTES: Final = 16_384

# What the server calls its process in the list of processes: `postgres: <cluster_name>: startup recovering …`.
_STARTUP: Final = re.compile(r"postgres: (?:.*: )?startup\b")
# What it logs for everyone who asks whether it accepts connections; none of it is progress.
_REFUSAL: Final = re.compile(r"FATAL: .*the database system is (.*)")
_STOPPING: Final = "shutting down"


class RecoveryWatch:
    """Watches a server that accepts no connection.

    Args:
        folder: The cluster's.
        log: The server's.
    """

    def __init__(self, folder: Path, log: Path) -> None:
        self._folder = folder
        self._log = log
        self._looked_at = 0.0
        self._waited_seconds = 0.0
        self._seen: tuple[object, ...] = ()
        self._is_stopping = False
        self._last_line = ""
        self.is_recovering = False
        """Whether the server had a `startup` process when it was last looked at."""

    def is_in_vain(self, postmaster: int) -> bool:
        """Whether the server has done nothing for so long that it never will.

        To be called again and again; it looks four times a second at most.

        Args:
            postmaster: The id of the running server's first process.
        """
        now = time.monotonic()
        if now - self._looked_at < _LOOK_SECONDS:
            return False
        step, self._looked_at = min(now - self._looked_at, _LONGEST_STEP_SECONDS), now
        self._read_log()
        seen = (postmaster, self._state_written_at(), self._last_line, self._is_stopping)
        self.is_recovering = any(map(_STARTUP.match, _children(postmaster)))
        if seen != self._seen or self.is_recovering:
            self._seen, self._waited_seconds = seen, 0.0
            return False
        self._waited_seconds += step
        return self._waited_seconds >= (_STOPPING_PATIENCE_SECONDS if self._is_stopping else _PATIENCE_SECONDS)

    def _state_written_at(self) -> int:
        try:
            return (self._folder / "global" / "pg_control").stat().st_mtime_ns
        except OSError:
            return 0

    def _read_log(self) -> None:
        """Note the newest line that is not about somebody who asked, and whether the server says that it stops."""
        try:
            with self._log.open("rb") as log:
                log.seek(max(0, log.seek(0, 2) - _TAIL_BYTES))
                lines = log.read().decode(errors="replace").splitlines()
        except OSError:
            return
        refusals = [found[1] for found in map(_REFUSAL.search, lines) if found]
        if refusals:
            self._is_stopping = refusals[-1].startswith(_STOPPING)
        # None: only refusals were logged lately, and they fill all that was read.
        self._last_line = next((line for line in reversed(lines) if not _REFUSAL.search(line)), self._last_line)


def _children(process: int) -> list[str]:
    """How the system's list of processes names the children of a process."""
    if Path("/proc/self/stat").exists():
        return [name for found in Path("/proc").iterdir() if (name := _name_of_child(found, process)) is not None]
    listed = subprocess.run(
        ["/bin/ps", "-axo", "ppid=,command="], check=False, capture_output=True, text=True, errors="replace"
    )
    pairs = (line.strip().partition(" ") for line in listed.stdout.splitlines())
    return [name.strip() for parent, _, name in pairs if parent == str(process)]


def _name_of_child(found: Path, process: int) -> str | None:
    if not found.name.isdigit():
        return None
    try:
        # The name, in parentheses, may hold anything; the state and the parent follow it.
        _, parent, *_ = (found / "stat").read_text(errors="replace").rpartition(")")[2].split()
        return (found / "cmdline").read_text(errors="replace").replace("\0", " ") if parent == str(process) else None
    except OSError:
        return None  # it has ended meanwhile
