-- Generations of vectors: another model's are built beside those in use, and then take their place.

ALTER TABLE embedding_generation
    ADD COLUMN state text,
    ADD COLUMN state_since timestamptz NOT NULL DEFAULT clock_timestamp(),
    ADD COLUMN provider text,
    ADD COLUMN model text;
-- The only providers until now, which name their models so.
UPDATE embedding_generation
SET state = CASE WHEN is_current THEN 'current' ELSE 'retired' END, state_since = created_at,
    provider = CASE
        WHEN model_name = 'wordllama-l2-supercat-256' THEN 'wordllama'
        WHEN model_name = 'hash-' || dimension THEN 'hash'
    END;
ALTER TABLE embedding_generation
    ALTER COLUMN state SET NOT NULL,
    ADD CONSTRAINT embedding_generation_state_check CHECK (state IN ('building', 'current', 'retired', 'dropped')),
    DROP COLUMN is_current;
CREATE UNIQUE INDEX embedding_generation_current_idx ON embedding_generation (state) WHERE state = 'current';
CREATE UNIQUE INDEX embedding_generation_building_idx ON embedding_generation (state) WHERE state = 'building';

-- Makes chunk_vector_<number>, the vectors of one generation; a missing vector is a missing row. What a search filters by
-- stands beside them, so that an exact scan reads this narrow table only. All generations are made here, and so alike; a
-- change of their tables changes this function and every table there is.
CREATE FUNCTION create_chunk_vectors(number integer, dimension integer) RETURNS void
LANGUAGE plpgsql
AS $function$
DECLARE
    parent CONSTANT text := 'chunk_vector_' || number;
    -- In the row where three vectors fit a page, so that a scan never leaves the table; else out of line.
    storage CONSTANT text := CASE WHEN dimension <= 1024 THEN 'PLAIN' ELSE 'MAIN' END;
    partitions CONSTANT integer := (SELECT count(*) FROM pg_inherits WHERE inhparent = 'memory_stream'::regclass);
    form text;
