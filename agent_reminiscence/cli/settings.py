"""Where a command's settings come from: its options, the environment, and the file that `--env-file` names."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from agent_reminiscence.cli.terminal import complain
from agent_reminiscence.config.env_file import read_env_file

if TYPE_CHECKING:
    from agent_reminiscence import Config

_UNREAD_FILE: Final = Path(".env")
_SETTING = re.compile(rb"^[ \t]*(?:export[ \t]+)?REMINISCENCE_\w+[ \t]*=", re.MULTILINE | re.IGNORECASE)
# Beyond that nobody keeps settings; the file may be anything.
_LOOKED_AT_BYTES: Final = 65_536


@dataclass(slots=True)
class _Call:
    """One call of the program.

    Attributes:
        env_file: The file that it named, if any.
        place: The server that it named before the command: `data_dir` or `postgres_dsn`, or nothing.
        has_looked: Whether it has looked for a file that it does not read.
    """

    env_file: Path | None
    place: Mapping[str, str]
    has_looked: bool = False


_call: ContextVar[_Call | None] = ContextVar("_call", default=None)


@contextmanager
def named_before(*, env_file: Path | None, place: Mapping[str, str]) -> Iterator[None]:
    """Within the block, commands also read their settings from a file, and use a server unless they name one.

    Args:
        place: Its `data_dir` or its `postgres_dsn`, or nothing.
    """
    token = _call.set(_Call(env_file, place))
    try:
        yield
    finally:
        _call.reset(token)


def read_settings(**settings: Any) -> Config:
    """The settings of this command.

    A `.env` in the working folder is not read, because the folder may be somebody else's. If there is one with settings
    of ours, a line on standard error says so, once a call.

    Args:
        settings: What the command's options say; they win over the environment and the file.

    Raises:
        ConfigurationError: A setting, or the file, is wrong.
    """
    from agent_reminiscence import Config

    call = _call.get()
    if call is not None and call.place and settings.get("data_dir") is None and settings.get("postgres_dsn") is None:
        # Both, so that a server named here replaces the one that the environment names.
        settings |= {"data_dir": call.place.get("data_dir"), "postgres_dsn": call.place.get("postgres_dsn")}
    if call is not None and call.env_file is not None:
        return Config.from_env_file(call.env_file, **settings)
    if call is not None and not call.has_looked:
        call.has_looked = True
        if _has_settings(_UNREAD_FILE):
            complain(
                f"agent-reminiscence: the settings in ./{_UNREAD_FILE} are not used;"
                f" --env-file {_UNREAD_FILE} would use them"
            )
    return Config(**settings)


def read_variables(prefix: str) -> dict[str, str]:
    """What the file that `--env-file` names says of settings with another prefix; the environment wins over it.

    Returns:
        Values by the settings' names in lower case; empty without a file.

    Raises:
        ConfigurationError: The file cannot be read.
    """
    call = _call.get()
    if call is None or call.env_file is None:
        return {}
    found = read_env_file(call.env_file, prefix).variables
    set_already = {name.upper() for name in os.environ}
    return {
        name.upper().removeprefix(prefix).lower(): value
        for name, value in found.items()
        if name.upper() not in set_already
    }


def _has_settings(path: Path) -> bool:
    try:
        # Anything but a file could make the program wait.
        if not stat.S_ISREG(path.stat().st_mode):
            return False
        with path.open("rb") as file:
            return _SETTING.search(file.read(_LOOKED_AT_BYTES)) is not None
    except OSError:
        return False
