"""Finds what an erasure must reach, empties events, and scans every column afterwards."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from agent_reminiscence.config.constants import ENTITY_TYPES, RELATIONSHIP_TYPES
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.generations import list_generations
from agent_reminiscence.database.queries import NamedQuery, load_parts, load_queries, vector_query
from agent_reminiscence.database.repositories.event_ledger import event_from_row
from agent_reminiscence.database.repositories.retention import RetentionRepository
from agent_reminiscence.database.text_columns import TextColumn, scanned_columns
from agent_reminiscence.domain.erasure import (
    ErasureFinding,
    ErasureItem,
    ErasureReceipt,
    Target,
    event_says,
    metadata_says,
    spelled_json,
)
from agent_reminiscence.domain.event import Event, EventKind, is_user_kind
from agent_reminiscence.domain.index import POSTING_DTYPE, decode_postings

# The columns that identify a row within its tenant, for tables with a JSON column.
_KEYS = {
    "memory_event": "position",
    "active_memory": "memory_id",
    "memory_segment": "memory_id, segment",
    "memory_chunk": "chunk_id",
    "entity": "entity_id",
    "relationship": "relationship_id",
}
# Erasure events hold ids and the name of the eraser, nothing of what was erased; they are never emptied.
_KEPT_KINDS = frozenset({EventKind.ERASED, EventKind.GRAPH_ERASED})
# Events that hold a memory's own text.
_KINDS_OF_TEXT = frozenset({EventKind.CREATED, EventKind.UPDATED, EventKind.APPENDED})
# Payloads may have several MB.
_PAGE_EVENTS = 50
# For a common word of a large tenant, one block has an entry of six bytes for each of its 32,768 chunks.
_PAGE_POSTINGS = 500
# The statements that find what must go with what is erased.
_FURTHER = (
    "find_divided",
    "find_resting",
    "find_resting_reflections",
    "find_resting_profiles",
    "find_resting_runs",
)


@dataclass(frozen=True, slots=True)
class Selection:
    """What to erase: whole memories, and single events by position.

    Single events are those that belong to no memory: events of custom kinds, merges of entities, ends of relationships;
    what a model proposed for another memory after it was shown one of these; definitions and texts of profiles;
    reflections; runs of which nothing else stays.
    """

    memory_ids: frozenset[str]
    positions: frozenset[int]

    def covers(self, event: Event) -> bool:
        """Whether `event` must be emptied."""
        if event.kind in _KEPT_KINDS:
            return False
        if not is_user_kind(event.kind) and event.payload.get("memory_id") in self.memory_ids:
            return True
        return event.position in self.positions


_SQL = load_queries("sql", "erasure")
_PARTS = load_parts("sql", "erasure")


class ErasureRepository:
    """Statements of an erasure, over all memory tables and the vectors of every generation."""

    def __init__(self) -> None:
        self._retention = RetentionRepository()

    async def select(self, db: SqlExecutor, external_id: str, target: Target) -> Selection:
        """Select what a target leads to."""
        selection = await self._select(db, external_id, target)
        # Around until none of them finds more: each may find what rests on, or belongs to, what another has found.
        in_vain = 0
        for query in cycle(_FURTHER):
            rows = await db.fetch_all(_SQL[query], _params(external_id, selection))
            positions = selection.positions | {row["position"] for row in rows}
            in_vain = in_vain + 1 if positions == selection.positions else 0
            selection = replace(selection, positions=positions)
            if in_vain == len(_FURTHER):
                break
        return selection

    async def _select(self, db: SqlExecutor, external_id: str, target: Target) -> Selection:
        if target.text is not None:
            return await self._select_by_text(db, external_id, target.text)
        if target.rules is not None:
            over = await self._retention.find_over(db, external_id, target.rules, memory_ids=target.over)
            return Selection(frozenset(str(one.memory_id) for one in over), frozenset())
        params: dict[str, object] = {"external_id": external_id}
        match target.scope:
            case "memory":
                name, params["memory_id"] = "find_by_memory", str(target.memory_id)
            case "conversation":
                name, params["conversation_id"] = "find_by_conversation", target.conversation
            case "before":
                name, params["before"] = "find_before", target.before
            case "selection":
                name = "find_chosen"
                params["memory_ids"] = [str(memory_id) for memory_id in target.memory_versions]
                params["versions"] = list(target.memory_versions.values())
                params["event_ids"] = [str(event_id) for event_id in target.event_ids]
            case _:
                name = "find_all"
        rows = await db.fetch_all(_SQL[name], params)
        return Selection(
            memory_ids=frozenset(row["memory_id"] for row in rows if row["memory_id"] is not None),
            positions=frozenset(row["position"] for row in rows if row["position"] is not None),
        )

    async def _select_by_text(self, db: SqlExecutor, external_id: str, text: str) -> Selection:
        # In no single event where an append ends or begins in the middle of it.
        holders = await db.fetch_all(_SQL["find_texts_holding"], {"external_id": external_id, "text": text})
        memory_ids: set[str] = {row["memory_id"] for row in holders}
        positions: set[int] = set()
        params = {"external_id": external_id, "text": text, "json_text": json_spelling(text), "limit": _PAGE_EVENTS}
        after = 0
        while True:
            page = await db.fetch_all(_SQL["find_by_text"], params | {"after": after})
            for row in page:
                payload = spelled_json(row["payload"])
                if not (row["is_labelled"] or event_says(row["kind"], payload, text)):
                    continue
                # What is said about a memory, perhaps in another's or a model's words, is not its own text.
                is_of_memory = row["kind"] in _KINDS_OF_TEXT or row["is_labelled"]
                if is_of_memory and not is_user_kind(row["kind"]) and "memory_id" in payload:
                    memory_ids.add(payload["memory_id"])
                else:
                    positions.add(row["position"])
            if len(page) < _PAGE_EVENTS:
                return Selection(frozenset(memory_ids), frozenset(positions))
            after = page[-1]["position"]

    async def list_items(self, db: SqlExecutor, external_id: str, selection: Selection) -> list[ErasureItem]:
        """Return what a selection covers, in order of position."""
        rows = await db.fetch_all(_SQL["list_items"], _params(external_id, selection))
        return [ErasureItem.model_validate(row) for row in rows]

    async def list_positions(self, db: SqlExecutor, external_id: str, selection: Selection) -> set[int]:
        """Return the positions of the selected events."""
        rows = await db.fetch_all(_SQL["list_positions"], _params(external_id, selection))
        return {row["position"] for row in rows}

    async def empty_events(self, db: SqlExecutor, external_id: str, selection: Selection) -> list[Event]:
        """Empty the selected events; returns what remains of them, in order of position."""
        rows = await db.fetch_all(_SQL["empty_events"], _params(external_id, selection))
        return sorted((event_from_row(row) for row in rows), key=lambda event: event.position)

    async def count_rows(self, db: SqlExecutor, external_id: str) -> dict[str, int]:
        """Return how many rows of each table the tenant has."""
        params = {"external_id": external_id}
        counted = await db.fetch_one(_SQL["count_rows"], params) or {}
        for generation in await list_generations(db):
            counted |= await db.fetch_one(vector_query("erasure", "count_vectors", generation.number), params) or {}
        return {table: int(rows) for table, rows in counted.items()}

    async def find_receipt(self, db: SqlExecutor, external_id: str, receipt_id: UUID) -> ErasureReceipt | None:
        """Return the receipt that the ledger holds under this id; None also if that is not a valid receipt."""
        params = {"external_id": external_id, "receipt_id": str(receipt_id)}
        row = await db.fetch_one(_SQL["find_receipt"], params)
        try:
            return None if row is None else ErasureReceipt.model_validate_json(row["payload"])
        except ValidationError:
            return None

    async def find_not_empty(self, db: SqlExecutor, receipt: ErasureReceipt) -> list[ErasureFinding]:
        """Find events named by the receipt that are not empty, or whose row is gone."""
        params = {
            "external_id": receipt.external_id,
            "positions": [event.position for event in receipt.events],
            "digests": [event.digest for event in receipt.events],
        }
        return [
            ErasureFinding(
                place="memory_event",
                key=str(row["position"]),
                problem="the row is gone" if row["is_missing"] else "it is not in the state the erasure left",
            )
            for row in await db.fetch_all(_SQL["find_not_empty"], params)
        ]

    async def find_left_over(
        self, db: SqlExecutor, external_id: str, memory_ids: list[str], *, with_cache: bool = True
    ) -> list[ErasureFinding]:
        """Find remains of erased memories, and index entries and vectors of deleted texts."""
        params = {"external_id": external_id, "memory_ids": memory_ids, "with_cache": with_cache}
        rows = await db.fetch_all(_SQL["find_left_over"], params)
        for generation in await list_generations(db):
            statement = vector_query("erasure", "find_left_over_vectors", generation.number)
            rows += await db.fetch_all(statement, {"external_id": external_id})
        found = [ErasureFinding.model_validate(row) for row in rows]
        return [
            *found,
            *await _find_left_over_postings(
                db, external_id, "list_numbers", "read_postings", "posting.entries", "a deleted chunk or heading"
            ),
            *await _find_left_over_postings(
                db, external_id, "list_event_numbers", "read_event_postings", "event_posting.entries", "a deleted event"
            ),
        ]

    async def was_updated_since(self, db: SqlExecutor, receipt: ErasureReceipt) -> bool:
        """Whether any memory of the tenant was updated after the receipt was made."""
        params = {"external_id": receipt.external_id, "receipt_id": str(receipt.receipt_id)}
        row = await db.fetch_one(_SQL["was_updated_since"], params)
        return row is not None and bool(row["was_updated"])

    async def find_text(self, db: SqlExecutor, external_id: str, text: str) -> list[ErasureFinding]:
        """Find `text` in every column that can hold memory text; each is reported once."""
        counts: dict[TextColumn, int] = {}
        params = {"external_id": external_id, "text": text, "types": [*ENTITY_TYPES, *RELATIONSHIP_TYPES]}
        for table, columns in scanned_columns().items():
            plain = [column for column in columns if not column.is_json]
            row = await db.fetch_one(_scan(table, plain), params)
            assert row is not None
            counts |= {column: row[column.name] for column in plain}
            for column in columns:
                if column.is_json:
                    counts[column] = await self._count_json(db, external_id, column, text)
        return [
            ErasureFinding(place=f"{column.table}.{column.name}", key="", problem=f"{rows} rows hold the text")
            for column, rows in counts.items()
            if rows
        ]

    async def _count_json(self, db: SqlExecutor, external_id: str, column: TextColumn, text: str) -> int:
        """Count rows whose JSON column really contains `text`, among those that match as text."""
        found = offset = 0
        params = {"external_id": external_id, "json_text": json_spelling(text), "limit": _PAGE_EVENTS}
        while page := await db.fetch_all(_json_candidates(column), params | {"offset": offset}):
            for row in page:
                value = spelled_json(row["value"])
                says = metadata_says(value, text) if column.name == "metadata" else event_says(row["kind"], value, text)
                found += says
            offset += len(page)
        return found


async def _find_left_over_postings(
    db: SqlExecutor, external_id: str, numbers_of: str, page_of: str, place: str, what: str
) -> list[ErasureFinding]:
    """Find blocks in which a word refers to something that is gone.

    Args:
        numbers_of: The statement that lists what is there.
        page_of: The statement that reads a page of the index.
    """
    row = await db.fetch_one(_SQL[numbers_of], {"external_id": external_id})
    blob = b"" if row is None or row["numbers"] is None else row["numbers"]
    numbers = np.frombuffer(blob, ">i8").astype(np.int64)
    found: set[int] = set()
    params: dict[str, object] = {"external_id": external_id, "after_term": "", "after_block": -1}
    while page := await db.fetch_all(_SQL[page_of], params | {"limit": _PAGE_POSTINGS}):
        named = [_read_numbers(row["block"], row["entries"]) for row in page]
        # An empty row is a remainder, too: it shows that someone used the word.
        found |= {row["block"] for row, part in zip(page, named, strict=True) if not len(part)}
        is_gone = np.isin(np.concatenate(named), numbers, invert=True)
        blocks = np.repeat([row["block"] for row in page], [len(part) for part in named])
        found |= set(blocks[is_gone].tolist())
        params |= {"after_term": page[-1]["term"], "after_block": page[-1]["block"]}
    # By block and not by term, because a finding holds no memory text.
    return [ErasureFinding(place=place, key=str(block), problem=f"refers to {what}") for block in sorted(found)]


def _read_numbers(block: int, entries: bytes) -> NDArray[np.int64]:
    """The numbers of the entries; of a row that was altered by hand, as far as it can be read."""
    whole = len(entries) - len(entries) % POSTING_DTYPE.itemsize
    return decode_postings(block, entries[:whole])[0]


def json_spelling(text: str) -> str:
    """`text` as it appears inside a JSON string in PostgreSQL's jsonb output."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _params(external_id: str, selection: Selection) -> dict[str, object]:
    return {
        "external_id": external_id,
        "memory_ids": sorted(selection.memory_ids),
        "positions": sorted(selection.positions),
    }


def _scan(table: str, columns: Sequence[TextColumn]) -> NamedQuery:
    """The query that counts a table's rows containing a text, by column; its names come from the registry only."""
    counts = (
        _PARTS["type_count" if column.name == "type" else "text_count"].fill(column=column.name) for column in columns
    )
    return _SQL["count_texts"].fill(counts=", ".join(counts), table=table, rows=_rows(table))


def _json_candidates(column: TextColumn) -> NamedQuery:
    """The query for values of a JSON column that match a text, whether they contain it as a value or not."""
    return _SQL["list_json_values"].fill(
        kind="kind" if column.table == "memory_event" else "NULL",
        column=column.name,
        table=column.table,
        rows=_rows(column.table),
        key=_KEYS[column.table],
    )


def _rows(table: str) -> NamedQuery:
    return _PARTS["of_tenant_but_receipts" if table == "memory_event" else "of_tenant"]
