-- name: find_by_memory
SELECT DISTINCT memory_id, NULL::bigint AS position
FROM memory_event
WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p::text;

-- part: left_parts
-- Parts of a payload whose event is erased and that are not: that event is the first after them that is no part itself. Only
-- events of a user's own kinds have parts.
SELECT p.position
FROM reminiscence.memory_event AS p
CROSS JOIN LATERAL (
    SELECT after.salt, after.kind
    FROM reminiscence.memory_event AS after
    WHERE after.external_id = $(external_id)p AND after.position > p.position AND after.kind <> 'memory.value_part'
    ORDER BY after.position
    LIMIT 1
) AS divided
WHERE p.external_id = $(external_id)p AND p.kind = 'memory.value_part' AND p.salt IS NOT NULL AND divided.salt IS NULL
    AND NOT starts_with(divided.kind, 'memory.')

-- name: find_divided
-- All events of a payload that is divided over several, of which one is erased, now or before: each has a part of what was
-- one value.
WITH erased AS MATERIALIZED (
    SELECT coalesce(payload -> 'memory.divided' ->> 'value', payload ->> 'value') AS value
    FROM memory_event
    WHERE external_id = $(external_id)p AND position = ANY($(positions)p::bigint[])
        AND (payload ? 'memory.divided' OR kind = 'memory.value_part')
)
SELECT e.position
FROM memory_event AS e
WHERE e.external_id = $(external_id)p AND e.salt IS NOT NULL
    -- Most erasures reach no such payload, and then no other event is read.
    AND EXISTS (SELECT FROM erased)
    AND (
        (e.kind = 'memory.value_part' AND e.payload ->> 'value' IN (SELECT erased.value FROM erased))
        OR e.payload -> 'memory.divided' ->> 'value' IN (SELECT erased.value FROM erased)
    )
UNION ALL
{include left_parts};

-- name: find_resting
-- Events of other memories that rest on these, because a model was shown them or a name was taken from them; but for texts of
-- profiles.
SELECT position
FROM memory_event
WHERE external_id = $(external_id)p
    AND kind IN (
        'memory.consolidated', 'memory.ended', 'memory.outdated', 'memory.relationship_ended', 'memory.relationship_stated')
    AND coalesce(memory_id, '') <> ALL($(memory_ids)p::text[])
    AND EXISTS (
        SELECT
        FROM jsonb_array_elements_text(payload -> 'rests_on') AS other (memory_id)
        WHERE other.memory_id = ANY($(memory_ids)p::text[])
    );

-- name: find_resting_profiles
-- Texts of profiles that rest on a memory of which any event is erased, and those that answer an erased question: what a model
-- was shown may go back to that event, such as a fact that it brought in.
WITH erased AS MATERIALIZED (
    SELECT position, kind, memory_id
    FROM memory_event
    WHERE external_id = $(external_id)p
        AND (position = ANY($(positions)p::bigint[]) OR memory_id = ANY($(memory_ids)p::text[]))
)
SELECT e.position
FROM memory_event AS e
WHERE e.external_id = $(external_id)p AND e.kind = 'memory.profile_written' AND e.salt IS NOT NULL
    AND (
        EXISTS (
            SELECT
            FROM jsonb_array_elements_text(e.payload -> 'rests_on') AS other (memory_id)
            WHERE other.memory_id IN (SELECT erased.memory_id FROM erased)
        )
        OR (e.payload ->> 'definition')::bigint IN (
            SELECT erased.position FROM erased WHERE erased.kind = 'memory.profile_defined'
        )
    );

