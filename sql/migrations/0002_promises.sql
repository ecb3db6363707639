-- Corrections of a chunk's end that arrive late, and what an erasure empties beside an event's payload.

ALTER TABLE memory_chunk ADD COLUMN corrected_at timestamptz[], ADD COLUMN corrected_end_dates timestamptz[];
ALTER TABLE chunk_vector_1 ADD COLUMN corrected_at timestamptz[], ADD COLUMN corrected_end_dates timestamptz[];

DROP FUNCTION chunk_is_visible(timestamptz, timestamptz, timestamptz, timestamptz, timestamptz, timestamptz);
-- Whether an end earlier than the first was known at known_at and had come at as_of. A function of its own, because
-- one with a subquery is not inlined and would be called for each row of a search; hardly any row has corrections.
CREATE FUNCTION end_was_corrected(
    corrected_at timestamptz[], corrected_end_dates timestamptz[], as_of timestamptz, known_at timestamptz
) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN EXISTS (
    SELECT FROM unnest(corrected_at, corrected_end_dates) AS correction (learned_at, end_date)
    WHERE correction.learned_at <= known_at AND correction.end_date <= as_of
);

-- Whether a chunk is visible. With as_of NULL: what is known and valid now, superseded rows left out. Otherwise:
-- what was known at known_at to be true in the world at as_of; an end that was not yet known does not count.
CREATE FUNCTION chunk_is_visible(
    recorded_at timestamptz, superseded_at timestamptz, start_date timestamptz, end_date timestamptz,
    corrected_at timestamptz[], corrected_end_dates timestamptz[], as_of timestamptz, known_at timestamptz
) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN as_of IS NULL THEN superseded_at IS NULL AND (end_date IS NULL OR end_date > known_at)
    ELSE recorded_at <= known_at AND start_date <= as_of
        AND (end_date IS NULL OR end_date > as_of OR superseded_at > known_at)
        AND (corrected_at IS NULL OR NOT end_was_corrected(corrected_at, corrected_end_dates, as_of, known_at))
END;

REVOKE EXECUTE ON FUNCTION end_was_corrected(timestamptz[], timestamptz[], timestamptz, timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION end_was_corrected(timestamptz[], timestamptz[], timestamptz, timestamptz)
    TO reminiscence_app, reminiscence_eraser;
REVOKE EXECUTE ON FUNCTION chunk_is_visible(
    timestamptz, timestamptz, timestamptz, timestamptz, timestamptz[], timestamptz[], timestamptz, timestamptz)
    FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chunk_is_visible(
    timestamptz, timestamptz, timestamptz, timestamptz, timestamptz[], timestamptz[], timestamptz, timestamptz)
    TO reminiscence_app, reminiscence_eraser;

GRANT UPDATE (actor, conversation_id) ON memory_event TO reminiscence_eraser;
GRANT INSERT ON memory_stream TO reminiscence_eraser;

-- The planner keeps samples of what columns hold (pg_statistic), in the clear and for as long as it likes. Of whatever holds
-- memory text or was made of it there are none: an erasure could not reach them, and no plan here needs them.
DO $statistics$
DECLARE
    place record;
BEGIN
    FOR place IN
        SELECT t.name AS table_name, c.name AS column_name
        FROM (VALUES
            ('memory_event', '{payload,actor,conversation_id,idempotency_key,request_hash,salt}'::text[]),
            ('active_memory', '{title,content,description,metadata,actor,conversation_id}'),
            ('shortterm_memory', '{title,summary}'),
            ('memory_chunk', '{content,folded_hash,speaker,speaker_key,metadata,indexed_text,indexed_before,indexed_around}'),
            ('chunk_vector_1', '{text_vector,before_vector,around_vector}'),
            ('embedding_cache', '{text_hash,vector}')
        ) AS t (name, columns)
        CROSS JOIN LATERAL unnest(t.columns) AS c (name)
    LOOP
        EXECUTE format('ALTER TABLE %I ALTER COLUMN %I SET STATISTICS 0', place.table_name, place.column_name);
    END LOOP;
END
$statistics$;

-- The eraser may empty an event and append a receipt, and nothing else: neither change what an event says nor touch a
-- receipt.
CREATE POLICY memory_event_emptied ON memory_event AS RESTRICTIVE FOR UPDATE TO reminiscence_eraser
    USING (kind <> 'memory.erased')
    WITH CHECK (
        payload = '{}' AND salt IS NULL AND request_hash IS NULL AND idempotency_key IS NULL AND actor IS NULL
        AND conversation_id IS NULL);
CREATE POLICY memory_event_receipts ON memory_event AS RESTRICTIVE FOR INSERT TO reminiscence_eraser
    WITH CHECK (kind = 'memory.erased');
