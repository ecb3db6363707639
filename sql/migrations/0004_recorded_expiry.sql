-- The memories that have expired and whose chunks other columns do not say so of yet. With as_of NULL: at known_at, without
-- those whose expiry an event has recorded, which ended their chunks. Otherwise: by what was known at known_at, at as_of,
-- without those whose expiry was recorded by known_at and had come by as_of. The ledger is asked of the rest only, and not
-- where there is one version: a tenant may have many thousands, such as sessions.
CREATE OR REPLACE FUNCTION expired_memories(tenant text, as_of timestamptz, known_at timestamptz) RETURNS SETOF uuid
LANGUAGE sql STABLE PARALLEL SAFE
AS $function$
    SELECT memory_id
    FROM reminiscence.active_memory
    WHERE external_id = tenant AND as_of IS NULL AND expired_at IS NULL AND expires_at <= known_at
    UNION ALL
    SELECT memory_id
    FROM reminiscence.active_memory
    WHERE external_id = tenant AND as_of IS NOT NULL AND had_expiry
        AND (expired_at IS NULL OR expired_at > known_at OR expires_at > as_of)
        AND CASE WHEN version = 1 THEN expires_at ELSE reminiscence.expiry_then(tenant, memory_id, as_of, known_at) END <= as_of
$function$;
