"""Remembers what is worth keeping of a conversation: a model proposes, and the manager writes as for any caller."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from agent_reminiscence.agents.plans import CreateIntent, Said, UpdateIntent
from agent_reminiscence.config.timezones import zone_named
from agent_reminiscence.domain.canonical import sha256
from agent_reminiscence.domain.conversation_key import ConversationKeys
from agent_reminiscence.domain.memory import ActiveMemory, MemorySelection
from agent_reminiscence.domain.remembering import RememberedChange, RememberReport
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.exceptions import (
    AgentError,
    ConfigurationError,
    InvalidInputError,
    MemoryNotFoundError,
    QuotaExceededError,
    VersionConflictError,
)
from agent_reminiscence.services import validation
from agent_reminiscence.services.ledger.requests import CreateRequest, UpdateRequest
from agent_reminiscence.services.memories.manager import MemoryManager
from agent_reminiscence.services.memories.off_record import keep_on_record
from agent_reminiscence.services.memories.turn_recording import TurnRecorder
from agent_reminiscence.services.model_budget import ModelBudget, OutOfTokensError
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.text.days import seen_in
from agent_reminiscence.text.folding import fold_text
from agent_reminiscence.text.small_talk import is_small_talk

if TYPE_CHECKING:
    from pydantic_ai.models import Model

_logger = logging.getLogger("agent_reminiscence.models")

# An old statement still counts as made.
_EVER = datetime.min.replace(tzinfo=UTC)
AGENT = "memory_updater"
# What a model writes has the lowest trust, whoever said what it is based on. What it leaves unchanged keeps its label.
_SOURCE: Source = "model"
# A shorter text occurs in most memories by chance.
_QUOTED_CHARACTERS = 20
# These errors concern one change only; the next one may succeed.
_REFUSALS = (InvalidInputError, QuotaExceededError, VersionConflictError, MemoryNotFoundError)


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberRequest:
    """A conversation and the provenance of its memories.

    Attributes:
        user_name: What the user is called; None if unknown.
        is_dry_run: Whether to only report what would be done.
        besides_conversations: Whether the memories that conversations are recorded in do not count: they are neither
            shown nor changed, and what only they say is not known yet.
        off_at: When what came before in the conversation was said, if it was off the record.
        records_on_failure: Whether to record the turns in `conversation_id` where the model gives no usable answer.
        check: Called before each write; an error ends them.
        timezone: In which the conversation took place; None is the setting.
    """

    external_id: str
    said: Sequence[Said]
    user_name: str | None
    occurred_at: datetime | None
    actor: str | None
    conversation_id: str | None
    is_dry_run: bool
    besides_conversations: bool = False
    off_at: datetime | None = None
    records_on_failure: bool = False
    check: Callable[[], Awaitable[None]] | None = None
    timezone: str | None = None


class RememberingService:
    """Asks a model what to remember and writes it.

    Args:
        model: None if none is configured.
        timezone: Of conversations that name none.
    """

    def __init__(
        self,
        runtime: Runtime,
        manager: MemoryManager,
        budget: ModelBudget,
        model: Model | None,
        *,
        timezone: str,
    ) -> None:
        self._timezone = timezone
        self._store = runtime.store
        self._manager = manager
        self._chunks = runtime.repositories.tables.chunks
        self._clock = runtime.clock
        self._scrubber = runtime.scrubber
        self._budget = budget
        self._model = model
        self._recorder = TurnRecorder(manager.talks, runtime.clock)
        self._telemetry = runtime.telemetry

    @property
    def has_model(self) -> bool:
        """Whether there is a model to ask."""
        return self._model is not None

    async def remember(self, request: RememberRequest) -> RememberReport:
        """Remember the conversation and return a report; nothing is written unless the model's whole plan is valid.

        Raises:
            InvalidInputError: An identifier looks like a secret; no model is asked.
            ConfigurationError: No model is configured.
            AgentError: The model gave no usable answer, or the day's tokens are used up; nothing is written. Not if
                the turns are to be recorded then.
            RedactionError: Your redactor failed; nothing is written.
            StoreError: The store is unavailable; what was already written stays.
        """
        with self._telemetry.operation("remember") as operation:
            operation.note(
                external_id=self._scrubber.quotable_identifier(request.external_id), messages=len(request.said)
            )
            report = await self._remember(request)
            operation.note(changes=len(report.changes))
            return report

    async def _remember(self, request: RememberRequest) -> RememberReport:
        self._scrubber.check_identifiers(
            external_id=request.external_id,
            actor=request.actor,
            conversation_id=request.conversation_id,
        )
        if self._model is None:
            raise ConfigurationError(
                "remember() needs a model; set memory_update_agent_model, or pass"
                " AgentMem(models=AgentModels(memory_update=…))"
            )
        memories = await self._manager.get(request.external_id, MemorySelection())
        if request.besides_conversations:
            memories = [memory for memory in memories if ConversationKeys.of(memory.key) is None]
        # In a thread, here and in the comparison, because memories and conversations may be long.
        stored = await asyncio.to_thread(lambda: [_Stored.of(memory.content) for memory in memories])
        on_record = keep_on_record(request.said, request.off_at)
        said = await self._prepare(request, on_record.said, stored)
        report = RememberReport(
            external_id=request.external_id,
            why="",
            messages=len(said),
            recalled_messages=sum(one.is_recalled for one in said),
            off_record_messages=on_record.left_out,
        )
        if all(one.is_recalled or is_small_talk(one.text) for one in said):
            return report.model_copy(update={"why": "Everything said is already stored, trivial or off the record."})
        try:
            return await self._ask(request, report, said, memories, stored, self._model)
        except AgentError as error:
            if not request.records_on_failure or request.is_dry_run:
                raise
            failure = str(error)
        assert request.conversation_id is not None, "recording was asked for without a conversation"
        recorded = await self._recorder.record(
            request.external_id,
            request.conversation_id,
            # What only quotes memory is stored already.
            [one for one in said if not one.is_recalled],
            occurred_at=request.occurred_at,
            actor=request.actor,
            timezone=request.timezone,
        )
        return report.model_copy(
            update={
                "why": "The model gave no usable answer; the turns were recorded as they were said.",
                "failure": failure,
                "recorded_in": request.conversation_id,
                "recorded_turns": recorded,
            }
        )

    async def _ask(
        self,
        request: RememberRequest,
        report: RememberReport,
        said: Sequence[Said],
        memories: Sequence[ActiveMemory],
        stored: Sequence[_Stored],
        model: Model,
    ) -> RememberReport:
        """Ask the model and write what it proposes."""
        limits = await self._budget.limits(request.external_id)
        if limits is None:
            raise OutOfTokensError

        # Imported here because it takes most of a second the first time.
        from agent_reminiscence.agents.memory_updater import UpdaterDeps, make_prompt, updater_agent
        from agent_reminiscence.agents.running import run_agent
        from agent_reminiscence.agents.updater_memories import choose_memories
        from agent_reminiscence.agents.updater_mending import UpdaterMaterial

        async def are_known(texts: Sequence[str]) -> Sequence[bool]:
            return await self._are_stored(request, texts, stored)

        # A transcript is what was said, and no model changes that.
        notes = [memory for memory in memories if ConversationKeys.of(memory.key) is None]
        passages = await self._manager.get_passages(request.external_id, notes)
        shown = await asyncio.to_thread(choose_memories, notes, passages, said)
        deps = UpdaterDeps(
            UpdaterMaterial(said=said, shown=shown, memories=memories, check=_check, are_known=are_known)
        )
        names = [] if request.user_name is None else await self._scrubber.scrub_texts([request.user_name])
        at = seen_in(request.occurred_at or self._clock(), zone_named(request.timezone or self._timezone))
        prompt = make_prompt(said, at, *names, shown=shown, memories_left_out=len(notes) - len(shown))
        async with self._budget.metered(request.external_id, AGENT) as meter:
            answered = await run_agent(updater_agent(), prompt, model=model, deps=deps, limits=limits, meter=meter)
        # Redact all before writing the first: if the redactor fails on the last, nothing has been written.
        writes = [await self._scrubber.scrub(_write(request, intent)) for intent in deps.plan.intents]
        changes = [
            await self._apply(write, intent, request) for write, intent in zip(writes, deps.plan.intents, strict=True)
        ]
        replaced = {
            change.memory_id
            for change, intent in zip(changes, deps.plan.intents, strict=True)
            if change.outcome != "refused" and isinstance(intent, UpdateIntent) and intent.replaces
        }
        return report.model_copy(
            update={
                "changes": tuple(changes),
                "deletion_requests": tuple(
                    one.model_copy(update={"is_replaced": bool(one.memory_ids) and replaced.issuperset(one.memory_ids)})
                    for one in deps.plan.deletions
                ),
                "why": answered.output.why or "The model gives no reason.",
                "usage": answered.usage,
            }
        )

    async def _prepare(self, request: RememberRequest, said: Sequence[Said], stored: Sequence[_Stored]) -> list[Said]:
        """Redact messages before any model sees them, and mark those that only quote memory."""
        texts = await self._scrubber.scrub_texts([one.text for one in said])
        clean = [replace(one, text=text) for one, text in zip(said, texts, strict=True)]
        # People who repeat something mean it again; tools that show memory and assistants that quote it do not.
        others = [number for number, one in enumerate(clean) if one.role != "user" and not one.is_recalled]
        are_quotes = await self._are_stored(request, [clean[number].text for number in others], stored)
        for number, is_quote in zip(others, are_quotes, strict=True):
            clean[number] = replace(clean[number], is_recalled=is_quote)
        return clean

    async def _are_stored(
        self, request: RememberRequest, texts: Sequence[str], stored: Sequence[_Stored]
    ) -> list[bool]:
        """Whether each text says only what active memories or live chunks say, word for word."""
        found = await asyncio.to_thread(_compare, texts, stored)
        digests = {digest for one in found if one is not None for digest in (one.whole, *one.lines)}
        if not digests:
            return [one is None for one in found]
        async with self._store.transaction(request.external_id, read_only=True) as db:
            known = await self._chunks.find_known_texts(
                db,
                request.external_id,
                dict.fromkeys(digests, _EVER),
                besides_conversations=request.besides_conversations,
            )
        return [one is None or one.whole in known or one.lines <= known for one in found]

    async def _apply(
        self,
        write: CreateRequest | UpdateRequest,
        intent: CreateIntent | UpdateIntent,
        request: RememberRequest,
    ) -> RememberedChange:
        title, content = _texts(write)
        change = RememberedChange(
            outcome="proposed",
            title=title,
            content=content,
            why=intent.why,
            messages=intent.messages,
            memory_id=intent.memory_id if isinstance(intent, UpdateIntent) else None,
        )
        if request.is_dry_run:
            return change
        if request.check is not None:
            await request.check()
        try:
            if isinstance(write, CreateRequest):
                memory = await self._manager.create(write)
            else:
                memory = await self._manager.update(write)
        except _REFUSALS as error:
            extra = {"external_id": write.external_id}
            _logger.info("a proposed change was refused (%s)", type(error).__name__, extra=extra)
            return change.model_copy(update={"outcome": "refused", "reason": str(error)})
        outcome = "updated" if isinstance(intent, UpdateIntent) else "created"
        return change.model_copy(
            update={
                "outcome": outcome,
                "memory_id": memory.id,
                "version": memory.version,
                "title": memory.title,
                "content": memory.content,
            }
        )


def _write(request: RememberRequest, intent: CreateIntent | UpdateIntent) -> CreateRequest | UpdateRequest:
    if isinstance(intent, CreateIntent):
        return CreateRequest(
            external_id=request.external_id,
            title=intent.title,
            content=intent.content,
            description=None,
            metadata={},
            timezone=request.timezone,
            occurred_at=request.occurred_at,
            actor=request.actor,
            conversation_id=request.conversation_id,
            source=_SOURCE,
        )
    return UpdateRequest(
        external_id=request.external_id,
        memory_id=intent.memory_id,
        changes={"title": intent.title, "content": intent.content},
        occurred_at=request.occurred_at,
        actor=request.actor,
        conversation_id=request.conversation_id,
        source=_SOURCE,
        expected_version=intent.expected_version,
    )


def _texts(write: CreateRequest | UpdateRequest) -> tuple[str, str]:
    """Title and content as stored."""
    if isinstance(write, CreateRequest):
        return write.title, write.content
    return write.changes["title"], write.changes["content"]


# A sentence end within a line: punctuation, an optional closing quotation mark or bracket, and a space.
_SENTENCE_END = re.compile(r"[.!?…]++[\"'”’»)\]]*+ |[。！？]++")  # noqa: RUF001 - signs of other scripts


@dataclass(frozen=True, slots=True)
class _Stored:
    """A memory's text, folded, and where its lines and sentences begin and end.

    Part of a sentence may not be what the memory says: "It is not true that the launch is on Friday."
    """

    text: str
    starts: frozenset[int]
    ends: frozenset[int]

    @classmethod
    def of(cls, content: str) -> _Stored:
        lines: list[str] = []
        starts: set[int] = set()
        ends: set[int] = set()
        offset = 0
        for line in content.splitlines():
            folded = " ".join(line.casefold().split())
            if not folded:
                continue
            breaks = [match.end() for match in _SENTENCE_END.finditer(folded)]
            starts |= {offset + end for end in (0, *breaks)}
            for end in (*breaks, len(folded)):
                sentence = folded[:end].rstrip()
                # With and without its full stop: the searched text has none.
                ends |= {offset + len(sentence), offset + len(sentence.removesuffix("."))}
            lines.append(folded)
            offset += len(folded) + 1
        return cls(" ".join(lines), frozenset(starts), frozenset(ends))

    def says(self, folded: str) -> bool:
        """Whether the text equals one or more complete sentences or lines of the memory."""
        # Not position by position: in a text that repeats a letter, it occurs at each one.
        return folded in self.text and any(
            start + len(folded) in self.ends and self.text.startswith(folded, start) for start in self.starts
        )


class _Digests(NamedTuple):
    """The digests of a text to look for among chunks: of the whole text, or line by line."""

    whole: bytes
    lines: frozenset[bytes]


def _compare(texts: Sequence[str], stored: Sequence[_Stored]) -> list[_Digests | None]:
    """What is left to look for in each text; None if it says nothing or a memory says it verbatim."""
    return [_digests(text, fold_text(text), stored) for text in texts]


def _digests(text: str, folded: str, stored: Sequence[_Stored]) -> _Digests | None:
    if not folded or (len(folded) >= _QUOTED_CHARACTERS and any(memory.says(folded) for memory in stored)):
        return None
    lines = frozenset(sha256(fold_text(line).encode()) for line in text.splitlines() if line.strip())
    return _Digests(sha256(folded.encode()), lines)


def _check(title: str, content: str) -> None:
    validation.title(title)
    validation.content(content)
