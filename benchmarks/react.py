"""What memory costs an agent: how long its context takes to assemble, and how much of the window it fills.

    python -m benchmarks.react [--facts 5000] [--episodes 5000] [--questions 200]

A user has facts, episodes and a conversation of 30 invocations. Each question is answered by the stateless service and
by those with memory, with a model that answers at once, in turn in one run; the difference is what memory costs before
the answer. Each retrieval is also timed by itself, one after the other: assembly asks all three at once and should
take little more than the slowest. Spans show how far they overlap. On two cores the database competes with the caller.
So they are timed once more with recorded answers, which the database does not have to compute (`benchmarks/replay.py`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.react import (
    AgentFailure,
    AgentRequest,
    GetConversationMemoryRequest,
    InvocationSummary,
    MemoryServices,
    ReactMemConfig,
    ReactMemService,
    ReactService,
    RetrieveEpisodesRequest,
    RetrieveFactsRequest,
    StoreEpisodeRequest,
    StoreFactRequest,
    UpdateConversationMemoryRequest,
    default_scope,
)
from benchmarks.common import print_table, scratch_folder
from benchmarks.replay import AT_ONCE, Call, Comparison, NotRecordedError, compare

_SEED = 20
_USER = "bench"
_CONVERSATION = "bench-conversation"
_WINDOW = 128_000
_THINGS = ("boat", "oven", "bicycle", "garden", "piano", "camera", "roof", "engine", "tent", "lamp", "kettle", "desk")
_PLACES = ("Graz", "Bergen", "Porto", "Lucca", "Ghent", "Turku", "Bath", "Cork", "Bern", "Delft", "Olomouc", "Split")
_ACTS = ("repair", "paint", "sell", "photograph", "clean", "move", "insure", "measure", "lend", "replace")
_RETRIEVALS = ("facts", "episodes", "conversation")
_LESSONS = ("measure twice", "ask for the price first", "wait for dry weather", "call before noon", "take a second key")


async def main() -> None:
    """Fill a memory, ask, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--facts", type=int, default=5_000)
    parser.add_argument("--episodes", type=int, default=5_000)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    chance = random.Random(_SEED)
    with scratch_folder("bench-react-") as folder:
        async with AgentMem(Config(data_dir=folder / "data")) as memory:
            started = time.perf_counter()
            await _fill(memory, chance, options.facts, options.episodes)
            print(f"filled in {time.perf_counter() - started:.0f} s")
            figures = await _measure(memory, chance, options.questions)
    print_table(
        ["", "p50 ms", "p95 ms"],
        [[name, f"{_p(times, 50):.1f}", f"{_p(times, 95):.1f}"] for name, times in figures["times"].items()],
    )
    times = figures["times"]
    for name in ("reads", "reads and writes"):
        added = [with_memory - plain for plain, with_memory in zip(times["stateless"], times[name], strict=True)]
        print(f"memory that {name} adds {_p(added, 50):.1f} ms (p50), {_p(added, 95):.1f} ms (p95) before the answer")
    slowest = max(_p(times[f"{name} alone"], 50) for name in _RETRIEVALS)
    print(f"assembly takes {_p(times['assembly'], 50) / slowest:.2f} times the slowest retrieval alone (p50)")
    print(f"the retrievals overlap during {figures['overlap']:.0%} of the assembly (median of spans)")
    tokens = figures["tokens"]
    print(f"recalled: {statistics.median(tokens):.0f} tokens, {statistics.median(tokens) / _WINDOW:.1%} of {_WINDOW:,}")
    usage = figures["usage"]
    print(
        f"the collection holds {usage['facts']:,} facts, {usage['episodes']:,} episodes, {usage['chunks']:,} passages"
    )
    _print_compared(figures["compared"])
    if options.json:
        options.json.write_text(json.dumps(figures), encoding="utf-8")


def _print_compared(compared: Sequence[dict[str, Any]]) -> None:
    """How long the retrievals take at once and alone, with the database and with its answers recorded."""
    if not compared:
        print("no question could be replayed")
        return

    def median(kind: str, name: str) -> float:
        milliseconds: list[float] = [one[kind][name] * 1_000 for one in compared]
        return statistics.median(milliseconds)

    print(f"\nthe same {len(compared)} questions, slightly reworded for the live calls at once (p50 ms)")
    rows = []
    for kind, answers in (("live", "of the database"), ("replayed", "recorded")):
        alone = [median(kind, name) for name in _RETRIEVALS]
        at_once = median(kind, AT_ONCE)
        rows.append([answers, *(f"{one:.1f}" for one in (at_once, *alone)), f"{at_once / max(alone):.2f}"])
    print_table(["answers", "at once", *_RETRIEVALS, "at once / slowest"], rows)
    for name in _RETRIEVALS:
        print(
            f"{name} alone: {median('waiting', name):.1f} ms of waiting; other threads worked for"
            f" {median('elsewhere', name):.1f} ms of it"
        )


