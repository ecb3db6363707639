-- name: list_stale_norms
-- Memories whose norms are missing or belong to another layout, with their number of chunks.
SELECT l.memory_id, l.chunks
FROM memory_layout AS l
WHERE l.external_id = $(external_id)p AND NOT EXISTS (
    SELECT FROM chunk_norms_{generation} AS n
    WHERE n.external_id = $(external_id)p AND n.memory_id = l.memory_id AND n.layout_hash = sha256(l.entries)
)
ORDER BY l.memory_id;

-- name: list_memories
-- All memories that have a layout or norms, with their number of chunks.
SELECT coalesce(l.memory_id, n.memory_id) AS memory_id, coalesce(l.chunks, 0) AS chunks
FROM (SELECT memory_id, chunks FROM memory_layout WHERE external_id = $(external_id)p) AS l
FULL JOIN (SELECT memory_id FROM chunk_norms_{generation} WHERE external_id = $(external_id)p) AS n
    ON n.memory_id = l.memory_id
ORDER BY 1;

-- name: read_norms
SELECT memory_id, layout_hash, norms
FROM chunk_norms_{generation}
WHERE external_id = $(external_id)p AND memory_id = ANY($(memory_ids)p::uuid[]);

-- name: read_layout_vectors
-- For each of some memories: its layout (NULL if it has none), its norms, and, if these have to be computed, the
-- vectors of what is in the layout. With is_forced, norms are also computed if they belong to this layout.
SELECT asked.memory_id, l.entries, n.layout_hash IS NOT NULL AS has_norms,
    NOT $(is_forced)p::boolean AND n.layout_hash IS NOT DISTINCT FROM sha256(l.entries) AS is_current,
    v.numbers, v.masses, v.vectors
FROM unnest($(memory_ids)p::uuid[]) AS asked (memory_id)
LEFT JOIN LATERAL (
    SELECT entries FROM memory_layout WHERE external_id = $(external_id)p AND memory_id = asked.memory_id OFFSET 0
) AS l ON true
LEFT JOIN LATERAL (
    SELECT layout_hash FROM chunk_norms_{generation}
    WHERE external_id = $(external_id)p AND memory_id = asked.memory_id
    OFFSET 0
) AS n ON true
LEFT JOIN LATERAL (
    SELECT string_agg(int8send(part.number), ''::bytea) AS numbers,
        string_agg(float4send(found.mass), ''::bytea) AS masses,
        string_agg(halfvec_send(found.vector), ''::bytea) AS vectors
    FROM (
        SELECT number FROM memory_chunk
        WHERE external_id = $(external_id)p AND memory_id = asked.memory_id
            AND (superseded_at IS NULL OR duplicate_of IS NOT NULL)
        UNION ALL
        SELECT number FROM memory_heading WHERE external_id = $(external_id)p AND memory_id = asked.memory_id
        OFFSET 0
    ) AS part
    CROSS JOIN LATERAL (
        SELECT mass, vector FROM chunk_vector_{generation}
        WHERE external_id = $(external_id)p AND number = part.number
        OFFSET 0
    ) AS found
) AS v ON $(is_forced)p::boolean OR n.layout_hash IS DISTINCT FROM sha256(l.entries);

-- name: put_norms
-- Norms for the layouts that they were computed for.
INSERT INTO chunk_norms_{generation} (external_id, memory_id, layout_hash, norms)
SELECT $(external_id)p, m.memory_id, decode(m.layout_hash, 'hex'), substring($(norms)p::bytea FROM m.first FOR m.length)
FROM unnest($(memory_ids)p::uuid[], $(layout_hashes)p::text[], $(firsts)p::int[], $(lengths)p::int[])
    AS m (memory_id, layout_hash, first, length)
ON CONFLICT (external_id, memory_id) DO UPDATE SET layout_hash = excluded.layout_hash, norms = excluded.norms;

-- name: put_new_norms
-- Norms of memories created by this transaction: their layouts are known without being read.
INSERT INTO chunk_norms_{generation} (external_id, memory_id, layout_hash, norms)
SELECT $(external_id)p, m.memory_id, sha256(l.entries), substring($(norms)p::bytea FROM m.first FOR m.length)
FROM unnest($(memory_ids)p::uuid[], $(firsts)p::int[], $(lengths)p::int[]) AS m (memory_id, first, length)
CROSS JOIN LATERAL (
    SELECT entries FROM memory_layout
    WHERE external_id = $(external_id)p AND memory_id = m.memory_id AND chunks * 24 = m.length
    OFFSET 0
) AS l
ON CONFLICT (external_id, memory_id) DO UPDATE SET layout_hash = excluded.layout_hash, norms = excluded.norms;

-- name: delete_norms
DELETE FROM chunk_norms_{generation}
WHERE external_id = $(external_id)p AND memory_id = ANY($(memory_ids)p::uuid[]);

-- name: delete_orphaned_norms
DELETE FROM chunk_norms_{generation} AS n
WHERE n.external_id = $(external_id)p AND NOT EXISTS (
    SELECT FROM memory_layout AS l WHERE l.external_id = $(external_id)p AND l.memory_id = n.memory_id
);
