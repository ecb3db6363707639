"""Marks the tests that need a real server, ends the servers with the run, and says what did not run for want of them.

A plugin of `conftest.py`. Each test that asks for a fixture of `neo4j_fixtures` or `ollama_fixtures` gets the mark
`neo4j` or `ollama`; `make test-servers` runs these, `make test` does not. One that asks while it runs, by
`request.getfixturevalue`, has to be given it.

One server of each kind serves the whole run, all processes of xdist together, and is started when the first test asks
for it. Another server is used when `REMINISCENCE_NEO4J_URI` or `REMINISCENCE_OLLAMA_URL` names it.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from tests.support.pgbouncer import NEEDS_PGBOUNCER
from tests.support.shared_servers import KINDS, SHARED, SharedServer

_WORKERINPUT = "reminiscence_servers"


def pytest_configure(config: pytest.Config) -> None:
    """Take the variables out of the environment: a `Config` made by a test must not find a server there."""
    for kind in KINDS:
        config.addinivalue_line(
            "markers", f"{kind.mark}: needs a real {kind.name}; `make test-servers` runs these, `make test` does not"
        )
    config.addinivalue_line(
        "markers", "pooler: needs a real PgBouncer; `make test-servers` runs these, `make test` does not"
    )
    workerinput: dict[str, Any] | None = getattr(config, "workerinput", None)
    if workerinput is None:
        config.stash[SHARED] = {kind.mark: SharedServer.of_this_run(kind) for kind in KINDS}
    else:
        told = workerinput[_WORKERINPUT]
        config.stash[SHARED] = {kind.mark: SharedServer.from_told(kind, told[kind.mark]) for kind in KINDS}


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a process of xdist what all of them share."""
    shared = node.config.stash[SHARED]
    node.workerinput[_WORKERINPUT] = {mark: server.to_tell() for mark, server in shared.items()}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what asks for a server, before `-m` selects."""
    for item in items:
        for kind in KINDS:
            if kind.fixtures.intersection(getattr(item, "fixturenames", ())):
                item.add_marker(kind.mark)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the servers with the run; the process that started one may have ended before."""
    if not hasattr(config, "workerinput"):
        for shared in config.stash.get(SHARED, {}).values():
            shared.end()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None]:
    """Say what did not run for want of a server, behind everything else."""
    yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    skipped = [str(report.longrepr) for report in reporter.stats.get("skipped", [])]
    for shared in session.config.stash[SHARED].values():
        kind = shared.kind
        count = sum(kind.reason in why for why in skipped)
        if count:
            tests = "1 test that needs" if count == 1 else f"{count} tests that need"
            reporter.write_line(f"not run: {tests} {kind.name} ({shared.why_not()})", yellow=True)
    without_pooler = [why for why in skipped if NEEDS_PGBOUNCER in why]
    if without_pooler:
        reasons = sorted({why.partition(f"{NEEDS_PGBOUNCER}: ")[2].rstrip("')\"") for why in without_pooler})
        reporter.write_line(f"not run: {len(without_pooler)} that need PgBouncer ({'; '.join(reasons)})", yellow=True)
