"""Made-up memories in any number, put straight into the tables.

Through `AgentMem` a hundred thousand chunks would take many minutes, most of them for the index of the vectors. So rows
are inserted as the server's superuser, each a copy of one that the package made with other words in it, and the BM25
and HNSW indexes are built afterwards, as they are after a restart. There are no events behind these rows.
"""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate, batched
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
from uuid_utils.compat import uuid7

from agent_reminiscence import AgentMem
from agent_reminiscence.database.postgres_manager import SqlExecutor
from agent_reminiscence.services.embedders import WordLlamaEmbedder
from agent_reminiscence.services.tokens import bundled_tokenizer

CHUNKS_PER_MEMORY = 20
_MEMORIES_PER_BATCH = 50
_TEMPLATE = "template"
_SPEAKERS = ("Anna", "Boris")
_TOPICS = 300
_WORDS_PER_TOPIC = 60
_FIRST_DAY = datetime(2024, 1, 1, 9, tzinfo=UTC)
_POSTGRES_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)

_ADD_MEMORIES = """
INSERT INTO active_memory
SELECT filled.*
FROM active_memory AS template
CROSS JOIN unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::timestamptz[]) AS m (
    external_id, memory_id, title, content, occurred_at)
CROSS JOIN LATERAL (
    SELECT jsonb_agg(c.chunk_id ORDER BY c.place) AS ids, jsonb_agg(c.start ORDER BY c.place) AS starts
    FROM unnest($6::uuid[], $7::uuid[], $8::int[], $9::int[]) AS c (memory_id, chunk_id, place, start)
    WHERE c.memory_id = m.memory_id
) AS layout
CROSS JOIN LATERAL jsonb_populate_record(template, jsonb_build_object(
    'external_id', m.external_id, 'memory_id', m.memory_id, 'title', m.title, 'content', m.content,
    'occurred_at', m.occurred_at, 'created_at', m.occurred_at, 'updated_at', m.occurred_at,
    'chunk_ids', layout.ids, 'chunk_starts', layout.starts)) AS filled
WHERE template.external_id = 'template'
"""
_ADD_CHUNKS = """
INSERT INTO memory_chunk
SELECT filled.*
FROM memory_chunk AS template
CROSS JOIN unnest(
    $1::text[], $2::uuid[], $3::uuid[], $4::int[], $5::int[], $6::text[], $7::text[], $8::text[], $9::text[],
    $10::text[], $11::timestamptz[]
) AS c (external_id, memory_id, chunk_id, place, start, content, speaker, text, before, around, occurred_at)
CROSS JOIN LATERAL jsonb_populate_record(template, jsonb_build_object(
    'external_id', c.external_id, 'memory_id', c.memory_id, 'chunk_id', c.chunk_id, 'chunk_order', c.place,
    'span_start', c.start, 'span_end', c.start + length(c.content), 'content', c.content, 'speaker', c.speaker,
    'speaker_key', lower(c.speaker), 'indexed_text', c.text, 'indexed_before', c.before, 'indexed_around', c.around,
    'start_date', c.occurred_at, 'recorded_at', c.occurred_at)) AS filled
WHERE template.external_id = 'template'
"""
_ADD_VECTORS = """
COPY chunk_vector_1 (
    external_id, chunk_id, tier, confidence, start_date, recorded_at, text_vector, before_vector, around_vector)
FROM '{file}' (FORMAT binary)
"""
_ADD_STREAM = "INSERT INTO memory_stream (external_id, live_chunks, last_recorded_at) VALUES ($1, $2, now())"
_SEARCH_INDEXES = """
SELECT c.relname AS name, replace(pg_get_indexdef(i.indexrelid), ' ON ONLY ', ' ON ') AS definition
FROM pg_index AS i
JOIN pg_class AS c ON c.oid = i.indexrelid
JOIN pg_am AS m ON m.oid = c.relam
WHERE c.relkind = 'I' AND c.relnamespace = 'reminiscence'::regnamespace AND m.amname IN ('bm25', 'hnsw')
ORDER BY 1
"""


