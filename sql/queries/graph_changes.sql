-- name: record_entities
-- Apply a plan's entities: insert new ones, and for known ones only what the plan adds. Mentions are counted by the
-- rows actually inserted, so a plan that names a chunk again changes nothing. A description stays if it came from more
-- trusted chunks than a new one: next to that confidence the new one would seem as certain. Returns the canonical
-- entities of what changed.
-- A replay plans this while its tables are empty, and without hash joins: tables are looked up by their whole keys
-- (LIMIT ensures that, where part of a key finds all mentions of a name), and intermediate results are grouped, never
-- joined. Conflicts are given by the name of the key, which is shorter in a replay.
WITH entry AS (
    SELECT *
    FROM unnest(
        $(entity_ids)p::uuid[], $(names)p::text[], $(types)p::text[], $(guesses)p::boolean[],
        $(descriptions)p::text[], $(confidences)p::float8[], $(importances)p::float8[], $(metadata)p::text[],
        $(places)p::text[]
    ) AS e (entity_id, name, type, type_is_guess, description, confidence, importance, metadata, places)
), mention AS MATERIALIZED (
    SELECT entry.*, c.chunk_id, c.tier, c.start_date, c.confidence AS trust,
        c.superseded_at IS NULL OR c.duplicate_of IS NOT NULL AS is_live, m.item_id IS NULL AS is_new
    FROM entry
    CROSS JOIN LATERAL unnest(entry.places::int[]) AS place
    JOIN memory_chunk AS c
        ON c.external_id = $(external_id)p AND c.chunk_id = ($(chunk_ids)p::uuid[])[place]
    LEFT JOIN LATERAL (
        SELECT item_id
        FROM graph_mention
        WHERE external_id = $(external_id)p AND item_id = entry.entity_id AND chunk_id = c.chunk_id
        LIMIT 1
    ) AS m ON true
), added AS (
    INSERT INTO graph_mention (external_id, item_id, chunk_id, is_live, position)
    SELECT $(external_id)p, entity_id, chunk_id, is_live, $(position)p
    FROM mention
    WHERE is_new
), named AS (
    INSERT INTO entity_name (external_id, key, entity_id, name, position)
    SELECT $(external_id)p, n.key, n.entity_id, n.name, $(position)p
    FROM unnest($(named_ids)p::uuid[], $(keys)p::text[], $(spellings)p::text[]) AS n (entity_id, key, name)
    -- Without a chunk that names it, an entity is not stored and has no name.
    WHERE n.entity_id IN (SELECT entity_id FROM mention)
    ON CONFLICT DO NOTHING
    RETURNING entity_id
), seen AS (
    SELECT entity_id, name, type, type_is_guess, description, confidence, importance, metadata, min(start_date) AS first_seen,
        max(start_date) AS last_seen, min(trust) AS trust, bool_or(tier = 'longterm') AS is_longterm,
        (count(*) FILTER (WHERE is_new AND is_live))::int AS mentions
    FROM mention
    GROUP BY entity_id, name, type, type_is_guess, description, confidence, importance, metadata
), stated AS (
    SELECT seen.entity_id,
        CASE WHEN seen.is_longterm OR known.tier = 'longterm' THEN 'longterm' ELSE 'shortterm' END AS tier,
        coalesce(known.name, seen.name) AS name,
        CASE WHEN new.gives_type THEN seen.type ELSE known.type END AS type,
        CASE WHEN new.gives_type THEN seen.type_is_guess ELSE known.type_is_guess END AS type_is_guess,
        CASE
            WHEN known.confidence > seen.trust THEN coalesce(known.description, seen.description)
            ELSE coalesce(seen.description, known.description)
        END AS description,
        greatest(known.confidence, seen.confidence) AS confidence,
        greatest(known.importance, seen.importance) AS importance,
        least(known.first_seen, seen.first_seen) AS first_seen,
        greatest(known.last_seen, seen.last_seen) AS last_seen,
        coalesce(known.metadata, '{}') || seen.metadata::jsonb AS metadata,
        coalesce(known.shortterm_memory_id, $(memory_id)p) AS shortterm_memory_id,
        coalesce(known.mentions, 0) + seen.mentions AS mentions,
        known.merged_into,
        coalesce(known.canonical_id, seen.entity_id) AS canonical_id
    FROM seen
    LEFT JOIN entity AS known ON known.external_id = $(external_id)p AND known.entity_id = seen.entity_id
    CROSS JOIN LATERAL (
        -- The first type stands; but one that was guessed gives way to one that was not.
        SELECT known.type IS NULL OR known.type = 'other'
            OR (known.type_is_guess AND NOT seen.type_is_guess AND seen.type <> 'other') AS gives_type
    ) AS new
), written AS (
    INSERT INTO entity AS known (
        external_id, entity_id, tier, name, type, description, confidence, importance, first_seen, last_seen, metadata,
        shortterm_memory_id, mentions, merged_into, canonical_id, position, type_is_guess
    )
    SELECT $(external_id)p, entity_id, tier, name, type, description, confidence, importance, first_seen, last_seen,
        metadata, shortterm_memory_id, mentions, merged_into, canonical_id, $(position)p, type_is_guess
    FROM stated
    ON CONFLICT ON CONSTRAINT entity_pkey DO UPDATE
    SET tier = EXCLUDED.tier, type = EXCLUDED.type, description = EXCLUDED.description,
        confidence = EXCLUDED.confidence, importance = EXCLUDED.importance, first_seen = EXCLUDED.first_seen,
        last_seen = EXCLUDED.last_seen, metadata = EXCLUDED.metadata, mentions = EXCLUDED.mentions,
        position = EXCLUDED.position, type_is_guess = EXCLUDED.type_is_guess
    WHERE EXCLUDED.entity_id IN (SELECT entity_id FROM named)
        OR (known.tier, known.type, known.type_is_guess, known.description, known.confidence, known.importance,
            known.first_seen, known.last_seen, known.metadata, known.mentions)
            IS DISTINCT FROM (EXCLUDED.tier, EXCLUDED.type, EXCLUDED.type_is_guess, EXCLUDED.description,
            EXCLUDED.confidence, EXCLUDED.importance, EXCLUDED.first_seen, EXCLUDED.last_seen, EXCLUDED.metadata, EXCLUDED.mentions)
    RETURNING known.entity_id, known.canonical_id
)
SELECT DISTINCT canonical_id
FROM written
WHERE canonical_id <> entity_id;

