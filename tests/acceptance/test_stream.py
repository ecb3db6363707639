"""Answers as they are written: what comes before the last is unchecked and says so, the last is as without a stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

from agent_reminiscence import AgentMem, AgentModels, Config, RetrievalResult
from agent_reminiscence.exceptions import AgentError, ConfigurationError, InvalidInputError
from tests.support.scripted import ScriptedModel, answer, call, fail, say
from tests.support.steps import head_of

MakeConfig = Callable[..., Config]

_BOAT = "Maria owns the red boat in the harbour of Porto."
_QUESTION = "who owns the red boat?"
_KNOWN = answer({"answer": "Maria owns the red boat [1].", "is_known": True})


@asynccontextmanager
async def _memory(config: MakeConfig, model: Any) -> AsyncIterator[AgentMem]:
    made = model.model if isinstance(model, ScriptedModel) else model
    async with AgentMem(config(), models=AgentModels(memory_retrieve=made)) as memory:
        await memory.create_active_memory("agent-1", "Boats", _BOAT)
        yield memory
        assert (await memory.admin.verify()).ok


async def test_an_answer_comes_as_it_is_written(config: MakeConfig) -> None:
    """First the hits; each part continues the one before; the last is checked, cites, and is that of a plain call."""
    model = ScriptedModel(call("search_memory", query="boat"), _KNOWN)
    async with _memory(config, model) as memory:
        results = [result async for result in memory.admin.stream_answer("agent-1", _QUESTION)]
        plain = await memory.retrieve_memories("agent-1", _QUESTION, synthesis=True)

        answers = [result.synthesis for result in results if result.synthesis is not None]
        assert results[0].synthesis is None
        assert len(answers) == len(results) - 1 > 1
        assert all(one != other for one, other in pairwise(results))
        texts = [one.answer for one in answers]
        assert all(text.startswith(before) for before, text in pairwise(texts))
        assert {one.is_checked for one in answers[:-1]} == {False}
        assert not any(one.citations for one in answers[:-1])
        assert answers[-1] == plain.synthesis
        assert {tuple(hit.chunk_id for hit in result.hits) for result in results} == {
            tuple(hit.chunk_id for hit in plain.hits)
        }
        assert results[-1].usage.model_requests == 2
        kinds = [event.kind for event in await memory.ledger.read("agent-1")]
        assert kinds == ["memory.created", "memory.model_asked", "memory.model_asked"]


@pytest.mark.parametrize("is_known", [True, False])
async def test_the_hits_come_first_and_nothing_twice(config: MakeConfig, is_known: bool) -> None:
    """A reader who reads each result before more is written sees what was written, as far as it says anything new."""
    cited = " [1]" if is_known else ""
    # Each piece of an answer, and whether there is a result after it.
    pieces = [
        ('{"answer": "', False),
        ("Maria", True),
        (f" owns it{cited}.", True),
        ('", "is_kno', False),
        ('wn": ', False),
        (str(is_known).lower(), False),
        ("   ", True),
        ("  }  ", False),
    ]
    has_read = asyncio.Queue[None]()
    is_asked = False

    async def write(messages: Any, info: AgentInfo) -> AsyncIterator[DeltaToolCalls]:
        nonlocal is_asked
        is_asked = True
        await has_read.get()
        yield {0: DeltaToolCall(info.output_tools[0].name, "", tool_call_id="1")}
        for piece, is_new in pieces:
            yield {0: DeltaToolCall(json_args=piece)}
            if is_new:
                await has_read.get()

    async with _memory(config, FunctionModel(stream_function=write, model_name="scripted")) as memory:
        results = []
        async with asyncio.timeout(60), aclosing(memory.admin.stream_answer("agent-1", _QUESTION)) as stream:
            async for result in stream:
                results.append(result)
                has_read.put_nowait(None)

        first, *others = results
        assert is_asked
        assert (first.synthesis, first.omitted) == (None, ())
        assert [hit.content for hit in first.hits] == [_BOAT]
        assert all(result.hits == first.hits for result in others)
        seen = [(one.synthesis.answer, one.synthesis.is_known, one.synthesis.is_checked) for one in others]  # type: ignore[union-attr]
        whole = f"Maria owns it{cited}."
        assert seen == [
            ("Maria", None, False),
            (whole, None, False),
            (whole, is_known, False),
            (whole, is_known, True),
        ]


async def test_where_nothing_is_remembered_the_stream_ends_without_a_model(config: MakeConfig) -> None:
    """There are no hits to show, and nothing to ask about."""
    model = ScriptedModel(_KNOWN)
    async with _memory(config, model) as memory:
        results = [result async for result in memory.admin.stream_answer("nobody", _QUESTION)]

        first, last = results
        assert (first.hits, first.synthesis) == ((), None)
        assert last.synthesis is not None
        assert (last.synthesis.is_known, last.synthesis.is_checked) == (False, True)
        assert model.asked == []


async def test_a_stream_has_the_limits_of_a_call_without_one(config: MakeConfig) -> None:
    """The settings say how many hits there are and how long they may be, unless the call does."""
    model = ScriptedModel(_KNOWN)
    async with AgentMem(config(retrieval_limit=2), models=AgentModels(memory_retrieve=model.model)) as memory:
        for number in range(4):
            await memory.create_active_memory("agent-1", f"Boats {number}", f"{_BOAT} It has {number} masts.")

        async def last(**arguments: Any) -> RetrievalResult:
            return [result async for result in memory.admin.stream_answer("agent-1", _QUESTION, **arguments)][-1]

        assert len((await last()).hits) == 2
        assert len((await last(limit=3)).hits) == 3
        short = await last(limit=4, token_budget=70)
        assert len(short.hits) == 1
        assert [(left.reason, left.count) for left in short.omitted] == [("token_budget", 3)]


async def test_an_answer_that_is_sent_back_is_never_the_last(config: MakeConfig) -> None:
    """Who shows parts sees a wrong one replaced."""
    model = ScriptedModel(answer({"answer": "Tom, of course [9].", "is_known": True}), _KNOWN)
    async with _memory(config, model) as memory:
        results = [result async for result in memory.admin.stream_answer("agent-1", _QUESTION)]

        assert any(one.synthesis and one.synthesis.answer.startswith("Tom") for one in results[:-1])
        assert results[-1].synthesis is not None
        assert (results[-1].synthesis.answer, results[-1].synthesis.is_checked) == (
            "Maria owns the red boat [1].",
            True,
        )


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (ScriptedModel(say("Maria.")), "synthesis_invalid"),
        (ScriptedModel(fail(ModelHTTPError(503, "scripted"))), "synthesis_unavailable"),
    ],
    ids=["prose", "away"],
)
async def test_a_model_that_fails_ends_with_recall(config: MakeConfig, model: ScriptedModel, reason: str) -> None:
    """The last result has the hits and the reason; with `strict` the iteration ends with the error."""
    async with _memory(config, model) as memory:
        results = [result async for result in memory.admin.stream_answer("agent-1", _QUESTION)]

        assert results[0].omitted == ()
        assert results[0].hits == results[-1].hits
        assert results[-1].synthesis is None
        assert results[-1].omitted[-1].reason == reason
        assert [result.synthesis for result in results] == [None, None]
        assert results[-1].hits[0].content == _BOAT
        with pytest.raises(AgentError):
            _ = [result async for result in memory.admin.stream_answer("agent-1", _QUESTION, strict=True)]


@pytest.mark.parametrize("reads_an_answer", [False, True])
async def test_who_stops_reading_ends_the_model(config: MakeConfig, reads_an_answer: bool) -> None:
    """Nothing is left running, and the memory works as before."""
    async with _memory(config, ScriptedModel(_KNOWN)) as memory:
        tasks = asyncio.all_tasks()
        async with aclosing(memory.admin.stream_answer("agent-1", _QUESTION)) as results:
            async for result in results:
                if not reads_an_answer or result.synthesis is not None:
                    break

        assert asyncio.all_tasks() - tasks == set()
        assert await head_of(memory, "agent-1") <= 2
        assert (await memory.admin.verify("agent-1")).ok


async def test_who_is_cancelled_ends_the_model(config: MakeConfig) -> None:
    """Also one that has said nothing yet."""
    thinking = asyncio.Event()

    async def never(messages: Any, info: Any) -> AsyncIterator[str]:
        thinking.set()
        await asyncio.sleep(3600)
        yield ""

    async with _memory(config, FunctionModel(stream_function=never, model_name="silent")) as memory:
        tasks = asyncio.all_tasks()

        async def read() -> list[Any]:
            return [result async for result in memory.admin.stream_answer("agent-1", _QUESTION)]

        reading = asyncio.create_task(read())
        await thinking.wait()
        reading.cancel()
        await asyncio.wait({reading})

        assert reading.cancelled()
        assert asyncio.all_tasks() - tasks == set()


async def test_what_cannot_be_asked_is_refused(config: MakeConfig) -> None:
    """An argument at the call, a missing model at the first result."""
    async with AgentMem(config()) as memory:
        with pytest.raises(InvalidInputError, match="limit"):
            memory.admin.stream_answer("agent-1", _QUESTION, limit=0)
        with pytest.raises(ConfigurationError, match="memory_retrieve_agent_model"):
            await anext(memory.admin.stream_answer("agent-1", _QUESTION))
