-- name: find_pending
-- The conversations with turns that a model is still to read: what asked for it last in each, and in how many seconds it is
-- due, by the server's clock. What was read after that is no longer pending. While a conversation does not pause, it is due
-- after ten pauses.
SELECT pending.conversation_id, e.position, e.actor, e.payload::text AS payload,
    extract(epoch FROM due.due_at - clock_timestamp())::float8 AS due_in_seconds
FROM (
    SELECT conversation_id, max(position) FILTER (WHERE kind = 'memory.remember_asked') AS asked
    FROM memory_event
    WHERE external_id = $(external_id)p AND kind IN ('memory.remember_asked', 'memory.remembered')
        AND conversation_id IS NOT NULL
        AND ($(conversation_id)p::text IS NULL OR conversation_id = $(conversation_id)p::text)
    GROUP BY conversation_id
    HAVING max(position) = max(position) FILTER (WHERE kind = 'memory.remember_asked')
) AS pending
CROSS JOIN LATERAL (
    SELECT position, actor, payload, recorded_at
    FROM memory_event
    WHERE external_id = $(external_id)p AND position = pending.asked
    OFFSET 0
) AS e
CROSS JOIN LATERAL (
    SELECT recorded_at
    FROM memory_event
    WHERE external_id = $(external_id)p AND conversation_id = pending.conversation_id AND position > 0
    ORDER BY position DESC
    LIMIT 1
) AS latest
CROSS JOIN LATERAL (
    SELECT CASE
        WHEN e.payload ->> 'is_over' = 'true' THEN e.recorded_at
        WHEN e.payload ? 'retry_seconds'
            THEN e.recorded_at + make_interval(secs => (e.payload ->> 'retry_seconds')::float8)
        ELSE least(
            latest.recorded_at + make_interval(secs => $(pause_seconds)p::float8),
            e.recorded_at + make_interval(secs => 10 * $(pause_seconds)p::float8)
        )
    END AS due_at
) AS due
ORDER BY due.due_at, e.position;

-- name: find_read
-- Up to where a conversation was read last, and since when it is off the record; no row if it never was read.
SELECT (payload ->> 'through')::bigint AS through, (payload ->> 'off_record_at')::timestamptz AS off_record_at
FROM memory_event
WHERE external_id = $(external_id)p AND conversation_id = $(conversation_id)p AND kind = 'memory.remembered'
ORDER BY position DESC
LIMIT 1;

-- name: read_said
-- What was said in a conversation after a position, in order: events that added to its memories, without those of archived
-- and expired ones, and without what was replaced by another text since: that is no longer among the turns.
SELECT e.position, e.kind, e.source, e.occurred_at, e.payload::text AS payload
FROM memory_event AS e
CROSS JOIN LATERAL (
    SELECT m.memory_id
    FROM active_memory AS m
    WHERE m.external_id = $(external_id)p AND m.memory_id = e.memory_id::uuid AND m.archived_at IS NULL
        AND (m.expires_at IS NULL OR m.expires_at > $(now)p::timestamptz)
        AND m.key >= $(key_prefix)p AND m.key < $(key_end)p AND length(m.key) = $(key_length)p
    OFFSET 0
) AS part
WHERE e.external_id = $(external_id)p AND e.conversation_id = $(conversation_id)p AND e.position > $(after)p
    AND e.kind IN ('memory.created', 'memory.appended') AND e.salt IS NOT NULL
    AND NOT EXISTS (
        SELECT FROM memory_event AS u
        WHERE u.external_id = e.external_id AND u.memory_id = e.memory_id AND u.position > e.position
            AND u.kind = 'memory.updated' AND u.payload #> '{changes,content}' IS NOT NULL
    )
ORDER BY e.position
LIMIT $(limit)p;
