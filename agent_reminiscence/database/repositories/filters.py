"""Which memories and chunks a filter admits, found by their attributes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.database.connection import Row, SqlExecutor, Statement
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.database.repositories.arrays import bigint_array, uuid_blob_array
from agent_reminiscence.domain.attributes import OF_TURN, Attribute, Condition, attributes_of, memory_attributes
from agent_reminiscence.domain.canonical import beside_many
from agent_reminiscence.domain.filter import Filter
from agent_reminiscence.domain.search import LATEST, SearchRequest
from agent_reminiscence.domain.trust import SOURCES
from agent_reminiscence.text.folding import fold_name

_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)

_SQL = load_queries("sql", "filters")


@dataclass(frozen=True, slots=True)
class PassingChunks:
    """Chunks that a filter admits.

    Attributes:
        numbers: In any order.
        memory_ids: The memory of each, 16 bytes.
        originals: The number of the chunk that each repeats; 0 for one that is found itself.
    """

    numbers: NDArray[np.int64]
    memory_ids: NDArray[np.bytes_]
    originals: NDArray[np.int64]

    def only(self, are_kept: NDArray[np.bool_]) -> PassingChunks:
        """Some of them."""
        return PassingChunks(self.numbers[are_kept], self.memory_ids[are_kept], self.originals[are_kept])

    def with_more(self, more: PassingChunks) -> PassingChunks:
        """These and others."""
        return PassingChunks(
            np.concatenate((self.numbers, more.numbers)),
            np.concatenate((self.memory_ids, more.memory_ids)),
            np.concatenate((self.originals, more.originals)),
        )


NONE_PASSES: Final = PassingChunks(np.zeros(0, np.int64), np.zeros(0, "S16"), np.zeros(0, np.int64))


class FilterRepository:
    """Reads what a filter admits of one tenant."""

    async def find_memories(
        self, db: SqlExecutor, external_id: str, conditions: Sequence[Condition], memory_ids: Sequence[UUID] | None
    ) -> NDArray[np.bytes_]:
        """Return the ids of the memories for which all conditions hold, 16 bytes each, archived ones included.

        Args:
            memory_ids: Only these; None is all.
        """
        params, wanted = _asked(conditions, first_bit=4)
        of_all = memory_ids is None and not wanted
        params |= {
            "external_id": external_id,
            "memory_ids": list(memory_ids or ()),
            "of_all": of_all,
            "wanted": wanted | (memory_ids is not None) | 2 * of_all,
        }
        row = await db.fetch_one(_SQL["find_memories"], params)
        return np.frombuffer((row and row["memory_ids"]) or b"", "S16")

    def holding(self, external_id: str, condition: Condition, *, most: int) -> Statement:
        """The statement that tells whether a condition holds for more than `most` values in one of its ranges.

        Memories are fewer where one has several such values.
        """
        return _SQL["has_more_holding"], _ranges([condition]) | {"external_id": external_id, "most": most + 1}

    def holds_for_more(self, rows: Sequence[Row]) -> bool:
        """What the rows of `holding` say."""
        return bool(rows and rows[0]["has_more"])

    async def find_turns(
        self, db: SqlExecutor, external_id: str, conditions: Sequence[Condition]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_], bool]:
        """Return the chunks from turns for which any range of a condition holds, and which of them meet all conditions.

        Returns:
            The third is whether a chunk that is not among them meets all, too.
        """
        params, wanted = _asked(conditions, first_bit=1)
        row = await db.fetch_one(_SQL["find_turns"], params | {"external_id": external_id})
        numbers = np.frombuffer((row and row["numbers"]) or b"", ">i8").astype(np.int64)
        bits = np.frombuffer((row and row["bits"]) or b"", ">i8").astype(np.int64)
        return numbers, bits == wanted, not wanted

    async def find_passing(self, db: SqlExecutor, request: SearchRequest, *, most: int | None = None) -> PassingChunks:
        """Return the chunks that the filter's conditions on passages admit, except those on turns.

        Args:
            most: At most this many; None is all.
        """
        params = passing_params(request) | {"most": most}
        name = "find_passing" if params["speakers"] is None else "find_passing_said"
        return _passing_chunks(await db.fetch_one(_SQL[name], params))

    async def find_passing_of_memories(
        self, db: SqlExecutor, request: SearchRequest, memory_ids: NDArray[np.bytes_], *, most: int | None = None
    ) -> PassingChunks:
        """As `find_passing`, for the chunks of some memories."""
        params = passing_params(request) | {"memory_ids": uuid_blob_array(memory_ids.tobytes()), "most": most}
        return _passing_chunks(await db.fetch_one(_SQL["find_passing_of_memories"], params))

    async def find_passing_among(
        self,
        db: SqlExecutor,
        request: SearchRequest,
        numbers: NDArray[np.int64],
        *,
        condition: Condition | None = None,
    ) -> PassingChunks:
        """As `find_passing`, for some chunks.

        Args:
            condition: Also has to hold for their memories; not a negated one.
        """
        params = passing_params(request) | {"numbers": bigint_array(numbers)}
        if condition is None:
            return _passing_chunks(await db.fetch_one(_SQL["find_passing_among"], params))
        params |= _ranges([condition])
        return _passing_chunks(await db.fetch_one(_SQL["find_passing_among_holding"], params))

    async def find_numbers(self, db: SqlExecutor, external_id: str, chunk_ids: Sequence[UUID]) -> dict[UUID, int]:
        """Return the numbers of some chunks, by id."""
        params = {"external_id": external_id, "chunk_ids": list(chunk_ids)}
        return {UUID(row["chunk_id"]): row["number"] for row in await db.fetch_all(_SQL["find_numbers"], params)}

    async def find_past_chunks(
        self, db: SqlExecutor, request: SearchRequest, chunk_ids: Sequence[UUID]
    ) -> list[tuple[UUID, UUID, bool]]:
        """Return the id of each chunk, its memory's, and whether it passes as in `find_passing`, visible or not."""
        params = passing_params(request) | {"chunk_ids": list(chunk_ids)}
        return [
            (UUID(row["chunk_id"]), UUID(row["memory_id"]), row["passes"])
            for row in await db.fetch_all(_SQL["find_past_chunks"], params)
        ]

    async def read_past_attributes(
        self, db: SqlExecutor, request: SearchRequest, memory_ids: Sequence[UUID]
    ) -> dict[UUID, list[Attribute]]:
        """Return what memories are filtered by at the moment that the request asks about."""
        params = {
            "external_id": request.external_id,
            "memory_ids": sorted(map(str, memory_ids)),
            "as_of": request.as_of,
            "known_at": request.known_at,
        }
        rows = await db.fetch_all(_SQL["read_past_attributes"], params)
        return await beside_many(
            lambda: {
                UUID(row["memory_id"]): memory_attributes(
                    json.loads(row["metadata"] or "{}"),
                    conversation_id=row["conversation_id"],
                    actor=row["actor"],
                    key=row["key"],
                )
                for row in rows
            },
            items=len(rows),
        )

    async def read_past_turns(self, db: SqlExecutor, request: SearchRequest) -> dict[UUID, set[Attribute]]:
        """Return what turns are filtered by at that moment, for each chunk whose turn has metadata."""
        params = {"external_id": request.external_id, "as_of": request.as_of, "known_at": request.known_at}
        rows = await db.fetch_all(_SQL["read_past_turns"], params)
        return await beside_many(
            lambda: {UUID(row["chunk_id"]): attributes_of(json.loads(row["metadata"]), prefix=OF_TURN) for row in rows},
            items=len(rows),
        )


