"""Which relationships in Neo4j match a pattern."""

from __future__ import annotations

from uuid import UUID

from agent_reminiscence.database.neo4j_manager import CypherExecutor
from agent_reminiscence.database.repositories.graph.neo4j_reads import UnreadableError, fetch_single
from agent_reminiscence.database.repositories.graph.neo4j_rows import facts, filter_params, texts
from agent_reminiscence.database.repositories.graph.path_match import EdgePattern, MatchedIds


async def read_matching(db: CypherExecutor, external_id: str, edges: EdgePattern, limit: int) -> list[MatchedIds]:
    """Return relationships that match a pattern; strongest first, then by id.

    Raises:
        UnreadableError: One has no id, or no number of observations.
    """
    pattern = edges.pattern
    params = filter_params(edges.where) | {
        "from_ids": None if edges.from_ids is None else texts(edges.from_ids),
        "to_ids": None if edges.to_ids is None else texts(edges.to_ids),
        "from_type": pattern.from_type,
        "relationship_type": pattern.relationship_type,
        "to_type": pattern.to_type,
        "from_facts": facts(pattern.from_properties),
        "relationship_facts": facts(pattern.relationship_properties),
        "to_facts": facts(pattern.to_properties),
        "limit": limit,
    }
    if edges.from_ids is not None:
        name = "match_from"
    elif edges.to_ids is not None:
        name = "match_to"
    else:
        name = "match_any" if pattern.relationship_type is None else "match_of_type"
    rows = (await fetch_single(db, name, external_id, params))["matched"]
    try:
        return [MatchedIds(UUID(one), UUID(near), UUID(far), int(seen)) for one, near, far, seen in rows]
    except (TypeError, ValueError, AttributeError) as error:
        raise UnreadableError("a relationship in Neo4j has no id") from error
