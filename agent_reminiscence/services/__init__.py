"""What happens, in which order, in which transaction: the services behind the four methods."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent_reminiscence.services.embedding import EmbeddingService

__all__ = ["EmbeddingService"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import `EmbeddingService` when it is first used: most modules beside it need no vectors."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from agent_reminiscence.services.embedding import EmbeddingService

        return EmbeddingService
