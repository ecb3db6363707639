"""Tenants of uneven size, and their rows as files for COPY.

Writing a million chunks with the four methods would take many hours. Here each memory is one event, digested and
chained like the ledger does, and the package's own handler makes its rows, which go to files instead of the server. So
`verify` finds no differences. The vectors are from wordllama, which
makes them fastest.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import numpy as np
import numpy.typing as npt
from uuid_utils.compat import uuid7

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.active_memory import ActiveMemoryRepository
from agent_reminiscence.database.repositories.event_ledger import event_digest, next_chain
from agent_reminiscence.database.repositories.graph.changes import GraphChangesRepository
from agent_reminiscence.database.repositories.longterm_memory import LongtermMemoryRepository
from agent_reminiscence.database.repositories.memory_chunk import MemoryChunkRepository, NewChunk
from agent_reminiscence.database.repositories.repositories import Tables
from agent_reminiscence.database.repositories.shortterm_memory import ShorttermMemoryRepository
from agent_reminiscence.database.repositories.text_index import (
    NewHeading,
    PostedText,
    TextIndexRepository,
    TextTotals,
)
from agent_reminiscence.domain.canonical import sha256
from agent_reminiscence.domain.event import Event, EventKind, NewEvent
from agent_reminiscence.domain.index import LAYOUT_DTYPE, block_of, offset_of
from agent_reminiscence.domain.memory import StoredMemory
from agent_reminiscence.domain.payloads import ChunkEntry, MemoryCreated
from agent_reminiscence.embedders.wordllama import WordLlamaEmbedder
from agent_reminiscence.projections import HANDLERS
from agent_reminiscence.projections.indexed_text import embedded_text, heading_text
from agent_reminiscence.services.vectors.norms import window_norms
from agent_reminiscence.text.tokens import count_tokens_batch
from benchmarks.synthetic import CHUNKS_PER_MEMORY, WordModel

SEED = 20_240_101
_CHUNKS_PER_TENANT = 500
_FEWEST_TENANTS = 20
_CHUNKS_PER_BATCH = 4_000
_SPEAKERS = ("Anna", "Boris")
_FIRST_DAY = datetime(2024, 1, 1, 9, tzinfo=UTC)
# The largest tenant's conversations then reach over nineteen months.
_BETWEEN_MEMORIES = timedelta(hours=4)
_EPOCH = date(1970, 1, 1)
_VECTOR_COLUMNS = ("external_id", "cell", "number", "mass", "vector")
# Before a tenant's vectors are sorted, all of them are in this cell.
_UNSORTED = 0


@dataclass(frozen=True, slots=True)
class Tenant:
    """Somebody with so many chunks."""

    external_id: str
    chunks: int


@dataclass(frozen=True, slots=True)
class CopyFile:
    """Rows of one table, in the format of COPY."""

    table: str
    columns: Sequence[str]
    path: Path
    is_binary: bool = False

    def statement(self) -> str:
        """The statement that reads the file where the server runs."""
        options = " WITH (FORMAT binary)" if self.is_binary else ""
        return f"COPY {self.table} ({', '.join(self.columns)}) FROM '{self.path}'{options}"


def tenants_of(chunks: int) -> list[Tenant]:
    """Tenants who share `chunks`, largest first: one for each 500, the n-th with a share of 1/(n + 1)."""
    count = max(_FEWEST_TENANTS, chunks // _CHUNKS_PER_TENANT)
    shares = [1 / (rank + 1) for rank in range(1, count + 1)]
    memories = chunks // CHUNKS_PER_MEMORY
    sizes = [max(1, round(memories * share / sum(shares))) for share in shares]
    sizes[0] += memories - sum(sizes)
    return [Tenant(f"tenant-{number}", size * CHUNKS_PER_MEMORY) for number, size in enumerate(sizes, start=1)]


def in_batches(tenants: Sequence[Tenant]) -> list[list[Tenant]]:
    """Whole tenants, as many together as make some four thousand chunks; a large one alone."""
    batches: list[list[Tenant]] = [[]]
    for tenant in tenants:
        if sum(other.chunks for other in batches[-1]) >= _CHUNKS_PER_BATCH:
            batches.append([])
        batches[-1].append(tenant)
    return batches


def write_batch(number: int, tenants: Sequence[Tenant], folder: Path) -> list[CopyFile]:
    """Make everything that the database is to hold of `tenants`; runs in a process of its own.

    Args:
        number: Tells the batch's files and its texts from those of others.
        folder: Where the server can read files.
    """
    return asyncio.run(_write_batch(number, tenants, folder))


async def _write_batch(number: int, tenants: Sequence[Tenant], folder: Path) -> list[CopyFile]:
    words = WordModel(SEED)
    words.reseed(SEED + number)
    embedder = WordLlamaEmbedder()
    rows = _Rows()
    for tenant in tenants:
        await _fill(rows, tenant, words, embedder)
    return rows.write(folder, number)


class _Rows:
    """Rows of several tables."""

    def __init__(self) -> None:
        self._rows: dict[str, list[str]] = {}
        self._columns: dict[str, Sequence[str]] = {}
        self._vectors: list[bytes] = []

    def add(self, table: str, row: Mapping[str, Any]) -> None:
        """A row; the first of a table says which columns all others have."""
        columns = self._columns.setdefault(table, tuple(row))
        assert columns == tuple(row), table
        self._rows.setdefault(table, []).append("\t".join(map(_copy_text, row.values())) + "\n")

    def add_vector(self, external_id: str, number: int, mass: int, vector: npt.NDArray[np.float16]) -> None:
        """A row of `chunk_vector_1`, in COPY's binary format: as text its vector would be five times as long."""
        fields = (
            external_id.encode(),
            struct.pack(">i", _UNSORTED),
            struct.pack(">q", number),
            struct.pack(">f", mass),
            # pgvector's own form: the dimension, two zero bytes, then the numbers.
            struct.pack(">HH", len(vector), 0) + vector.astype(">f2").tobytes(),
        )
        parts = [struct.pack(">h", len(fields))]
        for value in fields:
            parts += [struct.pack(">i", len(value)), value]
        self._vectors.append(b"".join(parts))

    def write(self, folder: Path, number: int) -> list[CopyFile]:
        """Write a file per table."""
        files = [CopyFile(table, self._columns[table], folder / f"{number}-{table}.txt") for table in self._rows]
        for file in files:
            with file.path.open("w", encoding="utf-8", newline="\n") as out:
                out.writelines(self._rows[file.table])
        vectors = CopyFile("chunk_vector_1", _VECTOR_COLUMNS, folder / f"{number}-vectors.bin", is_binary=True)
        with vectors.path.open("wb") as out:
            out.write(b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0))
            out.writelines(self._vectors)
            out.write(struct.pack(">h", -1))
        return [*files, vectors]


