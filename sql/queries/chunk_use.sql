-- name: schedule_review
-- Schedule a review of the stream within this many seconds. It locks the stream, like everyone who changes its rows, so
-- that nobody erases a chunk while its use is written.
UPDATE memory_stream
SET review_at = least(review_at, clock_timestamp() + make_interval(secs => $(delay_seconds)p::float8))
WHERE external_id = $(external_id)p
RETURNING head;

-- name: add_uses
-- Only for chunks that still exist.
INSERT INTO chunk_use (external_id, chunk_id, uses, last_used_at)
SELECT $(external_id)p, u.chunk_id, u.uses, u.last_used_at
FROM unnest($(chunk_ids)p::uuid[], $(uses)p::int[], $(last_used_at)p::timestamptz[]) AS u (chunk_id, uses, last_used_at)
JOIN memory_chunk AS c ON c.external_id = $(external_id)p AND c.chunk_id = u.chunk_id
ON CONFLICT (external_id, chunk_id) DO UPDATE
SET uses = least(chunk_use.uses::bigint + EXCLUDED.uses, 2147483647)::int,
    last_used_at = greatest(chunk_use.last_used_at, EXCLUDED.last_used_at);

-- name: reset_uses
-- They were counted in a decision. The time of a chunk's last use is kept.
UPDATE chunk_use
SET uses = 0
WHERE external_id = $(external_id)p AND chunk_id = ANY($(chunk_ids)p::uuid[]) AND uses > 0;

-- name: touch_repetitions
-- Chunks that ended as repetitions of some chunks, and will live again because these end.
INSERT INTO chunk_use (external_id, chunk_id, uses, last_used_at)
SELECT $(external_id)p, c.chunk_id, 0, $(moment)p
FROM memory_chunk AS c
WHERE c.external_id = $(external_id)p AND c.duplicate_of = ANY($(chunk_ids)p::uuid[])
ON CONFLICT (external_id, chunk_id) DO UPDATE
SET last_used_at = greatest(chunk_use.last_used_at, EXCLUDED.last_used_at);

-- name: delete_uses_of_gone_chunks
DELETE FROM reminiscence.chunk_use AS u
WHERE u.external_id = $(external_id)p AND NOT EXISTS (
    SELECT FROM reminiscence.memory_chunk AS c
    WHERE c.external_id = $(external_id)p AND c.chunk_id = u.chunk_id
);

-- name: find_used
-- Live shortterm chunks that were used since their importance was decided, after a chunk id in order.
SELECT c.chunk_id, c.memory_id, c.importance, u.uses, greatest(c.recorded_at, u.last_used_at) AS touched_at
FROM chunk_use AS u
JOIN memory_chunk AS c ON c.external_id = $(external_id)p AND c.chunk_id = u.chunk_id
WHERE u.external_id = $(external_id)p AND u.uses > 0 AND c.tier = 'shortterm' AND c.superseded_at IS NULL
    AND ($(after)p::uuid IS NULL OR u.chunk_id > $(after)p::uuid)
ORDER BY u.chunk_id
LIMIT $(limit)p;
