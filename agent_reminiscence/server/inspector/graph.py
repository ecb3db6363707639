"""Entities and relationships: what lies around a name, on what evidence, and how to correct it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from starlette.responses import Response

from agent_reminiscence.domain.event import EventKind
from agent_reminiscence.domain.graph import Entity, Relationship, Subgraph
from agent_reminiscence.exceptions import (
    EntityNotFoundError,
    InvalidInputError,
    MemoryNotFoundError,
    RelationshipNotFoundError,
)
from agent_reminiscence.server.access.grants import Scope
from agent_reminiscence.server.inspector import reading
from agent_reminiscence.server.inspector.drawing import as_drawn, names_of
from agent_reminiscence.server.inspector.fields import uuid_of
from agent_reminiscence.server.inspector.growth import GrowthReader
from agent_reminiscence.server.inspector.passages import Passage, passages_of, version_of
from agent_reminiscence.server.inspector.visits import Visit, go

_LISTED: Final = 100
_DRAWN: Final = 80
_EVIDENCE: Final = 8
_CORRECTIONS: Final = (
    EventKind.ENTITY_STATED, EventKind.RELATIONSHIP_STATED, EventKind.ENTITIES_MERGED, EventKind.ENTITIES_UNMERGED,
    EventKind.RELATIONSHIP_ENDED,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Evidence:
    """A passage that names an entity, or supports a relationship."""

    memory_id: UUID
    title: str
    version: int
    passage: Passage


class Graph:
    """The pages about the graph."""

    def __init__(self, growth: GrowthReader) -> None:
        self._growth = growth

    async def show(self, visit: Visit) -> Response:
        """The names there are; with one of them, what lies around it."""
        tenant, given = visit.tenant, visit.given
        name = given.text("name")
        wrong, found = None, None
        others: Sequence[Entity] = ()
        try:
            types = given.words("types")
            if name is not None:
                found = await visit.memory.admin.graph.neighbourhood(
                    tenant,
                    name,
                    hops=given.number("hops", 2),
                    types=types,
                    at=given.moment("at"),
                    min_confidence=given.share("min_confidence") or 0.0,
                    limit=_DRAWN,
                )
        except EntityNotFoundError:
            others = await visit.memory.admin.graph.entities(tenant, alike=name, limit=10)
            wrong = f"No memory names {name!r}."
        except InvalidInputError as error:
            wrong = str(error)
            others = await self._same_name(visit, name)
        entities = await visit.memory.admin.graph.entities(tenant, limit=_LISTED)
        corrections = await reading.page(visit.memory, tenant, kinds=_CORRECTIONS, limit=20)
        centre = None if found is None else _centre(found)
        return visit.show(
            "graph.html",
            status=200 if wrong is None else 400,
            wrong=wrong,
            name=name,
            others=others,
            entities=entities,
            found=found,
            centre=centre,
            evidence=() if centre is None else await self._evidence(visit, centre.chunk_ids),
            drawn=None if found is None else as_drawn(found),
            names={} if found is None else names_of(found),
            corrections=corrections.events,
        )

    async def _same_name(self, visit: Visit, name: str | None) -> Sequence[Entity]:
        if name is None:
            return ()
        try:
            return await visit.memory.admin.graph.entities(visit.tenant, name=name, limit=10)
        except InvalidInputError:
            return ()

    async def show_entity(self, visit: Visit) -> Response:
        """An entity and the passages that name it, as a part of another page."""
        entity = await self._entity(visit, visit.named("entity_id"))
        return visit.show(
            "parts/entity.html",
            entity=entity,
            evidence=await self._evidence(visit, entity.chunk_ids),
        )

    async def show_relationship(self, visit: Visit) -> Response:
        """A relationship and the passages that support it, as a part of another page."""
        found, graph = await self._relationship(visit)
        return visit.show(
            "parts/relationship.html",
            one=found,
            names=names_of(graph),
            evidence=await self._evidence(visit, found.chunk_ids),
        )

    async def ask_merge(self, visit: Visit) -> Response:
        """Whether two entities are really the same."""
        visit.tenant_for(Scope.WRITE)
        survivor, merged = visit.given.text("survivor"), visit.given.text("merged")
        if survivor is None or merged is None:
            raise InvalidInputError("name the entity that stays, and the one that becomes part of it")
        return visit.show(
            "merge.html", survivor=await self._entity(visit, survivor), merged=await self._entity(visit, merged)
        )

    async def merge(self, visit: Visit) -> Response:
        """Merge two entities."""
        tenant = visit.tenant_for(Scope.WRITE)
        survivor, merged = visit.given.uuid("survivor"), visit.given.uuid("merged")
        if survivor is None or merged is None:
            raise InvalidInputError("name both entities by their ids")
        done = await visit.memory.admin.graph.merge(tenant, survivor, merged, actor=visit.actor)
        return go("/graph", name=done.id)

    async def unmerge(self, visit: Visit) -> Response:
        """Undo a merge."""
        tenant = visit.tenant_for(Scope.WRITE)
        done = await visit.memory.admin.graph.unmerge(tenant, visit.named("entity_id"), actor=visit.actor)
        return go("/graph", name=done.id)

    async def ask_end(self, visit: Visit) -> Response:
        """Whether a relationship is really over, and since when."""
        visit.tenant_for(Scope.WRITE)
        found, graph = await self._relationship(visit)
        return visit.show("end_relationship.html", one=found, names=names_of(graph))

    async def end(self, visit: Visit) -> Response:
        """End a relationship."""
        tenant = visit.tenant_for(Scope.WRITE)
        done = await visit.memory.admin.graph.end_relationship(
            tenant, visit.named("relationship_id"), end_date=visit.given.moment("end_date"), actor=visit.actor
        )
        return go("/graph", name=done.from_id)

    async def _entity(self, visit: Visit, entity: str) -> Entity:
        """An entity by its id or name, which stands in the centre of its neighbourhood."""
        found = await visit.memory.admin.graph.neighbourhood(visit.tenant, entity, hops=1, limit=1)
        centre = _centre(found)
        assert centre is not None, "a neighbourhood has its centre"
        return centre

    async def _relationship(self, visit: Visit) -> tuple[Relationship, Subgraph]:
        """A relationship by its id, which is looked for around one of its ends."""
        wanted = uuid_of(visit.named("relationship_id"))
        around = visit.given.text("entity")
        if around is None:
            raise InvalidInputError("name one of the entities it relates, as entity")
        found = await visit.memory.admin.graph.neighbourhood(visit.tenant, around, hops=1, at=visit.given.moment("at"))
        for one in found.relationships:
            if one.id == wanted:
                return one, found
        raise RelationshipNotFoundError(visit.tenant, wanted)

    async def _evidence(self, visit: Visit, chunk_ids: Sequence[UUID]) -> list[Evidence]:
        growth = await self._growth.read(visit.memory, visit.tenant)
        found: list[Evidence] = []
        for chunk_id in chunk_ids[:_EVIDENCE]:
            memory_id = growth.memory_of.get(chunk_id)
            if memory_id is None:
                continue
            try:
                history = await visit.memory.admin.history(visit.tenant, memory_id)
            except MemoryNotFoundError:
                continue
            for number in reversed([one.version for one in history.versions]):
                version = version_of(history, number)
                passage = next((one for one in passages_of(history, version) if one.id == chunk_id), None)
                if passage is not None:
                    found.append(Evidence(memory_id, version.title, number, passage))
                    break
        return found


def _centre(graph: Subgraph) -> Entity | None:
    return next((one for one in graph.entities if graph.distances.get(one.id) == 0), None)
