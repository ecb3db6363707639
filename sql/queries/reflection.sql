-- part: seen
-- What an agent sees of a stream: its own events, and those of the kinds that everybody sees. Erased events say nothing, and
-- the package's own records are in no view.
external_id = $(external_id)p AND salt IS NOT NULL AND (actor = $(actor)p OR kind = ANY($(kinds)p::text[]))
    AND NOT starts_with(kind, 'memory.')

-- part: counted
-- How many events an agent has seen after a position, each counted up to the number asked for: those that are no reflections; its
-- own reflections; and those of others, of which it may or may not see what they rest on.
(
    SELECT count(*) FROM (
        SELECT FROM memory_event
        WHERE {include seen} AND kind <> 'agent.reflected' AND position > {after}
        ORDER BY position
        LIMIT $(most)p
    ) AS events
) AS events,
(
    SELECT count(*) FROM (
        SELECT FROM memory_event
        WHERE external_id = $(external_id)p AND kind = 'agent.reflected' AND actor = $(actor)p AND salt IS NOT NULL
            AND position > {after}
        LIMIT $(most)p
    ) AS events
) AS own,
(
    SELECT count(*) FROM (
        SELECT FROM memory_event
        WHERE external_id = $(external_id)p AND kind = 'agent.reflected' AND actor IS DISTINCT FROM $(actor)p
            AND 'agent.reflected' = ANY($(kinds)p::text[]) AND salt IS NOT NULL AND position > {after}
        LIMIT $(most)p
    ) AS events
) AS others

-- part: event
external_id, position, event_id, kind, actor, conversation_id, turn, occurred_at, recorded_at, source,
    payload::text AS payload, idempotency_key, request_hash, salt, digest, chain

-- part: after_last
-- coalesce within the brackets: row security keeps it, where it meets a column, from using an index.
(SELECT coalesce(max(l.position), 0) FROM last AS l)

-- part: after_asked
asked.until

-- name: find_last
-- An agent's last reflection before a position, if there is one, and how many events it has seen after that, counted up to
-- the number asked for. A reflection that names what its author does not see is one like others here.
WITH last AS MATERIALIZED (
    SELECT {include event}
    FROM memory_event
    WHERE external_id = $(external_id)p AND kind = 'agent.reflected' AND actor = $(actor)p AND salt IS NOT NULL
        AND position < $(before)p
    ORDER BY position DESC
    LIMIT 1
)
SELECT last.*, {include counted after=after_last}
FROM (VALUES (true)) AS always (answers)
LEFT JOIN last ON always.answers;

-- name: find_asked
-- Up to which event a model was last asked in vain for a reflection of an agent, after a position, and how many events the
-- agent has seen after that one, counted up to the number asked for.
WITH asked AS MATERIALIZED (
    SELECT greatest((payload #>> '{reflection,until}')::bigint, $(after)p::bigint) AS until
    FROM memory_event
    WHERE external_id = $(external_id)p AND kind = 'memory.model_asked' AND actor IS NULL AND salt IS NOT NULL
        AND position > $(after)p AND payload #>> '{reflection,agent_name}' = $(actor)p
    ORDER BY position DESC
    LIMIT 1
)
SELECT asked.until, {include counted after=after_asked}
FROM asked;

-- name: read_seen
-- The last events that an agent has seen after a position, in order, without other agents' reflections; at most so many, and only as many of the last ones as
-- take no more than so many bytes, as the server stores them, but at least one.
SELECT {include event}
FROM (
    SELECT e.*, sum(pg_column_size(e.payload)) OVER (ORDER BY e.position DESC) - pg_column_size(e.payload) AS bytes_after
    FROM (
        SELECT *
        FROM memory_event
        WHERE {include seen} AND (kind <> 'agent.reflected' OR actor = $(actor)p) AND position > $(after)p
        ORDER BY position DESC
        LIMIT $(limit)p
    ) AS e
) AS page
WHERE bytes_after < $(max_bytes)p::bigint
ORDER BY position;

-- name: read_own
-- The last reflections of an agent before a position, the newest first.
SELECT {include event}
FROM memory_event
WHERE external_id = $(external_id)p AND kind = 'agent.reflected' AND actor = $(actor)p AND salt IS NOT NULL
    AND position < $(before)p
ORDER BY position DESC
LIMIT $(limit)p;

-- name: read_others
-- The last reflections of other agents, the newest first.
SELECT {include event}
FROM memory_event
WHERE external_id = $(external_id)p AND kind = 'agent.reflected' AND actor IS DISTINCT FROM $(actor)p AND salt IS NOT NULL
ORDER BY position DESC
LIMIT $(limit)p;

-- name: read_heads
-- Some events without what they say, unless they are reflections: who sees one follows from the rest.
SELECT external_id, position, event_id, kind, actor, conversation_id, turn, occurred_at, recorded_at, source,
    CASE WHEN kind = 'agent.reflected' THEN payload::text ELSE '{}' END AS payload, idempotency_key, request_hash, salt, digest, chain
FROM memory_event
WHERE external_id = $(external_id)p AND event_id = ANY($(event_ids)p::uuid[]);

-- name: count_held
-- How many of some events still say what they said.
SELECT count(*) AS held
FROM memory_event
WHERE external_id = $(external_id)p AND event_id = ANY($(event_ids)p::uuid[]) AND salt IS NOT NULL;
