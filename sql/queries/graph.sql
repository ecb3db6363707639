-- part: entity_states
-- Canonical entities r of the ids in `chosen`, each with everything merged into it, in the order of all their lists.
SELECT r.entity_id AS id, r.external_id, members.tier, r.name, members.type,
    members.description, members.confidence, members.importance,
    members.first_seen, members.last_seen, names.aliases, array_remove(members.ids, r.entity_id) AS merged_ids,
    r.metadata::text AS metadata, members.shortterm_memory_id, members.mentions,
    evidence.chunk_ids, evidence.positions
FROM chosen
CROSS JOIN LATERAL (
    -- OFFSET 0: otherwise the rest may be computed for every existing entity before the chosen ones are looked up.
    SELECT * FROM entity WHERE external_id = $(external_id)p AND entity_id = chosen.id OFFSET 0
) AS r
CROSS JOIN LATERAL (
    SELECT array_agg(m.entity_id ORDER BY m.entity_id) AS ids,
        CASE WHEN bool_or(m.tier = 'longterm') THEN 'longterm' ELSE 'shortterm' END AS tier,
        {include canonical_type} AS type,
        -- The description with the highest confidence: a merged entity and the one it became part of may both have one.
        (array_agg(m.description ORDER BY m.confidence DESC, m.merged_into IS NOT NULL, m.last_seen DESC, m.entity_id)
            FILTER (WHERE m.description IS NOT NULL))[1] AS description,
        max(m.confidence) AS confidence, max(m.importance) AS importance,
        min(m.first_seen) AS first_seen, max(m.last_seen) AS last_seen,
        (array_agg(m.shortterm_memory_id ORDER BY m.first_seen, m.entity_id))[1] AS shortterm_memory_id,
        sum(m.mentions)::bigint AS mentions
    FROM (
        -- OFFSET 0: to avoid sorting, the planner would read all entities, which are stored in the requested order.
        SELECT * FROM entity WHERE external_id = $(external_id)p AND canonical_id = r.entity_id OFFSET 0
    ) AS m
) AS members
CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(other.name ORDER BY other.key COLLATE "C", other.name COLLATE "C"), '{}') AS aliases
    FROM (
        -- Member by member: for several at a time the planner may read the names of all entities.
        SELECT DISTINCT n.key, n.name
        FROM unnest(members.ids) AS member (id)
        CROSS JOIN LATERAL (
            SELECT key, name FROM entity_name WHERE external_id = $(external_id)p AND entity_id = member.id OFFSET 0
        ) AS n
        WHERE n.name <> r.name
    ) AS other
) AS names
CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(newest.chunk_id ORDER BY newest.chunk_id DESC), '{}') AS chunk_ids,
        coalesce(array_agg(DISTINCT newest.position ORDER BY newest.position), '{}') AS positions
    FROM (
        SELECT live.chunk_id, min(live.position) AS position
        FROM unnest(members.ids) AS member (id)
        CROSS JOIN LATERAL (
            SELECT g.chunk_id, g.position
            FROM graph_mention AS g
            WHERE g.external_id = $(external_id)p AND g.item_id = member.id AND g.is_live
            ORDER BY g.chunk_id DESC
            LIMIT $(evidence_chunks)p
        ) AS live
        GROUP BY live.chunk_id
        ORDER BY live.chunk_id DESC
        LIMIT $(evidence_chunks)p
    ) AS newest
) AS evidence

-- part: canonical_type
-- The type of entities m that are one: that of the canonical one if it is known, otherwise the first known one.
coalesce((array_agg(m.type ORDER BY m.merged_into IS NOT NULL, m.entity_id) FILTER (WHERE m.type <> 'other'))[1], 'other')

-- part: is_guess
-- Whether nobody has stated a type of entities m that are one, so that a stated one will replace it.
coalesce(bool_and(m.type_is_guess) FILTER (WHERE m.type <> 'other'), false)

