-- name: add_texts
-- New headings, and the entries of an event's texts, appended to their blocks. Writers of a stream take turns, so the
-- order is that of the ledger.
WITH heading AS (
    INSERT INTO memory_heading (external_id, number, memory_id, day, title, words, text_hash)
    SELECT $(external_id)p, h.number, $(memory_id)p, h.day, $(title)p, h.words, decode(h.text_hash, 'hex')
    FROM unnest($(numbers)p::bigint[], $(days)p::date[], $(words)p::int[], $(text_hashes)p::text[])
        AS h (number, day, words, text_hash)
)
INSERT INTO posting AS p (external_id, term, block, entries)
SELECT $(external_id)p, t.term, t.block, substring($(entries)p::bytea FROM t.first FOR t.length)
FROM unnest($(terms)p::text[], $(blocks)p::bigint[], $(firsts)p::int[], $(lengths)p::int[])
    AS t (term, block, first, length)
ON CONFLICT (external_id, term, block) DO UPDATE SET entries = p.entries || excluded.entries;

-- name: find_heading_days
-- The days for which a memory has a heading with this title.
SELECT day
FROM memory_heading
WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p AND title = $(title)p;

-- name: add_layout
-- For a memory that has none yet; refresh_layouts would compute the same.
INSERT INTO memory_layout (external_id, memory_id, segment, entries, chunks, words)
VALUES ($(external_id)p, $(memory_id)p, 0, $(entries)p::bytea, $(chunks)p, $(words)p);

-- name: get_headings
SELECT number, day, title
FROM memory_heading
WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p
ORDER BY number DESC;

-- name: reread_headings
UPDATE memory_heading AS h
SET words = reread.words
FROM unnest($(numbers)p::bigint[], $(words)p::int[]) AS reread (number, words)
WHERE h.external_id = $(external_id)p AND h.number = reread.number;

-- name: read_entries
SELECT p.term, p.block, p.entries
FROM unnest($(terms)p::text[], $(blocks)p::bigint[]) AS t (term, block)
JOIN posting AS p ON p.external_id = $(external_id)p AND p.term = t.term AND p.block = t.block;

-- name: put_entries
INSERT INTO posting AS p (external_id, term, block, entries)
SELECT $(external_id)p, t.term, t.block, substring($(entries)p::bytea FROM t.first FOR t.length)
FROM unnest($(terms)p::text[], $(blocks)p::bigint[], $(firsts)p::int[], $(lengths)p::int[])
    AS t (term, block, first, length)
ON CONFLICT (external_id, term, block) DO UPDATE SET entries = excluded.entries;

-- name: delete_entries
DELETE FROM posting AS p
USING unnest($(terms)p::text[], $(blocks)p::bigint[]) AS t (term, block)
WHERE p.external_id = $(external_id)p AND p.term = t.term AND p.block = t.block;

-- part: quarter
-- As `quarter_of` of `domain/said_times.py`: of a time in UTC, counted from 1 within its day; 0 is a day without a time.
CASE WHEN said = said::date THEN 0 ELSE 1 + extract(hour FROM said)::int * 4 + extract(minute FROM said)::int / 15 END

-- part: newest_heading
-- Numbers are negative, so the smallest is the newest.
SELECT h.number, h.words
FROM memory_heading AS h
WHERE h.external_id = $(external_id)p AND h.memory_id = placed.memory_id AND h.day = coalesce(placed.said_on, placed.said::date) AND h.title = placed.title
ORDER BY h.number
LIMIT 1

-- part: asked_segments
-- All layouts of the memories if asked from 0 on; otherwise those of the text from a segment on, without the facts.
segment >= $(from_segment)p::int AND ($(from_segment)p = 0 OR segment < 2147483647)

