-- The whole current schema, run as reminiscence_owner with search_path = reminiscence and the extension's schema.
-- The migrations, applied in order, give the same; a test compares the two.
-- {{chunk_partitions}}, {{embedding_dimension}} and what Procrastinate brings are rendered before it is run.
--
-- Every table of memory is hash-partitioned by external_id, which leads every key: a statement that names it
-- touches one partition, and the same schema distributes over several machines. Most databases need but one partition.

-- What is applied here, with what parameters.
CREATE TABLE schema_migration (
    version integer PRIMARY KEY,
    name text NOT NULL,
    checksum bytea NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE schema_parameter (
    name text PRIMARY KEY,
    value text NOT NULL
);
-- The key of the names under which streams are announced to their subscribers: who cannot read it can neither tell whose
-- stream a name is nor check a guess.
INSERT INTO schema_parameter (name, value)
VALUES ('announcement_key', replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''));

-- The generations of vectors: which embedder makes those of chunk_vector_<generation>, and how far a generation is. One is
-- being built, searches use the current one, a retired one is kept true until it is dropped. provider and model are what the
-- library makes the embedder from where a process was not given it; NULL is an embedder of the user's own.
CREATE TABLE embedding_generation (
    generation integer PRIMARY KEY,
    model_name text NOT NULL,
    dimension integer NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    state text NOT NULL,
    state_since timestamptz NOT NULL DEFAULT clock_timestamp(),
    provider text,
    model text,
    CONSTRAINT embedding_generation_state_check CHECK (state IN ('building', 'current', 'retired', 'dropped'))
);
CREATE UNIQUE INDEX embedding_generation_current_idx ON embedding_generation (state) WHERE state = 'current';
CREATE UNIQUE INDEX embedding_generation_building_idx ON embedding_generation (state) WHERE state = 'building';

-- Keys of the server: who may do what for whom. A key itself is not stored: secret_hash is the SHA-256 of its text, of which 256
-- bits are random. No role of the application has a right here: the owner creates, lists and revokes keys, and
-- check_access_key below answers for one hash. external_id is whom a key acts for; the key of a backend that names a tenant
-- in each request has none. also_reads names further memories that it may ask beside that one, and only ask. A key is no memory: an erasure leaves it.
CREATE TABLE access_key (
    id uuid NOT NULL,
    secret_hash bytea NOT NULL,
    external_id text,
    scopes text[] NOT NULL,
    label text,
    requests_per_minute integer,
    requests_per_day integer,
    counted_on date,
    counted bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz,
    revoked_at timestamptz,
    last_used_at timestamptz,
    also_reads text[] NOT NULL DEFAULT '{}',
    CONSTRAINT access_key_pkey PRIMARY KEY (id),
    CONSTRAINT access_key_secret_hash_key UNIQUE (secret_hash),
    CONSTRAINT access_key_secret_hash_check CHECK (octet_length(secret_hash) = 32),
    CONSTRAINT access_key_external_id_check CHECK (external_id <> ''),
    CONSTRAINT access_key_scopes_check CHECK (
        scopes <> '{}'
        AND scopes <@ ARRAY['memory:read', 'memory:write', 'memory:erase', 'memory:admin', 'memory:delegate']
    ),
    CONSTRAINT access_key_delegate_check CHECK ((external_id IS NULL) = ('memory:delegate' = ANY (scopes))),
    CONSTRAINT access_key_requests_per_minute_check CHECK (requests_per_minute > 0),
    CONSTRAINT access_key_requests_per_day_check CHECK (requests_per_day > 0),
    CONSTRAINT access_key_also_reads_check CHECK (
        also_reads = '{}' OR external_id IS NOT NULL AND external_id <> ALL (also_reads) AND cardinality(also_reads) < 16
    )
);

-- One row per external_id: the head of its stream. Locking it orders the writers of one stream; writers of
-- different streams never meet. live_chunks counts what a search may find now; text_chunks and text_words count the chunks
-- of all layouts and their terms, each with its heading's; languages are those that memories were indexed in.
-- work_at, review_at and all that begins with failed_ are no projections: since when something is due (NULL: nothing is), when
-- a worker is to look at the stream though nothing is, how often in a row its work has failed, why, and since when it is not
-- tried again by itself. Nor is what begins with graph_: the last event that changed the graph, up to which a store of graphs
-- has followed (-1: it is to compare everything), and which store that is. Nor is reader: who is asking a model to read new
-- passages of the stream, and until when that holds unless it is renewed.
CREATE TABLE memory_stream (
    external_id text NOT NULL,
    head bigint NOT NULL DEFAULT 0,
    chain bytea NOT NULL DEFAULT '\x',
    last_recorded_at timestamptz NOT NULL DEFAULT '-infinity',
    due_at timestamptz,
    live_chunks bigint NOT NULL DEFAULT 0,
    text_chunks bigint NOT NULL DEFAULT 0,
    text_words bigint NOT NULL DEFAULT 0,
    languages text[] NOT NULL DEFAULT '{}',
    work_at timestamptz,
    review_at timestamptz,
    failed_attempts integer NOT NULL DEFAULT 0,
    failed_error text,
    failed_at timestamptz,
    graph_head bigint NOT NULL DEFAULT 0,
    graph_position bigint NOT NULL DEFAULT 0,
    graph_store text,
    reader uuid,
    reader_until timestamptz,
    vectors_missing bigint NOT NULL DEFAULT 0,
    vectors_missing_since timestamptz,
    vectors_error text,
    CONSTRAINT memory_stream_pkey PRIMARY KEY (external_id),
    CONSTRAINT memory_stream_external_id_check CHECK (external_id <> '')
) PARTITION BY HASH (external_id);
CREATE INDEX memory_stream_work_at_idx ON memory_stream (work_at) WHERE work_at IS NOT NULL;
CREATE INDEX memory_stream_review_at_idx ON memory_stream (review_at) WHERE review_at IS NOT NULL;
CREATE INDEX memory_stream_vectors_missing_since_idx ON memory_stream (vectors_missing_since)
    WHERE vectors_missing_since IS NOT NULL;

