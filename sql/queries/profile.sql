-- name: end_profile
-- Its current state is over.
UPDATE profile
SET superseded_at = $(recorded_at)p
WHERE external_id = $(external_id)p AND name = $(name)p AND superseded_at IS NULL;

-- name: add_profile
INSERT INTO profile (
    external_id, position, name, definition, question, refresh, max_tokens, refresh_tokens, defined_at, content, citations,
    made_by, model, source, cited_source, written_from, written_at, recorded_at
)
VALUES (
    $(external_id)p, $(position)p, $(name)p, $(definition)p, $(question)p, $(refresh)p, $(max_tokens)p, $(refresh_tokens)p,
    $(defined_at)p, $(content)p, $(citations)p::text::jsonb, $(made_by)p, $(model)p, $(source)p, $(cited_source)p,
    $(written_from)p, $(written_at)p, $(recorded_at)p
);

-- name: find_profile
-- Its state as it was known at some time; without one, the current state.
SELECT name, definition, question, refresh, max_tokens, refresh_tokens, defined_at, content AS text,
    citations::text AS citations, made_by, model, source, cited_source, written_from, written_at, recorded_at, superseded_at
FROM profile
WHERE external_id = $(external_id)p AND name = $(name)p
    AND CASE
        WHEN $(known_at)p::timestamptz IS NULL THEN superseded_at IS NULL
        ELSE recorded_at <= $(known_at)p AND (superseded_at IS NULL OR superseded_at > $(known_at)p)
    END;

-- name: find_expired_cited
-- Which of some memories had expired at as_of, by what was known at known_at, whether or not an event has recorded it.
SELECT memory_id
FROM active_memory
WHERE external_id = $(external_id)p AND memory_id = ANY($(memory_ids)p::uuid[]) AND had_expiry
    AND expiry_then($(external_id)p, memory_id, $(as_of)p::timestamptz, $(known_at)p::timestamptz) <= $(as_of)p::timestamptz;

-- name: knows_profile
-- Whether there is or was a profile of this name.
SELECT EXISTS (SELECT FROM profile WHERE external_id = $(external_id)p AND name = $(name)p) AS is_known;

-- name: list_profiles
-- Current states, by name.
SELECT name, definition, question, refresh, max_tokens, refresh_tokens, defined_at, content AS text,
    citations::text AS citations, made_by, model, source, cited_source, written_from, written_at, recorded_at, superseded_at
FROM profile
WHERE external_id = $(external_id)p AND name IS NOT NULL AND superseded_at IS NULL
ORDER BY name;

-- name: find_due_profiles
-- Profiles whose text is to be written: there is none yet and something is remembered; or memory has changed since, by a
-- consolidation, an erasure, the expiry of what it cites, or a day ago at least. Only events after the last text are read.
SELECT p.name
FROM profile AS p
WHERE p.external_id = $(external_id)p AND p.name IS NOT NULL AND p.superseded_at IS NULL
    AND (p.content IS NULL OR p.refresh = 'consolidation' OR p.written_at <= $(written_by)p)
    AND EXISTS (
        SELECT
        FROM memory_event AS e
        WHERE e.external_id = $(external_id)p AND e.position > coalesce(p.written_from, 0)
            AND CASE
                WHEN e.kind = 'memory.erased' THEN p.content IS NOT NULL
                WHEN e.salt IS NULL THEN false
                WHEN p.content IS NULL THEN e.kind IN ('memory.created', 'memory.updated', 'memory.appended')
                -- Its lines that rest on what has expired are not shown any more.
                WHEN e.kind = 'memory.archived' AND e.payload ? 'expired'
                    THEN p.refresh = 'daily' OR position(e.memory_id IN p.citations::text) > 0
                WHEN p.refresh = 'consolidation' THEN e.kind = 'memory.consolidated'
                ELSE {include changes_what_is_known}
            END
    )
    AND NOT EXISTS (
        SELECT
        FROM memory_event AS a
        WHERE a.external_id = $(external_id)p AND a.position > greatest(p.definition, p.written_from)
            AND a.occurred_at > $(failed_by)p AND {include failed_for_profile}
    )
ORDER BY p.name;

-- part: changes_what_is_known
-- Not a promotion, a count of uses or a call of a model: they change nothing that a text could say.
e.kind IN (
    'memory.created', 'memory.updated', 'memory.appended', 'memory.archived', 'memory.unarchived', 'memory.consolidated',
    'memory.ended', 'memory.outdated', 'memory.entities_merged', 'memory.entities_unmerged', 'memory.relationship_ended',
    'memory.entity_stated', 'memory.relationship_stated')

