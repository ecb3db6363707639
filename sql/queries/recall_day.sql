-- name: add_recalls
-- Only of a tenant that has something in its ledger: others were most likely mistyped, or erased since they asked.
INSERT INTO recall_day (external_id, day, answered, found, durations)
SELECT s.external_id, $(day)p::date, $(answered)p::bigint, $(found)p::bigint, $(durations)p::bigint[]
FROM memory_stream AS s
WHERE s.external_id = $(external_id)p
    -- From the end, because where retention erases, a ledger may begin with a great many emptied events.
    AND (
        SELECT true
        FROM memory_event AS e
        WHERE e.external_id = $(external_id)p AND e.salt IS NOT NULL
            AND e.kind NOT IN ('memory.erased', 'memory.graph_erased')
        ORDER BY e.position DESC
        LIMIT 1
    )
ON CONFLICT (external_id, day) DO UPDATE
SET answered = recall_day.answered + EXCLUDED.answered,
    found = recall_day.found + EXCLUDED.found,
    durations = ARRAY(
        SELECT b.before + b.more
        FROM unnest(recall_day.durations, EXCLUDED.durations) WITH ORDINALITY AS b (before, more, number)
        ORDER BY b.number
    );

-- name: delete_old_recalls
DELETE FROM recall_day WHERE external_id = $(external_id)p AND day < $(before)p::date;

-- name: read_recalls
SELECT day, answered, found, durations
FROM recall_day
WHERE external_id = $(external_id)p AND day >= $(since)p::date
ORDER BY day;

-- name: delete_recalls
DELETE FROM reminiscence.recall_day WHERE external_id = $(external_id)p;
