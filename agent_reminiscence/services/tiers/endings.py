"""Plans what ends and what is marked as out of date, given what a model has shown to be over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from uuid_utils.compat import uuid7

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.chunk_piece import ChunkText, NamedItem
from agent_reminiscence.domain.payloads import (
    ChunkCut,
    ChunkPiece,
    Duplicate,
    MemoryConsolidated,
    MemoryCut,
    MemoryEnded,
    MemoryOutdated,
    OutdatedPart,
)
from agent_reminiscence.domain.trust import SOURCES, may_end
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.services.tiers.cutting import cut_regions, items_of_pieces, same_span, shares
from agent_reminiscence.services.tiers.plan import Draft, PlannedEnds
from agent_reminiscence.services.tiers.proposal import PlannedEnding


class _Piece(NamedTuple):
    """A part of a chunk.

    Attributes:
        ending: By which it ends; None: it stays.
    """

    id: UUID
    start: int
    end: int
    ending: PlannedEnding | None


@dataclass(frozen=True, slots=True)
class _Divided:
    """A chunk as its endings divide it: a single piece, which is the chunk itself, if nothing of it ends."""

    chunk: ChunkText
    pieces: Sequence[_Piece]

    @property
    def stays(self) -> list[_Piece]:
        """The pieces that stay."""
        return [piece for piece in self.pieces if piece.ending is None]

    @property
    def over(self) -> list[_Piece]:
        """The pieces that end."""
        return [piece for piece in self.pieces if piece.ending is not None]

    @property
    def endings(self) -> list[PlannedEnding]:
        """By which pieces end, in the order in which they were said."""
        endings = {id(piece.ending): piece.ending for piece in self.pieces if piece.ending is not None}
        return sorted(endings.values(), key=lambda ending: ending.said_at)

    def texts(self, pieces: Sequence[_Piece]) -> list[str]:
        """The words of pieces."""
        return [self.chunk.content[piece.start : piece.end] for piece in pieces]


class _Over(NamedTuple):
    """A chunk that is over by an ending; all of it without a span."""

    chunk: ChunkText
    ending: PlannedEnding
    span: tuple[int, int] | None

    @property
    def characters(self) -> tuple[int, int]:
        """What is over of it."""
        return self.span or (0, len(self.chunk.content))


class EndingPlanner:
    """Turns the endings of a proposal into events, under the stream's lock."""

    def __init__(self, runtime: Runtime) -> None:
        self._tables = runtime.repositories.tables
        self._lifecycle = runtime.repositories.live_chunks

    async def plan(self, db: SqlExecutor, draft: Draft, plan: MemoryConsolidated, *, moment: datetime) -> PlannedEnds:
        """What is over of the chunks that are live now.

        What the plan's memory says once more does not end, and what has ended as a repetition need not end again.
        """
        external_id = draft.memory.external_id
        repeated = {chunk_id for pair in plan.duplicates for chunk_id in (pair.id, pair.duplicate_of)}
        proposed: defaultdict[UUID, list[PlannedEnding]] = defaultdict(list)
        for ending in draft.proposal.endings:
            if ending.chunk_id not in repeated:
                proposed[ending.chunk_id].append(ending)
        live = await self._lifecycle.read_live(db, external_id, list(proposed)) if proposed else []
        if not live:
            return PlannedEnds()
        texts = await self._tables.pieces.read_contents(db, external_id, [chunk.chunk_id for chunk in live])
        events = _Events(draft, plan)
        soft: list[_Over] = []
        whole: list[_Over] = []
        divided: dict[UUID, _Divided] = {}
        for chunk in texts:
            hard = [_Over(chunk, one, one.span) for one in proposed[chunk.chunk_id] if one.is_hard]
            own = _divide(chunk, hard)
            if not own.stays:
                whole.append(hard[-1])
                continue
            divided[chunk.chunk_id] = own
            soft += [_Over(chunk, one, one.span) for one in proposed[chunk.chunk_id] if not one.is_hard]
            for follower in await self._find_followers(db, events, hard):
                parts = [one for one in follower if one.span is not None]
                divided.setdefault(follower[0].chunk.chunk_id, _divide(follower[0].chunk, parts))
                soft += [one for one in follower if one.span is None]
        marked = [one for one in soft if await self._may_mark(db, events, one, moment)]
        # First, so that what ends names the pieces of newer chunks that are cut themselves.
        await self._add_cuts(db, events, [one for one in divided.values() if one.over])
        for one in whole:
            await self._end_whole(db, events, one.chunk, one.ending)
        for one in marked:
            await self._add_mark(db, events, one, divided[one.chunk.chunk_id])
        return events.all

    async def _end_whole(self, db: SqlExecutor, events: _Events, chunk: ChunkText, ending: PlannedEnding) -> None:
        repetitions = await self._find_repetitions(db, events, chunk.chunk_id, ending)
        events.end(chunk.memory_id, ending, (chunk.chunk_id,), repetitions)

    async def _find_repetitions(
        self, db: SqlExecutor, events: _Events, chunk_id: UUID, ending: PlannedEnding
    ) -> list[Duplicate]:
        """The repetitions that end with a chunk: not one said after the contradiction, or trusted more."""
        by = events.draft.chunks[ending.by]
        return await self._lifecycle.find_repetitions(
            db,
            events.draft.memory.external_id,
            [chunk_id],
            said_by=ending.said_at,
            sources=[source for source in SOURCES if may_end(by.source, [source])],
        )

    async def _find_followers(self, db: SqlExecutor, events: _Events, hard: Sequence[_Over]) -> list[list[_Over]]:
        """What repeats a chunk that is cut, and would stand for itself from then on, with its own parts that are over.

        One that holds other words than can be told apart has no span: it is marked and not cut.
        """
        over: defaultdict[UUID, list[_Over]] = defaultdict(list)
        for one in hard:
            for repetition in await self._find_repetitions(db, events, one.chunk.chunk_id, one.ending):
                over[repetition.id].append(one)
        external_id = events.draft.memory.external_id
        others = await self._tables.pieces.read_contents(db, external_id, list(over)) if over else []
        return [
            [_Over(other, one.ending, same_span(one.chunk, one.characters, other)) for one in over[other.chunk_id]]
            for other in others
        ]

    async def _may_mark(self, db: SqlExecutor, events: _Events, one: _Over, moment: datetime) -> bool:
        """Whether a chunk may be marked: not if it was said again since, or by who is trusted more, or is marked."""
        external_id, chunk_id = events.draft.memory.external_id, one.chunk.chunk_id
        ending = await self._find_repetitions(db, events, chunk_id, one.ending)
        if len(ending) < len(await self._lifecycle.find_repetitions(db, external_id, [chunk_id])):
            return False
        start, end = one.characters
        marks = await self._tables.outdated.find(db, external_id, [chunk_id], known_at=moment)
        return not any(mark.span is None or (mark.span[0] <= start and end <= mark.span[1]) for mark in marks)

    async def _add_cuts(self, db: SqlExecutor, events: _Events, cuts: Sequence[_Divided]) -> None:
        """Cut chunks, end the pieces that are over, and mark the facts that rest on both parts."""
        if not cuts:
            return
        chunk_ids = [one.chunk.chunk_id for one in cuts]
        items = events.new_items(chunk_ids)
        for item in await self._tables.pieces.find_items(db, events.draft.memory.external_id, chunk_ids):
            items[item.chunk_id].append(item)
        by_memory: defaultdict[UUID, list[ChunkCut]] = defaultdict(list)
        facts = {one.chunk.chunk_id: await self._find_facts(db, events, one.chunk) for one in cuts}
        for one in cuts:
            cut = _cut(one, items[one.chunk.chunk_id], facts[one.chunk.chunk_id])
            by_memory[one.chunk.memory_id].append(cut)
        events.all.cuts += [MemoryCut(memory_id=memory_id, cuts=tuple(own)) for memory_id, own in by_memory.items()]
        events.divided |= {one.chunk.chunk_id: one for one in cuts}
        for one in cuts:
            for ending in one.endings:
                over = tuple(piece.id for piece in one.pieces if piece.ending is ending)
                events.end(one.chunk.memory_id, ending, over)
            for fact_id, content in facts[one.chunk.chunk_id]:
                share = shares(content, one.texts(one.over), one.texts(one.stays))
                if share.rest and share.over >= share.rest:
                    events.mark(one.chunk.memory_id, one.endings[-1], OutdatedPart(chunk=fact_id))

    async def _add_mark(self, db: SqlExecutor, events: _Events, one: _Over, divided: _Divided) -> None:
        """Mark what stays of a chunk that is probably out of date, and the facts that say the same."""
        for piece in divided.stays:
            part = _part(piece, one.characters)
            if part is not None:
                events.mark(one.chunk.memory_id, one.ending, part)
        start, end = one.characters
        content = one.chunk.content
        for fact_id, fact in await self._find_facts(db, events, one.chunk):
            share = shares(fact, [content[start:end]], [content[:start], content[end:]])
            if one.span is None or (share.over and share.over >= share.rest):
                events.mark(one.chunk.memory_id, one.ending, OutdatedPart(chunk=fact_id))

    async def _find_facts(self, db: SqlExecutor, events: _Events, chunk: ChunkText) -> list[tuple[UUID, str]]:
        """The facts that rest on a chunk, stored or new, with what they say."""
        stored = await self._tables.pieces.find_resting_facts(
            db, events.draft.memory.external_id, chunk.memory_id, [chunk.chunk_id]
        )
        return [(fact.chunk_id, fact.content) for fact in stored] + events.new_facts(chunk.chunk_id)


