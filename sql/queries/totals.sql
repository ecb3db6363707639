-- name: count_chunks
-- By tier; ended chunks count in their last tier.
SELECT tier, count(*) FILTER (WHERE superseded_at IS NULL) AS live_chunks,
    count(*) FILTER (WHERE superseded_at IS NOT NULL) AS ended_chunks,
    coalesce(sum(octet_length(content)) FILTER (WHERE superseded_at IS NULL), 0)::bigint AS text_bytes
FROM memory_chunk
WHERE external_id = $(external_id)p
GROUP BY tier;

-- name: count_memories
SELECT count(*) FILTER (WHERE archived_at IS NULL) AS active_memories,
    count(*) FILTER (WHERE archived_at IS NOT NULL) AS archived_memories,
    (SELECT count(*) FROM shortterm_memory WHERE external_id = $(external_id)p) AS shortterm_memories,
    (
        SELECT count(*) FROM profile WHERE external_id = $(external_id)p AND name IS NOT NULL AND superseded_at IS NULL
    ) AS profiles
FROM active_memory
WHERE external_id = $(external_id)p;

-- name: count_graph
-- Without merged entities, and without relationships whose ends have become the same entity.
SELECT (SELECT count(*) FROM entity WHERE external_id = $(external_id)p AND merged_into IS NULL) AS entities,
    (SELECT count(*) FROM relationship WHERE external_id = $(external_id)p AND from_id <> to_id) AS relationships;

-- name: read_live_texts
-- One page of live chunks after a chunk id, in order.
SELECT chunk_id, tier, content
FROM memory_chunk
WHERE external_id = $(external_id)p AND superseded_at IS NULL
    AND ($(after)p::uuid IS NULL OR chunk_id > $(after)p::uuid)
ORDER BY chunk_id
LIMIT $(limit)p;

-- name: sum_tokens_today
-- What models have read and written since midnight UTC, by the ledger's clock. That increases with the position, so
-- only the day's events are read, from the end: with 100,000 events 0.1 ms instead of 500 ms.
SELECT coalesce(sum(used.input_tokens + used.output_tokens), 0)::bigint AS tokens
FROM memory_event AS e
CROSS JOIN LATERAL jsonb_to_recordset(
    CASE jsonb_typeof(e.payload -> 'usage') WHEN 'array' THEN e.payload -> 'usage' ELSE '[]' END
) AS used (input_tokens bigint, output_tokens bigint)
WHERE e.external_id = $(external_id)p AND starts_with(e.kind, 'memory.')
    AND e.kind NOT IN ('memory.created', 'memory.updated', 'memory.appended')
    -- As a bare subquery: a function around it would be evaluated behind row level security, and all events be read.
    AND e.position > (
        SELECT coalesce(max(earlier.position), 0) FROM (
            SELECT position FROM memory_event
            WHERE external_id = $(external_id)p AND recorded_at < date_trunc('day', clock_timestamp(), 'UTC')
            ORDER BY position DESC
            LIMIT 1
        ) AS earlier
    );

-- name: sum_model_usage
-- The use of each model. Callers' writes ask no model, and they have the large payloads.
SELECT used.model, sum(used.requests)::bigint AS requests, sum(used.input_tokens)::bigint AS input_tokens,
    sum(used.output_tokens)::bigint AS output_tokens
FROM memory_event AS e
CROSS JOIN LATERAL jsonb_to_recordset(
    CASE jsonb_typeof(e.payload -> 'usage') WHEN 'array' THEN e.payload -> 'usage' ELSE '[]' END
) AS used (model text, requests bigint, input_tokens bigint, output_tokens bigint)
WHERE e.external_id = $(external_id)p AND starts_with(e.kind, 'memory.')
    AND e.kind NOT IN ('memory.created', 'memory.updated', 'memory.appended')
GROUP BY used.model
ORDER BY used.model;