-- name: record_relationships
-- The same for relationships, whose entities were inserted before. One that ended with its last passage revives as soon
-- as a passage says it. A stated end holds until a memory that had not said it before says it of a later time:
-- correcting a word in an old note proves nothing.
WITH entry AS (
    SELECT *
    FROM unnest(
        $(relationship_ids)p::uuid[], $(from_ids)p::uuid[], $(to_ids)p::uuid[], $(types)p::text[],
        $(descriptions)p::text[], $(confidences)p::float8[], $(importances)p::float8[], $(start_dates)p::timestamptz[],
        $(end_dates)p::timestamptz[], $(metadata)p::text[], $(places)p::text[]
    ) AS e (
        relationship_id, from_id, to_id, type, description, confidence, importance, start_date, end_date, metadata, places
    )
), mention AS MATERIALIZED (
    SELECT entry.*, c.chunk_id, c.tier, c.end_date AS observed_until,
        -- An update does not make the words that it keeps newer.
        coalesce((SELECT max(said_at) FROM unnest(c.said_dates) AS line (said_at)), c.said_at, c.start_date) AS observed_at,
        c.confidence AS trust, c.superseded_at IS NULL OR c.duplicate_of IS NOT NULL AS is_live, m.item_id IS NULL AS is_new
    FROM entry
    CROSS JOIN LATERAL unnest(entry.places::int[]) AS place
    JOIN memory_chunk AS c
        ON c.external_id = $(external_id)p AND c.chunk_id = ($(chunk_ids)p::uuid[])[place]
    LEFT JOIN LATERAL (
        SELECT item_id
        FROM graph_mention
        WHERE external_id = $(external_id)p AND item_id = entry.relationship_id AND chunk_id = c.chunk_id
        LIMIT 1
    ) AS m ON true
), added AS (
    INSERT INTO graph_mention (external_id, item_id, chunk_id, is_live, position)
    SELECT $(external_id)p, relationship_id, chunk_id, is_live, $(position)p
    FROM mention
    WHERE is_new
), seen AS (
    SELECT relationship_id, from_id, to_id, type, description, confidence, importance, start_date, end_date, metadata,
        min(observed_at) AS first_observed, max(observed_at) AS last_observed, max(observed_until) AS observed_until,
        min(trust) AS trust, bool_or(tier = 'longterm') AS is_longterm, (count(*) FILTER (WHERE is_new AND is_live))::int AS observations,
        max(observed_at) FILTER (WHERE is_new AND is_live) AS seen_again
    FROM mention
    GROUP BY relationship_id, from_id, to_id, type, description, confidence, importance, start_date, end_date, metadata
), stated AS (
    SELECT seen.relationship_id,
        CASE WHEN seen.is_longterm OR known.tier = 'longterm' THEN 'longterm' ELSE 'shortterm' END AS tier,
        coalesce(known.stated_from_id, seen.from_id) AS stated_from_id,
        coalesce(known.stated_to_id, seen.to_id) AS stated_to_id,
        coalesce(known.from_id, source.canonical_id, seen.from_id) AS from_id,
        coalesce(known.to_id, target.canonical_id, seen.to_id) AS to_id,
        coalesce(known.type, seen.type) AS type,
        CASE
            WHEN known.confidence > seen.trust THEN coalesce(known.description, seen.description)
            ELSE coalesce(seen.description, known.description)
        END AS description,
        greatest(known.confidence, seen.confidence) AS confidence,
        greatest(known.importance, seen.importance) AS importance,
        coalesce(known.observations, 0) + seen.observations AS observations,
        least(known.first_observed, seen.first_observed) AS first_observed,
        greatest(known.last_observed, seen.last_observed) AS last_observed,
        least(known.start_date, coalesce(seen.start_date, seen.first_observed)) AS start_date,
        seen.end_date AS stated_end, known.end_date AS known_end, seen.observed_until,
        known.end_is_stated AND NOT (
            coalesce(seen.seen_again >= known.end_date, false) AND NOT EXISTS (
                SELECT
                FROM graph_mention AS g
                JOIN memory_chunk AS c ON c.external_id = $(external_id)p AND c.chunk_id = g.chunk_id
                WHERE g.external_id = $(external_id)p AND g.item_id = seen.relationship_id
                    AND c.memory_id = $(memory_id)p
            )
        ) AS still_holds,
        coalesce(known.metadata, '{}') || seen.metadata::jsonb AS metadata
    FROM seen
    LEFT JOIN relationship AS known
        ON known.external_id = $(external_id)p AND known.relationship_id = seen.relationship_id
    LEFT JOIN entity AS source ON source.external_id = $(external_id)p AND source.entity_id = seen.from_id
    LEFT JOIN entity AS target ON target.external_id = $(external_id)p AND target.entity_id = seen.to_id
), ended AS (
    SELECT *, stated_end IS NOT NULL OR coalesce(still_holds, false) AS end_is_stated,
        CASE
            WHEN stated_end IS NOT NULL THEN stated_end
            WHEN still_holds THEN known_end
            -- If the passages had ended before the plan was applied, it ended with them.
            WHEN observations = 0 THEN coalesce(known_end, observed_until)
        END AS end_date
    FROM stated
)
INSERT INTO relationship AS known (
    external_id, relationship_id, tier, stated_from_id, stated_to_id, from_id, to_id, type, description, confidence,
    importance, observations, first_observed, last_observed, start_date, end_date, end_is_stated, last_updated, metadata,
    position
)
SELECT $(external_id)p, relationship_id, tier, stated_from_id, stated_to_id, from_id, to_id, type, description, confidence,
    importance, observations, first_observed, last_observed, start_date,
    CASE WHEN end_date IS NOT NULL THEN greatest(start_date, end_date) END, end_is_stated, $(recorded_at)p, metadata,
    $(position)p