-- name: find_resting_runs
-- What was recalled in a run, and how the run ended, where each chunk that it tells of is erased: with its memory, or with the
-- event that brought it in, such as a consolidation that is emptied. An event that also names another chunk stays; the erased
-- ones no longer count, and their ids lead nowhere.
SELECT told.position
FROM reminiscence.recalled_chunk AS r
JOIN reminiscence.memory_chunk AS c ON c.external_id = $(external_id)p AND c.chunk_id = r.chunk_id
CROSS JOIN LATERAL (VALUES (r.position), (r.outcome)) AS told (position)
WHERE r.external_id = $(external_id)p AND told.position IS NOT NULL
GROUP BY told.position
HAVING bool_and(
    c.memory_id::text = ANY($(memory_ids)p::text[]) OR r.position = ANY($(positions)p::bigint[])
    OR c.number >> 20 = ANY($(positions)p::bigint[])
);

-- part: rests
-- Reflections, each with the events that it names as its grounds or that its model was shown. What somebody appended may hold
-- anything there, and an id in any form that is read as one: with urn:uuid:, braces and capitals, without hyphens.
SELECT r.position, r.event_id,
    lower(replace(btrim(replace(replace(named.event_id, 'urn:', ''), 'uuid:', ''), '{}'), '-', '')) AS named_id
FROM reminiscence.memory_event AS r
CROSS JOIN LATERAL (VALUES (r.payload -> 'based_on'), (r.payload -> 'rests_on')) AS grounds (ids)
CROSS JOIN LATERAL jsonb_array_elements_text(
    CASE jsonb_typeof(grounds.ids) WHEN 'array' THEN grounds.ids ELSE '[]' END
) AS named (event_id)
WHERE r.external_id = $(external_id)p AND r.kind = 'agent.reflected' AND r.salt IS NOT NULL

-- name: find_resting_reflections
-- Reflections that rest on an event that is erased, or on a reflection that goes with it, however many steps away. An event
-- that was erased before counts as well: somebody may have appended one on it since.
WITH RECURSIVE rests AS MATERIALIZED (
    {include rests}
), gone (event_id) AS (
    SELECT e.event_id
    FROM memory_event AS e
    WHERE e.external_id = $(external_id)p AND (
        e.salt IS NULL OR e.position = ANY($(positions)p::bigint[]) OR e.memory_id = ANY($(memory_ids)p::text[])
    )
    UNION
    SELECT rests.event_id
    FROM gone
    JOIN rests ON rests.named_id = replace(gone.event_id::text, '-', '')
)
SELECT DISTINCT rests.position
FROM rests
JOIN gone ON gone.event_id = rests.event_id;

-- name: find_by_conversation
-- What a conversation led to: memories as a whole, because later versions repeat what earlier ones say, and single
-- events that belong to no memory: custom kinds and graph events. Receipts of erasures, and records that one has
-- reached the graph store, hold no text and are never erased.
SELECT DISTINCT memory_id, CASE WHEN memory_id IS NULL THEN position END AS position
FROM memory_event
WHERE external_id = $(external_id)p AND salt IS NOT NULL AND kind NOT IN ('memory.erased', 'memory.graph_erased')
    AND conversation_id = $(conversation_id)p AND position > 0;

-- name: find_chosen
-- Memories that are still at the version that was read, and events of users' own kinds.
SELECT m.memory_id::text AS memory_id, NULL::bigint AS position
FROM unnest($(memory_ids)p::text[]::uuid[], $(versions)p::int[]) AS chosen (memory_id, version)
JOIN reminiscence.active_memory AS m
    ON m.external_id = $(external_id)p AND m.memory_id = chosen.memory_id AND m.version = chosen.version
UNION ALL
SELECT NULL, position
FROM reminiscence.memory_event
WHERE external_id = $(external_id)p AND event_id = ANY($(event_ids)p::text[]::uuid[]) AND salt IS NOT NULL
    AND NOT starts_with(kind, 'memory.');

