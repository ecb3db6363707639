"""Which paths are whose, for what stands before all routes."""

from __future__ import annotations

from typing import Final

from starlette.types import Scope

PROGRAMS: Final = ("/v1", "/mcp", "/metrics")
"""Where programs call. A browser sends cookies by itself, so they count for nothing here."""
PROBES: Final = ("/healthz", "/readyz")
STATIC: Final = ("/static",)
OPEN: Final = (*PROBES, "/sign-in", *STATIC)
"""Reveal nothing, or are what one signs in with."""
FORMS_OF_STRANGERS: Final = ("/sign-in",)
"""Take a form from whoever sends one."""
QUESTIONS: Final = ("/v1/recall", "/v1/answer", "/mcp", "/ask")
"""Take questions, of which a long one costs more than a short one."""
UPLOADS: Final = ("/v1/import",)
"""Take files, which may be longer than other bodies, and take longer."""


def is_under(path: str, roots: tuple[str, ...]) -> bool:
    """Whether a path is one of these, or below one."""
    return any(path == root or path.startswith(f"{root}/") for root in roots)


def path_of(scope: Scope) -> str:
    """The path as routes know it, without the prefix under which a proxy has put the application."""
    path: str = scope["path"]
    prefix: str = scope.get("root_path", "").rstrip("/")
    return path.removeprefix(prefix) if prefix and path.startswith(f"{prefix}/") else path
