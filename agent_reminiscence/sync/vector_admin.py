# Written by scripts/write_sync.py from the asynchronous classes: `make sync` writes it anew.
"""The blocking twin of `agent_reminiscence.admin.vectors.VectorAdmin`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING
from uuid import UUID

from agent_reminiscence.domain.generation import Generation, GenerationFill, ReembedProgress, ReembedReport
from agent_reminiscence.embedders.protocol import Embedder
from agent_reminiscence.sync.lifecycle import Twin

if TYPE_CHECKING:
    from agent_reminiscence.admin.vectors import VectorAdmin as AsyncVectorAdmin


class VectorAdmin(Twin):
    """Vector generations: move to another embedding model, and remove what it replaced."""

    _wrapped: AsyncVectorAdmin

    def reembed(
        self,
        embedder: Embedder | None = None,
        *,
        provider: str | None = None,
        model: str | None = None,
        dimension: int | None = None,
        admin_dsn: str | None = None,
        progress: Callable[[ReembedProgress], None] | None = None,
    ) -> ReembedReport:
        """Rebuild the vectors of all memories with another model, and switch to them.

        Searches and writes continue meanwhile. Other processes follow the switch automatically: they create the
        embedder of a named provider themselves, while your own embedder must be passed to them as
        `AgentMem(embedders=[…])`. After a crash, the next call resumes. The old vectors are kept until
        `drop_old_vectors` or the next change of model.

        Args:
            embedder: Your own embedder for the new vectors.
            provider: Alternatively, a provider as in `embedding_provider`, with `model` and `dimension`. With neither:
                continue the generation being built, else use this object's embedder; if its vectors were the last to
                be replaced, fill in missing current vectors.
            admin_dsn: DSN of a database administrator, who may create tables; the embedded server needs none.
            progress: Called after each batch.

        Returns:
            What was done. If the current vectors are already from that model, the missing ones were filled in.

        Raises:
            InvalidInputError: An argument is invalid.
            ConfigurationError: The embedder cannot be created, or no administrator login is known.
            ReembeddingError: Another call is running, or another model's vectors are being built.
            EmbeddingError: The embedder failed. Its vectors so far are kept, and the next call resumes.
            StoreError: The store is unavailable. The vectors so far are kept, and the next call resumes.
        """
        return self._thread.call(
            lambda: self._wrapped.reembed(
                embedder, provider=provider, model=model, dimension=dimension, admin_dsn=admin_dsn, progress=progress
            )
        )

    def cancel_reembed(self, *, admin_dsn: str | None = None) -> Generation | None:
        """Discard the vector generation being built; searches are not affected.

        Returns:
            The discarded generation; None if none was being built.

        Raises:
            ConfigurationError: No administrator login is known.
            ReembeddingError: A `reembed` call is running; stop it first.
            StoreError: The store is unavailable.
        """
        return self._thread.call(lambda: self._wrapped.cancel_reembed(admin_dsn=admin_dsn))

    def drop_old_vectors(self, *, admin_dsn: str | None = None) -> list[Generation]:
        """Drop replaced vectors, after waiting until they have been unused for a minute.

        Returns:
            The dropped generations.

        Raises:
            ConfigurationError: No administrator login is known.
            ReembeddingError: A `reembed` call is running.
            StoreError: The store is unavailable, or the vectors were in use all the time.
        """
        return self._thread.call(lambda: self._wrapped.drop_old_vectors(admin_dsn=admin_dsn))

    def vectors(self, external_id: str | int | UUID, chunk_ids: Iterable[UUID | str]) -> dict[UUID, tuple[float, ...]]:
        """The stored vectors of passages, such as `hit.chunk_id` names. Treat them as the texts themselves.

        Args:
            chunk_ids: At most 1,000.

        Returns:
            The vectors of the current generation by `chunk_id`: of unit length, to the precision of 16-bit numbers.
            Passages that have none yet, do not exist or belong to another `external_id` are left out.

        Raises:
            InvalidInputError: An argument is invalid.
            StoreError: The store is unavailable.
        """
        return self._thread.call(lambda: self._wrapped.vectors(external_id, chunk_ids))

    def generations(self) -> list[GenerationFill]:
        """All vector generations, oldest first, and how complete each is. Counts all chunks.

        Raises:
            StoreError: The store is unavailable.
        """
        return self._thread.call(self._wrapped.generations)
