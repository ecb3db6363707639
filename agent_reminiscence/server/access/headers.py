"""How headers are read that decide something."""

from __future__ import annotations

from starlette.datastructures import Headers

from agent_reminiscence.server.problems import ProblemError


def only_one(headers: Headers, name: str) -> str | None:
    """A header that decides something; None if it is not there.

    Raises:
        ProblemError: 400 if it is there more than once: a proxy may have read another one than we would.
    """
    found = headers.getlist(name)
    if len(found) > 1:
        raise ProblemError(400, "header-repeated", f"the request has more than one header {name}; send one")
    return found[0] if found else None


def secret_of(authorization: str) -> str | None:
    """The secret of a header `Bearer …`; None if it is of another kind, or empty."""
    scheme, _, secret = authorization.partition(" ")
    return secret.strip() or None if scheme.lower() == "bearer" else None
