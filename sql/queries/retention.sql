-- part: over
-- With the schema's name, because an erasure replays into tables of the same names.
-- Memories that are over, now or at a moment to come. One is over when it expires, recorded or not; or when no passage of it is
-- left, nor repeated by a live one of another memory. If the last to go had reached the end of its time to live, or was one too
-- many, the memory goes at once; if it ended otherwise, such as by archiving, its tier's time to live counts from then, and
-- without one it never ends. What is pinned stays, unless it expires.
SELECT m.memory_id, least(m.expires_at, m.expired_at) AS over_at, 'expires_at' AS setting
FROM reminiscence.active_memory AS m
WHERE m.external_id = $(external_id)p AND m.had_expiry AND (m.expires_at IS NOT NULL OR m.expired_at IS NOT NULL)
UNION ALL
SELECT gone.memory_id,
    CASE WHEN ended.setting IS NULL THEN waits.until ELSE gone.ended_at END,
    coalesce(ended.setting, waits.setting)
FROM (
    SELECT c.memory_id, max(c.superseded_at) AS ended_at
    FROM reminiscence.memory_chunk AS c
    WHERE c.external_id = $(external_id)p AND ($(is_limited)p::bool OR cardinality($(tiers)p::text[]) > 0)
    GROUP BY c.memory_id
    HAVING NOT bool_or(c.superseded_at IS NULL)
) AS gone
JOIN reminiscence.active_memory AS m ON m.external_id = $(external_id)p AND m.memory_id = gone.memory_id AND NOT m.pinned
LEFT JOIN LATERAL (
    SELECT CASE e.payload ->> 'reason' WHEN 'pruned' THEN 'max_chunks' ELSE (e.payload ->> 'tier') || '_ttl_days' END AS setting
    FROM reminiscence.memory_event AS e
    WHERE e.external_id = $(external_id)p AND e.memory_id = gone.memory_id::text AND e.kind = 'memory.ended'
        AND e.recorded_at = gone.ended_at
        AND (
            e.payload ->> 'reason' = 'pruned' AND $(is_limited)p::bool
            OR e.payload ->> 'reason' = 'expired' AND cardinality($(tiers)p::text[]) > 0
        )
) AS ended ON true
-- Of several that ended together, the one that lives longest counts.
CROSS JOIN LATERAL (
    SELECT CASE WHEN bool_and(t.days IS NOT NULL) THEN gone.ended_at + max(t.days) * interval '1 day' END AS until,
        (array_agg(c.tier || '_ttl_days' ORDER BY t.days DESC))[1] AS setting
    FROM reminiscence.memory_chunk AS c
    LEFT JOIN unnest($(tiers)p::text[], $(days)p::float8[]) AS t (tier, days) ON t.tier = c.tier
    WHERE c.external_id = $(external_id)p AND c.memory_id = gone.memory_id AND c.superseded_at = gone.ended_at
) AS waits
WHERE NOT EXISTS (
    SELECT
    FROM reminiscence.memory_chunk AS c
    JOIN reminiscence.memory_chunk AS twin
        ON twin.external_id = $(external_id)p AND twin.chunk_id = c.duplicate_of AND twin.superseded_at IS NULL
    WHERE c.external_id = $(external_id)p AND c.memory_id = gone.memory_id AND c.duplicate_of IS NOT NULL
)

-- name: find_over
SELECT over.memory_id::text AS memory_id, min(over.setting) AS setting
FROM (
    {include over}
) AS over
WHERE over.over_at <= $(now)p::timestamptz
    AND ($(memory_ids)p::text[] IS NULL OR over.memory_id = ANY($(memory_ids)p::text[]::uuid[]))
GROUP BY over.memory_id
ORDER BY min(over.over_at), over.memory_id
LIMIT $(limit)p::bigint;

-- name: find_next_over
SELECT min(over.over_at) AS over_at
FROM (
    {include over}
) AS over;

-- name: find_last_erasure
-- When something of the stream was last erased, and how many events it has, whose replay an erasure takes.
SELECT s.head AS events, (
    SELECT e.recorded_at
    FROM reminiscence.memory_event AS e
    WHERE e.external_id = $(external_id)p AND e.kind = 'memory.erased'
    ORDER BY e.position DESC
    LIMIT 1
) AS erased_at
FROM reminiscence.memory_stream AS s
WHERE s.external_id = $(external_id)p;
