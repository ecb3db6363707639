"""What `make test` runs: all that needs no server or framework, and of what takes long some cases that show it.

`--everyday` leaves out what is marked `thorough`, and all but the first case of each test of tests/chaos. Where a test
has many cases that take the same path, `@pytest.mark.everyday("an id", "ids-*", why="…")` names those of `make test`;
the other ones are thorough. A plugin of `conftest.py`. What is left out is deselected, not skipped, and the last line
of a run says how many tests that were and which command runs them. Without the option nothing is left out.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator
from fnmatch import fnmatchcase
from typing import Any

import pytest

from tests.support.frameworks import FRAMEWORKS

_SERVER_MARKS = ("neo4j", "ollama", "pooler")
_WORKEROUTPUT = "reminiscence_left_out"

_LEFT_OUT = pytest.StashKey[Counter[str]]()

# Why a test is left out, and what runs it.
_FRAMEWORKS = {one.mark: f"for {one.name} (make {one.target})" for one in FRAMEWORKS}
_SERVERS = "for a Neo4j, Ollama or PgBouncer (make test-servers)"
_TIME = "that take long (make test-thorough)"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--everyday`."""
    parser.addoption(
        "--everyday",
        action="store_true",
        help="leave out what needs a server or a framework, what is thorough, and all but first cases of tests/chaos",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Begin to count."""
    config.addinivalue_line("markers", "thorough: takes long, and shows what a quicker test or case shows as well")
    config.addinivalue_line(
        "markers", "everyday(*ids, why): of its cases, those whose ids fit are for make test; the others are thorough"
    )
    config.addinivalue_line("markers", "chaos: tries to break promises by force of numbers; all of tests/chaos")
    config.stash[_LEFT_OUT] = Counter()
    config.pluginmanager.register(_Cases())


def refuse_server(config: pytest.Config, mark: str) -> None:
    """Fail a test that `make test` should leave out, and that asks for a server while it runs and lacks the mark."""
    if config.getoption("--everyday"):
        pytest.fail(f"this test needs the mark {mark!r}, because make test has nothing of the kind")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Processes for `-n auto`: more than processors, because tests also wait, and those left out wait for longer."""
    cores = os.cpu_count() or 1
    return cores + cores // 2 if config.getoption("--everyday") else 2 * cores


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what `--everyday` leaves out of what was selected."""
    if not config.getoption("--everyday"):
        return
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    seen: set[str] = set()
    for item in items:
        reason = _reason(item, seen)
        if reason is None:
            kept.append(item)
        else:
            config.stash[_LEFT_OUT][reason] += 1
            left_out.append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


class _Cases:
    """Marks as thorough what `everyday` does not name, before `-m` selects."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        named: set[tuple[str, str]] = set()
        found: set[tuple[str, str]] = set()
        contradictory: set[str] = set()
        for item in items:
            mark = item.get_closest_marker("everyday")
            if mark is None:
                continue
            test, _, case = item.nodeid.partition("[")
            if any(own.name == "thorough" for own in getattr(getattr(item, "obj", None), "pytestmark", ())):
                contradictory.add(test)
            fitting = {(test, one) for one in mark.args if fnmatchcase(case.removesuffix("]"), one)}
            found |= fitting
            named |= {(test, one) for one in mark.args}
            if not fitting:
                item.add_marker("thorough")
        if contradictory:
            raise pytest.UsageError(f"both thorough, which is for all cases, and everyday: {', '.join(contradictory)}")
        # Of a renamed case nobody would notice that it is not tried any more. One case alone may be asked for.
        if named - found and not any("[" in argument for argument in config.args):
            lost = "; ".join(f"{test}: {one!r}" for test, one in sorted(named - found))
            raise pytest.UsageError(f"the mark everyday names cases that do not exist: {lost}")


def _reason(item: pytest.Item, seen: set[str]) -> str | None:
    for mark, reason in _FRAMEWORKS.items():
        if item.get_closest_marker(mark):
            return reason
    if any(item.get_closest_marker(mark) for mark in _SERVER_MARKS):
        return _SERVERS
    if item.get_closest_marker("thorough"):
        return _TIME
    if not item.get_closest_marker("chaos"):
        return None
    test = item.nodeid.partition("[")[0]
    if test in seen:
        return _TIME
    seen.add(test)
    return None


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object | None) -> None:
    """Take over what a process of xdist has left out; each collects the same tests."""
    told = getattr(node, "workeroutput", {}).get(_WORKEROUTPUT)
    if told is not None:
        node.config.stash[_LEFT_OUT] = Counter(told)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None]:
    """Say what was left out, behind everything else."""
    left_out = session.config.stash[_LEFT_OUT]
    workeroutput: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if workeroutput is not None:
        # Before xdist sends it.
        workeroutput[_WORKEROUTPUT] = dict(left_out)
    yield
    if workeroutput is not None:
        return
    # With xdist, what a process of it has told since.
    left_out = session.config.stash[_LEFT_OUT]
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and left_out:
        reasons = (_SERVERS, *_FRAMEWORKS.values(), _TIME)
        told = "; ".join(f"{left_out[reason]} {reason}" for reason in reasons if left_out[reason])
        tests = "1 test" if left_out.total() == 1 else f"{left_out.total()} tests"
        reporter.write_line(f"left out {tests}: {told}")
