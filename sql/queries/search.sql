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

-- name: describe_stream
-- What a search wants to know of a stream before it begins, and which vectors are searched at this moment.
SELECT live_chunks, graph_head, graph_position, EXISTS (SELECT FROM entity WHERE external_id = $(external_id)p) AS has_graph,
    (SELECT generation FROM embedding_generation WHERE state = 'current') AS generation
FROM memory_stream
WHERE external_id = $(external_id)p;

-- name: newest_mentions
-- Of an item the mentions that a search of this moment may look at; a chunk's id says when it was made.
SELECT g.chunk_id
FROM graph_mention AS g
WHERE g.external_id = $(external_id)p AND g.item_id = item.item_id AND (g.is_live OR $(as_of)p::timestamptz IS NOT NULL)
ORDER BY g.chunk_id DESC
LIMIT $(mentions)p::int

-- name: fusion
-- The shares of all lists, and the places in them.
fused AS (
    SELECT chunk_id,
        sum(CASE WHEN list <= 3 THEN $(bm25_weight)p::float8 ELSE $(vector_weight)p::float8 END / ($(rrf_k)p::float8 + place)) AS share,
        jsonb_object_agg(list, place) AS ranks
    FROM (SELECT * FROM word_ranking UNION ALL SELECT * FROM vector_ranking) AS ranking
    GROUP BY chunk_id
)

-- name: fusion_with_graph
-- The same with a seventh list: chunks by the weights of the entities, under any of their merged ids, and of the
-- relationships that they mention. What is reached far less than the best is left out.
reached AS (
    SELECT mentioned.chunk_id, sum(mentioned.weight) AS weight, max(sum(mentioned.weight)) OVER () AS most
    FROM (
        SELECT DISTINCT item.id, item.weight, mention.chunk_id
        FROM (
            SELECT named.id, named.weight, member.item_id
            FROM unnest($(graph_entity_ids)p::uuid[], $(graph_entity_weights)p::float8[]) AS named (id, weight)
            CROSS JOIN LATERAL (
                SELECT entity_id AS item_id FROM entity
                WHERE external_id = $(external_id)p AND canonical_id = named.id
                OFFSET 0
            ) AS member
            UNION ALL
            SELECT stated.id, stated.weight, stated.id
            FROM unnest($(graph_relationship_ids)p::uuid[], $(graph_relationship_weights)p::float8[])
                AS stated (id, weight)
        ) AS item
        CROSS JOIN LATERAL ({newest_mentions}) AS mention
    ) AS mentioned
    CROSS JOIN LATERAL (
        SELECT FROM memory_chunk WHERE {visible} AND chunk_id = mentioned.chunk_id OFFSET 0
    ) AS seen
    GROUP BY mentioned.chunk_id
), gathered AS (
    SELECT chunk_id, coalesce(sum(share) FILTER (WHERE place <= $(depth)p::int), 0) AS share,
        -- Of its own words also far down their list, where all that a relation's other sentences say stands before it.
        coalesce(sum(share), 0) AS deep_share,
        coalesce(jsonb_object_agg(list, place) FILTER (WHERE place <= $(depth)p::int), '{}') AS ranks,
        max(weight) AS graph_weight
    FROM (
        SELECT list, chunk_id, place, $(bm25_weight)p::float8 / ($(rrf_k)p::float8 + place) AS share,
            NULL::float8 AS weight
        FROM word_ranking
        UNION ALL
        SELECT list, chunk_id, place, $(vector_weight)p::float8 / ($(rrf_k)p::float8 + place), NULL FROM vector_ranking
        UNION ALL
        SELECT 7, chunk_id, NULL, NULL, weight FROM reached WHERE weight >= most * $(graph_least_share)p::float8
    ) AS ranking
    GROUP BY chunk_id
), placed AS (
    -- Of what the graph reaches equally, what the other lists found comes first.
    SELECT chunk_id, share, ranks, CASE WHEN graph_weight IS NOT NULL THEN row_number() OVER (
        PARTITION BY graph_weight IS NULL
        ORDER BY graph_weight * ($(graph_floor)p::float8 + deep_share) DESC, chunk_id
    ) END AS graph_place
    FROM gathered
), fused AS (
    SELECT chunk_id,
        share + CASE WHEN graph_place <= $(depth)p::int
            THEN $(graph_list_weight)p::float8 / ($(rrf_k)p::float8 + graph_place) ELSE 0 END AS share,
        ranks || CASE WHEN graph_place <= $(depth)p::int THEN jsonb_build_object('7', graph_place) ELSE '{}' END AS ranks
    FROM placed
    WHERE graph_place <= $(depth)p::int OR ranks <> '{}'
)

-- name: graph_evidence
-- The chunks behind entities and relationships that a search of this moment may see, of each id as it was stated.
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
CROSS JOIN LATERAL ({newest_mentions}) AS mention
CROSS JOIN LATERAL (
    SELECT chunk_id, start_date, recorded_at
    FROM memory_chunk
    WHERE {visible} AND chunk_id = mention.chunk_id
    OFFSET 0
) AS seen
GROUP BY item.id, item.item_id, item.name, item.type
ORDER BY item.id, item.item_id;

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
        LIMIT $(text_depth)p::int) AS by_text
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
), {fusion}, named AS MATERIALIZED (
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
            -- Divided by the best that the lists a chunk could be in would give it: without vectors it is in three. The
            -- graph's list comes on top, so that a chunk which names nothing is not punished for it.
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
    c.start_date, least(CASE WHEN c.superseded_at > $(known_at)p::timestamptz THEN NULL ELSE c.end_date END, (
        SELECT min(correction.end_date)
        FROM unnest(c.corrected_at, c.corrected_end_dates) AS correction (learned_at, end_date)
        WHERE correction.learned_at <= $(known_at)p::timestamptz
    )) AS end_date,
    c.recorded_at, c.superseded_at, c.speaker, c.source, c.metadata::text AS metadata,
    c.memory_version, c.span_start, c.span_end, c.derived_from, m.version AS current_version,
    m.chunk_starts[array_position(m.chunk_ids, c.chunk_id)] AS current_start
FROM scored
CROSS JOIN LATERAL (
    SELECT * FROM memory_chunk WHERE external_id = $(external_id)p AND chunk_id = scored.chunk_id OFFSET 0
) AS c
CROSS JOIN LATERAL (
    SELECT * FROM active_memory WHERE external_id = $(external_id)p AND memory_id = c.memory_id OFFSET 0
) AS m
ORDER BY scored.score DESC, scored.chunk_id;