FROM ended
ON CONFLICT ON CONSTRAINT relationship_pkey DO UPDATE
SET tier = EXCLUDED.tier, description = EXCLUDED.description, confidence = EXCLUDED.confidence,
    importance = EXCLUDED.importance, observations = EXCLUDED.observations, first_observed = EXCLUDED.first_observed,
    last_observed = EXCLUDED.last_observed, start_date = EXCLUDED.start_date, end_date = EXCLUDED.end_date,
    end_is_stated = EXCLUDED.end_is_stated, last_updated = EXCLUDED.last_updated, metadata = EXCLUDED.metadata,
    position = EXCLUDED.position
WHERE (known.tier, known.description, known.confidence, known.importance, known.observations, known.first_observed,
    known.last_observed, known.start_date, known.end_date, known.end_is_stated, known.metadata)
    IS DISTINCT FROM (EXCLUDED.tier, EXCLUDED.description, EXCLUDED.confidence, EXCLUDED.importance,
    EXCLUDED.observations, EXCLUDED.first_observed, EXCLUDED.last_observed, EXCLUDED.start_date, EXCLUDED.end_date,
    EXCLUDED.end_is_stated, EXCLUDED.metadata);

-- name: touch_roots
-- Readers see a merged entity as its canonical one, so that one has changed too.
UPDATE entity
SET position = $(position)p
WHERE external_id = $(external_id)p AND entity_id = ANY($(entity_ids)p::uuid[])
    AND position IS DISTINCT FROM $(position)p;

