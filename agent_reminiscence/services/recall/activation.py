"""How strongly the surroundings of some entities relate to them: weights that spread through the graph and fade."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from agent_reminiscence.database.repositories.graph.store import EntityOutline, GraphOutline

# Share of an entity's weight that reaches related entities.
GRAPH_DAMPING: Final = 0.5
# With fewer chunks, even a name in all of them is informative.
RARITY_MIN_CHUNKS: Final = 50


class Activation(NamedTuple):
    """Weights of entities and relationships, without zeros; none exceeds the number of seeds."""

    entities: Mapping[UUID, float]
    relationships: Mapping[UUID, float]


def activate(
    outline: GraphOutline, seeds: Collection[UUID], *, live_chunks: int, damping: float = GRAPH_DAMPING
) -> Activation:
    """Spread weight from `seeds` outwards, hop by hop.

    A seed's weight is its rarity. Each entity passes on the share `damping` of its weight, along each relationship in
    proportion to its strength and less the more there are: strength / √(sum of strengths). What arrives is multiplied
    by the rarity of the entity it reaches. So an entity named in every chunk neither counts nor passes anything on.
    A relationship without an end or a strength, which another store may hold, is ignored.

    Args:
        live_chunks: The tenant's total.
    """
    rarities = {entity.id: rarity(entity, live_chunks) for entity in outline.entities}
    weights = {entity_id: rarities[entity_id] for entity_id in seeds if entity_id in rarities}
    outwards: defaultdict[UUID, list[tuple[UUID, UUID, float]]] = defaultdict(list)
    totals: defaultdict[UUID, float] = defaultdict(float)
    for relationship in outline.relationships:
        if not {relationship.from_id, relationship.to_id} <= rarities.keys() or not relationship.strength > 0:
            continue
        for near, far in (
            (relationship.from_id, relationship.to_id),
            (relationship.to_id, relationship.from_id),
        ):
            totals[near] += relationship.strength
            if outline.distances[far] > outline.distances[near]:
                outwards[near].append((far, relationship.id, relationship.strength))
    flows: defaultdict[UUID, float] = defaultdict(float)
    for near in sorted(weights | dict.fromkeys(outwards, 0.0), key=lambda entity_id: outline.distances[entity_id]):
        sent = damping * weights.get(near, 0.0) / math.sqrt(totals[near]) if totals[near] else 0.0
        for far, relationship_id, strength in outwards[near]:
            flows[relationship_id] += sent * strength
            weights[far] = weights.get(far, 0.0) + sent * strength * rarities[far]
    return Activation(
        {entity_id: weight for entity_id, weight in weights.items() if weight > 0},
        {relationship_id: flow for relationship_id, flow in flows.items() if flow > 0},
    )


def rarity(entity: EntityOutline, live_chunks: int) -> float:
    """How much it means that a chunk names an entity: 1 if only one chunk does, 0 if all do.

    A few chunks may all name it by chance, so fewer than `RARITY_MIN_CHUNKS` count as that many.
    """
    chunks = max(live_chunks, RARITY_MIN_CHUNKS)
    return max(0.0, 1 - math.log(max(1, entity.mentions)) / math.log(chunks))