class _Events:
    """The events of one plan, while they are put together."""

    def __init__(self, draft: Draft, plan: MemoryConsolidated) -> None:
        self.draft = draft
        self._plan = plan
        self.all = PlannedEnds()
        # Chunks that are cut.
        self.divided: dict[UUID, _Divided] = {}

    def new_items(self, chunk_ids: Iterable[UUID]) -> defaultdict[UUID, list[NamedItem]]:
        """What the plan finds named in some of its chunks, by chunk."""
        wanted = set(chunk_ids)
        items: defaultdict[UUID, list[NamedItem]] = defaultdict(list)
        graph = self._plan.graph
        named: list[tuple[tuple[int, ...], UUID, tuple[str, ...], tuple[UUID, UUID] | None]] = []
        named += [(one.chunks, one.id, (one.name, *one.aliases), None) for one in graph.entities]
        named += [(one.chunks, one.id, (), (one.from_id, one.to_id)) for one in graph.relationships]
        for indexes, item_id, names, ends in named:
            for chunk_id in {self._plan.chunks[index].id for index in indexes} & wanted:
                items[chunk_id].append(NamedItem(chunk_id, item_id, names, ends))
        return items

    def new_facts(self, chunk_id: UUID) -> list[tuple[UUID, str]]:
        """The plan's own facts that rest on a chunk."""
        return [
            (fact.id, fact.content)
            for fact in self._plan.facts
            if any(self._plan.chunks[index].id == chunk_id for index in fact.chunks)
        ]

    def end(
        self, memory_id: UUID, ending: PlannedEnding, chunks: tuple[UUID, ...], repetitions: Sequence[Duplicate] = ()
    ) -> None:
        """End some chunks of a memory."""
        payload = MemoryEnded(
            memory_id=memory_id,
            reason="replaced",
            chunks=chunks,
            duplicates=tuple(repetitions),
            by=(self._newer(ending),),
            why=ending.why,
            rests_on=self._rests_on(memory_id),
        )
        self.all.ended.append((payload, ending.said_at))

    def mark(self, memory_id: UUID, ending: PlannedEnding, part: OutdatedPart) -> None:
        """Mark a part of a memory's text, together with what else the same ending marks of it."""
        by = self._newer(ending)
        for place, (payload, since) in enumerate(self.all.outdated):
            if (payload.memory_id, payload.by, payload.why, since) == (memory_id, by, ending.why, ending.said_at):
                if part not in payload.parts:
                    longer = payload.model_copy(update={"parts": (*payload.parts, part)})
                    self.all.outdated[place] = (longer, since)
                return
        payload = MemoryOutdated(
            memory_id=memory_id, parts=(part,), by=by, why=ending.why, rests_on=self._rests_on(memory_id)
        )
        self.all.outdated.append((payload, ending.said_at))

    def _newer(self, ending: PlannedEnding) -> UUID:
        """The newer chunk; if it is cut itself, what stays of it."""
        by = self.draft.chunks[ending.by].chunk_id
        if by not in self.divided:
            return by
        return max(self.divided[by].stays, key=lambda piece: piece.end - piece.start).id

    def _rests_on(self, memory_id: UUID) -> tuple[UUID, ...]:
        return tuple(sorted({self.draft.memory.memory_id, *self.draft.proposal.rests_on} - {memory_id}))


