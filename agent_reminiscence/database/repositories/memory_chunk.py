"""The chunks of all tiers."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from datetime import date, datetime
from itertools import batched
from typing import Any, Final, NamedTuple
from uuid import UUID

from agent_reminiscence.config.constants import MAX_TEXT_CHUNKS, Tier
from agent_reminiscence.database.connection import Deferred, Row, SqlExecutor
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.database.repositories.arrays import uuid_array
from agent_reminiscence.database.repositories.memory_attribute import add_turn_attributes, replace_turn_attributes
from agent_reminiscence.domain.conversation_key import CONVERSATION_KEY_PREFIX
from agent_reminiscence.domain.memory import StoredChunk
from agent_reminiscence.domain.payloads import ChunkRating, Duplicate
from agent_reminiscence.domain.said import SaidFrom
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.text.days import day_of

_SQL = load_queries("sql", "memory_chunk")
# A portion at a time: no statement takes long, and other tasks can run in between.
_CHUNKS_PER_STATEMENT: Final = 1_000


@dataclass(frozen=True, slots=True)
class EndedChunks:
    """The effect of ending chunks.

    Attributes:
        live: How many fewer chunks are live; negative if there are more.
        memory_ids: The memories that the changed chunks belong to.
    """

    live: int = 0
    memory_ids: frozenset[UUID] = frozenset()

    def __add__(self, other: EndedChunks) -> EndedChunks:
        """Add both effects."""
        return EndedChunks(self.live + other.live, self.memory_ids | other.memory_ids)


@dataclass(frozen=True, slots=True)
class NewChunk:
    """A chunk added with a version of its memory.

    Attributes:
        said_on: Its day in the memory's zone; None: as in UTC.
    """

    chunk_id: UUID
    number: int
    order: int
    span_start: int
    span_end: int
    content: str
    folded_hash: bytes
    text_hash: bytes
    speaker: str | None
    speaker_key: str | None
    metadata: dict[str, Any]
    words: int
    text_flags: int
    source: Source
    importance: float
    confidence: float
    start_date: datetime
    first_said: datetime | None = None
    said_on: date | None = None
    said_lines: tuple[SaidFrom, ...] = ()

    @property
    def said_at(self) -> datetime:
        """When most of its words were first said."""
        return self.first_said or self.start_date

    @property
    def day(self) -> date:
        """The day of the heading above it."""
        return self.said_on or day_of(self.said_at)


@dataclass(frozen=True, slots=True)
class NewPiece:
    """A piece of a chunk that is cut; what is not said here it has from the chunk.

    Attributes:
        start: Its first character in the chunk.
        end: One past its last character.
        first_said: When most of its words were first said; None: when the chunk began to hold.
        said_on: Its day in the memory's zone; None: as in UTC.
    """

    chunk_id: UUID
    piece_of: UUID
    number: int
    start: int
    end: int
    content: str
    folded_hash: bytes
    text_hash: bytes
    metadata: dict[str, Any]
    words: int
    text_flags: int
    said_at: datetime
    first_said: datetime | None
    said_on: date | None
    said_lines: tuple[SaidFrom, ...]

    @property
    def day(self) -> date:
        """The day of the heading above it."""
        return self.said_on or day_of(self.said_at)


class NewFact(NamedTuple):
    """A statement derived from some chunks of a memory, by their ids."""

    chunk_id: UUID
    number: int
    derived_from: tuple[UUID, ...]
    span_start: int
    span_end: int
    content: str
    folded_hash: bytes
    text_hash: bytes
    words: int
    text_flags: int
    importance: float
    confidence: float
    start_date: datetime
    end_date: datetime | None
    said_on: date | None


@dataclass(frozen=True, slots=True)
class StoredText:
    """A chunk or fact, with everything that determines its terms."""

    chunk_id: UUID
    number: int
    content: str
    speaker_key: str | None
    start_date: datetime
    is_fact: bool
    first_said: datetime | None = None
    said_on: date | None = None
    said_lines: tuple[SaidFrom, ...] = ()

    @property
    def said_at(self) -> datetime:
        """When most of its words were first said."""
        return self.first_said or self.start_date


class PassageLabels(NamedTuple):
    """Whose words the passages of a memory's text are.

    Attributes:
        version: The version with that text.
        sources: The label of each passage, in text order.
        lengths: How many characters each has; they tile the text.
    """

    version: int
    sources: tuple[Source, ...]
    lengths: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Twin:
    """An older chunk that says the same as `chunk_id`, word for word."""

    chunk_id: UUID
    twin_id: UUID
    memory_id: UUID
    importance: float
    confidence: float


class MemoryChunkRepository:
    """Rows of `memory_chunk`."""

    async def add(
        self,
        db: SqlExecutor,
        external_id: str,
        memory_id: UUID,
        chunks: Sequence[NewChunk],
        *,
        memory_version: int,
        recorded_at: datetime,
    ) -> None:
        """Store chunks of the active tier."""
        shared = {
            "external_id": external_id,
            "memory_id": memory_id,
            "memory_version": memory_version,
            "recorded_at": recorded_at,
        }
        send = _sender(db, chunks)
        for portion in batched(chunks, _CHUNKS_PER_STATEMENT):
            await send(_SQL["add_chunks"], shared | _columns_of(portion))
        await add_turn_attributes(
            db, external_id, {chunk.chunk_id: chunk.metadata for chunk in chunks if chunk.metadata}
        )

    async def add_facts(
        self,
        db: SqlExecutor,
        external_id: str,
        memory_id: UUID,
        facts: Sequence[NewFact],
        *,
        memory_version: int,
        source: Source,
        recorded_at: datetime,
    ) -> None:
        """Store facts in the shortterm tier, beside the chunks they rest on."""
        if not facts:
            return
        params = {
            "external_id": external_id,
            "memory_id": memory_id,
            "memory_version": memory_version,
            "source": source,
            "recorded_at": recorded_at,
            "chunk_ids": [f.chunk_id for f in facts],
            "numbers": [f.number for f in facts],
            "starts": [f.span_start for f in facts],
            "ends": [f.span_end for f in facts],
            "contents": [f.content for f in facts],
            "folded_hashes": [f.folded_hash.hex() for f in facts],
            "text_hashes": [f.text_hash.hex() for f in facts],
            "words": [f.words for f in facts],
            "text_flags": [f.text_flags for f in facts],
            "importances": [f.importance for f in facts],
            "confidences": [f.confidence for f in facts],
            "start_dates": [f.start_date for f in facts],
            "end_dates": [f.end_date for f in facts],
            "said_on": [f.said_on for f in facts],
            # As text: all members of an array of arrays must have the same length.
            "derived_from": ["{" + ",".join(map(str, f.derived_from)) + "}" for f in facts],
        }
        await db.defer(_SQL["add_facts"], params)

    async def end_facts(
        self,
        db: SqlExecutor,
        external_id: str,
        chunk_ids: Sequence[UUID],
        *,
        recorded_at: datetime,
        ended_at: datetime,
    ) -> EndedChunks:
        """End the facts that rest on one of these chunks."""
        if not chunk_ids:
            return EndedChunks()
        params = {
            "external_id": external_id,
            # All at once: a fact may rest on chunks of several portions.
            "chunk_ids": uuid_array(chunk_ids),
            "recorded_at": recorded_at,
            "ended_at": ended_at,
        }
        return _ended(await db.fetch_all(_SQL["end_facts"], params))

    async def find_known_texts(
        self,
        db: SqlExecutor,
        external_id: str,
        moments: Mapping[bytes, datetime],
        *,
        memory_id: UUID | None = None,
        ignored: Sequence[UUID] = (),
        besides_conversations: bool = False,
    ) -> set[bytes]:
        """Return which of some folded hashes belong to live chunks.

        Args:
            moments: By hash, the moment at which a chunk that says it must still hold.
            memory_id: The memory that is to say it: what others say that expire does not count. None: all count.
            ignored: Chunks that do not count.
            besides_conversations: Whether what was only said in conversations recorded turn by turn does not count.
        """
        params = {
            "external_id": external_id,
            "folded_hashes": [digest.hex() for digest in moments],
            "moments": list(moments.values()),
            "memory_id": memory_id,
            "ignored": list(ignored),
            "without_prefix": CONVERSATION_KEY_PREFIX if besides_conversations else None,
        }
        rows = await db.fetch_all(_SQL["find_known_texts"], params)
        return {bytes.fromhex(row["folded_hash"]) for row in rows}

    async def get_layout(self, db: SqlExecutor, external_id: str, memory_id: UUID) -> list[StoredChunk]:
        """Return the chunks that tile the memory's text, in text order."""
        params = {"external_id": external_id, "memory_id": memory_id, "limit": _CHUNKS_PER_STATEMENT}
        chunks: list[StoredChunk] = []
        while True:
            rows = await db.fetch_all(_SQL["layout_chunks"], params | {"after": len(chunks)})
            chunks += [
                StoredChunk.model_validate(
                    row | {"metadata": json.loads(row["metadata"]), "said_lines": take_said_lines(row)}
                )
                for row in rows
            ]
            if len(rows) < _CHUNKS_PER_STATEMENT:
                return chunks

    async def find_ended_by_archiving(self, db: SqlExecutor, external_id: str, memory_id: UUID) -> set[UUID]:
        """Return the memory's passages that ended because it was archived, whenever that was."""
        params = {"external_id": external_id, "memory_id": memory_id}
        return {UUID(str(row["chunk_id"])) for row in await db.fetch_all(_SQL["find_ended_by_archiving"], params)}

    async def find_labels(
        self, db: SqlExecutor, external_id: str, memory_ids: Sequence[UUID]
    ) -> dict[UUID, PassageLabels]:
        """Return the labels of all passages in the texts of some memories."""
        params = {"external_id": external_id, "memory_ids": list(memory_ids), "after": 0, "limit": MAX_TEXT_CHUNKS}
        rows = await db.fetch_all(_SQL["find_labels"], params)
        return {
            UUID(row["memory_id"]): PassageLabels(row["version"], tuple(row["sources"]), tuple(row["lengths"]))
            for row in rows
        }

    async def extend(self, db: SqlExecutor, external_id: str, chunk_id: UUID, white_space: str) -> None:
        """Add white space after a chunk; it belongs to the chunk, and the index ignores it."""
        params = {"external_id": external_id, "chunk_id": chunk_id, "white_space": white_space}
        await db.defer(_SQL["extend_chunk"], params)

    async def get_texts(
        self, db: SqlExecutor, external_id: str, memory_id: UUID, *, after: int, limit: int
    ) -> list[StoredText]:
        """Return the next chunks and facts of a memory after number `after`, including ended ones; empty at the end."""
        params = {"external_id": external_id, "memory_id": memory_id, "after": after, "limit": limit}
        return [
            StoredText(**row | {"chunk_id": UUID(row["chunk_id"]), "said_lines": take_said_lines(row)})
            for row in await db.fetch_all(_SQL["get_texts"], params)
        ]

    async def reread(
        self, db: SqlExecutor, external_id: str, read: Mapping[UUID, tuple[int, int, date | None]]
    ) -> None:
        """Store how chunks are read in another language or zone.

        Args:
            read: The number of terms, the flags and `said_on` of each, by chunk id.
        """
        params = {
            "external_id": external_id,
            "chunk_ids": list(read),
            "words": [words for words, _, _ in read.values()],
            "text_flags": [flags for _, flags, _ in read.values()],
            "said_on": [said_on for _, _, said_on in read.values()],
        }
        await db.execute(_SQL["reread_chunks"], params)

    async def retouch(
        self, db: SqlExecutor, external_id: str, touched: Mapping[UUID, tuple[str, dict[str, Any]]]
    ) -> None:
        """Store changed white space and metadata of chunks that stay; the index does not change.

        Args:
            touched: New content and metadata by chunk id.
        """
        send = _sender(db, touched)
        for portion in batched(touched.items(), _CHUNKS_PER_STATEMENT):
            params = {
                "external_id": external_id,
                "chunk_ids": [chunk_id for chunk_id, _ in portion],
                "contents": [content for _, (content, _) in portion],
                "metadata": [json.dumps(metadata, ensure_ascii=False) for _, (_, metadata) in portion],
            }
            await send(_SQL["retouch_chunks"], params)
        await replace_turn_attributes(
            db, external_id, {chunk_id: metadata for chunk_id, (_, metadata) in touched.items()}
        )

    async def end(
        self, db: SqlExecutor, external_id: str, chunk_ids: Sequence[UUID], *, recorded_at: datetime, ended_at: datetime
    ) -> EndedChunks:
        """End chunks, and revive those that repeat them and are not to end themselves."""
        moments = {"recorded_at": recorded_at, "ended_at": ended_at}
        ended = await _end_each(db, "end_chunks", external_id, chunk_ids, moments)
        # Repetitions were not live. All are ended before any is revived, because one may repeat another.
        ended += await _end_each(db, "forget_duplicates", external_id, chunk_ids, moments, per_chunk=0)
        return ended + await self.revive_duplicates(db, external_id, chunk_ids)

    async def revive_duplicates(self, db: SqlExecutor, external_id: str, chunk_ids: Sequence[UUID]) -> EndedChunks:
        """Let what repeats these chunks stand for itself again; what is live again counts as less than none ended."""
        return await _end_each(db, "revive_duplicates", external_id, chunk_ids, {}, per_chunk=-1)

    async def correct_end_dates(
        self,
        db: SqlExecutor,
        external_id: str,
        memory_id: UUID,
        *,
        kept: Sequence[UUID],
        recorded_at: datetime,
        ended_at: datetime,
    ) -> None:
        """Move the ends of a memory's ended chunks to `ended_at` if they were later.

        Args:
            kept: Chunks of the current text, which remain valid.
        """
        params = {
            "external_id": external_id,
            "memory_id": memory_id,
            "kept": uuid_array(kept),
            "recorded_at": recorded_at,
            "ended_at": ended_at,
        }
        await db.defer(_SQL["correct_end_dates"], params)

    async def count_live(self, db: SqlExecutor, external_id: str, memory_id: UUID) -> int:
        """Return how many of the memory's chunks a search sees now, or would see if what they repeat ended."""
        row = await db.fetch_one(_SQL["count_live"], {"external_id": external_id, "memory_id": memory_id})
        return 0 if row is None else int(row["chunks"])

    async def end_duplicates(
        self,
        db: SqlExecutor,
        external_id: str,
        duplicates: Sequence[Duplicate],
        *,
        recorded_at: datetime,
        ended_at: datetime,
    ) -> int:
        """End chunks that repeat those of other memories; returns how many were live."""
        ended = 0
        for portion in batched(duplicates, _CHUNKS_PER_STATEMENT):
            params = {
                "external_id": external_id,
                "chunk_ids": [d.id for d in portion],
                "duplicates_of": [d.duplicate_of for d in portion],
                "recorded_at": recorded_at,
                "ended_at": ended_at,
            }
            rows = await db.fetch_all(_SQL["end_duplicates"], params)
            ended += int(rows[0]["chunks"])
        return ended

    async def rate(
        self, db: SqlExecutor, external_id: str, ratings: Sequence[ChunkRating], *, tier: Tier | None
    ) -> None:
        """Store importance, confidence and a new estimate; with `tier`, move chunks there unless they are longterm."""
        send = _sender(db, ratings)
        for portion in batched(ratings, _CHUNKS_PER_STATEMENT):
            params = {
                "external_id": external_id,
                "tier": tier,
                "chunk_ids": [r.id for r in portion],
                "importances": [r.importance for r in portion],
                "confidences": [r.confidence for r in portion],
                "estimates": [r.estimate for r in portion],
            }
            await send(_SQL["rate_chunks"], params)

    async def ask_for_twins(
        self, db: SqlExecutor, external_id: str, memory_id: UUID, *, moment: datetime, after: int = 0
    ) -> Deferred[list[Twin]]:
        """Find, for each active chunk of a memory, the oldest consolidated chunk elsewhere with its text and speaker.

        A less trusted chunk is not a twin: it must not replace a more trusted one. Nor is one that only holds from
        later on.

        Args:
            moment: The time from which the twin would replace the chunk.
            after: Skip this many chunks of the text: this call reads one portion, and `finish_twins` the others.
        """
        params = {
            "external_id": external_id,
            "memory_id": memory_id,
            "moment": moment,
            "after": after,
            "limit": _CHUNKS_PER_STATEMENT,
        }
        return await db.ask(_SQL["find_twins"], params, _twins)

    async def finish_twins(
        self,
        db: SqlExecutor,
        external_id: str,
        memory_id: UUID,
        begun: Deferred[list[Twin]],
        *,
        moment: datetime,
        chunks: int,
    ) -> list[Twin]:
        """Return all twins of a memory whose first portion was asked for in this transaction, in order of chunk ids.

        Args:
            chunks: How many the text has.
        """
        twins = await begun.result()
        for after in range(_CHUNKS_PER_STATEMENT, chunks, _CHUNKS_PER_STATEMENT):
            asked = await self.ask_for_twins(db, external_id, memory_id, moment=moment, after=after)
            twins = twins + await asked.result()
        return sorted(twins, key=lambda twin: twin.chunk_id)


