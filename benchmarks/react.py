"""What memory costs an agent: how long its context takes to assemble, and how much of the window it fills.

    python -m benchmarks.react [--facts 5000] [--episodes 5000] [--questions 200]

A user has facts, episodes and a conversation of 30 invocations. Each question is answered by the stateless service and
by those with memory, with a model that answers at once, in turn in one run; the difference is what memory costs before
the answer. Each retrieval is also timed by itself, one after the other: assembly asks all three at once and should
take little more than the slowest. Spans show how far they overlap. On a machine of two cores the database takes what
both need, so they are timed once more with the database's answers recorded: as if it had cores of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.react import (
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
from benchmarks.replay import Call, NotRecordedError, record, replay, replayable

_SEED = 20
_USER = "bench"
_CONVERSATION = "bench-conversation"
_WINDOW = 128_000
_THINGS = ("boat", "oven", "bicycle", "garden", "piano", "camera", "roof", "engine", "tent", "lamp", "kettle", "desk")
_PLACES = ("Graz", "Bergen", "Porto", "Lucca", "Ghent", "Turku", "Bath", "Cork", "Bern", "Delft", "Olomouc", "Split")
_ACTS = ("repair", "paint", "sell", "photograph", "clean", "move", "insure", "measure", "lend", "replace")
_RETRIEVALS = ("facts alone", "episodes alone", "conversation alone")
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
    times, replayed = figures["times"], figures["replayed"]
    for name in ("reads", "reads and writes"):
        added = [with_memory - plain for plain, with_memory in zip(times["stateless"], times[name], strict=True)]
        print(f"memory that {name} adds {_p(added, 50):.1f} ms (p50), {_p(added, 95):.1f} ms (p95) before the answer")
    print(f"assembly takes {_to_slowest(times):.2f} times the slowest retrieval alone (p50)")
    medians = ", ".join(f"{name} {_p(values, 50):.1f} ms" for name, values in replayed.items())
    print(f"with a database on cores of its own, {_to_slowest(replayed):.2f} times: {medians}")
    print(f"the retrievals overlap during {figures['overlap']:.0%} of the assembly (median of spans)")
    tokens = figures["tokens"]
    print(f"recalled: {statistics.median(tokens):.0f} tokens, {statistics.median(tokens) / _WINDOW:.1%} of {_WINDOW:,}")
    usage = figures["usage"]
    print(
        f"the collection holds {usage['facts']:,} facts, {usage['episodes']:,} episodes, {usage['chunks']:,} passages"
    )
    if options.json:
        options.json.write_text(json.dumps(figures), encoding="utf-8")


async def _fill(memory: AgentMem, chance: random.Random, facts: int, episodes: int) -> None:
    services = MemoryServices.of(memory)
    gate = asyncio.Semaphore(8)

    async def store_fact(number: int) -> None:
        async with gate:
            content = f"The {chance.choice(_THINGS)} number {number} stands in {chance.choice(_PLACES)}."
            done = await services.fact_storage.store_fact(StoreFactRequest(user=_USER, content=content))
            assert done.error is None, done.error

    async def store_episode(number: int) -> None:
        async with gate:
            thing, place = chance.choice(_THINGS), chance.choice(_PLACES)
            done = await services.episode_storage.store_episode(
                StoreEpisodeRequest(
                    user=_USER,
                    goal=f"{chance.choice(_ACTS).capitalize()} the {thing} number {number} in {place}.",
                    outcome=f"The {thing} is done.",
                    lessons=(f"Near {place}, {chance.choice(_LESSONS)}.",),
                    success=chance.random() < 0.7,
                    id=f"episode-{number}",
                )
            )
            assert done.error is None, done.error

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
        name: [] for name in ("stateless", "reads", "reads and writes", "assembly", *_RETRIEVALS)
    }
    replayed: dict[str, list[float]] = {name: [] for name in ("assembly", *_RETRIEVALS)}
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
                "stateless": await _time(partial(stateless.answer, plain)),
                "reads": await _time(partial(agent.answer, request)),
            }
            spans = {span.name.rpartition(".")[2]: span for span in exporter.get_finished_spans()}
            took["reads and writes"] = await _time(partial(writer.answer, request))
            await writer.drain()
            # What was recorded is consolidated before the next figure is taken.
            await memory.admin.wait_until_idle(default_scope(_USER, "default"))
            took["assembly"] = _milliseconds(spans["recall"])
            # A question of its own, which no cache knows, as alike as can be.
            other = question.replace(" it in ", " it after ")
            calls = _retrievals(services, other, state)
            for name, call in calls.items():
                took[name] = await _time(call)
            if number < 0:
                continue
            for name, value in took.items():
                times[name].append(value)
            overlaps.append(_overlap(spans))
            with replayable(), suppress(NotRecordedError):
                again = _retrievals(services, question.replace(" it in ", " it before "), state)
                for name, value in (await _replay(again)).items():
                    replayed[name].append(value)
            response = await agent.answer(request)
            assert response.usage is not None
            tokens.append(response.usage.recalled_tokens)
        held = await agent.lifecycle.usage(_USER)
    usage = {"facts": held.facts, "episodes": held.episodes, "chunks": held.memory.live_chunks}
    return {
        "times": times,
        "replayed": replayed,
        "tokens": tokens,
        "overlap": statistics.median(overlaps),
        "usage": usage,
    }


def _answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    del messages, info
    return ModelResponse(parts=[TextPart("I will look.")])


def _retrievals(services: MemoryServices, question: str, state: str) -> dict[str, Call]:
    """What an assembly reads, each by itself."""
    facts = RetrieveFactsRequest(user=_USER, query=question)
    episodes = RetrieveEpisodesRequest(user=_USER, query=question, state=state)
    conversation = GetConversationMemoryRequest(user=_USER, conversation_id=_CONVERSATION, limit=20)
    return {
        "facts alone": partial(services.fact_retrieval.retrieve_facts, facts),
        "episodes alone": partial(services.episode_retrieval.retrieve_episodes, episodes),
        "conversation alone": partial(services.conversations.get_conversation, conversation),
    }


async def _replay(calls: dict[str, Call]) -> dict[str, float]:
    """How many milliseconds each call takes, and all of them at once, with answers that were recorded."""
    recorded = {name: (call, await record(call)) for name, call in calls.items()}
    took = {name: await replay(one) * 1_000 for name, one in recorded.items()}
    took["assembly"] = await replay(*recorded.values()) * 1_000
    return took


async def _time(call: Call) -> float:
    started = time.perf_counter()
    await call()
    return (time.perf_counter() - started) * 1_000


def _to_slowest(times: dict[str, list[float]]) -> float:
    """How many times as long as the slowest retrieval alone an assembly takes, by their medians."""
    return _p(times["assembly"], 50) / max(_p(times[name], 50) for name in _RETRIEVALS)


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
