"""Everything that a memory does, one service for each; the facade and `memory.admin` call them."""

from __future__ import annotations

from dataclasses import dataclass

from agent_reminiscence.services.access.keys import AccessKeys
from agent_reminiscence.services.audit.erasure import ErasureService
from agent_reminiscence.services.audit.verification import VerificationService
from agent_reminiscence.services.graph.ledger_beliefs import LedgerBeliefs
from agent_reminiscence.services.graph.memory_graph import MemoryGraph
from agent_reminiscence.services.ledger.memory_ledger import MemoryLedger
from agent_reminiscence.services.memories.history import HistoryService
from agent_reminiscence.services.memories.manager import MemoryManager
from agent_reminiscence.services.memories.remembering import RememberingService
from agent_reminiscence.services.profiles.profiles import Profiles
from agent_reminiscence.services.profiles.refreshing import ProfileRefresher
from agent_reminiscence.services.recall.outcomes import RunOutcomes
from agent_reminiscence.services.recall.retrieval import RetrievalService
from agent_reminiscence.services.recall.streaming import HitStream
from agent_reminiscence.services.recall.synthesis import SynthesisService
from agent_reminiscence.services.reflection.memory_index import EventSearch
from agent_reminiscence.services.reflection.reflection import Reflections
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.services.tiers.consolidation import ConsolidationService
from agent_reminiscence.services.tiers.review import LifecycleService
from agent_reminiscence.services.transfer.batches import BulkService
from agent_reminiscence.services.transfer.export import TransferService
from agent_reminiscence.services.upkeep.usage import UsageService
from agent_reminiscence.services.vectors.filling import EmbeddingService
from agent_reminiscence.services.vectors.reembedding import ReembeddingService
from agent_reminiscence.services.work.health import HealthService
from agent_reminiscence.services.work.retention import Retention
from agent_reminiscence.services.work.stream_work import WorkService
from agent_reminiscence.services.work.worker import Worker


@dataclass(frozen=True, slots=True)
class Services:
    """The services of one open memory.

    Attributes:
        review: Expires and prunes chunks; `retention` does so, and erases what is over if that is wanted.
        outcomes: What runs were given, and how they ended.
        synthesis: Recall, with an answer by a model where one is asked for.
        bulk: Batches of memories, such as imports write.
        refresher: Writes the texts of `profiles`.
        work: What is due for a stream, done at once; `worker` does it in the background.
    """

    runtime: Runtime
    manager: MemoryManager
    retrieval: RetrievalService
    hit_stream: HitStream
    outcomes: RunOutcomes
    synthesis: SynthesisService
    remembering: RememberingService
    consolidation: ConsolidationService
    review: LifecycleService
    history: HistoryService
    verification: VerificationService
    erasure: ErasureService
    transfer: TransferService
    bulk: BulkService
    retention: Retention
    work: WorkService
    worker: Worker
    health: HealthService
    usage: UsageService
    graph: MemoryGraph
    beliefs: LedgerBeliefs
    ledger: MemoryLedger
    embedding: EmbeddingService
    reembedding: ReembeddingService
    profiles: Profiles
    refresher: ProfileRefresher
    event_search: EventSearch
    reflections: Reflections
    keys: AccessKeys