-- part: ranked
-- All canonical entities of some types with their mentions. Only those with merged entities need to be summed up.
merged AS MATERIALIZED (
    SELECT DISTINCT canonical_id AS id
    FROM entity
    WHERE external_id = $(external_id)p AND merged_into IS NOT NULL
), ranked AS (
    SELECT entity_id AS id, mentions::bigint AS mentions
    FROM entity
    WHERE external_id = $(external_id)p AND merged_into IS NULL
        AND ($(types)p::text[] IS NULL OR type = ANY($(types)p::text[]))
        -- NOT IN instead of a join: a hash lookup, even before the planner knows how many there are.
        AND entity_id NOT IN (SELECT id FROM merged)
    UNION ALL
    SELECT merged.id, members.mentions
    FROM merged
    CROSS JOIN LATERAL (
        SELECT sum(m.mentions)::bigint AS mentions, {include canonical_type} AS type
        FROM entity AS m
        WHERE m.external_id = $(external_id)p AND m.canonical_id = merged.id
    ) AS members
    WHERE $(types)p::text[] IS NULL OR members.type = ANY($(types)p::text[])
)

-- part: relationship_states
-- Relationships of the ids in `chosen`. An entity's relationship to itself, as left behind by a merge, does not count.
SELECT r.relationship_id AS id, r.external_id, r.tier, r.from_id, r.to_id, r.type, r.description, r.confidence,
    r.importance, r.observations, r.first_observed, r.last_observed, r.start_date, r.end_date, r.last_updated,
    r.metadata::text AS metadata, evidence.chunk_ids, evidence.positions
FROM chosen
CROSS JOIN LATERAL (
    -- OFFSET 0 as above.
    SELECT * FROM relationship
    WHERE external_id = $(external_id)p AND relationship_id = chosen.id AND from_id IS DISTINCT FROM to_id
    OFFSET 0
) AS r
CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(newest.chunk_id ORDER BY newest.chunk_id DESC), '{}') AS chunk_ids,
        coalesce(array_agg(DISTINCT newest.position ORDER BY newest.position), '{}') AS positions
    FROM (
        SELECT g.chunk_id, g.position
        FROM graph_mention AS g
        WHERE g.external_id = $(external_id)p AND g.item_id = r.relationship_id AND g.is_live
        ORDER BY g.chunk_id DESC
        LIMIT $(evidence_chunks)p
    ) AS newest
) AS evidence

-- part: fits
-- Whether a relationship r matches the filter.
($(relationship_types)p::text[] IS NULL OR r.type = ANY($(relationship_types)p::text[]))
AND r.confidence >= $(min_confidence)p::float8
AND ($(at)p::timestamptz IS NULL OR r.start_date <= $(at)p::timestamptz)
AND (r.end_date IS NULL OR r.end_date > coalesce($(at)p::timestamptz, $(now)p::timestamptz, now()))

-- part: candidates_by_id
-- The canonical entities of some ids.
SELECT DISTINCT canonical_id AS id
FROM entity
WHERE external_id = $(external_id)p AND entity_id = ANY($(ids)p::uuid[])

-- part: candidates_by_key
-- The canonical entities that have, or had, this name.
SELECT DISTINCT e.canonical_id AS id
FROM unnest($(keys)p::text[]) AS wanted (key)
CROSS JOIN LATERAL (
    -- OFFSET 0: the distribution of keys is unknown, and the planner would rather read all entities first.
    SELECT entity_id FROM entity_name WHERE external_id = $(external_id)p AND key = wanted.key OFFSET 0
) AS n
CROSS JOIN LATERAL (
    SELECT canonical_id FROM entity WHERE external_id = $(external_id)p AND entity_id = n.entity_id OFFSET 0
) AS e

-- part: candidates_by_both
{include candidates_by_id} INTERSECT {include candidates_by_key}

-- part: find_entities_among
-- The candidates with most mentions.
WITH chosen AS (
    SELECT candidate.id
    FROM ({candidates}) AS candidate
    CROSS JOIN LATERAL (
        SELECT sum(m.mentions) AS mentions, {include canonical_type} AS type
        FROM entity AS m
        WHERE m.external_id = $(external_id)p AND m.canonical_id = candidate.id
    ) AS members
    WHERE $(types)p::text[] IS NULL OR members.type = ANY($(types)p::text[])
    ORDER BY members.mentions DESC, candidate.id
    LIMIT $(limit)p
)
{include entity_states}
ORDER BY mentions DESC, id

-- name: find_entities_by_id
{include find_entities_among candidates=candidates_by_id};

-- name: find_entities_by_key
{include find_entities_among candidates=candidates_by_key};

-- name: find_entities_by_id_and_key
{include find_entities_among candidates=candidates_by_both};

-- name: list_entities
-- The entities with most mentions.
WITH {include ranked}, chosen AS (
    SELECT id FROM ranked ORDER BY mentions DESC, id LIMIT $(limit)p
)
{include entity_states}
ORDER BY mentions DESC, id;

