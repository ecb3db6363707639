-- name: create_tables
-- Tables of this transaction that bear the names of the projected ones and so take their places: the handlers' own
-- statements replay into them. They hold one stream, so no key begins with external_id, and none that is joined has it at
-- all: planned while they are empty, a lookup by that alone would seem as good, and it finds every row. There is no index
-- for searches, and no table of vectors, which are not replayed.
CREATE TEMPORARY TABLE active_memory (
    LIKE reminiscence.active_memory INCLUDING DEFAULTS, PRIMARY KEY (memory_id)
) ON COMMIT DROP;
CREATE TEMPORARY TABLE shortterm_memory (
    LIKE reminiscence.shortterm_memory INCLUDING DEFAULTS, PRIMARY KEY (memory_id, external_id)
) ON COMMIT DROP;
CREATE TEMPORARY TABLE memory_chunk (
    LIKE reminiscence.memory_chunk INCLUDING DEFAULTS, PRIMARY KEY (chunk_id)
) ON COMMIT DROP;
CREATE INDEX ON memory_chunk (memory_id);
CREATE INDEX ON memory_chunk (memory_id) WHERE derived_from IS NOT NULL;
CREATE INDEX ON memory_chunk (duplicate_of) WHERE duplicate_of IS NOT NULL;
CREATE TEMPORARY TABLE entity (
    LIKE reminiscence.entity INCLUDING DEFAULTS, PRIMARY KEY (entity_id)
) ON COMMIT DROP;
CREATE INDEX ON entity (canonical_id);
CREATE TEMPORARY TABLE entity_name (
    LIKE reminiscence.entity_name INCLUDING DEFAULTS, PRIMARY KEY (entity_id, key)
) ON COMMIT DROP;
CREATE TEMPORARY TABLE relationship (
    LIKE reminiscence.relationship INCLUDING DEFAULTS, PRIMARY KEY (relationship_id)
) ON COMMIT DROP;
CREATE INDEX ON relationship (from_id);
CREATE INDEX ON relationship (to_id);
CREATE TEMPORARY TABLE graph_mention (
    LIKE reminiscence.graph_mention INCLUDING DEFAULTS, PRIMARY KEY (item_id, chunk_id)
) ON COMMIT DROP;
CREATE INDEX ON graph_mention (chunk_id);

-- name: empty_tables
TRUNCATE pg_temp.active_memory, pg_temp.shortterm_memory, pg_temp.memory_chunk, pg_temp.entity, pg_temp.entity_name,
    pg_temp.relationship, pg_temp.graph_mention;

-- name: analyze_tables
-- Keys only, and of these only ids: samples of other columns would put memory text into the catalog.
ANALYZE pg_temp.active_memory (memory_id), pg_temp.shortterm_memory (memory_id), pg_temp.memory_chunk (chunk_id),
    pg_temp.entity (entity_id), pg_temp.entity_name (entity_id), pg_temp.relationship (relationship_id),
    pg_temp.graph_mention (item_id, chunk_id);

-- name: count_rows
SELECT (SELECT count(*) FROM pg_temp.active_memory) AS active_memory,
    (SELECT count(*) FROM pg_temp.shortterm_memory) AS shortterm_memory,
    (SELECT count(*) FROM pg_temp.memory_chunk) AS memory_chunk,
    (SELECT count(*) FROM pg_temp.entity) AS entity,
    (SELECT count(*) FROM pg_temp.entity_name) AS entity_name,
    (SELECT count(*) FROM pg_temp.relationship) AS relationship,
    (SELECT count(*) FROM pg_temp.graph_mention) AS graph_mention;

-- name: compare_table
-- Rows in which the stored and the replayed table differ in a single byte (*<> compares the stored form), and in which
-- columns; no value is returned but that of `shown`, which is never text.
SELECT concat_ws('/', {shown}) AS key,
    CASE WHEN stored.{first} IS NULL THEN 'missing' WHEN replayed.{first} IS NULL THEN 'unexpected' ELSE 'changed' END
        AS problem,
    CASE WHEN stored.{first} IS NOT NULL AND replayed.{first} IS NOT NULL THEN (
        SELECT coalesce(array_agg(s.key ORDER BY s.key), '{}')
        FROM jsonb_each(to_jsonb(stored)) AS s
        JOIN jsonb_each(to_jsonb(replayed)) AS r ON r.key = s.key
        WHERE s.value::text <> r.value::text
    ) ELSE '{}' END AS columns
