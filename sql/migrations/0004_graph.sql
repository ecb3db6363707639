-- The graph of entities and relationships, a projection like the tiers; and how far a store of graphs has followed it.

ALTER TABLE memory_stream ADD COLUMN graph_head bigint NOT NULL DEFAULT 0,
    ADD COLUMN graph_position bigint NOT NULL DEFAULT 0, ADD COLUMN graph_store text;

-- The graph: what memories name, and what stands beside what. An entity keeps its id for ever. Where two turn out to be one,
-- merged_into says so, and canonical_id is the one that speaks for all that were merged into it.
-- In all four tables, position is that of the event that changed the row last: whoever follows asks for what is newer.
CREATE TABLE entity (
    external_id text NOT NULL,
    entity_id uuid NOT NULL,
    tier text NOT NULL,
    name text NOT NULL,
    type text NOT NULL,
    description text,
    confidence double precision NOT NULL,
    importance double precision NOT NULL,
    first_seen timestamptz NOT NULL,
    last_seen timestamptz NOT NULL,
    metadata jsonb NOT NULL,
    shortterm_memory_id uuid NOT NULL,
    mentions integer NOT NULL,
    merged_into uuid,
    canonical_id uuid NOT NULL,
    position bigint NOT NULL,
    CONSTRAINT entity_pkey PRIMARY KEY (external_id, entity_id),
    CONSTRAINT entity_external_id_check CHECK (external_id <> ''),
    CONSTRAINT entity_tier_check CHECK (tier IN ('shortterm', 'longterm'))
) PARTITION BY HASH (external_id);
CREATE INDEX entity_canonical_id_idx ON entity (external_id, canonical_id);
CREATE INDEX entity_type_idx ON entity (external_id, type);
CREATE INDEX entity_position_idx ON entity (external_id, position);

-- What an entity has been called. The key is the name folded, cut and hashed where it is long: an index entry has a limit.
CREATE TABLE entity_name (
    external_id text NOT NULL,
    key text NOT NULL,
    entity_id uuid NOT NULL,
    name text NOT NULL,
    position bigint NOT NULL,
    CONSTRAINT entity_name_pkey PRIMARY KEY (external_id, key, entity_id),
    CONSTRAINT entity_name_external_id_check CHECK (external_id <> '')
) PARTITION BY HASH (external_id);
CREATE INDEX entity_name_entity_id_idx ON entity_name (external_id, entity_id);

-- Ends as they were stated, and as they are with all merges: from_id and to_id are canonical. An end_date that nobody stated
-- is that of the last passage that said it.
CREATE TABLE relationship (
    external_id text NOT NULL,
    relationship_id uuid NOT NULL,
    tier text NOT NULL,
    stated_from_id uuid NOT NULL,
    stated_to_id uuid NOT NULL,
    from_id uuid NOT NULL,
    to_id uuid NOT NULL,
    type text NOT NULL,
    description text,
    confidence double precision NOT NULL,
    importance double precision NOT NULL,
    observations integer NOT NULL,
    first_observed timestamptz NOT NULL,
    last_observed timestamptz NOT NULL,
    start_date timestamptz NOT NULL,
    end_date timestamptz,
    end_is_stated boolean NOT NULL,
    last_updated timestamptz NOT NULL,
    metadata jsonb NOT NULL,
    position bigint NOT NULL,
    CONSTRAINT relationship_pkey PRIMARY KEY (external_id, relationship_id),
    CONSTRAINT relationship_external_id_check CHECK (external_id <> ''),
    CONSTRAINT relationship_tier_check CHECK (tier IN ('shortterm', 'longterm'))
) PARTITION BY HASH (external_id);
-- The strongest first, so that of a name that knows everybody only the best are read.
CREATE INDEX relationship_from_id_idx ON relationship (external_id, from_id, observations DESC, relationship_id);
CREATE INDEX relationship_to_id_idx ON relationship (external_id, to_id, observations DESC, relationship_id);
CREATE INDEX relationship_stated_from_id_idx ON relationship (external_id, stated_from_id, stated_to_id);
CREATE INDEX relationship_type_idx ON relationship (external_id, type);
CREATE INDEX relationship_position_idx ON relationship (external_id, position);

-- Which chunk says it: item_id is an entity's or a relationship's id, as stated. A mention is live until its chunk ends; one
-- whose chunk repeats another stays so.
CREATE TABLE graph_mention (
    external_id text NOT NULL,
    item_id uuid NOT NULL,
    chunk_id uuid NOT NULL,
    is_live boolean NOT NULL,
    position bigint NOT NULL,
    CONSTRAINT graph_mention_pkey PRIMARY KEY (external_id, item_id, chunk_id),
    CONSTRAINT graph_mention_external_id_check CHECK (external_id <> '')
) PARTITION BY HASH (external_id);
CREATE INDEX graph_mention_chunk_id_idx ON graph_mention (external_id, chunk_id);

DO $partitions$
DECLARE
    parent text;
BEGIN
    FOREACH parent IN ARRAY ARRAY['entity', 'entity_name', 'relationship', 'graph_mention'] LOOP
        FOR remainder IN 0 .. {{chunk_partitions}} - 1 LOOP
            EXECUTE format(
                'CREATE TABLE %I PARTITION OF %I FOR VALUES WITH (MODULUS {{chunk_partitions}}, REMAINDER %s)',
                parent || '_p' || remainder, parent, remainder);
            EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY',
                parent || '_p' || remainder);
        END LOOP;
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', parent);
        EXECUTE format(
            'CREATE POLICY %I ON %I FOR ALL TO reminiscence_app, reminiscence_eraser'
            ' USING (external_id = current_setting(''reminiscence.external_id'', true))'
            ' WITH CHECK (external_id = current_setting(''reminiscence.external_id'', true))',
            parent || '_tenant', parent);
    END LOOP;
END
$partitions$;

DO $statistics$
DECLARE
    place record;
BEGIN
    FOR place IN
        SELECT t.name AS table_name, c.name AS column_name
        FROM (VALUES
            ('entity', '{name,type,description,metadata}'::text[]),
            ('entity_name', '{key,name}'),
            ('relationship', '{type,description,metadata}')
        ) AS t (name, columns)
        CROSS JOIN LATERAL unnest(t.columns) AS c (name)
    LOOP
        EXECUTE format('ALTER TABLE %I ALTER COLUMN %I SET STATISTICS 0', place.table_name, place.column_name);
    END LOOP;
END
$statistics$;

GRANT SELECT, INSERT, UPDATE, DELETE ON entity, entity_name, relationship, graph_mention
    TO reminiscence_app, reminiscence_eraser;
GRANT SELECT (graph_head, graph_position, graph_store) ON memory_stream TO reminiscence_scheduler;
-- What an erasure takes out of the graph has to reach the store that follows.
GRANT EXECUTE ON FUNCTION enqueue_work(timestamptz) TO reminiscence_eraser;
