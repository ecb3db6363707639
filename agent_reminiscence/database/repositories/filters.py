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
from agent_reminiscence.domain.attributes import (
    OF_TURN,
    AllOf,
    AnyOf,
    Attribute,
    Condition,
    Expression,
    Not,
    attributes_of,
    memory_attributes,
)
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
        self, db: SqlExecutor, external_id: str, expressions: Sequence[Expression], memory_ids: Sequence[UUID] | None
    ) -> NDArray[np.bytes_]:
        """Return the ids of the memories for which all expressions hold, 16 bytes each, archived ones included.

        Args:
            memory_ids: Only these; None is all.
        """
        asked = _Asked(expressions, first_bit=4)
        of_all = memory_ids is None and asked.holds_of_nothing
        params = asked.params | {
            "external_id": external_id,
            "memory_ids": list(memory_ids or ()),
            "of_all": of_all,
            # Only conditions that all have to hold are decided where the rows are.
            "wanted": None if asked.wanted is None else asked.wanted | (memory_ids is not None) | 2 * of_all,
        }
        row = await db.fetch_one(_SQL["find_memories"], params)
        ids = np.frombuffer((row and row["memory_ids"]) or b"", "S16")
        if asked.wanted is not None:
            return ids
        bits = np.frombuffer((row and row["bits"]) or b"", ">i8").astype(np.int64)
        admitted = asked.hold(bits)
        return ids[admitted if memory_ids is None else admitted & (bits & 1 == 1)]

    def holding(self, external_id: str, condition: Condition, *, most: int) -> Statement:
        """The statement that tells whether a condition holds for more than `most` values in one of its ranges.

        Memories are fewer where one has several such values.
        """
        return _SQL["has_more_holding"], _ranges([condition]) | {"external_id": external_id, "most": most + 1}

    def holds_for_more(self, rows: Sequence[Row]) -> bool:
        """What the rows of `holding` say."""
        return bool(rows and rows[0]["has_more"])

    async def find_turns(
        self, db: SqlExecutor, external_id: str, expressions: Sequence[Expression]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_], bool]:
        """Return the chunks from turns for which a condition holds, and for which of them all expressions do.

        Returns:
            The third is whether they hold for a chunk that is not among them, too.
        """
        asked = _Asked(expressions, first_bit=1)
        row = await db.fetch_one(_SQL["find_turns"], asked.params | {"external_id": external_id})
        numbers = np.frombuffer((row and row["numbers"]) or b"", ">i8").astype(np.int64)
        bits = np.frombuffer((row and row["bits"]) or b"", ">i8").astype(np.int64)
        return numbers, asked.hold(bits), asked.holds_of_nothing

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


class _Asked:
    """Expressions as parameters of a statement, which gives each condition in them a bit.

    Args:
        expressions: All have to hold.
        first_bit: Of the first condition.

    Attributes:
        params: The ranges of the conditions, each with its bit.
        wanted: The bits that have to be set, and no others, if all expressions are conditions; otherwise None.
        holds_of_nothing: Whether the expressions hold where no condition's range has a value.
    """

    def __init__(self, expressions: Sequence[Expression], *, first_bit: int) -> None:
        self._expressions = expressions
        conditions = list(dict.fromkeys(one for expression in expressions for one in expression.conditions))
        self._bits = {condition: first_bit << index for index, condition in enumerate(conditions)}
        bits = [self._bits[condition] for condition in conditions for _ in condition.ranges]
        self.params = {"bits": bits} | _ranges(conditions)
        self.wanted = (
            sum(bit for condition, bit in self._bits.items() if not condition.is_negated)
            if all(isinstance(one, Condition) for one in expressions)
            else None
        )
        self.holds_of_nothing = all(expression.holds({}) for expression in expressions)

    def hold(self, bits: NDArray[np.int64]) -> NDArray[np.bool_]:
        """For which bits all expressions hold."""
        return self._all(self._expressions, bits)

    def _all(self, expressions: Sequence[Expression], bits: NDArray[np.int64]) -> NDArray[np.bool_]:
        held = np.ones(len(bits), np.bool_)
        for expression in expressions:
            held &= self._holds(expression, bits)
        return held

    def _holds(self, expression: Expression, bits: NDArray[np.int64]) -> NDArray[np.bool_]:
        match expression:
            case Condition():
                is_there: NDArray[np.bool_] = bits & self._bits[expression] != 0
                return ~is_there if expression.is_negated else is_there
            case AllOf(parts):
                return self._all(parts, bits)
            case AnyOf(parts):
                return ~self._all([Not(part) for part in parts], bits)
            case Not(part):
                return ~self._holds(part, bits)


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
