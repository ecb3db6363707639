-- part: visible
-- Which rows of memory_chunk a search may see.
external_id = $(external_id)p AND tier = ANY($(tiers)p::text[]) AND confidence >= $(min_confidence)p::float8
    AND chunk_is_visible(
        recorded_at, superseded_at, start_date, end_date, corrected_at, corrected_end_dates, $(as_of)p::timestamptz,
        $(known_at)p::timestamptz)
    AND memory_id NOT IN ({include expired})

-- part: expired
-- Uncorrelated, so that it is read once and hashed; hardly any tenant has one.
SELECT id FROM expired_memories($(external_id)p, $(as_of)p::timestamptz, $(known_at)p::timestamptz) AS expired (id)

-- part: ended_now
-- The chunks that are still laid out although they have ended in the world, or their memory has expired.
SELECT number FROM memory_chunk
WHERE external_id = $(external_id)p AND superseded_at IS NULL AND end_date <= $(known_at)p
UNION ALL
SELECT c.number
FROM expired_memories($(external_id)p, NULL, $(known_at)p::timestamptz) AS expired (id)
CROSS JOIN LATERAL (
    SELECT number FROM memory_chunk
    WHERE external_id = $(external_id)p AND memory_id = expired.id AND superseded_at IS NULL
    OFFSET 0
) AS c

-- part: postings
-- Blocks of terms, term by term and block by block: index of the term, block, number of bytes, and the entries.
SELECT string_agg(int4send(asked.place::int), ''::bytea ORDER BY asked.place, stored.block) AS places,
    string_agg(int8send(stored.block), ''::bytea ORDER BY asked.place, stored.block) AS blocks,
    string_agg(int4send(octet_length(stored.entries)), ''::bytea ORDER BY asked.place, stored.block) AS lengths,
    string_agg(stored.entries, ''::bytea ORDER BY asked.place, stored.block) AS entries

-- name: find_postings
-- All entries of some terms.
{include postings}
FROM unnest($(terms)p::text[]) WITH ORDINALITY AS asked (term, place)
CROSS JOIN LATERAL (
    -- Looked up one by one: the planner does not know how many entries a term has.
    SELECT block, entries FROM posting WHERE external_id = $(external_id)p AND term = asked.term OFFSET 0
) AS stored;

-- name: open_stream
-- What a search needs of a stream, and the current vector generation. For a small tenant also the layouts of all texts,
-- memory by memory, the chunks that are still laid out although they have ended, and all entries of the
-- first terms; for a larger one the same as find_rare_postings, but only the entries of the rarest terms. If there are
-- entities, all this only on request.
WITH stream AS MATERIALIZED (
    SELECT *, reads AND text_chunks <= $(whole)p::int AS is_whole
    FROM (
        SELECT live_chunks, text_chunks, text_words, languages, graph_head, graph_position, has_graph,
            $(reads_beside_graph)p::boolean OR NOT has_graph AS reads
        FROM memory_stream
        CROSS JOIN (SELECT EXISTS (SELECT FROM entity WHERE external_id = $(external_id)p) AS has_graph) AS graph
        WHERE external_id = $(external_id)p
    ) AS described
), counted AS MATERIALIZED (
    SELECT asked.place, sum(octet_length(stored.entries)) / 6 AS total
    FROM unnest($(terms)p::text[]) WITH ORDINALITY AS asked (term, place)
    CROSS JOIN LATERAL (
        SELECT entries FROM posting WHERE external_id = $(external_id)p AND term = asked.term OFFSET 0
    ) AS stored
    WHERE (SELECT reads AND NOT is_whole FROM stream)
    GROUP BY asked.place
)
SELECT stream.*, found.*,
    EXISTS (SELECT FROM recalled_chunk WHERE external_id = $(external_id)p AND reported_at IS NOT NULL) AS has_outcomes,
    EXISTS (SELECT FROM outdated_chunk WHERE external_id = $(external_id)p) AS has_outdated,
    (SELECT generation FROM embedding_generation WHERE state = 'current') AS generation,
    (SELECT min(day) FROM memory_heading WHERE external_id = $(external_id)p AND day > '-infinity') AS first_day,
    (SELECT max(day) FROM memory_heading WHERE external_id = $(external_id)p AND day > '-infinity') AS last_day,
    CASE WHEN is_whole THEN (
        SELECT string_agg(entries, ''::bytea ORDER BY memory_id, segment) FROM memory_layout WHERE external_id = $(external_id)p
    ) END AS layouts,
    CASE WHEN is_whole THEN ARRAY({include ended_now}) END AS ended,
    ARRAY(SELECT place FROM counted ORDER BY place) AS counted,
    ARRAY(SELECT total::bigint FROM counted ORDER BY place) AS totals