-- name: end_mentions
-- What some chunks said no longer holds if they have ended; if they repeat others it still does. Returns the canonical
-- entities.
WITH ended AS (
    UPDATE graph_mention AS m
    SET is_live = false, position = $(position)p
    FROM memory_chunk AS c
    WHERE m.external_id = $(external_id)p AND m.chunk_id = ANY($(chunk_ids)p::uuid[]) AND m.is_live
        AND c.external_id = $(external_id)p AND c.chunk_id = m.chunk_id
        AND c.superseded_at IS NOT NULL AND c.duplicate_of IS NULL
    RETURNING m.item_id
), lost AS MATERIALIZED (
    SELECT item_id, count(*)::int AS mentions
    FROM ended
    GROUP BY item_id
), entities AS (
    UPDATE entity AS e
    SET mentions = e.mentions - lost.mentions, position = $(position)p
    FROM lost
    WHERE e.external_id = $(external_id)p AND e.entity_id = lost.item_id
    RETURNING e.entity_id, e.canonical_id
), relationships AS (
    UPDATE relationship AS r
    SET observations = r.observations - lost.mentions,
        -- It ends with its last passage, even if a later end had been stated.
        (end_date, end_is_stated) = (
            SELECT CASE WHEN is_last THEN last_end ELSE r.end_date END, r.end_is_stated AND NOT is_last
            FROM (SELECT greatest(r.start_date, $(ended_at)p::timestamptz) AS last_end) AS moment
            CROSS JOIN LATERAL (
                SELECT r.observations = lost.mentions AND (r.end_date IS NULL OR r.end_date > last_end) AS is_last
            ) AS ending
        ),
        last_updated = $(recorded_at)p, position = $(position)p
    FROM lost
    WHERE r.external_id = $(external_id)p AND r.relationship_id = lost.item_id
)
SELECT DISTINCT canonical_id
FROM entities
WHERE canonical_id <> entity_id;

-- name: copy_mentions
-- What a chunk that is cut says, its pieces say: those that are known to name it, otherwise all of them. Returns the canonical
-- entities.
WITH piece AS MATERIALIZED (
    SELECT p.old_id, p.new_id, p.items::uuid[] AS items
    FROM unnest($(old_ids)p::uuid[], $(new_ids)p::uuid[], $(items)p::text[]) AS p (old_id, new_id, items)
), mention AS MATERIALIZED (
    SELECT m.item_id, piece.new_id AS chunk_id, m.is_live
    FROM piece
    JOIN graph_mention AS m ON m.external_id = $(external_id)p AND m.chunk_id = piece.old_id
    WHERE m.item_id = ANY(piece.items) OR NOT EXISTS (
        SELECT FROM piece AS other WHERE other.old_id = piece.old_id AND m.item_id = ANY(other.items)
    )
), added AS (
    INSERT INTO graph_mention (external_id, item_id, chunk_id, is_live, position)
    SELECT $(external_id)p, item_id, chunk_id, is_live, $(position)p
    FROM mention
), found AS MATERIALIZED (
    SELECT item_id, (count(*) FILTER (WHERE is_live))::int AS mentions
    FROM mention
    GROUP BY item_id
), entities AS (
    UPDATE entity AS e
    SET mentions = e.mentions + found.mentions, position = $(position)p
    FROM found
    WHERE e.external_id = $(external_id)p AND e.entity_id = found.item_id
    RETURNING e.entity_id, e.canonical_id
), relationships AS (
    UPDATE relationship AS r
    SET observations = r.observations + found.mentions, last_updated = $(recorded_at)p, position = $(position)p
    FROM found
    WHERE r.external_id = $(external_id)p AND r.relationship_id = found.item_id
)
SELECT DISTINCT canonical_id
FROM entities
WHERE canonical_id <> entity_id;

-- name: promote_items
-- What longterm chunks say is as important as they are. Returns the canonical entities.
WITH item AS MATERIALIZED (
    SELECT m.item_id, max(p.importance) AS importance
    FROM unnest($(chunk_ids)p::uuid[], $(importances)p::float8[]) AS p (chunk_id, importance)
    JOIN memory_chunk AS c ON c.external_id = $(external_id)p AND c.chunk_id = p.chunk_id AND c.tier = 'longterm'
    JOIN graph_mention AS m ON m.external_id = $(external_id)p AND m.chunk_id = p.chunk_id AND m.is_live
    GROUP BY m.item_id
), entities AS (
    UPDATE entity AS e
    SET tier = 'longterm', importance = greatest(e.importance, item.importance), position = $(position)p
    FROM item
    WHERE e.external_id = $(external_id)p AND e.entity_id = item.item_id
        AND (e.tier <> 'longterm' OR e.importance < item.importance)
    RETURNING e.entity_id, e.canonical_id
), relationships AS (
    UPDATE relationship AS r
    SET tier = 'longterm', importance = greatest(r.importance, item.importance), last_updated = $(recorded_at)p,
        position = $(position)p
    FROM item
    WHERE r.external_id = $(external_id)p AND r.relationship_id = item.item_id
        AND (r.tier <> 'longterm' OR r.importance < item.importance)
)
SELECT DISTINCT canonical_id
FROM entities
WHERE canonical_id <> entity_id;

