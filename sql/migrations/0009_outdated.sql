-- What is probably out of date: passages that a newer one seems to contradict, without saying so beyond doubt. They stay; a row
-- says which of a chunk's characters it speaks of (NULL: all), and since when, which is when the newer words were said. part
-- tells apart the rows that one event adds. Nothing is deleted or changed here: outdated_marks says which rows hold.
CREATE TABLE outdated_chunk (
    external_id text NOT NULL,
    chunk_id uuid NOT NULL,
    position bigint NOT NULL,
    part integer NOT NULL,
    span_start integer,
    span_end integer,
    since timestamptz NOT NULL,
    by_chunk uuid NOT NULL,
    recorded_at timestamptz NOT NULL,
    CONSTRAINT outdated_chunk_pkey PRIMARY KEY (external_id, chunk_id, position, part),
    CONSTRAINT outdated_chunk_external_id_check CHECK (external_id <> ''),
    CONSTRAINT outdated_chunk_span_check CHECK (span_start >= 0 AND span_end > span_start)
) PARTITION BY HASH (external_id);
CREATE INDEX outdated_chunk_by_chunk_idx ON outdated_chunk (external_id, by_chunk) WHERE by_chunk IS NOT NULL;
DO $partitions$
BEGIN
    FOR remainder IN 0 .. {{chunk_partitions}} - 1 LOOP
        EXECUTE format(
            'CREATE TABLE %I PARTITION OF outdated_chunk FOR VALUES WITH (MODULUS {{chunk_partitions}}, REMAINDER %s)',
            'outdated_chunk_p' || remainder, remainder);
        EXECUTE format(
            'ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', 'outdated_chunk_p' || remainder);
    END LOOP;
END
$partitions$;
ALTER TABLE outdated_chunk ALTER COLUMN external_id SET STATISTICS 0;
ALTER TABLE outdated_chunk ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY outdated_chunk_tenant ON outdated_chunk FOR ALL TO reminiscence_app, reminiscence_eraser
    USING (external_id = current_setting('reminiscence.external_id', true))
    WITH CHECK (external_id = current_setting('reminiscence.external_id', true));
GRANT SELECT, INSERT, UPDATE, DELETE ON outdated_chunk TO reminiscence_app, reminiscence_eraser;

-- The marks that hold: with as_of NULL now, otherwise at as_of by what was known at known_at. One holds while both its chunk and
-- the newer one that it names do; a newer one that has ended as a repetition counts as the one that it repeats. None holds on
-- a chunk that was said again later than the newer one.
CREATE FUNCTION outdated_marks(tenant text, as_of timestamptz, known_at timestamptz) RETURNS TABLE (
    chunk_id uuid, number bigint, span_start integer, span_end integer, since timestamptz, by_chunk uuid, "position" bigint
) LANGUAGE sql STABLE PARALLEL SAFE
AS $function$
    SELECT o.chunk_id, older.number, o.span_start, o.span_end, o.since, newer.chunk_id, o.position
    FROM reminiscence.outdated_chunk AS o
    -- Looked up one by one: a join might read every chunk of the tenant for each mark.
    CROSS JOIN LATERAL (
        SELECT * FROM reminiscence.memory_chunk WHERE external_id = tenant AND chunk_id = o.chunk_id OFFSET 0
    ) AS older
    CROSS JOIN LATERAL (
        SELECT coalesce(duplicate_of, chunk_id) AS chunk_id
        FROM reminiscence.memory_chunk
        WHERE external_id = tenant AND chunk_id = o.by_chunk
        OFFSET 0
    ) AS said
    CROSS JOIN LATERAL (
        SELECT * FROM reminiscence.memory_chunk WHERE external_id = tenant AND chunk_id = said.chunk_id OFFSET 0
    ) AS newer
    WHERE o.external_id = tenant AND (as_of IS NULL OR o.since <= as_of AND o.recorded_at <= known_at)
        AND reminiscence.chunk_is_visible(
            older.recorded_at, older.superseded_at, older.start_date, older.end_date, older.corrected_at,
            older.corrected_end_dates, as_of, known_at)
        -- An update keeps words that were said before it.
        AND reminiscence.chunk_is_visible(
            newer.recorded_at, newer.superseded_at, least(newer.start_date, o.since), newer.end_date, newer.corrected_at,
            newer.corrected_end_dates, as_of, known_at)
        AND newer.memory_id NOT IN (SELECT reminiscence.expired_memories(tenant, as_of, known_at))
        AND NOT EXISTS (
            SELECT
            FROM reminiscence.memory_chunk AS again
            WHERE again.external_id = tenant AND again.duplicate_of = o.chunk_id
                AND coalesce(again.said_at, again.start_date) > o.since
                AND (as_of IS NULL OR again.recorded_at <= known_at AND again.start_date <= as_of)
        )
$function$;

REVOKE EXECUTE ON FUNCTION outdated_marks(text, timestamptz, timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION outdated_marks(text, timestamptz, timestamptz) TO reminiscence_app;
