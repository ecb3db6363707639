"""A graph as the page draws it, and as it was known at an earlier time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agent_reminiscence.domain.graph import Entity, Relationship, Subgraph


def as_drawn(graph: Subgraph) -> str:
    """The nodes and edges of a drawing, as JSON for an attribute."""
    nodes = [
        {
            "id": str(entity.id),
            "label": entity.name,
            "type": entity.type,
            "mentions": entity.mentions,
            "hops": graph.distances.get(entity.id, 0),
        }
        for entity in graph.entities
    ]
    edges = [
        {
            "id": str(one.id),
            "source": str(one.from_id),
            "target": str(one.to_id),
            "label": one.type.replace("_", " "),
            "strength": one.strength,
            "ended": one.end_date is not None,
        }
        for one in graph.relationships
    ]
    return json.dumps({"nodes": nodes, "edges": edges}, ensure_ascii=False)


def names_of(graph: Subgraph) -> Mapping[Any, str]:
    """The name of each entity, by its id."""
    return {entity.id: entity.name for entity in graph.entities}


def known_by(graph: Subgraph, position: int) -> Subgraph:
    """What of a graph was known at a position: whatever a passage of then speaks of.

    An entity or a relationship lists the positions of its newest live passages only. One with more of them than it
    lists, or with none because it is past, is shown: its older ones may have been there.
    """

    def was_known(one: Entity | Relationship, count: int) -> bool:
        return not one.positions or count > len(one.chunk_ids) or any(known <= position for known in one.positions)

    entities = tuple(one for one in graph.entities if was_known(one, one.mentions))
    ids = {one.id for one in entities}
    return graph.model_copy(
        update={
            "entities": entities,
            "relationships": tuple(
                one
                for one in graph.relationships
                if was_known(one, one.observations) and one.from_id in ids and one.to_id in ids
            ),
        }
    )
