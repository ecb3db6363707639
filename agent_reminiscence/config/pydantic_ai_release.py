"""Whether the installed Pydantic AI has what the integration and the ReAct agent need."""

from __future__ import annotations

import re
from importlib.metadata import version
from typing import Final

from agent_reminiscence.config.extras import require
from agent_reminiscence.config.installation import install_command
from agent_reminiscence.exceptions import ConfigurationError

FLOOR: Final = (2, 66)
"""The first release with `pydantic_ai.conversation_store` and `pydantic_ai.framing`."""

_PACKAGE: Final = "pydantic-ai-slim"
_RELEASE: Final = re.compile(r"(\d+)\.(\d+)")


def require_release(purpose: str) -> None:
    """Refuse a Pydantic AI that is missing or too old.

    Args:
        purpose: What needs it, as the beginning of a sentence.

    Raises:
        ConfigurationError: The message says what to install.
    """
    require("pydantic-ai", purpose)
    check_release(purpose, version(_PACKAGE))


def check_release(purpose: str, installed: str) -> None:
    """Refuse a release before `FLOOR`; one whose number cannot be read is taken for a new one.

    Raises:
        ConfigurationError: It is older.
    """
    numbers = _RELEASE.match(installed)
    if numbers is not None and (int(numbers[1]), int(numbers[2])) < FLOOR:
        raise ConfigurationError(
            f"{purpose} needs {_PACKAGE} {FLOOR[0]}.{FLOOR[1]} or later, and"
            f" {installed} is installed; run `{install_command('pydantic-ai')}`"
        )
