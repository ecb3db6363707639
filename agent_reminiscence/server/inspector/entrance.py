"""Signing in and out, and for a delegate the choice of whose memory to look at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.server.access.authenticators import Authenticator
from agent_reminiscence.server.access.grants import Scope
from agent_reminiscence.server.access.limiter import WrongAttempts
from agent_reminiscence.server.access.middleware import CREDENTIAL_COOKIE, TENANT_COOKIE
from agent_reminiscence.server.inspector.fields import Fields, of_address, of_body
from agent_reminiscence.server.inspector.rendering import render, root_of
from agent_reminiscence.server.inspector.tenants import known_tenants
from agent_reminiscence.server.inspector.visits import Visit, go
from agent_reminiscence.server.problems import ProblemError

# Longer than any key or token, and short enough for every browser to keep.
_LONGEST_SECRET: Final = 4_000
_SHOWN_TENANTS: Final = 200


class SignIn:
    """The form that takes a key or a token, and keeps it in a cookie that no script reads.

    An address with `?token=`, as it is printed when a server starts, signs in without the form, and is left at once.
    """

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator
        self._wrong = WrongAttempts()

    async def show(self, request: Request) -> Response:
        """The form; or with a token the way in."""
        given = of_address(request)
        token = given.text("token")
        # A page elsewhere must not sign somebody in as somebody else.
        is_followed_from_elsewhere = request.headers.get("sec-fetch-site") in {"cross-site", "same-site"}
        if token is None or is_followed_from_elsewhere:
            return render(request, "sign_in.html", None, given=given, wrong=None)
        return await self._enter(request, given, token)

    async def enter(self, request: Request) -> Response:
        """What the form sends."""
        try:
            given = await of_body(request)
        except InvalidInputError as error:
            return render(request, "sign_in.html", None, status=400, wrong=str(error))
        return await self._enter(request, given, given.text("token"))

    async def _enter(self, request: Request, given: Fields, token: str | None) -> Response:
        address = "" if request.client is None else request.client.host
        if seconds := self._wrong.wait(address):
            wrong = f"Too many wrong keys were tried from your address. Wait {seconds} s, then try again."
            return self._refuse(request, given, 429, wrong, {"Retry-After": str(seconds)})
        try:
            is_valid = token is not None and await self._is_valid(token)
        except ProblemError as problem:
            return self._refuse(request, given, problem.status, f"{problem.detail}.", problem.headers)
        if token is None or not is_valid:
            self._wrong.count(address)
            wrong = "This is no valid key or token. A key may have expired, or have been revoked."
            return self._refuse(request, given, 403, wrong)
        answer = RedirectResponse(_own(request, given), 303)
        _keep(request, answer, CREDENTIAL_COOKIE, token)
        _forget(request, answer, TENANT_COOKIE)
        return answer

    async def _is_valid(self, token: str) -> bool:
        is_possible = len(token) <= _LONGEST_SECRET and token.isascii()
        return is_possible and await self._authenticator.authenticate(token) is not None

    def _refuse(
        self, request: Request, given: Fields, status: int, wrong: str, headers: Mapping[str, str] | None = None
    ) -> Response:
        """The form again, with what was wrong."""
        # Without the address, which may hold a wrong token.
        shown = Fields([("next", _own(request, given))])
        answer = render(request, "sign_in.html", None, status=status, given=shown, wrong=wrong)
        answer.headers.update(headers or {})
        return answer


async def sign_out(visit: Visit) -> Response:
    """Forget the credential."""
    answer = RedirectResponse("/sign-in", 303)
    for cookie in (CREDENTIAL_COOKIE, TENANT_COOKIE):
        _forget(visit.request, answer, cookie)
    return answer


async def show_tenants(visit: Visit) -> Response:
    """Whose memories there are."""
    if visit.caller.grant.external_id is not None:
        return go("/")
    visit.caller.require(Scope.READ)
    wanted = visit.given.text("q")
    found = await known_tenants(visit.memory, containing=wanted, limit=_SHOWN_TENANTS)
    return visit.show("tenants.html", tenants=found, most=_SHOWN_TENANTS, back=_own(visit.request, visit.given))


async def choose_tenant(visit: Visit) -> Response:
    """Look at another memory from now on."""
    if visit.caller.grant.external_id is not None:
        return go("/")
    visit.caller.require(Scope.READ)
    tenant = visit.given.text("external_id")
    if tenant is None:
        raise InvalidInputError("name the external_id whose memory you want to see")
    # Refuses an id that nobody can have.
    await visit.memory.ledger.head(tenant)
    answer = RedirectResponse(_own(visit.request, visit.given), 303)
    _keep(visit.request, answer, TENANT_COOKIE, quote(tenant, safe=""))
    return answer


def _keep(request: Request, answer: Response, cookie: str, value: str) -> None:
    """Keep a value until the browser is closed, for this server only."""
    is_secure = request.url.scheme == "https"
    answer.set_cookie(cookie, value, path=_cookie_path(request), httponly=True, samesite="strict", secure=is_secure)


def _forget(request: Request, answer: Response, cookie: str) -> None:
    answer.delete_cookie(cookie, path=_cookie_path(request), httponly=True, samesite="strict")


def _cookie_path(request: Request) -> str:
    """Where a browser sends a cookie: not to what else a proxy serves under the same name."""
    return root_of(request) or "/"


def _own(request: Request, given: Fields) -> str:
    """Where to go next, if it is an address of ours: another server's would lead away from here.

    It has the prefix, as all addresses of pages do.
    """
    path, root = given.text("next"), root_of(request)
    home = f"{root}/"
    if path is None or not path.isprintable() or not path.startswith(home):
        return home
    rest = path.removeprefix(root)
    return home if rest.startswith(("//", "/\\", "/sign-")) else path
