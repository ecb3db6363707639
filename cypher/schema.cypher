// Constraints and indexes of the graph. Every entry begins with external_id: each query reaches its data by a seek
// within one tenant. Name keys are cut and hashed (`name_key`), because an entry holds some 8 kB at most.

// An entity has the label :Entity, and :ShorttermEntity or :LongtermEntity by its tier.
CREATE CONSTRAINT entity_id IF NOT EXISTS
FOR (e:Entity) REQUIRE (e.external_id, e.id) IS UNIQUE;

CREATE INDEX entity_type IF NOT EXISTS
FOR (e:Entity) ON (e.external_id, e.type);

// A name of an entity: in its compared form, once for each entity that has it.
CREATE CONSTRAINT entity_name_key IF NOT EXISTS
FOR (n:EntityName) REQUIRE (n.external_id, n.key, n.entity_id) IS UNIQUE;

CREATE INDEX entity_name_entity_id IF NOT EXISTS
FOR (n:EntityName) ON (n.external_id, n.entity_id);

// An entity that was merged into another one, entity_id, which represents it.
CREATE CONSTRAINT merged_entity_id IF NOT EXISTS
FOR (m:MergedEntity) REQUIRE (m.external_id, m.id) IS UNIQUE;

CREATE INDEX merged_entity_entity_id IF NOT EXISTS
FOR (m:MergedEntity) ON (m.external_id, m.entity_id);

CREATE CONSTRAINT relates_to_id IF NOT EXISTS
FOR ()-[r:RELATES_TO]-() REQUIRE (r.external_id, r.id) IS UNIQUE;

CREATE INDEX relates_to_type IF NOT EXISTS
FOR ()-[r:RELATES_TO]-() ON (r.external_id, r.type);

// An event that is a belief or that a belief names; a belief has the label :Belief too. What decides who sees a named event
// stands on the relationship that leads to it: :BASED_ON, :REPLACES or :CONTRADICTS.
CREATE CONSTRAINT ledger_event_id IF NOT EXISTS
FOR (e:LedgerEvent) REQUIRE (e.external_id, e.id) IS UNIQUE;

CREATE INDEX belief_id IF NOT EXISTS
FOR (b:Belief) ON (b.external_id, b.id);

// The stream position up to which a tenant's part of the graph has followed.
CREATE CONSTRAINT memory_stream_external_id IF NOT EXISTS
FOR (s:MemoryStream) REQUIRE s.external_id IS UNIQUE;

// One node that identifies this store: recreated or emptied, it is a different one.
CREATE CONSTRAINT graph_store_name IF NOT EXISTS
FOR (g:GraphStore) REQUIRE g.name IS UNIQUE;
