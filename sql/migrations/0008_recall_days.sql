-- How many questions a tenant had answered each day, and how quickly: found says in how many of them the best hit fitted,
-- durations how many took how long, by the bounds in domain/usage.py. Soft state, outside verify.
CREATE TABLE recall_day (
    external_id text NOT NULL,
    day date NOT NULL,
    answered bigint NOT NULL,
    found bigint NOT NULL,
    durations bigint[] NOT NULL,
    CONSTRAINT recall_day_pkey PRIMARY KEY (external_id, day),
    CONSTRAINT recall_day_external_id_check CHECK (external_id <> '')
) PARTITION BY HASH (external_id);
DO $partitions$
BEGIN
    FOR remainder IN 0 .. {{chunk_partitions}} - 1 LOOP
        EXECUTE format(
            'CREATE TABLE %I PARTITION OF recall_day FOR VALUES WITH (MODULUS {{chunk_partitions}}, REMAINDER %s)',
            'recall_day_p' || remainder, remainder);
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', 'recall_day_p' || remainder);
    END LOOP;
END
$partitions$;
ALTER TABLE recall_day ALTER COLUMN external_id SET STATISTICS 0;
ALTER TABLE recall_day ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY recall_day_tenant ON recall_day FOR ALL TO reminiscence_app, reminiscence_eraser
    USING (external_id = current_setting('reminiscence.external_id', true))
    WITH CHECK (external_id = current_setting('reminiscence.external_id', true));
GRANT SELECT, INSERT, UPDATE, DELETE ON recall_day TO reminiscence_app, reminiscence_eraser;
