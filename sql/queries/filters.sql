-- name: find_memories
-- The ids of the memories, archived ones included, for which all conditions on memories hold. A condition is a bit, and one
-- or more ranges of values; the bits of those that have to hold are `wanted`, and the others are not to hold. A memory that
-- was asked for by its id has bit 1, and any memory bit 2 if nothing else finds what only lacks something. Where not all have
-- to hold, `wanted` is NULL, and the bits of all memories that were found come back as well, eight bytes each.
SELECT string_agg(uuid_send(found.memory_id), ''::bytea) AS memory_ids,
    string_agg(CASE WHEN $(wanted)p::bigint IS NULL THEN int8send(found.bits) END, ''::bytea) AS bits
FROM (
    SELECT held.memory_id, bit_or(held.bit) AS bits
    FROM (
        SELECT attribute.item_id AS memory_id, asked.bit
        FROM unnest($(bits)p::bigint[], $(paths)p::text[], $(lows)p::text[], $(highs)p::text[])
            AS asked (bit, path, low, high)
        CROSS JOIN LATERAL (
            SELECT item_id FROM memory_attribute
            WHERE external_id = $(external_id)p AND path = asked.path AND value >= asked.low AND value < asked.high
            OFFSET 0
        ) AS attribute
        UNION ALL
        SELECT memory_id, 1 FROM unnest($(memory_ids)p::uuid[]) AS named (memory_id)
        UNION ALL
        SELECT memory_id, 2 FROM active_memory WHERE external_id = $(external_id)p AND $(of_all)p::boolean
    ) AS held
    GROUP BY held.memory_id
    HAVING coalesce(bit_or(held.bit) = $(wanted)p::bigint, true)
) AS found;

-- name: has_more_holding
-- Whether a condition holds for `most` values or more in one of its ranges.
SELECT bool_or(range.holding >= $(most)p::bigint) AS has_more
FROM unnest($(paths)p::text[], $(lows)p::text[], $(highs)p::text[]) AS asked (path, low, high)
CROSS JOIN LATERAL (
    SELECT count(*) AS holding
    FROM (
        SELECT FROM memory_attribute
        WHERE external_id = $(external_id)p AND path = asked.path AND value >= asked.low AND value < asked.high
        LIMIT $(most)p::bigint
    ) AS attribute
) AS range;

-- name: find_turns
-- The chunks for whose turn a condition on turns holds, and the bits of all that do, eight bytes each.
SELECT string_agg(int8send(chunk.number), ''::bytea) AS numbers, string_agg(int8send(turn.bits), ''::bytea) AS bits
FROM (
    SELECT attribute.item_id AS chunk_id, bit_or(asked.bit) AS bits
    FROM unnest($(bits)p::bigint[], $(paths)p::text[], $(lows)p::text[], $(highs)p::text[]) AS asked (bit, path, low, high)
    CROSS JOIN LATERAL (
        SELECT item_id FROM memory_attribute
        WHERE external_id = $(external_id)p AND path = asked.path AND value >= asked.low AND value < asked.high
        OFFSET 0
    ) AS attribute
    GROUP BY attribute.item_id
) AS turn
CROSS JOIN LATERAL (
    SELECT number FROM memory_chunk WHERE external_id = $(external_id)p AND chunk_id = turn.chunk_id OFFSET 0
) AS chunk;

-- part: columns_pass
-- coalesce: these conditions leave rows out, and open no index to a lookup by another column.
tier = ANY($(tiers)p::text[]) AND confidence >= $(min_confidence)p::float8
    AND coalesce(source = ANY($(sources)p::text[]), false)
    AND ($(speakers)p::text[] IS NULL OR coalesce(speaker_key = ANY($(speakers)p::text[]), false))
    AND start_date >= $(occurred_after)p::timestamptz AND start_date < $(occurred_before)p::timestamptz

