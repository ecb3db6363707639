"""Memories: the list, and one of them with its versions, its passages and what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from starlette.responses import Response

from agent_reminiscence.domain.event import Event, EventKind
from agent_reminiscence.domain.filter import Filter
from agent_reminiscence.domain.history import MemoryHistory, MemoryVersion
from agent_reminiscence.domain.memory import ActiveMemory
from agent_reminiscence.domain.profile import Profile
from agent_reminiscence.domain.retrieval import SearchHit
from agent_reminiscence.exceptions import InvalidInputError, MemoryNotFoundError
from agent_reminiscence.server.access.grants import Scope
from agent_reminiscence.server.inspector import reading
from agent_reminiscence.server.inspector.fields import Fields, uuid_of
from agent_reminiscence.server.inspector.growth import GrowthReader
from agent_reminiscence.server.inspector.passages import Passage, passages_of, version_of, whole
from agent_reminiscence.server.inspector.texts import compare
from agent_reminiscence.server.inspector.visits import Visit, go
from agent_reminiscence.server.inspector.wording import shortened
from agent_reminiscence.server.problems import ProblemError

_PAGE: Final = 50
_SEARCHED: Final = 100
_SHOWN_VERSIONS: Final = 30
_WRITES: Final = (EventKind.CREATED, EventKind.UPDATED, EventKind.APPENDED)
_ORDERS: Final = ("changed", "oldest", "archived")


@dataclass(frozen=True, slots=True)
class Listed:
    """A memory as the list shows it.

    Attributes:
        excerpt: The beginning of its text; of one that was searched for, the best passage.
    """

    id: UUID
    title: str
    excerpt: str
    key: str | None
    version: int
    actor: str | None
    conversation_id: str | None
    source: str
    language: str | None
    changed_at: Any
    score: float | None = None
    match: float | None = None
    hits: int = 0


@dataclass(frozen=True, slots=True)
class _Found:
    memories: Sequence[Listed]
    older: dict[str, object] | None = None


class Memories:
    """The pages about memories."""

    def __init__(self, growth: GrowthReader) -> None:
        self._growth = growth

    async def show_list(self, visit: Visit) -> Response:
        """All memories, some of them, or what a search finds."""
        order = visit.given.text("order") or "changed"
        wrong = None
        found = _Found(())
        try:
            where = read_filter(visit.given)
            query = visit.given.text("q")
            if order not in _ORDERS:
                raise InvalidInputError(f"order must be one of {', '.join(_ORDERS)}, not {order!r}")
            if query is not None:
                found = await _search(visit, query, where)
            elif order == "archived":
                found = await _archived(visit)
            elif order == "oldest":
                found = await _oldest(visit, where)
            else:
                found = await _changed(visit, where)
        except InvalidInputError as error:
            wrong = str(error)
        return visit.show("memories.html", status=200 if wrong is None else 400, found=found, order=order, wrong=wrong)

    async def show(self, visit: Visit) -> Response:
        """One memory."""
        tenant, memory = visit.tenant, visit.memory
        history = await memory.admin.history(tenant, visit.named_id("memory_id"))
        versions = history.versions
        number = visit.given.number("version", versions[-1].version)
        version = version_of(history, number)
        left, right = _compared(visit.given, history, number)
        rows = (
            []
            if left is None
            else await asyncio.to_thread(compare, left.content, right.content, whole=visit.given.flag("whole"))
        )
        shown = len(versions) if visit.given.flag("all") else _SHOWN_VERSIONS
        current = await memory.get_active_memories(tenant, ids=[history.memory_id])
        return visit.show(
            "memory.html",
            history=history,
            version=version,
            passages=passages_of(history, version),
            left=left,
            right=right,
            rows=rows,
            versions=versions[-shown:][::-1],
            older=max(len(versions) - shown, 0),
            current=current[0] if current else None,
            has_expired=not current and _is_over(history),
            graph=await memory.admin.graph.subgraph(tenant, history.memory_id),
            derivations=[(one, each) for one in reversed(versions) for each in reversed(one.derived)][:_PAGE],
            profiles=await _citing(visit, history.memory_id),
            position=visit.given.text("passage"),
        )

    async def show_passage(self, visit: Visit) -> Response:
        """A passage between its neighbours, as a part of another page."""
        history = await visit.memory.admin.history(visit.tenant, visit.named_id("memory_id"))
        number = visit.given.number("version", history.versions[-1].version)
        passages = passages_of(history, version_of(history, number))
        wanted = str(visit.named("chunk_id"))
        index = next((index for index, one in enumerate(passages) if str(one.id) == wanted), None)
        near: Sequence[Passage] = () if index is None else passages[max(index - 3, 0) : index + 4]
        return visit.show("parts/neighbours.html", near=near, wanted=wanted, history=history, number=number)

    async def find_passage(self, visit: Visit) -> Response:
        """Where a passage stands, of which only the id is known."""
        tenant = visit.tenant
        chunk_id = uuid_of(visit.named("chunk_id"))
        growth = await self._growth.read(visit.memory, tenant)
        memory_id = growth.memory_of.get(chunk_id)
        if memory_id is None:
            raise ProblemError(404, "not-found", f"there is no passage {chunk_id}; it may have been erased")
        return go(f"/memories/{memory_id}", passage=chunk_id)

    async def ask_archive(self, visit: Visit) -> Response:
        """Whether it is meant."""
        tenant = visit.tenant_for(Scope.WRITE)
        history = await visit.memory.admin.history(tenant, visit.named_id("memory_id"))
        return visit.show("archive.html", history=history, version=history.versions[-1])

    async def archive(self, visit: Visit) -> Response:
        """Archive a memory."""
        tenant = visit.tenant_for(Scope.WRITE)
        done = await visit.memory.admin.archive(
            tenant, visit.named_id("memory_id"), end_chunks=visit.given.flag("end_chunks"), actor=visit.actor
        )
        return go(f"/memories/{done.id}")

    async def unarchive(self, visit: Visit) -> Response:
        """Take an archived memory back."""
        tenant = visit.tenant_for(Scope.WRITE)
        done = await visit.memory.admin.unarchive(tenant, visit.named_id("memory_id"), actor=visit.actor)
        return go(f"/memories/{done.id}")

    async def pin(self, visit: Visit) -> Response:
        """Pin a memory, or undo it."""
        tenant = visit.tenant_for(Scope.WRITE)
        done = await visit.memory.update_active_memory(
            tenant, visit.named_id("memory_id"), pinned=visit.given.flag("pinned"), actor=visit.actor
        )
        return go(f"/memories/{done.id}")


def read_filter(given: Fields) -> Filter | None:
    """The filter that a form describes; None admits everything.

    Raises:
        InvalidInputError: A field of it is invalid.
    """
    wanted: dict[str, Any] = {
        "conversation_ids": given.words("conversation_ids"),
        "actors": given.words("actors"),
        "memory_ids": given.words("memory_ids"),
        "keys": given.words("keys"),
        "key_prefix": given.text("key_prefix"),
        "metadata": given.json_object("metadata"),
        "sources": given.many("sources"),
        "speakers": given.words("speakers"),
        "turn_metadata": given.json_object("turn_metadata"),
        "occurred_after": given.moment("occurred_after"),
        "occurred_before": given.moment("occurred_before"),
    }
    stated = {name: value for name, value in wanted.items() if value is not None}
    return Filter(**stated) if stated else None


def listed(memory: ActiveMemory) -> Listed:
    """An active memory as the list shows it."""
    return Listed(
        id=memory.id,
        title=memory.title,
        excerpt=shortened(memory.content, 240),
        key=memory.key,
        version=memory.version,
        actor=memory.actor,
        conversation_id=memory.conversation_id,
        source=memory.source,
        language=memory.language,
        changed_at=memory.updated_at,
    )


async def _search(visit: Visit, query: str, where: Filter | None) -> _Found:
    result = await visit.memory.retrieve_memories(visit.tenant, query, limit=_SEARCHED, where=where, synthesis=False)
    visit.recalled(result)
    best: dict[UUID, list[SearchHit]] = {}
    for hit in result.hits:
        best.setdefault(hit.memory_id, []).append(hit)
    return _Found(
        [
            Listed(
                id=memory_id,
                title=hits[0].title,
                excerpt=shortened(hits[0].content, 320),
                key=None,
                version=hits[0].memory_version,
                actor=None,
                conversation_id=None,
                source=hits[0].source,
                language=None,
                changed_at=hits[0].recorded_at,
                score=hits[0].score,
                match=hits[0].match,
                hits=len(hits),
            )
            for memory_id, hits in best.items()
        ]
    )


async def _oldest(visit: Visit, where: Filter | None) -> _Found:
    memories = await visit.memory.get_active_memories(
        visit.tenant, where=where, limit=_PAGE + 1, after=visit.given.uuid("after")
    )
    shown = [listed(one) for one in memories[:_PAGE]]
    return _Found(shown, {"after": shown[-1].id} if len(memories) > _PAGE else None)


async def _changed(visit: Visit, where: Filter | None) -> _Found:
    """The memories that were changed last: the ledger says which these are."""
    shown: list[Listed] = []
    batch: list[Event] = []
    position = None
    async for event in reading.backwards(
        visit.memory, visit.tenant, before=visit.given.number("before"), kinds=_WRITES
    ):
        position = event.position
        batch.append(event)
        if len(batch) >= _PAGE:
            shown += await _read(visit, batch, where)
            batch = []
            if len(shown) >= _PAGE:
                break
    else:
        shown += await _read(visit, batch, where)
        position = None
    return _Found(shown, {"before": position} if position is not None and position > 1 else None)


async def _read(visit: Visit, events: Sequence[Event], where: Filter | None) -> list[Listed]:
    """The memories whose last version these events wrote, in the order of the events."""
    wrote: dict[UUID, int] = {}
    for event in events:
        if event.payload:
            wrote.setdefault(UUID(event.payload["memory_id"]), event.payload.get("version", 1))
    if not wrote:
        return []
    found = await visit.memory.get_active_memories(visit.tenant, ids=list(wrote), where=where)
    by_id = {one.id: one for one in found}
    return [
        listed(by_id[memory_id])
        for memory_id in wrote
        if memory_id in by_id and by_id[memory_id].version == wrote[memory_id]
    ]


async def _archived(visit: Visit) -> _Found:
    found = await reading.page(
        visit.memory, visit.tenant, before=visit.given.number("before"), kinds=[EventKind.ARCHIVED], limit=_PAGE
    )
    shown = []
    for event in found.events:
        if event.is_erased:
            continue
        try:
            history = await visit.memory.admin.history(visit.tenant, event.payload["memory_id"])
        except MemoryNotFoundError:
            continue
        last = whole(history, history.versions[-1])
        shown.append(
            Listed(
                id=history.memory_id,
                title=last.title,
                excerpt=shortened(last.content, 240),
                key=history.key,
                version=last.version,
                actor=last.actor,
                conversation_id=last.conversation_id,
                source=last.source,
                language=None,
                changed_at=event.recorded_at,
            )
        )
    return _Found(shown, None if found.older is None else {"before": found.older})


def _is_over(history: MemoryHistory) -> bool:
    """Whether a memory that is not active has expired, and was not archived before that."""
    expires_at = history.versions[-1].expires_at
    return expires_at is not None and (history.archived_at is None or history.archived_at >= expires_at)


def _compared(given: Fields, history: MemoryHistory, number: int) -> tuple[MemoryVersion | None, MemoryVersion]:
    """The two versions that stand side by side: those that are named, or the shown one beside the one before it."""
    right = version_of(history, given.number("right", number))
    named = given.number("left")
    if named is not None:
        return version_of(history, named), right
    earlier = [one.version for one in history.versions if one.version < right.version]
    return (version_of(history, earlier[-1]) if earlier else None), right


async def _citing(visit: Visit, memory_id: UUID) -> list[Profile]:
    profiles = await visit.memory.admin.profiles.list(visit.tenant)
    return [one for one in profiles if any(cited.memory_id == memory_id for line in one.citations for cited in line)]
