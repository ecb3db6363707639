-- The whole current schema, run as reminiscence_owner with search_path = reminiscence and the extensions' schema.
-- The migrations, applied in order, give the same; a test compares the two.
-- {{chunk_partitions}}, {{embedding_dimension}} and what Procrastinate brings are rendered before it is run.
--
-- Every table of memory is hash-partitioned by external_id, which leads every key: a statement that names it
-- touches one partition, and the same schema distributes over several machines.

-- What is applied here, with what parameters.
CREATE TABLE schema_migration (
    version integer PRIMARY KEY,
    name text NOT NULL,
    checksum bytea NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE schema_parameter (
    name text PRIMARY KEY,
    value text NOT NULL
);

-- The generations of vectors: which embedder makes those of chunk_vector_<generation>, and how far a generation is. One is
-- being built, searches use the current one, a retired one is kept true until it is dropped. provider and model are what the
-- library makes the embedder from where a process was not given it; NULL is an embedder of the user's own.
CREATE TABLE embedding_generation (
    generation integer PRIMARY KEY,
    model_name text NOT NULL,
    dimension integer NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    state text NOT NULL,
    state_since timestamptz NOT NULL DEFAULT clock_timestamp(),
    provider text,
    model text,
    CONSTRAINT embedding_generation_state_check CHECK (state IN ('building', 'current', 'retired', 'dropped'))
);
CREATE UNIQUE INDEX embedding_generation_current_idx ON embedding_generation (state) WHERE state = 'current';
CREATE UNIQUE INDEX embedding_generation_building_idx ON embedding_generation (state) WHERE state = 'building';

-- One row per external_id: the head of its stream. Locking it orders the writers of one stream; writers of
-- different streams never meet.
-- work_at, review_at and all that begins with failed_ are no projections: since when something is due (NULL: nothing is), when
-- a worker is to look at the stream though nothing is, how often in a row its work has failed, why, and since when it is not
-- tried again by itself. Nor is what begins with graph_: the last event that changed the graph, up to which a store of graphs
-- has followed (-1: it is to compare everything), and which store that is.
CREATE TABLE memory_stream (
    external_id text NOT NULL,
    head bigint NOT NULL DEFAULT 0,
    chain bytea NOT NULL DEFAULT '\x',
    last_recorded_at timestamptz NOT NULL DEFAULT '-infinity',
    due_at timestamptz,
    live_chunks bigint NOT NULL DEFAULT 0,
    work_at timestamptz,
    review_at timestamptz,
    failed_attempts integer NOT NULL DEFAULT 0,
    failed_error text,
    failed_at timestamptz,
    graph_head bigint NOT NULL DEFAULT 0,
    graph_position bigint NOT NULL DEFAULT 0,
    graph_store text,
    CONSTRAINT memory_stream_pkey PRIMARY KEY (external_id),
    CONSTRAINT memory_stream_external_id_check CHECK (external_id <> '')
) PARTITION BY HASH (external_id);
CREATE INDEX memory_stream_work_at_idx ON memory_stream (work_at) WHERE work_at IS NOT NULL;
CREATE INDEX memory_stream_review_at_idx ON memory_stream (review_at) WHERE review_at IS NOT NULL;

-- The ledger: append-only, the truth of which every table below is a projection.
CREATE TABLE memory_event (
    external_id text NOT NULL,
    position bigint NOT NULL,
    event_id uuid NOT NULL,
    kind text NOT NULL,
    actor text,
    conversation_id text,
    turn integer,
    occurred_at timestamptz NOT NULL,
    recorded_at timestamptz NOT NULL,
    source text NOT NULL,
    payload jsonb NOT NULL,
    idempotency_key text,
    request_hash bytea,
    salt bytea,
    digest bytea NOT NULL,
    chain bytea NOT NULL,
    CONSTRAINT memory_event_pkey PRIMARY KEY (external_id, position),
    CONSTRAINT memory_event_event_id_key UNIQUE (external_id, event_id),
    CONSTRAINT memory_event_idempotency_key_key UNIQUE (external_id, idempotency_key),
    CONSTRAINT memory_event_external_id_check CHECK (external_id <> ''),
    CONSTRAINT memory_event_position_check CHECK (position > 0),
    CONSTRAINT memory_event_source_check CHECK (source IN ('user', 'agent', 'tool', 'import', 'model'))
) PARTITION BY HASH (external_id);
-- Only our own kinds: what a user's event calls memory_id may be anything.
CREATE INDEX memory_event_memory_id_idx ON memory_event (external_id, (payload ->> 'memory_id'), position)
    WHERE starts_with(kind, 'memory.');

-- Whole texts being worked on. chunk_ids and chunk_starts lay out the live chunks over the content in order,
-- so an edit in the middle moves the spans after it without touching those chunks' rows. A consolidation is due
-- while due_version is above consolidated_version.
CREATE TABLE active_memory (
    external_id text NOT NULL,
    memory_id uuid NOT NULL,
    version integer NOT NULL,
    title text NOT NULL,
    content text NOT NULL,
    description text,
    metadata jsonb NOT NULL,
    source text NOT NULL,
    actor text,
    conversation_id text,
    occurred_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    archived_at timestamptz,
    consolidated_version integer NOT NULL,
    due_version integer NOT NULL,
    chunk_ids uuid[] NOT NULL,
    chunk_starts integer[] NOT NULL,
    CONSTRAINT active_memory_pkey PRIMARY KEY (external_id, memory_id),
    CONSTRAINT active_memory_external_id_check CHECK (external_id <> '')
) PARTITION BY HASH (external_id);
CREATE INDEX active_memory_not_archived_idx ON active_memory (external_id) WHERE archived_at IS NULL;

-- What a consolidation made of an active memory; its chunks are those with the same memory_id.
CREATE TABLE shortterm_memory (
    external_id text NOT NULL,
    memory_id uuid NOT NULL,
    version integer NOT NULL,
    title text NOT NULL,
    summary text NOT NULL,
    last_updated timestamptz NOT NULL,
    CONSTRAINT shortterm_memory_pkey PRIMARY KEY (external_id, memory_id),
    CONSTRAINT shortterm_memory_external_id_check CHECK (external_id <> '')
) PARTITION BY HASH (external_id);

-- The chunks of all tiers: one table gives one ranking, and a promotion changes a row's tier instead of
-- copying it. A row is never deleted by an update: superseded_at says when we learned of its end, end_date
-- when it ended in the world. Order and spans are those of the version that the chunk came in with; a live
-- chunk's own are in active_memory. A chunk that repeats another has ended too, and lives again when that one ends.
-- Where a later update turned out to be true from before the end that was known, the earlier end stands in
-- corrected_end_dates and when we learned of it in corrected_at; each is earlier than the one before.
-- The end that a fact was stated with stands there first, once another event has ended it.
-- estimate is what a model holds a chunk for; importance rests on it, too.
-- A row with derived_from is a fact: no passage of the text, but what a model has concluded from those chunks of it. It ends
-- when one of them leaves the text, or is contradicted.
CREATE TABLE memory_chunk (
    external_id text NOT NULL,
    chunk_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    memory_version integer NOT NULL,
    chunk_order integer NOT NULL,
    span_start integer NOT NULL,
    span_end integer NOT NULL,
    tier text NOT NULL,
    content text NOT NULL,
    folded_hash bytea NOT NULL,
    speaker text,
    speaker_key text,
    metadata jsonb NOT NULL,
    indexed_text text NOT NULL,
    indexed_before text NOT NULL,
    indexed_around text NOT NULL,
    source text NOT NULL,
    importance double precision NOT NULL,
    confidence double precision NOT NULL,
    start_date timestamptz NOT NULL,
    end_date timestamptz,
    recorded_at timestamptz NOT NULL,
    superseded_at timestamptz,
    duplicate_of uuid,
    revision integer NOT NULL DEFAULT 1,
    corrected_at timestamptz[],
    corrected_end_dates timestamptz[],
    derived_from uuid[],
    estimate double precision,
    CONSTRAINT memory_chunk_pkey PRIMARY KEY (external_id, chunk_id),
    CONSTRAINT memory_chunk_external_id_check CHECK (external_id <> ''),
    CONSTRAINT memory_chunk_tier_check CHECK (tier IN ('active', 'shortterm', 'longterm')),
    CONSTRAINT memory_chunk_span_check CHECK (span_start >= 0 AND span_end > span_start)
) PARTITION BY HASH (external_id);
CREATE INDEX memory_chunk_memory_id_idx ON memory_chunk (external_id, memory_id);
CREATE INDEX memory_chunk_folded_hash_idx ON memory_chunk (external_id, folded_hash);
CREATE INDEX memory_chunk_duplicate_of_idx ON memory_chunk (external_id, duplicate_of) WHERE duplicate_of IS NOT NULL;
-- Few rows are facts, and a memory may have very many chunks.
CREATE INDEX memory_chunk_facts_idx ON memory_chunk (external_id, memory_id) WHERE derived_from IS NOT NULL;
CREATE INDEX memory_chunk_speaker_key_idx ON memory_chunk (external_id, speaker_key) WHERE speaker_key IS NOT NULL;
-- Every update of a row raises its revision, and this index makes that a change of an indexed column. Otherwise
-- PostgreSQL may update in place (HOT), leaving the entries of the text indexes with the row's first version, and
-- VACUUM and REINDEX of pg_textsearch 0.6 leave such a row out of its indexes though it lives.
CREATE INDEX memory_chunk_revision_idx ON memory_chunk (revision);
-- One full index per indexed column: a partial one scores every other row 0, and two on one column are an error.
CREATE INDEX memory_chunk_indexed_text_idx ON memory_chunk USING bm25 (indexed_text) WITH (text_config = 'english');
CREATE INDEX memory_chunk_indexed_before_idx ON memory_chunk USING bm25 (indexed_before) WITH (text_config = 'english');
CREATE INDEX memory_chunk_indexed_around_idx ON memory_chunk USING bm25 (indexed_around) WITH (text_config = 'english');

-- Vectors by text, per external_id: shared between tenants it would tell one what another has stored.
CREATE TABLE embedding_cache (
    external_id text NOT NULL,
    model_name text NOT NULL,
    text_hash bytea NOT NULL,
    vector halfvec NOT NULL,
    CONSTRAINT embedding_cache_pkey PRIMARY KEY (external_id, model_name, text_hash),
    CONSTRAINT embedding_cache_external_id_check CHECK (external_id <> '')
) PARTITION BY HASH (external_id);

-- How often recall has returned a chunk since its importance was decided last. Soft state, outside verify: when it leads
-- to a decision, the decision is an event.
CREATE TABLE chunk_use (
    external_id text NOT NULL,
    chunk_id uuid NOT NULL,
    uses integer NOT NULL,
    last_used_at timestamptz NOT NULL,
    CONSTRAINT chunk_use_pkey PRIMARY KEY (external_id, chunk_id),
    CONSTRAINT chunk_use_external_id_check CHECK (external_id <> '')
) PARTITION BY HASH (external_id);

-- The graph: what memories name, and what stands beside what. An entity keeps its id for ever. Where two turn out to be one,
-- merged_into says so, and canonical_id is the one that speaks for all that were merged into it.
-- In all four tables, position is that of the event that changed the row last: whoever follows asks for what is newer.
CREATE TABLE entity (
    external_id text NOT NULL,
    entity_id uuid NOT NULL,
    tier text NOT NULL,
    name text NOT NULL,
    type text NOT NULL,
    description text,
    confidence double precision NOT NULL,
    importance double precision NOT NULL,
    first_seen timestamptz NOT NULL,
    last_seen timestamptz NOT NULL,
    metadata jsonb NOT NULL,
    shortterm_memory_id uuid NOT NULL,
    mentions integer NOT NULL,
    merged_into uuid,
    canonical_id uuid NOT NULL,
    position bigint NOT NULL,
    CONSTRAINT entity_pkey PRIMARY KEY (external_id, entity_id),
    CONSTRAINT entity_external_id_check CHECK (external_id <> ''),
    CONSTRAINT entity_tier_check CHECK (tier IN ('shortterm', 'longterm'))
) PARTITION BY HASH (external_id);
CREATE INDEX entity_canonical_id_idx ON entity (external_id, canonical_id);
CREATE INDEX entity_type_idx ON entity (external_id, type);
CREATE INDEX entity_position_idx ON entity (external_id, position);

-- What an entity has been called. The key is the name folded, cut and hashed where it is long: an index entry has a limit.
CREATE TABLE entity_name (
    external_id text NOT NULL,
    key text NOT NULL,
    entity_id uuid NOT NULL,
    name text NOT NULL,
    position bigint NOT NULL,
    CONSTRAINT entity_name_pkey PRIMARY KEY (external_id, key, entity_id),
    CONSTRAINT entity_name_external_id_check CHECK (external_id <> '')
) PARTITION BY HASH (external_id);
CREATE INDEX entity_name_entity_id_idx ON entity_name (external_id, entity_id);

-- Ends as they were stated, and as they are with all merges: from_id and to_id are canonical. An end_date that nobody stated
-- is that of the last passage that said it.
CREATE TABLE relationship (
    external_id text NOT NULL,
    relationship_id uuid NOT NULL,
    tier text NOT NULL,
    stated_from_id uuid NOT NULL,
    stated_to_id uuid NOT NULL,
    from_id uuid NOT NULL,
    to_id uuid NOT NULL,
    type text NOT NULL,
    description text,
    confidence double precision NOT NULL,
    importance double precision NOT NULL,
    observations integer NOT NULL,
    first_observed timestamptz NOT NULL,
    last_observed timestamptz NOT NULL,
    start_date timestamptz NOT NULL,
    end_date timestamptz,
    end_is_stated boolean NOT NULL,
    last_updated timestamptz NOT NULL,
    metadata jsonb NOT NULL,
    position bigint NOT NULL,
    CONSTRAINT relationship_pkey PRIMARY KEY (external_id, relationship_id),
    CONSTRAINT relationship_external_id_check CHECK (external_id <> ''),
    CONSTRAINT relationship_tier_check CHECK (tier IN ('shortterm', 'longterm'))
) PARTITION BY HASH (external_id);
-- The strongest first, so that of a name that knows everybody only the best are read.
CREATE INDEX relationship_from_id_idx ON relationship (external_id, from_id, observations DESC, relationship_id);
CREATE INDEX relationship_to_id_idx ON relationship (external_id, to_id, observations DESC, relationship_id);
CREATE INDEX relationship_stated_from_id_idx ON relationship (external_id, stated_from_id, stated_to_id);
CREATE INDEX relationship_type_idx ON relationship (external_id, type);
CREATE INDEX relationship_position_idx ON relationship (external_id, position);

-- Which chunk says it: item_id is an entity's or a relationship's id, as stated. A mention is live until its chunk ends; one
-- whose chunk repeats another stays so.
CREATE TABLE graph_mention (
    external_id text NOT NULL,
    item_id uuid NOT NULL,
    chunk_id uuid NOT NULL,
    is_live boolean NOT NULL,
    position bigint NOT NULL,
    CONSTRAINT graph_mention_pkey PRIMARY KEY (external_id, item_id, chunk_id),
    CONSTRAINT graph_mention_external_id_check CHECK (external_id <> '')
) PARTITION BY HASH (external_id);
CREATE INDEX graph_mention_chunk_id_idx ON graph_mention (external_id, chunk_id);

DO $partitions$
DECLARE
    parent text;
BEGIN
    FOREACH parent IN ARRAY ARRAY[
        'memory_stream', 'memory_event', 'active_memory', 'shortterm_memory', 'memory_chunk',
        'embedding_cache', 'chunk_use', 'entity', 'entity_name', 'relationship', 'graph_mention'
    ] LOOP
        FOR remainder IN 0 .. {{chunk_partitions}} - 1 LOOP
            EXECUTE format(
                'CREATE TABLE %I PARTITION OF %I FOR VALUES WITH (MODULUS {{chunk_partitions}}, REMAINDER %s)',
                parent || '_p' || remainder, parent, remainder);
        END LOOP;
    END LOOP;
END
$partitions$;

-- The planner keeps samples of what columns hold (pg_statistic), in the clear and for as long as it likes. Of whatever holds
-- memory text or was made of it there are none: an erasure could not reach them, and no plan here needs them.
DO $statistics$
DECLARE
    place record;
BEGIN
    FOR place IN
        SELECT t.name AS table_name, c.name AS column_name
        FROM (VALUES
            ('memory_event', '{payload,actor,conversation_id,idempotency_key,request_hash,salt}'::text[]),
            ('active_memory', '{title,content,description,metadata,actor,conversation_id}'),
            ('shortterm_memory', '{title,summary}'),
            ('memory_chunk', '{content,folded_hash,speaker,speaker_key,metadata,indexed_text,indexed_before,indexed_around}'),
            ('embedding_cache', '{text_hash,vector}'),
            ('entity', '{name,type,description,metadata}'),
            ('entity_name', '{key,name}'),
            ('relationship', '{type,description,metadata}')
        ) AS t (name, columns)
        CROSS JOIN LATERAL unnest(t.columns) AS c (name)
    LOOP
        EXECUTE format('ALTER TABLE %I ALTER COLUMN %I SET STATISTICS 0', place.table_name, place.column_name);
    END LOOP;
END
$statistics$;

-- Whether an end beside the one in the row was known at known_at and had come at as_of. A function of its own, because
-- one with a subquery is not inlined and would be called for each row of a search; hardly any row has corrections.
CREATE FUNCTION end_was_corrected(
    corrected_at timestamptz[], corrected_end_dates timestamptz[], as_of timestamptz, known_at timestamptz
) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN EXISTS (
    SELECT FROM unnest(corrected_at, corrected_end_dates) AS correction (learned_at, end_date)
    WHERE correction.learned_at <= known_at AND correction.end_date <= as_of
);

-- Whether a chunk is visible. With as_of NULL: what is known and valid now, superseded rows left out. Otherwise:
-- what was known at known_at to be true in the world at as_of; an end that was not yet known does not count.
CREATE FUNCTION chunk_is_visible(
    recorded_at timestamptz, superseded_at timestamptz, start_date timestamptz, end_date timestamptz,
    corrected_at timestamptz[], corrected_end_dates timestamptz[], as_of timestamptz, known_at timestamptz
) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN as_of IS NULL THEN superseded_at IS NULL AND (end_date IS NULL OR end_date > known_at)
    ELSE recorded_at <= known_at AND start_date <= as_of
        AND (end_date IS NULL OR end_date > as_of OR superseded_at > known_at)
        AND (corrected_at IS NULL OR NOT end_was_corrected(corrected_at, corrected_end_dates, as_of, known_at))
END;

-- pg_textsearch before 1.3 keeps what it counts of a corpus in shared memory: after a restart or a crash its indexes
-- return no row, or rank by wrong counts, until they are built again. Here is when that was done last, and the function
-- that does it where it is needed; every new connection calls it first. Both facts of the fingerprint are needed: a
-- crash of one backend clears shared memory without a new start of the server.
CREATE TABLE text_index_build (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    server_started_at timestamptz NOT NULL,
    memory_cleared_at timestamptz NOT NULL
);

CREATE FUNCTION restore_text_indexes() RETURNS integer
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

-- The work queue: Procrastinate's own schema, as the installed package has it, beside ours.
SELECT set_config('reminiscence.search_path', current_setting('search_path'), true);
SET LOCAL search_path = reminiscence_jobs;
-- Who works the queue off may do here what Procrastinate does, also with what a later version of it adds; and nothing
-- elsewhere.
GRANT USAGE ON SCHEMA reminiscence_jobs TO reminiscence_worker;
ALTER DEFAULT PRIVILEGES IN SCHEMA reminiscence_jobs
    GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO reminiscence_worker;
ALTER DEFAULT PRIVILEGES IN SCHEMA reminiscence_jobs GRANT USAGE ON SEQUENCES TO reminiscence_worker;
{{procrastinate_schema}}
CREATE INDEX reminiscence_unfinished_idx ON procrastinate_jobs (queueing_lock) WHERE status IN ('todo', 'doing');
SELECT set_config('search_path', current_setting('reminiscence.search_path'), true);
INSERT INTO schema_parameter (name, value) VALUES ('procrastinate_schema', '{{procrastinate_version}}');

-- These two functions are all that the application's role sees of the queue, and they speak of the transaction's own
-- external_id only.

-- Queue the stream's work, in the transaction that makes it due: both happen or neither. One waiting job is enough,
-- because it does whatever is due when it starts. A retry that waits for its time is replaced by work for now.
-- False where a job was waiting already.
CREATE FUNCTION enqueue_work(run_at timestamptz) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, reminiscence_jobs, pg_temp
AS $function$
DECLARE
    tenant CONSTANT text := nullif(current_setting('reminiscence.external_id', true), '');
BEGIN
    IF tenant IS NULL THEN
        RAISE EXCEPTION 'work is queued for one external_id, and none is set';
    END IF;
    IF run_at IS NULL THEN
        DELETE FROM procrastinate_jobs
        WHERE queueing_lock = 'stream:' || tenant AND status = 'todo' AND scheduled_at > clock_timestamp();
    END IF;
    IF EXISTS (SELECT FROM procrastinate_jobs WHERE queueing_lock = 'stream:' || tenant AND status = 'todo') THEN
        RETURN false;
    END IF;
    -- Not by Procrastinate's own function, whose name changes with its releases; its triggers do what else is to be done.
    INSERT INTO procrastinate_jobs (queue_name, task_name, queueing_lock, args, scheduled_at)
    VALUES ('reminiscence', 'work_stream', 'stream:' || tenant, jsonb_build_object('external_id', tenant), run_at);
    RETURN true;
EXCEPTION WHEN unique_violation THEN
    -- Someone else was faster; the write that made the work due must not fail for it.
    RETURN false;
END
$function$;

-- The stream's jobs that wait or run.
CREATE FUNCTION list_work() RETURNS TABLE (
    job_id bigint, state text, scheduled_at timestamptz, queued_at timestamptz, started_at timestamptz
) LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, reminiscence_jobs, pg_temp
AS $function$
SELECT j.id, CASE j.status WHEN 'todo' THEN 'waiting' ELSE 'running' END, j.scheduled_at,
    (SELECT min(e.at) FROM procrastinate_events AS e WHERE e.job_id = j.id AND e.type = 'deferred'),
    (SELECT max(e.at) FROM procrastinate_events AS e WHERE e.job_id = j.id AND e.type = 'started')
FROM procrastinate_jobs AS j
WHERE j.queueing_lock = 'stream:' || nullif(current_setting('reminiscence.external_id', true), '')
    AND j.status IN ('todo', 'doing')
ORDER BY j.id
$function$;

CREATE VIEW shortterm_memory_chunk WITH (security_invoker = true) AS
SELECT external_id, chunk_id, memory_id AS shortterm_memory_id, memory_version, chunk_order, content, speaker, metadata,
    source, importance, confidence, start_date, end_date, recorded_at, superseded_at, duplicate_of
FROM memory_chunk
WHERE tier = 'shortterm';

CREATE VIEW longterm_memory_chunk WITH (security_invoker = true) AS
SELECT external_id, chunk_id, memory_id AS shortterm_memory_id, memory_version, chunk_order, content, speaker, metadata,
    source, importance, confidence AS confidence_score, start_date, end_date, recorded_at, superseded_at, duplicate_of
FROM memory_chunk
WHERE tier = 'longterm';

-- Isolation: a transaction sees the rows of the one external_id it has set, and none if it has set none (the
-- setting is NULL before the first use in a session and '' after a transaction that set it). FORCE holds the
-- owner to it too.
DO $isolation$
DECLARE
    parent text;
BEGIN
    FOREACH parent IN ARRAY ARRAY[
        'memory_stream', 'memory_event', 'active_memory', 'shortterm_memory', 'memory_chunk',
        'embedding_cache', 'chunk_use', 'entity', 'entity_name', 'relationship', 'graph_mention'
    ] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', parent);
        EXECUTE format(
            'CREATE POLICY %I ON %I FOR ALL TO reminiscence_app, reminiscence_eraser'
            ' USING (external_id = current_setting(''reminiscence.external_id'', true))'
            ' WITH CHECK (external_id = current_setting(''reminiscence.external_id'', true))',
            parent || '_tenant', parent);
        -- Addressed by name a partition has no policy of its parent's; no policy at all means no row.
        FOR remainder IN 0 .. {{chunk_partitions}} - 1 LOOP
            EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY',
                parent || '_p' || remainder);
        END LOOP;
    END LOOP;
