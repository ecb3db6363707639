// Except for the first five, every query begins with $external_id and reaches its data by a seek within it. The hints
// enforce this: the planner counts all tenants together, by possibly old statistics, and would sometimes rather scan.
//
// Results come as one record with a list in it, and as lists of values instead of maps: the driver takes 0.1 ms for a
// record and several times as long for a map. Times are sent as text, because it takes 0.1 ms for each time value, too.

// name: identify_store
// The id of this store; created once.
MERGE (g:GraphStore {name: 'agent_reminiscence'})
ON CREATE SET g.id = randomUUID()
RETURN g.id AS id

// name: find_store
MATCH (g:GraphStore {name: 'agent_reminiscence'})
USING INDEX SEEK g:GraphStore(name)
RETURN g.id AS id

// name: await_indexes
CALL db.awaitIndexes($seconds)

// name: find_unowned_index
// What is left of a constraint whose creation broke off: it has the constraint's name and form, and no constraint owns it.
SHOW INDEXES YIELD name, labelsOrTypes, properties, owningConstraint
WHERE name = $name AND labelsOrTypes = [$label] AND properties = $properties AND owningConstraint IS NULL
RETURN name

// name: drop_index
DROP INDEX $name IF EXISTS

// name: lock_stream
// Others that follow the same stream wait here until this transaction ends.
MERGE (s:MemoryStream {external_id: $external_id})
SET s.locked_at = datetime()

// name: find_mark
// The position up to which the stream has followed, and who holds the lease; the time left is by this server's clock.
MATCH (s:MemoryStream {external_id: $external_id})
USING INDEX SEEK s:MemoryStream(external_id)
RETURN s.position AS position, s.chain AS chain, s.turn AS lease, toStringOrNull(s.turn_ends_at) AS lease_ends_at,
    (s.turn_ends_at.epochMillis - datetime().epochMillis) / 1000.0 AS lease_left_seconds

// name: set_position
// Ends a lease.
MATCH (s:MemoryStream {external_id: $external_id})
USING INDEX SEEK s:MemoryStream(external_id)
SET s.position = $position, s.chain = $chain
REMOVE s.turn, s.turn_ends_at

// name: renew_lease
// The properties keep the names that other processes, perhaps of an earlier release, read.
MATCH (s:MemoryStream {external_id: $external_id})
USING INDEX SEEK s:MemoryStream(external_id)
SET s.turn = $lease, s.turn_ends_at = datetime() + duration({milliseconds: $milliseconds})

// name: merge_entities
UNWIND $rows AS row
MERGE (e:Entity {external_id: $external_id, id: row.properties.id})
SET e = row.properties, e.first_seen = datetime(row.first_seen), e.last_seen = datetime(row.last_seen)
FOREACH (_ IN CASE row.tier WHEN 'longterm' THEN [1] ELSE [] END | SET e:LongtermEntity REMOVE e:ShorttermEntity)
FOREACH (_ IN CASE row.tier WHEN 'longterm' THEN [] ELSE [1] END | SET e:ShorttermEntity REMOVE e:LongtermEntity)

// name: delete_stale_names
// Names that entities no longer have.
UNWIND $rows AS row
MATCH (n:EntityName {external_id: $external_id, entity_id: row.id})
USING INDEX SEEK n:EntityName(external_id, entity_id)
WHERE NOT n.key IN row.keys
DELETE n

// name: merge_names
UNWIND $rows AS row
UNWIND row.keys AS key
MERGE (:EntityName {external_id: $external_id, key: key, entity_id: row.id})

// name: delete_stale_merges
// Of entities that represent themselves again.
UNWIND $rows AS row
MATCH (m:MergedEntity {external_id: $external_id, entity_id: row.id})
USING INDEX SEEK m:MergedEntity(external_id, entity_id)
WHERE NOT m.id IN row.merged_ids
DELETE m

// name: merge_merges
UNWIND $rows AS row
UNWIND row.merged_ids AS merged_id
MERGE (m:MergedEntity {external_id: $external_id, id: merged_id})
SET m.entity_id = row.id

// name: delete_moved_relationships
// An edge cannot change its ends; if a merge changed them, it is recreated.
UNWIND $rows AS row
MATCH (a)-[r:RELATES_TO {external_id: $external_id, id: row.id}]->(b)
USING INDEX SEEK r:RELATES_TO(external_id, id)
WHERE NOT coalesce(a.id = row.from_id AND b.id = row.to_id, false)
    OR NOT coalesce(a.external_id = $external_id AND b.external_id = $external_id, false)
DELETE r

