"""Settings that a user may change, and constants that the package is tuned with."""

from agent_reminiscence.config.settings import Config

__all__ = ["Config"]
