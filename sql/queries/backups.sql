-- name: describe_source
-- Whether this login may dump our schemas whole. Row security makes pg_dump fail for everyone else; a table that may not be
-- read does so too.
SELECT (SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user) AS bypasses,
    (
        SELECT count(*)
        FROM pg_class AS c
        JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = ANY($(schemas)p::text[])
            AND ((c.relkind IN ('r', 'p') AND NOT has_table_privilege(c.oid, 'SELECT'))
                OR (c.relkind = 'S' AND NOT has_sequence_privilege(c.oid, 'SELECT')))
    ) AS unreadable;

-- name: begin_snapshot
-- Idle while pg_dump reads, however long that takes; it holds no lock that a writer would wait for.
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SET LOCAL idle_in_transaction_session_timeout = 0;
SET LOCAL statement_timeout = 0;

-- name: export_snapshot
SELECT pg_export_snapshot() AS snapshot, clock_timestamp() AS taken_at;

-- name: describe_contents
-- What is dumped, as the snapshot has it.
SELECT current_setting('server_version') AS server_version, e.extversion AS vector_version,
    n.nspname AS vector_schema,
    (SELECT count(*) FROM reminiscence.schema_migration) AS migrations,
    (SELECT value FROM reminiscence.schema_parameter WHERE name = 'procrastinate_schema') AS jobs_version,
    (SELECT count(*) FROM reminiscence.memory_stream) AS streams,
    (SELECT coalesce(sum(head), 0)::bigint FROM reminiscence.memory_stream) AS events
FROM pg_extension AS e
JOIN pg_namespace AS n ON n.oid = e.extnamespace
WHERE e.extname = 'vector';

-- name: describe_target
-- Whether there is room for our schemas, and where pgvector's types are. A restore that was killed leaves empty schemas.
SELECT (
        SELECT count(*)
        FROM pg_class AS c
        JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = ANY($(schemas)p::text[])
    ) AS relations,
    (
        SELECT n.nspname
        FROM pg_extension AS e
        JOIN pg_namespace AS n ON n.oid = e.extnamespace
        WHERE e.extname = 'vector'
    ) AS vector_schema;

-- name: create_extension
-- In the schema that the dump names its types with.
CREATE SCHEMA IF NOT EXISTS {schema};
CREATE EXTENSION IF NOT EXISTS vector SCHEMA {schema};

-- name: drop_schemas
-- Without CASCADE: only empty ones. A restore that was killed holds its locks until the server notices.
SET LOCAL lock_timeout = '5s';
DROP SCHEMA IF EXISTS reminiscence, reminiscence_jobs;

-- name: analyze_tables
-- All tables that the owner owns: what a dump does not bring, so that the first questions are planned well.
ANALYZE;