-- name: find_before
-- What was recorded before a moment: memories that nothing has been written to since, and single events. Of those, what costs
-- of models were and how entities were merged, which hold no text, stay; the definition of a profile stays in force; the end
-- of a relationship stays as long as a memory states that relationship; and what says which turns a model has read, or is still
-- to read, stays as long as the conversation. Parts of a divided payload go with it.
WITH memory AS MATERIALIZED (
    SELECT memory_id
    FROM reminiscence.memory_event
    WHERE external_id = $(external_id)p AND memory_id IS NOT NULL AND salt IS NOT NULL
    GROUP BY memory_id
    HAVING max(recorded_at) FILTER (WHERE kind IN ('memory.created', 'memory.updated', 'memory.appended'))
        < $(before)p::timestamptz
)
SELECT memory_id, NULL::bigint AS position
FROM memory
UNION ALL
SELECT NULL, e.position
FROM reminiscence.memory_event AS e
WHERE e.external_id = $(external_id)p AND e.memory_id IS NULL AND e.salt IS NOT NULL
    AND e.recorded_at < $(before)p::timestamptz
    AND CASE e.kind
        WHEN 'memory.erased' THEN false
        WHEN 'memory.graph_erased' THEN false
        WHEN 'memory.model_asked' THEN false
        WHEN 'memory.entities_merged' THEN false
        WHEN 'memory.entities_unmerged' THEN false
        WHEN 'memory.value_part' THEN false
        WHEN 'memory.profile_defined' THEN NOT EXISTS (
            SELECT
            FROM reminiscence.profile AS p
            WHERE p.external_id = $(external_id)p AND p.name IS NOT NULL AND p.superseded_at IS NULL
                AND p.definition = e.position
        )
        WHEN 'memory.relationship_ended' THEN NOT EXISTS (
            SELECT
            FROM reminiscence.graph_mention AS g
            JOIN reminiscence.memory_chunk AS c ON c.external_id = $(external_id)p AND c.chunk_id = g.chunk_id
            WHERE g.external_id = $(external_id)p AND g.item_id::text = e.payload ->> 'relationship_id'
                AND c.memory_id::text NOT IN (SELECT memory.memory_id FROM memory)
        )
        ELSE e.kind NOT IN ('memory.remember_asked', 'memory.remembered') OR NOT EXISTS (
            SELECT
            FROM reminiscence.memory_event AS said
            WHERE said.external_id = $(external_id)p AND said.conversation_id = e.conversation_id AND said.position > 0
                AND said.kind IN ('memory.created', 'memory.appended') AND said.salt IS NOT NULL
                AND said.memory_id NOT IN (SELECT memory.memory_id FROM memory)
        )
    END;

-- name: find_by_text
-- One page of events that may contain the text, in any version. The caller checks whether a payload really says it or
-- only matches by a field name or by how JSON writes a line break. Receipts hold no text but the name of the eraser.
SELECT position, kind, payload::text AS payload,
    coalesce(strpos(actor, $(text)p) > 0, false) OR coalesce(strpos(conversation_id, $(text)p) > 0, false)
        OR coalesce(strpos(idempotency_key, $(text)p) > 0, false) AS is_labelled
FROM memory_event
WHERE external_id = $(external_id)p AND salt IS NOT NULL AND kind NOT IN ('memory.erased', 'memory.graph_erased')
    AND position > $(after)p
    AND (strpos(payload::text, $(json_text)p) > 0 OR strpos(actor, $(text)p) > 0
        OR strpos(conversation_id, $(text)p) > 0 OR strpos(idempotency_key, $(text)p) > 0)
ORDER BY position
LIMIT $(limit)p;

-- name: find_texts_holding
-- Memories whose whole text holds a text.
SELECT memory_id::text AS memory_id
FROM active_memory AS m
WHERE m.external_id = $(external_id)p AND strpos(m.content || CASE WHEN m.segments = 0 THEN '' ELSE (
    SELECT string_agg(s.content, '' ORDER BY s.segment)
    FROM memory_segment AS s
    WHERE s.external_id = $(external_id)p AND s.memory_id = m.memory_id
) END, $(text)p) > 0;

