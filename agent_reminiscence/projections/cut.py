"""`memory.cut`: pieces take the place of chunks; nothing that was said begins or ends by it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import count
from uuid import UUID

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.memory_chunk import NewPiece
from agent_reminiscence.database.repositories.repositories import Tables
from agent_reminiscence.domain.canonical import beside, sha256
from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.index import chunk_number
from agent_reminiscence.domain.memory import StoredChunk
from agent_reminiscence.domain.outdated import OutdatedMark
from agent_reminiscence.domain.payloads import ChunkCut, ChunkPiece, MemoryCut
from agent_reminiscence.domain.said import cut_said
from agent_reminiscence.projections.change import Change
from agent_reminiscence.projections.indexed_text import IndexedText, index_chunk
from agent_reminiscence.projections.texts import Reading, add_texts, lay_out
from agent_reminiscence.text.days import other_day_in
from agent_reminiscence.text.folding import fold_name, fold_text, without_speaker

# A chunk that is cut is taken back: from now on it is known to have held at no time, since its pieces did.
_NEVER = datetime.min.replace(tzinfo=UTC)


async def apply_cut(db: SqlExecutor, tables: Tables, event: Event) -> Change:
    """Store the pieces as their chunks are, and take these back.

    A piece is as its chunk was: live, a repetition of another one, or ended. What repeated the chunk stands for itself
    again, as after an edit.
    """
    payload = MemoryCut.model_validate(event.payload)
    external_id, memory_id = event.external_id, payload.memory_id
    memory = await tables.active.get_by_id(db, external_id, memory_id)
    layout = {chunk.chunk_id: chunk for chunk in await tables.chunks.get_layout(db, external_id, memory_id)}
    cuts = [cut for cut in payload.cuts if cut.chunk in layout]
    if not cuts:
        return Change()
    made = await beside(
        lambda: list(_pieces(event, cuts, layout, Reading.of(memory))),
        value=[layout[cut.chunk].content for cut in cuts],
    )
    pieces, indexed = [piece for piece, _ in made], [posted for _, posted in made]
    live = await tables.pieces.add_pieces(db, external_id, pieces, recorded_at=event.recorded_at)
    days = {piece.day for piece in pieces}
    await add_texts(
        db,
        tables,
        event,
        memory_id,
        title=memory.title,
        language=memory.language,
        days=days - await tables.index.find_heading_days(db, external_id, memory_id, memory.title),
        chunks=[read.posted(piece.number) for piece, read in zip(pieces, indexed, strict=True)],
    )
    await tables.active.cut(
        db, external_id, memory_id, {cut.chunk: [(piece.id, piece.start) for piece in cut.pieces] for cut in cuts}
    )
    old = [cut.chunk for cut in cuts]
    ended = await tables.chunks.end(db, external_id, old, recorded_at=event.recorded_at, ended_at=_NEVER)
    await tables.pieces.move_facts(db, external_id, memory_id, cuts)
    await tables.graph.copy_mentions(db, external_id, cuts, recorded_at=event.recorded_at, position=event.position)
    # Nothing ends with these, because the pieces say it.
    await tables.graph.end_mentions(
        db, external_id, old, ended_at=event.occurred_at, recorded_at=event.recorded_at, position=event.position
    )
    marks = await tables.outdated.read(db, external_id, old)
    await tables.outdated.add(
        db,
        external_id,
        _carry(marks, {cut.chunk: cut.pieces for cut in cuts}),
        position=event.position,
        recorded_at=event.recorded_at,
        only_live=False,
    )
    return await lay_out(db, tables, event, ended.memory_ids | {memory_id}, live_chunks=live - ended.live)


def _pieces(
    event: Event, cuts: Sequence[ChunkCut], layout: dict[UUID, StoredChunk], read: Reading
) -> Iterator[tuple[NewPiece, IndexedText]]:
    """The pieces with what is indexed of each, in the order of the event."""
    places = count()
    for cut in cuts:
        chunk = layout[cut.chunk]
        key = None if chunk.speaker is None else fold_name(chunk.speaker)
        for piece in cut.pieces:
            text = chunk.content[piece.start : piece.end]
            said_at, said_lines = cut_said(chunk.content, chunk.said_at, chunk.said_lines, piece.start, piece.end)
            indexed = index_chunk(
                text,
                language=read.language,
                zone=read.zone,
                said_at=said_at,
                said_lines=said_lines,
                speaker_key=key,
            )
            new = NewPiece(
                chunk_id=piece.id,
                piece_of=cut.chunk,
                number=chunk_number(event.position, next(places)),
                start=piece.start,
                end=piece.end,
                content=text,
                folded_hash=sha256(fold_text(without_speaker(text, chunk.speaker)).encode()),
                text_hash=indexed.text_hash,
                metadata=chunk.metadata,
                words=indexed.words,
                text_flags=indexed.flags,
                said_at=said_at,
                first_said=None if said_at == chunk.start_date else said_at,
                said_on=other_day_in(said_at, read.zone),
                said_lines=said_lines,
            )
            yield new, indexed


def _carry(marks: Sequence[OutdatedMark], cut: dict[UUID, tuple[ChunkPiece, ...]]) -> list[OutdatedMark]:
    """What was out of date of a chunk is so of its pieces; for a newer chunk, its longest piece speaks.

    The marks of the chunks themselves stay, for what was known before.
    """
    carried = []
    for mark in marks:
        newer = max(cut[mark.by], key=lambda piece: piece.end - piece.start).id if mark.by in cut else mark.by
        if mark.chunk_id not in cut:
            carried.append(mark._replace(by=newer))
            continue
        for piece in cut[mark.chunk_id]:
            start, end = (piece.start, piece.end) if mark.span is None else mark.span
            first, last = max(start, piece.start), min(end, piece.end)
            if first < last:
                is_whole = (first, last) == (piece.start, piece.end)
                span = None if is_whole else (first - piece.start, last - piece.start)
                carried.append(OutdatedMark(piece.id, span, mark.since, newer))
    return carried
