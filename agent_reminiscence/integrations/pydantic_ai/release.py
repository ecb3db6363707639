"""Whether the installed Pydantic AI has what the integration needs."""

from __future__ import annotations

import re
from importlib.metadata import version
from typing import Final

from agent_reminiscence.config.extras import require
from agent_reminiscence.config.installation import DISTRIBUTION
from agent_reminiscence.exceptions import ConfigurationError

FLOOR: Final = (2, 66)
"""The first release with `pydantic_ai.conversation_store` and `pydantic_ai.framing`."""

_PACKAGE: Final = "pydantic-ai-slim"
_RELEASE: Final = re.compile(r"(\d+)\.(\d+)")


def require_release() -> None:
    """Refuse a Pydantic AI that is missing or too old.

    Raises:
        ConfigurationError: The message says what to install.
    """
    require("pydantic-ai", "agent_reminiscence.integrations.pydantic_ai")
    check_release(version(_PACKAGE))


def check_release(installed: str) -> None:
    """Refuse a release before `FLOOR`; one whose number cannot be read is taken for a new one.

    Raises:
        ConfigurationError: It is older.
    """
    numbers = _RELEASE.match(installed)
    if numbers is not None and (int(numbers[1]), int(numbers[2])) < FLOOR:
        raise ConfigurationError(
            f"agent_reminiscence.integrations.pydantic_ai needs {_PACKAGE} {FLOOR[0]}.{FLOOR[1]} or later, and"
            f" {installed} is installed; install {DISTRIBUTION}[pydantic-ai]"
        )
