-- name: create_tables
-- Tables of this transaction with the names of the projected ones, which they replace: the handlers' own statements
-- replay into them. They hold one stream, so no key begins with external_id, and keys used in joins omit it entirely:
-- planned on empty tables, a lookup by it alone would seem just as good, but it finds every row. Vectors are not
-- replayed, so they have no table here.
CREATE TEMPORARY TABLE active_memory (
    LIKE reminiscence.active_memory INCLUDING DEFAULTS, PRIMARY KEY (memory_id)
) ON COMMIT DROP;
CREATE TEMPORARY TABLE memory_segment (
    LIKE reminiscence.memory_segment INCLUDING DEFAULTS, PRIMARY KEY (memory_id, segment)
) ON COMMIT DROP;
CREATE TEMPORARY TABLE memory_turn (
    LIKE reminiscence.memory_turn INCLUDING DEFAULTS, PRIMARY KEY (scope, turn_id, memory_id)
) ON COMMIT DROP;
CREATE INDEX ON memory_turn (memory_id);
CREATE TEMPORARY TABLE shortterm_memory (
    LIKE reminiscence.shortterm_memory INCLUDING DEFAULTS, PRIMARY KEY (memory_id, external_id)
) ON COMMIT DROP;
CREATE TEMPORARY TABLE memory_chunk (
    LIKE reminiscence.memory_chunk INCLUDING DEFAULTS, PRIMARY KEY (chunk_id)
) ON COMMIT DROP;
CREATE INDEX ON memory_chunk (memory_id);
CREATE INDEX ON memory_chunk (memory_id) WHERE derived_from IS NOT NULL;
CREATE INDEX ON memory_chunk (number);
CREATE INDEX ON memory_chunk (duplicate_of) WHERE duplicate_of IS NOT NULL;
CREATE TEMPORARY TABLE memory_heading (
    LIKE reminiscence.memory_heading INCLUDING DEFAULTS, PRIMARY KEY (number)
) ON COMMIT DROP;
CREATE INDEX ON memory_heading (memory_id, day);
CREATE TEMPORARY TABLE posting (
    LIKE reminiscence.posting INCLUDING DEFAULTS INCLUDING STORAGE, PRIMARY KEY (term, block, external_id)
) ON COMMIT DROP;
CREATE TEMPORARY TABLE memory_layout (
    LIKE reminiscence.memory_layout INCLUDING DEFAULTS, PRIMARY KEY (memory_id, segment, external_id)
) ON COMMIT DROP;
CREATE TEMPORARY TABLE memory_attribute (
    LIKE reminiscence.memory_attribute INCLUDING DEFAULTS, PRIMARY KEY (path, value, item_id)
) ON COMMIT DROP;
CREATE INDEX ON memory_attribute (item_id);
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
CREATE TEMPORARY TABLE profile (
    LIKE reminiscence.profile INCLUDING DEFAULTS, PRIMARY KEY (position)
) ON COMMIT DROP;
CREATE INDEX ON profile (name);
CREATE TEMPORARY TABLE recalled_chunk (
    LIKE reminiscence.recalled_chunk INCLUDING DEFAULTS, PRIMARY KEY (run_id, chunk_id)
) ON COMMIT DROP;
CREATE INDEX ON recalled_chunk (chunk_id, reported_at) WHERE reported_at IS NOT NULL;
CREATE TEMPORARY TABLE outdated_chunk (
    LIKE reminiscence.outdated_chunk INCLUDING DEFAULTS, PRIMARY KEY (chunk_id, position, part)
) ON COMMIT DROP;
CREATE INDEX ON outdated_chunk (by_chunk);
CREATE TEMPORARY TABLE belief (
    LIKE reminiscence.belief INCLUDING DEFAULTS, PRIMARY KEY (position)
) ON COMMIT DROP;
CREATE TEMPORARY TABLE event_index (
    LIKE reminiscence.event_index INCLUDING DEFAULTS, PRIMARY KEY (position)
) ON COMMIT DROP;
CREATE TEMPORARY TABLE event_posting (
    LIKE reminiscence.event_posting INCLUDING DEFAULTS INCLUDING STORAGE, PRIMARY KEY (term, block, external_id)
) ON COMMIT DROP;