def _divide(chunk: ChunkText, hard: Sequence[_Over]) -> _Divided:
    """Divide a chunk by what of it ends; nothing of it stays where all of its words are over."""
    parts = [one for one in hard if one.chunk is chunk and one.span is not None]
    whole = [one for one in hard if one.span is None]
    if whole or not parts:
        ending = whole[-1].ending if whole else None
        return _Divided(chunk, (_Piece(chunk.chunk_id, 0, len(chunk.content), ending),))
    regions = cut_regions(chunk, [one.characters for one in parts])
    if len(regions) == 1 and regions[0].owner is None:
        # The spans hold no characters.
        return _Divided(chunk, (_Piece(chunk.chunk_id, 0, len(chunk.content), None),))
    return _Divided(
        chunk,
        [_Piece(uuid7(), start, end, None if owner is None else parts[owner].ending) for start, end, owner in regions],
    )


def _cut(divided: _Divided, items: Sequence[NamedItem], facts: Sequence[tuple[UUID, str]]) -> ChunkCut:
    """How a chunk is cut, with what each piece names and supports."""
    named = items_of_pieces(divided.texts(divided.pieces), items, speaker=divided.chunk.speaker)
    bases = {fact_id: _basis(divided, content) for fact_id, content in facts}
    return ChunkCut(
        chunk=divided.chunk.chunk_id,
        pieces=tuple(
            ChunkPiece(
                id=piece.id,
                start=piece.start,
                end=piece.end,
                items=own,
                facts=tuple(fact_id for fact_id, basis in bases.items() if piece.id in basis),
            )
            for piece, own in zip(divided.pieces, named, strict=True)
        ),
    )


def _basis(divided: _Divided, fact: str) -> set[UUID]:
    """The pieces that a fact rests on from now on.

    It goes with what is over only if nothing of it stands in the rest: that the rest stays, does not make it wrong.
    """
    over, rest = divided.texts(divided.over), divided.texts(divided.stays)
    share = shares(fact, over, rest)
    if share.over and not share.rest:
        pieces, others = divided.over, rest
    else:
        pieces, others = divided.stays, over
    telling = [piece for piece in pieces if shares(fact, divided.texts([piece]), others).over]
    return {piece.id for piece in telling or pieces}


def _part(piece: _Piece, characters: tuple[int, int]) -> OutdatedPart | None:
    """What is out of date of a piece; None if nothing is."""
    start, end = max(piece.start, characters[0]), min(piece.end, characters[1])
    if start >= end:
        return None
    if (start, end) == (piece.start, piece.end):
        return OutdatedPart(chunk=piece.id)
    return OutdatedPart(chunk=piece.id, start=start - piece.start, end=end - piece.start)
