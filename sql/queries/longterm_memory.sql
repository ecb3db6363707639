-- name: promote_chunks
-- The chunk stays the row it is; tier, validity and confidence change.
UPDATE memory_chunk AS c
SET tier = 'longterm', importance = promotion.importance, confidence = promotion.confidence,
    start_date = promotion.start_date, end_date = promotion.end_date
FROM unnest(
    $(chunk_ids)p::uuid[], $(importances)p::float8[], $(confidences)p::float8[], $(start_dates)p::timestamptz[],
    $(end_dates)p::timestamptz[]
) AS promotion (chunk_id, importance, confidence, start_date, end_date)
WHERE c.external_id = $(external_id)p AND c.chunk_id = promotion.chunk_id AND c.superseded_at IS NULL;
