"""Vectors of chunks and headings, and the cache they come from. Both can be recomputed from the texts."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import batched
from typing import Final, NamedTuple
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.database.connection import Deferred, Row, SqlExecutor
from agent_reminiscence.database.queries import NamedQuery, load_queries, vector_query
from agent_reminiscence.database.repositories.arrays import bigint_array, real_array, uuid_array
from agent_reminiscence.domain.canonical import beside_many
from agent_reminiscence.domain.generation import Generation
from agent_reminiscence.domain.index import NORMS_DTYPE, SegmentSizes, are_among, distinct, in_layout_order

_SQL = load_queries("sql", "chunk_vector")
# Below the number of any heading.
BEFORE_ALL: Final = -(1 << 62)
# How many texts one statement looks up, so that no statement takes long.
_BATCH_TEXTS: Final = 4_096
_MAX_GAP: Final = 4
# The binary form of a halfvec: dimension, two zero bytes, float16 values.
_HALFVEC_HEAD: Final = 4


class MissingVector(NamedTuple):
    """A chunk or heading without a vector, and what its text is made of.

    Attributes:
        number: Negative for a heading.
        chunk_id: None for a heading.
        content: The chunk's content; for a heading, the title.
        day: For a heading.
        stated_on: For a fact, its day.
        is_cached: Whether the cache holds the vector of its text.
    """

    number: int
    chunk_id: UUID | None
    memory_id: UUID
    text_hash: bytes
    content: str
    day: date | None
    stated_on: date | None
    is_cached: bool


class EmbeddedText(NamedTuple):
    """A chunk or heading that is to get a vector.

    Attributes:
        mass: The number of tokens of its text.
    """

    number: int
    text_hash: bytes
    mass: int


@dataclass(frozen=True, slots=True)
class Filled:
    """What got vectors, and how large the tenant is.

    Attributes:
        numbers: Of the chunks and, if negative, headings.
        cells: How many cells the tenant's vectors are sorted into; 0 if they never were.
        text_chunks: The number of chunks in its texts.
    """

    numbers: frozenset[int]
    cells: int
    text_chunks: int

    @property
    def chunks(self) -> int:
        """How many of them are chunks."""
        return sum(number > 0 for number in self.numbers)


@dataclass(frozen=True, slots=True)
class Dots:
    """Dot products with a question's vector.

    Attributes:
        numbers: int64, shape (n,); negative for headings.
        dots: float32, shape (n,); larger is nearer.
    """

    numbers: NDArray[np.int64]
    dots: NDArray[np.float32]

    def only(self, are_kept: NDArray[np.bool_]) -> Dots:
        """Some of them."""
        return Dots(self.numbers[are_kept], self.dots[are_kept])

    def with_more(self, more: Dots) -> Dots:
        """These and others."""
        return Dots(np.concatenate((self.numbers, more.numbers)), np.concatenate((self.dots, more.dots)))


NO_DOTS: Final = Dots(np.zeros(0, np.int64), np.zeros(0, np.float32))


class StoredVectors(NamedTuple):
    """Some stored vectors.

    Attributes:
        numbers: int64, shape (n,).
        masses: float32, shape (n,).
        vectors: float32, shape (n, dimension).
    """

    numbers: NDArray[np.int64]
    masses: NDArray[np.float32]
    vectors: NDArray[np.float32]

    def by_number(self) -> dict[int, NDArray[np.float32]]:
        """Each vector by its number."""
        return dict(zip(self.numbers.tolist(), self.vectors, strict=True))


class ChunkVectorRepository:
    """Rows of `chunk_vector_<generation>` and `embedding_cache`; a missing vector is a missing row."""

    async def find_missing(
        self,
        db: SqlExecutor,
        external_id: str,
        generation: Generation,
        memory_ids: Sequence[UUID] | None,
        *,
        after: int,
        limit: int,
    ) -> list[MissingVector]:
        """Return chunks and headings without vectors, in order of their numbers.

        Args:
            memory_ids: Only those of these memories; None is all.
            after: Only those after this number; start with `BEFORE_ALL`.
        """
        params = {"external_id": external_id, "after": after, "model_name": generation.model_name, "limit": limit}
        rows = await db.fetch_all(*_scoped("find_missing", generation.number, params, memory_ids))
        return [
            MissingVector(
                number=row["number"],
                chunk_id=None if row["chunk_id"] is None else UUID(row["chunk_id"]),
                memory_id=UUID(row["memory_id"]),
                text_hash=row["text_hash"],
                content=row["content"],
                day=row["day"],
                stated_on=row["stated_on"],
                is_cached=row["is_cached"],
            )
            for row in rows
        ]

    async def ask_whether_lacking(
        self, db: SqlExecutor, external_id: str, generation: int, memory_id: UUID
    ) -> Deferred[bool]:
        """Ask, deferred, whether a chunk or heading of a memory has no vector."""
        params = {"external_id": external_id, "memory_id": memory_id}
        return await db.ask(_sql("lacks_vectors", generation), params, lambda rows: bool(rows[0]["lacks_any"]))

    async def fill(
        self,
        db: SqlExecutor,
        external_id: str,
        generation: Generation,
        texts: Sequence[EmbeddedText],
        made: Mapping[bytes, NDArray[np.float32]],
    ) -> Filled:
        """Store vectors for those `texts` that still say what was embedded, and keep the new ones in the cache.

        Nothing is stored if the generation is no longer in the state given by `generation`.

        Args:
            made: New vectors by the SHA-256 of their texts; the others are taken from the cache.
        """
        ordinals = {text_hash: ordinal for ordinal, text_hash in enumerate(made, 1)}
        vectors = np.stack(list(made.values())) if made else np.zeros((0, generation.dimension), dtype=np.float32)
        params: dict[str, object] = {
            "external_id": external_id,
            "model_name": generation.model_name,
            "state": generation.state,
            "dimension": generation.dimension,
            "numbers": [text.number for text in texts],
            # As hexadecimal text: the driver takes bytes in an array for a nested array.
            "text_hashes": [text.text_hash.hex() for text in texts],
            "masses": real_array([text.mass for text in texts]),
            "places": [ordinals.get(text.text_hash, 0) for text in texts],
            "vectors": real_array(vectors),
            "cells": [0] * len(texts),
            "knows_cells": False,
        }
        row = await db.fetch_one(_sql("fill_vectors", generation.number), params)
        assert row is not None
        if row["cells"]:
            nearest = await self._find_cells(db, external_id, generation.number, vectors)
            # Here, not in the statement: for the vectors of a long text that would take seconds.
            cells = [nearest[ordinals[text.text_hash] - 1] if text.text_hash in ordinals else -1 for text in texts]
            params |= {"cells": cells, "knows_cells": True}
            row = await db.fetch_one(_sql("fill_vectors", generation.number), params)
            assert row is not None
        numbers = np.frombuffer(row["numbers"] or b"", ">i8").tolist()
        return Filled(frozenset(numbers), row["cells"], row["text_chunks"] or 0)

    async def _find_cells(
        self, db: SqlExecutor, external_id: str, generation: int, vectors: NDArray[np.float32]
    ) -> list[int]:
        """The nearest cell of the last sorting for each of some vectors; -1 if there is none any more."""
        cells, centres = await read_newest_cells(db, external_id, generation)
        if not len(cells):
            return [-1] * len(vectors)
        found: list[int] = cells[np.argmax(vectors @ centres.T, axis=1)].tolist()
        return found

    async def find_uncached(
        self, db: SqlExecutor, external_id: str, generation: Generation, text_hashes: Sequence[bytes]
    ) -> list[bytes]:
        """Return which of some texts have no vector in the cache, in the order of `text_hashes`."""
        uncached: list[bytes] = []
        for batch in batched(text_hashes, _BATCH_TEXTS):
            params = {
                "external_id": external_id,
                "model_name": generation.model_name,
                "text_hashes": [text_hash.hex() for text_hash in batch],
            }
            rows = await db.fetch_all(_SQL["find_uncached"], params)
            uncached += [bytes.fromhex(row["text_hash"]) for row in rows]
        return uncached

    async def count_missing(
        self, db: SqlExecutor, external_id: str, generation: Generation, memory_ids: Sequence[UUID] | None = None
    ) -> int:
        """Return how many chunks have no vectors, of these memories or of all."""
        row = await db.fetch_one(*_scoped("count_missing", generation.number, {"external_id": external_id}, memory_ids))
        return 0 if row is None else int(row["chunks"])

    async def count_chunks(self, db: SqlExecutor, external_id: str, generation: Generation) -> tuple[int, int]:
        """Return how many chunks there are, and how many of them have no vectors."""
        row = await db.fetch_one(_sql("count_chunks", generation.number), {"external_id": external_id})
        return (0, 0) if row is None else (int(row["chunks"]), int(row["missing"]))

    async def delete_cached(self, db: SqlExecutor, external_id: str, generation: Generation) -> None:
        """Delete what the cache holds for the generation's model."""
        params = {"external_id": external_id, "model_name": generation.model_name}
        await db.execute(_SQL["delete_cached_vectors"], params)

    async def find_dots(self, db: SqlExecutor, external_id: str, generation: int, vector: Sequence[float]) -> Dots:
        """Return the dot products of all vectors of the tenant with a question's.

        Args:
            vector: Of unit length, by the generation's model.
        """
        params = {"external_id": external_id, "vector": halfvec(vector)}
        return _dots(await db.fetch_one(_sql("find_dots", generation), params))

    async def find_near_dots(
        self,
        db: SqlExecutor,
        external_id: str,
        generation: int,
        vector: Sequence[float],
        *,
        cells: int,
        headings: int,
    ) -> Dots:
        """Return the dot products of the vectors in some cells with a question's.

        Args:
            vector: Of unit length, by the generation's model.
            cells: How many cells, the nearest to `vector`, are read.
            headings: Of each cell the newest headings are read: this many, or four times the number of cells if that is
                more.
        """
        params = {"external_id": external_id, "vector": halfvec(vector), "cells": cells, "headings": headings}
        return _dots(await db.fetch_one(_sql("find_near_dots", generation), params))

    async def find_dots_and_norms(
        self, db: SqlExecutor, external_id: str, generation: int, vector: Sequence[float]
    ) -> tuple[Dots, NDArray[np.void]]:
        """Return the dot products of all vectors with a question's, and the norms of all windows.

        Returns:
            The norms have shape (n,), `NORMS_DTYPE`, in the order in which `SearchRepository.read_texts` returns the
            texts; zeros where there are none.
        """
        params = {"external_id": external_id, "vector": halfvec(vector)}
        row = await db.fetch_one(_sql("find_dots_and_norms", generation), params)
        assert row is not None
        layouts = SegmentSizes(_keys(row["layout_keys"]), _numbers(row["layout_sizes"]))
        stored = SegmentSizes(_keys(row["norms_keys"]), _numbers(row["norms_sizes"]) // NORMS_DTYPE.itemsize)
        return _dots(row), in_layout_order(layouts, stored, np.frombuffer(row["norms"] or b"", NORMS_DTYPE))

    async def ask_dots_of(
        self,
        db: SqlExecutor,
        external_id: str,
        generation: int,
        vector: Sequence[float],
        numbers: NDArray[np.int64],
    ) -> Deferred[Dots]:
        """Ask for the dot products of given vectors, at least one, with a question's; those that exist are answered."""
        ascending = distinct(numbers)
        firsts, lasts = _runs(ascending)
        params = {
            "external_id": external_id,
            "vector": halfvec(vector),
            "firsts": bigint_array(firsts),
            "lasts": bigint_array(lasts),
        }

        def read(rows: list[Row]) -> Dots:
            found = _dots(rows[0] if rows else None)
            return found.only(are_among(found.numbers, ascending)[0])

        return await db.ask(_sql("find_dots_of", generation), params, read)

    async def ask(
        self, db: SqlExecutor, external_id: str, generation: int, numbers: NDArray[np.int64]
    ) -> Deferred[StoredVectors]:
        """Ask for given vectors; those that exist are answered."""
        params = {"external_id": external_id, "numbers": bigint_array(numbers)}
        return await db.ask(_sql("read_vectors", generation), params, lambda rows: stored_vectors(rows[0]))

    async def read(
        self, db: SqlExecutor, external_id: str, generation: int, numbers: Sequence[int] | NDArray[np.int64]
    ) -> StoredVectors:
        """Return given vectors, leaving out those that do not exist."""
        params = {"external_id": external_id, "numbers": bigint_array(numbers)}
        row = await db.fetch_one(_sql("read_vectors", generation), params)
        assert row is not None
        return await beside_many(lambda: stored_vectors(row), items=len(numbers))

    async def read_of_chunks(
        self, db: SqlExecutor, external_id: str, generation: int, chunk_ids: Sequence[UUID]
    ) -> dict[UUID, tuple[float, ...]]:
        """Return the vectors of chunks by their ids, leaving out chunks that do not exist or have none."""
        params = {"external_id": external_id, "chunk_ids": uuid_array(chunk_ids)}
        rows = await db.fetch_all(_sql("read_vectors_of_chunks", generation), params)
        return {UUID(row["chunk_id"]): tuple(read_halfvecs(row["vector"], 1)[0].tolist()) for row in rows}


async def read_newest_cells(
    db: SqlExecutor, external_id: str, generation: int
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return numbers and centres of the cells of a tenant's last sorting."""
    row = await db.fetch_one(_sql("read_newest_cells", generation), {"external_id": external_id})
    assert row is not None
    cells = np.frombuffer(row["cells"] or b"", ">i4").astype(np.int32)
    if not len(cells):
        return cells, np.zeros((0, 0), dtype=np.float32)
    return cells, read_halfvecs(row["vectors"], len(cells))


def stored_vectors(row: Row) -> StoredVectors:
    """Read the vectors of a row with the columns `numbers`, `masses` and `vectors`; they may be NULL."""
    numbers = np.frombuffer(row["numbers"] or b"", ">i8").astype(np.int64)
    masses = np.frombuffer(row["masses"] or b"", ">f4").astype(np.float32)
    if not len(numbers):
        return StoredVectors(numbers, masses, np.zeros((0, 0), dtype=np.float32))
    return StoredVectors(numbers, masses, read_halfvecs(row["vectors"], len(numbers)))


def read_halfvecs(blob: bytes, count: int) -> NDArray[np.float32]:
    """Read `count` consecutive vectors in their binary form; shape (count, dimension)."""
    rows = np.frombuffer(blob, np.uint8).reshape(count, -1)
    values = np.ascontiguousarray(rows[:, _HALFVEC_HEAD:]).view(">f2")
    return values.astype(np.float32)


def halfvec(vector: Sequence[float] | NDArray[np.float32]) -> bytes:
    """A vector in the binary form of pgvector's halfvec: dimension, two zero bytes, then float16 values, big-endian."""
    return struct.pack(">HH", len(vector), 0) + np.asarray(vector, dtype=np.float32).astype(">f2").tobytes()


def _runs(ascending: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and last of each run of numbers with small gaps: reading what is in between costs less than a search."""
    ends = np.flatnonzero(np.diff(ascending) > _MAX_GAP)
    return ascending[np.append(0, ends + 1)], ascending[np.append(ends, len(ascending) - 1)]


def _dots(row: Row | None) -> Dots:
    if row is None or row["numbers"] is None:
        return Dots(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32))
    # pgvector's operator returns the negated product.
    return Dots(
        np.frombuffer(row["numbers"], ">i8").astype(np.int64), -np.frombuffer(row["dots"], ">f4").astype(np.float32)
    )


def _keys(keys: bytes | None) -> NDArray[np.bytes_]:
    return np.frombuffer(keys or b"", "S20")


def _numbers(numbers: bytes | None) -> NDArray[np.int64]:
    return np.frombuffer(numbers or b"", ">i4").astype(np.int64)


def _scoped(
    name: str, generation: int, params: dict[str, object], memory_ids: Sequence[UUID] | None
) -> tuple[NamedQuery, dict[str, object]]:
    """The query on all chunks of the tenant or on those of some memories, and its parameters."""
    if memory_ids is None:
        return _sql(name, generation), params
    return _sql(f"{name}_of", generation), params | {"memory_ids": list(memory_ids)}


def _sql(name: str, generation: int) -> NamedQuery:
    return vector_query("chunk_vector", name, generation)
