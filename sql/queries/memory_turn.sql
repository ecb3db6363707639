-- name: add_turns
INSERT INTO memory_turn (external_id, scope, turn_id, memory_id)
SELECT $(external_id)p, $(scope)p, t.turn_id, $(memory_id)p
FROM unnest($(turn_ids)p::text[]) AS t (turn_id)
ON CONFLICT DO NOTHING;

-- name: delete_turns
DELETE FROM memory_turn
WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p;

-- name: find_turns
SELECT DISTINCT turn_id
FROM memory_turn
WHERE external_id = $(external_id)p AND scope = $(scope)p AND turn_id = ANY($(turn_ids)p::text[]);
