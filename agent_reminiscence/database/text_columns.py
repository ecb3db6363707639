"""Every column of the database that may hold memory text: what an erasure must reach and a scan must read.

A test compares this list with the schema. It fails for a new column that could hold text and is not named here, so
that none can be added that an erasure does not know.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Holds(StrEnum):
    """What a column holds of a memory."""

    TEXT = "text"
    """Words given by a caller or derived from them. An erasure empties or deletes them; a scan reads them."""

    DERIVED = "derived"
    """A vector, hash or folded form of such words, no longer in their spelling. An erasure deletes it with them; a text
    scan does not read it."""

    PROOF = "proof"
    """A salted hash that stays, so that the chain remains valid; without its salt it reveals nothing."""

    LABEL = "label"
    """An id or a word from a closed vocabulary. It stays."""


class TextColumn(NamedTuple):
    """A column whose type could hold text."""

    table: str
    name: str
    holds: Holds
    is_json: bool = False


def _columns(table: str, **columns: Holds) -> tuple[TextColumn, ...]:
    return tuple(
        TextColumn(table, name, holds, is_json=name in {"payload", "metadata", "args", "citations"})
        for name, holds in columns.items()
    )


# Vector tables are alike, one per generation; they are listed under these names.
VECTOR_TABLE = "chunk_vector"
NORMS_TABLE = "chunk_norms"
CELL_TABLE = "vector_cell"

TEXT_COLUMNS: tuple[TextColumn, ...] = (
    # Errors are stored as their class and an object's id: an error's message may quote a memory.
    *_columns(
        "memory_stream",
        external_id=Holds.LABEL,
        chain=Holds.PROOF,
        languages=Holds.LABEL,
        failed_error=Holds.LABEL,
        vectors_error=Holds.LABEL,
        graph_store=Holds.LABEL,
    ),
    *_columns(
        "memory_event",
        external_id=Holds.LABEL,
        kind=Holds.LABEL,
        actor=Holds.TEXT,
        conversation_id=Holds.TEXT,
        source=Holds.LABEL,
        payload=Holds.TEXT,
        idempotency_key=Holds.TEXT,
        request_hash=Holds.DERIVED,
        salt=Holds.DERIVED,
        digest=Holds.PROOF,
        chain=Holds.PROOF,
        memory_id=Holds.LABEL,
    ),
    *_columns(
        "active_memory",
        external_id=Holds.LABEL,
        key=Holds.TEXT,
        title=Holds.TEXT,
        content=Holds.TEXT,
        description=Holds.TEXT,
        metadata=Holds.TEXT,
        language=Holds.LABEL,
        language_origin=Holds.LABEL,
        timezone=Holds.LABEL,
        source=Holds.LABEL,
        actor=Holds.TEXT,
        conversation_id=Holds.TEXT,
    ),
    *_columns("memory_segment", external_id=Holds.LABEL, content=Holds.TEXT, metadata=Holds.TEXT),
    *_columns("memory_turn", external_id=Holds.LABEL, turn_id=Holds.TEXT),
    *_columns("shortterm_memory", external_id=Holds.LABEL, title=Holds.TEXT, summary=Holds.TEXT),
    *_columns(
        "memory_chunk",
        external_id=Holds.LABEL,
        tier=Holds.LABEL,
        content=Holds.TEXT,
        folded_hash=Holds.DERIVED,
        text_hash=Holds.DERIVED,
        speaker=Holds.TEXT,
        speaker_key=Holds.DERIVED,
        metadata=Holds.TEXT,
        source=Holds.LABEL,
    ),
    *_columns("memory_heading", external_id=Holds.LABEL, title=Holds.TEXT, text_hash=Holds.DERIVED),
    # A term is a word without its ending, or the hash of a speaker, so a text scan would not find it; the entries tell
    # which texts have it.
    *_columns("posting", external_id=Holds.LABEL, term=Holds.DERIVED, entries=Holds.DERIVED),
    *_columns("memory_layout", external_id=Holds.LABEL, entries=Holds.DERIVED),
    # Values begin with a letter for their type; long ones are cut and end in a hash.
    *_columns("memory_attribute", external_id=Holds.LABEL, path=Holds.TEXT, value=Holds.TEXT),
    *_columns(VECTOR_TABLE, external_id=Holds.LABEL, vector=Holds.DERIVED),
    *_columns(NORMS_TABLE, external_id=Holds.LABEL, layout_hash=Holds.DERIVED, norms=Holds.DERIVED),
    *_columns(CELL_TABLE, external_id=Holds.LABEL, vector=Holds.DERIVED),
    *_columns(
        "embedding_cache",
        external_id=Holds.LABEL,
        model_name=Holds.LABEL,
        text_hash=Holds.DERIVED,
        vector=Holds.DERIVED,
    ),
    *_columns("chunk_use", external_id=Holds.LABEL),
    *_columns("recall_day", external_id=Holds.LABEL),
    # A type may be any string, from a caller or a model.
    *_columns(
        "entity",
        external_id=Holds.LABEL,
        tier=Holds.LABEL,
        name=Holds.TEXT,
        type=Holds.TEXT,
        description=Holds.TEXT,
        metadata=Holds.TEXT,
    ),
    *_columns("entity_name", external_id=Holds.LABEL, key=Holds.DERIVED, name=Holds.TEXT),
    *_columns(
        "relationship",
        external_id=Holds.LABEL,
        tier=Holds.LABEL,
        type=Holds.TEXT,
        description=Holds.TEXT,
        metadata=Holds.TEXT,
    ),
    *_columns("graph_mention", external_id=Holds.LABEL),
    *_columns("belief", external_id=Holds.LABEL, actor=Holds.TEXT, text=Holds.TEXT),
    # Citations hold ids only.
    *_columns(
        "profile",
        external_id=Holds.LABEL,
        name=Holds.TEXT,
        question=Holds.TEXT,
        refresh=Holds.LABEL,
        content=Holds.TEXT,
        citations=Holds.LABEL,
        made_by=Holds.LABEL,
        model=Holds.LABEL,
        source=Holds.LABEL,
        cited_source=Holds.LABEL,
    ),
    # A kind is a word of the caller's, as in the ledger.
    *_columns("recalled_chunk", external_id=Holds.LABEL, run_id=Holds.TEXT),
    *_columns("outdated_chunk", external_id=Holds.LABEL),
    *_columns(
        "event_index",
        external_id=Holds.LABEL,
        kind=Holds.LABEL,
        actor=Holds.TEXT,
        actor_key=Holds.DERIVED,
        text_hash=Holds.DERIVED,
    ),
    *_columns("event_posting", external_id=Holds.LABEL, term=Holds.DERIVED, entries=Holds.DERIVED),
    # Keys of the server: the words of an administrator, and the hash of a random secret. They are no memory, so an
    # erasure leaves them, and has no right to them.
    *_columns(
        "access_key",
        secret_hash=Holds.LABEL,
        external_id=Holds.LABEL,
        also_reads=Holds.LABEL,
        scopes=Holds.LABEL,
        label=Holds.LABEL,
    ),
    # Tables of the schema itself, which belong to no external_id.
    *_columns("schema_migration", name=Holds.LABEL, checksum=Holds.LABEL),
    *_columns("schema_parameter", name=Holds.LABEL, value=Holds.LABEL),
    *_columns(
        "embedding_generation", model_name=Holds.LABEL, state=Holds.LABEL, provider=Holds.LABEL, model=Holds.LABEL
    ),
    # Procrastinate's tables. A job names, in its arguments and its lock, the stream whose work is due, and nothing
    # else; so neither an erasure nor a scan needs to look there, nor has the right to.
    *_columns(
        "procrastinate_jobs",
        queue_name=Holds.LABEL,
        task_name=Holds.LABEL,
        lock=Holds.LABEL,
        queueing_lock=Holds.LABEL,
        args=Holds.LABEL,
        status=Holds.LABEL,
    ),
    *_columns("procrastinate_periodic_defers", task_name=Holds.LABEL, periodic_id=Holds.LABEL),
    *_columns("procrastinate_events", type=Holds.LABEL),
)


def scanned_columns() -> dict[str, tuple[TextColumn, ...]]:
    """Return the columns in which a scan looks for a text, by table."""
    tables: dict[str, list[TextColumn]] = {}
    for column in TEXT_COLUMNS:
        if column.holds is Holds.TEXT:
            tables.setdefault(column.table, []).append(column)
    return {table: tuple(columns) for table, columns in tables.items()}