-- name: refresh_layouts
-- Recomputes the layouts of some memories from their chunks, and returns the change of the tenant's counts.
-- Flags: 1 begins a text, 2 fact, 4 duplicate, from 512 on the quarter of an hour; the others are the chunk's own.
WITH asked AS (
    SELECT DISTINCT a.memory_id FROM unnest($(memory_ids)p::uuid[]) AS a (memory_id)
), placed AS (
    SELECT m.memory_id, m.title, t.segment, l.place, c.number,
        coalesce(c.said_at, c.start_date) AT TIME ZONE 'UTC' AS said, c.said_on, c.speaker_key, c.words,
        c.text_flags | CASE WHEN c.duplicate_of IS NULL THEN 0 ELSE 4 END AS flags
    FROM asked
    CROSS JOIN LATERAL (
        SELECT memory_id, title, segments, chunk_ids FROM active_memory
        WHERE external_id = $(external_id)p AND memory_id = asked.memory_id
        OFFSET 0
    ) AS m
    CROSS JOIN LATERAL (
        SELECT 0 AS segment, m.chunk_ids WHERE $(from_segment)p = 0
        UNION ALL
        SELECT segment, chunk_ids FROM memory_segment
        WHERE external_id = $(external_id)p AND memory_id = m.memory_id AND segment >= $(from_segment)p AND m.segments > 0
        OFFSET 0
    ) AS t
    CROSS JOIN LATERAL unnest(t.chunk_ids) WITH ORDINALITY AS l (chunk_id, place)
    CROSS JOIN LATERAL (
        SELECT * FROM memory_chunk
        WHERE external_id = $(external_id)p AND chunk_id = l.chunk_id
            AND (superseded_at IS NULL OR duplicate_of IS NOT NULL)
        OFFSET 0
    ) AS c
), entry AS (
    SELECT placed.memory_id, placed.segment, placed.place, placed.words, placed.number,
        coalesce(heading.number, 0) AS heading, coalesce(heading.words, 0) AS heading_words, placed.said,
        placed.speaker_key,
        placed.flags | CASE WHEN row_number() OVER whole = 1 AND NOT EXISTS (
            SELECT FROM memory_layout AS l
            WHERE l.external_id = $(external_id)p AND l.memory_id = placed.memory_id AND l.segment < $(from_segment)p
        ) THEN 1 ELSE 0 END AS flags
    FROM placed
    LEFT JOIN LATERAL ({include newest_heading}) AS heading ON true
    WINDOW whole AS (PARTITION BY placed.memory_id ORDER BY placed.segment, placed.place)
    UNION ALL
    SELECT c.memory_id, 2147483647, c.number, c.words, c.number, 0, 0, c.start_date AT TIME ZONE 'UTC',
        c.speaker_key, c.text_flags | 3
    FROM asked
    CROSS JOIN LATERAL (
        SELECT * FROM memory_chunk
        WHERE external_id = $(external_id)p AND memory_id = asked.memory_id AND derived_from IS NOT NULL
            AND superseded_at IS NULL AND $(from_segment)p = 0
        OFFSET 0
    ) AS c
), layout AS MATERIALIZED (
    SELECT memory_id, segment, count(*)::int AS chunks, sum(words + least(heading_words, 32767)) AS words, string_agg(
        int8send(number) || int8send(heading) || int4send(said::date - DATE '1970-01-01')
            || CASE WHEN speaker_key IS NULL THEN '\x00000000'::bytea
                ELSE substring(sha256(convert_to(speaker_key, 'UTF8')) FROM 1 FOR 4) END
            || int4send(words) || substring(int4send(flags | ({include quarter} << 9)) FROM 3) || int2send(least(heading_words, 32767)::smallint),
        ''::bytea ORDER BY place) AS entries
    FROM entry
    GROUP BY memory_id, segment
), before AS MATERIALIZED (
    SELECT l.memory_id, l.segment, l.chunks, l.words
    FROM asked
    CROSS JOIN LATERAL (
        SELECT * FROM memory_layout
        WHERE external_id = $(external_id)p AND memory_id = asked.memory_id AND {include asked_segments}
        OFFSET 0
    ) AS l
), stored AS (
    INSERT INTO memory_layout AS m (external_id, memory_id, segment, entries, chunks, words)
    SELECT $(external_id)p, memory_id, segment, entries, chunks, words FROM layout
    ON CONFLICT (external_id, memory_id, segment) DO UPDATE
    SET entries = excluded.entries, chunks = excluded.chunks, words = excluded.words
    WHERE m.entries <> excluded.entries
), emptied AS (
    DELETE FROM memory_layout AS l
    USING (SELECT memory_id, segment FROM before EXCEPT SELECT memory_id, segment FROM layout) AS empty
    WHERE l.external_id = $(external_id)p AND l.memory_id = empty.memory_id AND l.segment = empty.segment
)
SELECT (coalesce((SELECT sum(chunks) FROM layout), 0) - coalesce((SELECT sum(chunks) FROM before), 0))::bigint AS chunks,
    (coalesce((SELECT sum(words) FROM layout), 0) - coalesce((SELECT sum(words) FROM before), 0))::bigint AS words;
