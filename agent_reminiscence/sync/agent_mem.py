# Written by scripts/write_sync.py from the asynchronous classes: `make sync` writes it anew.
"""The blocking twin of `agent_reminiscence.core.AgentMem`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from agent_reminiscence.agents.models import AgentModels
from agent_reminiscence.config.constants import Tier
from agent_reminiscence.config.settings import Config
from agent_reminiscence.core import AgentMem as AsyncAgentMem
from agent_reminiscence.core import utc_now
from agent_reminiscence.domain.filter import Filter
from agent_reminiscence.domain.memory import ActiveMemory, IfExists
from agent_reminiscence.domain.retrieval import RetrievalResult, SearchHit
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.domain.turn import Turn
from agent_reminiscence.redaction.redactor import Redactor
from agent_reminiscence.services.ledger.requests import UNSET, Unset
from agent_reminiscence.sync.conversation import Conversation
from agent_reminiscence.sync.event_index import EventIndex
from agent_reminiscence.sync.lifecycle import Lifecycle
from agent_reminiscence.sync.memory_admin import MemoryAdmin
from agent_reminiscence.sync.memory_ledger import MemoryLedger

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from agent_reminiscence.embedders.protocol import Embedder
    from agent_reminiscence.services.recall.ranking import Weights


class AgentMem(Lifecycle):
    """The memory of agents, for programs that do not await.

    Use it as `with AgentMem() as memory:`, or call `initialize()` and `close()` yourself. It runs in a thread of its
    own, so it also works where an event loop runs, such as in a notebook. Its methods are those of
    `agent_reminiscence.AgentMem`. One object serves any number of threads and any number of tenants.

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

    _wrapped: AsyncAgentMem

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
        super().__init__(
            AsyncAgentMem(
                config,
                embedder=embedder,
                embedders=embedders,
                redactor=redactor,
                clock=clock,
                models=models,
                weights=weights,
                tracer_provider=tracer_provider,
                meter_provider=meter_provider,
            )
        )

    @property
    def config(self) -> Config:
        """The settings, as given or read from the environment."""
        return self._wrapped.config

    @property
    def ledger(self) -> MemoryLedger:
        """The ledger: append and read events."""
        return MemoryLedger(self._thread, self._wrapped.ledger)

    @property
    def admin(self) -> MemoryAdmin:
        """Maintenance: history, verification, erasure, transfer, jobs."""
        return MemoryAdmin(self._thread, self._wrapped.admin)

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
        """A conversation to record turn by turn: `memory.conversation("user-1", "chat-7").add("user", "Hi")`.

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
            self._thread,
            self._wrapped.conversation(
                external_id,
                conversation_id,
                title=title,
                source=source,
                actor=actor,
                remember=remember,
                timezone=timezone,
            ),
        )

    def event_index(
        self, external_id: str | int | UUID, *, actor: str | None = None, kinds: Sequence[str] = ()
    ) -> EventIndex:
        """An index of events of your own kinds: `memory.event_index("run-1").search("the red boat")`.

        Args:
            actor: Only this actor's events, and those of `kinds`; None is everybody's.
            kinds: Kinds that are found whoever wrote them; without `actor`, every kind is.

        Raises:
            InvalidInputError: An argument is invalid.
        """
        return EventIndex(self._thread, self._wrapped.event_index(external_id, actor=actor, kinds=kinds))

    def create_active_memory(
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
        return self._thread.call(
            lambda: self._wrapped.create_active_memory(
                external_id,
                title,
                content,
                description=description,
                metadata=metadata,
                occurred_at=occurred_at,
                actor=actor,
                conversation_id=conversation_id,
                source=source,
                language=language,
                timezone=timezone,
                key=key,
                if_exists=if_exists,
                pinned=pinned,
                expires_at=expires_at,
                idempotency_key=idempotency_key,
            )
        )

    def get_active_memories(
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
        return self._thread.call(
            lambda: self._wrapped.get_active_memories(
                external_id, ids=ids, keys=keys, key_prefix=key_prefix, where=where, limit=limit, after=after
            )
        )

    def update_active_memory(
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
        return self._thread.call(
            lambda: self._wrapped.update_active_memory(
                external_id,
                memory_id,
                key=key,
                title=title,
                content=content,
                description=description,
                metadata=metadata,
                append=append,
                occurred_at=occurred_at,
                actor=actor,
                conversation_id=conversation_id,
                source=source,
                language=language,
                timezone=timezone,
                pinned=pinned,
                expires_at=expires_at,
                expected_version=expected_version,
                idempotency_key=idempotency_key,
            )
        )

    def retrieve_memories(
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
        return self._thread.call(
            lambda: self._wrapped.retrieve_memories(
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
                synthesis=synthesis,
                strict=strict,
            )
        )

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
    ) -> Generator[SearchHit]:
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
        return self._thread.iterate(
            lambda: self._wrapped.stream_memories(
                external_id,
                query,
                limit=limit,
                tiers=tiers,
                min_confidence=min_confidence,
                min_match=min_match,
                as_of=as_of,
                known_at=known_at,
                where=where,
                timezone=timezone,
            )
        )
