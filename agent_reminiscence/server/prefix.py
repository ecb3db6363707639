"""The prefix of a path under which a proxy puts the whole server."""

from __future__ import annotations

from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LEADING_AWAY: Final = ("Location", "HX-Redirect")


class Prefix:
    """Tells the application its prefix, and keeps redirects below it.

    A proxy may take the prefix away before it passes a request on, or leave it there; both are the same to the
    application, as ASGI has it: `path` with the prefix, and `root_path`.

    What is inside redirects to its own paths without thinking of a prefix. It is added here, in one place, so that no
    redirect can lack it.

    Args:
        prefix: Such as "/memory"; empty takes what the ASGI server says, or whoever has mounted the application.
    """

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and its answer back."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if self._prefix:
            scope = _placed(scope, self._prefix)
        prefix: str = scope.get("root_path", "").rstrip("/")
        if not prefix:
            await self._app(scope, receive, send)
            return

        async def send_below(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name in _LEADING_AWAY:
                    target = headers.get(name, "")
                    # Two slashes begin the name of another server.
                    is_path = target.startswith("/") and not target.startswith("//")
                    if is_path and target != prefix and not target.startswith((f"{prefix}/", f"{prefix}?")):
                        headers[name] = prefix + target
            await send(message)

        await self._app(scope, receive, send_below)


def _placed(scope: Scope, prefix: str) -> Scope:
    """A request as if the ASGI server had been told the prefix."""
    path: str = scope["path"]
    raw: bytes | None = scope.get("raw_path")
    placed = dict(scope)
    if path == prefix:
        # As a visitor types it.
        placed["path"] = f"{prefix}/"
    elif not path.startswith(f"{prefix}/"):
        placed["path"] = prefix + path
        if raw is not None:
            placed["raw_path"] = prefix.encode("ascii") + raw
    placed["root_path"] = prefix
    return placed
