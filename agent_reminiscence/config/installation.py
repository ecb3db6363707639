"""What is installed under this package's name."""

from __future__ import annotations

from functools import cache
from importlib import metadata

from agent_reminiscence.exceptions import ConfigurationError
from agent_reminiscence_ledger import DISTRIBUTION, find_fault

__all__ = ["DISTRIBUTION", "check_installation", "installed_version"]


@cache
def installed_version() -> str | None:
    """The version of the installed distribution; None when running from source."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return None


def check_installation() -> None:
    """Refuse to run from a folder that the other project's distribution was installed into, or uninstalled from.

    Raises:
        ConfigurationError: Its files are there, or some of ours are not; the message says what to do.
    """
    fault = find_fault()
    if fault is not None:
        raise ConfigurationError(fault)
