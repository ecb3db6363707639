-- part: newest_compared
-- Live consolidated chunks, no facts, newest first: numbers grow with the ledger.
SELECT c.number
FROM memory_chunk AS c
WHERE c.external_id = $(external_id)p AND c.superseded_at IS NULL AND c.tier <> 'active' AND c.derived_from IS NULL
    AND {condition}
    -- So that the index of numbers can be used.
    AND c.number > 0
ORDER BY c.number DESC
LIMIT $(compared)p

-- part: of_other_memories
c.memory_id IS DISTINCT FROM $(memory_id)p

-- part: of_sources
c.source = ANY($(sources)p::text[])

-- part: mine
-- The vectors of the requested chunks.
SELECT c.chunk_id, v.vector
FROM memory_chunk AS c
JOIN chunk_vector_{generation} AS v ON v.external_id = $(external_id)p AND v.number = c.number
WHERE c.external_id = $(external_id)p AND c.chunk_id = ANY($(chunk_ids)p::uuid[])

-- name: count_similar
-- For some chunks of a memory: how many live consolidated chunks of other memories are close to each, at most `limit`,
-- and how many have ended as its duplicates. One scan reads the others; the search for each chunk stops at the limit.
WITH mine AS MATERIALIZED ({include mine}), newest AS MATERIALIZED ({include newest_compared condition=of_other_memories}), other AS MATERIALIZED (
    SELECT v.vector
    FROM newest
    CROSS JOIN LATERAL (
        SELECT vector FROM chunk_vector_{generation} WHERE external_id = $(external_id)p AND number = newest.number OFFSET 0
    ) AS v
)
SELECT asked.chunk_id,
    (
        SELECT count(*)
        FROM (
            SELECT
            FROM mine
            JOIN other ON 1 - (other.vector <=> mine.vector) >= $(similarity)p::float8
            WHERE mine.chunk_id = asked.chunk_id
            LIMIT $(limit)p
        ) AS close
    ) AS near,
    (
        SELECT count(*)
        FROM memory_chunk AS d
        WHERE d.external_id = $(external_id)p AND d.duplicate_of = asked.chunk_id
    ) AS duplicates
FROM memory_chunk AS asked
WHERE asked.external_id = $(external_id)p AND asked.chunk_id = ANY($(chunk_ids)p::uuid[]);

-- name: find_near
-- The live consolidated chunks of some labels, of any memory, that are most similar to some chunks; no facts. One scan
-- reads the others.
WITH mine AS MATERIALIZED ({include mine}), newest AS MATERIALIZED ({include newest_compared condition=of_sources}), other AS MATERIALIZED (
    SELECT newest.number, v.vector
    FROM newest
    CROSS JOIN LATERAL (
        SELECT vector FROM chunk_vector_{generation} WHERE external_id = $(external_id)p AND number = newest.number OFFSET 0
    ) AS v
), near AS (
    SELECT near.number, min(near.distance) AS distance
    FROM mine
    CROSS JOIN LATERAL (
        SELECT other.number, other.vector <=> mine.vector AS distance
        FROM other
        ORDER BY distance, other.number
        LIMIT $(limit)p
    ) AS near
    WHERE near.distance <= 1 - $(similarity)p::float8
    GROUP BY near.number
    ORDER BY distance, near.number
    LIMIT $(total)p
)
SELECT c.chunk_id, c.memory_id, c.content, c.speaker, c.source, c.start_date, c.said_at AS first_said
FROM near
CROSS JOIN LATERAL (
    -- OFFSET 0: looked up one by one.
    SELECT * FROM memory_chunk WHERE external_id = $(external_id)p AND number = near.number OFFSET 0
) AS c
ORDER BY near.distance, c.number;