-- name: empty_tables
TRUNCATE pg_temp.active_memory, pg_temp.memory_segment, pg_temp.memory_turn, pg_temp.shortterm_memory,
    pg_temp.memory_chunk, pg_temp.memory_heading, pg_temp.posting, pg_temp.memory_layout,
    pg_temp.memory_attribute, pg_temp.entity, pg_temp.entity_name, pg_temp.relationship, pg_temp.graph_mention,
    pg_temp.belief, pg_temp.profile, pg_temp.recalled_chunk, pg_temp.outdated_chunk, pg_temp.event_index,
    pg_temp.event_posting;

-- name: analyze_tables
-- Keys only, and of these only ids: samples of other columns would put memory text into the catalog.
ANALYZE pg_temp.active_memory (memory_id), pg_temp.memory_segment (memory_id), pg_temp.memory_turn (memory_id),
    pg_temp.shortterm_memory (memory_id), pg_temp.memory_chunk (chunk_id), pg_temp.memory_heading (number), pg_temp.posting (block),
    pg_temp.memory_layout (memory_id), pg_temp.memory_attribute (item_id), pg_temp.entity (entity_id),
    pg_temp.entity_name (entity_id), pg_temp.relationship (relationship_id), pg_temp.graph_mention (item_id, chunk_id),
    pg_temp.belief (position), pg_temp.profile (position), pg_temp.recalled_chunk (chunk_id),
    pg_temp.outdated_chunk (chunk_id),
    pg_temp.event_index (position), pg_temp.event_posting (block);

-- name: count_rows
SELECT (SELECT count(*) FROM pg_temp.active_memory) AS active_memory,
    (SELECT count(*) FROM pg_temp.memory_segment) AS memory_segment,
    (SELECT count(*) FROM pg_temp.memory_turn) AS memory_turn,
    (SELECT count(*) FROM pg_temp.shortterm_memory) AS shortterm_memory,
    (SELECT count(*) FROM pg_temp.memory_chunk) AS memory_chunk,
    (SELECT count(*) FROM pg_temp.memory_heading) AS memory_heading,
    (SELECT count(*) FROM pg_temp.posting) AS posting,
    (SELECT count(*) FROM pg_temp.memory_layout) AS memory_layout,
    (SELECT count(*) FROM pg_temp.memory_attribute) AS memory_attribute,
    (SELECT count(*) FROM pg_temp.entity) AS entity,
    (SELECT count(*) FROM pg_temp.entity_name) AS entity_name,
    (SELECT count(*) FROM pg_temp.relationship) AS relationship,
    (SELECT count(*) FROM pg_temp.graph_mention) AS graph_mention,
    (SELECT count(*) FROM pg_temp.belief) AS belief,
    (SELECT count(*) FROM pg_temp.profile) AS profile,
    (SELECT count(*) FROM pg_temp.recalled_chunk) AS recalled_chunk,
    (SELECT count(*) FROM pg_temp.outdated_chunk) AS outdated_chunk,
    (SELECT count(*) FROM pg_temp.event_index) AS event_index,
    (SELECT count(*) FROM pg_temp.event_posting) AS event_posting;

