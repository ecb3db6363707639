-- What an administrator does once for a database: extensions, roles, the schema and the login's memberships.
-- Run inside the database that will hold the memory, as a superuser or as a role that may create extensions and roles.
-- Idempotent. {{login}} is the role that the application connects as; it must exist.

CREATE EXTENSION IF NOT EXISTS vector;
CREATE EXTENSION IF NOT EXISTS pg_textsearch;

DO $bootstrap$
DECLARE
    role_name text;
BEGIN
    FOREACH role_name IN ARRAY ARRAY[
        'reminiscence_owner', 'reminiscence_app', 'reminiscence_scheduler', 'reminiscence_worker', 'reminiscence_eraser'
    ] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role_name) THEN
            -- Roles belong to the whole server: another database of it may be making them right now.
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN NOSUPERUSER NOBYPASSRLS NOINHERIT', role_name);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL;
            END;
        END IF;
    END LOOP;
END
$bootstrap$;

-- The administrator may act as the owner, which migrations do; a superuser may anyway.
GRANT reminiscence_owner TO CURRENT_USER WITH INHERIT FALSE, SET TRUE;

CREATE SCHEMA IF NOT EXISTS reminiscence AUTHORIZATION reminiscence_owner;

-- A rebuild replays into temporary tables.
DO $bootstrap$
BEGIN
    EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO reminiscence_app', current_database());
END
$bootstrap$;

-- The login is nothing by itself: it takes one role for one transaction. NOINHERIT on a role is not enough
-- since PostgreSQL 16, where inheritance belongs to the membership.
GRANT reminiscence_app, reminiscence_scheduler, reminiscence_worker, reminiscence_eraser
    TO {{login}} WITH INHERIT FALSE, SET TRUE;
