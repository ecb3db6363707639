-- Facts: what a model concludes from chunks is a row beside them, and names the chunks that it rests on. A passage of a text
-- has NULL there.
ALTER TABLE memory_chunk ADD COLUMN derived_from uuid[];
-- Few rows are facts, and a memory may have very many chunks.
CREATE INDEX memory_chunk_facts_idx ON memory_chunk (external_id, memory_id) WHERE derived_from IS NOT NULL;
-- What a model holds a chunk for, which later consolidations of its memory go on with; NULL where none has read it.
ALTER TABLE memory_chunk ADD COLUMN estimate double precision;