// name: merge_relationships
// Those whose ends are not both here are left out, and are missing from the count.
UNWIND $rows AS row
MATCH (a:Entity {external_id: $external_id, id: row.from_id})
USING INDEX SEEK a:Entity(external_id, id)
MATCH (b:Entity {external_id: $external_id, id: row.to_id})
USING INDEX SEEK b:Entity(external_id, id)
MERGE (a)-[r:RELATES_TO {external_id: $external_id, id: row.properties.id}]->(b)
SET r = row.properties,
    r.first_observed = datetime(row.first_observed),
    r.last_observed = datetime(row.last_observed),
    r.start_date = datetime(row.start_date),
    r.end_date = datetime(row.end_date),
    r.last_updated = datetime(row.last_updated)
RETURN count(r) AS merged

// name: delete_relationships
UNWIND $ids AS id
MATCH ()-[r:RELATES_TO {external_id: $external_id, id: id}]->()
USING INDEX SEEK r:RELATES_TO(external_id, id)
DELETE r

// name: delete_entities
UNWIND $ids AS id
MATCH (e:Entity {external_id: $external_id, id: id})
USING INDEX SEEK e:Entity(external_id, id)
DETACH DELETE e

// name: delete_names_of
UNWIND $ids AS id
MATCH (n:EntityName {external_id: $external_id, entity_id: id})
USING INDEX SEEK n:EntityName(external_id, entity_id)
DELETE n

// name: delete_merges_of
UNWIND $ids AS id
MATCH (m:MergedEntity {external_id: $external_id, entity_id: id})
USING INDEX SEEK m:MergedEntity(external_id, entity_id)
DELETE m

// name: merge_beliefs
UNWIND $rows AS row
MERGE (b:LedgerEvent {external_id: $external_id, id: row.id})
SET b:Belief, b = row.properties

// name: merge_named_events
// Of beliefs that have no links yet. What they name may be a belief that comes later, or no event at all.
UNWIND $rows AS row
MATCH (b:Belief {external_id: $external_id, id: row.id})
USING INDEX SEEK b:Belief(external_id, id)
UNWIND row.named AS named
MERGE (e:LedgerEvent {external_id: $external_id, id: named.id})
FOREACH (_ IN CASE named.link WHEN 'based_on' THEN [1] ELSE [] END |
    CREATE (b)-[r:BASED_ON]->(e) SET r = named.properties, r.external_id = $external_id)
FOREACH (_ IN CASE named.link WHEN 'contradicts' THEN [1] ELSE [] END |
    CREATE (b)-[r:CONTRADICTS]->(e) SET r = named.properties, r.external_id = $external_id)
FOREACH (_ IN CASE named.link WHEN 'replaces' THEN [1] ELSE [] END |
    CREATE (b)-[r:REPLACES]->(e) SET r = named.properties, r.external_id = $external_id)

// name: delete_links_of_beliefs
UNWIND $ids AS id
MATCH (b:LedgerEvent {external_id: $external_id, id: id})
USING INDEX SEEK b:LedgerEvent(external_id, id)
MATCH (b)-[r:BASED_ON|REPLACES|CONTRADICTS {external_id: $external_id}]->()
DELETE r

// name: delete_beliefs
// Those that others name stay as events.
UNWIND $ids AS id
MATCH (b:Belief {external_id: $external_id, id: id})
USING INDEX SEEK b:Belief(external_id, id)
REMOVE b:Belief
SET b = {external_id: $external_id, id: id}

// name: delete_unnamed_events
UNWIND $ids AS id
MATCH (e:LedgerEvent {external_id: $external_id, id: id})
USING INDEX SEEK e:LedgerEvent(external_id, id)
WHERE NOT e:Belief AND NOT EXISTS { (e)<-[{external_id: $external_id}]-() }
DETACH DELETE e

// name: erase_relationships
// In batches: a transaction that deletes a whole tenant would have to fit the server's memory.
MATCH ()-[r:RELATES_TO]->()
USING INDEX SEEK r:RELATES_TO(external_id, id)
WHERE r.external_id = $external_id AND r.id > ''
WITH r LIMIT $limit
DELETE r
RETURN count(*) AS deleted

// name: erase_entities
MATCH (e:Entity)
USING INDEX SEEK e:Entity(external_id, id)
WHERE e.external_id = $external_id AND e.id > ''
WITH e LIMIT $limit
DETACH DELETE e
RETURN count(*) AS deleted

// name: erase_names
MATCH (n:EntityName)
USING INDEX SEEK n:EntityName(external_id, entity_id)
WHERE n.external_id = $external_id AND n.entity_id > ''
WITH n LIMIT $limit
DELETE n
RETURN count(*) AS deleted

