"""How the operations of `/v1` are declared, and what holds for all of them before they begin.

An operation names its scope in the document, and it is this entry that is enforced.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

from fastapi import APIRouter, Depends, Header, Request
from fastapi.params import Header as HeaderParameter
from fastapi.params import Query as QueryParameter
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic_core import from_json
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.memory import ActiveMemory
from agent_reminiscence.domain.strict_json import refuse_repeated_keys
from agent_reminiscence.exceptions import (
    NotInitializedError,
    ReminiscenceError,
    StoreError,
    StoreTimeoutError,
    StoreUnavailableError,
)
from agent_reminiscence.server.access.grants import Caller, Scope
from agent_reminiscence.server.access.headers import only_one
from agent_reminiscence.server.problems import MEDIA_TYPE, ProblemError, as_response
from agent_reminiscence.server.rest.fields import Body
from agent_reminiscence.server.rest.problems import problem_of, told

SECURITY_SCHEME: Final = "bearer"
PROBLEM_SCHEMA: Final = {"$ref": "#/components/schemas/Problem"}

# Ignored where they mean nothing, they would let a client believe that it is protected.
_PROMISES: Final = {
    "idempotency-key": (
        "idempotency-unsupported",
        "this operation takes no Idempotency-Key; POST /v1/memories, its PUT, PATCH, append and restore do",
    ),
    "if-match": (
        "precondition-unsupported",
        "this operation takes no If-Match; PATCH, append and restore of a memory do",
    ),
    "if-none-match": (
        "precondition-unsupported",
        'no operation takes If-None-Match; POST /v1/memories with a key and if_exists "error" creates only what is new',
    ),
}


# What operations take ---------------------------------------------------------------------------------------------


async def _tenant(request: Request) -> str:
    tenant: str = request.state.tenant
    return tenant


async def _memory(request: Request) -> AgentMem:
    memory: AgentMem = request.app.state.memory
    return memory


Tenant = Annotated[str, Depends(_tenant)]
"""For whom the request acts; its scope has been asked for."""
Memory = Annotated[AgentMem, Depends(_memory)]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="Your own id of this request, at most 256 characters. A repetition with the same key returns the"
        " first one's result, and writes nothing.",
        min_length=1,
        max_length=256,
    ),
]
IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        description='The version that you read, in quotation marks as in `ETag`: `"3"`. `*` is any version.',
        pattern=r'^(\*|"[1-9][0-9]{0,9}")$',
    ),
]


def expected_version(if_match: str | None) -> int | None:
    """The version that a header If-Match names; None is any."""
    return None if if_match is None or if_match == "*" else int(if_match.strip('"'))


# What operations answer -------------------------------------------------------------------------------------------


def as_json(model: BaseModel, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A model as an answer."""
    return Response(model.model_dump_json(), status, headers, "application/json")


