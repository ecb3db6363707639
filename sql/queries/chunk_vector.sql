-- name: find_missing_texts
-- Indexed forms of live chunks that have no vectors yet, as far as the cache does not hold them either.
WITH missing AS MATERIALIZED (
    SELECT c.indexed_text, c.indexed_before, c.indexed_around
    FROM memory_chunk AS c
    WHERE c.external_id = $(external_id)p AND ($(memory_id)p::uuid IS NULL OR c.memory_id = $(memory_id)p::uuid)
        AND NOT EXISTS (
            SELECT FROM chunk_vector_{generation} AS v
            WHERE v.external_id = $(external_id)p AND v.chunk_id = c.chunk_id
        )
    LIMIT $(limit)p
)
SELECT DISTINCT form.text
FROM missing
CROSS JOIN LATERAL (VALUES (indexed_text), (indexed_before), (indexed_around)) AS form (text)
WHERE NOT EXISTS (
    SELECT FROM embedding_cache AS e
    WHERE e.external_id = $(external_id)p AND e.model_name = $(model_name)p
        AND e.text_hash = sha256(convert_to(form.text, 'UTF8'))
);

-- name: add_cached_vectors
INSERT INTO embedding_cache (external_id, model_name, text_hash, vector)
SELECT $(external_id)p, $(model_name)p, decode(t.text_hash, 'hex'), t.vector::halfvec
FROM unnest($(hashes)p::text[], $(vectors)p::text[]) AS t (text_hash, vector)
ON CONFLICT (external_id, model_name, text_hash) DO NOTHING;

-- name: fill_vectors
-- Vectors for every chunk whose three forms are cached. A form that changed meanwhile has another hash and stays
-- missing, so a vector never belongs to a text that is no longer there.
INSERT INTO chunk_vector_{generation} (
    external_id, chunk_id, tier, confidence, start_date, end_date, recorded_at, superseded_at, text_vector,
    before_vector, around_vector
)
SELECT c.external_id, c.chunk_id, c.tier, c.confidence, c.start_date, c.end_date, c.recorded_at, c.superseded_at,
    t.vector, b.vector, a.vector
FROM memory_chunk AS c
JOIN embedding_cache AS t ON t.external_id = c.external_id AND t.model_name = $(model_name)p
    AND t.text_hash = sha256(convert_to(c.indexed_text, 'UTF8'))
JOIN embedding_cache AS b ON b.external_id = c.external_id AND b.model_name = $(model_name)p
    AND b.text_hash = sha256(convert_to(c.indexed_before, 'UTF8'))
JOIN embedding_cache AS a ON a.external_id = c.external_id AND a.model_name = $(model_name)p
    AND a.text_hash = sha256(convert_to(c.indexed_around, 'UTF8'))
WHERE c.external_id = $(external_id)p AND t.external_id = $(external_id)p AND b.external_id = $(external_id)p
    AND a.external_id = $(external_id)p
    AND ($(memory_id)p::uuid IS NULL OR c.memory_id = $(memory_id)p::uuid)
    AND NOT EXISTS (
        SELECT FROM chunk_vector_{generation} AS v
        WHERE v.external_id = $(external_id)p AND v.chunk_id = c.chunk_id
    )
ON CONFLICT (external_id, chunk_id) DO NOTHING
RETURNING chunk_id;

-- name: count_missing
SELECT count(*) AS chunks
FROM memory_chunk AS c
WHERE c.external_id = $(external_id)p AND ($(memory_id)p::uuid IS NULL OR c.memory_id = $(memory_id)p::uuid)
    AND NOT EXISTS (
        SELECT FROM chunk_vector_{generation} AS v
        WHERE v.external_id = $(external_id)p AND v.chunk_id = c.chunk_id
    );
