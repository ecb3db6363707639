"""Time zones by their IANA names; a setting, a call and the ledger know the same ones."""

from __future__ import annotations

import re
from datetime import UTC, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

UTC_NAME: Final = "UTC"

_NAME: Final = re.compile(r"[A-Za-z0-9_+-]{1,32}(?:/[A-Za-z0-9_+-]{1,32}){0,2}")
# What a system's folder of zones holds beside them: its own choice, and the same zones with leap seconds.
_NO_NAMES: Final = frozenset({"localtime", "posixrules", "Factory"})
_NO_FOLDERS: Final = ("posix/", "right/")


@lru_cache(maxsize=1_000)
def zone_named(name: str) -> tzinfo:
    """The zone of this IANA name, such as `Europe/Lisbon`.

    Raises:
        ValueError: The zone is unknown. The message is meant to follow the name of an argument and a colon.
    """
    if name == UTC_NAME:
        return UTC
    if _NAME.fullmatch(name) and name not in _NO_NAMES and not name.startswith(_NO_FOLDERS):
        try:
            return ZoneInfo(name)
        except (KeyError, OSError, ValueError):
            pass
    raise ValueError(refusal(name))


def stored_zone(name: str) -> tzinfo:
    """The zone that a stored memory names; UTC if this machine's list of zones is older and lacks it."""
    try:
        return zone_named(name)
    except ValueError:
        return UTC


def refusal(name: object) -> str:
    """Why `name` is refused. The message continues a sentence that begins with its name."""
    return f"{name!r} is not a time zone; use an IANA name such as Europe/Lisbon, America/New_York or UTC"