-- name: find_all
SELECT DISTINCT memory_id, CASE WHEN memory_id IS NULL THEN position END AS position
FROM memory_event
WHERE external_id = $(external_id)p AND salt IS NOT NULL AND kind NOT IN ('memory.erased', 'memory.graph_erased');

-- name: list_items
-- What a selection covers, in order of position.
SELECT e.kind, e.memory_id, e.position, m.title, e.events
FROM (
    SELECT 'memory' AS kind, memory_id, min(position) AS position, count(*) AS events
    FROM memory_event
    WHERE external_id = $(external_id)p AND memory_id = ANY($(memory_ids)p::text[])
    GROUP BY memory_id
    UNION ALL
    SELECT kind, memory_id, position, 1
    FROM memory_event
    WHERE external_id = $(external_id)p AND position = ANY($(positions)p::bigint[])
        AND NOT coalesce(memory_id = ANY($(memory_ids)p::text[]), false)
) AS e
LEFT JOIN active_memory AS m ON m.external_id = $(external_id)p AND m.memory_id::text = e.memory_id
ORDER BY e.position;

-- name: list_positions
SELECT position
FROM memory_event
WHERE external_id = $(external_id)p AND salt IS NOT NULL AND kind NOT IN ('memory.erased', 'memory.graph_erased')
    AND (
        position = ANY($(positions)p::bigint[])
        OR memory_id = ANY($(memory_ids)p::text[])
    );

-- name: empty_events
-- The only change the ledger allows: the row, its position, its digest and its chain stay.
UPDATE memory_event
SET payload = '{}', idempotency_key = NULL, request_hash = NULL, salt = NULL, actor = NULL, conversation_id = NULL
WHERE external_id = $(external_id)p AND salt IS NOT NULL AND kind NOT IN ('memory.erased', 'memory.graph_erased')
    AND (
        position = ANY($(positions)p::bigint[])
        OR memory_id = ANY($(memory_ids)p::text[])
    )
RETURNING external_id, position, event_id, kind, actor, conversation_id, turn, occurred_at, recorded_at, source,
    payload::text AS payload, idempotency_key, request_hash, salt, digest, chain;

-- name: count_rows
SELECT (SELECT count(*) FROM reminiscence.active_memory WHERE external_id = $(external_id)p) AS active_memory,
    (SELECT count(*) FROM reminiscence.memory_segment WHERE external_id = $(external_id)p) AS memory_segment,
    (SELECT count(*) FROM reminiscence.memory_turn WHERE external_id = $(external_id)p) AS memory_turn,
    (SELECT count(*) FROM reminiscence.shortterm_memory WHERE external_id = $(external_id)p) AS shortterm_memory,
    (SELECT count(*) FROM reminiscence.memory_chunk WHERE external_id = $(external_id)p) AS memory_chunk,
    (SELECT count(*) FROM reminiscence.memory_heading WHERE external_id = $(external_id)p) AS memory_heading,
    (SELECT count(*) FROM reminiscence.posting WHERE external_id = $(external_id)p) AS posting,
    (SELECT count(*) FROM reminiscence.memory_layout WHERE external_id = $(external_id)p) AS memory_layout,
    (SELECT count(*) FROM reminiscence.memory_attribute WHERE external_id = $(external_id)p) AS memory_attribute,
    (SELECT count(*) FROM reminiscence.embedding_cache WHERE external_id = $(external_id)p) AS embedding_cache,
    (SELECT count(*) FROM reminiscence.entity WHERE external_id = $(external_id)p) AS entity,
    (SELECT count(*) FROM reminiscence.entity_name WHERE external_id = $(external_id)p) AS entity_name,
    (SELECT count(*) FROM reminiscence.relationship WHERE external_id = $(external_id)p) AS relationship,
    (SELECT count(*) FROM reminiscence.graph_mention WHERE external_id = $(external_id)p) AS graph_mention,
    (SELECT count(*) FROM reminiscence.belief WHERE external_id = $(external_id)p) AS belief,
    (SELECT count(*) FROM reminiscence.profile WHERE external_id = $(external_id)p) AS profile,
    (SELECT count(*) FROM reminiscence.recalled_chunk WHERE external_id = $(external_id)p) AS recalled_chunk,
    (SELECT count(*) FROM reminiscence.outdated_chunk WHERE external_id = $(external_id)p) AS outdated_chunk,
    (SELECT count(*) FROM reminiscence.event_index WHERE external_id = $(external_id)p) AS event_index,
    (SELECT count(*) FROM reminiscence.event_posting WHERE external_id = $(external_id)p) AS event_posting;