FROM stream
CROSS JOIN (
    {include postings}
    FROM unnest($(terms)p::text[]) WITH ORDINALITY AS asked (term, place)
    CROSS JOIN LATERAL (
        SELECT block, entries FROM posting WHERE external_id = $(external_id)p AND term = asked.term OFFSET 0
    ) AS stored
    WHERE (SELECT reads FROM stream)
        AND ((SELECT is_whole FROM stream) AND asked.place <= $(always)p::int OR asked.place IN (
            SELECT place FROM counted WHERE total <= $(most)p::bigint ORDER BY total, place LIMIT 128
        ))
) AS found;

-- name: find_rare_postings
-- How many chunks and headings have each of some terms, six bytes each; and all entries of the rarest of the infrequent
-- ones.
WITH counted AS MATERIALIZED (
    SELECT asked.place, sum(octet_length(stored.entries)) / 6 AS total
    FROM unnest($(terms)p::text[]) WITH ORDINALITY AS asked (term, place)
    CROSS JOIN LATERAL (
        SELECT entries FROM posting WHERE external_id = $(external_id)p AND term = asked.term OFFSET 0
    ) AS stored
    GROUP BY asked.place
)
SELECT ARRAY(SELECT place FROM counted ORDER BY place) AS counted,
    ARRAY(SELECT total::bigint FROM counted ORDER BY place) AS totals,
    found.*
FROM (
    {include postings}
    FROM counted
    CROSS JOIN LATERAL (SELECT ($(terms)p::text[])[counted.place] AS term, counted.place) AS asked
    CROSS JOIN LATERAL (
        SELECT block, entries FROM posting WHERE external_id = $(external_id)p AND term = asked.term OFFSET 0
    ) AS stored
    WHERE counted.place IN (
        SELECT place FROM counted WHERE total <= $(most)p::bigint ORDER BY total, place LIMIT 128
    )
) AS found;

-- name: find_postings_in
-- All entries of some terms in some blocks.
{include postings}
FROM unnest($(terms)p::text[]) WITH ORDINALITY AS asked (term, place)
CROSS JOIN LATERAL (
    SELECT block, entries FROM posting
    WHERE external_id = $(external_id)p AND term = asked.term AND block = ANY($(blocks)p::bigint[])
    OFFSET 0
) AS stored;

