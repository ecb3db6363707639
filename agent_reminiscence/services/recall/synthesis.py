"""Recall with an answer: a model says in words what the passages say, and cites them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agent_reminiscence.agents.model_call import AgentFailedError
from agent_reminiscence.domain.retrieval import CitedPassage, Omission, RetrievalResult, SearchHit, Synthesis, Usage
from agent_reminiscence.domain.search import SearchRequest
from agent_reminiscence.exceptions import ConfigurationError, RedactionError, StoreError
from agent_reminiscence.services import validation
from agent_reminiscence.services.model_budget import ModelBudget, OutOfTokensError
from agent_reminiscence.services.recall.neighbours import NeighbourReader
from agent_reminiscence.services.recall.retrieval import RetrievalService
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.text.days import now_in

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from agent_reminiscence.agents.memory_retriever import Passage, RetrievalAnswer, RetrieverDeps
    from agent_reminiscence.agents.running import AgentAnswer
    from agent_reminiscence.domain.payloads import ModelUsage

_logger = logging.getLogger("agent_reminiscence.models")

AGENT = "memory_retriever"
NO_PASSAGES = "No passage was found that could answer this."


class SynthesisService:
    """Asks a model for an answer based on what recall finds.

    Whatever happens to the model, the hits are those of plain recall.

    Args:
        model: None if none is configured.
    """

    def __init__(
        self,
        runtime: Runtime,
        retrieval: RetrievalService,
        neighbours: NeighbourReader,
        budget: ModelBudget,
        model: Model | None,
    ) -> None:
        self._retrieval = retrieval
        self._neighbours = neighbours
        self._scrubber = runtime.scrubber
        self._budget = budget
        self._model = model
        self._telemetry = runtime.telemetry
        self._clock = runtime.clock

    @property
    def has_model(self) -> bool:
        """Whether there is a model to ask."""
        return self._model is not None

    async def stream(self, request: SearchRequest, *, strict: bool) -> AsyncGenerator[RetrievalResult]:
        """Yield the hits, the answer as it is written, then the result of `retrieve`; raises like `retrieve`."""
        recalled: asyncio.Future[RetrievalResult] = asyncio.get_running_loop().create_future()
        written: asyncio.Queue[RetrievalResult | None] = asyncio.Queue()

        def write(partial: RetrievalResult) -> None:
            if not recalled.done():
                recalled.set_result(partial)
                return
            # A slow reader gets the hits and then only the newest version of the answer; older ones are dropped.
            while not written.empty():
                written.get_nowait()
            written.put_nowait(partial)

        asking = asyncio.create_task(self._observed(request, strict=strict, watch=write))
        asking.add_done_callback(lambda _: written.put_nowait(None))
        try:
            await asyncio.wait({asking, recalled}, return_when=asyncio.FIRST_COMPLETED)
            if recalled.done():
                yield recalled.result()
            while (partial := await written.get()) is not None:
                yield partial
            yield await asking
        finally:
            asking.cancel()
            await asyncio.wait({asking})
            # Nobody reads any more, so the error is dropped and the loop does not report it as never retrieved.
            if not asking.cancelled():
                asking.exception()

    async def _observed(
        self, request: SearchRequest, *, strict: bool, watch: Callable[[RetrievalResult], None]
    ) -> RetrievalResult:
        # Inside the task, not around the iterator: what a reader does between results must not be counted.
        with self._telemetry.operation("stream_answer") as operation:
            operation.note(**self._scrubber.quotable_memories(request.external_ids))
            operation.note(limit=request.limit, tiers=tuple(request.tiers))
            result = await self.retrieve(request, strict=strict, watch=watch)
            operation.note(hits=len(result.hits))
            return result

    async def retrieve(
        self, request: SearchRequest, *, strict: bool, watch: Callable[[RetrievalResult], None] | None = None
    ) -> RetrievalResult:
        """Return what recall finds, and a model's answer based on it.

        Args:
            strict: Whether a missing answer is an error.
            watch: Called with what recall finds, before a model is asked; then with the unchecked answer while it is
                being written, whenever it has changed.

        Raises:
            ConfigurationError: No model is configured.
            AgentError: With `strict`: the model gave no usable answer.
            RedactionError: With `strict`: your redactor failed on the question.
            StoreError: The store is unavailable; without `strict`, only if recall itself fails.
        """
        if self._model is None:
            raise ConfigurationError(
                "synthesis=True needs a model; set memory_retrieve_agent_model, or pass"
                " AgentMem(models=AgentModels(memory_retrieve=…))"
            )
        found = await self._retrieval.retrieve(request)
        if watch is not None:
            watch(found)
        if not found.hits and not found.omitted:
            # A model could only make something up.
            return found.model_copy(update={"synthesis": Synthesis(answer=NO_PASSAGES, is_known=False)})
        # Imported here because it takes most of a second the first time.
        from agent_reminiscence.agents.memory_retriever import make_prompt, retriever_agent
        from agent_reminiscence.agents.running import run_agent

        deps = self.retriever_deps(request)
        now = now_in(request.as_of or self._clock(), request.zone)
        meter = None
        try:
            limits = await self._budget.limits(request.asker)
            if limits is None:
                if strict:
                    raise OutOfTokensError
                return _without(found, "synthesis_limit")
            # Redacted like stored texts: nobody means to send a key to a model's provider.
            (question,) = await self._scrubber.scrub_texts([request.query])
            async with self._budget.metered(request.asker, AGENT) as meter:
                answered = await run_agent(
                    retriever_agent(),
                    make_prompt(deps, found, question, now),
                    model=self._model,
                    deps=deps,
                    limits=limits,
                    meter=meter,
                    watch=None if watch is None else _answer_watcher(found, watch),
                )
        except (AgentFailedError, RedactionError, StoreError) as error:
            if strict:
                raise
            _logger.warning("recall answers without the model: %s", error, extra={"external_id": request.external_id})
            return _without(found, f"synthesis_{_reason(error)}", None if meter is None else meter.usage)
        return _with_answer(found, answered, deps)

    def retriever_deps(self, request: SearchRequest) -> RetrieverDeps:
        """What an agent with `retriever_tools` reads for a request: same tenant, same moment, same filters."""
        from agent_reminiscence.agents.memory_retriever import RetrieverDeps

        return RetrieverDeps(
            search=lambda query: self._search(request, query),
            read_around=lambda passage: self._read_around(request, passage),
            names_memory=bool(request.beside),
            zone=request.zone,
        )

    async def _read_around(self, request: SearchRequest, passage: Passage) -> Sequence[SearchHit]:
        if passage.external_id not in request.external_ids:
            return []
        of_one = replace(request, external_id=passage.external_id, beside=())
        return await self._neighbours.read(of_one, passage.memory_id, passage.sources)

    async def _search(self, request: SearchRequest, query: str) -> RetrievalResult:
        """Recall for another question of the same caller."""
        return await self._retrieval.retrieve(
            replace(
                request,
                query=validation.query(query),
                counts_as_use=False,
                profile=None,
                # It belongs to the caller's own question.
                embedding=None,
                # The run is given what was found for it, not all that a model looked at.
                run_id=None,
            )
        )


def _reason(error: AgentFailedError | RedactionError | StoreError) -> str:
    if isinstance(error, AgentFailedError):
        return error.reason
    return "redaction" if isinstance(error, RedactionError) else "store"


def _with_answer(
    found: RetrievalResult, answered: AgentAnswer[RetrievalAnswer], deps: RetrieverDeps
) -> RetrievalResult:
    from agent_reminiscence.agents.memory_retriever import cited_numbers

    output = answered.output
    citations = tuple(
        CitedPassage(
            number=number,
            external_id=deps.passages[number].external_id,
            memory_id=deps.passages[number].memory_id,
            chunk_id=deps.passages[number].chunk_id,
            title=deps.passages[number].title,
            content=deps.passages[number].content,
        )
        for number in cited_numbers(output.answer)
    )
    synthesis = Synthesis(
        answer=output.answer, is_known=output.is_known, citations=citations, model=answered.usage.model
    )
    return found.model_copy(update={"synthesis": synthesis, "usage": _add(found.usage, answered.usage)})


def _answer_watcher(
    found: RetrievalResult, watch: Callable[[RetrievalResult], None]
) -> Callable[[Mapping[str, Any]], None]:
    """Pass on each partial answer as a result, unless it is empty or the same as the one before."""
    last: Synthesis | None = None

    def pass_on(written: Mapping[str, Any]) -> None:
        nonlocal last
        answer, is_known = written.get("answer"), written.get("is_known")
        synthesis = Synthesis(
            answer=answer if isinstance(answer, str) else "",
            is_known=is_known if isinstance(is_known, bool) else None,
            is_checked=False,
        )
        if synthesis.answer and synthesis != last:
            last = synthesis
            watch(found.model_copy(update={"synthesis": synthesis}))

    return pass_on


def _without(found: RetrievalResult, reason: str, model_usage: ModelUsage | None = None) -> RetrievalResult:
    omitted = (*found.omitted, Omission(reason=reason, count=1))
    usage = found.usage if model_usage is None else _add(found.usage, model_usage)
    return found.model_copy(update={"omitted": omitted, "usage": usage})


def _add(usage: Usage, model_usage: ModelUsage) -> Usage:
    return usage.model_copy(
        update={
            "model_requests": usage.model_requests + model_usage.requests,
            "input_tokens": usage.input_tokens + model_usage.input_tokens,
            "output_tokens": usage.output_tokens + model_usage.output_tokens,
        }
    )
