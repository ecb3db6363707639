-- name: add_chunks
INSERT INTO memory_chunk (
    external_id, chunk_id, number, memory_id, memory_version, chunk_order, span_start, span_end, tier, content, folded_hash,
    text_hash, speaker, speaker_key, metadata, words, text_flags, source, importance, confidence, start_date, said_at,
    said_on, said_starts, said_dates, recorded_at
)
SELECT
    $(external_id)p, c.chunk_id, c.number, $(memory_id)p, $(memory_version)p, c.chunk_order, c.span_start, c.span_end,
    'active', c.content, decode(c.folded_hash, 'hex'), decode(c.text_hash, 'hex'), c.speaker, c.speaker_key,
    c.metadata::jsonb, c.words, c.text_flags, c.source, c.importance, c.confidence, c.start_date, c.said_at,
    c.said_on, c.said_starts::int[], c.said_dates::timestamptz[], $(recorded_at)p
FROM unnest(
    $(chunk_ids)p::uuid[], $(numbers)p::bigint[], $(orders)p::int[], $(starts)p::int[], $(ends)p::int[],
    $(contents)p::text[], $(folded_hashes)p::text[], $(text_hashes)p::text[], $(speakers)p::text[],
    $(speaker_keys)p::text[], $(metadata)p::text[], $(words)p::int[], $(text_flags)p::smallint[], $(sources)p::text[],
    $(importances)p::float8[], $(confidences)p::float8[], $(start_dates)p::timestamptz[], $(said_at)p::timestamptz[],
    $(said_on)p::date[], $(said_starts)p::text[], $(said_dates)p::text[]
) AS c (
    chunk_id, number, chunk_order, span_start, span_end, content, folded_hash, text_hash, speaker, speaker_key, metadata,
    words, text_flags, source, importance, confidence, start_date, said_at, said_on, said_starts, said_dates
);

-- name: add_facts
-- What was concluded from chunks. It is not part of a text, so it is indexed separately and has no order.
INSERT INTO memory_chunk (
    external_id, chunk_id, number, memory_id, memory_version, chunk_order, span_start, span_end, tier, content, folded_hash,
    text_hash, metadata, words, text_flags, source, importance, confidence, start_date, end_date, said_on, recorded_at,
    derived_from
)
SELECT
    $(external_id)p, f.chunk_id, f.number, $(memory_id)p, $(memory_version)p, 0, f.span_start, f.span_end, 'shortterm',
    f.content, decode(f.folded_hash, 'hex'), decode(f.text_hash, 'hex'), '{}', f.words, f.text_flags, $(source)p,
    f.importance, f.confidence, f.start_date, f.end_date, f.said_on, $(recorded_at)p, f.derived_from::uuid[]
FROM unnest(
    $(chunk_ids)p::uuid[], $(numbers)p::bigint[], $(starts)p::int[], $(ends)p::int[], $(contents)p::text[],
    $(folded_hashes)p::text[], $(text_hashes)p::text[], $(words)p::int[], $(text_flags)p::smallint[],
    $(importances)p::float8[], $(confidences)p::float8[], $(start_dates)p::timestamptz[],
    $(end_dates)p::timestamptz[], $(said_on)p::date[], $(derived_from)p::text[]
) AS f (
    chunk_id, number, span_start, span_end, content, folded_hash, text_hash, words, text_flags, importance, confidence,
    start_date, end_date, said_on, derived_from
);

-- name: end_facts
-- Facts that rest on chunks that can no longer be relied on, of any memory. A fact's own end may be earlier, and was
-- known from the beginning.
WITH ended AS (
    UPDATE memory_chunk
    SET superseded_at = $(recorded_at)p, end_date = least(end_date, greatest(start_date, $(ended_at)p)),
        corrected_at = CASE WHEN end_date IS NULL THEN corrected_at ELSE ARRAY[recorded_at] END,
        corrected_end_dates = CASE WHEN end_date IS NULL THEN corrected_end_dates ELSE ARRAY[end_date] END
    WHERE external_id = $(external_id)p AND superseded_at IS NULL
        AND memory_id = ANY(ARRAY(
            SELECT memory_id
            FROM memory_chunk
            WHERE external_id = $(external_id)p AND chunk_id = ANY($(chunk_ids)p::uuid[])
        ))
        AND derived_from IS NOT NULL AND derived_from && $(chunk_ids)p::uuid[]
    RETURNING memory_id
)
SELECT memory_id, count(*) AS chunks FROM ended GROUP BY memory_id;