-- name: read_layouts_of
-- The layouts of texts that some chunks or headings belong to, or with chunks said within some days, one after the other;
-- beside them the vector lengths of their windows, zeros where there are none; and the ended chunks as in open_stream.
-- Headings have the days of their memory's zone, which differ by two at most from those of another; of memories in other
-- zones, the moments of chunks decide, among the first 500 headings.
WITH wanted AS (
    SELECT c.memory_id
    FROM unnest($(numbers)p::bigint[]) AS n (number)
    CROSS JOIN LATERAL (
        SELECT memory_id FROM memory_chunk WHERE external_id = $(external_id)p AND number = n.number OFFSET 0
    ) AS c
    UNION
    SELECT h.memory_id
    FROM unnest($(numbers)p::bigint[]) AS n (number)
    CROSS JOIN LATERAL (
        SELECT memory_id FROM memory_heading WHERE external_id = $(external_id)p AND number = n.number OFFSET 0
    ) AS h
    UNION
    (
        SELECT memory_id
        FROM memory_heading
        WHERE external_id = $(external_id)p AND day BETWEEN $(first_day)p::date AND $(last_day)p::date
        ORDER BY day, number
        LIMIT $(dated)p::int
    )
    UNION
    (
        SELECT h.memory_id
        FROM (
            SELECT memory_id, day, number
            FROM memory_heading
            WHERE external_id = $(external_id)p AND day BETWEEN $(first_day)p::date - 2 AND $(last_day)p::date + 2
            ORDER BY day, number
            LIMIT 500
        ) AS h
        CROSS JOIN LATERAL (
            SELECT timezone FROM active_memory WHERE external_id = $(external_id)p AND memory_id = h.memory_id OFFSET 0
        ) AS m
        WHERE m.timezone <> $(timezone)p AND EXISTS (
            SELECT FROM memory_chunk
            WHERE external_id = $(external_id)p AND memory_id = h.memory_id
                AND coalesce(said_at, start_date) >= $(begins_at)p AND coalesce(said_at, start_date) < $(ends_at)p
            OFFSET 0
        )
        ORDER BY h.day, h.number
        LIMIT $(dated)p::int
    )
)
SELECT string_agg(l.entries, ''::bytea ORDER BY l.memory_id, l.segment) AS layouts,
    string_agg(
        CASE WHEN octet_length(n.norms) = l.chunks * 24 THEN n.norms ELSE decode(repeat('00', l.chunks * 24), 'hex') END,
        ''::bytea ORDER BY l.memory_id, l.segment) AS norms,
    ARRAY({include ended_now}) AS ended
FROM wanted
CROSS JOIN LATERAL (
    SELECT * FROM memory_layout WHERE external_id = $(external_id)p AND memory_id = wanted.memory_id OFFSET 0
) AS l
LEFT JOIN LATERAL (
    SELECT norms FROM chunk_norms_{generation}
    WHERE external_id = $(external_id)p AND memory_id = wanted.memory_id AND segment = l.segment
    OFFSET 0
) AS n ON true;

-- name: find_eligible_of
-- Which of some chunks may be hits.
SELECT string_agg(int8send(number), ''::bytea) AS numbers
FROM memory_chunk
WHERE {include visible} AND number = ANY($(numbers)p::bigint[]);

-- name: find_eligible
-- The numbers of all chunks that may be hits, if not all live ones may.
SELECT string_agg(int8send(number), ''::bytea) AS numbers
FROM memory_chunk
WHERE {include visible};

-- name: find_said
-- Which of some chunks were said by some speakers.
SELECT string_agg(int8send(said.number), ''::bytea) AS numbers
FROM unnest($(numbers)p::bigint[]) AS asked (number)
CROSS JOIN LATERAL (
    SELECT number FROM memory_chunk
    WHERE external_id = $(external_id)p AND number = asked.number AND speaker_key = ANY($(speaker_keys)p::text[])
    OFFSET 0
) AS said;

-- name: find_speakers
-- The speakers of all chunks that ever were, one look-up each; at most so many.
WITH RECURSIVE speaker AS (
    (
        SELECT speaker_key, 1 AS place FROM memory_chunk
        WHERE external_id = $(external_id)p AND speaker_key IS NOT NULL
        ORDER BY speaker_key
        LIMIT 1
    )
    UNION ALL
    SELECT next.speaker_key, speaker.place + 1
    FROM speaker
    CROSS JOIN LATERAL (
        SELECT speaker_key FROM memory_chunk
        WHERE external_id = $(external_id)p AND speaker_key > speaker.speaker_key
        ORDER BY speaker_key
        LIMIT 1
    ) AS next
    WHERE speaker.place < $(most)p::int
)
SELECT speaker_key FROM speaker;

-- name: read_past
-- A portion of the chunks for the layouts of another moment: those visible then, and those ended as duplicates.
SELECT number, chunk_id, memory_id, coalesce(said_at, start_date) AS said_at, said_on, speaker_key, words, text_flags,
    derived_from IS NOT NULL AS is_fact, NOT is_visible AS is_duplicate, CASE WHEN NOT is_visible THEN duplicate_of END AS original_id,
    tier = ANY($(tiers)p::text[]) AND confidence >= $(min_confidence)p::float8 AND source = ANY($(sources)p::text[])
        AND ($(speakers)p::text[] IS NULL OR coalesce(speaker_key = ANY($(speakers)p::text[]), false))
        AND start_date >= $(occurred_after)p::timestamptz AND start_date < $(occurred_before)p::timestamptz AS passes
