-- name: visible
-- Which rows a search may see; the columns stand in memory_chunk and in the vector tables.
external_id = $(external_id)p AND tier = ANY($(tiers)p::text[]) AND confidence >= $(min_confidence)p::float8
    AND chunk_is_visible(
        recorded_at, superseded_at, start_date, end_date, corrected_at, corrected_end_dates, $(as_of)p::timestamptz,
        $(known_at)p::timestamptz)

-- name: vector_distances_exact
-- One scan of the narrow vector table gives the three distances. OFFSET 0 keeps the planner from HNSW, which would
-- lose rows behind the tenant filter of a small stream.
distance AS MATERIALIZED (
    SELECT chunk_id, text_vector <=> $(vector)p::halfvec AS text_distance,
        before_vector <=> $(vector)p::halfvec AS before_distance,
        around_vector <=> $(vector)p::halfvec AS around_distance
    FROM chunk_vector_{generation}
    WHERE {visible}
    OFFSET 0
), vector_ranking AS (
    (SELECT 4 AS list, chunk_id, row_number() OVER (ORDER BY text_distance, chunk_id) AS place
     FROM distance ORDER BY text_distance, chunk_id LIMIT $(depth)p::int)
    UNION ALL
    (SELECT 5, chunk_id, row_number() OVER (ORDER BY before_distance, chunk_id)
     FROM distance ORDER BY before_distance, chunk_id LIMIT $(depth)p::int)
    UNION ALL
    (SELECT 6, chunk_id, row_number() OVER (ORDER BY around_distance, chunk_id)
     FROM distance ORDER BY around_distance, chunk_id LIMIT $(depth)p::int)
)

-- name: vector_distances_hnsw
-- Each distance by its own index; iterative scans go on until enough rows passed the filters, or 200,000 were seen.
vector_ranking AS (
    SELECT 4 AS list, chunk_id, row_number() OVER (ORDER BY distance, chunk_id) AS place FROM (
        SELECT chunk_id, text_vector <=> $(vector)p::halfvec AS distance
        FROM chunk_vector_{generation}
        WHERE {visible}
        ORDER BY text_vector <=> $(vector)p::halfvec LIMIT $(depth)p::int) AS near_text
    UNION ALL
    SELECT 5, chunk_id, row_number() OVER (ORDER BY distance, chunk_id) FROM (
        SELECT chunk_id, before_vector <=> $(vector)p::halfvec AS distance
        FROM chunk_vector_{generation}
        WHERE {visible}
        ORDER BY before_vector <=> $(vector)p::halfvec LIMIT $(depth)p::int) AS near_before
    UNION ALL
    SELECT 6, chunk_id, row_number() OVER (ORDER BY distance, chunk_id) FROM (
        SELECT chunk_id, around_vector <=> $(vector)p::halfvec AS distance
        FROM chunk_vector_{generation}
        WHERE {visible}
        ORDER BY around_vector <=> $(vector)p::halfvec LIMIT $(depth)p::int) AS near_around
)

-- name: vector_distances_none
-- No vector for the query: words only.
vector_ranking AS (
    SELECT 4 AS list, NULL::uuid AS chunk_id, 1::bigint AS place WHERE false
)

