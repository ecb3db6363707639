"""One request for a page: who asks, of which memory, and what they see if it cannot be answered."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Final, cast
from urllib.parse import urlencode
from uuid import UUID

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.retrieval import RetrievalResult
from agent_reminiscence.exceptions import (
    AgentError,
    ConfigurationError,
    EmbeddingError,
    EntityNotFoundError,
    ExternalIdNotFoundError,
    MemoryNotFoundError,
    ProfileNotFoundError,
    RelationshipNotFoundError,
    ReminiscenceError,
    UsageError,
    VersionConflictError,
)
from agent_reminiscence.server.access.grants import Caller, Scope
from agent_reminiscence.server.inspector.fields import Fields, of_address, of_body, uuid_of
from agent_reminiscence.server.inspector.rendering import render
from agent_reminiscence.server.problems import ProblemError

_logger = logging.getLogger("agent_reminiscence.server")

_MISSING: Final[Mapping[type[ReminiscenceError], str]] = {
    EntityNotFoundError: "There is no such entity; Graph lists those that are named most.",
    ExternalIdNotFoundError: "Nothing was ever stored for this external_id; check its spelling.",
    MemoryNotFoundError: "There is no such memory or version, or it is archived already; see the list of memories.",
    ProfileNotFoundError: "There is no such profile, or there was none at that time; Ask lists those there are.",
    RelationshipNotFoundError: "There is no such relationship; Graph shows those of a name.",
}
"""What a page says is not there; the errors themselves name calls of Python."""
_TITLES: Final = {
    400: "This cannot be asked",
    403: "Not allowed",
    404: "Not found",
    409: "Somebody else was first",
    502: "A model did not answer",
    503: "The memory is not available",
}


def has_neo4j(memory: AgentMem) -> bool:
    """Whether a Neo4j follows the graph, which may be behind."""
    return memory.config.neo4j_uri is not None


class _NoTenantError(Exception):
    """A delegate has not said for whom they look."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A request for a page.

    Attributes:
        given: The parameters of the address; of a form that was sent, its fields.
    """

    request: Request
    caller: Caller
    memory: AgentMem
    given: Fields

    @property
    def tenant(self) -> str:
        """Whose memory is shown."""
        if self.caller.external_id is None:
            raise _NoTenantError
        return self.caller.tenant(Scope.READ)

    def tenant_for(self, scope: Scope) -> str:
        """Whose memory is changed.

        Raises:
            ProblemError: 403, without the scope.
        """
        self.caller.require(scope)
        return self.tenant

    @property
    def actor(self) -> str:
        """Who changes something here, as the ledger names them."""
        return f"inspector/{self.caller.grant.subject}"[:256]

    def recalled(self, result: RetrievalResult) -> None:
        """Count a question that was answered."""
        self.request.app.state.metrics.recalled("inspector", found=result.found)

    def named(self, name: str) -> str:
        """A part of the path."""
        return cast("str", self.request.path_params[name])

    def named_id(self, name: str) -> UUID:
        """A part of the path that is an id.

        Raises:
            InvalidInputError: It is none.
        """
        return uuid_of(self.named(name), name)

    def show(self, template: str, *, status: int = 200, **shown: object) -> Response:
        """A page."""
        return render(self.request, template, self.caller, status=status, given=self.given, **shown)


type Page = Callable[[Visit], Awaitable[Response]]


def answered(page: Page) -> Callable[[Request], Awaitable[Response]]:
    """A page as the application calls it: what goes wrong is a page, too."""

    @wraps(page)
    async def answer(request: Request) -> Response:
        caller: Caller = request.state.caller
        try:
            given = await of_body(request) if request.method == "POST" else of_address(request)
            return await page(Visit(request, caller, request.app.state.memory, given))
        except _NoTenantError:
            return _to_tenants(request)
        except ProblemError as problem:
            return _refused(request, caller, problem.status, problem.detail)
        except ReminiscenceError as error:
            return _refused(request, caller, _status(error), _detail(request, error))

    return answer


def go(path: str, **given: object) -> RedirectResponse:
    """To another page, after something was done."""
    asked = urlencode({name: value for name, value in given.items() if value is not None})
    return RedirectResponse(f"{path}?{asked}" if asked else path, 303)


def _to_tenants(request: Request) -> Response:
    back = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return go("/tenants", next=back if request.method != "POST" else None)


def _refused(request: Request, caller: Caller, status: int, detail: str) -> Response:
    return render(
        request,
        "error.html",
        caller,
        status=status,
        title=_TITLES.get(status, _TITLES[400]),
        detail=detail,
    )


def _status(error: ReminiscenceError) -> int:
    match error:
        case ConfigurationError():
            return 400
        case UsageError():
            return 404 if type(error) in _MISSING else 400
        case VersionConflictError():
            return 409
        case AgentError() | EmbeddingError():
            return 502
        case _:
            return 503


def _detail(request: Request, error: ReminiscenceError) -> str:
    """What its reader is told; the errors of stores are for whoever runs the server."""
    if _status(error) == 503:
        _logger.warning("a page could not be made: %s", type(error).__name__)
        return "The database does not answer as it should. Try again; the log of the server says more."
    return _MISSING.get(type(error)) or str(error)