// name: erase_merges
MATCH (m:MergedEntity)
USING INDEX SEEK m:MergedEntity(external_id, id)
WHERE m.external_id = $external_id AND m.id > ''
WITH m LIMIT $limit
DELETE m
RETURN count(*) AS deleted

// name: erase_beliefs
MATCH (e:LedgerEvent)
USING INDEX SEEK e:LedgerEvent(external_id, id)
WHERE e.external_id = $external_id AND e.id > ''
WITH e LIMIT $limit
DETACH DELETE e
RETURN count(*) AS deleted

// name: erase_stream
MATCH (s:MemoryStream {external_id: $external_id})
USING INDEX SEEK s:MemoryStream(external_id)
DELETE s

// name: find_canonical_ids
// Of entities, and of those that others were merged into.
UNWIND $ids AS given
OPTIONAL MATCH (m:MergedEntity {external_id: $external_id, id: given})
USING INDEX SEEK m:MergedEntity(external_id, id)
WITH coalesce(m.entity_id, given) AS id
MATCH (e:Entity {external_id: $external_id, id: id})
USING INDEX SEEK e:Entity(external_id, id)
RETURN collect(DISTINCT e.id) AS ids

// name: find_ids_by_key
// Of entities that have, or had, this name.
UNWIND $keys AS key
MATCH (n:EntityName)
USING INDEX SEEK n:EntityName(external_id, key, entity_id)
WHERE n.external_id = $external_id AND n.key = key AND n.entity_id > ''
RETURN collect(DISTINCT n.entity_id) AS ids

// name: find_ids_by_type
MATCH (e:Entity)
USING INDEX SEEK e:Entity(external_id, type)
WHERE e.external_id = $external_id AND e.type IN $types
WITH e ORDER BY e.mentions DESC, e.id LIMIT $limit
RETURN collect(e.id) AS ids

// name: find_all_ids
MATCH (e:Entity)
USING INDEX SEEK e:Entity(external_id, id)
WHERE e.external_id = $external_id AND e.id > ''
WITH e ORDER BY e.mentions DESC, e.id LIMIT $limit
RETURN collect(e.id) AS ids

// name: page_entity_ids
// In index order, so that no page reads those after it.
MATCH (e:Entity)
USING INDEX SEEK e:Entity(external_id, id)
WHERE e.external_id = $external_id AND e.id > $after
WITH e ORDER BY e.external_id, e.id LIMIT $limit
RETURN collect(e.id) AS ids

// name: page_relationship_ids
MATCH ()-[r:RELATES_TO]->()
USING INDEX SEEK r:RELATES_TO(external_id, id)
WHERE r.external_id = $external_id AND r.id > $after
WITH r ORDER BY r.external_id, r.id LIMIT $limit
RETURN collect(r.id) AS ids

// name: read_entities
// States, most mentions first.
MATCH (e:Entity)
USING INDEX SEEK e:Entity(external_id, id)
WHERE e.external_id = $external_id AND e.id IN $ids AND ($types IS NULL OR e.type IN $types)
WITH e ORDER BY e.mentions DESC, e.id LIMIT $limit
RETURN collect([
    e.id, e.external_id, CASE WHEN e:LongtermEntity THEN 'longterm' ELSE 'shortterm' END, e.name, e.type, e.description,
    e.confidence, e.importance, toStringOrNull(e.first_seen), toStringOrNull(e.last_seen), e.aliases, e.merged_ids, e.metadata,
    e.shortterm_memory_id, e.mentions, e.chunk_ids, e.positions
]) AS states

// name: read_names_of
// The names and the ids of merged entities by which entities are found.
UNWIND $ids AS id
WITH id,
    COLLECT {
        MATCH (n:EntityName {external_id: $external_id, entity_id: id})
        USING INDEX SEEK n:EntityName(external_id, entity_id)
        RETURN n.key
    } AS keys,
    COLLECT {
        MATCH (m:MergedEntity {external_id: $external_id, entity_id: id})
        USING INDEX SEEK m:MergedEntity(external_id, entity_id)
        RETURN m.id
    } AS merged_ids
WHERE size(keys) > 0 OR size(merged_ids) > 0
RETURN collect([id, keys, merged_ids]) AS held