-- The ledger: append-only, the truth of which every table below is a projection.
-- memory_id follows from the payload, in events of our own kinds: what a user's event calls memory_id may be anything. It is
-- a column because row security keeps a condition on payload ->> 'memory_id' from using an index: ->> is not leakproof.
CREATE TABLE memory_event (
    external_id text NOT NULL,
    position bigint NOT NULL,
    event_id uuid NOT NULL,
    kind text NOT NULL,
    actor text,
    conversation_id text,
    turn integer,
    occurred_at timestamptz NOT NULL,
    recorded_at timestamptz NOT NULL,
    source text NOT NULL,
    payload jsonb NOT NULL,
    idempotency_key text,
    request_hash bytea,
    salt bytea,
    digest bytea NOT NULL,
    chain bytea NOT NULL,
    memory_id text COLLATE "C" GENERATED ALWAYS AS (
        CASE WHEN starts_with(kind, 'memory.') THEN payload ->> 'memory_id' END
    ) STORED,
    CONSTRAINT memory_event_pkey PRIMARY KEY (external_id, position),
    CONSTRAINT memory_event_external_id_check CHECK (external_id <> ''),
    CONSTRAINT memory_event_position_check CHECK (position > 0),
    CONSTRAINT memory_event_source_check CHECK (source IN ('user', 'agent', 'tool', 'import', 'model'))
) PARTITION BY HASH (external_id);
CREATE UNIQUE INDEX memory_event_event_id_key ON memory_event (external_id, event_id) WHERE event_id IS NOT NULL;
CREATE UNIQUE INDEX memory_event_idempotency_key_key ON memory_event (external_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX memory_event_memory_id_idx ON memory_event (external_id, memory_id, position) WHERE memory_id IS NOT NULL;
-- An agent's last reflection, and when a model was last asked for one.
CREATE INDEX memory_event_reflection_idx ON memory_event (external_id, kind, actor, position)
    WHERE kind IN ('agent.reflected', 'memory.model_asked');
-- What a conversation led to, from its end.
CREATE INDEX memory_event_conversation_idx ON memory_event (external_id, conversation_id, position)
    WHERE conversation_id IS NOT NULL AND position > 0;
-- Its events of one kind, which may be few among many, and the last of a kind in each conversation. Statements that look for
-- these do not say `position > 0`, which is always true: the planner often holds the index above for as good.
CREATE INDEX memory_event_kind_idx ON memory_event (external_id, kind, conversation_id, position)
    WHERE conversation_id IS NOT NULL;

-- Whole texts being worked on. chunk_ids and chunk_starts lay out the live chunks over the content in order,
-- so an edit in the middle moves the spans after it without touching those chunks' rows. A consolidation is due
-- while due_version is above consolidated_version. text_version is the version that last wrote the whole text; later ones
-- only appended to it. What was appended to a text of 32 chunks or more stands in memory_segment; segments counts its rows.
-- key is the caller's own name for the memory; among those not archived,
-- no other memory has it. COLLATE "C" orders keys by code point, so that those with a common prefix are one range.
-- What is pinned is shown whatever is asked. From expires_at on, whatever the clock of whoever asks says, nothing finds the
-- memory; expired_at is when an event recorded that, which also ended its chunks. had_expiry says whether any version had an
-- expires_at: only of these do questions about the past look it up in the ledger.
CREATE TABLE active_memory (
    external_id text NOT NULL,
    memory_id uuid NOT NULL,
    key text COLLATE "C",
    version integer NOT NULL,
    title text NOT NULL,
    content text NOT NULL,
    description text,
    metadata jsonb NOT NULL,
    language text NOT NULL,
    language_origin text NOT NULL,
    source text NOT NULL,
    actor text,
    conversation_id text,
    occurred_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    archived_at timestamptz,
    consolidated_version integer NOT NULL,
    due_version integer NOT NULL,
    text_version integer NOT NULL,
    segments integer NOT NULL,
    chunk_ids uuid[] NOT NULL,
    chunk_starts integer[] NOT NULL,
    pinned boolean NOT NULL DEFAULT false,
    expires_at timestamptz,
    expired_at timestamptz,
    had_expiry boolean NOT NULL DEFAULT false,
    timezone text NOT NULL DEFAULT 'UTC',
    CONSTRAINT active_memory_pkey PRIMARY KEY (external_id, memory_id),
    CONSTRAINT active_memory_language_origin_check CHECK (language_origin IN ('chosen', 'recognised', 'default')),
    CONSTRAINT active_memory_external_id_check CHECK (external_id <> '')
) PARTITION BY HASH (external_id);
CREATE INDEX active_memory_not_archived_idx ON active_memory (external_id, created_at, memory_id) WHERE archived_at IS NULL;
CREATE UNIQUE INDEX active_memory_key_key ON active_memory (external_id, key) WHERE archived_at IS NULL AND key IS NOT NULL;
CREATE INDEX active_memory_conversation_id_idx ON active_memory (external_id, conversation_id)
    WHERE conversation_id IS NOT NULL;
CREATE INDEX active_memory_pinned_idx ON active_memory (external_id, pinned, memory_id) WHERE pinned AND archived_at IS NULL;
CREATE INDEX active_memory_expires_at_idx ON active_memory (external_id, expires_at)
    WHERE expires_at IS NOT NULL AND expired_at IS NULL;
CREATE INDEX active_memory_had_expiry_idx ON active_memory (external_id, had_expiry) WHERE had_expiry;
-- Archived memories as well.
CREATE INDEX active_memory_key_idx ON active_memory (external_id, key) WHERE key IS NOT NULL;

-- How a long text goes on: its parts after the one in active_memory, numbered from 1 in the order of the text. An append
-- writes the last one only, or a new one once that has 32 chunks, so that it costs the same however long the text is. Spans
-- count from the text's beginning. first_character and first_chunk are how many of each stand before; metadata holds the
-- segment's turns. An update with a new text puts all of it into active_memory again.
CREATE TABLE memory_segment (
    external_id text NOT NULL,
    memory_id uuid NOT NULL,
    segment integer NOT NULL,
    first_character integer NOT NULL,
    first_chunk integer NOT NULL,
    content text NOT NULL,
    metadata jsonb NOT NULL,
    chunk_ids uuid[] NOT NULL,
    chunk_starts integer[] NOT NULL,
    CONSTRAINT memory_segment_pkey PRIMARY KEY (external_id, memory_id, segment),
    CONSTRAINT memory_segment_segment_check CHECK (segment > 0),
    CONSTRAINT memory_segment_external_id_check CHECK (external_id <> '')
) PARTITION BY HASH (external_id);

-- Which turns a memory's text has, by the ids that callers gave them, so that a turn is not appended twice. scope is what an
-- id is unique in: the memory, or the conversation that it belongs to, as a hash of the beginning of its key.
CREATE TABLE memory_turn (
    external_id text NOT NULL,
    scope uuid NOT NULL,
    turn_id text COLLATE "C" NOT NULL,
    memory_id uuid NOT NULL,
    CONSTRAINT memory_turn_pkey PRIMARY KEY (external_id, scope, turn_id, memory_id),
    CONSTRAINT memory_turn_external_id_check CHECK (external_id <> '')
) PARTITION BY HASH (external_id);
CREATE INDEX memory_turn_memory_id_idx ON memory_turn (external_id, memory_id) WHERE memory_id IS NOT NULL;

-- What a consolidation made of an active memory; its chunks are those with the same memory_id.
CREATE TABLE shortterm_memory (
    external_id text NOT NULL,
    memory_id uuid NOT NULL,
    version integer NOT NULL,
    title text NOT NULL,
    summary text NOT NULL,
    last_updated timestamptz NOT NULL,
    CONSTRAINT shortterm_memory_pkey PRIMARY KEY (external_id, memory_id),
    CONSTRAINT shortterm_memory_external_id_check CHECK (external_id <> '')
) PARTITION BY HASH (external_id);

-- The chunks of all tiers: one table gives one ranking, and a promotion changes a row's tier instead of
-- copying it. A row is never deleted by an update: superseded_at says when we learned of its end, end_date
-- when it ended in the world. Order and spans are those of the version that the chunk came in with; a live
-- chunk's own are in active_memory. A chunk that repeats another has ended too, and lives again when that one ends.
-- Where a later update turned out to be true from before the end that was known, the earlier end stands in
-- corrected_end_dates and when we learned of it in corrected_at; each is earlier than the one before.
-- The end that a fact was stated with stands there first, once another event has ended it.
-- said_at is when most of its words were first said, if that was before start_date: an edit of one line makes a new chunk of
-- what stands around it. Where its lines have several dates, said_starts are the characters from which on said_dates hold.
-- estimate is what a model holds a chunk for; importance rests on it, too.
-- A row with derived_from is a fact: no passage of the text, but what a model has concluded from those chunks of it. It ends
-- when one of them leaves the text, or is contradicted.
-- number names the chunk in the index below: the position of the event that brought it in, times 2^20, plus its place among
-- that event's chunks. words is how many terms its text has, text_flags what the text is (a question, speaks of time, …),
-- text_hash the SHA-256 of what is embedded.
CREATE TABLE memory_chunk (
    external_id text NOT NULL,
    chunk_id uuid NOT NULL,
    number bigint NOT NULL,
    memory_id uuid NOT NULL,
    memory_version integer NOT NULL,
    chunk_order integer NOT NULL,
    span_start integer NOT NULL,
    span_end integer NOT NULL,
    tier text NOT NULL,
    content text NOT NULL,
    folded_hash bytea NOT NULL,
    text_hash bytea NOT NULL,
    speaker text,
    speaker_key text,
    metadata jsonb NOT NULL,
    words integer NOT NULL,
    text_flags smallint NOT NULL,
    source text NOT NULL,
    importance double precision NOT NULL,
    confidence double precision NOT NULL,
    start_date timestamptz NOT NULL,
    end_date timestamptz,
    said_at timestamptz,
    said_starts integer[],
    said_dates timestamptz[],
    recorded_at timestamptz NOT NULL,
    superseded_at timestamptz,
    duplicate_of uuid,
    corrected_at timestamptz[],
    corrected_end_dates timestamptz[],
    derived_from uuid[],
    estimate double precision,
    said_on date,
    CONSTRAINT memory_chunk_pkey PRIMARY KEY (external_id, chunk_id),
    CONSTRAINT memory_chunk_external_id_check CHECK (external_id <> ''),
    CONSTRAINT memory_chunk_tier_check CHECK (tier IN ('active', 'shortterm', 'longterm')),
    CONSTRAINT memory_chunk_span_check CHECK (span_start >= 0 AND span_end > span_start)
) PARTITION BY HASH (external_id);
CREATE INDEX memory_chunk_memory_id_idx ON memory_chunk (external_id, memory_id) WHERE memory_id IS NOT NULL;
CREATE INDEX memory_chunk_folded_hash_idx ON memory_chunk (external_id, folded_hash) WHERE folded_hash IS NOT NULL;
CREATE INDEX memory_chunk_duplicate_of_idx ON memory_chunk (external_id, duplicate_of) WHERE duplicate_of IS NOT NULL;
-- For filters. A window of time names all sources if the filter names none.
CREATE INDEX memory_chunk_source_idx ON memory_chunk (external_id, source, start_date) WHERE source IS NOT NULL;
CREATE INDEX memory_chunk_speaker_key_idx ON memory_chunk (external_id, speaker_key, start_date) WHERE speaker_key IS NOT NULL;
-- Few rows are facts, and a memory may have very many chunks.
CREATE INDEX memory_chunk_facts_idx ON memory_chunk (external_id, memory_id) WHERE derived_from IS NOT NULL;
CREATE UNIQUE INDEX memory_chunk_number_idx ON memory_chunk (external_id, number) WHERE number IS NOT NULL;
-- What is live has an end of its own in the world only where it was stated or promoted with one.
CREATE INDEX memory_chunk_end_date_idx ON memory_chunk (external_id, end_date)
    WHERE superseded_at IS NULL AND end_date IS NOT NULL;
-- What a user wishes for good has a flag of 64, and few rows have. The flag is a column, too, so that the planner, which keeps
-- no samples, expects few of a tenant.
CREATE INDEX memory_chunk_standing_idx ON memory_chunk (external_id, (text_flags & 64), number) WHERE text_flags & 64 = 64;

-- The index of words. Everything here is a projection, deterministic to the byte: terms are made in Python by one pure
-- function, whose version stands in schema_parameter.

-- What stands above each chunk: the memory's title and the day on which the chunk came in. Numbers are negative. A new title
-- makes new headings; the old ones stay for questions about the past.
CREATE TABLE memory_heading (
    external_id text NOT NULL,
    number bigint NOT NULL,
    memory_id uuid NOT NULL,
    day date NOT NULL,
    title text NOT NULL,
    words integer NOT NULL,
    text_hash bytea NOT NULL,
    CONSTRAINT memory_heading_pkey PRIMARY KEY (external_id, number),
    CONSTRAINT memory_heading_external_id_check CHECK (external_id <> ''),
    CONSTRAINT memory_heading_number_check CHECK (number < 0)
) PARTITION BY HASH (external_id);
CREATE INDEX memory_heading_memory_id_idx ON memory_heading (external_id, memory_id, day) WHERE memory_id IS NOT NULL;
CREATE INDEX memory_heading_day_idx ON memory_heading (external_id, day) WHERE day IS NOT NULL;

-- Which chunks and headings have a term. A block holds those of 64 events of the ledger, 512 chunks of each; an entry has six
-- bytes, big-endian: which of the block's chunks (the highest bit: a heading), how many terms that has, how often this one.
-- Chunks that have ended keep their entries.
CREATE TABLE posting (
    external_id text NOT NULL,
    term text COLLATE "C" NOT NULL,
    block bigint NOT NULL,
    entries bytea NOT NULL,
    CONSTRAINT posting_pkey PRIMARY KEY (external_id, term, block),
    CONSTRAINT posting_external_id_check CHECK (external_id <> '')
) PARTITION BY HASH (external_id);
ALTER TABLE posting ALTER entries SET STORAGE MAIN;

-- The text of this moment of one memory, a row for each segment: its chunks in the order of the text, those that have ended
-- as duplicates included. Segment 0 is what stands in active_memory, 2147483647 the memory's facts. An entry has 32 bytes,
-- big-endian: number (8), number of its heading (8; 0 for a fact), day (4, since 1970), speaker (4, of a hash), its terms (4),
-- flags (2), its heading's terms (2). chunks and words count entries and terms, each entry with its heading's.
CREATE TABLE memory_layout (
    external_id text NOT NULL,
    memory_id uuid NOT NULL,
    segment integer NOT NULL,
    entries bytea NOT NULL,
    chunks integer NOT NULL,
    words bigint NOT NULL,
    CONSTRAINT memory_layout_pkey PRIMARY KEY (external_id, memory_id, segment),
    CONSTRAINT memory_layout_external_id_check CHECK (external_id <> '')
) PARTITION BY HASH (external_id);

-- What memories and turns are filtered by: every value in their metadata, and a memory's conversation, actor and key. item_id
-- is a memory's id or, for the metadata of a turn, that of a chunk. Values are texts that sort like what they stand for, long
-- ones cut and hashed (agent_reminiscence/domain/attributes.py): a condition is a range of them, found by the key. Row security
-- keeps conditions on the jsonb itself from using an index, because its operators are not leakproof; those of text are.
CREATE TABLE memory_attribute (
    external_id text NOT NULL,
    path text COLLATE "C" NOT NULL,
    value text COLLATE "C" NOT NULL,
    item_id uuid NOT NULL,
    CONSTRAINT memory_attribute_pkey PRIMARY KEY (external_id, path, value, item_id),
    CONSTRAINT memory_attribute_external_id_check CHECK (external_id <> '')
) PARTITION BY HASH (external_id);
CREATE INDEX memory_attribute_item_id_idx ON memory_attribute (external_id, item_id) WHERE item_id IS NOT NULL;

-- Vectors by text, per external_id: shared between tenants it would tell one what another has stored.
CREATE TABLE embedding_cache (
    external_id text NOT NULL,
    model_name text NOT NULL,
    text_hash bytea NOT NULL,
    vector halfvec NOT NULL,
    CONSTRAINT embedding_cache_pkey PRIMARY KEY (external_id, model_name, text_hash),
    CONSTRAINT embedding_cache_external_id_check CHECK (external_id <> '')
) PARTITION BY HASH (external_id);

-- How often recall has returned a chunk since its importance was decided last. Soft state, outside verify: when it leads
-- to a decision, the decision is an event.
CREATE TABLE chunk_use (
    external_id text NOT NULL,
    chunk_id uuid NOT NULL,
    uses integer NOT NULL,
    last_used_at timestamptz NOT NULL,
    CONSTRAINT chunk_use_pkey PRIMARY KEY (external_id, chunk_id),
    CONSTRAINT chunk_use_external_id_check CHECK (external_id <> '')
) PARTITION BY HASH (external_id);

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

-- The graph: what memories name, and what stands beside what. An entity keeps its id for ever. Where two turn out to be one,
-- merged_into says so, and canonical_id is the one that speaks for all that were merged into it. A type that rules guessed
-- gives way to one that a user or a model states.
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
    type_is_guess boolean NOT NULL DEFAULT false,
    CONSTRAINT entity_pkey PRIMARY KEY (external_id, entity_id),
    CONSTRAINT entity_external_id_check CHECK (external_id <> ''),
    CONSTRAINT entity_tier_check CHECK (tier IN ('shortterm', 'longterm'))
) PARTITION BY HASH (external_id);
CREATE INDEX entity_canonical_id_idx ON entity (external_id, canonical_id) WHERE canonical_id IS NOT NULL;
CREATE INDEX entity_type_idx ON entity (external_id, type) WHERE type IS NOT NULL;
CREATE INDEX entity_position_idx ON entity (external_id, position) WHERE position IS NOT NULL;

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
CREATE INDEX entity_name_entity_id_idx ON entity_name (external_id, entity_id) WHERE entity_id IS NOT NULL;

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
CREATE INDEX relationship_from_id_idx ON relationship (external_id, from_id, observations DESC, relationship_id) WHERE from_id IS NOT NULL;
CREATE INDEX relationship_to_id_idx ON relationship (external_id, to_id, observations DESC, relationship_id) WHERE to_id IS NOT NULL;
CREATE INDEX relationship_stated_from_id_idx ON relationship (external_id, stated_from_id, stated_to_id) WHERE stated_from_id IS NOT NULL;
CREATE INDEX relationship_type_idx ON relationship (external_id, type) WHERE type IS NOT NULL;
CREATE INDEX relationship_position_idx ON relationship (external_id, position) WHERE position IS NOT NULL;

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
CREATE INDEX graph_mention_chunk_id_idx ON graph_mention (external_id, chunk_id) WHERE chunk_id IS NOT NULL;

