"""Both times at once: what was true in the world, and what the memory knew of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from starlette.responses import Response

from agent_reminiscence.domain.event import EventKind
from agent_reminiscence.domain.graph import Subgraph
from agent_reminiscence.domain.history import MemoryVersion
from agent_reminiscence.domain.memory import ActiveMemory
from agent_reminiscence.domain.retrieval import RetrievalResult
from agent_reminiscence.exceptions import EntityNotFoundError, InvalidInputError, MemoryNotFoundError
from agent_reminiscence.server.inspector.drawing import as_drawn, known_by
from agent_reminiscence.server.inspector.passages import version_of
from agent_reminiscence.server.inspector.reading import everything
from agent_reminiscence.server.inspector.texts import Row, compare
from agent_reminiscence.server.inspector.visits import Visit

_MOST_EVENTS: Final = 10_000
_MOST_TICKS: Final = 400
_HITS: Final = 5
_LISTED: Final = 100
_CHANGES: Final = (
    EventKind.CREATED, EventKind.UPDATED, EventKind.APPENDED, EventKind.ARCHIVED, EventKind.UNARCHIVED,
    EventKind.CONSOLIDATED, EventKind.ENDED, EventKind.OUTDATED, EventKind.RELATIONSHIP_ENDED,
    EventKind.ENTITIES_MERGED, EventKind.ENTITIES_UNMERGED, EventKind.ENTITY_STATED, EventKind.RELATIONSHIP_STATED,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ticks:
    """The moments that a slider stops at: those at which something changed, and its end, which is now.

    Attributes:
        chosen: The place of the moment that is asked about; the last one is now.
    """

    moments: Sequence[datetime]
    chosen: int

    @property
    def as_json(self) -> str:
        """The moments, for the script of the slider."""
        return json.dumps([moment.astimezone(UTC).isoformat() for moment in self.moments])


@dataclass(frozen=True, slots=True)
class Text:
    """A memory as it was then, beside what it says now."""

    then: MemoryVersion | None
    now: MemoryVersion
    rows: Sequence[Row]


async def show(visit: Visit) -> Response:
    """The sliders, and under them list, text, search and graph at the moment they stand at."""
    given = visit.given
    wrong = None
    as_of = known_at = None
    memories: list[ActiveMemory] = []
    text, found, drawn, note = None, None, None, None
    try:
        as_of, known_at = given.moment("as_of"), given.moment("known_at")
        memories = await visit.memory.admin.active_memories(visit.tenant, as_of=as_of, known_at=known_at)
        text = await _text(visit, as_of, known_at)
        found = await _search(visit, as_of, known_at)
        drawn, note = await _graph(visit, as_of, known_at)
    except InvalidInputError as error:
        wrong = str(error)
    # A slider that moves asks for what is below it, and keeps its own moments.
    is_part = visit.request.headers.get("hx-request") == "true"
    events = [] if is_part else await everything(visit.memory, visit.tenant, most=_MOST_EVENTS)
    told = [event for event in events if event.kind in _CHANGES]
    return visit.show(
        "time.html",
        status=200 if wrong is None else 400,
        wrong=wrong,
        as_of=as_of,
        known_at=known_at,
        world=_ticks(sorted({event.occurred_at for event in told}), as_of),
        system=_ticks([event.recorded_at for event in told], known_at),
        is_cut=len(events) == _MOST_EVENTS,
        memories=memories[:_LISTED],
        count=len(memories),
        text=text,
        found=found,
        graph=None if drawn is None else as_drawn(drawn),
        subgraph=drawn,
        note=note,
    )


async def _text(visit: Visit, as_of: datetime | None, known_at: datetime | None) -> Text | None:
    memory_id = visit.given.uuid("memory")
    if memory_id is None:
        return None
    try:
        history = await visit.memory.admin.history(visit.tenant, memory_id)
    except MemoryNotFoundError:
        raise InvalidInputError(f"there is no memory {memory_id}; it may have been erased") from None
    then = history.at(as_of=as_of, known_at=known_at)
    now = version_of(history, history.versions[-1].version)
    rows = await asyncio.to_thread(compare, "" if then is None else then.content, now.content)
    return Text(then, now, rows)


async def _search(visit: Visit, as_of: datetime | None, known_at: datetime | None) -> RetrievalResult | None:
    query = visit.given.text("q")
    if query is None:
        return None
    found = await visit.memory.retrieve_memories(
        visit.tenant, query, limit=_HITS, as_of=as_of, known_at=known_at, synthesis=False
    )
    visit.recalled(found)
    return found


async def _graph(visit: Visit, as_of: datetime | None, known_at: datetime | None) -> tuple[Subgraph | None, str | None]:
    """What lies around a name, as it was then; with a note if the name means nothing, or too much."""
    name = visit.given.text("name")
    if name is None:
        return None, None
    graph = visit.memory.admin.graph
    try:
        found = await graph.neighbourhood(visit.tenant, name, hops=2, at=as_of or known_at, limit=60)
    except EntityNotFoundError:
        return None, f"No memory names {name!r}."
    if known_at is None:
        return found, None
    position = await _position_at(visit, known_at)
    return known_by(found, position), None


async def _position_at(visit: Visit, known_at: datetime) -> int:
    """The last position that was recorded by a moment: positions and times of recording grow together."""
    first, last = 0, await visit.memory.ledger.head(visit.tenant)
    while first < last:
        middle = (first + last + 1) // 2
        (event,) = await visit.memory.ledger.read(visit.tenant, after=middle - 1, limit=1)
        if event.recorded_at <= known_at:
            first = middle
        else:
            last = middle - 1
    return first


def _ticks(moments: Sequence[datetime], chosen: datetime | None) -> Ticks:
    step = max(1, -(-len(moments) // _MOST_TICKS))
    kept = list(moments[::step])
    if moments and kept[-1] != moments[-1]:
        kept.append(moments[-1])
    if chosen is None:
        return Ticks(kept, len(kept))
    before = [index for index, moment in enumerate(kept) if moment <= chosen]
    return Ticks(kept, before[-1] if before else 0)
