-- What a user wishes for good has a flag of 64, and few rows have. The flag is a column, too, so that the planner, which keeps
-- no samples, expects few of a tenant.
CREATE INDEX memory_chunk_standing_idx ON memory_chunk (external_id, (text_flags & 64), number) WHERE text_flags & 64 = 64;
