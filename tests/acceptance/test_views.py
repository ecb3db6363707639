"""Views over a real ledger: the same after the process has ended, with a real index, and for whom they are."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.views import (
    AgentManifest,
    BeliefGraph,
    ContextBuilder,
    EpisodicMemory,
    MemoryIndex,
    MemoryManifest,
    ReflectionMemory,
    SalienceMemory,
)
from tests.conftest import TestServer, dsn
from tests.support.ledger_events import seen_by
from tests.support.processes import PATIENCE_SECONDS
from tests.support.steps import all_events
from tests.support.village import CAST, RUN, SCENE, hashed, live_for, manifest, recalled, views

MakeConfig = Callable[..., Config]

_ROOT = Path(__file__).parents[2]


@pytest.mark.thorough
async def test_every_view_is_the_same_after_a_restart(config: MakeConfig) -> None:
    """They hold nothing that the ledger does not; also what is recalled with an index."""
    async with AgentMem(config()) as memory:
        events = await live_for(memory)
        before = views(events), await recalled(memory, events)
        assert len(BeliefGraph(events).current()) > len(CAST)

    async with AgentMem(config()) as memory:
        events = await all_events(memory, RUN)
        assert (views(events), await recalled(memory, events)) == before


@pytest.mark.thorough
async def test_every_view_is_the_same_after_a_process_was_killed(
    memory: AgentMem, test_server: TestServer, database: str
) -> None:
    """SIGKILL in the middle of a turn: what it had seen is seen again, to the byte."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.support.village",
        dsn(test_server.login(database)),
        cwd=_ROOT,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    lines: list[bytes] = []
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(lines) < 50:
                lines.append(await process.stdout.readline())
    finally:
        process.kill()
    lines += (await process.stdout.read()).splitlines(keepends=True)
    await process.wait()
    # The last line may be cut off.
    said = dict(json.loads(line) for line in lines if line.endswith(b"\n"))

    events = await all_events(memory, RUN)
    assert [event.position for event in events] == list(range(1, len(events) + 1))
    assert {head: hashed(views(events[:head])) for head in said} == said
    assert len(set(said.values())) == len(said) >= 50
    # It leaves nothing behind that a new process would stumble over.
    assert await recalled(memory, events) == await recalled(memory, events)


@pytest.mark.thorough
async def test_a_context_holds_nothing_that_its_agent_does_not_see(config: MakeConfig) -> None:
    """Even where the index finds everybody's events, and others' fill its first pages."""
    async with AgentMem(config()) as memory:
        await live_for(memory)
        for number in range(40):
            secret = f"wolf bridge key mill secret {number}"
            await memory.ledger.append(RUN, "agent.thought", {"text": secret}, actor="odo", turn=60)
        events = await all_events(memory, RUN)
        everybody = memory.event_index(RUN)
        await everybody.index(events)
        assert any("secret" in event.payload.get("text", "") for event in await everybody.search(SCENE, 5))

        context = await ContextBuilder(manifest("mara"), index=everybody).recall(events, SCENE, 60)
        alone = await ContextBuilder(manifest("mara")).recall(events, SCENE, 60)

        seen = seen_by("mara", events)
        for one in (context, alone):
            assert one.shown
            assert all(event in seen for event in one.shown)
            assert "secret" not in one.text
        follower = SalienceMemory("mara", 5, index=everybody).follow()
        follower.observe(events)
        ranked = await follower.rank(SCENE)
        assert ranked is not None
        by_id = {event.event_id: event for event in events}
        assert len(ranked) == 5
        assert all(by_id[event_id] in seen for event_id in ranked)


async def test_what_an_agent_does_not_see_does_not_order_what_it_sees(config: MakeConfig) -> None:
    """Of two ledgers that differ in another's thoughts only, an index of everybody's events recalls the same."""
    async with AgentMem(config()) as memory:
        recalled: list[list[int]] = []
        for run, thought in (("gold", "the gold lies under the mill wheel"), ("rain", "it rained all day again")):
            for turn in range(30):
                await memory.ledger.append(
                    run, "agent.spoke", {"text": f"I ground sack {turn}."}, actor="mara", turn=turn
                )
                if turn in {4, 10}:
                    await memory.ledger.append(run, "agent.thought", {"text": thought}, actor="odo", turn=turn)
            events = await all_events(memory, run)
            index = memory.event_index(run)
            await index.index(events)
            found = await SalienceMemory("mara", 6, index=index).recall(
                events, "Who hid the gold under the mill wheel?"
            )
            recalled.append([event.turn or 0 for event in found])

        assert recalled[0] == recalled[1]


async def test_what_is_erased_leaves_every_view(config: MakeConfig) -> None:
    """Of who read the ledger before and follows it, and of who reads it afterwards: the same, without a word of it."""
    async with AgentMem(config()) as memory:
        events = await live_for(memory, 30)
        secret = await memory.ledger.append(RUN, "user.injected", {"text": "The wolf is called Tangerine."}, turn=31)
        whole = await all_events(memory, RUN)
        mara = AgentManifest(name="mara", memory=MemoryManifest(window=50, use_salience=True, reflection_threshold=12))
        index = memory.event_index(RUN)
        episodic, reflecting = EpisodicMemory("mara").follow(), ReflectionMemory("mara").follow()
        context = ContextBuilder(mara, index=index).follow()
        observers = (episodic.observe, reflecting.observe, context.observe)
        for observe in observers:
            observe(whole)
        assert "Tangerine" in episodic.format_for_prompt()
        assert "Tangerine" in reflecting.format_for_prompt()
        assert "Tangerine" in (await context.recall(SCENE)).text

        receipt = await memory.admin.erase(RUN, text="Tangerine")

        assert secret.position in [one.position for one in receipt.events]
        later = await all_events(memory, RUN)
        for observe in observers:
            observe(await memory.ledger.read(RUN, after=len(whole)))
        assert episodic.format_for_prompt() == EpisodicMemory("mara").format_for_prompt(later)
        assert reflecting.format_for_prompt() == ReflectionMemory("mara").format_for_prompt(later)
        recalled_later = await ContextBuilder(mara, index=index).recall(later, SCENE)
        assert await context.recall(SCENE) == recalled_later
        assert "Tangerine" not in recalled_later.text
        assert len(events) == len(later) - 2


async def test_our_index_is_a_memory_index(memory: AgentMem) -> None:
    """Of the protocol that every view takes."""
    assert isinstance(memory.event_index(RUN), MemoryIndex)
