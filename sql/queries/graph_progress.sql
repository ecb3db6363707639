-- name: read_progress
SELECT head, encode(chain, 'hex') AS chain, graph_head, graph_position, graph_store
FROM memory_stream
WHERE external_id = $(external_id)p;

-- name: find_chain
-- The chain at one event, by which a graph store identifies its history.
SELECT encode(chain, 'hex') AS chain
FROM memory_event
WHERE external_id = $(external_id)p AND position = $(position)p;

-- name: note_progress
-- Only if nothing has changed since it was read: a comparison requested meanwhile is not the one that was made.
UPDATE memory_stream
SET graph_position = $(position)p, graph_store = $(graph_store)p
WHERE external_id = $(external_id)p AND graph_position = $(seen_position)p::bigint
    AND graph_store IS NOT DISTINCT FROM $(seen_store)p::text
RETURNING external_id;

-- name: list_behind_streams
-- As the scheduler, after an external_id in order: streams that this graph store does not fully hold, except those
-- whose work was given up.
SELECT external_id
FROM memory_stream
WHERE graph_head > 0 AND external_id > $(after)p AND failed_at IS NULL
    AND (graph_position < graph_head OR graph_store IS DISTINCT FROM $(graph_store)p::text)
ORDER BY external_id
LIMIT $(limit)p;

-- name: find_unconfirmed_erasures
-- Receipts up to a position without an event saying that they have reached a graph store, in order.
SELECT e.payload ->> 'receipt_id' AS receipt_id
FROM memory_event AS e
WHERE e.external_id = $(external_id)p AND e.kind = 'memory.erased' AND e.position <= $(position)p
    AND NOT EXISTS (
        SELECT FROM memory_event AS c
        WHERE c.external_id = $(external_id)p AND c.kind = 'memory.graph_erased'
            AND c.payload ->> 'receipt_id' = e.payload ->> 'receipt_id'
    )
ORDER BY e.position;

-- name: find_graph_erasure
-- When a receipt reached a graph store.
SELECT payload ->> 'erased_at' AS erased_at
FROM memory_event
WHERE external_id = $(external_id)p AND kind = 'memory.graph_erased'
    AND payload ->> 'receipt_id' = $(receipt_id)p::text;
