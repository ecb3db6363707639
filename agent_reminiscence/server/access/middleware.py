"""Lets only requests with a valid credential through, and says whom each acts for."""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import quote

from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from agent_reminiscence.server.access.authenticators import Authenticator
from agent_reminiscence.server.access.grants import (
    ALSO_READS_HEADER,
    TENANT_HEADER,
    Caller,
    acting_for,
    named_memories,
    named_tenant,
)
from agent_reminiscence.server.access.headers import only_one, secret_of
from agent_reminiscence.server.access.limiter import RateLimiter
from agent_reminiscence.server.access.strangers import Strangers, TooManyWaitError
from agent_reminiscence.server.access.watch import WatchedAnswer
from agent_reminiscence.server.guards.client import Client, Wait
from agent_reminiscence.server.guards.refusal import hang_up, refuse
from agent_reminiscence.server.paths import OPEN, PROGRAMS, is_under, path_of
from agent_reminiscence.server.problems import ProblemError

CREDENTIAL_COOKIE: Final = "reminiscence_credential"
TENANT_COOKIE: Final = "reminiscence_external_id"
"""For whom a delegate looks at the inspector; percent-encoded UTF-8, as in `X-External-Id`."""
CHECK_SECONDS: Final = 10.0
WRONG_PER_MINUTE: Final = 300
REFUSAL_DELAY_SECONDS: Final = 2.0


class AccessMiddleware:
    """Puts a `Caller` into `request.state.caller`, or refuses the request.

    Args:
        open_paths: What is open besides `OPEN`.
        check_seconds: How often the credential of an answer that is still being sent is checked again.
        wrong_per_minute: How many requests of one address are refused at once.
        refusal_delay_seconds: How long each further refusal waits.
        stopping: Set when the server begins to stop: then no refusal waits.
    """

    def __init__(
        self,
        app: ASGIApp,
        authenticator: Authenticator,
        limiter: RateLimiter,
        open_paths: tuple[str, ...] = (),
        *,
        check_seconds: float = CHECK_SECONDS,
        wrong_per_minute: int = WRONG_PER_MINUTE,
        refusal_delay_seconds: float = REFUSAL_DELAY_SECONDS,
        stopping: asyncio.Event | None = None,
    ) -> None:
        self._app = app
        self._authenticator = authenticator
        self._strangers = Strangers(
            authenticator, wrong_per_minute=wrong_per_minute, delay_seconds=refusal_delay_seconds
        )
        self._stopping = stopping or asyncio.Event()
        self._limiter = limiter
        self._open_paths = (*OPEN, *open_paths)
        self._check_seconds = check_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that may not pass; else pass it on."""
        if scope["type"] == "websocket":
            # There is none, and one that is added one day must not come past here.
            await WebSocketClose()(scope, receive, send)
            return
        if scope["type"] != "http" or is_under(path_of(scope), self._open_paths):
            await self._app(scope, receive, send)
            return
        client = Client(scope, receive, self._stopping)
        try:
            await self._answer_known(scope, client, send)
        finally:
            client.close()

    async def _answer_known(self, scope: Scope, client: Client, send: Send) -> None:
        """Answer a request if its credential is valid; else refuse it."""
        receive = client.receive
        try:
            secret, caller = await self._caller(HTTPConnection(scope), client.wait)
        except TooManyWaitError as problem:
            await hang_up(problem, scope, receive, send)
            return
        except ProblemError as problem:
            answer = _to_sign_in(HTTPConnection(scope)) if problem.status == 401 else None
            if answer is None:
                await refuse(problem, scope, receive, send)
            else:
                await answer(scope, receive, send)
            return
        scope.setdefault("state", {})["caller"] = caller
        await self._answer(scope, receive, send, secret, caller)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, secret: str, caller: Caller) -> None:
        """Pass a request on, and end its answer if the credential ends first."""
        watched = WatchedAnswer(send, self._authenticator, secret, caller.grant, check_seconds=self._check_seconds)
        try:
            await self._app(scope, receive, watched.send)
        except asyncio.CancelledError:
            if not watched.was_ended:
                raise
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
        finally:
            watched.stop()
        if watched.was_ended:
            await watched.finish()

    async def _caller(self, request: HTTPConnection, wait: Wait) -> tuple[str, Caller]:
        """The credential of a request, and who makes it."""
        is_program = is_under(path_of(request.scope), PROGRAMS)
        address = _address_of(request.scope)
        try:
            secret = secret_of(only_one(request.headers, "Authorization") or "")
        except ProblemError:
            # Whatever else is refused is no wrong credential, and does not use up the allowance of an address.
            await self._strangers.refuse(address, wait)
            raise
        by_cookie = secret is None and not is_program
        if by_cookie:
            secret = request.cookies.get(CREDENTIAL_COOKIE)
        grant = await self._strangers.authenticate(secret or None, address, wait)
        if secret is None or grant is None:
            raise ProblemError(
                401,
                "not-authenticated",
                "send a valid key or token in the header Authorization, as `Bearer …`",
                headers={"WWW-Authenticate": 'Bearer realm="agent-reminiscence"'},
            )
        self._limiter.take(grant)
        asked = only_one(request.headers, TENANT_HEADER)
        also = only_one(request.headers, ALSO_READS_HEADER)
        if asked is None and by_cookie and grant.external_id is None:
            # Empty: nobody has been chosen.
            asked = request.cookies.get(TENANT_COOKIE) or None
        return secret, acting_for(
            grant,
            None if asked is None else named_tenant(asked),
            None if also is None else named_memories(also),
        )


def _address_of(scope: Scope) -> str:
    client = scope.get("client")
    return "" if client is None else str(client[0])


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
