"""What is installed under this package's name."""

from __future__ import annotations

import json
import shlex
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

from agent_reminiscence.exceptions import ConfigurationError
from agent_reminiscence_ledger import DISTRIBUTION, find_fault

__all__ = ["DISTRIBUTION", "check_installation", "install_command", "installed_version"]

_CHECKOUT: Final = Path(__file__).parent.parent.parent


@cache
def installed_version() -> str | None:
    """The version of the installed distribution; None when running from source."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return None


def install_command(extra: str) -> str:
    """The command that adds an extra to this installation, from where it was installed: `pip install '.../clone[cli]'`.

    The name alone is right only for what an index has. pip records the origin of everything else (PEP 610): a folder, a
    wheel, a repository. Code that runs without having been installed is installed from its own folder.
    """
    try:
        recorded = metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return _install_from(_CHECKOUT, extra) if (_CHECKOUT / "pyproject.toml").is_file() else _install_by_name(extra)
    return _install_by_name(extra) if recorded is None else _install_as(recorded, extra)


def _install_as(recorded: str, extra: str) -> str:
    """The command for the origin that a `direct_url.json` records."""
    origin = json.loads(recorded)
    url = urlsplit(origin["url"])
    if url.scheme == "file":
        path = Path(url2pathname(url.path))
        # A wheel is often gone once it has been installed.
        is_editable = origin.get("dir_info", {}).get("editable", False)
        return _install_from(path, extra, is_editable=is_editable) if path.exists() else _install_by_name(extra)
    source = origin["url"]
    if (vcs := origin.get("vcs_info")) is not None:
        source = f"{vcs['vcs']}+{source}@{vcs.get('requested_revision') or vcs['commit_id']}"
    if "subdirectory" in origin:
        source += f"#subdirectory={origin['subdirectory']}"
    return f"pip install {shlex.quote(f'{DISTRIBUTION}[{extra}] @ {source}')}"


def _install_from(path: Path, extra: str, *, is_editable: bool = False) -> str:
    return f"pip install {'-e ' if is_editable else ''}{shlex.quote(f'{path}[{extra}]')}"


def _install_by_name(extra: str) -> str:
    return f"pip install {shlex.quote(f'{DISTRIBUTION}[{extra}]')}"


def check_installation() -> None:
    """Refuse to run from a folder that the other project's distribution was installed into, or uninstalled from.

    Raises:
        ConfigurationError: Its files are there, or some of ours are not; the message says what to do.
    """
    fault = find_fault()
    if fault is not None:
        raise ConfigurationError(fault)