-- name: merge_entities
-- By their current canonical entities; if these are the same, or one does not exist, nothing changes.
WITH roots AS MATERIALIZED (
    SELECT survivor.canonical_id AS survivor_id, merged.canonical_id AS merged_id
    FROM entity AS survivor
    JOIN entity AS merged ON merged.external_id = $(external_id)p AND merged.entity_id = $(merged_id)p
    WHERE survivor.external_id = $(external_id)p AND survivor.entity_id = $(survivor_id)p
        AND merged.canonical_id <> survivor.canonical_id
), moved AS (
    UPDATE entity AS e
    SET canonical_id = roots.survivor_id, position = $(position)p,
        merged_into = CASE WHEN e.entity_id = roots.merged_id THEN roots.survivor_id ELSE e.merged_into END
    FROM roots
    WHERE e.external_id = $(external_id)p AND e.canonical_id = roots.merged_id
), survivor AS (
    UPDATE entity AS e
    SET position = $(position)p
    FROM roots
    WHERE e.external_id = $(external_id)p AND e.entity_id = roots.survivor_id
)
UPDATE relationship AS r
SET from_id = CASE WHEN r.from_id = roots.merged_id THEN roots.survivor_id ELSE r.from_id END,
    to_id = CASE WHEN r.to_id = roots.merged_id THEN roots.survivor_id ELSE r.to_id END,
    last_updated = $(recorded_at)p, position = $(position)p
FROM roots
WHERE r.external_id = $(external_id)p AND (r.from_id = roots.merged_id OR r.to_id = roots.merged_id);

-- name: unmerge_entity
-- It keeps what was merged into it before, and what was stated of any of these.
WITH RECURSIVE parted AS MATERIALIZED (
    SELECT entity_id, canonical_id AS root_id
    FROM entity
    WHERE external_id = $(external_id)p AND entity_id = $(entity_id)p AND merged_into IS NOT NULL
), component AS MATERIALIZED (
    SELECT e.entity_id, e.merged_into
    FROM parted
    JOIN entity AS e ON e.external_id = $(external_id)p AND e.canonical_id = parted.root_id
), own AS (
    SELECT entity_id FROM parted
    UNION
    SELECT component.entity_id
    FROM own
    JOIN component ON component.merged_into = own.entity_id
), moved AS (
    UPDATE entity AS e
    SET canonical_id = parted.entity_id, position = $(position)p,
        merged_into = CASE WHEN e.entity_id = parted.entity_id THEN NULL ELSE e.merged_into END
    FROM parted, own
    WHERE e.external_id = $(external_id)p AND e.entity_id = own.entity_id
), root AS (
    UPDATE entity AS e
    SET position = $(position)p
    FROM parted
    WHERE e.external_id = $(external_id)p AND e.entity_id = parted.root_id
)
UPDATE relationship AS r
SET from_id = CASE WHEN r.stated_from_id IN (SELECT entity_id FROM own) THEN parted.entity_id ELSE r.from_id END,
    to_id = CASE WHEN r.stated_to_id IN (SELECT entity_id FROM own) THEN parted.entity_id ELSE r.to_id END,
    last_updated = $(recorded_at)p, position = $(position)p
FROM parted
WHERE r.external_id = $(external_id)p AND (r.from_id = parted.root_id OR r.to_id = parted.root_id)
    AND (r.stated_from_id IN (SELECT entity_id FROM own) OR r.stated_to_id IN (SELECT entity_id FROM own));

-- name: end_relationship
UPDATE relationship
SET end_date = greatest(start_date, $(end_date)p::timestamptz), end_is_stated = true, last_updated = $(recorded_at)p, position = $(position)p
WHERE external_id = $(external_id)p AND relationship_id = $(relationship_id)p
    AND (NOT end_is_stated OR end_date IS DISTINCT FROM greatest(start_date, $(end_date)p::timestamptz));