// name: page_stray_ids
// Of entities that do not exist here, although names or merged ids still lead to them.
CALL () {
    MATCH (n:EntityName)
    USING INDEX SEEK n:EntityName(external_id, entity_id)
    WHERE n.external_id = $external_id AND n.entity_id > $after
    RETURN n.entity_id AS id
    UNION
    MATCH (m:MergedEntity)
    USING INDEX SEEK m:MergedEntity(external_id, entity_id)
    WHERE m.external_id = $external_id AND m.entity_id > $after
    RETURN m.entity_id AS id
}
WITH id
WHERE NOT EXISTS {
    MATCH (e:Entity {external_id: $external_id, id: id})
    USING INDEX SEEK e:Entity(external_id, id)
}
WITH id ORDER BY id LIMIT $limit
RETURN collect(id) AS ids

// name: read_relationships
// States, strongest first.
MATCH (a)-[r:RELATES_TO]->(b)
USING INDEX SEEK r:RELATES_TO(external_id, id)
WHERE r.external_id = $external_id AND r.id IN $ids AND a.external_id = $external_id AND b.external_id = $external_id
WITH a, r, b ORDER BY r.observations DESC, r.id LIMIT $limit
RETURN collect([
    r.id, r.external_id, r.tier, a.id, b.id, r.type, r.description, r.confidence, r.strength, r.importance,
    r.observations, toStringOrNull(r.first_observed), toStringOrNull(r.last_observed), toStringOrNull(r.start_date), toStringOrNull(r.end_date),
    toStringOrNull(r.last_updated), r.metadata, r.chunk_ids, r.positions
]) AS states

// part: named
// What a belief b names with links r of one type, in the order in which it does.
WHERE r.external_id = $external_id AND e.external_id = $external_id
WITH r, e ORDER BY r.place
RETURN [e.id, r.position, r.kind, r.actor]

// name: read_beliefs
// A page of beliefs with what they name, by id.
MATCH (b:Belief)
USING INDEX SEEK b:Belief(external_id, id)
WHERE b.external_id = $external_id AND b.id > $after
WITH b ORDER BY b.external_id, b.id LIMIT $limit
RETURN collect([
    b.id, b.external_id, b.position, b.actor, b.text, b.turn,
    COLLECT { MATCH (b)-[r:BASED_ON]->(e:LedgerEvent) {include named} },
    head(COLLECT { MATCH (b)-[r:REPLACES]->(e:LedgerEvent) {include named} }),
    COLLECT { MATCH (b)-[r:CONTRADICTS]->(e:LedgerEvent) {include named} }
]) AS states

// name: page_unnamed_ids
// Of events that are no beliefs, and that no belief names any more.
MATCH (e:LedgerEvent)
USING INDEX SEEK e:LedgerEvent(external_id, id)
WHERE e.external_id = $external_id AND e.id > $after AND NOT e:Belief AND NOT EXISTS { (e)<-[{external_id: $external_id}]-() }
WITH e ORDER BY e.external_id, e.id LIMIT $limit
RETURN collect(e.id) AS ids

// name: find_names
// The keys of all names, those of the entities with most mentions first.
MATCH (e:Entity)
USING INDEX SEEK e:Entity(external_id, id)
WHERE e.external_id = $external_id AND e.id > '' AND ($types IS NULL OR e.type IN $types)
MATCH (n:EntityName {external_id: $external_id, entity_id: e.id})
USING INDEX SEEK n:EntityName(external_id, entity_id)
WITH e, n ORDER BY e.mentions DESC, e.id, n.key LIMIT $limit
RETURN collect([e.id, n.key, e.mentions]) AS names

// part: fits
// Whether a relationship r matches the filter.
r.external_id = $external_id
AND ($relationship_types IS NULL OR r.type IN $relationship_types)
AND r.confidence >= $min_confidence
AND r.start_date <= $starts_by
AND (r.end_date IS NULL OR r.end_date > $ends_after)

// part: strongest_among
// The strongest relationships between any two of some entities; $ids may narrow them down.
MATCH (a:Entity)
USING INDEX SEEK a:Entity(external_id, id)
WHERE a.external_id = $external_id AND a.id IN $entity_ids
MATCH (a)-[r:RELATES_TO]->(b)
WHERE b.external_id = $external_id AND b.id IN $entity_ids
    AND r.external_id = $external_id AND ($ids IS NULL OR r.id IN $ids) AND ($with_any OR ({include fits}))
WITH a, r, b ORDER BY r.observations DESC, r.id LIMIT $limit

// name: find_ids_among
{include strongest_among}
RETURN collect(r.id) AS ids

// name: outline
// Some entities, most mentions first, and the strongest relationships between them, reduced to what ranking needs.
CALL () {
    MATCH (e:Entity)
    USING INDEX SEEK e:Entity(external_id, id)
    WHERE e.external_id = $external_id AND e.id IN $entity_ids
    WITH e ORDER BY e.mentions DESC, e.id
    RETURN collect([e.id, e.mentions]) AS entities
}
CALL () {
    {include strongest_among}
    RETURN collect([r.id, a.id, b.id, r.strength]) AS relationships
}
RETURN entities, relationships

