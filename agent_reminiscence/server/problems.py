"""Errors as the server answers them: RFC 9457, without any text of a memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from starlette.responses import JSONResponse

MEDIA_TYPE: Final = "application/problem+json"
TYPE_PREFIX: Final = "urn:agent-reminiscence:problem:"


class ProblemError(Exception):
    """What is wrong with a request, or with the server, as its caller is told.

    Args:
        status: HTTP's.
        kind: What programs tell problems apart by, in kebab case; stable.
        detail: What a person reads: what is wrong, and the way out.
        headers: To send with it.
        extra: Further members of the body.
    """

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.headers = dict(headers or {})
        self.extra = dict(extra or {})


def as_response(problem: ProblemError) -> JSONResponse:
    """A problem as an answer."""
    body = {
        "type": TYPE_PREFIX + problem.kind,
        "title": problem.kind.replace("-", " ").capitalize(),
        "status": problem.status,
        "detail": problem.detail,
        **problem.extra,
    }
    return JSONResponse(body, problem.status, problem.headers, MEDIA_TYPE)
