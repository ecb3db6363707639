-- name: promote_chunks
-- The chunk stays the row it is; tier, validity and confidence change.
WITH promotion AS (
    SELECT *
    FROM unnest(
        $(chunk_ids)p::uuid[], $(importances)p::float8[], $(confidences)p::float8[], $(start_dates)p::timestamptz[],
        $(end_dates)p::timestamptz[]
    ) AS p (chunk_id, importance, confidence, start_date, end_date)
), promoted AS (
    UPDATE memory_chunk AS c
    SET tier = 'longterm', importance = promotion.importance, confidence = promotion.confidence,
        start_date = promotion.start_date, end_date = promotion.end_date, revision = c.revision + 1
    FROM promotion
    WHERE c.external_id = $(external_id)p AND c.chunk_id = promotion.chunk_id AND c.superseded_at IS NULL
    RETURNING c.chunk_id, c.confidence, c.start_date, c.end_date
)
UPDATE chunk_vector_{generation} AS v
SET tier = 'longterm', confidence = promoted.confidence, start_date = promoted.start_date, end_date = promoted.end_date
FROM promoted
WHERE v.external_id = $(external_id)p AND v.chunk_id = promoted.chunk_id;
