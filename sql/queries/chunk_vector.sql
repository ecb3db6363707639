-- part: all_chunks
-- All chunks of the tenant.
FROM memory_chunk AS c
WHERE c.external_id = $(external_id)p

-- part: chunks_of
-- Those of some memories, memory by memory: the planner must not read all of the tenant's for them.
FROM unnest($(memory_ids)p::uuid[]) AS asked (memory_id)
CROSS JOIN LATERAL (
    SELECT * FROM memory_chunk WHERE external_id = $(external_id)p AND memory_id = asked.memory_id OFFSET 0
) AS c
WHERE true

-- part: all_headings
FROM memory_heading AS h
WHERE h.external_id = $(external_id)p

-- part: headings_of
FROM unnest($(memory_ids)p::uuid[]) AS asked (memory_id)
CROSS JOIN LATERAL (
    SELECT * FROM memory_heading WHERE external_id = $(external_id)p AND memory_id = asked.memory_id OFFSET 0
) AS h
WHERE true

-- part: find_missing_among
-- Chunks and headings after a number that have no vectors, in order: what their texts are made of, and whether the
-- cache holds their vectors. Headings have negative numbers and come first. Here and below, OFFSET 0 makes the planner
-- look each up by its key: as a join it might compare every chunk with every vector.
WITH missing AS MATERIALIZED (
    (
        SELECT h.number, NULL::uuid AS chunk_id, h.memory_id, h.text_hash, h.title AS content, h.day,
            NULL::date AS stated_on
        {headings} AND h.number > $(after)p::bigint AND NOT EXISTS (
            SELECT FROM chunk_vector_{generation} WHERE external_id = $(external_id)p AND number = h.number OFFSET 0
        )
        ORDER BY h.number
        LIMIT $(limit)p::int
    )
    UNION ALL
    (
        SELECT c.number, c.chunk_id, c.memory_id, c.text_hash, c.content, NULL::date,
            CASE WHEN c.derived_from IS NOT NULL THEN coalesce(c.said_on, (c.start_date AT TIME ZONE 'UTC')::date) END
        {chunks} AND c.number > $(after)p::bigint AND NOT EXISTS (
            SELECT FROM chunk_vector_{generation} WHERE external_id = $(external_id)p AND number = c.number OFFSET 0
        )
        ORDER BY c.number
        LIMIT $(limit)p::int
    )
    ORDER BY 1
    LIMIT $(limit)p::int
)
SELECT missing.*, EXISTS (
    SELECT FROM embedding_cache
    WHERE external_id = $(external_id)p AND model_name = $(model_name)p AND text_hash = missing.text_hash
    OFFSET 0
) AS is_cached
FROM missing
ORDER BY missing.number

-- name: find_missing
{include find_missing_among chunks=all_chunks headings=all_headings};

-- name: find_missing_of
{include find_missing_among chunks=chunks_of headings=headings_of};

-- part: nearest_cell
-- A new vector goes to the nearest cell of the last sorting; if nothing was ever sorted, there is one cell. Computed
-- here for the few vectors that come from the cache: it takes a millisecond for three hundred cells.
coalesce((
    SELECT s.cell
    FROM vector_cell_{generation} AS s
    WHERE s.external_id = $(external_id)p AND s.cell >= (
        SELECT (max(m.cell) >> 16) << 16 FROM vector_cell_{generation} AS m WHERE m.external_id = $(external_id)p
    )
    ORDER BY s.vector <#> found.vector, s.cell
    LIMIT 1
), 0)