-- name: find_names
-- The keys of all names, each with its canonical entity, those of the entities with most mentions first. As every
-- entity has one, no more entities than wanted names need to be read.
WITH {include ranked}, chosen AS (
    SELECT id, mentions FROM ranked ORDER BY mentions DESC, id LIMIT $(limit)p
)
SELECT chosen.id, n.key, chosen.mentions
FROM chosen
CROSS JOIN LATERAL (
    -- OFFSET 0 as above.
    SELECT entity_id FROM entity WHERE external_id = $(external_id)p AND canonical_id = chosen.id OFFSET 0
) AS e
CROSS JOIN LATERAL (
    SELECT key FROM entity_name WHERE external_id = $(external_id)p AND entity_id = e.entity_id OFFSET 0
) AS n
ORDER BY chosen.mentions DESC, chosen.id, n.key COLLATE "C"
LIMIT $(limit)p;

-- name: find_known_types
-- Canonical entities without a type of their own, with the type from what was merged into them.
SELECT known.id, known.type
FROM (
    SELECT canonical_id AS id, (array_agg(type ORDER BY entity_id))[1] AS type
    FROM entity
    WHERE external_id = $(external_id)p AND merged_into IS NOT NULL AND type <> 'other'
    GROUP BY canonical_id
) AS known
CROSS JOIN LATERAL (
    -- OFFSET 0 as above; and before the comparison, which has another index that does not help here.
    SELECT type FROM entity WHERE external_id = $(external_id)p AND entity_id = known.id OFFSET 0
) AS r
WHERE r.type = 'other'
ORDER BY known.id;

-- name: find_relationships
-- Relationships by their ids.
WITH chosen AS (
    SELECT DISTINCT wanted.id FROM unnest($(ids)p::uuid[]) AS wanted (id)
)
{include relationship_states}
ORDER BY r.observations DESC, r.relationship_id
LIMIT $(limit)p;

-- name: strongest_among
-- The strongest relationships between any two of some canonical entities. `ids` may narrow them down.
SELECT r.relationship_id AS id, r.from_id, r.to_id, r.observations
FROM unnest($(entity_ids)p::uuid[]) AS first (id)
CROSS JOIN LATERAL (
    -- OFFSET 0 as above.
    SELECT r.relationship_id, r.from_id, r.to_id, r.observations
    FROM relationship AS r
    WHERE r.external_id = $(external_id)p AND r.from_id = first.id AND r.to_id IS DISTINCT FROM first.id
        AND r.to_id = ANY($(entity_ids)p::uuid[])
        AND ($(ids)p::uuid[] IS NULL OR r.relationship_id = ANY($(ids)p::uuid[]))
        AND ($(with_any)p::boolean OR ({include fits}))
    OFFSET 0
) AS r
ORDER BY r.observations DESC, r.relationship_id
LIMIT $(limit)p

-- name: find_relationships_among
-- The same, with everything known of them.
WITH chosen AS (
    {include strongest_among}
)
{include relationship_states}
ORDER BY r.observations DESC, r.relationship_id;

