-- name: read_server
SELECT current_setting('server_version_num')::int AS version, current_setting('server_version') AS version_name;

-- name: list_extensions
-- Versions that the server can install and that this database has.
SELECT wanted.name, a.default_version AS available, a.installed_version AS installed
FROM unnest($(names)p::text[]) WITH ORDINALITY AS wanted (name, place)
LEFT JOIN pg_available_extensions AS a ON a.name = wanted.name
ORDER BY wanted.place;

-- name: read_login
SELECT rolname::text AS name, rolsuper AS is_superuser, rolbypassrls AS bypasses_row_security,
    rolcreaterole AS creates_roles
FROM pg_roles
WHERE rolname = session_user;

-- name: list_memberships
-- Several grantors may grant a role, each with their own options; it is enough if one allows something.
SELECT wanted.name AS role, r.oid IS NOT NULL AS exists, m.inherits, m.may_set,
    coalesce(pg_has_role(session_user, r.oid, 'USAGE'), false) AS has_usage
FROM unnest($(names)p::text[]) WITH ORDINALITY AS wanted (name, place)
LEFT JOIN pg_roles AS r ON r.rolname = wanted.name
LEFT JOIN LATERAL (
    SELECT bool_or(am.inherit_option) AS inherits, bool_or(am.set_option) AS may_set
    FROM pg_auth_members AS am
    JOIN pg_roles AS login ON login.oid = am.member
    WHERE am.roleid = r.oid AND login.rolname = session_user
) AS m ON true
ORDER BY wanted.place;

-- name: find_schema
-- Whether there is our schema with a record of its migrations. Not to_regclass: the login itself has no usage right on
-- the schema.
SELECT EXISTS (
    SELECT FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = $(schema)p AND c.relname = 'schema_migration'
) AS found;

-- name: list_unprotected_tables
-- Tables that hold memory without forced row level security.
SELECT c.relname::text AS name
FROM pg_class AS c
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = 'external_id'
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $(schema)p AND c.relkind IN ('r', 'p')
    AND NOT (c.relrowsecurity AND c.relforcerowsecurity)
ORDER BY 1;

-- name: list_streams
-- All streams as the scheduler sees them, those with most chunks first. A stream without an event has never been written
-- to: its last_recorded_at is -infinity, which the driver cannot read.
SELECT external_id, live_chunks, nullif(last_recorded_at, '-infinity') AS last_recorded_at, work_at, failed_at,
    graph_head, graph_position, graph_store
FROM memory_stream
ORDER BY live_chunks DESC, external_id;

-- name: read_checksums
-- Whether pages have checksums, and how often one of this database failed since the statistics were reset.
SELECT current_setting('data_checksums') = 'on' AS are_on, coalesce(checksum_failures, 0) AS failures,
    checksum_last_failure AS last_failure
FROM pg_stat_database
WHERE datname = current_database();

-- name: count_workers
-- Workers that have sent a heartbeat lately.
SELECT count(*) AS workers
FROM reminiscence_jobs.procrastinate_workers
WHERE last_heartbeat > clock_timestamp() - make_interval(secs => $(silence)p::float8);
