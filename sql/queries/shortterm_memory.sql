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
-- Live shortterm chunks of one memory that are important enough, in order of their ids.
SELECT chunk_id, importance, confidence, start_date, source
FROM memory_chunk
WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p AND tier = 'shortterm' AND superseded_at IS NULL
    AND importance >= $(threshold)p
ORDER BY chunk_id;