-- name: walk
-- What can be reached from some canonical entities, one row per hop: those it reaches first (if there are too many,
-- those with the strongest relationships), and whether something was left out. For each entity only the strongest
-- relationships are followed, and one more is read to see whether there are more.
WITH RECURSIVE walk AS (
    SELECT 0 AS hop, start.ids AS reached, start.ids AS seen, start.is_cut
    FROM (
        SELECT coalesce(array_agg(numbered.id ORDER BY numbered.id) FILTER (WHERE numbered.place <= $(max_entities)p::bigint), '{}')
                AS ids,
            count(*) > $(max_entities)p::bigint AS is_cut
        FROM (
            SELECT e.canonical_id AS id, row_number() OVER (ORDER BY e.canonical_id) AS place
            FROM entity AS e
            WHERE e.external_id = $(external_id)p AND e.entity_id = ANY($(entity_ids)p::uuid[])
            GROUP BY e.canonical_id
        ) AS numbered
    ) AS start
    UNION ALL
    SELECT walk.hop + 1, level.ids, walk.seen || level.ids, level.is_cut
    FROM walk
    CROSS JOIN LATERAL (
        SELECT coalesce(array_agg(numbered.id) FILTER (WHERE numbered.place <= numbered.room), '{}') AS ids,
            coalesce(bool_or(numbered.is_cut OR numbered.place > numbered.room), false) AS is_cut
        FROM (
            SELECT other.id, other.is_cut, $(max_entities)p::bigint - cardinality(walk.seen) AS room,
                CASE WHEN other.observations IS NOT NULL AND NOT other.is_seen
                    THEN row_number() OVER (
                        PARTITION BY other.observations IS NOT NULL AND NOT other.is_seen
                        ORDER BY other.observations DESC, other.id)
                END AS place
            FROM (
                SELECT edge.other_id AS id, bool_or(edge.place > $(fan_out)p::bigint) AS is_cut,
                    max(edge.observations) FILTER (WHERE edge.place <= $(fan_out)p::bigint) AS observations,
                    edge.other_id IN (SELECT unnest(walk.seen)) AS is_seen
                FROM unnest(walk.reached) AS entity (id)
                CROSS JOIN LATERAL (
                    SELECT near.other_id, near.observations,
                        row_number() OVER (ORDER BY near.observations DESC, near.relationship_id) AS place
                    FROM (
                        (
                            SELECT r.relationship_id, r.to_id AS other_id, r.observations
                            FROM relationship AS r
                            WHERE r.external_id = $(external_id)p AND r.from_id = entity.id AND r.to_id IS DISTINCT FROM entity.id
                                AND {include fits}
                            ORDER BY r.observations DESC, r.relationship_id
                            LIMIT $(fan_out)p::bigint + 1
                        )
                        UNION ALL
                        (
                            SELECT r.relationship_id, r.from_id, r.observations
                            FROM relationship AS r
                            WHERE r.external_id = $(external_id)p AND r.to_id = entity.id AND r.from_id IS DISTINCT FROM entity.id
                                AND {include fits}
                            ORDER BY r.observations DESC, r.relationship_id
                            LIMIT $(fan_out)p::bigint + 1
                        )
                    ) AS near
                    ORDER BY near.observations DESC, near.relationship_id
                    LIMIT $(fan_out)p::bigint + 1
                ) AS edge
                GROUP BY edge.other_id
            ) AS other
        ) AS numbered
    ) AS level
    WHERE walk.hop < $(hops)p::integer AND cardinality(walk.reached) > 0
)
SELECT hop, reached, is_cut
FROM walk
ORDER BY hop;

-- name: count_mentions
-- How often some canonical entities are mentioned, those with most mentions first; no row for those that do not exist.
SELECT wanted.id, members.mentions
FROM unnest($(ids)p::uuid[]) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT sum(m.mentions)::bigint AS mentions
    FROM entity AS m
    WHERE m.external_id = $(external_id)p AND m.canonical_id = wanted.id
) AS members
WHERE members.mentions IS NOT NULL
ORDER BY members.mentions DESC, wanted.id;

-- name: find_neighbours
-- For each of some canonical entities, those it has a relationship with, whichever way it points.
SELECT DISTINCT entity.id, edge.other_id
FROM unnest($(entity_ids)p::uuid[]) AS entity (id)
CROSS JOIN LATERAL (
    SELECT r.to_id AS other_id
    FROM relationship AS r
    WHERE r.external_id = $(external_id)p AND r.from_id = entity.id AND r.to_id IS DISTINCT FROM entity.id AND {include fits}
    UNION ALL
    SELECT r.from_id
    FROM relationship AS r
    WHERE r.external_id = $(external_id)p AND r.to_id = entity.id AND r.from_id IS DISTINCT FROM entity.id AND {include fits}
) AS edge
LIMIT $(limit)p;

-- name: find_strongest
-- For each pair of canonical entities the strongest relationship between them, whichever way it points.
SELECT strongest.relationship_id AS id
FROM unnest($(first_ids)p::uuid[], $(second_ids)p::uuid[]) WITH ORDINALITY AS pair (first_id, second_id, place)
CROSS JOIN LATERAL (
    SELECT r.relationship_id
    FROM relationship AS r
    WHERE r.external_id = $(external_id)p AND {include fits}
        AND r.relationship_id IN (
            SELECT s.relationship_id
            FROM relationship AS s
            WHERE s.external_id = $(external_id)p AND s.from_id = pair.first_id AND s.to_id = pair.second_id
            UNION ALL
            SELECT s.relationship_id
            FROM relationship AS s
            WHERE s.external_id = $(external_id)p AND s.from_id = pair.second_id AND s.to_id = pair.first_id
        )
    ORDER BY r.observations DESC, r.relationship_id
    LIMIT 1
) AS strongest
ORDER BY pair.place;

