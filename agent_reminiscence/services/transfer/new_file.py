"""A file that appears in its place once it is whole: written beside the target first, then moved."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from agent_reminiscence.exceptions import InvalidInputError


class NewFile:
    """Writes one file next to its target; the target is whole or absent. Only its owner may read it.

    Args:
        path: The target; its folder must exist.
        overwrite: Whether to replace an existing file.
        kind: What the temporary file is called: `.<kind>-….part`. A killed process leaves one.
    """

    def __init__(self, path: Path, *, overwrite: bool, kind: str = "export") -> None:
        self._path = path
        self._overwrite = overwrite
        self._kind = kind
        self._temporary: Path | None = None
        self._file: BinaryIO | None = None

    def create(self) -> None:
        """Create the temporary file.

        Raises:
            InvalidInputError: The target exists or cannot be a file; nothing is left behind.
        """
        self.refuse_target()
        with writing(self._path):
            descriptor, name = tempfile.mkstemp(suffix=".part", prefix=f".{self._kind}-", dir=self._path.parent)
            self._temporary = Path(name)
            self._file = os.fdopen(descriptor, "wb")

    def write(self, data: bytes) -> None:
        """Append `data`.

        Raises:
            InvalidInputError: The file is not open, or the disk refused.
        """
        if self._file is None:
            raise InvalidInputError(f"{self._path}: the writer is not open")
        with writing(self._path):
            self._file.write(data)

    def written(self) -> Path:
        """Send what was written to the disk, and return the temporary file, to be read before it is published.

        Raises:
            InvalidInputError: The file is not open, or the disk refused.
        """
        if self._file is None or self._temporary is None:
            raise InvalidInputError(f"{self._path}: the writer is not open")
        with writing(self._path):
            self._file.flush()
            os.fsync(self._file.fileno())
        return self._temporary

    def publish(self) -> None:
        """Move the file to its target, durably.

        Raises:
            InvalidInputError: The target was created meanwhile, or the disk refused.
        """
        self.refuse_target()
        with writing(self._path):
            self._publish()

    def refuse_target(self) -> None:
        """Refuse a target that exists, unless it is a file that may be replaced.

        Raises:
            InvalidInputError: It exists.
        """
        with writing(self._path):
            try:
                found = os.lstat(self._path)
            except FileNotFoundError:
                return
        if not stat.S_ISREG(found.st_mode):
            raise InvalidInputError(f"{self._path} exists and is not a regular file; choose another path")
        if not self._overwrite:
            raise InvalidInputError(f"{self._path} exists; choose another path, or allow overwriting it")

    def remove(self) -> None:
        """Delete the temporary file; does nothing once it has been published."""
        # Closing may write, and a full disk must not hide the error that led here.
        with suppress(OSError):
            if self._file is not None:
                self._file.close()
        self._file = None
        with suppress(OSError):
            if self._temporary is not None:
                self._temporary.unlink(missing_ok=True)
        self._temporary = None

    def _publish(self) -> None:
        assert self._file is not None
        assert self._temporary is not None
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._temporary.replace(self._path)
        self._temporary = None
        if sys.platform == "win32":
            return  # a folder cannot be opened on Windows
        # Without this a crash may forget the new name.
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what a disk refuses into an error that names the file."""
    try:
        yield
    except OSError as error:
        raise InvalidInputError(
            f"{path} cannot be written: {error.strerror or error}; choose another path, or free some space"
        ) from error
