"""Reads the settings in a `.env` file that the caller named. No file is looked for."""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path
from typing import Final, NamedTuple

from dotenv import dotenv_values
from dotenv.parser import parse_stream

from agent_reminiscence.config.paths import absolute_path, checked_path
from agent_reminiscence.exceptions import ConfigurationError

# Some hundred times a long one; whatever is larger was named by mistake.
_MAX_BYTES: Final = 1_048_576


class EnvFile(NamedTuple):
    """What a file says.

    Attributes:
        path: Where it is, from the root.
        variables: Those with the wanted prefix, spelled as in the file; the last of equal names counts.
    """

    path: Path
    variables: dict[str, str]


def read_env_file(path: str | os.PathLike[str], prefix: str) -> EnvFile:
    """Read the variables whose names begin with `prefix`, in any case, as python-dotenv reads them.

    `${NAME}` in a value stands for another variable, of the file or of the environment.

    Raises:
        ConfigurationError: The file cannot be read, or a line of it cannot. The message names both and quotes neither a
            line nor a value, because one may hold a password.
    """
    try:
        file = absolute_path(checked_path(path))
    except ValueError as error:
        raise ConfigurationError(f"the path of the env file {error}") from None
    text = _read(file)
    for binding in parse_stream(io.StringIO(text)):
        statement = binding.original.string
        line = binding.original.line + statement[: len(statement) - len(statement.lstrip())].count("\n")
        if binding.error:
            raise ConfigurationError(
                f"line {line} of the env file {str(file)!r} cannot be read; write NAME=value, with quotes that are"
                " closed, or # before a comment"
            )
        if binding.value is None and binding.key is not None and binding.key.upper().startswith(prefix):
            raise ConfigurationError(
                f"line {line} of the env file {str(file)!r} names {binding.key} without a value; write"
                f" {binding.key}=value, or remove the line"
            )
    found = dotenv_values(stream=io.StringIO(text))
    return EnvFile(
        file, {name: value for name, value in found.items() if value is not None and name.upper().startswith(prefix)}
    )


def _read(file: Path) -> str:
    try:
        kind = file.stat().st_mode
        # A pipe is what a shell passes for `<(…)`.
        if not (stat.S_ISREG(kind) or stat.S_ISFIFO(kind)):
            raise ConfigurationError(f"the env file {str(file)!r} is not a file; name one that holds NAME=value lines")
        with file.open("rb") as opened:
            data = opened.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        raise ConfigurationError(f"no env file at {str(file)!r}; correct its path") from None
    except OSError as error:
        raise ConfigurationError(f"the env file {str(file)!r} cannot be read: {error.strerror}") from None
    if len(data) > _MAX_BYTES:
        raise ConfigurationError(f"{str(file)!r} has more than {_MAX_BYTES:,} bytes, so it is not an env file")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ConfigurationError(f"line {line} of the env file {str(file)!r} is not UTF-8 text") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")
