-- name: create_active_memory
INSERT INTO active_memory (
    external_id, memory_id, key, version, title, content, description, metadata, language, language_origin, timezone,
    source, actor, conversation_id, occurred_at, created_at, updated_at, archived_at, consolidated_version, due_version, text_version,
    segments, chunk_ids, chunk_starts, pinned, expires_at, expired_at, had_expiry
)
VALUES (
    $(external_id)p, $(memory_id)p, $(key)p, $(version)p, $(title)p, $(content)p, $(description)p, $(metadata)p::text::jsonb,
    $(language)p, $(language_origin)p, $(timezone)p, $(source)p, $(actor)p, $(conversation_id)p, $(occurred_at)p, $(created_at)p,
    $(updated_at)p, $(archived_at)p, $(consolidated_version)p, $(due_version)p, $(text_version)p,
    0, $(chunk_ids)p, $(chunk_starts)p, $(pinned)p, $(expires_at)p, $(expired_at)p, $(had_expiry)p
);

-- part: unexpired
-- A memory m is still there, whether or not an event has recorded yet that it is not.
(m.expires_at IS NULL OR m.expires_at > $(now)p::timestamptz)

-- part: segments
-- Of a memory m, which has others after its first.
FROM memory_segment AS s
WHERE s.external_id = $(external_id)p AND s.memory_id = m.memory_id

-- part: content
-- The whole text of a memory m.
m.content || CASE WHEN m.segments = 0 THEN '' ELSE (
    SELECT string_agg(s.content, '' ORDER BY s.segment) {include segments}
) END

-- part: columns
m.external_id, m.memory_id, m.key, m.version, m.title, {include content} AS content, m.description,
    m.metadata::text AS metadata, m.language, m.language_origin, m.timezone, m.source, m.actor, m.conversation_id, m.occurred_at,
    m.created_at, m.updated_at, m.archived_at, m.consolidated_version, m.due_version, m.text_version,
    m.chunk_ids, m.chunk_starts, m.pinned, m.expires_at, m.expired_at, m.had_expiry, CASE WHEN m.segments > 0 THEN (
        SELECT json_agg(json_build_object(
            'metadata', s.metadata, 'chunk_ids', s.chunk_ids, 'chunk_starts', s.chunk_starts
        ) ORDER BY s.segment)::text {include segments}
    ) END AS segments

-- name: get_active_memory
SELECT {include columns}
FROM active_memory AS m
WHERE m.external_id = $(external_id)p AND m.memory_id = $(memory_id)p;

-- part: outline
-- What an append has to know of a memory: all but its text.
SELECT m.external_id, m.memory_id, m.key, m.version, m.title, m.language, m.language_origin, m.timezone,
    m.occurred_at, m.archived_at, m.expires_at, m.expired_at, m.conversation_id, m.source, m.consolidated_version, m.due_version, m.segments,
    CASE jsonb_typeof(m.metadata -> 'speaker') WHEN 'string' THEN m.metadata ->> 'speaker' END AS speaker,
    coalesce(s.first_character, 0) + length(coalesce(s.content, m.content)) AS characters,
    CASE WHEN length(coalesce(s.content, m.content)) >= $(tail_characters)p OR s.content IS NULL
        THEN right(coalesce(s.content, m.content), $(tail_characters)p)
        -- Two are enough to go by: a segment has 32 chunks before the next one begins.
        ELSE right(coalesce(before.content, m.content) || s.content, $(tail_characters)p) END AS tail,
    coalesce(s.first_chunk, 0) + cardinality(coalesce(s.chunk_ids, m.chunk_ids)) AS chunks,
    cardinality(coalesce(s.chunk_ids, m.chunk_ids)) AS last_chunks,
    (coalesce(s.chunk_ids, m.chunk_ids))[cardinality(coalesce(s.chunk_ids, m.chunk_ids))] AS last_chunk_id
FROM active_memory AS m
LEFT JOIN LATERAL (
    SELECT * FROM memory_segment
    WHERE external_id = $(external_id)p AND memory_id = m.memory_id AND segment = m.segments
    OFFSET 0
) AS s ON m.segments > 0
LEFT JOIN LATERAL (
    SELECT content FROM memory_segment
    WHERE external_id = $(external_id)p AND memory_id = m.memory_id AND segment = m.segments - 1
    OFFSET 0
) AS before ON m.segments > 1
WHERE m.external_id = $(external_id)p AND {which}

-- part: with_id
m.memory_id = $(memory_id)p