-- What agents believe: a row for each event agent.reflected that says one, as it says it. Whether it counts depends on who sees
-- the events that it names, which a reader decides: so that is looked up in the ledger when it is asked.
CREATE TABLE belief (
    external_id text NOT NULL,
    position bigint NOT NULL,
    event_id uuid NOT NULL,
    actor text COLLATE "C" NOT NULL,
    turn integer,
    text text NOT NULL,
    based_on uuid[] NOT NULL,
    replaces uuid,
    contradicts uuid[] NOT NULL,
    CONSTRAINT belief_pkey PRIMARY KEY (external_id, position),
    CONSTRAINT belief_external_id_check CHECK (external_id <> '')
) PARTITION BY HASH (external_id);
CREATE INDEX belief_event_id_idx ON belief (external_id, event_id) WHERE event_id IS NOT NULL;

-- Standing summaries: a row for each state that a profile has been in, from the event at position on. A definition, a text and a
-- removal each end the state before; superseded_at says when. definition is the position of the event that defined it last.
-- content is NULL until a text is written, and '' if memory held nothing for one; it has a statement on each line, and citations
-- the ids of the memories and chunks that each line rests on. written_from is the position that the ledger had when the text
-- was made.
CREATE TABLE profile (
    external_id text NOT NULL,
    position bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    definition bigint NOT NULL,
    question text NOT NULL,
    refresh text NOT NULL,
    max_tokens integer NOT NULL,
    refresh_tokens integer,
    defined_at timestamptz NOT NULL,
    content text,
    citations jsonb NOT NULL,
    made_by text,
    model text,
    source text,
    cited_source text,
    written_from bigint,
    written_at timestamptz,
    recorded_at timestamptz NOT NULL,
    superseded_at timestamptz,
    CONSTRAINT profile_pkey PRIMARY KEY (external_id, position),
    CONSTRAINT profile_external_id_check CHECK (external_id <> ''),
    CONSTRAINT profile_refresh_check CHECK (refresh IN ('consolidation', 'daily')),
    CONSTRAINT profile_made_by_check CHECK (made_by IN ('model', 'extractive'))
) PARTITION BY HASH (external_id);
CREATE INDEX profile_name_idx ON profile (external_id, name) WHERE name IS NOT NULL;

