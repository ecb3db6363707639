"""Answers only to its own names."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from agent_reminiscence.server.guards.refusal import refuse
from agent_reminiscence.server.paths import PROBES, is_under, path_of
from agent_reminiscence.server.problems import ProblemError


class Hosts:
    """Refuses requests for names that are not this server's.

    A page whose own name an attacker points at 127.0.0.1 is of the same origin as this server to a browser, which then
    lets the page read what it likes ("DNS rebinding"). The header Host still has the attacker's name.

    Probes are let through: an orchestrator calls them by address, and they reveal nothing.

    Args:
        names: In lower case, without a port; `*.example.org` stands for every name below it.
    """

    def __init__(self, app: ASGIApp, names: Sequence[str]) -> None:
        self._app = app
        self._names = frozenset(name.lower() for name in names if not name.startswith("*."))
        self._endings = tuple(name[1:].lower() for name in names if name.startswith("*."))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request for a name of ours."""
        if scope["type"] != "http" or is_under(path_of(scope), PROBES):
            await self._app(scope, receive, send)
            return
        hosts = Headers(scope=scope).getlist("host")
        if len(hosts) == 1 and self._is_ours(_without_port(hosts[0]).lower()):
            await self._app(scope, receive, send)
            return
        problem = ProblemError(
            421,
            "host-not-allowed",
            "this server does not answer to the name in the header Host; whoever runs it can allow the name"
            " (serve --allowed-host, AGENT_REMINISCENCE_SERVER_ALLOWED_HOSTS)",
        )
        await refuse(problem, scope, receive, send)

    def _is_ours(self, name: str) -> bool:
        return name in self._names or name.endswith(self._endings)


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    # An IPv6 address has colons of its own, within brackets.
    return name if colon and port.isdecimal() and not name.endswith(":") else host