-- name: find_receipt
SELECT payload::text AS payload
FROM memory_event
WHERE external_id = $(external_id)p AND kind = 'memory.erased' AND payload ->> 'receipt_id' = $(receipt_id)p::text;

-- name: was_updated_since
SELECT EXISTS (
    SELECT FROM memory_event AS e
    WHERE e.external_id = $(external_id)p AND e.kind = 'memory.updated' AND e.position > (
        SELECT r.position
        FROM memory_event AS r
        WHERE r.external_id = $(external_id)p AND r.kind = 'memory.erased'
            AND r.payload ->> 'receipt_id' = $(receipt_id)p::text
    )
) AS was_updated;

-- name: find_not_empty
-- Events named by a receipt that are not in the state it left them in.
SELECT named.position, e.position IS NULL AS is_missing
FROM unnest($(positions)p::bigint[], $(digests)p::text[]) AS named (position, digest)
LEFT JOIN memory_event AS e ON e.external_id = $(external_id)p AND e.position = named.position
WHERE e.position IS NULL OR e.payload <> '{}' OR e.salt IS NOT NULL OR e.request_hash IS NOT NULL
    OR e.idempotency_key IS NOT NULL OR e.actor IS NOT NULL OR e.conversation_id IS NOT NULL
    OR encode(e.digest, 'hex') <> named.digest
ORDER BY 1;

-- name: find_left_over
-- Rows of erased memories, and what was derived from deleted texts. A name that two memories have stays for the other
-- one; the replay that produced it ensures that it matches the rest of the ledger.
SELECT 'memory_event.payload' AS place, position::text AS key, 'belongs to an erased memory' AS problem
FROM reminiscence.memory_event
WHERE external_id = $(external_id)p AND memory_id = ANY($(memory_ids)p::text[])
UNION ALL
SELECT 'memory_event.payload', position::text, 'rests on an erased memory'
FROM reminiscence.memory_event
WHERE external_id = $(external_id)p
    AND kind IN (
        'memory.consolidated', 'memory.ended', 'memory.outdated', 'memory.relationship_ended', 'memory.relationship_stated',
        'memory.profile_written')
    AND EXISTS (
    SELECT
    FROM jsonb_array_elements_text(payload -> 'rests_on') AS other (memory_id)
    WHERE other.memory_id = ANY($(memory_ids)p::text[])
)
UNION ALL
SELECT DISTINCT 'memory_event.payload', r.position::text, 'rests on an erased event'
FROM (
    {include rests}
) AS r
JOIN reminiscence.memory_event AS e
    ON e.external_id = $(external_id)p AND e.salt IS NULL AND replace(e.event_id::text, '-', '') = r.named_id
