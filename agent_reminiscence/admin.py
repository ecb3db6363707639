"""`memory.admin`: maintenance of memories."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, overload
from uuid import UUID

from agent_reminiscence.config.constants import MAX_RESULTS, Tier
from agent_reminiscence.config.settings import Config
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.domain.audit import AuditReport, Progress
from agent_reminiscence.domain.erasure import ErasureCheck, ErasurePreview, ErasureReceipt
from agent_reminiscence.domain.generation import Generation, GenerationFill, ReembedProgress, ReembedReport
from agent_reminiscence.domain.history import MemoryHistory
from agent_reminiscence.domain.lifecycle import LifecycleReport
from agent_reminiscence.domain.memory import ActiveMemory, ConsolidationReport
from agent_reminiscence.domain.remembering import RememberReport
from agent_reminiscence.domain.retrieval import RetrievalResult
from agent_reminiscence.domain.transfer import (
    AddedMemory,
    ExportReport,
    ImportedMemory,
    ImportReport,
    MessageImportReport,
)
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.domain.usage import MemoryUsage
from agent_reminiscence.domain.work import Job, WorkReport
from agent_reminiscence.embedders.protocol import Embedder
from agent_reminiscence.exceptions import InvalidInputError, MemoryNotFoundError
from agent_reminiscence.projections import Tables
from agent_reminiscence.resilience.retries import repeated
from agent_reminiscence.services import validation
from agent_reminiscence.services.audit.erasure import EraseRequest, ErasureService
from agent_reminiscence.services.audit.verification import VerificationService
from agent_reminiscence.services.graph.memory_graph import MemoryGraph
from agent_reminiscence.services.ledger.requests import UNSET, ArchiveRequest, Unset
from agent_reminiscence.services.memories.conversations import read_conversation
from agent_reminiscence.services.memories.history import HistoryService
from agent_reminiscence.services.memories.manager import MemoryManager
from agent_reminiscence.services.memories.remembering import RememberingService, RememberRequest
from agent_reminiscence.services.recall.retrieval import RetrieveRequest
from agent_reminiscence.services.recall.synthesis import SynthesisService
from agent_reminiscence.services.tiers.consolidation import ConsolidationService
from agent_reminiscence.services.tiers.review import LifecycleService
from agent_reminiscence.services.transfer.batches import BulkService, ImportMessagesRequest
from agent_reminiscence.services.transfer.export import TransferService
from agent_reminiscence.services.upkeep.usage import UsageService
from agent_reminiscence.services.vectors.reembedding import ReembeddingService, Target
from agent_reminiscence.services.work.stream_work import WorkService
from agent_reminiscence.services.work.worker import Worker


class MemoryAdmin:
    """Maintenance of one database's memories."""

    def __init__(
        self,
        store: PostgresManager,
        tables: Tables,
        manager: MemoryManager,
        consolidation: ConsolidationService,
        history: HistoryService,
        verification: VerificationService,
        erasure: ErasureService,
        transfer: TransferService,
        bulk: BulkService,
        work: WorkService,
        worker: Worker,
        lifecycle: LifecycleService,
        usage: UsageService,
        graph: MemoryGraph,
        reembedding: ReembeddingService,
        remembering: RememberingService,
        synthesis: SynthesisService,
        config: Config,
    ) -> None:
        self._store = store
        self._tables = tables
        self._manager = manager
        self._consolidation = consolidation
        self._history = history
        self._verification = verification
        self._erasure = erasure
        self._transfer = transfer
        self._bulk = bulk
        self._work = work
        self._worker = worker
        self._lifecycle = lifecycle
        self._usage = usage
        self._remembering = remembering
        self._synthesis = synthesis
        self._config = config
        self._graph = graph
        self._reembedding = reembedding

    @property
    def graph(self) -> MemoryGraph:
        """The entities that memories name, and the relationships between them."""
        return self._graph

    async def consolidate(
        self, external_id: str | int | UUID, memory_id: UUID | str | None = None, *, dry_run: bool = False
    ) -> list[ConsolidationReport]:
        """Consolidate now instead of later, fill in missing vectors, and promote what is important.

        If a memorizer model is configured, it reads what is new, and the parts of its plan that pass validation are
        carried out; `fallback` of each report says why rules decided the rest.

        Args:
            memory_id: One memory; None is all of the tenant's, oldest first, including archived ones.
            dry_run: Only report what would be done, in `plan` and `ends`; vectors are filled in. The model is still
                called, and its usage recorded.

        Returns:
            One report for each memory. A version that was already consolidated is skipped.

        Raises:
            InvalidInputError: An argument is invalid.
            MemoryNotFoundError: `external_id` has no such memory.
            StoreError: The store is unavailable; completed work is kept.
        """
        tenant = validation.external_id(external_id)
        is_dry_run = validation.flag("dry_run", dry_run)
        if memory_id is not None:
            return [await self._consolidate(tenant, validation.memory_id(memory_id), is_dry_run=is_dry_run)]
        async with self._store.transaction(tenant, read_only=True) as db:
            memory_ids = await self._tables.active.find_ids(db, tenant)
        reports = []
        for found in memory_ids:
            # The caller did not name it, so one erased meanwhile is not an error.
            with suppress(MemoryNotFoundError):
                reports.append(await self._consolidate(tenant, found, is_dry_run=is_dry_run))
        return reports

    async def _consolidate(self, external_id: str, memory_id: UUID, *, is_dry_run: bool) -> ConsolidationReport:
        # Repeatable, because a version is consolidated only once.
        return await repeated(
            lambda: self._consolidation.consolidate(external_id, memory_id, is_dry_run=is_dry_run),
            operation="consolidate",
            external_id=external_id,
            repeatable=True,
        )

    async def review(self, external_id: str | int | UUID) -> LifecycleReport:
        """Do now what a worker does regularly: promote often-recalled chunks, end expired and surplus ones.

        Ended chunks leave current searches through an event of their own. Nothing is deleted, no text changes, and a
        search `as_of` an earlier time finds them. Without `max_chunks` and times to live, nothing ends.

        Raises:
            InvalidInputError: The id is invalid.
            StoreError: The store is unavailable; completed work is kept, and a second call does the rest.
        """
        return await self._lifecycle.review(validation.external_id(external_id))

    async def usage(self, external_id: str | int | UUID) -> MemoryUsage:
        """What `external_id` holds, its pending work, and its model usage.

        Reads every chunk and counts tokens in a thread: about 75 ms for 1,000 chunks of 50 tokens.

        Raises:
            InvalidInputError: The id is invalid.
            StoreError: The store is unavailable.
        """
        return await self._usage.usage(validation.external_id(external_id))

    async def run_due(self, external_id: str | int | UUID) -> WorkReport:
        """Do the due work of `external_id` in this call, like a worker: consolidate, promote, fill in vectors.

        For programs without a worker, and for tests. What is not due is left alone.

        Returns:
            What was done. A failure is in `error`, and its work is queued again, as by a worker.

        Raises:
            InvalidInputError: The id is invalid.
            StoreError: The store is unavailable; the work stays due.
        """
        return await self._work.run(validation.external_id(external_id))

    async def run_worker(self, *, until_idle: bool = False) -> None:
        """Work for all tenants in this call, alongside any number of other workers.

        Args:
            until_idle: Return once nothing is waiting, instead of running until the task is cancelled. Jobs waiting
                for a retry are left waiting.

        Raises:
            InvalidInputError: An argument is invalid.
            StoreError: The store is unavailable; only with `until_idle`, otherwise the worker waits for its return.
        """
        if validation.flag("until_idle", until_idle):
            await self._worker.run_until_idle()
        else:
            await self._worker.run()

    async def jobs(self, external_id: str | int | UUID | None = None) -> list[Job]:
        """Jobs that are waiting, running, or given up after too many failures, with their errors.

        Args:
            external_id: Only this one's; None is all.

        Raises:
            InvalidInputError: The id is invalid.
            StoreError: The store is unavailable.
        """
        return await self._work.jobs(None if external_id is None else validation.external_id(external_id))

    async def retry_jobs(self, external_id: str | int | UUID | None = None) -> int:
        """Queue given-up work again.

        Args:
            external_id: Only this one's; None is all.

        Returns:
            The number of streams whose work was queued.

        Raises:
            InvalidInputError: The id is invalid.
            StoreError: The store is unavailable.
        """
        return await self._work.retry(None if external_id is None else validation.external_id(external_id))

    async def wait_until_idle(
        self, external_id: str | int | UUID | None = None, timeout_seconds: float = 30.0
    ) -> list[Job]:
        """Wait until the work that follows writes is done; a worker must be running, here or elsewhere.

        Args:
            external_id: Only this one's; None is all.
            timeout_seconds: Maximum time to wait.

        Returns:
            Jobs that were given up, with their errors; empty if nothing was given up.

        Raises:
            InvalidInputError: An argument is invalid.
            WorkTimeoutError: Work is still waiting or running; it continues.
            StoreError: The store is unavailable.
        """
        return await self._work.wait_until_idle(
            None if external_id is None else validation.external_id(external_id),
            timeout_seconds=validation.seconds("timeout_seconds", timeout_seconds),
        )

    async def archive(
        self,
        external_id: str | int | UUID,
        memory_id: UUID | str,
        *,
        end_chunks: bool = False,
        occurred_at: datetime | None = None,
        actor: str | None = None,
    ) -> ActiveMemory:
        """Archive an active memory: it leaves the active list and takes no more updates.

        Args:
            end_chunks: Also end its chunks, so that only searches `as_of` an earlier time find them. Otherwise they
                stay searchable.
            occurred_at: When this happened in the world; None is now.
            actor: Who archives it.

        Raises:
            InvalidInputError: An argument is invalid.
            MemoryNotFoundError: `external_id` has no such memory.
            StoreError: The store is unavailable.
        """
        request = ArchiveRequest(
            external_id=validation.external_id(external_id),
            memory_id=validation.memory_id(memory_id),
            end_chunks=validation.flag("end_chunks", end_chunks),
            occurred_at=validation.optional_moment("occurred_at", occurred_at),
            actor=validation.optional_identifier("actor", actor),
        )
        return await self._manager.archive(request)

    async def history(self, external_id: str | int | UUID, memory_id: UUID | str) -> MemoryHistory:
        """Every version of a memory, oldest first, with both times, its actor, and what was derived from it.

        Raises:
            InvalidInputError: An argument is invalid.
            MemoryNotFoundError: `external_id` has no such memory; an erased one has no history.
            StoreError: The store is unavailable.
        """
        return await self._history.history(validation.external_id(external_id), validation.memory_id(memory_id))

    async def active_memories(
        self, external_id: str | int | UUID, *, as_of: datetime | None = None, known_at: datetime | None = None
    ) -> list[ActiveMemory]:
        """The active memories at an earlier time, oldest first.

        Args:
            as_of: As true in the world at this time; None is `known_at`.
            known_at: As recorded by this time; None is all that is known today. Without either argument, the same as
                `get_active_memories`.

        Raises:
            InvalidInputError: An argument is invalid.
            StoreError: The store is unavailable.
        """
        return await self._history.active_memories(
            validation.external_id(external_id),
            as_of=validation.optional_moment("as_of", as_of),
            known_at=validation.optional_moment("known_at", known_at),
        )

    async def verify(
        self,
        external_id: str | int | UUID | None = None,
        *,
        repair: bool = False,
        progress: Callable[[Progress], None] | None = None,
    ) -> AuditReport:
        """Replay the ledger and compare the result with what is stored, row by row.

        The ledger itself is checked first: every event against its digest, every digest against the chain. Nothing is
        locked; the comparison uses one snapshot, whatever is written meanwhile. Differences are logged, without text.

        Args:
            external_id: One stream; None is all, one after another.
            repair: Rebuild streams that differ. A fault in the ledger itself cannot be repaired, and nothing is
                rebuilt from a faulty ledger.
            progress: Called after each page of events.

        Raises:
            InvalidInputError: An argument is invalid.
            StoreError: The store is unavailable.
        """
        return await self._verification.verify(
            None if external_id is None else validation.external_id(external_id),
            repair=validation.flag("repair", repair),
            progress=progress,
        )

    async def rebuild(
        self,
        external_id: str | int | UUID | None = None,
        *,
        progress: Callable[[Progress], None] | None = None,
    ) -> AuditReport:
        """Rebuild the tiers by replaying the ledger, and fill in missing vectors.

        Searches see the old rows until the new ones are in place, and writers wait only for the last events. Correct
        rows are left as they are; the report names the others.

        Args:
            external_id: One stream; None is all, one after another.
            progress: Called after each page of events.

        Raises:
            InvalidInputError: The id is invalid.
            StoreError: The store is unavailable; the current stream is unchanged, those before it are rebuilt.
        """
        return await self._verification.rebuild(
            None if external_id is None else validation.external_id(external_id), progress=progress
        )

    async def reembed(
        self,
        embedder: Embedder | None = None,
        *,
        provider: str | None = None,
        model: str | None = None,
        dimension: int | None = None,
        admin_dsn: str | None = None,
        progress: Callable[[ReembedProgress], None] | None = None,
    ) -> ReembedReport:
        """Rebuild the vectors of all memories with another model, and switch to them.

        Searches and writes continue meanwhile. Other processes follow the switch automatically: they create the
        embedder of a named provider themselves, while your own embedder must be passed to them as
        `AgentMem(embedders=[…])`. After a crash, the next call resumes. The old vectors are kept until
        `drop_old_vectors` or the next change of model.

        Args:
            embedder: Your own embedder for the new vectors.
            provider: Alternatively, a provider as in `embedding_provider`, with `model` and `dimension`. With neither:
                continue the generation being built, else use this object's embedder; if its vectors were the last to
                be replaced, fill in missing current vectors.
            admin_dsn: DSN of a database administrator, who may create tables; the embedded server needs none.
            progress: Called after each batch.

        Returns:
            What was done. If the current vectors are already from that model, the missing ones were filled in.

        Raises:
            InvalidInputError: An argument is invalid.
            ConfigurationError: There is no such embedder, or no administrator.
            ReembeddingError: Another call is running, or another model's vectors are being built.
            EmbeddingError: The embedder failed. Its vectors so far are kept, and the next call resumes.
            StoreError: The store is unavailable; likewise.
        """
        target = None
        if embedder is not None:
            if provider is not None or model is not None or dimension is not None:
                raise InvalidInputError("reembed() takes an embedder, or provider, model and dimension, but not both")
            target = Target(embedder)
        elif provider is not None:
            target = self._reembedding.target(provider, model, dimension)
        elif model is not None or dimension is not None:
            raise InvalidInputError("reembed() was given a model or a dimension without a provider; name the provider")
        return await self._reembedding.reembed(target, admin_dsn=admin_dsn, progress=progress)

    async def cancel_reembed(self, *, admin_dsn: str | None = None) -> Generation | None:
        """Discard the vector generation being built; searches are not affected.

        Returns:
            The discarded generation; None if none was being built.

        Raises:
            ConfigurationError: There is no administrator.
            ReembeddingError: A `reembed` call is running; stop it first.
            StoreError: The store is unavailable.
        """
        return await self._reembedding.cancel(admin_dsn=admin_dsn)

    async def drop_old_vectors(self, *, admin_dsn: str | None = None) -> list[Generation]:
        """Drop replaced vectors, after waiting until they have been unused for a minute.

        Returns:
            The dropped generations.

        Raises:
            ConfigurationError: There is no administrator.
            ReembeddingError: A `reembed` call is running.
            StoreError: The store is unavailable, or the vectors were in use all the time.
        """
        return await self._reembedding.drop_old(admin_dsn=admin_dsn)

    async def generations(self) -> list[GenerationFill]:
        """All vector generations, oldest first, and how complete each is. Counts all chunks.

        Raises:
            StoreError: The store is unavailable.
        """
        return await self._reembedding.generations()

    @overload
    async def erase(
        self,
        external_id: str | int | UUID,
        *,
        memory_id: UUID | str | Unset = UNSET,
        conversation_id: str | Unset = UNSET,
        text: str | Unset = UNSET,
        dry_run: Literal[False] = False,
        actor: str | None = None,
    ) -> ErasureReceipt: ...

    @overload
    async def erase(
        self,
        external_id: str | int | UUID,
        *,
        memory_id: UUID | str | Unset = UNSET,
        conversation_id: str | Unset = UNSET,
        text: str | Unset = UNSET,
        dry_run: Literal[True],
        actor: str | None = None,
    ) -> ErasurePreview: ...

    async def erase(
        self,
        external_id: str | int | UUID,
        *,
        memory_id: UUID | str | Unset = UNSET,
        conversation_id: str | Unset = UNSET,
        text: str | Unset = UNSET,
        dry_run: bool = False,
        actor: str | None = None,
    ) -> ErasureReceipt | ErasurePreview:
        """Erase a memory, a conversation, everything that contains a text, or all data of `external_id`.

        When the call returns, the data is gone from events, tiers, vectors and caches, and a scan in the same
        transaction has confirmed it. A memory is erased with all its versions, because later ones repeat what earlier
        ones say; other memories keep what they say. The ledger keeps the emptied rows, so that its chain still holds.

        Args:
            memory_id: Erase this memory.
            conversation_id: Erase every memory this conversation created or changed, and its events of other kinds.
            text: Erase everything that ever contained this exact text, in any version.
            dry_run: Only report what would be erased.
            actor: Who erases; kept in the receipt.

        Returns:
            The receipt, which is also a ledger event and holds none of the text; with `dry_run`, a preview.

        Raises:
            InvalidInputError: An argument is invalid or None, or more than one of the first three is given.
            MemoryNotFoundError: `external_id` has no such memory.
            StoreError: The store is unavailable; nothing is erased.
        """
        given = {
            name: value
            for name, value in (("memory_id", memory_id), ("conversation_id", conversation_id), ("text", text))
            if not isinstance(value, Unset)
        }
        if len(given) > 1:
            raise InvalidInputError("erase() takes one of memory_id, conversation_id and text; call it once for each")
        for name, value in given.items():
            # Most likely an unset variable; "everything" is not what was meant.
            if value is None:
                raise InvalidInputError(
                    f"{name} is None, which names nothing to erase; leave it out to erase everything external_id has"
                )
        request = EraseRequest(
            external_id=validation.external_id(external_id),
            memory_id=validation.memory_id(memory_id) if "memory_id" in given else None,
            conversation=validation.identifier("conversation_id", conversation_id)
            if "conversation_id" in given
            else None,
            text=validation.erased_text(text) if "text" in given else None,
            actor=validation.optional_identifier("actor", actor),
        )
        if validation.flag("dry_run", dry_run):
            return await self._erasure.preview(request)
        return await self._erasure.erase(request)

    async def verify_erased(self, receipt: ErasureReceipt, *, text: str | None = None) -> ErasureCheck:
        """Scan again, everywhere memory text can be stored, for what a receipt says is gone.

        Args:
            receipt: As returned by `erase`.
            text: Also look for this text, which the receipt does not hold.

        Raises:
            InvalidInputError: An argument is invalid.
            StoreError: The store is unavailable.
        """
        if not isinstance(receipt, ErasureReceipt):
            raise InvalidInputError(f"receipt must be what erase() returned, not {type(receipt).__name__}")
        wanted = None if text is None else validation.erased_text(text)
        return await self._erasure.verify_erased(receipt, text=wanted)

    async def export(
        self,
        external_id: str | int | UUID,
        path: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> ExportReport:
        """Write all events of `external_id` to a file, as a consistent snapshot; the format is documented.

        Args:
            path: The file; it appears complete or not at all.
            overwrite: Whether to replace an existing file.
            progress: Called with the number of events written so far and the total.

        Raises:
            InvalidInputError: An argument is invalid, or the file exists.
            StoreError: The store is unavailable, or the ledger has been altered; no file is left behind.
        """
        return await self._transfer.export(
            validation.external_id(external_id),
            Path(path),
            overwrite=validation.flag("overwrite", overwrite),
            note=progress or _no_note,
        )

    async def import_(
        self,
        path: str | os.PathLike[str],
        external_id: str | int | UUID | None = None,
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> ImportReport:
        """Import a file that `export` wrote and project its events, completely or not at all.

        Importing the same file again does nothing; a later export adds what is new. The checksum shows that a file is
        complete, not who wrote it: import only files you trust.

        Args:
            path: The file.
            external_id: Import into this one; None is the file's. It must be new, or hold only the same events.
            progress: Called with the number of events read so far and the total.

        Raises:
            InvalidInputError: The file is damaged, incomplete or from a newer version, or conflicts with what
                `external_id` holds; nothing is written.
            StoreError: The store is unavailable or refused an event; nothing is written.
        """
        return await self._transfer.import_(
            Path(path),
            None if external_id is None else validation.external_id(external_id),
            note=progress or _no_note,
        )

    async def remember(
        self,
        external_id: str | int | UUID,
        messages: Iterable[Any],
        *,
        occurred_at: datetime | None = None,
        actor: str | None = None,
        conversation_id: str | None = None,
        dry_run: bool = False,
    ) -> RememberReport:
        """Have a model decide what in a conversation is worth remembering, and remember it.

        The model sees the conversation and the active memories, without secrets (`redaction`), and proposes memories to
        create and update. They are written like any caller's, with the trust label `model`; the model can do nothing
        else. Mere thanks and greetings call no model, and text recalled into the conversation is not remembered again.

        Args:
            messages: Pydantic AI messages, or mappings with `role` (user, assistant, tool, system) and `content`; at
                most 1,000, with 100,000 characters in total. System prompts are ignored.
            occurred_at: As in `create_active_memory`, like `actor` and `conversation_id`; applies to all writes.
            dry_run: Only report what would be done.

        Returns:
            What was done, and why.

        Raises:
            InvalidInputError: An argument is invalid; nothing is written.
            ConfigurationError: No model is configured (`memory_update_agent_model`).
            AgentError: The model gave no usable answer; nothing is written.
            RedactionError: Your redactor failed; nothing is written.
            StoreError: The store is unavailable; completed writes are kept. A second call shows them to the model,
                which then proposes what it sees is missing.
        """
        request = RememberRequest(
            external_id=validation.external_id(external_id),
            said=read_conversation(messages),
            occurred_at=validation.optional_moment("occurred_at", occurred_at),
            actor=validation.optional_identifier("actor", actor),
            conversation_id=validation.optional_identifier("conversation_id", conversation_id),
            is_dry_run=validation.flag("dry_run", dry_run),
        )
        return await self._remembering.remember(request)

    def stream_answer(
        self,
        external_id: str | int | UUID,
        query: str,
        *,
        limit: int | None = None,
        tiers: Iterable[Tier] | None = None,
        token_budget: int | None = None,
        min_confidence: float | None = None,
        min_match: float | None = None,
        as_of: datetime | None = None,
        known_at: datetime | None = None,
        strict: bool = False,
    ) -> AsyncGenerator[RetrievalResult]:
        """Stream the answer as it is written, then yield what `retrieve_memories` returns with `synthesis=True`.

        Each result replaces the one before. In all but the last, `synthesis.is_checked` is false and nothing is cited
        yet; if the model has to retry, its answer starts over. The last one is checked, or says in `omitted` why there
        is no answer. If you stop early, close the iterator (`contextlib.aclosing`) to end the model's call.

        Args:
            query: As in `retrieve_memories`, like all other arguments.

        Raises:
            InvalidInputError: An argument is invalid.
            ConfigurationError: No model is configured (`memory_retrieve_agent_model`).
            AgentError: With `strict`: the model gave no usable answer.
            RedactionError: With `strict`: your redactor failed on the question.
            StoreError: The store is unavailable; without `strict`, only if recall itself fails.
        """
        hits = validation.optional_number("limit", limit, maximum=MAX_RESULTS)
        budget = validation.optional_number("token_budget", token_budget)
        request = RetrieveRequest(
            external_id=validation.external_id(external_id),
            query=validation.query(query),
            limit=hits if hits is not None else self._config.retrieval_limit,
            tiers=validation.tiers(tiers),
            token_budget=budget if budget is not None else self._config.token_budget,
            min_confidence=None if min_confidence is None else validation.share("min_confidence", min_confidence),
            min_match=None if min_match is None else validation.share("min_match", min_match),
            as_of=validation.optional_moment("as_of", as_of),
            known_at=validation.optional_moment("known_at", known_at),
        )
        return self._synthesis.stream(request, strict=validation.flag("strict", strict))

    async def import_messages(
        self,
        external_id: str | int | UUID,
        messages: Iterable[Mapping[str, Any]] | AsyncIterable[Mapping[str, Any]],
        *,
        conversation_id: str | None = None,
        title: str | None = None,
        source: Source = "import",
        actor: str | None = None,
        progress: Callable[[MessageImportReport], None] | None = None,
    ) -> MessageImportReport:
        """Remember chat messages: one memory per conversation, like the `ingest` command.

        Messages are read one by one and written in batches, so any number of them needs little RAM. Importing again,
        after an interruption, an error or at any time, writes only what is missing.

        Args:
            messages: Each is a mapping with a speaker (`speaker`, `name`, `role` or `author`) and a text (`content` or
                `text`), optionally with a time (`timestamp`), a `conversation_id` and an `id`. Or it is a whole
                conversation: a mapping with `messages`.
            conversation_id: For messages without one; None is a conversation without an id.
            title: Title of that conversation; the others append their id to it. None is "Conversation".
            source: Trust label of the messages.
            actor: Who imports them.
            progress: Called after each batch with the report so far.

        Returns:
            What became of them. An existing memory is left unchanged, even if title, source or actor differ; it is
            recognised by its words, speakers, times and conversation.

        Raises:
            InvalidInputError: An argument is invalid, or a message is; the error names its number, from 1. Memories
                completed before it are kept. Correct the message and repeat the import.
            QuotaExceededError: A batch would exceed a limit of `external_id`; earlier batches are kept.
            StoreError: The store is unavailable; earlier writes are kept.
        """
        if not isinstance(messages, Iterable | AsyncIterable) or isinstance(messages, str | bytes | Mapping):
            raise InvalidInputError(
                f"messages must be an iterable of mappings, one for each message, not {type(messages).__name__}"
            )
        request = ImportMessagesRequest(
            external_id=validation.external_id(external_id),
            conversation_id=validation.optional_identifier("conversation_id", conversation_id),
            title="Conversation" if title is None else validation.title(title),
            source=validation.source(source),
            actor=validation.optional_identifier("actor", actor),
        )
        return await self._bulk.import_messages(request, messages, note=progress or _no_report)

    async def import_memories(
        self,
        external_id: str | int | UUID,
        memories: Sequence[ImportedMemory],
        *,
        source: Source = "import",
        actor: str | None = None,
    ) -> list[AddedMemory]:
        """Remember many complete texts, such as documents, in batches.

        Args:
            memories: Any number; for many, pass a few thousand per call.
            source: Trust label of the memories.
            actor: Who imports them.

        Returns:
            What became of each, in order. Existing ones are left unchanged, as in `import_messages`.

        Raises:
            InvalidInputError: An argument or a memory is invalid; nothing is written.
            QuotaExceededError: A batch would exceed a limit of `external_id`; earlier batches are kept.
            StoreError: The store is unavailable; earlier writes are kept, and repeating writes the rest.
        """
        return await self._bulk.import_memories(
            validation.external_id(external_id),
            memories,
            source=validation.source(source),
            actor=validation.optional_identifier("actor", actor),
        )


def _no_note(done: int, total: int) -> None:
    """Ignore progress."""


def _no_report(report: MessageImportReport) -> None:
    """Ignore progress."""