BEGIN
    EXECUTE format(
        'CREATE TABLE %1$I ('
        ' external_id text NOT NULL,'
        ' chunk_id uuid NOT NULL,'
        ' tier text NOT NULL,'
        ' confidence double precision NOT NULL,'
        ' start_date timestamptz NOT NULL,'
        ' end_date timestamptz,'
        ' recorded_at timestamptz NOT NULL,'
        ' superseded_at timestamptz,'
        ' text_vector halfvec(%2$s) NOT NULL,'
        ' before_vector halfvec(%2$s) NOT NULL,'
        ' around_vector halfvec(%2$s) NOT NULL,'
        ' corrected_at timestamptz[],'
        ' corrected_end_dates timestamptz[],'
        ' CONSTRAINT %3$I PRIMARY KEY (external_id, chunk_id),'
        ' CONSTRAINT %4$I CHECK (external_id <> '''')'
        ') PARTITION BY HASH (external_id)',
        parent, dimension, parent || '_pkey', parent || '_external_id_check');
    FOREACH form IN ARRAY ARRAY['text_vector', 'before_vector', 'around_vector'] LOOP
        EXECUTE format('ALTER TABLE %I ALTER %I SET STORAGE %s', parent, form, storage);
        EXECUTE format(
            'CREATE INDEX %I ON %I USING hnsw (%I halfvec_cosine_ops) WITH (m = 16, ef_construction = 64)',
            parent || '_' || form || '_idx', parent, form);
    END LOOP;
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
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', parent || '_p' || remainder);
    END LOOP;
    -- The planner keeps no samples of what was made of memory text; the partitions, which are there now, take it over.
    FOREACH form IN ARRAY ARRAY['text_vector', 'before_vector', 'around_vector'] LOOP
        EXECUTE format('ALTER TABLE %I ALTER COLUMN %I SET STATISTICS 0', parent, form);
    END LOOP;
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO reminiscence_app, reminiscence_eraser', parent);
END
$function$;
REVOKE EXECUTE ON FUNCTION create_chunk_vectors(integer, integer) FROM PUBLIC;

-- What the tables of vectors carry of a chunk follows its row, in every generation there is: a generation that is being
-- built is told of every change by whoever makes one, also by a process that knows nothing of it. A chunk that is indexed
-- with other words loses its vectors. For the library's own statements only, which name their external_id: whoever changes
-- rows past it changes nothing else by it, and verify() finds what was changed.
CREATE FUNCTION carry_to_vectors() RETURNS trigger LANGUAGE plpgsql
AS $function$
DECLARE
    tenant CONSTANT text := current_setting('reminiscence.external_id', true);
    reformed uuid[];
    is_carried boolean;
    number integer;
BEGIN
    -- Most statements change no row.
    IF NOT EXISTS (SELECT FROM new_row) THEN
        RETURN NULL;
    END IF;
    -- Planned each time: how a statement of one row is best done is no way to do one of thousands.
    EXECUTE
        'SELECT array_agg(n.chunk_id) FILTER (WHERE'
        '     (n.indexed_text, n.indexed_before, n.indexed_around) IS DISTINCT FROM'
        '     (o.indexed_text, o.indexed_before, o.indexed_around)),'
        ' bool_or('
        '     (n.tier, n.confidence, n.start_date, n.end_date, n.recorded_at, n.superseded_at, n.corrected_at,'
        '     n.corrected_end_dates) IS DISTINCT FROM'
        '     (o.tier, o.confidence, o.start_date, o.end_date, o.recorded_at, o.superseded_at, o.corrected_at,'
        '     o.corrected_end_dates))'
        ' FROM new_row AS n'
        ' JOIN old_row AS o ON o.chunk_id = n.chunk_id AND o.external_id = $1'
        ' WHERE n.external_id = $1'
    INTO reformed, is_carried USING tenant;
    IF reformed IS NULL AND is_carried IS NOT TRUE THEN
        RETURN NULL;
    END IF;
    FOR number IN SELECT generation FROM reminiscence.embedding_generation WHERE state <> 'dropped' LOOP
        IF reformed IS NOT NULL THEN
            EXECUTE format(
                'DELETE FROM reminiscence.chunk_vector_%s WHERE external_id = $1 AND chunk_id = ANY($2)', number)
            USING tenant, reformed;
        END IF;
        IF is_carried THEN
            EXECUTE format(
                'UPDATE reminiscence.chunk_vector_%s AS v'
                ' SET tier = n.tier, confidence = n.confidence, start_date = n.start_date, end_date = n.end_date,'
                '     recorded_at = n.recorded_at, superseded_at = n.superseded_at, corrected_at = n.corrected_at,'
                '     corrected_end_dates = n.corrected_end_dates'
                ' FROM new_row AS n'
                ' WHERE v.external_id = $1 AND n.external_id = $1 AND v.chunk_id = n.chunk_id AND'
                '     (v.tier, v.confidence, v.start_date, v.end_date, v.recorded_at, v.superseded_at, v.corrected_at,'
                '     v.corrected_end_dates) IS DISTINCT FROM'
                '     (n.tier, n.confidence, n.start_date, n.end_date, n.recorded_at, n.superseded_at, n.corrected_at,'
                '     n.corrected_end_dates)', number)
            USING tenant;
        END IF;
    END LOOP;
    RETURN NULL;
END
$function$;
CREATE TRIGGER memory_chunk_carry_to_vectors AFTER UPDATE ON memory_chunk
    REFERENCING OLD TABLE AS old_row NEW TABLE AS new_row
    FOR EACH STATEMENT EXECUTE FUNCTION carry_to_vectors();
REVOKE EXECUTE ON FUNCTION carry_to_vectors() FROM PUBLIC;