-- part: with_key
-- Archived memories have lost their keys.
m.archived_at IS NULL AND m.key = $(key)p

-- name: get_outline
{include outline which=with_id};

-- name: find_outline_by_key
{include outline which=with_key};

-- name: find_by_key
-- The memory that has the key now: archived ones have lost it.
SELECT {include columns}
FROM active_memory AS m
WHERE m.external_id = $(external_id)p AND m.archived_at IS NULL AND m.key = $(key)p;

-- name: get_versions
SELECT version, consolidated_version, expires_at IS NOT NULL AND expires_at <= $(now)p::timestamptz AS has_expired
FROM active_memory
WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p;

-- name: count_chunks
-- How many chunks a memory's text has, live or not.
SELECT cardinality(m.chunk_ids) + coalesce((SELECT sum(cardinality(s.chunk_ids)) {include segments}), 0) AS chunks
FROM active_memory AS m
WHERE m.external_id = $(external_id)p AND m.memory_id = $(memory_id)p;

-- name: list_active_memories
-- Oldest first; ids are created in order of time, so they break ties. What is selected from, and the conditions, are parts
-- of this file.
SELECT {include columns}
FROM {memories} AS m
WHERE m.external_id = $(external_id)p AND m.archived_at IS NULL AND {include unexpired}
{conditions}
ORDER BY m.created_at, m.memory_id
{limit};

-- part: all_memories
active_memory

-- part: of_ids
-- OFFSET 0: looked up one by one. The planner would read the whole tenant, in the order in which they are returned.
(
    SELECT memory.*
    FROM (SELECT DISTINCT id FROM unnest($(ids)p::uuid[]) AS one (id)) AS asked
    CROSS JOIN LATERAL (
        SELECT * FROM active_memory WHERE external_id = $(external_id)p AND memory_id = asked.id OFFSET 0
    ) AS memory
)

-- part: of_keys
-- Likewise. An archived memory no longer has its key.
(
    SELECT memory.*
    FROM (SELECT DISTINCT key FROM unnest($(keys)p::text[]) AS one (key)) AS asked
    CROSS JOIN LATERAL (
        SELECT * FROM active_memory
        WHERE external_id = $(external_id)p AND key = asked.key AND archived_at IS NULL
        OFFSET 0
    ) AS memory
)

-- part: of_prefix
-- Likewise, by a range of keys.
(
    SELECT m.*
    FROM active_memory AS m
    WHERE m.external_id = $(external_id)p
    {keys}
    OFFSET 0
)

-- part: by_ids
AND m.memory_id = ANY($(ids)p::uuid[])

-- part: by_keys
AND m.key = ANY($(keys)p::text[])

-- part: from_key
AND m.key >= $(key_prefix)p

-- part: before_key
AND m.key < $(key_end)p

-- part: by_position
AND (m.created_at, m.memory_id) > ($(after_at)p, $(after)p)

-- part: at_most
LIMIT $(limit)p

-- name: find_creation
SELECT created_at
FROM active_memory
WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p;

-- name: count_active_memories
SELECT count(*) AS memories
FROM active_memory AS m
WHERE m.external_id = $(external_id)p AND m.archived_at IS NULL AND {include unexpired};

-- name: find_told_language
-- The language of the newest memory whose text shows one or for which one was given; ids are created in order of time.
-- Checks at most a hundred: a tenant may have very many texts that show none.
SELECT newest.language
FROM (
    SELECT language, language_origin, memory_id
    FROM active_memory
    WHERE external_id = $(external_id)p
    ORDER BY memory_id DESC
    LIMIT 100
) AS newest
WHERE newest.language_origin <> 'default'
ORDER BY newest.memory_id DESC
LIMIT 1;

-- name: count_memories
-- How many of these memories exist, including archived ones.
SELECT count(*) AS memories
FROM active_memory
WHERE external_id = $(external_id)p AND memory_id = ANY($(memory_ids)p::uuid[]);

-- name: find_memory_ids
SELECT memory_id
FROM active_memory
WHERE external_id = $(external_id)p
ORDER BY created_at, memory_id;

