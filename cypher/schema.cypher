// Constraints and indexes of the graph, of which every entry begins with external_id: all that a query reaches, it reaches
// by a seek within one tenant. Keys of names are cut and hashed (`name_key`), for an entry holds some 8 kB at most.

// An entity carries :Entity, and :ShorttermEntity or :LongtermEntity as its tier says.
CREATE CONSTRAINT entity_id IF NOT EXISTS
FOR (e:Entity) REQUIRE (e.external_id, e.id) IS UNIQUE;

CREATE INDEX entity_type IF NOT EXISTS
FOR (e:Entity) ON (e.external_id, e.type);

// What an entity is called: a name in its compared form, once for each entity that has it.
CREATE CONSTRAINT entity_name_key IF NOT EXISTS
FOR (n:EntityName) REQUIRE (n.external_id, n.key, n.entity_id) IS UNIQUE;

CREATE INDEX entity_name_entity_id IF NOT EXISTS
FOR (n:EntityName) ON (n.external_id, n.entity_id);

// An entity that was merged into another, entity_id, which speaks for it.
CREATE CONSTRAINT merged_entity_id IF NOT EXISTS
FOR (m:MergedEntity) REQUIRE (m.external_id, m.id) IS UNIQUE;

CREATE INDEX merged_entity_entity_id IF NOT EXISTS
FOR (m:MergedEntity) ON (m.external_id, m.entity_id);

CREATE CONSTRAINT relates_to_id IF NOT EXISTS
FOR ()-[r:RELATES_TO]-() REQUIRE (r.external_id, r.id) IS UNIQUE;

CREATE INDEX relates_to_type IF NOT EXISTS
FOR ()-[r:RELATES_TO]-() ON (r.external_id, r.type);

// Up to which position of its stream a tenant's part of the graph has followed.
CREATE CONSTRAINT memory_stream_external_id IF NOT EXISTS
FOR (s:MemoryStream) REQUIRE s.external_id IS UNIQUE;

// One node that says which store this is: made anew, or emptied, it is another.
CREATE CONSTRAINT graph_store_name IF NOT EXISTS
FOR (g:GraphStore) REQUIRE g.name IS UNIQUE;