-- part: layout
-- A portion of the chunks that tile the text of a memory m.
unnest((m.chunk_ids || CASE WHEN m.segments = 0 THEN '{}' ELSE ARRAY(
    SELECT l.chunk_id
    FROM memory_segment AS s
    CROSS JOIN LATERAL unnest(s.chunk_ids) WITH ORDINALITY AS l (chunk_id, place)
    WHERE s.external_id = $(external_id)p AND s.memory_id = m.memory_id
    ORDER BY s.segment, l.place
) END)[$(after)p + 1 : $(after)p + $(limit)p]) WITH ORDINALITY AS layout (chunk_id, place)

-- name: layout_chunks
-- A portion of the chunks that tile a memory's text, in text order, also those that ended as duplicates or for good.
SELECT c.chunk_id, c.content, c.speaker, c.tier, c.importance, c.confidence, c.estimate, c.source, c.memory_version,
    c.start_date, c.said_at AS first_said, c.said_on, c.said_starts, c.said_dates, c.metadata::text AS metadata, c.superseded_at IS NOT NULL AND c.duplicate_of IS NULL AS has_ended,
    -- By the event that brought it in.
    EXISTS (
        SELECT FROM memory_event AS e
        WHERE e.external_id = $(external_id)p AND e.position = c.number >> 20 AND e.kind = 'memory.cut'
    ) AS is_piece
FROM active_memory AS m
CROSS JOIN LATERAL {include layout}
CROSS JOIN LATERAL (
    -- OFFSET 0: looked up one by one. A plan made for a small tenant read everything of a large one.
    SELECT * FROM memory_chunk WHERE external_id = $(external_id)p AND chunk_id = layout.chunk_id OFFSET 0
) AS c
WHERE m.external_id = $(external_id)p AND m.memory_id = $(memory_id)p
ORDER BY layout.place;

-- name: find_labels
-- The labels and lengths of the chunks that tile the texts of some memories, in text order.
SELECT m.memory_id, m.version, array_agg(c.source ORDER BY layout.place) AS sources,
    array_agg(length(c.content) ORDER BY layout.place) AS lengths
FROM active_memory AS m
CROSS JOIN LATERAL {include layout}
CROSS JOIN LATERAL (
    SELECT source, content FROM memory_chunk WHERE external_id = $(external_id)p AND chunk_id = layout.chunk_id OFFSET 0
) AS c
WHERE m.external_id = $(external_id)p AND m.memory_id = ANY($(memory_ids)p::uuid[])
GROUP BY m.memory_id, m.version;

-- name: retouch_chunks
-- The white space around a chunk belongs to it, so that the chunks tile the text; the index ignores it.
UPDATE memory_chunk AS c
SET content = touched.content, metadata = touched.metadata::jsonb
FROM unnest($(chunk_ids)p::uuid[], $(contents)p::text[], $(metadata)p::text[]) AS touched (chunk_id, content, metadata)
WHERE c.external_id = $(external_id)p AND c.chunk_id = touched.chunk_id;

-- name: extend_chunk
-- White space that follows a chunk belongs to it; the index ignores it.
UPDATE memory_chunk
SET content = content || $(white_space)p
WHERE external_id = $(external_id)p AND chunk_id = $(chunk_id)p;

-- name: get_texts
-- Everything indexed of a memory except its headings, including what has ended, a portion at a time.
SELECT chunk_id, number, content, speaker_key, start_date, said_at AS first_said, said_on, said_starts, said_dates,
    derived_from IS NOT NULL AS is_fact
FROM memory_chunk
WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p AND number > $(after)p
ORDER BY number
LIMIT $(limit)p;

-- name: reread_chunks
-- How chunks are read in another language or zone.
UPDATE memory_chunk AS c
SET words = reread.words, text_flags = reread.text_flags, said_on = reread.said_on
FROM unnest($(chunk_ids)p::uuid[], $(words)p::int[], $(text_flags)p::smallint[], $(said_on)p::date[])
    AS reread (chunk_id, words, text_flags, said_on)
WHERE c.external_id = $(external_id)p AND c.chunk_id = reread.chunk_id;

-- name: end_chunks
-- What an update replaced: known to have ended from recorded_at on, in the world from ended_at on.
WITH ended AS (
    UPDATE memory_chunk
    -- A fact may have its own end, known from the beginning; nothing else that is live has one.
    SET superseded_at = $(recorded_at)p, end_date = least(end_date, greatest(start_date, $(ended_at)p)),
        corrected_at = CASE WHEN end_date IS NULL THEN corrected_at ELSE ARRAY[recorded_at] END,
        corrected_end_dates = CASE WHEN end_date IS NULL THEN corrected_end_dates ELSE ARRAY[end_date] END
    WHERE external_id = $(external_id)p AND chunk_id = ANY($(chunk_ids)p::uuid[]) AND superseded_at IS NULL
    RETURNING memory_id
)
SELECT memory_id, count(*) AS chunks FROM ended GROUP BY memory_id;

