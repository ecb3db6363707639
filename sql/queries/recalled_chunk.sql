-- name: find_new
-- Which of some chunks exist and were not recalled in a run yet, in the order given.
SELECT asked.chunk_id
FROM unnest($(chunk_ids)p::uuid[]) WITH ORDINALITY AS asked (chunk_id, place)
WHERE EXISTS (
    SELECT FROM memory_chunk AS c WHERE c.external_id = $(external_id)p AND c.chunk_id = asked.chunk_id
) AND NOT EXISTS (
    SELECT FROM recalled_chunk AS r
    WHERE r.external_id = $(external_id)p AND r.run_id = $(run_id)p AND r.chunk_id = asked.chunk_id
)
ORDER BY asked.place;

-- name: add_recalled
-- A chunk that is gone, because its memory was erased, is not there to be counted; one that was recalled before is counted then.
INSERT INTO recalled_chunk (external_id, run_id, chunk_id, position)
SELECT $(external_id)p, $(run_id)p, asked.chunk_id, $(position)p
FROM unnest($(chunk_ids)p::uuid[]) AS asked (chunk_id)
WHERE EXISTS (SELECT FROM memory_chunk AS c WHERE c.external_id = $(external_id)p AND c.chunk_id = asked.chunk_id)
ON CONFLICT DO NOTHING;

-- name: set_outcome
-- Of what the run recalled by now and has no outcome yet, or of the part of it that is from some memories; each chunk's counts go on from its last outcome in any run.
UPDATE recalled_chunk AS r
SET outcome = $(position)p, success = $(success)p, reported_at = $(reported_at)p,
    (successes, failures) = (
        SELECT coalesce(sum(before.successes), 0) + ($(success)p::boolean)::int,
            coalesce(sum(before.failures), 0) + (NOT $(success)p::boolean)::int
        FROM (
            SELECT b.successes, b.failures
            FROM recalled_chunk AS b
            WHERE b.external_id = $(external_id)p AND b.chunk_id = r.chunk_id AND b.reported_at IS NOT NULL
            ORDER BY b.reported_at DESC
            LIMIT 1
        ) AS before
    )
WHERE r.external_id = $(external_id)p AND r.run_id = $(run_id)p AND r.success IS NULL
    AND ($(memory_ids)p::uuid[] IS NULL OR EXISTS (
        SELECT FROM memory_chunk AS c
        WHERE c.external_id = $(external_id)p AND c.chunk_id = r.chunk_id AND c.memory_id = ANY($(memory_ids)p::uuid[])
    ));

-- name: read_run
-- What is known of a run: the position of its outcome, and for how many chunks that counts. No row: nothing was recalled in it.
SELECT outcome, success, reported_at, count(*) AS chunks
FROM recalled_chunk
WHERE external_id = $(external_id)p AND run_id = $(run_id)p
GROUP BY outcome, success, reported_at
ORDER BY outcome;
