"""Checks paths before the operating system gets them: its own errors name neither the setting nor the path."""

from __future__ import annotations

import os
from pathlib import Path


def checked_path(value: object, *, as_text: bool = False) -> Path:
    """`value` as a path that the operating system takes.

    Args:
        as_text: Whether it is also handed to programs that take only Unicode. File names of other bytes, which Python
            reads as lone surrogates, are then refused.

    Raises:
        ValueError: It is not such a path. The message continues a sentence that begins with its name.
    """
    if not isinstance(value, str | os.PathLike):
        raise ValueError(f"must be a str or a path, not {type(value).__name__}")
    text = os.fspath(value)
    if not isinstance(text, str):
        raise ValueError("must be a str or a path, not bytes; os.fsdecode() converts them")
    if not text:
        raise ValueError("must not be empty")
    if "\x00" in text:
        raise ValueError(f"has a NUL character at position {text.index(chr(0)):,}, which no path can contain")
    try:
        text.encode() if as_text else os.fsencode(text)
    except UnicodeEncodeError as error:
        raise ValueError(f"has a lone surrogate at position {error.start:,}, which is not Unicode text") from None
    return Path(text)


def absolute_path(path: Path) -> Path:
    """`path` with its `~` replaced and from the root, so that a later change of the working folder does not move it.

    Raises:
        ValueError: The home folder or the working folder does not exist. The message continues a sentence as above.
    """
    try:
        return path.expanduser().absolute()
    except RuntimeError:
        raise ValueError(f"begins with {path.parts[0]!r}, which is nobody's home folder here") from None
    except OSError as error:
        raise ValueError(f"is relative to the working folder, which cannot be found: {error.strerror}") from None
