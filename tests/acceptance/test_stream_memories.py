"""Hits as they are ranked and read: those of a search, and then everything else that has to do with the question."""

from __future__ import annotations

import asyncio
import gc
import math
import random
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from opentelemetry import trace

from agent_reminiscence import AgentMem, Config, Filter, SearchHit
from agent_reminiscence.exceptions import InvalidInputError, ReminiscenceError
from agent_reminiscence.services.recall import streaming
from agent_reminiscence.sync import AgentMem as SyncAgentMem
from tests.support.openings import openings_of
from tests.support.telemetry import Recording

_DAY = datetime(2026, 3, 1, 12, tzinfo=UTC)
_QUESTION = "Which lantern was lit in the harbour?"
_COLOURS = ("red", "green", "amber", "white")


def _log(first: int, count: int) -> str:
    """Lines of a log, each a chunk, and each with some of the question's words."""
    numbers = random.Random(first)
    return "\n\n".join(
        f"Keeper {number}: {' '.join(numbers.choices(('lantern', 'lit', 'harbour', 'tide', 'rope'), k=5))}"
        f" {numbers.choice(_COLOURS)} berth {number}, and nothing else was written down in the log that evening."
        for number in range(first, first + count)
    )


async def _remember(memory: AgentMem, tenant: str, *, texts: int = 3, lines: int = 160) -> list[str]:
    """Some logs of different ages; returns the ids of the memories."""
    made = []
    for number in range(texts):
        one = await memory.create_active_memory(
            tenant, f"Log {number}", _log(number * lines, lines), occurred_at=_DAY + timedelta(days=number * 90)
        )
        made.append(str(one.id))
    return made


async def _all(hits: AsyncGenerator[SearchHit]) -> list[SearchHit]:
    return [hit async for hit in hits]


def _ageless(hits: Sequence[SearchHit]) -> list[dict[str, Any]]:
    """Hits without what moves with the clock: the last digits of their scores."""
    return [
        hit.model_dump(exclude={"score", "score_parts"}) | {"score": pytest.approx(hit.score, abs=1e-6)} for hit in hits
    ]


async def test_it_begins_like_a_search_and_goes_on(memory: AgentMem, tenant: str) -> None:
    """The first 200 hits are those of the largest search; then come all others, each text once, by their scores."""
    await _remember(memory, tenant)
    result = await memory.retrieve_memories(tenant, _QUESTION, limit=200)
    streamed = await _all(memory.stream_memories(tenant, _QUESTION))

    assert _ageless(streamed[:200]) == _ageless(result.hits)
    assert len(streamed) > 400
    assert len({hit.chunk_id for hit in streamed}) == len({hit.content for hit in streamed}) == len(streamed)
    scores = [hit.score for hit in streamed[200:]]
    assert scores == sorted(scores, reverse=True)
    assert all(hit.score == pytest.approx(sum(hit.score_parts.values()), abs=1e-4) for hit in streamed)


@pytest.mark.thorough
@pytest.mark.parametrize("where", [None, Filter(metadata={"kept": True})])
async def test_the_bundled_embedder_and_large_tenants_begin_like_a_search(
    bundled_memory: AgentMem, monkeypatch: pytest.MonkeyPatch, where: Filter | None
) -> None:
    """Where statements are compared by their vectors, and where only likely passages are ranked."""
    for number in range(3):
        metadata = {"kept": number > 0}
        await bundled_memory.create_active_memory(
            "agent-1", f"Log {number}", _log(number * 160, 160), occurred_at=_DAY, metadata=metadata
        )
    for lantern in ("red", "green"):
        await bundled_memory.create_active_memory(
            "agent-1", "Note", f"The lantern lit in the harbour is {lantern}.", metadata={"kept": True}
        )
    for _ in range(2):
        result = await bundled_memory.retrieve_memories("agent-1", _QUESTION, limit=200, where=where)
        streamed = await _all(bundled_memory.stream_memories("agent-1", _QUESTION, where=where))
        assert _ageless(streamed[:200]) == _ageless(result.hits)
        assert result.hits[1].later == result.hits[0].chunk_id
        assert len(streamed) > 220
        assert len({hit.content for hit in streamed}) == len(streamed)
        monkeypatch.setattr(openings_of(bundled_memory), "_whole_max_chunks", 0)