def as_memory(memory: ActiveMemory, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A memory as an answer, with its version as `ETag`."""
    return as_json(memory, status, {"ETag": f'"{memory.version}"'} | dict(headers or {}))


LOCATION: Final = {"Location": {"description": "Its path.", "schema": {"type": "string"}}}
ETAG: Final = {"ETag": {"description": "The memory's version, for `If-Match`.", "schema": {"type": "string"}}}


# Declaring them ---------------------------------------------------------------------------------------------------


type Kind = tuple[int, str]
"""A status, and what programs tell its problems apart by."""

NO_SUCH_PATH: Final[tuple[Kind, ...]] = ((404, "not-found"),)
"""Of an operation with an id in its path that is a client's own: one with a line break is no path."""
_ALWAYS: Final[tuple[Kind, ...]] = (
    (400, "header-repeated"),
    (400, "tenant-invalid"),
    (400, "tenant-missing"),
    (401, "not-authenticated"),
    (403, "forbidden"),
    (421, "host-not-allowed"),
    (422, "invalid-input"),
    (429, "too-many-requests"),
    (500, "internal-error"),
    (503, "overloaded"),
    (503, "too-many-streams"),
    (503, "unavailable"),
)
_OF_SERVER: Final[tuple[Kind, ...]] = (
    *(one for one in _ALWAYS if one[1] != "tenant-missing"),
    (400, "tenant-unsupported"),
)
"""Of an operation that is not a tenant's."""
_WITH_A_BODY: Final[tuple[Kind, ...]] = (
    (400, "malformed-json"),
    (408, "body-too-slow"),
    (413, "too-large"),
    (415, "unsupported-media-type"),
)
_STORE_ERRORS: Final = (NotInitializedError, StoreError, StoreTimeoutError, StoreUnavailableError)
# Where an operation's problems are until it is made; the document says them as responses.
_PROBLEMS: Final = "x-problems"
# Whether it takes a credential of the whole server.
OF_SERVER: Final = "x-whole-server"


def says(
    scope: Scope,
    *errors: type[ReminiscenceError],
    kinds: Sequence[Kind] = (),
    responses: Mapping[int, Mapping[str, Any]] | None = None,
    **extra: Any,
) -> dict[str, Any]:
    """What the document says of an operation, as arguments of its route.

    Args:
        scope: What its caller needs.
        errors: What the memory may raise, beyond an invalid input and a store that fails.
        kinds: Further problems.
        responses: What else it answers, by status.
        extra: Further members of the operation.
    """
    raised: tuple[type[ReminiscenceError], ...] = (*_STORE_ERRORS, *errors)
    problems = [(how.status, how.kind) for how in map(told, raised)]
    return {
        "responses": {status: dict(one) for status, one in (responses or {}).items()},
        "openapi_extra": {"security": [{SECURITY_SCHEME: [scope.value]}], _PROBLEMS: [*problems, *kinds], **extra},
    }


def says_of_server(scope: Scope) -> dict[str, Any]:
    """The same of an operation that is of all tenants together: it takes a credential of the whole server."""
    entry = says(scope)
    return entry | {"openapi_extra": entry["openapi_extra"] | {OF_SERVER: True}}


def _as_responses(kinds: Iterable[Kind]) -> dict[int | str, dict[str, Any]]:
    """Problems as the document lists them."""
    by_status: dict[int, list[str]] = {}
    for status, kind in sorted(set(kinds)):
        by_status.setdefault(status, []).append(f"`{kind}`")
    return {
        status: {
            "description": f"A problem: {', '.join(names)}.",
            "content": {MEDIA_TYPE: {"schema": PROBLEM_SCHEMA}},
        }
        for status, names in by_status.items()
    }


class Operation(APIRoute):
    """One operation of `/v1`."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **given: Any) -> None:
        extra = dict(given.get("openapi_extra") or {})
        if (problems := extra.pop(_PROBLEMS, None)) is not None:
            problems = [*(_OF_SERVER if OF_SERVER in extra else _ALWAYS), *problems]
            if _has_body(endpoint):
                problems += _WITH_A_BODY
            if given["methods"] != ["GET"]:
                taken = _header_names(endpoint)
                problems += [(400, kind) for header, (kind, _) in _PROMISES.items() if header not in taken]
            given |= {"openapi_extra": extra, "responses": _as_responses(problems) | (given.get("responses") or {})}
        super().__init__(path, endpoint, **given)

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        """What answers a request: with a problem, whatever goes wrong."""
        answer = super().get_route_handler()
        rules = _Rules.of(self)

        async def checked(request: Request) -> Response:
            try:
                if rules.scope is not None:
                    rules.let_in(request)
                rules.check(request)
                if self.body_field is not None:
                    request = await _with_json(request)
                return await answer(request)
            except ClientDisconnect:
                # Nobody reads it.
                return Response(status_code=400)
            except Exception as error:  # noqa: BLE001 - whatever it is, a client gets a problem and nothing of it
                return as_response(problem_of(error))

        return checked


@dataclass(frozen=True, slots=True)
class _Rules:
    """What an operation takes.

    Attributes:
        scope: What it needs; None for the document itself.
        of_server: Whether it is of all tenants together.
        query: The names of its parameters.
        lists: Those that may be repeated.
    """

    scope: Scope | None
    of_server: bool
    query: frozenset[str]
    lists: frozenset[str]
    headers: frozenset[str]

    @classmethod
    def of(cls, route: APIRoute) -> _Rules:
        """The rules of a route, as its function and its entry in the document have them."""
        extra = route.openapi_extra or {}
        security = extra.get("security")
        return cls(
            scope=None if security is None else Scope(security[0][SECURITY_SCHEME][0]),
            of_server=OF_SERVER in extra,
            query=frozenset(_names(route.endpoint, QueryParameter)),
            lists=frozenset(_names(route.endpoint, QueryParameter, lists_only=True)),
            headers=_header_names(route.endpoint),
        )

    def let_in(self, request: Request) -> None:
        """Note for whom a request acts, if its credential may do this.

        Raises:
            ProblemError: It may not, or it is unclear for whom.
        """
        assert self.scope is not None
        caller: Caller = request.state.caller
        if not self.of_server:
            request.state.tenant = caller.tenant(self.scope)
            return
        caller.require_whole_server(self.scope)
        if caller.external_id is not None:
            raise ProblemError(
                400, "tenant-unsupported", "this operation is of all tenants; leave out the header X-External-Id"
            )

    def check(self, request: Request) -> None:
        """Refuse what would have no effect.

        Raises:
            ProblemError: A parameter of the query is unknown or repeated, or a header promises what the operation does
                not keep.
        """
        unknown = sorted(set(request.query_params) - self.query)
        if unknown:
            known = ", ".join(sorted(self.query)) or "none"
            raise ProblemError(
                422,
                "invalid-input",
                f"a parameter of the query is unknown; this operation has {known}",
                extra={"errors": [{"at": f"query.{name[:100]}", "problem": "is unknown"} for name in unknown[:20]]},
            )
        for name in self.query - self.lists:
            if len(request.query_params.getlist(name)) > 1:
                raise ProblemError(
                    422,
                    "invalid-input",
                    f"the parameter {name} of the query is there more than once; send it once",
                    extra={"errors": [{"at": f"query.{name}", "problem": "is repeated"}]},
                )
        for header in self.headers:
            only_one(request.headers, header.title())
        if request.method == "GET":
            return
        for header, (kind, detail) in _PROMISES.items():
            if header in request.headers and header not in self.headers:
                raise ProblemError(400, kind, detail)


def _names(
    endpoint: Callable[..., Any], kind: type[QueryParameter | HeaderParameter], *, lists_only: bool = False
) -> Iterator[str]:
    """The names of a function's parameters of one kind, as a request spells them."""
    for name, hint in get_type_hints(endpoint, include_extras=True).items():
        for one in getattr(hint, "__metadata__", ()):
            if isinstance(one, kind) and (not lists_only or _is_list(get_args(hint)[0])):
                yield one.alias or name


def _is_list(hint: object) -> bool:
    return any(get_origin(one) is list for one in (hint, *get_args(hint)))


def _header_names(endpoint: Callable[..., Any]) -> frozenset[str]:
    return frozenset(name.lower() for name in _names(endpoint, HeaderParameter))


def _has_body(endpoint: Callable[..., Any]) -> bool:
    return any(isinstance(one, type) and issubclass(one, Body) for one in get_type_hints(endpoint).values())


class _JsonRequest(Request):
    """A request whose body has been read."""

    parsed: Any = None

    async def json(self) -> Any:
        """The body as JSON."""
        return self.parsed


async def _with_json(request: Request) -> Request:
    """The request with its body, as strict JSON: each key once, no NaN, no depth or digits without end.

    Half of an escaped surrogate pair is JSON by its grammar and text to nobody. It is read as NUL: a text has U+FFFD in
    its place, as for any character that cannot be stored, and an identifier is refused.

    Raises:
        ProblemError: The body is something else.
    """
    read = _JsonRequest(request.scope, request.receive)
    body = await read.body()
    if not body:
        return read
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise ProblemError(415, "unsupported-media-type", "send the body as JSON, with Content-Type: application/json")
    try:
        read.parsed = _parsed(body)
        refuse_repeated_keys(body)
    except ValueError as error:
        raise ProblemError(400, "malformed-json", f"the body is not JSON: {error}") from None
    return read


def _parsed(body: bytes) -> Any:
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError:
        return from_json(_ESCAPE.sub(_whole_or_nul, body), allow_inf_nan=False)


# An escape in a string of JSON: a pair of surrogates, half of one, or anything else.
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)


def _whole_or_nul(escape: re.Match[bytes]) -> bytes:
    return rb"\u0000" if escape[1] else escape[0]


def operations(tag: str) -> APIRouter:
    """A router for operations that belong together."""
    return APIRouter(
        prefix="/v1", tags=[tag], route_class=Operation, generate_unique_id_function=lambda route: route.name
    )