-- name: find_ended_by_archiving
-- The passages of a memory that ended because it was archived, whenever that was.
SELECT chunk_id
FROM memory_chunk
WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p AND derived_from IS NULL AND superseded_at IN (
    SELECT recorded_at FROM memory_event
    WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p::uuid::text AND kind = 'memory.archived'
);

-- name: correct_end_dates
-- A statement that holds from before a known end moves that end for everything no longer in the text. The first end is
-- kept beside it, because it is what was known until now.
WITH corrected AS (
    UPDATE memory_chunk
    SET corrected_at = array_append(corrected_at, $(recorded_at)p::timestamptz),
        corrected_end_dates = array_append(corrected_end_dates, greatest(start_date, $(ended_at)p::timestamptz))
    WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p AND superseded_at IS NOT NULL
        -- A fact ends with the chunks it rests on.
        -- As a subquery it is hashed, whatever the plan.
        AND CASE WHEN derived_from IS NULL THEN chunk_id NOT IN (SELECT unnest($(kept)p::uuid[]))
            ELSE NOT derived_from <@ $(kept)p::uuid[] END
        AND least(corrected_end_dates[cardinality(corrected_end_dates)], end_date)
            > greatest(start_date, $(ended_at)p::timestamptz)
    RETURNING chunk_id
)
SELECT count(*) AS chunks FROM corrected;

-- name: count_live
-- How many of a memory's chunks a search sees now, or would see if what they repeat ended.
SELECT count(*) AS chunks
FROM memory_chunk
WHERE external_id = $(external_id)p AND memory_id = $(memory_id)p
    AND (superseded_at IS NULL OR duplicate_of IS NOT NULL);

-- name: forget_duplicates
-- A repetition that left its text has nothing to return to. It ended when it left: its memory said it until then, even
-- if what it repeated turns out to have ended earlier.
WITH forgotten AS (
    UPDATE memory_chunk
    SET superseded_at = $(recorded_at)p, end_date = greatest(start_date, $(ended_at)p), duplicate_of = NULL
    WHERE external_id = $(external_id)p AND chunk_id = ANY($(chunk_ids)p::uuid[]) AND duplicate_of IS NOT NULL
    RETURNING memory_id
)
SELECT memory_id, count(*) AS chunks FROM forgotten GROUP BY memory_id;

-- name: revive_duplicates
-- A chunk that repeated one that has ended now counts itself.
WITH revived AS (
    UPDATE memory_chunk
    SET superseded_at = NULL, end_date = NULL, duplicate_of = NULL
    WHERE external_id = $(external_id)p AND duplicate_of = ANY($(chunk_ids)p::uuid[])
    RETURNING memory_id
)
SELECT memory_id, count(*) AS chunks FROM revived GROUP BY memory_id;

-- name: end_duplicates
-- Only if the other chunk is still live, and its memory does not expire: the plan may be older than that.
WITH pair AS (
    SELECT *
    FROM unnest($(chunk_ids)p::uuid[], $(duplicates_of)p::uuid[]) AS p (chunk_id, duplicate_of)
), ended AS (
    UPDATE memory_chunk AS c
    SET superseded_at = $(recorded_at)p, end_date = greatest(c.start_date, $(ended_at)p),
        duplicate_of = pair.duplicate_of
    FROM pair
    WHERE c.external_id = $(external_id)p AND c.chunk_id = pair.chunk_id AND c.superseded_at IS NULL
        AND EXISTS (
            SELECT FROM memory_chunk AS twin
            JOIN active_memory AS m ON m.external_id = $(external_id)p AND m.memory_id = twin.memory_id
            WHERE twin.external_id = $(external_id)p AND twin.chunk_id = pair.duplicate_of
                AND twin.superseded_at IS NULL AND m.expires_at IS NULL
        )
    RETURNING c.chunk_id
)
SELECT count(*) AS chunks FROM ended;

-- name: rate_chunks
-- Importance and confidence as a plan decided them; with a tier, the chunks move to it. Longterm chunks stay. A plan
-- names every chunk of a text, and most ratings do not change: rows written again are indexed again.
UPDATE memory_chunk AS c
SET importance = rating.importance, confidence = rating.confidence, estimate = coalesce(rating.estimate, c.estimate),
    tier = CASE WHEN c.tier = 'longterm' THEN c.tier ELSE coalesce($(tier)p::text, c.tier) END
