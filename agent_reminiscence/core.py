"""`AgentMem`: four methods and `async with`. Validates, measures, and delegates."""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self
from uuid import UUID

from agent_reminiscence.agents.models import AgentModels
from agent_reminiscence.config.constants import Tier
from agent_reminiscence.config.settings import Config
from agent_reminiscence.conversation import Conversation
from agent_reminiscence.domain.filter import Filter
from agent_reminiscence.domain.memory import ActiveMemory, IfExists
from agent_reminiscence.domain.retrieval import RetrievalResult, SearchHit
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.domain.turn import Turn
from agent_reminiscence.embedders.protocol import check_embedder
from agent_reminiscence.exceptions import ConfigurationError, InvalidInputError, NotInitializedError
from agent_reminiscence.given import Given
from agent_reminiscence.redaction.redactor import DefaultRedactor, NoRedactor, Redactor
from agent_reminiscence.resilience.processes import check_driver, check_opened_here, is_inherited
from agent_reminiscence.services import validation
from agent_reminiscence.services.ledger.requests import UNSET, AppendTextRequest, CreateRequest, Unset, UpdateRequest
from agent_reminiscence.services.ledger.scrubber import Scrubber
from agent_reminiscence.services.recall.asking import search_request, stream_request
from agent_reminiscence.services.reflection.event_index import EventIndex
from agent_reminiscence.telemetry import Attribute, Observed, Telemetry
from agent_reminiscence.text.languages import check_language

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from agent_reminiscence.admin import MemoryAdmin
    from agent_reminiscence.assembly import Parts
    from agent_reminiscence.embedders.protocol import Embedder
    from agent_reminiscence.services.ledger.memory_ledger import MemoryLedger
    from agent_reminiscence.services.recall.ranking import Weights


def utc_now() -> datetime:
    """The current time."""
    return datetime.now(UTC)


