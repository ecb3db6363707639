"""Makes hits of the rows that searches read."""

from __future__ import annotations

import json
from uuid import UUID

from agent_reminiscence.database.connection import Row
from agent_reminiscence.database.repositories.memory_chunk import take_said_lines
from agent_reminiscence.domain.said import SaidFrom, said_starts


def with_metadata(rows: list[Row], external_id: str) -> list[Row]:
    """The rows of hits, each with whose it is and the metadata of its memory: parsed once for all chunks of one."""
    of_memory = {
        row["memory_id"]: json.loads(row["memory_metadata"]) for row in rows if row["memory_metadata"] is not None
    }
    for row in rows:
        row["memory_metadata"] = of_memory[row["memory_id"]]
        row["external_id"] = external_id
    return rows


def as_hit(row: Row) -> Row:
    """A row of `read_hits` with all fields of `SearchHit` except the score. Most rows do not become hits."""
    row.pop("memory_key", None)
    lines = take_said_lines(row)
    starts = said_starts(row["content"], lines)
    row["said_lines"] = tuple(
        SaidFrom(start=start, said_at=line.said_at) for start, line in zip(starts, lines, strict=True)
    )
    current_version, current_start = row.pop("current_version"), row.pop("current_start")
    if current_start is not None:
        row["memory_version"] = current_version
        row["span_start"], row["span_end"] = current_start, current_start + len(row["content"])
    row["metadata"] = json.loads(row["metadata"])
    if isinstance(row["memory_metadata"], str):
        row["memory_metadata"] = json.loads(row["memory_metadata"])
    row["derived_from"] = tuple(row["derived_from"] or ())
    row["chunk_id"], row["memory_id"] = UUID(row["chunk_id"]), UUID(row["memory_id"])
    return row
