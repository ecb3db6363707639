"""The credential in a header Authorization."""

from __future__ import annotations


def secret_of(authorization: str) -> str | None:
    """The secret of a header `Bearer …`; None if it is of another kind, or empty."""
    scheme, _, secret = authorization.partition(" ")
    return secret.strip() or None if scheme.lower() == "bearer" else None
