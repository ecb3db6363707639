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
MAX_PATH_STEPS: Final = 4
# How many of a tenant's names a name is compared with.
ALIKE_COMPARED_NAMES: Final = 10_000
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
# How many memories one question may be asked of.
MAX_MEMORIES_ASKED: Final = 16
# Hits if no limit is named; and if a token budget is, which decides then: some 2,000 tokens hold 60 utterances.
DEFAULT_RESULTS: Final = 10
BUDGET_RESULTS: Final = 100

# Chunks -------------------------------------------------------------------------------------------

MAX_CHUNK_TOKENS: Final = 120
# The form of an event's payload, stored in each event. A release does not apply events of an unknown form.
FORM_VERSION: Final = 1

# Retrieval ----------------------------------------------------------------------------------------

# Anything below this share of the best weight is not reached.
GRAPH_LEAST_SHARE: Final = 0.02
# Hits that contribute a sentence to the extractive summary and count as used.
SUMMARY_HITS: Final = 3

# Consolidation by a model -------------------------------------------------------------------------

# If more memories support a relationship, the newest of them count as shown to the model.
KNOWN_RELATIONSHIP_MEMORIES: Final = 100

# Use and the end of chunks ------------------------------------------------------------------------

# How much recalls add, as a share of the importance missing to 1, and after how many uses half of that is reached.
# A user's own specific sentence (0.55) reaches 0.7 at its third recall, a vague one (0.30) at its ninth, and a model's
# vague guess (0.15) never; docs/guide/tiers.md
IMPORTANCE_USE: Final = 0.6
USE_HALF: Final = 2.0
# The share of importance an untouched chunk loses at most, and the days after which half of that is lost.
IMPORTANCE_FADE: Final = 0.2
IMPORTANCE_FADE_HALF_LIFE_DAYS: Final = 90.0

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
