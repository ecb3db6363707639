"""The graph: entities that memories name, and how they are related. Only read."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query
from pydantic import BaseModel, Field
from starlette.responses import Response

from agent_reminiscence.config.constants import MAX_GRAPH_ENTITIES, MAX_PATH_STEPS
from agent_reminiscence.domain.graph import Entity, GraphPath, GraphStep, GraphTriple, Subgraph
from agent_reminiscence.exceptions import EntityNotFoundError
from agent_reminiscence.server.access.grants import Scope
from agent_reminiscence.server.rest.fields import Body, EntityName, GraphType, Limit, Moment, Share
from agent_reminiscence.server.rest.routes import Memory, Tenant, as_json, operations, says

_MAX_HOPS = 6

router = operations("graph")

Types = Annotated[
    list[GraphType] | None,
    Query(description="Only these types; repeat the parameter for several.", max_length=100),
]
At = Annotated[
    Moment | None, Query(description="What was true in the world at this time; left out: what has not ended.")
]
MinConfidence = Annotated[
    float, Query(ge=0, le=1, allow_inf_nan=False, description="Only what is at least as certain.")
]


class EntityPage(BaseModel):
    """Some entities."""

    entities: tuple[Entity, ...]


class PathFound(BaseModel):
    """A shortest path between two entities."""

    path: GraphPath | None = Field(description="null: there is none within `max_hops`.")


class TriplePage(BaseModel):
    """Relationships with both ends, strongest first."""

    triples: tuple[GraphTriple, ...]


class Pattern(Body):
    """What relationships to look for; null is any."""

    from_type: GraphType | None = None
    relationship_type: GraphType | None = None
    to_type: GraphType | None = None
    from_properties: dict[str, str | int | float | bool] | None = Field(
        default=None, description="Top-level values that the metadata of the entity it starts from must have."
    )
    relationship_properties: dict[str, str | int | float | bool] | None = None
    to_properties: dict[str, str | int | float | bool] | None = None
    at: Moment | None = Field(default=None, description="What was true in the world at this time.")
    min_confidence: Share = 0.0
    limit: Limit = 100


class PathStep(Body):
    """One step of a path; null is any."""

    from_type: GraphType | None = Field(
        default=None, description="Type of the entity that it starts from: of a later step, where the one before ends."
    )
    relationship_types: list[GraphType] | None = Field(default=None, min_length=1, max_length=100)
    to_type: GraphType | None = None
    direction: Literal["out", "in", "any"] = Field(
        default="out", description="Whether the relationship points along the path, against it, or either way."
    )
    from_entity: EntityName | None = Field(default=None, description="An id or a name; of the first step only.")
    to_entity: EntityName | None = Field(default=None, description="An id or a name.")


class PathPattern(Body):
    """What paths to look for."""

    path: list[PathStep] = Field(min_length=1, max_length=MAX_PATH_STEPS)
    at: Moment | None = Field(default=None, description="What was true in the world at this time.")
    min_confidence: Share = 0.0
    limit: Limit = 100


class PathPage(BaseModel):
    """Paths; those whose first relationship is strongest first, then the second decides, and so on."""

    paths: tuple[GraphPath, ...]


@router.get("/graph/entities", response_model=EntityPage, **says(Scope.READ))
async def list_entities(
    memory: Memory,
    tenant: Tenant,
    name: Annotated[EntityName | None, Query(description="Only entities with this name; not with `alike`.")] = None,
    alike: Annotated[EntityName | None, Query(description="Only entities with a name spelled like this one.")] = None,
    types: Types = None,
    limit: Annotated[int, Query(ge=1, le=MAX_GRAPH_ENTITIES)] = 100,
) -> Response:
    """Entities, those named by the most passages first; with `alike`, the most similar first."""
    found = await memory.admin.graph.entities(tenant, name=name, alike=alike, types=types, limit=limit)
    return as_json(EntityPage(entities=tuple(found)))


@router.get("/graph/neighbourhood", response_model=Subgraph, **says(Scope.READ, EntityNotFoundError))
async def get_neighbourhood(
    memory: Memory,
    tenant: Tenant,
    entity: Annotated[EntityName, Query(description="Its id or a name.")],
    hops: Annotated[int, Query(ge=1, le=_MAX_HOPS, description="How far.")] = 1,
    types: Types = None,
    at: At = None,
    min_confidence: MinConfidence = 0.0,
    limit: Annotated[int, Query(ge=1, le=MAX_GRAPH_ENTITIES)] = MAX_GRAPH_ENTITIES,
) -> Response:
    """What is around an entity; relationships are followed in both directions."""
    return as_json(
        await memory.admin.graph.neighbourhood(
            tenant, entity, hops=hops, types=types, at=at, min_confidence=min_confidence, limit=limit
        )
    )


@router.get("/graph/path", response_model=PathFound, **says(Scope.READ, EntityNotFoundError))
async def get_path(
    memory: Memory,
    tenant: Tenant,
    from_entity: Annotated[EntityName, Query(description="Its id or a name.")],
    to_entity: Annotated[EntityName, Query(description="Its id or a name.")],
    max_hops: Annotated[int, Query(ge=1, le=_MAX_HOPS)] = 4,
    types: Types = None,
    at: At = None,
    min_confidence: MinConfidence = 0.0,
) -> Response:
    """A shortest path between two entities."""
    return as_json(
        PathFound(
            path=await memory.admin.graph.shortest_path(
                tenant, from_entity, to_entity, max_hops=max_hops, types=types, at=at, min_confidence=min_confidence
            )
        )
    )


@router.post("/graph/match", response_model=TriplePage, **says(Scope.READ))
async def match_relationships(memory: Memory, tenant: Tenant, body: Pattern) -> Response:
    """Relationships that match a pattern, with both ends, strongest first."""
    return as_json(TriplePage(triples=tuple(await memory.admin.graph.match(tenant, **body.given()))))


@router.post("/graph/match/paths", response_model=PathPage, **says(Scope.READ, EntityNotFoundError))
async def match_paths(memory: Memory, tenant: Tenant, body: PathPattern) -> Response:
    """Paths of up to four relationships that match a pattern; no entity stands twice on one."""
    steps = [GraphStep(**step.model_dump()) for step in body.path]
    found = await memory.admin.graph.match(
        tenant, path=steps, at=body.at, min_confidence=body.min_confidence, limit=body.limit
    )
    return as_json(PathPage(paths=tuple(found)))
