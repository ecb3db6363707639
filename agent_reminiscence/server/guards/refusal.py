"""How a guard answers in place of the application."""

from __future__ import annotations

from typing import Final

from starlette.types import Receive, Scope, Send

from agent_reminiscence.server.problems import ProblemError, as_response

REFUSED: Final = "agent_reminiscence.refused"
"""Where a scope has the kind of the problem with which a guard refused it; the metrics count it."""


async def refuse(problem: ProblemError, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with a problem, whatever the application would have said."""
    scope[REFUSED] = problem.kind
    await as_response(problem)(scope, receive, send)
