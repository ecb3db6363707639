"""Adds the pages to an application."""

from __future__ import annotations

from typing import Final

from fastapi import FastAPI
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from agent_reminiscence.server.access.authenticators import Authenticator
from agent_reminiscence.server.inspector import agents, ask, entrance, erasures, ledger, reference, runs, times
from agent_reminiscence.server.inspector.graph import Graph
from agent_reminiscence.server.inspector.growth import GrowthReader
from agent_reminiscence.server.inspector.memories import Memories
from agent_reminiscence.server.inspector.now import Now
from agent_reminiscence.server.inspector.rendering import FOLDER
from agent_reminiscence.server.inspector.visits import Page, answered

STATIC: Final = "/static"


class _Files(StaticFiles):
    """Files that a browser asks for again, so that a new release does not meet an old script."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        answer = await super().get_response(path, scope)
        answer.headers["Cache-Control"] = "no-cache"
        return answer


def add_inspector(app: FastAPI, authenticator: Authenticator) -> None:
    """Add the inspector at `/`, with its sign-in and its files.

    Args:
        authenticator: Says which credentials may sign in.
    """
    growth = GrowthReader()
    now, memories, graph = Now(growth), Memories(growth), Graph(growth)
    sign_in = entrance.SignIn(authenticator)
    app.mount(STATIC, _Files(directory=FOLDER / "static"), name="static")
    app.add_route("/sign-in", sign_in.show, methods=["GET"], include_in_schema=False)
    app.add_route("/sign-in", sign_in.enter, methods=["POST"], include_in_schema=False)

    shown: dict[str, Page] = {
        "/": now.show,
        "/growth.json": now.growth,
        "/tenants": entrance.show_tenants,
        "/memories": memories.show_list,
        "/memories/{memory_id}": memories.show,
        "/memories/{memory_id}/passages/{chunk_id}": memories.show_passage,
        "/memories/{memory_id}/archive": memories.ask_archive,
        "/passages/{chunk_id}": memories.find_passage,
        "/ask": ask.ask,
        "/time": times.show,
        "/graph": graph.show,
        "/graph/merge": graph.ask_merge,
        "/graph/entities/{entity_id}": graph.show_entity,
        "/graph/relationships/{relationship_id}": graph.show_relationship,
        "/graph/relationships/{relationship_id}/end": graph.ask_end,
        "/ledger": ledger.show,
        "/ledger/verify": ledger.show_verification,
        "/ledger/{position}": ledger.show_event,
        "/receipts": erasures.show_receipts,
        "/receipts/{position}": erasures.show_receipt,
        "/erase": erasures.show_form,
        "/views": agents.show,
        "/runs": runs.show,
        "/runs/{position}": runs.show_invocation,
        "/docs": reference.show,
    }
    done: dict[str, Page] = {
        "/sign-out": entrance.sign_out,
        "/tenants": entrance.choose_tenant,
        "/memories/{memory_id}/archive": memories.archive,
        "/memories/{memory_id}/unarchive": memories.unarchive,
        "/memories/{memory_id}/pin": memories.pin,
        "/ask": ask.ask,
        "/graph/merge": graph.merge,
        "/graph/entities/{entity_id}/unmerge": graph.unmerge,
        "/graph/relationships/{relationship_id}/end": graph.end,
        "/ledger/verify": ledger.verify,
        "/receipts/{position}": erasures.check,
        "/erase/preview": erasures.preview,
        "/erase": erasures.erase,
    }
    for method, pages in (("GET", shown), ("POST", done)):
        for path, page in pages.items():
            app.add_route(path, answered(page), methods=[method], include_in_schema=False)
