"""What each test costs in processor time, which is nearly the same on a busy machine as on an idle one.

Counted are this process, the processes that a test starts and waits for, and, where there is `/proc`, those that still
run: above all the server whose databases the tests use. Fixtures of a wider scope than the test are left out, because
they would be charged to the test that happens to come first. A plugin of `conftest.py`.

`make test` has a budget: `BUDGET_SECONDS` for a test. What costs more is marked `thorough`, which leaves it to
`make test-thorough`, or `promise` if it is the test of a promise in the table of README.md. `--costs FILE` writes down
what each test took; `scripts/check_costs.py` holds it against the budget.
"""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

BUDGET_SECONDS: Final = 0.5
_PROPERTY: Final = "cpu_seconds"
_MOST_EXPENSIVE: Final = 10
_PROCESSES: Final = Path("/proc")
# Behind the name in parentheses, which may hold blanks, of /proc/<pid>/stat: the parent, and the times of the process
# and of the children that it has waited for.
_PARENT: Final = 1
_TIMES: Final = slice(11, 15)

_METER = pytest.StashKey["_Meter"]()
_COSTS = pytest.StashKey["_Costs"]()


class _Meter:
    """The processor time of this process and of all that it has started, in seconds."""

    def __init__(self) -> None:
        self._own_pid = os.getpid()
        self._servers: set[int] = set()
        self._running: dict[int, float] = {}
        self._others: set[int] = set()
        self._ended_servers = 0.0

    def count_server(self, pid: int) -> None:
        """Count a process as well that has detached itself from this one, and its children."""
        self._servers.add(pid)
        self._others.discard(pid)

    def read(self) -> float:
        """Seconds so far."""
        running = dict(self._read_running())
        # Whoever waited for an ended process has its time, except for a server, which has no parent here.
        self._ended_servers += sum(self._running[pid] for pid in self._servers & (self._running.keys() - running))
        self._running = running
        waited_for = resource.getrusage(resource.RUSAGE_CHILDREN)
        own = os.times()
        ended = waited_for.ru_utime + waited_for.ru_stime + self._ended_servers
        return own.user + own.system + ended + sum(running.values())

    def _read_running(self) -> Iterator[tuple[int, float]]:
        if not _PROCESSES.is_dir():
            return
        pids = sorted(int(name) for name in os.listdir(_PROCESSES) if name.isdigit())  # noqa: PTH208 - done at each test
        self._others.intersection_update(pids)
        ours = {self._own_pid}
        for pid in pids:
            if pid == self._own_pid or pid in self._others:
                continue
            try:
                status = (_PROCESSES / str(pid) / "stat").read_bytes()
            except OSError:
                # It has just ended.
                continue
            fields = status[status.rindex(b")") + 2 :].split()
            if pid in self._running or pid in self._servers or int(fields[_PARENT]) in ours | self._running.keys():
                ours.add(pid)
                yield pid, sum(map(int, fields[_TIMES])) / os.sysconf("SC_CLK_TCK")
            else:
                self._others.add(pid)


def count_server(config: pytest.Config, data_dir: Path) -> None:
    """Count the PostgreSQL server of a data folder with the tests that use it."""
    [file] = data_dir.rglob("postmaster.pid")
    config.stash[_METER].count_server(int(file.read_text().split()[0]))


class _Measurement:
    """Measures in the process that runs the tests."""

    def __init__(self, meter: _Meter) -> None:
        self._meter = meter
        self._before = 0.0
        self._pays_for_teardown = False
        # What fixtures of a wider scope took, and how much of it was reported while another one was being set up.
        self._shared = 0.0
        self._nested = 0.0

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        self._before = self._meter.read()
        self._shared = self._nested = 0.0
        # The last test of a file would pay for closing what all of its tests have used.
        self._pays_for_teardown = nextitem is not None and nextitem.path == item.path
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        if fixturedef.scope == "function":
            return (yield)
        before, nested = self._meter.read(), self._nested
        self._nested = 0.0
        try:
            return (yield)
        finally:
            took = self._meter.read() - before
            self._shared += took - self._nested
            self._nested = nested + took

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None]:
        try:
            return (yield)
        finally:
            if not self._pays_for_teardown:
                self._note(item)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None]:
        try:
            return (yield)
        finally:
            if self._pays_for_teardown:
                self._note(item)

    def _note(self, item: pytest.Item) -> None:
        """Have the next report of a test say what it has cost."""
        item.user_properties.append((_PROPERTY, round(self._meter.read() - self._before - self._shared, 3)))


class _Costs:
    """What tests have cost, in the process that reports."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.promises: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == _PROPERTY and isinstance(value, float):
                self.seconds[report.nodeid] = value
        if "promise" in report.keywords:
            self.promises.add(report.nodeid)

    def write(self, file: Path) -> None:
        """Write all that was collected, for scripts/check_costs.py."""
        file.parent.mkdir(parents=True, exist_ok=True)
        told = {"budget_seconds": BUDGET_SECONDS, "promises": sorted(self.promises), "seconds": self.seconds}
        file.write_text(json.dumps(told, indent=0), encoding="utf-8")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--costs`."""
    parser.addoption("--costs", metavar="FILE", type=Path, help="write each test's processor time in seconds, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    """Measure where tests run, and collect where they are reported."""
    config.addinivalue_line(
        "markers", "promise: shows a promise of README.md, and may cost more than make test allows a test"
    )
    config.stash[_METER] = _Meter()
    config.stash[_COSTS] = _Costs()
    config.pluginmanager.register(_Measurement(config.stash[_METER]))
    config.pluginmanager.register(config.stash[_COSTS])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name the most expensive tests."""
    seconds = config.stash[_COSTS].seconds
    if (file := config.getoption("--costs")) is not None:
        config.stash[_COSTS].write(file)
    elif not config.getoption("--everyday"):
        return
    terminalreporter.write_line(f"processor time of all tests: {sum(seconds.values()):.0f} s; the most expensive:")
    for test in sorted(seconds, key=seconds.__getitem__, reverse=True)[:_MOST_EXPENSIVE]:
        terminalreporter.write_line(f"  {seconds[test]:6.2f} s  {test}")