def search_params(request: SearchRequest) -> dict[str, Any]:
    """The parameters that determine which rows a search may see."""
    return {
        "external_id": request.external_id,
        "tiers": list(request.tiers),
        "min_confidence": request.min_confidence or 0.0,
        "as_of": request.as_of,
        "known_at": request.known_at,
    }


def passing_params(request: SearchRequest) -> dict[str, Any]:
    """The same, with those of the filter's conditions on passages, except on turns."""
    where = request.where or Filter()
    return search_params(request) | {
        "sources": list(where.sources or SOURCES),
        # Two spellings of one name must not find what it said twice.
        "speakers": None if where.speakers is None else list(dict.fromkeys(map(fold_name, where.speakers))),
        "occurred_after": where.occurred_after or _EARLIEST,
        "occurred_before": where.occurred_before or LATEST,
    }


def _asked(conditions: Sequence[Condition], *, first_bit: int) -> tuple[dict[str, Any], int]:
    """The ranges of conditions as parameters, and the bits of those conditions for which one has to hold."""
    bits = [first_bit << index for index, condition in enumerate(conditions) for _ in condition.ranges]
    wanted = sum(first_bit << index for index, condition in enumerate(conditions) if not condition.is_negated)
    return {"bits": bits} | _ranges(conditions), wanted


def _ranges(conditions: Sequence[Condition]) -> dict[str, Any]:
    """The ranges of conditions as parameters."""
    ranges = [(condition.path, low, high) for condition in conditions for low, high in condition.ranges]
    return {
        "paths": [path for path, _, _ in ranges],
        "lows": [low for _, low, _ in ranges],
        "highs": [high for _, _, high in ranges],
    }


def _passing_chunks(row: Row | None) -> PassingChunks:
    if row is None or row["numbers"] is None:
        return NONE_PASSES
    return PassingChunks(
        np.frombuffer(row["numbers"], ">i8").astype(np.int64),
        np.frombuffer(row["memory_ids"], "S16"),
        np.frombuffer(row["originals"], ">i8").astype(np.int64),
    )
