-- name: add_pieces
-- Pieces of chunks of one memory, in their place: each is as its chunk is, also where that has ended as a repetition. Of one that
-- has ended for good, its row keeps telling until when it held; its pieces hold at no time. Returns which are live.
INSERT INTO memory_chunk (
    external_id, chunk_id, number, memory_id, memory_version, chunk_order, span_start, span_end, tier, content, folded_hash,
    text_hash, speaker, speaker_key, metadata, words, text_flags, source, importance, confidence, start_date, end_date, said_at,
    said_on, said_starts, said_dates, recorded_at, superseded_at, duplicate_of, corrected_at, corrected_end_dates, estimate
)
SELECT
    $(external_id)p, p.chunk_id, p.number, c.memory_id, c.memory_version, c.chunk_order, c.span_start + p.piece_start,
    c.span_start + p.piece_end, c.tier, p.content, decode(p.folded_hash, 'hex'), decode(p.text_hash, 'hex'), c.speaker,
    c.speaker_key, c.metadata, p.words, p.text_flags, c.source, c.importance, c.confidence, c.start_date,
    CASE WHEN c.superseded_at IS NULL OR c.duplicate_of IS NOT NULL THEN c.end_date ELSE c.start_date END, p.said_at,
    p.said_on, p.said_starts::int[], p.said_dates::timestamptz[], $(recorded_at)p,
    CASE WHEN c.superseded_at IS NOT NULL THEN $(recorded_at)p::timestamptz END, c.duplicate_of, c.corrected_at,
    c.corrected_end_dates, c.estimate
FROM unnest(
    $(chunk_ids)p::uuid[], $(pieces_of)p::uuid[], $(numbers)p::bigint[], $(starts)p::int[], $(ends)p::int[],
    $(contents)p::text[], $(folded_hashes)p::text[], $(text_hashes)p::text[], $(words)p::int[], $(text_flags)p::smallint[],
    $(said_at)p::timestamptz[], $(said_on)p::date[], $(said_starts)p::text[], $(said_dates)p::text[]
) AS p (
    chunk_id, piece_of, number, piece_start, piece_end, content, folded_hash, text_hash, words, text_flags, said_at, said_on,
    said_starts, said_dates
)
JOIN memory_chunk AS c ON c.external_id = $(external_id)p AND c.chunk_id = p.piece_of
RETURNING chunk_id, superseded_at IS NULL AS is_live;

-- name: move_facts
-- What rests on a chunk that is cut rests on its pieces: on those that are known to support it, otherwise on all of them.
WITH piece AS MATERIALIZED (
    SELECT p.place, p.old_id, p.new_id, p.facts::uuid[] AS facts
    FROM unnest($(old_ids)p::uuid[], $(new_ids)p::uuid[], $(facts)p::text[]) WITH ORDINALITY AS p (old_id, new_id, facts, place)
)
UPDATE memory_chunk AS f
SET derived_from = ARRAY(
    SELECT coalesce(piece.new_id, d.chunk_id)
    FROM unnest(f.derived_from) WITH ORDINALITY AS d (chunk_id, place)
    LEFT JOIN piece ON piece.old_id = d.chunk_id AND (
        f.chunk_id = ANY(piece.facts)
        OR NOT EXISTS (
            SELECT FROM piece AS other WHERE other.old_id = d.chunk_id AND f.chunk_id = ANY(other.facts)
        )
    )
    ORDER BY d.place, piece.place
)
WHERE f.external_id = $(external_id)p AND f.memory_id = $(memory_id)p AND f.derived_from IS NOT NULL
    AND f.derived_from && $(old_ids)p::uuid[];

-- name: find_resting_facts
-- Live facts that rest on some chunks of a memory.
SELECT chunk_id, content, derived_from
FROM memory_chunk
WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p AND derived_from IS NOT NULL AND superseded_at IS NULL
    AND derived_from && $(chunk_ids)p::uuid[]
ORDER BY chunk_id;

-- name: read_contents
-- The words of some chunks, as they stand.
SELECT chunk_id, memory_id, content, speaker
FROM memory_chunk
WHERE external_id = $(external_id)p AND chunk_id = ANY($(chunk_ids)p::uuid[])
ORDER BY chunk_id;

-- name: find_items
-- What some chunks name: entities with their names, relationships with their ends as they were stated.
SELECT asked.chunk_id, m.item_id, r.stated_from_id AS from_id, r.stated_to_id AS to_id, ARRAY(
    SELECT name
    FROM (SELECT name FROM entity_name WHERE external_id = $(external_id)p AND entity_id = m.item_id OFFSET 0) AS n
    ORDER BY name COLLATE "C"
) AS names
FROM unnest($(chunk_ids)p::uuid[]) AS asked (chunk_id)
CROSS JOIN LATERAL (
    SELECT item_id FROM graph_mention WHERE external_id = $(external_id)p AND chunk_id = asked.chunk_id AND is_live OFFSET 0
) AS m
LEFT JOIN relationship AS r ON r.external_id = $(external_id)p AND r.relationship_id = m.item_id
ORDER BY asked.chunk_id, m.item_id;