-- What was recalled in a run, as its caller named it, and how the run ended: a row for each chunk, from the event at position.
-- outcome is the position of the event that reported the end, NULL until then. What was recalled after it stays without one.
-- successes and failures count the runs with this chunk that had ended by then, this one included: the row that was reported
-- last says how often in all, so that a search reads one row of a chunk however many runs recalled it.
CREATE TABLE recalled_chunk (
    external_id text NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    chunk_id uuid NOT NULL,
    position bigint NOT NULL,
    outcome bigint,
    success boolean,
    reported_at timestamptz,
    successes integer,
    failures integer,
    CONSTRAINT recalled_chunk_pkey PRIMARY KEY (external_id, run_id, chunk_id),
    CONSTRAINT recalled_chunk_external_id_check CHECK (external_id <> '')
) PARTITION BY HASH (external_id);
CREATE INDEX recalled_chunk_reported_at_idx ON recalled_chunk (external_id, chunk_id, reported_at) WHERE reported_at IS NOT NULL;

-- What is probably out of date: passages that a newer one seems to contradict, without saying so beyond doubt. They stay; a row
-- says which of a chunk's characters it speaks of (NULL: all), and since when, which is when the newer words were said. part
-- tells apart the rows that one event adds. Nothing is deleted or changed here: outdated_marks says which rows hold.
CREATE TABLE outdated_chunk (
    external_id text NOT NULL,
    chunk_id uuid NOT NULL,
    position bigint NOT NULL,
    part integer NOT NULL,
    span_start integer,
    span_end integer,
    since timestamptz NOT NULL,
    by_chunk uuid NOT NULL,
    recorded_at timestamptz NOT NULL,
    CONSTRAINT outdated_chunk_pkey PRIMARY KEY (external_id, chunk_id, position, part),
    CONSTRAINT outdated_chunk_external_id_check CHECK (external_id <> ''),
    CONSTRAINT outdated_chunk_span_check CHECK (span_start >= 0 AND span_end > span_start)
) PARTITION BY HASH (external_id);
CREATE INDEX outdated_chunk_by_chunk_idx ON outdated_chunk (external_id, by_chunk) WHERE by_chunk IS NOT NULL;

-- Events of users' own kinds: which there are, by whom, and their words. Recall reads nothing of it, so what is appended here
-- changes no answer there. text_flags as in memory_chunk. An event's vector stands in embedding_cache, under its text_hash.
CREATE TABLE event_index (
    external_id text NOT NULL,
    position bigint NOT NULL,
    kind text COLLATE "C" NOT NULL,
    actor text COLLATE "C",
    actor_key text COLLATE "C",
    day date NOT NULL,
    words integer NOT NULL,
    text_flags smallint NOT NULL,
    text_hash bytea NOT NULL,
    CONSTRAINT event_index_pkey PRIMARY KEY (external_id, position),
    CONSTRAINT event_index_external_id_check CHECK (external_id <> '')
) PARTITION BY HASH (external_id);
CREATE INDEX event_index_text_hash_idx ON event_index (external_id, text_hash) WHERE text_hash IS NOT NULL;

-- Which events have a term; blocks and entries as in posting. An event has the number that its first chunk would have.
CREATE TABLE event_posting (
    external_id text NOT NULL,
    term text COLLATE "C" NOT NULL,
    block bigint NOT NULL,
    entries bytea NOT NULL,
    CONSTRAINT event_posting_pkey PRIMARY KEY (external_id, term, block),
    CONSTRAINT event_posting_external_id_check CHECK (external_id <> '')
) PARTITION BY HASH (external_id);
ALTER TABLE event_posting ALTER entries SET STORAGE MAIN;

DO $partitions$
DECLARE
    parent text;
BEGIN
    FOREACH parent IN ARRAY ARRAY[
        'memory_stream', 'memory_event', 'active_memory', 'memory_segment', 'memory_turn', 'shortterm_memory', 'memory_chunk',
        'memory_heading', 'posting', 'memory_layout', 'memory_attribute', 'embedding_cache', 'chunk_use', 'recall_day',
        'entity', 'entity_name', 'relationship', 'graph_mention', 'belief', 'profile', 'recalled_chunk', 'outdated_chunk', 'event_index',
        'event_posting'
    ] LOOP
        FOR remainder IN 0 .. {{chunk_partitions}} - 1 LOOP
            EXECUTE format(
                'CREATE TABLE %I PARTITION OF %I FOR VALUES WITH (MODULUS {{chunk_partitions}}, REMAINDER %s)',
                parent || '_p' || remainder, parent, remainder);
        END LOOP;
    END LOOP;
    -- A block grows in place, so its page keeps room for that.
    FOR remainder IN 0 .. {{chunk_partitions}} - 1 LOOP
        EXECUTE format('ALTER TABLE %I SET (fillfactor = 70)', 'posting_p' || remainder);
        EXECUTE format('ALTER TABLE %I SET (fillfactor = 70)', 'event_posting_p' || remainder);
    END LOOP;
