"""Lets only requests with a valid credential through, and says whom each acts for."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from agent_reminiscence.server.access.authenticators import Authenticator
from agent_reminiscence.server.access.grants import Caller, acting_for
from agent_reminiscence.server.problems import ProblemError, as_response

CREDENTIAL_COOKIE: Final = "reminiscence_credential"
TENANT_COOKIE: Final = "reminiscence_external_id"
"""For whom a delegate looks at the inspector; percent-encoded UTF-8, as in `X-External-Id`."""

# A browser sends cookies by itself, so they count for nothing where programs call.
_PROGRAMS: Final = ("/v1", "/mcp", "/metrics")
# Reveal nothing, or are what one signs in with.
_OPEN: Final = ("/healthz", "/readyz", "/sign-in", "/static")


class AccessMiddleware:
    """Puts a `Caller` into `request.state.caller`, or refuses the request."""

    def __init__(self, app: ASGIApp, authenticator: Authenticator) -> None:
        self._app = app
        self._authenticator = authenticator

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that may not pass; else pass it on."""
        if scope["type"] != "http" or _is_under(scope["path"], _OPEN):
            await self._app(scope, receive, send)
            return
        try:
            scope.setdefault("state", {})["caller"] = await self._caller(HTTPConnection(scope))
        except ProblemError as problem:
            await as_response(problem)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _caller(self, request: HTTPConnection) -> Caller:
        is_program = _is_under(request.url.path, _PROGRAMS)
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
        asked = request.headers.get("x-external-id")
        if asked is None and by_cookie and grant.external_id is None:
            asked = request.cookies.get(TENANT_COOKIE)
        return acting_for(grant, unquote(asked) if asked else None)


def _is_under(path: str, roots: tuple[str, ...]) -> bool:
    return any(path == root or path.startswith(f"{root}/") for root in roots)


def _bearer(headers: Headers) -> str | None:
    scheme, _, secret = headers.get("authorization", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" and secret.strip() else None