-- name: fill_vectors
-- Vectors for chunks and headings that still have the embedded text: what was erased or changed meanwhile must get
-- none. Each has an index into the new vectors, or 0 if the cache holds its vector, and a cell, or -1 if it must be
-- determined. Nothing if the generation is not in the state that the caller expects (nobody would use its vectors), or
-- if the caller does not know that there are cells.
WITH asked AS MATERIALIZED (
    SELECT a.number, decode(a.text_hash, 'hex') AS text_hash, a.mass, a.place, a.cell
    FROM unnest(
        $(numbers)p::bigint[], $(text_hashes)p::text[], $(masses)p::real[], $(places)p::int[], $(cells)p::int[])
        AS a (number, text_hash, mass, place, cell)
    WHERE EXISTS (
        SELECT FROM embedding_generation AS g WHERE g.generation = {generation} AND g.state = $(state)p::text
    ) AND ($(knows_cells)p::boolean OR NOT EXISTS (
        SELECT FROM vector_cell_{generation} WHERE external_id = $(external_id)p
    ))
), named AS MATERIALIZED (
    SELECT a.*
    FROM asked AS a
    CROSS JOIN LATERAL (
        SELECT FROM memory_chunk
        WHERE external_id = $(external_id)p AND number = a.number AND text_hash = a.text_hash
        OFFSET 0
    ) AS c
    WHERE a.number > 0
    UNION ALL
    SELECT a.*
    FROM asked AS a
    CROSS JOIN LATERAL (
        SELECT FROM memory_heading
        WHERE external_id = $(external_id)p AND number = a.number AND text_hash = a.text_hash
        OFFSET 0
    ) AS h
    WHERE a.number < 0
), made AS MATERIALIZED (
    SELECT DISTINCT ON (n.text_hash) n.text_hash,
        (($(vectors)p::real[])[(n.place - 1) * $(dimension)p::int + 1 : n.place * $(dimension)p::int])::halfvec AS vector
    FROM named AS n
    WHERE n.place > 0
    ORDER BY n.text_hash
), cached AS (
    INSERT INTO embedding_cache (external_id, model_name, text_hash, vector)
    SELECT $(external_id)p, $(model_name)p, text_hash, vector FROM made
    ON CONFLICT (external_id, model_name, text_hash) DO NOTHING
), found AS MATERIALIZED (
    SELECT n.number, n.mass, n.cell, coalesce(e.vector, made.vector) AS vector
    FROM named AS n
    LEFT JOIN made ON made.text_hash = n.text_hash
    LEFT JOIN LATERAL (
        SELECT vector FROM embedding_cache
        WHERE external_id = $(external_id)p AND model_name = $(model_name)p AND text_hash = n.text_hash
        OFFSET 0
    ) AS e ON true
    WHERE coalesce(e.vector, made.vector) IS NOT NULL
), filled AS (
    INSERT INTO chunk_vector_{generation} (external_id, cell, number, mass, vector)
    SELECT $(external_id)p, CASE WHEN found.cell = 0 OR EXISTS (
        SELECT FROM vector_cell_{generation} AS k WHERE k.external_id = $(external_id)p AND k.cell = found.cell
    ) THEN found.cell ELSE {include nearest_cell} END, found.number, found.mass, found.vector
    FROM found
    ON CONFLICT (external_id, number) WHERE number IS NOT NULL DO NOTHING
    RETURNING number
)
SELECT (SELECT string_agg(int8send(number), ''::bytea) FROM filled) AS numbers,
    (SELECT count(*) FROM vector_cell_{generation} WHERE external_id = $(external_id)p) AS cells,
    (SELECT text_chunks FROM memory_stream WHERE external_id = $(external_id)p) AS text_chunks;

-- name: read_newest_cells
-- The cells of the last sorting.
SELECT string_agg(int4send(cell), ''::bytea) AS cells, string_agg(halfvec_send(vector), ''::bytea) AS vectors
FROM vector_cell_{generation}
WHERE external_id = $(external_id)p AND cell >= (
    SELECT (max(m.cell) >> 16) << 16 FROM vector_cell_{generation} AS m WHERE m.external_id = $(external_id)p
);

-- name: find_uncached
-- Which of some texts have no vector in the cache.
SELECT h.text_hash
FROM unnest($(text_hashes)p::text[]) WITH ORDINALITY AS h (text_hash, place)
WHERE NOT EXISTS (
    SELECT FROM embedding_cache
    WHERE external_id = $(external_id)p AND model_name = $(model_name)p AND text_hash = decode(h.text_hash, 'hex')
    OFFSET 0
)
ORDER BY h.place;

-- part: count_missing_among
SELECT count(*) AS chunks
{chunks} AND NOT EXISTS (
    SELECT FROM chunk_vector_{generation} WHERE external_id = $(external_id)p AND number = c.number OFFSET 0
)

-- name: count_missing
{include count_missing_among chunks=all_chunks};

-- name: count_missing_of
{include count_missing_among chunks=chunks_of};

-- name: lacks_vectors
-- Whether a chunk or heading of a memory has no vector.
SELECT EXISTS (
    SELECT
    FROM (SELECT number FROM memory_chunk WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p OFFSET 0) AS c
    WHERE NOT EXISTS (
        SELECT FROM chunk_vector_{generation} WHERE external_id = $(external_id)p AND number = c.number OFFSET 0
    )
) OR EXISTS (
    SELECT
    FROM (SELECT number FROM memory_heading WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p OFFSET 0) AS h
    WHERE NOT EXISTS (
        SELECT FROM chunk_vector_{generation} WHERE external_id = $(external_id)p AND number = h.number OFFSET 0
    )
) AS lacks_any;

-- name: count_chunks
-- How many chunks there are, and how many of them have no vectors.
SELECT count(*) AS chunks, count(*) FILTER (WHERE NOT EXISTS (
    SELECT FROM chunk_vector_{generation} WHERE external_id = $(external_id)p AND number = c.number OFFSET 0
)) AS missing
FROM memory_chunk AS c
WHERE c.external_id = $(external_id)p;

-- name: delete_cached_vectors
-- What the cache holds of a model that is no longer used.
DELETE FROM embedding_cache
WHERE external_id = $(external_id)p AND model_name = $(model_name)p;

