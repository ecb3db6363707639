"""What no one expected, told without a word of what the request was about."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_reminiscence.server.guards.refusal import refuse
from agent_reminiscence.server.problems import ProblemError

_logger = logging.getLogger("agent_reminiscence.server")

_OURS: Final = "agent_reminiscence."
# Every request comes through these.
_GUARDS: Final = ("agent_reminiscence.server.guards.", "agent_reminiscence.server.access.middleware")


class BrokenOffError(Exception):
    """An answer that had begun could not be finished; the connection has to be closed."""


class Failures:
    """Answers an unexpected exception with 500, and logs its class and place.

    Neither its message nor its traceback goes into the log, because both may quote a memory. That is why this stands in
    front of Starlette's and uvicorn's own handling, which log all of it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and say so if that fails."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_begun = False

        async def send_and_note(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        except BrokenOffError:
            # Somebody has done so, and said why.
            raise
        except ClientDisconnect:
            # Nobody reads an answer.
            return
        except Exception as error:  # noqa: BLE001 - whatever it is
            _logger.error("a request failed: %s%s", type(error).__name__, _place(error.__traceback__))
        else:
            return
        if has_begun:
            raise BrokenOffError("an answer broke off; the line before says why") from None
        problem = ProblemError(500, "internal-error", "the server failed; its log says how")
        await refuse(problem, scope, receive, send)


def _place(trace: TracebackType | None) -> str:
    """The innermost place in our own code, if it is behind the guards."""
    place = ""
    while trace is not None:
        module = trace.tb_frame.f_globals.get("__name__", "")
        if module.startswith(_OURS) and not module.startswith(_GUARDS):
            place = f" in {module}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return place
