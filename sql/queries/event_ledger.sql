-- name: lock_stream
-- Lock the stream's row: from here to the commit, writers of one stream take turns.
SELECT head
FROM memory_stream
WHERE external_id = $(external_id)p
FOR UPDATE;

-- name: create_stream
-- Two first writers may both find no row; the second waits here and then locks the first one's.
INSERT INTO memory_stream (external_id)
VALUES ($(external_id)p)
ON CONFLICT (external_id) DO NOTHING;

-- name: append_event
-- Append at the next position of a stream that this transaction has locked. Times increase with position, also while
-- the clock is behind the last one: `known_at` can then tell any two events apart.
-- If the event makes work, its time becomes the stream's work_at; that later tells the call that wrote it whether its
-- own work was the only open work. A second write in between sets a time that matches neither, nor that of an event
-- just before: while the clock is behind, those are a microsecond apart.
WITH moment AS MATERIALIZED (
    SELECT greatest(clock_timestamp(), last_recorded_at + interval '1 microsecond') AS recorded_at
    FROM memory_stream
    WHERE external_id = $(external_id)p
), stream AS (
    UPDATE memory_stream AS s
    SET head = s.head + 1, last_recorded_at = moment.recorded_at,
        chain = sha256(
            s.chain || $(digest)p::bytea || int8send(s.head + 1)
            || int8send((extract(epoch FROM moment.recorded_at) * 1000000)::bigint)),
        work_at = CASE
            WHEN NOT $(makes_work)p::boolean THEN s.work_at
            WHEN s.work_at IS NULL THEN moment.recorded_at
            ELSE least(s.work_at, moment.recorded_at) - interval '1 millisecond'
        END
    FROM moment
    WHERE s.external_id = $(external_id)p
    RETURNING s.head, s.last_recorded_at, s.chain
)
INSERT INTO memory_event (
    external_id, position, event_id, kind, actor, conversation_id, turn, occurred_at, recorded_at, source, payload,
    idempotency_key, request_hash, salt, digest, chain
)
SELECT
    $(external_id)p, stream.head, $(event_id)p, $(kind)p, $(actor)p, $(conversation_id)p, $(turn)p, $(occurred_at)p,
    stream.last_recorded_at, $(source)p, $(payload)p::text::jsonb, $(idempotency_key)p, $(request_hash)p, $(salt)p,
    $(digest)p::bytea, stream.chain
FROM stream
RETURNING position, recorded_at, chain;

-- name: find_event_by_idempotency_key
SELECT external_id, position, event_id, kind, actor, conversation_id, turn, occurred_at, recorded_at, source,
    payload::text AS payload, idempotency_key, request_hash, salt, digest, chain
FROM memory_event
WHERE external_id = $(external_id)p AND idempotency_key = $(idempotency_key)p;

-- name: find_idempotency_keys
-- What each known key was used for; ids only for events that made or changed a memory.
SELECT idempotency_key, memory_id
FROM memory_event
WHERE external_id = $(external_id)p AND idempotency_key = ANY($(idempotency_keys)p::text[]);

-- name: read_events
-- One page in order of position; NULL filters match everything. Events may have several MB, so a page can also be
-- limited in bytes, by stored size, which is known without unpacking; it always holds at least one event. What follows
-- the position until is not looked at.
SELECT external_id, position, event_id, kind, actor, conversation_id, turn, occurred_at, recorded_at, source,
    payload::text AS payload, idempotency_key, request_hash, salt, digest, chain
FROM (
    SELECT e.*, sum(pg_column_size(e.payload)) OVER (ORDER BY e.position) - pg_column_size(e.payload) AS bytes_before
    FROM (
        SELECT *
        FROM memory_event
        WHERE external_id = $(external_id)p AND position > $(after)p
            AND position <= coalesce($(until)p::bigint, 9223372036854775807)
            AND ($(kinds)p::text[] IS NULL OR kind = ANY($(kinds)p::text[]))
            AND ($(actor)p::text IS NULL OR actor = $(actor)p::text)
        ORDER BY position
        LIMIT $(limit)p
    ) AS e
) AS page
WHERE $(max_bytes)p::bigint IS NULL OR bytes_before < $(max_bytes)p::bigint
ORDER BY position;