END
$isolation$;
CREATE POLICY memory_stream_scheduler ON memory_stream FOR SELECT TO reminiscence_scheduler USING (true);

-- The eraser may empty an event and append a receipt, and nothing else: neither change what an event says nor touch a
-- receipt.
CREATE POLICY memory_event_emptied ON memory_event AS RESTRICTIVE FOR UPDATE TO reminiscence_eraser
    USING (kind <> 'memory.erased')
    WITH CHECK (
        payload = '{}' AND salt IS NULL AND request_hash IS NULL AND idempotency_key IS NULL AND actor IS NULL
        AND conversation_id IS NULL);
CREATE POLICY memory_event_receipts ON memory_event AS RESTRICTIVE FOR INSERT TO reminiscence_eraser
    WITH CHECK (kind = 'memory.erased');

GRANT USAGE ON SCHEMA reminiscence TO reminiscence_app, reminiscence_scheduler, reminiscence_eraser;
GRANT SELECT ON schema_migration, schema_parameter, embedding_generation
    TO reminiscence_app, reminiscence_scheduler, reminiscence_eraser;

-- The ledger takes INSERT and SELECT: no UPDATE, no DELETE.
GRANT SELECT, INSERT ON memory_event TO reminiscence_app;
GRANT SELECT, INSERT, UPDATE ON memory_stream TO reminiscence_app;
-- DELETE on projections is what a rebuild needs.
GRANT SELECT, INSERT, UPDATE, DELETE
    ON active_memory, shortterm_memory, memory_chunk, embedding_cache TO reminiscence_app;
