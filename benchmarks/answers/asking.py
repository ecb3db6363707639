"""Asks for answers and verdicts, several at a time, and records each as soon as it is there."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import stamina
from pydantic_ai import Agent, ModelSettings, TextOutput
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, ModelQuotaExceededError, ModelRequestRejectedError
from pydantic_ai.models import Model

from benchmarks.answers.prompts import (
    ANSWER_INSTRUCTIONS,
    JUDGE_INSTRUCTIONS,
    Judgement,
    answer_prompt,
    judge_prompt,
    prompt_digest,
    read_judgement,
)
from benchmarks.answers.record import AnswerLine, Configuration, ContextLine, Record, VerdictLine

# A reply that cannot be used is asked for again this often, with what was wrong.
_REPAIRS = 2
# Cases that fail one after the other before the run ends: the next ones would most likely fail as well.
_MOST_FAILURES_IN_A_ROW = 3
_RETRIED_STATUSES = frozenset({408, 409, 425, 429})
_LONGEST_WAIT_SECONDS = 60.0
_PROGRESS_EVERY = 25


@dataclass(frozen=True, slots=True)
class Manner:
    """How models are asked; none of it changes what they are asked.

    Attributes:
        concurrency: How many requests are under way at most.
        attempts: How often a request is sent at most if the provider fails.
        timeout_seconds: How long a reply may take.
        first_wait_seconds: The pause before the first retry, without what chance adds; each next one is twice as long,
            up to a minute. What the provider asks for counts instead.
    """

    concurrency: int = 4
    attempts: int = 6
    timeout_seconds: float = 180.0
    first_wait_seconds: float = 1.0


@dataclass(slots=True)
class Outcome:
    """What came of a run.

    Attributes:
        failures: Why a case has no answer or no verdict, by its key.
        left: How many cases were not begun after too many failures.
    """

    failures: dict[str, str] = field(default_factory=dict)
    left: int = 0


@dataclass(frozen=True, slots=True)
class _Said[T]:
    output: T
    # What all replies have in common, for the record.
    facts: dict[str, Any]


class Asker:
    """Asks two models and keeps what they say.

    Args:
        record: Holds the contexts; receives answers and verdicts.
        answerer: Answers questions.
        judge: Compares answers with the right ones.
    """

    def __init__(self, record: Record, answerer: Model, judge: Model, manner: Manner) -> None:
        self._record = record
        self._answerer = answerer
        self._judge = judge
        self._manner = manner
        self._settings = _settings(record.start.configuration)
        self._answering: Agent[object, str] = Agent(instructions=ANSWER_INSTRUCTIONS, retries=_REPAIRS)
        self._judging: Agent[object, Judgement] = Agent(
            output_type=TextOutput(read_judgement), instructions=JUDGE_INSTRUCTIONS, retries=_REPAIRS
        )

    async def ask_all(self, keys: Sequence[str]) -> Outcome:
        """Ask what `keys` lack; a failure of one case does not end the others, but several in a row do."""
        waiting = deque(key for key in keys if key not in self._record.verdicts)
        outcome = Outcome()
        failed_in_a_row = 0
        done, total = 0, len(waiting)

        async def work() -> None:
            nonlocal failed_in_a_row, done
            while waiting and failed_in_a_row < _MOST_FAILURES_IN_A_ROW:
                key = waiting.popleft()
                try:
                    await self._ask(key)
                except Exception as error:  # noqa: BLE001 - a provider's client may raise anything
                    outcome.failures[key] = f"{type(error).__name__}: {error}"
                    failed_in_a_row += 1
                else:
                    failed_in_a_row = 0
                    done += 1
                    if done % _PROGRESS_EVERY == 0:
                        print(f"{done:,} of {total:,} verdicts", flush=True)

        async with asyncio.TaskGroup() as workers:
            for _ in range(min(self._manner.concurrency, total)):
                workers.create_task(work())
        outcome.left = len(waiting)
        return outcome

    async def _ask(self, key: str) -> None:
        context = self._record.contexts[key]
        answer = self._record.answers.get(key)
        if answer is None:
            answer = await self._answer(context)
            self._record.add(answer)
        self._record.add(await self._verdict(context, answer.answer))

    async def _answer(self, context: ContextLine) -> AnswerLine:
        prompt = answer_prompt(context.context, context.asked_at, context.question)
        said = await self._say(self._answering, self._answerer, prompt)
        return AnswerLine(
            key=context.key,
            prompt=prompt_digest(ANSWER_INSTRUCTIONS, prompt),
            answer=said.output.strip(),
            **said.facts,
        )

    async def _verdict(self, context: ContextLine, answer: str) -> VerdictLine:
        prompt = judge_prompt(context.question, context.reference, answer)
        said = await self._say(self._judging, self._judge, prompt)
        return VerdictLine(
            key=context.key,
            prompt=prompt_digest(JUDGE_INSTRUCTIONS, prompt),
            verdict=said.output.verdict,
            reason=said.output.reason,
            **said.facts,
        )

    async def _say[T](self, agent: Agent[object, T], model: Model, prompt: str) -> _Said[T]:
        manner = self._manner
        async for attempt in stamina.retry_context(
            on=_may_pass,
            attempts=manner.attempts,
            timeout=None,
            wait_initial=manner.first_wait_seconds,
            wait_max=_LONGEST_WAIT_SECONDS,
            wait_jitter=manner.first_wait_seconds,
        ):
            with attempt:
                started = time.perf_counter()
                async with asyncio.timeout(manner.timeout_seconds):
                    result = await agent.run(prompt, model=model, model_settings=self._settings)
                usage = result.usage
                return _Said(
                    result.output,
                    {
                        "model": result.response.model_name or model.model_name,
                        "requests": usage.requests,
                        "input_tokens": usage.input_tokens,
                        "output_tokens": usage.output_tokens,
                        "seconds": round(time.perf_counter() - started, 3),
                    },
                )
        raise AssertionError("every attempt returns or raises")


def _settings(configuration: Configuration) -> ModelSettings:
    settings = ModelSettings()
    if configuration.temperature is not None:
        settings["temperature"] = configuration.temperature
    if configuration.max_output_tokens is not None:
        settings["max_tokens"] = configuration.max_output_tokens
    return settings


def _may_pass(error: Exception) -> bool | float:
    """Whether a failed request is worth repeating; the seconds that the provider asks to wait if it says."""
    if isinstance(error, ModelQuotaExceededError | ModelRequestRejectedError):
        return False
    if isinstance(error, ModelHTTPError) and error.status_code not in _RETRIED_STATUSES and error.status_code < 500:
        return False
    if isinstance(error, ModelAPIError):
        return min(error.retry_after, _LONGEST_WAIT_SECONDS) if error.retry_after else True
    return isinstance(error, TimeoutError)