-- part: of_conversation
-- Its events. An erased event belongs to no conversation any more. Only with `position > 0` can the index of all of them
-- be used; without it only the index of a kind can.
SELECT external_id, position, event_id, kind, actor, conversation_id, turn, occurred_at, recorded_at, source,
    payload::text AS payload, idempotency_key, request_hash, salt, digest, chain
FROM memory_event
WHERE external_id = $(external_id)p AND conversation_id = $(conversation_id)p

-- part: of_kinds
($(kinds)p::text[] IS NULL OR kind = ANY($(kinds)p::text[]))

-- name: read_conversation_back
-- One page of a conversation, from its end.
{include of_conversation} AND position > 0 AND position < $(before)p AND {include of_kinds}
ORDER BY position DESC
LIMIT $(limit)p;

-- name: read_conversation_back_of_kind
-- The same for one kind, which has an index: it may be rare among the others, and never there.
{include of_conversation} AND position < $(before)p AND kind = $(kind)p
ORDER BY position DESC
LIMIT $(limit)p;

-- name: read_conversation_on
-- One page of a conversation, in order.
{include of_conversation} AND position > 0 AND position > $(after)p AND {include of_kinds}
ORDER BY position
LIMIT $(limit)p;

-- name: read_conversation_on_of_kind
-- The same for one kind. SELECT: a number, such as 0, would tell the planner that position > 0.
{include of_conversation} AND position > (SELECT $(after)p::bigint) AND kind = $(kind)p
ORDER BY position
LIMIT $(limit)p;

-- name: read_latest_events
-- The last event of a kind in each conversation, the newest first; only of those whose last one stands before a position.
SELECT e.external_id, e.position, e.event_id, e.kind, e.actor, e.conversation_id, e.turn, e.occurred_at, e.recorded_at,
    e.source, e.payload::text AS payload, e.idempotency_key, e.request_hash, e.salt, e.digest, e.chain
FROM (
    SELECT max(position) AS position
    FROM memory_event
    WHERE external_id = $(external_id)p AND kind = $(kind)p AND conversation_id IS NOT NULL
    GROUP BY conversation_id
    HAVING max(position) < $(before)p
    ORDER BY max(position) DESC
    LIMIT $(limit)p
) AS latest
CROSS JOIN LATERAL (
    SELECT * FROM memory_event WHERE external_id = $(external_id)p AND position = latest.position OFFSET 0
) AS e
ORDER BY e.position DESC;

-- name: find_last_position
-- Of the last event of a kind in a conversation.
SELECT position
FROM memory_event
WHERE external_id = $(external_id)p AND conversation_id = $(conversation_id)p AND kind = $(kind)p
ORDER BY position DESC
LIMIT 1;

-- name: read_events_at
-- Events at some positions, in the order in which these are given. Erased ones say nothing.
SELECT e.external_id, e.position, e.event_id, e.kind, e.actor, e.conversation_id, e.turn, e.occurred_at, e.recorded_at,
    e.source, e.payload::text AS payload, e.idempotency_key, e.request_hash, e.salt, e.digest, e.chain
FROM unnest($(positions)p::bigint[]) WITH ORDINALITY AS asked (position, place)
CROSS JOIN LATERAL (
    SELECT * FROM memory_event
    WHERE external_id = $(external_id)p AND position = asked.position AND salt IS NOT NULL
    OFFSET 0
) AS e
ORDER BY asked.place;

-- name: find_erased_events
-- Which of some events are erased, in order of position.
SELECT event_id::text AS event_id
FROM memory_event
WHERE external_id = $(external_id)p AND event_id = ANY($(event_ids)p::uuid[]) AND salt IS NULL
ORDER BY position;

-- name: read_events_named
-- Events with some ids, in order of position. Of erased ones, what is left.
SELECT e.external_id, e.position, e.event_id, e.kind, e.actor, e.conversation_id, e.turn, e.occurred_at, e.recorded_at,
    e.source, e.payload::text AS payload, e.idempotency_key, e.request_hash, e.salt, e.digest, e.chain