@pytest.mark.parametrize(
    "arguments",
    [
        {"min_match": 0.3},
        {"min_match": "found"},
        {"tiers": ["active"]},
        {"where": Filter(occurred_after=_DAY + timedelta(days=60))},
        {"as_of": _DAY + timedelta(days=120)},
    ],
    ids=str,
)
async def test_arguments_mean_what_they_mean_in_a_search(
    memory: AgentMem, tenant: str, arguments: dict[str, Any]
) -> None:
    """Whatever narrows a search narrows all of the stream, and leaves its beginning that of the search."""
    await _remember(memory, tenant)
    result = await memory.retrieve_memories(tenant, _QUESTION, limit=200, **arguments)
    streamed = await _all(memory.stream_memories(tenant, _QUESTION, **arguments))

    assert _ageless(streamed[:200]) == _ageless(result.hits)
    assert len(streamed) > 220
    later = [hit for hit in streamed if hit.title == "Log 2"]
    assert bool(later) == ("as_of" not in arguments)
    if "where" in arguments:
        assert {hit.title for hit in streamed} == {"Log 1", "Log 2"}
    if arguments.get("min_match") == 0.3:
        assert min(hit.match for hit in streamed) >= 0.3


async def test_a_limit_ends_it_wherever_it_lies(memory: AgentMem, tenant: str) -> None:
    """Below 200, at it, and beyond; and a stream of what nobody has said is empty."""
    await _remember(memory, tenant, texts=2)
    everything = await _all(memory.stream_memories(tenant, _QUESTION))
    for limit in (1, 200, 201, 305):
        some = await _all(memory.stream_memories(tenant, _QUESTION, limit=limit))
        assert [hit.chunk_id for hit in some] == [hit.chunk_id for hit in everything[:limit]]
        assert len(some) == min(limit, len(everything))
    assert await _all(memory.stream_memories(f"{tenant}-nobody", _QUESTION)) == []


@pytest.mark.parametrize(
    ("arguments", "named"),
    [({"limit": 0}, "limit"), ({"limit": True}, "limit"), ({"query": " "}, "query"), ({"min_match": 2}, "min_match")],
)
def test_a_wrong_argument_is_refused_at_once(memory: AgentMem, arguments: dict[str, Any], named: str) -> None:
    """By the call itself, not when the first hit is asked for."""
    with pytest.raises(InvalidInputError, match=named):
        memory.stream_memories("agent-1", **{"query": _QUESTION} | arguments)


async def test_outcomes_of_runs_count_in_all_of_it(memory: AgentMem, tenant: str) -> None:
    """What helped in a run moves up, after the first 200 hits, too; its parts still add up."""
    await _remember(memory, tenant, texts=2)
    before = await _all(memory.stream_memories(tenant, _QUESTION))
    low = before[290]
    for run in ("one", "two"):
        await memory.retrieve_memories(tenant, low.content, limit=1, run_id=run)
        await memory.admin.report_outcome(tenant, run, success=True)
    after = await _all(memory.stream_memories(tenant, _QUESTION))

    assert {hit.chunk_id for hit in after} == {hit.chunk_id for hit in before}
    moved = next(place for place, hit in enumerate(after) if hit.chunk_id == low.chunk_id)
    assert 200 <= moved < 290
    assert after[moved].successes == 2
    assert after[moved].score_parts["outcome"] > 0
    assert after[moved].score == pytest.approx(sum(after[moved].score_parts.values()), abs=1e-4)


async def test_one_text_is_one_hit_however_far_its_copies_lie_apart(memory: AgentMem, tenant: str) -> None:
    """A text that was stored again, under another title and much later, is no second hit, on whatever page it lies."""
    for number in range(2):
        await memory.create_active_memory(tenant, f"Log {number}", _log(0, 240), occurred_at=_DAY)
    await memory.create_active_memory(tenant, "Lantern harbour", _log(0, 240), occurred_at=_DAY + timedelta(days=500))
    streamed = await _all(memory.stream_memories(tenant, _QUESTION))

    assert len(streamed) == len({hit.content for hit in streamed}) == 240