END
$partitions$;

-- The planner keeps samples of what columns hold (pg_statistic), in the clear and for as long as it likes. Of whatever holds
-- memory text or was made of it there are none: an erasure could not reach them, and no plan here needs them.
-- Nor of external_id. A partition is shared, and a tenant that is new since the last ANALYZE stands in no sample: the planner
-- would expect one row of it, find every index that begins with external_id as good as the right one, and read the whole
-- tenant for each chunk that is looked up. Without a sample it expects the same share of the partition for every tenant.
--
-- An index other than that of a primary key says that its column IS NOT NULL, which all of them are: so only statements
-- that name the column can use it. While a table is small, the planner holds every index that begins with external_id for as
-- good as the right one; and the plan may be kept until the wrong one reads all of a large tenant for each row. A statement that
-- only leaves rows out by a column says IS DISTINCT FROM: to <> the index would be open. One that reads in the order of a column,
-- or its max(), has to compare with it as well.
DO $statistics$
DECLARE
    place record;
BEGIN
    FOR place IN
        SELECT t.name AS table_name, c.name AS column_name
        FROM (VALUES
            ('memory_stream', '{external_id}'::text[]),
            ('access_key', '{external_id,secret_hash,label,also_reads}'),
            ('memory_event', '{external_id,payload,actor,conversation_id,idempotency_key,request_hash,salt}'),
            ('active_memory', '{external_id,key,title,content,description,metadata,actor,conversation_id}'),
            ('memory_segment', '{external_id,content,metadata}'),
            ('memory_turn', '{external_id,turn_id}'),
            ('shortterm_memory', '{external_id,title,summary}'),
            ('memory_chunk', '{external_id,content,folded_hash,text_hash,speaker,speaker_key,metadata}'),
            ('memory_heading', '{external_id,title,text_hash}'),
            ('posting', '{external_id,term,entries}'),
            ('memory_layout', '{external_id,entries}'),
            ('memory_attribute', '{external_id,path,value}'),
            ('embedding_cache', '{external_id,text_hash,vector}'),
            ('entity', '{external_id,name,type,description,metadata}'),
            ('entity_name', '{external_id,key,name}'),
            ('relationship', '{external_id,type,description,metadata}'),
            ('chunk_use', '{external_id}'),
            ('recall_day', '{external_id}'),
            ('graph_mention', '{external_id}'),
            ('belief', '{external_id,actor,text}'),
            ('profile', '{external_id,name,question,content,citations}'),
            ('recalled_chunk', '{external_id,run_id}'),
            ('outdated_chunk', '{external_id}'),
            ('event_index', '{external_id,kind,actor,actor_key,text_hash}'),
            ('event_posting', '{external_id,term,entries}')
        ) AS t (name, columns)
        CROSS JOIN LATERAL unnest(t.columns) AS c (name)
    LOOP
        EXECUTE format('ALTER TABLE %I ALTER COLUMN %I SET STATISTICS 0', place.table_name, place.column_name);
    END LOOP;
END
$statistics$;

-- Whether an end beside the one in the row was known at known_at and had come at as_of. A function of its own, because
-- one with a subquery is not inlined and would be called for each row of a search; hardly any row has corrections.
CREATE FUNCTION end_was_corrected(
    corrected_at timestamptz[], corrected_end_dates timestamptz[], as_of timestamptz, known_at timestamptz
) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN EXISTS (
    SELECT FROM unnest(corrected_at, corrected_end_dates) AS correction (learned_at, end_date)
    WHERE correction.learned_at <= known_at AND correction.end_date <= as_of
);

-- Whether a chunk is visible. With as_of NULL: what is known and valid now, superseded rows left out. Otherwise:
-- what was known at known_at to be true in the world at as_of; an end that was not yet known does not count.
CREATE FUNCTION chunk_is_visible(
    recorded_at timestamptz, superseded_at timestamptz, start_date timestamptz, end_date timestamptz,
    corrected_at timestamptz[], corrected_end_dates timestamptz[], as_of timestamptz, known_at timestamptz
) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN as_of IS NULL THEN superseded_at IS NULL AND (end_date IS NULL OR end_date > known_at)
    ELSE recorded_at <= known_at AND start_date <= as_of
        AND (end_date IS NULL OR end_date > as_of OR superseded_at > known_at)
        AND (corrected_at IS NULL OR NOT end_was_corrected(corrected_at, corrected_end_dates, as_of, known_at))
END;

-- When a memory expires by the version of it that held at as_of, by what was known at known_at; NULL if it does not.
CREATE FUNCTION expiry_then(tenant text, memory uuid, as_of timestamptz, known_at timestamptz) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
AS $function$
    SELECT (CASE stated.kind
        WHEN 'memory.created' THEN stated.payload ->> 'expires_at' ELSE stated.payload -> 'changes' ->> 'expires_at'
    END)::timestamptz
    FROM reminiscence.memory_event AS stated
    WHERE stated.external_id = tenant AND stated.memory_id = memory::text AND stated.salt IS NOT NULL
        AND (stated.kind = 'memory.created' OR stated.kind = 'memory.updated' AND stated.payload -> 'changes' ? 'expires_at')
        AND stated.position <= (
            SELECT max(version.position)
            FROM reminiscence.memory_event AS version
            WHERE version.external_id = tenant AND version.memory_id = memory::text AND version.salt IS NOT NULL
                AND version.kind IN ('memory.created', 'memory.updated', 'memory.appended')
                AND version.recorded_at <= known_at AND version.occurred_at <= as_of
        )
    ORDER BY stated.position DESC
    LIMIT 1
$function$;

-- The memories that have expired and whose chunks other columns do not say so of yet. With as_of NULL: at known_at, without
-- those whose expiry an event has recorded, which ended their chunks. Otherwise: by what was known at known_at, at as_of,
-- without those whose expiry was recorded by known_at and had come by as_of. The ledger is asked of the rest only, and not
-- where there is one version: a tenant may have many thousands, such as sessions.
CREATE FUNCTION expired_memories(tenant text, as_of timestamptz, known_at timestamptz) RETURNS SETOF uuid
LANGUAGE sql STABLE PARALLEL SAFE
AS $function$
    SELECT memory_id
    FROM reminiscence.active_memory
    WHERE external_id = tenant AND as_of IS NULL AND expired_at IS NULL AND expires_at <= known_at
    UNION ALL
    SELECT memory_id
    FROM reminiscence.active_memory
    WHERE external_id = tenant AND as_of IS NOT NULL AND had_expiry
        AND (expired_at IS NULL OR expired_at > known_at OR expires_at > as_of)
        AND CASE WHEN version = 1 THEN expires_at ELSE reminiscence.expiry_then(tenant, memory_id, as_of, known_at) END <= as_of
$function$;

