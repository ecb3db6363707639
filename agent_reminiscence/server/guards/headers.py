"""What every answer tells a browser."""

from __future__ import annotations

from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_reminiscence.server.paths import STATIC, is_under, path_of

# No script or style in a page itself, nothing from elsewhere, and no page of another site around ours: a text that was
# stored with markup in it does nothing even if it were not escaped.
CONTENT_SECURITY_POLICY: Final = "; ".join(
    (
        "default-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "object-src 'none'",
    )
)
_HEADERS: Final = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    # A page's address may name a memory. Not "no-referrer": that takes the name out of `Origin`, too, by which
    # `Origins` knows our own pages where a browser says nothing else, and nobody could sign in over plain HTTP.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class SecurityHeaders:
    """Sets these headers on every answer, also on those of other guards."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and its answer back."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_static = is_under(path_of(scope), STATIC)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                if not is_static:
                    headers["Cache-Control"] = "no-store"
                if headers.get("content-type", "").startswith("text/event-stream"):
                    # nginx holds events back otherwise.
                    headers["X-Accel-Buffering"] = "no"
            await send(message)

        await self._app(scope, receive, send_with_headers)
