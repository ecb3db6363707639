"""A server of ours on a port of its own, for as long as a test needs it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
import uvicorn
from starlette.types import ASGIApp

_PATIENCE_SECONDS = 60
# Made once: each client would otherwise read the certificates of this machine, which takes most of a quick test's time.
_TLS = ssl.create_default_context()


@dataclass(frozen=True, slots=True)
class Served:
    """Where an application answers, and a client for it that has a credential."""

    url: str
    client: httpx.AsyncClient

    def with_token(self, token: str | None, headers: Mapping[str, str] | None = None) -> httpx.AsyncClient:
        """A client with another credential, or none; the caller closes it."""
        named = {} if token is None else {"Authorization": f"Bearer {token}"}
        return httpx.AsyncClient(
            base_url=self.url, headers=named | dict(headers or {}), timeout=_PATIENCE_SECONDS, verify=_TLS
        )


@asynccontextmanager
async def serve(app: ASGIApp, token: str | None = None) -> AsyncGenerator[Served]:
    """Serve an application on 127.0.0.1, in this event loop."""
    server = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, access_log=False, timeout_graceful_shutdown=30)
    )
    # Signals belong to the process that runs the tests.
    running = asyncio.create_task(server._serve())
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while not server.started:
                if running.done():
                    await running
                    raise RuntimeError("the server ended before it had started")
                await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        async with Served(url, httpx.AsyncClient(verify=_TLS)).with_token(token) as client:
            yield Served(url, client)
    finally:
        server.should_exit = True
        await running