GRANT SELECT ON shortterm_memory_chunk, longterm_memory_chunk TO reminiscence_app;

GRANT SELECT (external_id, head, last_recorded_at, due_at, live_chunks) ON memory_stream TO reminiscence_scheduler;

-- Erasure empties what an event says and appends one of its own; the row, its digest and its chain stay.
GRANT SELECT, INSERT ON memory_event TO reminiscence_eraser;
GRANT UPDATE (payload, idempotency_key, request_hash, salt, actor, conversation_id)
    ON memory_event TO reminiscence_eraser;
GRANT SELECT, INSERT, UPDATE ON memory_stream TO reminiscence_eraser;
GRANT SELECT, INSERT, UPDATE, DELETE
    ON active_memory, shortterm_memory, memory_chunk, embedding_cache TO reminiscence_eraser;

REVOKE EXECUTE ON FUNCTION restore_text_indexes() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION restore_text_indexes() TO reminiscence_app;
REVOKE EXECUTE ON FUNCTION end_was_corrected(timestamptz[], timestamptz[], timestamptz, timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION end_was_corrected(timestamptz[], timestamptz[], timestamptz, timestamptz)
    TO reminiscence_app, reminiscence_eraser;
REVOKE EXECUTE ON FUNCTION chunk_is_visible(
    timestamptz, timestamptz, timestamptz, timestamptz, timestamptz[], timestamptz[], timestamptz, timestamptz)
    FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chunk_is_visible(
    timestamptz, timestamptz, timestamptz, timestamptz, timestamptz[], timestamptz[], timestamptz, timestamptz)
    TO reminiscence_app, reminiscence_eraser;

GRANT SELECT (work_at, review_at, failed_attempts, failed_error, failed_at) ON memory_stream TO reminiscence_scheduler;
GRANT SELECT, INSERT, UPDATE, DELETE ON chunk_use TO reminiscence_app, reminiscence_eraser;
REVOKE EXECUTE ON FUNCTION enqueue_work(timestamptz), list_work() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION enqueue_work(timestamptz), list_work() TO reminiscence_app;

GRANT SELECT, INSERT, UPDATE, DELETE ON entity, entity_name, relationship, graph_mention
    TO reminiscence_app, reminiscence_eraser;
GRANT SELECT (graph_head, graph_position, graph_store) ON memory_stream TO reminiscence_scheduler;
-- What an erasure takes out of the graph has to reach the store that follows.
GRANT EXECUTE ON FUNCTION enqueue_work(timestamptz) TO reminiscence_eraser;

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
SELECT create_chunk_vectors(1, {{embedding_dimension}});
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