FROM unnest($(chunk_ids)p::uuid[], $(importances)p::float8[], $(confidences)p::float8[], $(estimates)p::float8[])
    AS rating (chunk_id, importance, confidence, estimate)
WHERE c.external_id = $(external_id)p AND c.chunk_id = rating.chunk_id
    AND (
        c.importance <> rating.importance OR c.confidence <> rating.confidence
        OR rating.estimate IS DISTINCT FROM c.estimate AND rating.estimate IS NOT NULL
        OR c.tier <> 'longterm' AND c.tier <> coalesce($(tier)p::text, c.tier)
    );

-- part: outdated
-- A chunk c is marked as probably out of date since a moment or earlier, and the newer words still stand.
EXISTS (
    SELECT
    FROM outdated_chunk AS o
    JOIN memory_chunk AS newer ON newer.external_id = $(external_id)p AND newer.chunk_id = o.by_chunk
    WHERE o.external_id = $(external_id)p AND o.chunk_id = c.chunk_id AND o.since <= {moment}
        AND (newer.superseded_at IS NULL OR newer.duplicate_of IS NOT NULL)
)

-- part: said_by_mine
coalesce(mine.said_at, mine.start_date)

-- part: asked_moment
asked.moment

-- name: find_twins
-- For each new chunk in a portion of a memory's text: the oldest live consolidated chunk of another memory with the
-- same text and speaker that is trusted no less and holds at the moment from which it would represent both.
SELECT mine.chunk_id, other.chunk_id AS twin_id, other.memory_id, other.importance, other.confidence
FROM active_memory AS m
CROSS JOIN LATERAL {include layout}
CROSS JOIN LATERAL (
    -- OFFSET 0: looked up one by one. A plan made before tables were analysed compared every chunk with every other.
    SELECT chunk_id, folded_hash, speaker_key, confidence, start_date, said_at FROM memory_chunk
    WHERE external_id = $(external_id)p AND chunk_id = layout.chunk_id AND tier = 'active' AND superseded_at IS NULL
    OFFSET 0
) AS mine
CROSS JOIN LATERAL (
    SELECT chunk_id, memory_id, importance, confidence FROM memory_chunk AS c
    WHERE external_id = $(external_id)p AND folded_hash = mine.folded_hash
        AND tier <> 'active' AND superseded_at IS NULL AND memory_id IS DISTINCT FROM m.memory_id
        -- What a model wrote replaces nothing that was said.
        AND derived_from IS NULL
        AND speaker_key IS NOT DISTINCT FROM mine.speaker_key AND confidence >= mine.confidence
        AND start_date <= greatest(mine.start_date, $(moment)p)
        -- What was said again is not out of date with it.
        AND NOT {include outdated moment=said_by_mine}
        -- What expires would take the others along.
        AND NOT EXISTS (
            SELECT FROM active_memory AS e
            WHERE e.external_id = $(external_id)p AND e.memory_id = c.memory_id AND e.expires_at IS NOT NULL
        )
    ORDER BY recorded_at, chunk_id
    LIMIT 1
) AS other
WHERE m.external_id = $(external_id)p AND m.memory_id = $(memory_id)p
ORDER BY mine.chunk_id;

-- name: find_known_texts
-- Which of these texts, in folded form, are said by live chunks that hold at a moment or later and are not out of date by then. If a memory is to say them,
-- what another one says that expires does not count. Nor does, with without_prefix, what a memory says whose key begins so.
SELECT DISTINCT asked.digest AS folded_hash
FROM unnest($(folded_hashes)p::text[], $(moments)p::timestamptz[]) AS asked (digest, moment)
CROSS JOIN LATERAL (
    -- OFFSET 0: looked up one by one.
    SELECT chunk_id, memory_id, end_date FROM memory_chunk
    WHERE external_id = $(external_id)p AND folded_hash = decode(asked.digest, 'hex') AND superseded_at IS NULL
    OFFSET 0
) AS c
WHERE (c.end_date IS NULL OR c.end_date > asked.moment) AND c.chunk_id <> ALL($(ignored)p::uuid[])
    AND NOT {include outdated moment=asked_moment}
    AND ($(memory_id)p::uuid IS NULL OR c.memory_id = $(memory_id)p::uuid OR NOT EXISTS (
        SELECT FROM active_memory AS e
        WHERE e.external_id = $(external_id)p AND e.memory_id = c.memory_id AND e.expires_at IS NOT NULL
    ))
    AND ($(without_prefix)p::text IS NULL OR NOT EXISTS (
        SELECT FROM active_memory AS e
        WHERE e.external_id = $(external_id)p AND e.memory_id = c.memory_id AND starts_with(e.key, $(without_prefix)p::text)
    ));