-- name: find_filled_tables
-- Which tables have a row of the stream, stored or replayed.
SELECT
    EXISTS (SELECT FROM reminiscence.active_memory WHERE external_id = $(external_id)p)
        OR EXISTS (SELECT FROM pg_temp.active_memory) AS active_memory,
    EXISTS (SELECT FROM reminiscence.memory_segment WHERE external_id = $(external_id)p)
        OR EXISTS (SELECT FROM pg_temp.memory_segment) AS memory_segment,
    EXISTS (SELECT FROM reminiscence.memory_turn WHERE external_id = $(external_id)p)
        OR EXISTS (SELECT FROM pg_temp.memory_turn) AS memory_turn,
    EXISTS (SELECT FROM reminiscence.shortterm_memory WHERE external_id = $(external_id)p)
        OR EXISTS (SELECT FROM pg_temp.shortterm_memory) AS shortterm_memory,
    EXISTS (SELECT FROM reminiscence.memory_chunk WHERE external_id = $(external_id)p)
        OR EXISTS (SELECT FROM pg_temp.memory_chunk) AS memory_chunk,
    EXISTS (SELECT FROM reminiscence.memory_heading WHERE external_id = $(external_id)p)
        OR EXISTS (SELECT FROM pg_temp.memory_heading) AS memory_heading,
    EXISTS (SELECT FROM reminiscence.posting WHERE external_id = $(external_id)p)
        OR EXISTS (SELECT FROM pg_temp.posting) AS posting,
    EXISTS (SELECT FROM reminiscence.memory_layout WHERE external_id = $(external_id)p)
        OR EXISTS (SELECT FROM pg_temp.memory_layout) AS memory_layout,
    EXISTS (SELECT FROM reminiscence.memory_attribute WHERE external_id = $(external_id)p)
        OR EXISTS (SELECT FROM pg_temp.memory_attribute) AS memory_attribute,
    EXISTS (SELECT FROM reminiscence.entity WHERE external_id = $(external_id)p)
        OR EXISTS (SELECT FROM pg_temp.entity) AS entity,
    EXISTS (SELECT FROM reminiscence.entity_name WHERE external_id = $(external_id)p)
        OR EXISTS (SELECT FROM pg_temp.entity_name) AS entity_name,
    EXISTS (SELECT FROM reminiscence.relationship WHERE external_id = $(external_id)p)
        OR EXISTS (SELECT FROM pg_temp.relationship) AS relationship,
    EXISTS (SELECT FROM reminiscence.graph_mention WHERE external_id = $(external_id)p)
        OR EXISTS (SELECT FROM pg_temp.graph_mention) AS graph_mention,
    EXISTS (SELECT FROM reminiscence.belief WHERE external_id = $(external_id)p)
        OR EXISTS (SELECT FROM pg_temp.belief) AS belief,
    EXISTS (SELECT FROM reminiscence.profile WHERE external_id = $(external_id)p)
        OR EXISTS (SELECT FROM pg_temp.profile) AS profile,
    EXISTS (SELECT FROM reminiscence.recalled_chunk WHERE external_id = $(external_id)p)
        OR EXISTS (SELECT FROM pg_temp.recalled_chunk) AS recalled_chunk,
    EXISTS (SELECT FROM reminiscence.outdated_chunk WHERE external_id = $(external_id)p)
        OR EXISTS (SELECT FROM pg_temp.outdated_chunk) AS outdated_chunk,
    EXISTS (SELECT FROM reminiscence.event_index WHERE external_id = $(external_id)p)
        OR EXISTS (SELECT FROM pg_temp.event_index) AS event_index,
    EXISTS (SELECT FROM reminiscence.event_posting WHERE external_id = $(external_id)p)
        OR EXISTS (SELECT FROM pg_temp.event_posting) AS event_posting;

-- name: compare_table
-- Rows that differ between the stored and the replayed table in a single byte (*<> compares the stored form), and in
-- which columns; only the values of `shown` are returned, which are never text.
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
-- Vectors without a chunk, vectors that differ from the cached one of the text, and vectors whose cell has no centre,
-- so that no search would find them. Missing vectors are not reported. Cell 0 needs no centre: every search reads it.
WITH indexed AS (
    SELECT number, text_hash FROM pg_temp.memory_chunk
    UNION ALL
    SELECT number, text_hash FROM pg_temp.memory_heading
), compared AS (
    SELECT v.number, indexed.number IS NULL AS is_unexpected, array_remove(ARRAY[
        CASE WHEN v.cell <> 0 AND NOT EXISTS (
            SELECT FROM reminiscence.vector_cell_{generation} AS s
            WHERE s.external_id = $(external_id)p AND s.cell = v.cell
        ) THEN 'cell' END,
        CASE WHEN v.vector IS DISTINCT FROM (
            SELECT e.vector FROM reminiscence.embedding_cache AS e
            WHERE e.external_id = $(external_id)p AND e.model_name = $(model_name)p AND e.text_hash = indexed.text_hash
        ) THEN 'vector' END
    ], NULL) AS columns
    FROM reminiscence.chunk_vector_{generation} AS v
    LEFT JOIN indexed ON indexed.number = v.number
    WHERE v.external_id = $(external_id)p
)
SELECT number::text AS key, CASE WHEN is_unexpected THEN 'unexpected' ELSE 'changed' END AS problem,
    CASE WHEN is_unexpected THEN '{}' ELSE columns END AS columns
FROM compared
WHERE is_unexpected OR columns <> '{}'
ORDER BY number;

