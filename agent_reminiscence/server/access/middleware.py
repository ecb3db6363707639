"""Lets only requests with a valid credential through, and says whom each acts for."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from agent_reminiscence.server.access.authenticators import Authenticator
from agent_reminiscence.server.access.grants import Caller, acting_for, named_tenant
from agent_reminiscence.server.access.limiter import RateLimiter
from agent_reminiscence.server.paths import OPEN, PROGRAMS, is_under, path_of
from agent_reminiscence.server.problems import ProblemError, as_response

CREDENTIAL_COOKIE: Final = "reminiscence_credential"
TENANT_COOKIE: Final = "reminiscence_external_id"
"""For whom a delegate looks at the inspector; percent-encoded UTF-8, as in `X-External-Id`."""


class AccessMiddleware:
    """Puts a `Caller` into `request.state.caller`, or refuses the request.

    Args:
        open_paths: What is open besides `OPEN`.
    """

    def __init__(
        self, app: ASGIApp, authenticator: Authenticator, limiter: RateLimiter, open_paths: tuple[str, ...] = ()
    ) -> None:
        self._app = app
        self._authenticator = authenticator
        self._limiter = limiter
        self._open_paths = (*OPEN, *open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that may not pass; else pass it on."""
        if scope["type"] == "websocket":
            # There is none, and one that is added one day must not come past here.
            await WebSocketClose()(scope, receive, send)
            return
        if scope["type"] != "http" or is_under(path_of(scope), self._open_paths):
            await self._app(scope, receive, send)
            return
        try:
            scope.setdefault("state", {})["caller"] = await self._caller(HTTPConnection(scope))
        except ProblemError as problem:
            answer = _to_sign_in(HTTPConnection(scope)) if problem.status == 401 else None
            await (answer or as_response(problem))(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _caller(self, request: HTTPConnection) -> Caller:
        is_program = is_under(path_of(request.scope), PROGRAMS)
        secret = _bearer(request.headers)
        by_cookie = secret is None and not is_program
        if by_cookie:
            secret = request.cookies.get(CREDENTIAL_COOKIE)
        grant = None if not secret else await self._authenticator.authenticate(secret)
        if grant is None:
            raise ProblemError(
                401,
                "not-authenticated",
                "send a valid key or token in the header Authorization, as `Bearer …`",
                headers={"WWW-Authenticate": 'Bearer realm="agent-reminiscence"'},
            )
        self._limiter.take(grant)
        asked = _only(request.headers, "X-External-Id")
        if asked is None and by_cookie and grant.external_id is None:
            # Empty: nobody has been chosen.
            asked = request.cookies.get(TENANT_COOKIE) or None
        return acting_for(grant, None if asked is None else named_tenant(asked))


def _to_sign_in(request: HTTPConnection) -> Response | None:
    """The way to the form for a browser that wants a page; None for whoever else asks."""
    path = request.url.path
    if is_under(path_of(request.scope), PROGRAMS) or "text/html" not in request.headers.get("accept", ""):
        return None
    if request.headers.get("hx-request") == "true":
        # A part of a page cannot hold the form, so the page is left.
        return Response(status_code=401, headers={"HX-Redirect": "/sign-in"})
    back = f"{path}?{request.url.query}" if request.url.query else path
    is_read = request.scope["method"] in {"GET", "HEAD"}
    return RedirectResponse(f"/sign-in?next={quote(back, safe='')}" if is_read else "/sign-in", 303)


def _bearer(headers: Headers) -> str | None:
    scheme, _, secret = (_only(headers, "Authorization") or "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" and secret.strip() else None


def _only(headers: Headers, name: str) -> str | None:
    """A header that decides who is acting; None if it is not there.

    Raises:
        ProblemError: 400 if it is there more than once: a proxy may have read another one than we would.
    """
    found = headers.getlist(name)
    if len(found) > 1:
        raise ProblemError(400, "header-repeated", f"the request has more than one header {name}; send one")
    return found[0] if found else None
