"""Checks and repairs what is computed from texts and vectors (masses, norms, cells) for verify, rebuild and erasure."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Final

import numpy as np

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.generations import NORMS_TABLE_PREFIX, VECTOR_TABLE_PREFIX, list_generations
from agent_reminiscence.database.repositories.chunk_norms import SegmentKey
from agent_reminiscence.database.repositories.replay_tables import StoredMass
from agent_reminiscence.database.repositories.repositories import Repositories
from agent_reminiscence.domain.audit import Drift
from agent_reminiscence.domain.index import NORMS_DTYPE
from agent_reminiscence.services.vectors.filling import count_masses, text_of
from agent_reminiscence.services.vectors.renewal import NormRenewal, SegmentInText, by_size, in_texts

# Tolerance for stored lengths: machines add in different orders, and 32 bits are rounded.
_RELATIVE_TOLERANCE = 1e-4
_ABSOLUTE_TOLERANCE = 1e-3

# The margin of earlier estimates, which took at most a token for each byte before it.
_EARLIER_MARGIN: Final = 1.1


class VectorUpkeep:
    """Compares and mends, in the transaction that has replayed the stream into its own tables."""

    def __init__(
        self,
        repositories: Repositories,
        renewal: NormRenewal,
    ) -> None:
        self._scratch = repositories.replay_tables
        self._cells = repositories.cells
        self._norms = repositories.norms
        self._renewal = renewal

    async def compare(self, db: SqlExecutor, external_id: str) -> list[Drift]:
        """Masses that are not the replayed texts' token counts, and norms that do not match the vectors."""
        found: list[Drift] = []
        for generation in await list_generations(db):
            norms, weighed_otherwise = await self._compare_norms(db, external_id, generation.number)
            found += await self._compare_masses(db, external_id, generation.number, weighed_otherwise)
            found += norms
        return found

    async def mend(self, db: SqlExecutor, external_id: str, drift: Sequence[Drift]) -> None:
        """Renew norms: all of generations that have drifted, otherwise those of texts that have changed."""
        for generation in await list_generations(db):
            tables = {f"{prefix}{generation.number}" for prefix in (VECTOR_TABLE_PREFIX, NORMS_TABLE_PREFIX)}
            has_drifted = any(row.table in tables for row in drift)
            await self._renewal.renew_generation(db, external_id, generation.number, None, is_forced=has_drifted)

    async def forget(self, db: SqlExecutor, external_id: str) -> None:
        """Remove all traces of deleted vectors from norms and cell centres."""
        for generation in await list_generations(db):
            await self._renewal.renew_generation(db, external_id, generation.number, None)
            state = await self._cells.describe(db, external_id, generation.number)
            if state is not None and state.cells:
                await self._cells.recompute(db, external_id, generation.number, state)

    async def _compare_masses(
        self, db: SqlExecutor, external_id: str, generation: int, weighed_otherwise: Collection[int]
    ) -> list[Drift]:
        found = []
        async for page in self._scratch.read_masses(db, external_id, generation):
            masses = await count_masses([text_of(row) for row in page])
            found += [
                Drift(
                    table=f"{VECTOR_TABLE_PREFIX}{generation}",
                    key=str(row.number),
                    problem="changed",
                    columns=("mass",),
                )
                for row, mass in zip(page, masses, strict=True)
                if row.mass != mass and (row.number in weighed_otherwise or not _may_be_earlier(row))
            ]
        return found

    async def _compare_norms(self, db: SqlExecutor, external_id: str, generation: int) -> tuple[list[Drift], set[int]]:
        """What differs, and the chunks and headings whose norms were computed with another mass than is stored."""
        table = f"{NORMS_TABLE_PREFIX}{generation}"
        found = []
        weighed_otherwise: set[int] = set()
        for batch in by_size(await self._norms.list_memories(db, external_id, generation)):
            segments = in_texts(await self._norms.read_layouts(db, external_id, generation, batch))
            expected = await self._renewal.compute(db, external_id, generation, segments)
            stored = await self._norms.read(db, external_id, generation, batch)
            hashes = {segment.key: segment.layout_hash for segment in segments}
            for key in sorted({*expected, *stored}):
                drift = _compare(key, table, expected.get(key), stored.get(key), hashes.get(key))
                found += [] if drift is None else [drift]
            for segment in segments:
                if segment.key in expected and segment.key in stored:
                    _, norms = stored[segment.key]
                    weighed_otherwise |= _weighed_otherwise(segment, norms, expected[segment.key])
        return found, weighed_otherwise


def _may_be_earlier(row: StoredMass) -> bool:
    """Whether an earlier version may have counted this mass: by wordllama's tokenizer, or without it by an estimate.

    One generation may hold masses of all counters. Windows and norms are computed from the stored masses, so they agree
    whichever counter a mass is from; `reembed` counts all of them again. No counter exceeds the bound: the tokenizer
    gives at most a token for each byte, and one for a space before the text.
    """
    most = math.ceil(_EARLIER_MARGIN * len(text_of(row).encode()))
    return 1 <= row.mass <= max(1, most)


def _weighed_otherwise(segment: SegmentInText, stored: bytes, expected: bytes) -> set[int]:
    """The chunks and headings of a segment to which its stored norms give another mass than the vectors' table."""
    if len(stored) != len(expected):
        return set()
    own = segment.layout[segment.before : segment.before + segment.length]
    one, other = np.frombuffer(stored, NORMS_DTYPE), np.frombuffer(expected, NORMS_DTYPE)
    return {
        *own["number"][one["mass"] != other["mass"]].tolist(),
        *own["heading"][one["heading_mass"] != other["heading_mass"]].tolist(),
    }


def _compare(
    segment: SegmentKey,
    table: str,
    expected: bytes | None,
    stored: tuple[bytes, bytes] | None,
    layout_hash: bytes | None,
) -> Drift | None:
    key = "/".join(map(str, segment))
    if stored is None:
        return Drift(table=table, key=key, problem="missing")
    if expected is None:
        return Drift(table=table, key=key, problem="unexpected")
    stored_hash, norms = stored
    columns = [
        *(["layout_hash"] if stored_hash != layout_hash else []),
        *(["norms"] if not _are_close(norms, expected) else []),
    ]
    return Drift(table=table, key=key, problem="changed", columns=tuple(columns)) if columns else None


def _are_close(stored: bytes, expected: bytes) -> bool:
    if len(stored) != len(expected):
        return False
    one, other = np.frombuffer(stored, NORMS_DTYPE), np.frombuffer(expected, NORMS_DTYPE)
    return all(
        np.allclose(one[name], other[name], rtol=_RELATIVE_TOLERANCE, atol=_ABSOLUTE_TOLERANCE)
        for name in ("mass", "heading_mass", "norms")
    )