FROM (
    SELECT *, chunk_is_visible(
        recorded_at, superseded_at, start_date, end_date, corrected_at, corrected_end_dates, $(as_of)p::timestamptz,
        $(known_at)p::timestamptz) AS is_visible
    FROM memory_chunk
    WHERE external_id = $(external_id)p AND number > $(after)p
        AND memory_id NOT IN ({include expired})
) AS c
WHERE is_visible OR duplicate_of IS NOT NULL AND recorded_at <= $(known_at)p AND start_date <= $(as_of)p
ORDER BY number
LIMIT $(limit)p;

-- part: past_version
SELECT memory_id, position, kind, occurred_at
FROM memory_event
WHERE external_id = $(external_id)p AND kind IN ('memory.created', 'memory.updated', 'memory.appended')
    AND salt IS NOT NULL AND recorded_at <= $(known_at)p

-- part: past_order
-- The version of each memory that held at as_of, by what was known at known_at: its chunks in order. What was appended
-- follows the last whole text before it.
held AS (
    SELECT memory_id, max(position) AS position
    FROM version
    WHERE occurred_at <= $(as_of)p
    GROUP BY memory_id
), span AS (
    SELECT held.memory_id, max(whole.position) AS first, held.position AS last
    FROM held
    JOIN version AS whole
        ON whole.memory_id = held.memory_id AND whole.position <= held.position AND whole.kind <> 'memory.appended'
    GROUP BY held.memory_id, held.position
)
SELECT span.memory_id, array_agg(chunk.entry ->> 'id' ORDER BY part.position, chunk.place) AS chunk_ids
FROM span
JOIN version AS part ON part.memory_id = span.memory_id AND part.position BETWEEN span.first AND span.last
JOIN memory_event AS e ON e.external_id = $(external_id)p AND e.position = part.position
CROSS JOIN LATERAL jsonb_array_elements(e.payload -> 'chunks') WITH ORDINALITY AS chunk (entry, place)
GROUP BY span.memory_id

-- name: read_past_texts
-- All texts of another moment.
WITH version AS MATERIALIZED ({include past_version}), {include past_order};

-- name: read_past_text
-- The text of one memory at another moment.
WITH version AS MATERIALIZED ({include past_version} AND memory_id = $(memory_id)p::text), {include past_order};

-- name: read_layout
-- The text of this moment of one memory, and its facts after it.
SELECT string_agg(entries, ''::bytea ORDER BY segment) AS layouts
FROM memory_layout
WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p::uuid;

-- name: read_headings
SELECT number, memory_id, day, title, words
FROM memory_heading
WHERE external_id = $(external_id)p;

-- part: newest_mentions
-- The mentions of an item that a search of this moment may consider; a chunk's id tells when it was created.
SELECT g.chunk_id
FROM graph_mention AS g
WHERE g.external_id = $(external_id)p AND g.item_id = item.item_id AND (g.is_live OR $(as_of)p::timestamptz IS NOT NULL)
ORDER BY g.chunk_id DESC
LIMIT $(mentions)p::int

-- name: reach_chunks
-- The chunks that mention entities, under any of their merged ids, or relationships, with the sum of their weights.
-- Chunks far below the best are left out.
SELECT number, weight
FROM (
    SELECT seen.number, sum(mentioned.weight) AS weight, max(sum(mentioned.weight)) OVER () AS most
    FROM (
        SELECT DISTINCT item.id, item.weight, mention.chunk_id
        FROM (
            SELECT named.id, named.weight, member.item_id
            FROM unnest($(entity_ids)p::uuid[], $(entity_weights)p::float8[]) AS named (id, weight)
            CROSS JOIN LATERAL (
                SELECT entity_id AS item_id FROM entity
                WHERE external_id = $(external_id)p AND canonical_id = named.id
                OFFSET 0
            ) AS member
            UNION ALL
            SELECT stated.id, stated.weight, stated.id
            FROM unnest($(relationship_ids)p::uuid[], $(relationship_weights)p::float8[]) AS stated (id, weight)
        ) AS item
        CROSS JOIN LATERAL ({include newest_mentions}) AS mention
    ) AS mentioned
    CROSS JOIN LATERAL (
        SELECT number FROM memory_chunk WHERE {include visible} AND chunk_id = mentioned.chunk_id OFFSET 0
    ) AS seen
    GROUP BY seen.number
) AS reached
WHERE weight >= most * $(least_share)p::float8;

