-- name: lock_schema
-- Callers that change a database's schema wait for each other until the end of the transaction.
SELECT pg_advisory_xact_lock($(key)p)::text;

-- name: lock_schema_for_session
-- The same for what cannot run in a transaction.
SELECT pg_advisory_lock($(key)p)::text;

-- name: take_owner_role
SET LOCAL ROLE reminiscence_owner;

-- name: leave_owner_role
RESET ROLE;

-- name: set_search_path
-- The extension may be in any schema; its operators must be found without qualifying them.
SELECT set_config(
    'search_path', 'reminiscence, ' || string_agg(DISTINCT extnamespace::regnamespace::text, ', '), true)
FROM pg_extension WHERE extname = 'vector';

-- name: read_made_with
-- For a schema of any release: the first generation is the one the schema was created with, or the one it took while empty.
SELECT p.value::int AS chunk_partitions, g.model_name, g.dimension
FROM embedding_generation AS g
CROSS JOIN schema_parameter AS p
WHERE p.name = 'chunk_partitions'
ORDER BY g.generation
LIMIT 1;

-- name: record_jobs_version
UPDATE schema_parameter SET value = $(name)p WHERE name = 'procrastinate_schema';

-- name: is_superuser
SELECT rolsuper FROM pg_roles WHERE rolname = current_user;

-- name: drop_samples
DELETE FROM pg_catalog.pg_statistic AS s
USING pg_catalog.pg_attribute AS a
JOIN pg_catalog.pg_class AS c ON c.oid = a.attrelid
WHERE s.starelid = a.attrelid AND s.staattnum = a.attnum AND a.attstattarget = 0
    AND c.relnamespace = 'reminiscence'::regnamespace;

-- name: find_embedded
-- Whether the embedded server has our login and our database.
SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $(login)p) AS has_login,
    EXISTS (SELECT FROM pg_database WHERE datname = $(database)p) AS has_database;

-- name: create_login
CREATE ROLE {login} LOGIN NOSUPERUSER NOBYPASSRLS NOINHERIT;

-- name: create_database
CREATE DATABASE {database};

-- name: read_reindexed
SELECT value FROM schema_parameter WHERE name = 'reindexed';

-- name: record_reindexed
INSERT INTO schema_parameter (name, value) VALUES ('reindexed', $(value)p)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: delete_reindexed
DELETE FROM schema_parameter WHERE name = 'reindexed';

-- name: record_analyser
UPDATE schema_parameter SET value = $(version)p WHERE name = 'analyser_version';

-- name: list_roles_to_grant
-- Which of some roles the current one may not take. A superuser may take any.
SELECT rolname::text AS role
FROM pg_roles
WHERE rolname = ANY($(roles)p::text[]) AND NOT pg_has_role(oid, 'SET')
ORDER BY 1;

-- name: grant_roles
GRANT {roles} TO CURRENT_USER WITH INHERIT FALSE, SET TRUE;

-- name: revoke_roles
REVOKE {roles} FROM CURRENT_USER;
