-- name: find_missing
-- Chunks that have no vectors yet, behind a chunk id in order, each with those of its texts that the cache does not
-- hold. The hashes are computed before anything is compared with them: left to the planner, once for each pair.
WITH missing AS MATERIALIZED (
    SELECT c.chunk_id, c.indexed_text, c.indexed_before, c.indexed_around
    FROM memory_chunk AS c
    WHERE c.external_id = $(external_id)p AND ($(memory_ids)p::uuid[] IS NULL OR c.memory_id = ANY($(memory_ids)p::uuid[]))
        AND ($(after)p::uuid IS NULL OR c.chunk_id > $(after)p::uuid)
        AND NOT EXISTS (
            SELECT FROM chunk_vector_{generation} AS v
            WHERE v.external_id = $(external_id)p AND v.chunk_id = c.chunk_id
        )
    ORDER BY c.chunk_id
    LIMIT $(limit)p
), form AS MATERIALIZED (
    SELECT missing.chunk_id, f.text, sha256(convert_to(f.text, 'UTF8')) AS text_hash
    FROM missing
    CROSS JOIN LATERAL (VALUES (indexed_text), (indexed_before), (indexed_around)) AS f (text)
)
SELECT form.chunk_id, array_remove(array_agg(CASE WHEN cached.found IS NULL THEN form.text END), NULL) AS texts
FROM form
LEFT JOIN LATERAL (
    SELECT true AS found
    FROM embedding_cache AS e
    WHERE e.external_id = $(external_id)p AND e.model_name = $(model_name)p AND e.text_hash = form.text_hash
    OFFSET 0
) AS cached ON true
GROUP BY form.chunk_id
ORDER BY form.chunk_id;

-- name: add_cached_vectors
-- Only of texts that the named chunks still have: what was erased while it was being embedded must leave no vector.
WITH form AS MATERIALIZED (
    SELECT sha256(convert_to(f.text, 'UTF8')) AS text_hash
    FROM memory_chunk AS c
    CROSS JOIN LATERAL (VALUES (c.indexed_text), (c.indexed_before), (c.indexed_around)) AS f (text)
    WHERE c.external_id = $(external_id)p AND c.chunk_id = ANY($(chunk_ids)p::uuid[])
)
INSERT INTO embedding_cache (external_id, model_name, text_hash, vector)
SELECT $(external_id)p, $(model_name)p, decode(t.text_hash, 'hex'), t.vector::halfvec
FROM unnest($(hashes)p::text[], $(vectors)p::text[]) AS t (text_hash, vector)
WHERE decode(t.text_hash, 'hex') IN (SELECT form.text_hash FROM form)
ON CONFLICT (external_id, model_name, text_hash) DO NOTHING;

-- name: fill_vectors
-- Vectors for those of the named chunks whose three texts are cached. A text that changed meanwhile has another hash
-- and its chunk stays missing, so a vector never belongs to a text that is no longer there. Nothing where the generation
-- is not in the state that the caller thinks: its vectors would be for nobody.
WITH missing AS MATERIALIZED (
    SELECT c.external_id, c.chunk_id, c.tier, c.confidence, c.start_date, c.end_date, c.recorded_at, c.superseded_at,
        c.corrected_at, c.corrected_end_dates,
        sha256(convert_to(c.indexed_text, 'UTF8')) AS text_hash,
        sha256(convert_to(c.indexed_before, 'UTF8')) AS before_hash,
        sha256(convert_to(c.indexed_around, 'UTF8')) AS around_hash
    FROM memory_chunk AS c
    WHERE c.external_id = $(external_id)p AND c.chunk_id = ANY($(chunk_ids)p::uuid[])
        AND EXISTS (SELECT FROM embedding_generation AS g WHERE g.generation = {generation} AND g.state = $(state)p::text)
)
INSERT INTO chunk_vector_{generation} (
    external_id, chunk_id, tier, confidence, start_date, end_date, recorded_at, superseded_at, text_vector,
    before_vector, around_vector, corrected_at, corrected_end_dates
)
SELECT c.external_id, c.chunk_id, c.tier, c.confidence, c.start_date, c.end_date, c.recorded_at, c.superseded_at,
    t.vector, b.vector, a.vector, c.corrected_at, c.corrected_end_dates
FROM missing AS c
CROSS JOIN LATERAL (
    SELECT e.vector
    FROM embedding_cache AS e
    WHERE e.external_id = $(external_id)p AND e.model_name = $(model_name)p AND e.text_hash = c.text_hash
    OFFSET 0
) AS t
CROSS JOIN LATERAL (
    SELECT e.vector
    FROM embedding_cache AS e
    WHERE e.external_id = $(external_id)p AND e.model_name = $(model_name)p AND e.text_hash = c.before_hash
    OFFSET 0
) AS b
CROSS JOIN LATERAL (
    SELECT e.vector
    FROM embedding_cache AS e
    WHERE e.external_id = $(external_id)p AND e.model_name = $(model_name)p AND e.text_hash = c.around_hash
    OFFSET 0
) AS a
ON CONFLICT (external_id, chunk_id) DO NOTHING
RETURNING chunk_id;

-- name: count_missing
SELECT count(*) AS chunks
FROM memory_chunk AS c
WHERE c.external_id = $(external_id)p AND ($(memory_ids)p::uuid[] IS NULL OR c.memory_id = ANY($(memory_ids)p::uuid[]))
    AND NOT EXISTS (
        SELECT FROM chunk_vector_{generation} AS v
        WHERE v.external_id = $(external_id)p AND v.chunk_id = c.chunk_id
    );

-- name: count_chunks
-- How many chunks there are, and how many of them have no vectors.
SELECT count(*) AS chunks, count(*) FILTER (WHERE NOT EXISTS (
    SELECT FROM chunk_vector_{generation} AS v
    WHERE v.external_id = $(external_id)p AND v.chunk_id = c.chunk_id
)) AS missing
FROM memory_chunk AS c
WHERE c.external_id = $(external_id)p;

-- name: delete_cached_vectors
-- What the cache holds of a model that is not used any more.
DELETE FROM embedding_cache
WHERE external_id = $(external_id)p AND model_name = $(model_name)p;