-- name: graph_evidence
-- The visible chunks behind entities and relationships, for each id as stated.
SELECT item.id, item.item_id, item.name, item.type, count(*) AS mentions,
    array_agg(seen.chunk_id ORDER BY seen.chunk_id DESC) AS chunk_ids, min(seen.start_date) AS first_start,
    max(seen.start_date) AS last_start, max(seen.recorded_at) AS last_recorded_at
FROM (
    SELECT e.canonical_id AS id, e.entity_id AS item_id, e.name, e.type
    FROM unnest($(entity_ids)p::uuid[]) AS wanted (id)
    CROSS JOIN LATERAL (
        SELECT * FROM entity AS m WHERE m.external_id = $(external_id)p AND m.canonical_id = wanted.id OFFSET 0
    ) AS e
    UNION ALL
    SELECT wanted.id, wanted.id, NULL, NULL
    FROM unnest($(relationship_ids)p::uuid[]) AS wanted (id)
) AS item
CROSS JOIN LATERAL ({include newest_mentions}) AS mention
CROSS JOIN LATERAL (
    SELECT chunk_id, start_date, recorded_at
    FROM memory_chunk
    WHERE {include visible} AND chunk_id = mention.chunk_id
        AND ($(among)p::uuid[] IS NULL OR chunk_id = ANY($(among)p::uuid[]))
    OFFSET 0
) AS seen
GROUP BY item.id, item.item_id, item.name, item.type
ORDER BY item.id, item.item_id;

-- part: hit_columns
-- What a hit has of its chunk, of its memory and of the runs that recalled it.
c.number, c.tier, c.chunk_id, c.memory_id, m.title, c.content, c.importance, c.confidence,
    -- An end learned later is not shown; one that was part of a plan was known from the beginning.
    -- A repetition that stands for what it repeats has not ended.
    c.start_date, least(CASE
        WHEN c.superseded_at > $(known_at)p::timestamptz OR c.number = ANY($(repeating)p::bigint[]) THEN NULL
        ELSE c.end_date
    END, (
        SELECT min(correction.end_date)
        FROM unnest(c.corrected_at, c.corrected_end_dates) AS correction (learned_at, end_date)
        WHERE correction.learned_at <= $(known_at)p::timestamptz
    ), CASE
        WHEN NOT m.had_expiry THEN NULL
        WHEN $(as_of)p::timestamptz IS NULL THEN m.expires_at
        ELSE expiry_then($(external_id)p, c.memory_id, $(as_of)p::timestamptz, $(known_at)p::timestamptz)
    END) AS end_date,
    coalesce(c.said_at, c.start_date) AS said_at, c.said_starts, c.said_dates, c.recorded_at,
    CASE WHEN c.number <> ALL($(repeating)p::bigint[]) THEN c.superseded_at END AS superseded_at, c.speaker,
    c.source, c.metadata::text AS metadata,
    c.memory_version, c.span_start, c.span_end, c.derived_from, m.version AS current_version,
    -- A chunk added since the text was last written whole has its original position; a fact has the span of its chunks.
    CASE WHEN c.derived_from IS NOT NULL THEN NULL
        WHEN c.memory_version >= m.text_version THEN c.span_start
        ELSE m.chunk_starts[array_position(m.chunk_ids, c.chunk_id)] END AS current_start,
    coalesce(o.successes, 0) AS successes, coalesce(o.failures, 0) AS failures

