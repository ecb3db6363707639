"""Checks and repairs what is computed from texts and vectors (masses, norms, cells) for verify, rebuild and erasure."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.generations import NORMS_TABLE_PREFIX, VECTOR_TABLE_PREFIX, list_generations
from agent_reminiscence.database.repositories.chunk_norms import SegmentKey
from agent_reminiscence.database.repositories.replay_tables import StoredMass
from agent_reminiscence.database.repositories.repositories import Repositories
from agent_reminiscence.domain.audit import Drift
from agent_reminiscence.domain.index import NORMS_DTYPE
from agent_reminiscence.embedders.wordllama_tokenizer import encode_each, wordllama_tokenizer
from agent_reminiscence.services.vectors.filling import count_masses, text_of
from agent_reminiscence.services.vectors.renewal import NormRenewal, by_size, in_texts

# Tolerance for stored lengths: machines add in different orders, and 32 bits are rounded.
_RELATIVE_TOLERANCE = 1e-4
_ABSOLUTE_TOLERANCE = 1e-3


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
            found += await self._compare_masses(db, external_id, generation.number)
            found += await self._compare_norms(db, external_id, generation.number)
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

    async def _compare_masses(self, db: SqlExecutor, external_id: str, generation: int) -> list[Drift]:
        found = []
        async for page in self._scratch.read_masses(db, external_id, generation):
            masses = await count_masses([text_of(row) for row in page])
            different = [row for row, mass in zip(page, masses, strict=True) if row.mass != mass]
            earlier = await asyncio.to_thread(_have_earlier_masses, different) if different else []
            found += [
                Drift(
                    table=f"{VECTOR_TABLE_PREFIX}{generation}",
                    key=str(row.number),
                    problem="changed",
                    columns=("mass",),
                )
                for row, is_earlier in zip(different, earlier, strict=True)
                if not is_earlier
            ]
        return found

    async def _compare_norms(self, db: SqlExecutor, external_id: str, generation: int) -> list[Drift]:
        table = f"{NORMS_TABLE_PREFIX}{generation}"
        found = []
        for batch in by_size(await self._norms.list_memories(db, external_id, generation)):
            segments = in_texts(await self._norms.read_layouts(db, external_id, generation, batch))
            expected = await self._renewal.compute(db, external_id, generation, segments)
            stored = await self._norms.read(db, external_id, generation, batch)
            hashes = {segment.key: segment.layout_hash for segment in segments}
            for key in sorted({*expected, *stored}):
                drift = _compare(key, table, expected.get(key), stored.get(key), hashes.get(key))
                found += [] if drift is None else [drift]
        return found


def _have_earlier_masses(rows: Sequence[StoredMass]) -> list[bool]:
    """Whether each mass may have been counted by an earlier version, with wordllama's tokenizer.

    One generation may hold masses of both counters. A window's vector weighs its texts with the masses that are stored,
    and so do the norms, so both agree whichever counter a mass is from; `reembed` counts all of them anew. Without the
    tokenizer a mass passes if that tokenizer could have counted it: at most a token for each byte, and a space.
    """
    texts = [text_of(row) for row in rows]
    tokenizer = wordllama_tokenizer()
    if tokenizer is None:
        return [1 <= row.mass <= len(text.encode()) + 1 for row, text in zip(rows, texts, strict=True)]
    counts = [max(1, len(encoding)) for encoding in encode_each(tokenizer, texts)]
    return [row.mass == count for row, count in zip(rows, counts, strict=True)]


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
