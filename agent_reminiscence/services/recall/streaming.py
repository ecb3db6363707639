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
from agent_reminiscence.domain.retrieval import SearchHit
from agent_reminiscence.domain.search import SearchRequest
from agent_reminiscence.resilience.retries import repeated
from agent_reminiscence.services.recall.further import Further
from agent_reminiscence.services.recall.outdated import choose_marks, naming_shown, note_outdated
from agent_reminiscence.services.recall.retrieval import BegunStream, RetrievalService
from agent_reminiscence.services.runtime import Runtime
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
            operation.note(external_id=self._quotable(request), limit=limit, tiers=tuple(request.tiers))
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
        request, ids = begun.request, page.chunk_ids.tobytes()

        async def new_hits(db: SqlExecutor) -> tuple[list[Row], list[bytes]]:
            found, texts = page.new_hits(await self._search.read_shown(db, request, ids, repeating=begun.repeating))
            if begun.has_outdated:
                held = await self._search.find_outdated(db, request, [row["number"] for row in found])
                note_outdated(found, choose_marks(held, request.query, ()))
            for row in found:
                del row["number"]
            return found, texts

        async def read() -> tuple[list[Row], list[bytes]]:
            if not request.is_past and not begun.has_outdated:
                return await self._store.read_once(request.external_id, new_hits, settings=PLANNED_ONCE)
            async with self._store.transaction(request.external_id, read_only=True, settings=PLANNED_ONCE) as db:
                found = await new_hits(db)
                if request.is_past:
                    await self._history.name_as_then(db, request, found[0])
                return found

        with self._telemetry.operation("stream_memories") as operation:
            rows, texts = await repeated(read, operation="stream", external_id=request.external_id)
            operation.note(external_id=self._quotable(request), hits=len(rows))
        page.texts.update(texts)
        tokens = self._tokens.count([row["content"] for row in rows])
        return [SearchHit(**row, tokens=count) for row, count in zip(rows, tokens, strict=True)]

    def _quotable(self, request: SearchRequest) -> str | None:
        return self._scrubber.quotable_identifier(request.external_id)

    async def _still_shown(self, begun: BegunStream, hits: Sequence[SearchHit]) -> set[UUID]:
        """Which of some hits, and of the newer ones that they name, may still be shown."""
        named = [hit.outdated.by for hit in hits if hit.outdated is not None and hit.outdated.by is not None]
        request, ids = begun.request, b"".join([one.bytes for one in dict.fromkeys([*_ids(hits), *named])])

        async def read() -> set[UUID]:
            return await self._store.read_once(
                request.external_id,
                lambda db: self._search.find_shown(db, request, ids, repeating=begun.repeating),
                settings=PLANNED_ONCE,
            )

        return await repeated(read, operation="stream", external_id=request.external_id)


def _ids(hits: Sequence[SearchHit]) -> list[UUID]:
    return [hit.chunk_id for hit in hits]


def _as_known(hit: SearchHit, shown: Collection[UUID]) -> SearchHit:
    """The hit; nothing says any more that it is out of date if the newer one that it names is no hit any more."""
    is_gone = hit.outdated is not None and hit.outdated.by is not None and hit.outdated.by not in shown
    return hit.model_copy(update={"outdated": None}) if is_gone else hit
