-- Work that is due, in a queue: what a stream's row says of it, and how the application reaches the queue. And how often
-- chunks were recalled.

ALTER TABLE memory_stream ADD COLUMN work_at timestamptz, ADD COLUMN review_at timestamptz,
    ADD COLUMN failed_attempts integer NOT NULL DEFAULT 0, ADD COLUMN failed_error text, ADD COLUMN failed_at timestamptz;
CREATE INDEX memory_stream_work_at_idx ON memory_stream (work_at) WHERE work_at IS NOT NULL;
CREATE INDEX memory_stream_review_at_idx ON memory_stream (review_at) WHERE review_at IS NOT NULL;
DO $due$
BEGIN
    -- Row level security holds the owner too; within this transaction it may see all rows.
    ALTER TABLE memory_stream NO FORCE ROW LEVEL SECURITY;
    -- All of them: vectors may be missing anywhere.
    UPDATE memory_stream SET work_at = clock_timestamp();
    ALTER TABLE memory_stream FORCE ROW LEVEL SECURITY;
END
$due$;

CREATE INDEX active_memory_not_archived_idx ON active_memory (external_id) WHERE archived_at IS NULL;

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
DO $partitions$
BEGIN
    FOR remainder IN 0 .. {{chunk_partitions}} - 1 LOOP
        EXECUTE format(
            'CREATE TABLE %I PARTITION OF chunk_use FOR VALUES WITH (MODULUS {{chunk_partitions}}, REMAINDER %s)',
            'chunk_use_p' || remainder, remainder);
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', 'chunk_use_p' || remainder);
    END LOOP;
END
$partitions$;
ALTER TABLE chunk_use ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY chunk_use_tenant ON chunk_use FOR ALL TO reminiscence_app, reminiscence_eraser
    USING (external_id = current_setting('reminiscence.external_id', true))
    WITH CHECK (external_id = current_setting('reminiscence.external_id', true));

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

GRANT SELECT (work_at, review_at, failed_attempts, failed_error, failed_at) ON memory_stream TO reminiscence_scheduler;
GRANT SELECT, INSERT, UPDATE, DELETE ON chunk_use TO reminiscence_app, reminiscence_eraser;
REVOKE EXECUTE ON FUNCTION enqueue_work(timestamptz), list_work() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION enqueue_work(timestamptz), list_work() TO reminiscence_app;
