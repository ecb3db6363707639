-- name: describe_rights
-- What a dump brings only where the roles exist: whom things belong to, policies and grants. Partitions have neither of the
-- last two, and private tables have no grant. Read from the catalogs, which every login may.
WITH ours AS (
    SELECT c.oid, c.relname, c.relkind, c.relowner, c.relispartition, c.relrowsecurity, c.relacl, n.nspname
    FROM pg_class AS c
    JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = ANY($(schemas)p::text[]) AND c.relkind IN ('r', 'p', 'v', 'S')
), owners AS (
    SELECT relowner AS owner FROM ours
    UNION ALL
    SELECT p.proowner FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
    WHERE n.nspname = ANY($(schemas)p::text[])
    UNION ALL
    SELECT nspowner FROM pg_namespace WHERE nspname = ANY($(schemas)p::text[])
)
SELECT
    EXISTS (SELECT FROM ours WHERE relname = 'schema_migration') AS has_schema,
    -- Of a table that somebody has put beside ours nothing is asked.
    coalesce(
        (
            SELECT bool_and(pg_get_userbyid(o.relowner) = $(owner)p AND pg_get_userbyid(n.nspowner) = $(owner)p
                AND o.relacl IS NOT NULL)
            FROM ours AS o
            JOIN pg_namespace AS n ON n.nspname = o.nspname
            WHERE o.relname = 'schema_migration'
        ),
        false
    ) AS has_rights,
    (
        SELECT coalesce(array_agg(wanted ORDER BY wanted), '{}')
        FROM unnest($(roles)p::text[]) AS wanted
        WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted)
    ) AS missing_roles,
    (SELECT count(*) FROM owners WHERE pg_get_userbyid(owner) <> $(owner)p) AS strangers,
    (SELECT min(pg_get_userbyid(owner)::text) FROM owners WHERE pg_get_userbyid(owner) <> $(owner)p) AS stranger,
    (
        SELECT count(*) FROM ours
        WHERE relrowsecurity AND NOT relispartition AND NOT EXISTS (SELECT FROM pg_policy WHERE polrelid = ours.oid)
            AND EXISTS (SELECT FROM pg_attribute WHERE attrelid = ours.oid AND attname = 'external_id')
    ) AS without_policy,
    (
        SELECT count(*) FROM ours
        WHERE nspname = $(schema)p AND relkind IN ('r', 'p', 'v') AND NOT relispartition AND relacl IS NULL
            AND relname <> ALL($(private)p::text[])
    ) AS without_grants;
