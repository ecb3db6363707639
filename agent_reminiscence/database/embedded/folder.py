"""Checks the place that a user chose for the data, before anything is written or started there."""

from __future__ import annotations

import errno
import os
import shlex
import stat
from pathlib import Path
from typing import Final

from agent_reminiscence.exceptions import ConfigurationError

# What we create. One of these alone is enough for a folder to be ours: a creation may have been interrupted.
_OURS: Final = frozenset(
    {
        "postgres",
        "postgres.new",
        "postgres.log",
        "postgres.log.1",
        "start.lock",
        "users.lock",
        "watch.lock",
        "watcher.lock",
    }
)
# What a file system or the desktop puts into an empty folder.
_NOBODYS: Final = frozenset({"lost+found", ".DS_Store"})
_NAMED_ENTRIES: Final = 3

# What is wrong with the place, and would be so at any time.
_OF_THE_PLACE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.EROFS})

_CHOOSE: Final = "choose another one (data_dir, REMINISCENCE_DATA_DIR, --data-dir)"


def check_folder(data_dir: Path) -> None:
    """Check that the embedded server's data may live in `data_dir`; changes nothing.

    Raises:
        ConfigurationError: It is not a folder, holds somebody else's files, cannot be written, or is open to others;
            the message names it and the way out.
    """
    try:
        mode = data_dir.stat().st_mode
    except FileNotFoundError:
        _check_parent(data_dir)
        return
    except NotADirectoryError:
        _check_parent(data_dir)
        raise
    if not stat.S_ISDIR(mode):
        raise ConfigurationError(f"the data folder {str(data_dir)!r} is not a folder; {_CHOOSE}")
    # Whoever may write here could replace the cluster, however closed that is itself.
    if mode & stat.S_IWOTH:
        raise ConfigurationError(
            f"every user of this machine may write to the data folder {str(data_dir)!r} (mode"
            f" {stat.S_IMODE(mode):o}): run `chmod 700 {shlex.quote(str(data_dir))}`, or {_CHOOSE}"
        )
    if not _may(data_dir, os.R_OK | os.W_OK | os.X_OK):
        raise ConfigurationError(
            f"user {os.geteuid()} cannot write to the data folder {str(data_dir)!r}; make it writable, or {_CHOOSE}"
        )
    names = {entry.name for entry in os.scandir(data_dir)}
    if not names & _OURS and (theirs := sorted(names - _NOBODYS)):
        shown = ", ".join(map(repr, theirs[:_NAMED_ENTRIES])) + (", …" if len(theirs) > _NAMED_ENTRIES else "")
        raise ConfigurationError(
            f"the data folder {str(data_dir)!r} holds other files ({shown}) and no memory; name a new or empty folder,"
            f" such as {str(data_dir / 'memory')!r} (data_dir, REMINISCENCE_DATA_DIR, --data-dir)"
        )
    _check_cluster(data_dir / "postgres")


def create_folder(data_dir: Path) -> None:
    """Create `data_dir` for this user alone, unless it exists.

    Raises:
        ConfigurationError: There can be no folder in this place, such as below `/proc`, whatever its permissions say.
    """
    try:
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        if error.errno not in _OF_THE_PLACE:
            raise
        raise ConfigurationError(
            f"the data folder {str(data_dir)!r} cannot be created: {error.strerror}; {_CHOOSE}"
        ) from None


def _check_parent(data_dir: Path) -> None:
    """Check the folder in which `data_dir`, or the first missing folder above it, would be created."""
    parent = next(parent for parent in data_dir.parents if parent.exists())
    if not parent.is_dir():
        raise ConfigurationError(
            f"the data folder {str(data_dir)!r} cannot be created: {str(parent)!r} is not a folder; {_CHOOSE}"
        )
    if not _may(parent, os.W_OK | os.X_OK):
        raise ConfigurationError(
            f"the data folder {str(data_dir)!r} cannot be created: user {os.geteuid()} cannot write to"
            f" {str(parent)!r}; {_CHOOSE}"
        )


def _check_cluster(folder: Path) -> None:
    """What PostgreSQL would refuse, or what was never its folder."""
    try:
        found = folder.stat()
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(found.st_mode):
        raise ConfigurationError(
            f"{str(folder)!r} must be a folder for the memory's database, but is not; move it away"
        )
    if os.geteuid() not in (0, found.st_uid):
        raise ConfigurationError(
            f"{str(folder)!r} belongs to user {found.st_uid}, but this process runs as user {os.geteuid()}: run as"
            " its owner, or choose another data folder (data_dir, REMINISCENCE_DATA_DIR, --data-dir)"
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IRWXO):
        raise ConfigurationError(
            f"other users may reach {str(folder)!r} (mode {stat.S_IMODE(found.st_mode):o}), so PostgreSQL refuses it:"
            f" run `chmod 700 {shlex.quote(str(folder))}`"
        )
    if not (folder / "PG_VERSION").exists():
        raise ConfigurationError(
            f"{str(folder)!r} exists but does not contain a database; move it away, or choose another data folder"
            " (data_dir, REMINISCENCE_DATA_DIR, --data-dir)"
        )


def _may(path: Path, rights: int) -> bool:
    return os.access(path, rights, effective_ids=os.access in os.supports_effective_ids)