class _WrittenDownMemories(ActiveMemoryRepository):
    """Takes down what a handler would store."""

    def __init__(self, rows: _Rows) -> None:
        self._rows = rows

    async def create(self, db: SqlExecutor, memory: StoredMemory) -> None:
        """Take the row down."""
        self._rows.add("active_memory", memory.model_dump() | {"segments": 0})


class _WrittenDownChunks(MemoryChunkRepository):
    """Takes down what a handler would store."""

    def __init__(self, rows: _Rows) -> None:
        self._rows = rows
        self.added: list[dict[str, Any]] = []

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
        """Take the rows down."""
        self.added = [
            {
                "external_id": external_id,
                "chunk_id": chunk.chunk_id,
                "number": chunk.number,
                "memory_id": memory_id,
                "memory_version": memory_version,
                "chunk_order": chunk.order,
                "span_start": chunk.span_start,
                "span_end": chunk.span_end,
                "tier": "active",
                "content": chunk.content,
                "folded_hash": chunk.folded_hash,
                "text_hash": chunk.text_hash,
                "speaker": chunk.speaker,
                "speaker_key": chunk.speaker_key,
                "metadata": chunk.metadata,
                "words": chunk.words,
                "text_flags": chunk.text_flags,
                "source": chunk.source,
                "importance": chunk.importance,
                "confidence": chunk.confidence,
                "start_date": chunk.start_date,
                "recorded_at": recorded_at,
            }
            for chunk in chunks
        ]
        for row in self.added:
            self._rows.add("memory_chunk", row)


class _WrittenDownIndex(TextIndexRepository):
    """Takes down what a handler would store; the postings of a tenant at its end.

    Attributes:
        layout: Of the memory that was laid out last.
    """

    def __init__(self, rows: _Rows) -> None:
        self._rows = rows
        self._postings: dict[tuple[str, int], bytearray] = {}
        self._heading: NewHeading | None = None
        self.layout: npt.NDArray[np.void] = np.empty(0, LAYOUT_DTYPE)

    async def add_texts(
        self,
        db: SqlExecutor,
        external_id: str,
        memory_id: UUID,
        texts: Sequence[PostedText],
        *,
        title: str = "",
        headings: Sequence[NewHeading] = (),
    ) -> None:
        """Take the terms and the one heading down."""
        for text in texts:
            for term, frequency in text.terms.items():
                entry = struct.pack(">HHH", offset_of(text.number), text.words, frequency)
                self._postings.setdefault((term, block_of(text.number)), bytearray()).extend(entry)
        (self._heading,) = headings
        self._rows.add(
            "memory_heading",
            {
                "external_id": external_id,
                "number": self._heading.number,
                "memory_id": memory_id,
                "day": self._heading.day,
                "title": title,
                "words": self._heading.words,
                "text_hash": self._heading.text_hash,
            },
        )

    async def add_layout(
        self, db: SqlExecutor, external_id: str, memory_id: UUID, entries: bytes, totals: TextTotals
    ) -> None:
        """Keep the layout, from which the norms are computed, and its row."""
        self.layout = np.frombuffer(entries, LAYOUT_DTYPE)
        self._rows.add(
            "memory_layout",
            {
                "external_id": external_id,
                "memory_id": memory_id,
                "segment": 0,
                "entries": entries,
                "chunks": totals.chunks,
                "words": totals.words,
            },
        )

    def end(self, external_id: str) -> None:
        """Write the postings of a tenant down."""
        for (term, block), entries in sorted(self._postings.items()):
            self._rows.add(
                "posting", {"external_id": external_id, "term": term, "block": block, "entries": bytes(entries)}
            )
        self._postings.clear()


