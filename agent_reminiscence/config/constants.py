"""Numbers and names the package is built on, each with its unit and where it comes from.

What a user may change is in `settings.py`; what is here changes with a release.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

# Tiers --------------------------------------------------------------------------------------------

Tier = Literal["active", "shortterm", "longterm"]
TIERS: Final[tuple[Tier, ...]] = ("active", "shortterm", "longterm")

# Trust labels, least trusted last: what is derived from several events carries the least trusted of
# their labels. A user's own words first; a model's output last, because it may be made up.
Source = Literal["user", "agent", "tool", "import", "model"]
SOURCES: Final[tuple[Source, ...]] = ("user", "agent", "tool", "import", "model")
SOURCE_TRUST: Final[dict[str, float]] = {"user": 1.0, "agent": 0.8, "tool": 0.7, "import": 0.7, "model": 0.5}


def least_trusted(labels: Iterable[Source]) -> Source:
    """The label that something derived from events with `labels` carries; `user` where there is none."""
    return max(labels, key=SOURCES.index, default="user")


def is_trusted_less(source: Source, than: Source) -> bool:
    """Whether what bears the label `source` is trusted less than what bears the other one."""
    return SOURCES.index(source) > SOURCES.index(than)


# Types that extractors and models choose from first; any other string is allowed.
ENTITY_TYPES: Final = (
    "person", "organization", "place", "event", "product", "project", "concept", "document", "date", "other",
)  # fmt: skip
RELATIONSHIP_TYPES: Final = (
    "knows", "works_for", "works_on", "located_in", "part_of", "owns", "created", "uses", "mentions",
    "happened_before", "related_to",
)  # fmt: skip

# Names, entities and relationships ----------------------------------------------------------------

# What a name or a type may be long. A key of an index is a folded name of so many characters at most, and a hash where
# it was cut: folding can make 18 characters of one, and a btree of PostgreSQL refuses 2.7 kB, one of Neo4j some 8 kB.
MAX_ENTITY_NAME_CHARACTERS: Final = 500
MAX_GRAPH_TYPE_CHARACTERS: Final = 100
NAME_KEY_CHARACTERS: Final = 200
# Observations at which a relationship has half of its strength.
STRENGTH_HALF: Final = 3.0
# How many of the chunks behind an entity or a relationship are named with it, newest first; the tables hold all.
GRAPH_EVIDENCE_CHUNKS: Final = 20
MAX_GRAPH_HOPS: Final = 6
# Limits of one reading of the graph, and how many of an entity's relationships it follows, the strongest first.
MAX_GRAPH_ENTITIES: Final = 500
MAX_GRAPH_RELATIONSHIPS: Final = 2_000
GRAPH_FAN_OUT: Final = 50
# How many steps from one entity to another a search for a shortest path looks at before it gives up.
MAX_PATH_NEIGHBOURS: Final = 50_000
# With how many names of a tenant a name is compared by likeness, and from what Jaro-Winkler similarity on it is alike:
# "Jon" and "John" have 0.93, "Tim" and "Tim Smith" 0.84, "Lisbon" and "London" 0.67.
ALIKE_COMPARED_NAMES: Final = 10_000
ALIKE_MIN: Final = 0.8

# What one consolidation takes up at most, of a very long text: those named, and those that stand together, most often.
MAX_PLAN_ENTITIES: Final = 2_000
MAX_PLAN_RELATIONSHIPS: Final = 5_000
# The most important of what a model concludes from one.
MAX_PLAN_FACTS: Final = 1_000
# Of a chunk that names more, only the first are taken to have to do with each other.
MAX_PAIRED_ENTITIES: Final = 8
# How sure it is that two names have to do with each other which stand together once, and what repetition adds at most.
TOGETHER_CONFIDENCE: Final = 0.3
TOGETHER_CONFIDENCE_GROWTH: Final = 0.3
# With how many names of a tenant that begin alike new ones are compared for their spelling, newest first.
LIKENESS_COMPARED_NAMES: Final = 5_000
# How many keys one statement looks up.
NAME_LOOKUP_KEYS: Final = 1_000

# Limits of what is accepted -----------------------------------------------------------------------

# An id is part of several index keys; a btree entry holds at most 2,704 bytes, so 2 × 256 characters
# of up to 4 bytes still fit.
MAX_ID_CHARACTERS: Final = 256
MAX_TITLE_CHARACTERS: Final = 500
MAX_CONTENT_CHARACTERS: Final = 1_000_000
MAX_DESCRIPTION_CHARACTERS: Final = 10_000
# Enough for the positions and speakers of some 2,000 turns.
MAX_METADATA_BYTES: Final = 262_144
MAX_METADATA_DEPTH: Final = 16
MAX_EVENT_PAYLOAD_BYTES: Final = 1_048_576
# How many chunks one text may become. Each is a row of several tables, and all are written in one transaction; with
# more of them, other tasks of the process would wait for more than 50 ms at a time (`make bench-loop`).
MAX_TEXT_CHUNKS: Final = 20_000
# Longer than any question; a whole document as a query costs seconds and ranks noise.
MAX_QUERY_CHARACTERS: Final = 20_000
MAX_RESULTS: Final = 200
# Shorter, a text to erase would be found in nearly every memory.
MIN_ERASED_TEXT_CHARACTERS: Final = 3
MAX_LEDGER_PAGE: Final = 1_000

# What one transaction writes at most, for other writers of the same tenant wait for it: so many memories, and so many
# characters of text together. A longer text is written by itself.
MAX_BATCH_MEMORIES: Final = 100
MAX_BATCH_CHARACTERS: Final = 50_000

# Chunks -------------------------------------------------------------------------------------------

MAX_CHUNK_TOKENS: Final = 120
# Stands in each event: the form of its payload. A release does not apply events of a form that it does not know.
FORM_VERSION: Final = 1

# Retrieval ----------------------------------------------------------------------------------------

# Small multiplicative factors, as a share of the score at their extremes.
RECENCY_WEIGHT: Final = 0.02
RECENCY_HALF_LIFE_DAYS: Final = 90.0
IMPORTANCE_WEIGHT: Final = 0.02
CONFIDENCE_WEIGHT: Final = 0.02
# How far recall goes in the graph from what the query names, and how much it reads there: so many relationships of one
# entity, the strongest first, and so many of both in all.
RECALL_HOPS: Final = 2
RECALL_FAN_OUT: Final = 10
RECALL_MAX_ENTITIES: Final = 40
RECALL_MAX_RELATIONSHIPS: Final = 80
# From how many entities it begins at most: several may have one name.
RECALL_SEEDS: Final = 10
# What of an entity's weight reaches those that it has to do with.
GRAPH_DAMPING: Final = 0.5
# In a memory of fewer chunks, a name that stands in all of them still says something.
RARITY_MIN_CHUNKS: Final = 50
# How many of the newest mentions of one entity or relationship are ranked, and of the past, where most may not have
# been there yet, how many are looked at.
RECALL_MENTIONS: Final = 50
RECALL_PAST_MENTIONS: Final = 500
# Its share of the weight where it reaches nothing beyond what is named, and how much something beyond has to weigh for
# the whole of it: about what a name in a single chunk passes on to the only other name there, if that is rare too.
GRAPH_NAMED_SHARE: Final = 0.1
GRAPH_CERTAIN_WEIGHT: Final = 0.15
# Certainty up to this counts for nothing; above it, the graph counts in proportion. Around a name that many chunks
# mention lies much that has nothing to do with the question, and each bit of it gets nearly as much as the best.
GRAPH_CERTAIN_FROM: Final = 0.2
# Where the graph would count less, as a share of its weight, it changes next to nothing, and its chunks are not read.
GRAPH_LEAST_CERTAINTY: Final = 0.05
# What weighs less than this share of the best is not reached.
GRAPH_LEAST_SHARE: Final = 0.02
# A chunk gets this power of its share of the best weight: weights fall by an order of magnitude with each hop, and the
# answer may be a hop further away than what is named. Two thirds of the graph's part are left of the least share; which
# of the chunks answers is for words and meaning to say.
GRAPH_REACH_POWER: Final = 0.1
# How many entities, and how many relationships, a result shows at most.
RESULT_ENTITIES: Final = 10
RESULT_RELATIONSHIPS: Final = 10
# A store of graphs that is more events behind the ledger than this is left out of recall.
GRAPH_MAX_LAG_EVENTS: Final = 100
# How often the log says that the graph takes too long.
GRAPH_LOG_SECONDS: Final = 60.0
# Hits that the extractive summary takes a sentence from, and that count as used.
SUMMARY_HITS: Final = 3

# Consolidation and promotion ----------------------------------------------------------------------

# A text this long is consolidated when it is created, in characters.
LONG_TEXT_CHARACTERS: Final = 2_000
# Chunks shorter than this many words are never taken for duplicates: "Thanks!" means something each time.
DUPLICATE_MIN_WORDS: Final = 6
# Cosine similarity from which another chunk counts as a recurrence, and how many count at most. Of two utterances of
# different sessions one pair in 5,000 is as much alike (bundled embedder, five long conversations).
RECURRENCE_SIMILARITY: Final = 0.8
RECURRENCE_NEIGHBOURS: Final = 5
# With how many chunks of other memories a chunk is compared, newest first. It bounds what a long text in a large tenant
# costs: each comparison takes about a microsecond.
RECURRENCE_COMPARED_CHUNKS: Final = 2_000
RECURRENCE_BATCH_CHUNKS: Final = 100
# importance = the weighted sum of trust, recurrence, specificity and stability, each 0..1; docs/guide/tiers.md
IMPORTANCE_TRUST: Final = 0.30
IMPORTANCE_RECURRENCE: Final = 0.25
IMPORTANCE_SPECIFICITY: Final = 0.25
IMPORTANCE_STABILITY: Final = 0.20
# A chunk that survived this many updates of its memory counts as fully stable.
STABLE_AFTER_UPDATES: Final = 5
# Names, numbers and dates that make a chunk fully specific.
SPECIFIC_AFTER_DETAILS: Final = 3
SUMMARY_SENTENCES: Final = 3

# Consolidation by a model -------------------------------------------------------------------------

# What a model is shown of a memory at once: so many tokens and chunks of what is new, and so much of the rest.
WINDOW_TOKENS: Final = 3_000
WINDOW_CHUNKS: Final = 40
WINDOW_CONTEXT_SENTENCES: Final = 12
WINDOW_CONTEXT_CHARACTERS: Final = 300
# Chunks that are stored already and that one of the window may contradict: near it (cosine), newest compared first.
# Somewhat more than half of all pairs of utterances are as near (bundled embedder, five long conversations): it leaves
# out what has nothing in common, and `NEAR_PER_CHUNK` chooses among the rest.
NEAR_SIMILARITY: Final = 0.24
NEAR_PER_CHUNK: Final = 3
NEAR_COMPARED_CHUNKS: Final = 2_000
NEAR_SHOWN: Final = 20
NEAR_SHOWN_CHARACTERS: Final = 1_000
KNOWN_ENTITIES_SHOWN: Final = 40
KNOWN_RELATIONSHIPS_SHOWN: Final = 30
KNOWN_NAME_SHOWN_CHARACTERS: Final = 60
# Of a relationship that more memories say, the newest of these count as what was shown.
KNOWN_RELATIONSHIP_MEMORIES: Final = 100
# A model's estimate counts for as much as all that can be seen without it.
IMPORTANCE_ESTIMATE: Final = 0.5
MODEL_SUMMARY_CHARACTERS: Final = 2_000

# Use and the end of chunks ------------------------------------------------------------------------

# What being recalled adds, as a share of what an importance lacks, and after how many uses half of that is there.
# A user's own specific sentence (0.55) reaches 0.7 at its third recall, a vague one (0.30) at its ninth, and a model's
# vague guess (0.15) never; docs/guide/tiers.md
IMPORTANCE_USE: Final = 0.6
USE_HALF: Final = 2.0
# What a chunk that nobody touches loses at most, as a share, and in how many days half of that.
IMPORTANCE_FADE: Final = 0.2
IMPORTANCE_FADE_HALF_LIFE_DAYS: Final = 90.0
# How long counted uses wait until they are written, together; and how many chunks are counted meanwhile at most.
USE_WRITE_SECONDS: Final = 5.0
USE_MAX_PENDING_CHUNKS: Final = 50_000
# Closing waits so long for the last of them.
USE_CLOSE_SECONDS: Final = 2.0
# How long after a use its stream is looked at again: uses of an hour are judged together.
USE_REVIEW_SECONDS: Final = 3_600.0
# How many chunks one transaction of a review ends at most, for writers of the same tenant wait for it, and how many are
# chosen by one reading of all.
REVIEW_BATCH_CHUNKS: Final = 50
REVIEW_PASS_CHUNKS: Final = 10_000

# Embedding ----------------------------------------------------------------------------------------

EMBEDDING_BATCH_TEXTS: Final = 256
# How many chunks and headings without vectors one round of the backfill takes on: their texts are one call of the
# embedder. The write at its end holds the stream's lock.
BACKFILL_CHUNKS: Final = EMBEDDING_BATCH_TEXTS
# What one request to a server of embeddings holds at most. A model of 300 million parameters on two processors reads
# some hundred tokens a second, and is to be done well within the timeout.
EMBEDDING_REQUEST_TEXTS: Final = 16
EMBEDDING_REQUEST_CHARACTERS: Final = 16_000
# A request that fails in passing is made again so often at most, within its timeout, after about so many seconds.
EMBEDDING_ATTEMPTS: Final = 3
EMBEDDING_RETRY_WAIT_SECONDS: Final = 0.5
# Who asks a question gets an answer by words when its vector takes longer; and a start does not wait longer, either.
EMBEDDING_QUERY_SECONDS: Final = 10.0
EMBEDDING_PREPARE_SECONDS: Final = 10.0
# A text of more bytes for each token that the model reads at once is asked for alone, for it is likely to be refused.
EMBEDDING_LONE_BYTES_PER_TOKEN: Final = 3
# A text of more characters for each such token is not even asked for: no language is that terse in tokens, and a server
# may take minutes to count them (Ollama 0.24: a word of 100,000 letters keeps one processor busy for over ten).
EMBEDDING_HOPELESS_CHARACTERS_PER_TOKEN: Final = 8
# So many characters for each such token has a part of a text that is too long. Few texts have more tokens than that.
EMBEDDING_PART_CHARACTERS_PER_TOKEN: Final = 2
# Of texts this long it is looked up how much the model reads at once, if that is not known yet.
EMBEDDING_LONG_CHARACTERS: Final = 2_000
# What a pgvector index of halfvec takes at most. We use no such index, but a vector of this size fills a page.
MAX_EMBEDDING_DIMENSION: Final = 4_000

# Stores -------------------------------------------------------------------------------------------

# PostgreSQL 16 is the first in which a membership of a role says whether it inherits; pgvector has halfvec since 0.7.
POSTGRES_MIN_VERSION: Final = 160_000
PGVECTOR_MIN_VERSION: Final = (0, 7, 0)
# How memories come along from a data folder or a database that this release cannot read; what follows names the place.
EXPORT_FIRST: Final = (
    "Export each external_id with the installation that made it (`agent-reminiscence export FILE --external-id …`),"
    " then import the files with this one (`agent-reminiscence import FILE`) into"
)
CONNECT_TIMEOUT_SECONDS: Final = 10
# How much longer than the statement timeout an answer may take on its way; after that its server counts as lost.
ANSWER_GRACE_SECONDS: Final = 5.0
# Without an answer on the wire for so long a TCP connection is given up: a peer that is gone without a word is
# otherwise noticed after a quarter of an hour.
TCP_SILENCE_SECONDS: Final = 30
# What is repeated because the server was away: four times at most, after about 0.2, 0.4, 0.8 and 1.6 seconds (jittered,
# so that many callers do not come back at once). A restart takes one or two; who waits longer wants to know.
RETRY_ATTEMPTS: Final = 5
RETRY_FIRST_WAIT_SECONDS: Final = 0.2
# No attempt begins later than this after the first.
RETRY_TOTAL_SECONDS: Final = 4.0
# A store that does not answer is left alone for so long, then for twice as long each time, up to a limit.
BREAKER_FIRST_PAUSE_SECONDS: Final = 1.0
BREAKER_MAX_PAUSE_SECONDS: Final = 30.0
# Work that follows writes: how often a run looks again for what was written meanwhile, before others have their turn.
WORK_ROUNDS: Final = 5
# Each pause before another attempt is so many times as long as the one before it, up to an hour.
RETRY_PAUSE_FACTOR: Final = 4.0
MAX_RETRY_PAUSE_SECONDS: Final = 3_600.0
# The same where the embedder's server is away: its work is never given up, and soon done when it is back.
MAX_OUTAGE_PAUSE_SECONDS: Final = 300.0
JOB_QUEUE: Final = "reminiscence"
# How often workers look for work that has no job, which only a crash leaves behind, and how old it is by then at least:
# what is younger is most likely still being done by the call that made it.
SWEEP_SECONDS: Final = 30
SWEEP_GRACE_SECONDS: Final = 60.0
SWEEP_STREAMS: Final = 1_000
# A worker that has missed so many heartbeats counts as dead, and others do its work.
MISSED_HEARTBEATS: Final = 3
# What is under way when a worker ends has so long to finish.
WORKER_GRACE_SECONDS: Final = 10.0
# And its own farewell to the server so long.
WORKER_FAREWELL_SECONDS: Final = 5.0
# How often it looks for work itself: news of it is lost while it is not yet listening.
WORKER_POLL_SECONDS: Final = 1.0
WORKER_RESTART_SECONDS: Final = 1.0
WORKER_MAX_RESTART_SECONDS: Final = 30.0
SCHEMA_NAME: Final = "reminiscence"
# Procrastinate's tables, beside ours.
JOBS_SCHEMA_NAME: Final = "reminiscence_jobs"
OWNER_ROLE: Final = "reminiscence_owner"
APP_ROLE: Final = "reminiscence_app"
SCHEDULER_ROLE: Final = "reminiscence_scheduler"
WORKER_ROLE: Final = "reminiscence_worker"
ERASER_ROLE: Final = "reminiscence_eraser"
# The login of the embedded server; on a server of your own its name is your choice.
EMBEDDED_LOGIN: Final = "reminiscence_login"
EMBEDDED_DATABASE: Final = "reminiscence"