def take_said_lines(row: Row) -> tuple[SaidFrom, ...]:
    """Take the dates of a chunk's lines out of its row."""
    starts, dates = row.pop("said_starts"), row.pop("said_dates")
    if starts is None:
        return ()
    return tuple(SaidFrom(start=start, said_at=date) for start, date in zip(starts, dates, strict=True))


def _sender(db: SqlExecutor, items: Sized) -> Callable[[str, dict[str, Any]], Awaitable[None]]:
    """How to send the portions of a write: several are each waited for; a single one goes with the next statement."""
    return db.defer if len(items) <= _CHUNKS_PER_STATEMENT else db.execute


async def _end_each(
    db: SqlExecutor,
    name: str,
    external_id: str,
    chunk_ids: Sequence[UUID],
    moments: Mapping[str, datetime],
    *,
    per_chunk: int = 1,
) -> EndedChunks:
    """Run a statement that ends chunks in portions, and add up what it changes."""
    ended = EndedChunks()
    for portion in batched(chunk_ids, _CHUNKS_PER_STATEMENT):
        params = {"external_id": external_id, "chunk_ids": list(portion), **moments}
        ended += _ended(await db.fetch_all(_SQL[name], params), per_chunk=per_chunk)
    return ended


def _twins(rows: Sequence[Row]) -> list[Twin]:
    return [
        Twin(
            chunk_id=UUID(row["chunk_id"]),
            twin_id=UUID(row["twin_id"]),
            memory_id=UUID(row["memory_id"]),
            importance=row["importance"],
            confidence=row["confidence"],
        )
        for row in rows
    ]