-- part: outcome
LEFT JOIN LATERAL (
    -- The last outcome of a run with this chunk counts all of them.
    SELECT successes, failures
    FROM recalled_chunk
    WHERE $(with_outcomes)p::boolean AND external_id = $(external_id)p AND chunk_id = c.chunk_id
        AND reported_at <= $(reported_by)p::timestamptz
    ORDER BY reported_at DESC
    LIMIT 1
) AS o ON true

-- part: beside_chunk
CROSS JOIN LATERAL (
    SELECT * FROM active_memory WHERE external_id = $(external_id)p AND memory_id = c.memory_id OFFSET 0
) AS m
{include outcome}

-- part: hit
-- What the row of a hit has. What a memory says of itself, which may be long, stands in one row of each memory.
SELECT {include hit_columns}, m.key AS memory_key,
    CASE WHEN row_number() OVER (PARTITION BY c.memory_id) = 1 THEN (m.metadata - 'turns')::text END AS memory_metadata

-- name: read_hits
-- The rows of some chunks, in no order.
{include hit}
FROM unnest($(numbers)p::bigint[]) AS best (number)
CROSS JOIN LATERAL (
    -- Looked up one by one: if the planner chose the join, it might read every chunk of the tenant.
    SELECT * FROM memory_chunk WHERE external_id = $(external_id)p AND number = best.number OFFSET 0
) AS c
{include beside_chunk};

-- name: find_outdated
-- The marks on those of some chunks that are probably out of date, with the number of the newer chunk. Of a mark on a part also
-- its words, and what else the chunk says.
SELECT mark.number, mark.since, mark.by_chunk, newer.number AS by_number, mark.span_start, mark.span_end,
    substr(c.content, mark.span_start + 1, mark.span_end - mark.span_start) AS part,
    left(c.content, mark.span_start) || ' ' || substr(c.content, mark.span_end + 1) AS rest
FROM unnest($(numbers)p::bigint[]) AS asked (number)
CROSS JOIN LATERAL (
    SELECT chunk_id, content FROM memory_chunk WHERE external_id = $(external_id)p AND number = asked.number OFFSET 0
) AS c
CROSS JOIN LATERAL (
    SELECT *
    FROM outdated_marks($(external_id)p, $(as_of)p::timestamptz, $(known_at)p::timestamptz) AS held
    WHERE held.chunk_id = c.chunk_id
    OFFSET 0
) AS mark
CROSS JOIN LATERAL (
    SELECT number FROM memory_chunk WHERE external_id = $(external_id)p AND chunk_id = mark.by_chunk OFFSET 0
) AS newer;

-- part: still_shown
-- Those of some chunks that may still be hits. A repetition that stands for what it repeats has ended.
FROM unnest($(chunk_ids)p::uuid[]) AS asked (id)
CROSS JOIN LATERAL (
    SELECT * FROM memory_chunk
    WHERE external_id = $(external_id)p AND chunk_id = asked.id
        AND ({include visible} OR number = ANY($(repeating)p::bigint[])
            AND (duplicate_of IS NOT NULL OR $(as_of)p::timestamptz IS NOT NULL))
    OFFSET 0
) AS c

-- name: read_hits_still_shown
-- The rows of those of some chunks that may still be hits, in no order.
{include hit}
{include still_shown}
{include beside_chunk};

-- name: find_still_shown
SELECT string_agg(uuid_send(c.chunk_id), ''::bytea) AS chunk_ids
{include still_shown};

-- name: read_chunk_weights
-- What weighs beside the rank of some chunks, in the order in which they are asked for: their ids, when they became true in
-- seconds since 1970, importance, confidence, and the outcomes of the runs that recalled them. Those that have been erased
-- are left out.
SELECT string_agg(int8send(best.place - 1), ''::bytea ORDER BY best.place) AS places,
    string_agg(uuid_send(c.chunk_id), ''::bytea ORDER BY best.place) AS chunk_ids,
    string_agg(float8send(extract(epoch FROM c.start_date)::float8), ''::bytea ORDER BY best.place) AS starts,
    string_agg(float8send(c.importance), ''::bytea ORDER BY best.place) AS importances,
    string_agg(float8send(c.confidence), ''::bytea ORDER BY best.place) AS confidences,
    string_agg(int8send(coalesce(o.successes, 0)::bigint), ''::bytea ORDER BY best.place) AS successes,
    string_agg(int8send(coalesce(o.failures, 0)::bigint), ''::bytea ORDER BY best.place) AS failures
