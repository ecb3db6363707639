"""A program that ends right after the driver's answer ends in order."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Each child is a program of its own that ends at once; a fork spares it the imports.
_ENDING_AT_ONCE = """
import asyncio, os, sys
from agent_reminiscence.database.connection import ConnectionSettings, open_connection
from agent_reminiscence.exceptions import StoreUnavailableError

async def connect():
    try:
        await open_connection(ConnectionSettings(host="127.0.0.1", port=1, user="nobody", database="nowhere"))
    except StoreUnavailableError:
        sys.stdout.write("refused ")

# Without this, a slow program hands the interpreter's lock to the driver's thread in time, by chance.
sys.setswitchinterval(60)
codes = set()
for _ in range(10):
    child = os.fork()
    if child == 0:
        asyncio.run(connect())
        sys.exit(7)
    codes.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(codes)
"""


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform == "win32", reason="forks")
def test_a_program_that_ends_after_a_failed_connection_is_not_aborted() -> None:
    """The driver's threads call into Python until a moment after they answered; that must not be during its end."""
    ran = subprocess.run(
        [sys.executable, "-c", _ENDING_AT_ONCE], check=False, capture_output=True, text=True, timeout=120
    )

    assert ran.stdout.split() == ["refused"] * 10 + ["{7}"], ran.stderr
