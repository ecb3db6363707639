"""Finds what an erasure has to reach, empties events, and scans every place afterwards."""

from __future__ import annotations

import json
from dataclasses import dataclass
from uuid import UUID

from agent_reminiscence.database.places import Place, scanned_places
from agent_reminiscence.database.postgres_manager import SqlExecutor
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.domain.erasure import ErasureFinding, ErasureItem, ErasureReceipt
from agent_reminiscence.domain.event import RESERVED_PREFIX, Event


@dataclass(frozen=True, slots=True)
class Selection:
    """What is to be erased: whole memories, and events of users' own kinds by position."""

    memory_ids: frozenset[str]
    positions: frozenset[int]

    def covers(self, event: Event) -> bool:
        """Whether `event` is to be emptied."""
        if event.kind.startswith(RESERVED_PREFIX):
            return event.payload.get("memory_id") in self.memory_ids
        return event.position in self.positions


class ErasureRepository:
    """Statements of an erasure, over all tables of memory."""

    def __init__(self, generation: int) -> None:
        queries = load_queries("sql", "erasure")
        self._sql = {name: sql.replace("{generation}", str(generation)) for name, sql in queries.items()}

    async def select(
        self,
        db: SqlExecutor,
        external_id: str,
        *,
        memory_id: UUID | None,
        conversation_id: str | None,
        text: str | None,
    ) -> Selection:
        """What one of the three leads to; without any, all that there is."""
        params: dict[str, object] = {"external_id": external_id}
        if memory_id is not None:
            name, params["memory_id"] = "find_by_memory", str(memory_id)
        elif conversation_id is not None:
            name, params["conversation_id"] = "find_by_conversation", conversation_id
        elif text is not None:
            name, params["text"], params["json_text"] = "find_by_text", text, json_spelling(text)
        else:
            name = "find_all"
        rows = await db.fetch_all(self._sql[name], params)
        return Selection(
            memory_ids=frozenset(row["memory_id"] for row in rows if row["memory_id"] is not None),
            positions=frozenset(row["position"] for row in rows if row["position"] is not None),
        )

    async def list_items(self, db: SqlExecutor, external_id: str, selection: Selection) -> list[ErasureItem]:
        """What a selection stands for, in order of position."""
        rows = await db.fetch_all(self._sql["list_items"], _params(external_id, selection))
        return [ErasureItem.model_validate(row) for row in rows]

    async def empty_events(self, db: SqlExecutor, external_id: str, selection: Selection) -> list[Event]:
        """Empty the selected events; returns what is left of them, in order of position."""
        rows = await db.fetch_all(self._sql["empty_events"], _params(external_id, selection))
        events = [Event.model_validate(row | {"payload": json.loads(row["payload"])}) for row in rows]
        return sorted(events, key=lambda event: event.position)

    async def count_rows(self, db: SqlExecutor, external_id: str) -> dict[str, int]:
        """How many rows of each table the tenant has."""
        row = await db.fetch_one(self._sql["count_rows"], {"external_id": external_id})
        return {} if row is None else {table: int(rows) for table, rows in row.items()}

    async def find_receipt(self, db: SqlExecutor, external_id: str, receipt_id: UUID) -> ErasureReceipt | None:
        """The receipt that the ledger holds under this id."""
        params = {"external_id": external_id, "receipt_id": str(receipt_id)}
        row = await db.fetch_one(self._sql["find_receipt"], params)
        return None if row is None else ErasureReceipt.model_validate(json.loads(row["payload"]))

    async def find_not_empty(self, db: SqlExecutor, receipt: ErasureReceipt) -> list[ErasureFinding]:
        """Events that the receipt names and that are not empty, or gone."""
        params = {
            "external_id": receipt.external_id,
            "positions": [event.position for event in receipt.events],
            "digests": [event.digest for event in receipt.events],
        }
        return [
            ErasureFinding(
                place="memory_event",
                key=str(row["position"]),
                problem="the row is gone" if row["is_missing"] else "it is not what the erasure left",
            )
            for row in await db.fetch_all(self._sql["find_not_empty"], params)
        ]

    async def find_left_over(
        self, db: SqlExecutor, external_id: str, memory_ids: list[str], *, with_cache: bool = True
    ) -> list[ErasureFinding]:
        """What is left of erased memories, and vectors of texts that are gone."""
        params = {"external_id": external_id, "memory_ids": memory_ids, "with_cache": with_cache}
        return [ErasureFinding.model_validate(row) for row in await db.fetch_all(self._sql["find_left_over"], params)]

    async def find_text(self, db: SqlExecutor, external_id: str, text: str) -> list[ErasureFinding]:
        """Where `text` stands, in every place that can hold memory text; each place is named once."""
        findings: list[ErasureFinding] = []
        for table, places in scanned_places().items():
            rows = await db.fetch_all(
                _scan(table, places), {"external_id": external_id, "text": text, "json_text": json_spelling(text)}
            )
            findings += [
                ErasureFinding(place=f"{table}.{name}", key="", problem=f"{rows[0][name]} rows hold the text")
                for name in (place.column for place in places)
                if rows[0][name]
            ]
        return findings


def json_spelling(text: str) -> str:
    """`text` as it stands inside a JSON string, as PostgreSQL writes jsonb."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _params(external_id: str, selection: Selection) -> dict[str, object]:
    return {
        "external_id": external_id,
        "memory_ids": sorted(selection.memory_ids),
        "positions": sorted(selection.positions),
    }


def _scan(table: str, places: tuple[Place, ...]) -> str:
    """How many rows of a table hold a text, by column. Names come from the registry, never from outside."""
    counts = ", ".join(
        f"count(*) FILTER (WHERE strpos({place.column}::text, $({'json_text' if place.is_json else 'text'})p) > 0)"
        f" AS {place.column}"
        for place in places
    )
    # Receipts hold ids, and the name of who erased.
    kept = " AND kind <> 'memory.erased'" if table == "memory_event" else ""
    return f"SELECT {counts} FROM reminiscence.{table} WHERE external_id = $(external_id)p{kept}"  # noqa: S608