-- name: read_masses
-- One page of vectors, in order of their numbers, with what their texts are made of.
SELECT v.number, v.mass::float8 AS mass, c.content, c.stated_on, c.day
FROM reminiscence.chunk_vector_{generation} AS v
CROSS JOIN LATERAL (
    SELECT content, NULL::date AS day,
        CASE WHEN derived_from IS NOT NULL THEN coalesce(said_on, (start_date AT TIME ZONE 'UTC')::date) END AS stated_on
    FROM pg_temp.memory_chunk
    WHERE number = v.number
    UNION ALL
    SELECT title, day, NULL
    FROM pg_temp.memory_heading
    WHERE number = v.number
) AS c
WHERE v.external_id = $(external_id)p AND v.number > $(after)p::bigint
ORDER BY v.number
LIMIT $(limit)p::int;

-- name: count_missing_vectors
SELECT count(*) AS chunks
FROM pg_temp.memory_chunk AS c
WHERE NOT EXISTS (
    SELECT FROM reminiscence.chunk_vector_{generation} AS v
    WHERE v.external_id = $(external_id)p AND v.number = c.number
);

-- name: delete_differing
-- Rows that the replay does not give; equal rows stay untouched, with their index entries.
DELETE FROM reminiscence.{table} AS stored
WHERE stored.external_id = $(external_id)p AND NOT EXISTS (
    SELECT FROM pg_temp.{table} AS replayed
    WHERE {same_key} AND replayed::record *= stored::record
);

-- name: insert_missing
-- A row that differed was deleted before, so it is inserted as a new one and never updated in place.
INSERT INTO reminiscence.{table}
SELECT replayed.*
FROM pg_temp.{table} AS replayed
WHERE NOT EXISTS (
    SELECT FROM reminiscence.{table} AS stored
    WHERE stored.external_id = $(external_id)p AND {same_key}
);

-- name: discard_vectors
-- Some vectors of one generation, and the cached vectors of their texts by its model, so that the embedder makes both
-- again. Other chunks with the same text are included: their vectors could no longer be checked.
WITH indexed AS MATERIALIZED (
    SELECT number, text_hash FROM pg_temp.memory_chunk
    UNION ALL
    SELECT number, text_hash FROM pg_temp.memory_heading
), wrong AS MATERIALIZED (
    SELECT text_hash FROM indexed WHERE number = ANY($(numbers)p::bigint[])
), uncached AS (
    DELETE FROM reminiscence.embedding_cache AS e
    USING reminiscence.embedding_generation AS g
    WHERE e.external_id = $(external_id)p AND g.generation = {generation} AND e.model_name = g.model_name
        AND e.text_hash IN (SELECT wrong.text_hash FROM wrong)
)
DELETE FROM reminiscence.chunk_vector_{generation}
WHERE external_id = $(external_id)p AND number IN (
    SELECT indexed.number FROM indexed WHERE indexed.text_hash IN (SELECT wrong.text_hash FROM wrong)
);

-- name: discard_rows
-- Correct vectors whose other columns are wrong: they are filled in again from the cache.
DELETE FROM reminiscence.chunk_vector_{generation}
WHERE external_id = $(external_id)p AND number = ANY($(numbers)p::bigint[]);

-- name: delete_orphaned_vectors
DELETE FROM reminiscence.chunk_vector_{generation} AS v
WHERE v.external_id = $(external_id)p
    AND NOT EXISTS (SELECT FROM pg_temp.memory_chunk AS c WHERE c.number = v.number)
    AND NOT EXISTS (SELECT FROM pg_temp.memory_heading AS h WHERE h.number = v.number)
RETURNING v.number;

-- name: delete_orphaned_cache
-- Vectors of texts that nothing has any more, including former texts of existing chunks.
DELETE FROM reminiscence.embedding_cache AS e
WHERE e.external_id = $(external_id)p
    AND NOT EXISTS (SELECT FROM pg_temp.memory_chunk AS c WHERE c.text_hash = e.text_hash)
    AND NOT EXISTS (SELECT FROM pg_temp.memory_heading AS h WHERE h.text_hash = e.text_hash)
    AND NOT EXISTS (SELECT FROM pg_temp.event_index AS u WHERE u.text_hash = e.text_hash)
RETURNING e.text_hash;
