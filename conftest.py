"""Keeps tests off their reader's memory, and fails on skips.

Temporary files lie in memory where there is room (`/dev/shm`): servers and databases are made by the hundred, and
on a disk that costs more than all the rest.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from pydantic_ai import models

from agent_reminiscence.embedders import universal

pytest_plugins = [
    "tests.support.collection",
    "tests.support.frameworks",
    "tests.support.everyday",
    "tests.support.costs",
    "tests.support.hangs",
    "tests.support.sharing",
    "tests.support.documents",
    "tests.support.paths",
    "tests.support.postgres_fixtures",
    "tests.support.mem0_fixtures",
    "tests.support.server_hooks",
    "tests.support.neo4j_fixtures",
    "tests.support.ollama_fixtures",
]

# Neither a test nor a document asks a real model, whatever keys the machine holds. The few tests whose server is here
# allow it for themselves.
models.ALLOW_MODEL_REQUESTS = False

# What a shell has started in the background ignores Ctrl-C, and so would the processes that tests start to interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Reading the bundled encoder takes a second of processor time; here it stays, though every memory is closed.
universal._encoders = {}  # noqa: SLF001

# How fast a machine is says nothing about the code.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

_PREFIX = "REMINISCENCE_"
_IN_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of one's own is made there
_MEMORY_BYTES = 6 << 30
_TEMPORARY = pytest.StashKey[Path]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--fail-on-skip`, for runs in which nothing may be missing unnoticed, and `--full-chaos`."""
    parser.addoption("--fail-on-skip", action="store_true", help="a skipped test fails the run")
    parser.addoption("--full-chaos", action="store_true", help="run tests/chaos with the full number of repetitions")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Have temporary files made in memory, unless `TMPDIR` says where; the processes of xdist find it there."""
    if "TMPDIR" in os.environ or not _IN_MEMORY.is_dir() or shutil.disk_usage(_IN_MEMORY).free < _MEMORY_BYTES:
        return
    folder = Path(tempfile.mkdtemp(prefix="reminiscence-", dir=_IN_MEMORY))
    # Started by root, a server runs as another user, who has to get in.
    folder.chmod(0o755)
    os.environ["TMPDIR"] = str(folder)
    # Forgets what was chosen before.
    tempfile.tempdir = None
    config.stash[_TEMPORARY] = folder


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave nothing in memory."""
    if (folder := config.stash.get(_TEMPORARY, None)) is not None:
        del os.environ["TMPDIR"]
        tempfile.tempdir = None
        shutil.rmtree(folder, ignore_errors=True)


def pytest_sessionstart() -> None:
    """Take settings out of the environment: no test means the reader's own memory, or the models that they pay for.

    What tests themselves are told by such variables was read before, when pytest was configured.
    """
    for name in [name for name in os.environ if name.upper().startswith(_PREFIX)]:
        del os.environ[name]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run over skipped tests when `--fail-on-skip` asks for it."""
    if _forbidden_skips(session.config) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say why a run without a failed test has failed."""
    if skips := _forbidden_skips(config):
        terminalreporter.write_line(f"FAILED: {skips} skipped, and --fail-on-skip allows none", red=True)


def _forbidden_skips(config: pytest.Config) -> int:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not config.getoption("--fail-on-skip"):
        return 0
    return len(reporter.stats.get("skipped", []))