-- name: match
-- Relationships that match a pattern, with their ends. What the pattern leaves open is NULL and planned away, including
-- the joins, which are outer joins for that reason. Entities whose type comes from another one are passed as ids.
SELECT r.relationship_id, r.from_id, r.to_id, r.observations
FROM relationship AS r
LEFT JOIN entity AS f ON f.external_id = $(external_id)p AND f.entity_id = r.from_id
LEFT JOIN entity AS t ON t.external_id = $(external_id)p AND t.entity_id = r.to_id
WHERE r.external_id = $(external_id)p AND r.from_id <> r.to_id AND {include fits}
    AND ($(from_ids)p::uuid[] IS NULL OR r.from_id = ANY($(from_ids)p::uuid[]))
    AND ($(to_ids)p::uuid[] IS NULL OR r.to_id = ANY($(to_ids)p::uuid[]))
    AND ($(relationship_type)p::text IS NULL OR r.type = $(relationship_type)p::text)
    AND ($(from_type)p::text IS NULL OR f.entity_id = ANY($(more_from_ids)p::uuid[])
        OR (f.type = $(from_type)p::text AND f.entity_id <> ALL($(less_from_ids)p::uuid[])))
    AND ($(to_type)p::text IS NULL OR t.entity_id = ANY($(more_to_ids)p::uuid[])
        OR (t.type = $(to_type)p::text AND t.entity_id <> ALL($(less_to_ids)p::uuid[])))
    AND ($(relationship_properties)p::text IS NULL OR r.metadata @> $(relationship_properties)p::text::jsonb)
    AND ($(from_properties)p::text IS NULL OR f.metadata @> $(from_properties)p::text::jsonb)
    AND ($(to_properties)p::text IS NULL OR t.metadata @> $(to_properties)p::text::jsonb)
ORDER BY r.observations DESC, r.relationship_id
LIMIT $(limit)p;

-- name: find_mentioned
-- The canonical entities that the live chunks of a memory name.
SELECT DISTINCT e.canonical_id AS id
FROM memory_chunk AS c
JOIN graph_mention AS g ON g.external_id = $(external_id)p AND g.chunk_id = c.chunk_id AND g.is_live
JOIN entity AS e ON e.external_id = $(external_id)p AND e.entity_id = g.item_id
WHERE c.external_id = $(external_id)p AND c.memory_id = $(memory_id)p;

-- name: find_place
-- What an entity was merged into, and its canonical entity.
SELECT merged_into, canonical_id
FROM entity
WHERE external_id = $(external_id)p AND entity_id = $(entity_id)p;

-- name: find_origin
-- The canonical entity of an id: what it is called itself, and by which memory.
SELECT r.entity_id AS id, r.name, r.shortterm_memory_id
FROM entity AS e
JOIN entity AS r ON r.external_id = $(external_id)p AND r.entity_id = e.canonical_id
WHERE e.external_id = $(external_id)p AND e.entity_id = $(entity_id)p;

-- name: known_names
-- Names by their keys, with the entity that was given each and the canonical one.
SELECT n.key, n.entity_id, r.entity_id AS canonical_id, r.name, members.type, members.is_guess, members.mentions
FROM (
    SELECT key, entity_id FROM entity_name WHERE external_id = $(external_id)p AND key = ANY($(keys)p::text[]) OFFSET 0
) AS n
CROSS JOIN LATERAL (
    SELECT canonical_id FROM entity WHERE external_id = $(external_id)p AND entity_id = n.entity_id OFFSET 0
) AS e
CROSS JOIN LATERAL (
    SELECT entity_id, name FROM entity
    WHERE external_id = $(external_id)p AND entity_id = e.canonical_id
    OFFSET 0
) AS r
CROSS JOIN LATERAL (
    SELECT sum(m.mentions)::bigint AS mentions, {include canonical_type} AS type, {include is_guess} AS is_guess
    FROM entity AS m
    WHERE m.external_id = $(external_id)p AND m.canonical_id = r.entity_id
) AS members
ORDER BY n.key COLLATE "C", members.mentions DESC, r.entity_id, n.entity_id;