-- The marks that hold: with as_of NULL now, otherwise at as_of by what was known at known_at. One holds while both its chunk and
-- the newer one that it names do; a newer one that has ended as a repetition counts as the one that it repeats. None holds on
-- a chunk that was said again later than the newer one.
CREATE FUNCTION outdated_marks(tenant text, as_of timestamptz, known_at timestamptz) RETURNS TABLE (
    chunk_id uuid, number bigint, span_start integer, span_end integer, since timestamptz, by_chunk uuid, "position" bigint
) LANGUAGE sql STABLE PARALLEL SAFE
AS $function$
    SELECT o.chunk_id, older.number, o.span_start, o.span_end, o.since, newer.chunk_id, o.position
    FROM reminiscence.outdated_chunk AS o
    -- Looked up one by one: a join might read every chunk of the tenant for each mark.
    CROSS JOIN LATERAL (
        SELECT * FROM reminiscence.memory_chunk WHERE external_id = tenant AND chunk_id = o.chunk_id OFFSET 0
    ) AS older
    CROSS JOIN LATERAL (
        SELECT coalesce(duplicate_of, chunk_id) AS chunk_id
        FROM reminiscence.memory_chunk
        WHERE external_id = tenant AND chunk_id = o.by_chunk
        OFFSET 0
    ) AS said
    CROSS JOIN LATERAL (
        SELECT * FROM reminiscence.memory_chunk WHERE external_id = tenant AND chunk_id = said.chunk_id OFFSET 0
    ) AS newer
    WHERE o.external_id = tenant AND (as_of IS NULL OR o.since <= as_of AND o.recorded_at <= known_at)
        AND reminiscence.chunk_is_visible(
            older.recorded_at, older.superseded_at, older.start_date, older.end_date, older.corrected_at,
            older.corrected_end_dates, as_of, known_at)
        -- An update keeps words that were said before it.
        AND reminiscence.chunk_is_visible(
            newer.recorded_at, newer.superseded_at, least(newer.start_date, o.since), newer.end_date, newer.corrected_at,
            newer.corrected_end_dates, as_of, known_at)
        AND newer.memory_id NOT IN (SELECT reminiscence.expired_memories(tenant, as_of, known_at))
        AND NOT EXISTS (
            SELECT
            FROM reminiscence.memory_chunk AS again
            WHERE again.external_id = tenant AND again.duplicate_of = o.chunk_id
                AND coalesce(again.said_at, again.start_date) > o.since
                AND (as_of IS NULL OR again.recorded_at <= known_at AND again.start_date <= as_of)
        )
$function$;

-- The work queue: Procrastinate's own schema, as the installed package has it, beside ours.
SELECT set_config('reminiscence.search_path', current_setting('search_path'), true);
SET LOCAL search_path = reminiscence_jobs;
-- Who works the queue off may do here what Procrastinate does, also with what a later version of it adds; and nothing
-- elsewhere.
GRANT USAGE ON SCHEMA reminiscence_jobs TO reminiscence_worker;
ALTER DEFAULT PRIVILEGES IN SCHEMA reminiscence_jobs
    GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO reminiscence_worker;
ALTER DEFAULT PRIVILEGES IN SCHEMA reminiscence_jobs GRANT USAGE ON SEQUENCES TO reminiscence_worker;
{{procrastinate_schema}}
CREATE INDEX reminiscence_unfinished_idx ON procrastinate_jobs (queueing_lock) WHERE status IN ('todo', 'doing');
SELECT set_config('search_path', current_setting('reminiscence.search_path'), true);
INSERT INTO schema_parameter (name, value) VALUES ('procrastinate_schema', '{{procrastinate_version}}');

-- These two functions are all that the application's role sees of the queue, and they speak of the transaction's own
-- external_id only.

-- Queue the stream's work, in the transaction that makes it due: both happen or neither. One waiting job is enough,
-- because it does whatever is due when it starts. A retry that waits for its time is replaced by work for now.
-- False where a job was waiting already.
CREATE FUNCTION enqueue_work(run_at timestamptz) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, reminiscence_jobs, pg_temp
AS $function$
DECLARE
    tenant CONSTANT text := nullif(current_setting('reminiscence.external_id', true), '');
BEGIN
    IF tenant IS NULL THEN
        RAISE EXCEPTION 'work is queued for one external_id, and none is set';
    END IF;
    IF run_at IS NULL THEN
        DELETE FROM procrastinate_jobs
        WHERE queueing_lock = 'stream:' || tenant AND status = 'todo' AND scheduled_at > clock_timestamp();
    END IF;
    IF EXISTS (SELECT FROM procrastinate_jobs WHERE queueing_lock = 'stream:' || tenant AND status = 'todo') THEN
        RETURN false;
    END IF;
    -- Not by Procrastinate's own function, whose name changes with its releases; its triggers do what else is to be done.
    INSERT INTO procrastinate_jobs (queue_name, task_name, queueing_lock, args, scheduled_at)
    VALUES ('reminiscence', 'work_stream', 'stream:' || tenant, jsonb_build_object('external_id', tenant), run_at);
    RETURN true;
EXCEPTION WHEN unique_violation THEN
    -- Someone else was faster; the write that made the work due must not fail for it.
    RETURN false;
END
$function$;

-- The stream's jobs that wait or run.
CREATE FUNCTION list_work() RETURNS TABLE (
    job_id bigint, state text, scheduled_at timestamptz, queued_at timestamptz, started_at timestamptz
) LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, reminiscence_jobs, pg_temp
AS $function$
SELECT j.id, CASE j.status WHEN 'todo' THEN 'waiting' ELSE 'running' END, j.scheduled_at,
    (SELECT min(e.at) FROM procrastinate_events AS e WHERE e.job_id = j.id AND e.type = 'deferred'),
    (SELECT max(e.at) FROM procrastinate_events AS e WHERE e.job_id = j.id AND e.type = 'started')
FROM procrastinate_jobs AS j
WHERE j.queueing_lock = 'stream:' || nullif(current_setting('reminiscence.external_id', true), '')
    AND j.status IN ('todo', 'doing')
ORDER BY j.id
$function$;

-- What the key with this hash allows: one row, or none if there is no such key, or it has expired or was revoked. This is all
-- that anybody but the owner may ask of access_key. When a key was used is noted once a minute, unless another transaction is
-- noting it, and only where something can be written: neither on a standby nor in a transaction that only reads. `made` is how
-- many requests were made with a key since its last check by the same server; of a key with a number of requests a day, they
-- are added up for the day in UTC.
CREATE FUNCTION check_access_key(hash bytea, made bigint) RETURNS TABLE (
    key_id uuid, acts_for text, reads_beside text[], key_scopes text[], rate integer, per_day integer, today bigint,
    ends_at timestamptz
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, reminiscence, pg_temp
AS $function$
DECLARE
    held record;
    is_writable boolean := current_setting('transaction_read_only') = 'off';
    utc_day date := (clock_timestamp() AT TIME ZONE 'UTC')::date;
BEGIN
    SELECT id, external_id, also_reads, scopes, requests_per_minute, requests_per_day, expires_at, last_used_at,
        CASE WHEN counted_on = utc_day THEN counted ELSE 0 END AS counted
    INTO held
    FROM access_key
    WHERE secret_hash = hash AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp());
    IF held.id IS NULL THEN
        RETURN;
    END IF;
    IF held.requests_per_day IS NOT NULL AND made > 0 AND is_writable THEN
        UPDATE access_key SET counted_on = utc_day, counted = made + CASE WHEN counted_on = utc_day THEN counted ELSE 0 END
        WHERE id = held.id
        RETURNING counted INTO held.counted;
    END IF;
    IF coalesce(held.last_used_at < clock_timestamp() - interval '1 minute', true) AND is_writable THEN
        UPDATE access_key SET last_used_at = clock_timestamp()
        WHERE id = (SELECT k.id FROM access_key AS k WHERE k.id = held.id FOR UPDATE SKIP LOCKED);
    END IF;
    RETURN QUERY SELECT held.id, held.external_id, held.also_reads, held.scopes, held.requests_per_minute,
        held.requests_per_day, held.counted, held.expires_at;
END
$function$;

CREATE VIEW shortterm_memory_chunk WITH (security_invoker = true) AS
SELECT external_id, chunk_id, memory_id AS shortterm_memory_id, memory_version, chunk_order, content, speaker, metadata,
    source, importance, confidence, start_date, end_date, recorded_at, superseded_at, duplicate_of
FROM memory_chunk
WHERE tier = 'shortterm';