async def _fill(rows: _Rows, tenant: Tenant, words: WordModel, embedder: WordLlamaEmbedder) -> None:
    """All events of one tenant, what follows from them, and the stream's own row."""
    chunks = _WrittenDownChunks(rows)
    index = _WrittenDownIndex(rows)
    tables = Tables(
        active=_WrittenDownMemories(rows),
        shortterm=ShorttermMemoryRepository(),
        longterm=LongtermMemoryRepository(),
        chunks=chunks,
        index=index,
        graph=GraphChangesRepository(),
    )
    # Nothing is sent anywhere.
    nowhere = cast(SqlExecutor, None)
    link, text_words, moment, head = b"", 0, _FIRST_DAY, tenant.chunks // CHUNKS_PER_MEMORY
    for position in range(1, head + 1):
        new = _conversation(tenant, position, moment, words)
        salt = secrets.token_bytes(16)
        digest = event_digest(new, salt)
        link = next_chain(link, digest, position, moment)
        event = Event(**dict(new), position=position, recorded_at=moment, salt=salt, digest=digest, chain=link)
        rows.add("memory_event", event.model_dump())
        change = await HANDLERS[EventKind.CREATED](nowhere, tables, event)
        text_words += change.text_words
        await _add_vectors(rows, event, chunks.added, index.layout, embedder)
        last_recorded_at, moment = moment, moment + _BETWEEN_MEMORIES
    index.end(tenant.external_id)
    rows.add(
        "memory_stream",
        {
            "external_id": tenant.external_id,
            "head": head,
            "chain": link,
            "last_recorded_at": last_recorded_at,
            "live_chunks": head * CHUNKS_PER_MEMORY,
            "text_chunks": head * CHUNKS_PER_MEMORY,
            "text_words": text_words,
            "languages": ("en",),
        },
    )


async def _add_vectors(
    rows: _Rows,
    event: Event,
    chunks: Sequence[Mapping[str, Any]],
    layout: npt.NDArray[np.void],
    embedder: WordLlamaEmbedder,
) -> None:
    """The vectors of a memory's heading and chunks, and the norms of its windows."""
    heading = heading_text(event.payload["title"], event.occurred_at.date())
    texts = [heading, *(embedded_text(chunk["content"]) for chunk in chunks)]
    numbers = np.array([layout["heading"][0], *layout["number"]], np.int64)
    masses = count_tokens_batch(texts)
    vectors = np.asarray(await embedder.embed(texts), np.float16)
    for number, mass, vector in zip(numbers.tolist(), masses, vectors, strict=True):
        rows.add_vector(event.external_id, number, mass, vector)
    norms = window_norms(layout, numbers, np.asarray(masses, np.float32), vectors.astype(np.float32))
    rows.add(
        "chunk_norms_1",
        {
            "external_id": event.external_id,
            "memory_id": event.payload["memory_id"],
            "segment": 0,
            "layout_hash": sha256(sha256(layout.tobytes())),
            "norms": norms.tobytes(),
        },
    )


def _conversation(tenant: Tenant, number: int, moment: datetime, words: WordModel) -> NewEvent:
    """Twenty utterances of two people about one topic."""
    topic = words.topic()
    speakers = [_SPEAKERS[index % 2] for index in range(CHUNKS_PER_MEMORY)]
    lines = [f"{speaker}: {words.sentence(topic)}\n" for speaker in speakers]
    ends = list(accumulate(map(len, lines)))
    payload = MemoryCreated(
        memory_id=uuid7(),
        title=f"Conversation {number}",
        content="".join(lines),
        description=None,
        metadata={},
        language="en",
        chunks=tuple(
            ChunkEntry(id=uuid7(), start=end - len(line), end=end, speaker=speaker, new=True)
            for line, end, speaker in zip(lines, ends, speakers, strict=True)
        ),
        consolidation_due=False,
    )
    return NewEvent(
        external_id=tenant.external_id,
        event_id=uuid7(),
        kind=EventKind.CREATED,
        payload=payload.model_dump(mode="json"),
        occurred_at=moment,
    )


def _copy_text(value: Any) -> str:
    """A value in COPY's text format."""
    if value is None:
        return r"\N"
    if isinstance(value, str):
        return value.replace("\\", r"\\").replace("\n", r"\n").replace("\t", r"\t")
    if isinstance(value, bytes):
        return r"\\x" + value.hex()
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, dict):
        return _copy_text(json.dumps(value, ensure_ascii=False))
    if isinstance(value, (list, tuple)):
        return "{" + ",".join(map(str, value)) + "}"
    return str(value)