class WordModel:
    """Sentences whose words follow a topic and a frequency, from a seed.

    The words are those of the bundled tokenizer's vocabulary that are spelled like English ones, so the bundled
    embedder knows them: texts of one topic are near each other as vectors and topics overlap, unlike random vectors.
    """

    def __init__(self, seed: int) -> None:
        tokenizer = bundled_tokenizer()
        assert tokenizer is not None, "the benchmarks need wordllama"
        # By number, which is the order of frequency; `▁` marks the beginning of a word.
        pieces = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
        words = [piece[1:] for piece, _ in pieces if piece[0] == "▁" and len(piece) > 4 and piece[1:].isascii()]
        self._words = [word for word in words if word.isalpha() and word.islower()]
        self._frequencies = list(accumulate(1 / rank for rank in range(1, len(self._words) + 1)))
        self._random = random.Random(seed)
        self._topics = [self._random.sample(self._words, _WORDS_PER_TOPIC) for _ in range(_TOPICS)]

    def reseed(self, seed: int) -> None:
        """Go on with other sentences and questions about the same topics."""
        self._random.seed(seed)

    def topic(self) -> Sequence[str]:
        """The words of some topic."""
        return self._random.choice(self._topics)

    def sentence(self, topic: Sequence[str], shortest: int = 8, longest: int = 24) -> str:
        """A sentence, half of it about `topic`."""
        count = self._random.randint(shortest, longest)
        general = self._random.choices(self._words, cum_weights=self._frequencies, k=count - count // 2)
        words = general + self._random.choices(topic, k=count // 2)
        self._random.shuffle(words)
        return " ".join(words).capitalize() + "."

    def question(self) -> str:
        """Six to ten words about some topic; every second one names a speaker."""
        asked = self.sentence(self.topic(), 6, 10).removesuffix(".").lower()
        name = self._random.choice(_SPEAKERS) + " " if self._random.random() < 0.5 else ""
        return f"What did {name}say about {asked}?"


@dataclass(frozen=True, slots=True)
class _Memory:
    """A conversation of two people, twenty utterances long, and the forms that they are indexed in."""

    title: str
    occurred_at: datetime
    lines: tuple[str, ...]
    forms: tuple[tuple[str, str, str], ...]


class Corpus:
    """Memories of nobody yet, with vectors; made once and given to the tenants of several databases."""

    def __init__(self, words: WordModel, chunks: int) -> None:
        self._memories = [_memory(words, number) for number in range(-(-chunks // CHUNKS_PER_MEMORY))]
        self._vectors: npt.NDArray[np.float16] = np.empty(0, np.float16)

    async def embed(self) -> None:
        """Make the vectors, by the bundled embedder; shape (memories, chunks of each, forms, dimensions)."""
        embedder = WordLlamaEmbedder()
        shape = (CHUNKS_PER_MEMORY, 3, embedder.dimension)
        made = []
        for memory in self._memories:
            vectors = await embedder.embed([text for forms in memory.forms for text in forms])
            made.append(np.asarray(vectors, np.float16).reshape(shape))
        self._vectors = np.stack(made)

    async def give(
        self, admin: SqlExecutor, memory: AgentMem, tenants: Sequence[tuple[str, int]], folder: Path
    ) -> None:
        """Give each tenant as many chunks as it says, rounded down to whole memories; then index and analyse.

        Args:
            admin: The server's superuser, on the package's database.
            tenants: External ids and numbers of chunks.
            folder: Where the server can read a file.
        """
        await memory.create_active_memory(_TEMPLATE, "Template", "One line that every row is a copy of.")
        await admin.execute_script("SET search_path = reminiscence, public; SET maintenance_work_mem = '512MB'")
        indexes = await admin.fetch_all(_SEARCH_INDEXES)
        for index in indexes:
            await admin.execute_script(f"DROP INDEX {index['name']}")
        given = 0
        for external_id, chunks in tenants:
            last = given + chunks // CHUNKS_PER_MEMORY
            for places in batched(range(given, last), _MEMORIES_PER_BATCH):
                await self._insert(admin, external_id, places, folder / "vectors.bin")
            await _run(admin, _ADD_STREAM, [external_id, chunks])
            given = last
        for index in indexes:
            await admin.execute_script(index["definition"])
        # What autovacuum would do in its own time, and then in the middle of a measurement.
        await admin.execute_script("VACUUM (ANALYZE)")

    async def _insert(self, admin: SqlExecutor, external_id: str, places: Sequence[int], file: Path) -> None:
        memories = [self._memories[place] for place in places]
        memory_ids = [UUID(str(uuid7())) for _ in memories]
        count = len(memories) * CHUNKS_PER_MEMORY
        chunk_ids = [UUID(str(uuid7())) for _ in range(count)]
        owners = [memory_id for memory_id in memory_ids for _ in range(CHUNKS_PER_MEMORY)]
        orders = [*range(CHUNKS_PER_MEMORY)] * len(memories)
        starts = [start for memory in memories for start in [0, *accumulate(map(len, memory.lines))][:-1]]
        times = [memory.occurred_at for memory in memories for _ in range(CHUNKS_PER_MEMORY)]
        await _run(
            admin,
            _ADD_MEMORIES,
            [
                [external_id] * len(memories),
                memory_ids,
                [memory.title for memory in memories],
                ["".join(memory.lines) for memory in memories],
                [memory.occurred_at for memory in memories],
                owners,
                chunk_ids,
                orders,
                starts,
            ],
        )
        await _run(
            admin,
            _ADD_CHUNKS,
            [
                [external_id] * count,
                owners,
                chunk_ids,
                orders,
                starts,
                [line for memory in memories for line in memory.lines],
                [_SPEAKERS[order % 2] for order in orders],
                *([forms[number] for memory in memories for forms in memory.forms] for number in range(3)),
                times,
            ],
        )
        vectors = self._vectors[list(places)].reshape(count, 3, -1)
        await asyncio.to_thread(file.write_bytes, _copy_file(external_id, chunk_ids, times, vectors))
        await admin.execute_script(_ADD_VECTORS.format(file=file))


def _memory(words: WordModel, number: int) -> _Memory:
    topic = words.topic()
    occurred_at = _FIRST_DAY + timedelta(days=number % 600)
    title = f"Conversation {number + 1}"
    heading = f"({occurred_at.day} {occurred_at:%B %Y}) {title}\n"
    lines = tuple(f"{_SPEAKERS[place % 2]}: {words.sentence(topic)}\n" for place in range(CHUNKS_PER_MEMORY))

    def form(first: int, last: int) -> str:
        return heading + "".join(lines[max(first, 0) : last + 1])

    return _Memory(
        title,
        occurred_at,
        lines,
        tuple((form(at, at), form(at - 2, at), form(at - 2, at + 2)) for at in range(CHUNKS_PER_MEMORY)),
    )


def _copy_file(
    external_id: str, chunk_ids: Sequence[UUID], times: Sequence[datetime], vectors: npt.NDArray[np.float16]
) -> bytes:
    """Rows of `chunk_vector_1` in the binary format of COPY: the driver has no array of halfvec, and text is slow."""
    dimension = vectors.shape[-1]
    halfvec = struct.pack(">iHH", 4 + 2 * dimension, dimension, 0)
    tenant = external_id.encode()
    parts = [b"PGCOPY\n\xff\r\n\0", struct.pack(">ii", 0, 0)]
    for chunk_id, time, row in zip(chunk_ids, times, vectors.astype(">f2"), strict=True):
        moment = struct.pack(">iq", 8, int((time - _POSTGRES_EPOCH).total_seconds()) * 1_000_000)
        parts += [struct.pack(">hi", 9, len(tenant)), tenant, struct.pack(">i", 16), chunk_id.bytes]
        parts += [struct.pack(">i", 6), b"active", struct.pack(">id", 8, 1.0), moment, moment]
        for vector in row:
            parts += [halfvec, vector.tobytes()]
    return b"".join([*parts, struct.pack(">h", -1)])


async def _run(admin: SqlExecutor, statement: str, params: list[Any]) -> None:
    named = {f"p{number}": value for number, value in enumerate(params, start=1)}
    # Backwards, so that $1 is not taken for the beginning of $10.
    for number in range(len(params), 0, -1):
        statement = statement.replace(f"${number}", f"$(p{number})p")
    await admin.execute(statement, named)
