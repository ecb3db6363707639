"""All repositories of a database. They hold no state: one of each serves every transaction."""

from __future__ import annotations

from dataclasses import dataclass, field

from agent_reminiscence.database.repositories.access_key import AccessKeyRepository
from agent_reminiscence.database.repositories.active_memory import ActiveMemoryRepository
from agent_reminiscence.database.repositories.chunk_norms import ChunkNormsRepository
from agent_reminiscence.database.repositories.chunk_piece import ChunkPieceRepository
from agent_reminiscence.database.repositories.chunk_similarity import ChunkSimilarityRepository
from agent_reminiscence.database.repositories.chunk_use import ChunkUseRepository
from agent_reminiscence.database.repositories.chunk_vector import ChunkVectorRepository
from agent_reminiscence.database.repositories.erasure import ErasureRepository
from agent_reminiscence.database.repositories.event_index import EventIndexRepository
from agent_reminiscence.database.repositories.event_ledger import EventLedger
from agent_reminiscence.database.repositories.filters import FilterRepository
from agent_reminiscence.database.repositories.graph.beliefs import BeliefRepository
from agent_reminiscence.database.repositories.graph.changes import GraphChangesRepository
from agent_reminiscence.database.repositories.graph.progress import GraphProgressRepository
from agent_reminiscence.database.repositories.graph.tables import EntityGraphRepository
from agent_reminiscence.database.repositories.history import HistoryRepository
from agent_reminiscence.database.repositories.live_chunks import LiveChunksRepository
from agent_reminiscence.database.repositories.longterm_memory import LongtermMemoryRepository
from agent_reminiscence.database.repositories.memory_chunk import MemoryChunkRepository
from agent_reminiscence.database.repositories.memory_turn import MemoryTurnRepository
from agent_reminiscence.database.repositories.outdated_chunk import OutdatedChunkRepository
from agent_reminiscence.database.repositories.profile import ProfileRepository
from agent_reminiscence.database.repositories.recall_day import RecallDayRepository
from agent_reminiscence.database.repositories.recalled_chunk import RecalledChunkRepository
from agent_reminiscence.database.repositories.reflection import ReflectionRepository
from agent_reminiscence.database.repositories.remembering import RememberingRepository
from agent_reminiscence.database.repositories.replay_tables import ReplayTablesRepository
from agent_reminiscence.database.repositories.search import SearchRepository
from agent_reminiscence.database.repositories.shortterm_memory import ShorttermMemoryRepository
from agent_reminiscence.database.repositories.text_index import TextIndexRepository
from agent_reminiscence.database.repositories.totals import TotalsRepository
from agent_reminiscence.database.repositories.vector_cell import VectorCellRepository
from agent_reminiscence.database.repositories.work_queue import WorkQueue


@dataclass(frozen=True, slots=True)
class Tables:
    """Everything that the handler of an event may change."""

    active: ActiveMemoryRepository = field(default_factory=ActiveMemoryRepository)
    turns: MemoryTurnRepository = field(default_factory=MemoryTurnRepository)
    shortterm: ShorttermMemoryRepository = field(default_factory=ShorttermMemoryRepository)
    longterm: LongtermMemoryRepository = field(default_factory=LongtermMemoryRepository)
    chunks: MemoryChunkRepository = field(default_factory=MemoryChunkRepository)
    pieces: ChunkPieceRepository = field(default_factory=ChunkPieceRepository)
    index: TextIndexRepository = field(default_factory=TextIndexRepository)
    graph: GraphChangesRepository = field(default_factory=GraphChangesRepository)
    beliefs: BeliefRepository = field(default_factory=BeliefRepository)
    profiles: ProfileRepository = field(default_factory=ProfileRepository)
    recalled: RecalledChunkRepository = field(default_factory=RecalledChunkRepository)
    outdated: OutdatedChunkRepository = field(default_factory=OutdatedChunkRepository)
    event_index: EventIndexRepository = field(default_factory=EventIndexRepository)


@dataclass(frozen=True, slots=True)
class Repositories:
    """Every repository, by what it reads and writes.

    Attributes:
        tables: The projections, as handlers write them.
        graph: Entities and relationships, as they are read.
        graph_progress: How far Neo4j has followed.
        recalls: How many questions were answered each day.
        live_chunks: Chunks that a search may find now, for review.
        reflections: What an agent has seen and believes, read from the ledger.
        remembering: Which conversations a model is still to read, read from the ledger.
        replay_tables: The tables that a replay fills, beside those in use.
        totals: What is counted for `usage`.
        keys: Who may do what at the server.
    """

    tables: Tables = field(default_factory=Tables)
    events: EventLedger = field(default_factory=EventLedger)
    queue: WorkQueue = field(default_factory=WorkQueue)
    search: SearchRepository = field(default_factory=SearchRepository)
    filters: FilterRepository = field(default_factory=FilterRepository)
    history: HistoryRepository = field(default_factory=HistoryRepository)
    similarity: ChunkSimilarityRepository = field(default_factory=ChunkSimilarityRepository)
    uses: ChunkUseRepository = field(default_factory=ChunkUseRepository)
    recalls: RecallDayRepository = field(default_factory=RecallDayRepository)
    live_chunks: LiveChunksRepository = field(default_factory=LiveChunksRepository)
    vectors: ChunkVectorRepository = field(default_factory=ChunkVectorRepository)
    norms: ChunkNormsRepository = field(default_factory=ChunkNormsRepository)
    cells: VectorCellRepository = field(default_factory=VectorCellRepository)
    graph: EntityGraphRepository = field(default_factory=EntityGraphRepository)
    graph_progress: GraphProgressRepository = field(default_factory=GraphProgressRepository)
    reflections: ReflectionRepository = field(default_factory=ReflectionRepository)
    remembering: RememberingRepository = field(default_factory=RememberingRepository)
    replay_tables: ReplayTablesRepository = field(default_factory=ReplayTablesRepository)
    erasure: ErasureRepository = field(default_factory=ErasureRepository)
    totals: TotalsRepository = field(default_factory=TotalsRepository)
    keys: AccessKeyRepository = field(default_factory=AccessKeyRepository)
