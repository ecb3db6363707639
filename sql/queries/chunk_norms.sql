-- name: list_memories
-- All memories that have a layout or norms, with their number of chunks.
SELECT coalesce(l.memory_id, n.memory_id) AS memory_id, coalesce(l.chunks, 0)::int AS chunks
FROM (
    SELECT memory_id, sum(chunks) AS chunks FROM memory_layout WHERE external_id = $(external_id)p GROUP BY memory_id
) AS l
FULL JOIN (SELECT DISTINCT memory_id FROM chunk_norms_{generation} WHERE external_id = $(external_id)p) AS n
    ON n.memory_id = l.memory_id
ORDER BY 1;

-- name: read_norms
SELECT memory_id, segment, layout_hash, norms
FROM chunk_norms_{generation}
WHERE external_id = $(external_id)p AND memory_id = ANY($(memory_ids)p::uuid[]);

-- name: read_layouts
-- The segments of some memories in the order of the text, with their layouts (NULL where only norms are left) and what
-- layouts their norms belong to.
SELECT found.*
FROM unnest($(memory_ids)p::uuid[]) AS asked (memory_id)
CROSS JOIN LATERAL (
    SELECT asked.memory_id, l.segment, l.entries, n.layout_hash
    FROM (
        SELECT segment, entries FROM memory_layout
        WHERE external_id = $(external_id)p AND memory_id = asked.memory_id
        OFFSET 0
    ) AS l
    LEFT JOIN LATERAL (
        SELECT layout_hash FROM chunk_norms_{generation}
        WHERE external_id = $(external_id)p AND memory_id = asked.memory_id AND segment = l.segment
        OFFSET 0
    ) AS n ON true
    UNION ALL
    SELECT asked.memory_id, n.segment, NULL, n.layout_hash
    FROM (
        SELECT segment, layout_hash FROM chunk_norms_{generation}
        WHERE external_id = $(external_id)p AND memory_id = asked.memory_id
        OFFSET 0
    ) AS n
    WHERE NOT EXISTS (
        SELECT FROM memory_layout AS l
        WHERE l.external_id = $(external_id)p AND l.memory_id = asked.memory_id AND l.segment = n.segment
    )
) AS found
ORDER BY found.memory_id, found.segment;

-- name: put_norms
-- Norms for the layouts that they were computed for.
INSERT INTO chunk_norms_{generation} (external_id, memory_id, segment, layout_hash, norms)
SELECT $(external_id)p, m.memory_id, m.segment, decode(m.layout_hash, 'hex'),
    substring($(norms)p::bytea FROM m.first FOR m.length)
FROM unnest($(memory_ids)p::uuid[], $(segments)p::int[], $(layout_hashes)p::text[], $(firsts)p::int[], $(lengths)p::int[])
    AS m (memory_id, segment, layout_hash, first, length)
ON CONFLICT (external_id, memory_id, segment) DO UPDATE SET layout_hash = excluded.layout_hash, norms = excluded.norms;

-- name: put_new_norms
-- Norms of memories created by this transaction: their layouts are known without being read, and are all of their texts.
INSERT INTO chunk_norms_{generation} (external_id, memory_id, segment, layout_hash, norms)
SELECT $(external_id)p, m.memory_id, 0, sha256(sha256(l.entries)), substring($(norms)p::bytea FROM m.first FOR m.length)
FROM unnest($(memory_ids)p::uuid[], $(firsts)p::int[], $(lengths)p::int[]) AS m (memory_id, first, length)
CROSS JOIN LATERAL (
    SELECT entries FROM memory_layout
    WHERE external_id = $(external_id)p AND memory_id = m.memory_id AND segment = 0 AND chunks * 24 = m.length
    OFFSET 0
) AS l
ON CONFLICT (external_id, memory_id, segment) DO UPDATE SET layout_hash = excluded.layout_hash, norms = excluded.norms;

-- name: delete_norms
DELETE FROM chunk_norms_{generation} AS n
USING unnest($(memory_ids)p::uuid[], $(segments)p::int[]) AS gone (memory_id, segment)
WHERE n.external_id = $(external_id)p AND n.memory_id = gone.memory_id AND n.segment = gone.segment;
