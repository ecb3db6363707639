-- part: touched_at
-- When a chunk c was last touched: it was added, begins to hold, was returned by a search, or was said again elsewhere;
-- or its memory, or one that says it again, was updated (while the chunk is in the active tier) or consolidated.
greatest(
    c.recorded_at, c.start_date, u.last_used_at, CASE c.tier WHEN 'active' THEN m.updated_at ELSE s.last_updated END,
    (
        SELECT max(greatest(d.recorded_at, ds.last_updated))
        FROM memory_chunk AS d
        LEFT JOIN shortterm_memory AS ds ON ds.external_id = $(external_id)p AND ds.memory_id = d.memory_id
        WHERE d.external_id = $(external_id)p AND d.duplicate_of = c.chunk_id
    )
)

-- part: live_chunks
-- Live chunks with their use and their memory.
memory_chunk AS c
LEFT JOIN chunk_use AS u ON u.external_id = $(external_id)p AND u.chunk_id = c.chunk_id
LEFT JOIN active_memory AS m ON m.external_id = $(external_id)p AND m.memory_id = c.memory_id
LEFT JOIN shortterm_memory AS s ON s.external_id = $(external_id)p AND s.memory_id = c.memory_id
WHERE c.external_id = $(external_id)p AND c.superseded_at IS NULL

-- name: find_untouched
-- Chunks of one tier untouched since a moment, after a chunk id in order.
SELECT c.chunk_id
FROM {include live_chunks}
    AND c.tier = $(tier)p AND c.recorded_at <= $(moment)p::timestamptz
    AND ($(after)p::uuid IS NULL OR c.chunk_id > $(after)p::uuid)
    AND {include touched_at} <= $(moment)p::timestamptz
ORDER BY c.chunk_id
LIMIT $(limit)p;

-- name: find_first_touched
-- For each tier, the touch that is longest ago.
SELECT c.tier, min({include touched_at}) AS touched_at
FROM {include live_chunks}
    AND c.tier = ANY($(tiers)p::text[])
GROUP BY c.tier;

-- name: find_least_important
-- By current importance, as `effective_importance` computes it; ties end by age, then by chunk id. Unrated chunks end
-- last: they had no chance to prove anything. Chunks that begin later are left out, because no search could find them
-- after their end. Exponents are capped where they make no difference: a power that underflows is an error.
SELECT chunk_id
FROM (
    SELECT c.chunk_id, c.recorded_at, c.tier = 'active' AS is_unrated,
        (c.importance + (1 - c.importance) * $(use_share)p::float8
            * (1 - power(0.5::float8, least(coalesce(u.uses, 0) / $(use_half)p::float8, 100))))
        * (1 - $(fade_share)p::float8 * (1 - power(0.5::float8, least(greatest(
            extract(epoch FROM $(now)p::timestamptz - greatest(c.recorded_at, u.last_used_at))::float8
                / 86400 / $(fade_half_life_days)p::float8, 0), 100)))) AS effective
    FROM memory_chunk AS c
    LEFT JOIN chunk_use AS u ON u.external_id = $(external_id)p AND u.chunk_id = c.chunk_id
    WHERE c.external_id = $(external_id)p AND c.superseded_at IS NULL AND c.start_date <= $(now)p::timestamptz
) AS live
ORDER BY is_unrated, effective, recorded_at, chunk_id
LIMIT $(limit)p;

-- name: read_live
-- Those of some chunks that are live, with everything that decides about their end.
SELECT c.chunk_id, c.memory_id, c.tier, c.source, c.importance, c.recorded_at, coalesce(u.uses, 0) AS uses,
    greatest(c.recorded_at, u.last_used_at) AS used_at, {include touched_at} AS touched_at
FROM {include live_chunks}
    AND c.chunk_id = ANY($(chunk_ids)p::uuid[])
ORDER BY c.chunk_id;

-- name: find_repetitions
-- Chunks that ended because they repeat some others; with a moment, only those that hold from then or earlier, and with
-- labels, only those that have one of them.
SELECT chunk_id, duplicate_of
FROM memory_chunk
WHERE external_id = $(external_id)p AND duplicate_of = ANY($(chunk_ids)p::uuid[])
    AND ($(said_by)p::timestamptz IS NULL OR start_date <= $(said_by)p::timestamptz)
    AND ($(sources)p::text[] IS NULL OR source = ANY($(sources)p::text[]))
ORDER BY chunk_id;
