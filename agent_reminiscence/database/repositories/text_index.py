"""The index of words: postings, headings and the layouts of texts. All of it is a projection of the ledger."""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import batched
from typing import Any, Final
from uuid import UUID

from agent_reminiscence.database.postgres_manager import SqlExecutor
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.domain.index import MAX_COUNT, block_of, offset_of

_QUERIES = load_queries("sql", "text_index")
_REFRESH = _QUERIES["refresh_layouts"].replace("{newest_heading}", _QUERIES["newest_heading"])

_ENTRY = struct.Struct(">HHH")
_TEXTS_PER_STATEMENT: Final = 1_000


@dataclass(frozen=True, slots=True)
class PostedText:
    """The terms of a chunk or of a heading.

    Attributes:
        number: Of the chunk; of a heading, negative.
        words: How many terms the text has, repeats included.
        terms: How often it has each; what it is found by besides, such as the days that it speaks of, is not counted
            in `words`.
    """

    number: int
    words: int
    terms: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class NewHeading:
    """What stands above the chunks of one day of a memory."""

    number: int
    day: date
    words: int
    text_hash: bytes


@dataclass(frozen=True, slots=True)
class TextTotals:
    """By how many chunks and terms the layouts of a tenant have grown."""

    chunks: int
    words: int


class TextIndexRepository:
    """Rows of `posting`, `memory_heading` and `memory_layout`."""

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
        """Append the terms of texts that an event has brought in, in the order of `texts`, and store new headings.

        Args:
            texts: Chunks, and the headings among them.
            title: Of the headings.
        """
        # A portion at a time: no statement takes long, and other tasks go on in between.
        send = db.defer if len(texts) <= _TEXTS_PER_STATEMENT else db.execute
        for portion in batched(texts, _TEXTS_PER_STATEMENT):
            await send(_QUERIES["add_texts"], _params(external_id, memory_id, portion, title, headings))
            headings = ()

    async def find_heading_days(self, db: SqlExecutor, external_id: str, memory_id: UUID, title: str) -> set[date]:
        """The days for which the memory has a heading with this title."""
        params = {"external_id": external_id, "memory_id": memory_id, "title": title}
        return {row["day"] for row in await db.fetch_all(_QUERIES["find_heading_days"], params)}

    async def add_layout(
        self, db: SqlExecutor, external_id: str, memory_id: UUID, entries: bytes, totals: TextTotals
    ) -> None:
        """Store the layout of a new memory.

        Args:
            entries: Of its chunks in order, `LAYOUT_DTYPE`.
        """
        params = {
            "external_id": external_id,
            "memory_id": memory_id,
            "entries": entries,
            "chunks": totals.chunks,
            "words": totals.words,
        }
        await db.defer(_QUERIES["add_layout"], params)

    async def refresh_layouts(self, db: SqlExecutor, external_id: str, memory_ids: Collection[UUID]) -> TextTotals:
        """Make the layouts of some memories what their rows say now; returns by how much the tenant's counts change."""
        params = {"external_id": external_id, "memory_ids": list(memory_ids)}
        row = await db.fetch_one(_REFRESH, params)
        assert row is not None
        return TextTotals(row["chunks"], row["words"])


def _params(
    external_id: str, memory_id: UUID, texts: Sequence[PostedText], title: str, headings: Sequence[NewHeading]
) -> dict[str, Any]:
    blocks: dict[tuple[str, int], bytearray] = {}
    for text in texts:
        block, offset, words = block_of(text.number), offset_of(text.number), min(text.words, MAX_COUNT)
        for term, frequency in text.terms.items():
            entry = _ENTRY.pack(offset, words, min(frequency, MAX_COUNT))
            blocks.setdefault((term, block), bytearray()).extend(entry)
    # Sorted, so that two writers of the same rows could never wait for each other.
    keys = sorted(blocks)
    firsts, lengths, first = [], [], 1
    for key in keys:
        firsts.append(first)
        lengths.append(len(blocks[key]))
        first += len(blocks[key])
    return {
        "external_id": external_id,
        "terms": [term for term, _ in keys],
        "blocks": [block for _, block in keys],
        "firsts": firsts,
        "lengths": lengths,
        # One value for all: the driver takes bytes in an array for a nested array.
        "entries": b"".join(blocks[key] for key in keys),
        "memory_id": memory_id,
        "title": title,
        "numbers": [heading.number for heading in headings],
        "days": [heading.day for heading in headings],
        "words": [heading.words for heading in headings],
        "text_hashes": [heading.text_hash.hex() for heading in headings],
    }
