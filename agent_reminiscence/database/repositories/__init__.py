"""Statements on one kind of row each: they take the open transaction, return domain models, and decide nothing."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent_reminiscence.database.repositories.active_memory import ActiveMemoryRepository
    from agent_reminiscence.database.repositories.longterm_memory import LongtermMemoryRepository
    from agent_reminiscence.database.repositories.shortterm_memory import ShorttermMemoryRepository

__all__ = ["ActiveMemoryRepository", "LongtermMemoryRepository", "ShorttermMemoryRepository"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import the repository of a tier when it is first used: none needs the other two."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        tier = name.removesuffix("MemoryRepository").lower()
        return getattr(import_module(f"{__name__}.{tier}_memory"), name)