CREATE VIEW longterm_memory_chunk WITH (security_invoker = true) AS
SELECT external_id, chunk_id, memory_id AS shortterm_memory_id, memory_version, chunk_order, content, speaker, metadata,
    source, importance, confidence AS confidence_score, start_date, end_date, recorded_at, superseded_at, duplicate_of
FROM memory_chunk
WHERE tier = 'longterm';

-- Isolation: a transaction sees the rows of the one external_id it has set, and none if it has set none (the
-- setting is NULL before the first use in a session and '' after a transaction that set it). FORCE holds the
-- owner to it too.
DO $isolation$
DECLARE
    parent text;
BEGIN
    FOREACH parent IN ARRAY ARRAY[
        'memory_stream', 'memory_event', 'active_memory', 'memory_segment', 'memory_turn', 'shortterm_memory', 'memory_chunk',
        'memory_heading', 'posting', 'memory_layout', 'memory_attribute', 'embedding_cache', 'chunk_use', 'recall_day',
        'entity', 'entity_name', 'relationship', 'graph_mention', 'belief', 'profile', 'recalled_chunk', 'outdated_chunk', 'event_index',
        'event_posting'
    ] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', parent);
        EXECUTE format(
            'CREATE POLICY %I ON %I FOR ALL TO reminiscence_app, reminiscence_eraser'
            ' USING (external_id = current_setting(''reminiscence.external_id'', true))'
            ' WITH CHECK (external_id = current_setting(''reminiscence.external_id'', true))',
            parent || '_tenant', parent);
        -- Addressed by name a partition has no policy of its parent's; no policy at all means no row.
        FOR remainder IN 0 .. {{chunk_partitions}} - 1 LOOP
            EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY',
                parent || '_p' || remainder);
        END LOOP;
    END LOOP;
END
$isolation$;
CREATE POLICY memory_stream_scheduler ON memory_stream FOR SELECT TO reminiscence_scheduler USING (true);
-- Lets take_embedder, which runs with its rights, see that somebody has written.
CREATE POLICY memory_stream_owner ON memory_stream FOR SELECT TO reminiscence_owner USING (true);
-- For nobody but the owner, so that not even a right granted by mistake would show a key.
ALTER TABLE access_key ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY access_key_owner ON access_key FOR ALL TO reminiscence_owner USING (true) WITH CHECK (true);

-- The eraser may empty an event and append a receipt, and nothing else: neither change what an event says nor touch a
-- receipt.
CREATE POLICY memory_event_emptied ON memory_event AS RESTRICTIVE FOR UPDATE TO reminiscence_eraser
    USING (kind <> 'memory.erased')
    WITH CHECK (
        payload = '{}' AND salt IS NULL AND request_hash IS NULL AND idempotency_key IS NULL AND actor IS NULL
        AND conversation_id IS NULL);
CREATE POLICY memory_event_receipts ON memory_event AS RESTRICTIVE FOR INSERT TO reminiscence_eraser
    WITH CHECK (kind = 'memory.erased');

GRANT USAGE ON SCHEMA reminiscence TO reminiscence_app, reminiscence_scheduler, reminiscence_eraser;
GRANT SELECT ON schema_migration, schema_parameter, embedding_generation
    TO reminiscence_app, reminiscence_scheduler, reminiscence_eraser;

-- The ledger takes INSERT and SELECT: no UPDATE, no DELETE.
GRANT SELECT, INSERT ON memory_event TO reminiscence_app;
GRANT SELECT, INSERT, UPDATE ON memory_stream TO reminiscence_app;
-- DELETE on projections is what a rebuild needs.
GRANT SELECT, INSERT, UPDATE, DELETE
    ON active_memory, memory_segment, memory_turn, shortterm_memory, memory_chunk, memory_heading, posting, memory_layout,
        memory_attribute, embedding_cache
    TO reminiscence_app;
GRANT SELECT ON shortterm_memory_chunk, longterm_memory_chunk TO reminiscence_app;

GRANT SELECT (external_id, head, last_recorded_at, due_at, live_chunks) ON memory_stream TO reminiscence_scheduler;

-- Erasure empties what an event says and appends one of its own; the row, its digest and its chain stay.
GRANT SELECT, INSERT ON memory_event TO reminiscence_eraser;
GRANT UPDATE (payload, idempotency_key, request_hash, salt, actor, conversation_id)
    ON memory_event TO reminiscence_eraser;
GRANT SELECT, INSERT, UPDATE ON memory_stream TO reminiscence_eraser;
GRANT SELECT, INSERT, UPDATE, DELETE
    ON active_memory, memory_segment, memory_turn, shortterm_memory, memory_chunk, memory_heading, posting, memory_layout,
        memory_attribute, embedding_cache
    TO reminiscence_eraser;

