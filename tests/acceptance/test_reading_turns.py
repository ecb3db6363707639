"""Nobody pays twice for the same passages: who comes second to a consolidation waits for the first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agent_reminiscence.exceptions import StoreUnavailableError
from tests.support.memorizing import MakeConfig, memorizing, reads
from tests.support.scripted import ScriptedModel

_TEXT = "The launch of the blue ferry is on Friday."


class _Slow:
    """A model that answers when it is let."""

    def __init__(self) -> None:
        self.asked = 0
        self.is_asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.model = FunctionModel(self._answer, model_name="slow")

    async def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.asked += 1
        self.is_asked.set()
        await self.may_answer.wait()
        return reads()(messages, info)


async def test_two_that_begin_together_ask_once(config: MakeConfig) -> None:
    """The second waits, finds the memory consolidated, and says so; in one process or in two."""
    slow = _Slow()
    async with memorizing(config, slow.model) as memory, memorizing(config, slow.model) as other:
        note = await memory.create_active_memory("agent-1", "Ferry", _TEXT)
        first = asyncio.create_task(memory.admin.consolidate("agent-1", note.id))
        await slow.is_asked.wait()
        others = [asyncio.create_task(one.admin.consolidate("agent-1", note.id)) for one in (other, memory)]
        # They have to find that somebody reads already.
        await asyncio.sleep(0.3)
        slow.may_answer.set()

        reports = [report for task in (first, *others) for report in await task]

        assert slow.asked == 1
        assert [report.consolidated for report in reports] == [True, False, False]
        assert sum(usage.requests for usage in (await memory.admin.usage("agent-1")).models) == 1
        assert (await memory.admin.verify("agent-1")).ok


async def test_work_that_is_under_way_is_not_asked_for_again(config: MakeConfig) -> None:
    """A job reads the memory while somebody consolidates it by hand."""
    slow = _Slow()
    async with memorizing(config, slow.model, active_memory_update_threshold=1) as memory:
        note = await memory.create_active_memory("agent-1", "Ferry", "To be told.")
        await memory.update_active_memory("agent-1", note.id, content=_TEXT)
        job = asyncio.create_task(memory.admin.run_due("agent-1"))
        await slow.is_asked.wait()
        by_hand = asyncio.create_task(memory.admin.consolidate("agent-1", note.id))
        slow.may_answer.set()

        assert (await job).consolidated == (note.id,)
        assert [report.consolidated for report in await by_hand] in ([False], [])
        assert slow.asked == 1


async def test_work_that_is_queued_asks_for_nothing_that_was_done_by_hand(config: MakeConfig) -> None:
    """The job finds the memory consolidated."""
    model = ScriptedModel(reads())
    async with memorizing(config, model, active_memory_update_threshold=1) as memory:
        note = await memory.create_active_memory("agent-1", "Ferry", "To be told.")
        await memory.update_active_memory("agent-1", note.id, content=_TEXT)
        assert [job.state for job in await memory.admin.jobs("agent-1")] == ["waiting"]

        (report,) = await memory.admin.consolidate("agent-1", note.id)
        done = await memory.admin.run_due("agent-1")

        assert (report.consolidated, done.consolidated, done.error, len(model.asked)) == (True, (), None, 1)


async def test_tenants_do_not_wait_for_each_other(config: MakeConfig) -> None:
    """Nor do writes and recall of the tenant whose memory is read."""
    slow = _Slow()
    async with memorizing(config, slow.model) as memory:
        note = await memory.create_active_memory("agent-1", "Ferry", _TEXT)
        await memory.create_active_memory("agent-2", "Ferry", _TEXT)
        reading = asyncio.create_task(memory.admin.consolidate("agent-1", note.id))
        await slow.is_asked.wait()

        slow.is_asked.clear()
        await memory.update_active_memory("agent-1", note.id, title="The blue ferry")
        assert (await memory.retrieve_memories("agent-1", "ferry")).hits
        other = asyncio.create_task(memory.admin.consolidate("agent-2"))
        await slow.is_asked.wait()

        slow.may_answer.set()
        assert (await other)[0].consolidated
        await reading


async def test_a_dead_reader_keeps_nobody_waiting_for_long(config: MakeConfig) -> None:
    """Its claim ends by itself; until then the others wait."""
    model = ScriptedModel(reads())
    async with memorizing(config, model) as memory:
        note = await memory.create_active_memory("agent-1", "Ferry", _TEXT)
        store = memory._ready().stores.postgres
        async with store.transaction("agent-1") as db:
            await db.execute(
                "UPDATE memory_stream SET reader = gen_random_uuid(), reader_until = clock_timestamp() + interval '2 s'"
            )

        (report,) = await memory.admin.consolidate("agent-1", note.id)

        async with store.transaction("agent-1") as db:
            [row] = await db.fetch_all("SELECT reader FROM memory_stream")
        assert (report.consolidated, row["reader"]) == (True, None)


@pytest.mark.parametrize("error", [RuntimeError("lost"), asyncio.CancelledError(), StoreUnavailableError("away")])
async def test_a_reading_that_fails_lets_others_read(config: MakeConfig, error: BaseException) -> None:
    """However it ended."""

    async def lose(messages: Sequence[ModelMessage], info: AgentInfo) -> ModelResponse:
        raise error

    async with memorizing(config, FunctionModel(lose)) as memory:
        note = await memory.create_active_memory("agent-1", "Ferry", _TEXT)
        await asyncio.gather(memory.admin.consolidate("agent-1", note.id), return_exceptions=True)

        async with memory._ready().stores.postgres.transaction("agent-1") as db:
            [row] = await db.fetch_all("SELECT reader, reader_until FROM memory_stream")
        assert (row["reader"], row["reader_until"]) == (None, None)