UNION ALL
SELECT 'memory_event.payload', l.position::text, 'is a part of an erased event'
FROM (
    {include left_parts}
) AS l
UNION ALL
SELECT 'active_memory.content', memory_id::text, 'belongs to an erased memory'
FROM reminiscence.active_memory
WHERE external_id = $(external_id)p AND memory_id = ANY($(memory_ids)p::text[]::uuid[])
UNION ALL
SELECT 'memory_segment.content', memory_id::text || '/' || segment, 'belongs to an erased memory'
FROM reminiscence.memory_segment
WHERE external_id = $(external_id)p AND memory_id = ANY($(memory_ids)p::text[]::uuid[])
UNION ALL
SELECT 'memory_turn.turn_id', memory_id::text, 'belongs to an erased memory'
FROM reminiscence.memory_turn
WHERE external_id = $(external_id)p AND memory_id = ANY($(memory_ids)p::text[]::uuid[])
UNION ALL
SELECT 'shortterm_memory.summary', memory_id::text, 'belongs to an erased memory'
FROM reminiscence.shortterm_memory
WHERE external_id = $(external_id)p AND memory_id = ANY($(memory_ids)p::text[]::uuid[])
UNION ALL
SELECT 'memory_chunk.content', chunk_id::text, 'belongs to an erased memory'
FROM reminiscence.memory_chunk
WHERE external_id = $(external_id)p AND memory_id = ANY($(memory_ids)p::text[]::uuid[])
UNION ALL
SELECT 'memory_heading.title', number::text, 'belongs to an erased memory'
FROM reminiscence.memory_heading
WHERE external_id = $(external_id)p AND memory_id = ANY($(memory_ids)p::text[]::uuid[])
UNION ALL
SELECT 'profile.content', p.position::text, 'cites an erased memory'
FROM reminiscence.profile AS p
WHERE p.external_id = $(external_id)p AND EXISTS (
    SELECT
    FROM jsonb_path_query(p.citations, '$[*][*].memory_id') AS cited (memory_id)
    WHERE cited.memory_id #>> '{}' = ANY($(memory_ids)p::text[])
)
UNION ALL
SELECT 'profile.content', p.position::text, 'is of an erased event'
FROM reminiscence.profile AS p
JOIN reminiscence.memory_event AS e ON e.external_id = $(external_id)p AND e.position = p.position
WHERE p.external_id = $(external_id)p AND e.salt IS NULL
UNION ALL
SELECT 'recalled_chunk.chunk_id', r.chunk_id::text, 'is of a chunk that is gone'
FROM reminiscence.recalled_chunk AS r
WHERE r.external_id = $(external_id)p AND NOT EXISTS (
    SELECT FROM reminiscence.memory_chunk AS c
    WHERE c.external_id = $(external_id)p AND c.chunk_id = r.chunk_id
)
UNION ALL
SELECT DISTINCT 'recalled_chunk.run_id', e.position::text, 'is of an erased event'
FROM reminiscence.recalled_chunk AS r
JOIN reminiscence.memory_event AS e ON e.external_id = $(external_id)p AND e.position IN (r.position, r.outcome)
WHERE r.external_id = $(external_id)p AND e.salt IS NULL
UNION ALL
SELECT DISTINCT 'outdated_chunk.chunk_id', o.chunk_id::text, 'names a chunk that is gone'
FROM reminiscence.outdated_chunk AS o
WHERE o.external_id = $(external_id)p AND (
    NOT EXISTS (
        SELECT FROM reminiscence.memory_chunk AS c WHERE c.external_id = $(external_id)p AND c.chunk_id = o.chunk_id
    ) OR NOT EXISTS (
        SELECT FROM reminiscence.memory_chunk AS c WHERE c.external_id = $(external_id)p AND c.chunk_id = o.by_chunk
    )
)
UNION ALL
SELECT 'belief.text', b.position::text, 'is of an erased event'
FROM reminiscence.belief AS b
JOIN reminiscence.memory_event AS e ON e.external_id = $(external_id)p AND e.position = b.position
WHERE b.external_id = $(external_id)p AND e.salt IS NULL
UNION ALL
SELECT 'event_index.text_hash', i.position::text, 'is of an erased event'
FROM reminiscence.event_index AS i
JOIN reminiscence.memory_event AS e ON e.external_id = $(external_id)p AND e.position = i.position
WHERE i.external_id = $(external_id)p AND e.salt IS NULL
UNION ALL
SELECT DISTINCT 'memory_layout.entries', memory_id::text, 'belongs to an erased memory'
FROM reminiscence.memory_layout
WHERE external_id = $(external_id)p AND memory_id = ANY($(memory_ids)p::text[]::uuid[])
UNION ALL
SELECT DISTINCT 'memory_attribute.value', a.item_id::text, 'is of a memory or chunk that is gone'
FROM reminiscence.memory_attribute AS a
WHERE a.external_id = $(external_id)p AND NOT EXISTS (
    SELECT FROM reminiscence.active_memory AS m WHERE m.external_id = $(external_id)p AND m.memory_id = a.item_id
) AND NOT EXISTS (
    SELECT FROM reminiscence.memory_chunk AS c WHERE c.external_id = $(external_id)p AND c.chunk_id = a.item_id
)
UNION ALL
SELECT 'graph_mention.chunk_id', m.item_id::text || '/' || m.chunk_id::text, 'is of a chunk that is gone'
FROM reminiscence.graph_mention AS m
WHERE m.external_id = $(external_id)p AND NOT EXISTS (
    SELECT FROM reminiscence.memory_chunk AS c
    WHERE c.external_id = $(external_id)p AND c.chunk_id = m.chunk_id
)
UNION ALL
SELECT 'entity.name', e.entity_id::text, 'is of an entity that no chunk names, or that an erased memory brought in'
FROM reminiscence.entity AS e
WHERE e.external_id = $(external_id)p AND (
    e.shortterm_memory_id = ANY($(memory_ids)p::text[]::uuid[])
    OR NOT EXISTS (
        SELECT FROM reminiscence.graph_mention AS m
        WHERE m.external_id = $(external_id)p AND m.item_id = e.entity_id
    )
)
UNION ALL
SELECT 'entity_name.name', n.entity_id::text, 'is of an entity that is gone'
FROM reminiscence.entity_name AS n
WHERE n.external_id = $(external_id)p AND NOT EXISTS (
    SELECT FROM reminiscence.entity AS e
    WHERE e.external_id = $(external_id)p AND e.entity_id = n.entity_id
)
UNION ALL
SELECT 'relationship.description', r.relationship_id::text, 'is of a relationship that no chunk says'
FROM reminiscence.relationship AS r
WHERE r.external_id = $(external_id)p AND NOT EXISTS (
    SELECT FROM reminiscence.graph_mention AS m
    WHERE m.external_id = $(external_id)p AND m.item_id = r.relationship_id
)
UNION ALL
(
    WITH form AS MATERIALIZED (
        SELECT text_hash FROM reminiscence.memory_chunk WHERE external_id = $(external_id)p
        UNION ALL
        SELECT text_hash FROM reminiscence.memory_heading WHERE external_id = $(external_id)p
        UNION ALL
        SELECT text_hash FROM reminiscence.event_index WHERE external_id = $(external_id)p
    )
    SELECT 'embedding_cache.vector', encode(e.text_hash, 'hex'), 'is the vector of a text that no chunk has'
    FROM reminiscence.embedding_cache AS e
    WHERE e.external_id = $(external_id)p AND $(with_cache)p::bool
        AND NOT EXISTS (SELECT FROM form WHERE form.text_hash = e.text_hash)
);