-- name: list_names
-- Names that begin like some others, ignoring an article, those of the newest entities; with the mentions of the
-- canonical one under its own name.
SELECT n.key, n.entity_id, r.entity_id AS canonical_id, r.name, members.type, members.is_guess, r.mentions
FROM (
    SELECT key, entity_id
    FROM entity_name
    WHERE external_id = $(external_id)p AND left(regexp_replace(key, '^the ', ''), 1) = ANY($(beginnings)p::text[])
        -- So that the index of entities can be read in its order.
        AND entity_id > '00000000-0000-0000-0000-000000000000'
    ORDER BY entity_id DESC
    LIMIT $(limit)p
) AS n
JOIN entity AS e ON e.external_id = $(external_id)p AND e.entity_id = n.entity_id
JOIN entity AS r ON r.external_id = $(external_id)p AND r.entity_id = e.canonical_id
CROSS JOIN LATERAL (
    SELECT {include canonical_type} AS type, {include is_guess} AS is_guess
    FROM entity AS m
    WHERE m.external_id = $(external_id)p AND m.canonical_id = r.entity_id
) AS members
ORDER BY n.key COLLATE "C", r.mentions DESC, r.entity_id, n.entity_id;

-- name: last_entity_change
-- Position of the last event that changed an entity; 0 without any.
SELECT coalesce(max(position), 0) AS position
FROM entity
-- The second condition allows the index of positions to be used.
WHERE external_id = $(external_id)p AND position > 0;

-- name: find_between
-- Relationships of one type between pairs of entities as stated, whichever way they point.
SELECT r.relationship_id, r.stated_from_id, r.stated_to_id, r.observations
FROM (
    SELECT DISTINCT stated.from_id, stated.to_id
    FROM unnest($(first_ids)p::uuid[], $(second_ids)p::uuid[]) AS pair (first_id, second_id)
    CROSS JOIN LATERAL (
        VALUES (pair.first_id, pair.second_id), (pair.second_id, pair.first_id)
    ) AS stated (from_id, to_id)
) AS wanted
CROSS JOIN LATERAL (
    -- OFFSET 0 as above. The type is compared outside: inside, the planner might use the index of types, which reads
    -- all of a tenant's relationships for each pair.
    SELECT relationship_id, stated_from_id, stated_to_id, type, observations
    FROM relationship
    WHERE external_id = $(external_id)p AND stated_from_id = wanted.from_id AND stated_to_id = wanted.to_id
    OFFSET 0
) AS r
WHERE r.type = $(type)p
ORDER BY r.relationship_id;

-- name: find_stated
-- What is known of the same kind as a new statement: of one type, from one entity to another, as stated. Those that
-- have not ended first. With the labels and the number of the chunks that say it.
SELECT r.relationship_id, r.stated_from_id, r.stated_to_id, r.type, r.observations, r.start_date, r.end_date, r.end_is_stated,
    r.last_observed, evidence.sources
FROM unnest($(from_ids)p::uuid[], $(to_ids)p::uuid[], $(types)p::text[]) AS wanted (from_id, to_id, type)
CROSS JOIN LATERAL (
    -- As in find_between.
    SELECT * FROM relationship
    WHERE external_id = $(external_id)p AND stated_from_id = wanted.from_id AND stated_to_id = wanted.to_id
    OFFSET 0
) AS r
CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(DISTINCT c.source), '{}') AS sources
    FROM (
        SELECT chunk_id
        FROM graph_mention
        WHERE external_id = $(external_id)p AND item_id = r.relationship_id AND is_live
        ORDER BY chunk_id DESC
        LIMIT $(evidence_chunks)p
    ) AS g
    CROSS JOIN LATERAL (
        SELECT source FROM memory_chunk WHERE external_id = $(external_id)p AND chunk_id = g.chunk_id OFFSET 0
    ) AS c
) AS evidence
WHERE r.type = wanted.type
ORDER BY r.end_date IS NOT NULL, r.relationship_id;

-- name: find_known_relationships
-- What is known of some canonical entities, holds at a moment and is more than being mentioned together; strongest
-- first. With the labels and the number of the chunks that say it, and the memories that its reader has been shown
-- parts of. Irrelevant ones are left out before the strongest are chosen: a name mentioned beside everybody has
-- hundreds that say no more than that. Only for the few chosen ones are their sources looked up.
SELECT r.relationship_id, r.type, r.from_id, source.name AS from_name, r.to_id, target.name AS to_name, r.observations,
    r.start_date, r.last_observed, evidence.sources,
    evidence.memory_ids || source.shortterm_memory_id || target.shortterm_memory_id AS memory_ids