-- name: search
-- Gathers the rankings, fuses them and returns rows, best first; ties end by chunk id.
-- The three word rankings must come from BM25 index scans: any other plan scores every row 0. The transaction has
-- enable_sort and jit off, and the scores are not selected, because that would tokenise each row once more. For the
-- same reason no MATERIALIZED stands around these rankings and the statement is not prepared: pg_textsearch takes the
-- score of the index scan for the one in ORDER BY only in the main tree of a plan that is made at once.
WITH {vector_distances},
word_ranking AS (
    SELECT 1 AS list, chunk_id, row_number() OVER () AS place FROM (
        SELECT chunk_id
        FROM memory_chunk
        WHERE {visible}
        ORDER BY indexed_text <@> to_bm25query($(query)p::text, 'memory_chunk_indexed_text_idx')
        LIMIT $(depth)p::int) AS by_text
    UNION ALL
    SELECT 2, chunk_id, row_number() OVER () FROM (
        SELECT chunk_id
        FROM memory_chunk
        WHERE {visible}
        ORDER BY indexed_before <@> to_bm25query($(query)p::text, 'memory_chunk_indexed_before_idx')
        LIMIT $(depth)p::int) AS by_before
    UNION ALL
    SELECT 3, chunk_id, row_number() OVER () FROM (
        SELECT chunk_id
        FROM memory_chunk
        WHERE {visible}
        ORDER BY indexed_around <@> to_bm25query($(query)p::text, 'memory_chunk_indexed_around_idx')
        LIMIT $(depth)p::int) AS by_around
), fused AS (
    SELECT chunk_id,
        sum(CASE WHEN list <= 3 THEN $(bm25_weight)p::float8 ELSE $(vector_weight)p::float8 END / ($(rrf_k)p::float8 + place)) AS share,
        jsonb_object_agg(list, place) AS ranks
    FROM (SELECT * FROM word_ranking UNION ALL SELECT * FROM vector_ranking) AS ranking
    GROUP BY chunk_id
), named AS MATERIALIZED (
    -- The speaker whom the query names, where it names exactly one of those there are.
    SELECT min(candidate.speaker_key) AS speaker_key
    FROM unnest($(speaker_keys)p::text[]) AS candidate (speaker_key)
    -- Looked up one by one: joined, all chunks with a speaker may be read.
    CROSS JOIN LATERAL (
        SELECT FROM memory_chunk AS c
        WHERE c.external_id = $(external_id)p AND c.speaker_key = candidate.speaker_key
        LIMIT 1
    ) AS known
    HAVING count(*) = 1
), scored AS (
    SELECT c.chunk_id, fused.ranks,
        (
            -- Divided by the best that the lists a chunk could be in would give it: without vectors it is in three.
            fused.share * ($(rrf_k)p::float8 + 1) / (
                3 * $(bm25_weight)p::float8
                + CASE WHEN $(has_vector)p::bool AND c.has_vectors THEN 3 * $(vector_weight)p::float8 ELSE 0 END)
            + CASE WHEN c.speaker_key = (SELECT speaker_key FROM named) THEN $(speaker_boost)p::float8 ELSE 0 END
        ) * (
            1 + $(recency_weight)p::float8 * exp(
                -- Beyond a thousand half-lives the power has no number and is no different from nothing.
                -ln(2) * least(1000, greatest(0, extract(epoch FROM $(now)p::timestamptz - c.start_date)::float8
                    / $(recency_half_life_seconds)p::float8)))
            + $(importance_weight)p::float8 * c.importance + $(confidence_weight)p::float8 * c.confidence
        ) / (1 + $(recency_weight)p::float8 + $(importance_weight)p::float8 + $(confidence_weight)p::float8) AS score
    FROM fused
    -- Looked up one by one: joined at the planner's choice, every chunk of the tenant may be read.
    CROSS JOIN LATERAL (
        SELECT m.chunk_id, m.speaker_key, m.start_date, m.importance, m.confidence, EXISTS (
            SELECT FROM chunk_vector_{generation} AS v WHERE v.external_id = $(external_id)p AND v.chunk_id = m.chunk_id
        ) AS has_vectors
        FROM memory_chunk AS m
        WHERE m.external_id = $(external_id)p AND m.chunk_id = fused.chunk_id
        OFFSET 0
    ) AS c
    ORDER BY score DESC, c.chunk_id
    LIMIT $(limit)p::int
)
SELECT c.tier, c.chunk_id, c.memory_id, m.title, c.content, scored.score, scored.ranks, c.importance, c.confidence,
    -- An end that was learned later is not shown; one that was part of a plan was known from the beginning.
    c.start_date, CASE WHEN c.superseded_at > $(known_at)p::timestamptz THEN NULL ELSE coalesce((
        -- Each correction is earlier than the one before it.
        SELECT min(correction.end_date)
        FROM unnest(c.corrected_at, c.corrected_end_dates) AS correction (learned_at, end_date)
        WHERE correction.learned_at <= $(known_at)p::timestamptz
    ), c.end_date) END AS end_date,
    c.recorded_at, c.superseded_at, c.speaker, c.source, c.metadata::text AS metadata,
    c.memory_version, c.span_start, c.span_end, m.version AS current_version,
    m.chunk_starts[array_position(m.chunk_ids, c.chunk_id)] AS current_start
FROM scored
CROSS JOIN LATERAL (
    SELECT * FROM memory_chunk WHERE external_id = $(external_id)p AND chunk_id = scored.chunk_id OFFSET 0
) AS c
CROSS JOIN LATERAL (
    SELECT * FROM active_memory WHERE external_id = $(external_id)p AND memory_id = c.memory_id OFFSET 0
) AS m
ORDER BY scored.score DESC, scored.chunk_id;
