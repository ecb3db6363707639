-- A memory has a time zone, as it has a language. Those that are there were written in UTC. said_on is the day of a chunk in
-- its memory's zone, where that is not the day in UTC.
ALTER TABLE active_memory ADD COLUMN timezone text NOT NULL DEFAULT 'UTC';
ALTER TABLE memory_chunk ADD COLUMN said_on date;
