"""Pieces of chunks that are cut, and what has to be known to cut them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.database.repositories.arrays import uuid_array
from agent_reminiscence.database.repositories.memory_attribute import add_turn_attributes
from agent_reminiscence.database.repositories.memory_chunk import NewPiece, text_columns
from agent_reminiscence.domain.payloads import ChunkCut

_SQL = load_queries("sql", "chunk_piece")


class FactBasis(NamedTuple):
    """A live fact, with the chunks that it rests on."""

    chunk_id: UUID
    content: str
    derived_from: tuple[UUID, ...]


class ChunkText(NamedTuple):
    """The words of a chunk, as they stand in its memory's text."""

    chunk_id: UUID
    memory_id: UUID
    content: str
    speaker: str | None


class NamedItem(NamedTuple):
    """An entity that a chunk names, or a relationship that it states.

    Attributes:
        names: What the entity is called.
        ends: The ids of the relationship's entities; None: it is an entity.
    """

    chunk_id: UUID
    item_id: UUID
    names: tuple[str, ...] = ()
    ends: tuple[UUID, UUID] | None = None


class ChunkPieceRepository:
    """Rows of `memory_chunk` that are pieces of others."""

    async def add_pieces(
        self, db: SqlExecutor, external_id: str, pieces: Sequence[NewPiece], *, recorded_at: datetime
    ) -> int:
        """Store pieces of chunks, each as its chunk is; returns how many are live."""
        params = {
            "external_id": external_id,
            "recorded_at": recorded_at,
            "chunk_ids": uuid_array([p.chunk_id for p in pieces]),
            "pieces_of": uuid_array([p.piece_of for p in pieces]),
            "starts": [p.start for p in pieces],
            "ends": [p.end for p in pieces],
            **text_columns(pieces),
        }
        rows = await db.fetch_all(_SQL["add_pieces"], params)
        await add_turn_attributes(db, external_id, {p.chunk_id: p.metadata for p in pieces if p.metadata})
        return sum(row["is_live"] for row in rows)

    async def move_facts(self, db: SqlExecutor, external_id: str, memory_id: UUID, cuts: Sequence[ChunkCut]) -> None:
        """Make what rests on chunks that are cut rest on their pieces."""
        pieces = [(cut.chunk, piece) for cut in cuts for piece in cut.pieces]
        params = {
            "external_id": external_id,
            "memory_id": memory_id,
            "old_ids": uuid_array([chunk_id for chunk_id, _ in pieces]),
            "new_ids": uuid_array([piece.id for _, piece in pieces]),
            "facts": ["{" + ",".join(map(str, piece.facts)) + "}" for _, piece in pieces],
        }
        await db.defer(_SQL["move_facts"], params)

    async def find_resting_facts(
        self, db: SqlExecutor, external_id: str, memory_id: UUID, chunk_ids: Sequence[UUID]
    ) -> list[FactBasis]:
        """Return the live facts that rest on some chunks of a memory, in order of their ids."""
        params = {"external_id": external_id, "memory_id": memory_id, "chunk_ids": uuid_array(chunk_ids)}
        return [
            FactBasis(UUID(row["chunk_id"]), row["content"], tuple(UUID(str(one)) for one in row["derived_from"]))
            for row in await db.fetch_all(_SQL["find_resting_facts"], params)
        ]

    async def read_contents(self, db: SqlExecutor, external_id: str, chunk_ids: Sequence[UUID]) -> list[ChunkText]:
        """Return the words of some chunks, live or not, in order of their ids."""
        params = {"external_id": external_id, "chunk_ids": uuid_array(chunk_ids)}
        return [
            ChunkText(UUID(row["chunk_id"]), UUID(row["memory_id"]), row["content"], row["speaker"])
            for row in await db.fetch_all(_SQL["read_contents"], params)
        ]

    async def find_items(self, db: SqlExecutor, external_id: str, chunk_ids: Sequence[UUID]) -> list[NamedItem]:
        """Return what some chunks name in the graph, by chunk and id."""
        params = {"external_id": external_id, "chunk_ids": uuid_array(chunk_ids)}
        return [
            NamedItem(
                UUID(row["chunk_id"]),
                UUID(row["item_id"]),
                tuple(row["names"]),
                None if row["from_id"] is None else (UUID(row["from_id"]), UUID(row["to_id"])),
            )
            for row in await db.fetch_all(_SQL["find_items"], params)
        ]
