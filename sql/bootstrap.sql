-- What an administrator runs once per database: the extension, roles, the schema and the login's memberships.
-- Run inside the database that will hold the memory, as a superuser or as a role that may create extensions and roles.
-- Idempotent. {{login}} is the role that the application connects as; it must exist.

CREATE EXTENSION IF NOT EXISTS vector;

DO $bootstrap$
DECLARE
    role_name text;
BEGIN
    FOREACH role_name IN ARRAY ARRAY[
        'reminiscence_owner', 'reminiscence_app', 'reminiscence_scheduler', 'reminiscence_worker', 'reminiscence_eraser'
    ] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role_name) THEN
            -- Roles belong to the whole server: another of its databases may be creating them right now.
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN NOSUPERUSER NOBYPASSRLS NOINHERIT', role_name);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL;
            END;
        END IF;
    END LOOP;
END
$bootstrap$;

-- Lets the administrator act as the owner, which migrations do; a superuser may anyway.
GRANT reminiscence_owner TO CURRENT_USER WITH INHERIT FALSE, SET TRUE;

CREATE SCHEMA IF NOT EXISTS reminiscence AUTHORIZATION reminiscence_owner;
-- The tables of Procrastinate, which processes the queue.
CREATE SCHEMA IF NOT EXISTS reminiscence_jobs AUTHORIZATION reminiscence_owner;

-- The extension may be in a schema that others have no access to.
DO $bootstrap$
DECLARE
    schema_name text;
BEGIN
    FOR schema_name IN
        SELECT DISTINCT n.nspname
        FROM pg_extension AS e
        JOIN pg_namespace AS n ON n.oid = e.extnamespace
        WHERE e.extname = 'vector' AND NOT has_schema_privilege('reminiscence_app', n.oid, 'USAGE')
    LOOP
        EXECUTE format(
            'GRANT USAGE ON SCHEMA %I TO reminiscence_owner, reminiscence_app, reminiscence_eraser', schema_name);
    END LOOP;
END
$bootstrap$;

-- A rebuild replays into temporary tables, and so does an erasure.
DO $bootstrap$
BEGIN
    EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO reminiscence_app, reminiscence_eraser', current_database());
END
$bootstrap$;

-- The login has no rights by itself: it takes one role for one transaction. NOINHERIT on a role is not enough since
-- PostgreSQL 16, where inheritance belongs to the membership.
GRANT reminiscence_app, reminiscence_scheduler, reminiscence_worker, reminiscence_eraser
    TO {{login}} WITH INHERIT FALSE, SET TRUE;