-- name: find_dots
-- The negated dot product of every vector with the question's. Both lists are in the order of one scan.
SELECT string_agg(int8send(number), ''::bytea) AS numbers,
    string_agg(float4send((vector <#> $(vector)p::halfvec)::real), ''::bytea) AS dots
FROM chunk_vector_{generation}
WHERE external_id = $(external_id)p;

-- name: find_dots_and_norms
-- The same, plus the vector lengths of all windows: those stored, and the layouts they belong to, memory by memory as in
-- open_stream. A key is 20 bytes, memory and segment. They are not joined here: looked up one by one, the norms of ten
-- thousand short memories took four times as long as all their vectors, and a plan kept from a small table compared all
-- norms with all layouts.
SELECT of_vectors.*, of_layouts.*, of_windows.*
FROM (
    SELECT string_agg(int8send(number), ''::bytea) AS numbers,
        string_agg(float4send((vector <#> $(vector)p::halfvec)::real), ''::bytea) AS dots
    FROM chunk_vector_{generation}
    WHERE external_id = $(external_id)p
) AS of_vectors
CROSS JOIN (
    SELECT string_agg(uuid_send(memory_id) || int4send(segment), ''::bytea ORDER BY memory_id, segment) AS layout_keys,
        string_agg(int4send(chunks), ''::bytea ORDER BY memory_id, segment) AS layout_sizes
    FROM memory_layout
    WHERE external_id = $(external_id)p
) AS of_layouts
CROSS JOIN (
    SELECT string_agg(uuid_send(memory_id) || int4send(segment), ''::bytea ORDER BY memory_id, segment) AS norms_keys,
        string_agg(int4send(octet_length(norms)), ''::bytea ORDER BY memory_id, segment) AS norms_sizes,
        string_agg(norms, ''::bytea ORDER BY memory_id, segment) AS norms
    FROM chunk_norms_{generation}
    WHERE external_id = $(external_id)p
) AS of_windows;

-- name: find_near_dots
-- The same for the vectors in the nearest cells. During a new sorting, a tenant has two sets of cells, which differ
-- above the lowest 16 bits, and the nearest of both are read. Cell 0 holds what was never sorted.
-- Memories of the same title and day have headings of the same text, so thousands may fill a cell with one vector. Of a
-- cell only the newest headings are read, four times as many as there are cells: after a sorting, a usual cell has as
-- many vectors as there are cells.
-- OFFSET 0: cell by cell. With a single condition the planner might read all vectors of the tenant; and a number that is
-- not compared together with its cell would let it use the index on numbers.
SELECT string_agg(int8send(v.number), ''::bytea) AS numbers,
    string_agg(float4send((v.vector <#> $(vector)p::halfvec)::real), ''::bytea) AS dots
FROM (
    SELECT near.cell, greatest(4 * near.cells, $(headings)p::bigint) AS headings
    FROM (
        SELECT cell, count(*) OVER (PARTITION BY cell >> 16) AS cells,
            row_number() OVER (PARTITION BY cell >> 16 ORDER BY vector <#> $(vector)p::halfvec, cell) AS place
        FROM vector_cell_{generation}
        WHERE external_id = $(external_id)p
    ) AS near
    WHERE near.place <= $(cells)p::int AND near.cell <> 0
    UNION ALL
    SELECT 0, NULL
) AS searched
CROSS JOIN LATERAL (
    (
        SELECT number, vector FROM chunk_vector_{generation}
        WHERE external_id = $(external_id)p AND (cell, number) > (searched.cell, 0::bigint)
            AND cell = searched.cell
        OFFSET 0
    )
    UNION ALL
    (
        SELECT number, vector FROM chunk_vector_{generation}
        WHERE external_id = $(external_id)p AND (cell, number) < (searched.cell, 0::bigint)
            AND cell = searched.cell
        ORDER BY number
        LIMIT searched.headings
    )
) AS v;

-- name: find_dots_of
-- The same for vectors whose numbers are in some ranges. Texts are numbered in order, so a few ranges replace many
-- numbers, and each takes one index search.
SELECT string_agg(int8send(stored.number), ''::bytea) AS numbers,
    string_agg(float4send((stored.vector <#> $(vector)p::halfvec)::real), ''::bytea) AS dots
FROM unnest($(firsts)p::bigint[], $(lasts)p::bigint[]) AS run (first, last)
CROSS JOIN LATERAL (
    SELECT number, vector FROM chunk_vector_{generation}
    WHERE external_id = $(external_id)p AND number BETWEEN run.first AND run.last
    OFFSET 0
) AS stored;

-- name: read_vectors_of_chunks
-- Each by its own key: the planner might compare all chunks with all vectors.
SELECT c.chunk_id, halfvec_send(v.vector) AS vector
FROM unnest($(chunk_ids)p::uuid[]) AS asked (chunk_id)
CROSS JOIN LATERAL (
    SELECT chunk_id, number FROM memory_chunk
    WHERE external_id = $(external_id)p AND chunk_id = asked.chunk_id
    OFFSET 0
) AS c
CROSS JOIN LATERAL (
    SELECT vector FROM chunk_vector_{generation}
    WHERE external_id = $(external_id)p AND number = c.number
    OFFSET 0
) AS v;

-- name: read_vectors
SELECT string_agg(int8send(number), ''::bytea) AS numbers, string_agg(float4send(mass), ''::bytea) AS masses,
    string_agg(halfvec_send(vector), ''::bytea) AS vectors
FROM chunk_vector_{generation}
WHERE external_id = $(external_id)p AND number = ANY($(numbers)p::bigint[]);