async def _fill(memory: AgentMem, chance: random.Random, facts: int, episodes: int) -> None:
    services = MemoryServices.of(memory)
    gate = asyncio.Semaphore(8)

    async def store_fact(number: int) -> None:
        async with gate:
            content = f"The {chance.choice(_THINGS)} number {number} stands in {chance.choice(_PLACES)}."
            await _ask(services.fact_storage.store_fact, StoreFactRequest(user=_USER, content=content))

    async def store_episode(number: int) -> None:
        async with gate:
            thing, place = chance.choice(_THINGS), chance.choice(_PLACES)
            await _ask(
                services.episode_storage.store_episode,
                StoreEpisodeRequest(
                    user=_USER,
                    goal=f"{chance.choice(_ACTS).capitalize()} the {thing} number {number} in {place}.",
                    outcome=f"The {thing} is done.",
                    lessons=(f"Near {place}, {chance.choice(_LESSONS)}.",),
                    success=chance.random() < 0.7,
                    id=f"episode-{number}",
                ),
            )

    await asyncio.gather(*map(store_fact, range(facts)))
    await asyncio.gather(*map(store_episode, range(episodes)))
    for number in range(30):
        summary = InvocationSummary(
            query=f"What about the {chance.choice(_THINGS)}?",
            summary="looked it up",
            result="It is where it was.",
            timestamp=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=number),
            invocation_id=f"i-{number}",
        )
        await services.conversations.update_conversation(
            UpdateConversationMemoryRequest(user=_USER, conversation_id=_CONVERSATION, invocation_summary=summary)
        )
    await memory.admin.wait_until_idle(default_scope(_USER, "default"))


async def _measure(memory: AgentMem, chance: random.Random, questions: int) -> dict[str, Any]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    services = MemoryServices.of(memory)
    model = FunctionModel(_answer)
    times: dict[str, list[float]] = {
        name: []
        for name in ("stateless", "reads", "reads and writes", "assembly", *(f"{name} alone" for name in _RETRIEVALS))
    }
    compared: list[Comparison] = []
    tokens: list[int] = []
    overlaps: list[float] = []
    reads = ReactMemConfig(memory_mode="read")
    writes = ReactMemConfig(learn_with="rules")
    async with (
        ReactService(model) as stateless,
        ReactMemService(model, memory, config=reads, tracer_provider=provider) as agent,
        ReactMemService(model, memory, config=writes) as writer,
    ):
        for number in range(-10, questions):
            question = f"Where is the {chance.choice(_THINGS)}, and how do I {chance.choice(_ACTS)} it in {number}?"
            state = f"I am in {chance.choice(_PLACES)}."
            request = AgentRequest(
                question=question, state=state, user=_USER, conversation_id=_CONVERSATION, enable_memory=True
            )
            plain = request.model_copy(update={"enable_memory": False})
            exporter.clear()
            took = {
                "stateless": await _time(partial(_ask, stateless.answer, plain)),
                "reads": await _time(partial(_ask, agent.answer, request)),
            }
            spans = {span.name.rpartition(".")[2]: span for span in exporter.get_finished_spans()}
            took["reads and writes"] = await _time(partial(_ask, writer.answer, request))
            await writer.drain()
            # What was recorded is consolidated before the next figure is taken.
            await memory.admin.wait_until_idle(default_scope(_USER, "default"))
            took["assembly"] = _milliseconds(spans["recall"])
            # A question of its own, which no cache knows, as alike as can be.
            alone = _retrievals(lambda: services, question.replace(" it in ", " it after "), state)
            took |= {f"{name} alone": await _time(call) for name, call in alone.items()}
            if number < 0:
                continue
            for name, value in took.items():
                times[name].append(value)
            overlaps.append(_overlap(spans))
            first = _retrievals(lambda: services, question.replace(" it in ", " it before "), state)
            # Services of one memory share a look at the user's switch, and a recorded answer is one call's.
            apart = partial(MemoryServices.of, memory)
            then = _retrievals(apart, question.replace(" it in ", " it for "), state)
            with suppress(NotRecordedError):
                compared.append(await compare(first, then, is_at_once_first=number % 2 == 0))
            response = await agent.answer(request)
            assert response.usage is not None
            tokens.append(response.usage.recalled_tokens)
        held = await agent.lifecycle.usage(_USER)
    usage = {"facts": held.facts, "episodes": held.episodes, "chunks": held.memory.live_chunks}
    return {
        "times": times,
        "compared": [asdict(one) for one in compared],
        "tokens": tokens,
        "overlap": statistics.median(overlaps),
        "usage": usage,
    }


def _answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    del messages, info
    return ModelResponse(parts=[TextPart("I will look.")])


class _Response(Protocol):
    @property
    def error(self) -> AgentFailure | None: ...


async def _ask[R](ask: Callable[[R], Awaitable[_Response]], request: R) -> None:
    response = await ask(request)
    assert response.error is None, response.error


def _retrievals(services: Callable[[], MemoryServices], question: str, state: str) -> dict[str, Call]:
    """The three retrievals of an assembly, as separate calls, each of the services that it is given."""
    facts = RetrieveFactsRequest(user=_USER, query=question)
    episodes = RetrieveEpisodesRequest(user=_USER, query=question, state=state)
    conversation = GetConversationMemoryRequest(user=_USER, conversation_id=_CONVERSATION, limit=20)
    return {
        "facts": partial(_ask, services().fact_retrieval.retrieve_facts, facts),
        "episodes": partial(_ask, services().episode_retrieval.retrieve_episodes, episodes),
        "conversation": partial(_ask, services().conversations.get_conversation, conversation),
    }


async def _time(call: Call) -> float:
    started = time.perf_counter()
    await call()
    return (time.perf_counter() - started) * 1_000


def _milliseconds(span: ReadableSpan) -> float:
    assert span.start_time is not None
    assert span.end_time is not None
    return (span.end_time - span.start_time) / 1e6


def _overlap(spans: dict[str, ReadableSpan]) -> float:
    """The share of the assembly during which facts and episodes, which take longest, are both being retrieved."""
    both = [spans[name] for name in ("retrieve_facts", "retrieve_episodes")]
    begun = max(span.start_time or 0 for span in both)
    ended = min(span.end_time or 0 for span in both)
    return max(ended - begun, 0) / 1e6 / _milliseconds(spans["recall"])


def _p(values: Sequence[float], percent: int) -> float:
    return statistics.quantiles(values, n=100)[percent - 1]


if __name__ == "__main__":
    asyncio.run(main())
