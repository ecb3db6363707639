"""Numbers and names the package is built on, each with its unit and origin.

What a user may change is in `settings.py`; these change only with a release.
"""

from __future__ import annotations

from typing import Final, Literal

# Tiers --------------------------------------------------------------------------------------------

Tier = Literal["active", "shortterm", "longterm"]
TIERS: Final[tuple[Tier, ...]] = ("active", "shortterm", "longterm")


# Types that extractors and models prefer; any other string is allowed.
ENTITY_TYPES: Final = (
    "person", "organization", "place", "event", "product", "project", "concept", "document", "date", "other",
)  # fmt: skip
RELATIONSHIP_TYPES: Final = (
    "knows", "works_for", "works_on", "located_in", "part_of", "owns", "created", "uses", "mentions",
    "happened_before", "related_to",
)  # fmt: skip

# Names, entities and relationships ----------------------------------------------------------------

# Maximum lengths of names and types.
MAX_ENTITY_NAME_CHARACTERS: Final = 500
MAX_GRAPH_TYPE_CHARACTERS: Final = 100
# Source chunks returned with an entity or a relationship, newest first; the tables hold all.
GRAPH_EVIDENCE_CHUNKS: Final = 20
# Limits of one graph query.
MAX_GRAPH_ENTITIES: Final = 500
MAX_GRAPH_RELATIONSHIPS: Final = 2_000
# How many of a tenant's names a name is compared with.
ALIKE_COMPARED_NAMES: Final = 10_000

# Limits of one consolidation of a very long text: the names and pairs mentioned most often.
MAX_PLAN_ENTITIES: Final = 2_000
MAX_PLAN_RELATIONSHIPS: Final = 5_000
# Likewise for facts, the most important ones.
MAX_PLAN_FACTS: Final = 1_000
# If a chunk names more, only the first ones are related to each other.
MAX_PAIRED_ENTITIES: Final = 8
# How many of a tenant's names with the same beginning a new name's spelling is compared with, newest first.
LIKENESS_COMPARED_NAMES: Final = 5_000
# Keys looked up per statement.
NAME_LOOKUP_KEYS: Final = 1_000

# Input limits -------------------------------------------------------------------------------------

# An id is part of several index keys; a btree entry holds at most 2,704 bytes, so 2 × 256 characters
# of up to 4 bytes still fit.
MAX_ID_CHARACTERS: Final = 256
MAX_TITLE_CHARACTERS: Final = 500
MAX_CONTENT_CHARACTERS: Final = 1_000_000
# Enough for the positions and speakers of about 2,000 turns.
MAX_METADATA_BYTES: Final = 262_144
MAX_EVENT_PAYLOAD_BYTES: Final = 1_048_576
# Maximum chunks per text. Each is a row in several tables, and all are written in one transaction; with more, other
# tasks of the process would wait for more than 50 ms at a time (`make bench-loop`).
MAX_TEXT_CHUNKS: Final = 20_000
MAX_RESULTS: Final = 200


# Chunks -------------------------------------------------------------------------------------------

MAX_CHUNK_TOKENS: Final = 120
# The form of an event's payload, stored in each event. A release does not apply events of an unknown form.
FORM_VERSION: Final = 1

# Retrieval ----------------------------------------------------------------------------------------

# Anything below this share of the best weight is not reached.
GRAPH_LEAST_SHARE: Final = 0.02
# Hits that contribute a sentence to the extractive summary and count as used.
SUMMARY_HITS: Final = 3

# Consolidation and promotion ----------------------------------------------------------------------

# Chunks with fewer words are never treated as duplicates: "Thanks!" means something each time.
DUPLICATE_MIN_WORDS: Final = 6
# Minimum cosine similarity for a recurrence, and the maximum number counted. One in 5,000 pairs of utterances from
# different sessions is that similar (bundled embedder, five long conversations).
RECURRENCE_SIMILARITY: Final = 0.8
RECURRENCE_NEIGHBOURS: Final = 5
# How many chunks of other memories a chunk is compared with, newest first. This bounds the cost of a long text in a
# large tenant: each comparison takes about a microsecond.
RECURRENCE_COMPARED_CHUNKS: Final = 2_000
RECURRENCE_BATCH_CHUNKS: Final = 100
# importance = the weighted sum of trust, recurrence, specificity and stability, each 0..1; docs/guide/tiers.md
IMPORTANCE_TRUST: Final = 0.30
IMPORTANCE_RECURRENCE: Final = 0.25
IMPORTANCE_SPECIFICITY: Final = 0.25
IMPORTANCE_STABILITY: Final = 0.20
# A chunk that survived this many updates of its memory counts as fully stable.
STABLE_AFTER_UPDATES: Final = 5
# A chunk with this many names, numbers and dates is fully specific.
SPECIFIC_AFTER_DETAILS: Final = 3
SUMMARY_SENTENCES: Final = 3

