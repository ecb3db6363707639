-- What a user wishes for good has a flag of 64, and few rows have. The flag is a column, too, so that the planner, which keeps
-- no samples, expects few of a tenant.
CREATE INDEX memory_chunk_standing_idx ON memory_chunk (external_id, (text_flags & 64), number) WHERE text_flags & 64 = 64;

-- What is pinned is shown whatever is asked.
ALTER TABLE active_memory ADD COLUMN pinned boolean NOT NULL DEFAULT false;
CREATE INDEX active_memory_pinned_idx ON active_memory (external_id, pinned, memory_id) WHERE pinned AND archived_at IS NULL;