FROM (
    SELECT DISTINCT found.*
    FROM unnest($(entity_ids)p::uuid[]) AS wanted (id)
    CROSS JOIN LATERAL (
        (
            SELECT relationship_id, type, from_id, to_id, observations, start_date, last_observed
            FROM relationship
            WHERE external_id = $(external_id)p AND from_id = wanted.id AND from_id IS DISTINCT FROM to_id
                AND type IS DISTINCT FROM $(except_type)p::text AND observations > 0
                AND (end_date IS NULL OR end_date > $(now)p::timestamptz)
            ORDER BY observations DESC, relationship_id
            LIMIT $(limit)p
        )
        UNION ALL
        (
            SELECT relationship_id, type, from_id, to_id, observations, start_date, last_observed
            FROM relationship
            WHERE external_id = $(external_id)p AND to_id = wanted.id AND from_id IS DISTINCT FROM to_id
                AND type IS DISTINCT FROM $(except_type)p::text AND observations > 0
                AND (end_date IS NULL OR end_date > $(now)p::timestamptz)
            ORDER BY observations DESC, relationship_id
            LIMIT $(limit)p
        )
    ) AS found
    ORDER BY found.observations DESC, found.relationship_id
    LIMIT $(limit)p
) AS r
CROSS JOIN LATERAL (
    -- OFFSET 0 as above.
    SELECT name, shortterm_memory_id FROM entity WHERE external_id = $(external_id)p AND entity_id = r.from_id OFFSET 0
) AS source
CROSS JOIN LATERAL (
    SELECT name, shortterm_memory_id FROM entity WHERE external_id = $(external_id)p AND entity_id = r.to_id OFFSET 0
) AS target
CROSS JOIN LATERAL (
    SELECT array_agg(DISTINCT c.source) AS sources, array_agg(DISTINCT c.memory_id) AS memory_ids
    FROM (
        SELECT chunk_id
        FROM graph_mention
        WHERE external_id = $(external_id)p AND item_id = r.relationship_id AND is_live
        ORDER BY chunk_id DESC
        LIMIT $(evidence_chunks)p
    ) AS g
    CROSS JOIN LATERAL (
        SELECT source, memory_id FROM memory_chunk
        WHERE external_id = $(external_id)p AND chunk_id = g.chunk_id
        OFFSET 0
    ) AS c
) AS evidence
WHERE evidence.sources IS NOT NULL
ORDER BY r.observations DESC, r.relationship_id;

-- name: read_changed_entities
-- Canonical entities with any change after a position.
WITH chosen AS (
    SELECT DISTINCT canonical_id AS id
    FROM entity
    WHERE external_id = $(external_id)p AND position > $(after)p::bigint
)
{include entity_states}
ORDER BY r.entity_id;

-- name: find_merged_away
-- Entities that were merged into another one after a position.
SELECT entity_id AS id
FROM entity
WHERE external_id = $(external_id)p AND position > $(after)p::bigint AND merged_into IS NOT NULL
ORDER BY entity_id;

-- name: read_changed_relationships
-- Relationships that changed after a position.
WITH chosen AS (
    SELECT relationship_id AS id
    FROM relationship
    WHERE external_id = $(external_id)p AND position > $(after)p::bigint
)
{include relationship_states}
ORDER BY r.relationship_id;

-- name: find_closed_in
-- Relationships whose ends became the same entity after a position.
SELECT relationship_id AS id
FROM relationship
WHERE external_id = $(external_id)p AND position > $(after)p::bigint AND from_id = to_id
ORDER BY relationship_id;

-- name: read_entities
-- A page of all canonical entities.
WITH chosen AS (
    SELECT entity_id AS id
    FROM entity
    WHERE external_id = $(external_id)p AND merged_into IS NULL
        AND ($(after)p::uuid IS NULL OR entity_id > $(after)p::uuid)
    ORDER BY entity_id
    LIMIT $(limit)p
)
{include entity_states}
ORDER BY r.entity_id;

-- name: read_relationships
-- A page of all relationships.
WITH chosen AS (
    SELECT relationship_id AS id
    FROM relationship
    WHERE external_id = $(external_id)p AND from_id <> to_id
        AND ($(after)p::uuid IS NULL OR relationship_id > $(after)p::uuid)
    ORDER BY relationship_id
    LIMIT $(limit)p
)
{include relationship_states}
ORDER BY r.relationship_id;