-- name: update_active_memory
-- No row if another writer has changed the version. The whole text is in the row again.
WITH updated AS (
UPDATE active_memory
SET version = $(version)p, title = $(title)p, content = $(content)p, description = $(description)p,
    metadata = $(metadata)p::text::jsonb, language = $(language)p, language_origin = $(language_origin)p,
    timezone = $(timezone)p, source = $(source)p, actor = $(actor)p, conversation_id = $(conversation_id)p, occurred_at = $(occurred_at)p,
    updated_at = $(updated_at)p,
    archived_at = $(archived_at)p, consolidated_version = $(consolidated_version)p, due_version = $(due_version)p,
    text_version = $(text_version)p, segments = 0, chunk_ids = $(chunk_ids)p, chunk_starts = $(chunk_starts)p,
    pinned = $(pinned)p, expires_at = $(expires_at)p, had_expiry = $(had_expiry)p
WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p AND version = $(expected_version)p
RETURNING version
), gone AS (
    DELETE FROM memory_segment
    WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p AND EXISTS (SELECT FROM updated)
)
SELECT version FROM updated;

-- part: appended
version = version + 1, language = $(language)p, language_origin = $(language_origin)p, source = $(source)p,
    actor = $(actor)p, conversation_id = $(conversation_id)p, occurred_at = $(occurred_at)p, updated_at = $(updated_at)p,
    due_version = CASE WHEN $(is_due)p THEN version + 1 ELSE due_version END

-- part: longer
content = content || $(content)p,
    metadata = CASE WHEN $(turns)p::text IS NULL THEN metadata
        ELSE jsonb_set(metadata, '{turns}', coalesce(nullif(metadata -> 'turns', 'null'), '[]') || $(turns)p::text::jsonb)
        END,
    chunk_ids = chunk_ids || $(chunk_ids)p::uuid[], chunk_starts = chunk_starts || $(chunk_starts)p::integer[]

-- part: at_version
external_id = $(external_id)p AND memory_id = $(memory_id)p AND version = $(version)p - 1

-- name: append_to_active_memory
-- To a text that is all in this row. No row if another writer has changed the version.
UPDATE active_memory
SET {include appended}, {include longer}
WHERE {include at_version}
RETURNING version;

-- name: append_to_segment
-- The same, to the last segment. What the memory's own row has of the text is not written again.
WITH updated AS (
    UPDATE active_memory
    SET {include appended}
    WHERE {include at_version}
    RETURNING version
), longer AS (
    UPDATE memory_segment
    SET {include longer}
    WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p AND segment = $(segment)p
        AND EXISTS (SELECT FROM updated)
)
SELECT version FROM updated;

-- name: append_segment
-- The same, as a new segment.
WITH updated AS (
    UPDATE active_memory
    SET {include appended}, segments = $(segment)p
    WHERE {include at_version}
    RETURNING version
), new AS (
    INSERT INTO memory_segment (
        external_id, memory_id, segment, first_character, first_chunk, content, metadata, chunk_ids, chunk_starts
    )
    SELECT $(external_id)p, $(memory_id)p, $(segment)p, $(first_character)p, $(first_chunk)p, $(content)p,
        CASE WHEN $(turns)p::text IS NULL THEN '{}' ELSE jsonb_build_object('turns', $(turns)p::text::jsonb) END,
        $(chunk_ids)p::uuid[], $(chunk_starts)p::integer[]
    FROM updated
)
SELECT version FROM updated;

-- name: read_segments
-- Which chunks each segment of a memory's text has; 0 is what stands in the memory's own row.
SELECT 0 AS segment, chunk_ids, chunk_starts
FROM active_memory
WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p
UNION ALL
SELECT segment, chunk_ids, chunk_starts
FROM memory_segment
WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p
ORDER BY segment;

-- name: cut_active_memory
-- Other chunks for the same text.
UPDATE active_memory
SET chunk_ids = $(chunk_ids)p::uuid[], chunk_starts = $(chunk_starts)p::integer[]
WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p;

-- name: cut_segment
UPDATE memory_segment
SET chunk_ids = $(chunk_ids)p::uuid[], chunk_starts = $(chunk_starts)p::integer[]
WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p AND segment = $(segment)p;

-- name: shift_segments
-- What stands before them has more chunks now.
UPDATE memory_segment
SET first_chunk = first_chunk + $(added)p::integer
WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p AND segment > $(segment)p;

-- name: make_due
-- The memory takes no more turns, so what was not consolidated yet is due, unless the memory has expired.
UPDATE active_memory
SET due_version = version
WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p AND consolidated_version < version
    AND expired_at IS NULL;

-- part: of_conversation
-- A conversation's keys have a prefix in common, and a number of as many digits; other keys with that prefix are a
-- caller's own.
m.key >= $(key_prefix)p AND m.key < $(key_end)p AND length(m.key) = $(key_length)p
    AND right(m.key, -length($(key_prefix)p)) ~ '^[0-9]+$'

