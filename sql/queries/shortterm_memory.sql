-- name: put_shortterm_memory
INSERT INTO shortterm_memory (external_id, memory_id, version, title, summary, last_updated)
VALUES ($(external_id)p, $(memory_id)p, $(version)p, $(title)p, $(summary)p, $(last_updated)p)
ON CONFLICT (external_id, memory_id) DO UPDATE
SET version = EXCLUDED.version, title = EXCLUDED.title, summary = EXCLUDED.summary,
    last_updated = EXCLUDED.last_updated;

-- name: get_shortterm_memory
SELECT external_id, memory_id, version, title, summary, last_updated
FROM shortterm_memory
WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p;

-- name: find_promotable
-- Live shortterm chunks of one memory that are important enough, or were used since that was decided, in order of ids.
SELECT c.chunk_id, c.importance, c.confidence, c.start_date, c.end_date, c.source, coalesce(u.uses, 0) AS uses,
    greatest(c.recorded_at, u.last_used_at) AS touched_at
FROM memory_chunk AS c
LEFT JOIN chunk_use AS u ON u.external_id = $(external_id)p AND u.chunk_id = c.chunk_id
WHERE c.external_id = $(external_id)p AND c.memory_id = $(memory_id)p AND c.tier = 'shortterm'
    AND c.superseded_at IS NULL AND (c.importance >= $(threshold)p OR u.uses > 0)
ORDER BY c.chunk_id;
