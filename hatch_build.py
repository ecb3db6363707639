"""Writes the blocking twins of the asynchronous classes before a wheel or an editable installation is made."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BuildHook(BuildHookInterface[Any]):
    """What hatchling calls; `artifacts` in pyproject.toml names the files, as the repository ignores them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write agent_reminiscence/sync."""
        subprocess.run([sys.executable, str(Path(self.root, "scripts", "write_sync.py"))], check=True)
