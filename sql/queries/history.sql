-- name: read_memory_events_of_stream
-- All events that made the memories of a stream, up to a recording time, in order.
SELECT external_id, position, event_id, kind, actor, conversation_id, turn, occurred_at, recorded_at, source,
    payload::text AS payload, idempotency_key, request_hash, salt, digest, chain
FROM memory_event
WHERE external_id = $(external_id)p AND starts_with(kind, 'memory.') AND salt IS NOT NULL
    AND kind <> 'memory.erased' AND position > $(after)p
    AND ($(known_at)p::timestamptz IS NULL OR recorded_at <= $(known_at)p::timestamptz)
ORDER BY position
LIMIT $(limit)p;

-- name: read_past_memories
-- Title and metadata of some memories in the version that held at as_of, by what was known at known_at.
WITH version AS (
    SELECT memory.id AS memory_id, of_it.*
    FROM unnest($(memory_ids)p::text[]) AS memory (id)
    CROSS JOIN LATERAL (
        -- OFFSET 0: looked up one by one. An append gives neither, but it may be the version that held.
        SELECT position, occurred_at, CASE WHEN kind = 'memory.created' THEN payload ELSE payload -> 'changes' END AS given
        FROM memory_event
        WHERE external_id = $(external_id)p AND memory_id = memory.id
            AND kind IN ('memory.created', 'memory.updated', 'memory.appended') AND recorded_at <= $(known_at)p::timestamptz
        OFFSET 0
    ) AS of_it
), held AS (
    SELECT memory_id, max(position) AS position
    FROM version
    WHERE occurred_at <= $(as_of)p::timestamptz
    GROUP BY memory_id
)
SELECT held.memory_id,
    (array_agg(version.given ->> 'title' ORDER BY version.position DESC)
        FILTER (WHERE version.given ->> 'title' IS NOT NULL))[1] AS title,
    (array_agg(version.given -> 'metadata' ORDER BY version.position DESC)
        FILTER (WHERE version.given -> 'metadata' IS NOT NULL))[1]::text AS metadata
FROM held
JOIN version ON version.memory_id = held.memory_id AND version.position <= held.position
GROUP BY held.memory_id;

-- name: find_titles
-- The title of each of some memories in the version that held at as_of, by what was known at known_at.
WITH version AS (
    SELECT memory.id AS memory_id, of_it.position, of_it.occurred_at, of_it.title
    FROM unnest($(memory_ids)p::text[]) AS memory (id)
    CROSS JOIN LATERAL (
        -- OFFSET 0: looked up one by one. An append gives no title, but it may be the version that held.
        SELECT position, occurred_at,
            CASE WHEN kind = 'memory.created' THEN payload ->> 'title' ELSE payload -> 'changes' ->> 'title' END AS title
        FROM memory_event
        WHERE external_id = $(external_id)p AND memory_id = memory.id
            AND kind IN ('memory.created', 'memory.updated', 'memory.appended') AND recorded_at <= $(known_at)p::timestamptz
        OFFSET 0
    ) AS of_it
), held AS (
    SELECT memory_id, max(position) AS position
    FROM version
    WHERE occurred_at <= $(as_of)p::timestamptz
    GROUP BY memory_id
)
SELECT DISTINCT ON (version.memory_id) version.memory_id, version.title
FROM version
JOIN held ON held.memory_id = version.memory_id AND version.position <= held.position
WHERE version.title IS NOT NULL
ORDER BY version.memory_id, version.position DESC;
