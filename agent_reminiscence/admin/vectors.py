"""Vector generations: move to another embedding model, and remove what it replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import UUID

from agent_reminiscence.admin.topic import Topic
from agent_reminiscence.domain.generation import Generation, GenerationFill, ReembedProgress, ReembedReport
from agent_reminiscence.embedders.base import adapted
from agent_reminiscence.embedders.protocol import Embedder
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.services import validation
from agent_reminiscence.services.vectors.reembedding import Target


class VectorAdmin(Topic):
    """Vector generations: move to another embedding model, and remove what it replaced."""

    async def reembed(
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
        target = None
        if embedder is not None:
            if provider is not None or model is not None or dimension is not None:
                raise InvalidInputError("reembed() takes an embedder, or provider, model and dimension, but not both")
            target = Target(adapted(embedder))
        elif provider is not None:
            target = self._services.reembedding.target(provider, model, dimension)
        elif model is not None or dimension is not None:
            raise InvalidInputError("reembed() was given a model or a dimension without a provider; name the provider")
        return await self._services.reembedding.reembed(target, admin_dsn=admin_dsn, progress=progress)

    async def cancel_reembed(self, *, admin_dsn: str | None = None) -> Generation | None:
        """Discard the vector generation being built; searches are not affected.

        Returns:
            The discarded generation; None if none was being built.

        Raises:
            ConfigurationError: No administrator login is known.
            ReembeddingError: A `reembed` call is running; stop it first.
            StoreError: The store is unavailable.
        """
        return await self._services.reembedding.cancel(admin_dsn=admin_dsn)

    async def drop_old_vectors(self, *, admin_dsn: str | None = None) -> list[Generation]:
        """Drop replaced vectors, after waiting until they have been unused for a minute.

        Returns:
            The dropped generations.

        Raises:
            ConfigurationError: No administrator login is known.
            ReembeddingError: A `reembed` call is running.
            StoreError: The store is unavailable, or the vectors were in use all the time.
        """
        return await self._services.reembedding.drop_old(admin_dsn=admin_dsn)

    async def vectors(
        self, external_id: str | int | UUID, chunk_ids: Iterable[UUID | str]
    ) -> dict[UUID, tuple[float, ...]]:
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
        return await self._services.embedding.vectors_of(
            validation.external_id(external_id), validation.chunk_ids(chunk_ids)
        )

    async def generations(self) -> list[GenerationFill]:
        """All vector generations, oldest first, and how complete each is. Counts all chunks.

        Raises:
            StoreError: The store is unavailable.
        """
        return await self._services.reembedding.generations()
