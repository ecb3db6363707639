"""Figures for Prometheus. No label is a tenant, a path that nobody has declared, or anything else without a bound."""

from __future__ import annotations

import time
from typing import Final, Literal, get_args

from fastapi import FastAPI, Request
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.exposition import choose_encoder
from prometheus_client.process_collector import ProcessCollector
from starlette.responses import Response
from starlette.routing import Mount
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_reminiscence.config.installation import installed_version
from agent_reminiscence.domain.work import Health
from agent_reminiscence.server.access.grants import Caller
from agent_reminiscence.server.access.grants import Scope as AccessScope
from agent_reminiscence.server.guards.admission import Load
from agent_reminiscence.server.guards.refusal import REFUSED
from agent_reminiscence.server.health import HealthCheck

PATH: Final = "/metrics"
NO_ROUTE: Final = "none"
"""For requests that have reached no route: refused ones, and unknown paths."""

_METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_JOB_STATES: Final = ("waiting", "running", "failed")

_Via = Literal["rest", "mcp", "inspector"]

type Reason = Literal["head-too-slow", "crowded-out", "answer-not-read"]
"""Why the server closed a connection that its client had left open."""


class Metrics:
    """The figures of one application."""

    def __init__(self, load: Load) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        Info("reminiscence", "What is running.", registry=registry).info({"version": installed_version() or "unknown"})
        self._requests = Counter(
            "reminiscence_http_requests",
            "Requests that were answered.",
            ("route", "method", "status"),
            registry=registry,
        )
        self._duration = Histogram(
            "reminiscence_http_request_duration_seconds",
            "From the head of a request to the head of its answer.",
            ("route", "method"),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._refused = Counter(
            "reminiscence_http_refused", "Requests that a guard refused.", ("reason",), registry=registry
        )
        self._in_flight = Gauge(
            "reminiscence_http_requests_in_flight", "Requests that are being answered.", registry=registry
        )
        for name, told, value in (
            ("calls_running", "Calls that have a place.", lambda: load.calls.taken),
            ("calls_waiting", "Calls that wait for a place.", lambda: load.calls.waiting),
            ("streams_open", "Streams, uploads and long answers that are open.", lambda: len(load.streams)),
        ):
            Gauge(f"reminiscence_http_{name}", told, registry=registry).set_function(value)
        self.connections_open = Gauge(
            "reminiscence_http_connections_open", "Connections that are open.", registry=registry
        )
        self._closed = Counter(
            "reminiscence_http_connections_closed",
            "Connections that the server closed before their clients had.",
            ("reason",),
            registry=registry,
        )
        self._malformed = Counter(
            "reminiscence_http_malformed_requests", "Requests that were no HTTP.", registry=registry
        )
        self._recalls = Counter(
            "reminiscence_recalls",
            "Questions that the memory answered; `found` is no where even the best hits match weakly.",
            ("via", "found"),
            registry=registry,
        )
        # From the start, because a share of what is absent is no share: nothing found would look like no figures.
        for via in get_args(_Via):
            for found in ("yes", "no"):
                self._recalls.labels(via, found)
        self._store_up = Gauge("reminiscence_store_up", "Whether the store answers.", registry=registry)
        self._worker_up = Gauge(
            "reminiscence_worker_up",
            "Whether this process's worker takes jobs and its last run has not failed; absent if it has none.",
            registry=None,
        )
        self._has_worker = False
        self._jobs = Gauge(
            "reminiscence_jobs",
            "Jobs of all tenants; `failed` is work that was given up.",
            ("state",),
            registry=registry,
        )
        self._next_waits = Gauge(
            "reminiscence_next_job_waits_seconds", "For how long the next job could have started.", registry=registry
        )
        self._without_vectors = Gauge(
            "reminiscence_chunks_without_vectors",
            "Chunks of all tenants whose vectors could not be made; found by words only.",
            registry=registry,
        )
        self._lacking = Gauge(
            "reminiscence_tenants_without_vectors", "Tenants of whom vectors could not be made.", registry=registry
        )

    def recalled(self, via: _Via, *, found: bool) -> None:
        """Count a question. Whoever answers one calls this.

        Args:
            found: Whether its best hit fits; of a stream, whether it has a hit.
        """
        self._recalls.labels(via, "yes" if found else "no").inc()

    def connection_closed(self, reason: Reason) -> None:
        """Count a connection that was closed because of what its client did not do."""
        self._closed.labels(reason).inc()

    def malformed(self) -> None:
        """Count a request that could not be read."""
        self._malformed.inc()

    def began(self) -> None:
        """Count a request as being answered."""
        self._in_flight.inc()

    def ended(self, scope: Scope, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        self._in_flight.dec()
        route, method = _route(scope), scope["method"] if scope["method"] in _METHODS else "other"
        self._requests.labels(route, method, str(status)).inc()
        self._duration.labels(route, method).observe(seconds)
        if (reason := scope.get(REFUSED)) is not None:
            self._refused.labels(reason).inc()

    def show(self, health: Health) -> None:
        """Take over what the memory says of itself."""
        self._store_up.set(health.store_error is None)
        if health.worker != "off":
            if not self._has_worker:
                self._has_worker = True
                self.registry.register(self._worker_up)
            self._worker_up.set(health.worker == "working" and health.work_error is None)
        self._jobs.clear()
        if health.jobs is not None:
            for state in _JOB_STATES:
                self._jobs.labels(state).set(getattr(health.jobs, state))
            self._next_waits.set(health.jobs.next_waits_seconds)
            self._without_vectors.set(0 if health.vectors is None else health.vectors.chunks)
            self._lacking.set(0 if health.vectors is None else health.vectors.external_ids)


class Measured:
    """Counts and times every request, also those that guards refuse."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and its answer back."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began_at = time.perf_counter()
        # What a client sees of an answer that was never given: uvicorn closes the connection.
        status, seconds = 500, 0.0

        async def send_and_note(message: Message) -> None:
            nonlocal status, seconds
            if message["type"] == "http.response.start":
                status, seconds = message["status"], time.perf_counter() - began_at
            await send(message)

        self._metrics.began()
        try:
            await self._app(scope, receive, send_and_note)
        finally:
            self._metrics.ended(scope, status, seconds or time.perf_counter() - began_at)


def add_metrics(app: FastAPI, metrics: Metrics, check: HealthCheck, *, is_public: bool) -> None:
    """Add `/metrics`.

    Args:
        is_public: Whether everyone may read it; otherwise it takes the scope memory:admin and a credential that acts
            for no single tenant.
    """

    @app.get(PATH, include_in_schema=False)
    async def read_metrics(request: Request) -> Response:
        if not is_public:
            caller: Caller = request.state.caller
            caller.require_whole_server(AccessScope.ADMIN)
        metrics.show(await check.look())
        encode, media_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(metrics.registry), media_type=media_type)


def _route(scope: Scope) -> str:
    """The template of the route that a request has reached."""
    route = scope.get("route")
    if route is None or REFUSED in scope:
        return NO_ROUTE
    path = route.path if isinstance(route, Mount) else getattr(route, "path_format", None)
    return path or NO_ROUTE
