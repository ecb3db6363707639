"""The index of users' events: which there are, by whom, and their words. A projection, apart from recall's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import NamedTuple
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.database.repositories.arrays import real_array
from agent_reminiscence.database.repositories.chunk_vector import StoredVectors, stored_vectors
from agent_reminiscence.database.repositories.search import FoundTerm, found_terms
from agent_reminiscence.database.repositories.text_index import PostedText, entries_of, posting_rows
from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.generation import Generation
from agent_reminiscence.domain.index import LAYOUT_DTYPE

_SQL = load_queries("sql", "event_index")


class Searched(NamedTuple):
    """The events that a search may return.

    Attributes:
        actor: Whose events; None is everybody's.
        kinds: Besides, everybody's of these kinds.
    """

    actor: str | None = None
    kinds: tuple[str, ...] = ()


class NewVector(NamedTuple):
    """The vector of what an event says."""

    position: int
    text_hash: bytes
    vector: NDArray[np.float32]


class EventIndexRepository:
    """Rows of `event_index` and `event_posting`."""

    async def add(
        self,
        db: SqlExecutor,
        event: Event,
        text: PostedText,
        *,
        actor_key: str | None,
        text_flags: int,
        text_hash: bytes,
    ) -> None:
        """Add an event.

        Args:
            text: Its terms, under the number of the first chunk that an event at its position could add.
        """
        params = {
            "external_id": event.external_id,
            "position": event.position,
            "kind": event.kind,
            "actor": event.actor,
            "actor_key": actor_key,
            "day": event.occurred_at.astimezone(UTC).date(),
            "words": text.words,
            "text_flags": text_flags,
            "text_hash": text_hash.hex(),
        }
        await db.defer(_SQL["add_event"], params | posting_rows(entries_of([text])))

    async def read_layout(self, db: SqlExecutor, external_id: str, searched: Searched) -> NDArray[np.void]:
        """Return what a search may return, in the order of the ledger; shape (n,), `LAYOUT_DTYPE`."""
        row = await db.fetch_one(_SQL["read_layout"], _params(external_id, searched))
        return np.frombuffer((row and row["layout"]) or b"", LAYOUT_DTYPE)

    async def find_terms(self, db: SqlExecutor, external_id: str, terms: Sequence[str]) -> dict[str, FoundTerm]:
        """Return where each of some terms occurs; those that no event ever had are left out."""
        if not terms:
            return {}
        params = {"external_id": external_id, "terms": list(terms)}
        return found_terms(terms, await db.fetch_one(_SQL["find_postings"], params))

    async def read_vectors(
        self, db: SqlExecutor, external_id: str, generation: Generation, searched: Searched
    ) -> StoredVectors:
        """Return the vectors of what a search may return, by number; each weighs as much as its text has words."""
        params = _params(external_id, searched) | {"model_name": generation.model_name}
        row = await db.fetch_one(_SQL["read_vectors"], params)
        assert row is not None
        return stored_vectors(row)

    async def find(
        self, db: SqlExecutor, external_id: str, generation: Generation, positions: Sequence[int]
    ) -> Mapping[UUID, bool]:
        """Return the ids of the events at some positions, and whether each lacks a vector of its indexed text."""
        params = {"external_id": external_id, "model_name": generation.model_name, "positions": list(positions)}
        rows = await db.fetch_all(_SQL["find_events"], params)
        return {UUID(row["event_id"]): row["lacks_vector"] for row in rows}

    async def add_vectors(
        self, db: SqlExecutor, external_id: str, generation: Generation, made: Sequence[NewVector]
    ) -> None:
        """Store vectors of events that still say what was embedded, in a transaction that holds the stream's lock."""
        if not made:
            return
        params = {
            "external_id": external_id,
            "model_name": generation.model_name,
            "positions": [one.position for one in made],
            "text_hashes": [one.text_hash.hex() for one in made],
            "vectors": real_array(np.stack([one.vector for one in made])),
            "dimension": generation.dimension,
        }
        await db.execute(_SQL["add_vectors"], params)


def _params(external_id: str, searched: Searched) -> dict[str, object]:
    return {"external_id": external_id, "actor": searched.actor, "kinds": list(searched.kinds)}
