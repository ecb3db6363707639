"""The specification's place of `EmbeddingService`, which lives in the room of vectors."""

from agent_reminiscence.services.vectors.filling import EmbeddingService

__all__ = ["EmbeddingService"]