FROM unnest($(event_ids)p::uuid[]) AS asked (event_id)
CROSS JOIN LATERAL (
    SELECT * FROM memory_event WHERE external_id = $(external_id)p AND event_id = asked.event_id OFFSET 0
) AS e
ORDER BY e.position;

-- name: read_memory_events
-- All events of one memory up to a position, in order.
SELECT external_id, position, event_id, kind, actor, conversation_id, turn, occurred_at, recorded_at, source,
    payload::text AS payload, idempotency_key, request_hash, salt, digest, chain
FROM memory_event
WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p::text AND position <= $(position)p
ORDER BY position;

-- name: find_writers
-- The labels of everyone who wrote to some memories.
SELECT memory.id AS memory_id, array_agg(DISTINCT written.source) AS sources
FROM unnest($(memory_ids)p::text[]) AS memory (id)
CROSS JOIN LATERAL (
    -- OFFSET 0: looked up one by one.
    SELECT source
    FROM memory_event
    WHERE external_id = $(external_id)p AND memory_id = memory.id
        AND kind IN ('memory.created', 'memory.updated', 'memory.appended')
    OFFSET 0
) AS written
GROUP BY memory.id;

-- name: read_stream
SELECT head, live_chunks
FROM memory_stream
WHERE external_id = $(external_id)p;

-- name: note_event
-- What an event changed in the stream's own row: its counts, the languages of its texts, and whether a store that
-- follows the graph has something to do. If that is work, work_at becomes a time that no write has, so that the call
-- that wrote the event does not take its own work for all there is.
UPDATE memory_stream AS s
SET live_chunks = s.live_chunks + $(live_chunks)p, text_chunks = s.text_chunks + $(text_chunks)p,
    text_words = s.text_words + $(text_words)p,
    languages = CASE
        WHEN $(language)p::text IS NULL OR $(language)p::text = ANY(s.languages) THEN s.languages
        -- Sorted, like a rebuild's.
        ELSE ARRAY(SELECT l.name FROM unnest(array_append(s.languages, $(language)p::text)) AS l (name) ORDER BY l.name COLLATE "C")
    END,
    graph_head = CASE WHEN graph.has_changed THEN $(position)p ELSE s.graph_head END,
    work_at = CASE
        WHEN graph.has_changed AND $(is_work)p::boolean
            THEN least(s.work_at, $(recorded_at)p::timestamptz) - interval '1 millisecond'
        ELSE s.work_at
    END
FROM (
    SELECT $(states_belief)p::boolean OR $(may_change_graph)p::boolean AND (
        EXISTS (SELECT FROM entity AS e WHERE e.external_id = $(external_id)p AND e.position = $(position)p)
        OR EXISTS (SELECT FROM relationship AS r WHERE r.external_id = $(external_id)p AND r.position = $(position)p)
    ) AS has_changed
) AS graph
WHERE s.external_id = $(external_id)p
RETURNING graph.has_changed;

-- name: mark_due
UPDATE memory_stream
SET due_at = coalesce(due_at, clock_timestamp()), work_at = least(work_at, clock_timestamp())
WHERE external_id = $(external_id)p;

-- name: clear_due
UPDATE memory_stream
SET due_at = NULL
WHERE external_id = $(external_id)p AND due_at IS NOT NULL
    AND NOT EXISTS (
        SELECT FROM active_memory AS m
        WHERE m.external_id = $(external_id)p AND m.due_version > m.consolidated_version
    );

-- name: describe_stream
SELECT head, chain, CASE WHEN head > 0 THEN last_recorded_at END AS last_recorded_at, live_chunks,
    text_chunks, text_words, languages, due_at IS NOT NULL AS is_due
FROM memory_stream
WHERE external_id = $(external_id)p;

-- name: has_due_memory
SELECT EXISTS (
    SELECT FROM active_memory
    WHERE external_id = $(external_id)p AND due_version > consolidated_version
) AS is_due;

