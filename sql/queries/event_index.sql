-- name: add_event
-- An event, and its entries in the index of words, appended to their blocks. Writers of a stream take turns, so the order
-- is that of the ledger.
WITH added AS (
    INSERT INTO event_index (external_id, position, kind, actor, actor_key, day, words, text_flags, text_hash)
    VALUES (
        $(external_id)p, $(position)p, $(kind)p, $(actor)p, $(actor_key)p, $(day)p, $(words)p,
        $(text_flags)p, decode($(text_hash)p, 'hex')
    )
)
INSERT INTO event_posting AS p (external_id, term, block, entries)
SELECT $(external_id)p, t.term, t.block, substring($(entries)p::bytea FROM t.first FOR t.length)
FROM unnest($(terms)p::text[], $(blocks)p::bigint[], $(firsts)p::int[], $(lengths)p::int[])
    AS t (term, block, first, length)
ON CONFLICT (external_id, term, block) DO UPDATE SET entries = p.entries || excluded.entries;

-- part: searched
-- Events that a search may return: all, or those that one actor wrote or that are of some kinds.
external_id = $(external_id)p AND ($(actor)p::text IS NULL OR actor = $(actor)p OR kind = ANY($(kinds)p::text[]))

-- name: read_layout
-- The events that a search may return, in the order of the ledger, in the form of memory_layout: one text in which each
-- is an entry, with the number that postings give it.
SELECT string_agg(
    int8send(position << 20) || int8send(0) || int4send(day - DATE '1970-01-01')
        || CASE WHEN actor_key IS NULL THEN '\x00000000'::bytea
            ELSE substring(sha256(convert_to(actor_key, 'UTF8')) FROM 1 FOR 4) END
        || int4send(words) || int2send(text_flags::smallint) || int2send(0::smallint),
    ''::bytea ORDER BY position) AS layout
FROM event_index
WHERE {include searched};

-- name: find_postings
-- All entries of some terms, as in `search`.
SELECT string_agg(int4send(asked.place::int), ''::bytea ORDER BY asked.place, stored.block) AS places,
    string_agg(int8send(stored.block), ''::bytea ORDER BY asked.place, stored.block) AS blocks,
    string_agg(int4send(octet_length(stored.entries)), ''::bytea ORDER BY asked.place, stored.block) AS lengths,
    string_agg(stored.entries, ''::bytea ORDER BY asked.place, stored.block) AS entries
FROM unnest($(terms)p::text[]) WITH ORDINALITY AS asked (term, place)
CROSS JOIN LATERAL (
    SELECT block, entries FROM event_posting WHERE external_id = $(external_id)p AND term = asked.term OFFSET 0
) AS stored;

-- name: read_vectors
-- The vectors of the events that a search may return, as far as there are any.
SELECT string_agg(int8send(e.position << 20), ''::bytea ORDER BY e.position) AS numbers,
    string_agg(float4send(e.words::real), ''::bytea ORDER BY e.position) AS masses,
    string_agg(halfvec_send(stored.vector), ''::bytea ORDER BY e.position) AS vectors
FROM (SELECT position, words, text_hash FROM event_index WHERE {include searched}) AS e
CROSS JOIN LATERAL (
    SELECT vector FROM embedding_cache
    WHERE external_id = $(external_id)p AND model_name = $(model_name)p AND text_hash = e.text_hash
    OFFSET 0
) AS stored;

-- name: find_events
-- Which of some events are in the ledger, and whether they lack a vector of their text; erased ones have no text.
SELECT e.event_id, i.text_hash IS NOT NULL AND NOT EXISTS (
    SELECT FROM embedding_cache
    WHERE external_id = $(external_id)p AND model_name = $(model_name)p AND text_hash = i.text_hash
    OFFSET 0
) AS lacks_vector
FROM unnest($(positions)p::bigint[]) AS asked (position)
CROSS JOIN LATERAL (
    SELECT event_id FROM memory_event WHERE external_id = $(external_id)p AND position = asked.position OFFSET 0
) AS e
LEFT JOIN LATERAL (
    SELECT text_hash FROM event_index WHERE external_id = $(external_id)p AND position = asked.position OFFSET 0
) AS i ON true;

-- name: add_vectors
-- Vectors of texts that events still have: what was erased meanwhile must get none.
INSERT INTO embedding_cache (external_id, model_name, text_hash, vector)
SELECT DISTINCT ON (e.text_hash) $(external_id)p, $(model_name)p, e.text_hash,
    (($(vectors)p::real[])[(made.place - 1) * $(dimension)p::int + 1 : made.place * $(dimension)p::int])::halfvec
FROM unnest($(positions)p::bigint[], $(text_hashes)p::text[]) WITH ORDINALITY AS made (position, text_hash, place)
CROSS JOIN LATERAL (
    SELECT text_hash FROM event_index
    WHERE external_id = $(external_id)p AND position = made.position AND text_hash = decode(made.text_hash, 'hex')
    OFFSET 0
) AS e
ORDER BY e.text_hash
ON CONFLICT (external_id, model_name, text_hash) DO NOTHING;
