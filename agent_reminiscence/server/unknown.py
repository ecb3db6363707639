"""What is answered where there is no route."""

from __future__ import annotations

from typing import Final

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from agent_reminiscence.server.inspector.rendering import render
from agent_reminiscence.server.paths import PROGRAMS, is_under, path_of
from agent_reminiscence.server.problems import as_response
from agent_reminiscence.server.rest import methods_of
from agent_reminiscence.server.rest.problems import problem_of

_TITLES: Final = {404: "Not found", 405: "Not possible"}
_DETAILS: Final = {404: "There is no page at this address.", 405: "This address takes requests of another kind."}


def add_unknown(app: FastAPI) -> None:
    """Answer requests for paths and methods that nobody has added: a page for a browser, a problem for all others."""
    app.add_exception_handler(HTTPException, _tell)


async def _tell(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    is_program = is_under(path_of(request.scope), PROGRAMS)
    headers = dict(error.headers or {})
    if error.status_code == 405 and is_program and (methods := methods_of(request)):
        headers["Allow"] = ", ".join(methods)
    if not is_program and "text/html" in request.headers.get("accept", ""):
        title = _TITLES.get(error.status_code, "Refused")
        detail = _DETAILS.get(error.status_code, "The request was refused.")
        caller = getattr(request.state, "caller", None)
        answer = render(request, "error.html", caller, status=error.status_code, title=title, detail=detail)
        answer.headers.update(headers)
        return answer
    problem = problem_of(error)
    problem.headers |= headers
    return as_response(problem)
