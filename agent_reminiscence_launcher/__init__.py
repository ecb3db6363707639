"""Starts the command line, from outside the package `agent_reminiscence`.

Another project's files may have replaced some of the package, so the installation is checked before any of it is
imported. Nothing imports this module: the console script calls `main`.
"""

from __future__ import annotations

import sys
from typing import Final

from agent_reminiscence_ledger import find_fault

# As of every command that was called incorrectly.
_EXIT_USAGE: Final = 2


def main() -> int:
    """Run the command in `sys.argv` and return the exit code; 2 if the installation cannot run any."""
    fault = find_fault()
    if fault is not None:
        sys.stderr.write(f"agent-reminiscence: {fault}\n")
        return _EXIT_USAGE
    from agent_reminiscence.__main__ import main as run

    return run()
