"""What each part of `memory.admin` holds."""

from __future__ import annotations

from agent_reminiscence.config.settings import Config
from agent_reminiscence.services.services import Services


class Topic:
    """A part of `memory.admin`."""

    def __init__(self, services: Services, config: Config) -> None:
        self._services = services
        self._config = config