-- part: latest_part
{include of_conversation}
ORDER BY m.key DESC, m.archived_at DESC NULLS FIRST
LIMIT 1

-- name: find_latest_part
-- The last of a conversation's memories, archived or not. Of two with one key, the one that is not archived.
{include outline which=latest_part};

-- name: find_parts
-- A conversation's memories that are not archived, the last first.
SELECT {include columns}
FROM active_memory AS m
WHERE m.external_id = $(external_id)p AND m.archived_at IS NULL AND {include unexpired} AND {include of_conversation}
ORDER BY m.key DESC
LIMIT $(limit)p;

-- name: find_grown
-- For each of some texts: the memory of the same conversation that holds its beginning, the longest if there are several.
-- Those that a conversation is recorded in turn by turn are looked at together, by find_told.
SELECT DISTINCT ON (asked.place) asked.place, m.memory_id
FROM unnest($(conversation_ids)p::text[], $(contents)p::text[]) WITH ORDINALITY AS asked (conversation_id, content, place)
CROSS JOIN LATERAL (
    SELECT m.memory_id, {include content} AS content
    FROM active_memory AS m
    WHERE m.external_id = $(external_id)p AND m.conversation_id = asked.conversation_id AND m.archived_at IS NULL
        AND {include unexpired}
        AND (m.key IS NULL OR NOT starts_with(m.key, $(reserved)p))
    -- OFFSET 0: the text is put together once.
    OFFSET 0
) AS m
WHERE length(m.content) < length(asked.content) AND starts_with(asked.content, m.content)
ORDER BY asked.place, length(m.content) DESC, m.memory_id;

-- name: find_told
-- For each of some texts whose conversation is recorded turn by turn: the memory that they go on with, or that they end
-- with, and where it begins in them. A text says what all memories of the conversation say, up to that one.
SELECT DISTINCT ON (asked.place) asked.place, told.memory_id, (length(told.text) - length(told.content))::int AS start,
    asked.content = told.text AS is_whole
FROM unnest($(key_prefixes)p::text[], $(key_ends)p::text[], $(key_lengths)p::int[], $(contents)p::text[])
    WITH ORDINALITY AS asked (key_prefix, key_end, key_length, content, place)
CROSS JOIN LATERAL (
    SELECT m.memory_id, m.content, string_agg(m.content, E'\n') OVER (ORDER BY m.key) AS text,
        m.key = max(m.key) OVER () AS is_last
    FROM (
        SELECT m.memory_id, m.key, {include content} AS content
        FROM active_memory AS m
        WHERE m.external_id = $(external_id)p AND m.archived_at IS NULL AND {include unexpired} AND m.key >= asked.key_prefix
            AND m.key < asked.key_end AND length(m.key) = asked.key_length
            AND right(m.key, -length(asked.key_prefix)) ~ '^[0-9]+$'
        OFFSET 0
    ) AS m
) AS told
WHERE starts_with(asked.content, told.text) AND (told.is_last OR asked.content = told.text)
ORDER BY asked.place, length(told.text) DESC;

-- name: archive_active_memory
-- Archived only once; archiving again may only end chunks.
UPDATE active_memory
SET archived_at = coalesce(archived_at, $(archived_at)p)
WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p
RETURNING version;

-- name: unarchive_active_memory
UPDATE active_memory
SET archived_at = NULL
WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p
RETURNING version;

-- name: expire_active_memory
-- Nothing of it is to be consolidated any more.
UPDATE active_memory
SET archived_at = coalesce(archived_at, $(recorded_at)p), expired_at = coalesce(expired_at, $(recorded_at)p),
    due_version = least(due_version, consolidated_version)
WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p
RETURNING version;

-- name: find_expired
-- Memories whose expiry no event has recorded yet, archived ones included.
SELECT memory_id
FROM active_memory
WHERE external_id = $(external_id)p AND expired_at IS NULL AND expires_at <= $(now)p::timestamptz
ORDER BY expires_at, memory_id
LIMIT $(limit)p;

-- name: find_next_expiry
SELECT min(expires_at) AS expires_at
FROM active_memory
WHERE external_id = $(external_id)p AND expired_at IS NULL AND expires_at IS NOT NULL;

-- name: mark_consolidated
UPDATE active_memory
SET consolidated_version = $(version)p
WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p
RETURNING version;
