"""What a filter admits: sets of memories and turns, found by their attributes, and the chunks in both.

A chunk that repeats another has ended as long as that one lives. Where the filter admits only the repetition, it stands
for what it repeats.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple, Self
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.config.constants import TIERS
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.filters import NONE_PASSES, FilterRepository, PassingChunks
from agent_reminiscence.database.repositories.search import PastChunk
from agent_reminiscence.domain.attributes import Condition, admits
from agent_reminiscence.domain.filter import Filter
from agent_reminiscence.domain.index import are_among, distinct
from agent_reminiscence.domain.search import SearchRequest

# Of more memories than this, their chunks are not looked up one memory after the other: all that pass are read.
_BY_MEMORY: Final = 2_000


class Admitted(NamedTuple):
    """Chunks that may be hits.

    Attributes:
        numbers: Ascending.
        repeating: Those that stand for another chunk, which they repeat.
    """

    numbers: NDArray[np.int64]
    repeating: NDArray[np.int64]


class _Turns(NamedTuple):
    """The chunks from certain turns.

    Attributes:
        numbers: Ascending.
        are_excluded: Whether these are the ones that are not admitted.
    """

    numbers: NDArray[np.int64]
    are_excluded: bool


class Admission:
    """A filter in one transaction."""

    def __init__(self, filters: FilterRepository, request: SearchRequest, turns: _Turns | None) -> None:
        self._filters = filters
        self._request = request
        self._turns = turns
        # What the filter admits by its conditions on memories; read when it is needed, and once.
        self._memories: NDArray[np.bytes_] | None = None
        # Chunks that were held against the filter, ascending, and those of them that pass.
        self._checked = np.zeros(0, np.int64)
        self._passed = NONE_PASSES

    @classmethod
    async def open(cls, db: SqlExecutor, filters: FilterRepository, request: SearchRequest) -> Self | None:
        """Read which turns the request's filter admits; None if it has no filter."""
        where = request.where
        if where is None:
            return None
        if request.is_past:
            return cls(filters, request, None)
        return cls(filters, request, await _find_turns(db, filters, request.external_id, where))

    async def all(self, db: SqlExecutor, *, most: int | None = None) -> Admitted | None:
        """All admitted chunks of the present.

        Args:
            most: Not more than this many; None is any number.

        Returns:
            None if there are more.
        """
        passing = await self._passing(db, most=most)
        if most is not None and len(passing.numbers) > most:
            return None
        return _standing(passing, passing.numbers)

    async def _passing(self, db: SqlExecutor, *, most: int | None = None) -> PassingChunks:
        """All chunks that pass; if there are more than `most`, any number of them above that."""
        memories, turns = await self._read_memories(db), self._turns
        if turns is not None and not turns.are_excluded:
            return self._of_memories(await self._filters.find_passing_among(db, self._request, turns.numbers))
        # What is left out afterwards must not use the room of what is not.
        room = None if most is None or turns is not None else most + 1
        if memories is None:
            passing = await self._filters.find_passing(db, self._request, most=room)
        elif len(memories) <= _BY_MEMORY or room is not None:
            passing = await self._filters.find_passing_of_memories(db, self._request, memories, most=room)
        else:
            passing = self._of_memories(await self._filters.find_passing(db, self._request))
        return self._of_turns(passing)

    async def among(self, db: SqlExecutor, numbers: NDArray[np.int64]) -> Admitted:
        """Which of some chunks of the present are admitted."""
        passing = await self._passing_among(db, numbers)
        originals = distinct(passing.originals[passing.originals != 0])
        known = (await self._passing_among(db, originals)).numbers if len(originals) else originals
        return _standing(passing, known)

    async def among_ids(self, db: SqlExecutor, chunk_ids: Sequence[UUID]) -> list[UUID]:
        """Which of some chunks are admitted, at the request's moment."""
        if not chunk_ids:
            return []
        if self._request.is_past:
            found = await self._filters.find_past_chunks(db, self._request, chunk_ids)
            admits = await self._admits_then(db, found)
            return [chunk_id for (chunk_id, _, _), is_admitted in zip(found, admits, strict=True) if is_admitted]
        numbers = await self._filters.find_numbers(db, self._request.external_id, chunk_ids)
        admitted = await self.among(db, np.fromiter(numbers.values(), np.int64, len(numbers)))
        there = set(admitted.numbers.tolist())
        return [chunk_id for chunk_id in chunk_ids if numbers.get(chunk_id) in there]

    async def memories(self, db: SqlExecutor) -> NDArray[np.bytes_]:
        """The memories of the present with an admitted chunk, 16 bytes each."""
        where = self._request.where
        assert where is not None
        memories = await self._read_memories(db)
        if not where.is_of_passages and memories is not None:
            return memories
        # Whether a chunk repeats another makes no difference to what its memory says.
        return np.unique((await self._passing(db)).memory_ids)

    async def then(self, db: SqlExecutor, chunks: Sequence[PastChunk]) -> Admitted:
        """Which chunks are admitted by what they and their memories were at the moment that is asked about."""
        may_be = [chunk for chunk in chunks if not chunk.is_duplicate or chunk.original_id is not None]
        admits = await self._admits_then(db, [(chunk.chunk_id, chunk.memory_id, chunk.passes) for chunk in may_be])
        passing = [chunk for chunk, is_admitted in zip(may_be, admits, strict=True) if is_admitted]
        number_of = {chunk.chunk_id: chunk.number for chunk in chunks}
        numbers = np.array([chunk.number for chunk in passing], dtype=np.int64)
        originals = [0 if one.original_id is None else number_of.get(one.original_id, -1) for one in passing]
        ids = np.zeros(len(passing), dtype="S16")
        return _standing(PassingChunks(numbers, ids, np.array(originals, dtype=np.int64)), numbers)

    async def _admits_then(self, db: SqlExecutor, chunks: Sequence[tuple[UUID, UUID, bool]]) -> list[bool]:
        """Whether each chunk is admitted, given its id, its memory's, and whether its own columns pass."""
        where = self._request.where
        assert where is not None
        ids = {memory_id for _, memory_id, passes in chunks if passes}
        if where.memory_ids is not None:
            ids &= {UUID(str(memory_id)) for memory_id in where.memory_ids}
        if conditions := where.memory_conditions:
            stored = await self._filters.read_past_attributes(db, self._request, list(ids))
            ids = {one for one in ids if admits(conditions, stored.get(one, ()))}
        if not (conditions := where.turn_conditions):
            return [passes and memory_id in ids for _, memory_id, passes in chunks]
        turns = await self._filters.read_past_turns(db, self._request)
        return [
            passes and memory_id in ids and admits(conditions, turns.get(chunk_id, ()))
            for chunk_id, memory_id, passes in chunks
        ]

    async def _passing_among(self, db: SqlExecutor, numbers: NDArray[np.int64]) -> PassingChunks:
        asked = distinct(numbers)
        # What is ranked was a candidate before, most of it.
        if len(unchecked := asked[~are_among(asked, self._checked)[0]]):
            self._passed = self._passed.with_more(await self._check(db, unchecked))
            self._checked = distinct(np.concatenate((self._checked, unchecked)))
        return self._passed.only(are_among(self._passed.numbers, asked)[0])

    async def _check(self, db: SqlExecutor, numbers: NDArray[np.int64]) -> PassingChunks:
        """Which of some chunks pass, asked of the store."""
        condition = sole_condition(self._request) if self._memories is None else None
        if condition is None:
            await self._read_memories(db)
        found = await self._filters.find_passing_among(db, self._request, numbers, condition=condition)
        return self._of_turns(self._of_memories(found))

    async def _read_memories(self, db: SqlExecutor) -> NDArray[np.bytes_] | None:
        """The memories that the conditions on memories admit; None if there are no such conditions."""
        where = self._request.where
        assert where is not None
        if self._memories is None and where.is_of_memories:
            self._memories = await _find_memories(db, self._filters, self._request.external_id, where)
        return self._memories

    def _of_memories(self, passing: PassingChunks) -> PassingChunks:
        if self._memories is None:
            return passing
        # For texts, a set is ten times as fast as numpy, which would sort them.
        admitted = set(self._memories.tolist())
        ids = passing.memory_ids.tolist()
        return passing.only(np.fromiter((one in admitted for one in ids), np.bool_, len(ids)))

    def _of_turns(self, passing: PassingChunks) -> PassingChunks:
        if self._turns is None:
            return passing
        return passing.only(are_among(passing.numbers, self._turns.numbers)[0] != self._turns.are_excluded)


