"""A memory in an environment without extras, from the first write to the verification."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agent_reminiscence import Config
from tests.support.command_line import environment
from tests.support.extras import MODULES, run_without

PROGRAM = """
import asyncio
from agent_reminiscence import AgentMem

async def main():
    async with AgentMem() as memory:
        note = await memory.create_active_memory("ana", "Plan", "We ship on Friday.")
        await memory.update_active_memory("ana", note.id, content="We ship on Monday.")
        print([(one.version, one.content) for one in await memory.get_active_memories("ana")])
        print((await memory.retrieve_memories("ana", "When do we ship?")).summary)

        # Long enough for the worker to consolidate it.
        await memory.create_active_memory("ana", "Diary", "Ana walked ten miles with Bo in Lisbon. " * 60)
        print(await memory.admin.wait_until_idle("ana", timeout_seconds=100))
        found = await memory.retrieve_memories("ana", "How far did Ana walk in Lisbon?")
        print("shortterm" in {hit.tier for hit in found.hits})

        remembered = [{"role": "user", "content": "We moved the release to May."}]
        report = await memory.admin.import_messages("ana", remembered)
        print(report.added)
        print((await memory.admin.verify("ana")).ok)

asyncio.run(main())
"""


@pytest.mark.thorough
def test_a_memory_without_extras_is_written_changed_found_consolidated_and_verified(
    config: Callable[..., Config],
) -> None:
    """What needs no language model, no span and no command needs no package for them either."""
    done = run_without(*MODULES, program=PROGRAM, settings=environment(config()))

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "[(2, 'We ship on Monday.')]",
        "We ship on Monday. [1]",
        "[]",
        "True",
        "1",
        "True",
    ]
    assert done.stderr == ""