class AgentMem:
    """The memory of agents: active texts, and what they were consolidated into.

    Use it as `async with AgentMem() as memory:`, or call `initialize()` and `close()` yourself. One object serves any
    number of tasks in one event loop and any number of tenants.

    Args:
        config: Settings; None reads them from the environment. No file is read unless you name it:
            `Config.from_env_file`.
        embedder: Makes the vectors instead of the configured provider.
        embedders: Further embedders, for a database that switches from one model to another: the embedder of the
            current vectors is used, and the others once theirs become current. None: the current vectors must come
            from the configured or passed embedder, or have replaced vectors that did.
        redactor: Removes secrets from what is written, instead of the default rules.
        clock: Returns the current time, used for `occurred_at`, recency and the age of chunks; the ledger's recording
            time comes from the server.
        models: The agents' models, instead of those named in the settings.
        weights: How retrieval weighs its lists; None is the measured default.
        tracer_provider: Receives OpenTelemetry spans; None uses the process's global provider.
        meter_provider: Receives OpenTelemetry metrics; None uses the global one.

    Raises:
        ConfigurationError: A setting is unknown, contradicts another, or needs an extra that is not installed; or an
            embedder lacks a required member.
    """

    def __init__(
        self,
        config: Config | None = None,
        *,
        embedder: Embedder | None = None,
        embedders: Sequence[Embedder] | None = None,
        redactor: Redactor | None = None,
        clock: Callable[[], datetime] = utc_now,
        models: AgentModels | None = None,
        weights: Weights | None = None,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        self._config = config if config is not None else Config()
        for passed in (*([] if embedder is None else [embedder]), *(embedders or ())):
            check_embedder(passed)
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
        # The process that has opened it, and in which alone it works.
        self._process = os.getpid()

    async def initialize(self) -> None:
        """Start or reach the store, check that it fits, and start the worker. A second call does nothing.

        Raises:
            ConfigurationError: The schema, the login or the embedder does not fit; the message says what to do.
            StoreError: The store cannot be reached.
            UsageError: This process was forked from one that had already opened a memory.
        """
        check_driver()
        async with self._lifecycle:
            if self._parts is None:
                self._process = os.getpid()
                # In a thread, so that other tasks can run: the first call of a process takes 0.3 s.
                build = await asyncio.to_thread(_import_build)
                self._parts = await build(self._config, self._given)
                if self._config.worker:
                    self._parts.services.worker.start()
                self._was_closed = False

    async def close(self) -> None:
        """Stop the worker, close the connections and release the embedded server. A second call does nothing.

        Work in progress has ten seconds to finish; the rest stays due for the next worker. The embedded server stops
        when its last user leaves. In a forked process this does nothing: the process that opened it closes it.
        """
        if self._is_inherited:
            return
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
        if getattr(self, "_parts", None) is not None and not self._is_inherited:
            warnings.warn(
                "an AgentMem was never closed; use `async with AgentMem()` or `await memory.close()`",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )

    @property
    def config(self) -> Config:
        """The settings, as given or read from the environment."""
        return self._config

    @property
    def ledger(self) -> MemoryLedger:
        """The ledger: append and read events."""
        return self._ready().services.ledger

    @property
    def admin(self) -> MemoryAdmin:
        """Maintenance: history, verification, erasure, transfer, jobs."""
        return self._ready().admin

    def conversation(
        self,
        external_id: str | int | UUID,
        conversation_id: str,
        *,
        title: str | None = None,
        source: Source = "user",
        actor: str | None = None,
        remember: bool = False,
        timezone: str | None = None,
    ) -> Conversation:
        """A conversation to record turn by turn: `await memory.conversation("user-1", "chat-7").add("user", "Hi")`.

        Args:
            conversation_id: Your own id of it, at most 236 characters.
            title: Of the memories that hold its turns, indexed with every turn; None is "Conversation".
            source: The trust label of speakers that are neither user, assistant nor tool.
            actor: Who records the turns.
            remember: Also have the configured model read the conversation once it has paused
                (`remember_after_seconds`) or `end()` is called, and remember what is worth it, as
                `admin.remember` does. A worker does that; no call waits for it.
            timezone: Where its days begin, and what "yesterday" in it means, as an IANA name such as Europe/Lisbon. A
                memory that holds turns keeps the zone it was begun in. None uses the setting.

        Raises:
            InvalidInputError: An argument is invalid.
            ConfigurationError: `remember` needs a model, and none is configured (`memory_update_agent_model`).
        """
        return Conversation(
            self._ready().services,
            external_id,
            conversation_id,
            title=title,
            source=source,
            actor=actor,
            remember=remember,
            timezone=timezone,
        )

    def event_index(
        self, external_id: str | int | UUID, *, actor: str | None = None, kinds: Sequence[str] = ()
    ) -> EventIndex:
        """An index of events of your own kinds: `await memory.event_index("run-1").search("the red boat")`.

        Args:
            actor: Only this actor's events, and those of `kinds`; None is everybody's.
            kinds: Kinds that are found whoever wrote them; without `actor`, every kind is.

        Raises:
            InvalidInputError: An argument is invalid.
        """
        return EventIndex(self._ready().services.event_search, external_id, actor=actor, kinds=kinds)

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
        timezone: str | None = None,
        key: str | None = None,
        if_exists: IfExists = "error",
        pinned: bool | None = None,
        expires_at: datetime | None = None,
        idempotency_key: str | None = None,
    ) -> ActiveMemory:
        """Remember a text. It is stored verbatim and searchable as soon as this returns.

        Args:
            external_id: Whose memory it is: your own id of a user or agent. 7 and "7" are the same.
            title: At most 500 characters; indexed with every chunk.
            content: At most 1,000,000 characters.
            description: At most 10,000 characters; stored, not searched.
            metadata: A JSON object. `speaker` names the speaker of the whole text; `turns`, a list of objects with
                `start` (a position in `content`) and `speaker`, marks where each turn begins.
            occurred_at: When it was true in the world, with a time zone; None is now.
            actor: The agent, user or tool that causes the write.
            conversation_id: The conversation it belongs to.
            source: Its trust label: user, agent, tool, import or model.
            language: The text's language as ISO 639-1, such as "de". None uses the setting, else the language
                detected in the text, else that of the newest memory with a known one.
            timezone: The time zone that "yesterday" and other days in the text are understood in, as an IANA name such
                as Europe/Lisbon. None uses the setting, which is UTC unless you set it. Times are stored in UTC.
            key: Your own name for the memory, at most 256 characters, not beginning with `conversation/`; no other
                active memory of `external_id` may have it. An archived memory gives its key up.
            if_exists: What to do if an active memory has the key. "error" refuses. "update" makes that memory what this
                call would have created: title, content, description and metadata are replaced, as a new version; if
                they are the same already, nothing is written. "return" leaves it as it is and returns it.
            pinned: True: its text is in `standing` of each result and before everything else in a prompt, whatever is
                asked. None pins nothing, and leaves an older memory that `if_exists` found as it is.
            expires_at: From this moment on, with a time zone, nothing finds the memory but a search `as_of` an earlier
                one; it gives its key up and accepts no updates. None: it does not expire.
            idempotency_key: A second call with the same key and request returns the first call's result.

        Returns:
            The memory as written, at version 1 unless `if_exists` found an older one; `write` describes what the write
            did, and is None if nothing was written. A text of more than 2,000 characters also queues a consolidation;
            a worker does it soon after.

        Raises:
            InvalidInputError: An argument is invalid; nothing is written.
            MemoryExistsError: An active memory has the key, and `if_exists` is "error".
            RedactionError: Your redactor failed; nothing is written.
            IdempotencyConflictError: The key was used for a different request.
            StoreError: The store is unavailable or refused the write.
        """
        with self._telemetry.operation("create_active_memory") as operation:
            parts = self._ready()
            tenant = validation.external_id(external_id)
            self._note_tenant(operation, tenant)
            text = validation.content(content)
            named = validation.new_memory_key(key)
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
                timezone=validation.optional_timezone(timezone),
                key=named,
                if_exists=validation.if_exists(if_exists, named),
                pinned=None if pinned is None else validation.flag("pinned", pinned),
                expires_at=validation.optional_moment("expires_at", expires_at),
                idempotency_key=validation.optional_identifier("idempotency_key", idempotency_key),
            )
            memory = await parts.services.manager.create(request)
            # As stored, so that redacted text is not in the span either.
            operation.quote(title=memory.title, content=memory.content, description=memory.description)
            operation.note(**_written(memory))
            return memory

    async def get_active_memories(
        self,
        external_id: str | int | UUID,
        *,
        ids: Iterable[UUID | str] | None = None,
        keys: Iterable[str] | None = None,
        key_prefix: str | None = None,
        where: Filter | None = None,
        limit: int | None = None,
        after: UUID | str | None = None,
    ) -> list[ActiveMemory]:
        """Active memories, oldest first, without archived and expired ones; empty for an unknown `external_id`.

        Without arguments all of them. Of several arguments each must hold. Ids and keys that no active memory has are
        left out.

        Args:
            ids: Only these memories; at most 1,000.
            keys: Only memories with one of these keys; at most 1,000.
            key_prefix: Only memories whose key begins with this.
            where: Only memories that this filter admits; if it has conditions on passages, those with such a passage.
            limit: At most this many.
            after: Only memories after this one, by its id. For the next page, pass the id of the last memory of the
                page before. Later writes do not change the order, so no page repeats or skips a memory; one that was
                archived meanwhile still marks its place.

        Raises:
            InvalidInputError: An argument is invalid.
            MemoryNotFoundError: The memory `after` does not exist; it may have been erased.
            StoreError: The store is unavailable.
        """
        with self._telemetry.operation("get_active_memories") as operation:
            parts = self._ready()
            tenant = validation.external_id(external_id)
            self._note_tenant(operation, tenant)
            selection = validation.selection(ids=ids, keys=keys, key_prefix=key_prefix, limit=limit, after=after)
            memories = await parts.services.manager.get(tenant, selection, where=validation.where(where))
            operation.note(memories=len(memories))
            return memories

    async def update_active_memory(
        self,
        external_id: str | int | UUID,
        memory_id: UUID | str | None = None,
        *,
        key: str | None = None,
        title: str | Unset = UNSET,
        content: str | Unset = UNSET,
        description: str | Unset | None = UNSET,
        metadata: Mapping[str, Any] | Unset | None = UNSET,
        append: str | Turn | Mapping[str, Any] | Iterable[Turn | Mapping[str, Any]] | Unset = UNSET,
        occurred_at: datetime | None = None,
        actor: str | None = None,
        conversation_id: str | None = None,
        source: Source = "user",
        language: str | None = None,
        timezone: str | None = None,
        pinned: bool | None = None,
        expires_at: datetime | Unset | None = UNSET,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> ActiveMemory:
        """Change a memory. Passages its text no longer contains end; they are kept, and found with `as_of`.

        Args:
            memory_id: The memory; or pass `key`.
            key: The key of an active memory, in place of `memory_id`.
            title: A new title, indexed with all chunks of the memory.
            content: A new text. Unchanged passages keep their chunks, with importance and dates.
            description: A new description; None removes it.
            metadata: New metadata, replacing all of the old; None empties it. `turns` stay as long as the text does; a
                new `content` without metadata drops them, because their positions refer to the old text.
            append: What to add at the end of the text, in place of the arguments above: a text, which begins a new
                paragraph, or one or more turns of a conversation (`Turn`, or mappings with its fields). Nothing that
                stands in the memory changes, and the ledger records only what is new. A turn with an id that the
                memory holds already is left out; if all are, nothing is written and the memory is returned as it is.
            language: The memory's language from now on, unchanged passages included. None keeps it, but a language
                that was only assumed is detected again from the new text.
            timezone: Its time zone from now on, unchanged passages included. None keeps it.
            pinned: True pins the memory, False undoes it, None leaves it as it is.
            expires_at: A new moment from which on nothing finds the memory; None: it does not expire any more.
            expected_version: The version you read; the update is refused if another writer was first.
            conversation_id: Moves the memory to this conversation; None leaves it in its own.
            occurred_at: When the change became true in the world, with a time zone; None is now. An update with an
                earlier time than the version before it corrects that one. An append corrects nothing: `occurred_at`
                dates the passages it adds (a turn's own `time` comes first), while the new version is dated like the
                one before it if `occurred_at` is earlier.
            actor: As in `create_active_memory`, like all arguments not described here.

        Returns:
            The memory at its new version, as written; an update with unchanged values is a new version too. Every
            fifth update (`active_memory_update_threshold`) queues a consolidation; a worker does it soon after.

        Raises:
            InvalidInputError: An argument is invalid, nothing is to be changed, the memory is archived or has expired,
                or a text that is appended to would become too long.
            MemoryNotFoundError: `external_id` has no such memory, or no active memory has the key.
            RedactionError: Your redactor failed; nothing is written.
            VersionConflictError: Another writer was first.
            IdempotencyConflictError: The key was used for a different request.
            StoreError: The store is unavailable or refused the write.
        """
        with self._telemetry.operation("update_active_memory") as operation:
            parts = self._ready()
            tenant = validation.external_id(external_id)
            self._note_tenant(operation, tenant)
            named_id, named_key = validation.memory_name(memory_id, key)

            def named_and_dated() -> dict[str, Any]:
                """The fields that both kinds of request share; each checks its own fields first."""
                return {
                    "external_id": tenant,
                    "memory_id": named_id,
                    "key": named_key,
                    "occurred_at": validation.optional_moment("occurred_at", occurred_at),
                    "actor": validation.optional_identifier("actor", actor),
                    "conversation_id": validation.optional_identifier("conversation_id", conversation_id),
                    "source": validation.source(source),
                    "expected_version": validation.optional_number(
                        "expected_version", expected_version, maximum=2**31 - 1
                    ),
                    "idempotency_key": validation.optional_identifier("idempotency_key", idempotency_key),
                }

            if not isinstance(append, Unset):
                given = {"title": title, "content": content, "description": description, "metadata": metadata}
                if others := [name for name, value in given.items() if not isinstance(value, Unset)]:
                    raise InvalidInputError(f"append cannot be combined with {others[0]}; make two calls")
                for name, value in (("language", language), ("timezone", timezone), ("pinned", pinned)):
                    if value is not None:
                        raise InvalidInputError(f"append cannot be combined with {name}; make two calls")
                if not isinstance(expires_at, Unset):
                    raise InvalidInputError("append cannot be combined with expires_at; make two calls")
                text = validation.content(append, "append") if isinstance(append, str) else None
                addition = AppendTextRequest(
                    text=text, turns=() if text is not None else validation.turns("append", append), **named_and_dated()
                )
                memory = await parts.services.manager.append(addition)
                operation.note(**_written(memory))
                return memory
            changes: dict[str, Any] = {}
            if not isinstance(title, Unset):
                changes["title"] = validation.title(title)
            if not isinstance(content, Unset):
                changes["content"] = validation.content(content)
            if not isinstance(description, Unset):
                changes["description"] = validation.description(description)
            if not isinstance(metadata, Unset):
                changes["metadata"] = validation.memory_metadata(metadata, changes.get("content"))
            if pinned is not None:
                changes["pinned"] = validation.flag("pinned", pinned)
            if not isinstance(expires_at, Unset):
                changes["expires_at"] = validation.optional_moment("expires_at", expires_at)
            if not changes and language is None and timezone is None:
                raise InvalidInputError(
                    "nothing to change; pass title, content, description, metadata, append, language, timezone, pinned"
                    " or expires_at"
                )
            request = UpdateRequest(
                changes=changes,
                language=None if language is None else check_language(language),
                timezone=validation.optional_timezone(timezone),
                **named_and_dated(),
            )
            if named_id is not None:
                operation.note(memory_id=str(named_id))
            memory = await parts.services.manager.update(request)
            quoted = changes.keys() - {"metadata", "pinned", "expires_at"}
            operation.quote(**{name: getattr(memory, name) for name in quoted})
            operation.note(**_written(memory))
            return memory

    async def retrieve_memories(
        self,
        external_id: str | int | UUID | Collection[str | int | UUID],
        query: str,
        *,
        limit: int | None = None,
        tiers: Iterable[Tier] | None = None,
        token_budget: int | None = None,
        min_confidence: float | None = None,
        min_match: float | Literal["found"] | None = None,
        as_of: datetime | None = None,
        known_at: datetime | None = None,
        where: Filter | None = None,
        profile: str | None = None,
        embedding: Sequence[float] | None = None,
        run_id: str | None = None,
        timezone: str | None = None,
        synthesis: bool | None = None,
        strict: bool = False,
    ) -> RetrievalResult:
        """Find passages that answer a question, best first. Calls no model unless `synthesis` or a setting asks for it.

        Args:
            external_id: Whose memory; or several, up to 16, such as `["ana", "team-red"]`. Each is read under its own
                row security, and all are ranked as one. Each hit says whose it is, and words that several have are one
                hit. Their order does not matter, but that the first one pays for what a model answers. One that nothing
                was ever stored for is an error, where it is asked with others.
            query: At most 20,000 characters, in any language; there are no query operators.
            limit: Maximum number of hits, 1 to 200; None is the configured default: 10, or with `token_budget` as many
                as fit, up to 100.
            tiers: Search only these of active, shortterm and longterm; None is all.
            token_budget: Maximum tokens of the hits as `as_prompt()` renders them; what does not fit is omitted and
                counted.
            min_confidence: Only chunks with at least this confidence, 0 to 1.
            min_match: Only hits with at least this `match`, 0 to 1; the rest is counted in `omitted`. None keeps all
                hits; `found` says whether the best one is good enough. "found" keeps all or none, as that says, and all
                where a weak match says little (`tells_weak`): for what is shown to a model that did not ask.
            as_of: What was true in the world at this time. None is the latest the memory holds: without what was
                replaced, and with what only begins later.
            known_at: What the memory knew at this time; None is all it knows. Without `as_of`, this is also `as_of`.
            where: Only passages that this filter admits, before they are ranked: up to `limit` of these are returned,
                without those that have nothing to do with the question.
            profile: Also return this standing summary (`memory.admin.profiles`) as it was known at `known_at`. It is
                rendered first, within `token_budget`. It is made from all that the tenant's memory holds: no filter
                narrows it. Calls no model. Of several memories, those that have one of this name give theirs
                (`profiles`).
            embedding: The question's vector, instead of having `query` embedded; words are still compared with those of
                `query`. As many finite numbers, of any length, as the stored vectors have, made by the same model:
                `memory.admin.generations()` names it, and `memory.admin.vectors()` returns vectors of passages.
            run_id: Record which passages were recalled in this run of yours, at most 256 characters, so that
                `memory.admin.report_outcome` can later say how it ended. The record holds ids only. If it fails, the
                hits are returned all the same, and `omitted` has `run_not_recorded`. Also for searches of the past.
                Each memory records its own hits: report the outcome for each.
            timezone: Where you are, as an IANA name such as Europe/Lisbon: what today, "yesterday" and "on Sunday" mean
                in the question, and which days renderings show. None uses the setting, which is UTC unless you set it.
            synthesis: Also have the configured model answer the question from the hits, with citations. If it fails,
                the hits are still returned, and `omitted` says why there is no answer. None: as the setting `synthesis`
                says, which is "off" unless you set it; with "auto" a model answers if one is configured.
            strict: With `synthesis`: whether a missing answer is an error.

        Returns:
            Hits with their sources, and a summary quoted from the best of them.

        Raises:
            InvalidInputError: An argument is invalid.
            ExternalIdNotFoundError: Nothing was ever stored for one of several memories.
            ProfileNotFoundError: There is no such profile.
            ConfigurationError: `synthesis=True` needs a model, and none is configured.
            AgentError: With `strict`: the model gave no usable answer.
            RedactionError: With `synthesis` and `strict`: your redactor failed on the question.
            StoreError: The store is unavailable.
        """
        with self._telemetry.operation("retrieve_memories") as operation:
            parts = self._ready()
            if operation.is_recording:
                operation.note(**self._scrubber.quotable_memories(validation.external_ids(external_id)))
            request = search_request(
                self._config,
                external_id,
                query,
                limit=limit,
                tiers=tiers,
                token_budget=token_budget,
                min_confidence=min_confidence,
                min_match=min_match,
                as_of=as_of,
                known_at=known_at,
                where=where,
                profile=profile,
                embedding=embedding,
                run_id=run_id,
                timezone=timezone,
            )
            is_strict = validation.flag("strict", strict)
            operation.note(limit=request.limit, tiers=tuple(request.tiers))
            operation.quote(query=self._quotable(request.query))
            answers = parts.services.synthesis
            if synthesis is None:
                is_answered = self._config.synthesis == "auto" and answers.has_model
            else:
                is_answered = validation.flag("synthesis", synthesis)
            if is_answered:
                result = await answers.retrieve(request, strict=is_strict)
            else:
                result = await parts.services.retrieval.retrieve(request)
            operation.note(hits=len(result.hits), entities=len(result.entities))
            operation.quote(
                hit_titles=[hit.title for hit in result.hits], hit_contents=[hit.content for hit in result.hits]
            )
            return result

    def stream_memories(
        self,
        external_id: str | int | UUID | Collection[str | int | UUID],
        query: str,
        *,
        limit: int | None = None,
        tiers: Iterable[Tier] | None = None,
        min_confidence: float | None = None,
        min_match: float | Literal["found"] | None = None,
        as_of: datetime | None = None,
        known_at: datetime | None = None,
        where: Filter | None = None,
        timezone: str | None = None,
    ) -> AsyncGenerator[SearchHit]:
        """Yield the hits of `retrieve_memories`, best first, and go on after the 200th. Calls no model.

        The first 200 are those of `retrieve_memories(limit=200)`; then come all other passages that have anything to do
        with the question, in the order of their scores. Of a tenant with more than 10,000 passages these are the likely
        ones that are ranked, about a thousand.

        All are ranked once, for the moment at which you ask for the first. The first 200 are read with that, and 100
        more each time these are used up, so a large result needs little memory. Between two hits, no connection is
        held: leave the loop when you like. A passage that is erased, changed or ended meanwhile is left out.

        Args:
            query: As in `retrieve_memories`, like the other arguments.
            limit: At most this many, from 1; None is all.
            where: Decides when the ranking is done; a change of metadata after that is not looked at.

        Raises:
            InvalidInputError: An argument is invalid.
            ExternalIdNotFoundError: As in `retrieve_memories`.
            NotInitializedError: The memory is not open, or was closed meanwhile.
            StoreError: The store is unavailable, perhaps after some hits.
        """
        parts = self._ready()
        most = validation.optional_number("limit", limit)
        request = stream_request(
            self._config,
            external_id,
            query,
            limit=most,
            tiers=tiers,
            min_confidence=min_confidence,
            min_match=min_match,
            as_of=as_of,
            known_at=known_at,
            where=where,
            timezone=timezone,
        )
        return parts.services.hit_stream.stream(request, limit=most)

    def _note_tenant(self, operation: Observed, tenant: str) -> None:
        if operation.is_recording:
            operation.note(external_id=self._scrubber.quotable_identifier(tenant))

    def _quotable(self, query: str) -> str | None:
        """The question as a span may carry it; None unless spans carry text."""
        return self._scrubber.quotable(query) if self._config.telemetry_content else None

    def _ready(self) -> Parts:
        if self._parts is None:
            state = "was closed" if self._was_closed else "is not initialized"
            raise NotInitializedError(
                f"this AgentMem {state}; use `async with AgentMem()` or `await memory.initialize()`"
            )
        check_opened_here(self._process)
        return self._parts

    @property
    def _is_inherited(self) -> bool:
        """Whether it came into this process open, by a fork."""
        return self._parts is not None and is_inherited(self._process)


def _import_build() -> Callable[[Config, Given], Awaitable[Parts]]:
    """The function that opens a memory. With it come all services, numpy and the drivers."""
    from agent_reminiscence.assembly import build

    return build


def _written(memory: ActiveMemory) -> dict[str, Attribute]:
    """Span attributes for the result of a write."""
    named: dict[str, Attribute] = {"memory_id": str(memory.id), "version": memory.version}
    if memory.write is None:
        return named
    return named | {
        "chunks_added": memory.write.chunks_added,
        "chunks_kept": memory.write.chunks_kept,
        "chunks_ended": memory.write.chunks_ended,
        "consolidation_queued": memory.write.consolidation_queued,
    }


def _redactor(config: Config, redactor: Redactor | None) -> Redactor:
    """The redactor to use: the caller's, the default one, or none if `redaction` is off."""
    personal = config.redaction_personal
    if personal is not None and (redactor is not None or not config.redaction):
        where = "pass DefaultRedactor(personal=…), or no redactor" if config.redaction else "turn redaction on"
        raise ConfigurationError(f"redaction_personal is for the default redactor; {where}, or unset it")
    if redactor is None:
        if not config.redaction:
            return NoRedactor()
        names = [name.strip() for name in (personal or "").split(",") if name.strip()]
        return DefaultRedactor(personal="all" if names == ["all"] else names)
    if not config.redaction:
        raise ConfigurationError("a redactor was passed, but redaction is off; turn it on, or pass no redactor")
    if not isinstance(redactor, Redactor):
        raise ConfigurationError(f"redactor must have a method redact(text); {type(redactor).__name__} has none")
    return redactor