-- part: passing
-- Which rows of memory_chunk the filter's conditions on passages admit; those that repeat another may stand for it.
external_id = $(external_id)p AND (duplicate_of IS NOT NULL OR chunk_is_visible(
        recorded_at, superseded_at, start_date, end_date, corrected_at, corrected_end_dates, NULL, $(known_at)p::timestamptz))
    AND memory_id NOT IN (SELECT id FROM expired_memories($(external_id)p, NULL, $(known_at)p::timestamptz) AS expired (id))
    AND {include columns_pass}

-- part: admitted
-- Number, memory, and the number of the chunk that is repeated or 0, of each.
SELECT string_agg(int8send(c.number), ''::bytea) AS numbers, string_agg(uuid_send(c.memory_id), ''::bytea) AS memory_ids,
    string_agg(int8send(CASE WHEN c.duplicate_of IS NULL THEN 0 ELSE coalesce((
        SELECT o.number FROM memory_chunk AS o
        WHERE o.external_id = $(external_id)p AND o.chunk_id = c.duplicate_of
        OFFSET 0
    ), 0) END), ''::bytea) AS originals

-- name: find_passing
-- All chunks that pass, source by source: each is looked up by it and by time.
{include admitted}
FROM (
    SELECT chunk.*
    FROM unnest($(sources)p::text[]) AS asked (source)
    CROSS JOIN LATERAL (
        SELECT number, memory_id, duplicate_of
        FROM memory_chunk
        WHERE {include passing} AND source = asked.source
        OFFSET 0
    ) AS chunk
    LIMIT $(most)p::bigint
) AS c;

-- name: find_passing_said
-- The same, speaker by speaker.
{include admitted}
FROM (
    SELECT chunk.*
    FROM unnest($(speakers)p::text[]) AS asked (speaker_key)
    CROSS JOIN LATERAL (
        SELECT number, memory_id, duplicate_of
        FROM memory_chunk
        WHERE {include passing} AND speaker_key = asked.speaker_key
        OFFSET 0
    ) AS chunk
    LIMIT $(most)p::bigint
) AS c;

-- name: find_passing_of_memories
-- The same, memory by memory.
{include admitted}
FROM (
    SELECT chunk.*
    FROM unnest($(memory_ids)p::uuid[]) AS memory (id)
    CROSS JOIN LATERAL (
        SELECT number, memory_id, duplicate_of
        FROM memory_chunk
        WHERE {include passing} AND memory_id = memory.id
        OFFSET 0
    ) AS chunk
    LIMIT $(most)p::bigint
) AS c;

-- name: find_passing_among
-- The same for some chunks.
{include admitted}
FROM unnest($(numbers)p::bigint[]) AS asked (number)
CROSS JOIN LATERAL (
    SELECT number, memory_id, duplicate_of FROM memory_chunk WHERE {include passing} AND number = asked.number OFFSET 0
) AS c;

-- name: find_passing_among_holding
-- The same for some chunks, if a condition holds for their memories: looked up memory by memory, for it holds for many.
WITH passing AS MATERIALIZED (
    SELECT c.number, c.memory_id, c.duplicate_of
    FROM unnest($(numbers)p::bigint[]) AS asked (number)
    CROSS JOIN LATERAL (
        SELECT number, memory_id, duplicate_of FROM memory_chunk WHERE {include passing} AND number = asked.number OFFSET 0
    ) AS c
), holding AS MATERIALIZED (
    SELECT DISTINCT memory.memory_id
    FROM (SELECT DISTINCT memory_id FROM passing) AS memory
    CROSS JOIN LATERAL (
        -- All ranges of a condition have its path. coalesce: it opens no index to a lookup by the path.
        SELECT value
        FROM memory_attribute
        WHERE external_id = $(external_id)p AND item_id = memory.memory_id
            AND coalesce(path = ($(paths)p::text[])[1], false)
        OFFSET 0
    ) AS attribute
    JOIN unnest($(lows)p::text[], $(highs)p::text[]) AS asked (low, high)
        ON attribute.value >= asked.low AND attribute.value < asked.high
)
{include admitted}
FROM passing AS c
WHERE c.memory_id IN (SELECT memory_id FROM holding);

