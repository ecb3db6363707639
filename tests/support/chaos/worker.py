"""A worker that takes jobs until it is killed, or until its standard input ends.

Run as a script by `test_jobs.py`, with the embedded server's folder. What it logs goes to its standard error.
"""

from __future__ import annotations

import asyncio
import logging
import sys

import pytest

from agent_reminiscence import AgentMem
from agent_reminiscence.exceptions import StoreError
from agent_reminiscence.services.work import jobs
from tests.support.chaos import writer

# Half a minute as the package has it: so short a run would see few takeovers.
_SWEEP_SECONDS = 2


async def _initialize(memory: AgentMem) -> None:
    """Reach the server, which may be killed at that very moment, as a supervisor would have it: again and again."""
    while True:
        try:
            await memory.initialize()
        except StoreError as error:
            logging.getLogger("tests.support.chaos.worker").warning("the worker starts again: %s", error)
            await asyncio.sleep(0.2)
        else:
            return


async def _main(data_dir: str) -> None:
    memory = AgentMem(writer.settings_for(data_dir, worker=True, **writer.HASTE))
    await _initialize(memory)
    try:
        await asyncio.to_thread(sys.stdin.buffer.read)
    finally:
        await memory.close()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(process)d %(name)s: %(message)s")
    for dependency in ("procrastinate", "psycopg"):
        # With a traceback for each connection that a killed server takes with it.
        logging.getLogger(dependency).setLevel(logging.CRITICAL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "SWEEP_SECONDS", _SWEEP_SECONDS)
        asyncio.run(_main(sys.argv[1]))
