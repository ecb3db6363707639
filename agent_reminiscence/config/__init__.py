"""Settings a user may change, and constants the package is tuned with."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent_reminiscence.config.settings import Config

__all__ = ["Config"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import `Config` when it is first used: the modules beside it are needed without pydantic."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from agent_reminiscence.config.settings import Config

        return Config
