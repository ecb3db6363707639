-- name: list_extension_schemas
-- Where the extension is, which need not be `public`.
SELECT DISTINCT extnamespace::regnamespace::text AS name FROM pg_extension WHERE extname = 'vector' ORDER BY 1;

-- name: find_frozen_writes
-- Writes of this package whose process has not taken an answer for so long: it is frozen, and holds locks on our tables.
-- Another program may use the same login; its sessions have another name, and no lock of ours is waited for there.
SELECT a.pid, a.backend_xid::text AS transaction, a.query_start::text AS began, a.state_change::text AS changed
FROM pg_stat_activity AS a
WHERE a.datname = current_database() AND a.usename = session_user AND a.pid <> pg_backend_pid()
    AND a.application_name = $(application)p::text
    AND a.backend_type = 'client backend' AND a.backend_xid IS NOT NULL
    AND a.state = 'active' AND a.wait_event_type = 'Client' AND a.wait_event = 'ClientWrite'
    AND a.query_start < clock_timestamp() - make_interval(secs => $(seconds)p::float8)
    AND EXISTS (
        SELECT
        FROM pg_locks AS l
        JOIN pg_class AS c ON c.oid = l.relation
        WHERE l.pid = a.pid AND l.granted AND l.mode IN ('RowShareLock', 'RowExclusiveLock')
            AND l.database = a.datid AND c.relnamespace = to_regnamespace($(schema)p::text)
    );

-- name: end_frozen_write
-- End one that was found, if it still waits with the same answer.
SELECT pg_terminate_backend(a.pid) AS was_told
FROM pg_stat_activity AS a
WHERE a.pid = $(pid)p::int AND a.backend_xid::text = $(transaction)p::text
    AND a.query_start::text = $(began)p::text AND a.state_change::text = $(changed)p::text
    AND a.state = 'active' AND a.wait_event_type = 'Client' AND a.wait_event = 'ClientWrite';