FROM unnest($(numbers)p::bigint[]) WITH ORDINALITY AS best (number, place)
CROSS JOIN LATERAL (
    SELECT chunk_id, start_date, importance, confidence FROM memory_chunk
    WHERE external_id = $(external_id)p AND number = best.number
    OFFSET 0
) AS c
{include outcome};

-- name: read_standing
-- The rows of the newest chunks that say what holds for good, the newest first; facts, which a model has concluded, are none
-- of them. For a filter, which may admit the one but not the other, also those that repeat another.
SELECT {include hit_columns}, (m.metadata - 'turns')::text AS memory_metadata
FROM (
    SELECT *
    FROM memory_chunk
    WHERE external_id = $(external_id)p AND text_flags & 64 = 64 AND derived_from IS NULL
        AND source = ANY($(standing_sources)p::text[])
        AND ({include visible} OR $(is_filtered)p::boolean AND duplicate_of IS NOT NULL)
    ORDER BY coalesce(said_at, start_date) DESC, number DESC
    LIMIT $(most)p::int
) AS c
{include beside_chunk}
ORDER BY coalesce(c.said_at, c.start_date) DESC, c.number DESC;

-- part: pinned_now
SELECT memory_id, chunk_ids FROM active_memory
WHERE external_id = $(external_id)p AND pinned AND archived_at IS NULL
    AND (expires_at IS NULL OR expires_at > $(known_at)p::timestamptz)

-- part: pinned_then
-- The memories that were pinned in the version that held at as_of, by what was known at known_at, and not archived.
SELECT held.memory_id::uuid AS memory_id, NULL::uuid[] AS chunk_ids
FROM (
    SELECT DISTINCT ON (memory_id) memory_id, CASE kind
        WHEN 'memory.created' THEN coalesce(payload -> 'pinned', 'false') ELSE payload -> 'changes' -> 'pinned'
    END AS pinned
    FROM memory_event
    WHERE external_id = $(external_id)p AND salt IS NOT NULL AND recorded_at <= $(known_at)p AND occurred_at <= $(as_of)p
        AND (kind = 'memory.created' OR kind = 'memory.updated' AND payload -> 'changes' ? 'pinned')
    ORDER BY memory_id, position DESC
) AS held
WHERE held.pinned = 'true' AND 'memory.archived' IS DISTINCT FROM (
    SELECT e.kind FROM memory_event AS e
    WHERE e.external_id = $(external_id)p AND e.memory_id = held.memory_id
        AND e.kind IN ('memory.archived', 'memory.unarchived')
        AND e.recorded_at <= $(known_at)p AND e.occurred_at <= $(as_of)p
    ORDER BY e.position DESC
    LIMIT 1
)

-- part: pinned
-- The rows of what is pinned: the memory that was changed last first, each in the order of its text. A passage that
-- repeats an earlier one has ended as a chunk, but is pinned where it stands. Of a long text only the first passages are
-- looked at.
SELECT {include hit_columns}, (m.metadata - 'turns')::text AS memory_metadata, c.duplicate_of IS NOT NULL AS is_repetition
FROM ({which}) AS pinned
CROSS JOIN LATERAL (
    SELECT * FROM memory_chunk
    WHERE external_id = $(external_id)p AND memory_id = pinned.memory_id AND derived_from IS NULL
        AND memory_id NOT IN ({include expired})
        AND (
            {include visible} OR duplicate_of IS NOT NULL AND chunk_id = ANY(pinned.chunk_ids)
            OR $(is_filtered)p::boolean AND duplicate_of IS NOT NULL
        )
    ORDER BY number
    LIMIT $(most)p::int
    OFFSET 0
) AS c
{include beside_chunk}
ORDER BY m.updated_at DESC, m.memory_id DESC, current_start, c.number
LIMIT $(most)p::int

-- name: read_pinned
{include pinned which=pinned_now};

-- name: read_pinned_then
{include pinned which=pinned_then};
