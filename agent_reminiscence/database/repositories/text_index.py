"""The index of words: postings, headings and the layouts of texts. All of it is a projection of the ledger."""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from itertools import batched
from typing import Any, Final, NamedTuple
from uuid import UUID

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.domain.index import HEADING, MAX_COUNT, block_of, offset_of, position_in_block

_SQL = load_queries("sql", "text_index")

_ENTRY = struct.Struct(">HHH")
_TEXTS_PER_STATEMENT: Final = 1_000


class PostedText(NamedTuple):
    """The terms of a chunk or heading.

    Attributes:
        number: Of the chunk; negative for a heading.
        words: How many terms the text has, including repetitions.
        terms: How often it has each, including terms for its speaker and the days it mentions, which `words` does not
            count.
    """

    number: int
    words: int
    terms: Mapping[str, int]


class NewHeading(NamedTuple):
    """The heading of a memory's chunks of one day."""

    number: int
    day: date
    words: int
    text_hash: bytes


class TextTotals(NamedTuple):
    """The growth of a tenant's layouts, in chunks and terms."""

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
        """Append the terms of an event's new texts, in the order of `texts`, and store new headings.

        Args:
            texts: Chunks, and the headings among them.
            title: Of the headings.
        """
        # A portion at a time: no statement takes long, and other tasks can run in between.
        send = db.defer if len(texts) <= _TEXTS_PER_STATEMENT else db.execute
        for portion in batched(texts, _TEXTS_PER_STATEMENT):
            await send(_SQL["add_texts"], _params(external_id, memory_id, portion, title, headings))
            headings = ()

    async def find_heading_days(self, db: SqlExecutor, external_id: str, memory_id: UUID, title: str) -> set[date]:
        """Return the days for which the memory has a heading with this title."""
        params = {"external_id": external_id, "memory_id": memory_id, "title": title}
        return {row["day"] for row in await db.fetch_all(_SQL["find_heading_days"], params)}

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
        await db.defer(_SQL["add_layout"], params)

    async def get_headings(self, db: SqlExecutor, external_id: str, memory_id: UUID) -> list[tuple[int, date, str]]:
        """Return number, day and title of every heading that the memory ever had."""
        params = {"external_id": external_id, "memory_id": memory_id}
        rows = await db.fetch_all(_SQL["get_headings"], params)
        return [(row["number"], row["day"], row["title"]) for row in rows]

    async def reread_headings(self, db: SqlExecutor, external_id: str, words: Mapping[int, int]) -> None:
        """Store how many terms headings have in another language, by number."""
        params = {"external_id": external_id, "numbers": list(words), "words": list(words.values())}
        await db.execute(_SQL["reread_headings"], params)

    async def replace_texts(
        self, db: SqlExecutor, external_id: str, before: Sequence[PostedText], after: Sequence[PostedText]
    ) -> None:
        """Replace the terms of texts, keeping the order of the ledger.

        Args:
            before: The texts with their stored terms.
            after: The same texts with their new terms.
        """
        numbers = {text.number for text in before}
        replaced = {block: {offset_of(n) for n in numbers if block_of(n) == block} for block in map(block_of, numbers)}
        keys = sorted(entries_of(before).keys() | (made := entries_of(after)).keys())
        wanted = {"external_id": external_id, "terms": [k[0] for k in keys], "blocks": [k[1] for k in keys]}
        stored = {
            (row["term"], row["block"]): row["entries"] for row in await db.fetch_all(_SQL["read_entries"], wanted)
        }
        merged = {key: _merged(stored.get(key, b""), bytes(made.get(key, b"")), replaced[key[1]]) for key in keys}
        filled = {key: entries for key, entries in merged.items() if entries}
        if filled:
            await db.execute(_SQL["put_entries"], {"external_id": external_id, **posting_rows(filled)})
        if emptied := [key for key in keys if not merged[key]]:
            params = {"terms": [term for term, _ in emptied], "blocks": [block for _, block in emptied]}
            await db.execute(_SQL["delete_entries"], {"external_id": external_id, **params})

    async def refresh_layouts(
        self, db: SqlExecutor, external_id: str, memory_ids: Collection[UUID], *, from_segment: int = 0
    ) -> TextTotals:
        """Refresh the layouts of some memories from their current rows; returns the change of the tenant's totals.

        Args:
            from_segment: Leave earlier segments as they are, and, if it is above 0, the facts.
        """
        params = {"external_id": external_id, "memory_ids": list(memory_ids), "from_segment": from_segment}
        row = await db.fetch_one(_SQL["refresh_layouts"], params)
        assert row is not None
        return TextTotals(row["chunks"], row["words"])


def _params(
    external_id: str, memory_id: UUID, texts: Sequence[PostedText], title: str, headings: Sequence[NewHeading]
) -> dict[str, Any]:
    return {
        "external_id": external_id,
        **posting_rows(entries_of(texts)),
        "memory_id": memory_id,
        "title": title,
        "numbers": [heading.number for heading in headings],
        "days": [heading.day for heading in headings],
        "words": [heading.words for heading in headings],
        "text_hashes": [heading.text_hash.hex() for heading in headings],
    }


def entries_of(texts: Sequence[PostedText]) -> dict[tuple[str, int], bytearray]:
    """The entries of some texts, by term and block."""
    blocks: dict[tuple[str, int], bytearray] = {}
    for text in texts:
        block, offset, words = block_of(text.number), offset_of(text.number), min(text.words, MAX_COUNT)
        for term, frequency in text.terms.items():
            entry = _ENTRY.pack(offset, words, min(frequency, MAX_COUNT))
            blocks.setdefault((term, block), bytearray()).extend(entry)
    return blocks


def posting_rows(blocks: Mapping[tuple[str, int], bytes | bytearray]) -> dict[str, Any]:
    """Entries by term and block as parameters."""
    # Sorted, so that two writers of the same rows cannot deadlock.
    keys = sorted(blocks)
    firsts, lengths, first = [], [], 1
    for key in keys:
        firsts.append(first)
        lengths.append(len(blocks[key]))
        first += len(blocks[key])
    return {
        "terms": [term for term, _ in keys],
        "blocks": [block for _, block in keys],
        "firsts": firsts,
        "lengths": lengths,
        # One value for all: the driver takes bytes in an array for a nested array.
        "entries": b"".join(blocks[key] for key in keys),
    }


def _merged(stored: bytes, made: bytes, replaced: set[int]) -> bytes:
    """A block's entries of one term: the stored ones without `replaced`, plus `made`, in the order of the ledger."""
    entries = [entry for entry in _ENTRY.iter_unpack(stored) if entry[0] not in replaced]
    entries += _ENTRY.iter_unpack(made)
    # An event's headings come before its chunks.
    entries.sort(key=lambda entry: (position_in_block(entry[0]), not entry[0] & HEADING, entry[0]))
    return b"".join(_ENTRY.pack(*entry) for entry in entries)
