-- part: columns
generation AS number, model_name, dimension, state, state_since, provider, model

-- name: current_generation
SELECT {include columns} FROM embedding_generation WHERE state = 'current';

-- name: take_embedder
SELECT take_embedder($(model_name)p, $(dimension)p, $(provider)p, $(model)p) AS is_taken;

-- name: list_generations
-- Those that have a table. A snapshot may be older than the lock that the statement waits for, and miss what was dropped
-- meanwhile.
SELECT {include columns}
FROM embedding_generation
WHERE state <> 'dropped' AND to_regclass('reminiscence.chunk_vector_' || generation) IS NOT NULL
ORDER BY generation;

-- name: list_all_generations
SELECT {include columns} FROM embedding_generation ORDER BY generation;

-- name: size_tables
-- The disk size of each generation's tables with their indexes.
SELECT substring(p.relname FROM '[0-9]+$')::int AS number, sum(pg_total_relation_size(i.inhrelid))::bigint AS size_bytes
FROM pg_class AS p
JOIN pg_inherits AS i ON i.inhparent = p.oid
WHERE p.relkind = 'p' AND p.relnamespace = 'reminiscence'::regnamespace
    AND p.relname ~ ('^(' || array_to_string($(prefixes)p::text[], '|') || ')[0-9]+$')
GROUP BY 1;

-- name: try_build_lock
SELECT pg_try_advisory_lock($(key)p) AS is_mine;

-- name: holds_build_lock
SELECT EXISTS (
    SELECT FROM pg_locks
    WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND granted AND classid = 0 AND objid::bigint = $(key)p::bigint
) AS is_mine;

-- name: count_seconds_since
SELECT extract(epoch FROM clock_timestamp() - $(since)p::timestamptz)::float8 AS seconds;

-- name: add_generation
INSERT INTO embedding_generation (generation, model_name, dimension, state, provider, model)
SELECT max(generation) + 1, $(model_name)p, $(dimension)p, 'building', $(provider)p, $(model)p
FROM embedding_generation
RETURNING {include columns};

-- name: create_tables
SELECT create_chunk_vectors($(number)p, $(dimension)p)::text;

-- name: set_state
UPDATE embedding_generation
SET state = $(after)p, state_since = clock_timestamp()
WHERE state = $(before)p AND ($(number)p::int IS NULL OR generation = $(number)p::int)
RETURNING {include columns};

-- name: drop_generation
-- Users of a vector table first ask which tables exist, and hold a lock on embedding_generation from then on. If the
-- build lock was lost unnoticed, another process may have switched to this generation.
DO $$ BEGIN
    LOCK TABLE embedding_generation IN ACCESS EXCLUSIVE MODE;
    UPDATE embedding_generation SET state = 'dropped', state_since = clock_timestamp()
    WHERE generation = {generation} AND state IN ('building', 'retired');
    IF NOT FOUND THEN RAISE EXCEPTION 'generation {generation} is not to be dropped'; END IF;
    DROP TABLE IF EXISTS chunk_vector_{generation}, chunk_norms_{generation}, vector_cell_{generation};
EXCEPTION WHEN lock_not_available THEN
    RAISE EXCEPTION {in_use};
END $$;
