-- name: identify_database
-- A copy of a database has the same migrations, and another number on its server.
SELECT (SELECT min(applied_at) FROM schema_migration) AS migrated_at, oid::bigint AS number
FROM pg_database
WHERE datname = current_database();

-- name: may_act_as_owner
SELECT pg_has_role(oid, 'SET') AS may_set FROM pg_roles WHERE rolname = $(role)p;
