"""Settings a user may change, and constants the package is tuned with."""

from agent_reminiscence.config.settings import Config

__all__ = ["Config"]