FROM (SELECT * FROM reminiscence.{table} WHERE external_id = $(external_id)p) AS stored
FULL JOIN pg_temp.{table} AS replayed ON {same_key}
WHERE stored.{first} IS NULL OR replayed.{first} IS NULL OR stored::record *<> replayed::record
ORDER BY 1;

-- name: compare_vectors
-- Vectors of chunks that are not there, that carry something else than their chunk, or that are not what the cache
-- holds for the chunk's texts. A chunk without vectors is none of these.
WITH chunk AS MATERIALIZED (
    SELECT c.*, sha256(convert_to(c.indexed_text, 'UTF8')) AS text_hash,
        sha256(convert_to(c.indexed_before, 'UTF8')) AS before_hash,
        sha256(convert_to(c.indexed_around, 'UTF8')) AS around_hash
    FROM pg_temp.memory_chunk AS c
), compared AS (
    SELECT v.chunk_id, chunk.chunk_id IS NULL AS is_unexpected, array_remove(ARRAY[
        CASE WHEN v.tier IS DISTINCT FROM chunk.tier THEN 'tier' END,
        CASE WHEN v.confidence IS DISTINCT FROM chunk.confidence THEN 'confidence' END,
        CASE WHEN v.start_date IS DISTINCT FROM chunk.start_date THEN 'start_date' END,
        CASE WHEN v.end_date IS DISTINCT FROM chunk.end_date THEN 'end_date' END,
        CASE WHEN v.recorded_at IS DISTINCT FROM chunk.recorded_at THEN 'recorded_at' END,
        CASE WHEN v.superseded_at IS DISTINCT FROM chunk.superseded_at THEN 'superseded_at' END,
        CASE WHEN v.corrected_at IS DISTINCT FROM chunk.corrected_at THEN 'corrected_at' END,
        CASE WHEN v.corrected_end_dates IS DISTINCT FROM chunk.corrected_end_dates THEN 'corrected_end_dates' END,
        CASE WHEN v.text_vector IS DISTINCT FROM (
            SELECT e.vector FROM reminiscence.embedding_cache AS e
            WHERE e.external_id = $(external_id)p AND e.model_name = $(model_name)p AND e.text_hash = chunk.text_hash
        ) THEN 'text_vector' END,
        CASE WHEN v.before_vector IS DISTINCT FROM (
            SELECT e.vector FROM reminiscence.embedding_cache AS e
            WHERE e.external_id = $(external_id)p AND e.model_name = $(model_name)p AND e.text_hash = chunk.before_hash
        ) THEN 'before_vector' END,
        CASE WHEN v.around_vector IS DISTINCT FROM (
            SELECT e.vector FROM reminiscence.embedding_cache AS e
            WHERE e.external_id = $(external_id)p AND e.model_name = $(model_name)p AND e.text_hash = chunk.around_hash
        ) THEN 'around_vector' END
    ], NULL) AS columns
    FROM reminiscence.chunk_vector_{generation} AS v
    LEFT JOIN chunk ON chunk.chunk_id = v.chunk_id
    WHERE v.external_id = $(external_id)p
)
SELECT chunk_id::text AS key, CASE WHEN is_unexpected THEN 'unexpected' ELSE 'changed' END AS problem,
    CASE WHEN is_unexpected THEN '{}' ELSE columns END AS columns
FROM compared
WHERE is_unexpected OR columns <> '{}'
ORDER BY 1;

-- name: count_missing_vectors
SELECT count(*) AS chunks
FROM pg_temp.memory_chunk AS c
WHERE NOT EXISTS (
    SELECT FROM reminiscence.chunk_vector_{generation} AS v
    WHERE v.external_id = $(external_id)p AND v.chunk_id = c.chunk_id
);

