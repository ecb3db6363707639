"""What several handlers do with a memory's text: index what is added and rebuild layouts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, tzinfo
from typing import NamedTuple, Self
from uuid import UUID

from agent_reminiscence.config.timezones import stored_zone
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.memory_chunk import StoredText
from agent_reminiscence.database.repositories.repositories import Tables
from agent_reminiscence.database.repositories.text_index import NewHeading, PostedText
from agent_reminiscence.domain.canonical import beside
from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.index import chunk_number
from agent_reminiscence.domain.memory import StoredMemory
from agent_reminiscence.projections.change import Change
from agent_reminiscence.projections.indexed_text import IndexedText, index_chunk, index_fact, index_heading
from agent_reminiscence.text.days import day_of, other_day_in

# How many texts are reindexed in another language at a time.
_TEXTS_PER_STEP = 1_000


class Reading(NamedTuple):
    """How the words of a memory are read: its language, and the zone of its days."""

    language: str
    zone: tzinfo

    @classmethod
    def of(cls, memory: StoredMemory) -> Self:
        """How a stored memory is read."""
        return cls(memory.language, stored_zone(memory.timezone))


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
    first: int = 0,
) -> list[NewHeading]:
    """Index the chunks an event added, and the headings above them that do not exist yet.

    Args:
        days: The days of the text's chunks; each has its own heading.
        first: How many headings the event has added before.

    Returns:
        The headings, in order of day.
    """
    missing = sorted(set(days))
    headings, posted = [], []
    for index, day in enumerate(missing, start=first):
        number = -chunk_number(event.position, index)
        indexed = index_heading(title, day, language=language)
        headings.append(NewHeading(number, day, indexed.words, indexed.text_hash))
        posted.append(indexed.posted(number))
    await tables.index.add_texts(db, event.external_id, memory_id, [*posted, *chunks], title=title, headings=headings)
    return headings


async def reread(
    db: SqlExecutor, tables: Tables, event: Event, memory_id: UUID, *, before: Reading, after: Reading
) -> int:
    """Reindex a memory in another language or zone: chunks and facts, including ended ones, and headings.

    Each then has the terms it would have had if it had been read so from the start. A fact keeps its date.

    Args:
        before: As it is indexed now.
        after: The new one.

    Returns:
        How many headings the event has added.
    """
    external_id, number = event.external_id, 0
    days: defaultdict[date, set[date]] = defaultdict(set)
    while texts := await tables.chunks.get_texts(db, external_id, memory_id, after=number, limit=_TEXTS_PER_STEP):
        number = texts[-1].number
        old, new = await beside(
            lambda: ([_index(text, before) for text in texts], [_index(text, after) for text in texts]),
            value=[text.content for text in texts],
        )
        await tables.index.replace_texts(
            db,
            external_id,
            [read.posted(text.number) for text, read in zip(texts, old, strict=True)],
            [read.posted(text.number) for text, read in zip(texts, new, strict=True)],
        )
        await tables.chunks.reread(
            db,
            external_id,
            {
                text.chunk_id: (read.words, read.flags, _said_on(text, after.zone))
                for text, read in zip(texts, new, strict=True)
            },
        )
        for text in texts:
            if not text.is_fact:
                days[day_of(text.said_at, before.zone)].add(day_of(text.said_at, after.zone))
    headings = await tables.index.get_headings(db, external_id, memory_id)
    read_before = [
        index_heading(title, day, language=before.language).posted(number) for number, day, title in headings
    ]
    read_after = [index_heading(title, day, language=after.language).posted(number) for number, day, title in headings]
    await tables.index.replace_texts(db, external_id, read_before, read_after)
    await tables.index.reread_headings(db, external_id, {text.number: text.words for text in read_after})
    return await _add_headings(db, tables, event, memory_id, headings, days, language=after.language)


async def _add_headings(
    db: SqlExecutor,
    tables: Tables,
    event: Event,
    memory_id: UUID,
    headings: Sequence[tuple[int, date, str]],
    days: Mapping[date, set[date]],
    *,
    language: str,
) -> int:
    """Add the headings of days to which chunks have moved, also under titles that the memory once had.

    What was above a chunk at an earlier moment is then above it still.

    Args:
        headings: Number, day and title of those that there are.
        days: The new days of the chunks that were said on each day.

    Returns:
        How many were added.
    """
    by_title: defaultdict[str, set[date]] = defaultdict(set)
    for _, day, title in headings:
        by_title[title].add(day)
    added = 0
    for title, known in sorted(by_title.items()):
        wanted = {new for day in known for new in days.get(day, ())} - known
        if wanted:
            added += len(
                await add_texts(
                    db, tables, event, memory_id, title=title, language=language, days=wanted, chunks=(), first=added
                )
            )
    return added


def _index(text: StoredText, read: Reading) -> IndexedText:
    if text.is_fact:
        return index_fact(text.content, text.said_on or day_of(text.start_date), language=read.language)
    return index_chunk(
        text.content,
        language=read.language,
        zone=read.zone,
        said_at=text.said_at,
        said_lines=text.said_lines,
        speaker_key=text.speaker_key,
    )


def _said_on(text: StoredText, zone: tzinfo) -> date | None:
    # A fact has its date in its text.
    return text.said_on if text.is_fact else other_day_in(text.said_at, zone)


async def lay_out(
    db: SqlExecutor,
    tables: Tables,
    event: Event,
    memory_ids: Collection[UUID],
    *,
    live_chunks: int = 0,
    language: str | None = None,
    from_segment: int = 0,
) -> Change:
    """Rebuild the layouts of memories whose chunks an event changed; returns the resulting change in counts.

    Args:
        from_segment: Before it nothing has changed, and no fact if it is above 0.
    """
    if not memory_ids:
        return Change(live_chunks=live_chunks, language=language)
    totals = await tables.index.refresh_layouts(db, event.external_id, memory_ids, from_segment=from_segment)
    return Change(live_chunks, totals.chunks, totals.words, language, frozenset(memory_ids))
