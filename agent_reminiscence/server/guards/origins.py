"""Lets a browser change something only from pages of this server."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from agent_reminiscence.server.access.headers import secret_of
from agent_reminiscence.server.guards.refusal import refuse
from agent_reminiscence.server.paths import PROGRAMS, is_under, path_of
from agent_reminiscence.server.problems import ProblemError

_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
# "none": the user did it, from the address bar or a bookmark.
_OUR_SITES: Final = frozenset({"same-origin", "none"})


class Origins:
    """Refuses unsafe requests that a page of somebody else has a browser send with our cookie.

    Concerns requests without a credential in the header Authorization, outside of the paths of programs. A browser adds
    a cookie by itself, but never that: a page that sends a token has it, and needs no trick. Besides, the browser would
    ask first whether this server allows the header, and it allows nobody. A user name and password, as a proxy may ask
    for them, are no credential here: those a browser does add by itself.

    Every current browser says in `Sec-Fetch-Site` where a request comes from, if the server is reached by HTTPS or on
    this machine, and in `Origin` otherwise. A request that says neither does not come from a page of ours.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what may pass."""
        if (
            scope["type"] != "http"
            or scope["method"] in _SAFE_METHODS
            or is_under(path_of(scope), PROGRAMS)
            or _is_ours(Headers(scope=scope))
        ):
            await self._app(scope, receive, send)
            return
        problem = ProblemError(
            403,
            "cross-site",
            "the request does not come from a page of this server; programs send their key in the header Authorization",
        )
        await refuse(problem, scope, receive, send)


def _is_ours(headers: Headers) -> bool:
    given = headers.getlist("authorization")
    if given and all(map(secret_of, given)):
        return True
    sites = headers.getlist("sec-fetch-site")
    if sites:
        return _OUR_SITES.issuperset(sites)
    origins = headers.getlist("origin")
    # The scheme is not compared: behind a proxy it is the proxy's.
    return len(origins) == 1 and _host(origins[0]) == headers.get("host", "").lower()


def _host(origin: str) -> str | None:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return None
    return parts.netloc.lower() or None
