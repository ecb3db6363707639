-- What the planner knows of memory_chunk is right again after its text indexes were built.
CREATE OR REPLACE FUNCTION restore_text_indexes() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, reminiscence, pg_temp
AS $function$
DECLARE
    started_at CONSTANT timestamptz := pg_postmaster_start_time();
    cleared_at CONSTANT timestamptz := coalesce((SELECT stats_reset FROM pg_stat_bgwriter), '-infinity');
    index_name regclass;
    restored integer := 0;
BEGIN
    IF string_to_array(split_part(current_setting('pg_textsearch.library_version'), '-', 1), '.')::int[] >= ARRAY[1, 3]
        OR EXISTS (SELECT FROM text_index_build WHERE server_started_at = started_at AND memory_cleared_at = cleared_at)
    THEN
        RETURN 0;
    END IF;
    -- Whoever comes second waits, and then finds it done.
    PERFORM pg_advisory_xact_lock('text_index_build'::regclass::oid::bigint);
    IF EXISTS (SELECT FROM text_index_build WHERE server_started_at = started_at AND memory_cleared_at = cleared_at) THEN
        RETURN 0;
    END IF;
    FOR index_name IN
        SELECT i.indexrelid::regclass
        FROM pg_index AS i
        JOIN pg_class AS c ON c.oid = i.indexrelid
        JOIN pg_am AS m ON m.oid = c.relam
        JOIN pg_class AS t ON t.oid = i.indrelid
        WHERE m.amname = 'bm25' AND c.relkind = 'i' AND t.relnamespace = 'reminiscence'::regnamespace
            AND pg_relation_size(t.oid) > 0
        ORDER BY 1
    LOOP
        EXECUTE format('REINDEX INDEX %s', index_name);
        restored := restored + 1;
    END LOOP;
    -- Building a BM25 index leaves its table with the count of no rows, and the planner would read all of a tenant's chunks
    -- where it is to look up a few, until autovacuum comes.
    IF restored > 0 THEN
        ANALYZE memory_chunk;
    END IF;
    INSERT INTO text_index_build (server_started_at, memory_cleared_at) VALUES (started_at, cleared_at)
    ON CONFLICT (only_row) DO UPDATE
    SET server_started_at = EXCLUDED.server_started_at, memory_cleared_at = EXCLUDED.memory_cleared_at;
    RETURN restored;
END
$function$;