-- name: list_numbers
-- The numbers of all chunks and headings, eight bytes each.
SELECT string_agg(int8send(number), ''::bytea) AS numbers
FROM (
    SELECT number FROM reminiscence.memory_chunk WHERE external_id = $(external_id)p
    UNION ALL
    SELECT number FROM reminiscence.memory_heading WHERE external_id = $(external_id)p
) AS n;

-- name: read_postings
-- One page of the index of words, in order.
SELECT term, block, entries
FROM reminiscence.posting
WHERE external_id = $(external_id)p AND (term, block) > ($(after_term)p::text, $(after_block)p::bigint)
ORDER BY term, block
LIMIT $(limit)p::int;

-- name: list_event_numbers
-- The numbers of all indexed events, eight bytes each.
SELECT string_agg(int8send(position << 20), ''::bytea) AS numbers
FROM reminiscence.event_index
WHERE external_id = $(external_id)p;

-- name: read_event_postings
-- One page of the index of events' words, in order.
SELECT term, block, entries
FROM reminiscence.event_posting
WHERE external_id = $(external_id)p AND (term, block) > ($(after_term)p::text, $(after_block)p::bigint)
ORDER BY term, block
LIMIT $(limit)p::int;

-- name: count_vectors
SELECT (SELECT count(*) FROM reminiscence.chunk_vector_{generation} WHERE external_id = $(external_id)p)
        AS chunk_vector_{generation},
    (SELECT count(*) FROM reminiscence.chunk_norms_{generation} WHERE external_id = $(external_id)p)
        AS chunk_norms_{generation},
    (SELECT count(*) FROM reminiscence.vector_cell_{generation} WHERE external_id = $(external_id)p)
        AS vector_cell_{generation};

