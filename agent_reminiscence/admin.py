"""`memory.admin`: what is not daily work."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, overload
from uuid import UUID

from agent_reminiscence.config.constants import MAX_RESULTS, Source, Tier
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
from agent_reminiscence.domain.usage import MemoryUsage
from agent_reminiscence.domain.work import Job, WorkReport
from agent_reminiscence.exceptions import InvalidInputError, MemoryNotFoundError
from agent_reminiscence.projections import Tables
from agent_reminiscence.services import validation
from agent_reminiscence.services.bulk import BulkService, ImportMessagesRequest
from agent_reminiscence.services.consolidation import ConsolidationService
from agent_reminiscence.services.conversations import read_conversation
from agent_reminiscence.services.embedders import Embedder
from agent_reminiscence.services.erasure import EraseRequest, ErasureService
from agent_reminiscence.services.graph import MemoryGraph
from agent_reminiscence.services.history import HistoryService
from agent_reminiscence.services.lifecycle import LifecycleService
from agent_reminiscence.services.memory_manager import MemoryManager
from agent_reminiscence.services.reembedding import ReembeddingService, Target
from agent_reminiscence.services.remembering import RememberingService, RememberRequest
from agent_reminiscence.services.requests import UNSET, ArchiveRequest, Unset
from agent_reminiscence.services.retries import repeated
from agent_reminiscence.services.retrieval import RetrieveRequest
from agent_reminiscence.services.synthesis import SynthesisService
from agent_reminiscence.services.transfer import TransferService
from agent_reminiscence.services.usage import UsageService
from agent_reminiscence.services.verification import VerificationService
from agent_reminiscence.services.work import WorkService
from agent_reminiscence.services.worker import Worker


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
        """The entities that memories name, and what they have to do with each other."""
        return self._graph

    async def consolidate(
        self, external_id: str | int | UUID, memory_id: UUID | str | None = None, *, dry_run: bool = False
    ) -> list[ConsolidationReport]:
        """Consolidate now what would be consolidated later, fill in missing vectors, and promote what is important.

        Where a model is configured as memorizer, it reads what is new, and its plan is carried out where it stands up
        to its checks; of what it has not read, and why, each report tells in `fallback`.

        Args:
            memory_id: One memory; None is all of the tenant's, archived ones too, oldest first.
            dry_run: Only say what would be done, in `plan` and `ends` of each report; vectors are filled in. A model is
                asked all the same, and what that cost is recorded.

        Returns:
            What was done, one report for each memory. A version that was consolidated before is not again.

        Raises:
            InvalidInputError: An argument is refused.
            MemoryNotFoundError: `external_id` has no such memory.
            StoreError: The store is away; what was done until then stays done.
        """
        tenant = validation.external_id(external_id)
        is_dry_run = validation.flag("dry_run", dry_run)
        if memory_id is not None:
            return [await self._consolidate(tenant, validation.memory_id(memory_id), is_dry_run=is_dry_run)]
        async with self._store.transaction(tenant, read_only=True) as db:
            memory_ids = await self._tables.active.find_ids(db, tenant)
        reports = []
        for found in memory_ids:
            # One that was erased meanwhile is not asked for by name.
            with suppress(MemoryNotFoundError):
                reports.append(await self._consolidate(tenant, found, is_dry_run=is_dry_run))
        return reports

    async def _consolidate(self, external_id: str, memory_id: UUID, *, is_dry_run: bool) -> ConsolidationReport:
        # A version is consolidated once, however often it is asked for.
        return await repeated(
            lambda: self._consolidation.consolidate(external_id, memory_id, is_dry_run=is_dry_run),
            operation="consolidate",
            external_id=external_id,
            repeatable=True,
        )

    async def review(self, external_id: str | int | UUID) -> LifecycleReport:
        """Do now what a worker does by itself: promote what was recalled often, end what is too old or too much.

        What ends leaves the searches of now, by an event of its own; nothing is deleted, no text is changed, and a
        search `as_of` an earlier time finds it. Without `max_chunks` and times to live, nothing ends.

        Raises:
            InvalidInputError: The id is refused.
            StoreError: The store is away; what was done until then stays done, and a second call does the rest.
        """
        return await self._lifecycle.review(validation.external_id(external_id))

    async def usage(self, external_id: str | int | UUID) -> MemoryUsage:
        """What `external_id` holds, what waits to be done for it, and what models were asked for.

        It reads every chunk, and counts tokens in a thread: some 75 ms for 1,000 chunks of 50 tokens.

        Raises:
            InvalidInputError: The id is refused.
            StoreError: The store is away.
        """
        return await self._usage.usage(validation.external_id(external_id))

    async def run_due(self, external_id: str | int | UUID) -> WorkReport:
        """Do now, in this call, what a worker would do for `external_id`: consolidate, promote, fill in vectors.

        For programs without a worker, and for tests. What is not due is left alone.

        Returns:
            What was done. What failed is in `error`; it is queued again, as if a worker had done it.

        Raises:
            InvalidInputError: The id is refused.
            StoreError: The store is away; the work stays due.
        """
        return await self._work.run(validation.external_id(external_id))

    async def run_worker(self, *, until_idle: bool = False) -> None:
        """Do the work of all tenants in this call, beside any number of other workers.

        Args:
            until_idle: Whether to return once nothing is waiting, instead of working until the task is cancelled. What
                waits for another attempt is left waiting.

        Raises:
            InvalidInputError: An argument is refused.
            StoreError: The store is away; only with `until_idle`, for otherwise it waits for its return.
        """
        if validation.flag("until_idle", until_idle):
            await self._worker.run_until_idle()
        else:
            await self._worker.run()

    async def jobs(self, external_id: str | int | UUID | None = None) -> list[Job]:
        """Work that waits, runs, or was given up after too many failures, with its error.

        Args:
            external_id: Whose; None is everybody's.

        Raises:
            InvalidInputError: The id is refused.
            StoreError: The store is away.
        """
        return await self._work.jobs(None if external_id is None else validation.external_id(external_id))

    async def retry_jobs(self, external_id: str | int | UUID | None = None) -> int:
        """Queue work that was given up.

        Args:
            external_id: Whose; None is everybody's.

        Returns:
            Of how many streams there was any.

        Raises:
            InvalidInputError: The id is refused.
            StoreError: The store is away.
        """
        return await self._work.retry(None if external_id is None else validation.external_id(external_id))

    async def wait_until_idle(
        self, external_id: str | int | UUID | None = None, timeout_seconds: float = 30.0
    ) -> list[Job]:
        """Wait until the work that follows writes is done; a worker must be running, here or elsewhere.

        Args:
            external_id: Whose; None is everybody's.
            timeout_seconds: How long to wait at most.

        Returns:
            Work that was given up, with its error; an empty list is well.

        Raises:
            InvalidInputError: An argument is refused.
            WorkTimeoutError: Something still waits or runs, which goes on.
            StoreError: The store is away.
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
        """Finish an active memory: it leaves the active list and takes no update.

        Args:
            end_chunks: Whether what it says ends too. Without it the chunks stay searchable; with it they are found
                only by a search `as_of` an earlier time.
            occurred_at: When that was in the world; None is now.
            actor: Who archives it.

        Raises:
            InvalidInputError: An argument is refused.
            MemoryNotFoundError: `external_id` has no such memory.
            StoreError: The store is away.
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
        """Every version of a memory, oldest first, with both times, who caused it, and what was made of it.

        Raises:
            InvalidInputError: An argument is refused.
            MemoryNotFoundError: `external_id` has no such memory; an erased one has no history.
            StoreError: The store is away.
        """
        return await self._history.history(validation.external_id(external_id), validation.memory_id(memory_id))

    async def active_memories(
        self, external_id: str | int | UUID, *, as_of: datetime | None = None, known_at: datetime | None = None
    ) -> list[ActiveMemory]:
        """The active memories as they were, oldest first.

        Args:
            as_of: As they were true at this moment in the world; None is `known_at`.
            known_at: As far as they were recorded by this moment; None is all that is known today. Without either, the
                memories as `get_active_memories` gives them.

        Raises:
            InvalidInputError: An argument is refused.
            StoreError: The store is away.
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
        locked, and one moment is compared, whatever is written meanwhile. Differences are logged, without any text.

        Args:
            external_id: One stream; None is all of them, one after the other.
            repair: Whether a stream with differences is rebuilt. A fault of the ledger itself cannot be mended, and
                nothing is rebuilt from a ledger that has one.
            progress: Called after each page of events.

        Raises:
            InvalidInputError: An argument is refused.
            StoreError: The store is away.
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
        """Make the tiers what a replay of the ledger gives, and fill in missing vectors.

        Searches see the old rows until all is in place, and writers wait for the last events only. Rows that are right
        already stay as they are. The report names those that were not.

        Args:
            external_id: One stream; None is all of them, one after the other.
            progress: Called after each page of events.

        Raises:
            InvalidInputError: The id is refused.
            StoreError: The store is away; the stream at hand is as it was, those before it are rebuilt.
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
        """Make the vectors of all memories anew with another model, and switch to them.

        Searches and writes go on meanwhile, in this process and in others, which follow the switch by themselves: where
        a provider is named they make its embedder, and an embedder of your own is passed to them as
        `AgentMem(embedders=[…])`. A call that was killed is continued by the next one. The old vectors stay until
        `drop_old_vectors`, or until the next change.

        Args:
            embedder: Makes the new vectors; an embedder of your own.
            provider: Or what `embedding_provider` calls it, with `model` and `dimension`. Without any of them: what is
                being built already, else the embedder that this object was made with; where that is the one that was
                replaced last, what the current vectors lack.
            admin_dsn: DSN of an administrator of the database, who may make tables; the embedded server needs none.
            progress: Called after each batch.

        Returns:
            What was done. Where the current vectors are of that model already, those that are missing were made.

        Raises:
            InvalidInputError: An argument is refused.
            ConfigurationError: There is no such embedder, or no administrator.
            ReembeddingError: Another call is at it, or another model's vectors are being built.
            EmbeddingError: The embedder failed. What it made stays, and the next call goes on.
            StoreError: The store is away; likewise.
        """
        target = None
        if embedder is not None:
            if provider is not None or model is not None or dimension is not None:
                raise InvalidInputError("reembed() takes an embedder, or provider, model and dimension, not both")
            target = Target(embedder)
        elif provider is not None:
            target = self._reembedding.target(provider, model, dimension)
        elif model is not None or dimension is not None:
            raise InvalidInputError("reembed() was given a model or a dimension without a provider; name that too")
        return await self._reembedding.reembed(target, admin_dsn=admin_dsn, progress=progress)

    async def cancel_reembed(self, *, admin_dsn: str | None = None) -> Generation | None:
        """Give up vectors that are being built; what searches use stays as it is.

        Returns:
            What was given up; None where nothing was being built.

        Raises:
            ConfigurationError: There is no administrator.
            ReembeddingError: A call of `reembed` is at it; end that first.
            StoreError: The store is away.
        """
        return await self._reembedding.cancel(admin_dsn=admin_dsn)

    async def drop_old_vectors(self, *, admin_dsn: str | None = None) -> list[Generation]:
        """Drop vectors that were replaced. It waits until they have been unused for a minute.

        Returns:
            What was dropped.

        Raises:
            ConfigurationError: There is no administrator.
            ReembeddingError: A call of `reembed` is at it.
            StoreError: The store is away, or something has been reading the vectors all the time.
        """
        return await self._reembedding.drop_old(admin_dsn=admin_dsn)

    async def generations(self) -> list[GenerationFill]:
        """The generations of vectors that there are, oldest first, and how far each is filled; it counts all chunks.

        Raises:
            StoreError: The store is away.
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
        """Erase a memory, a conversation, whatever contains a text, or all that `external_id` has.

        What is erased is gone from events, tiers, vectors and caches when the call returns, and a scan in the same
        transaction has looked for it. A memory is erased with all its versions, because later ones repeat what earlier
        ones say; what other memories say stays. The ledger keeps the emptied rows, so that its chain still holds.

        Args:
            memory_id: This memory.
            conversation_id: Every memory that this conversation made or changed, and its events of other kinds.
            text: Whatever ever contained this text, exactly as it is spelled here, in any version.
            dry_run: Only say what would be erased.
            actor: Who erases; it is kept with the receipt.

        Returns:
            The receipt, which is also an event of the ledger and holds none of the text; with `dry_run`, a preview.

        Raises:
            InvalidInputError: An argument is refused, None among them, or more than one of the three is given.
            MemoryNotFoundError: `external_id` has no such memory.
            StoreError: The store is away; nothing is erased.
        """
        given = {
            name: value
            for name, value in (("memory_id", memory_id), ("conversation_id", conversation_id), ("text", text))
            if not isinstance(value, Unset)
        }
        if len(given) > 1:
            raise InvalidInputError("erase() takes one of memory_id, conversation_id and text; call it once for each")
        for name, value in given.items():
            # Most likely a variable that was never set, and "everything" is not what was meant.
            if value is None:
                raise InvalidInputError(
                    f"{name} is None, which names nothing to erase; leave it out to erase all that external_id has"
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
        """Look once more, in every place that can hold memory text, for what a receipt says is gone.

        Args:
            receipt: As `erase` returned it.
            text: Also look for this text. The receipt does not hold it.

        Raises:
            InvalidInputError: An argument is refused.
            StoreError: The store is away.
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
        """Write all events of `external_id` to a file, as they are at one moment; the format is documented.

        Args:
            path: The file; it appears whole or not at all.
            overwrite: Whether an existing file is replaced.
            progress: Called with the events written so far and those there are.

        Raises:
            InvalidInputError: An argument is refused, or the file exists.
            StoreError: The store is away, or the ledger is not as it was written; nothing is left behind.
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
        """Read a file that `export` wrote, and project its events; all of it or none.

        A second import of the same file does nothing, and one of a later export adds what is new. A checksum shows that
        a file is whole, not who wrote it: import files of those you trust.

        Args:
            path: The file.
            external_id: Whose the memories are to be; None is as in the file. It must be new, or hold nothing but the
                same events.
            progress: Called with the events read so far and those there are.

        Raises:
            InvalidInputError: The file is damaged, incomplete or of a newer version, or does not fit what
                `external_id` holds; nothing is written.
            StoreError: The store is away or refused an event; nothing is written.
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
        """Have a model decide what of a conversation is worth remembering, and remember it.

        The model sees the conversation and the active memories, without secrets (`redaction`), and proposes memories to
        create and to update; these are written like any caller's, with the trust label `model`. It can do nothing else.
        Thanks and greetings ask no model, and what was recalled into the conversation is not remembered again.

        Args:
            messages: Messages of Pydantic AI, or mappings with `role` (user, assistant, tool, system) and `content`; at
                most 1,000 with 100,000 characters in all. System prompts are left out.
            occurred_at: As in `create_active_memory`, and so `actor` and `conversation_id`; for all that is written.
            dry_run: Whether only to say what would be done.

        Returns:
            What was done, and why.

        Raises:
            InvalidInputError: An argument is refused; nothing is written.
            ConfigurationError: No model is configured (`memory_update_agent_model`).
            AgentError: The model gave no answer that can be used; nothing is written.
            RedactionError: Your redactor has failed; nothing is written.
            StoreError: The store is away; what was written until then stays. The model of a second call is shown it,
                and adds the rest as far as it sees what that is.
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
        """What `retrieve_memories` returns with `synthesis=True`, and before it the answer as far as it is written.

        Each result replaces the one before. Of all but the last, `synthesis.is_checked` is false and nothing is cited
        yet; a model that is sent back begins anew. The last one is checked, or says in `omitted` why there is no
        answer. Whoever stops before it should close the iterator (`contextlib.aclosing`), which ends the model's call.

        Args:
            query: As in `retrieve_memories`, and so all other arguments.

        Raises:
            InvalidInputError: An argument is refused.
            ConfigurationError: No model is configured (`memory_retrieve_agent_model`).
            AgentError: With `strict`: the model gave no answer that can be used.
            RedactionError: With `strict`: your redactor has failed on the question.
            StoreError: The store is away; without `strict`, only where recall itself cannot be had.
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
        """Remember messages of chats: one memory per conversation, as the command `ingest` makes them of a file.

        Messages are taken one by one and written in batches, so any number of them goes into little memory. Repeated
        after an interruption, an error or at any other time, an import writes what is not there yet.

        Args:
            messages: Each is a mapping with a speaker (`speaker`, `name`, `role` or `author`) and a text (`content` or
                `text`), and if you like a time (`timestamp`), a `conversation_id` and an `id`. Or it is a whole
                conversation: a mapping with `messages`.
            conversation_id: Of messages that name none; None is a conversation without an id.
            title: Of that conversation; the others have their id behind it. None is "Conversation".
            source: How far they are trusted.
            actor: Who imports them.
            progress: Called after each batch with what has become of the messages so far.

        Returns:
            What became of them. A memory that was there already stays as it is, also where title, source or actor were
            others: its words, speakers, times and conversation decide.

        Raises:
            InvalidInputError: An argument is refused; or a message, whose number from 1 is named: memories that were
                complete before it stay written. Repeat the import with the message mended.
            QuotaExceededError: A batch would exceed a limit of `external_id`; those before it stay written.
            StoreError: The store is away; what was written before stays.
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
        """Remember many texts that are whole already, such as documents, in batches.

        Args:
            memories: Any number; with many, call this for some thousand at a time.
            source: How far they are trusted.
            actor: Who imports them.

        Returns:
            What became of each, in order. One whose words were there already stays as it is, as in `import_messages`.

        Raises:
            InvalidInputError: An argument or a memory is refused; nothing is written.
            QuotaExceededError: A batch would exceed a limit of `external_id`; those before it stay written.
            StoreError: The store is away; what was written before stays, and repeating writes the rest.
        """
        return await self._bulk.import_memories(
            validation.external_id(external_id),
            memories,
            source=validation.source(source),
            actor=validation.optional_identifier("actor", actor),
        )


def _no_note(done: int, total: int) -> None:
    """Nobody wants to know."""


def _no_report(report: MessageImportReport) -> None:
    """Nobody wants to know."""
