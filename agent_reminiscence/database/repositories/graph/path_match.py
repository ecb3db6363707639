"""Matches paths of several steps, one step at a time: every store reads edges, and this puts them together."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple
from uuid import UUID

from agent_reminiscence.database.repositories.graph.store import GraphFilter, GraphHop
from agent_reminiscence.domain.graph import Entity, GraphPath, GraphPattern, Relationship
from agent_reminiscence.exceptions import InvalidInputError

MAX_PATH_RELATIONSHIPS: Final = 20_000
"""Relationships that all steps of a path together look at before a search gives up."""
MAX_PATH_VISITS: Final = 100_000
"""Relationships that are tried when paths are put together; those that would lead in a circle count, too."""


class MatchedIds(NamedTuple):
    """A relationship that matches a pattern, with its ends and its number of observations."""

    relationship_id: UUID
    from_id: UUID
    to_id: UUID
    observations: int


class Edge(NamedTuple):
    """A relationship in the direction of a path."""

    relationship_id: UUID
    near: UUID
    far: UUID
    observations: int


class EdgePattern(NamedTuple):
    """What a store is asked for: relationships with these ends, in their own direction."""

    pattern: GraphPattern
    from_ids: Sequence[UUID] | None
    to_ids: Sequence[UUID] | None
    where: GraphFilter


type ReadEdges = Callable[[EdgePattern, int], Awaitable[Iterable[MatchedIds]]]


async def match_paths(read: ReadEdges, hops: Sequence[GraphHop], *, where: GraphFilter, limit: int) -> list[list[Edge]]:
    """The paths that fit, in the order that `GraphStore.match_paths` describes.

    Args:
        read: Reads at most so many relationships that fit a pattern.
        limit: The maximum number of paths.

    Raises:
        InvalidInputError: Too much fits.
    """
    # From the end that is named, if only one is.
    is_backward = hops[0].from_ids is None and hops[-1].to_ids is not None
    steps = [_reversed(hop) for hop in reversed(hops)] if is_backward else list(hops)
    layers: list[list[Edge]] = []
    ends = steps[0].from_ids
    left = MAX_PATH_RELATIONSHIPS
    for step in steps:
        edges = await _edges(read, replace(step, from_ids=ends), where, left + 1)
        left -= len(edges)
        if left < 0:
            raise InvalidInputError(
                f"more than {MAX_PATH_RELATIONSHIPS:,} relationships fit the steps of this path; name an entity to"
                " begin or end at, or types of relationships and entities"
            )
        layers.append(edges)
        ends = sorted({edge.far for edge in edges})
        if not ends:
            return []
    if is_backward:
        layers = [[edge._replace(near=edge.far, far=edge.near) for edge in edges] for edges in reversed(layers)]
    return await asyncio.to_thread(_first_paths, layers, limit)


def as_paths(
    found: Sequence[Sequence[Edge]], entities: Iterable[Entity], relationships: Iterable[Relationship]
) -> list[GraphPath]:
    """Paths with what their ids mean; a path is left out if a part of it is gone."""
    entity_of = {entity.id: entity for entity in entities}
    relationship_of = {relationship.id: relationship for relationship in relationships}
    paths = []
    for edges in found:
        ids = [edges[0].near, *(edge.far for edge in edges)]
        if all(one in entity_of for one in ids) and all(edge.relationship_id in relationship_of for edge in edges):
            paths.append(
                GraphPath(
                    entities=tuple(entity_of[one] for one in ids),
                    relationships=tuple(relationship_of[edge.relationship_id] for edge in edges),
                )
            )
    return paths


def entity_ids(found: Sequence[Sequence[Edge]]) -> list[UUID]:
    """The entities on some paths, each once."""
    return sorted({end for edges in found for edge in edges for end in (edge.near, edge.far)})


def relationship_ids(found: Sequence[Sequence[Edge]]) -> list[UUID]:
    """The relationships on some paths, each once."""
    return sorted({edge.relationship_id for edges in found for edge in edges})


async def _edges(read: ReadEdges, hop: GraphHop, where: GraphFilter, limit: int) -> list[Edge]:
    types = hop.relationship_types
    of_types = replace(where, relationship_types=types)
    # Found by an index of its own.
    sole = types[0] if types is not None and len(types) == 1 else None
    edges: list[Edge] = []
    if hop.along:
        pattern = GraphPattern(from_type=hop.from_type, relationship_type=sole, to_type=hop.to_type)
        found = await read(EdgePattern(pattern, hop.from_ids, hop.to_ids, of_types), limit)
        edges += [Edge(one.relationship_id, one.from_id, one.to_id, one.observations) for one in found]
    if hop.against and len(edges) < limit:
        pattern = GraphPattern(from_type=hop.to_type, relationship_type=sole, to_type=hop.from_type)
        found = await read(EdgePattern(pattern, hop.to_ids, hop.from_ids, of_types), limit - len(edges))
        edges += [Edge(one.relationship_id, one.to_id, one.from_id, one.observations) for one in found]
    return edges


def _reversed(hop: GraphHop) -> GraphHop:
    return GraphHop(
        relationship_types=hop.relationship_types,
        along=hop.against,
        against=hop.along,
        from_type=hop.to_type,
        to_type=hop.from_type,
        from_ids=hop.to_ids,
        to_ids=hop.from_ids,
    )


def _first_paths(layers: Sequence[Sequence[Edge]], limit: int) -> list[list[Edge]]:
    """The first paths through all layers on which no entity stands twice."""
    choices: list[dict[UUID, list[Edge]]] = []
    reachable: set[UUID] | None = None
    for edges in reversed(layers):
        choice = defaultdict(list)
        for edge in sorted(edges, key=lambda edge: (-edge.observations, edge.relationship_id, edge.near)):
            # What leads nowhere is not tried.
            if reachable is None or edge.far in reachable:
                choice[edge.near].append(edge)
        choices.insert(0, choice)
        reachable = set(choice)
    firsts = [edge for edges in choices[0].values() for edge in edges]
    firsts.sort(key=lambda edge: (-edge.observations, edge.relationship_id, edge.near))
    paths: list[list[Edge]] = []
    visits = 0
    # The beginnings of paths that are not tried yet, the next one last.
    waiting = [[edge] for edge in reversed(firsts)]
    while waiting and len(paths) < limit:
        *path, edge = waiting.pop()
        visits += 1
        if visits > MAX_PATH_VISITS:
            raise InvalidInputError(
                f"putting these paths together takes more than {MAX_PATH_VISITS:,} steps; name an entity to begin or"
                " end at, or types of relationships and entities"
            )
        if edge.far == edge.near or any(edge.far in (one.near, one.far) for one in path):
            continue
        path = [*path, edge]
        if len(path) == len(layers):
            paths.append(path)
        else:
            waiting += [[*path, further] for further in reversed(choices[len(path)].get(edge.far, ()))]
    return paths