-- name: find_left_over_vectors
-- Vectors of deleted chunks, norms of deleted texts, and centres of deleted vectors. During a sorting, its own cells
-- may still be empty, and those of the previous sorting may already be: its end takes care of both.
SELECT 'chunk_vector_{generation}.vector' AS place, v.number::text AS key,
    'is the vector of a chunk or heading that is gone' AS problem
FROM reminiscence.chunk_vector_{generation} AS v
WHERE v.external_id = $(external_id)p AND NOT EXISTS (
    SELECT FROM reminiscence.memory_chunk AS c
    WHERE c.external_id = $(external_id)p AND c.number = v.number
) AND NOT EXISTS (
    SELECT FROM reminiscence.memory_heading AS h
    WHERE h.external_id = $(external_id)p AND h.number = v.number
)
UNION ALL
SELECT DISTINCT 'chunk_norms_{generation}.norms', n.memory_id::text, 'belongs to a text that is gone'
FROM reminiscence.chunk_norms_{generation} AS n
WHERE n.external_id = $(external_id)p AND NOT EXISTS (
    SELECT FROM reminiscence.memory_layout AS l
    WHERE l.external_id = $(external_id)p AND l.memory_id = n.memory_id AND l.segment = n.segment
)
UNION ALL
SELECT 'vector_cell_{generation}.vector', s.cell::text, 'is the centre of vectors that are gone'
FROM reminiscence.vector_cell_{generation} AS s
WHERE s.external_id = $(external_id)p AND l2_norm(s.vector) > 0 AND NOT EXISTS (
    SELECT FROM reminiscence.chunk_vector_{generation} AS v
    WHERE v.external_id = $(external_id)p AND v.cell = s.cell
) AND NOT EXISTS (
    SELECT FROM reminiscence.vector_cell_{generation} AS old
    WHERE old.external_id = $(external_id)p AND old.cell >> 16 < (
        SELECT max(cell) >> 16 FROM reminiscence.vector_cell_{generation} WHERE external_id = $(external_id)p
    )
);

-- part: of_tenant
external_id = $(external_id)p

-- part: of_tenant_but_receipts
-- Receipts hold only ids and the name of the eraser.
external_id = $(external_id)p AND kind <> 'memory.erased'

-- part: text_count
count(*) FILTER (WHERE strpos({column}, $(text)p) > 0) AS {column}

-- part: type_count
-- A type from our own list is no one's text, just like a field name.
count(*) FILTER (WHERE strpos({column}, $(text)p) > 0 AND {column} <> ALL($(types)p::text[])) AS {column}

-- name: count_texts
-- How many of a table's rows hold a text, by column.
SELECT {counts} FROM reminiscence.{table} WHERE {rows};

-- name: list_json_values
-- Values of a JSON column that match a text, whether they contain it as a value or not.
SELECT {kind} AS kind, {column}::text AS value
FROM reminiscence.{table}
WHERE {rows} AND strpos({column}::text, $(json_text)p) > 0
ORDER BY {key}
LIMIT $(limit)p::int OFFSET $(offset)p::int;