-- part: failed_for_profile
-- A model was paid in vain: it failed, or wrote what cannot be used. Not a call that was cut off, or overtaken by a change.
a.kind = 'memory.model_asked' AND a.payload ->> 'profile' = p.definition::text
    AND a.payload ->> 'outcome' NOT IN ('answered', 'cancelled', 'store')

-- name: any_follows
-- Whether there is a profile that is written anew after each consolidation.
SELECT EXISTS (
    SELECT FROM profile
    WHERE external_id = $(external_id)p AND name IS NOT NULL AND superseded_at IS NULL AND refresh = 'consolidation'
) AS any_follows;

-- name: find_waits
-- When the oldest text of the daily profiles was written, NULL if there is none; whether any profile has no text yet; and when
-- the first of those failed that are not tried again yet.
SELECT min(p.written_at) FILTER (WHERE p.refresh = 'daily') AS first_daily_at,
    coalesce(bool_or(p.content IS NULL), false) AS has_unwritten,
    min(f.failed_at) AS first_failed_at
FROM profile AS p
LEFT JOIN LATERAL (
    SELECT max(a.occurred_at) AS failed_at
    FROM memory_event AS a
    WHERE a.external_id = $(external_id)p AND a.position > greatest(p.definition, p.written_from)
        AND a.occurred_at > $(failed_by)p AND {include failed_for_profile}
) AS f ON true
WHERE p.external_id = $(external_id)p AND p.name IS NOT NULL AND p.superseded_at IS NULL;

-- name: was_erased_since
-- Whether anything was erased after a position.
SELECT EXISTS (
    SELECT FROM memory_event
    WHERE external_id = $(external_id)p AND position > $(position)p AND kind = 'memory.erased'
) AS was_erased;

-- name: has_changed_between
-- Whether anything that a text could say has changed after one position, up to another.
SELECT EXISTS (
    SELECT
    FROM memory_event AS e
    WHERE e.external_id = $(external_id)p AND e.position > $(after)p AND e.position <= $(until)p
        AND (e.kind = 'memory.erased' OR {include changes_what_is_known})
) AS has_changed;

-- name: find_speakers
-- Which of these names somebody has spoken under.
SELECT DISTINCT speaker_key
FROM memory_chunk
WHERE external_id = $(external_id)p AND speaker_key = ANY($(speaker_keys)p::text[]);

-- name: find_name_keys
-- The names of some entities and of those that were merged into them.
SELECT DISTINCT n.key
FROM entity AS e
JOIN entity_name AS n ON n.external_id = $(external_id)p AND n.entity_id = e.entity_id
WHERE e.external_id = $(external_id)p AND e.canonical_id = ANY($(entity_ids)p::uuid[])
ORDER BY n.key;

-- name: find_statements
-- What holds now, the most important first: of all, or only what some speakers said, or names some entities, with the facts
-- drawn from it.
SELECT c.chunk_id, c.memory_id, c.content, c.speaker, c.speaker_key, c.importance,
    coalesce(c.said_at, c.start_date) AS said_at, c.said_starts, c.said_dates, c.source,
    c.derived_from IS NOT NULL AS is_fact, m.language, m.timezone
FROM memory_chunk AS c
JOIN active_memory AS m ON m.external_id = $(external_id)p AND m.memory_id = c.memory_id
WHERE c.external_id = $(external_id)p AND c.superseded_at IS NULL AND c.duplicate_of IS NULL
    AND c.start_date <= $(now)p AND (c.end_date IS NULL OR c.end_date > $(now)p)
    AND (m.expires_at IS NULL OR m.expires_at > $(now)p)
    AND (
        NOT $(is_narrowed)p::boolean OR c.speaker_key = ANY($(speaker_keys)p::text[]) OR EXISTS (
            SELECT
            FROM graph_mention AS g
            JOIN entity AS e ON e.external_id = $(external_id)p AND e.entity_id = g.item_id
            WHERE g.external_id = $(external_id)p AND g.chunk_id = ANY(array_append(c.derived_from, c.chunk_id))
                AND e.canonical_id = ANY($(entity_ids)p::uuid[])
        )
    )
ORDER BY c.importance DESC, c.number DESC
LIMIT $(limit)p;
