-- name: enqueue_work
-- In the transaction that makes the work due. Without a delay it runs now, replacing a waiting retry.
SELECT enqueue_work(clock_timestamp() + make_interval(secs => $(delay_seconds)p::float8)) AS queued;

-- name: enqueue_idle_work
-- Only if no job of the stream waits or runs; a retry keeps its time.
SELECT enqueue_work(clock_timestamp()) AS queued
WHERE NOT EXISTS (SELECT FROM list_work());

-- name: list_work
SELECT job_id, state, scheduled_at, queued_at, started_at
FROM list_work();

-- name: read_work
-- Since when something is due, and how the last attempts ended.
SELECT work_at, coalesce(least(work_at, review_at) <= clock_timestamp(), false) AS is_due, failed_attempts, failed_error,
    failed_at, vectors_missing, vectors_missing_since, vectors_error
FROM memory_stream
WHERE external_id = $(external_id)p;

-- name: find_due_memories
-- Oldest first; including archived ones, because their text stays searchable.
SELECT memory_id
FROM active_memory
WHERE external_id = $(external_id)p AND due_version > consolidated_version
ORDER BY created_at, memory_id;

-- name: finish_work
-- Nothing is due any more, and no chunk lacks a vector. The next review is never in the past, by whatever clock it was computed: the stream would be
-- worked on again and again. A review requested meanwhile is kept.
UPDATE memory_stream
SET work_at = NULL, failed_attempts = 0, failed_error = NULL, failed_at = NULL,
    vectors_missing = 0, vectors_missing_since = NULL, vectors_error = NULL,
    review_at = least(
        CASE WHEN review_at > clock_timestamp() THEN review_at END,
        CASE
            WHEN $(review_at)p::timestamptz IS NOT NULL
                THEN greatest($(review_at)p::timestamptz, clock_timestamp() + interval '1 minute')
        END
    )
WHERE external_id = $(external_id)p;

-- name: review_by
UPDATE memory_stream
SET review_at = least(review_at, $(moment)p::timestamptz)
WHERE external_id = $(external_id)p;

-- name: note_work
-- As an event that makes work does when it is appended.
UPDATE memory_stream
SET work_at = coalesce(least(work_at, $(recorded_at)p) - interval '1 millisecond', $(recorded_at)p)
WHERE external_id = $(external_id)p;

-- name: settle_write
-- The work of one write was done in the call itself. If there was another write meanwhile, the time is not this one's.
-- If chunks expire, a worker checks them when the first of these could.
UPDATE memory_stream
SET work_at = NULL,
    review_at = least(review_at, clock_timestamp() + make_interval(secs => $(review_within_seconds)p::float8))
WHERE external_id = $(external_id)p AND work_at = $(recorded_at)p AND due_at IS NULL AND failed_attempts = 0;

-- name: fail_work
-- One more failure; the last allowed one ends the retries. A failure that is not the work's own fault uses up no
-- attempt: it is distinguished from a stream without failures, and counts as one however often it occurs.
UPDATE memory_stream
SET failed_attempts = CASE WHEN $(counts)p::boolean THEN failed_attempts + 1 ELSE greatest(failed_attempts, 1) END,
    failed_error = $(error)p,
    failed_at = CASE
        WHEN $(counts)p::boolean AND failed_attempts + 1 >= $(max_attempts)p
            THEN coalesce(failed_at, clock_timestamp())
    END,
    work_at = least(work_at, clock_timestamp())
WHERE external_id = $(external_id)p
RETURNING failed_attempts, failed_at IS NOT NULL AS is_final;

-- name: allow_retry
UPDATE memory_stream
SET failed_attempts = 0, failed_error = NULL, failed_at = NULL, work_at = least(work_at, clock_timestamp())
WHERE external_id = $(external_id)p AND failed_at IS NOT NULL
RETURNING external_id;

-- name: list_due_streams
-- As the scheduler, after an external_id in order. Work that has just become due is still being done by the call that
-- made it due.
SELECT external_id
FROM memory_stream
WHERE failed_at IS NULL AND external_id > $(after)p
    AND (
        work_at <= clock_timestamp() - make_interval(secs => $(grace_seconds)p::float8)
        OR review_at <= clock_timestamp()
    )
ORDER BY external_id
LIMIT $(limit)p;