# Consolidation by a model -------------------------------------------------------------------------

# What a model is shown of a memory at a time: tokens and chunks of new text, and context from the rest.
WINDOW_TOKENS: Final = 3_000
WINDOW_CHUNKS: Final = 40
WINDOW_CONTEXT_SENTENCES: Final = 12
WINDOW_CONTEXT_CHARACTERS: Final = 300
# Stored chunks that a chunk of the window may contradict: minimum cosine similarity; newest are compared first.
# Slightly more than half of all pairs of utterances are this near (bundled embedder, five long conversations): it only
# excludes what has nothing in common, and `NEAR_PER_CHUNK` chooses among the rest.
NEAR_SIMILARITY: Final = 0.24
NEAR_PER_CHUNK: Final = 3
NEAR_COMPARED_CHUNKS: Final = 2_000
NEAR_SHOWN: Final = 20
NEAR_SHOWN_CHARACTERS: Final = 1_000
KNOWN_ENTITIES_SHOWN: Final = 40
KNOWN_RELATIONSHIPS_SHOWN: Final = 30
KNOWN_NAME_SHOWN_CHARACTERS: Final = 60
# If more memories support a relationship, the newest of them count as shown to the model.
KNOWN_RELATIONSHIP_MEMORIES: Final = 100
# A model's estimate weighs as much as the formula's result without it.
IMPORTANCE_ESTIMATE: Final = 0.5
MODEL_SUMMARY_CHARACTERS: Final = 2_000

# Use and the end of chunks ------------------------------------------------------------------------

# How much recalls add, as a share of the importance missing to 1, and after how many uses half of that is reached.
# A user's own specific sentence (0.55) reaches 0.7 at its third recall, a vague one (0.30) at its ninth, and a model's
# vague guess (0.15) never; docs/guide/tiers.md
IMPORTANCE_USE: Final = 0.6
USE_HALF: Final = 2.0
# The share of importance an untouched chunk loses at most, and the days after which half of that is lost.
IMPORTANCE_FADE: Final = 0.2
IMPORTANCE_FADE_HALF_LIFE_DAYS: Final = 90.0
# Maximum chunks one review transaction ends, because the tenant's writers wait for it; and maximum chunks chosen per
# pass over all of them.
REVIEW_BATCH_CHUNKS: Final = 50
REVIEW_PASS_CHUNKS: Final = 10_000

# Embedding ----------------------------------------------------------------------------------------

EMBEDDING_BATCH_TEXTS: Final = 256
# Chunks and headings without vectors per round of the backfill: their texts are one call to the embedder. The write
# at its end holds the stream's lock.
BACKFILL_CHUNKS: Final = EMBEDDING_BATCH_TEXTS
# The maximum for a pgvector index on halfvec. We use no such index, but a vector of this size fills a page.
MAX_EMBEDDING_DIMENSION: Final = 4_000

# Stores -------------------------------------------------------------------------------------------

# PostgreSQL 16 is the first in which a role membership says whether it inherits; pgvector has halfvec since 0.7.
POSTGRES_MIN_VERSION: Final = 160_000
PGVECTOR_MIN_VERSION: Final = (0, 7, 0)
# How to move memories from a data folder or database that this release cannot read; the caller appends the target.
EXPORT_FIRST: Final = (
    "Export each external_id with the installation that made it (`agent-reminiscence export FILE --external-id …`),"
    " then import the files with this one (`agent-reminiscence import FILE`) into"
)
CONNECT_TIMEOUT_SECONDS: Final = 10
# A TCP connection without an answer for this long is dropped: otherwise a peer that vanished silently is noticed only
# after a quarter of an hour.
TCP_SILENCE_SECONDS: Final = 30
# The longest pause in calls to a store that does not answer, however often it has not.
BREAKER_MAX_PAUSE_SECONDS: Final = 30.0
# How long work in progress may take to finish when a worker stops.
WORKER_GRACE_SECONDS: Final = 10.0
SCHEMA_NAME: Final = "reminiscence"
OWNER_ROLE: Final = "reminiscence_owner"
APP_ROLE: Final = "reminiscence_app"
SCHEDULER_ROLE: Final = "reminiscence_scheduler"
WORKER_ROLE: Final = "reminiscence_worker"
ERASER_ROLE: Final = "reminiscence_eraser"
# The login of the embedded server; on your own server, you choose its name.
EMBEDDED_LOGIN: Final = "reminiscence_login"
EMBEDDED_DATABASE: Final = "reminiscence"
