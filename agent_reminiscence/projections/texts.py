"""What several handlers do with a memory's text: index what comes in, and lay out what is there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, date, datetime
from uuid import UUID

from agent_reminiscence.database.postgres_manager import SqlExecutor
from agent_reminiscence.database.repositories.text_index import NewHeading, PostedText
from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.index import chunk_number
from agent_reminiscence.projections.indexed_text import index_heading
from agent_reminiscence.projections.tables import Change, Tables


def day_of(moment: datetime) -> date:
    """The day that a heading names, in UTC."""
    return moment.astimezone(UTC).date()


async def add_texts(
    db: SqlExecutor,
    tables: Tables,
    event: Event,
    memory_id: UUID,
    *,
    title: str,
    language: str,
    days: Iterable[date],
    chunks: Sequence[PostedText],
) -> list[NewHeading]:
    """Index what an event has brought in, and the headings above it that are not there yet.

    Args:
        days: Those of the text's chunks; each has a heading of its own.

    Returns:
        The headings, in order of their days.
    """
    missing = sorted(set(days))
    headings, posted = [], []
    for place, day in enumerate(missing):
        number = -chunk_number(event.position, place)
        indexed = index_heading(title, day, language=language)
        headings.append(NewHeading(number, day, indexed.words, indexed.text_hash))
        posted.append(indexed.posted(number))
    await tables.index.add_texts(db, event.external_id, memory_id, [*posted, *chunks], title=title, headings=headings)
    return headings


async def lay_out(
    db: SqlExecutor,
    tables: Tables,
    event: Event,
    memory_ids: Collection[UUID],
    *,
    live_chunks: int = 0,
    language: str | None = None,
) -> Change:
    """Lay out the texts of memories whose chunks an event has changed, and say what has changed by it."""
    if not memory_ids:
        return Change(live_chunks=live_chunks, language=language)
    totals = await tables.index.refresh_layouts(db, event.external_id, memory_ids)
    return Change(live_chunks, totals.chunks, totals.words, language, frozenset(memory_ids))
