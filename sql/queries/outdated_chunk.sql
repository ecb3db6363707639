-- name: add_marks
-- With only_live: not of chunks that have ended, because the plan may be older than that.
INSERT INTO outdated_chunk (
    external_id, chunk_id, position, part, span_start, span_end, since, by_chunk, recorded_at
)
SELECT $(external_id)p, m.chunk_id, $(position)p, m.part, m.span_start, m.span_end, m.since, m.by_chunk, $(recorded_at)p
FROM unnest(
    $(chunk_ids)p::uuid[], $(parts)p::int[], $(starts)p::int[], $(ends)p::int[], $(since)p::timestamptz[],
    $(by_chunks)p::uuid[]
) AS m (chunk_id, part, span_start, span_end, since, by_chunk)
WHERE EXISTS (
    SELECT FROM memory_chunk AS c
    WHERE c.external_id = $(external_id)p AND c.chunk_id = m.chunk_id
        AND (NOT $(only_live)p::bool OR c.superseded_at IS NULL)
);

-- name: read_marks
-- The rows that name one of some chunks, as what is out of date or as what is newer, whether they hold or not.
SELECT chunk_id, span_start, span_end, since, by_chunk
FROM outdated_chunk
WHERE external_id = $(external_id)p AND chunk_id = ANY($(chunk_ids)p::uuid[])
UNION
SELECT chunk_id, span_start, span_end, since, by_chunk
FROM outdated_chunk
WHERE external_id = $(external_id)p AND by_chunk = ANY($(chunk_ids)p::uuid[])
ORDER BY since, chunk_id, span_start, span_end, by_chunk;

-- name: find_marks
-- The marks of some chunks that hold, now or at a moment; the earliest first.
SELECT chunk_id, span_start, span_end, since, by_chunk
FROM outdated_marks($(external_id)p, $(as_of)p, $(known_at)p)
WHERE chunk_id = ANY($(chunk_ids)p::uuid[])
ORDER BY chunk_id, since, "position", span_start;
