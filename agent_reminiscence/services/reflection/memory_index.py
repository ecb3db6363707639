"""Finds events of users' own kinds by what they say: recall's ranking over an index apart from recall's."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from itertools import batched
from typing import Final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.config.constants import BACKFILL_CHUNKS
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.chunk_vector import StoredVectors
from agent_reminiscence.database.repositories.event_index import NewVector, Searched
from agent_reminiscence.database.repositories.reflection import Onlooker
from agent_reminiscence.database.repositories.search import FoundTerm
from agent_reminiscence.domain.belief import REFLECTED
from agent_reminiscence.domain.canonical import sha256
from agent_reminiscence.domain.event import Event, is_user_kind
from agent_reminiscence.domain.event_text import EVENT_LANGUAGE, indexed_event_text
from agent_reminiscence.domain.generation import Generation
from agent_reminiscence.domain.index import FIRST, are_among, chunk_number, position_of
from agent_reminiscence.exceptions import EmbeddingError, InvalidInputError, RedactionError
from agent_reminiscence.resilience.retries import repeated
from agent_reminiscence.services.recall.encoders import known_encoder
from agent_reminiscence.services.recall.occurrences import in_numbers, occurrences, rarity_weights, said_within
from agent_reminiscence.services.recall.question import read_question
from agent_reminiscence.services.recall.ranking import Vectors, rank
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.services.vectors.filling import EmbeddingService
from agent_reminiscence.services.vectors.norms import INLINE_CHUNKS, window_norms
from agent_reminiscence.views.visibility import Visibility

_logger = logging.getLogger("agent_reminiscence.events")

# How many events are looked up at once.
_LOOKED_UP: Final = 5_000
# More reflections than there are.
_ALL: Final = 2**31 - 1
_LANGUAGES: Final = (EVENT_LANGUAGE,)


class EventSearch:
    """Searches the events of users' own kinds."""

    def __init__(self, runtime: Runtime, embedding: EmbeddingService) -> None:
        self._store = runtime.store
        self._ledger = runtime.repositories.events
        self._index = runtime.repositories.tables.event_index
        self._reflections = runtime.repositories.reflections
        self._scrubber = runtime.scrubber
        self._clock = runtime.clock
        self._embedding = embedding

    async def embed(self, external_id: str, events: Sequence[Event]) -> list[Event]:
        """Make the vectors that events lack; without an embedder, they are found by their words.

        Erased events, and those of our own kinds, have no place in the index and are passed over.

        Returns:
            Those that have no vector because the embedder failed.

        Raises:
            InvalidInputError: An event is not in the ledger of `external_id`.
            StoreError: The store is unavailable.
        """
        indexed = _indexed(external_id, events)
        generation = self._embedding.generations.current
        # All before any is embedded.
        lacking: list[Event] = []
        for batch in batched(indexed, _LOOKED_UP):
            lacking += await self._lacking(external_id, generation, batch)
        for number, batch in enumerate(batched(lacking, BACKFILL_CHUNKS)):
            if left := await self._fill(external_id, generation, batch):
                # The next would wait for the same embedder.
                return [*left, *lacking[(number + 1) * BACKFILL_CHUNKS :]]
        return []

    async def _lacking(self, external_id: str, generation: Generation, events: Sequence[Event]) -> list[Event]:
        """Those of some events that have a text and no vector."""
        positions = [event.position for event in events]

        async def look() -> dict[UUID, bool]:
            async with self._store.transaction(external_id, read_only=True) as db:
                return dict(await self._index.find(db, external_id, generation, positions))

        known = await repeated(look, operation="index events", external_id=external_id)
        if unknown := [event for event in events if event.event_id not in known]:
            raise InvalidInputError(
                f"{len(unknown)} of {len(events)} events are not in the ledger of external_id {external_id!r}, the"
                f" first at position {unknown[0].position}; append them first: memory.ledger.append()"
            )
        return [event for event in events if known[event.event_id] and indexed_event_text(event)]

    async def _fill(self, external_id: str, generation: Generation, events: Sequence[Event]) -> list[Event]:
        """Embed and store what some events say; returns those for which the embedder failed."""
        texts = {event.position: indexed_event_text(event) for event in events}
        made, failed = await self._embedding.embed_texts(generation, texts.values())
        may_pass = False
        if failed:
            failure = next(iter(failed.values()))
            # Without a traceback: a client's error may quote the texts.
            _logger.warning(
                "events are found by their words only: %s",
                failure,
                extra={"external_id": external_id, "texts": len(failed), "model_name": generation.model_name},
            )
            # A text that is refused would be refused again.
            may_pass = await self._embedding.is_at_fault(generation, failure, has_made=bool(made))
        hashes = {position: sha256(text.encode()) for position, text in texts.items()}
        vectors = [
            NewVector(position, text_hash, made[text_hash])
            for position, text_hash in hashes.items()
            if text_hash in made
        ]
        async with self._store.transaction(external_id) as db:
            # An erasure must come entirely before or after this.
            await self._ledger.lock(db, external_id)
            await self._index.add_vectors(db, external_id, generation, vectors)
        return [event for event in events if texts[event.position] in failed] if may_pass else []

    async def search(
        self,
        external_id: str,
        query: str,
        k: int,
        *,
        actor: str | None,
        kinds: tuple[str, ...],
        among: Sequence[Event] | None,
    ) -> list[Event]:
        """The events that answer a question best, best first; deterministic.

        Args:
            actor: Only this actor's events, and those of `kinds`; None is everybody's.
            kinds: Kinds that are found whoever wrote them.
            among: Only these; None is all that may be searched.

        Raises:
            StoreError: The store is unavailable.
        """
        searched = Searched(actor, kinds)
        positions = None if among is None else [event.position for event in among]
        return await repeated(
            lambda: self._search(external_id, query, k, searched, positions),
            operation="search events",
            external_id=external_id,
        )

    async def _search(
        self, external_id: str, query: str, k: int, searched: Searched, among: Sequence[int] | None
    ) -> list[Event]:
        generation = self._embedding.generations.current
        async with self._store.transaction(external_id, read_only=True) as db:
            layout = await self._index.read_layout(db, external_id, searched)
            if among is None:
                hidden = [chunk_number(position, 0) for position in await self._hidden(db, external_id, searched)]
                layout = layout[~np.isin(layout["number"], hidden)]
            else:
                # Nothing else may count, neither as a neighbour nor in how rare a word is: what an agent does not see
                # must not be told by the order of what it sees.
                layout = layout[np.isin(layout["number"], [chunk_number(position, 0) for position in among])]
            if not len(layout):
                return []
            layout = layout.copy()
            # The events are one text: what stands before and after one counts as in recall.
            layout["flags"][0] |= FIRST
            asked = read_question(
                query,
                _LANGUAGES,
                first_day=int(layout["day"].min()),
                last_day=int(layout["day"].max()),
                today=self._clock().date(),
            )
            found = await self._index.find_terms(db, external_id, asked.looked_up)
            stored = await self._index.read_vectors(db, external_id, generation, searched)
        numbers = layout["number"].astype(np.int64)
        found, stored = _among(found, numbers), _vectors_among(stored, numbers)
        asked = asked.bounded({term: len(where.numbers) for term, where in found.items()})
        words = occurrences(asked, found, {})
        weigh = rarity_weights(words, _LANGUAGES, len(layout))
        vector = None
        if len(stored.numbers):
            vector = await self._embed_question(external_id, query, weigh, generation)

        def compare_and_rank() -> list[int]:
            ranked = rank(
                layout,
                in_numbers(asked, words, said_within(asked, found), {}),
                None if vector is None else _compare(layout, stored, np.array(vector, dtype=np.float32)),
                limit=k,
                encoder=known_encoder(generation.model_name),
            )
            return [position_of(number) for number in ranked.numbers.tolist()]

        is_long = len(layout) > INLINE_CHUNKS
        positions = await asyncio.to_thread(compare_and_rank) if is_long else compare_and_rank()
        async with self._store.transaction(external_id, read_only=True) as db:
            return await self._ledger.read_at(db, external_id, positions)

    async def _hidden(self, db: SqlExecutor, external_id: str, searched: Searched) -> list[int]:
        """The positions of other agents' reflections that the one who searches does not see."""
        if searched.actor is None or REFLECTED not in searched.kinds:
            return []
        sees = Visibility(global_kinds=frozenset(kind for kind in searched.kinds if is_user_kind(kind)))
        onlooker = Onlooker(external_id, searched.actor, searched.kinds)
        written = await self._reflections.read_others(db, onlooker, limit=_ALL)
        heads = await self._reflections.read_grounds(db, external_id, {event.event_id for event in written})
        seen = {event.event_id for event in sees.visible(searched.actor, heads)}
        return [event.position for event in written if event.event_id not in seen]

    async def _embed_question(
        self, external_id: str, query: str, weigh: Callable[[str], float], generation: Generation
    ) -> Sequence[float] | None:
        """The vector of a question; None if it has none, and then the search goes by words."""
        try:
            # The embedder may call anyone's server; and redacted questions resemble the stored texts.
            (text,) = await self._scrubber.scrub_texts([query])
            weighted = await self._embedding.get_weighted(text, weigh, generation)
            if weighted is not None:
                return weighted
            return await self._embedding.embed_question(external_id, text, generation)
        except (EmbeddingError, RedactionError) as error:
            _logger.warning(
                "the query has no vector; searching events by words only: %s", error, extra={"external_id": external_id}
            )
            return None


