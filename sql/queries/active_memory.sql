-- name: create_active_memory
INSERT INTO active_memory (
    external_id, memory_id, version, title, content, description, metadata, language, language_origin, source, actor,
    conversation_id, occurred_at, created_at, updated_at, archived_at, consolidated_version, due_version, chunk_ids,
    chunk_starts
)
VALUES (
    $(external_id)p, $(memory_id)p, $(version)p, $(title)p, $(content)p, $(description)p, $(metadata)p::text::jsonb,
    $(language)p, $(language_origin)p, $(source)p, $(actor)p, $(conversation_id)p, $(occurred_at)p, $(created_at)p,
    $(updated_at)p, $(archived_at)p, $(consolidated_version)p, $(due_version)p, $(chunk_ids)p, $(chunk_starts)p
);

-- name: get_active_memory
SELECT external_id, memory_id, version, title, content, description, metadata::text AS metadata, language,
    language_origin, source, actor, conversation_id, occurred_at, created_at, updated_at, archived_at, consolidated_version,
    due_version, chunk_ids, chunk_starts
FROM active_memory
WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p;

-- name: get_versions
SELECT version, consolidated_version
FROM active_memory
WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p;

-- name: get_all_active_memories
-- Oldest first; ids are created in order of time, so they break ties.
SELECT external_id, memory_id, version, title, content, description, metadata::text AS metadata, language,
    language_origin, source, actor, conversation_id, occurred_at, created_at, updated_at, archived_at, consolidated_version,
    due_version, chunk_ids, chunk_starts
FROM active_memory
WHERE external_id = $(external_id)p AND archived_at IS NULL
ORDER BY created_at, memory_id;

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
    chunk_ids = $(chunk_ids)p, chunk_starts = $(chunk_starts)p
WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p AND version = $(expected_version)p
RETURNING version;

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
