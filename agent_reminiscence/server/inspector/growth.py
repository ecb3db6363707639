"""How a memory grew: passages by tier, and tokens spent by day, as its events tell."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from agent_reminiscence.config.constants import TIERS
from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.event import Event, EventKind
from agent_reminiscence.server.inspector.reading import everything

_KEPT_TENANTS: Final = 8
# Some ten seconds of reading; a chart of more says up to where it goes.
MOST_EVENTS: Final = 50_000
_MOST_POINTS: Final = 600


@dataclass(frozen=True, slots=True)
class Point:
    """How many passages each tier had after an event."""

    position: int
    recorded_at: datetime
    counts: tuple[int, ...]


@dataclass(slots=True)
class _Live:
    tier: str
    memory_id: UUID
    derived_from: frozenset[UUID] = frozenset()


@dataclass(slots=True)
class Growth:
    """Follows a ledger from its beginning.

    Attributes:
        position: Of the last event taken in.
        points: After every event that changed a count.
        events: How many events each day brought; `tokens` likewise, by model, what models read and wrote.
        memory_of: The memory of every passage and fact that there was.
    """

    position: int = 0
    points: list[Point] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)
    tokens: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    memory_of: dict[UUID, UUID] = field(default_factory=dict)
    _live: dict[UUID, _Live] = field(default_factory=dict)
    _of_text: defaultdict[UUID, set[UUID]] = field(default_factory=lambda: defaultdict(set))
    _facts: defaultdict[UUID, set[UUID]] = field(default_factory=lambda: defaultdict(set))
    _counts: Counter[str] = field(default_factory=Counter)

    def take(self, events: Iterable[Event]) -> None:
        """Take in the next events."""
        for event in events:
            before = dict(self._counts)
            self._apply(event)
            self.position = event.position
            day = event.recorded_at.astimezone(UTC).date().isoformat()
            self.events[day] += 1
            for usage in _usage(event):
                self.tokens[day][str(usage.get("model"))] += usage.get("input_tokens", 0) + usage.get(
                    "output_tokens", 0
                )
            if self._counts != before or not self.points:
                counts = tuple(self._counts[tier] for tier in TIERS)
                self.points.append(Point(event.position, event.recorded_at, counts))

    def sampled(self) -> list[Point]:
        """The points, so few that a chart can show them."""
        step = max(1, -(-len(self.points) // _MOST_POINTS))
        return [*self.points[:-1:step], *self.points[-1:]]

    def _apply(self, event: Event) -> None:
        payload = event.payload
        if event.is_erased or not payload:
            return
        match event.kind:
            case EventKind.CREATED | EventKind.APPENDED:
                self._add(UUID(payload["memory_id"]), payload["chunks"])
            case EventKind.UPDATED:
                memory_id = UUID(payload["memory_id"])
                stays = {UUID(chunk["id"]) for chunk in payload["chunks"]}
                self._end(self._of_text[memory_id] - stays, with_facts=True)
                self._add(memory_id, payload["chunks"])
            case EventKind.ARCHIVED if payload.get("end_chunks"):
                self._end(self._of_text[UUID(payload["memory_id"])], with_facts=True)
            case EventKind.CONSOLIDATED:
                self._consolidate(payload)
            case EventKind.PROMOTED:
                for chunk in payload["chunks"]:
                    self._move(UUID(chunk["id"]), "longterm")
            case EventKind.CUT:
                for cut in payload["cuts"]:
                    self._cut(UUID(cut["chunk"]), cut["pieces"])
            case EventKind.ENDED:
                repeated = [UUID(one["id"]) for one in payload.get("duplicates", ())]
                ended = [*(UUID(one) for one in payload["chunks"]), *repeated]
                self._end(ended, with_facts=payload["reason"] in {"contradicted", "replaced"})

    def _add(self, memory_id: UUID, chunks: Iterable[dict[str, Any]]) -> None:
        for chunk in chunks:
            if chunk["new"]:
                chunk_id = UUID(chunk["id"])
                self._of_text[memory_id].add(chunk_id)
                self._begin(chunk_id, _Live("active", memory_id))

    def _consolidate(self, payload: dict[str, Any]) -> None:
        memory_id = UUID(payload["memory_id"])
        rated = [UUID(chunk["id"]) for chunk in payload["chunks"]]
        for chunk_id in rated:
            if self._is_of_tier(chunk_id, "active"):
                self._move(chunk_id, "shortterm")
        self._end([UUID(one["id"]) for one in payload.get("duplicates", ())], with_facts=False)
        for fact in payload.get("facts", ()):
            sources = frozenset(rated[index] for index in fact["chunks"])
            fact_id = UUID(fact["id"])
            for source in sources:
                self._facts[source].add(fact_id)
            self._begin(fact_id, _Live("shortterm", memory_id, sources))

    def _cut(self, chunk_id: UUID, pieces: Sequence[dict[str, Any]]) -> None:
        facts, live = self._facts.pop(chunk_id, set()), self._live.get(chunk_id)
        named = {UUID(fact) for piece in pieces for fact in piece.get("facts", ())}
        for piece in pieces:
            piece_id = UUID(piece["id"])
            # What is known to rest on no piece rests on all of them.
            self._facts[piece_id] = (facts - named) | (facts & set(map(UUID, piece.get("facts", ()))))
            if live is not None:
                self._of_text[live.memory_id].add(piece_id)
                self._begin(piece_id, _Live(live.tier, live.memory_id))
        self._end([chunk_id], with_facts=False)

    def _begin(self, chunk_id: UUID, live: _Live) -> None:
        self._live[chunk_id] = live
        self.memory_of[chunk_id] = live.memory_id
        self._counts[live.tier] += 1

    def _is_of_tier(self, chunk_id: UUID, tier: str) -> bool:
        live = self._live.get(chunk_id)
        return live is not None and live.tier == tier

    def _move(self, chunk_id: UUID, tier: str) -> None:
        live = self._live.get(chunk_id)
        if live is not None:
            self._counts[live.tier] -= 1
            self._counts[tier] += 1
            live.tier = tier

    def _end(self, chunk_ids: Iterable[UUID], *, with_facts: bool) -> None:
        for chunk_id in list(chunk_ids):
            live = self._live.pop(chunk_id, None)
            if live is not None:
                self._counts[live.tier] -= 1
                self._of_text[live.memory_id].discard(chunk_id)
            if with_facts and (facts := self._facts.pop(chunk_id, None)):
                self._end(facts, with_facts=False)


class GrowthReader:
    """Keeps what was read of a few ledgers, so that a second look reads only what is new."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Growth] = OrderedDict()
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def read(self, memory: AgentMem, tenant: str) -> Growth:
        """How the memory of a tenant grew, up to now or to the `MOST_EVENTS`th event."""
        async with self._locks[tenant]:
            growth = self._kept.pop(tenant, None) or Growth()
            news = await everything(memory, tenant, after=growth.position, most=MOST_EVENTS - growth.position)
            if growth.position and any(event.kind == EventKind.ERASED for event in news):
                # It emptied events that were counted.
                growth = Growth()
                news = await everything(memory, tenant, most=MOST_EVENTS)
            await asyncio.to_thread(growth.take, news)
            self._kept[tenant] = growth
            while len(self._kept) > _KEPT_TENANTS:
                forgotten, _ = self._kept.popitem(last=False)
                if not self._locks[forgotten].locked():
                    del self._locks[forgotten]
            return growth


def _usage(event: Event) -> Sequence[dict[str, Any]]:
    if event.kind not in {EventKind.CONSOLIDATED, EventKind.MODEL_ASKED, EventKind.PROFILE_WRITTEN}:
        return ()
    return event.payload.get("usage") or ()