// name: hop
// One hop from some entities along their strongest relationships: new entities, those with the strongest relationships
// first, and whether one of them has more relationships than are followed.
UNWIND $ids AS id
MATCH (e:Entity {external_id: $external_id, id: id})
USING INDEX SEEK e:Entity(external_id, id)
CALL (e) {
    MATCH (e)-[r:RELATES_TO]-(other)
    WHERE other.external_id = $external_id AND {include fits}
    WITH r, other ORDER BY r.observations DESC, r.id LIMIT $fan_out + 1
    RETURN collect({id: other.id, observations: r.observations}) AS edges
}
WITH collect(edges) AS followed
CALL (followed) {
    UNWIND followed AS edges
    UNWIND edges[..$fan_out] AS edge
    WITH edge.id AS id, max(edge.observations) AS observations
    WHERE NOT id IN $seen
    ORDER BY observations DESC, id LIMIT $limit
    RETURN collect(id) AS ids
}
RETURN ids, any(edges IN followed WHERE size(edges) > $fan_out) AS is_cut

// name: find_shortest_path
// The shortest path whose ids come first. At most this many are compared: two names that everybody knows may have any
// number of paths between them.
MATCH (a:Entity {external_id: $external_id, id: $from_id})
USING INDEX SEEK a:Entity(external_id, id)
MATCH (b:Entity {external_id: $external_id, id: $to_id})
USING INDEX SEEK b:Entity(external_id, id)
MATCH way = allShortestPaths((a)-[:RELATES_TO*..{max_hops}]-(b))
WHERE all(r IN relationships(way) WHERE {include fits})
    AND all(e IN nodes(way) WHERE e.external_id = $external_id)
WITH way LIMIT 10000
WITH [e IN nodes(way) | e.id] AS ids
RETURN ids ORDER BY ids LIMIT 1

// name: find_strongest
// Between each entity of a path and the next one.
UNWIND range(0, size($ids) - 2) AS place
MATCH (a:Entity {external_id: $external_id, id: $ids[place]})
USING INDEX SEEK a:Entity(external_id, id)
MATCH (b:Entity {external_id: $external_id, id: $ids[place + 1]})
USING INDEX SEEK b:Entity(external_id, id)
CALL (a, b) {
    MATCH (a)-[r:RELATES_TO]-(b)
    WHERE {include fits}
    RETURN r.id AS id ORDER BY r.observations DESC, r.id LIMIT 1
}
WITH place, id ORDER BY place
RETURN collect(id) AS ids

// name: match_any
MATCH (a)-[r:RELATES_TO]->(b)
USING INDEX SEEK r:RELATES_TO(external_id, id)
WHERE r.external_id = $external_id AND r.id > '' AND {include matches}

// name: match_of_type
MATCH (a)-[r:RELATES_TO]->(b)
USING INDEX SEEK r:RELATES_TO(external_id, type)
WHERE r.external_id = $external_id AND r.type = $relationship_type AND {include matches}

// name: match_from
MATCH (a:Entity)
USING INDEX SEEK a:Entity(external_id, id)
WHERE a.external_id = $external_id AND a.id IN $from_ids
MATCH (a)-[r:RELATES_TO]->(b)
WHERE r.external_id = $external_id AND {include matches}

// name: match_to
MATCH (b:Entity)
USING INDEX SEEK b:Entity(external_id, id)
WHERE b.external_id = $external_id AND b.id IN $to_ids
MATCH (b)<-[r:RELATES_TO]-(a)
WHERE r.external_id = $external_id AND {include matches}

// part: matches
// Whether a relationship and its ends match a pattern, and the strongest of those that do.
a.external_id = $external_id AND b.external_id = $external_id
    AND ($from_ids IS NULL OR a.id IN $from_ids)
    AND ($to_ids IS NULL OR b.id IN $to_ids)
    AND ($relationship_type IS NULL OR r.type = $relationship_type)
    AND ($from_type IS NULL OR a.type = $from_type)
    AND ($to_type IS NULL OR b.type = $to_type)
    AND all(fact IN $from_facts WHERE fact IN a.metadata_facts)
    AND all(fact IN $relationship_facts WHERE fact IN r.metadata_facts)
    AND all(fact IN $to_facts WHERE fact IN b.metadata_facts)
    AND {include fits}
WITH a, r, b ORDER BY r.observations DESC, r.id LIMIT $limit
RETURN collect([r.id, a.id, b.id, r.observations]) AS matched
