"""The agent service with memory."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Self
from uuid import uuid4

from pydantic_ai.models import Model
from pydantic_ai.toolsets import AbstractToolset

from agent_reminiscence.config.timezones import zone_named
from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.event import Event, EventKind
from agent_reminiscence.exceptions import ReminiscenceError
from agent_reminiscence.react.chosen_model import ChosenModel
from agent_reminiscence.react.config import ReactMemConfig
from agent_reminiscence.react.ending import Ending, find_ending
from agent_reminiscence.react.failures import failure_of
from agent_reminiscence.react.journal import Finished, Journal, as_finished
from agent_reminiscence.react.learning import Learning, LearningByModel, LearningByRules
from agent_reminiscence.react.lifecycle import Lifecycle
from agent_reminiscence.react.maintenance import Maintenance
from agent_reminiscence.react.manager import Reasoned, Sink
from agent_reminiscence.react.mem_manager import ReactMemAgentManager, timed_out
from agent_reminiscence.react.memory_services import MemoryServices
from agent_reminiscence.react.models import AgentFailure, AgentRequest, AgentResponse, AgentUsage, RecalledMemory
from agent_reminiscence.react.named import named_scope, named_services
from agent_reminiscence.react.registry import Registry
from agent_reminiscence.react.scope import Scope, invocation_conversation
from agent_reminiscence.react.serving import Service, final_response
from agent_reminiscence.react.shared_memories import SharedMemories
from agent_reminiscence.telemetry import Telemetry

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

_logger = logging.getLogger("agent_reminiscence.react")


def _now() -> datetime:
    return datetime.now(UTC)


class ReactMemService(Service[ReactMemAgentManager]):
    """An agent with memory, behind the interface of `ReactService`.

    Use it as `async with ReactMemService(model, memory) as agent:`; leaving it waits until all answers are recorded.

    Args:
        model: A Pydantic AI model, or its name; several names, separated by commas, stand in for each other. Models of
            Ollama are asked at the memory's `ollama_base_url`.
        memory: Open; stays open when the service is closed.
        toolsets: The agent's tools; see `ReactAgentManager`.
        config: Also names, for a configuration file, what the next four arguments are; an argument comes first.
        learning_model: Draws facts and lessons after the answer; None: `model` does.
        summary_model: Summarises steps that no longer fit; None: they are listed by rules.
        services: Replaces the services that the memory is made of.
        scope: The `external_id` of a user and a collection; None: `default_scope`.
        clock: Returns the current time.
        tracer_provider: Receives OpenTelemetry spans; None uses the process's global provider.
        meter_provider: Receives OpenTelemetry metrics; None uses the global one.
        deps: The application's own dependencies; a tool finds them as `ctx.deps.deps`.

    Raises:
        ConfigurationError: A name says no model, or its provider's client or settings are missing; or `services` or
            `scope` of `config` cannot be imported, or is something else.
    """

    def __init__(
        self,
        model: Model | str,
        memory: AgentMem,
        *,
        toolsets: Sequence[AbstractToolset[Any]] = (),
        config: ReactMemConfig | None = None,
        learning_model: Model | str | None = None,
        summary_model: Model | str | None = None,
        services: MemoryServices | None = None,
        scope: Scope | None = None,
        clock: Callable[[], datetime] = _now,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        deps: Any = None,
    ) -> None:
        self._config = config or ReactMemConfig()
        self._memory = memory
        scope = named_scope(self._config) if scope is None else scope
        services = named_services(self._config, memory, scope) if services is None else services
        learning_model = self._config.learning_model if learning_model is None else learning_model
        summary_model = self._config.summary_model if summary_model is None else summary_model
        self._scope = scope
        self._services = services or MemoryServices.of(memory, self._config, scope)
        self._registry = Registry(memory)
        prompts, zone = self._config.prompts, zone_named(memory.config.timezone)
        telemetry = Telemetry(tracer_provider, meter_provider)

        def chosen(given: Model | str, argument: str) -> ChosenModel:
            return ChosenModel(given, argument=argument, ollama_base_url=memory.config.ollama_base_url)

        reasons = chosen(model, "model")
        learns = reasons if learning_model is None else chosen(learning_model, "learning_model")
        sums_up = None if summary_model is None else chosen(summary_model, "summary_model")
        self._shared = SharedMemories(memory, self._config, scope)
        manager = ReactMemAgentManager(
            reasons,
            self._services,
            self._shared,
            clock=clock,
            zone=zone,
            toolsets=toolsets,
            config=self._config,
            summariser=None if sums_up is None else LearningByModel(sums_up, prompts),
            telemetry=telemetry,
            deps=deps,
        )
        super().__init__(manager, *dict.fromkeys(one for one in (reasons, learns, sums_up) if one is not None))
        learning: Learning = LearningByRules()
        if self._config.learn_with == "model":
            learning = LearningByModel(learns, prompts, self._config.allow_sensitive, zone=zone)
        self._journal = Journal(memory)
        self.lifecycle = Lifecycle(
            memory,
            self._services,
            self._journal,
            self._registry,
            learning,
            config=self._config,
            scope=scope,
            clock=clock,
            telemetry=telemetry,
        )
        self._maintenance = Maintenance(self.lifecycle.maintain_quietly, self._config.maintenance_seconds)
        self._clock = clock
        self._working: set[asyncio.Future[Any]] = set()

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        if self._config.memory_mode == "write":
            self._maintenance.start()
        return self

    async def close(self) -> None:
        """End maintenance, wait until what was answered is recorded, then disconnect from models and MCP servers."""
        await self._maintenance.stop()
        await self.drain()
        await self.lifecycle.settle()
        await super().close()

    async def drain(self) -> None:
        """Wait until what was answered is recorded."""
        while self._working:
            await asyncio.wait(self._working)

    async def _respond(self, request: AgentRequest, invocation_id: str, sink: Sink) -> AgentResponse:
        """Answer a question; what it leaves in memory is recorded after the final message, in a task of the service."""
        if self._config.memory_mode == "off" or not request.enable_memory:
            return await self._reason(request, invocation_id, sink)
        try:
            return await self._remember(request, invocation_id, sink)
        except ReminiscenceError as error:
            return _failed(invocation_id, failure_of(error))

    async def _remember(self, request: AgentRequest, invocation_id: str, sink: Sink) -> AgentResponse:
        """Recall, reason and note the answer."""
        external_id = self._scope(request.user, request.collection)
        asked_at = self._clock()
        begun = await self._begin(request, external_id, invocation_id)
        if begun.answered is not None:
            if not await self._asks_the_same(request, begun.answered):
                return _conflict(invocation_id)
            self._record_later(external_id, begun.answered)
            return _repeated(invocation_id, begun.answered)
        warnings = tuple(f"recall: {one.message}" for one in begun.recalled.failures)
        if not begun.is_on:
            without = await self._reason(request, invocation_id, sink)
            return without.model_copy(update={"warnings": warnings})
        may_write = self._config.memory_mode == "write"

        async def may_still_write() -> bool:
            return await self._may_still_write(
                request.user, request.collection, request.conversation_id, begun.positions
            )

        reasoned = await self._manager.reason_over(
            request, invocation_id, sink, begun.recalled, may_store=may_still_write if may_write else None
        )
        shown = begun.recalled if self._config.show_retrieval else None
        response = final_response(invocation_id, reasoned).model_copy(update={"memory": shown, "warnings": warnings})
        if not may_write or not _is_worth_recording(reasoned):
            return response
        finished = _finished(request, invocation_id, reasoned, asked_at)
        ending = self._find_ending(request, begun.recalled, asked_at)
        # A client that hangs up now has perhaps been answered already: it is recorded all the same.
        noted = asyncio.ensure_future(self._note(external_id, finished, begun.positions, ending))
        self._keep(noted)
        try:
            event = await asyncio.shield(noted)
        except ReminiscenceError as error:
            return _with_warning(response, f"not recorded: {failure_of(error).message}")
        if event is None:
            return _with_warning(
                response, "not recorded: the memory was switched off meanwhile, or something in it erased"
            )
        if event.payload.get("attempt") == finished.attempt:
            return response
        # The same invocation was answered elsewhere meanwhile: whoever asks gets one answer.
        return (
            _repeated(invocation_id, event) if await self._asks_the_same(request, event) else _conflict(invocation_id)
        )

    async def _asks_the_same(self, request: AgentRequest, event: Event) -> bool:
        """Whether a recorded invocation has the question of this request, as it is stored."""
        asked = await self._memory.ledger.redacted({"question": request.question, "state": request.state})
        return all(asked[name] == event.payload.get(name) for name in ("question", "state"))

    async def _begin(self, request: AgentRequest, external_id: str, invocation_id: str) -> _Begun:
        """Ask whether the memory is on; then read what is remembered and an earlier answer, at once."""
        nothing = RecalledMemory()
        try:
            async with asyncio.timeout(self._config.memory_timeout_seconds):
                may_write = self._config.memory_mode == "write"
                is_on, positions = await asyncio.gather(
                    self._registry.allows(request.user, request.collection, request.conversation_id),
                    self._positions(external_id) if may_write else _nowhere(),
                )
                if not is_on:
                    return _Begun(nothing, is_on=False, answered=None)
                recalled, answered = await asyncio.gather(
                    self._manager.recall(request, invocation_id if may_write else None),
                    self._find_answer(request, external_id, invocation_id),
                )
        except ReminiscenceError as error:
            # It may have been switched off: nothing is shown, and nothing written.
            _logger.warning("whether a memory is on is not known: %s", type(error).__name__)
            return _Begun(nothing.model_copy(update={"failures": (_UNKNOWN,)}), is_on=False, answered=None)
        except TimeoutError:
            return _Begun(timed_out(self._config.memory_timeout_seconds), is_on=False, answered=None)
        return _Begun(recalled, is_on=True, answered=answered, positions=positions)

    async def _positions(self, external_id: str) -> dict[str, int]:
        """Where the ledgers stand of all memories that a run may be shown something of."""
        read = (external_id, *self._shared.beside(external_id))
        heads = await asyncio.gather(*map(self._memory.ledger.head, read))
        return dict(zip(read, heads, strict=True))

    async def _find_answer(self, request: AgentRequest, external_id: str, invocation_id: str) -> Event | None:
        """An earlier answer to this very invocation; a client that gave no id cannot repeat it."""
        if request.invocation_id is None:
            return None
        conversation = invocation_conversation(request.conversation_id, invocation_id)
        return await self._journal.find(external_id, conversation, invocation_id)

    async def _may_still_write(
        self, user: str, collection: str, conversation_id: str | None, begun: Mapping[str, int]
    ) -> bool:
        """Whether a run may write: not if it may have been shown what has been erased since it began.

        Args:
            begun: Position of each ledger when the run began.
        """
        is_on, *erased = await asyncio.gather(
            self._registry.allows(user, collection, conversation_id),
            *(
                self._memory.ledger.read(one, after=position, kinds=[EventKind.ERASED], limit=1)
                for one, position in begun.items()
            ),
        )
        return bool(is_on) and not any(erased)

    def _find_ending(self, request: AgentRequest, recalled: RecalledMemory, asked_at: datetime) -> Ending | None:
        """Why the conversation, or the part of it before the question, is over; None if it goes on."""
        if request.conversation_id is None:
            return None
        if request.end_conversation:
            return _REQUESTED
        said = () if recalled.conversation is None else recalled.conversation.invocations
        return find_ending(
            said,
            request.question,
            asked_at,
            signs=self._config.end_heuristic,
            pause_seconds=self._config.conversation_timeout,
        )

    async def _note(
        self, external_id: str, finished: Finished, begun: Mapping[str, int], ending: Ending | None
    ) -> Event | None:
        """Record that the invocation is over, then in a task of its own all that follows from it.

        Returns:
            The event; None if the memory has been switched off since the question, or something in it erased.
        """
        if not await self._may_still_write(finished.user, finished.collection, finished.conversation_id, begun):
            return None
        await self._registry.open(finished.user, finished.collection)
        event = await self._journal.finish(external_id, finished)
        # The next question may come at once, and is to be shown this one.
        await self.lifecycle.speak(event)
        self._record_later(external_id, event, ending)
        return event

    def _record_later(self, external_id: str, event: Event, ending: Ending | None = None) -> None:
        self._keep(asyncio.ensure_future(self._record(external_id, event, ending)))

    def _keep(self, task: asyncio.Future[Any]) -> None:
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    async def _record(self, external_id: str, event: Event, ending: Ending | None) -> None:
        if ending is not None and ending.is_before:
            await self._end(event, ending, until=event)
        try:
            await self.lifecycle.record(external_id, event)
        except Exception as error:  # noqa: BLE001 - a replaced service may raise anything, and quote anything
            _logger.warning("an invocation is recorded at the next maintenance: %s", type(error).__name__)
            return
        if ending is not None and not ending.is_before:
            await self._end(event, ending)

    async def _end(self, event: Event, ending: Ending, *, until: Event | None = None) -> None:
        said = event.payload
        try:
            await self.lifecycle.end(said["user"], str(event.conversation_id), said["collection"], ending, until=until)
        except Exception as error:  # noqa: BLE001 - likewise
            _logger.warning("a conversation ends by its timeout: %s", type(error).__name__)


@dataclass(frozen=True, slots=True)
class _Begun:
    """What is known when an invocation begins.

    Attributes:
        is_on: Whether the memory of the user and the conversation is on, as far as is known.
        answered: The event of an earlier answer to this very invocation.
        positions: Of the ledger of each memory that is read, before that; none if nothing may be written.
    """

    recalled: RecalledMemory
    is_on: bool
    answered: Event | None
    positions: Mapping[str, int] = field(default_factory=dict)


_REQUESTED: Final = Ending(reason="request", why="the request said so")
_UNKNOWN: Final = AgentFailure(reason="memory_failed", message="the memory cannot be reached; nothing is remembered")


async def _nowhere() -> dict[str, int]:
    return {}


def _with_warning(response: AgentResponse, warning: str) -> AgentResponse:
    return response.model_copy(update={"warnings": (*response.warnings, warning)})


def _is_worth_recording(reasoned: Reasoned) -> bool:
    """Whether something happened: an answer, or steps that came to nothing."""
    return reasoned.failure is None or bool(reasoned.steps)


def _finished(request: AgentRequest, invocation_id: str, reasoned: Reasoned, asked_at: datetime) -> Finished:
    return Finished(
        invocation_id=invocation_id,
        attempt=str(uuid4()),
        user=request.user,
        collection=request.collection,
        conversation_id=request.conversation_id,
        question=request.question,
        state=request.state,
        steps=(*request.history, *reasoned.steps),
        new_steps=len(reasoned.steps),
        answer=reasoned.answer,
        failure=reasoned.failure,
        recalled=reasoned.recalled,
        asked_at=asked_at,
        user_name=request.user_name,
        forget_requests=reasoned.forget_requests,
        shown_facts=reasoned.numbers.facts,
        shown_lessons=reasoned.numbers.lessons,
    )


def _repeated(invocation_id: str, event: Event) -> AgentResponse:
    """The recorded answer of an invocation; it cost nothing this time."""
    before = as_finished(event)
    assert before is not None
    taken = before.steps[-before.new_steps :] if before.new_steps else ()
    told = Reasoned(answer=before.answer, steps=taken, usage=AgentUsage(), forget_requests=before.forget_requests)
    return final_response(invocation_id, told)


def _conflict(invocation_id: str) -> AgentResponse:
    message = f"invocation_id {invocation_id!r} was used for another question; a new question needs a new id"
    return _failed(invocation_id, AgentFailure(reason="conflict", message=message))


def _failed(invocation_id: str, failure: AgentFailure) -> AgentResponse:
    return final_response(invocation_id, Reasoned(answer="", steps=(), usage=AgentUsage(), failure=failure))