def _ended(rows: Sequence[Row], *, per_chunk: int = 1) -> EndedChunks:
    """Add up rows of memories and their chunks."""
    live = per_chunk * sum(int(row["chunks"]) for row in rows)
    return EndedChunks(live, frozenset(UUID(row["memory_id"]) for row in rows))


def _columns_of(chunks: Sequence[NewChunk]) -> dict[str, object]:
    """The values that differ between chunks, one array per column."""
    return {
        "chunk_ids": [c.chunk_id for c in chunks],
        "orders": [c.order for c in chunks],
        "starts": [c.span_start for c in chunks],
        "ends": [c.span_end for c in chunks],
        "speakers": [c.speaker for c in chunks],
        "speaker_keys": [c.speaker_key for c in chunks],
        "metadata": [json.dumps(c.metadata, ensure_ascii=False) for c in chunks],
        "sources": [c.source for c in chunks],
        "importances": [c.importance for c in chunks],
        "confidences": [c.confidence for c in chunks],
        "start_dates": [c.start_date for c in chunks],
        **text_columns(chunks),
    }


def text_columns(chunks: Sequence[NewChunk] | Sequence[NewPiece]) -> dict[str, object]:
    """Those of them that say what the texts are, and when they were said."""
    return {
        "numbers": [c.number for c in chunks],
        "contents": [c.content for c in chunks],
        # As hexadecimal text: the driver takes bytes in an array for a nested array.
        "folded_hashes": [c.folded_hash.hex() for c in chunks],
        "text_hashes": [c.text_hash.hex() for c in chunks],
        "words": [c.words for c in chunks],
        "text_flags": [c.text_flags for c in chunks],
        "said_at": [c.first_said for c in chunks],
        "said_on": [c.said_on for c in chunks],
        # As text: all members of an array of arrays must have the same length.
        "said_starts": [_array(str(line.start) for line in c.said_lines) for c in chunks],
        "said_dates": [_array(line.said_at.isoformat() for line in c.said_lines) for c in chunks],
    }


def _array(values: Iterable[str]) -> str | None:
    """An array as text; None if it would be empty."""
    return "{" + text + "}" if (text := ",".join(values)) else None