-- name: find_numbers
-- The numbers of some chunks.
SELECT chunk.chunk_id, chunk.number
FROM unnest($(chunk_ids)p::uuid[]) AS asked (chunk_id)
CROSS JOIN LATERAL (
    SELECT chunk_id, number FROM memory_chunk WHERE external_id = $(external_id)p AND chunk_id = asked.chunk_id OFFSET 0
) AS chunk;

-- name: find_past_chunks
SELECT chunk.chunk_id, chunk.memory_id, chunk.passes
FROM unnest($(chunk_ids)p::uuid[]) AS asked (chunk_id)
CROSS JOIN LATERAL (
    SELECT chunk_id, memory_id, {include columns_pass} AS passes
    FROM memory_chunk
    WHERE external_id = $(external_id)p AND chunk_id = asked.chunk_id
    OFFSET 0
) AS chunk;

-- name: read_past_attributes
-- What memories could be filtered by in the version that held at as_of, by what was known at known_at.
WITH version AS (
    SELECT memory.id AS memory_id, of_it.*
    FROM unnest($(memory_ids)p::text[]) AS memory (id)
    CROSS JOIN LATERAL (
        -- OFFSET 0: looked up one by one.
        SELECT position, occurred_at, actor, conversation_id,
            CASE kind
                WHEN 'memory.created' THEN payload -> 'metadata'
                WHEN 'memory.updated' THEN payload -> 'changes' -> 'metadata'
            END AS metadata,
            CASE WHEN kind = 'memory.created' THEN payload ->> 'key' END AS key
        FROM memory_event
        WHERE external_id = $(external_id)p AND memory_id = memory.id
            AND kind IN ('memory.created', 'memory.updated', 'memory.appended')
            AND recorded_at <= $(known_at)p::timestamptz
        OFFSET 0
    ) AS of_it
), held AS (
    SELECT memory_id, max(position) AS position
    FROM version
    WHERE occurred_at <= $(as_of)p::timestamptz
    GROUP BY memory_id
)
SELECT held.memory_id, max(version.key) AS key,
    (array_agg(version.actor ORDER BY version.position DESC))[1] AS actor,
    -- A write that names no conversation leaves the memory in its own.
    (array_agg(version.conversation_id ORDER BY version.position DESC)
        FILTER (WHERE version.conversation_id IS NOT NULL))[1] AS conversation_id,
    (array_agg(version.metadata ORDER BY version.position DESC) FILTER (WHERE version.metadata IS NOT NULL))[1]::text
        AS metadata
FROM held
JOIN version ON version.memory_id = held.memory_id AND version.position <= held.position
GROUP BY held.memory_id;

-- name: read_past_turns
-- The metadata of the turns that chunks were from in that version, as far as they had any.
WITH version AS (
    SELECT position, payload -> 'chunks' AS chunks,
        max(position) FILTER (WHERE occurred_at <= $(as_of)p::timestamptz) OVER (PARTITION BY memory_id) AS held
    FROM memory_event
    WHERE external_id = $(external_id)p AND kind IN ('memory.created', 'memory.updated', 'memory.appended')
        AND salt IS NOT NULL AND recorded_at <= $(known_at)p::timestamptz
)
SELECT turn.chunk_id, turn.metadata
FROM (
    SELECT DISTINCT ON (chunk.entry ->> 'id') chunk.entry ->> 'id' AS chunk_id, (chunk.entry -> 'metadata')::text AS metadata
    FROM version
    CROSS JOIN LATERAL jsonb_array_elements(version.chunks) AS chunk (entry)
    WHERE version.position <= version.held
    ORDER BY chunk.entry ->> 'id', version.position DESC
) AS turn
WHERE turn.metadata <> '{}';