-- name: count_live_chunks
-- Counted, not summed up event by event: a sum would repeat a handler's mistake.
SELECT count(*) AS live_chunks
FROM memory_chunk
WHERE external_id = $(external_id)p AND superseded_at IS NULL;

-- name: text_totals
-- The totals in the stream's own row, computed from the layouts.
SELECT (SELECT coalesce(sum(chunks), 0)::bigint FROM memory_layout WHERE external_id = $(external_id)p) AS text_chunks,
    (SELECT coalesce(sum(words), 0)::bigint FROM memory_layout WHERE external_id = $(external_id)p) AS text_words;

-- name: set_projected
-- The part of a stream's own row that follows from its events. A worker reviews it soon: what is due may have changed.
UPDATE memory_stream
SET live_chunks = $(live_chunks)p, text_chunks = $(text_chunks)p, text_words = $(text_words)p, languages = $(languages)p,
    due_at = CASE WHEN $(is_due)p THEN coalesce(due_at, clock_timestamp()) END,
    work_at = least(work_at, clock_timestamp()) - interval '1 millisecond'
WHERE external_id = $(external_id)p;

-- name: demand_graph_comparison
-- What was replaced or removed directly cannot be found by position: a store that follows compares everything. Each
-- request uses a new negative number, so that a record of an earlier comparison cannot be mistaken for this one.
UPDATE memory_stream
SET graph_head = head, graph_position = -pg_current_xact_id()::text::bigint,
    work_at = least(work_at, clock_timestamp()) - interval '1 millisecond'
WHERE external_id = $(external_id)p;

-- name: count_bytes
-- Reads every byte of a stream's events, also what is compressed or stored apart, so that a damaged page is met.
SELECT sum(
    octet_length(payload::text) + octet_length(digest) + octet_length(chain) + coalesce(octet_length(salt), 0)
)::bigint AS bytes
FROM memory_event
WHERE external_id = $(external_id)p
GROUP BY external_id;

-- name: list_streams
-- As the scheduler, who sees which streams exist but nothing of their contents.
SELECT external_id
FROM memory_stream
ORDER BY external_id;

-- name: has_events
-- As the scheduler: whether anything was ever written, by anybody.
SELECT EXISTS (SELECT FROM memory_stream WHERE head > 0) AS has_events;

-- name: list_tenants
-- As the scheduler: one page, in the order of the ids. A stream without events was only locked.
SELECT external_id, head, last_recorded_at, live_chunks
FROM memory_stream
WHERE external_id > $(after)p::text AND head > 0
ORDER BY external_id
LIMIT $(limit)p::int;

-- name: import_events
-- Events of an export, with their positions, times and chains.
INSERT INTO memory_event (
    external_id, position, event_id, kind, actor, conversation_id, turn, occurred_at, recorded_at, source, payload,
    idempotency_key, request_hash, salt, digest, chain
)
SELECT $(external_id)p, e.position, e.event_id, e.kind, e.actor, e.conversation_id, e.turn, e.occurred_at, e.recorded_at,
    e.source, e.payload::jsonb, e.idempotency_key, decode(e.request_hash, 'hex'), decode(e.salt, 'hex'),
    decode(e.digest, 'hex'), decode(e.chain, 'hex')
FROM unnest(
    $(positions)p::bigint[], $(event_ids)p::uuid[], $(kinds)p::text[], $(actors)p::text[], $(conversation_ids)p::text[],
    $(turns)p::int[], $(occurred)p::timestamptz[], $(recorded)p::timestamptz[], $(sources)p::text[],
    $(payloads)p::text[], $(idempotency_keys)p::text[], $(request_hashes)p::text[], $(salts)p::text[],
    $(digests)p::text[], $(chains)p::text[]
) AS e (
    position, event_id, kind, actor, conversation_id, turn, occurred_at, recorded_at, source, payload, idempotency_key,
    request_hash, salt, digest, chain
);

-- name: set_head
-- The head of a stream whose events were imported.
UPDATE memory_stream
SET head = $(head)p, chain = $(chain)p, last_recorded_at = $(last_recorded_at)p
WHERE external_id = $(external_id)p;
