-- name: describe_server
SELECT current_setting('server_version_num')::int AS version, current_setting('server_version') AS name,
    (SELECT coalesce(installed_version, default_version) FROM pg_available_extensions WHERE name = 'vector') AS vector;

-- name: describe_login
-- What decides whether the application may use this login.
SELECT session_user::text AS login, current_user::text AS acts_as,
    EXISTS (SELECT FROM pg_namespace WHERE nspname = $(schema)p) AS has_schema,
    (SELECT pg_get_userbyid(nspowner)::text FROM pg_namespace WHERE nspname = $(schema)p) AS owner,
    (SELECT pg_has_role(oid, 'SET') FROM pg_roles WHERE rolname = $(role)p) AS may_set,
    (SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user) AS bypasses,
    (
        SELECT array_agg(rolname::text ORDER BY rolname) FROM pg_roles
        WHERE starts_with(rolname, $(schema)p || '_') AND rolname <> current_user AND pg_has_role(oid, 'USAGE')
    ) AS inherits;

-- name: may_take
-- Whether this login may take a role for a transaction; no row if there is no such role.
SELECT pg_has_role(oid, 'SET') AS may_set FROM pg_roles WHERE rolname = $(role)p;

-- name: describe_administrator
-- What decides whether this login may install the schema for another one.
SELECT r.rolsuper, r.rolcreaterole, current_user::text AS name,
    EXISTS (SELECT FROM pg_extension WHERE extname = 'vector') AS has_vector,
    (SELECT pg_has_role(datdba, 'USAGE') FROM pg_database WHERE datname = current_database()) AS owns_database,
    EXISTS (SELECT FROM pg_roles WHERE rolname = $(login)p) AS has_login
FROM pg_roles AS r
WHERE r.rolname = current_user;

-- name: may_look
-- Whether there is a schema and this login may act as its owner. Not to_regclass: it may have no right to the schema.
SELECT EXISTS (
    SELECT FROM pg_class AS c
    JOIN pg_namespace AS n ON n.oid = c.relnamespace
    JOIN pg_roles AS r ON r.rolname = $(owner)p
    WHERE n.nspname = $(schema)p AND c.relname = 'schema_migration' AND pg_has_role(r.oid, 'SET')
) AS may_look;

-- name: search_own_schema
SET search_path = reminiscence;

-- name: find_migrations
-- The table of applied migrations; NULL if there is no schema.
SELECT to_regclass('reminiscence.schema_migration')::text AS name;

-- name: list_applied
SELECT version, name, checksum FROM reminiscence.schema_migration ORDER BY version;

-- name: read_state
-- What the schema was created with, and the embedder of the current vectors.
SELECT p.value::int AS chunk_partitions, g.generation, g.model_name, g.dimension,
    (SELECT value FROM schema_parameter WHERE name = 'announcement_key') AS announcement_key
FROM embedding_generation AS g
CROSS JOIN schema_parameter AS p
WHERE g.state = 'current' AND p.name = 'chunk_partitions';

-- name: read_jobs_version
SELECT value FROM schema_parameter WHERE name = 'procrastinate_schema';

-- name: read_analyser_version
SELECT value::int AS version FROM schema_parameter WHERE name = 'analyser_version';

-- name: record_migrations
INSERT INTO schema_migration (version, name, checksum) VALUES {values};

-- name: record_parameters
INSERT INTO schema_parameter (name, value) VALUES
    ('chunk_partitions', {chunk_partitions}), ('analyser_version', {analyser_version});

-- name: record_first_generation
INSERT INTO embedding_generation (generation, model_name, dimension, state, provider, model)
VALUES (1, {model_name}, {dimension}, 'current', {provider}, {model});
