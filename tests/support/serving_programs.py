"""`agent-reminiscence serve` as a program of its own."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.conftest import TEST_PARTITIONS
from tests.support.command_line import CHECKOUT, clean_environment

PATIENCE_SECONDS = 120.0
SETTINGS = {"REMINISCENCE_EMBEDDING_PROVIDER": "hash", "REMINISCENCE_CHUNK_PARTITIONS": str(TEST_PARTITIONS)}
"""Of each such program, unless a test names others."""


@dataclass(frozen=True, slots=True)
class Running:
    """A server in a process of its own."""

    process: subprocess.Popen[str]
    url: str
    token: str | None

    def client(self, **headers: str) -> httpx.AsyncClient:
        """A client with the token, for the tenant ana."""
        own = {} if self.token is None else {"Authorization": f"Bearer {self.token}", "X-External-Id": "ana"}
        return httpx.AsyncClient(base_url=self.url, headers=own | headers, timeout=PATIENCE_SECONDS, trust_env=False)

    async def end(self) -> tuple[int, str]:
        """Its exit code, and what it has written to standard error."""
        _, said = await asyncio.to_thread(self.process.communicate, timeout=PATIENCE_SECONDS)
        return self.process.returncode, "\n".join(line for line in said.splitlines() if "still starting" not in line)


@asynccontextmanager
async def serving(*words: str | Path, settings: Mapping[str, str] | None = None) -> AsyncGenerator[Running]:
    """The command, once it answers."""
    process = subprocess.Popen(  # noqa: ASYNC220 - it starts at once; what it says is read in a thread
        [sys.executable, "-m", "agent_reminiscence.cli", "serve", "--port", "0", *words],
        env=clean_environment() | {"PYTHONPATH": str(CHECKOUT)} | SETTINGS | dict(settings or {}),
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        first, second = [await asyncio.to_thread(process.stdout.readline) for _ in range(2)]
        if not second:
            raise AssertionError(process.communicate()[1])
        found = re.fullmatch(r"Serving on (http://\S+); Ctrl-C stops it\. Open:\n", first)
        assert found is not None, first
        token = re.fullmatch(re.escape(found[1]) + r"/(?:sign-in\?token=([\w-]{43}))?\n", second)
        assert token is not None, second
        yield Running(process, found[1], token[1])
    finally:
        process.kill()
        await asyncio.to_thread(process.communicate)