-- name: delete_differing
-- Rows that the replay does not give; those that it gives stay untouched, with their entries in every index.
DELETE FROM reminiscence.{table} AS stored
WHERE stored.external_id = $(external_id)p AND NOT EXISTS (
    SELECT FROM pg_temp.{table} AS replayed
    WHERE {same_key} AND replayed::record *= stored::record
);

-- name: insert_missing
-- A row that differed was deleted before, so that it comes back as a new one and never by an update in place.
INSERT INTO reminiscence.{table}
SELECT replayed.*
FROM pg_temp.{table} AS replayed
WHERE NOT EXISTS (
    SELECT FROM reminiscence.{table} AS stored
    WHERE stored.external_id = $(external_id)p AND {same_key}
);

-- name: discard_vectors
-- The vectors of some chunks in one generation, and what the cache holds for their texts by its model, so that the embedder
-- makes both again. Other chunks that say the same go with them: nothing would stand behind their vectors.
WITH form AS MATERIALIZED (
    SELECT c.chunk_id, sha256(convert_to(f.text, 'UTF8')) AS text_hash
    FROM pg_temp.memory_chunk AS c
    CROSS JOIN LATERAL (VALUES (c.indexed_text), (c.indexed_before), (c.indexed_around)) AS f (text)
), wrong AS MATERIALIZED (
    SELECT form.text_hash FROM form WHERE form.chunk_id = ANY($(chunk_ids)p::uuid[])
), uncached AS (
    DELETE FROM reminiscence.embedding_cache AS e
    USING reminiscence.embedding_generation AS g
    WHERE e.external_id = $(external_id)p AND g.generation = {generation} AND e.model_name = g.model_name
        AND e.text_hash IN (SELECT wrong.text_hash FROM wrong)
)
DELETE FROM reminiscence.chunk_vector_{generation}
WHERE external_id = $(external_id)p AND chunk_id IN (
    SELECT form.chunk_id FROM form WHERE form.text_hash IN (SELECT wrong.text_hash FROM wrong)
);

-- name: delete_orphaned_vectors
DELETE FROM reminiscence.chunk_vector_{generation} AS v
WHERE v.external_id = $(external_id)p AND NOT EXISTS (
    SELECT FROM pg_temp.memory_chunk AS c WHERE c.chunk_id = v.chunk_id
)
RETURNING v.chunk_id;

-- name: carry_to_vectors
-- What a search filters by stands beside the vectors too.
UPDATE reminiscence.chunk_vector_{generation} AS v
SET tier = c.tier, confidence = c.confidence, start_date = c.start_date, end_date = c.end_date,
    recorded_at = c.recorded_at, superseded_at = c.superseded_at, corrected_at = c.corrected_at,
    corrected_end_dates = c.corrected_end_dates
FROM pg_temp.memory_chunk AS c
WHERE v.external_id = $(external_id)p AND c.chunk_id = v.chunk_id
    AND (v.tier, v.confidence, v.start_date, v.end_date, v.recorded_at, v.superseded_at, v.corrected_at,
        v.corrected_end_dates)
        IS DISTINCT FROM (c.tier, c.confidence, c.start_date, c.end_date, c.recorded_at, c.superseded_at,
        c.corrected_at, c.corrected_end_dates);

-- name: delete_orphaned_cache
-- Vectors of texts that no chunk has any more, former ones of chunks that are still there included.
WITH form AS MATERIALIZED (
    SELECT sha256(convert_to(f.text, 'UTF8')) AS text_hash
    FROM pg_temp.memory_chunk AS c
    CROSS JOIN LATERAL (VALUES (c.indexed_text), (c.indexed_before), (c.indexed_around)) AS f (text)
)
DELETE FROM reminiscence.embedding_cache AS e
WHERE e.external_id = $(external_id)p AND NOT EXISTS (SELECT FROM form WHERE form.text_hash = e.text_hash)
RETURNING e.text_hash;
