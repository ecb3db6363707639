"""Checks the installation, from outside the package `agent_reminiscence`, of which it imports nothing.

The distribution `agent-reminiscence` on the package index is another project with the same import name. Installed into
one environment, each overwrites files of the other, and uninstalling either removes files of both. So what looks for
the other one's files must not be in the package itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

DISTRIBUTION: Final = "agent-reminiscence-ledger"

_OTHER: Final = "agent-reminiscence"
_PACKAGE: Final = Path(__file__).parent.parent / "agent_reminiscence"
# Modules of the other project that this one does not have.
_THEIRS: Final = ("services/central_storage.py", "services/llm_model_provider.py", "utils/agent_logger.py")
# Modules of both.
_SHARED: Final = ("__init__.py", "core.py", "config/settings.py")
_REMEDY: Final = f"run `pip uninstall {_OTHER} {DISTRIBUTION}`, then install {DISTRIBUTION} again"


def find_fault(package: Path = _PACKAGE) -> str | None:
    """What is wrong with the installation, and the way out; None if nothing is.

    It looks at one folder and six files (0.2 ms), so it is done when a memory opens and not at each import.

    Args:
        package: The folder of the package `agent_reminiscence`.
    """
    # Beside the package, not anywhere on the path: a checkout is not changed by what is installed elsewhere.
    theirs = [*package.parent.glob("agent_reminiscence-*-info"), *filter(Path.exists, map(package.joinpath, _THEIRS))]
    if theirs:
        return (
            f"files of the distribution {_OTHER} are mixed into this package: {theirs[0]}. That is another project with"
            f" the same import name, and cannot share an environment with {DISTRIBUTION}; {_REMEDY}"
        )
    # Of a package in an archive, nothing can be said.
    lost = [name for name in _SHARED if package.is_dir() and not (package / name).exists()]
    if lost:
        return (
            f"{package / lost[0]} is missing, most likely because the distribution {_OTHER}, which has a file of that"
            f" name, was uninstalled; {_REMEDY}"
        )
    return None
