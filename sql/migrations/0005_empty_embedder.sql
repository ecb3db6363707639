-- An empty database takes the embedder of whoever opens it.

-- The owner sees that there are streams, so that take_embedder below, which runs with its rights, leaves them alone.
CREATE POLICY memory_stream_owner ON memory_stream FOR SELECT TO reminiscence_owner USING (true);

-- As before, but it finds pgvector's type by the extension, so that take_embedder can call it with no other schema in its path.
CREATE OR REPLACE FUNCTION create_chunk_vectors(number integer, dimension integer) RETURNS void
LANGUAGE plpgsql
AS $function$
DECLARE
    vectors CONSTANT text := 'chunk_vector_' || number;
    norms CONSTANT text := 'chunk_norms_' || number;
    cells CONSTANT text := 'vector_cell_' || number;
    -- In the row where three vectors fit a page, so that a scan never leaves the table; else out of line.
    storage CONSTANT text := CASE WHEN dimension <= 1024 THEN 'PLAIN' ELSE 'EXTERNAL' END;
    partitions CONSTANT integer := (SELECT count(*) FROM pg_inherits WHERE inhparent = 'memory_stream'::regclass);
    -- The extension may be in any schema.
    kind CONSTANT text := (
        SELECT format('%I.halfvec(%s)', n.nspname, dimension)
        FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace
        WHERE e.extname = 'vector');
    parent text;
    place text;
