"""Puts the application together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from fastapi import FastAPI, Request
from starlette.middleware import Middleware
from starlette.responses import Response

from agent_reminiscence.core import AgentMem
from agent_reminiscence.server.access.authenticators import Authenticator, Counting
from agent_reminiscence.server.access.limiter import RateLimiter
from agent_reminiscence.server.access.middleware import AccessMiddleware
from agent_reminiscence.server.access.setting_up import make_authenticator
from agent_reminiscence.server.config import ServerConfig
from agent_reminiscence.server.guards.admission import Admission, Load
from agent_reminiscence.server.guards.bodies import Bodies
from agent_reminiscence.server.guards.failures import Failures
from agent_reminiscence.server.guards.gate import Gate
from agent_reminiscence.server.guards.headers import SecurityHeaders
from agent_reminiscence.server.guards.hosts import Hosts
from agent_reminiscence.server.guards.origins import Origins
from agent_reminiscence.server.health import HealthCheck, add_health
from agent_reminiscence.server.inspector import add_inspector
from agent_reminiscence.server.mcp.http import add_mcp
from agent_reminiscence.server.metrics import PATH as METRICS_PATH
from agent_reminiscence.server.metrics import Measured, Metrics, add_metrics
from agent_reminiscence.server.prefix import Prefix
from agent_reminiscence.server.problems import ProblemError, as_response
from agent_reminiscence.server.rest import add_rest
from agent_reminiscence.server.unknown import add_unknown

# FastAPI would give a configured OpenTelemetry every query, and with it questions and the token of a sign-in, and every
# exception with its message. The memory has spans of its own, which quote nothing.
_NO_TELEMETRY: Final[Any] = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}


def create_app(
    memory: AgentMem, authenticator: Authenticator | None = None, *, config: ServerConfig | None = None
) -> FastAPI:
    """An ASGI application over a memory: REST under `/v1`, MCP at and below `/mcp`, the inspector at `/`.

    Its `state` has, for the parts that are added to it:

    - `memory`: the open memory.
    - `server_config`: the settings.
    - `stopping`: an `asyncio.Event`, set when the server begins to stop. An answer without an end, such as a stream of
      events, waits for it as well as for its own news, and then ends. One that does not is ended a second later.
    - `load`: what is worked on at the moment, and within which bounds.
    - `metrics`: whoever answers a question counts it with `metrics.recalled(via, found=…)`.

    `serve` sets `stopping` on the first SIGTERM. Under another ASGI server it is set when the application shuts down,
    and most servers begin with that only when all answers are finished: there, streams last until the server's own
    timeout (uvicorn: `--timeout-graceful-shutdown`).

    Args:
        memory: The application opens it when it starts, and closes it when it ends.
        authenticator: Knows the credentials that are valid. None is one of `make_authenticator`, for the keys of the
            memory's database and the tokens of an issuer, if the settings name one.
        config: None reads the environment.
    """
    config = config or ServerConfig()
    authenticator = authenticator or make_authenticator(memory, config)
    stopping = asyncio.Event()
    load = Load(
        Gate(
            config.max_calls,
            share=config.max_calls_per_subject,
            queue=config.max_waiting_calls,
            wait_seconds=config.max_wait_seconds,
        ),
        max_streams=config.max_streams,
        max_streams_per_subject=config.max_streams_per_subject,
        max_requests_per_subject=config.connections_per_subject(config.max_connections),
        stopping=stopping,
    )
    metrics = Metrics(load)
    check = HealthCheck(memory, timeout_seconds=config.ready_timeout_seconds)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        async with memory:
            app.state.memory = memory
            ending = asyncio.create_task(load.end_streams(), name="agent_reminiscence streams")
            try:
                yield
            finally:
                stopping.set()
                ending.cancel()
                with suppress(asyncio.CancelledError):
                    await ending
                if isinstance(authenticator, Counting):
                    await authenticator.close()

    app = FastAPI(
        title="agent_reminiscence",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        telemetry=_NO_TELEMETRY,
        # From the outside to the inside: a request meets them in this order, and its answer in the opposite one.
        middleware=[
            # Everything behind it knows its own paths only.
            Middleware(Prefix, prefix=config.root_path),
            # Sees what every client sees, also of those that the others refuse.
            Middleware(Measured, metrics=metrics),
            # On every answer, also on refusals and failures.
            Middleware(SecurityHeaders),
            # Whatever fails behind it, also in another guard.
            Middleware(Failures),
            # Before anything is done for a page that has no business here.
            Middleware(Hosts, names=config.allowed_hosts),
            Middleware(Origins),
            # Before it takes a place: a body that is declared too long costs nothing.
            Middleware(
                Bodies,
                max_bytes=config.max_body_bytes,
                max_upload_bytes=config.max_import_bytes,
                pause_seconds=config.body_pause_seconds,
                bytes_per_second=config.body_bytes_per_second,
            ),
            Middleware(
                AccessMiddleware,
                authenticator=authenticator,
                limiter=RateLimiter(config.requests_per_minute),
                open_paths=(METRICS_PATH,) if config.metrics_public else (),
                check_seconds=config.credential_check_seconds,
                wrong_per_minute=config.wrong_credentials_per_minute,
                refusal_delay_seconds=config.refusal_delay_seconds,
                stopping=stopping,
            ),
            # Behind the check of credentials: each subject has its share, and whoever has no credential has no place.
            Middleware(
                Admission,
                load=load,
                retry_after_seconds=config.max_wait_seconds,
                refusal_delay_seconds=config.refusal_delay_seconds,
                question_bytes_per_place=config.question_bytes_per_place,
            ),
        ],
    )
    app.state.server_config = config
    app.state.stopping = stopping
    app.state.load = load
    app.state.metrics = metrics

    @app.exception_handler(ProblemError)
    async def tell(request: Request, problem: ProblemError) -> Response:
        del request
        return as_response(problem)

    add_health(app, check, stopping)
    add_metrics(app, metrics, check, is_public=config.metrics_public)
    add_rest(app)
    add_inspector(app, authenticator)
    add_mcp(app, memory, config, count_recall=lambda result: metrics.recalled("mcp", found=result.found))
    add_unknown(app)
    return app
