"""A memory as its events leave it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from agent_reminiscence.domain.event import Event, EventKind
from agent_reminiscence.domain.memory import ActiveMemory, WriteOutcome
from agent_reminiscence.domain.payloads import (
    ChunkEntry,
    MemoryAppended,
    MemoryConsolidated,
    MemoryCreated,
    MemoryCut,
    MemoryUpdated,
)
from agent_reminiscence.domain.trust import least_trusted


def fold(events: Sequence[Event], updates_left: Callable[[int, int], int]) -> ActiveMemory:
    """Fold `events`, all of one memory and in order, into that memory; `write` is the outcome of the last one.

    Raises:
        ValueError: The first event does not create a memory.
    """
    first, *later = events
    if first.kind != EventKind.CREATED:
        raise ValueError(f"the first event of a memory must be {EventKind.CREATED}, not {first.kind}")
    created = MemoryCreated.model_validate(first.payload)
    state: dict[str, Any] = {
        "id": created.memory_id,
        "external_id": first.external_id,
        "key": created.key,
        "version": 1,
        "title": created.title,
        "content": created.content,
        "description": created.description,
        "metadata": created.metadata,
        "language": created.language,
        "timezone": created.timezone,
        "pinned": created.pinned,
        "expires_at": created.expires_at,
        "created_at": first.recorded_at,
        "archived_at": None,
        "consolidated_version": 0,
    }
    state |= _provenance(first)
    write = outcome_of(first, created.chunks, 0, due=created.consolidation_due)
    # The labels of the text's chunks.
    sources = {chunk.id: chunk.source or first.source for chunk in created.chunks}
    state["source"] = least_trusted(sources.values() or [first.source])
    live = len(created.chunks)
    for event in later:
        match event.kind:
            case EventKind.UPDATED:
                updated = MemoryUpdated.model_validate(event.payload)
                state |= {**updated.changes, "version": updated.version, **_provenance(event, state["conversation_id"])}
                state["language"] = updated.language or state["language"]
                state["timezone"] = updated.timezone or state["timezone"]
                sources = {
                    chunk.id: chunk.source or event.source if chunk.new else sources[chunk.id]
                    for chunk in updated.chunks
                }
                state["source"] = least_trusted(sources.values() or [event.source])
                write = outcome_of(event, updated.chunks, live, due=updated.consolidation_due)
                live = len(updated.chunks)
            case EventKind.APPENDED:
                appended = MemoryAppended.model_validate(event.payload)
                state |= {"version": appended.version, **_provenance(event, state["conversation_id"])}
                state["content"] += appended.content
                if appended.turns:
                    turns = [*(state["metadata"].get("turns") or []), *appended.turns]
                    state["metadata"] = state["metadata"] | {"turns": turns}
                state["language"] = appended.language or state["language"]
                sources |= {chunk.id: event.source for chunk in appended.chunks}
                state["source"] = least_trusted([state["source"], event.source])
                write = outcome_of(event, appended.chunks, live, due=appended.consolidation_due, appends=True)
                live += len(appended.chunks)
            case EventKind.CUT:
                for cut in MemoryCut.model_validate(event.payload).cuts:
                    sources |= {piece.id: sources[cut.chunk] for piece in cut.pieces}
                    live += len(cut.pieces) - 1
            case EventKind.ARCHIVED:
                state["archived_at"] = state["archived_at"] or event.recorded_at
            case EventKind.UNARCHIVED:
                state["archived_at"] = None
            case EventKind.CONSOLIDATED:
                state["consolidated_version"] = MemoryConsolidated.model_validate(event.payload).version
    left = updates_left(state["version"], state["consolidated_version"])
    return ActiveMemory(**state, updates_until_consolidation=left, write=write)


def _provenance(event: Event, conversation_id: str | None = None) -> dict[str, Any]:
    """Who wrote what, when; a write that names no conversation leaves the memory in its own."""
    return {
        "actor": event.actor,
        "conversation_id": event.conversation_id or conversation_id,
        "occurred_at": event.occurred_at,
        "updated_at": event.recorded_at,
    }


def outcome_of(
    event: Event, chunks: Sequence[ChunkEntry], before: int, *, due: bool, appends: bool = False
) -> WriteOutcome:
    """What a write did, as its caller is told.

    Args:
        before: How many chunks the text had.
        appends: Whether `chunks` are only those that were added.
    """
    added = sum(chunk.new for chunk in chunks)
    kept = before if appends else len(chunks) - added
    return WriteOutcome(
        event_id=event.event_id,
        position=event.position,
        chunks_added=added,
        chunks_kept=kept,
        chunks_ended=before - kept,
        vectors_missing=0,
        consolidation_queued=due,
        redactions=event.redactions,
    )