BEGIN
    EXECUTE format(
        'CREATE TABLE %1$I ('
        ' external_id text NOT NULL,'
        ' cell integer NOT NULL,'
        ' number bigint NOT NULL,'
        ' mass real NOT NULL,'
        ' vector %2$s NOT NULL,'
        ' CONSTRAINT %3$I PRIMARY KEY (external_id, cell, number),'
        ' CONSTRAINT %4$I CHECK (external_id <> '''')'
        ') PARTITION BY HASH (external_id)',
        vectors, kind, vectors || '_pkey', vectors || '_external_id_check');
    EXECUTE format(
        'CREATE UNIQUE INDEX %I ON %I (external_id, number) WHERE number IS NOT NULL', vectors || '_number_key', vectors);
    EXECUTE format('ALTER TABLE %I ALTER vector SET STORAGE %s', vectors, storage);
    EXECUTE format(
        'CREATE TABLE %1$I ('
        ' external_id text NOT NULL,'
        ' memory_id uuid NOT NULL,'
        ' segment integer NOT NULL,'
        ' layout_hash bytea NOT NULL,'
        ' norms bytea NOT NULL,'
        ' CONSTRAINT %2$I PRIMARY KEY (external_id, memory_id, segment),'
        ' CONSTRAINT %3$I CHECK (external_id <> '''')'
        ') PARTITION BY HASH (external_id)',
        norms, norms || '_pkey', norms || '_external_id_check');
    EXECUTE format(
        'CREATE TABLE %1$I ('
        ' external_id text NOT NULL,'
        ' cell integer NOT NULL,'
        ' vector %2$s NOT NULL,'
        ' CONSTRAINT %3$I PRIMARY KEY (external_id, cell),'
        ' CONSTRAINT %4$I CHECK (external_id <> '''')'
        ') PARTITION BY HASH (external_id)',
        cells, kind, cells || '_pkey', cells || '_external_id_check');
    EXECUTE format('ALTER TABLE %I ALTER vector SET STORAGE %s', cells, storage);
    FOREACH parent IN ARRAY ARRAY[vectors, norms, cells] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', parent);
        EXECUTE format(
            'CREATE POLICY %I ON %I FOR ALL TO reminiscence_app, reminiscence_eraser'
            ' USING (external_id = current_setting(''reminiscence.external_id'', true))'
            ' WITH CHECK (external_id = current_setting(''reminiscence.external_id'', true))',
            parent || '_tenant', parent);
        FOR remainder IN 0 .. partitions - 1 LOOP
            EXECUTE format(
                'CREATE TABLE %I PARTITION OF %I FOR VALUES WITH (MODULUS %s, REMAINDER %s)',
                parent || '_p' || remainder, parent, partitions, remainder);
            EXECUTE format(
                'ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', parent || '_p' || remainder);
        END LOOP;
        -- The planner keeps no samples of what was made of memory text, and none of tenants, among which a new one would be
        -- missing, nor of cells: where few tenants are sorted nearly all vectors are in cell 0, and it would read a
        -- tenant's vectors rather than look cells up. The partitions, which are there now, take it over.
        FOREACH place IN ARRAY array_cat(
            ARRAY['external_id'], CASE parent WHEN norms THEN ARRAY['layout_hash', 'norms'] ELSE ARRAY['cell', 'vector'] END
        ) LOOP
            EXECUTE format('ALTER TABLE %I ALTER COLUMN %I SET STATISTICS 0', parent, place);
        END LOOP;
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO reminiscence_app, reminiscence_eraser', parent);
    END LOOP;
END
$function$;

-- What a database that holds no memory does when it is opened with another embedder than the one it was made for: it takes the
-- new one, whose vectors get tables of their own under the next number. The old tables go, and so does the row that names the
-- old embedder, since no vector of it was ever stored. False where that is not possible: somebody has written or is writing,
-- or an administrator is changing the vectors. The tables are locked without waiting for one while holding the other, because
-- others lock them in either order; and before memory_stream is looked at, so that no first write slips between.
CREATE FUNCTION take_embedder(new_model_name text, new_dimension integer, new_provider text, new_model text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = reminiscence, pg_temp
AS $function$
DECLARE
    has_vectors boolean;
    is_locked boolean := false;
    old record;
BEGIN
    -- Any other level would look at memory_stream as it was before the locks, and miss a first write.
    IF current_setting('transaction_isolation') <> 'read committed'
        OR EXISTS (SELECT FROM memory_stream WHERE head > 0) THEN
        RETURN false;
    END IF;
    -- The locks of who changes the schema, and of who changes the vectors.
    PERFORM pg_advisory_xact_lock(x'72656d69'::bigint);
    -- Whoever had the first until now may hold the second for a moment longer: a commit gives locks back one by one.
    FOR attempt IN 1 .. 20 LOOP
        has_vectors := pg_try_advisory_xact_lock(x'7265656d'::bigint);
        EXIT WHEN has_vectors;
        PERFORM pg_sleep(0.05);
    END LOOP;
    IF NOT has_vectors THEN
        RETURN false;
    END IF;
    FOR attempt IN 1 .. 50 LOOP
        BEGIN
            LOCK TABLE memory_stream IN SHARE ROW EXCLUSIVE MODE NOWAIT;
            LOCK TABLE embedding_generation IN ACCESS EXCLUSIVE MODE NOWAIT;
            is_locked := true;
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            PERFORM pg_sleep(0.1);
        END;
    END LOOP;
    IF NOT is_locked
        OR EXISTS (SELECT FROM memory_stream WHERE head > 0)
        OR EXISTS (SELECT FROM embedding_generation WHERE state IN ('building', 'retired')) THEN
        RETURN false;
    END IF;
    SELECT generation, model_name, dimension INTO STRICT old FROM embedding_generation WHERE state = 'current';
    IF old.model_name = new_model_name AND old.dimension = new_dimension THEN
        -- Another process was faster.
        RETURN true;
    END IF;
    DELETE FROM embedding_generation WHERE generation = old.generation;
    INSERT INTO embedding_generation (generation, model_name, dimension, state, provider, model)
    VALUES (old.generation + 1, new_model_name, new_dimension, 'current', new_provider, new_model);
    PERFORM create_chunk_vectors(old.generation + 1, new_dimension);
    EXECUTE format(
        'DROP TABLE %I, %I, %I', 'chunk_vector_' || old.generation, 'chunk_norms_' || old.generation,
        'vector_cell_' || old.generation);
    RETURN true;
END
$function$;
REVOKE EXECUTE ON FUNCTION take_embedder(text, integer, text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION take_embedder(text, integer, text, text) TO reminiscence_app;
