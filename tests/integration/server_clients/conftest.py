"""What the tests of this folder need besides Python packages: programs from npm, and Debian's Chromium.

Where one is missing, the tests that ask for it are skipped and say how to get it; continuous integration gets it first.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.server_process import SCRIPTS


@pytest.fixture(scope="session")
def npm_tools() -> Path:
    """The folder that holds `node_modules`, with what tests/servers/npm/package.json names; the first use fetches it.

    `npm_tools / "node_modules/.bin/mcp-inspector"` is a program, and `npm_tools / "node_modules/axe-core/axe.min.js"` a
    file.
    """
    if shutil.which("npm") is None:
        pytest.skip("needs npm and Node 20 or later (Debian: apt-get install npm)")
    fetched = subprocess.run([SCRIPTS / "npm_tools.sh", "fetch"], capture_output=True, text=True, check=False)
    if fetched.returncode:
        pytest.fail(f"tests/servers/npm_tools.sh fetch has failed: {fetched.stderr}")
    return Path(fetched.stdout.strip())


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of Chromium, for Playwright's `executable_path`."""
    found = subprocess.run([SCRIPTS / "chromium.sh", "find"], capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.skip("needs Chromium (as root on Debian: tests/servers/chromium.sh fetch)")
    return found.stdout.strip()
