-- name: describe_cells
-- How many cells the last sorting made, whether any vector is in another cell, and the head of the stream. The cells of
-- one sorting have the same number above their lowest 16 bits.
SELECT (SELECT count(*) FROM vector_cell_{generation} WHERE external_id = $(external_id)p AND cell >= newest.first) AS cells,
    newest.first, s.head,
    EXISTS (
        SELECT FROM chunk_vector_{generation} AS v WHERE v.external_id = $(external_id)p AND v.cell < newest.first
    ) AS has_unsorted,
    EXISTS (
        SELECT FROM vector_cell_{generation} AS c WHERE c.external_id = $(external_id)p AND c.cell < newest.first
    ) AS has_old_cells
FROM memory_stream AS s
CROSS JOIN (
    SELECT coalesce((max(cell) >> 16) << 16, 0) AS first
    FROM vector_cell_{generation}
    WHERE external_id = $(external_id)p
) AS newest
WHERE s.external_id = $(external_id)p;

-- name: count_vectors
SELECT count(*) AS vectors FROM chunk_vector_{generation} WHERE external_id = $(external_id)p;

-- name: sample_numbers
-- The numbers of every n-th vector: the same ones for the same vectors.
SELECT string_agg(int8send(number), ''::bytea) AS numbers
FROM (
    SELECT number, row_number() OVER (ORDER BY number) AS place
    FROM chunk_vector_{generation}
    WHERE external_id = $(external_id)p AND number > -9223372036854775808
) AS v
WHERE place % $(step)p::bigint = 0;

-- name: add_cells
-- The centres of a new sorting, unless something was erased since their vectors were read.
-- Before the first sorting there is cell 0, which has no centre. It gets an empty row, so that this sorting, too, has
-- earlier cells to delete at its end: a sorting is unfinished as long as there are such cells.
INSERT INTO vector_cell_{generation} (external_id, cell, vector)
SELECT $(external_id)p, made.cell, made.vector
FROM (
    SELECT $(first)p::int + c.place - 1 AS cell,
        (($(vectors)p::real[])[(c.place - 1) * $(dimension)p::int + 1 : c.place * $(dimension)p::int])::halfvec AS vector
    FROM generate_series(1, $(count)p::int) AS c (place)
    UNION ALL
    SELECT 0, array_fill(0::real, ARRAY[$(dimension)p::int])::halfvec
    WHERE NOT EXISTS (SELECT FROM vector_cell_{generation} WHERE external_id = $(external_id)p)
) AS made
WHERE NOT EXISTS (
    SELECT FROM memory_event
    WHERE external_id = $(external_id)p AND position > $(head)p::bigint AND kind = 'memory.erased'
)
RETURNING cell;

-- name: read_unsorted
-- Some vectors that are not in a cell of the last sorting, after one of them in order: vectors already moved leave dead
-- index entries, which should not be read again each time.
SELECT string_agg(int8send(number), ''::bytea) AS numbers, string_agg(float4send(mass), ''::bytea) AS masses,
    string_agg(halfvec_send(vector), ''::bytea) AS vectors, string_agg(int4send(cell), ''::bytea) AS cells
FROM (
    SELECT cell, number, mass, vector
    FROM chunk_vector_{generation}
    WHERE external_id = $(external_id)p AND cell < $(first)p::int
        AND (cell, number) > ($(after_cell)p::int, $(after_number)p::bigint)
    ORDER BY cell, number
    LIMIT $(limit)p::int
) AS v;

-- name: move_vectors
-- Deleted and inserted, not updated: an updated row stays on its page if there is room, and the rows of a cell would
-- remain scattered.
WITH moved AS (
    DELETE FROM chunk_vector_{generation} AS v
    USING unnest($(numbers)p::bigint[], $(cells)p::int[]) AS m (number, cell)
    WHERE v.external_id = $(external_id)p AND v.number = m.number AND v.cell < $(first)p::int AND EXISTS (
        SELECT FROM vector_cell_{generation} AS c WHERE c.external_id = $(external_id)p AND c.cell = m.cell
    )
    RETURNING v.external_id, m.cell, v.number, v.mass, v.vector
)
INSERT INTO chunk_vector_{generation} (external_id, cell, number, mass, vector)
SELECT external_id, cell, number, mass, vector FROM moved ORDER BY cell, number;

-- name: delete_empty_cells
-- Cells before a number that hold no vector, and all cells if no vector is left. OFFSET 0: looked up one by one.
DELETE FROM vector_cell_{generation} AS c
WHERE c.external_id = $(external_id)p AND NOT EXISTS (
    SELECT FROM chunk_vector_{generation} WHERE external_id = $(external_id)p AND cell = c.cell OFFSET 0
) AND (c.cell < $(before)p::int OR NOT EXISTS (
    SELECT FROM chunk_vector_{generation} WHERE external_id = $(external_id)p
));

-- name: clear_empty_cells
-- Empty cells among some cells: their number tells how large the tenant was when it was sorted, so they stay, but not
-- their centres, which derive from deleted vectors.
UPDATE vector_cell_{generation} AS c
SET vector = array_fill(0::real, ARRAY[vector_dims(c.vector)])::halfvec
WHERE c.external_id = $(external_id)p AND c.cell BETWEEN $(first)p::int AND $(last)p::int AND NOT EXISTS (
    SELECT FROM chunk_vector_{generation} WHERE external_id = $(external_id)p AND cell = c.cell OFFSET 0
);

-- name: list_cells
-- Some cells after one of them, in order.
SELECT cell
FROM vector_cell_{generation}
WHERE external_id = $(external_id)p AND cell > $(after)p::int
ORDER BY cell
LIMIT $(limit)p::int;

-- name: recompute_cells
-- Sets the centres of some cells to the means of their current vectors. MATERIALIZED: planned for few cells, they would be
-- computed again for each cell of the tenant.
WITH mean AS MATERIALIZED (
    SELECT cell, l2_normalize(avg(vector)::halfvec) AS vector
    FROM chunk_vector_{generation}
    WHERE external_id = $(external_id)p AND cell BETWEEN $(first)p::int AND $(last)p::int
    GROUP BY cell
)
UPDATE vector_cell_{generation} AS c
SET vector = mean.vector
FROM mean
WHERE c.external_id = $(external_id)p AND c.cell = mean.cell;
