-- name: add_belief
INSERT INTO belief (external_id, position, event_id, actor, turn, text, based_on, replaces, contradicts)
VALUES (
    $(external_id)p, $(position)p, $(event_id)p, $(actor)p, $(turn)p, $(text)p, $(based_on)p::uuid[], $(replaces)p,
    $(contradicts)p::uuid[]
);

-- part: states
-- What some beliefs say, and of each event that they name, what decides who sees it: those that they rest on, then those that
-- they contradict, then the one that they replace. An erased event has no actor any more.
SELECT b.event_id::text AS id, b.external_id, b.position, b.actor, b.text, b.turn, cardinality(b.based_on) AS based_on,
    cardinality(b.contradicts) AS contradicts, named.events AS named
FROM chosen AS b
CROSS JOIN LATERAL (
    SELECT json_agg(json_build_array(n.event_id, e.position, e.kind, e.actor) ORDER BY n.place)::text AS events
    FROM unnest(b.based_on || b.contradicts || array_remove(ARRAY[b.replaces], NULL))
        WITH ORDINALITY AS n (event_id, place)
    LEFT JOIN LATERAL (
        SELECT position, kind, actor FROM memory_event
        WHERE external_id = $(external_id)p AND event_id = n.event_id AND position < b.position
        OFFSET 0
    ) AS e ON true
) AS named

-- name: read_beliefs_after
-- Those of events after a position, in order of position.
WITH chosen AS (
    SELECT * FROM belief WHERE external_id = $(external_id)p AND position > $(after)p
)
{include states}
ORDER BY b.position;

-- name: read_beliefs
-- A page of all, by id.
WITH chosen AS (
    SELECT *
    FROM belief
    WHERE external_id = $(external_id)p AND event_id IS NOT NULL
        AND ($(after)p::uuid IS NULL OR event_id > $(after)p::uuid)
    ORDER BY event_id
    LIMIT $(limit)p
)
{include states}
ORDER BY b.event_id;