async def test_what_stands_for_a_text_that_a_filter_leaves_out_is_streamed(memory: AgentMem, tenant: str) -> None:
    """A consolidation has ended the repetitions; where the filter admits only these, they are hits on every page."""
    for number in range(2):
        made = await memory.create_active_memory(tenant, f"Log {number}", _log(0, 240), occurred_at=_DAY)
        await memory.admin.run_due(tenant)
    where = Filter(memory_ids=[made.id])
    result = await memory.retrieve_memories(tenant, _QUESTION, limit=200, where=where)
    streamed = await _all(memory.stream_memories(tenant, _QUESTION, where=where))

    assert _ageless(streamed[:200]) == _ageless(result.hits)
    assert len(streamed) == 240
    assert {hit.memory_id for hit in streamed} == {made.id}
    assert {hit.end_date for hit in streamed} == {None}


@pytest.mark.parametrize("taken", [1, 230])
async def test_what_is_erased_changed_or_ended_meanwhile_does_not_come(
    memory: AgentMem, tenant: str, taken: int
) -> None:
    """Not even what had been read before; everything else comes, once. What is written meanwhile does not."""
    erased, changed, ended, kept = await _remember(memory, tenant, texts=4, lines=110)
    async with aclosing(memory.stream_memories(tenant, _QUESTION)) as hits:
        first = [await anext(hits) for _ in range(taken)]
        await memory.admin.erase(tenant, memory_id=erased)
        await memory.update_active_memory(tenant, changed, content="The lantern of the harbour was lit by nobody.")
        await memory.admin.archive(tenant, ended, end_chunks=True)
        await memory.create_active_memory(tenant, "New", "A new lantern was lit in the harbour.")
        rest = [hit async for hit in hits]

    assert {str(hit.memory_id) for hit in rest} == {kept}
    lines = [hit.content for hit in [*first, *rest] if str(hit.memory_id) == kept]
    assert len(lines) == len(set(lines)) == 110


async def test_an_erased_text_does_not_come_in_a_question_about_the_past_either(memory: AgentMem, tenant: str) -> None:
    """What has ended since is still true of then, and comes; what was erased is gone from then as well."""
    erased, ended, _ = await _remember(memory, tenant)
    async with aclosing(memory.stream_memories(tenant, _QUESTION, as_of=_DAY + timedelta(days=200))) as hits:
        await anext(hits)
        await memory.admin.erase(tenant, memory_id=erased)
        await memory.admin.archive(tenant, ended, end_chunks=True)
        rest = [hit async for hit in hits]

    assert erased not in {str(hit.memory_id) for hit in rest}
    assert len(rest) > 300
    assert sum(str(hit.memory_id) == ended for hit in rest) >= 159


async def test_another_tenant_gets_nothing_of_it(memory: AgentMem, tenant: str) -> None:
    """Two with the same texts, streamed side by side: each gets its own."""
    other = f"{tenant}-2"
    mine, theirs = await _remember(memory, tenant, texts=2), await _remember(memory, other, texts=2)
    async with (
        aclosing(memory.stream_memories(tenant, _QUESTION)) as one,
        aclosing(memory.stream_memories(other, _QUESTION)) as another,
    ):
        found = [(await anext(one), await anext(another)) for _ in range(300)]

    assert {str(hit.memory_id) for hit, _ in found} == set(mine)
    assert {str(hit.memory_id) for _, hit in found} == set(theirs)


async def test_a_stream_that_is_left_holds_nothing(config: Callable[..., Config]) -> None:
    """With one connection in the pool: streams that wait, are left, cancelled or forgotten keep nobody from it."""
    async with AgentMem(config(postgres_pool_size=1, pool_timeout_seconds=5, worker=False)) as memory:
        await _remember(memory, "agent-1", texts=2)
        waiting = [memory.stream_memories("agent-1", _QUESTION) for _ in range(3)]
        for hits in waiting:
            await anext(hits)
        async for _ in memory.stream_memories("agent-1", _QUESTION):
            break
        async for place, _ in _numbered(memory.stream_memories("agent-1", _QUESTION)):
            if place == 250:
                break
        reading = asyncio.create_task(_all(memory.stream_memories("agent-1", _QUESTION)))
        await asyncio.sleep(0.01)
        reading.cancel()
        await asyncio.wait({reading})

        assert (await memory.retrieve_memories("agent-1", _QUESTION)).hits
        assert len(await _all(waiting[0])) > 290
        del waiting, hits
        gc.collect()
        assert (await memory.retrieve_memories("agent-1", _QUESTION)).hits


