-- A memory may have a moment from which on nothing finds it.
ALTER TABLE active_memory
    ADD COLUMN expires_at timestamptz,
    ADD COLUMN expired_at timestamptz,
    ADD COLUMN had_expiry boolean NOT NULL DEFAULT false;
CREATE INDEX active_memory_expires_at_idx ON active_memory (external_id, expires_at)
    WHERE expires_at IS NOT NULL AND expired_at IS NULL;
CREATE INDEX active_memory_had_expiry_idx ON active_memory (external_id, had_expiry) WHERE had_expiry;

-- When a memory expires by the version of it that held at as_of, by what was known at known_at; NULL if it does not.
CREATE FUNCTION expiry_then(tenant text, memory uuid, as_of timestamptz, known_at timestamptz) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
AS $function$
    SELECT (CASE stated.kind
        WHEN 'memory.created' THEN stated.payload ->> 'expires_at' ELSE stated.payload -> 'changes' ->> 'expires_at'
    END)::timestamptz
    FROM reminiscence.memory_event AS stated
    WHERE stated.external_id = tenant AND stated.memory_id = memory::text AND stated.salt IS NOT NULL
        AND (stated.kind = 'memory.created' OR stated.kind = 'memory.updated' AND stated.payload -> 'changes' ? 'expires_at')
        AND stated.position <= (
            SELECT max(version.position)
            FROM reminiscence.memory_event AS version
            WHERE version.external_id = tenant AND version.memory_id = memory::text AND version.salt IS NOT NULL
                AND version.kind IN ('memory.created', 'memory.updated', 'memory.appended')
                AND version.recorded_at <= known_at AND version.occurred_at <= as_of
        )
    ORDER BY stated.position DESC
    LIMIT 1
$function$;

-- The memories that have expired and whose chunks other columns do not say so of yet. With as_of NULL: at known_at, without
-- those whose expiry an event has recorded, which ended their chunks. Otherwise: by what was known at known_at, at as_of.
CREATE FUNCTION expired_memories(tenant text, as_of timestamptz, known_at timestamptz) RETURNS SETOF uuid
LANGUAGE sql STABLE PARALLEL SAFE
AS $function$
    SELECT memory_id
    FROM reminiscence.active_memory
    WHERE external_id = tenant AND as_of IS NULL AND expired_at IS NULL AND expires_at <= known_at
    UNION ALL
    SELECT memory_id
    FROM reminiscence.active_memory
    WHERE external_id = tenant AND as_of IS NOT NULL AND had_expiry
        AND reminiscence.expiry_then(tenant, memory_id, as_of, known_at) <= as_of
$function$;

REVOKE EXECUTE ON FUNCTION expiry_then(text, uuid, timestamptz, timestamptz) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION expired_memories(text, timestamptz, timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION expiry_then(text, uuid, timestamptz, timestamptz) TO reminiscence_app;
GRANT EXECUTE ON FUNCTION expired_memories(text, timestamptz, timestamptz) TO reminiscence_app;