def _indexed(external_id: str, events: Sequence[Event]) -> list[Event]:
    """Those of some events that the index of an `external_id` holds, unless they are erased meanwhile."""
    for event in events:
        if event.external_id != external_id:
            raise InvalidInputError(
                f"an event of external_id {event.external_id!r} cannot be indexed for {external_id!r}; make an index of"
                " its own for it"
            )
    return [event for event in events if is_user_kind(event.kind) and not event.is_erased]


def _among(found: Mapping[str, FoundTerm], numbers: NDArray[np.int64]) -> dict[str, FoundTerm]:
    """Where terms occur within some events: what nobody may find must not count either."""
    kept = {}
    for term, where in found.items():
        is_there, _ = are_among(where.numbers, numbers)
        if is_there.any():
            kept[term] = FoundTerm(where.numbers[is_there], where.frequencies[is_there], where.lengths[is_there])
    return kept


def _vectors_among(stored: StoredVectors, numbers: NDArray[np.int64]) -> StoredVectors:
    """The vectors of some events."""
    is_there, _ = are_among(stored.numbers, numbers)
    return StoredVectors(stored.numbers[is_there], stored.masses[is_there], stored.vectors[is_there])


def _compare(layout: NDArray[np.void], stored: StoredVectors, vector: NDArray[np.float32]) -> Vectors:
    """How close the events are to a question, and the lengths of their windows."""
    dots = stored.vectors @ vector
    return Vectors(stored.numbers, dots, window_norms(layout, stored.numbers, stored.masses, stored.vectors))
