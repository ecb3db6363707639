-- A stream says that chunks of it lack vectors that could not be made: how many at the last attempt, since when, and why.
ALTER TABLE memory_stream
    ADD COLUMN vectors_missing bigint NOT NULL DEFAULT 0,
    ADD COLUMN vectors_missing_since timestamptz,
    ADD COLUMN vectors_error text;
CREATE INDEX memory_stream_vectors_missing_since_idx ON memory_stream (vectors_missing_since)
    WHERE vectors_missing_since IS NOT NULL;
GRANT SELECT (vectors_missing, vectors_missing_since, vectors_error) ON memory_stream TO reminiscence_scheduler;
