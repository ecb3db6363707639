"""A worker that takes jobs until it is killed, or until its standard input ends.

Run as a script by `test_jobs.py`, with a DSN or the embedded server's folder, and settings as JSON. What it logs goes
to its standard error.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from typing import Any

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


async def _main(dsn_or_folder: str, settings: dict[str, Any]) -> None:
    memory = AgentMem(writer.settings_for(dsn_or_folder, worker=True, **(writer.HASTE | settings)))
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
        asyncio.run(_main(sys.argv[1], json.loads(sys.argv[2])))