async def _numbered(hits: AsyncGenerator[SearchHit]) -> AsyncGenerator[tuple[int, SearchHit]]:
    place = 0
    async for hit in hits:
        place += 1
        yield place, hit


async def test_a_memory_that_is_closed_ends_it_with_an_error(config: Callable[..., Config]) -> None:
    """What was read before may still come; no page is read from a store that is closed."""
    async with AgentMem(config(worker=False)) as memory:
        await _remember(memory, "agent-1", texts=2)
        hits = memory.stream_memories("agent-1", _QUESTION)
        await anext(hits)
    with pytest.raises(ReminiscenceError, match="closed"):
        await _all(hits)


async def test_each_page_takes_one_statement(config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights of everything that is ranked come in the round trip of the first rows; then a page is one of 100."""
    monkeypatch.setattr(streaming, "FRESH_SECONDS", math.inf)
    recording = Recording()
    providers: Any = {"tracer_provider": recording.tracer_provider, "meter_provider": recording.meter_provider}
    async with AgentMem(config(postgres_pool_size=1, worker=False), **providers) as memory:
        await _remember(memory, "agent-1")
        for _ in range(3):
            found = await _all(memory.stream_memories("agent-1", _QUESTION))
    reads = recording.spans("agent_reminiscence.stream_memories")
    pages = -(-(len(found) - 200) // streaming.PAGE_HITS)
    first, *further = reads[-1 - pages :]
    assert [span.name for span in recording.children(first)] == ["open_stream", "find_dots_and_norms", "read_hits"]
    assert [[span.name for span in recording.children(read)] for read in further] == [["read_hits_still_shown"]] * pages
    recording.close()


@pytest.mark.parametrize("taken", [1, 230])
async def test_what_this_process_has_just_ended_does_not_come_however_fast_it_was(
    memory: AgentMem, tenant: str, monkeypatch: pytest.MonkeyPatch, taken: int
) -> None:
    """Whether time has passed or not."""
    monkeypatch.setattr(streaming, "FRESH_SECONDS", math.inf)
    ended, kept = await _remember(memory, tenant, texts=2)
    async with aclosing(memory.stream_memories(tenant, _QUESTION)) as hits:
        for _ in range(taken):
            await anext(hits)
        await memory.admin.archive(tenant, ended, end_chunks=True)
        rest = [hit async for hit in hits]

    assert {str(hit.memory_id) for hit in rest} == {kept}


async def test_a_slow_reader_has_each_hit_looked_up_again(
    config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One statement without texts before a hit that was read a while ago."""
    monkeypatch.setattr(streaming, "FRESH_SECONDS", -1.0)
    recording = Recording()
    providers: Any = {"tracer_provider": recording.tracer_provider, "meter_provider": recording.meter_provider}
    async with AgentMem(config(worker=False), **providers) as memory:
        await _remember(memory, "agent-1", texts=1, lines=20)
        with trace.use_span(recording.tracer_provider.get_tracer("test").start_span("reader"), end_on_exit=True):
            found = await _all(memory.stream_memories("agent-1", _QUESTION))
    assert len(recording.spans("find_still_shown")) == len(found) == 20
    recording.close()


def test_without_await_it_is_a_plain_iterator(config: Callable[..., Config]) -> None:
    """The same hits in the same order, and it may be left."""
    with SyncAgentMem(config(worker=False)) as memory:
        for number in range(2):
            memory.create_active_memory("agent-1", f"Log {number}", _log(number * 150, 150), occurred_at=_DAY)
        found = [hit.chunk_id for hit in memory.stream_memories("agent-1", _QUESTION)]
        with closing(memory.stream_memories("agent-1", _QUESTION)) as hits:
            some = [hit.chunk_id for hit, _ in zip(hits, range(220), strict=False)]

    assert len(found) == 300
    assert some == found[:220]
