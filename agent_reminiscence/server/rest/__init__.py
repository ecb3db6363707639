"""REST under `/v1`."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match

from agent_reminiscence.server.rest import (
    conversations,
    erasures,
    events,
    graph,
    memories,
    profiles,
    recall,
    tenants,
    transfer,
    upkeep,
)
from agent_reminiscence.server.rest.document import make_document
from agent_reminiscence.server.rest.routes import operations

__all__ = ["ROUTERS", "add_rest", "methods_of", "openapi"]

ROUTERS: Final[tuple[APIRouter, ...]] = (
    *memories.ROUTERS,
    conversations.router,
    recall.router,
    graph.router,
    events.router,
    erasures.router,
    transfer.router,
    profiles.router,
    upkeep.router,
    tenants.router,
)

_document = operations("document")


@_document.get("/openapi.json", include_in_schema=False)
async def get_document() -> Response:
    """This document."""
    return JSONResponse(openapi())


@cache
def openapi() -> dict[str, Any]:
    """The document at `/v1/openapi.json`."""
    return make_document(ROUTERS)


def add_rest(app: FastAPI) -> None:
    """Add all operations to an application.

    Of its state they use `memory`, `server_config` and `stopping`, an event that is set when the server begins to stop.
    """
    for router in (*ROUTERS, _document):
        app.include_router(router)


def methods_of(request: Request) -> list[str]:
    """The methods that operations have at a path. A router knows only those of the first route that fits."""
    found: set[str] = set()
    for router in (*ROUTERS, _document):
        for route in router.routes:
            if route.matches(request.scope)[0] is not Match.NONE:
                found |= getattr(route, "methods", None) or set()
    return sorted(found)