def sole_condition(request: SearchRequest) -> Condition | None:
    """The condition of a filter that has exactly one on memories, if it can be looked up memory by memory."""
    where = request.where
    if where is None or where.memory_ids is not None or len(conditions := where.memory_conditions) != 1:
        return None
    sole = conditions[0]
    return sole if isinstance(sole, Condition) and not sole.is_negated else None


async def list_memories(
    db: SqlExecutor, filters: FilterRepository, external_id: str, where: Filter, *, now: datetime
) -> list[UUID]:
    """The memories, archived ones included, that a filter admits: if it has conditions on passages, those with one."""
    request = SearchRequest(
        external_id=external_id,
        query="",
        limit=1,
        tiers=TIERS,
        token_budget=None,
        min_confidence=None,
        min_match=None,
        as_of=None,
        known_at=now,
        where=where,
    )
    admission = await Admission.open(db, filters, request)
    assert admission is not None
    ids = (await admission.memories(db)).tobytes()
    return [UUID(bytes=ids[start : start + 16]) for start in range(0, len(ids), 16)]


async def _find_memories(
    db: SqlExecutor, filters: FilterRepository, external_id: str, where: Filter
) -> NDArray[np.bytes_]:
    """The memories that a filter's conditions on memories admit."""
    ids = None if where.memory_ids is None else [UUID(str(memory_id)) for memory_id in where.memory_ids]
    if ids is not None and not where.memory_conditions:
        return np.frombuffer(b"".join(memory_id.bytes for memory_id in ids), "S16")
    return await filters.find_memories(db, external_id, where.memory_conditions, ids)


async def _find_turns(db: SqlExecutor, filters: FilterRepository, external_id: str, where: Filter) -> _Turns | None:
    conditions = where.turn_conditions
    if not conditions:
        return None
    numbers, meet_all, others_do = await filters.find_turns(db, external_id, conditions)
    return _Turns(np.sort(numbers[meet_all != others_do]), are_excluded=others_do)


def _standing(passing: PassingChunks, known: NDArray[np.int64]) -> Admitted:
    """Leave out repetitions of what is admitted, and all but the first that repeat one chunk.

    Args:
        known: The admitted chunks, as far as any of `passing` may repeat them.
    """
    is_repetition = passing.originals != 0
    if not is_repetition.any():
        return Admitted(distinct(passing.numbers), np.zeros(0, dtype=np.int64))
    own = passing.numbers[~is_repetition]
    rest = passing.only(is_repetition & ~np.isin(passing.originals, known))
    order = np.argsort(rest.numbers, kind="stable")
    _, firsts = np.unique(rest.originals[order], return_index=True)
    repeating = rest.numbers[order][firsts]
    return Admitted(distinct(np.concatenate((own, repeating))), np.sort(repeating))
