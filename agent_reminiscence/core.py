"""`AgentMem`: four methods and `async with`. Validates, measures, and delegates."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from agent_reminiscence.admin import MemoryAdmin
from agent_reminiscence.agents.models import AgentModels
from agent_reminiscence.assembly import Given, Parts, build
from agent_reminiscence.config.constants import MAX_RESULTS, Source, Tier
from agent_reminiscence.config.settings import Config
from agent_reminiscence.domain.memory import ActiveMemory
from agent_reminiscence.domain.retrieval import RetrievalResult
from agent_reminiscence.exceptions import ConfigurationError, InvalidInputError, NotInitializedError
from agent_reminiscence.services import validation
from agent_reminiscence.services.embedders import Embedder
from agent_reminiscence.services.ledger import MemoryLedger
from agent_reminiscence.services.recall.ranking import Weights
from agent_reminiscence.services.redaction import DefaultRedactor, NoRedactor, Redactor, Scrubber
from agent_reminiscence.services.requests import UNSET, CreateRequest, Unset, UpdateRequest
from agent_reminiscence.services.retrieval import RetrieveRequest
from agent_reminiscence.telemetry import Attribute, Observed, Telemetry
from agent_reminiscence.text.languages import check_language


def _utc_now() -> datetime:
    return datetime.now(UTC)


class AgentMem:
    """The memory of agents: whole texts that are worked on, and what became of them.

    Use it as `async with AgentMem() as memory:`, or call `initialize()` and `close()` yourself. One object serves any
    number of tasks of one event loop and any number of tenants.

    Args:
        config: Settings; None reads them from the environment and `.env`.
        embedder: Makes the vectors instead of the configured provider.
        embedders: Further ones, for a database whose vectors are changed from one model to another: whichever of them
            all makes the current vectors is used, and the others once theirs are current. None: the database must have
            the vectors of the one that is configured or passed, or have replaced them.
        redactor: Takes secrets out of what is written, instead of the default rules.
        clock: Says what time it is, for `occurred_at`, for recency and for how old a chunk is; the ledger's recording
            time is the server's.
        models: The models of the agents, instead of those that the settings name.
        weights: How retrieval weighs its lists; None is the measured default.
        tracer_provider: Where OpenTelemetry spans go; None is the provider that the application sets for the process.
        meter_provider: Where OpenTelemetry metrics go; None is as above.

    Raises:
        ConfigurationError: A setting is unknown or contradicts another.
    """

    def __init__(
        self,
        config: Config | None = None,
        *,
        embedder: Embedder | None = None,
        embedders: Sequence[Embedder] | None = None,
        redactor: Redactor | None = None,
        clock: Callable[[], datetime] = _utc_now,
        models: AgentModels | None = None,
        weights: Weights | None = None,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        self._config = config if config is not None else Config()
        if self._config.language is not None:
            check_language(self._config.language)
        self._scrubber = Scrubber(_redactor(self._config, redactor))
        self._telemetry = Telemetry(tracer_provider, meter_provider, with_content=self._config.telemetry_content)
        self._given = Given(
            embedder=embedder,
            further_embedders=None if embedders is None else tuple(embedders),
            models=models or AgentModels(),
            weights=weights,
            scrubber=self._scrubber,
            clock=lambda: validation.moment("clock", clock()),
            telemetry=self._telemetry,
        )
        self._lifecycle = asyncio.Lock()
        self._parts: Parts | None = None
        self._was_closed = False

    async def initialize(self) -> None:
        """Start or reach the store, check that it fits, and start the worker; a second call does nothing.

        Raises:
            ConfigurationError: The schema, the login or the embedder does not fit; the message says what to do.
            StoreError: The store cannot be reached.
        """
        async with self._lifecycle:
            if self._parts is None:
                self._parts = await build(self._config, self._given)
                if self._config.worker:
                    self._parts.worker.start()
                self._was_closed = False

    async def close(self) -> None:
        """End the worker, close the connections and leave the embedded server; again does nothing.

        Work under way has ten seconds to finish; what has not stays due, and the next worker does it. The embedded
        server is stopped by its last user.
        """
        async with self._lifecycle:
            parts, self._parts = self._parts, None
            if parts is not None:
                self._was_closed = True
                await parts.close()

    async def __aenter__(self) -> Self:
        await self.initialize()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __del__(self) -> None:
        if getattr(self, "_parts", None) is not None:
            warnings.warn(
                "an AgentMem was never closed; use `async with AgentMem()` or `await memory.close()`",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )

    @property
    def ledger(self) -> MemoryLedger:
        """Append and read events."""
        return self._ready().ledger

    @property
    def admin(self) -> MemoryAdmin:
        """What is not daily work."""
        return self._ready().admin

    async def create_active_memory(
        self,
        external_id: str | int | UUID,
        title: str,
        content: str,
        *,
        description: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        occurred_at: datetime | None = None,
        actor: str | None = None,
        conversation_id: str | None = None,
        source: Source = "user",
        language: str | None = None,
        idempotency_key: str | None = None,
    ) -> ActiveMemory:
        """Remember a text. It is stored verbatim and found from the moment this returns.

        Args:
            external_id: Whose memory it is: your own id of a user or agent. 7 and "7" are the same.
            title: At most 500 characters; indexed with every chunk.
            content: At most 1,000,000 characters.
            description: At most 10,000 characters; stored, not searched.
            metadata: A JSON object. `speaker` names who speaks throughout; `turns`, a list of objects with `start`
                (a position in `content`) and `speaker`, says where each utterance begins.
            occurred_at: When it was true in the world, with a time zone; None is now.
            actor: Which agent, user or tool causes the write.
            conversation_id: The conversation it belongs to.
            source: How far it is trusted: user, agent, tool, import or model.
            language: In which its words are read, as ISO 639-1, such as "de"; None is the setting's, what the text
                is recognised as, or that of the newest memory that shows one.
            idempotency_key: A second call with the same key and request returns the first one's result.

        Returns:
            The memory at version 1, as this write left it, and in `write` what became of it. The consolidation of a
            text of more than 2,000 characters is queued with it; a worker does it soon after.

        Raises:
            InvalidInputError: An argument is refused; nothing is written.
            RedactionError: Your redactor has failed; nothing is written.
            IdempotencyConflictError: The key was used for a different request.
            StoreError: The store is away or refused the write.
        """
        with self._telemetry.operation("create_active_memory") as operation:
            parts = self._ready()
            tenant = validation.external_id(external_id)
            self._note_tenant(operation, tenant)
            text = validation.content(content)
            request = CreateRequest(
                external_id=tenant,
                title=validation.title(title),
                content=text,
                description=validation.description(description),
                metadata=validation.memory_metadata(metadata, text),
                occurred_at=validation.optional_moment("occurred_at", occurred_at),
                actor=validation.optional_identifier("actor", actor),
                conversation_id=validation.optional_identifier("conversation_id", conversation_id),
                source=validation.source(source),
                language=None if language is None else check_language(language),
                idempotency_key=validation.optional_identifier("idempotency_key", idempotency_key),
            )
            memory = await parts.manager.create(request)
            # As it is stored: what was redacted stands in no span either.
            operation.quote(title=memory.title, content=memory.content, description=memory.description)
            operation.note(**_written(memory))
            return memory

    async def get_active_memories(self, external_id: str | int | UUID) -> list[ActiveMemory]:
        """All memories being worked on, oldest first; archived ones are left out, and an unknown id has none.

        Raises:
            InvalidInputError: The id is refused.
            StoreError: The store is away.
        """
        with self._telemetry.operation("get_active_memories") as operation:
            parts = self._ready()
            tenant = validation.external_id(external_id)
            self._note_tenant(operation, tenant)
            memories = await parts.manager.get_all(tenant)
            operation.note(memories=len(memories))
            return memories

    async def update_active_memory(
        self,
        external_id: str | int | UUID,
        memory_id: UUID | str,
        *,
        title: str | Unset = UNSET,
        content: str | Unset = UNSET,
        description: str | Unset | None = UNSET,
        metadata: Mapping[str, Any] | Unset | None = UNSET,
        occurred_at: datetime | None = None,
        actor: str | None = None,
        conversation_id: str | None = None,
        source: Source = "user",
        language: str | None = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> ActiveMemory:
        """Change a memory. What its text no longer says has ended; it is kept, and found with `as_of`.

        Args:
            title: A new title, by which all passages of the memory are found.
            content: A new text. Passages that stay the same keep their chunks, with importance and dates.
            description: A new description; None removes it.
            metadata: New metadata in place of all of the old; None empties it. Without it, a new `content` drops
                `turns` from the old metadata, whose positions were those of the old text.
            language: In which its words are read from now on, also those of passages that stay; None is as before,
                but a language that was only assumed is decided again from the new text.
            expected_version: The version you have read; the update is refused when another writer was first.
            occurred_at: As in `create_active_memory`, and so the arguments not described here.

        Returns:
            The memory at its new version, as this write left it; an update with the same values is one too. With every
            fifth update (`active_memory_update_threshold`) its consolidation is queued; a worker does it soon after.

        Raises:
            InvalidInputError: An argument is refused, nothing is to be changed, or the memory is archived.
            MemoryNotFoundError: `external_id` has no such memory.
            RedactionError: Your redactor has failed; nothing is written.
            VersionConflictError: Another writer was first.
            IdempotencyConflictError: The key was used for a different request.
            StoreError: The store is away or refused the write.
        """
        with self._telemetry.operation("update_active_memory") as operation:
            parts = self._ready()
            tenant = validation.external_id(external_id)
            self._note_tenant(operation, tenant)
            changes: dict[str, Any] = {}
            if not isinstance(title, Unset):
                changes["title"] = validation.title(title)
            if not isinstance(content, Unset):
                changes["content"] = validation.content(content)
            if not isinstance(description, Unset):
                changes["description"] = validation.description(description)
            if not isinstance(metadata, Unset):
                changes["metadata"] = validation.memory_metadata(metadata, changes.get("content"))
            if not changes and language is None:
                raise InvalidInputError("nothing to change; pass title, content, description, metadata or language")
            request = UpdateRequest(
                external_id=tenant,
                memory_id=validation.memory_id(memory_id),
                changes=changes,
                occurred_at=validation.optional_moment("occurred_at", occurred_at),
                actor=validation.optional_identifier("actor", actor),
                conversation_id=validation.optional_identifier("conversation_id", conversation_id),
                source=validation.source(source),
                language=None if language is None else check_language(language),
                expected_version=validation.optional_number("expected_version", expected_version, maximum=2**31 - 1),
                idempotency_key=validation.optional_identifier("idempotency_key", idempotency_key),
            )
            operation.note(memory_id=str(request.memory_id))
            memory = await parts.manager.update(request)
            quoted = changes.keys() - {"metadata"}
            operation.quote(**{name: getattr(memory, name) for name in quoted})
            operation.note(**_written(memory))
            return memory

    async def retrieve_memories(
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
        synthesis: bool = False,
        strict: bool = False,
    ) -> RetrievalResult:
        """Find what answers a question, best first. Calls no model unless `synthesis` asks for one.

        Args:
            query: At most 20,000 characters, in any language; operators have no meaning.
            limit: At most so many hits, from 1 to 200; None is the configured default, 10.
            tiers: Only these of active, shortterm and longterm; None is all.
            token_budget: At most so many tokens of hits' text; what does not fit is left out and counted.
            min_confidence: Only chunks with at least this confidence, 0 to 1.
            min_match: Only hits with at least this `match`, 0 to 1; what is left out is counted in `omitted`. None
                keeps all hits, and `found` says whether the best of them is good enough.
            as_of: What was true in the world at that moment. None is the latest that the memory holds: what has been
                replaced is left out, and what only begins later is in.
            known_at: What the memory held at that moment; None is all it holds. Alone, it asks for what was then known
                to be true then.
            synthesis: Also have the configured model answer the question from what is found, with citations. Where it
                fails, the hits are there all the same, and `omitted` says why there is no answer.
            strict: With `synthesis`: whether it is an error that there is no answer.

        Returns:
            Hits with their sources, and a summary quoted from the best of them.

        Raises:
            InvalidInputError: An argument is refused.
            ConfigurationError: `synthesis` needs a model, and none is configured.
            AgentError: With `strict`: the model gave no answer that can be used.
            RedactionError: With `synthesis` and `strict`: your redactor has failed on the question.
            StoreError: The store is away.
        """
        with self._telemetry.operation("retrieve_memories") as operation:
            parts = self._ready()
            tenant = validation.external_id(external_id)
            self._note_tenant(operation, tenant)
            hits = validation.optional_number("limit", limit, maximum=MAX_RESULTS)
            budget = validation.optional_number("token_budget", token_budget)
            request = RetrieveRequest(
                external_id=tenant,
                query=validation.query(query),
                limit=hits if hits is not None else self._config.retrieval_limit,
                tiers=validation.tiers(tiers),
                token_budget=budget if budget is not None else self._config.token_budget,
                min_confidence=None if min_confidence is None else validation.share("min_confidence", min_confidence),
                min_match=None if min_match is None else validation.share("min_match", min_match),
                as_of=validation.optional_moment("as_of", as_of),
                known_at=validation.optional_moment("known_at", known_at),
            )
            is_strict = validation.flag("strict", strict)
            operation.note(limit=request.limit, tiers=tuple(request.tiers))
            operation.quote(query=self._quotable(request.query))
            if validation.flag("synthesis", synthesis):
                result = await parts.synthesis.retrieve(request, strict=is_strict)
            else:
                result = await parts.retrieval.retrieve(request)
            operation.note(hits=len(result.hits), entities=len(result.entities))
            operation.quote(
                hit_titles=[hit.title for hit in result.hits], hit_contents=[hit.content for hit in result.hits]
            )
            return result

    def _note_tenant(self, operation: Observed, tenant: str) -> None:
        if operation.is_recording:
            operation.note(external_id=self._scrubber.quotable_identifier(tenant))

    def _quotable(self, query: str) -> str | None:
        """A question as a span may carry it, where spans carry text at all."""
        return self._scrubber.quotable(query) if self._config.telemetry_content else None

    def _ready(self) -> Parts:
        if self._parts is None:
            state = "was closed" if self._was_closed else "is not initialized"
            raise NotInitializedError(
                f"this AgentMem {state}; use `async with AgentMem()` or `await memory.initialize()`"
            )
        return self._parts


def _written(memory: ActiveMemory) -> dict[str, Attribute]:
    """What a write's span says of its result."""
    assert memory.write is not None
    return {
        "memory_id": str(memory.id),
        "version": memory.version,
        "chunks_added": memory.write.chunks_added,
        "chunks_kept": memory.write.chunks_kept,
        "chunks_ended": memory.write.chunks_ended,
        "consolidation_queued": memory.write.consolidation_queued,
    }


def _redactor(config: Config, redactor: Redactor | None) -> Redactor:
    """The one to use: a caller's own, the default one, or none where the settings say so."""
    if redactor is None:
        return DefaultRedactor() if config.redaction else NoRedactor()
    if not config.redaction:
        raise ConfigurationError("a redactor was passed, but the setting redaction is off; set it, or pass no redactor")
    if not isinstance(redactor, Redactor):
        raise ConfigurationError(f"redactor must have a method redact(text), as {type(redactor).__name__} has not")
    return redactor
