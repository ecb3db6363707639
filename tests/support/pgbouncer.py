"""A real PgBouncer for tests, in front of a server on a TCP port of this machine."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

import pytest

from agent_reminiscence.database.connection import ConnectionSettings
from tests.support.server_process import SCRIPTS

NEEDS_PGBOUNCER: Final = "needs PgBouncer"
"""How the reason of a skipped test begins."""

_PATIENCE_SECONDS: Final = 60.0
# PgBouncer refuses to be root.
_NOBODY: Final = "nobody"


class PgBouncer:
    """A pooler on a port of its own, which lets the given logins through to their server; for a `with` block.

    Args:
        program: Its path.
        logins: Who connects; all on the same server, and each with a password.
        pool_mode: `transaction`, `session` or `statement`.
        settings: Further lines of its configuration.
    """

    def __init__(self, program: Path, logins: Iterable[ConnectionSettings], pool_mode: str, **settings: object) -> None:
        self._program = program
        self._logins = list(logins)
        self._settings = {"pool_mode": pool_mode, **settings}
        self.port = 0

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="reminiscence-pgbouncer-"))
        try:
            self._start()
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        return self

    def _start(self) -> None:
        # It may be in root's own folder, where nobody else may look.
        program = Path(shutil.copy(self._program, self._folder))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        server = self._logins[0]
        (self._folder / "users.txt").write_text(
            "".join(f"{_quoted(login.user)} {_quoted(login.password or '')}\n" for login in self._logins)
        )
        lines = {
            "listen_addr": "127.0.0.1",
            "listen_port": self.port,
            "unix_socket_dir": "",
            "auth_type": "scram-sha-256",
            "auth_file": self._folder / "users.txt",
        } | self._settings
        configuration = self._folder / "pgbouncer.ini"
        configuration.write_text(
            f"[databases]\n* = host={server.host} port={server.port}\n[pgbouncer]\n"
            + "".join(f"{name} = {value}\n" for name, value in lines.items())
        )
        self._folder.chmod(0o755)
        as_root = os.getuid() == 0
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [program, configuration],
                stdout=log,
                stderr=log,
                user=_NOBODY if as_root else None,
                extra_groups=[] if as_root else None,
            )
        end = time.monotonic() + _PATIENCE_SECONDS
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            if self._process.poll() is not None or time.monotonic() > end:
                self._stop()
                raise RuntimeError(f"PgBouncer does not start: {(self._folder / 'log').read_text()[-2000:]}")
            time.sleep(0.02)

    def __exit__(self, *_: object) -> None:
        self._stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _stop(self) -> None:
        if self._process.poll() is None:
            # At once, whoever is connected.
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def through(self, login: ConnectionSettings) -> ConnectionSettings:
        """The same login and database, through this pooler."""
        return replace(login, host="127.0.0.1", port=self.port)


def _quoted(text: str) -> str:
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


def find_program(which: str) -> Path:
    """The program that `tests/servers/pgbouncer.sh` finds, installs or builds; skips the test where none can be had.

    Args:
        which: `debian` or `newer`.
    """
    found = subprocess.run([SCRIPTS / "pgbouncer.sh", which], capture_output=True, text=True, check=False)
    if found.returncode != 0:
        why = found.stderr.strip().splitlines()[-1:] or [f"pgbouncer.sh ended with {found.returncode}"]
        pytest.skip(f"{NEEDS_PGBOUNCER}: {which}: {why[0]}")
    return Path(found.stdout.strip())


def version_of(program: Path) -> tuple[int, int]:
    """Its release, such as (1, 18)."""
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    major, minor = told.split()[1].split(".")[:2]
    return int(major), int(minor)
