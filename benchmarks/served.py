"""Shared by the benchmarks of the server: its process as shipped, and a client that costs little."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psutil  # type: ignore[import-untyped, unused-ignore]

_TOKEN = "b" * 43
_CHECKOUT = Path(__file__).parent.parent


class Client:
    """One connection that is kept; less of the machine than a client library would take.

    A credential for all tenants names one; a tenant's own key does not.
    """

    def __init__(self, url: str, secret: str, external_id: str | None = None) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self._place = (parts.hostname, parts.port)
        self._caller = {"Authorization": f"Bearer {secret}"}
        if external_id is not None:
            self._caller["X-External-Id"] = external_id
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, document: object, **headers: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of an answer."""
        body = json.dumps(document).encode()
        own = self._caller | {
            "Host": "127.0.0.1",
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
        }
        own |= headers
        head = "".join(f"{name}: {value}\r\n" for name, value in own.items())
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._place)
        reader, writer = self._streams
        writer.write(f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + body)
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        told = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:] if line)}
        content = await reader.readexactly(int(told["content-length"]))
        if told.get("connection") == "close":
            self.close()
        return int(lines[0].split()[1]), told, content

    def close(self) -> None:
        """Give the connection up."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


@dataclass(frozen=True, slots=True)
class Served:
    """The server's process."""

    url: str
    token: str
    process: psutil.Process

    @property
    def megabytes(self) -> float:
        """Memory that it holds."""
        return float(self.process.memory_info().rss) / 2**20


@asynccontextmanager
async def serving(data_dir: Path, *options: str) -> AsyncIterator[Served]:
    """`agent-reminiscence serve` over a data folder, as shipped but for the options."""
    environment = {name: value for name, value in os.environ.items() if "REMINISCENCE_" not in name}
    process = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-m",
            "agent_reminiscence.cli",
            "serve",
            "--port",
            "0",
            "--data-dir",
            str(data_dir),
            *options,
        ),
        env=environment | {"PYTHONPATH": str(_CHECKOUT), "AGENT_REMINISCENCE_SERVER_TOKEN": _TOKEN},
        cwd=_CHECKOUT,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        first = (await process.stdout.readline()).decode()
        if not first:
            raise SystemExit("the server has not started")
        yield Served(first.split()[2].removesuffix(";"), _TOKEN, psutil.Process(process.pid))
    finally:
        process.terminate()
        await process.wait()