REVOKE EXECUTE ON FUNCTION end_was_corrected(timestamptz[], timestamptz[], timestamptz, timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION end_was_corrected(timestamptz[], timestamptz[], timestamptz, timestamptz)
    TO reminiscence_app, reminiscence_eraser;
REVOKE EXECUTE ON FUNCTION chunk_is_visible(
    timestamptz, timestamptz, timestamptz, timestamptz, timestamptz[], timestamptz[], timestamptz, timestamptz)
    FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chunk_is_visible(
    timestamptz, timestamptz, timestamptz, timestamptz, timestamptz[], timestamptz[], timestamptz, timestamptz)
    TO reminiscence_app, reminiscence_eraser;

REVOKE EXECUTE ON FUNCTION expiry_then(text, uuid, timestamptz, timestamptz) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION expired_memories(text, timestamptz, timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION expiry_then(text, uuid, timestamptz, timestamptz) TO reminiscence_app;
GRANT EXECUTE ON FUNCTION expired_memories(text, timestamptz, timestamptz) TO reminiscence_app;
REVOKE EXECUTE ON FUNCTION outdated_marks(text, timestamptz, timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION outdated_marks(text, timestamptz, timestamptz) TO reminiscence_app;

GRANT SELECT (work_at, review_at, failed_attempts, failed_error, failed_at) ON memory_stream TO reminiscence_scheduler;
GRANT SELECT (vectors_missing, vectors_missing_since, vectors_error) ON memory_stream TO reminiscence_scheduler;
GRANT SELECT, INSERT, UPDATE, DELETE ON chunk_use TO reminiscence_app, reminiscence_eraser;
GRANT SELECT, INSERT, UPDATE, DELETE ON recall_day TO reminiscence_app, reminiscence_eraser;
REVOKE EXECUTE ON FUNCTION check_access_key(bytea, bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION check_access_key(bytea, bigint) TO reminiscence_app;
REVOKE EXECUTE ON FUNCTION enqueue_work(timestamptz), list_work() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION enqueue_work(timestamptz), list_work() TO reminiscence_app;

GRANT SELECT, INSERT, UPDATE, DELETE
    ON entity, entity_name, relationship, graph_mention, belief, profile, recalled_chunk, outdated_chunk, event_index,
        event_posting
    TO reminiscence_app, reminiscence_eraser;
GRANT SELECT (graph_head, graph_position, graph_store) ON memory_stream TO reminiscence_scheduler;
-- What an erasure takes out of the graph has to reach the store that follows.
GRANT EXECUTE ON FUNCTION enqueue_work(timestamptz) TO reminiscence_eraser;

-- Makes the tables of one generation of vectors. All of it can be made again from the texts: a missing vector is a missing row.
--
-- chunk_vector_<number>: the unit vector of each chunk, and of each heading under its negative number, in a table that holds
-- little else, so that a scan reads nothing else. mass is how many tokens the text has. Vectors of one external_id are sorted
-- into cells of like ones, so that a search of a large one looks into the nearest cells; a small one has one cell, 0.
-- chunk_norms_<number>: for each entry of a segment's layout, in its order, 24 bytes big-endian: the mass of the chunk (4), that
-- of its heading (4), and the lengths of the sums of vectors in the four windows around the chunk (4 each). layout_hash is
-- the SHA-256 of the entries that they were computed for: the six before the segment, the SHA-256 of its own, the six after.
-- vector_cell_<number>: the centre of each cell.
CREATE FUNCTION create_chunk_vectors(number integer, dimension integer) RETURNS void
LANGUAGE plpgsql
AS $function$
DECLARE
    vectors CONSTANT text := 'chunk_vector_' || number;
    norms CONSTANT text := 'chunk_norms_' || number;
    cells CONSTANT text := 'vector_cell_' || number;
    -- In the row where three vectors fit a page, so that a scan never leaves the table; else out of line.
    storage CONSTANT text := CASE WHEN dimension <= 1024 THEN 'PLAIN' ELSE 'EXTERNAL' END;
    partitions CONSTANT integer := (SELECT count(*) FROM pg_inherits WHERE inhparent = 'memory_stream'::regclass);
    -- The extension may be in any schema.
    kind CONSTANT text := (
        SELECT format('%I.halfvec(%s)', n.nspname, dimension)
        FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace
        WHERE e.extname = 'vector');
    parent text;
    place text;
BEGIN
    EXECUTE format(
        'CREATE TABLE %1$I ('
        ' external_id text NOT NULL,'
        ' cell integer NOT NULL,'
        ' number bigint NOT NULL,'
        ' mass real NOT NULL,'
        ' vector %2$s NOT NULL,'
        ' CONSTRAINT %3$I PRIMARY KEY (external_id, cell, number),'
        ' CONSTRAINT %4$I CHECK (external_id <> '''')'
        ') PARTITION BY HASH (external_id)',
        vectors, kind, vectors || '_pkey', vectors || '_external_id_check');
    EXECUTE format(
        'CREATE UNIQUE INDEX %I ON %I (external_id, number) WHERE number IS NOT NULL', vectors || '_number_key', vectors);
    EXECUTE format('ALTER TABLE %I ALTER vector SET STORAGE %s', vectors, storage);
    EXECUTE format(
        'CREATE TABLE %1$I ('
        ' external_id text NOT NULL,'
        ' memory_id uuid NOT NULL,'
        ' segment integer NOT NULL,'
        ' layout_hash bytea NOT NULL,'
        ' norms bytea NOT NULL,'
        ' CONSTRAINT %2$I PRIMARY KEY (external_id, memory_id, segment),'
        ' CONSTRAINT %3$I CHECK (external_id <> '''')'
        ') PARTITION BY HASH (external_id)',
        norms, norms || '_pkey', norms || '_external_id_check');
    EXECUTE format(
        'CREATE TABLE %1$I ('
        ' external_id text NOT NULL,'
        ' cell integer NOT NULL,'
        ' vector %2$s NOT NULL,'
        ' CONSTRAINT %3$I PRIMARY KEY (external_id, cell),'
        ' CONSTRAINT %4$I CHECK (external_id <> '''')'
        ') PARTITION BY HASH (external_id)',
        cells, kind, cells || '_pkey', cells || '_external_id_check');
    EXECUTE format('ALTER TABLE %I ALTER vector SET STORAGE %s', cells, storage);
    FOREACH parent IN ARRAY ARRAY[vectors, norms, cells] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', parent);
        EXECUTE format(
            'CREATE POLICY %I ON %I FOR ALL TO reminiscence_app, reminiscence_eraser'
            ' USING (external_id = current_setting(''reminiscence.external_id'', true))'
            ' WITH CHECK (external_id = current_setting(''reminiscence.external_id'', true))',
            parent || '_tenant', parent);
        FOR remainder IN 0 .. partitions - 1 LOOP
            EXECUTE format(
                'CREATE TABLE %I PARTITION OF %I FOR VALUES WITH (MODULUS %s, REMAINDER %s)',
                parent || '_p' || remainder, parent, partitions, remainder);
            EXECUTE format(
                'ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', parent || '_p' || remainder);
        END LOOP;
        -- The planner keeps no samples of what was made of memory text, and none of tenants, among which a new one would be
        -- missing, nor of cells: where few tenants are sorted nearly all vectors are in cell 0, and it would read a
        -- tenant's vectors rather than look cells up. The partitions, which are there now, take it over.
        FOREACH place IN ARRAY array_cat(
            ARRAY['external_id'], CASE parent WHEN norms THEN ARRAY['layout_hash', 'norms'] ELSE ARRAY['cell', 'vector'] END
        ) LOOP
            EXECUTE format('ALTER TABLE %I ALTER COLUMN %I SET STATISTICS 0', parent, place);
        END LOOP;
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO reminiscence_app, reminiscence_eraser', parent);
    END LOOP;
END
$function$;
SELECT create_chunk_vectors(1, {{embedding_dimension}});
REVOKE EXECUTE ON FUNCTION create_chunk_vectors(integer, integer) FROM PUBLIC;

-- What a database that holds no memory does when it is opened with another embedder than the one it was made for: it takes the
-- new one, whose vectors get tables of their own under the next number. The old tables go, and so does the row that names the
-- old embedder, since no vector of it was ever stored. False where that is not possible: somebody has written or is writing,
-- or an administrator is changing the vectors. The tables are locked without waiting for one while holding the other, because
-- others lock them in either order; and before memory_stream is looked at, so that no first write slips between.
CREATE FUNCTION take_embedder(new_model_name text, new_dimension integer, new_provider text, new_model text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = reminiscence, pg_temp
AS $function$
DECLARE
    has_vectors boolean;
    is_locked boolean := false;
    old record;
BEGIN
    -- Any other level would look at memory_stream as it was before the locks, and miss a first write.
    IF current_setting('transaction_isolation') <> 'read committed'
        OR EXISTS (SELECT FROM memory_stream WHERE head > 0) THEN
        RETURN false;
    END IF;
    -- The locks of who changes the schema, and of who changes the vectors.
    PERFORM pg_advisory_xact_lock(x'72656d69'::bigint);
    -- Whoever had the first until now may hold the second for a moment longer: a commit gives locks back one by one.
    FOR attempt IN 1 .. 20 LOOP
        has_vectors := pg_try_advisory_xact_lock(x'7265656d'::bigint);
        EXIT WHEN has_vectors;
        PERFORM pg_sleep(0.05);
    END LOOP;
    IF NOT has_vectors THEN
        RETURN false;
    END IF;
    FOR attempt IN 1 .. 50 LOOP
        BEGIN
            LOCK TABLE memory_stream IN SHARE ROW EXCLUSIVE MODE NOWAIT;
            LOCK TABLE embedding_generation IN ACCESS EXCLUSIVE MODE NOWAIT;
            is_locked := true;
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            PERFORM pg_sleep(0.1);
        END;
    END LOOP;
    IF NOT is_locked
        OR EXISTS (SELECT FROM memory_stream WHERE head > 0)
        OR EXISTS (SELECT FROM embedding_generation WHERE state IN ('building', 'retired')) THEN
        RETURN false;
    END IF;
    SELECT generation, model_name, dimension INTO STRICT old FROM embedding_generation WHERE state = 'current';
    IF old.model_name = new_model_name AND old.dimension = new_dimension THEN
        -- Another process was faster.
        RETURN true;
    END IF;
    DELETE FROM embedding_generation WHERE generation = old.generation;
    INSERT INTO embedding_generation (generation, model_name, dimension, state, provider, model)
    VALUES (old.generation + 1, new_model_name, new_dimension, 'current', new_provider, new_model);
    PERFORM create_chunk_vectors(old.generation + 1, new_dimension);
    EXECUTE format(
        'DROP TABLE %I, %I, %I', 'chunk_vector_' || old.generation, 'chunk_norms_' || old.generation,
        'vector_cell_' || old.generation);
    RETURN true;
END
$function$;
REVOKE EXECUTE ON FUNCTION take_embedder(text, integer, text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION take_embedder(text, integer, text, text) TO reminiscence_app;
