"""Checks of arguments that would otherwise fail only in the middle of a run."""

from __future__ import annotations

from agent_reminiscence.core import AgentMem
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.services import validation


def check_memory(memory: object, name: str) -> None:
    """Refuse everything but the memory that awaits.

    Raises:
        InvalidInputError: It is another one, such as the blocking one, which would write and then fail.
    """
    if not isinstance(memory, AgentMem):
        given = f"{type(memory).__module__}.{type(memory).__qualname__}"
        raise InvalidInputError(
            f"{name} needs an agent_reminiscence.AgentMem, not {given}: the SDK awaits it. Open one with"
            " 'async with AgentMem(…) as memory', on the event loop of your runs"
        )


def check_token_budget(token_budget: object) -> None:
    """Refuse what is not a number of tokens.

    Raises:
        InvalidInputError: It is not a whole number from 1.
    """
    if isinstance(token_budget, bool) or not isinstance(token_budget, int) or token_budget < 1:
        raise InvalidInputError(f"token_budget must be a whole number from 1, not {token_budget!r}")


def check_selection(min_match: object, where: object) -> None:
    """Refuse what does not say which passages may be shown.

    Raises:
        InvalidInputError: `min_match` is neither a number from 0 to 1 nor "found", or `where` is not a `Filter`; both
            may be None.
    """
    if min_match is not None:
        validation.min_match(min_match)
    validation.where(where)
