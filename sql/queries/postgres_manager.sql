-- name: list_extension_schemas
-- Where the extension is, which need not be `public`.
SELECT DISTINCT extnamespace::regnamespace::text AS name FROM pg_extension WHERE extname = 'vector' ORDER BY 1;

-- name: end_frozen_writes
-- Writes of this login whose process has not taken an answer for so long: it is frozen, and holds locks.
SELECT pg_terminate_backend(pid) AS was_told
FROM pg_stat_activity
WHERE datname = current_database() AND usename = session_user AND pid <> pg_backend_pid()
    AND backend_type = 'client backend' AND backend_xid IS NOT NULL
    AND state = 'active' AND wait_event_type = 'Client' AND wait_event = 'ClientWrite'
    AND query_start < clock_timestamp() - make_interval(secs => $(seconds)p::float8);
