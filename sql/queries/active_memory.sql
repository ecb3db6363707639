-- name: create_active_memory
INSERT INTO active_memory (
    external_id, memory_id, key, version, title, content, description, metadata, language, language_origin, source, actor,
    conversation_id, occurred_at, created_at, updated_at, archived_at, consolidated_version, due_version, text_version,
    chunk_ids, chunk_starts
)
VALUES (
    $(external_id)p, $(memory_id)p, $(key)p, $(version)p, $(title)p, $(content)p, $(description)p, $(metadata)p::text::jsonb,
    $(language)p, $(language_origin)p, $(source)p, $(actor)p, $(conversation_id)p, $(occurred_at)p, $(created_at)p,
    $(updated_at)p, $(archived_at)p, $(consolidated_version)p, $(due_version)p, $(text_version)p,
    $(chunk_ids)p, $(chunk_starts)p
);

-- part: columns
external_id, memory_id, key, version, title, content, description, metadata::text AS metadata, language,
    language_origin, source, actor, conversation_id, occurred_at, created_at, updated_at, archived_at, consolidated_version,
    due_version, text_version, chunk_ids, chunk_starts

-- name: get_active_memory
SELECT {include columns}
FROM active_memory
WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p;

-- name: get_outline
-- What an append has to know of a memory: all but its text.
SELECT memory_id, key, version, title, language, language_origin, occurred_at, archived_at, consolidated_version,
    due_version, CASE jsonb_typeof(metadata -> 'speaker') WHEN 'string' THEN metadata ->> 'speaker' END AS speaker, length(content) AS characters,
    right(content, $(tail_characters)p) AS tail, cardinality(chunk_ids) AS chunks
FROM active_memory
WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p;

-- name: find_by_key
-- The memory that has the key now: archived ones have lost it.
SELECT {include columns}
FROM active_memory
WHERE external_id = $(external_id)p AND archived_at IS NULL AND key = $(key)p;

-- name: get_versions
SELECT version, consolidated_version
FROM active_memory
WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p;

-- name: list_active_memories
-- Oldest first; ids are created in order of time, so they break ties. The conditions are parts of this file.
SELECT {include columns}
FROM active_memory
WHERE external_id = $(external_id)p AND archived_at IS NULL
{conditions}
ORDER BY created_at, memory_id
{limit};

-- part: by_ids
AND memory_id = ANY($(ids)p::uuid[])

-- part: among_ids
AND memory_id = ANY($(among)p::uuid[])

-- part: by_keys
AND key = ANY($(keys)p::text[])

-- part: from_key
AND key >= $(key_prefix)p

-- part: before_key
AND key < $(key_end)p

-- part: by_position
AND (created_at, memory_id) > ($(after_at)p, $(after)p)

-- part: at_most
LIMIT $(limit)p

-- name: find_creation
SELECT created_at
FROM active_memory
WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p;

-- name: count_active_memories
SELECT count(*) AS memories
FROM active_memory
WHERE external_id = $(external_id)p AND archived_at IS NULL;

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
-- No row if another writer has changed the version.
UPDATE active_memory
SET version = $(version)p, title = $(title)p, content = $(content)p, description = $(description)p,
    metadata = $(metadata)p::text::jsonb, language = $(language)p, language_origin = $(language_origin)p,
    source = $(source)p, actor = $(actor)p, conversation_id = $(conversation_id)p, occurred_at = $(occurred_at)p,
    updated_at = $(updated_at)p,
    archived_at = $(archived_at)p, consolidated_version = $(consolidated_version)p, due_version = $(due_version)p,
    text_version = $(text_version)p, chunk_ids = $(chunk_ids)p, chunk_starts = $(chunk_starts)p
WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p AND version = $(expected_version)p
RETURNING version;

-- name: append_to_active_memory
-- No row if another writer has changed the version. Returns the chunk that was the last one before.
UPDATE active_memory
SET version = version + 1, content = content || $(content)p,
    metadata = CASE WHEN $(turns)p::text IS NULL THEN metadata
        ELSE jsonb_set(metadata, '{turns}', coalesce(nullif(metadata -> 'turns', 'null'), '[]') || $(turns)p::text::jsonb)
        END,
    language = $(language)p, language_origin = $(language_origin)p, source = $(source)p, actor = $(actor)p,
    conversation_id = $(conversation_id)p, occurred_at = $(occurred_at)p, updated_at = $(updated_at)p,
    due_version = CASE WHEN $(is_due)p THEN version + 1 ELSE due_version END,
    chunk_ids = chunk_ids || $(chunk_ids)p::uuid[], chunk_starts = chunk_starts || $(chunk_starts)p::integer[]
WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p AND version = $(version)p - 1
RETURNING chunk_ids[cardinality(chunk_ids) - cardinality($(chunk_ids)p::uuid[])] AS last_chunk_id;

-- name: make_due
-- The memory takes no more turns, so what was not consolidated yet is due.
UPDATE active_memory
SET due_version = version
WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p AND consolidated_version < version;

-- name: find_latest_part
-- The last of a conversation's memories, archived or not: their keys have a prefix in common, and a number of as many
-- digits; other keys with that prefix are a caller's own. Of two with one key, the one that is not archived.
SELECT {include columns}
FROM active_memory
WHERE external_id = $(external_id)p AND key >= $(key_prefix)p AND key < $(key_end)p AND length(key) = $(key_length)p
    AND right(key, -length($(key_prefix)p)) ~ '^[0-9]+$'
ORDER BY key DESC, archived_at DESC NULLS FIRST
LIMIT 1;

-- name: find_parts
-- A conversation's memories that are not archived, the last first.
SELECT {include columns}
FROM active_memory
WHERE external_id = $(external_id)p AND archived_at IS NULL AND key >= $(key_prefix)p AND key < $(key_end)p
    AND length(key) = $(key_length)p AND right(key, -length($(key_prefix)p)) ~ '^[0-9]+$'
ORDER BY key DESC
LIMIT $(limit)p;

-- name: find_grown
-- For each of some texts: the memory of the same conversation that holds its beginning, the longest if there are several.
SELECT DISTINCT ON (asked.place) asked.place, m.memory_id
FROM unnest($(conversation_ids)p::text[], $(contents)p::text[]) WITH ORDINALITY AS asked (conversation_id, content, place)
JOIN active_memory AS m ON m.conversation_id = asked.conversation_id
WHERE m.external_id = $(external_id)p AND m.archived_at IS NULL
    AND length(m.content) < length(asked.content) AND starts_with(asked.content, m.content)
ORDER BY asked.place, length(m.content) DESC, m.memory_id;

-- name: archive_active_memory
-- Archived only once; archiving again may only end chunks.
UPDATE active_memory
SET archived_at = coalesce(archived_at, $(archived_at)p)
WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p
RETURNING version;

-- name: mark_consolidated
UPDATE active_memory
SET consolidated_version = $(version)p
WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p
RETURNING version;
