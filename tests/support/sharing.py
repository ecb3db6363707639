"""A memory that tests share, in which each test has a tenant of its own.

Opening a memory on its own database and emptying it afterwards costs more than most tests do. A test that asks for
`tenant` gets a shared memory as `memory`, open since the first such test of this process. It runs on that memory's
event loop, and may not look across tenants: the database holds those of earlier tests. It refuses to show them, and no
worker can run there, so the jobs of earlier tests stay in the queue, untouched, until the server goes. A test of jobs,
stores or settings asks for `database` or `config`, or for `memory` without `tenant`, and has a database of its own.

A plugin of `conftest.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import count

import pytest

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.config.constants import SCHEDULER_ROLE, SCHEMA_NAME, WORKER_ROLE
from agent_reminiscence.database.connection import ConnectionSettings, open_connection
from agent_reminiscence.exceptions import NotInitializedError

# What only a database of one's own has.
_OWN = frozenset({"config", "database"})
# The memory's own task, which writes every few seconds what was recalled.
_LASTING_TASK = "agent_reminiscence uses"

_numbers = count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests that share a memory on its loop."""
    wrong: list[str] = []
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        if "shared_memory" not in fixtures:
            continue
        wrong += [f"{item.nodeid} ({name})" for name in sorted(fixtures & _OWN)]
        item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
    if wrong:
        raise pytest.UsageError(
            f"a test with `tenant` shares a memory and cannot use `database` or `config`: {'; '.join(wrong)}"
        )


@pytest.fixture
def tenant(request: pytest.FixtureRequest, shared_memory: AgentMem) -> str:
    """An `external_id` that nobody else has; with it, `memory` is shared. Others may begin with it: f"{tenant}-2"."""
    return f"{request.node.originalname}-{next(_numbers)}"


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """A memory for one test after another.

    Attributes:
        loop: Where it was opened, and where its tests run.
    """

    memory: AgentMem
    loop: asyncio.AbstractEventLoop

    @contextmanager
    def lent(self, *, patience_seconds: float = 10) -> Iterator[AgentMem]:
        """The memory for one test, which fails if it has left it changed or a task running.

        Args:
            patience_seconds: How long a task may take to end that the test has not awaited.
        """
        settings = self.memory.config.model_copy()
        yield self.memory
        left = {task for task in asyncio.all_tasks(self.loop) if task.get_name() != _LASTING_TASK}
        if left:
            _, left = self.loop.run_until_complete(asyncio.wait(left, timeout=patience_seconds))
        for task in left:
            # The next test would be blamed for it.
            task.cancel()
        if left:
            pytest.fail(f"this test left a task running on the loop that it shares: {left.pop()}")
        if self.memory.config != settings:
            pytest.fail("this test has changed the settings of the memory that it shares")
        try:
            _ = self.memory.admin
        except NotInitializedError:
            pytest.fail("this test has closed the memory that it shares")


@asynccontextmanager
async def shared_memory_on(administrator: ConnectionSettings, config: Config) -> AsyncIterator[SharedMemory]:
    """Open a memory for tests that share it.

    Args:
        administrator: May change the rights on the database, which has the schema and no memory.
    """
    db = await open_connection(administrator)
    try:
        await db.execute_script(
            f"REVOKE USAGE ON SCHEMA reminiscence_jobs FROM {WORKER_ROLE};"
            f"REVOKE USAGE ON SCHEMA {SCHEMA_NAME} FROM {SCHEDULER_ROLE}"
        )
    finally:
        db.close()
    async with AgentMem(config) as memory:
        yield SharedMemory(memory, asyncio.get_running_loop())
