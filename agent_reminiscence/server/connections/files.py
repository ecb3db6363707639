"""How many files this process may have open; a connection is one of them."""

from __future__ import annotations

import logging
from typing import Final

_logger = logging.getLogger("agent_reminiscence.server")

# For databases, models, standard streams and files that are read.
_RESERVED: Final = 200
# Where the hard limit is none at all.
_MANY: Final = 65_536


def raise_file_limit() -> int | None:
    """Raise the soft limit on open files to the hard one.

    Returns:
        The limit; None where the system has none that can be asked for.
    """
    try:
        import resource
    except ImportError:
        # Windows.
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MANY if hard == resource.RLIM_INFINITY else hard
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return None if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):
        # Some systems have a limit of their own below the hard one.
        return soft
    return wanted


def connections_within(wanted: int, limit: int | None) -> int:
    """As many connections as are wanted, or as leave files for everything else.

    Args:
        wanted: By the settings.
        limit: On open files; None is no limit.
    """
    if limit is None or wanted <= limit - _RESERVED:
        return wanted
    possible = max(limit - _RESERVED, limit // 2)
    if possible >= wanted:
        return wanted
    _logger.warning(
        "at most %d connections at a time, and not %d: this process may have %d files open; raise the hard limit"
        " (ulimit -Hn, LimitNOFILE of systemd)",
        possible,
        wanted,
        limit,
    )
    return possible
