"""Hits as they are ranked and read: more than fit into one result, whose texts are read when they are asked for.

Everything is ranked once, in one snapshot. After that a stream holds numbers and ids, and no connection: the first hits
come with the search, and each further page of texts is read in a transaction of its own. What has been erased, changed
or ended meanwhile is left out.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing
from typing import Final
from uuid import UUID

from agent_reminiscence.database.connection import PLANNED_ONCE, Row, SqlExecutor
from agent_reminiscence.database.repositories.hit_rows import as_hit
from agent_reminiscence.domain.retrieval import SearchHit
from agent_reminiscence.domain.search import SearchRequest
from agent_reminiscence.resilience.retries import repeated
from agent_reminiscence.services.recall.best_rows import Source
from agent_reminiscence.services.recall.further import Further
from agent_reminiscence.services.recall.outdated import choose_marks, naming_shown, note_outdated
from agent_reminiscence.services.recall.retrieval import BegunStream, RetrievalService
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.telemetry import Observed
from agent_reminiscence.text.tokens import TokenCounts

PAGE_HITS: Final = 100
"""How many texts after the first hits are read at once."""
FRESH_SECONDS: Final = 0.01
"""What was read longer ago is looked up again before it is yielded, for other processes may have erased it."""


class HitStream:
    """Streams the hits of searches in one database."""

    def __init__(self, runtime: Runtime, retrieval: RetrievalService) -> None:
        self._store = runtime.store
        self._search = runtime.repositories.search
        self._history = runtime.repositories.history
        self._telemetry = runtime.telemetry
        self._scrubber = runtime.scrubber
        self._retrieval = retrieval
        self._tokens = TokenCounts()

    async def stream(self, request: SearchRequest, *, limit: int | None) -> AsyncGenerator[SearchHit]:
        """Yield the hits of a search, best first.

        Args:
            request: Its `limit` is of the hits that are read with the search.
            limit: At most this many; None is all.
        """
        left, appends = limit, self._store.appends
        with self._telemetry.operation("stream_memories") as operation:
            self._note_memories(operation, request.external_ids)
            operation.note(limit=limit, tiers=tuple(request.tiers))
            begun = await self._retrieval.begin(request)
            operation.note(hits=len(begun.hits))
        async with aclosing(self._pages(begun)) as pages:
            async for page in pages:
                waiting, read_at = deque(page), time.monotonic()
                while waiting and left != 0:
                    # Of the writes of this process, none is missed, however fast it was.
                    if self._store.appends != appends or time.monotonic() - read_at > FRESH_SECONDS:
                        appends = self._store.appends
                        shown = await self._still_shown(begun, waiting)
                        waiting = deque(_as_known(hit, shown) for hit in waiting if hit.chunk_id in shown)
                        read_at = time.monotonic()
                        if not waiting:
                            break
                    yield waiting.popleft()
                    left = None if left is None else left - 1
                if left == 0:
                    return
                # Before the next page is read.
                appends = self._store.appends

    async def _pages(self, begun: BegunStream) -> AsyncGenerator[Sequence[SearchHit]]:
        yield begun.hits
        if (further := begun.further) is None:
            return
        shown = set(_ids(begun.hits))
        for start in range(0, len(further.scores), PAGE_HITS):
            page = await self._read(begun, further.only(slice(start, start + PAGE_HITS)))
            shown.update(_ids(page))
            yield naming_shown(page, shown)

    async def _read(self, begun: BegunStream, page: Further) -> list[SearchHit]:
        """Read the texts of some ranked chunks."""
        with self._telemetry.operation("stream_memories") as operation:
            stored: dict[UUID, Row] = {}
            for place, source in enumerate(begun.sources):
                if ids := page.ids_of_place(place):
                    stored |= await self._stored(source, ids)
            rows, texts = page.new_hits(stored)
            self._note_memories(operation, [source.request.external_id for source in begun.sources])
            operation.note(hits=len(rows))
        page.texts.update(texts)
        tokens = self._tokens.count([row["content"] for row in rows])
        return [SearchHit(**row, tokens=count) for row, count in zip(rows, tokens, strict=True)]

    async def _stored(self, source: Source, ids: bytes) -> dict[UUID, Row]:
        """The rows of those of some chunks of a memory that may still be hits, by id, with `memory_key`."""
        request = source.request

        async def shown(db: SqlExecutor) -> dict[UUID, Row]:
            rows = await self._search.read_shown(db, request, ids, repeating=source.repeating)
            return {chunk_id: {"memory_key": row["memory_key"]} | as_hit(row) for chunk_id, row in rows.items()}

        async def read() -> dict[UUID, Row]:
            if not request.is_past and not source.has_outdated:
                return await self._store.read_once(request.external_id, shown, settings=PLANNED_ONCE)
            async with self._store.transaction(request.external_id, read_only=True, settings=PLANNED_ONCE) as db:
                found = await shown(db)
                if source.has_outdated:
                    held = await self._search.find_outdated(db, request, [row["number"] for row in found.values()])
                    note_outdated(found.values(), choose_marks(held, request.query, ()))
                if request.is_past:
                    await self._history.name_as_then(db, request, list(found.values()))
                return found

        return await repeated(read, operation="stream", external_id=request.external_id)

    def _note_memories(self, operation: Observed, external_ids: Sequence[str]) -> None:
        if operation.is_recording:
            operation.note(**self._scrubber.quotable_memories(external_ids))

    async def _still_shown(self, begun: BegunStream, hits: Sequence[SearchHit]) -> set[UUID]:
        """Which of some hits, and of the newer ones that they name, may still be shown."""
        shown: set[UUID] = set()
        for source in begun.sources:
            of_one = [hit for hit in hits if hit.external_id == source.request.external_id]
            if of_one:
                shown |= await self._shown_of(source, of_one)
        return shown

    async def _shown_of(self, source: Source, hits: Sequence[SearchHit]) -> set[UUID]:
        named = [hit.outdated.by for hit in hits if hit.outdated is not None and hit.outdated.by is not None]
        request, ids = source.request, b"".join([one.bytes for one in dict.fromkeys([*_ids(hits), *named])])

        async def read() -> set[UUID]:
            return await self._store.read_once(
                request.external_id,
                lambda db: self._search.find_shown(db, request, ids, repeating=source.repeating),
                settings=PLANNED_ONCE,
            )

        return await repeated(read, operation="stream", external_id=request.external_id)


def _ids(hits: Sequence[SearchHit]) -> list[UUID]:
    return [hit.chunk_id for hit in hits]


def _as_known(hit: SearchHit, shown: Collection[UUID]) -> SearchHit:
    """The hit; nothing says any more that it is out of date if the newer one that it names is no hit any more."""
    is_gone = hit.outdated is not None and hit.outdated.by is not None and hit.outdated.by not in shown
    return hit.model_copy(update={"outdated": None}) if is_gone else hit