-- name: list_busy_streams
-- As the worker: streams with a waiting or running job.
SELECT DISTINCT args ->> 'external_id' AS external_id
FROM reminiscence_jobs.procrastinate_jobs
WHERE task_name = 'work_stream' AND status IN ('todo', 'doing');

-- name: list_failing_streams
-- As the scheduler.
SELECT external_id, failed_attempts, failed_error, failed_at, vectors_missing, vectors_missing_since, vectors_error
FROM memory_stream
WHERE failed_attempts > 0 OR vectors_missing_since IS NOT NULL
ORDER BY external_id;

-- name: list_all_work
-- As the worker.
SELECT j.args ->> 'external_id' AS external_id, j.id AS job_id,
    CASE j.status WHEN 'todo' THEN 'waiting' ELSE 'running' END AS state, j.scheduled_at,
    (SELECT min(e.at) FROM reminiscence_jobs.procrastinate_events AS e WHERE e.job_id = j.id AND e.type = 'deferred')
        AS queued_at,
    (SELECT max(e.at) FROM reminiscence_jobs.procrastinate_events AS e WHERE e.job_id = j.id AND e.type = 'started')
        AS started_at
FROM reminiscence_jobs.procrastinate_jobs AS j
WHERE j.task_name = 'work_stream' AND j.status IN ('todo', 'doing')
ORDER BY j.id;

-- name: count_given_up
-- As the scheduler. What failed is due, so that the index on work_at finds it.
SELECT count(*) AS failed
FROM memory_stream
WHERE work_at IS NOT NULL AND failed_at IS NOT NULL;

-- name: note_missing_vectors
-- Without an error, only what an earlier attempt has noted is brought up to date: chunks that nobody has failed to embed have
-- merely been written or changed a moment ago.
UPDATE memory_stream
SET vectors_missing = $(chunks)p::bigint,
    vectors_missing_since = CASE
        WHEN $(chunks)p::bigint > 0 OR $(error)p::text IS NOT NULL THEN coalesce(vectors_missing_since, clock_timestamp())
    END,
    vectors_error = CASE
        WHEN $(chunks)p::bigint > 0 OR $(error)p::text IS NOT NULL THEN coalesce($(error)p::text, vectors_error)
    END
WHERE external_id = $(external_id)p AND ($(error)p::text IS NOT NULL OR vectors_missing_since IS NOT NULL);

-- name: count_missing_vectors
-- As the scheduler.
SELECT count(*) AS external_ids, sum(vectors_missing)::bigint AS chunks, min(vectors_missing_since) AS since,
    (array_agg(vectors_error ORDER BY vectors_missing_since))[1] AS error
FROM memory_stream
WHERE vectors_missing_since IS NOT NULL;

-- name: count_work
-- As the worker. Jobs are taken in the order of their numbers.
SELECT count(*) FILTER (WHERE j.status = 'todo') AS waiting, count(*) FILTER (WHERE j.status = 'doing') AS running,
    (
        SELECT extract(epoch FROM clock_timestamp() - greatest(n.scheduled_at, min(e.at)))::float8
        FROM (
            SELECT t.id, t.scheduled_at
            FROM reminiscence_jobs.procrastinate_jobs AS t
            WHERE t.task_name = 'work_stream' AND t.status = 'todo'
                AND (t.scheduled_at IS NULL OR t.scheduled_at <= clock_timestamp())
            ORDER BY t.id
            LIMIT 1
        ) AS n
        JOIN reminiscence_jobs.procrastinate_events AS e ON e.job_id = n.id AND e.type = 'deferred'
        GROUP BY n.id, n.scheduled_at
    ) AS next_waits_seconds
FROM reminiscence_jobs.procrastinate_jobs AS j
WHERE j.task_name = 'work_stream' AND j.status IN ('todo', 'doing');

-- name: claim_reading
-- For as long as nobody else holds it.
UPDATE memory_stream
SET reader = $(reader)p::uuid, reader_until = clock_timestamp() + make_interval(secs => $(seconds)p::float8)
WHERE external_id = $(external_id)p
    AND (reader IS NULL OR reader = $(reader)p::uuid OR reader_until <= clock_timestamp())
RETURNING external_id;

-- name: release_reading
UPDATE memory_stream
SET reader = NULL, reader_until = NULL
WHERE external_id = $(external_id)p AND reader = $(reader)p::uuid;
