"""Finds out everything about a memory that can be found out while others write."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import batched
from typing import Final
from uuid import UUID

from agent_reminiscence.database.connection import Deferred, SqlExecutor
from agent_reminiscence.database.generations import ask_for_current, current_generation
from agent_reminiscence.database.repositories.graph.tables import KnownEntityName
from agent_reminiscence.domain.canonical import beside
from agent_reminiscence.domain.memory import StoredChunk, StoredMemory
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.services.tiers.entities import (
    combine,
    draft_entities,
    keys_to_look_up,
    left_to_rules,
    read_names,
)
from agent_reminiscence.services.tiers.known_names import KnownNames, short_read
from agent_reminiscence.services.tiers.plan import Draft
from agent_reminiscence.services.tiers.proposal import Proposal
from agent_reminiscence.services.tiers.relationships import draft_relationships, leave_unread
from agent_reminiscence.services.vectors.filling import EmbeddingService
from agent_reminiscence.text.folding import name_key

# Minimum cosine similarity for a recurrence, and the maximum number counted. One in 2,300 pairs of utterances from
# different sessions is that similar (bundled embedder, five long conversations).
RECURRENCE_SIMILARITY: Final = 0.8
RECURRENCE_NEIGHBOURS: Final = 5
# How many chunks of other memories a chunk is compared with, newest first. This bounds the cost of a long text in a
# large tenant: each comparison takes about a microsecond.
RECURRENCE_COMPARED_CHUNKS: Final = 2_000
RECURRENCE_BATCH_CHUNKS: Final = 100


class LacksVectorsError(Exception):
    """The memory lacks vectors, so where else it was said cannot be known."""


class Drafting:
    """Makes the draft of a consolidation, before and after a model has read the memory.

    `db` is the transaction that holds the stream's lock, if there is one.
    """

    def __init__(self, runtime: Runtime, embedding: EmbeddingService, names: KnownNames) -> None:
        self._store = runtime.store
        self._tables = runtime.repositories.tables
        self._similarity = runtime.repositories.similarity
        self._graph = runtime.repositories.graph
        self._embedding = embedding
        self._names = names

    async def read(
        self, external_id: str, memory_id: UUID, db: SqlExecutor | None, *, needs_vectors: bool, by_rules: bool
    ) -> Draft:
        """A memory as it is stored, with the names that rules find in what is new.

        Args:
            needs_vectors: Whether to give up if a vector is missing.
            by_rules: Whether no model will be asked. Then the draft of a short memory is completed in the transaction
                that read it, which saves round trips.

        Raises:
            LacksVectorsError: A vector is missing and `needs_vectors` is set.
        """
        async with short_read(self._store, external_id, db) as reader:
            asked_memory = await self._tables.active.ask_by_id(reader, external_id, memory_id)
            asked_generation = await ask_for_current(reader)
            asked_change = await self._graph.ask_for_last_change(reader, external_id)
            memory = await asked_memory.result()
            await reader.plan_for(len(memory.chunk_ids))
            current = await asked_generation.result()
            asked_lack = await self._embedding.ask_whether_lacking(reader, external_id, memory_id, current)
            layout = await self._tables.chunks.get_layout(reader, external_id, memory_id)
            if needs_vectors and await asked_lack.result():
                raise LacksVectorsError
            # A chunk that has ended for good stays in the text but takes part in nothing else.
            chunks, context = _split(memory, [chunk for chunk in layout if not chunk.has_ended])
            texts = [chunk.content for chunk in chunks]
            generation = current.number
            compared_at = await asked_change.result()
            is_short = len(chunks) <= RECURRENCE_BATCH_CHUNKS
            if is_short:
                recurring = await self._ask_how_many_similar(reader, memory, chunks, generation)
                looked_up = await beside(lambda: keys_to_look_up(chunks), value=texts)
                known = await self._names.find(external_id, looked_up, reader)
                recurrences = await recurring.result()
                if by_rules:
                    draft = await _draft(
                        memory, chunks, context, recurrences, generation, compared_at, known, looked_up
                    )
                    return await self.complete(draft, Proposal(), reader)
        if not is_short:
            # Comparing a long text takes time, so it is done in portions with a transaction each.
            recurrences, generation = await self._find_recurrences(external_id, memory, chunks, db)
            looked_up = await beside(lambda: keys_to_look_up(chunks), value=texts)
            known = await self._names.find(external_id, looked_up, db)
        return await _draft(memory, chunks, context, recurrences, generation, compared_at, known, looked_up)

    async def complete(self, draft: Draft, proposal: Proposal, db: SqlExecutor | None) -> Draft:
        """The draft with what a model proposes, and with the known entities that all its names most likely mean."""
        external_id = draft.memory.external_id
        sure = {row.key for row in draft.known} | {name_key(chunk.speaker) for chunk in draft.chunks if chunk.speaker}
        by_rules = left_to_rules(draft.entities, proposal.entities, proposal.read, sure)
        entities = combine([*proposal.entities, *by_rules])
        others = {entity.sought_key for entity in entities} - draft.looked_up
        known = [*draft.known, *await self._names.find(external_id, sorted(others), db)]
        entities = await self._names.compare(external_id, entities, known, db)
        return replace(
            draft,
            entities=entities,
            known=known,
            # What a model has read it has also related, or meant not to.
            relationships=leave_unread(draft.relationships, proposal.read),
            proposal=proposal,
            is_complete=True,
        )

    async def _find_recurrences(
        self, external_id: str, memory: StoredMemory, chunks: Sequence[StoredChunk], db: SqlExecutor | None
    ) -> tuple[dict[UUID, int], int]:
        """How often each chunk of a long text recurs elsewhere, and the vector generation used."""
        recurrences: dict[UUID, int] = {}
        generation = 0
        for batch in batched(chunks, RECURRENCE_BATCH_CHUNKS):
            async with short_read(self._store, external_id, db) as reader:
                # Read each time: another generation may become current while a long memory is compared.
                generation = (await current_generation(reader)).number
                await reader.plan_for(len(chunks))
                recurring = await self._ask_how_many_similar(reader, memory, batch, generation)
                recurrences |= await recurring.result()
        return recurrences, generation

    async def _ask_how_many_similar(
        self, db: SqlExecutor, memory: StoredMemory, chunks: Sequence[StoredChunk], generation: int
    ) -> Deferred[dict[UUID, int]]:
        """How often some chunks recur elsewhere; few at a time because of the statement timeout."""
        return await self._similarity.ask_how_many_similar(
            db,
            memory.external_id,
            memory.memory_id,
            [chunk.chunk_id for chunk in chunks],
            generation=generation,
            similarity=RECURRENCE_SIMILARITY,
            limit=RECURRENCE_NEIGHBOURS,
            compared=RECURRENCE_COMPARED_CHUNKS,
        )


def _split(memory: StoredMemory, chunks: Sequence[StoredChunk]) -> tuple[Sequence[StoredChunk], Sequence[StoredChunk]]:
    """The chunks that a consolidation names, and those before them that are only context.

    A text that has only been appended to since its last consolidation was read up to there. After any other change the
    whole text is read again.
    """
    if not memory.text_version <= memory.consolidated_version < memory.version:
        return chunks, ()
    # An erasure may have undone the consolidation of earlier chunks: they are active again.
    is_new = [chunk.tier == "active" or chunk.memory_version > memory.consolidated_version for chunk in chunks]
    return (
        [chunk for chunk, new in zip(chunks, is_new, strict=True) if new],
        [chunk for chunk, new in zip(chunks, is_new, strict=True) if not new],
    )


async def _draft(
    memory: StoredMemory,
    chunks: Sequence[StoredChunk],
    context: Sequence[StoredChunk],
    recurrences: Mapping[UUID, int],
    generation: int,
    compared_at: int,
    known: Sequence[KnownEntityName],
    looked_up: Collection[str],
) -> Draft:
    """The draft before a model was asked, with the names that rules find."""
    texts = [chunk.content for chunk in chunks]
    read = await beside(lambda: read_names(chunks, known), value=texts)
    entities = draft_entities(chunks, read)
    relationships = draft_relationships(chunks, entities, read)
    return Draft(
        memory,
        chunks,
        context,
        recurrences,
        generation,
        compared_at,
        entities,
        known,
        frozenset(looked_up),
        relationships,
    )
